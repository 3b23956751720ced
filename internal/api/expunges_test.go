package api_test

import (
	"testing"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

func TestExpunges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.tenant("acme")
	for _, body := range []string{
		`{}`, `{"event": "` + acme.event + `", "account": "acme"}`, `{"event": "` + acme.account + `"}`, `{"account": "nobody"}`,
		`{"endpoint": "ep_01h455vb4pex5vsknk084sn02q"}`,
	} {
		w.want(422, "POST /expunges", body)
	}
	operator := w.key(postrider.APIKey{Name: "operator", Scopes: []postrider.Scope{postrider.ScopeWebhooksOperate}})
	for _, key := range []string{w.bound(acme), operator} {
		if got := w.do(key, "POST /expunges", `{"account": "acme"}`); got.status != 403 {
			t.Errorf("an expunge without the rights of an admin = %d", got.status)
		}
	}
	begun := w.want(202, "POST /expunges", `{"event": "`+acme.event+`"}`)
	if begun.body["event"] != acme.event || begun.body["account"] != acme.account || begun.body["ended_at"] != nil {
		t.Errorf("the expunge is %s", begun.text)
	}
	if held := begun.body["still_held"].([]any); held[0] != "backups_without_list" || held[len(held)-1] != "files" {
		t.Errorf("it is still held by %v", held)
	}
	second := w.want(202, "POST /expunges", `{"account": "acme"}`).id("id")
	if list := w.want(200, "GET /expunges?running=true", "").data(); len(list) != 2 || list[0]["id"] != second {
		t.Errorf("the list is %v", list)
	}
	if got := w.want(200, "GET /expunges/"+second, ""); got.body["event"] != nil || got.body["created_by"] == "" {
		t.Errorf("the second is %s", got.text)
	}
	w.want(404, "GET /expunges/xpg_01h455vb4pex5vsknk084sn02q", "")
}

func TestAnExpungeSaysHowItGoesInTheArchive(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.tenant("acme")
	begun := w.want(202, "POST /expunges", `{"endpoint": "`+acme.endpoint+`"}`).id("id")
	id, err := postrider.ParseID[postrider.ExpungeID](begun)
	if err != nil {
		t.Fatal(err)
	}
	e := postrider.Expunge{ID: id, Archive: postrider.ExpungeArchive{Held: true, Fault: "the disk is away"}}
	if err := w.store.NoteExpunge(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	got := w.want(200, "GET /expunges/"+begun, "")
	if held := got.body["still_held"].([]any); held[len(held)-1] != "archive" || got.body["archive_error"] != "the disk is away" {
		t.Errorf("the expunge is %s", got.text)
	}
}

// TestARestoredStoreResumesAfterItsExpunges checks that a restored store sends nothing before it
// has made the expunges of its list again.
func TestARestoredStoreResumesAfterItsExpunges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.tenant("acme")
	_, err := w.store.PutHold(t.Context(), postrider.HoldRestored)
	if err != nil {
		t.Fatal(err)
	}
	w.want(202, "POST /expunges", `{"event": "`+acme.event+`"}`)
	if got := w.want(409, "POST /hold/resume", ""); got.body["code"] != "expunges_unfinished" {
		t.Errorf("a resumption is refused with %s", got.text)
	}
	page, err := w.store.Expunges(t.Context(), store.ExpungeQuery{Running: true})
	if err != nil {
		t.Fatal(err)
	}
	d, err := w.store.Deliveries(t.Context(), store.DeliveryQuery{Event: page.Items[0].Event, Status: postrider.Pending})
	if err != nil {
		t.Fatal(err)
	}
	for _, pending := range d.Items {
		if _, err := w.store.Cancel(t.Context(), store.Cancel{Delivery: pending.ID}); err != nil {
			t.Fatal(err)
		}
	}
	for range 5 {
		removal := store.ExpungeRows{ID: page.Items[0].ID, Limit: 100, Settled: postrider.ExpungeSettled}
		if _, err := w.store.ExpungeRows(t.Context(), removal); err != nil {
			t.Fatal(err)
		}
	}
	w.want(200, "POST /hold/resume", "")
}
