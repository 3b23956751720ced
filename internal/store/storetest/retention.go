package storetest

import (
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

var retention = []verb{
	{"DeleteOld", []sentence{
		{"an old event that nothing needs is deleted, and younger ones stay", forgetEvents},
		{"fewer than f.Limit: nothing is left to delete", forgetCounts},
		{"an event that a pending delivery needs stays, and is claimed with its data", forgetEventsPending},
		{"an event that an unresolved dead letter needs stays, and can be replayed, until it is resolved", forgetEventsDead},
		{"an event that a fan-out job needs stays", forgetEventsFanOut},
		{"while a replay job runs, events stay for up to ReplayGrace longer", forgetEventsReplaying},
		{"a replay of an event that is gone is ErrGone, and its delivery and attempts stay listed", forgetEventsHistory},
		{"the age of attempts is that of their delivery; a delivery that has ended goes with them", forgetAttempts},
		{"a delivery that is pending goes on without its attempts, and what it records afterwards is stored", forgetAttemptsPending},
		{"heads and bodies go without their attempt", forgetBodies},
		{"resolved dead letters go, and unresolved ones stay", forgetDeadLetters},
		{"replay jobs that have ended go, and others stay", forgetReplayJobs},
		{"changes of health go, and the last one of each endpoint stays", forgetHealth},
		{"subscriptions go that ended before then, and the present ones stay", forgetSubscriptions},
		{"audit entries go", forgetAudit},
		{"notices go", forgetNotices},
		{"sessions go that expired before then, and others stay", forgetSessions},
	}},
	{"ForgetOrderingKeys", []sentence{
		{"a key of which no event is stored is deleted: its next event has the sequence 1", forgetOrderingKeys},
		{"a key of which an event is stored, or kept for a delivery, stays", forgetOrderingKeysUsed},
		{"it returns the last key that it examined, zero: there are no more", forgetOrderingKeysPages},
	}},
	{"Shrink", []sentence{
		{"it may be called at any time, and nothing is lost", shrink},
	}},
}

// forgetLimit is how many rows these tests forget at once.
const forgetLimit = 3

// forget forgets what is older than age, and returns after how many calls nothing was left.
// With a negative age that is what was made just now too; stores with partitions then have
// none for today, and forget makes them.
func (w *world) forget(kind store.Kind, age time.Duration) (calls int) {
	w.Helper()
	for {
		calls++
		n, err := w.DeleteOld(w.Context(), store.DeleteOld{Kind: kind, Before: w.now().Add(-age), Limit: forgetLimit})
		w.ok(err)
		if n < forgetLimit {
			w.ok(w.MakePartitions(w.Context()))
			return calls
		}
	}
}

// all is the age of rows that are made now, under which a store with partitions deletes the
// days of today and tomorrow.
const all = -48 * time.Hour

// ended publishes a delivery and settles it as delivered.
func (w *world) ended(e postrider.Endpoint) postrider.Delivery {
	w.Helper()
	id := w.pending(e, 1)[0]
	s := delivered(w.claimOne(e, postrider.LaneFirst))
	s.Attempt.RequestHead, s.Attempt.ResponseHead, s.Attempt.ResponseBody = []byte("request"), []byte("head"), make([]byte, 1000)
	w.settle(s)
	return w.delivery(id)
}

// isStored reports whether the event is found by its id, with its data.
func (w *world) isStored(id postrider.EventID) bool {
	w.Helper()
	page, err := w.Events(w.Context(), store.EventQuery{ID: id})
	w.ok(err)
	return len(page.Items) == 1 && page.Items[0].Data != nil
}

// isListed reports whether the delivery is found by its id.
func (w *world) isListed(id postrider.DeliveryID) bool {
	w.Helper()
	page, err := w.Deliveries(w.Context(), store.DeliveryQuery{ID: id})
	w.ok(err)
	return len(page.Items) == 1
}

func forgetEvents(w *world) {
	d := w.ended(w.endpoint())
	w.forget(store.OldEvents, 48*time.Hour)
	w.same("a young event is stored", w.isStored(d.Event), true)
	w.forget(store.OldEvents, all)
	w.same("an old event is stored", w.isStored(d.Event), false)
	page, err := w.Events(w.Context(), store.EventQuery{Account: d.Account})
	w.ok(err)
	w.same("the events of the account", len(page.Items), 0)
}

func forgetCounts(w *world) {
	e := w.endpoint()
	for range 2*forgetLimit + 1 {
		w.ended(e)
	}
	if calls := w.forget(store.OldEvents, all); calls < 3 {
		w.Errorf("%d calls have deleted %d events, %d in each", calls, 2*forgetLimit+1, forgetLimit)
	}
	w.same("calls that find nothing", w.forget(store.OldEvents, 48*time.Hour), 1)
}

func forgetEventsPending(w *world) {
	e := w.endpoint()
	ids := w.pending(e, 2*forgetLimit+1)
	last := w.event(e.Account, w.to(e))
	last.Event.TraceParent, last.Event.TraceState, last.Event.About = traced, "a=b", said
	last.Event.Endpoints = []postrider.EndpointID{e.ID}
	w.publish(store.Batch{last})
	ids = append(ids, last.Deliveries[0].ID)
	replay := w.replay(w.ended(w.endpoint()).ID) // has an id of its own
	gone := w.ended(w.endpoint())
	for range 2 { // the second time, some stores have them elsewhere
		w.forget(store.OldEvents, all)
	}
	w.same("the event of the one that has ended is stored", w.isStored(gone.Event), false)
	for _, id := range append(slices.Clone(ids), replay.ID) {
		w.same("the event of a pending one is stored", w.isStored(w.delivery(id).Event), true)
	}
	items := w.claim(e, postrider.LaneFirst, 100)
	w.same("claimed", deliveryIDs(items, claimedID), ids)
	w.same("the claimed event with a trace", *items[len(items)-1].Event, last.Event)
	for _, item := range items {
		w.same("the claimed event", *item.Event, w.stored(item.Event.ID))
		w.settle(delivered(item))
	}
	w.forget(store.OldEvents, all)
	for _, item := range items {
		w.same("the event of a delivered one is stored", w.isStored(item.Event.ID), false)
	}
}

func forgetEventsDead(w *world) {
	e := w.endpoint()
	ids := w.deadLetters(e, 2)
	w.forget(store.OldEvents, all)
	replay := w.replay(ids[0])
	item := w.claimOne(e, postrider.LaneBulk)
	w.same("the replay", item.ID, replay.ID)
	w.same("its event", *item.Event, w.stored(item.Event.ID))
	w.settle(delivered(item))
	_, err := w.Discard(w.Context(), store.Discard{Delivery: ids[1], By: "someone"})
	w.ok(err)
	w.forget(store.OldEvents, all)
	for _, id := range ids {
		w.same("the event is stored", w.isStored(w.letter(id).Event), false)
	}
}

func forgetEventsFanOut(w *world) {
	event := w.job(w.endpoint())
	w.publish(store.Batch{event})
	w.forget(store.OldEvents, all)
	jobs := w.claimFanOuts(1, long)
	if len(jobs) != 1 || string(jobs[0].Event.Data) != string(event.Event.Data) {
		w.Errorf("the fan-out jobs are %+v, want the event with its data", jobs)
	}
}

func forgetEventsReplaying(w *world) {
	d := w.ended(w.endpoint())
	job := w.newJob(w.endpoint(), postrider.Delivered)
	w.ok(w.PutReplayJob(w.Context(), job))
	w.forget(store.OldEvents, all)
	w.same("the event is stored while the job runs", w.isStored(d.Event), true)
	w.forget(store.OldEvents, all-store.ReplayGrace)
	w.same("it is stored after ReplayGrace", w.isStored(d.Event), false)
	other := w.ended(w.endpoint())
	w.setJob(job.ID, postrider.ReplayCancelled)
	w.forget(store.OldEvents, all)
	w.same("an event is stored after the job", w.isStored(other.Event), false)
}

func forgetEventsHistory(w *world) {
	e := w.endpoint()
	d, letter := w.ended(e), w.deadLetters(e, 1)[0]
	_, err := w.Discard(w.Context(), store.Discard{Delivery: letter, By: "someone"})
	w.ok(err)
	w.forget(store.OldEvents, all)
	_, err = w.tryReplay(d.ID)
	w.refuses(err, postrider.ErrGone)
	w.same("the delivery", w.delivery(d.ID), d)
	w.same("its attempts", len(w.attempts(d)), 1)
	w.same("the dead letter's resolution", w.letter(letter).Resolution, postrider.Discarded)
	page, err := w.Attempts(w.Context(), store.AttemptQuery{Account: d.Account, Event: d.Event})
	w.ok(err)
	w.same("attempts of the event", len(page.Items), 1)
}

func forgetAttempts(w *world) {
	d := w.ended(w.endpoint())
	w.forget(store.OldAttempts, 48*time.Hour)
	w.same("young attempts", len(w.attempts(d)), 1)
	w.forget(store.OldAttempts, all)
	w.same("the delivery is listed", w.isListed(d.ID), false)
	w.same("old attempts", len(w.attempts(d)), 0)
	w.same("its event is stored", w.isStored(d.Event), true)
}

func forgetAttemptsPending(w *world) {
	e := w.endpoint()
	id := w.pending(e, 1)[0]
	w.settle(retry(w.claimOne(e, postrider.LaneFirst), 0))
	letter := w.deadLetters(e, 1)[0]
	w.forget(store.OldAttempts, all)
	w.forget(store.OldBodies, all)
	w.same("the dead letter is listed", w.delivery(letter).Status, postrider.Dead)
	w.same("the pending one is listed", w.delivery(id).Status, postrider.Pending)
	s := retry(w.claimOne(e, postrider.LaneRetry), 0)
	s.Attempt.ResponseBody = []byte("answer")
	w.settle(s)
	attempts := w.attempts(w.delivery(id))
	if len(attempts) != 1 || attempts[0].Number != 2 || string(attempts[0].ResponseBody) != "answer" {
		w.Errorf("the attempts are %+v, want the second alone, with its body", attempts)
	}
}

func forgetBodies(w *world) {
	d := w.ended(w.endpoint())
	before := w.attempts(d)[0]
	w.forget(store.OldBodies, 48*time.Hour)
	w.same("a young body", len(w.attempts(d)[0].ResponseBody), 1000)
	w.forget(store.OldBodies, all)
	after := w.attempts(d)[0]
	before.RequestHead, before.ResponseHead, before.ResponseBody = nil, nil, before.ResponseBody[:store.MaxAcceptedBody]
	w.same("the attempt", after, before)
}

func forgetDeadLetters(w *world) {
	e := w.endpoint()
	ids := w.deadLetters(e, forgetLimit+2)
	for _, id := range ids[1:] {
		_, err := w.Discard(w.Context(), store.Discard{Delivery: id, By: "someone"})
		w.ok(err)
	}
	letters := func() []postrider.DeliveryID {
		page, err := w.DeadLetters(w.Context(),
			store.DeadLetterQuery{Account: e.Account, Resolved: true, Paging: store.Paging{OldestFirst: true}})
		w.ok(err)
		return deliveryIDs(page.Items, func(l postrider.DeadLetter) postrider.DeliveryID { return l.Delivery })
	}
	w.forget(store.OldDeadLetters, time.Hour)
	w.same("dead letters resolved lately", letters(), ids)
	w.forget(store.OldDeadLetters, all)
	w.same("dead letters", letters(), ids[:1])
	w.same("a forgotten one is listed", w.isListed(ids[1]), false)
}

func forgetReplayJobs(w *world) {
	e := w.endpoint()
	running, ended := w.newJob(e, postrider.Dead), w.newJob(e, postrider.Dead)
	w.ok(w.PutReplayJob(w.Context(), running))
	w.ok(w.PutReplayJob(w.Context(), ended))
	w.setJob(ended.ID, postrider.ReplayCancelled)
	jobs := func() (ids []postrider.ReplayID) {
		page, err := w.ReplayJobs(w.Context(), store.ReplayJobQuery{})
		w.ok(err)
		for _, job := range page.Items {
			ids = append(ids, job.ID)
		}
		return ids
	}
	w.forget(store.OldReplayJobs, time.Hour)
	w.same("jobs that ended lately", jobs(), []postrider.ReplayID{ended.ID, running.ID})
	w.forget(store.OldReplayJobs, all)
	w.same("jobs", jobs(), []postrider.ReplayID{running.ID})
}

func forgetHealth(w *world) {
	e, other := w.endpoint(), w.endpoint()
	for number := range int64(forgetLimit + 2) {
		w.putHealth(w.health(e, number+1))
	}
	w.putHealth(w.health(other, 1))
	w.forget(store.OldHealth, 1000*time.Hour)
	w.same("young changes", len(w.history(e)), forgetLimit+2)
	w.forget(store.OldHealth, all)
	w.same("old changes", len(w.history(e)), 1)
	w.same("the last one's number", w.history(e)[0].Number, int64(forgetLimit+2))
	w.same("the other's changes", len(w.history(other)), 1)
	w.putHealth(w.health(e, forgetLimit+3))
}

func forgetAudit(w *world) {
	for range forgetLimit + 1 {
		w.ok(w.AppendAudit(w.Context(), w.newEntry()))
	}
	w.forget(store.OldAudit, time.Hour)
	w.same("young entries", len(w.entries(store.AuditQuery{})), forgetLimit+1)
	w.forget(store.OldAudit, all)
	w.same("old entries", len(w.entries(store.AuditQuery{})), 0)
}

func forgetNotices(w *world) {
	for range forgetLimit + 1 {
		w.told(w.newNotice())
	}
	w.forget(store.OldNotices, time.Hour)
	w.same("young notices", len(w.notices(store.NoticeQuery{})), forgetLimit+1)
	w.forget(store.OldNotices, all)
	w.same("old notices", len(w.notices(store.NoticeQuery{})), 0)
}

func forgetSessions(w *world) {
	live, young := w.newSession(), w.newSession()
	young.ExpiresAt = w.now().Add(-time.Hour)
	sessions := []postrider.Session{live, young}
	for n := range forgetLimit + 1 {
		old := w.newSession()
		old.ExpiresAt = w.now().Add(-3*time.Hour - time.Duration(n)*time.Minute)
		sessions = append(sessions, old)
	}
	for _, session := range sessions {
		w.ok(w.PutSession(w.Context(), session))
	}
	w.same("calls", w.forget(store.OldSessions, 2*time.Hour), 2)
	page, err := w.Sessions(w.Context(), store.SessionQuery{})
	w.ok(err)
	w.same("the sessions", ids(page.Items, sessionID), []postrider.SessionID{young.ID, live.ID})
}

// forgetOrder examines all ordering keys, limit at a time.
func (w *world) forgetOrder(limit int) {
	w.Helper()
	var after store.OrderingKey
	for {
		last, err := w.ForgetOrderingKeys(w.Context(), after, limit)
		w.ok(err)
		if last == (store.OrderingKey{}) {
			return
		}
		after = last
	}
}

// sequence publishes an event with the ordering key and returns its sequence.
func (w *world) sequence(account postrider.AccountID, key string) int64 {
	w.Helper()
	return w.publish(store.Batch{w.ordered(account, key)})[0].Events[0].Sequence
}

func forgetOrderingKeys(w *world) {
	account := w.account()
	w.sequence(account, "order-1")
	w.same("the second sequence", w.sequence(account, "order-1"), int64(2))
	w.forget(store.OldEvents, all)
	w.forgetOrder(10)
	w.same("the sequence after the key was forgotten", w.sequence(account, "order-1"), int64(1))
}

func forgetOrderingKeysUsed(w *world) {
	e, account := w.endpoint(), w.account()
	w.sequence(account, "order-1")
	w.publishOrdered(e, "order-2", postrider.PauseOnDead, 1)
	w.forgetOrder(10)
	w.same("the second sequence", w.sequence(account, "order-1"), int64(2))
	w.forget(store.OldEvents, all)
	w.forgetOrder(10)
	w.same("the second sequence of a pending one", w.sequence(e.Account, "order-2"), int64(2))
}

func forgetOrderingKeysPages(w *world) {
	account := w.account()
	for _, key := range []string{"a", "b", "c"} {
		w.sequence(account, key)
	}
	last, err := w.ForgetOrderingKeys(w.Context(), store.OrderingKey{}, 2)
	w.ok(err)
	w.same("the last key", last, store.OrderingKey{Key: "b", Account: account})
	last, err = w.ForgetOrderingKeys(w.Context(), last, 2)
	w.ok(err)
	w.same("the last key of the last page", last, store.OrderingKey{})
}

func shrink(w *world) {
	e := w.endpoint()
	for range 20 {
		w.ended(e)
	}
	kept := w.pending(e, 1)[0]
	w.forget(store.OldEvents, all)
	for range 3 {
		_, err := w.Shrink(w.Context(), 100)
		w.ok(err)
	}
	w.same("the event of the pending one is stored", w.isStored(w.delivery(kept).Event), true)
}
