package store

import (
	"context"
	"net/netip"
	"time"

	"github.com/postrider/postrider"
)

// Shards is the number of parts into which the endpoints are divided. Each shard has at most one
// owner.
const Shards = 256

// Shard returns the shard of an endpoint.
func Shard(id postrider.EndpointID) uint8 {
	return id[len(id)-1] // the last byte is random in every id
}

// LockGrace is how long the lock of a silent node must be free before the node's leases are
// reclaimed. If the node is alive and only its connection was lost, it takes its lock again or
// sends a heartbeat within a much shorter time.
const LockGrace = 2 * time.Second

// Nodes lets several nodes share a store. Each endpoint belongs to a shard, and each shard to one
// node. A store that only one process can open does not implement Nodes.
//
// The store detects the death of a node in two ways. A node holds a lock, which the store frees
// when the node's connection is lost; a node whose lock is free is dead. If the node cannot get a
// lock, or the database was restarted, the store relies on heartbeats: a node whose last
// heartbeat is older than its TTL is dead.
type Nodes interface {
	// Heartbeat says that a node lives. It returns the shards that the node owns.
	//
	// The first Heartbeat registers the node. If another instance has the same incarnation, and is
	// alive or not yet reclaimed, the error is postrider.ErrConflict.
	// A node that has sent no heartbeat for its TTL is dead. All nodes see it as Silent until it is
	// reclaimed, and it owns its shards until then. If it sends a heartbeat again, it does not get
	// back the shards that others took.
	// A node that sends a heartbeat while it has its lock is dead as soon as the lock is free,
	// unless the database was restarted since. Its shards then have no owner at once.
	// When the lock has been free for LockGrace, and the node has sent no heartbeat, the node is
	// listed as Gone.
	// A node that had its lock at an earlier Heartbeat and has lost it gets no shards and is
	// Unlocked. With h.Unlocked, the node has no lock: it keeps its shards while it sends
	// heartbeats.
	// Shards in h.Release have no owner at once. Shards without an owner go to nodes that have fewer
	// than their share; a node that leaves takes none.
	// No shard ever has two owners.
	Heartbeat(ctx context.Context, h Heartbeat) (Membership, error)

	// Reclaim ends the leases of a dead node: up to limit of its leased deliveries become due at
	// once, and their attempts are recorded as lost, as by Claim.
	// A delivery whose Losses reach postrider.SuspectedAfter becomes due in the suspect lane.
	// Leases in the suspect lane are reclaimed first, in one call, whatever the limit. If there is
	// exactly one such lease, the delivery was the only suspect when the node died. After
	// postrider.ParkedAfter such deaths in a row it is parked: pending, and never due.
	// Reclaim returns the number of reclaimed deliveries. If that is less than limit, the work is
	// done: the node is forgotten and its shards have no owner.
	// For a node that is unknown, or neither silent nor gone, Reclaim does nothing and returns 0. It
	// also returns 0 while another node reclaims the same one; that node forgets it at the end.
	Reclaim(ctx context.Context, incarnation uint32, limit int) (int, error)

	// Leased lists the deliveries that are leased under a token and whose ids are greater than
	// newerThan.
	Leased(ctx context.Context, token postrider.Token, newerThan postrider.DeliveryID) ([]SessionLease, error)

	// Forget removes a node that has released everything. Shards that it still owns have no owner
	// afterwards.
	Forget(ctx context.Context, incarnation uint32) error

	// Members lists the living nodes and the dead ones that are not reclaimed yet, by incarnation.
	// Each has the name of its machine and the number of its shards. With an endpoint, the list has
	// only the owner of the endpoint's shard.
	Members(ctx context.Context, owns postrider.EndpointID) ([]Member, error)

	// LocalAddr returns the address of this machine from which it reaches the store.
	LocalAddr(ctx context.Context) (netip.Addr, error)

	// Wake sends a short message to every node that listens. The message may be lost.
	Wake(ctx context.Context, message string) error

	// Hold takes the node's lock and holds it until ctx ends or the connection is lost; then the
	// lock is free. Behind a proxy that shares connections between transactions there are no locks,
	// and only heartbeats count.
	// While it has the lock, Hold calls onMessage with every message, including this node's own. The
	// first call has an empty message, because earlier messages were lost.
	Hold(ctx context.Context, incarnation uint32, onMessage func(message string)) error
}

// Heartbeat says that a node lives.
type Heartbeat struct {
	Incarnation uint32
	Instance    [16]byte      // drawn at start; it distinguishes two nodes with the same incarnation
	Host        string        // name of the node's machine, for people; stored with the first heartbeat
	Address     string        // where other nodes reach the node, host:port; empty: nowhere; stored with the first heartbeat
	PublicKey   [32]byte      // SHA-256 of the public key by which the node proves who it is; stored with the first heartbeat
	TTL         time.Duration // a node that sends no heartbeat for this long is dead
	Release     []uint8       // shards that the node gives up; it has no delivery of them in flight or leased
	Leaving     bool          // whether the node is about to end, so that it gets no more shards
	Unlocked    bool          // whether the node cannot get its lock, so that only its heartbeat shows that it lives
}

// SessionLease is a delivery that is leased under the token of a session; see [Nodes.Leased].
type SessionLease struct {
	Lease

	Endpoint postrider.EndpointID
	Lane     postrider.Lane
}

// Member is a node, as people see it.
type Member struct {
	Incarnation uint32
	Host        string    // name of the node's machine; empty if the machine has none
	Shards      int       // number of shards that the node owns
	StartedAt   time.Time // time of the first heartbeat
	SeenAt      time.Time // time of the last heartbeat
	Leaving     bool      // whether the node is about to end
	Dead        bool      // whether the node sent no heartbeat for its TTL, or its lock is free
}

// Peer is another node that can be reached.
type Peer struct {
	Incarnation uint32
	Address     string   // from its first [Heartbeat]; not empty
	PublicKey   [32]byte // from its first Heartbeat
	Shards      []uint8  // shards that the node owns, sorted
}

// Membership has the nodes of the store, and the shards of the node that sent the heartbeat.
type Membership struct {
	Nodes    int      // number of nodes that are alive and not leaving
	Peers    []Peer   // the other nodes that are alive, not leaving, and have an address; by incarnation
	Shards   []uint8  // shards of this node, sorted
	Surplus  int      // number of shards that this node has above its share
	Unlocked bool     // whether this node has lost its lock; until it has the lock again, it must start nothing
	Gone     []uint32 // incarnations to be reclaimed because their locks are free, sorted
	Silent   []uint32 // incarnations to be reclaimed because their heartbeats are too old, sorted
}
