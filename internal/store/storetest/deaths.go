package storetest

import (
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// deaths are the contract tests about the deliveries of dead nodes. For stores that several nodes
// share they are part of Reclaim.
var deaths = []sentence{
	{"those whose Losses reach SuspectedAfter are due in the suspect lane", deathSuspects},
	{"the only suspect that was leased died alone, and is parked after ParkedAfter deaths in a row", deathParks},
	{"suspects that were leased together did not die alone", deathTogether},
	{"a settlement forgets how often a suspect died alone", deathSettled},
	{"a suspect that was given back did not die", deathReleased},
	{"MakeDue makes a parked delivery due at once, its deaths counted from 0", makeDueParked},
	{"MakeDue of what is not parked is ErrConflict, and of another account's ErrNotFound", makeDueParkedRefuses},
	{"the attempts of nodes that died are counted as lost, each once", deathCounted},
	{"a parked delivery expires", parkedExpires},
	{"a parked delivery can be cancelled", parkedCancelled},
	{"a parked delivery is cancelled with its endpoint", parkedOrphan},
	{"a parked delivery stays the head of its ordering key until it ends", parkedOrdered},
}

// RunDeaths tests the deliveries of a dead process, for a store that only one process can open.
// The function open returns a store, and a function next that ends the store's process and
// returns the store of the next process.
func RunDeaths(t *testing.T, open func(*testing.T) (s store.Store, next func() store.Store)) {
	for _, s := range deaths {
		t.Run(s.text, func(t *testing.T) {
			t.Parallel()
			opened, next := open(t)
			w := &world{T: t, Store: opened, ids: store.NewIDs(opened.Clock().Wall, nil)}
			w.restart = func() { w.Store = next() }
			w.beginDay()
			s.check(w)
		})
	}
}

// die ends the node that has the leases; another node takes over.
func (w *world) die() {
	w.Helper()
	if w.restart != nil {
		w.restart()
		return
	}
	w.member(1).dies()
	w.reclaim(1, 1000)
}

// dieWith lets n nodes die, one after the other. Each of them has leased all due deliveries of
// the endpoint.
func (w *world) dieWith(e postrider.Endpoint, n int) {
	w.Helper()
	for range n {
		claims, err := w.claimAll(e)
		w.ok(err)
		if len(claims.Items) == 0 {
			w.Fatal("nothing is due, and so nothing can die with its node")
		}
		w.die()
	}
}

// suspects publishes n deliveries, and lets nodes die until the deliveries are suspects.
func (w *world) suspects(n int) (e postrider.Endpoint, ids []postrider.DeliveryID) {
	w.Helper()
	e = w.endpoint()
	ids = w.pending(e, n)
	w.dieWith(e, postrider.SuspectedAfter)
	return e, ids
}

// parked publishes one delivery, and lets nodes die until the delivery is parked.
func (w *world) parked() (postrider.Endpoint, postrider.Delivery) {
	w.Helper()
	e, ids := w.suspects(1)
	w.dieWith(e, postrider.ParkedAfter)
	return e, w.isParked(ids[0])
}

func (w *world) isParked(id postrider.DeliveryID) postrider.Delivery {
	w.Helper()
	d := w.delivery(id)
	if d.Status != postrider.Pending || !d.Suspected || !d.Parked || !d.NextAttemptAt.IsZero() {
		w.Fatalf("the delivery is %+v, want it pending and parked", d)
	}
	return d
}

// deathCounted counts a lost attempt that was folded before the next death, and one that was not.
func deathCounted(w *world) {
	e := w.endpoint()
	w.settleAll(e, 1)
	w.pending(e, 2)
	w.dieWith(e, 1)
	w.fold()
	w.dieWith(e, 1)
	w.counted(e, record{accepted, 1, postrider.Delivered}, record{lost, 1, pending}, record{lost, 1, pending},
		record{lost, 2, pending}, record{lost, 2, pending})
}

func deathSuspects(w *world) {
	e := w.endpoint()
	ids := w.pending(e, 2)
	w.dieWith(e, postrider.SuspectedAfter-1)
	for _, id := range ids {
		if d := w.delivery(id); d.Suspected || d.Parked {
			w.Errorf("the delivery is %+v before its last node dies", d)
		}
	}
	w.dieWith(e, 1)
	if items := w.claim(e, postrider.LaneFirst, 10); len(items) != 0 {
		w.Errorf("%d suspects are still due in the first lane", len(items))
	}
	due := w.due(store.Due{Max: 10})
	if len(due) != 1 || due[0].Lane != postrider.LaneSuspect || due[0].In > 0 {
		w.Errorf("due is %+v, want the suspect lane at once", due)
	}
	for _, id := range ids {
		d := w.delivery(id)
		if !d.Suspected || d.Parked || d.NextAttemptAt.IsZero() || d.Attempts != postrider.SuspectedAfter {
			w.Errorf("the delivery is %+v, want a suspect that is due", d)
		}
		if n := len(w.attempts(d)); n != postrider.SuspectedAfter {
			w.Errorf("%d attempts are on record, want %d that were lost", n, postrider.SuspectedAfter)
		}
	}
	for _, c := range w.claim(e, postrider.LaneSuspect, 10) {
		if c.Lane != postrider.LaneSuspect || c.Losses != postrider.SuspectedAfter || c.Attempt != postrider.SuspectedAfter+1 {
			w.Errorf("claimed %+v", c)
		}
	}
}

func deathParks(w *world) {
	e, ids := w.suspects(1)
	w.dieWith(e, postrider.ParkedAfter-1)
	if d := w.delivery(ids[0]); d.Parked || !d.Suspected {
		w.Fatalf("the delivery is %+v after one death alone too few", d)
	}
	w.dieWith(e, 1)
	d := w.isParked(ids[0])
	if want := postrider.SuspectedAfter + postrider.ParkedAfter; d.Attempts != want || len(w.attempts(d)) != want {
		w.Errorf("%d attempts are counted and %d on record, want %d", d.Attempts, len(w.attempts(d)), want)
	}
	w.same("what is due", w.due(store.Due{Max: 10}), []store.DueLane{})
	w.claimExactly(e)
}

func deathTogether(w *world) {
	e, ids := w.suspects(2)
	w.dieWith(e, postrider.ParkedAfter+1)
	for _, id := range ids {
		if d := w.delivery(id); d.Parked {
			w.Errorf("the delivery is parked, and never died alone: %+v", d)
		}
	}
}

func deathSettled(w *world) {
	e, ids := w.suspects(1)
	w.dieWith(e, postrider.ParkedAfter-1)
	w.settle(retry(w.claimOne(e, postrider.LaneSuspect), 0))
	if d := w.delivery(ids[0]); d.Suspected {
		w.Errorf("the delivery is %+v after it was settled", d)
	}
	c := w.claimOne(e, postrider.LaneRetry)
	if c.Losses != 0 {
		w.Errorf("claimed with %d losses after it was settled", c.Losses)
	}
	w.die()
	w.dieWith(e, postrider.SuspectedAfter-1+postrider.ParkedAfter-1)
	if d := w.delivery(ids[0]); !d.Suspected || d.Parked {
		w.Errorf("the delivery is %+v, want a suspect that may die once more", d)
	}
}

func deathReleased(w *world) {
	e, ids := w.suspects(2)
	for range postrider.ParkedAfter {
		claims, err := w.claimAll(e)
		w.ok(err)
		w.release(claims.Items...)
		w.die()
	}
	w.claimExactly(e, ids...)
	if d := w.delivery(ids[0]); d.Parked || d.Attempts != postrider.SuspectedAfter {
		w.Errorf("the delivery is %+v, want no more than its first deaths counted", d)
	}
}

func makeDueParked(w *world) {
	e, d := w.parked()
	got, err := w.MakeDue(w.Context(), store.MakeDue{Account: e.Account, Delivery: d.ID, Parked: true})
	w.ok(err)
	if got.Parked || !got.Suspected || got.NextAttemptAt.IsZero() || got.Attempts != d.Attempts {
		w.Errorf("MakeDue = %+v, want a suspect that is due", got)
	}
	w.near("when it is due", got.NextAttemptAt.Sub(w.now()), 0)
	c := w.claimOne(e, postrider.LaneSuspect)
	if c.ID != d.ID || c.Losses != 0 || c.Attempt != d.Attempts+1 {
		w.Errorf("claimed %+v, want the next attempt without losses", c)
	}
	w.die()
	w.dieWith(e, postrider.ParkedAfter-2)
	if d := w.delivery(d.ID); d.Parked {
		w.Error("it is parked one death too early")
	}
	w.dieWith(e, 1)
	w.isParked(d.ID)
}

func makeDueParkedRefuses(w *world) {
	e, d := w.parked()
	_, err := w.MakeDue(w.Context(), store.MakeDue{Account: newID[postrider.AccountID](w), Delivery: d.ID, Parked: true})
	w.refuses(err, postrider.ErrNotFound)
	w.notMadeDue(d.ID) // refused, because it is parked
	w.isParked(d.ID)
	_, err = w.MakeDue(w.Context(), store.MakeDue{Delivery: w.pending(e, 1)[0], Parked: true})
	w.refuses(err, postrider.ErrConflict)
	_, err = w.MakeDue(w.Context(), store.MakeDue{Delivery: newID[postrider.DeliveryID](w), Parked: true})
	w.refuses(err, postrider.ErrNotFound)
}

func parkedExpires(w *world) {
	e := w.endpoint()
	d := w.to(e)
	d.Expiry = time.Second
	w.publish(store.Batch{w.event(e.Account, d)})
	w.dieWith(e, postrider.SuspectedAfter+postrider.ParkedAfter)
	w.passed(d.Expiry)
	w.same("Expire", w.expire(10), 1)
	if letter := w.letter(d.ID); letter.Reason != postrider.ReasonExpired {
		w.Errorf("the dead letter is %+v", letter)
	}
}

func parkedCancelled(w *world) {
	_, d := w.parked()
	if got := w.cancel(d.ID); got.Status != postrider.Cancelled || got.Parked || got.Suspected {
		w.Errorf("Cancel = %+v", got)
	}
}

func parkedOrphan(w *world) {
	e, d := w.parked()
	w.become(e, postrider.EndpointDeleted)
	w.same("CancelDeleted", w.cancelDeleted(10), 1)
	if got := w.delivery(d.ID); got.Status != postrider.Cancelled {
		w.Errorf("the delivery is %+v", got)
	}
}

func parkedOrdered(w *world) {
	e := w.endpoint()
	ids := w.publishOrdered(e, "k", postrider.SkipDead, 3)
	w.dieWith(e, postrider.SuspectedAfter+postrider.ParkedAfter)
	w.isParked(ids[0])
	w.claimExactly(e)
	w.cancel(ids[1]) // not the head, so no other delivery becomes due
	w.isParked(ids[0])
	w.claimExactly(e)
	w.cancel(ids[0])
	w.deliverInOrder(e, ids[2])
}
