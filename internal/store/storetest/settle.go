package storetest

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

func settleAnswersInOrder(w *world) {
	old, taken := w.lost()
	_, c := w.claimed()
	settled := w.settle(delivered(c), delivered(old), delivered(taken))
	w.same("Settle", settled, []store.Settled{{}, {Stale: true}, {}})
	for _, id := range []postrider.DeliveryID{c.ID, taken.ID} {
		if got := w.delivery(id).Status; got != postrider.Delivered {
			w.Errorf("delivery %s is %s, want delivered", id, got)
		}
	}
	w.same("Settle of nothing", w.settle(), []store.Settled{})
}

func settleRecords(w *world) {
	e, c := w.claimed()
	s := retry(c, long)
	s.Attempt.Outcome, s.Attempt.RetryAfter = postrider.OutcomeThrottled, 3*time.Second
	s.Attempt.RequestHead = []byte("POST /hooks HTTP/1.1\r\n\r\n")
	s.Attempt.ResponseHead = []byte("HTTP/1.1 503 Service Unavailable\r\n\r\n")
	s.Attempt.ResponseBody = []byte("later")
	w.settle(s)
	got := w.attempts(w.delivery(c.ID))
	want := s.Attempt
	want.StatusAfter = postrider.Pending
	w.same("the attempts", got, []postrider.Attempt{want}, cmpopts.IgnoreFields(postrider.Attempt{}, "NextAt"))
	w.near("the next attempt", got[0].NextAt.Sub(w.now()), long)
	if got := w.delivery(c.ID); got.Attempts != 1 || got.LastStatusCode != 503 || got.LastError != want.Error || got.Endpoint != e.ID {
		w.Errorf("the delivery is %+v, want the attempt's code and error", got)
	}
}

func settleFinalURL(w *world) {
	old, taken := w.lost()
	_, direct := w.claimed()
	const url = "https://acme.example/moved"
	stale, ended, plain := dead(old), delivered(taken), delivered(direct)
	stale.Attempt.FinalURL, ended.Attempt.FinalURL = url+"/1", url+"/2"
	w.settle(stale, ended, plain)
	finalURL := func(a postrider.Attempt) string { return a.FinalURL }
	list := by(finalURL, func(q store.AttemptQuery) (store.Page[postrider.Attempt], error) { return w.Attempts(w.Context(), q) })
	want := []string{url + "/1", url + "/2"}
	selects(w, store.AttemptQuery{Account: taken.Event.Account, Delivery: taken.ID}, list, want)
	selects(w, store.AttemptQuery{Account: taken.Event.Account, Event: taken.Event.ID}, list, want)
	selects(w, store.AttemptQuery{Account: direct.Event.Account, Delivery: direct.ID}, list, []string{""})
}

func settleTiming(w *world) {
	old, taken := w.lost()
	_, direct := w.claimed()
	stale, ended, plain := dead(old), delivered(taken), delivered(direct)
	slow := postrider.Timing{DNS: time.Millisecond, Connect: 20 * time.Millisecond, TLS: 3 * time.Second}
	fast := postrider.Timing{FirstByte: 12_345 * time.Microsecond, Reused: true}
	stale.Attempt.Timing, ended.Attempt.Timing, plain.Attempt.Timing = slow, fast, postrider.Timing{}
	w.settle(stale, ended, plain)
	timing := func(a postrider.Attempt) postrider.Timing { return a.Timing }
	list := by(timing, func(q store.AttemptQuery) (store.Page[postrider.Attempt], error) { return w.Attempts(w.Context(), q) })
	want := []postrider.Timing{slow, fast}
	selects(w, store.AttemptQuery{Account: taken.Event.Account, Delivery: taken.ID}, list, want)
	selects(w, store.AttemptQuery{Account: taken.Event.Account, Event: taken.Event.ID}, list, want)
	selects(w, store.AttemptQuery{Account: direct.Event.Account, Delivery: direct.ID}, list, []postrider.Timing{{}})
}

func settleDelivered(w *world) {
	e, c := w.claimed()
	w.settle(retry(c, 0))
	c = w.claimOne(e, postrider.LaneRetry)
	w.settle(delivered(c))
	got := w.delivery(c.ID)
	w.same("the delivery", got, postrider.Delivery{
		ID: c.ID, Event: c.Event.ID, Endpoint: e.ID, Account: e.Account, EventType: c.Event.Type,
		Status: postrider.Delivered, Attempts: 2, LastStatusCode: 200,
	}, cmpopts.IgnoreFields(postrider.Delivery{}, "FinishedAt"))
	if got.FinishedAt.IsZero() {
		w.Errorf("the delivery has no time when it was finished")
	}
	attempts := w.attempts(got)
	if len(attempts) != 2 || attempts[1].StatusAfter != postrider.Delivered || !attempts[1].NextAt.IsZero() {
		w.Errorf("recorded %+v, want a second attempt that delivered", attempts)
	}
	w.nothingQueued(e)
}

