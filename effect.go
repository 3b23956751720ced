package postrider

import "time"

// Withdrawal names what a stored change took away: requests that must no longer be sent, or not in
// the same way. The zero value: accounts were deleted, or their uids changed.
type Withdrawal struct {
	Endpoint EndpointID // the response to the change waits for the node of this endpoint; zero: for all nodes
	Delivery DeliveryID // the delivery that was cancelled; zero: endpoints were changed or deleted, or lost a secret
	Event    EventID    // the event whose deliveries were all cancelled
}

// NotEffective says which nodes may not have applied a change yet. The zero value means that every
// node has.
type NotEffective struct {
	Nodes []string  // names of the nodes' machines
	Until time.Time // from this time on, these nodes have applied the change or send nothing
}

// Any reports whether some node may not have applied the change.
func (n NotEffective) Any() bool { return len(n.Nodes) > 0 }
