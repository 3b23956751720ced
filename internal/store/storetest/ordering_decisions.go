package storetest

import (
	"fmt"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// The contract tests about the effect of people's decisions on ordering keys, and about the list
// of ordering keys.
var (
	replayOrderSentences = []sentence{
		{"the replay of what pauses a key takes its place and the key goes on when it has ended", replayInTurn},
		{"a replay that dies pauses the key again", replayInTurnDies},
		{"a replay that is cancelled lets the key go on", replayInTurnCancelled},
		{"a replay that is retried keeps the others blocked", replayInTurnRetried},
		{"a replay of what pauses no key is in no order", replayOutOfTurn},
	}
	cancelOrderSentences = []sentence{
		{"where it ends an ordered delivery the next is due at once", cancelInTurn},
		{"an ordered delivery under way that is cancelled moves its key on once", cancelInTurnInFlight},
		{"a blocked delivery is cancelled and the others keep their order", cancelBlocked},
	}
	discardOrderSentences = []sentence{
		{"where it pauses its key the key goes on", discardResumes},
		{"where it pauses no key nothing moves", discardResumesNothing},
	}
	orderedKeysSentences = []sentence{
		{"they are listed by key, page by page", orderedKeysPages},
		{"one with something waiting says what is first and how much waits", orderedKeysWaiting},
		{"one that is paused says by what and since when", orderedKeysPaused},
		{"those without anything are not listed", orderedKeysNothing},
		{"another endpoint's or account's are not listed", orderedKeysForeign},
		{"a cursor that no page gave is an InvalidError", orderedKeysCursor},
	}
)

// paused publishes n deliveries of one key. The first becomes a dead letter and pauses the key.
func (w *world) paused(n int) (e postrider.Endpoint, ids []postrider.DeliveryID) {
	w.Helper()
	e = w.endpoint()
	ids = w.publishOrdered(e, "o", postrider.PauseOnDead, n)
	w.settle(dead(w.claimExactly(e, ids[0])[0]))
	w.claimExactly(e)
	return e, ids
}

func replayInTurn(w *world) {
	e, ids := w.paused(2)
	replay := w.replay(ids[0])
	if replay.NextAttemptAt.IsZero() {
		w.Errorf("the replay has no next attempt")
	}
	w.pausedBy(e, postrider.DeliveryID{})
	later := w.publishOrdered(e, "o", postrider.PauseOnDead, 1)
	c := w.claimExactly(e, replay.ID)[0]
	if c.Lane != postrider.LaneBulk || c.Event.Sequence != 1 {
		w.Errorf("claimed %+v, want sequence 1 in the bulk lane", c)
	}
	w.same("Settle of the replay", w.settle(delivered(c)), []store.Settled{{Next: postrider.LaneFirst}})
	w.deliverInOrder(e, ids[1], later[0])
}

func replayInTurnDies(w *world) {
	e, ids := w.paused(2)
	first := w.replay(ids[0])
	w.same("Settle", w.settle(dead(w.claimExactly(e, first.ID)[0])), []store.Settled{{}})
	w.claimExactly(e)
	w.pausedBy(e, first.ID)
	second := w.replay(first.ID)
	w.deliverInOrder(e, second.ID, ids[1])
}

func replayInTurnCancelled(w *world) {
	e, ids := w.paused(2)
	w.cancel(w.replay(ids[0]).ID)
	w.deliverInOrder(e, ids[1])
}

func replayInTurnRetried(w *world) {
	e, ids := w.paused(2)
	replay := w.replay(ids[0])
	w.settle(retry(w.claimExactly(e, replay.ID)[0], 0))
	w.deliverInOrder(e, replay.ID, ids[1])
}

func replayOutOfTurn(w *world) {
	e := w.endpoint()
	ids := w.publishOrdered(e, "o", postrider.SkipDead, 3)
	w.settle(dead(w.claimExactly(e, ids[0])[0]))
	c := w.claimExactly(e, ids[1])[0]
	replay := w.replay(ids[0])
	w.same("Settle of the replay", w.settle(delivered(w.claimExactly(e, replay.ID)[0])), []store.Settled{{}})
	w.claimExactly(e)
	w.settle(delivered(c))
	w.deliverInOrder(e, ids[2])

	e, ids = w.paused(2) // next: a dead letter that no longer pauses its key
	w.settle(delivered(w.claimExactly(e, w.replay(ids[0]).ID)[0]))
	replay = w.replay(ids[0])
	w.claimExactly(e, ids[1], replay.ID)
}

func cancelInTurn(w *world) {
	for _, onDead := range []postrider.OnDead{postrider.SkipDead, postrider.PauseOnDead} {
		e := w.endpoint()
		ids := w.publishOrdered(e, "o", onDead, 2)
		w.cancel(ids[0])
		w.deliverInOrder(e, ids[1])
	}
}

func cancelInTurnInFlight(w *world) {
	e := w.endpoint()
	ids := w.publishOrdered(e, "o", postrider.SkipDead, 3)
	c := w.claimExactly(e, ids[0])[0]
	w.cancel(c.ID)
	next := w.claimExactly(e, ids[1])[0]
	w.same("Settle of what was cancelled", w.settle(delivered(c)), []store.Settled{{Stale: true}})
	w.release(c)
	w.claimExactly(e)
	w.settle(delivered(next))
	w.deliverInOrder(e, ids[2])
}

func cancelBlocked(w *world) {
	e := w.endpoint()
	ids := w.publishOrdered(e, "o", postrider.PauseOnDead, 3)
	w.cancel(ids[1])
	w.deliverInOrder(e, ids[0], ids[2])
	w.same("what is left", w.orderedKeys(e), []store.OrderedKey{})
}

func discardResumes(w *world) {
	e, ids := w.paused(3)
	_, err := w.Discard(w.Context(), store.Discard{Delivery: ids[0]})
	w.ok(err)
	w.pausedBy(e, postrider.DeliveryID{})
	w.deliverInOrder(e, ids[1:]...)
}

func discardResumesNothing(w *world) {
	e := w.endpoint()
	ids := w.publishOrdered(e, "o", postrider.SkipDead, 3)
	w.settle(dead(w.claimExactly(e, ids[0])[0]))
	w.claimExactly(e, ids[1])
	_, err := w.Discard(w.Context(), store.Discard{Delivery: ids[0]})
	w.ok(err)
	w.claimExactly(e)

	e, ids = w.paused(2) // next: a dead letter whose replay has taken its position
	replay := w.replay(ids[0])
	_, err = w.Discard(w.Context(), store.Discard{Delivery: ids[0]})
	w.refuses(err, postrider.ErrConflict)
	w.deliverInOrder(e, replay.ID, ids[1])
}

// cancelDeletedPauses finds the pauses in the list of ordering keys.
func cancelDeletedPauses(w *world) {
	a, _ := w.paused(1)
	b, _ := w.paused(3)
	kept, _ := w.paused(1)
	w.become(a, postrider.EndpointDeleted)
	w.become(b, postrider.EndpointDeleted)
	w.same("how many were cancelled", w.cancelDeleted(10), 2)
	for _, e := range []postrider.Endpoint{a, b} {
		w.same("the ordering keys of a deleted endpoint", w.orderedKeys(e), []store.OrderedKey{})
	}
	w.same("how many keys another endpoint has", len(w.orderedKeys(kept)), 1)
}

func keyName(k store.OrderedKey) string { return k.Key }

func orderedKeysPages(w *world) {
	e := w.endpoint()
	want := []string{"B", "a", "a b", "ab", "é"}
	for _, i := range []int{3, 0, 4, 2, 1} {
		w.publishOrdered(e, want[i], postrider.SkipDead, 2)
	}
	w.same("the ordering keys", pages(w, keyName, func(p store.Paging) (store.Page[store.OrderedKey], error) {
		return w.OrderedKeys(w.Context(), store.OrderedKeyQuery{Account: e.Account, Endpoint: e.ID, Paging: p})
	}), want)
}

func orderedKeysWaiting(w *world) {
	e := w.endpoint()
	ids := w.publishOrdered(e, "o", postrider.SkipDead, 3)
	want := store.OrderedKey{Key: "o", Waiting: 3, Head: ids[0], Sequence: 1, Since: ids[0].Time()}
	w.same("the ordering keys", w.orderedKeys(e), []store.OrderedKey{want})
	c := w.claimExactly(e, ids[0])[0]
	w.same("the ordering keys during an attempt", w.orderedKeys(e), []store.OrderedKey{want})
	w.settle(delivered(c))
	want = store.OrderedKey{Key: "o", Waiting: 2, Head: ids[1], Sequence: 2, Since: ids[1].Time()}
	w.same("the ordering keys after it", w.orderedKeys(e), []store.OrderedKey{want})

	var batch store.Batch
	for i := range 1001 {
		event := w.orderedEvent(e, "full", postrider.SkipDead)
		event.Event.Data = fmt.Append(nil, i)
		batch = append(batch, event)
	}
	w.publish(batch)
	if keys := w.orderedKeys(e); len(keys) != 2 || keys[0].Waiting != 1000 {
		w.Errorf("the ordering keys are %+v, want one with 1000 waiting", keys)
	}
}

func orderedKeysPaused(w *world) {
	e, ids := w.paused(1)
	ignoreSince := cmpopts.IgnoreFields(store.OrderedKey{}, "Since")
	got := w.orderedKeys(e)
	w.same("the ordering keys", got, []store.OrderedKey{{Key: "o", PausedBy: ids[0]}}, ignoreSince)
	w.near("since when", time.Since(got[0].Since), 0)
	next := w.publishOrdered(e, "o", postrider.PauseOnDead, 2)[0]
	w.same("the ordering keys with something waiting", w.orderedKeys(e), []store.OrderedKey{
		{Key: "o", Waiting: 2, Head: next, Sequence: 2, PausedBy: ids[0], Since: got[0].Since},
	})
}

func orderedKeysNothing(w *world) {
	e := w.endpoint()
	w.publishOrdered(e, "free", "", 2)
	w.pending(e, 1)
	w.same("the ordering keys of unordered deliveries", w.orderedKeys(e), []store.OrderedKey{})
	w.claimExactly(e, deliveryIDs(w.everyPending(e), deliveryID)...)
	w.deliverInOrder(e, w.publishOrdered(e, "o", postrider.PauseOnDead, 2)...)
	w.same("the ordering keys after the end", w.orderedKeys(e), []store.OrderedKey{})
}

// everyPending lists the pending deliveries of the endpoint.
func (w *world) everyPending(e postrider.Endpoint) []postrider.Delivery {
	w.Helper()
	page, err := w.Deliveries(w.Context(), store.DeliveryQuery{
		Endpoint: e.ID, Status: postrider.Pending, Paging: store.Paging{Limit: store.MaxLimit},
	})
	w.ok(err)
	return page.Items
}

func orderedKeysForeign(w *world) {
	e := w.endpoint()
	w.publishOrdered(e, "o", postrider.SkipDead, 1)
	paused, _ := w.paused(1)
	list := by(keyName, func(q store.OrderedKeyQuery) (store.Page[store.OrderedKey], error) {
		return w.OrderedKeys(w.Context(), q)
	})
	other := w.put(w.draft(e.Account))
	selects(w, store.OrderedKeyQuery{Account: e.Account, Endpoint: e.ID}, list, []string{"o"})
	selects(w, store.OrderedKeyQuery{Account: e.Account, Endpoint: other.ID}, list, nil)
	selects(w, store.OrderedKeyQuery{Account: w.account(), Endpoint: e.ID}, list, nil)
	selects(w, store.OrderedKeyQuery{Account: e.Account, Endpoint: paused.ID}, list, nil)
	selects(w, store.OrderedKeyQuery{Account: e.Account, Endpoint: newID[postrider.EndpointID](w)}, list, nil)
}

func orderedKeysCursor(w *world) {
	e := w.endpoint()
	for _, cursor := range []string{"!", "not a cursor"} {
		_, err := w.OrderedKeys(w.Context(), store.OrderedKeyQuery{
			Account: e.Account, Endpoint: e.ID, Paging: store.Paging{Cursor: cursor},
		})
		w.refuses(err, postrider.ErrInvalid)
	}
}
