package observe

import (
	"time"

	"github.com/postrider/postrider"
)

// Attempted is the part of a settled attempt that people see while they watch. Package live sends
// it to the pages of all nodes.
type Attempted struct {
	Delivery     postrider.DeliveryID
	Event        postrider.EventID
	Endpoint     postrider.EndpointID
	Account      postrider.AccountID
	EventType    string
	Attempt      int // number, from 1
	Outcome      postrider.Outcome
	StatusCode   int // 0: no response
	Duration     time.Duration
	Status       postrider.Status     // of the delivery, after the attempt
	At           time.Time            // start of the attempt
	ReplayedFrom postrider.DeliveryID // zero: the delivery is no replay
}

// Test reports whether the attempt is of a test event.
func (a Attempted) Test() bool { return postrider.IsTest(a.Event) }

// Attempted returns the part of the attempt that people see. A stale attempt has not changed its
// delivery, so its status is pending.
func (s Settled) Attempted() Attempted {
	status := s.Transition.To
	if s.Stale {
		status = postrider.Pending
	}
	return Attempted{
		Delivery: s.Delivery.ID, Event: s.Delivery.Event.ID, Endpoint: s.Delivery.Endpoint, Account: s.Delivery.Event.Account,
		EventType: s.Delivery.Event.Type, Attempt: s.Delivery.Attempt, Outcome: s.Attempt.Outcome, StatusCode: s.Attempt.StatusCode,
		Duration: s.Attempt.Duration, Status: status, At: s.Attempt.StartedAt, ReplayedFrom: s.Delivery.ReplayedFrom,
	}
}

// Watch selects attempts. A zero field selects all.
type Watch struct {
	Account   postrider.AccountID
	Endpoint  postrider.EndpointID
	EventType postrider.Pattern
	Status    postrider.Status
	Outcome   postrider.Outcome
}

// Selects reports whether the watch selects the attempt.
func (w *Watch) Selects(a *Attempted) bool {
	return (w.Account.IsZero() || w.Account == a.Account) &&
		(w.Endpoint.IsZero() || w.Endpoint == a.Endpoint) &&
		(w.Status == "" || w.Status == a.Status) &&
		(w.Outcome == "" || w.Outcome == a.Outcome) &&
		(w.EventType == "" || w.EventType.Matches(a.EventType))
}
