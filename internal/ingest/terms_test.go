package ingest_test

import (
	"slices"
	"sync/atomic"
	"testing"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/ingest"
	"github.com/postrider/postrider/internal/store"
)

// putType stores an event type with paths.
func (r *harness) putType(name string, paths ...string) {
	r.Helper()
	page, err := r.store.EventTypes(r.Context(), store.EventTypeQuery{Name: name})
	if err != nil {
		r.Fatal(err)
	}
	t := postrider.EventType{Name: name}
	for _, stored := range page.Items {
		t.Revision = stored.Revision
	}
	for _, path := range paths {
		t.Paths = append(t.Paths, postrider.IndexedPath{Path: path})
	}
	if err := r.store.PutEventType(r.Context(), t); err != nil {
		r.Fatal(err)
	}
}

// byTerm returns the events with the term.
func (r *harness) byTerm(term store.Term) []postrider.EventID {
	r.Helper()
	page, err := r.store.FindEvents(r.Context(), store.TermQuery{Terms: []store.Term{term}})
	if err != nil {
		r.Fatal(err)
	}
	return page.Items
}

// The table of this node has not heard of a change of the paths when the event is published, as if
// another node had made the change. All the same the event has the terms of the new paths.
func TestEventsHaveTheTermsOfThePathsAtTheirCommit(t *testing.T) {
	t.Parallel()
	var made atomic.Int64
	r := newHarness(t, ingest.Options{Terms: func(e *postrider.Event, paths []postrider.Path) (terms []store.Term) {
		made.Add(1)
		for _, p := range paths {
			terms = append(terms, store.Term(len(p.Text)*100+len(e.Data)))
		}
		return terms
	}})
	defer r.run()()
	r.endpoints(1, postrider.EndpointEnabled)

	r.publish(r.event("", `1`))
	r.putType("order.created", "$.a")
	first := r.publish(r.event("", `22`), r.event("", `333`))
	for i, want := range []store.Term{302, 303} {
		if got := r.byTerm(want); !slices.Equal(got, []postrider.EventID{first[i].ID}) {
			t.Errorf("event %d: the term %d finds %v", i, want, got)
		}
	}
	plain := r.event("", `55555`)
	plain.About.ContentType = "text/plain"
	r.publish(plain)
	if n := made.Load(); n != 2 {
		t.Errorf("terms were made %d times, want 2", n)
	}
	r.publish(r.event("", `22`))
	if n := made.Load(); n != 3 {
		t.Errorf("terms were made %d times, want once more", n)
	}
	r.putType("order.created", "$.aa", "$.bbb")
	second := r.publish(r.event("", `4444`))
	if a, b := r.byTerm(404), r.byTerm(504); !slices.Equal(a, b) || !slices.Equal(a, []postrider.EventID{second[0].ID}) {
		t.Errorf("the new paths find %v and %v", a, b)
	}
	if got := r.byTerm(304); len(got) > 0 {
		t.Errorf("the old path finds %v", got)
	}
	r.putType("order.created")
	r.publish(r.event("", `55555`))
	if got := r.byTerm(505); len(got) > 0 {
		t.Errorf("a path that is gone finds %v", got)
	}
}
