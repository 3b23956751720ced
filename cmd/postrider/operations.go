package main

import (
	"cmp"
	"context"
	"strconv"
	"strings"

	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

// nodesCmd is the command nodes.
type nodesCmd struct {
	target `embed:""`
}

// nodeTable shows nodes.
var nodeTable = tableOf[apitypes.Node]{
	[]string{"ID", "HOST", "STATUS", "SHARDS", "STARTED", "SEEN"},
	func(n apitypes.Node) []string {
		return []string{
			strconv.FormatUint(uint64(n.ID), 10), cmp.Or(n.Host, "-"), n.Status, strconv.Itoa(n.Shards), moment(n.StartedAt),
			moment(&n.SeenAt),
		}
	},
}

// Run lists the nodes.
func (c *nodesCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, nodeTable.all, func(api *client.Client) ([]apitypes.Node, error) { return api.Nodes(ctx) })
}

// endpointsTroubledCmd is the command endpoints troubled.
type endpointsTroubledCmd struct {
	target `embed:""`
}

// troubledTable shows endpoints that need a person.
var troubledTable = tableOf[apitypes.TroubledEndpoint]{
	[]string{"ENDPOINT", "STATUS", "REASONS", "FAILING SINCE", "OLDEST DUE FOR", "DEAD LETTERS", "ACCOUNT", "URL"},
	func(e apitypes.TroubledEndpoint) []string {
		return []string{
			e.Endpoint.String(), string(e.Status), strings.Join(e.Reasons, ", "), moment(e.FailingSince), spanText(e.OldestDueMS),
			atLeast(e.DeadLetters, e.DeadMore),
			e.Account.String(), e.URL,
		}
	},
}

// atLeast returns a number, with a plus sign if there may be more.
func atLeast(n int, more bool) string {
	text := strconv.Itoa(n)
	if more {
		text += "+"
	}
	return text
}

// Run lists the endpoints.
func (c *endpointsTroubledCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, troubledTable.all, func(api *client.Client) ([]apitypes.TroubledEndpoint, error) {
		troubled, err := api.TroubledEndpoints(ctx)
		return troubled.Data, err
	})
}
