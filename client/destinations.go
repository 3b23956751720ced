package client

import (
	"context"
	"net/http"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
)

// CreateDestination adds a destination of notices. An email address gets a message with a link, and
// nothing else until its reader follows the link.
func (c *Client) CreateDestination(ctx context.Context, d apitypes.DestinationCreate) (apitypes.Destination, error) {
	return post[apitypes.Destination](ctx, c, "/notice-destinations", d)
}

// DestinationFilter selects destinations of notices. A zero field selects all.
type DestinationFilter struct {
	Account  string // id or uid
	Operator bool   // true: only destinations of the operator
	Paging
}

// Destinations lists destinations of notices, newest first.
func (c *Client) Destinations(ctx context.Context, f DestinationFilter) (apitypes.Page[apitypes.Destination], error) {
	operator := ""
	if f.Operator {
		operator = "true"
	}
	return get[apitypes.Page[apitypes.Destination]](ctx, c, "/notice-destinations"+query(f.Paging, "account", f.Account, "operator", operator))
}

// Destination returns a destination of notices.
func (c *Client) Destination(ctx context.Context, id postrider.DestinationID) (apitypes.Destination, error) {
	return get[apitypes.Destination](ctx, c, "/notice-destinations/"+id.String())
}

// ChangeDestination changes a destination of notices. A field that change does not set keeps its
// value.
func (c *Client) ChangeDestination(ctx context.Context, id postrider.DestinationID,
	change apitypes.DestinationUpdate,
) (apitypes.Destination, error) {
	return patch[apitypes.Destination](ctx, c, "/notice-destinations/"+id.String(), change)
}

// DeleteDestination deletes a destination of notices, which then gets no more messages.
func (c *Client) DeleteDestination(ctx context.Context, id postrider.DestinationID) error {
	return c.call(ctx, request{method: http.MethodDelete, path: "/notice-destinations/" + id.String()}, nil)
}

// AskToConfirm sends the message with the confirmation link to an email address again.
func (c *Client) AskToConfirm(ctx context.Context, id postrider.DestinationID) (apitypes.Destination, error) {
	return post[apitypes.Destination](ctx, c, "/notice-destinations/"+id.String()+"/confirmation", nil)
}

// TestDestination sends a test message to a destination.
func (c *Client) TestDestination(ctx context.Context, id postrider.DestinationID) (apitypes.Destination, error) {
	return post[apitypes.Destination](ctx, c, "/notice-destinations/"+id.String()+"/test", nil)
}
