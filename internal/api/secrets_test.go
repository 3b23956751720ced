package api_test

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/api"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/signature"
)

const (
	plainText = "a-text-of-another-sender!"
	hmacText  = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"
)

// privateKey returns the texts of a private key and of its public half.
func privateKey(t *testing.T) (private, public string) {
	t.Helper()
	key, err := signature.NewPrivateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key.Text(), key.Public().Text()
}

// onlySecret returns the only secret in the response to the creation of an endpoint.
func onlySecret(t *testing.T, made response) map[string]any {
	t.Helper()
	secrets, _ := made.body["secrets"].([]any)
	if len(secrets) != 1 {
		t.Fatalf("secrets = %v, want one", secrets)
	}
	secret, _ := secrets[0].(map[string]any)
	return secret
}

func TestASecretIsOfOneOfThreeTypes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := "/endpoints/" + w.tenant("acme").endpoint + "/secrets"
	private, public := privateKey(t)
	for _, tt := range []struct {
		name, field string
		want        map[string]any
	}{
		{"brought, symmetric", `"secret": "` + hmacText + `"`, map[string]any{"type": "hmac", "secret": hmacText, "public_key": nil}},
		{"brought, text", `"secret": "` + plainText + `"`, map[string]any{"type": "text", "secret": plainText, "public_key": nil}},
		{"brought, private", `"secret": "` + private + `"`, map[string]any{"type": "ed25519", "secret": nil, "public_key": public}},
		{"made, private", `"key_type": "ed25519"`, map[string]any{"type": "ed25519", "secret": nil}},
		{"made, symmetric", `"key_type": "hmac"`, map[string]any{"type": "hmac", "public_key": nil}},
	} {
		made := w.want(201, "POST /endpoints", `{"account": "acme", "url": "https://a.example", "event_types": ["*"], `+tt.field+`}`)
		at := onlySecret(t, made)
		has(t, tt.name, at, tt.want)
		path := "/endpoints/" + made.id("id") + "/secrets"
		listed := w.want(200, "GET "+path, "").data()
		if len(listed) != 1 || !cmp.Equal(listed[0], at) {
			t.Errorf("%s: listed as %v, want %v", tt.name, listed, at)
		}
		rotated := w.want(200, "POST "+other+"/rotate", `{`+tt.field+`, "overlap_ms": 2592000000}`)
		has(t, tt.name+", rotated", rotated.body, tt.want)
		if strings.Contains(made.text+rotated.text, "whsk_") {
			t.Errorf("%s: a private key is shown", tt.name)
		}
		if pub, _ := at["public_key"].(string); at["type"] == "ed25519" && !strings.HasPrefix(pub, "whpk_") {
			t.Errorf("%s: public_key = %v", tt.name, at["public_key"])
		}
	}
}

func TestWhatIsNoSecretIsRefusedWithoutQuotingIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := "/endpoints/" + w.tenant("acme").endpoint + "/secrets/rotate"
	private, public := privateKey(t)
	for _, tt := range []struct{ name, body, field string }{
		{"a prefix and no base64", `{"secret": "whsec_hush-hush-hush-hush-hush-hush"}`, "secret"},
		{"too few bytes", `{"secret": "whsec_aHVzaC1odXNoLWh1c2gtaHVzaA=="}`, "secret"},
		{"half a private key", `{"secret": "` + private[:40] + `"}`, "secret"},
		{"a public key", `{"secret": "` + public + `"}`, "secret"},
		{"a text that is too short", `{"secret": "hush-hush-hush-hush-hus"}`, "secret"},
		{"a text that is too long", `{"secret": "` + strings.Repeat("hush-", 13) + `"}`, "secret"},
		{"a text with a space", `{"secret": "hush-hush-hush-hush hush-hush"}`, "secret"},
		{"a text of another alphabet", `{"secret": "hush-hush-hush-hush-hush-ü"}`, "secret"},
		{"another type", `{"key_type": "rsa"}`, "key_type"},
		{"a type and a secret", `{"key_type": "hmac", "secret": "` + hmacText + `"}`, "key_type"},
		{"an overlap of more than a month", `{"overlap_ms": 2592000001}`, "overlap_ms"},
		{"an overlap before now", `{"overlap_ms": -1}`, "overlap_ms"},
	} {
		got := w.want(422, "POST "+path, tt.body)
		if !slices.Equal(got.fields(), []string{tt.field}) {
			t.Errorf("%s: %s, want a fault of %s", tt.name, got.text, tt.field)
		}
		if strings.Contains(got.text, "hush") || strings.Contains(got.text, private[6:30]) {
			t.Errorf("%s: %s, which quotes it", tt.name, got.text)
		}
	}
	if w.log.String() == "" || strings.Contains(w.log.String(), "hush") {
		t.Errorf("the log is empty or quotes a secret: %s", w.log.String())
	}
}

