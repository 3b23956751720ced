package storetest

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// The contract tests of the verbs for ordered deliveries.
var (
	publishOrderSentences = []sentence{
		{"of an endpoint's ordered deliveries of one key only the lowest is due", orderHead},
		{"a blocked delivery is pending and has no next attempt", orderBlocked},
		{"the sequence decides, whatever the ids say", orderBySequence},
		{"while the first waits so do the others", orderWaits},
		{"what is published while the key is paused waits", orderPaused},
		{"a skipped delivery takes no position", orderSkipped},
		{"of parallel publishes of one key one is due at a time, by sequence", orderInParallel},
		{"nothing is stuck when deliveries end while others are published", orderEndsInParallel},
	}
	settleOrderSentences = []sentence{
		{"where an ordered delivery ends the next is due at once and Next is its lane", orderNext},
		{"each settlement of a group has its own Next", orderNextOfGroup},
		{"a retry keeps the others blocked", orderRetry},
		{"dead pauses the key where the delivery says so", orderPauses},
		{"what a delivery was published with counts, whatever the policy is now", orderKeepsFlag},
		{"a stale settlement moves no key on", orderStale},
		{"settled again an ordered delivery moves its key on once", orderSettledAgain},
		{"a lease that ended is taken over and keeps the others blocked", orderTakenOver},
	}
	expireOrderSentences = []sentence{
		{"where an ordered delivery expires the next is due at once", orderExpires},
		{"one that pauses its key pauses it when it expires", orderExpiresPausing},
		{"a blocked delivery that expires moves nothing", orderExpiresBlocked},
		{"what expires together moves the key on to the first that is left", orderExpireTogether},
	}
)

// publishOrdered publishes n ordered deliveries, each of its own event with the ordering key.
func (w *world) publishOrdered(e postrider.Endpoint, key string, onDead postrider.OnDead, n int) (ids []postrider.DeliveryID) {
	w.Helper()
	var batch store.Batch
	for range n {
		event := w.orderedEvent(e, key, onDead)
		ids = append(ids, event.Deliveries[0].ID)
		batch = append(batch, event)
	}
	w.publish(batch)
	return ids
}

// orderedEvent returns an event with the ordering key and one ordered delivery.
func (w *world) orderedEvent(e postrider.Endpoint, key string, onDead postrider.OnDead) store.NewEvent {
	d := w.to(e)
	d.Ordered = onDead
	event := w.event(e.Account, d)
	event.Event.OrderingKey = key
	return event
}

// claimAll claims all due deliveries of the endpoint, in all lanes.
func (w *world) claimAll(e postrider.Endpoint) (store.Claims, error) {
	c := store.Claim{Token: w.token()}
	for _, lane := range postrider.Lanes {
		c.Wants = append(c.Wants, store.Want{Endpoint: e.ID, Lane: lane, N: 100, Lease: long})
	}
	return w.Claim(w.Context(), c)
}

// claimExactly claims all due deliveries of the endpoint. It ends the test unless they are the
// wanted ones, in any order.
func (w *world) claimExactly(e postrider.Endpoint, want ...postrider.DeliveryID) []postrider.Claimed {
	w.Helper()
	claims, err := w.claimAll(e)
	w.ok(err)
	slices.SortFunc(claims.Items, func(a, b postrider.Claimed) int {
		return slices.Index(want, a.ID) - slices.Index(want, b.ID)
	})
	if got := deliveryIDs(claims.Items, claimedID); !slices.Equal(got, want) {
		w.Fatalf("what is due: %v, want %v", got, want)
	}
	return claims.Items
}

// deliverInOrder settles the deliveries as delivered, one after the other. Each must be the only
// one that is due.
func (w *world) deliverInOrder(e postrider.Endpoint, ids ...postrider.DeliveryID) {
	w.Helper()
	for _, id := range ids {
		w.settle(delivered(w.claimExactly(e, id)[0]))
	}
}

// orderedKeys returns the ordering keys of an endpoint.
func (w *world) orderedKeys(e postrider.Endpoint) []store.OrderedKey {
	w.Helper()
	page, err := w.OrderedKeys(w.Context(), store.OrderedKeyQuery{Account: e.Account, Endpoint: e.ID})
	w.ok(err)
	return page.Items
}

