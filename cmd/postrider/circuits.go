package main

import (
	"context"
	"strconv"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

// endpointsCircuitCmd is the command endpoints circuit. Without --set it only reads. With --set it
// overrides the server's decision, until the next failure or success changes the circuit again.
type endpointsCircuitCmd struct {
	oneEndpoint

	Set postrider.CircuitStatus `enum:",open,closed,half_open" default:"" placeholder:"STATUS" help:"Set the circuit: open sends nothing for the longest cooldown, closed sends again, half_open sends the next due delivery as a probe. Default: only show it."`
}

// Run shows the endpoint's circuit, or sets it.
func (c *endpointsCircuitCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, printDetails, func(api *client.Client) (apitypes.Circuit, error) {
		if c.Set == "" {
			return api.Circuit(ctx, c.ID)
		}
		return api.SetCircuit(ctx, c.ID, c.Set)
	})
}

// orderedKeyTable shows ordering keys. The head of a key is its delivery with the lowest sequence,
// the only one that may be sent. A paused key may have no head.
var orderedKeyTable = tableOf[apitypes.OrderedKey]{
	[]string{"KEY", "WAITING", "LAG", "SEQUENCE", "HEAD", "PAUSED BY"},
	func(k apitypes.OrderedKey) []string {
		row := []string{k.Key, strconv.Itoa(k.Waiting), span(k.LagMS), "", "", ""}
		if k.Head != nil {
			row[3], row[4] = strconv.FormatInt(optional(k.Sequence), 10), k.Head.String()
		}
		if k.PausedBy != nil {
			row[5] = k.PausedBy.String()
		}
		return row
	},
}

type endpointsOrderingKeysCmd struct {
	oneEndpoint
	paging `embed:""`
}

// Run lists the endpoint's ordering keys. A key without pending deliveries is listed
// only if a dead letter pauses it.
func (c *endpointsOrderingKeysCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, orderedKeyTable.page, func(api *client.Client) (apitypes.Page[apitypes.OrderedKey], error) {
		return api.OrderingKeys(ctx, c.ID, c.page())
	})
}

// healthTable shows the changes of an endpoint's health. WARNINGS counts the warnings since the
// endpoint was last healthy.
var healthTable = tableOf[apitypes.EndpointHealth]{
	[]string{"NUMBER", "SINCE", "STATUS", "REASON", "WARNINGS"},
	func(s apitypes.EndpointHealth) []string {
		return []string{
			strconv.FormatInt(s.Number, 10), moment(&s.Since), string(s.Status), optional(s.Reason), strconv.Itoa(s.Warnings),
		}
	},
}

type endpointsHealthCmd struct {
	oneEndpoint
	paging `embed:""`
}

// Run lists the changes of the endpoint's health.
func (c *endpointsHealthCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, healthTable.page, func(api *client.Client) (apitypes.Page[apitypes.EndpointHealth], error) {
		return api.EndpointHealth(ctx, c.ID, c.page())
	})
}
