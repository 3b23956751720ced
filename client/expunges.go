package client

import (
	"context"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
)

// CreateExpunge removes an event, an endpoint or an account with all that is stored about it. The
// removal cannot be undone. The server does it in the background; see [Client.Expunge].
func (c *Client) CreateExpunge(ctx context.Context, e apitypes.ExpungeCreate) (apitypes.Expunge, error) {
	return post[apitypes.Expunge](ctx, c, "/expunges", e)
}

// Expunges lists expunges, newest first. If running is true, it lists only those that have not
// ended.
func (c *Client) Expunges(ctx context.Context, running bool, p Paging) (apitypes.Page[apitypes.Expunge], error) {
	only := ""
	if running {
		only = "true"
	}
	return get[apitypes.Page[apitypes.Expunge]](ctx, c, "/expunges"+query(p, "running", only))
}

// Expunge returns an expunge with its progress.
func (c *Client) Expunge(ctx context.Context, id postrider.ExpungeID) (apitypes.Expunge, error) {
	return get[apitypes.Expunge](ctx, c, "/expunges/"+id.String())
}
