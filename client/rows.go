package client

import (
	"context"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
)

// EventOfRow returns the event that was read from a row of an outbox, as Event does.
func (c *Client) EventOfRow(ctx context.Context, row postrider.OutboxID) (apitypes.Event, error) {
	return get[apitypes.Event](ctx, c, "/events/"+row.String())
}
