package storetest

import (
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

var findsEvents = verb{
	"FindEvents", []sentence{
		{"events with one of the terms are found, each once, page by page, newest or oldest first", findEvents},
		{"the span selects", findEventsSpan},
		{"a publish that is repeated stores its terms once, and a duplicate and a refused batch store none", findEventsRepeated},
		{"events that DeleteOld or DeleteRows deleted are not found", findEventsDeleted},
		{"an expunge removes the terms with the event, and counts them", findEventsExpunged},
	},
}

// indexed publishes an event with terms.
func (w *world) indexed(account postrider.AccountID, terms ...store.Term) postrider.EventID {
	w.Helper()
	w.apart()
	e := w.event(account)
	e.Terms = terms
	w.publish(store.Batch{e})
	return e.Event.ID
}

// withTerms returns the events with one of the terms.
func (w *world) withTerms(terms ...store.Term) []postrider.EventID {
	w.Helper()
	page, err := w.FindEvents(w.Context(), store.TermQuery{Terms: terms})
	w.ok(err)
	return page.Items
}

func findEvents(w *world) {
	account := w.account()
	var want []postrider.EventID
	for i := range store.Term(4) {
		want = append(want, w.indexed(account, 7, -1<<63+i, 8))
	}
	w.indexed(account, 9)
	w.indexed(account)
	for _, oldest := range []bool{true, false} {
		w.same("the events", pages(w, func(id postrider.EventID) postrider.EventID { return id },
			func(p store.Paging) (store.Page[postrider.EventID], error) {
				p.OldestFirst = oldest
				return w.FindEvents(w.Context(), store.TermQuery{Terms: []store.Term{7, -1 << 63, 8}, Paging: p})
			}), want)
		slices.Reverse(want)
	}
	w.same("events with the least term", w.withTerms(-1<<63), want[:1])
	w.same("events with no term", w.withTerms(), []postrider.EventID{})
	w.same("events with a term that none has", w.withTerms(0), []postrider.EventID{})
}

func findEventsSpan(w *world) {
	account := w.account()
	first := w.indexed(account, 7)
	second := w.indexed(account, 7)
	for _, tt := range []struct {
		span store.Span
		want []postrider.EventID
	}{
		{store.Span{From: second.Time()}, []postrider.EventID{second}},
		{store.Span{To: second.Time()}, []postrider.EventID{first}},
		{store.Span{From: second.Time().Add(time.Hour)}, nil},
	} {
		page, err := w.FindEvents(w.Context(), store.TermQuery{Terms: []store.Term{7}, Span: tt.span})
		w.ok(err)
		w.same("the events of a span", page.Items, tt.want)
	}
}

func findEventsRepeated(w *world) {
	e := w.endpoint()
	event, again, other := w.keyed(e, "key", `{"n":1}`), w.keyed(e, "key", `{"n":1}`), w.keyed(e, "key", `{"n":2}`)
	event.Terms, again.Terms, other.Terms = []store.Term{1, 2}, []store.Term{3}, []store.Term{4}
	w.publish(store.Batch{event})
	w.publish(store.Batch{event})
	w.publish(store.Batch{again})
	w.publish(store.Batch{other})
	w.same("the events", w.withTerms(1, 2, 3, 4), []postrider.EventID{event.Event.ID})
	w.same("the events of refused ones", w.withTerms(3, 4), []postrider.EventID{})
}

func findEventsDeleted(w *world) {
	account := w.account()
	w.indexed(account, 7, 8)
	w.same("events that are deleted", w.deleteOld(account, store.OldEvents), 1)
	w.same("the events", w.withTerms(7, 8), []postrider.EventID{})
	w.indexed(account, 7)
	w.forget(store.OldEvents, all)
	young := w.indexed(account, 7)
	w.same("the events", w.withTerms(7), []postrider.EventID{young})
}

func findEventsExpunged(w *world) {
	account := w.account()
	w.indexed(account, 7, 8)
	one, other := w.indexed(account, 7, 8), w.indexed(w.account(), 7)
	x := w.newExpunge(account)
	x.Event = one
	x = w.expunge(x, 100)
	w.same("what an expunge of the event removes", x.Removed, postrider.ExpungeCounts{Events: 1, Terms: 2})
	w.same("the stored counts", w.readExpunge(x.ID).Removed, x.Removed)
	w.ok(w.DeleteAccount(w.Context(), account))
	x = w.expunge(w.newExpunge(account), 1)
	w.same("terms that an expunge of the account removes", x.Removed.Terms, 2)
	w.same("the events", w.withTerms(7, 8), []postrider.EventID{other})
}

// putType stores an event type with paths, and returns what is stored.
func (w *world) putType(name string, paths ...string) []postrider.IndexedPath {
	w.Helper()
	t := postrider.EventType{Name: name}
	for _, path := range paths {
		t.Paths = append(t.Paths, postrider.IndexedPath{Path: path})
	}
	page, err := w.EventTypes(w.Context(), store.EventTypeQuery{Name: name})
	w.ok(err)
	if len(page.Items) > 0 {
		t.Revision = page.Items[0].Revision
	}
	w.ok(w.PutEventType(w.Context(), t))
	page, err = w.EventTypes(w.Context(), store.EventTypeQuery{Name: name})
	w.ok(err)
	return page.Items[0].Paths
}

func putPaths(w *world) {
	before := w.putType("order.created", "$.b", "$.a")
	w.same("the paths", []string{before[0].Path, before[1].Path}, []string{"$.a", "$.b"})
	w.near("since when", before[0].Since.Sub(w.now()), 0)
	w.apart()
	after := w.putType("order.created", "$.c", "$.b")
	w.same("a path that stays", after[0], before[1])
	w.same("a new path is later", after[1].Path == "$.c" && after[1].Since.After(before[1].Since), true)
	w.same("no paths", len(w.putType("order.created")), 0)

	w.putType("a", "$.x")
	w.ok(w.PutEventType(w.Context(), postrider.EventType{Name: "b", Description: "long", Paths: []postrider.IndexedPath{{Path: "$.y"}}}))
	list := by(typeName, func(q store.EventTypeQuery) (store.Page[postrider.EventType], error) {
		return w.EventTypes(w.Context(), q)
	})
	selects(w, store.EventTypeQuery{Indexed: true}, list, []string{"a", "b"})
	page, err := w.EventTypes(w.Context(), store.EventTypeQuery{Indexed: true})
	w.ok(err)
	w.same("the description", page.Items[1].Description, "")
}

func changePaths(w *world) {
	since := w.changes(0, 10).Version
	w.putType("a", "$.x", "$.y")
	w.putType("b", "$.z")
	w.putType("b", "$.z") // changes nothing
	w.putType("c")
	c := w.changes(since, 10)
	w.same("the changes", c, store.Changes{Version: since + 2, Paths: map[string][]string{"a": {"$.x", "$.y"}, "b": {"$.z"}}})
	w.same("no changes", w.changes(c.Version, 10), store.Changes{Version: c.Version})
	w.ok(w.DeleteEventType(w.Context(), "a"))
	w.ok(w.DeleteEventType(w.Context(), "c"))
	w.same("after a deletion", w.changes(c.Version, 10), store.Changes{Version: c.Version + 1, Paths: map[string][]string{"b": {"$.z"}}})
}
