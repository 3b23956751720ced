package storetest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// The contract tests of the methods about health.
var (
	healthHistorySentences = []sentence{
		{"every change is listed, newest first, page by page", healthPages},
		{"another account's are not listed", healthForeign},
		{"a cursor that no page gave is an InvalidError", healthCursor},
	}
	putHealthSentences = []sentence{
		{"it records a health", putHealthRecords},
		{"one that is disabled disables the endpoint for its reason", putHealthDisables},
		{"one that is disabled is ErrConflict where the endpoint is not enabled, and not recorded", putHealthNotEnabled},
		{"after a 410 it also disables an endpoint that is paused", putHealthGone},
		{"a number that is not the next is ErrConflict", putHealthNumber},
		{"of parallel changes of one number exactly one counts", putHealthInParallel},
		{"the notices of the change are stored with it, and not without it", putHealthNotices},
		{"an endpoint that does not exist is ErrNotFound", putHealthNotFound},
	}
	healthInputsSentences = []sentence{
		{"endpoints with dead letters, a failing circuit or a health that is not healthy are returned", healthInputsOf},
		{"deleted and healthy ones are not", healthInputsNotOf},
		{"deleted ones take up nothing of the limit", healthInputsPastDeleted},
		{"they are ordered by id, at most limit after the given one", healthInputsPages},
		{"deliveries are counted when they are folded", healthInputsCount},
		{"those that ended before the endpoint was last healthy, or in that minute, are not counted", healthInputsSinceGood},
		{"a delivery counts by when it ended, and not by when it was made", healthInputsByEnd},
		{"minutes of the last day count, whether they were rolled up or not", healthInputsOfDay},
	}
)

// health returns a health of the endpoint with the number: a warning.
func (w *world) health(e postrider.Endpoint, number int64) postrider.EndpointHealth {
	return postrider.EndpointHealth{
		Endpoint: e.ID, Account: e.Account, Number: number, Status: postrider.HealthWarned,
		Reason: postrider.ReasonFailing, Warnings: int(number), Since: w.now(),
	}
}

func (w *world) putHealth(s postrider.EndpointHealth) postrider.EndpointHealth {
	w.Helper()
	w.ok(w.PutHealth(w.Context(), s))
	return s
}

func (w *world) history(e postrider.Endpoint) []postrider.EndpointHealth {
	w.Helper()
	page, err := w.HealthHistory(w.Context(), store.HealthQuery{Account: e.Account, Endpoint: e.ID})
	w.ok(err)
	return page.Items
}

func healthNumber(s postrider.EndpointHealth) int64 { return s.Number }

func healthPages(w *world) {
	e := w.endpoint()
	for number := range int64(5) {
		w.putHealth(w.health(e, number+1))
	}
	w.same("the history", pages(w, healthNumber, func(p store.Paging) (store.Page[postrider.EndpointHealth], error) {
		return w.HealthHistory(w.Context(), store.HealthQuery{Account: e.Account, Endpoint: e.ID, Paging: p})
	}), []int64{5, 4, 3, 2, 1})
}

func healthForeign(w *world) {
	e, other := w.endpoint(), w.endpoint()
	w.putHealth(w.health(e, 1))
	list := by(healthNumber, func(q store.HealthQuery) (store.Page[postrider.EndpointHealth], error) {
		return w.HealthHistory(w.Context(), q)
	})
	selects(w, store.HealthQuery{Account: e.Account, Endpoint: e.ID}, list, []int64{1})
	selects(w, store.HealthQuery{Account: other.Account, Endpoint: e.ID}, list, nil)
	selects(w, store.HealthQuery{Account: other.Account, Endpoint: other.ID}, list, nil)
}

func healthCursor(w *world) {
	e := w.endpoint()
	badCursors(w, func(p store.Paging) error {
		_, err := w.HealthHistory(w.Context(), store.HealthQuery{Account: e.Account, Endpoint: e.ID, Paging: p})
		return err
	})
}

func putHealthRecords(w *world) {
	e := w.endpoint()
	version := w.version()
	warned := w.putHealth(w.health(e, 1))
	good := w.putHealth(postrider.EndpointHealth{
		Endpoint: e.ID, Account: e.Account, Number: 2, Status: postrider.Healthy, Since: w.now(),
	})
	w.same("the history", w.history(e), []postrider.EndpointHealth{good, warned})
	w.same("the endpoint", w.found(e.ID), e)
	w.same("the version", w.version(), version)
}

