package identity

import (
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"testing"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/postrider/postrider"
)

// The flow itself is tested with another's provider: see oidctest.

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
		{"of the domain", "groups", `{"groups": ["v"], "email": "ann@ACME.example", "email_verified": true}`, []string{"b.example", "acme.example"}, viewer},
		{"of another domain", "groups", `{"groups": ["a"], "email": "ann@evil.example", "email_verified": true}`, []string{"acme.example"}, nil},
		{"of a domain that ends alike", "groups", `{"groups": ["a"], "email": "ann@evilacme.example", "email_verified": true}`, []string{"acme.example"}, nil},
		{"of the domain in the local part", "groups", `{"groups": ["a"], "email": "ann@acme.example@evil.example", "email_verified": true}`, []string{"acme.example"}, nil},
		{"not verified", "groups", `{"groups": ["a"], "email": "ann@acme.example", "email_verified": false}`, []string{"acme.example"}, nil},
		{"nothing said of verified", "groups", `{"groups": ["a"], "email": "ann@acme.example"}`, []string{"acme.example"}, nil},
		{"without an address", "groups", `{"groups": ["a"], "email_verified": true}`, []string{"acme.example"}, nil},
	} {
		var claims map[string]any
		if err := json.Unmarshal([]byte(tt.claims), &claims); err != nil {
			t.Fatal(err)
		}
		p := &Provider{opts: Options{RoleClaim: tt.claim, Viewers: []string{"v"}, Supporters: []string{"s"}, Admins: []string{"a"}, Domains: tt.domains}}
		got, err := p.person(&oidc.IDToken{Issuer: "https://login.example", Subject: "ann"}, claims)
		if !slices.Equal(got.Scopes, tt.want) || (err == nil) != (tt.want != nil) || err != nil && !errors.Is(err, postrider.ErrNotFound) {
			t.Errorf("%s: %v, %v, want %v", tt.name, got.Scopes, err, tt.want)
		}
		if err == nil && (got.Name == "" || got.Subject != "https://login.example ann") {
			t.Errorf("%s: the session is of %q, %q", tt.name, got.Name, got.Subject)
		}
	}
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
