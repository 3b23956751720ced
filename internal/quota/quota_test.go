package quota_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/quota"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/memory"
)

// accepting is a publisher that accepts everything, and knows the idempotency keys.
type accepting struct {
	mu     sync.Mutex
	events map[postrider.AccountID]int // new events by account
	keys   map[string]bool
	fail   error
}

func newAccepting() *accepting {
	return &accepting{events: map[postrider.AccountID]int{}, keys: map[string]bool{}}
}

func (p *accepting) Publish(_ context.Context, events []postrider.Event) ([]postrider.Receipt, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fail != nil {
		return nil, p.fail
	}
	receipts := make([]postrider.Receipt, len(events))
	for i, e := range events {
		receipts[i].Duplicate = e.IdempotencyKey != "" && p.keys[e.IdempotencyKey]
		p.keys[e.IdempotencyKey] = true
		if !receipts[i].Duplicate {
			p.events[e.Account]++
		}
	}
	return receipts, nil
}

func (p *accepting) PublishTo(context.Context, postrider.Event, postrider.EndpointID) (postrider.Receipt, error) {
	return postrider.Receipt{}, nil
}

// accepted returns how many new events of the account were accepted.
func (p *accepting) accepted(account postrider.AccountID) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.events[account]
}

// world has a store with accounts, a publisher that all meters share, and running meters.
type world struct {
	*testing.T
	*memory.Store
	*accepting
	ids *store.IDs
}

func newWorld(t *testing.T) *world {
	return &world{T: t, Store: memory.New(memory.Options{}), accepting: newAccepting(), ids: store.NewIDs(time.Now, nil)}
}

func (w *world) account(q postrider.Quotas) postrider.AccountID {
	w.Helper()
	id := store.NewID[postrider.AccountID](w.ids)
	if err := w.PutAccount(w.Context(), postrider.Account{ID: id, Name: "Acme"}); err != nil {
		w.Fatal(err)
	}
	if err := w.PutQuotas(w.Context(), id, q); err != nil {
		w.Fatal(err)
	}
	return id
}

// meter starts a meter, which ends with the test.
func (w *world) meter(defaults postrider.Quotas) *quota.Meter {
	w.Helper()
	m := quota.New(w.accepting, w.Store, quota.Options{Defaults: defaults})
	if err := m.Refresh(w.Context()); err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := m.Run(ctx); err != nil {
			w.Errorf("Run = %v", err)
		}
	})
	w.Cleanup(func() { cancel(); running.Wait() })
	return m
}

// event returns an event with that many bytes: half of them are data.
func event(account postrider.AccountID, bytes int) postrider.Event {
	return postrider.Event{
		Account: account, Type: "a", Data: make([]byte, bytes/2), About: postrider.About{Previous: make([]byte, bytes-bytes/2)},
	}
}

// refused returns the quota error; nil if err is nil.
func refused(t *testing.T, err error) *postrider.QuotaError {
	t.Helper()
	if err == nil {
		return nil
	}
	q, ok := errors.AsType[*postrider.QuotaError](err)
	if !ok {
		t.Fatalf("error = %v, want that of a quota", err)
	}
	return q
}

// publish publishes one event with that many bytes.
func (w *world) publish(m *quota.Meter, account postrider.AccountID, bytes int) *postrider.QuotaError {
	w.Helper()
	_, err := m.Publish(w.Context(), []postrider.Event{event(account, bytes)})
	return refused(w.T, err)
}

// flood publishes rate events a second at the meter, evenly, for the duration.
func (w *world) flood(m *quota.Meter, account postrider.AccountID, rate int, lasts time.Duration) {
	for range int(float64(rate) * lasts.Seconds()) {
		w.publish(m, account, 1)
		batch.Sleep(w.Context(), time.Second/time.Duration(rate))
	}
}

