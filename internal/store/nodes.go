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

// Nodes lets several nodes share a store: each endpoint belongs to a shard,
// and each shard to one node. A store that only one process can open has no
// such role.
type Nodes interface {
	// Beat says that a node is alive, and answers what it owns.
	//
	// The first Beat of a node makes it known. An incarnation that another
	// instance has, alive or not yet reclaimed, is postrider.ErrConflict.
	// A node that has not beaten for b.TTL is dead: it is listed to all until it
	// is reclaimed, and owns its shards until then. If it beats again, it owns
	// nothing of what others took.
	// Shards in b.Release are nobody's at once. Shards without an owner go to
	// nodes that have fewer than their share; a node that leaves takes none.
	// No shard ever has two owners.
	Beat(ctx context.Context, b Beat) (Roster, error)

	// Reclaim takes what a dead node held: up to limit deliveries that it had
	// leased are due at once, their attempts recorded as lost, as Claim does.
	// Those whose Losses reach postrider.SuspectedAfter by that are due in the
	// suspect lane.
	// What it had leased in the suspect lane is taken first and in one call,
	// whatever the limit. Where that is exactly one delivery, it died alone; after
	// postrider.ParkedAfter such deaths in a row it is parked: pending, and never
	// due.
	// It returns how many; when they are fewer than limit, nothing is left for
	// the caller to do: the node is forgotten and its shards are nobody's. A node
	// that is alive, or not known, is left alone: 0. A node that another is
	// reclaiming is left alone: 0; it is forgotten when the other one is done.
	Reclaim(ctx context.Context, incarnation uint32, limit int) (int, error)

	// Forget ends a node that has released all it had: it is not known any more,
	// and what it still owned is nobody's.
	Forget(ctx context.Context, incarnation uint32) error

	// Wake sends a short message to every node that listens. It may be lost.
	Wake(ctx context.Context, message string) error

	// Listen calls heard with every message, also this node's own, until ctx
	// ends or the connection is lost; and with "" once it listens, since
	// messages before that were lost.
	Listen(ctx context.Context, heard func(message string)) error
}

// Beat is a sign of life.
type Beat struct {
	Incarnation uint32
	Instance    [16]byte // drawn at start: tells two nodes of one incarnation apart
	TTL         time.Duration
	Release     []uint8 // shards that the node gives up; nothing of theirs is in its hands
	Leaving     bool
}

// Roster is how the shards are shared out.
type Roster struct {
	Nodes  int      // alive, and not leaving
	Shards []uint8  // this node's, sorted
	Excess int      // how many of them are above its share
	Dead   []uint32 // incarnations to be reclaimed, sorted
}
