package storetest

import (
	"sync"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

var oldRows = []verb{
	{"OldRows", []sentence{
		{"it returns old rows of the account, and none of others or younger ones", oldRowsOf},
		{"it examines up to q.Limit, and returns the last that it examined; zero: there are no more", oldRowsPages},
		{"an event is not returned while something needs it", oldRowsNeeded},
		{"while a replay job runs, events are not returned until ReplayGrace is over", oldRowsReplaying},
		{"attempts are returned after their heads and bodies were deleted", oldRowsAttempts},
		{"of OldKeys it returns the idempotency keys of the events", oldRowsKeys},
	}},
	{"DeleteRows", []sentence{
		{"the rows go, and others of their event or delivery stay", deleteRows},
		{"a row that is gone is not counted, and an event that is needed since stays", deleteRowsNeeded},
		{"a delivery that has ended goes with its attempts; one that is pending goes on", deleteRowsAttempts},
		{"after the deletion of its idempotency key, a publish with the key is a new event", deleteRowsKeys},
		{"a replay of an event that is gone is ErrGone", deleteRowsGone},
		{"of a replay and a deletion at once, either the event stays or the replay is ErrGone", deleteRowsReplayed},
	}},
}

// old returns the rows of a kind and account that are older than age, and after how many calls
// nothing was left.
func (w *world) old(account postrider.AccountID, kind store.Kind, age time.Duration) (rows []store.OldRow, calls int) {
	w.Helper()
	for q := (store.OldRows{Kind: kind, Account: account, Before: w.now().Add(-age), Limit: forgetLimit}); ; {
		calls++
		found, last, err := w.OldRows(w.Context(), q)
		w.ok(err)
		rows = append(rows, found...)
		if q.After = last; last == (store.RowID{}) {
			return rows, calls
		}
	}
}

// deleteOld deletes all rows of a kind and account that may go, and returns how many.
func (w *world) deleteOld(account postrider.AccountID, kind store.Kind) int {
	w.Helper()
	rows, _ := w.old(account, kind, all)
	n, err := w.DeleteRows(w.Context(), kind, rows)
	w.ok(err)
	return n
}

func oldRowsOf(w *world) {
	d := w.ended(w.endpoint())
	w.ended(w.endpoint())
	for kind, want := range map[store.Kind]store.OldRow{
		store.OldEvents: {ID: store.RowID(d.Event)}, store.OldBodies: {ID: store.RowID(d.ID), Number: 1},
	} {
		rows, _ := w.old(d.Account, kind, time.Hour)
		w.same("young "+string(kind), len(rows), 0)
		rows, _ = w.old(d.Account, kind, all)
		want.Key.Account = d.Account
		w.same("old "+string(kind), rows, []store.OldRow{want})
	}
}

func oldRowsPages(w *world) {
	e := w.endpoint()
	w.pending(e, 1)
	w.claim(e, postrider.LaneFirst, 1)
	for range 2 * forgetLimit {
		w.ended(e)
	}
	for kind, want := range map[store.Kind]int{store.OldEvents: 3, store.OldBodies: 3, store.OldAttempts: 3} {
		rows, calls := w.old(e.Account, kind, all)
		w.same("calls for "+string(kind), calls, want)
		if n := 2 * forgetLimit; kind != store.OldAttempts {
			w.same("old "+string(kind), len(rows), n)
		}
	}
}

func oldRowsNeeded(w *world) {
	e := w.endpoint()
	letter, pending := w.deadLetters(e, 1)[0], w.pending(e, 1)[0]
	w.publish(store.Batch{w.job(e)})
	rows, _ := w.old(e.Account, store.OldEvents, all)
	w.same("needed events that are returned", len(rows), 0)
	_, err := w.Discard(w.Context(), store.Discard{Delivery: letter, By: "someone"})
	w.ok(err)
	item := w.claimOne(e, postrider.LaneFirst)
	w.same("the claimed event", *item.Event, w.stored(w.delivery(pending).Event))
	w.settle(delivered(item))
	rows, _ = w.old(e.Account, store.OldEvents, all)
	w.same("events that are returned", len(rows), 2) // not that of the fan-out job
	w.replay(pending)                                // has an id of its own
	rows, _ = w.old(e.Account, store.OldEvents, all)
	w.same("events that are returned while a replay is pending", len(rows), 1)
}

func oldRowsReplaying(w *world) {
	d := w.ended(w.endpoint())
	w.ok(w.PutReplayJob(w.Context(), w.newJob(w.endpoint(), postrider.Delivered)))
	rows, _ := w.old(d.Account, store.OldEvents, all)
	w.same("events while a job runs", len(rows), 0)
	rows, _ = w.old(d.Account, store.OldEvents, all-store.ReplayGrace)
	w.same("events after ReplayGrace", len(rows), 1)
}

func oldRowsAttempts(w *world) {
	d := w.ended(w.endpoint())
	rows, _ := w.old(d.Account, store.OldAttempts, all)
	w.same("attempts with bodies", len(rows), 0)
	w.same("bodies that are deleted", w.deleteOld(d.Account, store.OldBodies), 1)
	rows, _ = w.old(d.Account, store.OldAttempts, all)
	w.same("attempts without", rows, []store.OldRow{{ID: store.RowID(d.ID), Number: 1, Key: store.Key{Account: d.Account}}})
}

func oldRowsKeys(w *world) {
	e := w.endpoint()
	w.pending(e, 1) // without a key
	id := w.publish(store.Batch{w.keyed(e, "k", "1")})[0].Events[0].ID
	rows, _ := w.old(e.Account, store.OldKeys, all)
	w.same("old keys", rows, []store.OldRow{{ID: store.RowID(id), Key: store.Key{Account: e.Account, Key: "k"}}})
	w.deleteOld(e.Account, store.OldKeys)
	rows, _ = w.old(e.Account, store.OldKeys, all)
	w.same("keys that were deleted", len(rows), 0)
}

func deleteRows(w *world) {
	e := w.endpoint()
	d, other := w.ended(e), w.ended(e)
	before := w.attempts(d)[0]
	event, body := store.OldRow{ID: store.RowID(d.Event)}, store.OldRow{ID: store.RowID(d.ID), Number: 1}
	n, err := w.DeleteRows(w.Context(), store.OldEvents, []store.OldRow{event})
	w.ok(err)
	w.same("events", n, 1)
	w.same("the event is stored", w.isStored(d.Event), false)
	w.same("another one", w.isStored(other.Event), true)
	w.same("the delivery", w.delivery(d.ID), d)
	n, err = w.DeleteRows(w.Context(), store.OldBodies, []store.OldRow{body, {ID: body.ID, Number: 2}})
	w.ok(err)
	w.same("bodies", n, 1)
	before.RequestHead, before.ResponseHead, before.ResponseBody = nil, nil, before.ResponseBody[:store.MaxAcceptedBody]
	w.same("the attempt", w.attempts(d)[0], before)
	w.same("another body", len(w.attempts(other)[0].ResponseBody), 1000)
}

func deleteRowsNeeded(w *world) {
	e := w.endpoint()
	d, needed := w.ended(e), w.ended(e)
	rows, _ := w.old(e.Account, store.OldEvents, all)
	w.same("old events", len(rows), 2)
	w.replay(needed.ID)
	for _, want := range []int{1, 0} {
		n, err := w.DeleteRows(w.Context(), store.OldEvents, rows)
		w.ok(err)
		w.same("deleted", n, want)
	}
	w.same("the event of the replay is stored", w.isStored(needed.Event), true)
	w.same("the other one", w.isStored(d.Event), false)
}

func deleteRowsAttempts(w *world) {
	e := w.endpoint()
	d, other := w.ended(e), w.ended(w.endpoint())
	id := w.pending(e, 1)[0]
	w.settle(retry(w.claimOne(e, postrider.LaneFirst), 0))
	w.deleteOld(e.Account, store.OldBodies)
	rows, _ := w.old(e.Account, store.OldAttempts, all)
	w.settle(retry(w.claimOne(e, postrider.LaneRetry), 0))
	n, err := w.DeleteRows(w.Context(), store.OldAttempts, rows)
	w.ok(err)
	w.same("attempts that are deleted", n, 2)
	w.same("the delivery is listed", w.isListed(d.ID), false)
	w.same("the pending one", w.delivery(id).Status, postrider.Pending)
	left := w.attempts(w.delivery(id))
	if len(left) != 1 || left[0].Number != 2 {
		w.Errorf("the attempts are %+v, want the one that was made since", left)
	}
	w.same("attempts of another account", len(w.attempts(other)), 1)
	w.settle(delivered(w.claimOne(e, postrider.LaneRetry)))
	w.same("the attempts of the delivered one", len(w.attempts(w.delivery(id))), 2)
}

func deleteRowsKeys(w *world) {
	e, other := w.endpoint(), w.endpoint()
	first := w.publish(store.Batch{w.keyed(e, "k", "1"), w.keyed(e, "l", "1")}, store.Batch{w.keyed(other, "k", "1")})
	w.same("keys that are deleted", w.deleteOld(e.Account, store.OldKeys), 2)
	again := w.publish(store.Batch{w.keyed(e, "k", "2")}, store.Batch{w.keyed(other, "k", "1")})
	w.same("a publish with a key that is gone is a duplicate", again[0].Events[0].Duplicate, false)
	w.same("one with another account's", again[1].Events[0].ID, first[1].Events[0].ID)
	n, err := w.DeleteRows(w.Context(), store.OldKeys, []store.OldRow{
		{ID: store.RowID(first[0].Events[0].ID), Key: store.Key{Account: e.Account, Key: "k"}},
	})
	w.ok(err)
	w.same("keys that another event has since", n, 0)
}

func deleteRowsGone(w *world) {
	d := w.ended(w.endpoint())
	w.deleteOld(d.Account, store.OldEvents)
	_, err := w.tryReplay(d.ID)
	w.refuses(err, postrider.ErrGone)
}

func deleteRowsReplayed(w *world) {
	e := w.endpoint()
	for range 20 {
		d := w.ended(e)
		var deleted, replayed error
		var both sync.WaitGroup
		both.Go(func() {
			_, deleted = w.DeleteRows(w.Context(), store.OldEvents, []store.OldRow{{ID: store.RowID(d.Event)}})
		})
		both.Go(func() { _, replayed = w.tryReplay(d.ID) })
		both.Wait()
		w.ok(deleted)
		if replayed != nil {
			w.refuses(replayed, postrider.ErrGone)
		}
		w.same("the event is stored", w.isStored(d.Event), replayed == nil)
	}
}
