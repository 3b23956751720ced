package storetest

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// The contract tests of the verbs of the ledger by which people decide.
var (
	replaySentences = []sentence{
		{"it makes a new delivery, due at once in the bulk lane, of the same event to the same endpoint", replayMakes},
		{"it names the same event, with its hops", replayHops},
		{"a delivery of every final status may be replayed", replayFinal},
		{"a dead letter is resolved as replayed", replayResolves},
		{"while a dead letter's replay is pending a second one is refused and names it", replayPendingReplay},
		{"of parallel replays of a dead letter exactly one is made", replayInParallel},
		{"afterwards a dead letter may be replayed again", replayAgain},
		{"a dead letter that was discarded is ErrDiscarded, and keeps who discarded it and why", replayDiscarded},
		{"a replay that died may be replayed itself", replayOfReplay},
		{"a delivery that is pending is ErrConflict", replayPending},
		{"a delivery whose endpoint is deleted is ErrConflict", replayDeletedEndpoint},
		{"what does not exist or is another account's is ErrNotFound", replayNotFound},
	}
	cancelSentences = []sentence{
		{"it ends a pending delivery as cancelled with a record without a request", cancelEnds},
		{"a delivery that was tried keeps its attempts", cancelAfterAttempt},
		{"a delivery that is not pending is ErrConflict", cancelConflict},
		{"an attempt under way settles as stale and is recorded", cancelInFlight},
		{"what does not exist or is another account's is ErrNotFound", cancelNotFound},
	}
	discardSentences = []sentence{
		{"it resolves a dead letter as discarded", discardResolves},
		{"a dead letter that is resolved is ErrConflict", discardConflict},
		{"the delivery stays dead", discardStaysDead},
		{"what does not exist or is another account's is ErrNotFound", discardNotFound},
	}
)

func (w *world) tryReplay(id postrider.DeliveryID) (postrider.Delivery, error) {
	return w.Replay(w.Context(), store.Replay{
		Delivery: id, ID: newID[postrider.DeliveryID](w), Expiry: long, By: "support",
	})
}

func (w *world) replay(id postrider.DeliveryID) postrider.Delivery {
	w.Helper()
	d, err := w.tryReplay(id)
	w.ok(err)
	return d
}

func replayMakes(w *world) {
	e := w.endpoint()
	old := w.delivery(w.deadLetters(e, 1)[0])
	id := newID[postrider.DeliveryID](w)
	got, err := w.Replay(w.Context(), store.Replay{Account: e.Account, Delivery: old.ID, ID: id, Expiry: long, By: "support"})
	w.ok(err)
	w.same("Replay", got, postrider.Delivery{
		ID: id, Event: old.Event, Endpoint: e.ID, Account: e.Account, EventType: old.EventType,
		Status: postrider.Pending, ReplayedFrom: old.ID,
	}, cmpopts.IgnoreFields(postrider.Delivery{}, "NextAttemptAt", "Waiting"))
	w.near("when it is due", got.NextAttemptAt.Sub(w.now()), 0)
	w.same("the stored delivery", w.delivery(id), got)
	w.same("the old delivery", w.delivery(old.ID), old)

	c := w.claimOne(e, postrider.LaneBulk)
	if c.ID != id || c.Attempt != 1 || c.Step != 0 || c.ReplayedFrom != old.ID || c.Event.ID != old.Event || c.Event.Data == nil {
		w.Errorf("claimed %+v, want attempt 1 of the replay", c)
	}
	w.near("the expiry", c.ExpiresAt.Sub(w.now()), long)
	w.settle(delivered(c))
	if got := w.delivery(id); got.Status != postrider.Delivered || got.ReplayedFrom != old.ID {
		w.Errorf("the replay is %+v, want delivered and linked", got)
	}
}

