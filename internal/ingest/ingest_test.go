package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/ingest"
	"github.com/postrider/postrider/internal/routing"
	"github.com/postrider/postrider/internal/schedule"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/memory"
	"github.com/postrider/postrider/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// harness is an Ingest with the memory store, and a dispatcher that records its calls.
type harness struct {
	*testing.T
	store   *memory.Store
	inbox   store.Inbox
	table   *routing.Table
	in      *ingest.Ingest
	ids     *store.IDs
	account postrider.AccountID

	mu      sync.Mutex
	token   postrider.Token
	admits  bool
	credit  int
	started []postrider.Claimed
	waiting []store.DueLane
	behind  time.Duration
}

func newHarness(t *testing.T, opts ingest.Options) *harness {
	r := &harness{T: t, store: memory.New(memory.Options{}), ids: store.NewIDs(time.Now, &[32]byte{}), admits: true}
	r.account = store.NewID[postrider.AccountID](r.ids)
	r.inbox = r.store
	r.table = routing.New(r.store, routing.Options{})
	opts.IDs = r.ids
	r.in = ingest.New(inboxOf{r}, r.table, r, opts)
	return r
}

// inboxOf calls the present inbox of the harness, which a test can replace.
type inboxOf struct{ r *harness }

func (i inboxOf) Publish(ctx context.Context, p store.Publish) ([]store.Published, error) {
	return i.r.inbox.Publish(ctx, p)
}

func (i inboxOf) ClaimFanOuts(ctx context.Context, c store.ClaimFanOuts) ([]store.FanOut, error) {
	return i.r.inbox.ClaimFanOuts(ctx, c)
}

func (i inboxOf) FanOut(ctx context.Context, c store.FanOutChunk) error {
	return i.r.inbox.FanOut(ctx, c)
}