// pausedBy fails the test unless the endpoint has exactly one ordering key in its list, and that
// dead letter pauses the key. The zero id stands for a key that is not paused.
func (w *world) pausedBy(e postrider.Endpoint, id postrider.DeliveryID) {
	w.Helper()
	if keys := w.orderedKeys(e); len(keys) != 1 || keys[0].PausedBy != id {
		w.Errorf("the ordering keys are %+v, want one that is paused by %s", keys, id)
	}
}

func orderHead(w *world) {
	e := w.endpoint()
	other := w.put(w.draft(e.Account))
	a, b := w.publishOrdered(e, "a", postrider.SkipDead, 3), w.publishOrdered(e, "b", postrider.PauseOnDead, 2)
	elsewhere := w.publishOrdered(other, "a", postrider.SkipDead, 2)
	later := w.publishOrdered(e, "a", postrider.SkipDead, 1)
	free := w.publishOrdered(e, "a", "", 2)

	items := w.claimExactly(e, a[0], b[0], free[0], free[1])
	w.claimExactly(e)
	if event := items[0].Event; event.OrderingKey != "a" || event.Sequence != 1 {
		w.Errorf("claimed an event of key %q with sequence %d, want a and 1", event.OrderingKey, event.Sequence)
	}
	w.deliverInOrder(other, elsewhere...)
	w.settle(delivered(items[0]))
	w.deliverInOrder(e, a[1], a[2], later[0])
	w.settle(delivered(items[1]))
	w.deliverInOrder(e, b[1])
	w.claimExactly(e)
}

func orderBlocked(w *world) {
	e := w.endpoint()
	ids := w.publishOrdered(e, "o", postrider.SkipDead, 2)
	first, second := w.delivery(ids[0]), w.delivery(ids[1])
	if first.NextAttemptAt.IsZero() {
		w.Errorf("the first has no next attempt")
	}
	w.same("the second", second, postrider.Delivery{
		ID: ids[1], Event: second.Event, Endpoint: e.ID, Account: e.Account, EventType: "order.created", Status: postrider.Pending,
	}, cmpopts.IgnoreFields(postrider.Delivery{}, "Waiting"))
	w.deliverInOrder(e, ids[0])
	if second := w.delivery(ids[1]); second.NextAttemptAt.IsZero() {
		w.Errorf("the second has no next attempt when it is the head")
	}
}

func orderBySequence(w *world) {
	e := w.endpoint()
	older, newer := w.orderedEvent(e, "o", postrider.SkipDead), w.orderedEvent(e, "o", postrider.SkipDead)
	w.publish(store.Batch{newer})
	w.publish(store.Batch{older})
	w.deliverInOrder(e, newer.Deliveries[0].ID, older.Deliveries[0].ID)
}

func orderWaits(w *world) {
	waiting, e := w.endpoint(), w.endpoint()
	line := func(e postrider.Endpoint, wait time.Duration) (ids []postrider.DeliveryID) {
		first, second := w.orderedEvent(e, "o", postrider.SkipDead), w.orderedEvent(e, "o", postrider.SkipDead)
		first.Deliveries[0].Wait = wait
		w.publish(store.Batch{first, second})
		return []postrider.DeliveryID{first.Deliveries[0].ID, second.Deliveries[0].ID}
	}
	line(waiting, long)
	ids := line(e, brief)
	w.passed(brief)
	w.claimExactly(waiting)
	w.deliverInOrder(e, ids...)
}

func orderPaused(w *world) {
	e, ids := w.paused(1)
	later := slices.Concat(w.publishOrdered(e, "o", postrider.SkipDead, 1), w.publishOrdered(e, "o", postrider.PauseOnDead, 1))
	w.claimExactly(e)
	_, err := w.Discard(w.Context(), store.Discard{Delivery: ids[0]})
	w.ok(err)
	w.deliverInOrder(e, later...)
}

func orderSkipped(w *world) {
	e := w.endpoint()
	skipped := w.orderedEvent(e, "o", postrider.PauseOnDead)
	skipped.Deliveries[0].Skipped = postrider.ReasonEndpointDisabled
	w.publish(store.Batch{skipped})
	w.deliverInOrder(e, w.publishOrdered(e, "o", postrider.PauseOnDead, 2)...)
	w.same("the ordering keys", w.orderedKeys(e), []store.OrderedKey{})
}

