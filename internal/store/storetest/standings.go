package storetest

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// What the verbs say of circuits and standings.
var (
	putCircuitSentences = []sentence{
		{"it stores a change and returns it one generation higher", putCircuitStores},
		{"another generation is ErrConflict, with the circuit as it is", putCircuitConflict},
		{"of parallel changes of one generation exactly one counts", putCircuitInParallel},
		{"an endpoint that does not exist is ErrNotFound", putCircuitNotFound},
		{"an endpoint that is deleted is ErrNotFound", putCircuitDeleted},
		{"with Announce it raises the version by one, without it does not", putCircuitAnnounces},
	}
	circuitsSentences = []sentence{
		{"they are listed by endpoint, at most Limit after After", circuitsPages},
		{"each filter selects", circuitsFilters},
		{"an endpoint whose circuit never changed has none", circuitsNone},
	}
	standingsSentences = []sentence{
		{"every change is listed, newest first, page by page", standingsPages},
		{"another account's are not listed", standingsForeign},
		{"a cursor that no page gave is an InvalidError", standingsCursor},
	}
	putStandingSentences = []sentence{
		{"it records a standing", putStandingRecords},
		{"one that is disabled disables the endpoint for its reason", putStandingDisables},
		{"one that is disabled is ErrConflict where the endpoint is not enabled, and not recorded", putStandingNotEnabled},
		{"a number that is not the next is ErrConflict", putStandingNumber},
		{"of parallel standings of one number exactly one counts", putStandingInParallel},
		{"an endpoint that does not exist is ErrNotFound", putStandingNotFound},
	}
	recordsSentences = []sentence{
		{"endpoints with dead letters, a failing circuit or a standing that is not good are returned", recordsOf},
		{"those that are deleted, or of which nothing is to be said, are not", recordsNotOf},
		{"deleted ones take up nothing of the limit", recordsPastDeleted},
		{"they are ordered by id, at most limit after the given one", recordsPages},
		{"deliveries are counted, delivered ones as far as they matter", recordsCount},
		{"what happened before a good standing is not counted", recordsSinceGood},
		{"a delivery counts by when it ended, and not by when it was made", recordsByEnd},
	}
)

// circuit is an open circuit of the endpoint, as it was never stored before.
func (w *world) circuit(e postrider.Endpoint) postrider.Circuit {
	now := w.now()
	return postrider.Circuit{
		Endpoint: e.ID, Status: postrider.CircuitOpen, Reason: postrider.ReasonFailuresInRow,
		OpenedAt: now, ProbeAt: now.Add(time.Minute), Cooldown: time.Minute, FailingSince: now.Add(-time.Minute),
		PacedUntil: now.Add(2 * time.Minute), RateFullAt: now.Add(3 * time.Minute),
		Failures: 5, LastAttemptAt: now.Add(-time.Second), LastOutcome: postrider.OutcomeRejected,
	}
}

func (w *world) putCircuit(c postrider.Circuit) postrider.Circuit {
	w.Helper()
	stored, err := w.PutCircuit(w.Context(), store.PutCircuit{Circuit: c})
	w.ok(err)
	return stored
}

func (w *world) circuits(q store.CircuitQuery) []postrider.Circuit {
	w.Helper()
	circuits, err := w.Circuits(w.Context(), q)
	w.ok(err)
	return circuits
}

func putCircuitStores(w *world) {
	e := w.endpoint()
	open := w.circuit(e)
	half := open
	half.Status, half.ProbeAt = postrider.CircuitHalfOpen, open.ProbeAt.Add(time.Second)
	closed := postrider.Circuit{Endpoint: e.ID, Status: postrider.CircuitClosed, Reason: open.Reason, Cooldown: 2 * time.Minute}
	for i, c := range []postrider.Circuit{open, half, closed} {
		c.Generation = int64(i)
		got := w.putCircuit(c)
		c.Generation++
		w.same("PutCircuit", got, c)
		w.same("the stored circuit", w.circuits(store.CircuitQuery{Endpoint: e.ID, Limit: 10}), []postrider.Circuit{c})
	}
	w.same("the endpoint", w.found(e.ID), e)
}

