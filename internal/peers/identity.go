package peers

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"time"
)

// identity is the key of a node. It is made at the start and kept in memory only.
type identity struct {
	certificate tls.Certificate
	hash        [32]byte // SHA-256 of the public key, as in the certificate
}

// newIdentity makes a key and a certificate for it. Nobody checks more of the certificate than its
// key, so its other fields have no meaning.
func newIdentity() (identity, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return identity{}, fmt.Errorf("make a key: %w", err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().AddDate(100, 0, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		return identity{}, fmt.Errorf("make a certificate: %w", err)
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		return identity{}, fmt.Errorf("read the certificate: %w", err)
	}
	return identity{tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, sha256.Sum256(made.RawSubjectPublicKeyInfo)}, nil
}

// config returns the settings for connections with nodes whose key is known. TLS proves that the
// other side has the private key.
func (i identity) config(known func(hash [32]byte) bool) *tls.Config {
	return &tls.Config{
		// A node that has another form of the messages has another protocol, and is not connected.
		NextProtos: []string{protocol},
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{i.certificate},
		ClientAuth:         tls.RequireAnyClientCert,
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection compares the key with the store's
		VerifyConnection: func(c tls.ConnectionState) error {
			if !known(sha256.Sum256(c.PeerCertificates[0].RawSubjectPublicKeyInfo)) {
				return errors.New("the key of the other side is no node's")
			}
			return nil
		},
	}
}
