package api_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/api"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/memory"
)

// slowLists is a store whose lists of events take a second.
type slowLists struct {
	store.Store
	running, most, unmarked atomic.Int64
}

func (s *slowLists) Events(ctx context.Context, q store.EventQuery) (store.Page[postrider.Event], error) {
	s.most.Store(max(s.most.Load(), s.running.Add(1)))
	defer s.running.Add(-1)
	if !store.IsForReader(ctx) {
		s.unmarked.Add(1)
	}
	time.Sleep(time.Second)
	return s.Store.Events(ctx, q)
}

// reader returns a key of the tenant that may read.
func (w *world) reader(of tenant) string {
	w.Helper()
	account, err := postrider.ParseID[postrider.AccountID](of.account)
	if err != nil {
		w.Fatal(err)
	}
	return w.key(postrider.APIKey{Account: account, Scopes: []postrider.Scope{postrider.ScopeWebhooksRead}})
}

// TestPromise5OneAccountsReadsHaveAShare lets one account read with two keys as fast as it can. It
// gets its share, and a 429 for the other reads. Other accounts and operators get their turns.
func TestPromise5OneAccountsReadsHaveAShare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		over := &slowLists{Store: memory.New(memory.Options{})}
		var refused atomic.Int64
		w := newWorldOver(t, over, api.Options{AccountReads: 5, Hooks: observe.Hooks{ReadRefused: func(postrider.AccountID) { refused.Add(1) }}})
		acme, other := w.tenant("acme"), w.tenant("other")
		keys := []string{w.reader(acme), w.reader(acme)}
		others := w.reader(other)
		began := time.Now()
		var reads sync.WaitGroup
		var served, late atomic.Int64
		for i := range 50 {
			reads.Go(func() {
				switch got := w.do(keys[i%2], "GET /events", ""); {
				case got.status == 200:
					served.Add(1)
				case got.status == 429 && got.body["code"] == "too_many_reads" && got.header.Get("Retry-After") == "2" &&
					time.Since(began) == 2*time.Second:
					late.Add(1)
				default:
					t.Errorf("after %v: %d %s", time.Since(began), got.status, got.text)
				}
			})
		}
		synctest.Wait()
		if running := over.running.Load(); running != 4 {
			t.Errorf("%d reads of one account run, want 4", running)
		}
		w.want(202, "POST /events", `{"account": "other", "type": "order.created", "data": {}}`)
		if took := time.Since(began); took != 0 {
			t.Errorf("a publish took %v", took)
		}
		if got := w.do(others, "GET /events", ""); got.status != 200 || time.Since(began) != time.Second {
			t.Errorf("the read of another account got a %d after %v, want a 200 after the second that it takes", got.status, time.Since(began))
		}
		w.want(200, "GET /events", "")
		reads.Wait()
		if n := served.Load(); n < 8 || n > 12 || n+late.Load() != 50 || refused.Load() != late.Load() {
			t.Errorf("%d reads are served, %d refused, %d are counted as refused", served.Load(), late.Load(), refused.Load())
		}
		if unmarked := over.unmarked.Load(); unmarked != 0 {
			t.Errorf("%d lists of readers are read on the connections of the engine", unmarked)
		}
	})
}

// TestPromise5AccountsTakeTurns lets fifty reads of one account wait for the only slot. A read of
// another account is second, before reads that have waited longer.
func TestPromise5AccountsTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOver(t, &slowLists{Store: memory.New(memory.Options{})}, api.Options{AccountReads: 1})
		greedy, other := w.reader(w.tenant("acme")), w.reader(w.tenant("other"))
		began := time.Now()
		ctx, leave := context.WithCancel(t.Context())
		var reads sync.WaitGroup
		for range 50 {
			reads.Go(func() { w.send(w.request(greedy, "GET /events", "").WithContext(ctx)) })
		}
		synctest.Wait()
		if got := w.do(other, "GET /events", ""); got.status != 200 || time.Since(began) != 2*time.Second {
			t.Errorf("the read of another account got a %d after %v, want a 200 after one other read", got.status, time.Since(began))
		}
		leave() // turns of callers that have left go to others
		reads.Wait()
		if got := w.do(other, "GET /events", ""); got.status != 200 || time.Since(began) > 5*time.Second {
			t.Errorf("afterwards: a %d after %v", got.status, time.Since(began))
		}
	})
}

// stuckClient is a client that does not read its response.
type stuckClient struct {
	*httptest.ResponseRecorder
	until chan struct{}
}

func (c stuckClient) Write(p []byte) (int, error) {
	<-c.until
	return len(p), nil
}

// TestPromise5AClientThatDoesNotReadKeepsNoTurn lets clients of one account request lists and
// public keys, and not read the responses.
func TestPromise5AClientThatDoesNotReadKeepsNoTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOver(t, memory.New(memory.Options{}), api.Options{AccountReads: 1})
		key := w.reader(w.tenant("acme"))
		until := make(chan struct{})
		var stuck sync.WaitGroup
		for _, path := range []string{"/v1/webhooks/events", "/.well-known/webhook-keys", "/v1/webhooks/openapi.json"} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
			r.Header.Set("Authorization", "Bearer "+key)
			stuck.Go(func() { w.handler.ServeHTTP(stuckClient{httptest.NewRecorder(), until}, r) })
		}
		synctest.Wait()
		if got := w.do(key, "GET /events", ""); got.status != 200 {
			t.Errorf("a read beside clients that do not read: %d %s", got.status, got.text)
		}
		close(until)
		stuck.Wait()
	})
}
