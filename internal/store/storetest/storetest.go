// Package storetest holds a store to its contract: the sentences of the
// comments in package store.
//
// A store's whole test is
//
//	func TestContract(t *testing.T) { storetest.Run(t, open) }
//	func TestNodes(t *testing.T)    { storetest.RunNodes(t, open) } // where it has the role
//	func TestModel(t *testing.T)    { storetest.Model(t, open) }
//
// [Run] has one subtest for each sentence, grouped by method; a failure names
// the sentence that was broken. [RunNodes] does the same for the role of stores
// that several nodes share. [Model] plays random histories on the store and on
// package memory, which must agree on all that a caller can see.
//
// What a store may rely on:
//
//   - Every subtest has a store of its own, and they run in parallel.
//   - Ids carry the present time; deliveries belong to endpoints that were put,
//     and those to accounts that were put.
//   - Nothing reads a clock but the store's own, and nothing sleeps: leases are
//     short, and what must come is polled for. In [RunNodes] the clock stands still,
//     unless the test moves it.
//   - No sentence begins in the last minute of a day of UTC.
//
// What a test must not rely on, because a machine may stop it for a while: that a lease of
// brief still lasts, that two statements are in one minute, or that the ids of the test, the
// Wall of the store's clock and the times that the store records agree to less than some
// seconds. [world.stamp] and [world.steadily] are for that.
//
// Write amplification, plans and crashes are each store's own to test.
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

// Run checks a store against the contract. open returns an empty store that is
// closed when the test ends.
func Run(t *testing.T, open func(*testing.T) store.Store) {
	for _, role := range [][]verb{inbox, queue, directory, access, sessions, destinations, inspections, encryption, ledger, finder, rollups, replays, upkeep, retention, oldRows, archive, holding, notices, quotas, expunges, texts} {
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

// RunNodes checks the role [store.Nodes]. open returns an empty store that is
// closed when the test ends, and whose machine's clock is now.
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

// verb is a method of a role and what its comment says.
type verb struct {
	method    string
	sentences []sentence
}

// sentence is one promise of a method's comment and what shows that it holds.
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
	brief = 40 * time.Millisecond // a lease that a test sees ending
	long  = time.Hour             // a lease or a wait that no test sees ending
)

// world is a store under test with what a test needs around it. Its methods
// fail the test themselves; those that goroutines may use are the store's own.
type world struct {
	*testing.T
	store.Store
	store.Nodes            // nil unless the store has the role
	ids         *store.IDs // by the store's clock, as in a server: this machine's can be milliseconds off
	tokens      atomic.Int64
	machine     *machine // that the store's clock follows; nil: the real one
	restart     func()   // lets the process that uses the store die; nil where nodes die
}

func newID[I ~[16]byte](w *world) I { return store.NewID[I](w.ids) }

func (w *world) token() postrider.Token { return postrider.Token(1<<32 | w.tokens.Add(1)) }

// ok ends the test when a call that must succeed did not.
func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatalf("unexpected error: %v", err)
	}
}

// refuses fails the test unless err is the kind that was to come.
func (w *world) refuses(err, want error) {
	w.Helper()
	if !errors.Is(err, want) {
		w.Errorf("error = %v, want %v", err, want)
	}
}

// same fails the test when got is not want. Empty and nil are the same.
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

// passed waits until the store's clock has moved on by d, or moves it by that.
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

// beginDay waits for the next day of UTC if the present one is about to end.
func (w *world) beginDay() {
	w.Helper()
	const margin = time.Minute
	if left := time.Until(store.DayOf(time.Now().Add(margin))); left > 0 {
		next := time.NewTimer(left)
		defer next.Stop()
		<-next.C
	}
}

// stamp returns the time of day by the clock by which the store stamps what it records.
// Stamps of one store may be compared, however its Clock is corrected.
func (w *world) stamp() time.Time {
	w.Helper()
	w.ok(w.PutPortal(w.Context(), w.portal()))
	return w.portal().UpdatedAt
}

// steadily runs a check, which may read the clock, until it ends in the unit of time in which it
// began. It then calls what the check returned, which compares.
func (w *world) steadily(unit time.Duration, check func() (compare func())) {
	w.Helper()
	const off = time.Second // of the clocks of a store and of this machine
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
	w.ok(w.PutAccount(w.Context(), a))
	return a.ID
}

// draft is an endpoint of the account that is not stored yet.
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

// endpoint stores an endpoint of an account of its own.
func (w *world) endpoint() postrider.Endpoint {
	w.Helper()
	return w.put(w.draft(w.account()))
}

func (w *world) become(e postrider.Endpoint, status postrider.EndpointStatus) postrider.Endpoint {
	w.Helper()
	e.Status = status
	return w.put(e)
}

// version reads the version of the subscriptions.
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

func (w *world) event(account postrider.AccountID, deliveries ...store.NewDelivery) store.NewEvent {
	id := newID[postrider.EventID](w)
	return store.NewEvent{
		Event: postrider.Event{
			ID: id, Account: account, Type: "order.created", Data: fmt.Appendf(nil, `{"id":%q}`, id), CreatedAt: id.Time(),
		},
		Deliveries: deliveries,
	}
}

// to is a delivery that is due at once.
func (w *world) to(e postrider.Endpoint) store.NewDelivery {
	return store.NewDelivery{
		ID: newID[postrider.DeliveryID](w), Endpoint: e.ID, Lane: postrider.LaneFirst, Expiry: long,
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

// take claims up to n deliveries of one lane for the time of the lease.
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

// claimOne claims the one delivery that the lane has.
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

// lost publishes one delivery, claims it, lets the lease end and claims it
// again: the first claim is the old worker's, the second the new one's.
func (w *world) lost() (old, taken postrider.Claimed) {
	w.Helper()
	e := w.endpoint()
	w.pending(e, 1)
	old = w.take(store.Want{Endpoint: e.ID, Lane: postrider.LaneFirst, N: 1, Lease: brief})[0]
	return old, w.takeOver(old, long)
}

// takeOver claims a delivery again once its lease has ended.
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

// settlement is what a worker makes of a claimed delivery and an answer. The attempt ended in
// the past: what ends after a replay job was created is not in its set.
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

// delivery reads one delivery.
func (w *world) delivery(id postrider.DeliveryID) postrider.Delivery {
	w.Helper()
	page, err := w.Deliveries(w.Context(), store.DeliveryQuery{ID: id})
	w.ok(err)
	if len(page.Items) != 1 {
		w.Fatalf("delivery %s is listed %d times, want once", id, len(page.Items))
	}
	return page.Items[0]
}

// attempts reads what is recorded of one delivery.
func (w *world) attempts(d postrider.Delivery) []postrider.Attempt {
	w.Helper()
	page, err := w.Attempts(w.Context(), store.AttemptQuery{Account: d.Account, Delivery: d.ID})
	w.ok(err)
	return page.Items
}

// letter reads the dead letter of one delivery, resolved or not.
func (w *world) letter(id postrider.DeliveryID) postrider.DeadLetter {
	w.Helper()
	page, err := w.DeadLetters(w.Context(), store.DeadLetterQuery{Delivery: id, Resolved: true})
	w.ok(err)
	if len(page.Items) != 1 {
		w.Fatalf("dead letter %s is listed %d times, want once", id, len(page.Items))
	}
	return page.Items[0]
}

// near fails the test unless got is want, give or take what a slow machine may
// take between two calls.
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
