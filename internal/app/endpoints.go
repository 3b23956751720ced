package app

import (
	"context"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/janitor"
	"github.com/postrider/postrider/internal/routing"
)

// endpoints gives the dispatcher the endpoints of the routing table, and lets it
// disable one that answered 410.
type endpoints struct {
	*routing.Table

	janitor *janitor.Janitor
}

// Disable disables the endpoint and updates the routing table.
func (e *endpoints) Disable(ctx context.Context, id postrider.EndpointID, reason string) error {
	if err := e.janitor.Disable(ctx, id, reason); err != nil {
		return err
	}
	return e.Refresh(ctx)
}
