// Package storetest tests a store against its contract: the sentences of the comments in package
// store.
//
// These are all the contract tests of a store:
//
//	func TestContract(t *testing.T) { storetest.Run(t, open) }
//	func TestNodes(t *testing.T)    { storetest.RunNodes(t, open) } // if it has the role
//	func TestModel(t *testing.T)    { storetest.Model(t, open) }
//
// [Run] has one subtest for each sentence, grouped by method. A failure names the broken
// sentence. [RunNodes] does the same for the role of stores that several nodes share. [Model]
// plays random histories on the store and on package memory. Both must agree on everything that a
// caller can see.
//
// A store may rely on these rules:
//
//   - Every subtest has its own store, and subtests run in parallel.
//   - Ids contain the present time. Deliveries belong to stored endpoints, and endpoints to
//     stored accounts.
//   - Tests read only the store's clock, and do not sleep. Leases are short, and tests poll for
//     their end. In [RunNodes] the clock stands still, unless the test moves it.
//   - No subtest begins in the last minute of a day of UTC.
//
// A machine may stop a test for a while. So a test must not rely on these facts:
//
//   - A brief lease is still valid.
//   - Two statements are in the same minute.
//   - The ids of the test, the Wall of the store's clock and the times that the store records
//     agree to within a few seconds.
//
// [world.stamp] and [world.steadily] help with that.
//
// Each store has its own tests of write amplification, plans and crashes.
package storetest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// Run tests a store against the contract. The function open returns an empty store, which is
// closed when the test ends.
func Run(t *testing.T, open func(*testing.T) store.Store) {
	for _, role := range [][]verb{
		inbox, queue, directory, subscriptions, access, sessions, destinations, inspections, encryption, ledger, finder, rollups,
		replays, backfills, upkeep, retention, oldRows, archive, holding, notices, quotas, expunges, whatIfs, sources, texts,
	} {
		for _, v := range role {
			t.Run(v.method, func(t *testing.T) {
				t.Parallel()
				hold(t, v.sentences, func(t *testing.T) *world { return &world{Store: open(t)} })
			})
		}
	}
}

// NodeStore is a store that several nodes can share.
type NodeStore interface {
	store.Store
	store.Nodes
}

// RunNodes tests the role [store.Nodes]. The function open returns an empty store, which is
// closed when the test ends. The parameter now is the machine's clock for the store.
func RunNodes(t *testing.T, open func(t *testing.T, now func() time.Time) NodeStore) {
	for _, v := range nodes {
		t.Run(v.method, func(t *testing.T) {
			t.Parallel()
			hold(t, v.sentences, func(t *testing.T) *world {
				m := &machine{at: time.Now()}
				return &world{Store: open(t, m.now), machine: m}
			})
		})
	}
}

// machine is a clock that stands still unless a test moves it.
type machine struct {
	mu sync.Mutex
	at time.Time
}

func (m *machine) now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.at
}

func (m *machine) move(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at = m.at.Add(d)
}

// verb is a method of a role, with the tests of its sentences.
type verb struct {
	method    string
	sentences []sentence
}

// sentence is one promise in a method's comment, and the test of that promise.
type sentence struct {
	text  string
	check func(*world)
}

func hold(t *testing.T, sentences []sentence, open func(*testing.T) *world) {
	t.Helper()
	for _, s := range sentences {
		t.Run(s.text, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			w.T, w.ids = t, store.NewIDs(w.Clock().Wall, nil)
			w.Nodes, _ = w.Store.(store.Nodes)
			w.beginDay()
			s.check(w)
		})
	}
}

const (
	brief = 40 * time.Millisecond // a lease whose end a test sees
	long  = time.Hour             // a lease or a wait whose end no test sees
)

// world is a store under test, with the helpers of tests. Its own methods fail the test.
// Goroutines may use only the methods of the store.
type world struct {
	*testing.T
	store.Store
	store.Nodes            // nil unless the store has the role
	ids         *store.IDs // uses the store's clock, as a server does; this machine's clock may differ by milliseconds
	tokens      atomic.Int64
	machine     *machine // the clock that the store's clock follows; nil: the real one
	restart     func()   // ends the process that uses the store; nil if nodes die instead
}

