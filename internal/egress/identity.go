package egress

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"net"
	"sync"
	"time"

	"github.com/postrider/postrider"
)

const (
	maxIdentities    = 1024
	identitySessions = 8 // of TLS; most identities go to one host
)

// identity is what an endpoint's connections have of their own: the
// certificate they show and the authorities they trust. It never changes.
// Identities of the same content are the same one while that is remembered;
// where it was forgotten there may be two, which share nothing.
type identity struct {
	tls *tls.Config
}

// identities remembers the identities of endpoints. Forgetting one costs a
// millisecond and the connections that are kept for it.
type identities struct {
	common *tls.Config // of those who have none

	mu    sync.Mutex
	known map[[sha256.Size]byte]*identity
}

func newIdentities(roots *x509.CertPool) *identities {
	return &identities{
		common: &tls.Config{
			MinVersion:         tls.VersionTLS12,
			RootCAs:            roots,
			ClientSessionCache: tls.NewLRUClientSessionCache(tlsSessions),
		},
		known: map[[sha256.Size]byte]*identity{},
	}
}

// config returns how TLS is spoken with the peer.
func (is *identities) config(to peer) *tls.Config {
	config := is.common
	if to.identity != nil {
		config = to.identity.tls
	}
	config = config.Clone()
	config.ServerName, _, _ = net.SplitHostPort(to.address)
	return config
}

// find returns the identity of an endpoint that has that key in its
// credentials; nil: it has none. A certificate that has expired since it was
// stored is shown all the same: it is the receiver's to refuse.
func (is *identities) find(own postrider.TLS, key string) (*identity, error) {
	if own == (postrider.TLS{}) && key == "" {
		return nil, nil
	}
	digest := digestOf(own.Certificate, own.Authorities, key)
	if known := is.recall(digest, nil); known != nil {
		return known, nil
	}
	parts, err := parseTLS(own, key, time.Time{})
	if err != nil {
		return nil, &stageError{postrider.FailureOwnTLS, err}
	}
	config := is.common.Clone()
	// A session stands for the certificate it was begun with.
	config.ClientSessionCache = tls.NewLRUClientSessionCache(identitySessions)
	if parts.authorities != nil {
		config.RootCAs = parts.authorities
	}
	if parts.certificate != nil {
		config.Certificates = []tls.Certificate{*parts.certificate}
	}
	return is.recall(digest, &identity{tls: config}), nil
}

// recall returns the identity of the digest, which is made unless one is known.
func (is *identities) recall(digest [sha256.Size]byte, made *identity) *identity {
	is.mu.Lock()
	defer is.mu.Unlock()
	known := is.known[digest]
	if known != nil || made == nil {
		return known
	}
	if len(is.known) >= maxIdentities {
		for any := range is.known {
			delete(is.known, any)
			break
		}
	}
	is.known[digest] = made
	return made
}

// digestOf differs for lists of texts that differ.
func digestOf(texts ...string) [sha256.Size]byte {
	var all []byte
	for _, text := range texts {
		all = binary.BigEndian.AppendUint64(all, uint64(len(text)))
		all = append(all, text...)
	}
	return sha256.Sum256(all)
}
