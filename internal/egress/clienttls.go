package egress

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"net"
	"time"

	"github.com/postrider/postrider"
)

const (
	maxClientTLS      = 1024 // configurations that are cached
	clientTLSSessions = 8    // of TLS, for each: most of them are used with one host
)

// ClientTLS is the TLS configuration of an endpoint with a client certificate or
// certificate authorities of its own. It never changes. While the cache has it,
// equal configurations are one ClientTLS and share connections and sessions; if it
// was dropped there may be two, which share nothing.
//
// It is part of [Server], the key of the pool. So a connection that was
// authenticated with the certificate of one customer never carries a request of
// another, even to the same host.
type ClientTLS struct {
	config *tls.Config
}

// ClientTLS returns the configuration of an endpoint's own TLS, with the private
// key of its certificate; nil: it has none of its own. A certificate that has
// expired since it was stored is shown all the same: the server decides. What
// cannot be read is a [*postrider.FailureError].
func (e *Egress) ClientTLS(own postrider.TLS, key string) (*ClientTLS, error) {
	if own == (postrider.TLS{}) && key == "" {
		return nil, nil //nolint:nilnil // nil is the common configuration
	}
	// Equal content gives the same pointer, so that endpoints with the same
	// certificate share the connections of [Server]. The key is part of it:
	// without the right key nobody gets connections that were made with it.
	digest := digestOf(own.Certificate, own.Authorities, key)
	if cached, ok := e.clientTLSs.Get(digest); ok {
		return cached, nil
	}
	parts, err := parseTLS(own, key, time.Time{})
	if err != nil {
		return nil, &postrider.FailureError{Failure: postrider.FailureOwnTLS, Err: err}
	}
	config := e.dialer.tls.common.Clone()
	// A session stands for the certificate that it was begun with.
	config.ClientSessionCache = tls.NewLRUClientSessionCache(clientTLSSessions)
	if parts.authorities != nil {
		config.RootCAs = parts.authorities
	}
	if parts.certificate != nil {
		config.Certificates = []tls.Certificate{*parts.certificate}
	}
	return e.clientTLSs.Update(digest, func(stored *ClientTLS, ok bool) *ClientTLS {
		if ok { // another goroutine was faster
			return stored
		}
		return &ClientTLS{config}
	}), nil
}

// digestOf returns different digests for different lists of texts.
func digestOf(texts ...string) [sha256.Size]byte {
	var all []byte
	for _, text := range texts {
		all = binary.BigEndian.AppendUint64(all, uint64(len(text)))
		all = append(all, text...)
	}
	return sha256.Sum256(all)
}

// tlsConfig makes the configuration of each handshake.
type tlsConfig struct {
	common *tls.Config // for servers without a ClientTLS
}

// newTLSConfig returns the configuration that trusts roots; nil: the system's
// authorities. There is no way to trust everybody.
func newTLSConfig(roots *x509.CertPool) *tlsConfig {
	return &tlsConfig{&tls.Config{
		MinVersion:         tls.VersionTLS12,
		RootCAs:            roots,
		ClientSessionCache: tls.NewLRUClientSessionCache(tlsSessions),
	}}
}

// of returns the configuration for a handshake with the server. It offers no
// application protocol: that means HTTP/1.1.
func (t *tlsConfig) of(to Server) *tls.Config {
	config := t.common
	if to.TLS != nil {
		config = to.TLS.config
	}
	config = config.Clone()
	config.ServerName, _, _ = net.SplitHostPort(to.Address)
	return config
}