func replayHops(w *world) {
	e := w.endpoint()
	event := w.event(e.Account, w.to(e))
	event.Event.Hops = 5
	w.publish(store.Batch{event})
	first := w.claimOne(e, postrider.LaneFirst)
	w.settle(dead(first))
	w.replay(first.ID)
	w.same("the event of the replay", w.claimOne(e, postrider.LaneBulk).Event, first.Event)
	w.same("its hops", first.Event.Hops, 5)
}

func replayFinal(w *world) {
	s := w.scene()
	for _, id := range s.deliveries[:4] {
		old := w.delivery(id)
		got := w.replay(id)
		if got.ReplayedFrom != id || got.Event != old.Event || got.Endpoint != old.Endpoint {
			w.Errorf("the replay of a %s delivery is %+v", old.Status, got)
		}
		w.same("the old delivery", w.delivery(id), old)
	}
}

func replayResolves(w *world) {
	id := w.deadLetters(w.endpoint(), 1)[0]
	letter := w.letter(id)
	replay := w.replay(id)
	got := w.letter(id)
	w.near("when it was resolved", got.ResolvedAt.Sub(w.now()), 0)
	letter.ResolvedAt, letter.Resolution, letter.ResolvedBy, letter.Replay = got.ResolvedAt, postrider.Replayed, "support", replay.ID
	w.same("the dead letter", got, letter)
}

// replayRefused fails the test unless err names the pending replay.
func (w *world) replayRefused(err error, replay postrider.DeliveryID) {
	w.Helper()
	var pending *store.ReplayPendingError
	if !errors.As(err, &pending) || pending.Replay != replay {
		w.Errorf("error = %v, want a ReplayPendingError of %s", err, replay)
	}
}

func replayPendingReplay(w *world) {
	e := w.endpoint()
	id := w.deadLetters(e, 1)[0]
	replay := w.replay(id)
	_, err := w.tryReplay(id)
	w.replayRefused(err, replay.ID)
	w.settle(retry(w.claimOne(e, postrider.LaneBulk), 0))
	_, err = w.tryReplay(id)
	w.replayRefused(err, replay.ID)
	if n := len(w.claim(e, postrider.LaneBulk, 10)); n != 1 {
		w.Errorf("%d replays are queued, want 1", n)
	}
}

func replayInParallel(w *world) {
	e := w.endpoint()
	id := w.deadLetters(e, 1)[0]
	var made atomic.Int32
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			switch _, err := w.tryReplay(id); {
			case err == nil:
				made.Add(1)
			case !errors.Is(err, postrider.ErrConflict):
				w.Errorf("Replay = %v, want nil or ErrConflict", err)
			}
		})
	}
	callers.Wait()
	if n := len(w.claim(e, postrider.LaneBulk, 10)); n != 1 || made.Load() != 1 {
		w.Errorf("%d replays were made and %d are queued, want 1 and 1", made.Load(), n)
	}
}

func replayAgain(w *world) {
	e := w.endpoint()
	id := w.deadLetters(e, 1)[0]
	for _, end := range []func(postrider.DeliveryID){
		func(postrider.DeliveryID) { w.settle(delivered(w.claimOne(e, postrider.LaneBulk))) },
		func(postrider.DeliveryID) { w.settle(dead(w.claimOne(e, postrider.LaneBulk))) },
		func(replay postrider.DeliveryID) {
			_, err := w.Cancel(w.Context(), store.Cancel{Delivery: replay})
			w.ok(err)
		},
	} {
		end(w.replay(id).ID)
	}
	last := w.replay(id)
	if got := w.letter(id); got.Replay != last.ID || got.Resolution != postrider.Replayed {
		w.Errorf("the dead letter is %+v, want replayed by the last replay", got)
	}
}

