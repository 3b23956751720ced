package client

import (
	"context"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
)

// NoticeFilter selects notices. A zero field selects all.
type NoticeFilter struct {
	Account  string // id or uid
	Kind     postrider.NoticeKind
	Object   string    // id of an endpoint or a replay, or name of a chore
	From, To time.Time // created at From or later, and before To
	Paging
}

// Notices lists notices, newest first.
func (c *Client) Notices(ctx context.Context, f NoticeFilter) (apitypes.Page[apitypes.Notice], error) {
	return get[apitypes.Page[apitypes.Notice]](ctx, c, "/notices"+query(f.Paging, "account", f.Account, "kind", string(f.Kind),
		"object", f.Object, "from", instant(f.From), "to", instant(f.To)))
}
