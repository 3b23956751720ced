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
	maxClientTLS = 1024 // configurations that are cached
	// The TLS sessions of each configuration. Most configurations are used with one host.
	clientTLSSessions = 8
)

// ClientTLS is the TLS configuration of an endpoint that has a client certificate or certificate
// authorities of its own. It never changes. While the cache has a configuration, endpoints with
// equal certificates, keys and authorities share one ClientTLS, with its connections and sessions.
// After the cache dropped a ClientTLS, two equal ones can exist, which share nothing.
//
// ClientTLS is a field of [Server], which is the key of the pool. So a connection that was
// authenticated with the certificate of one customer never carries a request of another customer,
// even to the same host.
type ClientTLS struct {
	config *tls.Config
}

// ClientTLS returns the configuration for an endpoint's own TLS and the private key of its
// certificate. Nil means that the endpoint has no TLS of its own. A certificate that has expired
// since it was stored is still sent: the server decides. If own or key cannot be read, the error is
// a [*postrider.FailureError].
func (e *Egress) ClientTLS(own postrider.TLS, key string) (*ClientTLS, error) {
	if own == (postrider.TLS{}) && key == "" {
		return nil, nil //nolint:nilnil // nil is the common configuration
	}
	// Equal content gives the same pointer, so endpoints with the same certificate share the
	// connections of [Server]. The digest includes the key: without the right key, nobody gets a
	// connection that was made with that key.
	digest := digestOf(own.Certificate, own.Authorities, key)
	if cached, ok := e.clientTLSs.Get(digest); ok {
		return cached, nil
	}
	parts, err := parseTLS(own, key, time.Time{})
	if err != nil {
		return nil, &postrider.FailureError{Failure: postrider.FailureOwnTLS, Err: err}
	}
	config := e.dialer.tls.common.Clone()
	// A TLS session resumes the authentication of its first handshake, so each certificate has
	// sessions of its own.
	config.ClientSessionCache = tls.NewLRUClientSessionCache(clientTLSSessions)
	if parts.authorities != nil {
		config.RootCAs = parts.authorities
	}
	if parts.certificate != nil {
		config.Certificates = []tls.Certificate{*parts.certificate}
	}
	return e.clientTLSs.Update(digest, func(stored *ClientTLS, ok bool) *ClientTLS {
		if ok { // another goroutine stored an equal configuration first
			return stored
		}
		return &ClientTLS{config}
	}), nil
}

// digestOf returns the SHA-256 of the texts and their lengths. Different lists have different
// digests.
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

// newTLSConfig returns the configuration that trusts roots. Nil means the authorities of the
// operating system. No option turns verification off.
func newTLSConfig(roots *x509.CertPool) *tlsConfig {
	return &tlsConfig{&tls.Config{
		MinVersion:         tls.VersionTLS12,
		RootCAs:            roots,
		ClientSessionCache: tls.NewLRUClientSessionCache(tlsSessions),
	}}
}

// of returns the configuration for a handshake with the server. It has no ALPN protocol, which
// means HTTP/1.1.
func (t *tlsConfig) of(to Server) *tls.Config {
	config := t.common
	if to.TLS != nil {
		config = to.TLS.config
	}
	config = config.Clone()
	config.ServerName, _, _ = net.SplitHostPort(to.Address)
	return config
}