func (r *harness) run() (stop func()) {
	ctx, cancel := context.WithCancel(r.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := r.in.Run(ctx); err != nil {
			r.Error(err)
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}

func (r *harness) Admit(ask []schedule.Admission, commit func(schedule.Grant) (schedule.DeliveriesCommitted, error)) (err error) {
	r.mu.Lock()
	r.token++
	g := schedule.Grant{}
	if r.admits {
		g = schedule.Grant{Token: r.token, Leases: make([]schedule.Lease, len(ask))}
		for i := range ask {
			g.Leases[i] = schedule.Lease{Token: g.Token, For: time.Minute}
			r.credit++
		}
	}
	r.mu.Unlock()
	c, err := commit(g)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.credit -= len(g.Leases) - len(c.Started)
	r.started = append(r.started, c.Started...)
	r.waiting = append(r.waiting, c.Waiting...)
	return err
}

func (r *harness) Lag() time.Duration { return r.behind }

func (r *harness) BulkWaits() int { return 0 }

func (r *harness) endpoints(n int, status postrider.EndpointStatus) {
	r.Helper()
	for range n {
		e := postrider.Endpoint{
			ID: store.NewID[postrider.EndpointID](r.ids), Account: r.account, URL: "https://a.example",
			EventTypes: []postrider.Pattern{"order.*"}, Status: status, Policy: postrider.DefaultPolicy(),
		}
		if _, err := r.store.PutEndpoint(r.Context(), store.PutEndpoint{Endpoint: e}); err != nil {
			r.Fatal(err)
		}
	}
}

func (r *harness) event(key, data string) postrider.Event {
	return postrider.Event{Account: r.account, Type: "order.created", Data: []byte(data), IdempotencyKey: key}
}

func (r *harness) publish(events ...postrider.Event) []postrider.Receipt {
	r.Helper()
	receipts, err := r.in.Publish(r.Context(), events)
	if err != nil {
		r.Fatal(err)
	}
	return receipts
}

func (r *harness) deliveries(event postrider.EventID) map[postrider.Status]int {
	r.Helper()
	found := map[postrider.Status]int{}
	for _, d := range deliveriesOf(r.T, r.store, event) {
		found[d.Status]++
	}
	return found
}

// deliveriesOf lists all deliveries of an event.
func deliveriesOf(t *testing.T, s store.Ledger, event postrider.EventID) (all []postrider.Delivery) {
	t.Helper()
	q := store.DeliveryQuery{Event: event, Paging: store.Paging{Limit: store.MaxLimit}}
	for {
		page, err := s.Deliveries(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, page.Items...)
		if q.Cursor = page.Next; q.Cursor == "" {
			return all
		}
	}
}

func TestPublishStartsWhatItCommitted(t *testing.T) {
	t.Parallel()
	r := newHarness(t, ingest.Options{})
	defer r.run()()
	r.endpoints(3, postrider.EndpointEnabled)
	r.endpoints(1, postrider.EndpointDisabled)

	got := r.publish(r.event("", `{"a":1}`))[0]
	if got.Deliveries != 3 || got.Duplicate || got.FanOut {
		t.Errorf("receipt = %+v, want 3 deliveries", got)
	}
	if found := r.deliveries(got.ID); found[postrider.Pending] != 3 || found[postrider.Skipped] != 1 {
		t.Errorf("stored %v, want 3 pending and 1 skipped", found)
	}
	if len(r.started) != 3 || r.credit != 3 {
		t.Errorf("%d started, %d credit spent; want 3 and 3", len(r.started), r.credit)
	}
}

func TestCreditComesBackForWhatWasNotStored(t *testing.T) {
	t.Parallel()
	r := newHarness(t, ingest.Options{})
	defer r.run()()
	r.endpoints(1, postrider.EndpointEnabled)

	first := r.publish(r.event("k", `1`))[0]
	again := r.publish(r.event("k", `1`))[0]
	if again.ID != first.ID || !again.Duplicate || again.Deliveries != 0 {
		t.Errorf("repeated publish = %+v, want a duplicate of %s", again, first.ID)
	}
	_, err := r.in.Publish(t.Context(), []postrider.Event{r.event("", `1`), r.event("k", `2`)})
	if taken := new(postrider.KeyTakenError); !errors.As(err, &taken) || taken.Index != 1 {
		t.Errorf("other content under the same key: %v, want KeyTakenError for event 1", err)
	}
	if len(r.started) != 1 || r.credit != 1 {
		t.Errorf("%d started, %d credit spent; want 1 and 1", len(r.started), r.credit)
	}
}

// countingInbox counts commits.
type countingInbox struct {
	store.Inbox
	commits atomic.Int64
}

func (c *countingInbox) Publish(ctx context.Context, p store.Publish) ([]store.Published, error) {
	c.commits.Add(1)
	time.Sleep(time.Millisecond) // the duration of a commit, in the time of the bubble
	return c.Inbox.Publish(ctx, p)
}

func TestPublishesAreCommittedTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, ingest.Options{})
		count := &countingInbox{Inbox: r.store}
		r.inbox = count
		stop := r.run()
		var all sync.WaitGroup
		for range 1000 {
			all.Go(func() { r.publish(r.event("", `1`)) })
		}
		all.Wait()
		stop()
		if n := count.commits.Load(); n < 2 || n > 4 { // groups have at most 500 events
			t.Errorf("1,000 publishes at once took %d commits", n)
		}
	})
}

func TestAGroupWaitsForMorePublishesOnlyWhileManyPublish(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name       string
		publishers int
		commits    int64
		takes      time.Duration
	}{
		{"one after the other", 1, 10, 10 * time.Millisecond},
		{"many", 20, 11, 30 * time.Millisecond}, // the first publish is committed at once
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newHarness(t, ingest.Options{})
			count := &countingInbox{Inbox: r.store}
			r.inbox = count
			stop := r.run()
			begun := time.Now()
			var all sync.WaitGroup
			for i := range tt.publishers {
				all.Go(func() {
					for range 10 {
						r.publish(r.event("", `1`))
						// Time for the response, and for the next publish.
						time.Sleep(time.Duration(i) * 50 * time.Microsecond)
					}
				})
			}
			all.Wait()
			if n, took := count.commits.Load(), time.Since(begun); n > tt.commits || took > tt.takes+10*time.Millisecond {
				t.Errorf("%s: %d commits in %v, want %d in %v", tt.name, n, took, tt.commits, tt.takes)
			}
			stop()
		})
	}
}

