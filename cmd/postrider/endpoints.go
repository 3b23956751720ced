package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/client"
)

type endpointsCmd struct {
	List    endpointsListCmd    `cmd:"" help:"List endpoints, newest first."`
	Create  endpointsCreateCmd  `cmd:"" help:"Make an endpoint and print its secret."`
	Get     endpointsGetCmd     `cmd:"" help:"Show one endpoint."`
	Update  endpointsUpdateCmd  `cmd:"" help:"Change an endpoint. What no flag names stays as it is."`
	Verify  endpointsVerifyCmd  `cmd:"" help:"Ask the receiver whether it wants events; what waited for that goes on."`
	Test    endpointsTestCmd    `cmd:"" help:"Publish a test event to one endpoint alone."`
	Pause   endpointsPauseCmd   `cmd:"" help:"Hold deliveries back until the endpoint is resumed."`
	Resume  endpointsResumeCmd  `cmd:"" help:"End a pause."`
	Enable  endpointsEnableCmd  `cmd:"" help:"Send again to an endpoint that was disabled."`
	Disable endpointsDisableCmd `cmd:"" help:"Hold what is queued, and skip what is published from now."`
	Delete  endpointsDeleteCmd  `cmd:"" help:"Delete an endpoint and cancel what is queued for it."`
	Secrets endpointsSecretsCmd `cmd:"" help:"Show the secrets that requests are signed with."`
	Rotate  endpointsRotateCmd  `cmd:"" help:"Make a new secret; the old ones go on for a while."`
	Revoke  endpointsRevokeCmd  `cmd:"" name:"revoke-secret" help:"End one of the secrets at once."`

	Circuit      endpointsCircuitCmd      `cmd:"" help:"Show the circuit, which stops sending to an endpoint that fails; or set it."`
	OrderingKeys endpointsOrderingKeysCmd `cmd:"" help:"List the ordering keys that have something waiting or are paused."`
	Standings    endpointsStandingsCmd    `cmd:"" help:"List when the endpoint was warned, disabled for its failures, and good again."`
}

var endpointTable = tableOf[client.Endpoint]{
	[]string{"ID", "STATUS", "EVENT TYPES", "URL"},
	func(e client.Endpoint) []string {
		return []string{e.ID.String(), string(e.Status), strings.Join(e.EventTypes, ","), e.URL}
	},
}

func endpointDetails(e client.Endpoint) details {
	rows := details{
		{"id", e.ID.String()},
		{"uid", e.UID},
		{"account", e.Account.String()},
		{"url", e.URL},
		{"description", e.Description},
		{"event types", strings.Join(e.EventTypes, ",")},
		{"status", string(e.Status)},
		{"status reason", e.StatusReason},
		{"retry", retryText(e.Retry)},
		{"client errors", e.ClientErrors},
		{"timeout", span(e.TimeoutMS)},
		{"concurrency", strconv.Itoa(e.Concurrency)},
		{"expiry", span(e.ExpiryMS)},
		{"signature", signatureText(e.Signature)},
		{"payload", e.Payload},
		{"adaptive timeout", strconv.FormatBool(e.AdaptiveTimeout)},
		{"circuit", circuitText(e.Circuit)},
		{"rate", rateText(e.Rate)},
		{"order", string(e.Order)},
		{"on dead", string(e.OnDead)},
	}
	return append(append(rows, connectionDetails(e)...),
		[2]string{"created", moment(e.CreatedAt)}, [2]string{"updated", moment(e.UpdatedAt)})
}

var secretTable = tableOf[client.Secret]{
	[]string{"ID", "TYPE", "SECRET", "EXPIRES"},
	func(s client.Secret) []string {
		return []string{s.ID.String(), s.Type, shownSecret(s), moment(optional(s.ExpiresAt))}
	},
}

// shownSecret returns what a receiver verifies with.
func shownSecret(s client.Secret) string { return cmp.Or(s.Secret, s.PublicKey) }

type endpointsListCmd struct {
	target `embed:""`
	paging `embed:""`

	Account string `help:"Only of this account, by id or uid."`
	UID     string `help:"Only the one with this name of your own; needs --account."`
	Status  string `enum:",enabled,paused,disabled" default:"" placeholder:"STATUS" help:"Only with this status: enabled, paused or disabled."`
}

// Run lists endpoints.
func (c *endpointsListCmd) Run(ctx context.Context, t terminal) error {
	api, err := c.connect()
	if err != nil {
		return err
	}
	defer api.Close()
	page, err := api.Endpoints(ctx, client.EndpointFilter{
		Account: c.Account, UID: c.UID, Status: postrider.EndpointStatus(c.Status), Paging: c.page(),
	})
	if err != nil {
		return err
	}
	return printPage(t, c.JSON, page, endpointTable)
}

// one is a command for one endpoint.
type one struct {
	target `embed:""`

	ID postrider.EndpointID `arg:"" help:"The endpoint's id, ep_…"`
}

// show carries out a call and prints the endpoint that it returns.
func (c *one) show(ctx context.Context, t terminal, call endpointCall) error {
	api, err := c.connect()
	if err != nil {
		return err
	}
	defer api.Close()
	endpoint, err := call(api, ctx, c.ID)
	if err != nil {
		return err
	}
	return printOne(t, c.JSON, endpoint, endpointTable)
}