func TestABurstIsAcceptedAtOnceAndThenTheRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		account := w.account(postrider.Quotas{EventsPerSecond: 10, Burst: 20})
		m := w.meter(postrider.Quotas{})
		for i := range 20 {
			if err := w.publish(m, account, 1); err != nil {
				t.Fatalf("publish %d of the burst: %v", i, err)
			}
		}
		err := w.publish(m, account, 1)
		want := postrider.QuotaError{
			Account: account, Quota: postrider.QuotaEvents, Limit: 10,
			EndsAt: w.Clock().Wall().Add(100 * time.Millisecond), RetryAfter: 100 * time.Millisecond,
		}
		if err == nil || *err != want {
			t.Fatalf("error = %+v, want %+v", err, want)
		}
		// While the bucket was full, no events flowed in.
		time.Sleep(err.RetryAfter + 100*time.Millisecond)
		if err := w.publish(m, account, 1); err != nil {
			t.Errorf("after Retry-After: %+v", err)
		}
		if err := w.publish(m, account, 1); err == nil {
			t.Error("a second event is accepted after Retry-After")
		}
	})
}

func TestThreeNodesHoldAQuotaWithinFivePercent(t *testing.T) {
	t.Parallel()
	for name, rates := range map[string][3]int{
		"evenly":            {300, 300, 300},
		"unevenly":          {700, 100, 50},
		"at one of three":   {500, 0, 0},
		"just above it":     {120, 120, 120},
		"with a small part": {2000, 5, 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				account := w.account(postrider.Quotas{EventsPerSecond: 300, Burst: 300})
				const lasts = time.Minute
				var flood sync.WaitGroup
				for _, rate := range rates {
					m := w.meter(postrider.Quotas{})
					flood.Go(func() { w.flood(m, account, rate, lasts) })
				}
				flood.Wait()
				want := 300*lasts.Seconds() + 300
				if got := float64(w.accepted(account)); math.Abs(got/want-1) > .05 {
					t.Errorf("%v events were accepted, want %v within 5 %%", got, want)
				}
			})
		})
	}
}

// TestPublishersThatChangeTheirNodeGetNoMore moves a flood from node to node every second.
func TestPublishersThatChangeTheirNodeGetNoMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		account := w.account(postrider.Quotas{EventsPerSecond: 200, Burst: 200})
		nodes := []*quota.Meter{w.meter(postrider.Quotas{}), w.meter(postrider.Quotas{}), w.meter(postrider.Quotas{})}
		for second := range 60 {
			w.flood(nodes[second%3], account, 1000, time.Second)
		}
		want := 60*200. + 200
		if got := float64(w.accepted(account)); got > 1.05*want || got < .9*want {
			t.Errorf("%v events were accepted, want %v", got, want)
		}
	})
}

func TestTheBytesOfADayAreHeldOverAllNodes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		account := w.account(postrider.Quotas{BytesPerDay: 1_000_000})
		nodes := []*quota.Meter{w.meter(postrider.Quotas{}), w.meter(postrider.Quotas{}), w.meter(postrider.Quotas{})}
		var last *postrider.QuotaError
		for i := range 3000 {
			if err := w.publish(nodes[i%3], account, 1000); err != nil {
				last = err
			}
			time.Sleep(10 * time.Millisecond)
		}
		if got := w.accepted(account); got < 950 || got > 1050 {
			t.Errorf("%d kB were accepted, want 1000 within 5 %%", got)
		}
		midnight := w.Clock().Wall().Truncate(24 * time.Hour).Add(24 * time.Hour)
		if last == nil || last.Quota != postrider.QuotaBytes || !last.EndsAt.Equal(midnight) {
			t.Fatalf("error = %+v, want one until %v", last, midnight)
		}
		time.Sleep(time.Until(midnight))
		if err := w.publish(nodes[0], account, 1000); err != nil {
			t.Errorf("on the next day: %+v", err)
		}
	})
}