func orderInParallel(w *world) {
	e := w.endpoint()
	version := w.version()
	var publishers sync.WaitGroup
	for range 8 {
		publishers.Go(func() {
			for range 5 {
				event := w.orderedEvent(e, "o", postrider.SkipDead)
				if _, err := w.Publish(w.Context(), store.Publish{Version: version, Batches: []store.Batch{{event}}}); err != nil {
					w.Errorf("Publish: %v", err)
				}
			}
		})
	}
	publishers.Wait()
	for sequence := int64(1); sequence <= 40; sequence++ {
		claims, err := w.claimAll(e)
		w.ok(err)
		if len(claims.Items) != 1 || claims.Items[0].Event.Sequence != sequence {
			w.Fatalf("claimed %d deliveries, want one, of sequence %d: %+v", len(claims.Items), sequence, claims.Items)
		}
		w.settle(delivered(claims.Items[0]))
	}
	w.claimExactly(e)
}

// orderEndsInParallel publishes deliveries of one key while workers end due ones, so that inserts
// and ends overlap. Of two transactions that overlap, one must see the other. If deliveries are
// left at the end and none is due, the key is stuck.
func orderEndsInParallel(w *world) {
	const publishers, each = 4, 20
	e := w.endpoint()
	version := w.version()
	var publishing, working sync.WaitGroup
	var claimed atomic.Int64
	var published atomic.Bool
	for range publishers {
		publishing.Go(func() {
			for range each {
				event := w.orderedEvent(e, "o", postrider.SkipDead)
				if _, err := w.Publish(w.Context(), store.Publish{Version: version, Batches: []store.Batch{{event}}}); err != nil {
					w.Errorf("Publish: %v", err)
				}
			}
		})
	}
	endOne := func() (ended bool) {
		claims, err := w.claimAll(e)
		if err != nil || len(claims.Items) > 1 {
			w.Errorf("claimed %d deliveries of one key: %v", len(claims.Items), err)
		}
		for _, c := range claims.Items {
			if n := claimed.Add(1); c.Event.Sequence != n {
				w.Errorf("sequence %d was claimed as number %d", c.Event.Sequence, n)
			}
			if _, err := w.Settle(w.Context(), []store.Settlement{delivered(c)}); err != nil {
				w.Errorf("Settle: %v", err)
			}
		}
		return len(claims.Items) > 0
	}
	for range 2 {
		working.Go(func() {
			for !published.Load() && !w.Failed() {
				endOne()
			}
		})
	}
	publishing.Wait()
	published.Store(true)
	working.Wait()
	for !w.Failed() && endOne() {
	}
	w.same("how many were delivered", int(claimed.Load()), publishers*each)
	w.same("what is left", w.orderedKeys(e), []store.OrderedKey{})
}

func orderNext(w *world) {
	e := w.endpoint()
	first, second, third := w.orderedEvent(e, "o", postrider.SkipDead), w.orderedEvent(e, "o", postrider.SkipDead),
		w.orderedEvent(e, "o", postrider.SkipDead)
	second.Deliveries[0].Lane = postrider.LaneBulk
	w.publish(store.Batch{first, second, third})
	c := w.claimExactly(e, first.Deliveries[0].ID)[0]
	w.same("Settle", w.settle(delivered(c)), []store.Settled{{Next: postrider.LaneBulk}})
	c = w.claimOne(e, postrider.LaneBulk)
	w.same("Settle of a dead one", w.settle(dead(c)), []store.Settled{{Next: postrider.LaneFirst}})
	c = w.claimOne(e, postrider.LaneFirst)
	w.same("Settle of the last", w.settle(delivered(c)), []store.Settled{{}})
	w.claimExactly(e)
}

func orderNextOfGroup(w *world) {
	e := w.endpoint()
	a, b := w.publishOrdered(e, "a", postrider.SkipDead, 2), w.publishOrdered(e, "b", postrider.SkipDead, 1)
	c, d := w.publishOrdered(e, "c", postrider.PauseOnDead, 2), w.publishOrdered(e, "d", postrider.SkipDead, 2)
	free := w.pending(e, 1)
	items := w.claimExactly(e, a[0], b[0], c[0], d[0], free[0])
	settled := w.settle(retry(items[3], long), dead(items[2]), delivered(items[4]), delivered(items[0]), delivered(items[1]))
	w.same("Settle", settled, []store.Settled{{}, {}, {}, {Next: postrider.LaneFirst}, {}})
	w.claimExactly(e, a[1])
}

