package postrider_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider"
)

func TestWaiting(t *testing.T) {
	t.Parallel()
	id, other := postrider.DeliveryID{1}, postrider.DeliveryID{2}
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	soon, later := now.Add(time.Minute), now.Add(time.Hour)
	facts := func(change func(*postrider.WaitFacts)) postrider.WaitFacts {
		f := postrider.WaitFacts{DueAt: now.Add(-time.Second), Endpoint: postrider.EndpointEnabled, Signs: true}
		change(&f)
		return f
	}
	rows := []struct {
		name  string
		facts postrider.WaitFacts
		want  postrider.Waiting
	}{
		{"one that is due", facts(func(*postrider.WaitFacts) {}), postrider.Waiting{Reason: postrider.WaitDue}},
		{"one that is leased", facts(func(f *postrider.WaitFacts) { f.Leased, f.DueAt, f.Endpoint = true, soon, postrider.EndpointPaused }), postrider.Waiting{Reason: postrider.WaitInFlight}},
		{"one whose lease has ended", facts(func(f *postrider.WaitFacts) { f.Leased = true }), postrider.Waiting{Reason: postrider.WaitDue}},
		{"a retry", facts(func(f *postrider.WaitFacts) { f.DueAt = soon }), postrider.Waiting{Reason: postrider.WaitScheduled, Until: soon}},
		{"a parked one", facts(func(f *postrider.WaitFacts) { f.Parked, f.Suspected, f.DueAt = true, true, time.Time{} }), postrider.Waiting{Reason: postrider.WaitParked}},
		{"a suspected one", facts(func(f *postrider.WaitFacts) { f.Suspected = true }), postrider.Waiting{Reason: postrider.WaitSuspected}},
		{"of a held store", facts(func(f *postrider.WaitFacts) { f.Held, f.Endpoint, f.DueAt = true, postrider.EndpointPaused, soon }), postrider.Waiting{Reason: postrider.WaitHeld}},
		{"leased before the store was held", facts(func(f *postrider.WaitFacts) { f.Held, f.Leased, f.DueAt = true, true, soon }), postrider.Waiting{Reason: postrider.WaitInFlight}},
		{"of a paused endpoint", facts(func(f *postrider.WaitFacts) { f.Endpoint, f.DueAt = postrider.EndpointPaused, soon }), postrider.Waiting{Reason: postrider.WaitEndpointPaused}},
		{"of a disabled endpoint", facts(func(f *postrider.WaitFacts) { f.Endpoint, f.Signs = postrider.EndpointDisabled, false }), postrider.Waiting{Reason: postrider.WaitEndpointDisabled}},
		{"of a deleted endpoint", facts(func(f *postrider.WaitFacts) { f.Endpoint = postrider.EndpointDeleted }), postrider.Waiting{Reason: postrider.WaitEndpointDeleted}},
		{"of an endpoint whose policy cannot be read", facts(func(f *postrider.WaitFacts) { f.PolicyUnreadable, f.Signs = true, false }), postrider.Waiting{Reason: postrider.WaitPolicyUnreadable}},
		{"of a paused endpoint whose policy cannot be read", facts(func(f *postrider.WaitFacts) { f.PolicyUnreadable, f.Endpoint = true, postrider.EndpointPaused }), postrider.Waiting{Reason: postrider.WaitEndpointPaused}},
		{"of an endpoint without a secret", facts(func(f *postrider.WaitFacts) { f.Signs, f.DueAt = false, soon }), postrider.Waiting{Reason: postrider.WaitNoSecret}},
		{"behind another of its key", facts(func(f *postrider.WaitFacts) { f.DueAt, f.Head, f.Circuit = time.Time{}, other, postrider.CircuitOpen }), postrider.Waiting{Reason: postrider.WaitOrdering, For: other}},
		{"behind a dead letter", facts(func(f *postrider.WaitFacts) { f.DueAt, f.Head, f.PausedBy = time.Time{}, id, other }), postrider.Waiting{Reason: postrider.WaitOrdering, For: other}},
		{"the first of its key", facts(func(f *postrider.WaitFacts) { f.Head = id }), postrider.Waiting{Reason: postrider.WaitDue}},
		{"behind an open circuit", facts(func(f *postrider.WaitFacts) { f.Circuit, f.ProbeAt = postrider.CircuitOpen, later }), postrider.Waiting{Reason: postrider.WaitCircuitOpen, Until: later}},
		{"due before the probe", facts(func(f *postrider.WaitFacts) { f.Circuit, f.ProbeAt, f.DueAt = postrider.CircuitOpen, later, soon }), postrider.Waiting{Reason: postrider.WaitCircuitOpen, Until: later}},
		{"due after the probe", facts(func(f *postrider.WaitFacts) { f.Circuit, f.ProbeAt, f.DueAt = postrider.CircuitOpen, soon, later }), postrider.Waiting{Reason: postrider.WaitScheduled, Until: later}},
		{"while the probe is due", facts(func(f *postrider.WaitFacts) { f.Circuit, f.ProbeAt = postrider.CircuitOpen, now }), postrider.Waiting{Reason: postrider.WaitCircuitOpen}},
		{"while the probe is under way", facts(func(f *postrider.WaitFacts) { f.Circuit, f.ProbeAt = postrider.CircuitHalfOpen, soon }), postrider.Waiting{Reason: postrider.WaitCircuitOpen, Until: soon}},
		{"while the receiver asked to wait", facts(func(f *postrider.WaitFacts) { f.PacedUntil, f.DueAt = later, soon }), postrider.Waiting{Reason: postrider.WaitAskedToWait, Until: later}},
		{"due after the receiver asked to wait", facts(func(f *postrider.WaitFacts) { f.PacedUntil, f.DueAt = soon, later }), postrider.Waiting{Reason: postrider.WaitScheduled, Until: later}},
		{"probed after the receiver asked to wait", facts(func(f *postrider.WaitFacts) { f.Circuit, f.PacedUntil, f.ProbeAt = postrider.CircuitOpen, soon, later }), postrider.Waiting{Reason: postrider.WaitCircuitOpen, Until: later}},
		{"asked to wait until after the probe", facts(func(f *postrider.WaitFacts) { f.Circuit, f.PacedUntil, f.ProbeAt = postrider.CircuitOpen, later, soon }), postrider.Waiting{Reason: postrider.WaitAskedToWait, Until: later}},
		{"long after the receiver asked to wait", facts(func(f *postrider.WaitFacts) { f.PacedUntil = now }), postrider.Waiting{Reason: postrider.WaitDue}},
		{"behind a closed circuit", facts(func(f *postrider.WaitFacts) { f.Circuit = postrider.CircuitClosed }), postrider.Waiting{Reason: postrider.WaitDue}},
	}
	var met []postrider.WaitReason
	for _, tt := range rows {
		met = append(met, tt.want.Reason)
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := tt.facts.Waiting(id, now)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Waiting (-want +got):\n%s", diff)
			}
			if !got.Until.IsZero() && !got.Until.After(now) {
				t.Errorf("it waits until %v, which is past", got.Until)
			}
		})
	}
	for _, reason := range postrider.WaitReasons {
		if !slices.Contains(met, reason) {
			t.Errorf("no row waits for %s", reason)
		}
	}
}
