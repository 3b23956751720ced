package web_test

import (
	"net/http"
	"testing"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/web"
)

// source makes a source in a state.
func (w *world) source(name string, state postrider.SourceState) (path string) {
	w.Helper()
	s, err := w.admin.PutSource(w.Context(), name, apitypes.SourcePut{DatabaseURL: "postgres://reader@producer.example/shop"}, true)
	if err != nil {
		w.Fatal(err)
	}
	state.At = w.store.Clock().Wall()
	if err := w.store.NoteSource(w.Context(), s.ID, state); err != nil {
		w.Fatal(err)
	}
	return "/dashboard/sources/" + s.ID.String()
}

// TestTheOverviewNamesSourcesThatNeedAPerson has one of each kind. Who may not see sources is told of none.
func TestTheOverviewNamesSourcesThatNeedAPerson(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	well := w.source("well", postrider.SourceState{})
	w.see("operator", "/dashboard").says(t, "Nothing needs attention")
	rejected := w.source("rejected", postrider.SourceState{Rejected: 3})
	w.see("operator", "/dashboard").says(t, `<div class="flash warn" id="verdict"`,
		`<strong><a href="/dashboard/sources">Rows of a source were rejected.</a></strong>`, `href="`+rejected+`">rejected</a>`)
	now := w.store.Clock().Wall()
	stopped := w.source("stopped", postrider.SourceState{Error: "password authentication failed", ErrorSince: now})
	got := w.see("operator", "/dashboard")
	got.says(t, `<div class="flash bad" id="verdict"`, `<strong><a href="/dashboard/sources">A source is not read.</a></strong>`,
		`href="`+stopped+`">stopped</a>`, `href="`+rejected+`">rejected</a>`, "password authentication failed", "All endpoints receive.")
	got.lacks(t, "Nothing needs attention", well)
	w.see("viewer", "/dashboard").lacks(t, stopped, rejected)
}

// TestTheIDOfARowLeadsToItsEvent looks for rows by their ids, also by the path of an event.
func TestTheIDOfARowLeadsToItsEvent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	row, other, nowhere := postrider.OutboxID{1}, postrider.OutboxID{2}, postrider.OutboxID{3}
	if _, err := w.admin.CreateAccount(t.Context(), apitypes.AccountCreate{UID: "globex"}); err != nil {
		t.Fatal(err)
	}
	globex, err := w.admin.Account(t.Context(), "globex")
	if err != nil {
		t.Fatal(err)
	}
	published := map[postrider.OutboxID]string{}
	for from, account := range map[postrider.OutboxID]postrider.AccountID{row: w.account.ID, other: globex.ID} {
		id := store.NewEventID(w.ids)
		published[from] = id.String()
		if _, err := w.store.Publish(t.Context(), store.Publish{Batches: []store.Batch{{{
			Event: postrider.Event{ID: id, Account: account, Type: "a", Data: []byte("1"), Row: from},
		}}}}); err != nil {
			t.Fatal(err)
		}
	}
	leads := func(person, base string, row postrider.OutboxID, to string) {
		t.Helper()
		first := w.as(person, "GET "+base+"/events/"+row.String(), nil).header.Get("Location")
		if found := w.as(person, "GET "+first, nil); found.header.Get("Location") != to {
			t.Errorf("%s: %s leads to %q and then %q, want %q", person, row, first, found.header.Get("Location"), to)
		}
	}
	leads("operator", "/dashboard", other, "/dashboard/events/"+published[other])
	leads("customer", "/portal", row, "/portal/events/"+published[row])
	leads("customer", "/portal", other, "")

	w.source("shop", postrider.SourceState{})
	search := "/search?q=" + nowhere.String()
	lost := w.as("operator", "GET /dashboard"+search, nil)
	lost.says(t, "The event is not published: no event was read from this row; the outbox of the source shop cannot be read now")
	if lost.status != http.StatusNotFound {
		t.Errorf("the search has the status %d", lost.status)
	}
	w.see("customer", "/portal"+search).lacks(t, "shop")
	w.as("operator", "GET /dashboard/events/obx_1", nil).says(t, "404")
}
