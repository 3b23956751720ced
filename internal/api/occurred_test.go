package api_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

func TestWhenAnEventOccurredIsReturned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.tenant("acme")
	const at = `{"account": "acme", "type": "a", "data": 1, "occurred_at": "2026-05-04T05:02:01.1234567+02:00"}`
	event := w.want(202, "POST /events", at).id("id")
	if got := w.want(200, "GET /events/"+event, "").body["occurred_at"]; got != "2026-05-04T03:02:01.123456Z" {
		t.Errorf("occurred_at = %v", got)
	}
	if got, has := w.want(200, "GET /events/"+acme.event, "").body["occurred_at"]; has {
		t.Errorf("occurred_at of an event whose publish did not say = %v", got)
	}
}

func TestFaultsOfWhenAnEventOccurred(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	in := func(d time.Duration) string { return time.Now().Add(d).Format(time.RFC3339) }
	for at, status := range map[string]int{
		`"` + in(9*time.Minute) + `"`: 202, `"1970-01-01T00:00:00Z"`: 202, `"` + in(11*time.Minute) + `"`: 422,
		`"1969-12-31T23:59:59Z"`: 422, `"0001-01-01T00:00:00Z"`: 422, `"yesterday"`: 422, `1`: 422, `null`: 422,
	} {
		for _, route := range []string{"events", "events/batch"} {
			body, field := fmt.Sprintf(`{"account": "acme", "type": "a", "data": 1, "occurred_at": %s}`, at), "occurred_at"
			if route == "events/batch" {
				body, field = `{"events": [`+body+`]}`, "events[0].occurred_at"
			}
			got := w.do(w.admin, "POST /"+route, body)
			var want []string
			if status != 202 {
				want = []string{field}
			}
			if diff := cmp.Diff(want, got.fields()); got.status != status || diff != "" {
				t.Errorf("%s to %s = %d %s, want %d (-want +got):\n%s", at, route, got.status, got.text, status, diff)
			}
		}
	}
}

// fromOutbox publishes an event of the account that was read from a row.
func (w *world) fromOutbox(account postrider.AccountID, row postrider.OutboxID) postrider.EventID {
	w.Helper()
	id := store.NewEventID(w.ids)
	changes, err := w.store.Changes(w.Context(), 0, 1000)
	if err != nil {
		w.Fatal(err)
	}
	_, err = w.store.Publish(w.Context(), store.Publish{Version: changes.Version, Batches: []store.Batch{{{
		Event: postrider.Event{ID: id, Account: account, Type: "a", Data: []byte("1"), Row: row},
	}}}})
	if err != nil {
		w.Fatal(err)
	}
	return id
}

func TestAnEventIsFoundByItsRow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, other := w.tenant("acme"), w.tenant("other")
	account, err := postrider.ParseID[postrider.AccountID](acme.account)
	if err != nil {
		t.Fatal(err)
	}
	row := postrider.OutboxID{1}
	id := w.fromOutbox(account, row).String()
	for _, path := range []string{"GET /events/" + id, "GET /events/" + row.String()} {
		got := w.want(200, path, "").body
		if got["id"] != id || got["outbox_id"] != row.String() {
			t.Errorf("%s = %v", path, got)
		}
	}
	hits := w.want(200, "GET /search?q="+row.String(), "").data()
	if len(hits) != 1 || hits[0]["id"] != id || hits[0]["kind"] != "event" {
		t.Errorf("the search finds %v", hits)
	}
	w.want(200, "GET /events/"+row.String()+"/deliveries", "")
	for name, got := range map[string]response{
		"of another account":   w.do(w.bound(other), "GET /events/"+row.String(), ""),
		"that is not recorded": w.do(w.admin, "GET /events/"+postrider.OutboxID{2}.String(), ""),
	} {
		if got.status != 404 {
			t.Errorf("a row %s = %d %s", name, got.status, got.text)
		}
	}
	w.want(200, "GET /search?q="+postrider.OutboxID{2}.String(), "")
}
