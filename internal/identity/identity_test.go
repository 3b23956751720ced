package identity

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/postrider/postrider"
)

// TestWhoMayLogIn checks the rules for a person. Module oidctest tests the whole login with another
// provider.

func TestWhoMayLogIn(t *testing.T) {
	t.Parallel()
	viewer := []postrider.Scope{postrider.ScopeWebhooksRead}
	support := []postrider.Scope{postrider.ScopeWebhooksRead, postrider.ScopeWebhooksOperate}
	admin := []postrider.Scope{postrider.ScopeAdmin}
	for _, tt := range []struct {
		name, claim, claims string
		domains             []string
		want                []postrider.Scope
	}{
		{"a list of groups", "groups", `{"groups": ["x", "v"]}`, nil, viewer},
		{"the greatest role counts", "groups", `{"groups": ["v", "a", "s"]}`, nil, admin},
		{"one text", "role", `{"role": "s"}`, nil, support},
		{"inside an object", "realm_access.roles", `{"realm_access": {"roles": ["s"]}}`, nil, support},
		{"a name with a dot", "https://acme.example/roles", `{"https://acme.example/roles": ["a"]}`, nil, admin},
		{"no role", "groups", `{"groups": ["x"]}`, nil, nil},
		{"no claim", "groups", `{}`, nil, nil},
		{"a claim of another type", "groups", `{"groups": {"a": true}}`, nil, nil},
		{"a list of other types", "groups", `{"groups": [1, null, ["a"]]}`, nil, nil},
		{"a role in another case", "groups", `{"groups": ["A"]}`, nil, nil},
		{
			"of the domain", "groups", `{"groups": ["v"], "email": "ann@ACME.example", "email_verified": true}`,
			[]string{"b.example", "acme.example"},
			viewer,
		},
		{"of another domain", "groups", `{"groups": ["a"], "email": "ann@evil.example", "email_verified": true}`, []string{"acme.example"}, nil},
		{
			"of a domain that ends alike", "groups", `{"groups": ["a"], "email": "ann@evilacme.example", "email_verified": true}`,
			[]string{"acme.example"},
			nil,
		},
		{
			"of the domain in the local part", "groups", `{"groups": ["a"], "email": "ann@acme.example@evil.example", "email_verified": true}`,
			[]string{"acme.example"},
			nil,
		},
		{
			"of two domains", "groups", `{"groups": ["a"], "email": "ann@evil.example@acme.example", "email_verified": true}`,
			[]string{"acme.example"},
			nil,
		},
		{"not verified", "groups", `{"groups": ["a"], "email": "ann@acme.example", "email_verified": false}`, []string{"acme.example"}, nil},
		{"nothing said of verified", "groups", `{"groups": ["a"], "email": "ann@acme.example"}`, []string{"acme.example"}, nil},
		{"without an address", "groups", `{"groups": ["a"], "email_verified": true}`, []string{"acme.example"}, nil},
	} {
		var claims map[string]any
		if err := json.Unmarshal([]byte(tt.claims), &claims); err != nil {
			t.Fatal(err)
		}
		p := &Provider{opts: Options{
			RoleClaim: tt.claim, Viewers: []string{"v"}, Supporters: []string{"s"}, Admins: []string{"a"},
			Domains: tt.domains,
		}}
		got, err := p.person(&oidc.IDToken{Issuer: "https://login.example", Subject: "ann"}, claims)
		if !slices.Equal(got.Scopes, tt.want) || (err == nil) != (tt.want != nil) || err != nil && !errors.Is(err, postrider.ErrNotFound) {
			t.Errorf("%s: %v, %v, want %v", tt.name, got.Scopes, err, tt.want)
		}
		if err == nil && (got.Name == "" || got.Subject != "https://login.example ann") {
			t.Errorf("%s: the session is of %q, %q", tt.name, got.Name, got.Subject)
		}
	}
}