func putCircuitConflict(w *world) {
	e := w.endpoint()
	c := w.circuit(e)
	stored := w.putCircuit(c)
	version := w.version()
	for _, generation := range []int64{0, 2} {
		c.Generation, c.Status = generation, postrider.CircuitHalfOpen
		got, err := w.PutCircuit(w.Context(), store.PutCircuit{Circuit: c, Announce: true})
		w.refuses(err, postrider.ErrConflict)
		w.same("what PutCircuit returns", got, stored)
	}
	w.same("the stored circuit", w.circuits(store.CircuitQuery{Endpoint: e.ID, Limit: 1}), []postrider.Circuit{stored})
	w.same("the version", w.version(), version)
	never := w.circuit(w.endpoint())
	never.Generation = 1
	_, err := w.PutCircuit(w.Context(), store.PutCircuit{Circuit: never})
	w.refuses(err, postrider.ErrConflict)
	w.same("circuits that never changed", w.circuits(store.CircuitQuery{Endpoint: never.Endpoint, Limit: 1}), []postrider.Circuit{})
}

func putCircuitInParallel(w *world) {
	c := w.circuit(w.endpoint())
	for range 3 {
		var counted atomic.Int32
		var callers sync.WaitGroup
		for range 8 {
			callers.Go(func() {
				if _, err := w.PutCircuit(w.Context(), store.PutCircuit{Circuit: c}); err == nil {
					counted.Add(1)
				}
			})
		}
		callers.Wait()
		w.same("how many counted", counted.Load(), int32(1))
		c.Generation++
	}
}

func putCircuitNotFound(w *world) {
	_, err := w.PutCircuit(w.Context(), store.PutCircuit{Circuit: w.circuit(w.draft(w.account())), Announce: true})
	w.refuses(err, postrider.ErrNotFound)
}

func putCircuitDeleted(w *world) {
	changed, never := w.endpoint(), w.endpoint()
	stored := w.putCircuit(w.circuit(changed))
	w.become(changed, postrider.EndpointDeleted)
	w.become(never, postrider.EndpointDeleted)
	version := w.version()
	older := stored
	older.Generation--
	for _, c := range []postrider.Circuit{stored, older, w.circuit(never)} {
		for _, announce := range []bool{false, true} {
			got, err := w.PutCircuit(w.Context(), store.PutCircuit{Circuit: c, Announce: announce})
			w.refuses(err, postrider.ErrNotFound)
			w.same("what PutCircuit returns", got, postrider.Circuit{})
		}
	}
	w.same("the stored circuits", w.circuits(store.CircuitQuery{Limit: 10}), []postrider.Circuit{stored})
	w.same("the version", w.version(), version)
}

func putCircuitAnnounces(w *world) {
	e := w.endpoint()
	w.endpoint()
	version := w.version()
	c := w.putCircuit(w.circuit(e))
	w.same("the version", w.version(), version)
	c, err := w.PutCircuit(w.Context(), store.PutCircuit{Circuit: c, Announce: true})
	w.ok(err)
	got := w.changes(version, 10)
	w.same("the version after an announcement", got.Version, version+1)
	w.same("what changed", got.Endpoints, []store.EndpointSnapshot{{Endpoint: e, Circuit: c}})
}

func circuitsPages(w *world) {
	account := w.account()
	var want []postrider.EndpointID
	for range 5 {
		e := w.put(w.draft(account))
		want = append(want, e.ID)
		w.putCircuit(w.circuit(e))
	}
	var got []postrider.EndpointID
	for after := (postrider.EndpointID{}); ; after = got[len(got)-1] {
		page := w.circuits(store.CircuitQuery{After: after, Limit: 2})
		if len(page) > 2 {
			w.Fatalf("%d circuits, want at most 2", len(page))
		}
		if len(page) == 0 {
			break
		}
		for _, c := range page {
			got = append(got, c.Endpoint)
		}
	}
	w.same("the circuits", got, want)
}