func replayDiscarded(w *world) {
	e := w.endpoint()
	id := w.deadLetters(e, 1)[0]
	_, err := w.Discard(w.Context(), store.Discard{Delivery: id, By: "support", Note: "the customer left"})
	w.ok(err)
	letter := w.letter(id)
	_, err = w.tryReplay(id)
	w.refuses(err, store.ErrDiscarded)
	w.refuses(err, postrider.ErrConflict)
	w.same("the dead letter", w.letter(id), letter)
	if n := len(w.claim(e, postrider.LaneBulk, 10)); n != 0 {
		w.Errorf("%d replays are queued, want none", n)
	}
}

func replayOfReplay(w *world) {
	e := w.endpoint()
	first := w.replay(w.deadLetters(e, 1)[0])
	w.settle(dead(w.claimOne(e, postrider.LaneBulk)))
	if got := w.letter(first.ID); got.ReplayedFrom != first.ReplayedFrom {
		w.Errorf("the replay's dead letter is linked with %s, want %s", got.ReplayedFrom, first.ReplayedFrom)
	}
	if second := w.replay(first.ID); second.ReplayedFrom != first.ID {
		w.Errorf("the second replay is linked with %s, want %s", second.ReplayedFrom, first.ID)
	}
}

func replayPending(w *world) {
	e := w.endpoint()
	id := w.pending(e, 1)[0]
	_, err := w.tryReplay(id)
	w.refuses(err, postrider.ErrConflict)
	w.claimOne(e, postrider.LaneFirst)
	_, err = w.tryReplay(id)
	w.refuses(err, postrider.ErrConflict)
}

func replayDeletedEndpoint(w *world) {
	e := w.endpoint()
	id := w.deadLetters(e, 1)[0]
	w.become(e, postrider.EndpointDeleted)
	_, err := w.tryReplay(id)
	w.refuses(err, postrider.ErrConflict)
	if got := w.letter(id); got.Resolution != "" {
		w.Errorf("the dead letter is resolved as %s", got.Resolution)
	}
}

func replayNotFound(w *world) {
	_, err := w.tryReplay(newID[postrider.DeliveryID](w))
	w.refuses(err, postrider.ErrNotFound)
	s, other := w.scene(), w.account()
	for _, id := range s.deliveries {
		_, err = w.Replay(w.Context(), store.Replay{Account: other, Delivery: id, ID: newID[postrider.DeliveryID](w), Expiry: long})
		w.refuses(err, postrider.ErrNotFound)
	}
	if got := w.letter(s.deliveries[1]); got.Resolution != "" {
		w.Errorf("another account resolved the dead letter")
	}
}

func (w *world) cancel(id postrider.DeliveryID) postrider.Delivery {
	w.Helper()
	d, err := w.Cancel(w.Context(), store.Cancel{Delivery: id})
	w.ok(err)
	return d
}

func cancelEnds(w *world) {
	e := w.endpoint()
	old := w.delivery(w.pending(e, 1)[0])
	got, err := w.Cancel(w.Context(), store.Cancel{Account: e.Account, Delivery: old.ID})
	w.ok(err)
	want := old
	want.Status, want.Reason, want.Waiting = postrider.Cancelled, postrider.ReasonCancelled, postrider.Waiting{}
	w.same("Cancel", got, want, cmpopts.IgnoreFields(postrider.Delivery{}, "NextAttemptAt", "FinishedAt", "LastError"))
	w.near("when it was finished", got.FinishedAt.Sub(w.now()), 0)
	w.same("when it is due", got.NextAttemptAt.IsZero(), true)
	w.same("the stored delivery", w.delivery(old.ID), got)
	attempts := w.attempts(got)
	if len(attempts) != 1 || attempts[0].Outcome != postrider.OutcomeNone || attempts[0].StatusAfter != postrider.Cancelled {
		w.Errorf("recorded %+v, want a decision without a request", attempts)
	}
	w.nothingQueued(e)
}

func cancelAfterAttempt(w *world) {
	_, c := w.claimed()
	w.settle(retry(c, long))
	w.cancel(c.ID)
	got := w.delivery(c.ID)
	if attempts := w.attempts(got); got.Attempts != 1 || len(attempts) != 2 || attempts[1].Number != 2 {
		w.Errorf("the delivery is %+v with %+v recorded, want one attempt and then a decision", got, attempts)
	}
}

