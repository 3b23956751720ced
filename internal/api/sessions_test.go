package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/api"
	"github.com/postrider/postrider/internal/api/sessions"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/memory"
)

var loopback = netip.MustParseAddr("127.0.0.1")

func (w *world) sessions() *sessions.Sessions {
	w.Helper()
	h, ok := w.handler.(*api.Handler)
	if !ok {
		w.Fatal("the handler is none of the API")
	}
	return h.Sessions()
}

// link makes a one-time link. It returns the code and the response.
func (w *world) link(body string) (code string, made response) {
	w.Helper()
	made = w.want(201, "POST /portal-sessions", body)
	code, ok := strings.CutPrefix(made.id("url"), "https://hooks.example/portal/enter/")
	if !ok || len(code) != 48 {
		w.Fatalf("the link is %q", made.id("url"))
	}
	return code, made
}

// portalSession opens a link to the tenant's portal. The session may do everything.
func (w *world) portalSession(of tenant) postrider.Session {
	w.Helper()
	code, _ := w.link(`{"account": "` + of.uid + `"}`)
	_, session, err := w.sessions().Redeem(w.Context(), code, loopback)
	if err != nil {
		w.Fatal(err)
	}
	return session
}

func newPeople(tb testing.TB) *world {
	tb.Helper()
	return newWorldOf(tb, api.Options{PublicURL: "https://hooks.example"})
}

func TestAnAPIKeyLogsIn(t *testing.T) {
	t.Parallel()
	w := newPeople(t)
	acme := w.tenant("acme")
	key := w.want(201, "POST /api-keys", `{"name": "Ann", "scopes": ["webhooks:read", "webhooks:operate"]}`)
	token, made, err := w.sessions().Login(t.Context(), key.id("key"), loopback)
	if err != nil {
		t.Fatal(err)
	}
	found, err := w.sessions().Find(t.Context(), token)
	if err != nil || found.ID != made.ID || found.Kind != postrider.SessionOperator {
		t.Fatalf("found %+v, %v, want session %s", found, err, made.ID)
	}
	do := w.as(found.Caller())
	if got := do("POST /endpoints/"+acme.endpoint+"/pause", ""); got.status != 200 {
		t.Errorf("pause = %d %s", got.status, got.text)
	}
	if got := do("GET /api-keys", ""); got.status != 403 {
		t.Errorf("keys = %d, want 403", got.status)
	}
	listed := w.want(200, "GET /sessions?kind=operator", "").data()
	if len(listed) != 1 || listed[0]["id"] != made.ID.String() || listed[0]["key"] != key.id("id") || listed[0]["name"] != "Ann" {
		t.Errorf("sessions = %v", listed)
	}
	if err := w.sessions().Logout(t.Context(), token); err != nil {
		t.Fatal(err)
	}
	if _, err := w.sessions().Find(t.Context(), token); !errors.Is(err, postrider.ErrNotFound) {
		t.Errorf("after the logout: %v", err)
	}
	for _, wrong := range []string{
		"", "pr_wrong", strings.Repeat("x", 300), token,
		w.key(postrider.APIKey{Scopes: []postrider.Scope{postrider.ScopeEventsWrite}}),
	} {
		if _, _, err := w.sessions().Login(t.Context(), wrong, netip.MustParseAddr("127.0.0.9")); !errors.Is(err, postrider.ErrNotFound) {
			t.Errorf("login with %.20q: %v, want ErrNotFound", wrong, err)
		}
	}
}

func TestASessionEndsWithItsKeyItsTimeAndItsAccount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newPeople(t)
		acme := w.tenant("acme")
		ended := func(why, token string) {
			t.Helper()
			if _, err := w.sessions().Find(t.Context(), token); !errors.Is(err, postrider.ErrNotFound) {
				t.Errorf("%s: %v, want ErrNotFound", why, err)
			}
		}
		login := func(body string) (token string, key response) {
			t.Helper()
			key = w.want(201, "POST /api-keys", body)
			token, _, err := w.sessions().Login(t.Context(), key.id("key"), loopback)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.sessions().Find(t.Context(), token); err != nil {
				t.Fatal(err)
			}
			return token, key
		}
		soon := time.Now().Add(10 * time.Minute).UTC().Format(time.RFC3339)
		short, _ := login(`{"name": "short", "scopes": ["webhooks:read"], "expires_at": "` + soon + `"}`)
		revoked, key := login(`{"name": "revoked", "scopes": ["webhooks:read"]}`)
		bound, _ := login(`{"name": "bound", "scopes": ["webhooks:read"], "account": "acme"}`)
		long, _ := login(`{"name": "long", "scopes": ["webhooks:read"]}`)
		byAdmin, _ := login(`{"name": "other", "scopes": ["webhooks:read"]}`)
		session := w.want(200, "GET /sessions", "").data()[0]

		w.want(204, "DELETE /api-keys/"+key.id("id"), "")
		ended("its key is revoked", revoked)
		w.want(204, "DELETE /sessions/"+session["id"].(string), "")
		ended("it is revoked", byAdmin)
		w.want(404, "DELETE /sessions/ses_01h455vb4pex5vsknk084sn02q", "")
		w.want(204, "DELETE /accounts/"+acme.account, "")
		ended("its account is deleted", bound)
		time.Sleep(10*time.Minute + time.Second)
		ended("its key has expired", short)
		if _, err := w.sessions().Find(t.Context(), long); err != nil {
			t.Errorf("a session in force: %v", err)
		}
		time.Sleep(12 * time.Hour)
		ended("twelve hours have passed", long)
	})
}