// TestSecretsAreListedWithoutTextsAndRevealedOneAtATime lists the secrets of an endpoint
// after a rotation, and reveals one.
func TestSecretsAreListedWithoutTextsAndRevealedOneAtATime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.tenant("acme")
	path := "/endpoints/" + acme.endpoint
	young := w.want(200, "POST "+path+"/secrets/rotate", `{"key_type": "ed25519"}`)
	all := w.want(200, "GET "+path+"/secrets", "").data()
	listed := w.want(200, "GET "+path+"/secret-states", "")
	if strings.Contains(listed.text, "whsec_") || strings.Contains(listed.text, `"secret"`) {
		t.Errorf("the list has a text: %s", listed.text)
	}
	states := listed.data()
	if len(states) != 2 {
		t.Fatalf("%d secrets, want 2: %s", len(states), listed.text)
	}
	has(t, "the new secret", states[0], map[string]any{
		"id": young.id("id"), "type": "ed25519", "state": "current", "public_key": young.body["public_key"],
		"created_at": young.body["created_at"], "expires_at": nil,
	})
	has(t, "the old secret", states[1], map[string]any{
		"id": all[1]["id"], "type": "hmac", "state": "previous", "public_key": nil, "expires_at": all[1]["expires_at"],
	})
	for i, secret := range all {
		reveal := path + "/secrets/" + secret["id"].(string) + "/reveal"
		got := w.want(200, "POST "+reveal, "")
		if !cmp.Equal(got.body, secret) || strings.Contains(got.text, all[1-i]["id"].(string)) {
			t.Errorf("POST %s = %s, want %v", reveal, got.text, secret)
		}
	}
	w.want(404, "POST "+path+"/secrets/sec_x/reveal", "")
	w.want(404, "POST /endpoints/"+w.tenant("beta").endpoint+"/secrets/"+young.id("id")+"/reveal", "")
	w.want(204, "DELETE "+path, "")
	w.want(404, "GET "+path+"/secret-states", "")
	w.want(404, "POST "+path+"/secrets/"+young.id("id")+"/reveal", "")
}

func TestASecretIsRevoked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := "/endpoints/" + w.tenant("acme").endpoint + "/secrets"
	old := w.want(200, "GET "+path, "").data()[0]["id"].(string)
	young := w.want(200, "POST "+path+"/rotate", "").id("id")

	other := "/endpoints/" + w.tenant("beta").endpoint + "/secrets/"
	w.want(404, "DELETE "+other+old, "")
	w.want(404, "DELETE "+path+"/sec_1", "")
	reader := w.key(postrider.APIKey{Scopes: []postrider.Scope{postrider.ScopeWebhooksRead}})
	if got := w.do(reader, "DELETE "+path+"/"+old, ""); got.status != 403 {
		t.Errorf("DELETE with webhooks:read = %d, want 403", got.status)
	}

	w.want(204, "DELETE "+path+"/"+old, "")
	if left := w.want(200, "GET "+path, "").data(); len(left) != 1 || left[0]["id"] != young {
		t.Errorf("left are %v, want %s", left, young)
	}
	w.want(404, "DELETE "+path+"/"+old, "")
	got := w.want(409, "DELETE "+path+"/"+young, "")
	if detail := got.id("detail"); !strings.Contains(detail, "last secret") {
		t.Errorf("detail = %q", detail)
	}
}