func TestARepeatOfAnAcceptedKeyCostsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		account := w.account(postrider.Quotas{EventsPerSecond: 1, Burst: 2})
		m := w.meter(postrider.Quotas{})
		keyed := func(key string) []postrider.Event {
			e := event(account, 1)
			e.IdempotencyKey = key
			return []postrider.Event{e}
		}
		w.storeEvent(account, "first")
		if _, err := m.Publish(t.Context(), keyed("first")); err != nil {
			t.Fatal(err)
		}
		for range 5 { // each costs one event and gets it back
			if _, err := m.Publish(t.Context(), keyed("first")); err != nil {
				t.Fatalf("a repeat within the quota: %v", err)
			}
		}
		if _, err := m.Publish(t.Context(), keyed("second")); err != nil {
			t.Fatalf("the second event: %v", err)
		}
		for range 5 {
			receipts, err := m.Publish(t.Context(), keyed("first"))
			if err != nil || !receipts[0].Duplicate {
				t.Fatalf("a repeat above the quota = %+v, %v", receipts, err)
			}
		}
		if _, err := m.Publish(t.Context(), keyed("third")); refused(t, err) == nil {
			t.Error("a new key is accepted above the quota")
		}
		if _, err := m.Publish(t.Context(), append(keyed("first"), keyed("third")...)); refused(t, err) == nil {
			t.Error("a batch with a new key is accepted above the quota")
		}
		time.Sleep(time.Second + 100*time.Millisecond)
		if _, err := m.Publish(t.Context(), keyed("third")); err != nil {
			t.Errorf("the repeats have cost something: %v", err)
		}
	})
}

// storeEvent stores an event with the key in the store itself.
func (w *world) storeEvent(account postrider.AccountID, key string) {
	w.Helper()
	e := event(account, 1)
	e.ID, e.IdempotencyKey = store.NewID[postrider.EventID](w.ids), key
	changes, err := w.Changes(w.Context(), 0, 1)
	if err == nil {
		_, err = w.Store.Publish(w.Context(), store.Publish{Version: changes.Version, Batches: []store.Batch{{{Event: e}}}})
	}
	if err != nil {
		w.Fatal(err)
	}
}

func TestWhatWasNotStoredCostsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		account := w.account(postrider.Quotas{EventsPerSecond: 1, Burst: 1})
		m := w.meter(postrider.Quotas{})
		w.fail = postrider.ErrBusy
		if _, err := m.Publish(t.Context(), []postrider.Event{event(account, 1)}); !errors.Is(err, postrider.ErrBusy) ||
			errors.As(err, new(*postrider.QuotaError)) {
			t.Fatalf("error = %v, want the publisher's", err)
		}
		w.fail = nil
		if err := w.publish(m, account, 1); err != nil {
			t.Errorf("after a publish that failed: %+v", err)
		}
	})
}

func TestABatchOfTwoAccountsIsAcceptedWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		narrow := w.account(postrider.Quotas{EventsPerSecond: 1, Burst: 1})
		wide := w.account(postrider.Quotas{EventsPerSecond: 1, Burst: 5})
		m := w.meter(postrider.Quotas{})
		w.publish(m, narrow, 1)
		both := []postrider.Event{event(wide, 1), event(wide, 1), event(narrow, 1)}
		if _, err := m.Publish(t.Context(), both); refused(t, err) == nil {
			t.Fatal("a batch above the quota of one account is accepted")
		}
		for i := range 5 {
			if err := w.publish(m, wide, 1); err != nil {
				t.Errorf("event %d of the other account: %+v", i, err)
			}
		}
	})
}

func TestABatchAboveTheBurstIsAcceptedWhenTheBucketIsFull(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		account := w.account(postrider.Quotas{EventsPerSecond: 10, Burst: 10})
		m := w.meter(postrider.Quotas{})
		large := make([]postrider.Event, 50)
		for i := range large {
			large[i] = event(account, 1)
		}
		if _, err := m.Publish(t.Context(), large); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Publish(t.Context(), large); refused(t, err) == nil || refused(t, err).RetryAfter != 5*time.Second {
			t.Errorf("error = %+v, want one for 5 s", refused(t, err))
		}
		time.Sleep(5*time.Second + 100*time.Millisecond)
		if _, err := m.Publish(t.Context(), large); err != nil {
			t.Errorf("after 5 s: %v", err)
		}
	})
}

func TestLimitsOfAnAccountGoBeforeTheDefaultAndChangeWhileItRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defaults := postrider.Quotas{EventsPerSecond: 1}
		usual, free := w.account(postrider.Quotas{}), w.account(postrider.Quotas{EventsPerSecond: postrider.NoQuota})
		m := w.meter(defaults)
		accepts := func(account postrider.AccountID, n int) (accepted int) {
			for range n {
				if w.publish(m, account, 1) == nil {
					accepted++
				}
			}
			return accepted
		}
		if n := accepts(usual, 10); n != 1 {
			t.Errorf("%d events by the default, want 1", n)
		}
		if n := accepts(free, 10); n != 10 {
			t.Errorf("%d events without a limit, want 10", n)
		}
		if err := w.PutQuotas(t.Context(), usual, postrider.Quotas{EventsPerSecond: 100}); err != nil {
			t.Fatal(err)
		}
		if err := w.PutQuotas(t.Context(), free, postrider.Quotas{EventsPerSecond: 2}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		if n := accepts(usual, 200); n != 100 {
			t.Errorf("%d events by the account's own limit, want 100", n)
		}
		if n := accepts(free, 10); n != 2 {
			t.Errorf("%d events by the new limit, want 2", n)
		}
	})
}