// TestWhatOthersDoToASessionIsSeenWithinSeconds revokes a session as another node does.
func TestWhatOthersDoToASessionIsSeenWithinSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newPeople(t)
		token, session, err := w.sessions().Login(t.Context(), w.admin, loopback)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.sessions().Find(t.Context(), token); err != nil {
			t.Fatal(err)
		}
		if err := w.store.RevokeSession(t.Context(), session.ID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if _, err := w.sessions().Find(t.Context(), token); !errors.Is(err, postrider.ErrNotFound) {
			t.Errorf("five seconds after the revocation: %v", err)
		}
	})
}

func TestALinkForAnAccountThatAnotherNodeDeletedNamesTheAccount(t *testing.T) {
	t.Parallel()
	w := newPeople(t)
	acme := w.tenant("acme")
	w.want(201, "POST /portal-sessions", `{"account": "acme"}`) // this node knows the name from now on
	account, err := postrider.ParseID[postrider.AccountID](acme.account)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.store.DeleteAccount(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	got := w.do(w.admin, "POST /portal-sessions", `{"account": "acme"}`)
	if got.status != 422 || !strings.Contains(got.text, `"field":"account"`) {
		t.Errorf("a link for a deleted account with a valid key = %d %s, want 422 that names the account", got.status, got.text)
	}
}

func TestALinkOpensThePortalOnce(t *testing.T) {
	t.Parallel()
	w := newPeople(t)
	acme := w.tenant("acme")
	code, made := w.link(
		`{"account": "acme", "name": "ann@acme.example", "capabilities": ["operate"], "ttl_ms": 600000, "embedded": true, "locale": "de"}`)
	entry, err := w.sessions().Entry(t.Context(), code)
	if err != nil || entry.Locale != "de" || !entry.Embedded {
		t.Fatalf("entry = %+v, %v", entry, err)
	}
	if _, err := w.sessions().Find(t.Context(), code); !errors.Is(err, postrider.ErrNotFound) {
		t.Errorf("the code is a token: %v", err)
	}
	token, session, err := w.sessions().Redeem(t.Context(), code, loopback)
	if err != nil {
		t.Fatal(err)
	}
	if session.ID.String() != made.id("id") || session.Account.String() != acme.account || session.Name != "ann@acme.example" ||
		session.ExpiresAt.Sub(session.CreatedAt).Round(time.Second) != 10*time.Minute {
		t.Errorf("session = %+v", session)
	}
	want := []postrider.Scope{postrider.ScopeWebhooksRead, postrider.ScopeWebhooksOperate}
	if diff := cmp.Diff(want, session.Scopes); diff != "" {
		t.Errorf("scopes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(postrider.PortalOptions, session.Options); diff != "" {
		t.Errorf("options (-want +got):\n%s", diff)
	}
	if _, err := w.sessions().Find(t.Context(), token); err != nil {
		t.Error(err)
	}
	if _, err := w.sessions().Entry(t.Context(), code); !errors.Is(err, postrider.ErrNotFound) {
		t.Errorf("the used link's entry: %v", err)
	}
	if _, _, err := w.sessions().Redeem(t.Context(), code, loopback); !errors.Is(err, postrider.ErrNotFound) {
		t.Errorf("the used link: %v", err)
	}
	for _, body := range []string{`{"account": "acme"}`, `{}`} { // it could outlive itself
		if got := w.as(session.Caller())("POST /portal-sessions", body); got.status != 403 {
			t.Errorf("a link made by a portal session = %d %s", got.status, got.text)
		}
	}
}

func TestALinkExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newPeople(t)
		w.tenant("acme")
		code, _ := w.link(`{"account": "acme"}`)
		time.Sleep(time.Minute)
		if _, _, err := w.sessions().Redeem(t.Context(), code, loopback); !errors.Is(err, postrider.ErrNotFound) {
			t.Errorf("a link of a minute ago: %v", err)
		}
		if _, err := w.sessions().Entry(t.Context(), code); !errors.Is(err, postrider.ErrNotFound) {
			t.Errorf("its entry: %v", err)
		}
	})
}