func (w *world) disabling(e postrider.Endpoint, number int64) postrider.EndpointHealth {
	s := w.health(e, number)
	s.Status, s.Reason = postrider.HealthDisabled, postrider.ReasonDeadLetters
	return s
}

func putHealthDisables(w *world) {
	e := w.endpoint()
	w.putHealth(w.health(e, 1))
	version := w.version()
	disabled := w.putHealth(w.disabling(e, 2))
	w.same("the last health", w.history(e)[0], disabled)
	want := e
	want.Status, want.StatusReason, want.Revision = postrider.EndpointDisabled, postrider.ReasonDeadLetters, e.Revision+1
	got := w.found(e.ID)
	w.same("the endpoint", got, want, ignoreUpdated)
	w.near("when it was changed", got.UpdatedAt.Sub(w.now()), 0)
	w.same("since when it is disabled", got.StatusSince, got.UpdatedAt)
	c := w.changes(version, 10)
	w.same("the version", c.Version, version+1)
	w.same("what changed", routedIDs(c.Endpoints), []postrider.EndpointID{e.ID})
	w.refuses(w.tryPut(e), postrider.ErrConflict)
}

func putHealthNotEnabled(w *world) {
	for _, status := range []postrider.EndpointStatus{
		postrider.EndpointPaused, postrider.EndpointDisabled, postrider.EndpointDeleted,
	} {
		e := w.become(w.endpoint(), status)
		version := w.version()
		w.refuses(w.PutHealth(w.Context(), w.disabling(e, 1)), postrider.ErrConflict)
		w.same("the history", w.history(e), []postrider.EndpointHealth{})
		w.same("the endpoint", w.found(e.ID), e)
		w.same("the version", w.version(), version)
	}
}

func putHealthGone(w *world) {
	e := w.become(w.endpoint(), postrider.EndpointPaused)
	gone := w.disabling(e, 1)
	gone.Reason = postrider.ReasonGone
	gone = w.putHealth(gone)
	w.same("the history", w.history(e), []postrider.EndpointHealth{gone})
	got := w.found(e.ID)
	w.same("the status", got.Status, postrider.EndpointDisabled)
	w.same("its reason", got.StatusReason, postrider.ReasonGone)
	for _, status := range []postrider.EndpointStatus{postrider.EndpointDisabled, postrider.EndpointDeleted} {
		e := w.become(w.endpoint(), status)
		gone := w.disabling(e, 1)
		gone.Reason = postrider.ReasonGone
		w.refuses(w.PutHealth(w.Context(), gone), postrider.ErrConflict)
	}
}

func putHealthNumber(w *world) {
	e := w.endpoint()
	w.refuses(w.PutHealth(w.Context(), w.disabling(e, 2)), postrider.ErrConflict)
	first := w.putHealth(w.health(e, 1))
	for _, number := range []int64{0, 1, 3} {
		w.refuses(w.PutHealth(w.Context(), w.disabling(e, number)), postrider.ErrConflict)
	}
	w.same("the history", w.history(e), []postrider.EndpointHealth{first})
	w.same("the endpoint", w.found(e.ID), e)
}

func putHealthInParallel(w *world) {
	s := w.health(w.endpoint(), 1)
	var counted atomic.Int32
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			if w.PutHealth(w.Context(), s) == nil {
				counted.Add(1)
			}
		})
	}
	callers.Wait()
	w.same("how many counted", counted.Load(), int32(1))
}

func putHealthNotices(w *world) {
	e := w.endpoint()
	first, second, refused := w.newNotice(), w.newNotice(), w.newNotice()
	w.ok(w.PutHealth(w.Context(), w.health(e, 1), first))
	w.ok(w.PutHealth(w.Context(), w.disabling(e, 2), second))
	w.refuses(w.PutHealth(w.Context(), w.disabling(e, 3), refused), postrider.ErrConflict)
	w.refuses(w.PutHealth(w.Context(), w.health(e, 2), refused), postrider.ErrConflict)
	w.same("the notices", w.notices(store.NoticeQuery{}), []postrider.Notice{second, first})
}

func putHealthNotFound(w *world) {
	e := w.draft(w.account())
	w.refuses(w.PutHealth(w.Context(), w.health(e, 1)), postrider.ErrNotFound)
	w.refuses(w.PutHealth(w.Context(), w.disabling(e, 1)), postrider.ErrNotFound)
}

// records folds the deltas, and returns the health inputs.
func (w *world) records(after postrider.EndpointID, limit int) []postrider.HealthInput {
	w.Helper()
	w.fold()
	records, err := w.HealthInputs(w.Context(), after, limit)
	w.ok(err)
	return records
}

