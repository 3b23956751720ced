package ingest_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/ingest"
	"github.com/postrider/postrider/internal/observe"
)

func TestObserversHearWhatIngestDoes(t *testing.T) {
	t.Parallel()
	accepted, refused, committed := make(chan observe.Accepted, 1), make(chan observe.Refused, 1), make(chan observe.Committed, 1)
	r := newHarness(t, ingest.Options{Hooks: observe.Hooks{
		Accepted:  func(a observe.Accepted) { accepted <- a },
		Refused:   func(r observe.Refused) { refused <- r },
		Committed: func(c observe.Committed) { committed <- c },
	}})
	r.endpoints(2, postrider.EndpointEnabled)
	if err := r.table.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	stop := r.run()
	began := time.Now()
	said := r.event("", `22`)
	said.About.Subject = "333"
	receipts := r.publish(r.event("", `1`), said)
	a, c := <-accepted, <-committed
	if a.Events != 2 || a.Bytes != 6 || a.Duplicates != 0 || len(a.Published) != 2 || !slices.Equal(a.Receipts, receipts) ||
		a.Published[1].ID != receipts[1].ID {
		t.Errorf("accepted %+v, want 2 events of 6 bytes with the receipts %+v", a, receipts)
	}
	if a.Begun.Before(began) || a.Took < a.Commit.Took || a.Commit.Begun.Before(a.Begun) || a.Commit != c {
		t.Errorf("accepted %+v, want that it began after %v and has the commit %+v", a, began, c)
	}
	if c.Events != 2 || c.Deliveries != 4 || c.Err != nil || c.Took <= 0 || c.Chunk != nil {
		t.Errorf("committed %+v, want 2 events with 4 deliveries", c)
	}
	stop()
	if _, err := r.in.Publish(t.Context(), []postrider.Event{r.event("", `1`)}); !errors.Is(err, postrider.ErrBusy) {
		t.Errorf("published after the end: %v", err)
	}
	if got := <-refused; got.Events != 1 || !errors.Is(got.Err, postrider.ErrBusy) {
		t.Errorf("refused %+v, want one event", got)
	}
}
