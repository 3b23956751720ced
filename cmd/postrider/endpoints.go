package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
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
	Health       endpointsHealthCmd       `cmd:"" help:"List when the endpoint was warned, disabled for its failures, and healthy again."`
}

// endpointTable shows endpoints, as lists and actions print them. get and update
// print all fields instead.
var endpointTable = tableOf[apitypes.Endpoint]{
	[]string{"ID", "STATUS", "EVENT TYPES", "URL"},
	func(e apitypes.Endpoint) []string {
		return []string{e.ID.String(), string(e.Status), strings.Join(e.EventTypes, ","), e.URL}
	},
}

// secretTable shows the signing secrets of an endpoint.
var secretTable = tableOf[apitypes.Secret]{
	[]string{"ID", "TYPE", "SECRET", "EXPIRES"},
	func(s apitypes.Secret) []string {
		return []string{s.ID.String(), s.Type, shownSecret(s), moment(s.ExpiresAt)}
	},
}

// shownSecret returns the text that a receiver verifies with: the secret, or the
// public key of an asymmetric one.
func shownSecret(s apitypes.Secret) string { return cmp.Or(optional(s.Secret), optional(s.PublicKey)) }

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

// one holds the flags and the argument of commands for one endpoint.
type one struct {
	target `embed:""`

	ID postrider.EndpointID `arg:"" help:"The endpoint's id, ep_…"`
}

// show makes one call for the endpoint and prints the endpoint of the answer.
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

// endpointCall is a method of the client that changes an endpoint and returns it.
type endpointCall func(*client.Client, context.Context, postrider.EndpointID) (apitypes.Endpoint, error)

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
	return printDetails(t, c.JSON, endpoint)
}

// Run publishes a test event to the endpoint and prints the receipt.
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
	return c.show(ctx, t, func(api *client.Client, ctx context.Context, id postrider.EndpointID) (apitypes.Endpoint, error) {
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
	return c.show(ctx, t, func(api *client.Client, ctx context.Context, id postrider.EndpointID) (apitypes.Endpoint, error) {
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

// Run prints the endpoint's secrets, their texts included.
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
	return printPage(t, c.JSON, apitypes.Page[apitypes.Secret]{Data: secrets}, secretTable)
}

// endpointsRotateCmd is the command endpoints rotate. A nil Overlap leaves the
// default to the server; zero ends the old secrets at once.
type endpointsRotateCmd struct {
	one

	Overlap     *time.Duration `help:"How long the old secrets go on; 0s ends them at once. Default: 24h."`
	secretFlags `embed:""`
}

// secretFlags holds the flags for the secret of a new endpoint or of a rotation.
// Without them the server makes a secret.
type secretFlags struct {
	KeyType    string `enum:",hmac,ed25519" default:"" placeholder:"hmac|ed25519" help:"What kind of secret to make: hmac or ed25519. Default: hmac."`
	SecretFile string `placeholder:"FILE" help:"File with a secret to bring along; - reads stdin. Default: one is made."`
}

// Run rotates the endpoint's secrets and prints the new one.
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
	rotation := apitypes.SecretRotation{Secret: brought, KeyType: c.KeyType}
	if c.Overlap != nil {
		rotation.OverlapMS = new(c.Overlap.Milliseconds())
	}
	secret, err := api.RotateSecret(ctx, c.ID, rotation)
	if err != nil {
		return err
	}
	return printOne(t, c.JSON, secret, secretTable)
}

// brought returns the secret in the file that the flag names. Empty: the server
// makes one.
func (f secretFlags) brought(t terminal) (string, error) {
	secret, err := readSecretFile(t, f.SecretFile)
	return strings.TrimSpace(secret), err
}

type endpointsRevokeCmd struct {
	one

	Secret postrider.SecretID `arg:"" help:"The secret's id, sec_…"`
}

// Run revokes the secret at once, without an overlap.
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

type endpointsCreateCmd struct {
	target `embed:""`

	EndpointURL string   `arg:"" name:"endpoint-url" help:"Where to send, as in https://acme.example/hooks."`
	Account     string   `required:"" help:"Whose endpoint it is: an account's id or uid."`
	EventTypes  []string `default:"*" help:"What it wants: order.created, order.* or *, with commas between."`
	UID         string   `help:"Your own name for the endpoint."`
	Description string   `help:"What it is, for people."`
	secretFlags `embed:""`
	policyFlags `embed:""`
}

// Run makes the endpoint and prints it, with the secret that its receiver needs. It
// reads all files before it calls the server, so that a missing file changes
// nothing.
func (c *endpointsCreateCmd) Run(ctx context.Context, t terminal) error {
	policy, err := c.policy(t, c.SecretFile)
	if err != nil {
		return err
	}
	brought, err := c.brought(t)
	if err != nil {
		return err
	}
	api, err := c.connect()
	if err != nil {
		return err
	}
	defer api.Close()
	made, err := api.CreateEndpoint(ctx, apitypes.EndpointCreate{
		Account: c.Account, URL: c.EndpointURL, EventTypes: c.EventTypes, UID: c.UID, Description: c.Description, Policy: policy,
		NewSecrets: apitypes.NewSecrets{Secret: brought, KeyType: c.KeyType},
	})
	if err != nil {
		return err
	}
	if err := printOne(t, c.JSON, made, endpointTable); err != nil || c.JSON {
		return err
	}
	for _, s := range made.Secrets {
		label := "secret:"
		if s.Secret == nil {
			label = "public key:"
		}
		fmt.Fprintln(t.out, label, shownSecret(s))
	}
	return nil
}

type endpointsUpdateCmd struct {
	one

	EndpointURL string   `placeholder:"URL" help:"Where to send, as in https://acme.example/hooks."`
	EventTypes  []string `placeholder:"TYPE" help:"What it wants: order.created, order.* or *, with commas between."`
	UID         *string  `placeholder:"NAME" help:"Your own name for the endpoint."`
	Description *string  `placeholder:"TEXT" help:"What it is, for people."`
	policyFlags `embed:""`
}

// Help returns the text above the flags in the help of the command.
func (endpointsUpdateCmd) Help() string {
	return "What no flag names stays as it is. Headers are replaced all together. " +
		"With --auth of the type that it has, and with the --tls flags, what the others of them would say stays, too; " +
		"--auth none and --no-tls end it, with all that it was."
}

// Run changes the endpoint and prints it. Options without a flag are left out of
// the request and stay.
func (c *endpointsUpdateCmd) Run(ctx context.Context, t terminal) error {
	policy, err := c.policy(t)
	if err != nil {
		return err
	}
	change := apitypes.EndpointUpdate{
		URL: c.EndpointURL, EventTypes: c.EventTypes, UID: apitypes.OfPointer(c.UID), Description: apitypes.OfPointer(c.Description), Policy: policy,
	}
	if compact(change) == "{}" {
		return misused("nothing to change: name at least one flag, as in --timeout 5s")
	}
	api, err := c.connect()
	if err != nil {
		return err
	}
	defer api.Close()
	// The API replaces these options as a whole. Read the endpoint first, so that
	// the parts that no flag names stay.
	if isPartial(policy) {
		has, err := api.Endpoint(ctx, c.ID)
		if err != nil {
			return err
		}
		keepParts(&change.Policy, has.Policy)
	}
	changed, err := api.ChangeEndpoint(ctx, c.ID, change)
	if err != nil {
		return err
	}
	return printDetails(t, c.JSON, changed)
}
