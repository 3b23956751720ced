package api_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/api"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/memory"
)

// TestAReplayIsCreatedAndChanged covers the routes of replay jobs without the runner. Package
// replay tests the runner.
func TestAReplayIsCreatedAndChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.tenant("acme")
	w.settle(acme.endpoint, postrider.Attempt{StatusCode: 410})
	body := `{"endpoint": "` + acme.endpoint + `", "statuses": ["skipped", "dead"], "event_types": ["order.*"],
		"reason": "gone", "per_second": 20, "note": "mended", "from": "2001-01-01T00:00:00Z"}`
	has(t, "dry run", w.want(200, "POST /replays/dry-run", body).body, map[string]any{"matches": 1.0, "exact": true})
	if got := w.want(200, "GET /replays", "").data(); len(got) != 0 {
		t.Errorf("the dry run made %v", got)
	}
	made := w.want(201, "POST /replays", body)
	has(t, "the replay", made.body, map[string]any{
		"status": "running", "action": "replay", "account": acme.account, "endpoint": acme.endpoint, "reason": "gone",
		"per_second": 20.0, "note": "mended", "created_by": "test", "matched": 0.0, "handled": 0.0, "position": nil,
		"from": "2001-01-01T00:00:00.000000Z", "to": nil, "ended_at": nil, "error": nil, "event": nil,
	})
	route := "/replays/" + made.id("id")
	for _, step := range []struct{ verb, status string }{
		{"pause", "paused"}, {"pause", "paused"}, {"resume", "running"}, {"cancel", "cancelled"}, {"cancel", "cancelled"},
	} {
		has(t, step.verb, w.want(200, "POST "+route+"/"+step.verb, "").body, map[string]any{"status": step.status})
	}
	for query, n := range map[string]int{"": 1, "?status=cancelled": 1, "?status=running": 0, "?account=acme": 1} {
		if got := w.want(200, "GET /replays"+query, "").data(); len(got) != n {
			t.Errorf("GET /replays%s = %d replays, want %d", query, len(got), n)
		}
	}
}

// TestAReplayInTheWrongStateSaysWhatToDo pauses, resumes and cancels jobs that have ended.
// Cancelling a job twice is no fault.
func TestAReplayInTheWrongStateSaysWhatToDo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, tt := range []struct {
		ended postrider.ReplayStatus
		again string // what may be repeated
		want  string
	}{
		{
			postrider.ReplayDone, "",
			"the replay is done: all that it selects was handled; a delivery of it that is pending can be cancelled by itself",
		},
		{postrider.ReplayFailed, "", "the replay is failed: create one with the same filter to handle the rest"},
		{postrider.ReplayCancelled, "cancel", "the replay is cancelled: create one with the same filter to handle the rest"},
	} {
		id := w.want(201, "POST /replays", "").id("id")
		if tt.ended == postrider.ReplayCancelled {
			w.want(200, "POST /replays/"+id+"/cancel", "")
		} else {
			w.endReplay(tt.ended)
		}
		for _, verb := range []string{"pause", "resume", "cancel"} {
			route := "POST /replays/" + id + "/" + verb
			if verb == tt.again {
				has(t, route, w.want(200, route, "").body, map[string]any{"status": string(tt.ended)})
				continue
			}
			has(t, route, w.want(409, route, "").body, map[string]any{"code": "replay_" + string(tt.ended), "detail": tt.want})
		}
		has(t, "the replay", w.want(200, "GET /replays/"+id, "").body, map[string]any{"status": string(tt.ended)})
	}
	w.want(404, "POST /replays/rpl_01h455vb4pex5vsknk084sn02q/pause", "")
	w.want(404, "POST /replays/next/pause", "")
}

// endReplay ends the running job, as a runner does.
func (w *world) endReplay(status postrider.ReplayStatus) {
	w.Helper()
	jobs, err := w.store.ClaimReplayJobs(w.Context(), store.ClaimReplayJobs{Max: 2, Token: 7, Lease: time.Minute})
	if err != nil || len(jobs) != 1 {
		w.Fatalf("claimed %v, %v; want the running job", jobs, err)
	}
	err = w.store.ReplayChunk(w.Context(), store.ReplayChunk{
		Job: jobs[0].ID, Token: 7, From: jobs[0].ReplayPosition, To: jobs[0].ReplayPosition, End: status,
	})
	if err != nil {
		w.Fatal(err)
	}
}

func TestAReplayOfAnotherAccountIsNotFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, other := w.tenant("acme"), w.tenant("other")
	account, err := postrider.ParseID[postrider.AccountID](other.account)
	if err != nil {
		t.Fatal(err)
	}
	foreign := w.key(postrider.APIKey{Name: "foreign", Account: account, Scopes: []postrider.Scope{postrider.ScopeWebhooksWrite}})
	everybody := w.want(201, "POST /replays", "").id("id")
	theirs := w.want(201, "POST /replays", `{"endpoint": "`+acme.endpoint+`"}`).id("id")
	for _, id := range []string{everybody, theirs} {
		for _, route := range []string{
			"GET /replays/" + id, "POST /replays/" + id + "/pause", "POST /replays/" + id + "/resume",
			"POST /replays/" + id + "/cancel",
		} {
			if got := w.do(foreign, route, ""); got.status != 404 {
				t.Errorf("%s by another account = %d %s", route, got.status, got.text)
			}
		}
	}
	if got := w.do(foreign, "GET /replays", ""); got.status != 200 || len(got.data()) != 0 {
		t.Errorf("the list of another account = %d %s", got.status, got.text)
	}
	for _, body := range []string{`{"endpoint": "` + acme.endpoint + `"}`, `{"event": "` + acme.event + `"}`, `{"account": "acme"}`} {
		if got := w.do(foreign, "POST /replays", body); got.status != 422 {
			t.Errorf("POST /replays %s by another account = %d %s", body, got.status, got.text)
		}
	}
	has(t, "own", w.do(foreign, "POST /replays", "").body, map[string]any{"account": other.account})
	reader := w.key(postrider.APIKey{Name: "reader", Scopes: []postrider.Scope{postrider.ScopeWebhooksRead}})
	if got := w.do(reader, "POST /replays", ""); got.status != 403 {
		t.Errorf("POST /replays by a reader = %d %s", got.status, got.text)
	}
	if got := w.do(reader, "POST /replays/dry-run", ""); got.status != 200 {
		t.Errorf("a dry run by a reader = %d %s", got.status, got.text)
	}
}

func TestAReplayThatCannotBeIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for body, field := range map[string]string{
		`{"statuses": ["pending"]}`:                                      "statuses",
		`{"action": "discard", "statuses": ["skipped"]}`:                 "statuses",
		`{"action": "resend"}`:                                           "action",
		`{"per_second": 0}`:                                              "per_second",
		`{"per_second": -1}`:                                             "per_second",
		`{"per_second": 5001}`:                                           "per_second",
		`{"event_types": ["order.*", "a b"]}`:                            "event_types[1]",
		`{"reason": "bored"}`:                                            "reason",
		`{"from": "2026-05-02T00:00:00Z", "to": "2026-05-01T00:00:00Z"}`: "from",
		`{"event": "evt_01h455vb4pex5vsknk084sn02q"}`:                    "event",
		`{"endpoint": "ep_01h455vb4pex5vsknk084sn02q"}`:                  "endpoint",
		`{"account": "nobody"}`:                                          "account",
		`{"dry_run": true}`:                                              "dry_run",
	} {
		if got := w.want(422, "POST /replays", body); len(got.fields()) != 1 || got.fields()[0] != field {
			t.Errorf("POST /replays %s names %v, want %s", body, got.fields(), field)
		}
	}
}

