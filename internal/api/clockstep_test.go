package api_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/api"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/memory"
)

// TestTimesOfACircuitFollowASteppedClock steps the store's wall clock while a circuit is open. The
// probe stays due at the same moment, and all responses show times by the wall clock after the
// step.
func TestTimesOfACircuitFollowASteppedClock(t *testing.T) {
	t.Parallel()
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			clock := store.NewClock(nil)
			now := time.Now()
			clock.Follow(store.Reading{Asked: now, Answered: now, Wall: now})
			w := newWorldOver(t, memory.New(memory.Options{Clock: clock}), api.Options{})
			acme := w.tenant("acme")
			e := parsed(t, acme.endpoint, postrider.ParseID[postrider.EndpointID])
			if _, err := w.store.PutCircuit(t.Context(), store.PutCircuit{Circuit: postrider.Circuit{
				Endpoint: e, Status: postrider.CircuitOpen, Reason: postrider.ReasonFailuresInRow,
				OpenedAt: now, FailingSince: now.Add(-time.Minute), ProbeAt: now.Add(10 * time.Minute),
				PacedUntil: now.Add(5 * time.Minute), LastAttemptAt: now.Add(-time.Second), LastOutcome: postrider.OutcomeRejected,
			}}); err != nil {
				t.Fatal(err)
			}
			if step := clock.Follow(store.Reading{Asked: now, Answered: now, Wall: now.Add(by)}); step != by {
				t.Fatalf("the step is %v, want %v", step, by)
			}
			clock.Follow(store.Reading{Asked: now, Answered: now, Wall: now.Add(by), Ahead: -by, Version: 1})

			at := func(d time.Duration) any { return now.Add(by + d).UTC().Format("2006-01-02T15:04:05.000000Z") }
			path := "/endpoints/" + acme.endpoint
			has(t, "the circuit", w.want(200, "GET "+path+"/circuit", "").body, map[string]any{
				"opened_at": at(0), "failing_since": at(-time.Minute), "probe_at": at(10 * time.Minute),
				"paced_until": at(5 * time.Minute), "last_attempt_at": at(-time.Second),
			})
			listed, _ := w.want(200, "GET /endpoints?account=acme", "").data()[0]["state"].(map[string]any)
			has(t, "the listed endpoint", listed, map[string]any{"failing_since": at(-time.Minute)})
			has(t, "the troubled endpoint", w.want(200, "GET /troubled-endpoints", "").data()[0], map[string]any{
				"failing_since": at(-time.Minute), "since": at(-time.Minute), "probe_at": at(10 * time.Minute),
			})
			w.want(200, "POST "+path+"/circuit", `{"status": "closed"}`)
			opened := w.want(200, "POST "+path+"/circuit", `{"status": "open"}`)
			has(t, "opened by hand", opened.body, map[string]any{"opened_at": at(0), "probe_at": at(30 * time.Minute)})
		})
	}
}
