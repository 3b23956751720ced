package api_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/api"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/memory"
)

// TestAForeignCallerSeesNothing requests every route of the document with every id of another
// account's objects. The callers are a key and a session that may do everything in their own
// account.
func TestAForeignCallerSeesNothing(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, api.Options{PublicURL: "https://hooks.example"})
	acme, evil := w.tenant("acme"), w.tenant("evil")
	w.settle(acme.endpoint, postrider.Attempt{StatusCode: 410}) // a dead letter too
	session := w.want(201, "POST /portal-sessions", `{"account": "acme"}`).id("id")
	secret := w.want(200, "GET /endpoints/"+acme.endpoint+"/secrets", "").data()[0]["id"].(string)
	replay := w.want(201, "POST /replays", `{"endpoint": "`+acme.endpoint+`"}`).id("id")
	request := w.got(w.inspector("acme"), "acme", 4)
	removal := w.want(202, "POST /expunges", `{"event": "`+acme.event+`"}`).id("id")
	destination := w.want(201, "POST /notice-destinations",
		`{"account": "acme", "channel": "slack", "address": "https://hooks.example/acme"}`).id("id")
	foreign := w.bound(evil)
	ids := map[string]string{
		"{account}": acme.account, "{endpoint}": acme.endpoint, "{event}": acme.event, "{secret}": secret, "{session}": session,
		"{delivery}": acme.delivery, "{key}": "key_01h455vb4pex5vsknk084sn02q", "{name}": "order.created",
		"{replay}": replay, "{destination}": destination, "{expunge}": removal, "{request}": request, "{attempt}": "1",
		"{part}": "events-2026-11-23-1", "{source}": "shop",
	}
	inPortal := w.as(w.portalSession(evil).Caller())
	before := w.ledger(acme)
	asked := 0
	for path, methods := range routes(t) {
		if !strings.Contains(path, "{") {
			continue
		}
		for name, id := range ids {
			path = strings.ReplaceAll(path, name, id)
		}
		if strings.Contains(path, "{") {
			t.Errorf("no id of acme is known for %s", path)
		}
		for method := range methods {
			asked++
			route := strings.ToUpper(method) + " " + strings.TrimPrefix(path, "/v1/webhooks")
			for who, got := range map[string]response{"key": w.do(foreign, route, ""), "session": inPortal(route, "")} {
				if got.status != 404 && got.status != 403 && got.status != 422 {
					t.Errorf("%s by a foreign %s = %d %s", route, who, got.status, got.text)
				}
				if got.status == 422 && !strings.Contains(got.text, `"field":"body"`) {
					t.Errorf("%s by a foreign %s looked beyond its body: %s", route, who, got.text)
				}
				for _, theirs := range []string{
					"acme", "order_id", acme.account, acme.endpoint, acme.event, acme.delivery, secret, session, replay,
					request, destination,
				} {
					if strings.Contains(got.text, theirs) {
						t.Errorf("%s by a foreign %s shows %s: %s", route, who, theirs, got.text)
					}
				}
			}
		}
	}
	if asked < 25 {
		t.Errorf("only %d routes were asked", asked)
	}
	if after := w.ledger(acme); after != before {
		t.Errorf("something changed:\n%s\n%s", before, after)
	}
}

// bound returns a key that may do everything in the tenant's account.
func (w *world) bound(to tenant) string {
	w.Helper()
	id, err := postrider.ParseID[postrider.AccountID](to.account)
	if err != nil {
		w.Fatal(err)
	}
	return w.key(postrider.APIKey{Account: id, Scopes: []postrider.Scope{
		postrider.ScopeEventsWrite, postrider.ScopeWebhooksRead, postrider.ScopeWebhooksWrite,
	}})
}

// ledger returns all data of the tenant that a foreign key could have changed.
func (w *world) ledger(of tenant) string {
	w.Helper()
	var all strings.Builder
	for _, list := range []string{
		"/accounts/" + of.account, "/endpoints/" + of.endpoint, "/endpoints/" + of.endpoint + "/secrets",
		"/deliveries?account=" + of.uid, "/dead-letters?resolved=true&account=" + of.uid, "/events?account=" + of.uid,
		"/replays?account=" + of.uid,
	} {
		all.WriteString(w.want(200, "GET "+list, "").text)
	}
	return all.String()
}

// routes returns the paths of the OpenAPI document and their methods.
func routes(t *testing.T) map[string]map[string]any {
	t.Helper()
	var document struct {
		Paths map[string]map[string]any `json:"paths"`
	}
	if err := json.Unmarshal(openAPI(t), &document); err != nil {
		t.Fatal(err)
	}
	return document.Paths
}