func orderRetry(w *world) {
	e := w.endpoint()
	ids := w.publishOrdered(e, "o", postrider.PauseOnDead, 2)
	c := w.claimExactly(e, ids[0])[0]
	w.same("Settle", w.settle(retry(c, 0)), []store.Settled{{}})
	c = w.claimExactly(e, ids[0])[0]
	if c.Lane != postrider.LaneRetry || c.Attempt != 2 {
		w.Errorf("claimed %+v, want attempt 2 in the retry lane", c)
	}
	w.settle(retry(c, long))
	w.claimExactly(e)
	if got := w.delivery(ids[0]); got.NextAttemptAt.IsZero() {
		w.Errorf("the first has no next attempt")
	}
}

func orderPauses(w *world) {
	e := w.endpoint()
	ids := w.publishOrdered(e, "o", postrider.PauseOnDead, 2)
	other := w.publishOrdered(e, "other", postrider.PauseOnDead, 1)
	items := w.claimExactly(e, ids[0], other[0])
	w.same("Settle", w.settle(dead(items[0])), []store.Settled{{}})
	w.settle(delivered(items[1]))
	later := w.publishOrdered(e, "o", postrider.PauseOnDead, 1)
	w.claimExactly(e)
	w.pausedBy(e, ids[0])
	w.same("what is due", w.due(store.Due{Max: 10}), []store.DueLane{})
	for _, id := range []postrider.DeliveryID{ids[1], later[0]} {
		if got := w.delivery(id); got.Status != postrider.Pending || !got.NextAttemptAt.IsZero() {
			w.Errorf("the delivery is %+v, want pending without a next attempt", got)
		}
	}
}

func orderKeepsFlag(w *world) {
	e := w.endpoint()
	skip, pause := w.orderedEvent(e, "o", postrider.SkipDead), w.orderedEvent(e, "o", postrider.PauseOnDead)
	w.publish(store.Batch{skip, pause})
	last := w.publishOrdered(e, "o", postrider.SkipDead, 1)
	e.Policy.Order, e.Policy.OnDead = postrider.OrderNone, postrider.SkipDead
	e = w.put(e)
	w.settle(dead(w.claimExactly(e, skip.Deliveries[0].ID)[0]))
	w.settle(dead(w.claimExactly(e, pause.Deliveries[0].ID)[0]))
	w.claimExactly(e)
	w.pausedBy(e, pause.Deliveries[0].ID)
	w.replay(pause.Deliveries[0].ID)
	w.settle(delivered(w.claimOne(e, postrider.LaneBulk)))
	w.deliverInOrder(e, last...)
}

// takenOver lets the lease of a key's first delivery end, and claims the delivery again.
func (w *world) takenOver(e postrider.Endpoint) (old, taken postrider.Claimed) {
	w.Helper()
	old = w.take(store.Want{Endpoint: e.ID, Lane: postrider.LaneFirst, N: 3, Lease: brief})[0]
	return old, w.takeOver(old, long)
}

func orderStale(w *world) {
	e := w.endpoint()
	ids := w.publishOrdered(e, "o", postrider.SkipDead, 3)
	old, taken := w.takenOver(e)
	w.same("Settle", w.settle(delivered(old)), []store.Settled{{Stale: true}})
	w.claimExactly(e)
	w.settle(delivered(taken))
	w.deliverInOrder(e, ids[1:]...)
}

func orderSettledAgain(w *world) {
	e := w.endpoint()
	ids := w.publishOrdered(e, "o", postrider.SkipDead, 3)
	c := w.claimExactly(e, ids[0])[0]
	w.settle(delivered(c))
	w.settle(delivered(c))
	next := w.claimExactly(e, ids[1])[0]
	if again := w.settle(delivered(c)); again[0].Stale {
		w.Errorf("settled again it is stale")
	}
	w.claimExactly(e)
	w.settle(delivered(next))
	w.deliverInOrder(e, ids[2])
}

func orderTakenOver(w *world) {
	e := w.endpoint()
	ids := w.publishOrdered(e, "o", postrider.SkipDead, 3)
	_, taken := w.takenOver(e)
	if taken.ID != ids[0] || taken.Attempt != 2 {
		w.Errorf("took over %+v, want attempt 2 of the first", taken)
	}
	w.claimExactly(e)
	w.release(taken)
	w.deliverInOrder(e, ids...)
}

