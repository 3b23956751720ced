package app

import (
	"context"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/dispatch"
	"github.com/postrider/postrider/internal/janitor"
	"github.com/postrider/postrider/internal/routing"
	"github.com/postrider/postrider/internal/store"
)

// senders makes each attempt with the sender for the kind of its endpoint.
type senders struct{ http, inspector dispatch.Sender }

// Send implements [dispatch.Sender].
func (s *senders) Send(
	ctx context.Context, deadline time.Time, c *postrider.Claimed, to *store.EndpointSnapshot,
) postrider.Attempt {
	if to.Endpoint.Kind == postrider.KindInspector {
		return s.inspector.Send(ctx, deadline, c, to)
	}
	return s.http.Send(ctx, deadline, c, to)
}

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
