package ingest_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/ingest"
	"github.com/postrider/postrider/internal/store"
)

// lockingInbox reports batches with the ordering key "stuck" as locked, until a time.
type lockingInbox struct {
	store.Inbox
	until time.Time
}

func (i lockingInbox) Publish(ctx context.Context, p store.Publish) ([]store.Published, error) {
	all := make([]store.Published, len(p.Batches))
	part := store.Publish{Version: p.Version}
	var places []int
	for n, batch := range p.Batches {
		if batch[0].Event.OrderingKey == "stuck" && time.Now().Before(i.until) {
			all[n].Locked = &postrider.LockedError{Field: "ordering_key", Key: "stuck"}
			continue
		}
		part.Batches, places = append(part.Batches, batch), append(places, n)
	}
	published, err := i.Inbox.Publish(ctx, part)
	for n := range published {
		all[places[n]] = published[n]
	}
	return all, err
}

func TestPromise5AKeyThatIsLockedHoldsNoOtherPublish(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		locked time.Duration
		err    error
	}{
		"for a moment": {300 * time.Millisecond, nil},
		"for long":     {time.Minute, &postrider.LockedError{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newHarness(t, ingest.Options{})
				r.inbox = lockingInbox{r.store, time.Now().Add(tt.locked)}
				stop := r.run()
				begun := time.Now()
				var publishes sync.WaitGroup
				publish := func(key string, least, most time.Duration, want error) {
					e := r.event("", `1`)
					e.OrderingKey = key
					publishes.Go(func() {
						_, err := r.in.Publish(t.Context(), []postrider.Event{e})
						took := time.Since(begun)
						if (want == nil) != (err == nil) || want != nil && !errors.As(err, new(*postrider.LockedError)) {
							t.Errorf("key %q: %v, want %v", key, err, want)
						}
						if took < least || took > most {
							t.Errorf("key %q: an answer after %v, want %v to %v", key, took, least, most)
						}
					})
				}
				for range 5 {
					publish("stuck", min(tt.locked, 700*time.Millisecond), time.Second, tt.err)
					publish("other", 0, 10*time.Millisecond, nil)
					publish("", 0, 10*time.Millisecond, nil)
				}
				publishes.Wait()
				stop()
			})
		})
	}
}

func TestPublishesThatAreLockedEndWithRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, ingest.Options{})
		r.inbox = lockingInbox{r.store, time.Now().Add(time.Minute)}
		stop := r.run()
		e := r.event("", `1`)
		e.OrderingKey = "stuck"
		var publish sync.WaitGroup
		publish.Go(func() {
			if _, err := r.in.Publish(t.Context(), []postrider.Event{e}); !errors.As(err, new(*postrider.LockedError)) {
				t.Errorf("Publish = %v, want a LockedError", err)
			}
		})
		time.Sleep(100 * time.Millisecond)
		stop()
		publish.Wait()
	})
}
