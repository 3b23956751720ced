package storetest

import (
	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// makeDueSentences are the contract tests of MakeDue for deliveries that wait for their time.
// Those for parked deliveries are in deaths.go.
var makeDueSentences = []sentence{
	{"a delivery that waits for its retry is due at once, in its lane", makeDueRetry},
	{"its step and the number of its attempt stay", makeDueKeepsCount},
	{"one that has ended, that is leased, parked or due, or that waits for its ordering key is ErrConflict", makeDueRefuses},
	{"one of another account is ErrNotFound", makeDueForeign},
	{"the head of an ordering key is due at once and the others stay blocked", makeDueOrdered},
}

// retrying publishes one delivery whose first attempt failed and whose retry is due in an hour.
func (w *world) retrying() (postrider.Endpoint, postrider.Claimed) {
	w.Helper()
	e, c := w.claimed()
	w.settle(retry(c, long))
	return e, c
}

// makeDue makes a delivery that waits for its time due now.
func (w *world) makeDue(id postrider.DeliveryID) postrider.Delivery {
	w.Helper()
	d, err := w.MakeDue(w.Context(), store.MakeDue{Delivery: id})
	w.ok(err)
	return d
}

// notMadeDue fails the test unless MakeDue refuses the delivery.
func (w *world) notMadeDue(id postrider.DeliveryID) {
	w.Helper()
	_, err := w.MakeDue(w.Context(), store.MakeDue{Delivery: id})
	w.refuses(err, postrider.ErrConflict)
}

func makeDueRetry(w *world) {
	e, c := w.retrying()
	w.claimExactly(e)
	d := w.makeDue(c.ID)
	w.near("when it is due", d.NextAttemptAt.Sub(w.now()), 0)
	w.same("what is claimed", w.claimOne(e, postrider.LaneRetry).ID, c.ID)
}

func makeDueKeepsCount(w *world) {
	e, c := w.retrying()
	if d := w.makeDue(c.ID); d.Attempts != 1 || d.Status != postrider.Pending {
		w.Errorf("MakeDue = %+v, want a pending delivery with one attempt", d)
	}
	again := w.claimOne(e, postrider.LaneRetry)
	w.same("attempt", again.Attempt, c.Attempt+1)
	w.same("step", again.Step, retry(c, long).Transition.Step)
	w.same("attempts that are recorded", len(w.attempts(w.delivery(c.ID))), 1)
}

func makeDueRefuses(w *world) {
	e, c := w.retrying()
	w.makeDue(c.ID)
	w.notMadeDue(c.ID) // refused, because it is due
	c = w.claimOne(e, postrider.LaneRetry)
	w.notMadeDue(c.ID) // refused, because it is leased
	w.settle(delivered(c))
	w.notMadeDue(c.ID) // refused, because it has ended
	ids := w.publishOrdered(e, "k", postrider.SkipDead, 2)
	w.notMadeDue(ids[1]) // refused, because it is behind the head of its key
	w.waitsBehind(e, ids)
}

// waitsBehind fails the test unless the deliveries of a key are claimed in their order.
func (w *world) waitsBehind(e postrider.Endpoint, ids []postrider.DeliveryID) {
	w.Helper()
	for _, id := range ids {
		w.settle(delivered(w.claimExactly(e, id)[0]))
	}
}

func makeDueForeign(w *world) {
	e, c := w.retrying()
	_, err := w.MakeDue(w.Context(), store.MakeDue{Account: newID[postrider.AccountID](w), Delivery: c.ID})
	w.refuses(err, postrider.ErrNotFound)
	_, err = w.MakeDue(w.Context(), store.MakeDue{Delivery: newID[postrider.DeliveryID](w)})
	w.refuses(err, postrider.ErrNotFound)
	w.claimExactly(e)
}

func makeDueOrdered(w *world) {
	e := w.endpoint()
	ids := w.publishOrdered(e, "k", postrider.SkipDead, 2)
	w.settle(retry(w.claimExactly(e, ids[0])[0], long))
	w.claimExactly(e)
	w.makeDue(ids[0])
	w.waitsBehind(e, ids)
}
