package page

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// slowAPI does not respond before the time limit of its caller.
type slowAPI struct{ asked chan struct{} }

func (a slowAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	a.asked <- struct{}{}
	<-r.Context().Done()
	return nil, context.Cause(r.Context())
}

// TestAPageWaitsForTheAnswerOfAnotherNoLongerThanItsTimeLimit asks twice for the same
// numbers. The second page has less time than the first one.
func TestAPageWaitsForTheAnswerOfAnotherNoLongerThanItsTimeLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := slowAPI{make(chan struct{}, 1)}
		transport := &briefTransport{next: api, cache: &briefCache{answers: map[string]*briefAnswer{}}}
		ask := func(limit time.Duration) (took time.Duration, err error) {
			ctx, cancel := context.WithTimeoutCause(t.Context(), limit, errSlow)
			defer cancel()
			begun := time.Now()
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://api.internal/v1/webhooks/stats", http.NoBody)
			if err != nil {
				return 0, err
			}
			response, err := transport.RoundTrip(request)
			if err == nil {
				err = response.Body.Close()
			}
			return time.Since(begun), err
		}
		var first sync.WaitGroup
		first.Go(func() {
			if took, err := ask(10 * time.Second); took != 10*time.Second || !errors.Is(err, errSlow) {
				t.Errorf("the first page ended after %v with %v", took, err)
			}
		})
		<-api.asked
		if took, err := ask(2 * time.Second); took != 2*time.Second || !errors.Is(err, errSlow) {
			t.Errorf("the second page ended after %v with %v, want after 2s, errSlow", took, err)
		}
		first.Wait()
	})
}

// TestPagesFailTogether asks twenty times for the same numbers while the store hangs, one second
// after the other. All end when the first one does. A page whose browser leaves ends alone.
func TestPagesFailTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := slowAPI{make(chan struct{}, 100)}
		transport := &briefTransport{next: api, cache: &briefCache{answers: map[string]*briefAnswer{}}}
		ask := func(ctx context.Context) error {
			ctx, cancel := context.WithTimeoutCause(ctx, 10*time.Second, errSlow)
			defer cancel()
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://api.internal/v1/webhooks/stats", http.NoBody)
			if err != nil {
				return err
			}
			response, err := transport.RoundTrip(request)
			if err == nil {
				err = response.Body.Close()
			}
			return err
		}
		var pages sync.WaitGroup
		leaving, leave := context.WithCancel(t.Context())
		pages.Go(func() {
			if err := ask(leaving); !errors.Is(err, context.Canceled) {
				t.Errorf("the page that left: %v", err)
			}
		})
		synctest.Wait()
		begun := time.Now()
		for n := range 20 {
			pages.Go(func() {
				pause := time.NewTimer(time.Duration(n) * 400 * time.Millisecond)
				<-pause.C
				if err := ask(t.Context()); !errors.Is(err, errSlow) || time.Since(begun) > 11*time.Second {
					t.Errorf("page %d ended after %v with %v, want with the first one that failed", n, time.Since(begun), err)
				}
			})
		}
		pause := time.NewTimer(time.Second)
		<-pause.C
		leave()
		pages.Wait()
		if calls := len(api.asked); calls != 2 {
			t.Errorf("%d calls, want that of the page that left and one more", calls)
		}
	})
}