// nothingQueued fails the test if the endpoint has a queued delivery.
func (w *world) nothingQueued(e postrider.Endpoint) {
	w.Helper()
	lanes, err := w.Due(w.Context(), store.Due{Max: 1000})
	w.ok(err)
	for _, lane := range lanes {
		if lane.Endpoint == e.ID {
			w.Errorf("the endpoint has something waiting: %+v", lane)
		}
	}
}

func settleDead(w *world) {
	e, c := w.claimed()
	w.settle(retry(c, 0))
	c = w.claimOne(e, postrider.LaneRetry)
	w.settle(dead(c))
	got := w.delivery(c.ID)
	w.same("the delivery", got, postrider.Delivery{
		ID: c.ID, Event: c.Event.ID, Endpoint: e.ID, Account: e.Account, EventType: c.Event.Type,
		Status: postrider.Dead, Reason: postrider.ReasonExhausted, Attempts: 2,
		LastStatusCode: 500, LastError: "the endpoint refused",
	}, cmpopts.IgnoreFields(postrider.Delivery{}, "FinishedAt"))
	letter := w.letter(c.ID)
	w.same("the dead letter", letter, postrider.DeadLetter{
		Delivery: c.ID, Event: c.Event.ID, Endpoint: e.ID, Account: e.Account, EventType: c.Event.Type,
		Reason: postrider.ReasonExhausted, Attempts: 2, LastStatusCode: 500, LastError: "the endpoint refused",
	}, cmpopts.IgnoreFields(postrider.DeadLetter{}, "DiedAt"))
	w.near("when it died", letter.DiedAt.Sub(w.now()), 0)
	w.nothingQueued(e)
}

func settleRefused(w *world) {
	e, c := w.claimed()
	w.settle(retry(c, 0))
	c = w.claimOne(e, postrider.LaneRetry)
	refused := settlement(c, 0, postrider.Transition{To: postrider.Dead, Reason: postrider.ReasonExpired})
	refused.Attempt.Outcome, refused.Attempt.Error = postrider.OutcomeNone, postrider.ReasonExpired
	w.settle(refused)
	got, letter := w.delivery(c.ID), w.letter(c.ID)
	if got.Attempts != 1 || got.Status != postrider.Dead || got.Reason != postrider.ReasonExpired || letter.Attempts != 1 {
		w.Errorf("the delivery is %+v, its dead letter %+v; want dead as expired after one attempt", got, letter)
	}
	attempts := w.attempts(got)
	if len(attempts) != 2 || attempts[1].Outcome != postrider.OutcomeNone || attempts[1].StatusAfter != postrider.Dead {
		w.Errorf("recorded %+v, want an attempt and a decision", attempts)
	}
}

func settlePending(w *world) {
	e, c := w.claimed()
	s := retry(c, 0)
	s.Transition.Step = 4
	w.settle(s)
	if items := w.claim(e, postrider.LaneFirst, 1); len(items) != 0 {
		w.Errorf("the delivery is still in the first lane")
	}
	if got := w.delivery(c.ID); got.Status != postrider.Pending || got.Attempts != 1 || got.NextAttemptAt.IsZero() {
		w.Errorf("the delivery is %+v, want pending after one attempt", got)
	}
	next := w.claimOne(e, postrider.LaneRetry)
	if next.ID != c.ID || next.Step != 4 || next.Attempt != 2 || next.Lane != postrider.LaneRetry {
		w.Errorf("claimed %+v, want attempt 2 at step 4 in the retry lane", next)
	}
	next.Step = 8
	w.settle(retry(next, 0))
	if again := w.claimOne(e, postrider.LaneRetry); again.Step != 9 || again.Attempt != 3 {
		w.Errorf("claimed %+v, want attempt 3 at step 9", again)
	}
}

func settleWaits(w *world) {
	e, c := w.claimed()
	w.settle(retry(c, long))
	if items := w.claim(e, postrider.LaneRetry, 1); len(items) != 0 {
		w.Errorf("the delivery was claimed before it was due")
	}
	w.near("the wait", w.delivery(c.ID).NextAttemptAt.Sub(w.now()), long)
}

