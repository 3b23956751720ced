package main

import (
	"context"
	"strconv"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
)

// endpointsCircuitCmd is the command endpoints circuit. Without --set it only
// reads.
type endpointsCircuitCmd struct {
	one

	Set postrider.CircuitStatus `enum:",open,closed,half_open" default:"" placeholder:"STATUS" help:"Set it by hand: open sends nothing for the longest cooldown, closed sends again, half_open tries one delivery as soon as there is one."`
}

// Run shows the endpoint's circuit, or sets it.
func (c *endpointsCircuitCmd) Run(ctx context.Context, t terminal) error {
	api, err := c.connect()
	if err != nil {
		return err
	}
	defer api.Close()
	var circuit apitypes.Circuit
	if c.Set == "" {
		circuit, err = api.Circuit(ctx, c.ID)
	} else {
		circuit, err = api.SetCircuit(ctx, c.ID, c.Set)
	}
	if err != nil {
		return err
	}
	return printDetails(t, c.JSON, circuit)
}

// orderedKeyTable shows ordering keys. A key without a delivery at its head has
// empty cells for the sequence and the head.
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
	one
	paging `embed:""`
}

// Run lists the endpoint's ordering keys.
func (c *endpointsOrderingKeysCmd) Run(ctx context.Context, t terminal) error {
	api, err := c.connect()
	if err != nil {
		return err
	}
	defer api.Close()
	page, err := api.OrderingKeys(ctx, c.ID, c.page())
	if err != nil {
		return err
	}
	return printPage(t, c.JSON, page, orderedKeyTable)
}

// healthTable shows the changes of an endpoint's health.
var healthTable = tableOf[apitypes.EndpointHealth]{
	[]string{"NUMBER", "SINCE", "STATUS", "REASON", "WARNINGS"},
	func(s apitypes.EndpointHealth) []string {
		return []string{
			strconv.FormatInt(s.Number, 10), moment(&s.Since), string(s.Status), optional(s.Reason), strconv.Itoa(s.Warnings),
		}
	},
}

type endpointsHealthCmd struct {
	one
	paging `embed:""`
}

// Run lists the changes of the endpoint's health.
func (c *endpointsHealthCmd) Run(ctx context.Context, t terminal) error {
	api, err := c.connect()
	if err != nil {
		return err
	}
	defer api.Close()
	page, err := api.EndpointHealth(ctx, c.ID, c.page())
	if err != nil {
		return err
	}
	return printPage(t, c.JSON, page, healthTable)
}
