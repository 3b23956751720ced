package storetest

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// This file tests leased deliveries whose endpoint is deleted.

// leasedThenDeleted leases two deliveries of an endpoint, and deletes the endpoint.
func (w *world) leasedThenDeleted(ordered bool, lease time.Duration) (postrider.Endpoint, []postrider.Claimed) {
	w.Helper()
	e := w.endpoint()
	if ordered {
		w.publishOrdered(e, "a", postrider.SkipDead, 1)
		w.publishOrdered(e, "b", postrider.SkipDead, 1)
	} else {
		w.pending(e, 2)
	}
	under := w.take(store.Want{Endpoint: e.ID, Lane: postrider.LaneFirst, N: 2, Lease: lease})
	w.become(e, postrider.EndpointDeleted)
	return e, under
}

// When an endpoint is deleted, a receiver may still accept an attempt that is under way.
func cancelDeletedLeased(w *world) {
	for _, ordered := range []bool{false, true} {
		e, under := w.leasedThenDeleted(ordered, long)
		w.same("how many were cancelled", w.cancelDeleted(10), 0)
		w.settle(delivered(under[0]), retry(under[1], 0))
		w.same("how many were cancelled after the settlements", w.cancelDeleted(10), 1)
		for i, want := range []postrider.Status{postrider.Delivered, postrider.Cancelled} {
			if got := w.delivery(under[i].ID); got.Status != want || got.Attempts != 1 {
				w.Errorf("what was under way is %+v, want %s after one attempt", got, want)
			}
		}
		w.nothingQueued(e)
	}
}

func cancelDeletedLost(w *world) {
	for _, ordered := range []bool{false, true} {
		e, under := w.leasedThenDeleted(ordered, brief)
		cancelled, lost := 0, 0
		w.eventually("the leases end", func() bool {
			n, l, err := w.CancelDeleted(w.Context(), 10)
			w.ok(err)
			cancelled, lost = cancelled+n, lost+l
			return cancelled == 2
		})
		w.same("how many attempts were lost", lost, 2)
		w.same("the late settlement", w.settle(delivered(under[0])), []store.Settled{{Stale: true}})
		for _, c := range under {
			if got := w.delivery(c.ID); got.Status != postrider.Cancelled || got.Attempts != 1 {
				w.Errorf("what was under way is %+v, want cancelled after a lost attempt", got)
			}
		}
		want := postrider.Counts{}
		for range under {
			want.Record(postrider.OutcomeLost, 1, postrider.Pending)
			want.Record(postrider.OutcomeNone, 0, postrider.Cancelled)
		}
		w.same("the counts", w.countsOf(e), want)
	}
}

// cancelDeletedLedger lets workers lease, release and settle deliveries, as nodes do, while the
// endpoint is deleted. It keeps a ledger of the delivered ones.
func cancelDeletedLedger(w *world) {
	e, n := w.endpoint(), 300
	ids := w.pending(e, n)
	var ledger sync.Map
	var delivered atomic.Int64
	var workers sync.WaitGroup
	stop := make(chan struct{})
	for range 3 {
		workers.Go(func() {
			for running := true; running; {
				select {
				case <-stop:
					running = false
				default:
				}
				w.workOnce(e, &ledger, &delivered)
			}
		})
	}
	w.eventually("some are delivered", func() bool { return delivered.Load() > int64(n/10) })
	w.become(e, postrider.EndpointDeleted)
	cancelled := 0
	w.eventually("all have ended", func() bool {
		cancelled += w.cancelDeleted(20)
		return delivered.Load()+int64(cancelled) >= int64(n)
	})
	close(stop)
	workers.Wait()
	w.same("what was left", w.cancelDeleted(n), 0)
	w.same("how many ended", delivered.Load()+int64(cancelled), int64(n))
	w.agrees(e, ids, &ledger)
}

// workOnce leases four deliveries, releases one of them and delivers the others.
func (w *world) workOnce(e postrider.Endpoint, ledger *sync.Map, n *atomic.Int64) {
	claims, err := w.Claim(w.Context(), store.Claim{
		Wants: []store.Want{{Endpoint: e.ID, Lane: postrider.LaneFirst, N: 4, Lease: long}}, Token: w.token(),
	})
	if err != nil || len(claims.Items) == 0 {
		return // if the store is busy, the next round tries again
	}
	released, kept := claims.Items[:1], claims.Items[1:]
	if err := w.Release(w.Context(), []store.Lease{{Delivery: released[0].ID, Token: released[0].Token}}); err != nil {
		w.Errorf("Release: %v", err)
	}
	var settlements []store.Settlement
	for _, c := range kept {
		settlements = append(settlements, settlement(c, 200, postrider.Transition{To: postrider.Delivered}))
	}
	settled, err := w.Settle(w.Context(), settlements)
	if err != nil {
		w.Errorf("Settle: %v", err)
	}
	for i, s := range settled {
		if s.Stale {
			w.Errorf("the settlement of %s is stale", kept[i].ID)
		}
		ledger.Store(kept[i].ID, true)
		n.Add(1)
	}
}

// countsOf folds the deltas, and returns the sum of the endpoint's counts.
func (w *world) countsOf(e postrider.Endpoint) (sum postrider.Counts) {
	w.Helper()
	w.fold()
	for _, r := range w.rollupsOf(store.RollupQuery{Endpoint: e.ID, From: w.now().Add(-time.Hour), To: w.now().Add(time.Hour)}) {
		sum.Add(r.Counts)
	}
	return sum
}

// agrees compares every list and count with the ledger. Deliveries that are not in the ledger
// must be cancelled.
func (w *world) agrees(e postrider.Endpoint, ids []postrider.DeliveryID, ledger *sync.Map) {
	w.Helper()
	want, counts := map[postrider.DeliveryID]postrider.Status{}, postrider.Counts{}
	for _, id := range ids {
		want[id] = postrider.Cancelled
		if _, ok := ledger.Load(id); ok {
			want[id] = postrider.Delivered
			counts.Record(accepted, 1, postrider.Delivered)
		} else {
			counts.Record(postrider.OutcomeNone, 0, postrider.Cancelled)
		}
		if got := w.delivery(id); got.Status != want[id] {
			w.Errorf("delivery %s is %s, want %s", id, got.Status, want[id])
		}
	}
	for _, q := range []store.DeliveryQuery{{Account: e.Account}, {Endpoint: e.ID}} {
		listed := map[postrider.DeliveryID]postrider.Status{}
		for q.Limit = store.MaxLimit; ; {
			page, err := w.Deliveries(w.Context(), q)
			w.ok(err)
			for _, d := range page.Items {
				if _, twice := listed[d.ID]; twice {
					w.Errorf("delivery %s is listed twice", d.ID)
				}
				listed[d.ID] = d.Status
			}
			if q.Cursor = page.Next; q.Cursor == "" {
				break
			}
		}
		w.same("what is listed", listed, want)
	}
	w.same("the counts", w.countsOf(e), counts)
}