// TestIDTokensOfOthersAreRefused checks the rules of OpenID Connect Core, 2 and 3.1.3.7. The tokens
// are signed with the provider's key, as in module oidctest.
func TestIDTokensOfOthersAreRefused(t *testing.T) {
	t.Parallel()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p := New(Options{ClientID: "postrider", Audiences: []string{"project"}})
	verifier := oidc.NewVerifier("https://login.example", &oidc.StaticKeySet{PublicKeys: []crypto.PublicKey{key.Public()}},
		&oidc.Config{ClientID: "postrider"})
	for claims, good := range map[string]bool{
		`"sub": "ann", "aud": "postrider"`:                                true,
		`"sub": "ann", "aud": ["postrider"], "azp": "postrider"`:          true,
		`"sub": "ann", "aud": ["project", "postrider"]`:                   true,
		`"sub": "ann", "aud": ["other", "postrider"]`:                     false,
		`"sub": "ann", "aud": ["other", "postrider"], "azp": "postrider"`: false,
		`"sub": "ann", "aud": "postrider", "azp": "other"`:                false,
		`"sub": "ann", "aud": "postrider", "azp": ""`:                     false,
		`"sub": "ann", "aud": "postrider", "azp": 1`:                      false,
		`"aud": "postrider"`:                                              false,
		`"sub": "", "aud": "postrider"`:                                   false,
		`"sub": "` + strings.Repeat("x", 256) + `", "aud": "postrider"`:   false,
		`"sub": "a\u0000b", "aud": "postrider"`:                           false,
	} {
		raw := signed(t, key, `{"iss": "https://login.example", "exp": 4102444800, `+claims+`}`)
		token, err := verifier.Verify(t.Context(), raw)
		if err != nil {
			t.Fatalf("verify %s: %v", claims, err)
		}
		if err := p.checkToken(token); (err == nil) != good || err != nil && !errors.Is(err, postrider.ErrNotFound) {
			t.Errorf("a token with %s: %v, want it to be taken: %t", claims, err, good)
		}
	}
}

// signed returns the claims as a token (RFC 7519) that is signed by the key.
func signed(t *testing.T, key *rsa.PrivateKey, claims string) string {
	t.Helper()
	encode := base64.RawURLEncoding.EncodeToString
	text := encode([]byte(`{"alg":"RS256"}`)) + "." + encode([]byte(claims))
	sum := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return text + "." + encode(signature)
}

func TestAnAttemptThatIsNoneIsRefused(t *testing.T) {
	t.Parallel()
	p := New(Options{Issuer: "https://login.example"})
	for _, attempt := range []string{"", "..", "state", "state.nonce", "other.nonce.verifier"} {
		_, err := p.Finish(t.Context(), attempt, url.Values{"state": {"state"}, "code": {"x"}})
		if !errors.Is(err, postrider.ErrNotFound) {
			t.Errorf("the attempt %q: %v, want ErrNotFound", attempt, err)
		}
	}
	if _, err := p.Finish(t.Context(), "..", url.Values{}); !errors.Is(err, postrider.ErrNotFound) {
		t.Errorf("an empty state: %v, want ErrNotFound", err)
	}
}

// TestNoLoginWaitsForAnother begins two logins. The provider responds only when it has the requests
// of both.
func TestNoLoginWaitsForAnother(t *testing.T) {
	t.Parallel()
	var asking atomic.Int32
	both := make(chan struct{})
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer asking.Add(-1)
		if asking.Add(1) == 2 {
			close(both)
		}
		select {
		case <-both:
		case <-r.Context().Done():
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer provider.Close()
	p := New(Options{Issuer: provider.URL})
	var logins sync.WaitGroup
	for range 2 {
		logins.Go(func() {
			if _, _, err := p.Begin(t.Context()); !errors.Is(err, postrider.ErrBusy) {
				t.Errorf("Begin = %v, want ErrBusy", err)
			}
		})
	}
	logins.Wait()
	select {
	case <-both:
	default:
		t.Error("the second login asked the provider only after the first had given up")
	}
}

// TestNamesAreBounded logs in people with names that no store accepts.
func TestNamesAreBounded(t *testing.T) {
	t.Parallel()
	p := &Provider{opts: Options{RoleClaim: "groups", Viewers: []string{"v"}}}
	for _, tt := range []struct{ name, subject, want string }{
		{"Ann\x00 Lee\n", "ann", "Ann Lee"},
		{"x" + strings.Repeat("ü", 1000), "ann", "x" + strings.Repeat("ü", 127)},
		{"", strings.Repeat("s", 255), strings.Repeat("s", 255)},
	} {
		got, err := p.person(&oidc.IDToken{Issuer: "https://login.example", Subject: tt.subject}, map[string]any{"groups": "v", "name": tt.name})
		if got.Name != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("the name %.20q of %.20q is shown as %q, %v, want %q", tt.name, tt.subject, got.Name, err, tt.want)
		}
	}
}
