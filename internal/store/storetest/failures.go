package storetest

import (
	"slices"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

var lastFailuresSentences = []sentence{
	{"the request that failed last is returned for each endpoint that has one, in their order", lastFailures},
	{"it has the head and the beginning of the response", lastFailureBody},
	{"what was accepted, lost or decided is none", lastFailureNone},
	{"at most FailuresLooked attempts are looked at", lastFailureBounded},
}

func (w *world) failures(ids ...postrider.EndpointID) (names []string) {
	w.Helper()
	failures, err := w.LastFailures(w.Context(), ids...)
	w.ok(err)
	for _, a := range failures {
		names = append(names, attemptName(a))
	}
	return names
}

// failedAt returns a retry whose attempt began at the given time.
func failedAt(c postrider.Claimed, at time.Time) store.Settlement {
	s := retry(c, 0)
	s.Attempt.StartedAt = at
	return s
}

func lastFailures(w *world) {
	first, second, plain := w.endpoint(), w.endpoint(), w.endpoint()
	older, newer := w.pending(first, 1)[0], w.pending(first, 1)[0]
	claims := w.claim(first, postrider.LaneFirst, 2)
	begin := w.now()
	for _, c := range claims {
		at := begin
		if c.ID == older { // the attempt of the older delivery is the newer attempt
			at = begin.Add(time.Second)
		}
		w.settle(failedAt(c, at))
	}
	only := w.pending(second, 1)[0]
	w.settle(failedAt(w.claimOne(second, postrider.LaneFirst), begin))
	w.same("the failures", w.failures(second.ID, plain.ID, newID[postrider.EndpointID](w), first.ID),
		[]string{only.String() + " 1", older.String() + " 1"})
	for _, c := range w.claim(first, postrider.LaneRetry, 2) {
		if c.ID == newer {
			w.settle(failedAt(c, begin.Add(2*time.Second)))
		}
	}
	w.same("after another one", w.failures(first.ID), []string{newer.String() + " 2"})
	w.same("those of none", len(w.failures()), 0)
}

func lastFailureBody(w *world) {
	e := w.endpoint()
	w.pending(e, 1)
	s := dead(w.claimOne(e, postrider.LaneFirst))
	s.Attempt.RequestHead, s.Attempt.ResponseHead, s.Attempt.ResponseBody = []byte("request"), []byte("head"),
		[]byte(strings.Repeat("long ", 100))
	s.Attempt.Error = "http_status: 500"
	w.settle(s)
	failures, err := w.LastFailures(w.Context(), e.ID)
	w.ok(err)
	if len(failures) != 1 {
		w.Fatalf("LastFailures = %v, want one", failures)
	}
	got := failures[0]
	w.same("the response", []string{string(got.RequestHead), string(got.ResponseHead), string(got.ResponseBody), got.Error},
		[]string{"", "head", strings.Repeat("long ", 100)[:store.FailureBody], "http_status: 500"})
	w.same("the code", got.StatusCode, 500)
}

func lastFailureNone(w *world) {
	e := w.endpoint()
	w.settleAll(e, 2)
	cancelled := w.pending(e, 1)[0]
	_, err := w.Cancel(w.Context(), store.Cancel{Delivery: cancelled})
	w.ok(err)
	w.same("the number of failures", len(w.failures(e.ID)), 0)
}

func lastFailureBounded(w *world) {
	e := w.endpoint()
	old := w.deadLetters(e, 1)[0]
	w.settleAll(e, store.FailuresLooked-1)
	w.same("the failures", w.failures(e.ID), []string{old.String() + " 1"})
	w.settleAll(e, 1)
	if got := w.failures(e.ID); slices.Contains(got, old.String()+" 1") {
		w.Errorf("after %d newer attempts: %v", store.FailuresLooked, got)
	}
}

// aMoment is a duration above zero that takes almost no time.
const aMoment = 2 * time.Millisecond

func statesDue(w *world) {
	waits, leased, later := w.endpoint(), w.endpoint(), w.endpoint()
	w.pending(waits, 2)
	w.pending(leased, 1)
	w.pending(later, 1)
	w.claim(leased, postrider.LaneFirst, 1)
	w.settle(retry(w.claimOne(later, postrider.LaneFirst), long))
	w.passed(aMoment)
	var due []bool
	for _, state := range w.states(waits.ID, leased.ID, later.ID) {
		due = append(due, state.DueFor >= aMoment)
		if state.DueFor < aMoment && state.DueFor != 0 {
			w.Errorf("DueFor = %s, want 0 or at least %s", state.DueFor, aMoment)
		}
	}
	w.same("what is due", due, []bool{true, false, false})
}
