package api_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/api"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/memory"
)

// audit returns the entries of the audit log, oldest first.
func (w *world) audit(query string) []map[string]any {
	w.Helper()
	entries := w.want(200, "GET /audit"+query, "").data()
	slices.Reverse(entries)
	return entries
}

func TestEveryChangeIsInTheAuditLog(t *testing.T) {
	t.Parallel()
	w := newPeople(t)
	acme := w.tenant("acme")
	w.settle(acme.endpoint, postrider.Attempt{StatusCode: 410})
	account, err := postrider.ParseID[postrider.AccountID](acme.account)
	if err != nil {
		t.Fatal(err)
	}
	session := postrider.SessionID{9}
	secret := w.want(200, "GET /endpoints/"+acme.endpoint+"/secret-states", "").data()[0]["id"].(string)
	do := w.as(postrider.Caller{
		Session: session, Name: "Ann", Account: account, Scopes: []postrider.Scope{postrider.ScopeWebhooksWrite},
		Request: "req_page",
	})
	endpoint := "/endpoints/" + acme.endpoint
	for _, tt := range []struct {
		route, body      string
		status           int
		action, object   string
		objectID, fields any
	}{
		{
			"PATCH " + endpoint, `{"url": "https://new.example/token?t=hush", "auth": {"type": "bearer", "token": "hush"}}`, 200, "update-endpoint",
			"endpoint", acme.endpoint, "auth, url",
		},
		{"POST " + endpoint + "/enable", "", 200, "enable-endpoint", "endpoint", acme.endpoint, nil},
		{"POST " + endpoint + "/test", "", 202, "test-endpoint", "endpoint", acme.endpoint, nil},
		{"GET " + endpoint + "/secrets", "", 200, "list-secrets", "endpoint", acme.endpoint, nil},
		{"POST " + endpoint + "/secrets/" + secret + "/reveal", "", 200, "reveal-secret", "secret", secret, nil},
		{"GET " + endpoint + "/secret-states", "", 200, "", "", nil, nil},
		{"POST " + endpoint + "/secrets/rotate", "{}", 200, "rotate-secret", "endpoint", acme.endpoint, nil},
		{"POST /dead-letters/" + acme.delivery + "/replay", "", 202, "replay-dead-letter", "delivery", acme.delivery, nil},
		{"POST /events/" + acme.event + "/replay", `{"status": "dead"}`, 409, "", "", nil, nil},
		{"GET " + endpoint, "", 200, "", "", nil, nil},
		{"POST " + endpoint + "/pause", `{"reason": 1}`, 422, "", "", nil, nil},
	} {
		before := len(w.audit(""))
		if got := do(tt.route, tt.body); got.status != tt.status && tt.status != 409 {
			t.Fatalf("%s = %d %s, want %d", tt.route, got.status, got.text, tt.status)
		}
		entries := w.audit("")[before:]
		if tt.action == "" {
			if tt.status != 409 && len(entries) != 0 {
				t.Errorf("%s has the entries %v, want none", tt.route, entries)
			}
			continue
		}
		if len(entries) != 1 {
			t.Errorf("%s has the entries %v, want one", tt.route, entries)
			continue
		}
		details, _ := entries[0]["details"].(map[string]any)
		has(t, tt.route, entries[0], map[string]any{
			"action": tt.action, "object": tt.object, "object_id": tt.objectID, "outcome": "ok", "name": "Ann", "session": session.String(),
			"key": nil, "account": acme.account, "request_id": "req_page",
		})
		if details["fields"] != tt.fields {
			t.Errorf("%s has the details %v, want the fields %v", tt.route, details, tt.fields)
		}
	}
	if all := w.want(200, "GET /audit", "").text; strings.Contains(all, "hush") || strings.Contains(all, "whsec_") {
		t.Errorf("the audit log has a secret: %s", all)
	}
	host, _ := w.audit("?action=update-endpoint")[0]["details"].(map[string]any)
	if host["host"] != "https://acme.example to https://new.example" {
		t.Errorf("the changed host is %v", host)
	}
}

