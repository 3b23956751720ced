package api_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

const (
	pemCert = `-----BEGIN CERTIFICATE-----\nMII=\n-----END CERTIFICATE-----\n`
	pemKey  = `-----BEGIN PRIVATE KEY-----\nMII=\n-----END PRIVATE KEY-----\n`
)

// stored returns the endpoint as it is in the store, and its credentials.
func (w *world) stored(id string) (postrider.Endpoint, postrider.Credentials) {
	w.Helper()
	e := w.endpoint(id)
	c, err := vault{}.DecryptCredentials(w.Context(), e)
	if err != nil {
		w.Fatal(err)
	}
	return e, c
}

func (w *world) endpoint(id string) postrider.Endpoint {
	w.Helper()
	changes, err := w.store.Changes(w.Context(), 0, 1000)
	if err != nil {
		w.Fatal(err)
	}
	i := slices.IndexFunc(changes.Endpoints, func(r store.EndpointSnapshot) bool { return r.Endpoint.ID.String() == id })
	if i < 0 {
		w.Fatalf("no endpoint %s", id)
	}
	return changes.Endpoints[i].Endpoint
}

// secretive makes an endpoint with every kind of secret.
func (w *world) secretive(auth string) string {
	w.Helper()
	w.do(w.admin, "POST /accounts", `{"uid": "acme"}`)
	got := w.want(201, "POST /endpoints", `{"account": "acme", "url": "https://acme.example/hooks", "event_types": ["*"],
		"headers": [{"name": "X-Plain", "value": "p"}, {"name": "X-Hush", "value": "hush-h", "sensitive": true}],
		"auth": `+auth+`,
		"tls": {"certificate": "`+pemCert+`", "key": "`+pemKey+`"}, "max_redirects": 2, "compression": "gzip",
		"signature": {"schemes": ["standard", {"scheme": "github", "header": "X-Acme-Signature", "prefix": "sha256="}]}}`)
	if strings.Contains(got.text, "hush") || strings.Contains(got.text, "PRIVATE") {
		w.Errorf("the answer shows a secret: %s", got.text)
	}
	return got.id("id")
}

func TestAnEndpointsConnectionIsSetAndShownWithoutItsSecrets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.secretive(`{"type": "basic", "username": "u", "password": "hush-p"}`)
	got := w.want(200, "GET /endpoints/"+id, "")
	if strings.Contains(got.text, "hush") || strings.Contains(got.text, "PRIVATE") {
		t.Errorf("the view shows a secret: %s", got.text)
	}
	var want map[string]any
	if err := json.Unmarshal([]byte(`{
		"headers": [{"name": "X-Plain", "value": "p", "sensitive": false}, {"name": "X-Hush", "value": null, "sensitive": true}],
		"auth": {"type": "basic", "username": "u"}, "tls": {"certificate": "`+pemCert+`"},
		"max_redirects": 2, "compression": "gzip", "verified_at": null,
		"signature": {"schemes": ["standard", {"scheme": "github", "header": "X-Acme-Signature", "prefix": "sha256="}]}}`), &want); err != nil {
		t.Fatal(err)
	}
	for field, value := range want {
		if diff := cmp.Diff(value, got.body[field]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", field, diff)
		}
	}
	_, c := w.stored(id)
	if c.Headers["X-Hush"] != "hush-h" || c.Auth != "hush-p" || !strings.HasPrefix(c.TLSKey, "-----BEGIN PRIVATE") {
		t.Error("what was given is not what is encrypted")
	}
	if shown := w.want(200, "GET /endpoints", "").text; strings.Contains(shown, "hush") || strings.Contains(w.log.String(), "hush") {
		t.Error("a secret is in the list or the log")
	}
}

func TestADefaultEndpointHasNothingOfItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.tenant("acme")
	got := w.want(200, "GET /endpoints/"+acme.endpoint, "")
	want := map[string]any{"headers": []any{}, "auth": nil, "tls": nil, "max_redirects": 0.0, "compression": "none"}
	for field, value := range want {
		if diff := cmp.Diff(value, got.body[field]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", field, diff)
		}
	}
	if e, _ := w.stored(acme.endpoint); e.Credentials != nil {
		t.Error("it has credentials")
	}
}

