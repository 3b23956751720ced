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
		time.Sleep(5 * time.Second) // the time of all is over
		synctest.Wait()
		publish(t.Context(), "later", nil) // for which there is capacity again
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
