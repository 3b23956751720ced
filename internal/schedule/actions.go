package schedule

import (
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// Actions are for the dispatcher to carry out. If the core waits for the end of an action, an input
// follows that action, even if the action failed.
type Actions struct {
	Send    []*Delivery        // deliveries to attempt; [Attempted] follows each
	Settle  []store.Settlement // settlements to commit; [SettlementsCommitted] follows
	Release []Release          // leases to give back; [LeasesReleased] follows
	Claim   *store.Claim       // claim to make; [ClaimReturned] follows; nil: none
	// Circuits to store, for each endpoint in this order; [CircuitStored] follows each.
	Circuits []CircuitChange
	Disable  []Disable // [DisableEnded] follows each

	Notify []store.DueLane        // lanes of other nodes' endpoints in which this node committed or released deliveries
	LookAt []postrider.EndpointID // endpoints of other nodes that have due deliveries

	Lag time.Duration // how long the node needs for the backlog that it causes itself; see backpressure
	// Number of endpoints whose bulk waits for the rate, or of leased bulk deliveries, whichever is
	// greater.
	BulkWaiting int
	WakeAt      time.Time // latest time of the next Decide; zero: at the next input
	// True: an attempt started or got a response, a settlement was committed, or nothing is due.
	Progress bool
}

// Delivery is a delivery under a lease of this node. It belongs to the core, except from
// Actions.Send until [Attempted]: during that time it belongs to the goroutine of its attempt.
type Delivery struct {
	postrider.Claimed

	To      *store.EndpointSnapshot // the endpoint when the attempt started; nil: the attempt has not started
	Timeout time.Duration           // timeout of the attempt; set when the attempt starts
	Probe   bool                    // the attempt is the probe of a circuit; set when it starts
	Result  postrider.Attempt       // set by the dispatcher before [Attempted]

	leasedUntil time.Time
}

// Release is a lease to give back.
type Release struct {
	store.Lease

	endpoint postrider.EndpointID
	lane     int
	shard    uint8
}

// Disable asks to disable an endpoint whose receiver wants no more: it responded 410, or asked for it
// ([postrider.AskDisable]).
type Disable struct {
	Endpoint postrider.EndpointID
	Reason   string
}

// CircuitChange is a circuit to store.
type CircuitChange struct {
	postrider.Circuit

	Notable bool // its status or cooldown changed, so operators should see it
}

// Input is something that happened. The types below implement it, and DeliveriesCommitted.
type Input interface {
	apply(c *Core, now time.Time)
}

type (
	// ClaimReturned says that the claim in Actions.Claim has ended.
	ClaimReturned struct {
		Claim   *store.Claim
		Got     store.Claims
		Err     error     // if set, Got is empty
		AskedAt time.Time // when the claim was sent; its leases began later
	}

	// Attempted says that an attempt has ended. Its Result is set.
	Attempted struct{ Delivery *Delivery }

	// SettlementsCommitted says that a group of settlements was committed.
	SettlementsCommitted struct {
		Settlements []store.Settlement
		Results     []store.Settled
	}

	// LeasesReleased says that leases were given back. If giving them back failed, it is sent too,
	// and the leases end by themselves.
	LeasesReleased struct{ Releases []Release }

	// LanesDue says that deliveries are due or will be. The caller introduces endpoints that the
	// core [Core.Needs] before.
	LanesDue struct {
		Lanes []store.DueLane
		New   bool // the scan looked only for new deliveries, so claims need not begin at the oldest row
	}

	// CircuitsLoaded has the stored circuits of endpoints that this node serves.
	CircuitsLoaded struct{ Circuits []postrider.Circuit }

	// CircuitStored says that a change of a circuit was stored, with its version. If Err is
	// [postrider.ErrConflict], another node or a person changed the circuit first, and Circuit is
	// the stored one.
	CircuitStored struct {
		Circuit postrider.Circuit
		Err     error
	}

	// ShardsAssigned says which shards this node owns.
	ShardsAssigned struct {
		Shards   []uint8             // sorted
		Surplus  int                 // how many of the shards are more than this node's share
		Until    time.Time           // end of the ownership, unless a later heartbeat renews it; zero: it has ended
		Losses   int                 // how often the node's lock had been lost when the heartbeat was sent
		Circuits []postrider.Circuit // circuits of the shards that are new
	}

	// LockLost says that this node may have lost its shards. It starts nothing until a
	// ShardsAssigned whose heartbeat was sent after the loss.
	LockLost struct {
		Losses int // how often the node's lock was lost, including this loss
	}

	// DisableEnded says that the attempt to disable an endpoint ([Disable]) has ended. If the
	// endpoint is disabled, an [EndpointChanged] said so before. Otherwise the call failed, or a
	// person changed the endpoint first. Then the endpoint's settings apply again, and the next response
	// that asks for it disables it.
	DisableEnded struct{ Endpoint postrider.EndpointID }

	// EndpointChanged has the settings of an endpoint, or says that deliveries may be due for it.
	EndpointChanged struct {
		Endpoint postrider.EndpointID
		Settings *store.EndpointSnapshot // current settings; nil: the endpoint is deleted or unknown
		Due      bool                    // deliveries may be due for the endpoint, even if another node owns it
	}

	// HoldChanged says whether the store is held. While it is held, nothing is claimed or started,
	// and leases that have not started are given back. Attempts in flight go on.
	HoldChanged struct{ Held bool }

	// Load says how long goroutines wait for a processor.
	Load struct {
		Saturated bool // one wait in ten is over 1 ms: the node itself causes its backlog
		Crowded   bool // one wait in sixteen is over 0.1 ms: urgent deliveries begin to wait
	}

	// Drain says that the node is ending. It starts nothing more, and gives back leases that have
	// not started.
	Drain struct{}
)

func (in HoldChanged) apply(c *Core, now time.Time) {
	c.shards.held = in.Held
	for _, ep := range sortedByID(c.endpoints) {
		c.review(now, ep)
	}
}

func (in Load) apply(c *Core, _ time.Time) { c.load = in }

func (in DisableEnded) apply(c *Core, now time.Time) {
	if ep := c.endpoints[in.Endpoint]; ep != nil {
		ep.gone = false
		c.configure(ep, ep.settings)
		c.review(now, ep)
	}
}

func (Drain) apply(c *Core, now time.Time) {
	c.draining = true
	c.shards.leaving = c.shards.owned
	for _, ep := range sortedByID(c.endpoints) {
		c.giveBack(now, ep)
	}
}