func healthInputsOf(w *world) {
	buried, failing, warned := w.endpoint(), w.endpoint(), w.endpoint()
	w.deadLetters(buried, 2)
	c := w.putCircuit(w.circuit(failing))
	w.putHealth(w.health(warned, 1))
	s := w.putHealth(w.health(warned, 2))
	paused := w.become(failing, postrider.EndpointPaused)
	w.same("the records", w.records(postrider.EndpointID{}, 10), []postrider.HealthInput{
		{Endpoint: buried.ID, Account: buried.Account, Enabled: true, Dead: 2},
		{Endpoint: paused.ID, Account: paused.Account, FailingSince: c.FailingSince, FailedAt: c.LastAttemptAt},
		{Endpoint: warned.ID, Account: warned.Account, Enabled: true, Health: s},
	})
}

func healthInputsNotOf(w *world) {
	w.settleAll(w.endpoint(), 1)
	deleted := w.endpoint()
	w.deadLetters(deleted, 1)
	w.putCircuit(w.circuit(deleted))
	w.putHealth(w.health(deleted, 1))
	w.become(deleted, postrider.EndpointDeleted)
	closed := w.circuit(w.endpoint())
	closed.Status, closed.FailingSince = postrider.CircuitClosed, time.Time{}
	w.putCircuit(closed)
	good := w.health(w.endpoint(), 1)
	good.Status = postrider.Healthy
	w.putHealth(good)
	w.same("the records", w.records(postrider.EndpointID{}, 10), []postrider.HealthInput{})
}

func healthInputsPastDeleted(w *world) {
	const limit = 2
	account := w.account()
	var after postrider.EndpointID
	for what, suspect := range []func(postrider.Endpoint){
		func(e postrider.Endpoint) { w.deadLetters(e, 1) },
		func(e postrider.Endpoint) { w.putCircuit(w.circuit(e)) },
		func(e postrider.Endpoint) { w.putHealth(w.health(e, 1)) },
	} {
		for range limit {
			e := w.put(w.draft(account))
			suspect(e)
			w.become(e, postrider.EndpointDeleted)
		}
		live := w.put(w.draft(account))
		suspect(live)
		records := w.records(after, limit)
		if len(records) != 1 || records[0].Endpoint != live.ID {
			w.Errorf("source %d: the records behind deleted endpoints are %+v, want that of %s", what, records, live.ID)
		}
		after = live.ID
	}
}

func healthInputsPages(w *world) {
	account := w.account()
	var want, got []postrider.EndpointID
	for i := range 5 {
		e := w.put(w.draft(account))
		want = append(want, e.ID)
		switch i {
		case 0, 4:
			w.deadLetters(e, 1)
			w.putHealth(w.health(e, 1)) // two reasons, but one input
		case 1, 3:
			w.putCircuit(w.circuit(e))
		case 2:
			w.putHealth(w.health(e, 1))
		}
	}
	for after := (postrider.EndpointID{}); ; after = got[len(got)-1] {
		page := w.records(after, 2)
		if len(page) == 0 {
			break
		}
		if len(page) > 2 {
			w.Fatalf("%d records, want at most 2", len(page))
		}
		for _, r := range page {
			got = append(got, r.Endpoint)
		}
	}
	w.same("the endpoints", got, want)
}

func healthInputsCount(w *world) {
	e := w.endpoint()
	w.deadLetters(e, 2)
	w.settleAll(e, 5)
	ids := w.pending(e, 2)
	w.cancel(ids[0])
	unfolded, err := w.HealthInputs(w.Context(), postrider.EndpointID{}, 10)
	w.ok(err)
	w.same("the records before the fold", unfolded, []postrider.HealthInput{})
	want := postrider.HealthInput{Endpoint: e.ID, Account: e.Account, Enabled: true, Delivered: 5, Dead: 2}
	w.same("the records", w.records(postrider.EndpointID{}, 10), []postrider.HealthInput{want})
	w.claimOne(e, postrider.LaneFirst)
	w.settleAll(e, 25)
	w.deadLetters(e, 6)
	want.Delivered, want.Dead = 30, 8
	w.same("the records of many", w.records(postrider.EndpointID{}, 10), []postrider.HealthInput{want})
}

// ended returns counts of deliveries that ended at an endpoint in a minute.
func ended(e postrider.Endpoint, at time.Time, delivered, dead int) store.Seen {
	s := store.Seen{DeltaKey: store.DeltaKey{Account: e.Account, Endpoint: e.ID, Type: "order.created"}, At: at}
	for range delivered {
		s.Record(postrider.OutcomeAccepted, 1, postrider.Delivered)
	}
	for range dead {
		s.Record(postrider.OutcomeRejected, 1, postrider.Dead)
	}
	return s
}