func TestLinksThatAreRefused(t *testing.T) {
	t.Parallel()
	w := newPeople(t)
	acme := w.tenant("acme")
	evil := w.tenant("evil")
	reader := w.key(postrider.APIKey{Scopes: []postrider.Scope{postrider.ScopeWebhooksRead}})
	for _, tt := range []struct {
		key, body string
		status    int
		says      string
	}{
		{w.admin, `{}`, 422, `"account"`},
		{w.admin, `{"account": "nobody"}`, 422, `"account"`},
		{w.admin, `{"account": "acme", "capabilities": ["fly"]}`, 422, `"capabilities[0]"`},
		{w.admin, `{"account": "acme", "ttl_ms": 3600001}`, 422, `"ttl_ms"`},
		{w.admin, `{"account": "acme", "ttl_ms": 59999}`, 422, `"ttl_ms"`},
		{w.admin, `{"account": "acme", "locale": "<script>"}`, 422, `"locale"`},
		{reader, `{"account": "acme"}`, 403, "webhooks:operate"},
		{reader, `{"account": "acme", "capabilities": ["secrets"]}`, 403, "secrets:read"},
		{reader, `{"account": "acme", "capabilities": ["view"]}`, 201, "url"},
		{w.bound(evil), `{"account": "acme"}`, 422, `"account"`},
		{w.bound(acme), `{}`, 201, "url"},
		{w.key(postrider.APIKey{Scopes: []postrider.Scope{postrider.ScopeEventsWrite}}), `{"account": "acme"}`, 403, "webhooks:read"},
	} {
		got := w.do(tt.key, "POST /portal-sessions", tt.body)
		if got.status != tt.status || !strings.Contains(got.text, tt.says) {
			t.Errorf("%s = %d %s, want %d with %s", tt.body, got.status, got.text, tt.status, tt.says)
		}
	}
	none := newWorld(t)
	none.tenant("acme")
	r := none.request(none.admin, "POST /portal-sessions", `{"account": "acme"}`)
	r.Host = "evil.example"
	if got := none.send(r); got.status != 422 || got.body["code"] != "public_url_missing" || !strings.Contains(got.text, "--public-url") {
		t.Errorf("without a public URL = %d %s", got.status, got.text)
	}
}

func TestTriesAreLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newPeople(t)
		w.tenant("acme")
		one, other := netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8:0:1::1")
		for i := range 10 {
			if _, _, err := w.sessions().Login(t.Context(), "wrong", one); !errors.Is(err, postrider.ErrNotFound) {
				t.Fatalf("try %d: %v", i, err)
			}
		}
		same := netip.MustParseAddr("2001:db8::2") // of the same network
		if _, _, err := w.sessions().Login(t.Context(), "wrong", same); !errors.Is(err, postrider.ErrBusy) {
			t.Errorf("the eleventh try: %v, want ErrBusy", err)
		}
		if _, _, err := w.sessions().Login(t.Context(), w.admin, same); err != nil {
			t.Errorf("the right key after ten wrong ones: %v", err)
		}
		for i := range 61 {
			want := postrider.ErrNotFound
			if i == 60 {
				want = postrider.ErrBusy
			}
			if _, _, err := w.sessions().Redeem(t.Context(), guess("", i), one); !errors.Is(err, want) {
				t.Errorf("link %d: %v, want %v", i, err, want)
			}
		}
		for i := range 20 { // a proxy stands for everybody
			if _, _, err := w.sessions().Login(t.Context(), "wrong", loopback); !errors.Is(err, postrider.ErrNotFound) {
				t.Errorf("try %d through a proxy: %v", i, err)
			}
		}
		if _, _, err := w.sessions().Login(t.Context(), w.admin, other); err != nil {
			t.Errorf("from another network: %v", err)
		}
		for range 1000 {
			if _, _, err := w.sessions().Login(t.Context(), "wrong", one); !errors.Is(err, postrider.ErrBusy) {
				t.Fatalf("a try of a client at its limit: %v, want ErrBusy", err)
			}
		}
		if _, _, err := w.sessions().Login(t.Context(), w.admin, other); err != nil {
			t.Errorf("after 1000 tries of another client: %v", err)
		}
		time.Sleep(6 * time.Second)
		if _, _, err := w.sessions().Login(t.Context(), w.admin, one); err != nil {
			t.Errorf("six seconds later: %v", err)
		}
		refused := 0
		for i := range 300 {
			from := netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})
			if _, _, err := w.sessions().Login(t.Context(), "wrong", from); errors.Is(err, postrider.ErrBusy) {
				refused++
			}
		}
		if _, _, err := w.sessions().Login(t.Context(), w.admin, loopback); err != nil {
			t.Errorf("the right key while all clients are at their limit: %v", err)
		}
		if refused < 90 {
			t.Errorf("of 300 tries from as many networks %d were refused, want about 100", refused)
		}
		for range 100 {
			w.want(201, "POST /portal-sessions", `{"account": "acme"}`)
		}
		if got := w.do(w.admin, "POST /portal-sessions", `{"account": "acme"}`); got.status != 429 || got.header.Get("Retry-After") == "" {
			t.Errorf("link 101 = %d %s", got.status, got.text)
		}
	})
}