func TestAnEndpointCreatedBeforeIsNeverMissed(t *testing.T) {
	t.Parallel()
	r := newHarness(t, ingest.Options{})
	defer r.run()()
	for i := range 20 { // nobody notifies the table, but the commit notices
		r.endpoints(1, postrider.EndpointEnabled)
		if got := r.publish(r.event("", `1`))[0]; got.Deliveries != i+1 {
			t.Fatalf("%d deliveries after %d endpoints were created", got.Deliveries, i+1)
		}
	}
}

func TestLargeEventsFanOutInChunks(t *testing.T) {
	t.Parallel()
	for _, admits := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newHarness(t, ingest.Options{FanOutAbove: 10, FanOutChunk: 7})
			r.admits = admits
			r.endpoints(100, postrider.EndpointEnabled)
			r.endpoints(5, postrider.EndpointDisabled)
			stop := r.run()
			got := r.publish(r.event("", `1`))[0]
			if !got.FanOut {
				t.Errorf("receipt = %+v, want a fan-out job", got)
			}
			r.endpoints(1, postrider.EndpointEnabled) // created too late for this event
			time.Sleep(10 * time.Second)
			if found := r.deliveries(got.ID); found[postrider.Pending] != 100 || found[postrider.Skipped] != 5 {
				t.Errorf("stored %v, want 100 pending and 5 skipped", found)
			}
			if heard := map[bool]int{false: len(r.waiting), true: len(r.started)}; heard[admits] != 100 || heard[!admits] != 0 {
				t.Errorf("admitting %t, %d started and %d wait, want all 100 there", admits, len(r.started), len(r.waiting))
			}
			for _, c := range r.started {
				if c.Lane != postrider.LaneBulk || string(c.Event.Data) != `1` || c.Token == 0 {
					t.Errorf("started %+v, want the event itself, leased, in the bulk lane", c)
				}
			}
			stop()
		})
	}
}

// interruptedInbox fails chunks after a number of them.
type interruptedInbox struct {
	store.Inbox
	left atomic.Int64
}

func (i *interruptedInbox) FanOut(ctx context.Context, c store.FanOutChunk) error {
	if i.left.Add(-1) < 0 {
		return fmt.Errorf("store chunk: %w", postrider.ErrBusy)
	}
	return i.Inbox.FanOut(ctx, c)
}

func TestInterruptedFanOutIsResumed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, ingest.Options{FanOutAbove: 10, FanOutChunk: 7})
		r.endpoints(100, postrider.EndpointEnabled)
		broken := &interruptedInbox{Inbox: r.store}
		broken.left.Store(3)
		r.inbox = broken
		stop := r.run()
		got := r.publish(r.event("", `1`))[0]
		time.Sleep(5 * time.Second)
		if found := r.deliveries(got.ID); found[postrider.Pending] != 21 {
			t.Errorf("stored %v before the interruption, want 21 pending", found)
		}
		broken.left.Store(1000)
		time.Sleep(time.Minute) // until the lease of the job has ended
		if found := r.deliveries(got.ID); found[postrider.Pending] != 100 {
			t.Errorf("stored %v, want 100 pending", found)
		}
		stop()
	})
}

// slowInbox stores a chunk, but responds only after the context of the call or a given context has
// ended. A database does that when its client goes away.
type slowInbox struct {
	store.Inbox
	stored chan struct{}
	answer <-chan struct{}
}

