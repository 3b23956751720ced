package ingest_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/ingest"
	"github.com/postrider/postrider/internal/store"
)

// fillingInbox has no room after the third chunk of a fan-out, until full is cleared.
type fillingInbox struct {
	store.Inbox

	chunks, claims atomic.Int64
	full           atomic.Bool
}

func (f *fillingInbox) room() error {
	if f.full.Load() {
		return &postrider.FullError{RetryAfter: time.Second}
	}
	return nil
}

func (f *fillingInbox) ClaimFanOuts(ctx context.Context, c store.ClaimFanOuts) ([]store.FanOut, error) {
	f.claims.Add(1)
	return f.Inbox.ClaimFanOuts(ctx, c)
}

func (f *fillingInbox) FanOut(ctx context.Context, c store.FanOutChunk) error {
	if f.chunks.Add(1) == 3 {
		f.full.Store(true)
	}
	return f.Inbox.FanOut(ctx, c)
}

func TestAFanOutStopsWhileTheStoreHasNoRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		filling := &fillingInbox{}
		r := newHarness(t, ingest.Options{FanOutAbove: 10, FanOutChunk: 7, Room: filling.room})
		filling.Inbox, r.inbox = r.store, filling
		r.endpoints(100, postrider.EndpointEnabled)
		stop := r.run()
		defer stop()
		got := r.publish(r.event("", `1`))[0]
		time.Sleep(time.Second)
		synctest.Wait()
		claims := filling.claims.Load()
		time.Sleep(time.Hour)
		synctest.Wait()
		if found := r.deliveries(got.ID); found[postrider.Pending] != 21 {
			t.Errorf("stored %v after an hour without room, want 21 pending", found)
		}
		if n := filling.claims.Load(); n != claims {
			t.Errorf("%d claims without room, each a write", n-claims)
		}
		if _, err := r.in.Publish(t.Context(), []postrider.Event{r.event("", `2`)}); !errors.As(err, new(*postrider.FullError)) {
			t.Errorf("a publish without room: %v, want a FullError", err)
		}
		filling.full.Store(false)
		time.Sleep(10 * time.Second) // the lease of the job has ended long ago
		synctest.Wait()
		if found := r.deliveries(got.ID); found[postrider.Pending] != 100 {
			t.Errorf("stored %v when there was room again, want 100 pending", found)
		}
	})
}