// healthInputsOfDay makes a delivery a dead letter every seven minutes of 25 hours.
func healthInputsOfDay(w *world) {
	var last postrider.EndpointID
	w.steadily(time.Minute, func() (compare func()) {
		e, others, now := w.endpoint(), last, w.now()
		last = e.ID
		since := store.HealthSince(now, postrider.EndpointHealth{})
		want := postrider.HealthInput{Endpoint: e.ID, Account: e.Account, Enabled: true}
		var all []store.Seen
		for at := now.Truncate(time.Minute).Add(-25 * time.Hour); !at.After(now); at = at.Add(7 * time.Minute) {
			all = append(all, ended(e, at, 2, 1))
			if !at.Before(since) {
				want.Delivered += 2
				want.Dead++
			}
		}
		all = append(all, ended(e, since, 0, 1), ended(e, since.Add(-time.Minute), 0, 1))
		want.Dead++
		w.see(all...)
		found := [][]postrider.HealthInput{w.records(others, 10)}
		w.rollUpAll(250, func() { found = append(found, w.records(others, 10)) })
		return func() {
			for parts, records := range found {
				w.same(fmt.Sprintf("the records after %d parts were rolled up", parts), records, []postrider.HealthInput{want})
			}
		}
	})
}

// settleAll publishes n deliveries, and settles them as delivered.
func (w *world) settleAll(e postrider.Endpoint, n int) {
	w.Helper()
	var settlements []store.Settlement
	for _, c := range w.claimExactly(e, w.pending(e, n)...) {
		s := delivered(c)
		s.Attempt.StartedAt, s.Attempt.Duration = w.now(), 0
		settlements = append(settlements, s)
	}
	w.settle(settlements...)
}

// healthInputsByEnd ends deliveries now that were made before the span began. That happens when a
// receiver comes back. The deliveries must count; otherwise it would look as if nearly all
// deliveries of the endpoint became dead letters.
func healthInputsByEnd(w *world) {
	made := w.now().Add(-postrider.HealthSpan - time.Second)
	// Stores have no partition for the day before yesterday.
	if yesterday := w.now().AddDate(0, 0, -1); made.Day() != yesterday.Day() {
		w.passed(2 * time.Second)
		made = w.now().Add(-postrider.HealthSpan - time.Second)
	}
	e := w.endpoint()
	var batch store.Batch
	ids := store.NewIDs(func() time.Time { return made }, nil)
	for range 7 {
		event := w.event(e.Account, w.to(e))
		event.Event.ID = store.NewID[postrider.EventID](ids)
		event.Deliveries[0].ID = store.NewID[postrider.DeliveryID](ids)
		batch = append(batch, event)
	}
	w.publish(batch)
	var settlements []store.Settlement
	for i, c := range w.claim(e, postrider.LaneFirst, 7) {
		s := delivered(c)
		if i < 2 {
			s = dead(c)
		}
		s.Attempt.StartedAt, s.Attempt.Duration = w.now(), 0
		settlements = append(settlements, s)
	}
	w.settle(settlements...)
	w.same("the records", w.records(postrider.EndpointID{}, 10), []postrider.HealthInput{
		{Endpoint: e.ID, Account: e.Account, Enabled: true, Delivered: 5, Dead: 2},
	})
}

func healthInputsSinceGood(w *world) {
	e := w.endpoint()
	good := w.health(e, 1)
	good.Status, good.Reason, good.Warnings = postrider.Healthy, "", 0
	good.Since = w.now().Truncate(time.Minute).Add(-10*time.Minute + time.Second)
	w.putHealth(good)
	w.see(ended(e, good.Since.Add(-time.Minute), 1, 1), ended(e, good.Since, 1, 2), ended(e, good.Since.Add(time.Minute), 4, 1))
	w.same("the records", w.records(postrider.EndpointID{}, 10), []postrider.HealthInput{
		{Endpoint: e.ID, Account: e.Account, Enabled: true, Health: good, Delivered: 4, Dead: 1},
	})
	warned := w.putHealth(w.health(e, 2))
	got := w.records(postrider.EndpointID{}, 10)
	want := []postrider.HealthInput{{Endpoint: e.ID, Account: e.Account, Enabled: true, Health: warned, Delivered: 6, Dead: 4}}
	w.same("the records of one that is warned", got, want)
	w.same("nothing after it", w.records(e.ID, 10), []postrider.HealthInput{})
}
