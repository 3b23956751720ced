package postrider

import "time"

// Subscription is what of an endpoint selects events. An option that selects events is a field here, and
// in [Endpoint.Subscription].
type Subscription struct {
	EventTypes []Pattern // one of them must match the type of the event
	Filter     string    // see [Policy]
	Channels   []string  // see [Policy]
	Changed    []string  // see [Policy]
	Condition  string    // see [Policy]; empty if the endpoint is set aside for it
}

// Subscription returns the present subscription of the endpoint.
func (e Endpoint) Subscription() Subscription {
	s := Subscription{
		EventTypes: e.EventTypes, Filter: e.Policy.Filter, Channels: e.Policy.Channels, Changed: e.Policy.Changed, Condition: e.Policy.Condition,
	}
	if e.ConditionFailed {
		s.Condition = ""
	}
	return s
}

// SubscriptionRevision is a subscription of an endpoint, with the time in which it selected events.
type SubscriptionRevision struct {
	Subscription

	Since time.Time
	Until time.Time // of the change that ended it, or of the deletion of the endpoint; zero: it is in force
}