func circuitsFilters(w *world) {
	open, half, closed := w.circuit(w.endpoint()), w.circuit(w.endpoint()), w.circuit(w.endpoint())
	half.Status = postrider.CircuitHalfOpen
	closed.Status, closed.OpenedAt, closed.ProbeAt = postrider.CircuitClosed, time.Time{}, time.Time{}
	open, half, closed = w.putCircuit(open), w.putCircuit(half), w.putCircuit(closed)
	for _, tt := range []struct {
		query store.CircuitQuery
		want  []postrider.Circuit
	}{
		{store.CircuitQuery{}, []postrider.Circuit{open, half, closed}},
		{store.CircuitQuery{Endpoint: closed.Endpoint}, []postrider.Circuit{closed}},
	} {
		tt.query.Limit = 10
		w.same("what the query lists", w.circuits(tt.query), tt.want)
	}
}

func circuitsNone(w *world) {
	e := w.endpoint()
	w.same("the circuits", w.circuits(store.CircuitQuery{Endpoint: e.ID, Limit: 10}), []postrider.Circuit{})
	w.same("all circuits", w.circuits(store.CircuitQuery{Limit: 10}), []postrider.Circuit{})
}

// standing is the endpoint's next standing, a warning.
func (w *world) standing(e postrider.Endpoint, number int64) postrider.Standing {
	return postrider.Standing{
		Endpoint: e.ID, Account: e.Account, Number: number, Status: postrider.StandingWarned,
		Reason: postrider.ReasonFailing, Warnings: int(number), Since: w.now(),
	}
}

func (w *world) putStanding(s postrider.Standing) postrider.Standing {
	w.Helper()
	w.ok(w.PutStanding(w.Context(), s))
	return s
}

func (w *world) standings(e postrider.Endpoint) []postrider.Standing {
	w.Helper()
	page, err := w.Standings(w.Context(), store.StandingQuery{Account: e.Account, Endpoint: e.ID})
	w.ok(err)
	return page.Items
}

func standingNumber(s postrider.Standing) int64 { return s.Number }

func standingsPages(w *world) {
	e := w.endpoint()
	for number := range int64(5) {
		w.putStanding(w.standing(e, number+1))
	}
	w.same("the standings", pages(w, standingNumber, func(p store.Paging) (store.Page[postrider.Standing], error) {
		return w.Standings(w.Context(), store.StandingQuery{Account: e.Account, Endpoint: e.ID, Paging: p})
	}), []int64{5, 4, 3, 2, 1})
}

func standingsForeign(w *world) {
	e, other := w.endpoint(), w.endpoint()
	w.putStanding(w.standing(e, 1))
	list := by(standingNumber, func(q store.StandingQuery) (store.Page[postrider.Standing], error) {
		return w.Standings(w.Context(), q)
	})
	selects(w, store.StandingQuery{Account: e.Account, Endpoint: e.ID}, list, []int64{1})
	selects(w, store.StandingQuery{Account: other.Account, Endpoint: e.ID}, list, nil)
	selects(w, store.StandingQuery{Account: other.Account, Endpoint: other.ID}, list, nil)
}

func standingsCursor(w *world) {
	e := w.endpoint()
	badCursors(w, func(p store.Paging) error {
		_, err := w.Standings(w.Context(), store.StandingQuery{Account: e.Account, Endpoint: e.ID, Paging: p})
		return err
	})
}

func putStandingRecords(w *world) {
	e := w.endpoint()
	version := w.version()
	warned := w.putStanding(w.standing(e, 1))
	good := w.putStanding(postrider.Standing{
		Endpoint: e.ID, Account: e.Account, Number: 2, Status: postrider.StandingGood, Since: w.now(),
	})
	w.same("the standings", w.standings(e), []postrider.Standing{good, warned})
	w.same("the endpoint", w.found(e.ID), e)
	w.same("the version", w.version(), version)
}

func (w *world) disabling(e postrider.Endpoint, number int64) postrider.Standing {
	s := w.standing(e, number)
	s.Status, s.Reason = postrider.StandingDisabled, postrider.ReasonDeadLetters
	return s
}

