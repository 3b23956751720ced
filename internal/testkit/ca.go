package testkit

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
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

// NewCA returns an authority of its own.
func NewCA(tb testing.TB) *CA {
	tb.Helper()
	ca := &CA{Pool: x509.NewCertPool(), key: newKey(tb)}
	ca.cert = ca.sign(tb, &x509.Certificate{
		Subject: pkix.Name{CommonName: "testkit"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, ca.key)
	ca.Pool.AddCert(ca.cert)
	return ca
}

// Certificate returns a certificate for the names and addresses that ends at
// that time.
func (ca *CA) Certificate(tb testing.TB, ends time.Time, hosts ...string) tls.Certificate {
	tb.Helper()
	template := &x509.Certificate{NotAfter: ends, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	key := newKey(tb)
	cert := ca.sign(tb, template, key)
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}
}

// sign makes a certificate of the template; the authority's own when it has
// none yet.
func (ca *CA) sign(tb testing.TB, template *x509.Certificate, key *ecdsa.PrivateKey) *x509.Certificate {
	tb.Helper()
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore = time.Now().Add(-24 * time.Hour)
	parent := ca.cert
	if parent == nil {
		parent = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, ca.key)
	if err != nil {
		tb.Fatalf("create certificate: %v", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		tb.Fatalf("parse certificate: %v", err)
	}
	return cert
}

func newKey(tb testing.TB) *ecdsa.PrivateKey {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatalf("generate key: %v", err)
	}
	return key
}