func TestTheAuditLogIsFiltered(t *testing.T) {
	t.Parallel()
	w := newPeople(t)
	acme, evil := w.tenant("acme"), w.tenant("evil")
	made := w.want(201, "POST /api-keys", `{"name": "ci", "scopes": ["webhooks:write"]}`)
	if got := w.do(made.id("key"), "POST /endpoints/"+acme.endpoint+"/pause", ""); got.status != 200 {
		t.Fatal(got.text)
	}
	if got := w.do(made.id("key"), "DELETE /accounts/evil", ""); got.status != 403 {
		t.Fatal(got.text)
	}
	for query, want := range map[string][]string{
		"?key=" + made.id("id"): {"pause-endpoint", "delete-account"}, "?key=" + made.id("id") + "&account=acme": {"pause-endpoint"},
		"?account=evil": {"create-account", "create-endpoint"}, "?object=" + made.id("id"): {"create-api-key"},
		"?action=create-account&object=" + evil.account: {"create-account"}, "?object=evil": {"delete-account"},
		"?from=2999-01-01T00:00:00Z": nil, "?session=ses_01h455vb4pex5vsknk084sn02q": nil, "?limit=1": {"delete-account"},
	} {
		var got []string
		for _, e := range w.audit(query) {
			got = append(got, e["action"].(string))
		}
		if !slices.Equal(got, want) {
			t.Errorf("GET /audit%s = %v, want %v", query, got, want)
		}
	}
	if refused := w.audit("?object=evil")[0]; refused["outcome"] != "forbidden" || refused["name"] != "ci" && refused["name"] != "test" {
		t.Errorf("the refused deletion is %v", refused)
	}
	for _, query := range []string{"?key=x", "?session=x", "?account=nobody"} {
		w.want(422, "GET /audit"+query, "")
	}
}

func TestLoginsAreInTheAuditLog(t *testing.T) {
	t.Parallel()
	w := newPeople(t)
	acme := w.tenant("acme")
	_, _, wrong := w.sessions().Login(t.Context(), "pr_wrong", loopback)
	token, _, err := w.sessions().Login(t.Context(), w.admin, loopback)
	if err := errors.Join(err, w.sessions().Logout(t.Context(), token)); err != nil || wrong == nil {
		t.Fatal(err, wrong)
	}
	w.portalSession(acme)
	var got []string
	for _, e := range w.audit("") {
		action, outcome, name := e["action"].(string), e["outcome"].(string), e["name"].(string)
		if details, _ := e["details"].(map[string]any); details["client"] != nil || action == "logout" {
			got = append(got, strings.TrimSpace(action+" "+outcome+" "+name))
		}
	}
	if want := []string{"login unauthorized", "login ok test", "logout ok test", "open-portal ok"}; !slices.Equal(got, want) {
		t.Errorf("the audit log has %q, want %q", got, want)
	}
}

// silent is a store whose audit log can be made unavailable.
type silent struct {
	store.Store
	away atomic.Bool
}

func (s *silent) AppendAudit(ctx context.Context, e postrider.AuditEntry) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.away.Load() {
		return errors.Join(errors.New("the disk is full"), postrider.ErrBusy)
	}
	return s.Store.AppendAudit(ctx, e)
}

func TestWithoutItsAuditEntryNothingIsConfirmed(t *testing.T) {
	t.Parallel()
	over := &silent{Store: memory.New(memory.Options{})}
	w := newWorldOver(t, over, api.Options{})
	acme := w.tenant("acme")
	over.away.Store(true)
	shown := w.do(w.admin, "GET /endpoints/"+acme.endpoint+"/secrets", "")
	if shown.status != 503 || strings.Contains(shown.text, "whsec_") {
		t.Errorf("secrets without an entry = %d %s, want 503", shown.status, shown.text)
	}
	paused := w.do(w.admin, "POST /endpoints/"+acme.endpoint+"/pause", "")
	if paused.status != 503 || !strings.Contains(paused.text, "audit log") || paused.header.Get("Retry-After") == "" {
		t.Errorf("a pause without an entry = %d %s, want 503", paused.status, paused.text)
	}
	if _, _, err := w.sessions().Login(t.Context(), w.admin, loopback); err == nil {
		t.Error("a login without an entry succeeded")
	}
	if log := w.log.String(); !strings.Contains(log, "audit entry was not stored") || !strings.Contains(log, "pause-endpoint") {
		t.Errorf("the log has no entry: %s", log)
	}
	over.away.Store(false)
	if got := w.want(200, "POST /endpoints/"+acme.endpoint+"/pause", ""); got.body["status"] != "paused" {
		t.Errorf("the repeated request = %s", got.text)
	}
	if entries := w.audit("?action=pause-endpoint"); len(entries) != 1 {
		t.Errorf("entries = %v, want the repeated request's", entries)
	}
}