// expired expires all deliveries that can expire.
func (w *world) expired(n int) {
	w.Helper()
	w.passed(0)
	w.same("how many expired", w.expire(100), n)
}

// expiringLine publishes deliveries of one key. The first n expire at once, and the last one does
// not.
func (w *world) expiringLine(e postrider.Endpoint, onDead postrider.OnDead, n int) (ids []postrider.DeliveryID) {
	w.Helper()
	var batch store.Batch
	for i := range n + 1 {
		event := w.orderedEvent(e, "o", onDead)
		if i < n {
			event.Deliveries[0].Expiry = 0
		}
		ids = append(ids, event.Deliveries[0].ID)
		batch = append(batch, event)
	}
	w.publish(batch)
	return ids
}

func orderExpires(w *world) {
	e := w.endpoint()
	ids := w.expiringLine(e, postrider.SkipDead, 1)
	w.expired(1)
	w.deliverInOrder(e, ids[1])
}

func orderExpiresPausing(w *world) {
	e := w.endpoint()
	ids := w.expiringLine(e, postrider.PauseOnDead, 1)
	w.expired(1)
	w.claimExactly(e)
	w.pausedBy(e, ids[0])
}

func orderExpiresBlocked(w *world) {
	for _, onDead := range []postrider.OnDead{postrider.SkipDead, postrider.PauseOnDead} {
		e := w.endpoint()
		first := w.publishOrdered(e, "o", onDead, 1)
		c := w.claimExactly(e, first[0])[0]
		ids := w.expiringLine(e, onDead, 1)
		w.expired(1)
		if got := w.delivery(ids[0]); got.Status != postrider.Dead || got.Reason != postrider.ReasonExpired {
			w.Errorf("the blocked delivery is %+v, want dead as expired", got)
		}
		w.claimExactly(e)
		w.pausedBy(e, postrider.DeliveryID{})
		w.settle(delivered(c))
		w.deliverInOrder(e, ids[1])
	}
}

func orderExpireTogether(w *world) {
	a, b := w.endpoint(), w.endpoint()
	skip, pause := w.expiringLine(a, postrider.SkipDead, 3), w.expiringLine(b, postrider.PauseOnDead, 3)
	w.expired(6)
	w.deliverInOrder(a, skip[3])
	w.claimExactly(b)
	w.pausedBy(b, pause[0])
	_, err := w.Discard(w.Context(), store.Discard{Delivery: pause[0]})
	w.ok(err)
	w.deliverInOrder(b, pause[3])
}

func claimBlocked(w *world) {
	e := w.endpoint()
	first, second := w.orderedEvent(e, "o", postrider.SkipDead), w.orderedEvent(e, "o", postrider.SkipDead)
	second.Deliveries[0].Lane = postrider.LaneBulk
	w.publish(store.Batch{first, second})
	claims, err := w.claimAll(e)
	w.ok(err)
	w.same("the lanes", claims.Lanes, []store.LaneState{{Claimed: 1}, {}, {}, {}},
		cmpopts.IgnoreFields(store.LaneState{}, "In", "Low"))
}

func dueBlocked(w *world) {
	e := w.endpoint()
	first, second := w.orderedEvent(e, "o", postrider.SkipDead), w.orderedEvent(e, "o", postrider.SkipDead)
	second.Deliveries[0].Lane = postrider.LaneBulk
	w.publish(store.Batch{first, second})
	ignoreIn := cmpopts.IgnoreFields(store.DueLane{}, "In")
	w.same("Due", w.due(store.Due{Max: 10}), []store.DueLane{{Endpoint: e.ID, Lane: postrider.LaneFirst}}, ignoreIn)
	w.same("what is newer than the first", w.due(store.Due{Max: 10, NewerThan: first.Deliveries[0].ID}), []store.DueLane{})
	w.settle(delivered(w.claimOne(e, postrider.LaneFirst)))
	got := w.due(store.Due{Max: 10})
	w.same("Due of the next", got, []store.DueLane{{Endpoint: e.ID, Lane: postrider.LaneBulk}}, ignoreIn)
	w.same("whether it is due now", got[0].In <= 0, true)
}

func releaseOrdered(w *world) {
	e := w.endpoint()
	ids := w.publishOrdered(e, "o", postrider.SkipDead, 2)
	w.release(w.claimExactly(e, ids[0])...)
	w.deliverInOrder(e, ids...)
}