// signedBy makes an endpoint of the account acme.
func (w *world) signedBy(schemes, secrets string) (path string) {
	w.Helper()
	return "/endpoints/" + w.want(201, "POST /endpoints", `{"account": "acme", "url": "https://a.example", "event_types": ["*"],
		"signature": {"schemes": [`+schemes+`]}, `+secrets+`}`).id("id")
}

func TestNoEndpointIsLeftThatCannotSign(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.want(201, "POST /accounts", `{"uid": "acme"}`)
	private, _ := privateKey(t)
	github := w.signedBy(`"standard", "github"`, `"secret": "`+hmacText+`"`)
	standard := w.signedBy(`"standard", "svix"`, `"key_type": "ed25519"`)
	ending := w.signedBy(`"standard"`, `"secret": "`+plainText+`"`)
	w.want(200, "POST "+ending+"/secrets/rotate", `{"key_type": "ed25519"}`)
	for _, tt := range []struct{ name, route, body, field string }{
		{
			"made so", "POST /endpoints",
			`{"account": "acme", "url": "https://a.example", "event_types": ["*"], "key_type": "ed25519", "signature": {"schemes": ["github"]}}`,
			"signature.schemes[0]",
		},
		{"changed to it", "PATCH " + standard, `{"signature": {"schemes": ["standard", "stripe"]}}`, "signature.schemes[1]"},
		{"changed to it in an overlap", "PATCH " + ending, `{"signature": {"schemes": ["slack"]}}`, "signature.schemes[0]"},
		{"rotated to a key that is made", "POST " + github + "/secrets/rotate", `{"key_type": "ed25519", "overlap_ms": 0}`, "key_type"},
		{"rotated with an overlap", "POST " + github + "/secrets/rotate", `{"key_type": "ed25519"}`, "key_type"},
		{"rotated to a key that is brought", "POST " + github + "/secrets/rotate", `{"secret": "` + private + `"}`, "secret"},
	} {
		got := w.want(422, tt.route, tt.body)
		if !slices.Equal(got.fields(), []string{tt.field}) || !strings.Contains(got.text, "needs an hmac or text secret") {
			t.Errorf("%s: %s, want a fault of %s", tt.name, got.text, tt.field)
		}
	}
	w.want(200, "PATCH "+ending, `{"timeout_ms": 2000}`)
	w.want(200, "PATCH "+github, `{"signature": {"schemes": ["plain"]}}`)
	w.want(200, "POST "+github+"/secrets/rotate", `{"overlap_ms": 0}`)
	w.want(200, "POST "+standard+"/secrets/rotate", `{"key_type": "ed25519"}`)
}

// TestARotationCannotStrandAnEndpoint revokes the new secret of a rotation. If the server allowed
// that, the old secret would expire and the endpoint could not sign any more.
func TestARotationCannotStrandAnEndpoint(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	endpoint := "/endpoints/" + w.tenant("acme").endpoint
	path := endpoint + "/secrets"
	old := w.want(200, "GET "+path, "").data()[0]["id"].(string)
	rotated := w.want(200, "POST "+path+"/rotate", `{"overlap_ms": 60000}`).id("id")
	got := w.want(409, "DELETE "+path+"/"+rotated, "")
	if detail := got.id("detail"); got.body["code"] != "last_secret" || !strings.Contains(detail, "rotate it") ||
		!strings.Contains(detail, "revoke one that expires") {
		t.Errorf("revoking the new secret = %s, which does not say what to do", got.text)
	}
	has(t, "the endpoint", w.want(200, "GET "+endpoint, "").body, map[string]any{"warnings": []any{}})
	w.want(204, "DELETE "+path+"/"+old, "")
	w.want(409, "DELETE "+path+"/"+rotated, "")
}