// TestABurstOfFailedLoginsIsOneAuditEntry lets a stranger try to log in for an hour.
func TestABurstOfFailedLoginsIsOneAuditEntry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newPeople(t)
		for range 3600 {
			_, _, _ = w.sessions().Login(t.Context(), "wrong", loopback)
			time.Sleep(time.Second)
		}
		entries := w.want(200, "GET /audit?action=login&limit=250", "").data()
		if len(entries) != 6 {
			t.Fatalf("%d audit entries of an hour of failed logins, want 6", len(entries))
		}
		details, _ := entries[0]["details"].(map[string]any)
		if details["failures"] != "600" || entries[0]["outcome"] != "unauthorized" {
			t.Errorf("the last entry is %v, want 600 failures", entries[0])
		}
	})
}

// TestNoSecretOfASessionIsShown looks for secrets in the lists, the log and the audit log.
func TestNoSecretOfASessionIsShown(t *testing.T) {
	t.Parallel()
	w := newPeople(t)
	w.tenant("acme")
	code, made := w.link(`{"account": "acme"}`)
	token, session, err := w.sessions().Redeem(t.Context(), code, loopback)
	if err != nil {
		t.Fatal(err)
	}
	shown := w.want(200, "GET /sessions?ended=true", "").text + w.want(200, "GET /audit", "").text + w.log.String() +
		fmt.Sprint(session.LogValue())
	for _, secret := range []string{code, token, fmt.Sprintf("%x", session.Hash), made.id("url"), w.admin} {
		if strings.Contains(shown, secret) {
			t.Errorf("%.12s… is shown", secret)
		}
	}
	text, err := json.Marshal(session.Caller())
	if err != nil || strings.Contains(string(text), token) {
		t.Errorf("the caller has the token: %s %v", text, err)
	}
}

func TestAPersonOfAnIdentityProviderLogsIn(t *testing.T) {
	t.Parallel()
	w := newPeople(t)
	refuse := func(context.Context) (postrider.Session, error) { return postrider.Session{}, postrider.ErrNotFound }
	if _, _, err := w.sessions().LoginAs(t.Context(), loopback, refuse); !errors.Is(err, postrider.ErrNotFound) {
		t.Errorf("a person whom the provider refuses: %v", err)
	}
	token, _, err := w.sessions().LoginAs(t.Context(), loopback, func(context.Context) (postrider.Session, error) {
		return postrider.Session{
			Name: "ann@example.com", Subject: "https://login.example ann", Scopes: []postrider.Scope{postrider.ScopeWebhooksRead},
		}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	found, err := w.sessions().Find(t.Context(), token)
	if err != nil || found.Name != "ann@example.com" || found.Kind != postrider.SessionOperator || found.Caller().Options != nil {
		t.Errorf("found %+v, %v", found, err)
	}
	listed := w.want(200, "GET /sessions", "").data()
	if len(listed) != 1 || listed[0]["subject"] != "https://login.example ann" || listed[0]["key"] != nil {
		t.Errorf("sessions = %v", listed)
	}
}

// listing is a store that keeps the last query for sessions.
type listing struct {
	store.Store
	last store.SessionQuery
}

func (l *listing) Sessions(ctx context.Context, q store.SessionQuery) (store.Page[postrider.Session], error) {
	l.last = q
	return l.Store.Sessions(ctx, q)
}

// TestTheListOfLiveSessionsReadsNoOldOnes lists the live sessions. The query must not read the
// sessions that have ended, which the store keeps for 30 days.
func TestTheListOfLiveSessionsReadsNoOldOnes(t *testing.T) {
	t.Parallel()
	over := &listing{Store: memory.New(memory.Options{})}
	w := newWorldOver(t, over, api.Options{})
	w.want(200, "GET /sessions", "")
	if read := over.last.LiveAt.Sub(over.last.From); read < 12*time.Hour || read > 24*time.Hour {
		t.Errorf("sessions of %v are read, want of at least 12h and at most a day", read)
	}
	w.want(200, "GET /sessions?ended=true", "")
	if !over.last.From.IsZero() {
		t.Errorf("of all sessions those from %v on are read", over.last.From)
	}
}
