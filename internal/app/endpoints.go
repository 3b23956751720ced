package app

import (
	"context"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/janitor"
	"github.com/postrider/postrider/internal/routing"
)

// endpoints gives the dispatcher the endpoints of the routing table. It adds
// Disable, which the dispatcher calls for an endpoint whose response was 410.
type endpoints struct {
	*routing.Table

	janitor *janitor.Janitor
}

// Disable disables the endpoint in the store and then refreshes the routing table,
// so that this node makes no more attempts. Other nodes learn of it at their next
// refresh.
func (e *endpoints) Disable(ctx context.Context, id postrider.EndpointID, reason string) error {
	if err := e.janitor.Disable(ctx, id, reason); err != nil {
		return err
	}
	return e.Refresh(ctx)
}