func settleBulk(w *world) {
	e := w.endpoint()
	d := w.to(e)
	d.Lane = postrider.LaneBulk
	w.publish(store.Batch{w.event(e.Account, d)})
	w.settle(retry(w.claimOne(e, postrider.LaneBulk), 0))
	if c := w.claimOne(e, postrider.LaneBulk); c.ID != d.ID || c.Attempt != 2 || c.Step != 1 {
		w.Errorf("claimed %+v, want attempt 2 at step 1", c)
	}
}

func settleForgetsLosses(w *world) {
	_, taken := w.lost()
	w.settle(retry(taken, 0))
	next := w.claimOne(postrider.Endpoint{ID: taken.Endpoint}, postrider.LaneRetry)
	if next.Losses != 0 || next.Attempt != 3 {
		w.Errorf("claimed %+v, want attempt 3 without losses", next)
	}
}

func settleAfterLease(w *world) {
	e := w.endpoint()
	w.pending(e, 1)
	c := w.take(store.Want{Endpoint: e.ID, Lane: postrider.LaneFirst, N: 1, Lease: brief})[0]
	w.passed(2 * brief)
	w.same("Settle", w.settle(delivered(c)), []store.Settled{{}})
	if got := w.delivery(c.ID).Status; got != postrider.Delivered {
		w.Errorf("the delivery is %s, want delivered", got)
	}
}

func settleStale(w *world) {
	old, taken := w.lost()
	before := w.delivery(taken.ID)
	w.same("Settle", w.settle(dead(old)), []store.Settled{{Stale: true}})
	w.same("the delivery", w.delivery(taken.ID), before, cmpopts.IgnoreFields(postrider.Delivery{}, "LastStatusCode", "LastError"))
	letters, err := w.DeadLetters(w.Context(), store.DeadLetterQuery{Delivery: taken.ID})
	w.ok(err)
	if len(letters.Items) != 0 {
		w.Errorf("a stale settlement left a dead letter")
	}
	w.same("the new worker's Settle", w.settle(retry(taken, 0)), []store.Settled{{}})
	if next := w.claimOne(postrider.Endpoint{ID: taken.Endpoint}, postrider.LaneRetry); next.Attempt != 3 {
		w.Errorf("claimed attempt %d, want 3", next.Attempt)
	}
}

func settleStaleReplacesLost(w *world) {
	old, taken := w.lost()
	stale := dead(old)
	stale.Attempt.ResponseBody = []byte("no")
	w.settle(stale)
	got := w.attempts(w.delivery(taken.ID))
	if len(got) != 1 || !got[0].Stale || got[0].StatusAfter != postrider.Pending || got[0].Number != 1 ||
		got[0].Outcome != postrider.OutcomeRejected ||
		got[0].StatusCode != 500 || string(got[0].ResponseBody) != "no" {
		w.Errorf("recorded %+v, want attempt 1 as stale", got)
	}
	w.settle(delivered(taken))
	got = w.attempts(w.delivery(taken.ID))
	if len(got) != 2 || !got[0].Stale || got[1].Stale || got[1].Number != 2 {
		w.Errorf("recorded %+v, want a stale attempt and one that counts", got)
	}
}

func settleStaleOnce(w *world) {
	old, taken := w.lost()
	for range 3 {
		w.same("Settle", w.settle(dead(old)), []store.Settled{{Stale: true}})
	}
	if n := len(w.attempts(w.delivery(taken.ID))); n != 1 {
		w.Errorf("recorded %d attempts, want one", n)
	}
}

func settleStaleDelivered(w *world) {
	old, taken := w.lost()
	w.same("Settle", w.settle(delivered(old)), []store.Settled{{Stale: true}})
	if got := w.delivery(taken.ID); got.Status != postrider.Pending {
		w.Errorf("the delivery is %s, want pending", got.Status)
	}
	page, err := w.Deliveries(w.Context(), store.DeliveryQuery{Endpoint: taken.Endpoint, Status: postrider.Delivered})
	w.ok(err)
	if len(page.Items) != 0 {
		w.Errorf("%d deliveries are listed as delivered, want none", len(page.Items))
	}
	w.settle(dead(taken))
	if got := w.delivery(taken.ID); got.Status != postrider.Dead {
		w.Errorf("the delivery is %s, want dead", got.Status)
	}
}