// away is a store that can stop responding.
type away struct {
	*memory.Store
	mu   sync.Mutex
	gone bool
}

func (a *away) SpendQuotas(ctx context.Context, spends []store.QuotaSpend) ([]store.QuotaState, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.gone {
		return nil, fmt.Errorf("spend quotas: %w", postrider.ErrBusy)
	}
	return a.Store.SpendQuotas(ctx, spends)
}

func (a *away) set(gone bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.gone = gone
}

func TestWithoutTheStoreANodeGoesOnWithItsShare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		account := w.account(postrider.Quotas{EventsPerSecond: 100})
		s := &away{Store: w.Store}
		m := quota.New(w.accepting, s, quota.Options{})
		if err := m.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = m.Run(ctx) })
		w.flood(m, account, 500, 2*time.Second)
		before := w.accepted(account)
		s.set(true)
		w.flood(m, account, 500, 10*time.Second)
		if n := w.accepted(account) - before; n < 950 || n > 1050 {
			t.Errorf("%d events in 10 s without the store, want 1000", n)
		}
		s.set(false)
		time.Sleep(3 * time.Second)
		cancel()
		running.Wait()
		states, err := w.SpendQuotas(t.Context(), []store.QuotaSpend{{Account: account, Rate: 100, Burst: 100}})
		if err != nil || states[0].Asked != 6000 {
			t.Errorf("state = %+v, %v, want all 6000 events on record", states, err)
		}
	})
}

func TestAPublishAllocatesNothing(t *testing.T) {
	w := newWorld(t)
	limited := w.account(postrider.Quotas{EventsPerSecond: 1_000_000, Burst: 10_000_000, BytesPerDay: 1 << 40})
	m := quota.New(constant{}, w.Store, quota.Options{})
	if err := m.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, account := range map[string]postrider.AccountID{"limited": limited, "unlimited": store.NewID[postrider.AccountID](w.ids)} {
		events := []postrider.Event{event(account, 100)}
		ctx := t.Context()
		if n := testing.AllocsPerRun(1000, func() { _, _ = m.Publish(ctx, events) }); n != 0 {
			t.Errorf("a publish of an account that is %s allocates %v times", name, n)
		}
	}
}

// constant accepts everything with the same receipt.
type constant struct{}

var oneReceipt = make([]postrider.Receipt, 1)

func (constant) Publish(context.Context, []postrider.Event) ([]postrider.Receipt, error) {
	return oneReceipt, nil
}

func (constant) PublishTo(context.Context, postrider.Event, postrider.EndpointID) (postrider.Receipt, error) {
	return postrider.Receipt{}, nil
}

// TestMemoryOfAHundredThousandAccounts publishes for 100,000 accounts with a limit, and then lets
// them be idle.
func TestMemoryOfAHundredThousandAccounts(t *testing.T) {
	w := newWorld(t)
	const accounts = 100_000
	m := quota.New(constant{}, w.Store, quota.Options{Defaults: postrider.Quotas{EventsPerSecond: 10, BytesPerDay: 1 << 30}})
	heap := func() uint64 {
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	before := heap()
	events := make([]postrider.Event, 1)
	for i := range accounts {
		events[0].Account = postrider.MakeID[postrider.AccountID](time.UnixMilli(int64(i)), [10]byte{})
		if _, err := m.Publish(t.Context(), events); err != nil {
			t.Fatal(err)
		}
	}
	each := (heap() - before) / accounts
	runtime.KeepAlive(m)
	t.Logf("%d bytes an account", each)
	if each > 500 {
		t.Errorf("%d bytes an account, want at most 500", each)
	}
}
