package postrider

import "time"

// Withdrawal names what a change took away that is stored: what must not be sent any more, or
// not as before.
type Withdrawal struct {
	Endpoint EndpointID // its node is waited for; zero: all nodes are
	Delivery DeliveryID // it was cancelled; zero: endpoints were changed or deleted, or lost a secret
	Event    EventID    // all of its deliveries were cancelled
}

// NotEffective says which nodes may still act as before a change. The zero value: none.
type NotEffective struct {
	Nodes []string  // names of their machines
	Until time.Time // from then on they act by the change, or send nothing
}

// Any reports whether some node may still act as before.
func (n NotEffective) Any() bool { return len(n.Nodes) > 0 }