func settleAgain(w *world) {
	for _, settle := range []func(postrider.Claimed) store.Settlement{
		delivered, dead, func(c postrider.Claimed) store.Settlement { return retry(c, long) },
	} {
		e, c := w.claimed()
		w.settle(settle(c))
		before, recorded := w.delivery(c.ID), w.attempts(w.delivery(c.ID))
		w.same("Settle again", w.settle(settle(c)), []store.Settled{{}})
		w.same("the delivery", w.delivery(c.ID), before)
		w.same("the attempts", w.attempts(before), recorded)
		if items := w.claim(e, postrider.LaneFirst, 1); len(items) != 0 {
			w.Errorf("the repeat queued the delivery again")
		}
	}
}

func settleAgainLater(w *world) {
	e, c := w.claimed()
	w.settle(retry(c, 0))
	next := w.claimOne(e, postrider.LaneRetry)
	w.same("Settle again", w.settle(retry(c, 0)), []store.Settled{{}})
	if items := w.claim(e, postrider.LaneRetry, 1); len(items) != 0 {
		w.Errorf("the repeat freed the lease of the next attempt")
	}
	w.same("Settle of the next attempt", w.settle(delivered(next)), []store.Settled{{}})
	w.same("Settle again after the end", w.settle(retry(c, 0)), []store.Settled{{}})
	if got := w.delivery(c.ID); got.Status != postrider.Delivered || got.Attempts != 2 {
		w.Errorf("the delivery is %+v, want delivered after two attempts", got)
	}
}

func settleInParallel(w *world) {
	_, c := w.claimed()
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			settled, err := w.Settle(w.Context(), []store.Settlement{dead(c)})
			if err != nil || len(settled) != 1 || settled[0].Stale {
				w.Errorf("Settle = %+v, %v; want not stale", settled, err)
			}
		})
	}
	workers.Wait()
	if n := len(w.attempts(w.delivery(c.ID))); n != 1 {
		w.Errorf("recorded %d attempts, want one", n)
	}
	w.letter(c.ID)
}

func settleGroupsInParallel(w *world) {
	e := w.endpoint()
	ids := w.pending(e, 400)
	items := w.claim(e, postrider.LaneFirst, 400)
	var workers sync.WaitGroup
	for group := range 8 {
		var settlements []store.Settlement
		for i := group; i < len(items); i += 8 {
			settlements = append(settlements, delivered(items[i]))
		}
		workers.Go(func() {
			settled, err := w.Settle(w.Context(), settlements)
			if err != nil || len(settled) != len(settlements) {
				w.Errorf("Settle answered for %d of %d: %v", len(settled), len(settlements), err)
			}
		})
	}
	workers.Wait()
	w.nothingQueued(e)
	for _, id := range []postrider.DeliveryID{ids[0], ids[199], ids[399]} {
		if got := w.delivery(id); got.Status != postrider.Delivered {
			w.Errorf("delivery %s is %s, want delivered", id, got.Status)
		}
	}
}

func settleBytes(w *world) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for _, body := range [][]byte{nil, []byte("ok"), all, bytes.Repeat(all, 64)} {
		for _, settle := range []func(postrider.Claimed) store.Settlement{delivered, dead} {
			_, c := w.claimed()
			s := settle(c)
			s.Attempt.ResponseBody = body
			w.settle(s)
			if got := w.attempts(w.delivery(c.ID)); len(got) != 1 || !bytes.Equal(got[0].ResponseBody, body) {
				w.Errorf("a body of %d bytes after %s came back as %+v", len(body), s.Attempt.Outcome, got)
			}
		}
	}
	_, c := w.claimed()
	s := dead(c)
	s.Attempt.RequestHead, s.Attempt.ResponseHead = all, all
	w.settle(s)
	if got := w.attempts(w.delivery(c.ID)); !bytes.Equal(got[0].RequestHead, all) || !bytes.Equal(got[0].ResponseHead, all) {
		w.Errorf("the heads came back as %q and %q", got[0].RequestHead, got[0].ResponseHead)
	}
}