func TestAForeignKeyIsNotHelpedByBodiesAndFilters(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, evil := w.tenant("acme"), w.tenant("evil")
	foreign := w.bound(evil)
	for _, tt := range []struct{ route, body string }{
		{"PATCH /endpoints/" + acme.endpoint, `{"url": "https://evil.example"}`},
		{"POST /endpoints/" + evil.endpoint + "/deliveries/" + acme.delivery + "/replay", ""},
	} {
		if got := w.do(foreign, tt.route, tt.body); got.status != 404 || got.body["code"] != "not_found" {
			t.Errorf("%s %s = %d %s, want 404", tt.route, tt.body, got.status, got.text)
		}
	}
	for _, tt := range []struct{ route, body, field string }{
		{"POST /endpoints", `{"account": "acme", "url": "https://x", "event_types": ["*"]}`, "account"},
		{"GET /events?account=acme", "", "account"},
		{"GET /endpoints?account=" + acme.account, "", "account"},
		{"GET /deliveries?account=acme", "", "account"},
		{"GET /deliveries?endpoint=" + acme.endpoint, "", "endpoint"},
		{"GET /dead-letters?endpoint=" + acme.endpoint, "", "endpoint"},
		{"POST /events", `{"account": "acme", "type": "a", "data": 1}`, "account"},
		{"POST /events", `{"account": "` + acme.account + `", "type": "a", "data": 1}`, "account"},
		{"POST /events/batch", `{"events": [{"type": "a", "data": 1}, {"account": "acme", "type": "a", "data": 1}]}`, "events[1].account"},
	} {
		if got := w.do(foreign, tt.route, tt.body); got.status != 422 || !slices.Equal(got.fields(), []string{tt.field}) {
			t.Errorf("%s %s = %d %s, want 422 for %s", tt.route, tt.body, got.status, got.text, tt.field)
		}
	}
	for _, list := range []string{"/events", "/endpoints", "/deliveries", "/deliveries?account=evil"} {
		got := w.do(foreign, "GET "+list, "")
		if data := got.data(); len(data) != 1 || data[0]["account"] != evil.account {
			t.Errorf("GET %s = %s, want what is evil's alone", list, got.text)
		}
	}
	if got := w.do(foreign, "POST /events", `{"type": "order.created", "data": 1}`); got.status != 202 {
		t.Errorf("publish without an account by a bound key = %d %s", got.status, got.text)
	}
}

// TestEveryRouteNeedsItsScope requests every route with a key that has no scopes, and without a
// key.
func TestEveryRouteNeedsItsScope(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	powerless := w.key(postrider.APIKey{})
	for path, methods := range routes(t) {
		for method := range methods {
			route := strings.ToUpper(method) + " " + strings.TrimPrefix(path, "/v1/webhooks")
			route = strings.NewReplacer("{", "", "}", "").Replace(route)
			if got := w.do(powerless, route, ""); got.status != 403 {
				t.Errorf("%s without a scope = %d, want 403", route, got.status)
			}
			if got := w.do("", route, ""); got.status != 401 || got.header.Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("%s without a key = %d, want 401", route, got.status)
			}
		}
	}
}

func TestAKeyIsMadeShownOnceAndRevoked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.tenant("acme")
	made := w.want(201, "POST /api-keys",
		`{"name": "ci", "scopes": ["webhooks:write"], "account": "acme", "expires_at": "2999-01-01T00:00:00+01:00"}`)
	key, path := made.id("key"), "/api-keys/"+made.id("id")
	if !strings.HasPrefix(key, "pr_") || len(key) != 51 {
		t.Errorf("key = %q", key)
	}
	has(t, "key", made.body, map[string]any{
		"account": acme.account, "expires_at": "2998-12-31T23:00:00.000000Z", "revoked_at": nil,
		"last_used_at": nil,
	})
	if got := w.do(key, "GET /endpoints", ""); got.status != 200 {
		t.Errorf("with the new key = %d %s", got.status, got.text)
	}
	read := w.want(200, "GET "+path, "")
	if strings.Contains(read.text, key) || read.body["last_used_at"] == nil {
		t.Errorf("read again: %s", read.text)
	}
	if got := w.want(200, "GET /api-keys?account=acme", "").data(); len(got) != 1 || got[0]["name"] != "ci" {
		t.Errorf("the keys of the account are %v, want the one that is bound to it", got)
	}
	w.want(422, "GET /api-keys?account=unknown", "")
	if got := w.want(200, "GET /api-keys", "").data(); len(got) != 2 {
		t.Errorf("keys = %v", got)
	}
	w.want(204, "DELETE "+path, "")
	if got := w.do(key, "GET /endpoints", ""); got.status != 401 {
		t.Errorf("with the revoked key = %d, want 401", got.status)
	}
	w.want(404, "DELETE /api-keys/key_01h455vb4pex5vsknk084sn02q", "")
}

