package api_test

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/api"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/memory"
)

// guess returns a secret that was never issued, with the checksum that a stranger can
// compute.
func guess(prefix string, n int) string {
	random := binary.BigEndian.AppendUint64(make([]byte, 24, 36), uint64(n))
	sum := crc32.ChecksumIEEE(append([]byte(prefix), random...))
	return prefix + base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint32(random, sum))
}

// asking is a store that counts the lookups of keys and sessions. Each lookup waits for hang.
type asking struct {
	store.Store
	hang             chan struct{}
	asked, now, most atomic.Int64
}

func (a *asking) look() func() {
	a.asked.Add(1)
	for now := a.now.Add(1); ; {
		most := a.most.Load()
		if now <= most || a.most.CompareAndSwap(most, now) {
			break
		}
	}
	<-a.hang
	return func() { a.now.Add(-1) }
}

func (a *asking) Keys(ctx context.Context, q store.KeyQuery) (store.Page[postrider.APIKey], error) {
	defer a.look()()
	return a.Store.Keys(ctx, q)
}

func (a *asking) Sessions(ctx context.Context, q store.SessionQuery) (store.Page[postrider.Session], error) {
	defer a.look()()
	return a.Store.Sessions(ctx, q)
}

func (a *asking) RedeemCode(ctx context.Context, r store.RedeemCode) (postrider.Session, error) {
	defer a.look()()
	return a.Store.RedeemCode(ctx, r)
}

func TestATextThatWasNeverIssuedCostsNoQuery(t *testing.T) {
	t.Parallel()
	over := &asking{Store: memory.New(memory.Options{}), hang: make(chan struct{})}
	close(over.hang)
	w := newWorldOver(t, over, api.Options{})
	for i, text := range []string{
		"x", "pr_", "pr_wrong", w.admin[:50], w.admin + "A", w.admin[3:], "prs" + w.admin[2:], guess("prs_", 1), guess("", 1),
		"pr_" + strings.Repeat("A", 48), w.admin[:20] + "!" + w.admin[21:], "pr_" + strings.Repeat("\n", 48), strings.Repeat("x", 300),
	} {
		if got := w.do(text, "GET /events", ""); got.status != 401 {
			t.Errorf("as a key, %q is a %d", text, got.status)
		}
		if _, err := w.sessions().Find(t.Context(), text); i != 7 && err == nil {
			t.Errorf("as a session, %q is one", text)
		}
		_, _, loginErr := w.sessions().Login(t.Context(), text, loopback)
		_, entryErr := w.sessions().Entry(t.Context(), text+"x")
		_, _, redeemErr := w.sessions().Redeem(t.Context(), text+"x", loopback)
		if loginErr == nil || entryErr == nil || redeemErr == nil {
			t.Errorf("%q logs in", text)
		}
	}
	if asked := over.asked.Load(); asked != 1 { // the session with the right checksum
		t.Errorf("%d queries, want 1", asked)
	}
}

// TestPromise5StrangersTakeTurns guesses keys, tokens and codes with the right checksum, all at
// once. A key that was found before does not wait for these guesses.
func TestPromise5StrangersTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		over := &asking{Store: memory.New(memory.Options{}), hang: make(chan struct{}, 1000)}
		w := newWorldOver(t, over, api.Options{})
		over.hang <- struct{}{}
		w.want(200, "GET /event-types", "")
		over.most.Store(0)
		var guesses sync.WaitGroup
		for i := range 30 {
			guesses.Go(func() { w.do(guess("pr_", i), "GET /events", "") })
			guesses.Go(func() { _, _ = w.sessions().Find(t.Context(), guess("prs_", i)) })
			guesses.Go(func() { _, _ = w.sessions().Entry(t.Context(), guess("", i)) })
		}
		synctest.Wait()
		if most := over.most.Load(); most != 2 {
			t.Errorf("%d guesses are looked up at a time, want 2", most)
		}
		w.want(201, "POST /event-types", `{"name": "order.created"}`) // from the cache
		close(over.hang)
		guesses.Wait()
	})
}

// TestPromise5AKnownKeyDoesNotWaitForStrangers lets the cached key expire while strangers use all
// turns.
func TestPromise5AKnownKeyDoesNotWaitForStrangers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		over := &asking{Store: memory.New(memory.Options{}), hang: make(chan struct{}, 1000)}
		w := newWorldOver(t, over, api.Options{})
		over.hang <- struct{}{}
		w.want(200, "GET /event-types", "")
		time.Sleep(6 * time.Second) // the key is not in the cache any more
		var guesses sync.WaitGroup
		for i := range 4 {
			guesses.Go(func() { w.do(guess("pr_", i), "GET /events", "") })
		}
		synctest.Wait()
		known := make(chan int, 1)
		guesses.Go(func() { known <- w.do(w.admin, "GET /event-types", "").status })
		synctest.Wait()
		if now := over.now.Load(); now != 3 {
			t.Errorf("%d lookups, want those of two strangers and the known key", now)
		}
		close(over.hang)
		guesses.Wait()
		if status := <-known; status != 200 {
			t.Errorf("the known key got a %d", status)
		}
	})
}
