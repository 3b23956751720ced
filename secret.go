package postrider

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
)

// Secret is a key that signs an endpoint's requests. During a rotation several secrets are active,
// and each request carries a signature of every active secret.
type Secret struct {
	ID       SecretID
	Endpoint EndpointID
	// The secret in its text form, encrypted; the text is whsec_…, whsk_… or what the customer
	// supplied.
	Encrypted []byte
	Public    string // whpk_…, the public key that belongs to a private key; empty: the secret is symmetric
	CreatedAt time.Time
	ExpiresAt time.Time // set when a rotation replaces the secret; zero: it was not replaced
}

// ActiveAt reports whether the secret signs requests at now.
func (s Secret) ActiveAt(now time.Time) bool { return s.ExpiresAt.IsZero() || now.Before(s.ExpiresAt) }

// LogValue logs the id only.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.ID.String()) }

// Signature is a kind of signature that requests carry.
type Signature struct {
	Scheme Scheme
	Header string // name of the header instead of the scheme's own; allowed only if [Scheme.CustomHeaderAllowed]
	Prefix string // text before the signature instead of the scheme's own; allowed only with Header
}

// Scheme is a signature format. Package signature defines the formats.
type Scheme string

// The signature schemes.
const (
	SchemeStandard    Scheme = "standard" // Standard Webhooks v1, and v1a for private keys
	SchemeStripe      Scheme = "stripe"
	SchemeGitHub      Scheme = "github"      // SHA-256
	SchemeGitHubSHA1  Scheme = "github-sha1" // X-Hub-Signature
	SchemeShopify     Scheme = "shopify"
	SchemeSlack       Scheme = "slack"
	SchemeSvix        Scheme = "svix"
	SchemeTimestamped Scheme = "timestamped"
	SchemePlain       Scheme = "plain"
)

// Schemes lists every signature scheme.
var Schemes = []Scheme{
	SchemeStandard, SchemeStripe, SchemeGitHub, SchemeGitHubSHA1, SchemeShopify, SchemeSlack, SchemeSvix,
	SchemeTimestamped, SchemePlain,
}

// CustomHeaderAllowed reports whether the signature may be sent in a header of any name, with any
// prefix. This is allowed if the scheme is an HMAC of the body and nothing else.
func (s Scheme) CustomHeaderAllowed() bool {
	return s == SchemeGitHub || s == SchemeGitHubSHA1 || s == SchemeShopify || s == SchemePlain
}

// takesPrivateKeys reports whether the scheme can sign with a private key.
func (s Scheme) takesPrivateKeys() bool { return s == SchemeStandard || s == SchemeSvix }

// CheckSecrets returns an [InvalidError] for the first scheme of the policy for which the endpoint
// has no fitting secret. A private key signs only in [SchemeStandard] and [SchemeSvix]. A secret
// that has an ExpiresAt does not count.
func (p Policy) CheckSecrets(secrets []Secret) error {
	symmetric := func(s Secret) bool { return s.Public == "" && s.ExpiresAt.IsZero() }
	i := slices.IndexFunc(p.Signatures, func(s Signature) bool { return !s.Scheme.takesPrivateKeys() })
	if i < 0 || slices.ContainsFunc(secrets, symmetric) {
		return nil
	}
	return &InvalidError{
		Field:  fmt.Sprintf("signature.schemes[%d]", i),
		Code:   FaultContradictory,
		Reason: "needs an hmac or text secret, and the endpoint would have none",
	}
}

const maxSignatures = 16

// MaxOverlap is the longest time for which replaced secrets sign together with a new one.
const MaxOverlap = 30 * 24 * time.Hour

// checkSignatures returns an [InvalidError] for each fault of an endpoint's
// signatures, joined.
func checkSignatures(list []Signature) error {
	var faults faults
	if len(list) == 0 || len(list) > maxSignatures {
		return &InvalidError{Field: "signature.schemes", Code: FaultWrongCount, Reason: "must name 1 to 16 schemes", Min: 1, Max: maxSignatures}
	}
	for i, s := range list {
		field := fmt.Sprintf("signature.schemes[%d]", i)
		faults.add(!slices.Contains(Schemes, s.Scheme), field,
			FaultNotAChoice, "must be standard, stripe, github, github-sha1, shopify, slack, svix, timestamped or plain")
		same := func(other Signature) bool {
			return other.Scheme == s.Scheme && strings.EqualFold(other.Header, s.Header)
		}
		faults.add(slices.ContainsFunc(list[:i], same), field, FaultRepeated, "must not repeat a scheme")
		faults.add(s != Signature{Scheme: s.Scheme} && !s.Scheme.CustomHeaderAllowed(), field+".header",
			FaultNotAllowed, "must be absent but with github, github-sha1, shopify and plain")
		faults.add(s.Prefix != "" && s.Header == "", field+".prefix", FaultContradictory, "needs a header")
		faults.add(!isPrefix(s.Prefix), field+".prefix", FaultMalformed, "must be at most 64 visible ASCII characters")
		if s.Header != "" {
			faults.join(CheckHeaderName(field+".header", s.Header))
			taken := func(other Signature) bool { return strings.EqualFold(other.Header, s.Header) }
			faults.add(slices.ContainsFunc(list[:i], taken), field+".header", FaultRepeated, "must not repeat a header")
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