// TestAReplayOfATimeThatIsNotKeptSaysSo uses a server that keeps events for 30 days and attempts
// for 60 days, and accounts that are 50 days old. One of the accounts keeps its attempts for a
// week.
func TestAReplayOfATimeThatIsNotKeptSaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOf(t, api.Options{Retention: postrider.AccountRetention{Events: 30, Attempts: 60, Bodies: 30, IdempotencyKeys: 7}})
		acme, brief := w.tenant("acme"), w.tenant("brief")
		w.want(200, "PATCH /accounts/brief", `{"keep_attempts_days": 7}`)
		w.settle(acme.endpoint, postrider.Attempt{StatusCode: 200})
		time.Sleep(50 * 24 * time.Hour)
		w.tenant("new")
		ago := func(days int) string {
			return `"` + time.Now().AddDate(0, 0, -days).UTC().Format("2006-01-02T15:04:05.000000Z") + `"`
		}
		ofAcme, delivered := `"account": "acme", "action": "replay"`, `"statuses": ["delivered"]`
		for _, tt := range []struct {
			body string
			days int // that are kept, as the response says; 0: it does not say it
		}{
			{ofAcme, 0}, // unresolved dead letters keep their events
			{ofAcme + `, "to": ` + ago(29), 0},
			{ofAcme + `, "to": ` + ago(31), 30},
			{ofAcme + `, "from": ` + ago(35) + `, "to": ` + ago(31), 30},
			{ofAcme + `, "from": ` + ago(31), 0},
			{ofAcme + `, "from": ` + ago(31) + `, ` + delivered, 30},
			{ofAcme + `, "from": ` + ago(29) + `, ` + delivered, 0},
			{ofAcme + `, ` + delivered, 30},
			{ofAcme + `, "statuses": ["dead", "skipped"]`, 30},
			{`"endpoint": "` + brief.endpoint + `", "from": ` + ago(10) + `, ` + delivered, 7},
			{`"account": "new", ` + delivered, 0}, // it had nothing
			{`"event": "` + acme.event + `", "from": ` + ago(31), 0},
			{`"action": "discard", "from": ` + ago(31), 0},
			{delivered, 30},
		} {
			var want any
			if tt.days > 0 {
				want = strings.Trim(ago(tt.days), `"`)
			}
			dry := w.want(200, "POST /replays/dry-run", "{"+tt.body+"}")
			has(t, "a dry run of "+tt.body, dry.body, map[string]any{"kept_since": want})
			made := w.want(201, "POST /replays", "{"+tt.body+"}")
			for name, got := range map[string]response{"created": made, "read": w.want(200, "GET /replays/"+made.id("id"), "")} {
				has(t, name+" with "+tt.body, got.body["expected"].(map[string]any), map[string]any{"kept_since": want})
			}
		}
		for _, job := range w.want(200, "GET /replays", "").data() {
			has(t, "a job of the list", job["expected"].(map[string]any), map[string]any{"kept_since": nil})
		}
	})
}

// TestACountHasTheDeliveriesWhoseDataIsDeleted checks that a count includes deliveries whose data
// is deleted. The field kept_since says that they may be skipped.
func TestACountHasTheDeliveriesWhoseDataIsDeleted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOf(t, api.Options{Retention: postrider.AccountRetention{Events: 1, Attempts: 90, Bodies: 1, IdempotencyKeys: 1}})
		acme := w.tenant("acme")
		w.settle(acme.endpoint, postrider.Attempt{StatusCode: 200})
		time.Sleep(48 * time.Hour)
		old := store.DeleteOld{Kind: store.OldEvents, Before: time.Now().AddDate(0, 0, -1), Limit: 10}
		if n, err := w.store.DeleteOld(t.Context(), old); n != 1 || err != nil {
			t.Fatalf("deleted %d events (%v), want the delivered one", n, err)
		}
		got := w.want(200, "POST /replays/dry-run", `{"account": "acme", "statuses": ["delivered"]}`).body
		has(t, "the count", got, map[string]any{
			"matches": 1.0, "exact": true, "kept_since": old.Before.UTC().Format("2006-01-02T15:04:05.000000Z"),
		})
	})
}

// TestAnErrorDoesNotHideANewReplay uses a store that finds no account after it has stored the job.
func TestAnErrorDoesNotHideANewReplay(t *testing.T) {
	t.Parallel()
	over := &forgetful{Store: memory.New(memory.Options{})}
	w := newWorldOver(t, over, api.Options{Retention: postrider.AccountRetention{Events: 30, Attempts: 60, Bodies: 30, IdempotencyKeys: 7}})
	w.tenant("acme")
	w.want(201, "POST /replays", `{"account": "acme", "statuses": ["delivered"]}`)
}

// forgetful is a store whose accounts cannot be read after a replay job was stored.
type forgetful struct {
	store.Store

	stored atomic.Bool
}

func (f *forgetful) PutReplayJob(ctx context.Context, job postrider.ReplayJob) error {
	f.stored.Store(true)
	return f.Store.PutReplayJob(ctx, job)
}

func (f *forgetful) Accounts(ctx context.Context, q store.AccountQuery) (store.Page[postrider.Account], error) {
	if f.stored.Load() {
		return store.Page[postrider.Account]{}, postrider.ErrBusy
	}
	return f.Store.Accounts(ctx, q)
}
