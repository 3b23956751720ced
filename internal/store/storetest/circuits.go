package storetest

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// The contract tests of the methods about circuits.
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
		{"those that fail are selected, of endpoints that are not deleted", circuitsFailing},
		{"an endpoint whose circuit never changed has none", circuitsNone},
	}
)

// circuit returns an open circuit of the endpoint, with the generation of a circuit that was
// never stored.
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

func circuitsFailing(w *world) {
	failing, healthy, deleted, other := w.endpoint(), w.endpoint(), w.endpoint(), w.put(w.draft(newID[postrider.AccountID](w)))
	var want []postrider.Circuit
	for _, e := range []postrider.Endpoint{failing, healthy, deleted, other} {
		c := w.circuit(e)
		if e.ID == healthy.ID {
			c.Status, c.FailingSince = postrider.CircuitClosed, time.Time{}
		}
		if c = w.putCircuit(c); e.ID == failing.ID || e.ID == other.ID {
			want = append(want, c)
		}
	}
	deleted.Status = postrider.EndpointDeleted
	w.put(deleted)
	slices.SortFunc(want, func(a, b postrider.Circuit) int { return a.Endpoint.Compare(b.Endpoint) })
	w.same("those that fail", w.circuits(store.CircuitQuery{Failing: true, Limit: 10}), want)
	w.same("the first of them", w.circuits(store.CircuitQuery{Failing: true, Limit: 1}), want[:1])
	w.same("those of an account", w.circuits(store.CircuitQuery{Failing: true, Account: other.Account, Limit: 10}),
		slices.DeleteFunc(slices.Clone(want), func(c postrider.Circuit) bool { return c.Endpoint != other.ID }))
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