// Heads of accepted responses are stored once and referred to. Callers must not notice that.
func settleAcceptedHeads(w *world) {
	usual, other := []byte("HTTP/1.1 200 OK\r\nServer: acme\r\n\r\n"), []byte("HTTP/1.1 204 No Content\r\n\r\n")
	var groups [][]store.Settlement
	want := map[postrider.DeliveryID][]byte{}
	for range 2 {
		e := w.endpoint()
		w.pending(e, 9)
		claimed := w.claim(e, postrider.LaneFirst, 9)
		for i, head := range [][]byte{
			usual, usual, usual, other, other, usual, nil, bytes.Repeat([]byte("x"), 513),
			bytes.Repeat([]byte("x"), 512),
		} {
			s := delivered(claimed[i])
			s.Attempt.RequestHead, s.Attempt.ResponseHead, s.Attempt.ResponseBody = []byte("dropped"), head, []byte("ok")
			groups = append(groups, []store.Settlement{s})
			if want[claimed[i].ID] = head; len(head) > store.MaxAcceptedHead {
				want[claimed[i].ID] = nil
			}
		}
	}
	for _, group := range append(groups[:2:2], slices.Concat(groups[2:6]...), slices.Concat(groups[6:]...)) {
		w.settle(group...)
		w.settle(group...) // repeated, because its reply was lost
	}
	archived := map[postrider.DeliveryID][]byte{}
	for _, row := range w.rows(store.OldAttempts, store.DayOf(w.now()), store.RowID{}) {
		archived[row.Attempt.Delivery] = row.Attempt.ResponseHead
	}
	for id, head := range want {
		got := w.attempts(w.delivery(id))
		if len(got) != 1 || !bytes.Equal(got[0].ResponseHead, head) || got[0].RequestHead != nil || string(got[0].ResponseBody) != "ok" {
			w.Errorf("the attempt came back as %+v, want the head %q", got, head)
		}
		if !bytes.Equal(archived[id], head) {
			w.Errorf("the archive gets the head %q, want %q", archived[id], head)
		}
	}
	w.same("bodies in rows of their own", len(w.rows(store.OldBodies, store.DayOf(w.now()), store.RowID{})), 0)
}

func (w *world) release(items ...postrider.Claimed) {
	w.Helper()
	var leases []store.Lease
	for _, c := range items {
		leases = append(leases, store.Lease{Delivery: c.ID, Token: c.Token})
	}
	w.ok(w.Release(w.Context(), leases))
}

func releaseDue(w *world) {
	e := w.endpoint()
	w.pending(e, 3)
	items := w.claim(e, postrider.LaneFirst, 3)
	w.release(items[0], items[2])
	got := deliveryIDs(w.claim(e, postrider.LaneFirst, 3), claimedID)
	w.same("what is due", got, []postrider.DeliveryID{items[0].ID, items[2].ID})
}

func releaseNumber(w *world) {
	e, c := w.claimed()
	for range 3 {
		w.release(c)
		if c = w.claimOne(e, postrider.LaneFirst); c.Attempt != 1 || c.Losses != 0 {
			w.Errorf("claimed %+v, want attempt 1", c)
		}
	}
	w.settle(delivered(c))
	if got := w.delivery(c.ID); got.Attempts != 1 || len(w.attempts(got)) != 1 {
		w.Errorf("%d attempts count, %d are recorded; want 1", got.Attempts, len(w.attempts(got)))
	}
}

func releaseLane(w *world) {
	e, c := w.claimed()
	w.settle(retry(c, 0))
	w.release(w.claimOne(e, postrider.LaneRetry))
	if c := w.claimOne(e, postrider.LaneRetry); c.Attempt != 2 || c.Step != 1 {
		w.Errorf("claimed %+v, want attempt 2 at step 1", c)
	}
}

func releaseNotHeld(w *world) {
	old, taken := w.lost()
	w.release(old)
	w.same("the new worker's Settle", w.settle(retry(taken, 0)), []store.Settled{{}})
	if next := w.claimOne(postrider.Endpoint{ID: taken.Endpoint}, postrider.LaneRetry); next.Attempt != 3 {
		w.Errorf("claimed attempt %d, want 3", next.Attempt)
	}
}

func releaseRepeated(w *world) {
	e, c := w.claimed()
	w.release(c)
	w.release(c, postrider.Claimed{ID: newID[postrider.DeliveryID](w), Token: w.token()})
	if c = w.claimOne(e, postrider.LaneFirst); c.Attempt != 1 {
		w.Errorf("claimed attempt %d, want 1", c.Attempt)
	}
	w.settle(delivered(c))
	w.release(c)
	w.release()
	w.nothingQueued(e)
}

func (w *world) due(q store.Due) []store.DueLane {
	w.Helper()
	lanes, err := w.Due(w.Context(), q)
	w.ok(err)
	return lanes
}