// TestAnEndpointSaysThatItCannotSign reads endpoints without a usable secret, which an older
// version may have stored.
func TestAnEndpointSaysThatItCannotSign(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.tenant("acme")
	account, err := postrider.ParseID[postrider.AccountID](acme.account)
	if err != nil {
		t.Fatal(err)
	}
	put := func(secrets ...postrider.Secret) string {
		e := postrider.Endpoint{
			ID: store.NewID[postrider.EndpointID](w.ids), Account: account, URL: "https://acme.example/hooks",
			EventTypes: []postrider.Pattern{"order.*"}, Status: postrider.EndpointEnabled, Policy: postrider.DefaultPolicy(),
		}
		for i := range secrets {
			secrets[i].ID, secrets[i].Endpoint, secrets[i].Encrypted = store.NewID[postrider.SecretID](w.ids), e.ID, []byte("x")
		}
		if _, err := w.store.PutEndpoint(t.Context(), store.PutEndpoint{Endpoint: e, Secrets: secrets}); err != nil {
			t.Fatal(err)
		}
		return e.ID.String()
	}
	want := map[string]any{
		acme.endpoint: []any{},
		put():         []any{"no_secret"},
		put(postrider.Secret{ExpiresAt: time.Now().Add(-time.Minute)}): []any{"no_secret"},
		put(postrider.Secret{ExpiresAt: time.Now().Add(time.Minute)}):  []any{"secrets_expire"},
	}
	got := map[string]any{}
	for _, e := range w.want(200, "GET /endpoints", "").data() {
		got[e["id"].(string)] = e["warnings"]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("warnings of the list (-want +got):\n%s", diff)
	}
	for id, warnings := range want {
		has(t, "the endpoint", w.want(200, "GET /endpoints/"+id, "").body, map[string]any{"warnings": warnings})
		has(t, "the changed one", w.want(200, "PATCH /endpoints/"+id, `{"description": "x"}`).body, map[string]any{"warnings": warnings})
	}
	w.want(204, "DELETE /endpoints/"+acme.endpoint, "")
	has(t, "a deleted one", w.want(200, "GET /endpoints/"+acme.endpoint, "").body, map[string]any{"warnings": []any{}})
}

func TestTheLastSecretOfASchemeIsNotRevoked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.want(201, "POST /accounts", `{"uid": "acme"}`)
	private, _ := privateKey(t)
	brought := `"secrets": ["` + private + `", "` + hmacText + `", "` + plainText + `"]`
	path := w.signedBy(`"standard", "github"`, brought) + "/secrets"
	secrets := w.want(200, "GET "+path, "").data()
	asymmetric, hmac, text := secrets[0]["id"].(string), secrets[1]["id"].(string), secrets[2]["id"].(string)
	w.want(204, "DELETE "+path+"/"+text, "")
	got := w.want(409, "DELETE "+path+"/"+hmac, "")
	if detail := got.id("detail"); !strings.HasPrefix(detail, "signature.schemes[1] needs an hmac or text secret") {
		t.Errorf("detail = %q", detail)
	}
	w.want(204, "DELETE "+path+"/"+asymmetric, "")

	path = w.signedBy(`"standard"`, brought) + "/secrets"
	for _, secret := range w.want(200, "GET "+path, "").data()[1:] {
		w.want(204, "DELETE "+path+"/"+secret["id"].(string), "")
	}
}

func TestASecretIsNotBroughtTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.want(201, "POST /accounts", `{"uid": "acme"}`)
	path := w.signedBy(`"standard"`, `"secrets": ["`+hmacText+`", "`+plainText+`"]`) + "/secrets"
	for _, text := range []string{hmacText, plainText} {
		got := w.want(409, "POST "+path+"/rotate", `{"secret": "`+text+`", "overlap_ms": 0}`)
		if strings.Contains(got.text, text) || !strings.Contains(got.id("detail"), "already") {
			t.Errorf("refused with %s", got.text)
		}
	}
	got := w.want(422, "POST /endpoints", `{"account": "acme", "url": "https://a.example", "event_types": ["*"],
		"secrets": ["`+hmacText+`", "`+plainText+`", "`+hmacText+`"]}`)
	if !slices.Equal(got.fields(), []string{"secrets[2]"}) {
		t.Errorf("twice in a new endpoint: %s", got.text)
	}
}

// known requests the public keys as a receiver does.
func (w *world) known(query string) response {
	w.Helper()
	return w.send(httptest.NewRequestWithContext(w.Context(), "GET", "/.well-known/webhook-keys"+query, nil))
}

func keysOf(r response) (ids []string) {
	keys, _ := r.body["keys"].([]any)
	for _, k := range keys {
		object, _ := k.(map[string]any)
		id, _ := object["id"].(string)
		ids = append(ids, id)
	}
	return ids
}

func TestPublicKeysAreForEverybody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if got := w.known(""); got.status != 200 || got.text != `{"keys":[],"next_cursor":null}` {
		t.Errorf("without keys = %d %s", got.status, got.text)
	}
	var endpoints, secrets []string
	for _, uid := range []string{"acme", "beta", "core"} {
		endpoint := w.tenant(uid).endpoint // with a secret that is symmetric
		secret := w.want(200, "POST /endpoints/"+endpoint+"/secrets/rotate", `{"key_type": "ed25519"}`)
		endpoints, secrets = append(endpoints, endpoint), append([]string{secret.id("id")}, secrets...)
	}
	all := w.known("")
	if got := keysOf(all); !slices.Equal(got, secrets) {
		t.Errorf("keys = %v, want %v, newest first", got, secrets)
	}
	if all.header.Get("Cache-Control") != "public, max-age=300" || strings.Contains(all.text, "whsec_") || strings.Contains(all.text, "ep_") {
		t.Errorf("answer = %v %s", all.header, all.text)
	}
	first := w.known("?limit=2")
	second := w.known("?limit=2&cursor=" + first.id("next_cursor"))
	if got := append(keysOf(first), keysOf(second)...); !slices.Equal(got, secrets) || second.body["next_cursor"] != nil {
		t.Errorf("in pages = %v, want %v", got, secrets)
	}
	one := w.known("?endpoint=" + endpoints[0])
	listed := w.want(200, "GET /endpoints/"+endpoints[0]+"/secrets", "").data()[0]
	keys, _ := one.body["keys"].([]any)
	want := map[string]any{"id": listed["id"], "public_key": listed["public_key"], "created_at": listed["created_at"], "expires_at": nil}
	if len(keys) != 1 || !cmp.Equal(keys[0], any(want)) {
		t.Errorf("of one endpoint = %s, want %v", one.text, want)
	}
	w.want(204, "DELETE /endpoints/"+endpoints[0], "")
	if got := keysOf(w.known("")); !slices.Equal(got, secrets[:2]) {
		t.Errorf("after the endpoint was deleted = %v, want %v", got, secrets[:2])
	}
}

func TestPublicKeysRefuseAnotherQuery(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for query, status := range map[string]int{
		"?endpoint=x": 422, "?limit=0": 422, "?limit=251": 422, "?limit=x": 422, "?cursor=!": 422,
		"?account=acme": 422, "?limit=1&limit=2": 422, "?%00=1": 422, "/x": 404,
	} {
		if got := w.known(query); got.status != status {
			t.Errorf("%s = %d %s, want %d", query, got.status, got.text, status)
		}
	}
	if got := w.send(httptest.NewRequestWithContext(w.Context(), "POST", "/.well-known/webhook-keys", nil)); got.status != 405 {
		t.Errorf("POST = %d, want 405", got.status)
	}
}

