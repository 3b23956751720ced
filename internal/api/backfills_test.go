package api_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/api"
)

// late publishes four events of an account, and returns the body of an endpoint that wants two of
// them.
func (w *world) late(uid string) string {
	w.Helper()
	for i, event := range []string{"order.created", "order.created", "order.paid", "user.created"} {
		w.want(202, "POST /events", fmt.Sprintf(`{"account": %q, "type": %q, "data": {"n": %d}}`, uid, event, i))
	}
	return `{"account": "` + uid + `", "url": "https://late.example/hooks", "event_types": ["order.*"],
		"filter": {"data": {"n": [{"numeric": [">", 0]}]}}`
}

// since returns the body of a backfill that starts so long ago.
func since(ago time.Duration) string {
	return `{"start_from": "` + time.Now().Add(-ago).UTC().Format(time.RFC3339) + `", "per_second": 20, "note": "new"}`
}

func TestASubscriptionStartsInThePast(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.tenant("acme")
	endpoint := w.want(201, "POST /endpoints", w.late("acme")+"}").id("id")
	route := "/endpoints/" + endpoint + "/backfill"
	has(t, "dry run", w.want(200, "POST "+route+"/dry-run", since(time.Hour)).body, map[string]any{
		"matches": 2.0, "exact": true, "kept_since": nil,
	})
	if got := w.want(200, "GET /replays", "").data(); len(got) != 0 {
		t.Errorf("the dry run made %v", got)
	}
	made := w.want(202, "POST "+route, since(time.Hour))
	has(t, "the replay", made.body, map[string]any{
		"status": "running", "action": "backfill", "account": acme.account, "endpoint": endpoint, "statuses": []any{}, "per_second": 20.0,
		"note": "new", "expected": map[string]any{"matches": 2.0, "exact": true, "kept_since": nil},
	})
	has(t, "a second one", w.want(409, "POST "+route, since(time.Hour)).body, map[string]any{"code": "backfill_running"})
	w.want(200, "POST /replays/"+made.id("id")+"/cancel", "")
	w.want(202, "POST "+route, since(time.Hour))
	entry := w.want(200, "GET /audit?action=backfill-endpoint", "").data()[0]
	details, _ := entry["details"].(map[string]any)
	if text, _ := details["start_from"].(string); entry["object_id"] != endpoint || !strings.HasSuffix(text, "Z") {
		t.Errorf("the audit entry is %v", entry)
	}
}

// What the endpoint got is no match, and neither is what it gets by a test.
func TestABackfillLeavesOutWhatHasADelivery(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.tenant("acme")
	w.want(202, "POST /endpoints/"+acme.endpoint+"/test", "")
	counted := func(want int) {
		t.Helper()
		has(t, "dry run", w.want(200, "POST /endpoints/"+acme.endpoint+"/backfill/dry-run", since(time.Hour)).body,
			map[string]any{"matches": float64(want)})
	}
	counted(0)
	w.want(202, "POST /events", `{"account": "acme", "type": "user.created", "data": 1}`)
	counted(0)
	w.want(200, "PATCH /endpoints/"+acme.endpoint, `{"event_types": ["*"]}`)
	counted(1)
}

// Before the time from which all is kept, the record of a delivery may be deleted already.
func TestABackfillStartsWhereAllIsKept(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, api.Options{Retention: postrider.AccountRetention{Events: 30, Attempts: 7, Bodies: 7, IdempotencyKeys: 7}})
	old := time.Now().AddDate(0, 0, -60).UTC()
	account := postrider.Account{ID: postrider.MakeID[postrider.AccountID](old, [10]byte{}), UID: "old", Name: "Old", CreatedAt: old}
	if err := w.store.PutAccount(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	route := "/endpoints/" + w.want(201, "POST /endpoints", w.late("old")+"}").id("id") + "/backfill"
	const ancient = `{"start_from": "2001-01-01T00:00:00Z"}`
	counted := w.want(200, "POST "+route+"/dry-run", ancient).body
	kept, err := time.Parse(time.RFC3339, fmt.Sprint(counted["kept_since"]))
	if days := time.Since(kept).Hours() / 24; err != nil || days < 6.9 || days > 7.1 || counted["matches"] != 2.0 {
		t.Errorf("the dry run says %v, want 2 matches kept for 7 days", counted)
	}
	made := w.want(202, "POST "+route, ancient).body
	expected, _ := made["expected"].(map[string]any)
	if made["from"] != expected["kept_since"] {
		t.Errorf("the replay begins at %v, but all is kept since %v", made["from"], expected["kept_since"])
	}
}

func TestAnOrderedEndpointIsPausedForABackfill(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	endpoint := w.want(201, "POST /endpoints", w.late("acme")+`, "order": "by_key"}`).id("id")
	route := "POST /endpoints/" + endpoint + "/backfill"
	w.want(200, route+"/dry-run", since(time.Hour))
	has(t, "enabled", w.want(409, route, since(time.Hour)).body, map[string]any{"code": "endpoint_not_paused"})
	w.want(200, "POST /endpoints/"+endpoint+"/pause", "")
	job := w.want(202, route, since(time.Hour)).id("id")
	has(t, "resumed too early", w.want(409, "POST /endpoints/"+endpoint+"/resume", "").body, map[string]any{"code": "backfill_running"})
	w.want(200, "POST /endpoints/"+endpoint+"/disable", "")
	w.want(409, "POST /endpoints/"+endpoint+"/enable", "")
	w.want(200, "POST /replays/"+job+"/cancel", "")
	w.want(200, "POST /endpoints/"+endpoint+"/enable", "")
	w.want(200, "POST /endpoints/"+endpoint+"/resume", "")
}

func TestABackfillIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, evil := w.tenant("acme"), w.tenant("evil")
	route := "POST /endpoints/" + acme.endpoint + "/backfill"
	for body, field := range map[string]string{
		`{}`:                          "start_from",
		`{"start_from": null}`:        "start_from",
		`{"start_from": "yesterday"}`: "start_from",
		since(-time.Hour):             "start_from",
		strings.Replace(since(time.Hour), "20,", "5001,", 1): "per_second",
	} {
		for _, path := range []string{route, route + "/dry-run"} {
			if got := w.want(422, path, body).fields(); len(got) != 1 || got[0] != field {
				t.Errorf("%s %s is refused for %v, want %s", path, body, got, field)
			}
		}
	}
	id, err := postrider.ParseID[postrider.AccountID](evil.account)
	if err != nil {
		t.Fatal(err)
	}
	foreign := w.key(postrider.APIKey{Account: id, Scopes: []postrider.Scope{postrider.ScopeWebhooksWrite}})
	reader := w.key(postrider.APIKey{Scopes: []postrider.Scope{postrider.ScopeWebhooksRead}})
	for _, tt := range []struct {
		key, path string
		want      int
	}{{foreign, route, 404}, {foreign, route + "/dry-run", 404}, {reader, route, 403}, {reader, route + "/dry-run", 200}} {
		if got := w.do(tt.key, tt.path, since(time.Hour)); got.status != tt.want {
			t.Errorf("%s = %d %s, want %d", tt.path, got.status, got.text, tt.want)
		}
	}
	w.want(204, "DELETE /endpoints/"+acme.endpoint, "")
	has(t, "deleted", w.want(409, route, since(time.Hour)).body, map[string]any{"code": "endpoint_deleted"})
}