func putStandingDisables(w *world) {
	e := w.endpoint()
	w.putStanding(w.standing(e, 1))
	version := w.version()
	disabled := w.putStanding(w.disabling(e, 2))
	w.same("the last standing", w.standings(e)[0], disabled)
	want := e
	want.Status, want.StatusReason, want.Revision = postrider.EndpointDisabled, postrider.ReasonDeadLetters, e.Revision+1
	got := w.found(e.ID)
	w.same("the endpoint", got, want, ignoreUpdated)
	w.near("when it was changed", got.UpdatedAt.Sub(w.now()), 0)
	c := w.changes(version, 10)
	w.same("the version", c.Version, version+1)
	w.same("what changed", routedIDs(c.Endpoints), []postrider.EndpointID{e.ID})
	w.refuses(w.tryPut(e), postrider.ErrConflict)
}

func putStandingNotEnabled(w *world) {
	for _, status := range []postrider.EndpointStatus{
		postrider.EndpointPaused, postrider.EndpointDisabled, postrider.EndpointDeleted,
	} {
		e := w.become(w.endpoint(), status)
		version := w.version()
		w.refuses(w.PutStanding(w.Context(), w.disabling(e, 1)), postrider.ErrConflict)
		w.same("the standings", w.standings(e), []postrider.Standing{})
		w.same("the endpoint", w.found(e.ID), e)
		w.same("the version", w.version(), version)
	}
}

func putStandingNumber(w *world) {
	e := w.endpoint()
	w.refuses(w.PutStanding(w.Context(), w.disabling(e, 2)), postrider.ErrConflict)
	first := w.putStanding(w.standing(e, 1))
	for _, number := range []int64{0, 1, 3} {
		w.refuses(w.PutStanding(w.Context(), w.disabling(e, number)), postrider.ErrConflict)
	}
	w.same("the standings", w.standings(e), []postrider.Standing{first})
	w.same("the endpoint", w.found(e.ID), e)
}

func putStandingInParallel(w *world) {
	s := w.standing(w.endpoint(), 1)
	var counted atomic.Int32
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			if w.PutStanding(w.Context(), s) == nil {
				counted.Add(1)
			}
		})
	}
	callers.Wait()
	w.same("how many counted", counted.Load(), int32(1))
}

func putStandingNotFound(w *world) {
	e := w.draft(w.account())
	w.refuses(w.PutStanding(w.Context(), w.standing(e, 1)), postrider.ErrNotFound)
	w.refuses(w.PutStanding(w.Context(), w.disabling(e, 1)), postrider.ErrNotFound)
}

func (w *world) records(after postrider.EndpointID, limit int) []postrider.Record {
	w.Helper()
	records, err := w.Records(w.Context(), after, limit)
	w.ok(err)
	return records
}

func recordsOf(w *world) {
	buried, failing, warned := w.endpoint(), w.endpoint(), w.endpoint()
	w.buried(buried, 2)
	c := w.putCircuit(w.circuit(failing))
	w.putStanding(w.standing(warned, 1))
	s := w.putStanding(w.standing(warned, 2))
	paused := w.become(failing, postrider.EndpointPaused)
	w.same("the records", w.records(postrider.EndpointID{}, 10), []postrider.Record{
		{Endpoint: buried.ID, Account: buried.Account, Enabled: true, Dead: 2},
		{Endpoint: paused.ID, Account: paused.Account, FailingSince: c.FailingSince},
		{Endpoint: warned.ID, Account: warned.Account, Enabled: true, Standing: s},
	})
}

func recordsNotOf(w *world) {
	w.settleAll(w.endpoint(), 1)
	deleted := w.endpoint()
	w.buried(deleted, 1)
	w.putCircuit(w.circuit(deleted))
	w.putStanding(w.standing(deleted, 1))
	w.become(deleted, postrider.EndpointDeleted)
	closed := w.circuit(w.endpoint())
	closed.Status, closed.FailingSince = postrider.CircuitClosed, time.Time{}
	w.putCircuit(closed)
	good := w.standing(w.endpoint(), 1)
	good.Status = postrider.StandingGood
	w.putStanding(good)
	w.same("the records", w.records(postrider.EndpointID{}, 10), []postrider.Record{})
}