// reencrypter is a Reencrypter that fails or returns a result, as the test sets it.
type reencrypter struct {
	done apitypes.Reencrypted
	err  error
}

func (s reencrypter) Reencrypt(context.Context) (apitypes.Reencrypted, error) { return s.done, s.err }

func TestOnlyAnAdminReencrypts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	with := func(s reencrypter) {
		w.handler = api.New(api.Deps{
			Stores: storesOf(w.store), Clock: w.store.Clock(), Publisher: w.publisher, Guard: guard{}, Verifier: w.receiver, Vault: vault{},
			Reencrypter: s, Notifier: deaf{}, Canceller: deaf{}, Replayer: deaf{}, IDs: w.ids,
		}, api.Options{})
	}
	with(reencrypter{done: apitypes.Reencrypted{Key: "0102030405060708", Checked: 3, Reencrypted: 2, Done: true}})
	has(t, "reencrypted", w.want(200, "POST /secrets/reencrypt", "").body, map[string]any{
		"key": "0102030405060708", "checked": 3.0, "reencrypted": 2.0, "unreadable": 0.0, "done": true,
	})
	writer := w.key(postrider.APIKey{Scopes: []postrider.Scope{postrider.ScopeWebhooksWrite}})
	if got := w.do(writer, "POST /secrets/reencrypt", ""); got.status != 403 {
		t.Errorf("with webhooks:write = %d, want 403", got.status)
	}
	with(reencrypter{err: errors.New("encrypted with key 0102030405060708")})
	if got := w.want(500, "POST /secrets/reencrypt", ""); strings.Contains(got.text, "0102030405060708") {
		t.Errorf("an internal error leaves: %s", got.text)
	}
}

// keyless is a vault that has lost its keys.
type keyless struct{ vault }

func (keyless) DecryptSecret(context.Context, postrider.Secret) (string, error) {
	return "", errors.New("no key decrypts it")
}

func TestASecretThatCannotBeDecryptedIsListed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := "/endpoints/" + w.tenant("acme").endpoint
	w.handler = api.New(api.Deps{
		Stores: storesOf(w.store), Clock: w.store.Clock(), Publisher: w.publisher, Guard: guard{}, Verifier: w.receiver, Vault: keyless{},
		Notifier: deaf{}, Canceller: deaf{}, Replayer: deaf{}, IDs: w.ids,
	}, api.Options{})
	states := w.want(200, "GET "+path+"/secret-states", "").data()
	has(t, "the secret", states[0], map[string]any{"state": "unreadable", "type": nil, "public_key": nil, "expires_at": nil})
	w.want(500, "POST "+path+"/secrets/"+states[0]["id"].(string)+"/reveal", "")
}

// panicking is a vault that panics.
type panicking struct{ vault }

func (panicking) EncryptSecret(context.Context, *postrider.Secret, string) error { panic("encrypt") }

func TestAPanicShowsNoSecret(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.want(201, "POST /accounts", `{"uid": "acme"}`)
	w.handler = api.New(api.Deps{
		Stores: storesOf(w.store), Clock: w.store.Clock(), Publisher: w.publisher, Guard: guard{}, Verifier: w.receiver, Vault: panicking{},
		Notifier: deaf{}, Canceller: deaf{}, Replayer: deaf{}, IDs: w.ids,
	}, api.Options{Log: slog.New(slog.NewJSONHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	got := w.want(500, "POST /endpoints", `{"account": "acme", "url": "https://a.example/?key=hush-hush", "event_types": ["*"],
		"secret": "hush-hush-hush-hush-hush-hush", "auth": {"type": "bearer", "token": "hush-hush"}}`)
	if log := w.log.String(); !strings.Contains(log, "goroutine") || strings.Contains(log+got.text, "hush") {
		t.Errorf("the log tells of no panic, or a secret is in it or in the answer: %s %s", log, got.text)
	}
}
