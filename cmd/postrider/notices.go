package main

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

// noticesCmd lists notices.
type noticesCmd struct {
	target `embed:""`
	paging `embed:""`

	Account string               `help:"Only of this account, by id or uid."`
	Kind    postrider.NoticeKind `help:"Only of this kind, for example endpoint.disabled."`
	Object  string               `placeholder:"ID" help:"Only about the endpoint or replay with this id, or the chore with this name."`
	From    instant              `placeholder:"TIME" help:"Only from this time on: RFC 3339, a date in UTC, or a time before now, for example -1h or -7d. Default: no bound."`
	To      instant              `placeholder:"TIME" help:"Only before this time, in the same forms. Default: no bound."`
}

// noticeTable shows notices.
var noticeTable = tableOf[apitypes.Notice]{
	[]string{"AT", "KIND", "OBJECT", "ACCOUNT", "DETAILS"},
	func(n apitypes.Notice) []string {
		var details []string
		for _, name := range slices.Sorted(maps.Keys(n.Details)) {
			details = append(details, name+"="+n.Details[name])
		}
		account := ""
		if n.Account != nil {
			account = n.Account.String()
		}
		return []string{moment(&n.CreatedAt), n.Kind, n.Object, account, strings.Join(details, " ")}
	},
}

// Run lists the notices that match all given flags, newest first.
func (c *noticesCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, noticeTable.page, func(api *client.Client) (apitypes.Page[apitypes.Notice], error) {
		return api.Notices(ctx, client.NoticeFilter{
			Account: c.Account, Kind: c.Kind, Object: c.Object, From: c.From.Time, To: c.To.Time, Paging: c.page(),
		})
	})
}
