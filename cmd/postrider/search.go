package main

import (
	"context"
	"encoding/hex"
	"strings"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

// searchCmd is the command search. It finds objects by an id, a key or the beginning of a name.
type searchCmd struct {
	target `embed:""`

	Text    string `arg:"" help:"An id of any kind, the UUID of an outbox row, an idempotency key, an ordering key, or the beginning of a name, a uid, a host or an event type; with --account also a value in the data of events."`
	Account string `help:"Only in this account, by id or uid. Values in the data of events, at the paths that event types name, are found in one account only. Default: all accounts."`
}

// searchTable shows hits.
var searchTable = tableOf[apitypes.SearchHit]{
	[]string{"KIND", "ID", "TITLE", "MATCHED BY", "ACCOUNT", "CREATED"},
	func(h apitypes.SearchHit) []string {
		account := ""
		if h.Account != nil {
			account = h.Account.String()
		}
		return []string{h.Kind, h.ID, h.Title, h.MatchedBy, account, moment(&h.CreatedAt)}
	},
}

// Run searches.
func (c *searchCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, searchTable.all, func(api *client.Client) ([]apitypes.SearchHit, error) {
		found, err := api.SearchHits(ctx, client.SearchFilter{Text: withRowID(c.Text), Account: c.Account})
		return found.Data, err
	})
}

// withRowID returns the id of an outbox row, obx_…, in the place of the UUID that the row has in its table. Other texts
// it returns as they are.
func withRowID(text string) string {
	id, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
	if err != nil || len(text) != len("00000000-0000-0000-0000-000000000000") || len(id) != len(postrider.OutboxID{}) {
		return text
	}
	return postrider.OutboxID(id).String()
}