type endpointCall func(*client.Client, context.Context, postrider.EndpointID) (client.Endpoint, error)

type (
	endpointsGetCmd     struct{ one }
	endpointsTestCmd    struct{ one }
	endpointsResumeCmd  struct{ one }
	endpointsEnableCmd  struct{ one }
	endpointsDeleteCmd  struct{ one }
	endpointsSecretsCmd struct{ one }
)

// Run shows the endpoint.
func (c *endpointsGetCmd) Run(ctx context.Context, t terminal) error {
	api, err := c.connect()
	if err != nil {
		return err
	}
	defer api.Close()
	endpoint, err := api.Endpoint(ctx, c.ID)
	if err != nil {
		return err
	}
	return printDetails(t, c.JSON, endpoint, endpointDetails)
}

// Run publishes the test event.
func (c *endpointsTestCmd) Run(ctx context.Context, t terminal) error {
	api, err := c.connect()
	if err != nil {
		return err
	}
	defer api.Close()
	receipt, err := api.TestEndpoint(ctx, c.ID)
	if err != nil {
		return err
	}
	return printReceipt(t, c.JSON, receipt)
}

type endpointsPauseCmd struct {
	one

	Reason string `placeholder:"TEXT" help:"Why, for whoever looks at it later."`
}

// Run pauses the endpoint.
func (c *endpointsPauseCmd) Run(ctx context.Context, t terminal) error {
	return c.show(ctx, t, func(api *client.Client, ctx context.Context, id postrider.EndpointID) (client.Endpoint, error) {
		return api.PauseEndpoint(ctx, id, c.Reason)
	})
}

// Run resumes the endpoint.
func (c *endpointsResumeCmd) Run(ctx context.Context, t terminal) error {
	return c.show(ctx, t, (*client.Client).ResumeEndpoint)
}

// Run enables the endpoint.
func (c *endpointsEnableCmd) Run(ctx context.Context, t terminal) error {
	return c.show(ctx, t, (*client.Client).EnableEndpoint)
}

type endpointsDisableCmd struct {
	one

	Reason string `placeholder:"TEXT" help:"Why, for whoever looks at it later."`
}

// Run disables the endpoint.
func (c *endpointsDisableCmd) Run(ctx context.Context, t terminal) error {
	return c.show(ctx, t, func(api *client.Client, ctx context.Context, id postrider.EndpointID) (client.Endpoint, error) {
		return api.DisableEndpoint(ctx, id, c.Reason)
	})
}

// Run deletes the endpoint.
func (c *endpointsDeleteCmd) Run(ctx context.Context, t terminal) error {
	api, err := c.connect()
	if err != nil {
		return err
	}
	defer api.Close()
	if err := api.DeleteEndpoint(ctx, c.ID); err != nil {
		return err
	}
	_, err = fmt.Fprintf(t.out, "%s is deleted\n", c.ID)
	return err
}

// Run shows the endpoint's secrets.
func (c *endpointsSecretsCmd) Run(ctx context.Context, t terminal) error {
	api, err := c.connect()
	if err != nil {
		return err
	}
	defer api.Close()
	secrets, err := api.Secrets(ctx, c.ID)
	if err != nil {
		return err
	}
	return printPage(t, c.JSON, client.Page[client.Secret]{Items: secrets}, secretTable)
}

type endpointsRotateCmd struct {
	one

	Overlap     *time.Duration `help:"How long the old secrets go on; 0s ends them at once. Default: 24h."`
	secretFlags `embed:""`
}

// secretFlags say which secret an endpoint gets.
type secretFlags struct {
	KeyType    string `enum:",hmac,ed25519" default:"" placeholder:"hmac|ed25519" help:"What kind of secret to make: hmac or ed25519. Default: hmac."`
	SecretFile string `placeholder:"FILE" help:"File with a secret to bring along; - reads stdin. Default: one is made."`
}

// Run rotates the endpoint's secrets.
func (c *endpointsRotateCmd) Run(ctx context.Context, t terminal) error {
	api, err := c.connect()
	if err != nil {
		return err
	}
	defer api.Close()
	brought, err := c.brought(t)
	if err != nil {
		return err
	}
	secret, err := api.RotateSecret(ctx, c.ID, client.SecretRotation{Secret: brought, Overlap: c.Overlap, KeyType: c.KeyType})
	if err != nil {
		return err
	}
	return printOne(t, c.JSON, secret, secretTable)
}

// brought returns the secret that is brought along; empty: none.
func (f secretFlags) brought(t terminal) (string, error) {
	secret, err := readSecretFile(t, f.SecretFile)
	return strings.TrimSpace(secret), err
}

type endpointsRevokeCmd struct {
	one

	Secret postrider.SecretID `arg:"" help:"The secret's id, sec_…"`
}

// Run ends the secret.
func (c *endpointsRevokeCmd) Run(ctx context.Context, t terminal) error {
	api, err := c.connect()
	if err != nil {
		return err
	}
	defer api.Close()
	if err := api.RevokeSecret(ctx, c.ID, c.Secret); err != nil {
		return err
	}
	_, err = fmt.Fprintf(t.out, "%s is revoked\n", c.Secret)
	return err
}
