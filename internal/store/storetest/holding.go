package storetest

import (
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

var holding = []verb{
	{"Held", []sentence{
		{"it is zero for a store that is not held", heldNot},
	}},
	{"PutHold", []sentence{
		{"the store is held from now on, for the reason", holdHolds},
		{"a store that is held already keeps its hold", holdKeeps},
		{"while the store is held, Claim leases nothing", holdClaimsNothing},
		{"while the store is held, Changes has the hold", holdIsAChange},
		{"a Publish whose deliveries were admitted before is ErrMoved", holdMoves},
		{"publishes are accepted", holdAccepts},
		{"deliveries that were leased before can be settled", holdSettles},
		{"from each call on the sequence of a new event is higher than its time in microseconds", holdSequences},
	}},
	{"Resume", []sentence{
		{"it ends the hold, and returns the work that had been held", resumeEnds},
		{"what is due can be claimed at once", resumeClaims},
		{"of a store that is not held it returns zero", resumeNothing},
		{"a store that was resumed can be held again", resumeAndHold},
	}},
	{"HeldWork", []sentence{
		{"it counts the pending deliveries of events from before the hold", heldDeliveries},
		{"it counts the fan-out jobs of events from before the hold", heldFanOuts},
		{"it is zero while the store is not held", heldWorkNot},
	}},
}

func (w *world) held() postrider.Hold {
	w.Helper()
	h, err := w.Held(w.Context())
	w.ok(err)
	return h
}

func (w *world) putHold() postrider.Hold {
	w.Helper()
	h, err := w.PutHold(w.Context(), postrider.HoldRestored)
	w.ok(err)
	return h
}

func (w *world) resume() store.HeldWork {
	w.Helper()
	work, err := w.Resume(w.Context())
	w.ok(err)
	return work
}

func (w *world) heldWork() store.HeldWork {
	w.Helper()
	work, err := w.HeldWork(w.Context())
	w.ok(err)
	return work
}

func heldNot(w *world) {
	w.same("the hold of a new store", w.held(), postrider.Hold{})
}

func holdHolds(w *world) {
	h := w.putHold()
	if w.now().Sub(h.Since).Abs() > time.Minute || h.Reason != postrider.HoldRestored || !h.Held() {
		w.Errorf("the hold is %+v, want one of now", h)
	}
	w.same("the hold that is stored", w.held(), h)
}

func holdKeeps(w *world) {
	first := w.putHold()
	again, err := w.PutHold(w.Context(), postrider.HoldRecovered)
	w.ok(err)
	w.same("the second hold", again, first)
	w.same("the hold that is stored", w.held(), first)
}

func holdSequences(w *world) {
	a := w.account()
	w.publish(store.Batch{w.ordered(a, "known"), w.ordered(a, "known")})
	low := int64(0)
	for range 2 { // the second call finds the store held
		called := w.now().Add(-time.Minute).UnixMicro()
		w.putHold()
		got := sequences(w.publish(store.Batch{w.ordered(a, "known"), w.ordered(a, "known"), w.ordered(a, "new")}))
		if got[0] <= max(called, low) || got[1] != got[0]+1 || got[2] <= max(called, low) {
			w.Errorf("the sequences are %d, want two in a row and one, above %d and %d", got, called, low)
		}
		low = got[1]
	}
	w.resume()
	got := sequences(w.publish(store.Batch{w.ordered(a, "known"), w.ordered(a, "newest")}))
	if got[0] != low+1 || got[1] < low-int64(time.Minute/time.Microsecond) {
		w.Errorf("after the hold the sequences are %d, want %d and one like it", got, low+1)
	}
}

func holdClaimsNothing(w *world) {
	e := w.endpoint()
	w.pending(e, 3)
	w.putHold()
	claims, err := w.Claim(w.Context(), store.Claim{Token: w.token(), Wants: []store.Want{
		{Endpoint: e.ID, Lane: postrider.LaneFirst, N: 10, Lease: long}, {Endpoint: e.ID, Lane: postrider.LaneRetry, N: 10, Lease: long},
	}})
	w.ok(err)
	w.same("claimed deliveries", len(claims.Items), 0)
	w.same("lanes", claims.Lanes, []store.LaneState{{Waiting: true}, {}}, cmpopts.IgnoreFields(store.LaneState{}, "In", "Low"))
}

func holdIsAChange(w *world) {
	e := w.endpoint()
	version := w.version()
	w.same("the hold of the changes", w.changes(version, 10).Hold, postrider.Hold{})
	h := w.putHold()
	c := w.changes(version, 10)
	w.same("the hold of the changes", c.Hold, h)
	if c.Version <= version {
		w.Errorf("the version after the hold is %d, want more than %d", c.Version, version)
	}
	w.same("a page of all changes", w.changes(0, 10).Hold, h)
	w.resume()
	w.put(w.draft(e.Account))
	w.same("the hold after the resumption", w.changes(c.Version, 10).Hold, postrider.Hold{})
}

func holdMoves(w *world) {
	e := w.endpoint()
	admitted := w.to(e)
	admitted.Token, admitted.Lease = w.token(), long
	event, version := w.event(e.Account, admitted), w.version()
	w.putHold()
	_, err := w.Publish(w.Context(), store.Publish{Version: version, Batches: []store.Batch{{event}}})
	w.refuses(err, store.ErrMoved)
	w.absent(event)
}

func holdAccepts(w *world) {
	e := w.endpoint()
	w.putHold()
	id := w.pending(e, 1)[0]
	w.same("what is claimed", len(w.claim(e, postrider.LaneFirst, 10)), 0)
	w.resume()
	w.same("the delivery after the resumption", w.claimOne(e, postrider.LaneFirst).ID, id)
}

func holdSettles(w *world) {
	_, c := w.claimed()
	w.putHold()
	w.same("the settlement", w.settle(delivered(c)), []store.Settled{{}})
	w.same("what is held", w.heldWork(), store.HeldWork{})
}

func resumeEnds(w *world) {
	w.pending(w.endpoint(), 2)
	w.putHold()
	w.same("the work", w.resume(), store.HeldWork{Deliveries: 2})
	w.same("the hold", w.held(), postrider.Hold{})
}

func resumeClaims(w *world) {
	e := w.endpoint()
	w.pending(e, 3)
	w.putHold()
	w.resume()
	w.same("what is claimed", len(w.claim(e, postrider.LaneFirst, 10)), 3)
}

func resumeNothing(w *world) {
	w.pending(w.endpoint(), 1)
	w.same("the work", w.resume(), store.HeldWork{})
}

func resumeAndHold(w *world) {
	e := w.endpoint()
	w.putHold()
	w.resume()
	w.pending(e, 1)
	h, err := w.PutHold(w.Context(), postrider.HoldRecovered)
	w.ok(err)
	w.same("the reason of the second hold", h.Reason, postrider.HoldRecovered)
	w.same("the work", w.heldWork(), store.HeldWork{Deliveries: 1})
}

func heldDeliveries(w *world) {
	e := w.endpoint()
	ids := w.pending(e, 4)
	w.settle(delivered(w.claim(e, postrider.LaneFirst, 1)[0]))
	w.putHold()
	w.pending(e, 5)
	w.same("the work", w.heldWork(), store.HeldWork{Deliveries: 3})
	w.cancel(ids[3])
	w.same("the work after a cancellation", w.heldWork(), store.HeldWork{Deliveries: 2})
}

func heldFanOuts(w *world) {
	e := w.endpoint()
	w.publish(store.Batch{w.job(e)})
	w.putHold()
	w.publish(store.Batch{w.job(e)})
	w.same("the work", w.heldWork(), store.HeldWork{FanOuts: 1})
}

func heldWorkNot(w *world) {
	w.pending(w.endpoint(), 1)
	w.same("the work", w.heldWork(), store.HeldWork{})
}