func recordsPastDeleted(w *world) {
	const limit = 2
	account := w.account()
	var after postrider.EndpointID
	for what, suspect := range []func(postrider.Endpoint){
		func(e postrider.Endpoint) { w.buried(e, 1) },
		func(e postrider.Endpoint) { w.putCircuit(w.circuit(e)) },
		func(e postrider.Endpoint) { w.putStanding(w.standing(e, 1)) },
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

func recordsPages(w *world) {
	account := w.account()
	var want, got []postrider.EndpointID
	for i := range 5 {
		e := w.put(w.draft(account))
		want = append(want, e.ID)
		switch i {
		case 0, 4:
			w.buried(e, 1)
			w.putStanding(w.standing(e, 1)) // for two reasons, and once
		case 1, 3:
			w.putCircuit(w.circuit(e))
		case 2:
			w.putStanding(w.standing(e, 1))
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

func recordsCount(w *world) {
	e := w.endpoint()
	w.buried(e, 2)
	w.settleAll(e, 5)
	ids := w.pending(e, 2)
	w.cancel(ids[0])
	want := postrider.Record{Endpoint: e.ID, Account: e.Account, Enabled: true, Delivered: 5, Dead: 2}
	w.same("the records", w.records(postrider.EndpointID{}, 10), []postrider.Record{want})
	w.claimOne(e, postrider.LaneFirst)
	w.settleAll(e, 25)
	got := w.records(postrider.EndpointID{}, 10)
	want.Delivered = 20
	w.same("the records of many", got, []postrider.Record{want}, cmpopts.IgnoreFields(postrider.Record{}, "Delivered"))
	if n := got[0].Delivered; n < 20 || n > 30 {
		w.Errorf("%d of 30 deliveries are counted, want 20 at least", n)
	}
	w.buried(e, 6)
	if got := w.records(postrider.EndpointID{}, 10)[0]; got.Dead != 8 || got.Delivered < 24 || got.Delivered > 30 {
		w.Errorf("counted %d dead and %d of 30 delivered, want 8 and 24 at least", got.Dead, got.Delivered)
	}
}

// settleAll publishes n deliveries and delivers them.
func (w *world) settleAll(e postrider.Endpoint, n int) {
	w.Helper()
	var settlements []store.Settlement
	for _, c := range w.turn(e, w.pending(e, n)...) {
		s := delivered(c)
		s.Attempt.StartedAt, s.Attempt.Duration = w.now(), 0
		settlements = append(settlements, s)
	}
	w.settle(settlements...)
}

// recordsByEnd ends deliveries now that were made before the span began, as a
// receiver does that was away: they must count, or the endpoint looks as if
// nearly all of its deliveries died.
func recordsByEnd(w *world) {
	made := w.now().Add(-postrider.StandingSpan - time.Second)
	if yesterday := w.now().AddDate(0, 0, -1); made.Day() != yesterday.Day() { // of which stores have no partition
		w.passed(2 * time.Second)
		made = w.now().Add(-postrider.StandingSpan - time.Second)
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
	w.same("the records", w.records(postrider.EndpointID{}, 10), []postrider.Record{
		{Endpoint: e.ID, Account: e.Account, Enabled: true, Delivered: 5, Dead: 2},
	})
}

func recordsSinceGood(w *world) {
	e := w.endpoint()
	w.buried(e, 3)
	w.settleAll(e, 2)
	w.apart()
	good := w.standing(e, 1)
	good.Status, good.Reason, good.Warnings = postrider.StandingGood, "", 0
	w.putStanding(good)
	w.apart()
	w.buried(e, 1)
	w.settleAll(e, 4)
	w.same("the records", w.records(postrider.EndpointID{}, 10), []postrider.Record{
		{Endpoint: e.ID, Account: e.Account, Enabled: true, Standing: good, Delivered: 4, Dead: 1},
	})
	warned := w.putStanding(w.standing(e, 2))
	got := w.records(postrider.EndpointID{}, 10)
	want := []postrider.Record{{Endpoint: e.ID, Account: e.Account, Enabled: true, Standing: warned, Delivered: 6, Dead: 4}}
	w.same("the records of one that is warned", got, want)
	w.same("nothing after it", w.records(e.ID, 10), []postrider.Record{})
}
