package testkit

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"testing"
	"time"
)

// CA is a certificate authority that only its test trusts.
type CA struct {
	Pool *x509.CertPool

	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewCA returns a new authority.
func NewCA(tb testing.TB) *CA {
	tb.Helper()
	ca, err := makeCA()
	if err != nil {
		tb.Fatal(err)
	}
	return ca
}

func makeCA() (*CA, error) {
	issued, err := (&CA{}).issue(authority("testkit"))
	if err != nil {
		return nil, err
	}
	return issued.authority(), nil
}

// PEM returns the authority's own certificate.
func (ca *CA) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.cert.Raw})
}

// Certificate returns a certificate for the names and addresses. It is valid until ends, for
// servers and for clients.
func (ca *CA) Certificate(tb testing.TB, ends time.Time, hosts ...string) tls.Certificate {
	tb.Helper()
	c, err := ca.issue(leaf(ends, hosts...))
	if err != nil {
		tb.Fatal(err)
	}
	return c.tls()
}

func authority(name string) *x509.Certificate {
	return &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
}

func leaf(ends time.Time, hosts ...string) *x509.Certificate {
	template := &x509.Certificate{
		NotAfter: ends, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return template
}

// issued is a certificate and its key.
type issued struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// authority returns a CA that signs with the certificate.
func (c issued) authority() *CA {
	ca := &CA{Pool: x509.NewCertPool(), cert: c.cert, key: c.key}
	ca.Pool.AddCert(c.cert)
	return ca
}

// tls returns the certificate for a server's TLS configuration, with the intermediate certificates.
func (c issued) tls(between ...*x509.Certificate) tls.Certificate {
	shown := tls.Certificate{Certificate: [][]byte{c.cert.Raw}, PrivateKey: c.key}
	for _, b := range between {
		shown.Certificate = append(shown.Certificate, b.Raw)
	}
	return shown
}

// issue makes a certificate from the template. If ca has no certificate, the new one is
// self-signed.
func (ca *CA) issue(template *x509.Certificate) (issued, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return issued{}, fmt.Errorf("generate key: %w", err)
	}
	parent, signer := ca.cert, ca.key
	if parent == nil {
		parent, signer = template, key
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore = time.Now().Add(-24 * time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		return issued{}, fmt.Errorf("create certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return issued{}, fmt.Errorf("parse certificate: %w", err)
	}
	return issued{cert, key}, nil
}
