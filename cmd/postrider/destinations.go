package main

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

// destinationsCmd is the group of commands for the destinations of notices.
type destinationsCmd struct {
	List   destinationsListCmd   `cmd:"" help:"List where notices are sent, newest first."`
	Get    destinationsGetCmd    `cmd:"" help:"Show one destination."`
	Add    destinationsAddCmd    `cmd:"" help:"Add an email address, or the URL of a Slack-compatible webhook. An email address gets a message with a link, and nothing else until its reader follows the link."`
	Update destinationsUpdateCmd `cmd:"" help:"Change the language or the kinds of notices of a destination."`
	Delete destinationsDeleteCmd `cmd:"" help:"Delete a destination. It gets no more messages."`
	Ask    destinationsAskCmd    `cmd:"" help:"Send the message with the link that confirms an email address again."`
	Test   destinationsTestCmd   `cmd:"" help:"Send a test message."`
}

// destinationTable shows destinations of notices.
var destinationTable = tableOf[apitypes.Destination]{
	[]string{"ID", "STATE", "CHANNEL", "ADDRESS", "ACCOUNT", "LANGUAGE", "KINDS", "LAST SENT", "FAILURES", "LAST ERROR"},
	func(d apitypes.Destination) []string {
		account, kinds := "(operator)", "all"
		if d.Account != nil {
			account = d.Account.String()
		}
		if d.Kinds != nil {
			kinds = kindsText(*d.Kinds)
		}
		return []string{
			d.ID.String(), string(d.State), string(d.Channel), d.Address, account, d.Language, kinds, moment(d.LastSentAt), strconv.Itoa(d.Failures),
			optional(d.LastError),
		}
	},
}

// kindsText returns kinds of notices, separated by commas.
func kindsText(kinds []postrider.NoticeKind) string {
	var texts []string
	for _, kind := range kinds {
		texts = append(texts, string(kind))
	}
	return strings.Join(texts, ",")
}

type destinationsListCmd struct {
	target `embed:""`
	paging `embed:""`

	Account  string `help:"Only those of this account, by id or uid."`
	Operator bool   `help:"Only the operator's."`
}

// Run lists the destinations.
func (c *destinationsListCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, destinationTable.page, func(api *client.Client) (apitypes.Page[apitypes.Destination], error) {
		return api.Destinations(ctx, client.DestinationFilter{Account: c.Account, Operator: c.Operator, Paging: c.page()})
	})
}

// oneDestination holds the flags and the argument of commands for one destination.
type oneDestination struct {
	target `embed:""`

	Destination postrider.DestinationID `arg:"" help:"Id of the destination."`
}

type (
	destinationsGetCmd    struct{ oneDestination }
	destinationsDeleteCmd struct{ oneDestination }
	destinationsAskCmd    struct{ oneDestination }
	destinationsTestCmd   struct{ oneDestination }
)

// Run shows the destination.
func (c *destinationsGetCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, destinationTable.one, func(api *client.Client) (apitypes.Destination, error) {
		return api.Destination(ctx, c.Destination)
	})
}

// Run deletes the destination.
func (c *destinationsDeleteCmd) Run(ctx context.Context, t terminal) error {
	return change(t, c.target, c.Destination.String()+" is deleted", func(api *client.Client) error {
		return api.DeleteDestination(ctx, c.Destination)
	})
}

// Run asks the server to send the message with the link again.
func (c *destinationsAskCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, destinationTable.one, func(api *client.Client) (apitypes.Destination, error) {
		return api.AskToConfirm(ctx, c.Destination)
	})
}

// Run asks the server to send a test message.
func (c *destinationsTestCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, destinationTable.one, func(api *client.Client) (apitypes.Destination, error) {
		return api.TestDestination(ctx, c.Destination)
	})
}

type destinationsAddCmd struct {
	target `embed:""`

	Account  string   `help:"The account whose notices it gets, by id or uid. Default: the operator's, which gets those of all accounts and of the installation."`
	Email    string   `xor:"address" required:"" placeholder:"ADDRESS" help:"The email address."`
	Slack    string   `xor:"address" required:"" placeholder:"URL" help:"The URL of the webhook."`
	Language string   `enum:"de,en" default:"en" help:"Language of the messages: ${enum}."`
	Kind     []string `help:"A kind of notice that it gets, for example endpoint.disabled. Can be repeated. Default: all."`
}

// Run adds the destination.
func (c *destinationsAddCmd) Run(ctx context.Context, t terminal) error {
	create := apitypes.DestinationCreate{Account: c.Account, Channel: postrider.ChannelEmail, Address: c.Email, Language: c.Language}
	if c.Slack != "" {
		create.Channel, create.Address = postrider.ChannelSlack, c.Slack
	}
	if len(c.Kind) > 0 {
		create.Kinds = apitypes.Of(noticeKinds(c.Kind))
	}
	return ask(t, c.target, destinationTable.one, func(api *client.Client) (apitypes.Destination, error) {
		return api.CreateDestination(ctx, create)
	})
}

// noticeKinds returns the kinds of notices by their names.
func noticeKinds(names []string) (kinds []postrider.NoticeKind) {
	for _, name := range names {
		kinds = append(kinds, postrider.NoticeKind(name))
	}
	return kinds
}

type destinationsUpdateCmd struct {
	oneDestination

	Language *string  `enum:"de,en" help:"Language of the messages: ${enum}. Default: unchanged."`
	Kind     []string `help:"A kind of notice that it gets from now on, or all. Can be repeated. Default: unchanged."`
}

// Run changes the destination.
func (c *destinationsUpdateCmd) Run(ctx context.Context, t terminal) error {
	change := apitypes.DestinationUpdate{Language: c.Language}
	switch {
	case slices.Contains(c.Kind, "all"):
		change.Kinds = apitypes.Null[[]postrider.NoticeKind]()
	case len(c.Kind) > 0:
		change.Kinds = apitypes.Of(noticeKinds(c.Kind))
	}
	return ask(t, c.target, destinationTable.one, func(api *client.Client) (apitypes.Destination, error) {
		return api.ChangeDestination(ctx, c.Destination, change)
	})
}
