package ingest_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/ingest"
	"github.com/postrider/postrider/internal/store"
)

func TestACallerThatGivesUpBeforeItsCommitStoresNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, ingest.Options{MaxWaiting: 10})
		release := make(chan struct{})
		r.inbox = blockedInbox{r.store, release}
		stop := r.run()
		late := errors.New("the caller's time is over")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Second, late)
		defer cancel()
		var waiting sync.WaitGroup
		publish := func(ctx context.Context, name string, want error) {
			e := r.event("", `1`)
			e.Type = name
			waiting.Go(func() {
				if _, err := r.in.Publish(ctx, []postrider.Event{e}); !errors.Is(err, want) {
					t.Errorf("%s: %v, want %v", name, err, want)
				}
			})
		}
		publish(ctx, "committing", late)
		synctest.Wait()
		for range 10 {
			publish(ctx, "waiting", late)
		}
		synctest.Wait()
		time.Sleep(5 * time.Second) // the time of all publishes is over
		synctest.Wait()
		publish(t.Context(), "later", nil) // the queue has room for it again
		synctest.Wait()
		close(release)
		waiting.Wait()
		stop()
		page, err := r.store.Events(t.Context(), store.EventQuery{})
		var stored []string
		for _, e := range page.Items {
			stored = append(stored, e.Type)
		}
		if err != nil || !slices.Equal(stored, []string{"later", "committing"}) {
			t.Errorf("stored: %v, %v; want those alone whose commit had begun or whose caller waits", stored, err)
		}
	})
}

func TestPublishesAreRefusedOnceRunIsToEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, ingest.Options{})
		release := make(chan struct{})
		r.inbox = blockedInbox{r.store, release}
		ctx, cancel := context.WithCancel(t.Context())
		var parts sync.WaitGroup
		parts.Go(func() { _ = r.in.Run(ctx) })
		synctest.Wait()
		parts.Go(func() { r.publish(r.event("", `1`)) })
		synctest.Wait() // the publish is in a commit
		parts.Go(func() { r.publish(r.event("", `2`)) })
		synctest.Wait() // the publish waits for the next commit
		cancel()
		synctest.Wait()
		refused := func(when string) {
			late, give := context.WithTimeout(t.Context(), 5*time.Second)
			defer give()
			if _, err := r.in.Publish(late, []postrider.Event{r.event("", `3`)}); !errors.Is(err, postrider.ErrBusy) {
				t.Errorf("%s: %v, want ErrBusy", when, err)
			}
		}
		refused("while a commit is under way")
		close(release)
		parts.Wait() // both publishes have their receipts
		refused("after the end")
	})
}
