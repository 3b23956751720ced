package app

import (
	"context"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// nodeVerbs does what verbs does for the role that a shared store has more. Hold is not observed:
// it lasts as long as its connection.
type nodeVerbs struct {
	store.Nodes
	called
}

// Heartbeat implements [store.Nodes].
func (v nodeVerbs) Heartbeat(ctx context.Context, h store.Heartbeat) (_ store.Membership, err error) {
	defer v.done("Heartbeat", time.Now(), &err)
	return v.Nodes.Heartbeat(ctx, h)
}

// Reclaim implements [store.Nodes].
func (v nodeVerbs) Reclaim(ctx context.Context, incarnation uint32, limit int) (_ int, err error) {
	defer v.done("Reclaim", time.Now(), &err)
	return v.Nodes.Reclaim(ctx, incarnation, limit)
}

// Forget implements [store.Nodes].
func (v nodeVerbs) Forget(ctx context.Context, incarnation uint32) (err error) {
	defer v.done("Forget", time.Now(), &err)
	return v.Nodes.Forget(ctx, incarnation)
}

// Members implements [store.Nodes].
func (v nodeVerbs) Members(ctx context.Context, owns postrider.EndpointID) (_ []store.Member, err error) {
	defer v.done("Members", time.Now(), &err)
	return v.Nodes.Members(ctx, owns)
}

// Wake implements [store.Nodes].
func (v nodeVerbs) Wake(ctx context.Context, message string) (err error) {
	defer v.done("Wake", time.Now(), &err)
	return v.Nodes.Wake(ctx, message)
}