func (s *slowInbox) FanOut(ctx context.Context, c store.FanOutChunk) error {
	if err := s.Inbox.FanOut(ctx, c); err != nil {
		return err
	}
	close(s.stored)
	select {
	case <-s.answer:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestAShutdownCutsNoChunkOfAFanOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, ingest.Options{FanOutAbove: 10, FanOutChunk: 7})
		r.endpoints(20, postrider.EndpointEnabled)
		answer := make(chan struct{})
		slow := &slowInbox{Inbox: r.store, stored: make(chan struct{}), answer: answer}
		r.inbox = slow
		stop := r.run()
		r.publish(r.event("", `1`))
		<-slow.stored
		time.AfterFunc(time.Second, func() { close(answer) }) // while the ingest stops
		stop()
		if len(r.started) != 7 || r.credit != 7 {
			t.Errorf("%d deliveries were handed over and %d keep their credit, want the 7 that were stored leased",
				len(r.started), r.credit)
		}
	})
}

// blockedInbox commits nothing until it is released.
type blockedInbox struct {
	store.Inbox
	release chan struct{}
}

func (b blockedInbox) Publish(ctx context.Context, p store.Publish) ([]store.Published, error) {
	<-b.release
	return b.Inbox.Publish(ctx, p)
}

func TestTooManyPublishesAreRefusedBeforeTheyAreAccepted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, ingest.Options{MaxWaiting: 10})
		release := make(chan struct{})
		r.inbox = blockedInbox{r.store, release}
		stop := r.run()
		var all sync.WaitGroup
		var stored, refused atomic.Int64
		publish := func() {
			_, err := r.in.Publish(t.Context(), []postrider.Event{r.event("", `1`)})
			overload := new(postrider.OverloadError)
			switch {
			case err == nil:
				stored.Add(1)
			case errors.As(err, &overload) && errors.Is(err, postrider.ErrBusy) && overload.RetryAfter > 0:
				refused.Add(1)
			default:
				t.Error(err)
			}
		}
		all.Go(publish)
		synctest.Wait() // the first publish is in a commit
		for range 30 {
			all.Go(publish)
		}
		synctest.Wait()
		close(release)
		all.Wait()
		stop()
		if stored.Load() != 11 || refused.Load() != 20 {
			t.Errorf("%d stored and %d refused, want 11 and 20", stored.Load(), refused.Load())
		}
	})
}

func TestACallerThatLeftTakesNoOthersAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, ingest.Options{})
		release := make(chan struct{})
		r.inbox = blockedInbox{r.store, release}
		stop := r.run()
		ctx, leave := context.WithCancel(t.Context())
		var left sync.WaitGroup
		left.Go(func() {
			if _, err := r.in.Publish(ctx, []postrider.Event{r.event("", `1`)}); !errors.Is(err, context.Canceled) {
				t.Errorf("the caller that left got %v", err)
			}
		})
		synctest.Wait()
		leave()
		left.Wait()
		close(release)
		for i := range 100 {
			data := fmt.Sprint(i)
			page, err := r.store.Events(t.Context(), store.EventQuery{ID: r.publish(r.event("", data))[0].ID})
			if err != nil || len(page.Items) != 1 || string(page.Items[0].Data) != data {
				t.Fatalf("the receipt of event %d names %v, %v", i, page.Items, err)
			}
		}
		stop()
	})
}

// failingInbox refuses groups that contain a certain event.
type failingInbox struct{ store.Inbox }

var errPoison = errors.New("the store cannot take this")

func (f failingInbox) Publish(ctx context.Context, p store.Publish) ([]store.Published, error) {
	for _, batch := range p.Batches {
		for _, e := range batch {
			if string(e.Event.Data) == `"poison"` {
				return nil, errPoison
			}
		}
	}
	return f.Inbox.Publish(ctx, p)
}

func TestOnePoisonPublishCostsNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, ingest.Options{})
		r.inbox = failingInbox{r.store}
		stop := r.run()
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() { r.publish(r.event("", `1`)) })
		}
		all.Go(func() {
			if _, err := r.in.Publish(t.Context(), []postrider.Event{r.event("", `"poison"`)}); !errors.Is(err, errPoison) {
				t.Errorf("poison was answered with %v", err)
			}
		})
		all.Wait()
		stop()
	})
}

