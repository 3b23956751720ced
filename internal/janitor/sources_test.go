package janitor_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/janitor"
	"github.com/postrider/postrider/internal/store"
)

// source makes a source that two janitors watch, and returns a function that changes the state that its
// reader notes for so long, every 10 s.
func (w *harness) source(paused bool) (s postrider.Source, reads func(d time.Duration, state postrider.SourceState)) {
	w.Helper()
	s = postrider.Source{
		ID: store.NewID[postrider.SourceID](w.ids), Name: "shop", URL: "postgres://r@p/shop", Keep: time.Hour, Paused: paused,
		CreatedAt: time.Now(),
	}
	w.ok(w.PutSource(w.Context(), s))
	return s, func(d time.Duration, state postrider.SourceState) {
		w.Helper()
		for range d / (10 * time.Second) {
			state.At = time.Now()
			w.ok(w.NoteSource(w.Context(), s.ID, state))
			time.Sleep(10 * time.Second)
		}
	}
}

func TestPeopleAreToldOfSourcesThatStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		s, reads := w.source(false)
		var reading sync.WaitGroup
		defer reading.Wait()
		reading.Go(func() {
			reads(5*time.Minute, postrider.SourceState{})
			reads(30*time.Second, postrider.SourceState{Error: "connect: refused", ErrorSince: time.Now()})
			reads(5*time.Minute, postrider.SourceState{})
			reads(10*time.Minute, postrider.SourceState{Error: "connect: refused", ErrorSince: time.Now()})
			reads(5*time.Minute, postrider.SourceState{Rejected: 3})
		})
		w.run(2, 40*time.Minute, w, janitor.Options{})

		// The janitors may write notices of the same moment in any order.
		w.same("the notices", slices.Sorted(slices.Values(w.notified(store.NoticeQuery{Object: s.ID.String()}))), []string{
			"12m0s source.stopped ", "21m0s source.recovered ", "21m0s source.rejected ", "28m0s source.stopped ",
		})
		page, err := w.Notices(w.Context(), store.NoticeQuery{Kind: postrider.NoticeSourceRejected})
		w.ok(err)
		w.same("the details", page.Items[0].Details, map[string]string{"source": "shop", "rejected": "3"})
	})
}

func TestPausedSourcesAreNotToldOf(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		w.source(true)
		w.run(1, time.Hour, w, janitor.Options{})
		w.same("the notices", w.notified(store.NoticeQuery{}), []string(nil))
	})
}
