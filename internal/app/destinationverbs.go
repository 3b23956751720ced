package app

import (
	"context"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// PutDestination implements [store.Destinations].
func (v verbs) PutDestination(ctx context.Context, d postrider.Destination, most int) (err error) {
	defer v.done("PutDestination", time.Now(), &err)
	return v.Store.PutDestination(ctx, d, most)
}

// Destinations implements [store.Destinations].
func (v verbs) Destinations(ctx context.Context, q store.DestinationQuery) (_ store.Page[postrider.Destination], err error) {
	defer v.done("Destinations", time.Now(), &err)
	return v.Store.Destinations(ctx, q)
}

// ChangeDestination implements [store.Destinations].
func (v verbs) ChangeDestination(ctx context.Context, c store.ChangeDestination) (_ postrider.Destination, err error) {
	defer v.done("ChangeDestination", time.Now(), &err)
	return v.Store.ChangeDestination(ctx, c)
}

// DeleteDestination implements [store.Destinations].
func (v verbs) DeleteDestination(ctx context.Context, d postrider.DestinationID) (err error) {
	defer v.done("DeleteDestination", time.Now(), &err)
	return v.Store.DeleteDestination(ctx, d)
}

// ClaimDestinations implements [store.Destinations].
func (v verbs) ClaimDestinations(ctx context.Context, c store.ClaimDestinations) (_ []postrider.Destination, err error) {
	defer v.done("ClaimDestinations", time.Now(), &err)
	return v.Store.ClaimDestinations(ctx, c)
}

// SettleDestination implements [store.Destinations].
func (v verbs) SettleDestination(ctx context.Context, s store.SettleDestination) (err error) {
	defer v.done("SettleDestination", time.Now(), &err)
	return v.Store.SettleDestination(ctx, s)
}