// TestAChangeKeepsTheSecretsThatItNames checks for each change whether the three secrets of an
// endpoint are kept, removed or replaced.
func TestAChangeKeepsTheSecretsThatItNames(t *testing.T) {
	t.Parallel()
	const kept = "hush-h hush-p key"
	for _, tt := range []struct{ name, change, want string }{
		{"nothing of it", `{"timeout_ms": 2000}`, kept},
		{"another path", `{"url": "https://acme.example/other"}`, kept},
		{"the header again", `{"headers": [{"name": "x-hush", "sensitive": true}]}`, kept},
		{"the header again, with null", `{"headers": [{"name": "X-Hush", "value": null, "sensitive": true}]}`, kept},
		{"the header anew", `{"headers": [{"name": "X-Hush", "value": "n", "sensitive": true}]}`, "n hush-p key"},
		{"the header in the open", `{"headers": [{"name": "X-Hush", "value": "n"}]}`, " hush-p key"},
		{"no headers", `{"headers": []}`, " hush-p key"},
		{"auth without its secret", `{"auth": {"type": "basic", "username": "v"}}`, kept},
		{"auth anew", `{"auth": {"type": "basic", "username": "v", "password": "n"}}`, "hush-h n key"},
		{"auth of another type", `{"auth": {"type": "bearer", "token": "n"}}`, "hush-h n key"},
		{"no auth", `{"auth": null}`, "hush-h  key"},
		{"tls without its key", `{"tls": {"certificate": "` + pemCert + `"}}`, kept},
		{"tls of authorities alone", `{"tls": {"authorities": "` + pemCert + `"}}`, "hush-h hush-p "},
		{"no tls", `{"tls": null}`, "hush-h hush-p "},
		{
			"another host, with all",
			`{"url": "https://other.example/", "headers": [], "auth": {"type": "basic", "username": "u", "password": "n"}}`, " n key",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			id := w.secretive(`{"type": "basic", "username": "u", "password": "hush-p"}`)
			w.want(200, "PATCH /endpoints/"+id, tt.change)
			e, c := w.stored(id)
			header := ""
			for name, value := range c.Headers {
				header += value
				if !slices.ContainsFunc(e.Policy.Headers, func(h postrider.Header) bool { return h.Secret && h.Name == name }) {
					t.Errorf("the value of %s is kept, which nobody names", name)
				}
			}
			key := ""
			if c.TLSKey != "" {
				key = "key"
			}
			if got := header + " " + c.Auth + " " + key; got != tt.want {
				t.Errorf("secrets = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestNoCredentialsAreLeftWhenNothingNamesThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.secretive(`{"type": "bearer", "token": "hush-t"}`)
	w.want(200, "PATCH /endpoints/"+id, `{"headers": [{"name": "X-Plain", "value": "p"}], "auth": null, "tls": null}`)
	if e, _ := w.stored(id); e.Credentials != nil {
		t.Error("credentials are left")
	}
}

func TestASecretThatWasNeverGivenIsRequired(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.secretive(`{"type": "bearer", "token": "hush-t"}`)
	for _, change := range []string{
		`{"headers": [{"name": "X-New", "sensitive": true}]}`,
		`{"auth": {"type": "basic", "username": "u"}}`,
	} {
		if got := w.want(422, "PATCH /endpoints/"+id, change); !strings.Contains(got.text, `"is required"`) {
			t.Errorf("%s: %s", change, got.text)
		}
	}
}

// TestASecretDoesNotFollowToAnotherHost checks that a secret is kept only for the host that it was
// given for. Otherwise a person who may change an endpoint could have its secrets sent to a host of
// their own.
func TestASecretDoesNotFollowToAnotherHost(t *testing.T) {
	t.Parallel()
	const oauth2 = `{"type": "oauth2", "token_url": "https://id.example/token", "client_id": "c", "client_secret": "hush-c", "scopes": ["a", "b"], "audience": "x"}`
	for _, tt := range []struct {
		name, auth, change string
		fields             []string
	}{
		{
			"the endpoint's", `{"type": "bearer", "token": "hush-t"}`, `{"url": "https://evil.example/"}`,
			[]string{"headers[1].value", "auth.token"},
		},
		{"its port", `{"type": "bearer", "token": "hush-t"}`, `{"url": "https://acme.example:8443/", "headers": []}`, []string{"auth.token"}},
		{
			"the token's", oauth2, `{"auth": {"type": "oauth2", "token_url": "https://evil.example/token", "client_id": "c"}}`,
			[]string{"auth.client_secret"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			id := w.secretive(tt.auth)
			got := w.want(422, "PATCH /endpoints/"+id, tt.change)
			if !slices.Equal(got.fields(), tt.fields) {
				t.Errorf("fields = %v, want %v: %s", got.fields(), tt.fields, got.text)
			}
			if !strings.Contains(got.text, "kept for the same host only") {
				t.Errorf("it does not say why: %s", got.text)
			}
			if _, c := w.stored(id); c.Headers["X-Hush"] != "hush-h" || !strings.HasPrefix(c.Auth, "hush-") {
				t.Error("a change that was refused changed the credentials")
			}
		})
	}
}

func TestOAuth2IsShownAndItsURLIsGuarded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.secretive(`{"type": "oauth2", "token_url": "https://id.example/token", "client_id": "c", "client_secret": "hush-c", "scopes": ["a", "b"], "audience": "x"}`)
	want := map[string]any{
		"type": "oauth2", "token_url": "https://id.example/token", "client_id": "c", "scopes": []any{"a", "b"}, "audience": "x",
	}
	if diff := cmp.Diff(want, w.want(200, "GET /endpoints/"+id, "").body["auth"]); diff != "" {
		t.Errorf("auth (-want +got):\n%s", diff)
	}
	got := w.want(422, "PATCH /endpoints/"+id,
		`{"auth": {"type": "oauth2", "token_url": "http://169.254.169.254/", "client_id": "c", "client_secret": "s"}}`)
	if fields := got.fields(); !slices.Equal(fields, []string{"auth.token_url"}) {
		t.Errorf("fields = %v: %s", fields, got.text)
	}
}

func TestFaultsOfAConnectionAreNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	long := strings.Repeat("x", 4097)
	for _, tt := range []struct {
		name, policy string
		fields       []string
	}{
		{"header of ours", `"headers": [{"name": "webhook-id", "value": "x"}]`, []string{"headers[0].name"}},
		{
			"header of the connection", `"headers": [{"name": "Host", "value": "x"}, {"name": "Content-Length", "value": "1"}]`,
			[]string{"headers[0].name", "headers[1].name"},
		},
		{"no header name", `"headers": [{"value": "x"}]`, []string{"headers[0].name"}},
		{"two lines", `"headers": [{"name": "X-A", "value": "a\r\nX-B: b"}]`, []string{"headers[0].value"}},
		{"two lines, sensitive", `"headers": [{"name": "X-A", "value": "a\r\nX-B: b", "sensitive": true}]`, []string{"headers[0].value"}},
		{"header twice", `"headers": [{"name": "X-A", "value": "a"}, {"name": "x-a", "value": "a"}]`, []string{"headers[1].name"}},
		{"no value", `"headers": [{"name": "X-A"}]`, []string{"headers[0].value"}},
		{"no sensitive value", `"headers": [{"name": "X-A", "sensitive": true}]`, []string{"headers[0].value"}},
		{"too much", `"headers": [{"name": "X-A", "value": "` + long[:4096] + `", "sensitive": true}, {"name": "X-B", "value": "` + long[:4096] +
			`", "sensitive": true}]`, []string{"headers"}},
		{"headers are a list", `"headers": {"X-A": "a"}`, []string{"headers"}},
		{"auth of no type", `"auth": {}`, []string{"auth.type"}},
		{"auth of no known type", `"auth": {"type": "digest"}`, []string{"auth.type"}},
		{"auth is an object", `"auth": "basic"`, []string{"auth"}},
		{"unknown part of auth", `"auth": {"type": "bearer", "token": "t", "realm": "x"}`, []string{"auth.realm"}},
		{"no password", `"auth": {"type": "basic", "username": "u"}`, []string{"auth.password"}},
		{"empty password", `"auth": {"type": "basic", "username": "u", "password": ""}`, []string{"auth.password"}},
		{"no username", `"auth": {"type": "basic", "password": "p"}`, []string{"auth.username"}},
		{"empty username", `"auth": {"type": "basic", "username": "", "password": "p"}`, []string{"auth.username"}},
		{"colon", `"auth": {"type": "basic", "username": "u:v", "password": "p"}`, []string{"auth.username"}},
		{"no token", `"auth": {"type": "bearer"}`, []string{"auth.token"}},
		{"token of two lines", `"auth": {"type": "bearer", "token": "a\nb"}`, []string{"auth.token"}},
		{"token and password", `"auth": {"type": "bearer", "token": "a", "password": "b"}`, []string{"auth.password"}},
		{"no key and no header", `"auth": {"type": "api_key"}`, []string{"auth.header", "auth.key"}},
		{"header of ours for a key", `"auth": {"type": "api_key", "header": "webhook-key", "key": "k"}`, []string{"auth.header"}},
		{
			"header twice with a key", `"auth": {"type": "api_key", "header": "X-A", "key": "k"}, "headers": [{"name": "x-a", "value": "a"}]`,
			[]string{"auth.header"},
		},
		{"nothing of oauth2", `"auth": {"type": "oauth2"}`, []string{"auth.client_id", "auth.token_url", "auth.client_secret"}},
		{"certificate alone", `"tls": {"certificate": "` + pemCert + `"}`, []string{"tls.key"}},
		{"key alone", `"tls": {"key": "` + pemKey + `"}`, []string{"tls.certificate"}},
		{"nothing of tls", `"tls": {}`, []string{"tls"}},
		{"no PEM", `"tls": {"authorities": "x"}`, []string{"tls.authorities"}},
		{"redirects", `"max_redirects": 4, "compression": "br"`, []string{"max_redirects", "compression"}},
		{
			"header of a scheme that has its own", `"signature": {"schemes": [{"scheme": "stripe", "header": "X-A"}]}`,
			[]string{"signature.schemes[0].header"},
		},
		{"prefix alone", `"signature": {"schemes": [{"scheme": "plain", "prefix": "x"}]}`, []string{"signature.schemes[0].header"}},
		{"scheme of no name", `"signature": {"schemes": [{"header": "X-A"}]}`, []string{"signature.schemes[0].scheme"}},
		{"scheme is a number", `"signature": {"schemes": ["standard", 7]}`, []string{"signature.schemes[1]"}},
		{"scheme is null", `"signature": {"schemes": [null]}`, []string{"signature.schemes[0]"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := w.in(t).do(w.admin, "POST /endpoints", `{"account": "acme", "url": "https://x.example/", "event_types": ["*"], `+tt.policy+`}`)
			if got.status != 422 || !sameFields(got.fields(), tt.fields) {
				t.Errorf("%d %v %s, want 422 for %v", got.status, got.fields(), got.text, tt.fields)
			}
		})
	}
}

func sameFields(got, want []string) bool {
	slices.Sort(got)
	return slices.Equal(got, slices.Sorted(slices.Values(want)))
}

// FuzzHeaders checks that any headers of an endpoint are either refused by name or stored
// unchanged, and that no secret is shown.
func FuzzHeaders(f *testing.F) {
	f.Add("X-A", "a", true, "X-B", "b")
	f.Add("x-a\r\nHost", "a\r\n\r\n", false, "Webhook-Id", "\xff")
	f.Add("", "", true, "X-B", " b ")
	w := newWorld(f)
	w.want(201, "POST /accounts", `{"uid": "acme"}`)
	f.Fuzz(func(t *testing.T, name, value string, sensitive bool, authHeader, key string) {
		w := w.in(t)
		text := func(v any) string {
			b, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			return string(b)
		}
		got := w.do(w.admin, "POST /endpoints", `{"account": "acme", "url": "https://x.example/", "event_types": ["*"],
			"headers": [{"name": `+text(name)+`, "value": `+text(value)+`, "sensitive": `+text(sensitive)+`}],
			"auth": {"type": "api_key", "header": `+text(authHeader)+`, "key": `+text(key)+`}}`)
		switch got.status {
		case 422:
			if len(got.fields()) == 0 {
				t.Errorf("422 without a field: %s", got.text)
			}
		case 201:
			e, c := w.stored(got.id("id"))
			stored := e.Policy.Headers[0].Value + c.Headers[name]
			if e.Policy.Headers[0].Name != name || stored != value || c.Auth != key || strings.ContainsAny(name+value+authHeader+key, "\r\n") {
				t.Errorf("stored %q: %q and %q, want %q: %q and %q", e.Policy.Headers[0].Name, stored, c.Auth, name, value, key)
			}
			w.want(204, "DELETE /endpoints/"+got.id("id"), "")
		default:
			t.Errorf("%d %s", got.status, got.text)
		}
	})
}
