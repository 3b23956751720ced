package postrider_test

import (
	"crypto/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/signature"
)

func TestASecretSignsUntilItsExpiry(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name    string
		expires time.Time
		want    bool
	}{
		{"without an expiry, always", time.Time{}, true},
		{"before it", now.Add(1), true},
		{"not at it", now, false},
		{"not after it", now.Add(-1), false},
	} {
		if got := (postrider.Secret{ExpiresAt: tt.expires}).ActiveAt(now); got != tt.want {
			t.Errorf("%s: ActiveAt = %t, want %t", tt.name, got, tt.want)
		}
	}
}

func TestOnlyHMACsOfTheBodyBend(t *testing.T) {
	t.Parallel()
	bendable := map[postrider.Scheme]bool{
		postrider.SchemeGitHub: true, postrider.SchemeGitHubSHA1: true, postrider.SchemeShopify: true, postrider.SchemePlain: true,
	}
	for _, scheme := range append(slices.Clone(postrider.Schemes), "rot13") {
		if got := scheme.CustomHeaderAllowed(); got != bendable[scheme] {
			t.Errorf("%s.CustomHeaderAllowed() = %t, want %t", scheme, got, bendable[scheme])
		}
	}
}

// The root package names the same schemes as package signature.
func TestSchemesAreThoseOfSignature(t *testing.T) {
	t.Parallel()
	var want []postrider.Scheme
	for _, scheme := range signature.Schemes() {
		want = append(want, postrider.Scheme(scheme))
	}
	got := slices.Clone(postrider.Schemes)
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Schemes differ (-signature +postrider):\n%s", diff)
	}
}

// TestPolicyCheck has the case of an unknown scheme.
func TestPolicyCheckOfSignatures(t *testing.T) {
	t.Parallel()
	const (
		fixed   = "must be absent but with github, github-sha1, shopify and plain"
		visible = "must be at most 64 visible ASCII characters"
	)
	plain := func(header, prefix string) postrider.Signature {
		return postrider.Signature{Scheme: postrider.SchemePlain, Header: header, Prefix: prefix}
	}
	for _, tt := range []struct {
		name       string
		signatures []postrider.Signature
		want       []string
	}{
		{"bent ones", []postrider.Signature{
			{Scheme: postrider.SchemeGitHub, Header: "X-Acme-Signature", Prefix: "sha256="},
			{Scheme: postrider.SchemeShopify, Header: "X-Acme-Hmac"},
			plain("X-Acme-Plain", strings.Repeat("~", 64)),
		}, nil},
		{"one scheme in two headers", []postrider.Signature{plain("", ""), plain("X-Acme", "")}, nil},
		{"one scheme in one header, twice", []postrider.Signature{plain("X-Acme", ""), plain("x-acme", "v1=")}, []string{
			"signature.schemes[1] must not repeat a scheme", "signature.schemes[1].header must not repeat a header",
		}},
		{"two schemes in one header", []postrider.Signature{
			plain("X-Acme", ""), {Scheme: postrider.SchemeGitHub, Header: "X-ACME"},
		}, []string{"signature.schemes[1].header must not repeat a header"}},
		{
			"a scheme that does not bend",
			[]postrider.Signature{{Scheme: postrider.SchemeStripe, Header: "X-Acme"}},
			[]string{"signature.schemes[0].header " + fixed},
		},
		{"a prefix of one that does not", []postrider.Signature{{Scheme: postrider.SchemeSlack, Prefix: "v1="}}, []string{
			"signature.schemes[0].header " + fixed, "signature.schemes[0].prefix needs a header",
		}},
		{
			"a header of ours",
			[]postrider.Signature{plain("Webhook-Signature", "")},
			[]string{"signature.schemes[0].header must not be a header that is set for every request"},
		},
		{
			"a prefix too long",
			[]postrider.Signature{plain("X-Acme", strings.Repeat("a", 65))},
			[]string{"signature.schemes[0].prefix " + visible},
		},
		{
			"a prefix with a space",
			[]postrider.Signature{plain("X-Acme", "v1 ")},
			[]string{"signature.schemes[0].prefix " + visible},
		},
		{
			"a prefix beyond ASCII",
			[]postrider.Signature{plain("X-Acme", "ü=")},
			[]string{"signature.schemes[0].prefix " + visible},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			policy := postrider.DefaultPolicy()
			policy.Signatures = tt.signatures
			if diff := cmp.Diff(tt.want, faults(policy.Check())); diff != "" {
				t.Errorf("Check differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCheckSecrets(t *testing.T) {
	t.Parallel()
	const reason = " needs an hmac or text secret, and the endpoint would have none"
	var (
		hmac    = postrider.Secret{ID: postrider.SecretID{1}}
		ending  = postrider.Secret{ID: postrider.SecretID{2}, ExpiresAt: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
		private = postrider.Secret{ID: postrider.SecretID{3}, Public: "whpk_"}
	)
	both := []postrider.Scheme{postrider.SchemeStandard, postrider.SchemeGitHub, postrider.SchemeSlack}
	for _, tt := range []struct {
		name    string
		schemes []postrider.Scheme
		secrets []postrider.Secret
		want    []string
	}{
		{"a symmetric one among others", both, []postrider.Secret{private, ending, hmac}, nil},
		{"a private key alone", both, []postrider.Secret{private}, []string{"signature.schemes[1]" + reason}},
		{"a symmetric one that expires", both, []postrider.Secret{private, ending}, []string{"signature.schemes[1]" + reason}},
		{"none", both, nil, []string{"signature.schemes[1]" + reason}},
		{"a scheme that takes private keys", both[:1], []postrider.Secret{private}, nil},
	} {
		policy := postrider.DefaultPolicy()
		policy.Signatures = nil
		for _, scheme := range tt.schemes {
			policy.Signatures = append(policy.Signatures, postrider.Signature{Scheme: scheme})
		}
		if diff := cmp.Diff(tt.want, faults(policy.CheckSecrets(tt.secrets))); diff != "" {
			t.Errorf("%s: CheckSecrets differs (-want +got):\n%s", tt.name, diff)
		}
	}
}

// If CheckSecrets accepts the secrets, package signature can sign with them.
func TestCheckSecretsAgreesWithSignature(t *testing.T) {
	t.Parallel()
	private, err := signature.NewPrivateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	secrets := []postrider.Secret{{Public: private.Public().Text()}}
	for _, scheme := range postrider.Schemes {
		policy := postrider.Policy{Signatures: []postrider.Signature{{Scheme: scheme}}}
		got := policy.CheckSecrets(secrets)
		_, want := signature.NewSigner([]signature.Key{{ID: "sec_1", Secret: private}}, signature.Format{Scheme: signature.Scheme(scheme)})
		if (got == nil) != (want == nil) {
			t.Errorf("%s with a private key: CheckSecrets = %v, NewSigner: %v", scheme, got, want)
		}
	}
}