func newID[I ~[16]byte](w *world) I { return store.NewID[I](w.ids) }

func (w *world) token() postrider.Token { return postrider.Token(1<<32 | w.tokens.Add(1)) }

// ok ends the test if a call failed that must succeed.
func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatalf("unexpected error: %v", err)
	}
}

// refuses fails the test unless err is the wanted kind of error.
func (w *world) refuses(err, want error) {
	w.Helper()
	if !errors.Is(err, want) {
		w.Errorf("error = %v, want %v", err, want)
	}
}

// same fails the test if got is not want. Empty and nil count as equal.
func (w *world) same(what string, got, want any, opts ...cmp.Option) {
	w.Helper()
	if diff := cmp.Diff(want, got, append(opts, cmpopts.EquateEmpty())...); diff != "" {
		w.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// eventually polls until done reports true.
func (w *world) eventually(what string, done func() bool) {
	w.Helper()
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()
	for !done() {
		select {
		case <-deadline.C:
			w.Fatalf("%s: not within 30 s", what)
		case <-poll.C:
		}
	}
}

// passed waits until the store's clock has moved on by d, or moves the clock if it stands still.
func (w *world) passed(d time.Duration) {
	w.Helper()
	until := w.Clock().Now().Add(d)
	for w.machine != nil {
		left := until.Sub(w.Clock().Now())
		if left < 0 {
			return
		}
		w.machine.move(left + time.Microsecond)
	}
	w.eventually("the clock moves on", func() bool { return w.Clock().Now().After(until) })
}

// beginDay waits for the next day of UTC if the present day is about to end.
func (w *world) beginDay() {
	w.Helper()
	const margin = time.Minute
	if left := time.Until(store.DayOf(time.Now().Add(margin))); left > 0 {
		next := time.NewTimer(left)
		defer next.Stop()
		<-next.C
	}
}

// stamp returns the time of day that the store now records for its rows. Stamps of one store may
// be compared, even if its Clock is corrected in between.
func (w *world) stamp() time.Time {
	w.Helper()
	w.ok(w.PutPortal(w.Context(), w.portal()))
	return w.portal().UpdatedAt
}

// steadily runs a check, which may read the clock, until a run begins and ends in the same unit
// of time. Then it calls the function that the check returned, which compares the results.
func (w *world) steadily(unit time.Duration, check func() (compare func())) {
	w.Helper()
	const off = time.Second // how far the clocks of the store and of this machine may differ
	for {
		begun := time.Now().Add(-off)
		compare := check()
		if ended := time.Now().Add(off); ended.Truncate(unit).Equal(begun.Truncate(unit)) {
			compare()
			return
		}
	}
}

func (w *world) now() time.Time {
	w.Helper()
	now, err := w.Now(w.Context())
	w.ok(err)
	return now
}

func (w *world) account() postrider.AccountID {
	w.Helper()
	a := postrider.Account{ID: newID[postrider.AccountID](w), Name: "Acme Inc."}
	a.CreatedAt = a.ID.Time()
	w.putAccount(&a)
	return a.ID
}

// draft returns an endpoint of the account that is not stored yet.
func (w *world) draft(account postrider.AccountID) postrider.Endpoint {
	e := postrider.Endpoint{
		ID:         newID[postrider.EndpointID](w),
		Account:    account,
		Kind:       postrider.KindHTTP,
		URL:        "https://acme.example/hooks",
		EventTypes: []postrider.Pattern{"*"},
		Status:     postrider.EndpointEnabled,
		Policy:     postrider.DefaultPolicy(),
	}
	e.CreatedAt, e.UpdatedAt = e.ID.Time(), e.ID.Time()
	return e
}

func (w *world) put(e postrider.Endpoint, secrets ...postrider.Secret) postrider.Endpoint {
	w.Helper()
	stored, err := w.PutEndpoint(w.Context(), store.PutEndpoint{Endpoint: e, Secrets: secrets})
	w.ok(err)
	return stored
}

// endpoint stores an endpoint of a new account.
func (w *world) endpoint() postrider.Endpoint {
	w.Helper()
	return w.put(w.draft(w.account()))
}

func (w *world) become(e postrider.Endpoint, status postrider.EndpointStatus) postrider.Endpoint {
	w.Helper()
	e.Status = status
	return w.put(e)
}

// version returns the version of the subscriptions.
func (w *world) version() int64 {
	w.Helper()
	var version int64
	for {
		c, err := w.Changes(w.Context(), version, 1000)
		w.ok(err)
		if len(c.Endpoints) == 0 {
			return c.Version
		}
		version = c.Version
	}
}

// event returns a new event. The id of its first delivery carries the event; the other deliveries
// have ids of their own.
func (w *world) event(account postrider.AccountID, deliveries ...store.NewDelivery) store.NewEvent {
	id := store.NewEventID(w.ids)
	if len(deliveries) > 0 {
		id = postrider.EventOf(deliveries[0].ID)
	}
	return store.NewEvent{
		Event: postrider.Event{
			ID: id, Account: account, Type: "order.created", Data: fmt.Appendf(nil, `{"id":%q}`, id), CreatedAt: id.Time(),
		},
		Deliveries: deliveries,
	}
}

// to returns a new delivery that is due at once.
func (w *world) to(e postrider.Endpoint) store.NewDelivery {
	return store.NewDelivery{
		ID: store.NewDeliveryIDs(w.ids, store.NewEventID(w.ids))(), Endpoint: e.ID, Lane: postrider.LaneFirst, Expiry: long,
	}
}

func (w *world) publish(batches ...store.Batch) []store.Published {
	w.Helper()
	published, err := w.Publish(w.Context(), store.Publish{Version: w.version(), Batches: batches})
	w.ok(err)
	if len(published) != len(batches) {
		w.Fatalf("Publish answered for %d of %d batches", len(published), len(batches))
	}
	return published
}

// pending publishes n deliveries that are due at once, each of its own event.
func (w *world) pending(e postrider.Endpoint, n int) []postrider.DeliveryID {
	w.Helper()
	var batch store.Batch
	var ids []postrider.DeliveryID
	for range n {
		d := w.to(e)
		ids = append(ids, d.ID)
		batch = append(batch, w.event(e.Account, d))
	}
	w.publish(batch)
	return ids
}

// take claims deliveries of one lane.
func (w *world) take(want store.Want) []postrider.Claimed {
	w.Helper()
	claims, err := w.Claim(w.Context(), store.Claim{Wants: []store.Want{want}, Token: w.token()})
	w.ok(err)
	if len(claims.Lanes) != 1 || claims.Lanes[0].Claimed != len(claims.Items) {
		w.Fatalf("Claim of one lane got %d items, lanes %+v", len(claims.Items), claims.Lanes)
	}
	return claims.Items
}

func (w *world) claim(e postrider.Endpoint, lane postrider.Lane, n int) []postrider.Claimed {
	w.Helper()
	return w.take(store.Want{Endpoint: e.ID, Lane: lane, N: n, Lease: long})
}

// claimOne claims the only due delivery of the lane.
func (w *world) claimOne(e postrider.Endpoint, lane postrider.Lane) postrider.Claimed {
	w.Helper()
	items := w.claim(e, lane, 10)
	if len(items) != 1 {
		w.Fatalf("claimed %d deliveries in lane %s, want 1", len(items), lane)
	}
	return items[0]
}

// claimed publishes one delivery and claims it.
func (w *world) claimed() (postrider.Endpoint, postrider.Claimed) {
	w.Helper()
	e := w.endpoint()
	w.pending(e, 1)
	return e, w.claimOne(e, postrider.LaneFirst)
}

// lost publishes one delivery, claims it, lets the lease end, and claims it again. The first
// claim is that of the old worker, the second that of the new one.
func (w *world) lost() (old, taken postrider.Claimed) {
	w.Helper()
	e := w.endpoint()
	w.pending(e, 1)
	old = w.take(store.Want{Endpoint: e.ID, Lane: postrider.LaneFirst, N: 1, Lease: brief})[0]
	return old, w.takeOver(old, long)
}

// takeOver claims a delivery again after its lease has ended.
func (w *world) takeOver(c postrider.Claimed, lease time.Duration) (taken postrider.Claimed) {
	w.Helper()
	w.eventually("the lease ends", func() bool {
		items := w.take(store.Want{Endpoint: c.Endpoint, Lane: c.Lane, N: 1, Lease: lease})
		if len(items) == 1 {
			taken = items[0]
		}
		return len(items) == 1
	})
	return taken
}

func (w *world) settle(settlements ...store.Settlement) []store.Settled {
	w.Helper()
	settled, err := w.Settle(w.Context(), settlements)
	w.ok(err)
	if len(settled) != len(settlements) {
		w.Fatalf("Settle answered for %d of %d settlements", len(settled), len(settlements))
	}
	return settled
}

// settlement returns the settlement of a claimed delivery for a status code. The attempt ended in
// the past, because a delivery that ends after the creation of a replay job is not in the job's
// set.
func settlement(c postrider.Claimed, code int, t postrider.Transition) store.Settlement {
	a := postrider.Attempt{
		Delivery: c.ID, Event: c.Event.ID, Endpoint: c.Endpoint, Number: c.Attempt,
		Outcome: postrider.Classify(code, 0), StatusCode: code,
		StartedAt: c.ID.Time().Add(-time.Second), Duration: 12 * time.Millisecond,
	}
	if a.Outcome != postrider.OutcomeAccepted {
		a.Error = "the endpoint refused"
	}
	return store.Settlement{Claimed: c, Attempt: a, Transition: t}
}

func delivered(c postrider.Claimed) store.Settlement {
	return settlement(c, 200, postrider.Transition{To: postrider.Delivered})
}

func dead(c postrider.Claimed) store.Settlement {
	return settlement(c, 500, postrider.Transition{To: postrider.Dead, Reason: postrider.ReasonExhausted})
}

func retry(c postrider.Claimed, after time.Duration) store.Settlement {
	return settlement(c, 503, postrider.Transition{To: postrider.Pending, Step: c.Step + 1, After: after})
}

// delivery returns the stored delivery.
func (w *world) delivery(id postrider.DeliveryID) postrider.Delivery {
	w.Helper()
	page, err := w.Deliveries(w.Context(), store.DeliveryQuery{ID: id})
	w.ok(err)
	if len(page.Items) != 1 {
		w.Fatalf("delivery %s is listed %d times, want once", id, len(page.Items))
	}
	return page.Items[0]
}

// attempts returns the recorded attempts of one delivery.
func (w *world) attempts(d postrider.Delivery) []postrider.Attempt {
	w.Helper()
	page, err := w.Attempts(w.Context(), store.AttemptQuery{Account: d.Account, Delivery: d.ID})
	w.ok(err)
	return page.Items
}

// letter returns the dead letter of one delivery, resolved or not.
func (w *world) letter(id postrider.DeliveryID) postrider.DeadLetter {
	w.Helper()
	page, err := w.DeadLetters(w.Context(), store.DeadLetterQuery{Delivery: id, Resolved: true})
	w.ok(err)
	if len(page.Items) != 1 {
		w.Fatalf("dead letter %s is listed %d times, want once", id, len(page.Items))
	}
	return page.Items[0]
}

// near fails the test unless got is about want. It allows for the time that a slow machine may
// need between two calls.
func (w *world) near(what string, got, want time.Duration) {
	w.Helper()
	if (got - want).Abs() > 30*time.Second {
		w.Errorf("%s = %v, want about %v", what, got, want)
	}
}

func deliveryIDs[T any](items []T, id func(T) postrider.DeliveryID) []postrider.DeliveryID {
	var ids []postrider.DeliveryID
	for _, item := range items {
		ids = append(ids, id(item))
	}
	return ids
}

func claimedID(c postrider.Claimed) postrider.DeliveryID { return c.ID }