func TestPublishAfterTheEndIsBusy(t *testing.T) {
	t.Parallel()
	r := newHarness(t, ingest.Options{})
	r.run()()
	if _, err := r.in.Publish(t.Context(), []postrider.Event{r.event("", `1`)}); !errors.Is(err, postrider.ErrBusy) {
		t.Errorf("publish after the end: %v, want ErrBusy", err)
	}
}

func TestPublishToOneEndpoint(t *testing.T) {
	t.Parallel()
	r := newHarness(t, ingest.Options{})
	defer r.run()()
	r.endpoints(3, postrider.EndpointEnabled)
	changes, err := r.store.Changes(t.Context(), 0, 10)
	if err == nil {
		err = r.table.Refresh(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	e := r.event("", `1`)
	e.Type = "postrider.test"
	got, err := r.in.PublishTo(t.Context(), e, changes.Endpoints[1].Endpoint.ID)
	if err != nil || got.Deliveries != 1 || r.started[0].Endpoint != changes.Endpoints[1].Endpoint.ID {
		t.Errorf("PublishTo = %+v, %v; started %v", got, err, r.started)
	}
}

func TestPublishesWaitWhileDeliveriesAreBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, ingest.Options{})
		r.behind = 1450 * time.Millisecond
		stop := r.run()
		start := time.Now()
		r.publish(r.event("", `1`))
		if took := time.Since(start); took != 70*time.Millisecond {
			t.Errorf("a publish took %v, want to be held back for 70ms", took)
		}
		r.behind = 11 * time.Second
		_, err := r.in.Publish(t.Context(), []postrider.Event{r.event("", `1`)})
		if overload, ok := errors.AsType[*postrider.OverloadError](err); !ok || overload.RetryAfter != r.behind {
			t.Errorf("a publish while 11 s behind: %v, want an overload", err)
		}
		stop()
	})
}

func TestAFullGroupTurnsNoSmallEventIntoAJob(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, ingest.Options{})
		r.endpoints(100, postrider.EndpointEnabled)
		count := &countingInbox{Inbox: r.store}
		r.inbox = count
		stop := r.run()
		var all sync.WaitGroup
		for range 100 { // 10,000 deliveries
			all.Go(func() {
				if got := r.publish(r.event("", `1`))[0]; got.FanOut || got.Deliveries != 100 {
					t.Errorf("receipt = %+v, want 100 deliveries", got)
				}
			})
		}
		all.Wait()
		stop()
		if n := count.commits.Load(); n < 5 {
			t.Errorf("10,000 deliveries took %d commits of at most 2,000", n)
		}
	})
}

func TestAnEndpointDeletedBeforeItsChunkIsSkipped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, ingest.Options{FanOutAbove: 10, FanOutChunk: 7})
		r.endpoints(30, postrider.EndpointEnabled)
		broken := &interruptedInbox{Inbox: r.store} // fails before its first chunk
		r.inbox = broken
		stop := r.run()
		event := r.publish(r.event("", `1`))[0].ID
		time.Sleep(time.Second)
		page, err := r.store.Endpoints(t.Context(), store.EndpointQuery{Account: r.account})
		if err != nil {
			t.Fatal(err)
		}
		gone := page.Items[11]
		gone.Status = postrider.EndpointDeleted
		if _, err := r.store.PutEndpoint(t.Context(), store.PutEndpoint{Endpoint: gone}); err != nil {
			t.Fatal(err)
		}
		broken.left.Store(1000)
		time.Sleep(time.Minute)
		if found := r.deliveries(event); found[postrider.Pending] != 29 || found[postrider.Skipped] != 1 {
			t.Errorf("stored %v, want 29 pending and the deleted one skipped", found)
		}
		stop()
	})
}
