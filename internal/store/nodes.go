package store

import (
	"context"
	"time"

	"github.com/postrider/postrider"
)

// Shards is how many parts the endpoints are divided into; each has one owner.
const Shards = 256

// Shard returns the shard of an endpoint.
func Shard(id postrider.EndpointID) uint8 {
	return id[len(id)-1] // random in every id
}

// LockGrace is how long the lock of a node that may be alive stays free before
// what the node had leased is reclaimed. A node whose connection was terminated
// has its lock again, or has sent a heartbeat, long before.
const LockGrace = 2 * time.Second

// Nodes lets several nodes share a store: each endpoint belongs to a shard,
// and each shard to one node. A store that only one process can open has no
// such role.
//
// The store knows of a node's death in two ways. A node holds a lock, which the
// store frees when the connection of its process is gone: then the node is dead
// at once. Where a lock cannot be had, or says nothing because the database was
// restarted, the node is dead when its last heartbeat is too old.
type Nodes interface {
	// Heartbeat is a node's heartbeat. It returns which shards the node owns.
	//
	// The first Heartbeat of a node makes it known. An incarnation that another
	// instance has, alive or not yet reclaimed, is postrider.ErrConflict.
	// A node that has not sent a heartbeat for its TTL is dead: it is listed as
	// Silent to all until it is reclaimed, and owns its shards until then. If it
	// sends a heartbeat again, it owns nothing of what others took.
	// A node that sends a heartbeat while it has its lock is dead as soon as the lock
	// is free and the database was not restarted since: its shards are nobody's at
	// once.
	// When the lock has been free for LockGrace, and the node has not sent a
	// heartbeat, it is listed as Gone.
	// A node that had its lock at an earlier Heartbeat, and has it no longer, gets no
	// shards and is Unlocked, unless h.Unlocked says that it lives by its heartbeat
	// alone.
	// Shards in h.Release are nobody's at once. Shards without an owner go to
	// nodes that have fewer than their share; a node that leaves takes none.
	// No shard ever has two owners.
	Heartbeat(ctx context.Context, h Heartbeat) (Membership, error)

	// Reclaim ends the leases of a dead node: up to limit deliveries that it had
	// leased are due at once, their attempts recorded as lost, as Claim does.
	// Those whose Losses reach postrider.SuspectedAfter by that are due in the
	// suspect lane.
	// What it had leased in the suspect lane is reclaimed first and in one call,
	// whatever the limit. Where that is exactly one delivery, it died alone; after
	// postrider.ParkedAfter such deaths in a row it is parked: pending, and never
	// due.
	// It returns how many; when they are fewer than limit, nothing is left for
	// the caller to do: the node is forgotten and its shards are nobody's. A node
	// that is neither silent nor gone, or not known, is left alone: 0. A node that
	// another is reclaiming is left alone: 0; it is forgotten when the other one
	// is done.
	Reclaim(ctx context.Context, incarnation uint32, limit int) (int, error)

	// Forget ends a node that has released all it had: it is not known any more,
	// and what it still owned is nobody's.
	Forget(ctx context.Context, incarnation uint32) error

	// Members lists the nodes that are alive, and the dead ones that are not
	// reclaimed yet, each with its machine and the number of its shards, by incarnation.
	// With an endpoint, only the node that owns its shard.
	Members(ctx context.Context, owns postrider.EndpointID) ([]Member, error)

	// Wake sends a short message to every node that listens. It may be lost.
	Wake(ctx context.Context, message string) error

	// Hold takes the node's lock and holds it until ctx ends or the connection is
	// lost; then the lock is free. Behind a proxy that shares connections between
	// transactions there is no lock, and the heartbeat decides.
	// While it has the lock, it calls onMessage with every message, also this node's own;
	// and first with "", since messages before that were lost.
	Hold(ctx context.Context, incarnation uint32, onMessage func(message string)) error
}

// Heartbeat says that a node lives.
type Heartbeat struct {
	Incarnation uint32
	Instance    [16]byte      // drawn at start: tells two nodes of one incarnation apart
	Host        string        // name of the node's machine, for people; stored with the first heartbeat
	TTL         time.Duration // without another heartbeat for so long, the node is dead
	Release     []uint8       // shards that the node gives up; it has nothing of them in flight or leased
	Leaving     bool          // the node ends: it gets no more shards
	Unlocked    bool          // the node cannot get its lock: only its heartbeat shows that it lives
}

// Member is a node, as people see it.
type Member struct {
	Incarnation uint32
	Host        string    // name of its machine; empty: the machine has none
	Shards      int       // number of shards that it owns
	StartedAt   time.Time // of its first heartbeat
	SeenAt      time.Time // of its last heartbeat
	Leaving     bool      // it ends
	Dead        bool      // it has not sent a heartbeat for its TTL, or its lock is free
}

// Membership says which nodes there are, and which shards the node owns that sent
// the heartbeat.
type Membership struct {
	Nodes    int      // alive, and not leaving
	Shards   []uint8  // this node's, sorted
	Surplus  int      // how many of them are above its share
	Unlocked bool     // this node has lost its lock: nothing may start until it has it again
	Gone     []uint32 // incarnations to be reclaimed, sorted: their locks are free
	Silent   []uint32 // incarnations to be reclaimed, sorted: they have not sent a heartbeat for too long
}
