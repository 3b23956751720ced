package schedule

import (
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// Actions are for the dispatcher to carry out. Every action that the core waits for is
// followed by an input, also if it failed.
type Actions struct {
	Send     []*Delivery            // to start an attempt for; [Attempted] follows each
	Settle   []store.Settlement     // to commit; [SettlementsCommitted] follows
	Release  []Release              // leases to give back; [LeasesReleased] follows
	Claim    *store.Claim           // to make; [ClaimReturned] follows; nil: none
	Circuits []CircuitChange        // to store, in this order for each endpoint; [CircuitStored] follows each
	Disable  []postrider.EndpointID // they responded with 410; [DisableEnded] follows each

	Notify []store.DueLane        // lanes of other nodes' endpoints that got new deliveries here
	LookAt []postrider.EndpointID // endpoints of other nodes that have something due

	Lag         time.Duration // how long the node needs for the backlog that is its own fault
	BulkWaiting int           // endpoints whose bulk waits for the rate, or leased bulk deliveries, whichever are more
	WakeAt      time.Time     // when to call Decide at the latest; zero: when there is an input
	Progress    bool          // something started, got a response or was committed, or nothing is due
}

// Delivery is a delivery under a lease of this node. The core owns it, except from
// Actions.Send until [Attempted]: then the goroutine of its attempt does.
type Delivery struct {
	postrider.Claimed

	To      *store.EndpointSnapshot // the endpoint when the attempt started; nil: it has not
	Timeout time.Duration           // of the attempt; set when it starts
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

// CircuitChange is a circuit to store.
type CircuitChange struct {
	postrider.Circuit

	Notable bool // its status or cooldown changed, which an operator wants to know
}

// Input is something that happened. The types of this file implement it.
type Input interface {
	apply(c *Core, now time.Time)
}

type (
	// ClaimReturned says that the claim of Actions.Claim is over.
	ClaimReturned struct {
		Claim   *store.Claim
		Got     store.Claims
		Err     error     // Got is empty then
		AskedAt time.Time // when the claim was sent: its leases began later
	}

	// Attempted says that an attempt is over. Its Result is set.
	Attempted struct{ Delivery *Delivery }

	// SettlementsCommitted says that a group of settlements is committed.
	SettlementsCommitted struct {
		Settlements []store.Settlement
		Results     []store.Settled
	}

	// LeasesReleased says that leases were given back, or that giving them back failed and
	// they are left to end.
	LeasesReleased struct{ Releases []Release }

	// LanesDue says that deliveries are due or will be. Endpoints that the core [Core.Needs]
	// are introduced before.
	LanesDue struct {
		Lanes []store.DueLane
		New   bool // the scan was only for new deliveries: a claim need not begin at the oldest
	}

	// CircuitsLoaded are stored circuits of endpoints that this node serves.
	CircuitsLoaded struct{ Circuits []postrider.Circuit }

	// CircuitStored says that a change of a circuit is stored, and its version. With
	// [postrider.ErrConflict] another node or a person changed it first, and Circuit is
	// theirs.
	CircuitStored struct {
		Circuit postrider.Circuit
		Err     error
	}

	// ShardsAssigned says which shards this node owns.
	ShardsAssigned struct {
		Shards   []uint8             // sorted
		Surplus  int                 // how many of them are more than this node's share
		Until    time.Time           // the ownership ends then, unless a later heartbeat renews it; zero: it has ended
		Losses   int                 // how often the node's lock was lost before the heartbeat was sent
		Circuits []postrider.Circuit // of shards that are new
	}

	// LockLost says that this node may have lost its shards. It starts nothing until
	// a ShardsAssigned whose heartbeat was sent after the loss.
	LockLost struct {
		Losses int // how often the node's lock was lost, this loss among them
	}

	// DisableEnded says that the store was asked to disable an endpoint after a 410. If it is
	// disabled, the [EndpointChanged] that says so came before. Else the call failed, or a
	// person was faster; the settings count again, and the next 410 asks once more.
	DisableEnded struct{ Endpoint postrider.EndpointID }

	// EndpointChanged gives an endpoint's settings, or says that deliveries may be due
	// for it.
	EndpointChanged struct {
		Endpoint postrider.EndpointID
		Settings *store.EndpointSnapshot // as of now; nil: it is deleted or unknown
		Due      bool                    // deliveries may be due for it, also if another node owns it
	}

	// HoldChanged says whether the store is held: then nothing is claimed or started, and
	// leases that have not started are given back. Attempts in flight go on.
	HoldChanged struct{ Held bool }

	// Load says how goroutines wait for a processor.
	Load struct {
		Saturated bool // one in ten waits over 1 ms: a backlog is the node's own fault
		Crowded   bool // one in sixteen waits over 0.1 ms: urgent deliveries begin to wait
	}

	// Drain says that the node ends: it starts nothing more and gives back leases that
	// have not started.
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