func TestWhatOthersDoToAKeyIsSeenWithinSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		soon := w.key(postrider.APIKey{Scopes: []postrider.Scope{postrider.ScopeWebhooksRead}, ExpiresAt: time.Now().Add(time.Second)})
		key := w.key(postrider.APIKey{Scopes: []postrider.Scope{postrider.ScopeWebhooksRead}})
		for _, k := range []string{key, soon} {
			if got := w.do(k, "GET /events", ""); got.status != 200 {
				t.Fatalf("key in force = %d", got.status)
			}
		}
		keys := w.want(200, "GET /api-keys", "").data()
		id, err := postrider.ParseID[postrider.KeyID](keys[0]["id"].(string))
		if err != nil || w.store.RevokeKey(t.Context(), id) != nil { // as another node would
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		for _, k := range []string{key, soon} {
			if got := w.do(k, "GET /events", ""); got.status != 401 {
				t.Errorf("revoked or expired = %d, want 401", got.status)
			}
		}
	})
}

// TestAKeyExpiresByTheTimeOfTheStore sets this machine's clock an hour behind the store's clock,
// and then an hour ahead.
func TestAKeyExpiresByTheTimeOfTheStore(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{time.Hour, -time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			clock := store.NewClock(nil)
			clock.Follow(store.Reading{Asked: time.Now(), Answered: time.Now(), Wall: time.Now().Add(ahead)})
			w := newWorldOver(t, memory.New(memory.Options{Clock: clock}), api.Options{})
			// By this machine the first has expired and the second has not, or the other way round.
			over := w.key(postrider.APIKey{Scopes: []postrider.Scope{postrider.ScopeAdmin}, ExpiresAt: clock.Wall().Add(-30 * time.Minute)})
			valid := w.key(postrider.APIKey{Scopes: []postrider.Scope{postrider.ScopeAdmin}, ExpiresAt: clock.Wall().Add(30 * time.Minute)})
			if got := w.do(over, "GET /events", ""); got.status != 401 {
				t.Errorf("the store is %v ahead; a key that expired half an hour ago: %d, want 401", ahead, got.status)
			}
			got := w.do(valid, "GET /api-keys", "")
			if got.status != 200 {
				t.Fatalf("the store is %v ahead; a key in force: %d %s", ahead, got.status, got.text)
			}
			keys := got.data()
			used := time.Now().Add(ahead).UTC().Format("2006-01-02T15:04:05.000000Z")
			if keys[0]["last_used_at"] != used && keys[1]["last_used_at"] != used && keys[2]["last_used_at"] != used {
				t.Errorf("the store is %v ahead; the keys are %v, want that one was used at %s", ahead, keys, used)
			}
			time.Sleep(30 * time.Minute)
			if got := w.do(valid, "GET /events", ""); got.status != 401 {
				t.Errorf("the store is %v ahead; at the end of its time a key is answered %d, want 401", ahead, got.status)
			}
		})
	}
}

func TestAKeyIsReadOnceAndTouchedOnceAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var last any
		changes := 0
		for range 60 { // two minutes of use
			w.want(200, "GET /events", "")
			keys := w.want(200, "GET /api-keys", "").data()
			if keys[0]["last_used_at"] != last {
				last = keys[0]["last_used_at"]
				changes++
			}
			time.Sleep(2 * time.Second)
		}
		if changes != 2 {
			t.Errorf("last_used_at changed %d times in two minutes, want 2", changes)
		}
	})
}

// FuzzBearer checks that only the exact key is accepted, whatever the header looks like.
func FuzzBearer(f *testing.F) {
	for _, seed := range []string{
		"", "Bearer", "Bearer ", "Basic eDp5", "bearer KEY", "Bearer  KEY", "BEARER   KEY", "Bearer\tKEY",
		"Bearer KEY ", "Bearer KEY,KEY", "Bearer \x00", "KEY",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		w := newWorld(t)
		header = strings.ReplaceAll(header, "KEY", w.admin)
		r := w.request("", "GET /events", "")
		r.Header["Authorization"] = []string{header}
		scheme, token, _ := strings.Cut(header, " ")
		want := http.StatusUnauthorized
		if strings.EqualFold(scheme, "Bearer") && strings.TrimLeft(token, " ") == w.admin {
			want = http.StatusOK
		}
		if got := w.send(r); got.status != want {
			t.Errorf("Authorization %q = %d, want %d", header, got.status, want)
		}
	})
}