func TestAnEntryIsWrittenWhenTheClientIsGone(t *testing.T) {
	t.Parallel()
	w := newWorldOver(t, &silent{Store: memory.New(memory.Options{})}, api.Options{})
	acme := w.tenant("acme")
	ctx, cancel := context.WithCancel(t.Context())
	r := w.request(w.admin, "GET /endpoints/"+acme.endpoint+"/secrets", "").WithContext(ctx)
	hangUp{w.handler, cancel}.ServeHTTP(httptest.NewRecorder(), r)
	if entries := w.audit("?action=list-secrets"); len(entries) != 1 {
		t.Errorf("entries = %v, want one", entries)
	}
}

// hangUp is a client that disconnects as soon as its request has arrived.
type hangUp struct {
	http.Handler
	cancel context.CancelFunc
}

func (c hangUp) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.cancel()
	c.Handler.ServeHTTP(w, r)
}

func TestACountIsNotInTheAuditLog(t *testing.T) {
	t.Parallel()
	w := newPeople(t)
	w.want(200, "POST /replays/dry-run", "")
	if got := w.want(200, "GET /audit", "").data(); len(got) != 0 {
		t.Errorf("a dry run is audited: %v", got)
	}
}

// TestTheObjectOfAnEntryIsWholeText sends a long name without the needed scope. The cut must not
// split a character, because PostgreSQL could not store half a character.
func TestTheObjectOfAnEntryIsWholeText(t *testing.T) {
	t.Parallel()
	w := newPeople(t)
	do := w.as(postrider.Caller{Name: "Ann", Scopes: []postrider.Scope{postrider.ScopeWebhooksRead}})
	if got := do("DELETE /event-types/x"+strings.Repeat("%C3%BC", 200), ""); got.status != 403 {
		t.Fatalf("without the scope = %d %s, want 403", got.status, got.text)
	}
	entries := w.audit("")
	object, _ := entries[len(entries)-1]["object_id"].(string)
	if want := "x" + strings.Repeat("ü", 127); object != want {
		t.Errorf("the object is %q, want %q", object, want)
	}
}

// TestAnEntryHasOldAndNewValues checks that an entry has the old and the new value of each changed
// field. Of a long value it has the beginning. Of a field that may have secrets it has no value.
func TestAnEntryHasOldAndNewValues(t *testing.T) {
	t.Parallel()
	w := newPeople(t)
	acme := w.tenant("acme")
	w.want(201, "POST /event-types", `{"name": "invoice.paid", "description": "Paid."}`)
	if entries := w.audit("?action=create-event-type"); len(entries) != 1 || entries[0]["object_id"] != "invoice.paid" {
		t.Errorf("the entry of a new event type is %v, want its name as the object", entries)
	}
	long := strings.Repeat("ü", 200)
	for _, test := range []struct {
		route, body string
		want        map[string]any
	}{
		{"PATCH /endpoints/" + acme.endpoint, `{"timeout_ms": 20000, "description": "` + long + `", "concurrency": 10}`, map[string]any{
			"fields": "concurrency, description, timeout_ms", "timeout_ms": "10000 → 20000", "description": `"" → "` + strings.Repeat("ü", 49) + "…",
		}},
		{
			"PATCH /endpoints/" + acme.endpoint,
			`{"url": "https://new.example/?t=hush", "headers": [{"name": "X-Key", "value": "hush"}], "auth": {"type": "basic", "username": "hush", "password": "hush"}}`,
			map[string]any{
				"fields": "auth, headers, url", "url": "changed", "headers": "changed", "auth": "changed",
				"host": "https://acme.example to https://new.example",
			},
		},
		{"PATCH /accounts/acme", `{"name": "Acme"}`, map[string]any{"fields": "name", "name": `"Tenant" → "Acme"`}},
		{"PATCH /event-types/invoice.paid", `{"description": null, "example": {"n": 1}}`, map[string]any{
			"fields": "description, example", "description": `"Paid." → ""`, "example": `null → {"n":1}`,
		}},
		{"PUT /portal", `{"name": "Acme Hooks", "frame_origins": ["https://app.example"]}`, map[string]any{
			"fields": "frame_origins, name", "name": `"" → "Acme Hooks"`, "frame_origins": `[] → ["https://app.example"]`,
		}},
	} {
		before := len(w.audit(""))
		w.want(200, test.route, test.body)
		entries := w.audit("")[before:]
		if len(entries) != 1 || !reflect.DeepEqual(entries[0]["details"], test.want) {
			t.Errorf("%s has the entries %v, want one with the details %v", test.route, entries, test.want)
		}
	}
	if all := w.want(200, "GET /audit", "").text; strings.Contains(all, "hush") {
		t.Errorf("the audit log has a secret: %s", all)
	}
}
