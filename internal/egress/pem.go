package egress

import (
	"crypto"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"strings"
	"time"

	"github.com/postrider/postrider"
)

// The limits of an endpoint's certificates, keys and authorities.
const (
	maxPEM         = 64 << 10
	maxChain       = 8  // certificates of a chain that is sent to the server
	maxAuthorities = 64 // certificates that are trusted
	minRSA         = 2048
	maxRSA         = 4096 // a larger key makes every handshake slow
)

// CheckTLS returns every fault of an endpoint's own TLS, joined. Each fault is a
// [postrider.InvalidError] for tls.certificate, tls.key or tls.authorities and repeats nothing of
// their contents. If there is no fault, [Egress.ClientTLS] can read them.
func (*Egress) CheckTLS(own postrider.TLS, key string) error {
	_, err := parseTLS(own, key, time.Now())
	return err
}

// tlsParts are a [postrider.TLS] and its key after parsing.
type tlsParts struct {
	certificate *tls.Certificate // nil: none
	authorities *x509.CertPool   // nil: none
}

// parseTLS returns the parts, or every fault, joined. A certificate that has expired at now is a
// fault; a zero now skips this check.
func parseTLS(own postrider.TLS, key string, now time.Time) (tlsParts, error) {
	var parts tlsParts
	var faults []error
	note := func(field string, err error) {
		if err != nil {
			faults = append(faults, &postrider.InvalidError{Field: field, Reason: err.Error()})
		}
	}
	switch {
	case own.Certificate != "":
		chain, err := parseCertificates(own.Certificate, maxChain, now)
		note("tls.certificate", err)
		private, err := parseKey(key)
		note("tls.key", err)
		if len(faults) == 0 {
			parts.certificate, err = pair(chain, private)
			note("tls.key", err)
		}
	case key != "":
		note("tls.certificate", errors.New("must be there, since tls.key is"))
	}
	if own.Authorities != "" {
		list, err := parseCertificates(own.Authorities, maxAuthorities, now)
		note("tls.authorities", err)
		parts.authorities = x509.NewCertPool()
		for _, c := range list {
			parts.authorities.AddCert(c)
		}
	}
	return parts, errors.Join(faults...)
}

// parseCertificates reads PEM that holds nothing but certificates. Its errors,
// and the errors of the functions below, are the reasons of an InvalidError.
func parseCertificates(text string, most int, now time.Time) ([]*x509.Certificate, error) {
	if len(text) > maxPEM {
		return nil, errors.New("must be at most 64 KiB")
	}
	var list []*x509.Certificate
	for rest := []byte(text); strings.TrimSpace(string(rest)) != ""; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil || block.Type != "CERTIFICATE" {
			return nil, errors.New("must be certificates in PEM and nothing else")
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		switch {
		case err != nil:
			return nil, errors.New("must be certificates in PEM that can be read")
		case len(list) == most:
			return nil, errors.New("must be fewer certificates")
		case !now.IsZero() && now.After(certificate.NotAfter):
			return nil, errors.New("must not have expired")
		}
		list = append(list, certificate)
	}
	if len(list) == 0 {
		return nil, errors.New("must be certificates in PEM")
	}
	return list, nil
}

// parseKey reads PEM that holds nothing but a private key.
func parseKey(text string) (any, error) {
	if len(text) > maxPEM {
		return nil, errors.New("must be at most 64 KiB")
	}
	block, rest := pem.Decode([]byte(text))
	// Openssl ecparam writes this block before the key.
	if block != nil && block.Type == "EC PARAMETERS" {
		block, rest = pem.Decode(rest)
	}
	if block == nil || strings.TrimSpace(string(rest)) != "" {
		return nil, errors.New("must be the certificate's private key in PEM")
	}
	if strings.Contains(block.Type, "ENCRYPTED") || block.Headers["Proc-Type"] != "" {
		return nil, errors.New("must not be encrypted")
	}
	var key any
	var err error
	switch block.Type {
	case "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	default:
		err = errors.New("of another type")
	}
	if err != nil {
		return nil, errors.New("must be a private key in PEM that can be read")
	}
	return key, nil
}

// pair returns the chain with the key. The key must belong to the first certificate.
func pair(chain []*x509.Certificate, key any) (*tls.Certificate, error) {
	signer, ok := key.(crypto.Signer) // an X25519 key is no signer
	if !ok {
		return nil, errors.New("must be an RSA, ECDSA or Ed25519 key")
	}
	public, ok := chain[0].PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !public.Equal(signer.Public()) {
		return nil, errors.New("must be the private key of the first certificate")
	}
	if r, ok := public.(*rsa.PublicKey); ok && (r.N.BitLen() < minRSA || r.N.BitLen() > maxRSA) {
		return nil, errors.New("must have 2048 to 4096 bits where it is an RSA key")
	}
	made := &tls.Certificate{PrivateKey: key, Leaf: chain[0]}
	for _, c := range chain {
		made.Certificate = append(made.Certificate, c.Raw)
	}
	return made, nil
}