func dueLanes(w *world) {
	e := w.endpoint()
	event := w.event(e.Account)
	for i, lane := range postrider.Lanes {
		soon, later := w.to(e), w.to(e)
		soon.Lane, later.Lane = lane, lane
		soon.Wait, later.Wait = time.Duration(i)*long, 5*long
		event.Deliveries = append(event.Deliveries, later, soon)
	}
	w.publish(store.Batch{event})
	got := map[postrider.Lane]time.Duration{}
	for _, lane := range w.due(store.Due{Max: 10}) {
		if lane.Endpoint != e.ID {
			w.Errorf("endpoint %s has something waiting, want only %s", lane.Endpoint, e.ID)
		}
		got[lane.Lane] = lane.In
	}
	if len(got) != len(postrider.Lanes) || got[postrider.LaneFirst] > 0 {
		w.Errorf("lanes are due in %v, want every lane, the first now", got)
	}
	w.near("the retry lane", got[postrider.LaneRetry], long)
	w.near("the bulk lane", got[postrider.LaneBulk], 2*long)
	w.near("the suspect lane", got[postrider.LaneSuspect], 3*long)
}

func dueCounts(w *world) {
	e := w.endpoint()
	event := w.event(e.Account)
	for _, wait := range []time.Duration{long, 0, 2 * long, 0, 0} {
		d := w.to(e)
		d.Wait = wait
		event.Deliveries = append(event.Deliveries, d)
	}
	w.publish(store.Batch{event})
	for _, tt := range []struct{ count, waiting, due int }{{0, 0, 0}, {2, 2, 2}, {4, 4, 3}, {100, 5, 3}} {
		lanes := w.due(store.Due{Max: 10, Count: tt.count})
		if len(lanes) != 1 || lanes[0].Waiting != tt.waiting || lanes[0].Due != tt.due {
			w.Errorf("Count %d: lanes %+v, want one with %d waiting and %d due", tt.count, lanes, tt.waiting, tt.due)
			continue
		}
		if last := lanes[0].LastIn; tt.count > 0 && (last > 0 || last < lanes[0].In) {
			w.Errorf("Count %d: the last is due in %v, want between %v and now", tt.count, last, lanes[0].In)
		}
	}
}

func dueLeases(w *world) {
	e, _ := w.claimed()
	got := w.due(store.Due{Max: 10})
	w.same("Due", got, []store.DueLane{{Endpoint: e.ID, Lane: postrider.LaneFirst}}, cmpopts.IgnoreFields(store.DueLane{}, "In"))
	w.near("the end of the lease", got[0].In, long)
}

func dueNothing(w *world) {
	w.same("Due of an empty store", w.due(store.Due{Max: 10}), []store.DueLane{})
	_, c := w.claimed()
	w.settle(delivered(c))
	w.same("Due after the end", w.due(store.Due{Max: 10}), []store.DueLane{})
}

func duePages(w *world) {
	account := w.account()
	var want []postrider.EndpointID
	for range 5 {
		e := w.put(w.draft(account))
		want = append(want, e.ID)
		first, bulk := w.to(e), w.to(e)
		bulk.Lane = postrider.LaneBulk
		w.publish(store.Batch{w.event(account, first, bulk)})
	}
	var got []postrider.EndpointID
	var after postrider.EndpointID
	for {
		lanes := w.due(store.Due{After: after, Max: 2})
		if len(lanes) == 0 {
			break
		}
		if len(lanes) > 4 {
			w.Fatalf("%d lanes of two endpoints", len(lanes))
		}
		for _, lane := range lanes {
			got = append(got, lane.Endpoint)
		}
		after = lanes[len(lanes)-1].Endpoint
	}
	var twice []postrider.EndpointID
	for _, id := range want {
		twice = append(twice, id, id)
	}
	w.same("the endpoints", got, twice)
}

func dueNewer(w *world) {
	a, b := w.endpoint(), w.endpoint()
	ofA, ofB := w.pending(a, 2), w.pending(b, 2)
	for _, tt := range []struct {
		newer postrider.DeliveryID
		want  []postrider.EndpointID
	}{
		{postrider.DeliveryID{}, []postrider.EndpointID{a.ID, b.ID}},
		{ofA[0], []postrider.EndpointID{a.ID, b.ID}},
		{ofA[1], []postrider.EndpointID{b.ID}},
		{ofB[1], nil},
	} {
		var got []postrider.EndpointID
		for _, lane := range w.due(store.Due{Max: 10, NewerThan: tt.newer}) {
			got = append(got, lane.Endpoint)
		}
		w.same("endpoints with newer deliveries", got, tt.want)
	}
}
