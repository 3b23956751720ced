package postrider

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
)

// Secret is a key that an endpoint's requests are signed with. Several are
// active during a rotation.
type Secret struct {
	ID        SecretID
	Endpoint  EndpointID
	Encrypted []byte // its text, whsec_…, whsk_… or one that was brought along, encrypted
	Public    string // whpk_…, of a secret that is a private key; else empty
	CreatedAt time.Time
	ExpiresAt time.Time // zero: until it is rotated
}

// ActiveAt reports whether the secret signs at now.
func (s Secret) ActiveAt(now time.Time) bool { return s.ExpiresAt.IsZero() || now.Before(s.ExpiresAt) }

// LogValue keeps the key out of every log.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.ID.String()) }

// Signature is one way in which requests are signed.
type Signature struct {
	Scheme Scheme
	Header string // instead of the scheme's own; only where [Scheme.Bendable]
	Prefix string // in front of the signature, instead of the scheme's own; only with Header
}

// Scheme names a signature format of SIGNATURES.md.
type Scheme string

// The signature schemes.
const (
	SchemeStandard    Scheme = "standard" // Standard Webhooks v1, and v1a for private keys
	SchemeStripe      Scheme = "stripe"
	SchemeGitHub      Scheme = "github"      // SHA-256
	SchemeGitHubSHA1  Scheme = "github-sha1" // the older header
	SchemeShopify     Scheme = "shopify"
	SchemeSlack       Scheme = "slack"
	SchemeSvix        Scheme = "svix"
	SchemeTimestamped Scheme = "timestamped"
	SchemePlain       Scheme = "plain"
)

// Schemes lists every signature scheme there is.
var Schemes = []Scheme{
	SchemeStandard, SchemeStripe, SchemeGitHub, SchemeGitHubSHA1, SchemeShopify, SchemeSlack, SchemeSvix,
	SchemeTimestamped, SchemePlain,
}

// Bendable reports whether the scheme is a plain HMAC over the body, which may
// go into a header of any name, behind any prefix.
func (s Scheme) Bendable() bool {
	return s == SchemeGitHub || s == SchemeGitHubSHA1 || s == SchemeShopify || s == SchemePlain
}

// takesPrivateKeys reports whether a private key alone can sign in the scheme.
func (s Scheme) takesPrivateKeys() bool { return s == SchemeStandard || s == SchemeSvix }

// CheckSecrets returns an [InvalidError] for the first scheme of the policy that
// could sign with none of the endpoint's secrets: a private key signs in
// [SchemeStandard] and [SchemeSvix] alone. A secret that is to expire does not
// count.
func (p Policy) CheckSecrets(secrets []Secret) error {
	symmetric := func(s Secret) bool { return s.Public == "" && s.ExpiresAt.IsZero() }
	i := slices.IndexFunc(p.Signatures, func(s Signature) bool { return !s.Scheme.takesPrivateKeys() })
	if i < 0 || slices.ContainsFunc(secrets, symmetric) {
		return nil
	}
	return &InvalidError{
		Field:  fmt.Sprintf("signature.schemes[%d]", i),
		Reason: "needs an hmac or text secret, and the endpoint would have none",
	}
}

const maxSignatures = 16

// checkSignatures returns every fault of an endpoint's signatures, joined.
func checkSignatures(list []Signature) error {
	var faults faults
	if len(list) == 0 || len(list) > maxSignatures {
		faults.add(true, "signature.schemes", "must name 1 to 16 schemes")
		return faults.joined()
	}
	for i, s := range list {
		field := fmt.Sprintf("signature.schemes[%d]", i)
		faults.add(!slices.Contains(Schemes, s.Scheme), field,
			"must be standard, stripe, github, github-sha1, shopify, slack, svix, timestamped or plain")
		same := func(other Signature) bool {
			return other.Scheme == s.Scheme && strings.EqualFold(other.Header, s.Header)
		}
		faults.add(slices.ContainsFunc(list[:i], same), field, "must not repeat a scheme")
		faults.add(s != Signature{Scheme: s.Scheme} && !s.Scheme.Bendable(), field+".header",
			"must be absent but with github, github-sha1, shopify and plain")
		faults.add(s.Prefix != "" && s.Header == "", field+".prefix", "needs a header")
		faults.add(!isPrefix(s.Prefix), field+".prefix", "must be at most 64 visible ASCII characters")
		if s.Header != "" {
			faults.join(CheckHeaderName(field+".header", s.Header))
			taken := func(other Signature) bool { return strings.EqualFold(other.Header, s.Header) }
			faults.add(slices.ContainsFunc(list[:i], taken), field+".header", "must not repeat a header")
		}
	}
	return faults.joined()
}

func isPrefix(text string) bool {
	for i := range len(text) {
		if text[i] <= ' ' || text[i] > '~' {
			return false
		}
	}
	return len(text) <= 64
}