func cancelConflict(w *world) {
	s := w.scene()
	for _, id := range s.deliveries[:4] {
		old := w.delivery(id)
		_, err := w.Cancel(w.Context(), store.Cancel{Delivery: id})
		w.refuses(err, postrider.ErrConflict)
		w.same("the delivery", w.delivery(id), old)
	}
}

func cancelInFlight(w *world) {
	_, c := w.claimed()
	cancelled := w.cancel(c.ID)
	for range 2 {
		w.same("Settle", w.settle(delivered(c)), []store.Settled{{Stale: true}})
	}
	w.release(c)
	got := w.delivery(c.ID)
	w.same("the delivery", got.Status, cancelled.Status)
	var stale, decisions int
	for _, a := range w.attempts(got) {
		switch {
		case a.Stale && a.Outcome == postrider.OutcomeAccepted:
			stale++
		case a.Outcome == postrider.OutcomeNone && !a.Stale:
			decisions++
		}
	}
	if stale != 1 || decisions != 1 {
		w.Errorf("recorded %d stale attempts and %d decisions, want 1 and 1", stale, decisions)
	}
}

func cancelNotFound(w *world) {
	_, err := w.Cancel(w.Context(), store.Cancel{Delivery: newID[postrider.DeliveryID](w)})
	w.refuses(err, postrider.ErrNotFound)
	s, other := w.scene(), w.account()
	for _, id := range s.deliveries {
		_, err = w.Cancel(w.Context(), store.Cancel{Account: other, Delivery: id})
		w.refuses(err, postrider.ErrNotFound)
	}
	if got := w.delivery(s.deliveries[4]); got.Status != postrider.Pending {
		w.Errorf("another account's cancel left the delivery %s", got.Status)
	}
}

func discardResolves(w *world) {
	e := w.endpoint()
	id := w.deadLetters(e, 1)[0]
	want := w.letter(id)
	got, err := w.Discard(w.Context(), store.Discard{Account: e.Account, Delivery: id, By: "support", Note: "a test, \"é\""})
	w.ok(err)
	w.near("when it was resolved", got.ResolvedAt.Sub(w.now()), 0)
	want.ResolvedAt, want.Resolution, want.ResolvedBy, want.Note = got.ResolvedAt, postrider.Discarded, "support", "a test, \"é\""
	w.same("Discard", got, want)
	w.same("the stored dead letter", w.letter(id), want)
}

func discardConflict(w *world) {
	ids := w.deadLetters(w.endpoint(), 2)
	_, err := w.Discard(w.Context(), store.Discard{Delivery: ids[0]})
	w.ok(err)
	w.replay(ids[1])
	for _, id := range ids {
		before := w.letter(id)
		_, err = w.Discard(w.Context(), store.Discard{Delivery: id, By: "another"})
		w.refuses(err, postrider.ErrConflict)
		w.same("the dead letter", w.letter(id), before)
	}
}

func discardStaysDead(w *world) {
	id := w.deadLetters(w.endpoint(), 1)[0]
	old := w.delivery(id)
	_, err := w.Discard(w.Context(), store.Discard{Delivery: id})
	w.ok(err)
	w.same("the delivery", w.delivery(id), old)
}

func discardNotFound(w *world) {
	_, err := w.Discard(w.Context(), store.Discard{Delivery: newID[postrider.DeliveryID](w)})
	w.refuses(err, postrider.ErrNotFound)
	id := w.deadLetters(w.endpoint(), 1)[0]
	_, err = w.Discard(w.Context(), store.Discard{Account: w.account(), Delivery: id})
	w.refuses(err, postrider.ErrNotFound)
	if got := w.letter(id); got.Resolution != "" {
		w.Errorf("another account resolved the dead letter")
	}
}
