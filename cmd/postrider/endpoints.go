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

// endpointsCmd is the group of commands for endpoints. create and update share their
// flags; see policyFlags.
type endpointsCmd struct {
	List    endpointsListCmd    `cmd:"" help:"List endpoints, newest first."`
	Create  endpointsCreateCmd  `cmd:"" help:"Make an endpoint and print its secret."`
	Get     endpointsGetCmd     `cmd:"" help:"Show one endpoint."`
	Update  endpointsUpdateCmd  `cmd:"" help:"Change an endpoint. Options without a flag stay as they are."`
	Put     endpointsPutCmd     `cmd:"" help:"Make an endpoint, or replace it. Options without a flag get their default; its secrets stay."`
	Verify  endpointsVerifyCmd  `cmd:"" help:"Ask the receiver whether it wants events. Deliveries that waited for its consent are sent."`
	Test    endpointsTestCmd    `cmd:"" help:"Send a test event to this endpoint only."`
	Try     endpointsTryCmd     `cmd:"" help:"Say whether a subscription would select an event that is not published."`
	WhatIf  endpointsWhatIfCmd  `cmd:"" help:"Say which stored events the endpoint would have got with another subscription."`
	Pause   endpointsPauseCmd   `cmd:"" help:"Stop sending until the endpoint is resumed. All deliveries wait."`
	Resume  endpointsResumeCmd  `cmd:"" help:"Send to a paused endpoint again."`
	Enable  endpointsEnableCmd  `cmd:"" help:"Send to a disabled endpoint again."`
	Disable endpointsDisableCmd `cmd:"" help:"Stop sending. Queued deliveries wait; deliveries of new events are skipped."`
	Delete  endpointsDeleteCmd  `cmd:"" help:"Delete an endpoint and cancel its pending deliveries."`
	Secrets endpointsSecretsCmd `cmd:"" help:"List the secrets that sign the endpoint's requests."`
	Reveal  endpointsRevealCmd  `cmd:"" name:"reveal-secret" help:"Show one of the secrets."`
	Rotate  endpointsRotateCmd  `cmd:"" help:"Make a new secret. The old ones stay valid for a while."`
	Revoke  endpointsRevokeCmd  `cmd:"" name:"revoke-secret" help:"Make one of the secrets invalid at once."`

	Backfill     endpointsBackfillCmd     `cmd:"" help:"Let the subscription start in the past: send events that the endpoint wants and did not get."`
	Circuit      endpointsCircuitCmd      `cmd:"" help:"Show or set the circuit, which stops requests to an endpoint that fails."`
	OrderingKeys endpointsOrderingKeysCmd `cmd:"" help:"List the ordering keys that have pending deliveries or are paused."`
	Troubled     endpointsTroubledCmd     `cmd:"" help:"List the endpoints that need a person most: disabled for their failures, failing, with deliveries that wait for long, or with dead letters."`
	Requests     endpointsRequestsCmd     `cmd:"" help:"List the requests that an inspector endpoint got."`
	Request      endpointsRequestCmd      `cmd:"" help:"Show one request that an inspector endpoint got, and whether it verifies."`
	Health       endpointsHealthCmd       `cmd:"" help:"List the changes of the endpoint's health: warned, disabled for its failures, healthy again."`
}

// endpointListTable shows endpoints with their state. Only lists return the state.
var endpointListTable = tableOf[apitypes.Endpoint]{
	[]string{"ID", "STATUS", "HEALTH", "CIRCUIT", "PENDING", "SUCCESS", "EVENT TYPES", "URL"},
	func(e apitypes.Endpoint) []string {
		var state apitypes.EndpointState
		if e.State != nil {
			state = *e.State
		}
		return []string{
			e.ID.String(), string(e.Status), string(state.Health), string(state.Circuit), atLeast(state.Pending, state.PendingMore),
			percent(state.SuccessRate), strings.Join(e.EventTypes, ","), shownURL(e),
		}
	},
}

// endpointTable shows endpoints after an action. get and update print all fields instead, because
// people use these commands to read the options.
var endpointTable = tableOf[apitypes.Endpoint]{
	[]string{"ID", "STATUS", "EVENT TYPES", "URL"},
	func(e apitypes.Endpoint) []string {
		return []string{e.ID.String(), string(e.Status), strings.Join(e.EventTypes, ","), shownURL(e)}
	},
}

// statusTable shows an endpoint after a change of its status, with the reason from the person or
// the server.
var statusTable = tableOf[apitypes.Endpoint]{
	[]string{"ID", "STATUS", "REASON", "URL"},
	func(e apitypes.Endpoint) []string {
		return []string{e.ID.String(), string(e.Status), optional(e.StatusReason), shownURL(e)}
	},
}

// shownURL returns the URL of an endpoint for a table. An inspector has no URL.
func shownURL(e apitypes.Endpoint) string {
	if e.Kind == postrider.KindInspector {
		return "(inspector)"
	}
	return e.URL
}

// secretTable shows the signing secrets of an endpoint.
var secretTable = tableOf[apitypes.Secret]{
	[]string{"ID", "TYPE", "SECRET", "EXPIRES"},
	func(s apitypes.Secret) []string {
		return []string{s.ID.String(), s.Type, shownSecret(s), moment(s.ExpiresAt)}
	},
}

// secretStateTable shows the signing secrets of an endpoint without their texts.
var secretStateTable = tableOf[apitypes.SecretState]{
	[]string{"ID", "TYPE", "STATE", "CREATED", "EXPIRES"},
	func(s apitypes.SecretState) []string {
		return []string{s.ID.String(), optional(s.Type), s.State, moment(&s.CreatedAt), moment(s.ExpiresAt)}
	},
}

// shownSecret returns the text with which a receiver verifies: the secret, or the public key of an
// asymmetric secret.
func shownSecret(s apitypes.Secret) string { return cmp.Or(optional(s.Secret), optional(s.PublicKey)) }

type endpointsListCmd struct {
	target `embed:""`
	paging `embed:""`

	Account  string                 `help:"Only of this account, by id or uid. Default: all accounts."`
	UID      string                 `help:"Only the endpoint with this uid; needs --account."`
	IDs      []postrider.EndpointID `name:"ids" help:"Only these endpoints, also deleted ones; at most 100, separated by commas."`
	Status   string                 `enum:",enabled,paused,disabled" default:"" placeholder:"STATUS" help:"Only with this status: enabled, paused or disabled."`
	Health   string                 `enum:",healthy,warned,disabled" default:"" placeholder:"STATUS" help:"Only with this health: healthy, warned, or disabled for its failures. An endpoint is healthy for hours after it began to fail; see --failing."`
	Circuit  string                 `enum:",closed,open,half_open" default:"" placeholder:"STATUS" help:"Only with this circuit: closed, open or half_open."`
	Failing  *bool                  `negatable:"" help:"Only endpoints whose last attempts failed, or with --no-failing those whose last attempt did not. Default: both."`
	Metadata map[string]string      `mapsep:"none" placeholder:"KEY=VALUE" help:"Only endpoints with this metadata; may be given several times."`
}

// Run lists endpoints. SUCCESS is the success rate of the last 24 hours.
func (c *endpointsListCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, endpointListTable.page, func(api *client.Client) (apitypes.Page[apitypes.Endpoint], error) {
		return api.Endpoints(ctx, client.EndpointFilter{
			Account: c.Account, UID: c.UID, IDs: c.IDs, Status: postrider.EndpointStatus(c.Status), Health: postrider.HealthStatus(c.Health),
			Circuit: postrider.CircuitStatus(c.Circuit), Failing: c.Failing, Metadata: c.Metadata, Paging: c.page(),
		})
	})
}

// oneEndpoint holds the flags and the argument of commands for one endpoint.
type oneEndpoint struct {
	target `embed:""`

	Name string `arg:"" name:"id" help:"The endpoint: its id, ep_…, or ACCOUNT:UID, or its uid with a key of its account."`

	ID postrider.EndpointID `kong:"-"` // id of the endpoint Name; set by resolve
}

// resolve sets c.ID to the id of the endpoint c.Name. It is called before Run.
func (c *oneEndpoint) resolve(ctx context.Context) (err error) {
	if c.ID, err = postrider.ParseID[postrider.EndpointID](c.Name); err == nil {
		return nil
	}
	api, err := c.connect()
	if err != nil {
		return err
	}
	defer api.Close()
	account, uid, ok := strings.Cut(c.Name, ":")
	if !ok {
		account, uid = "", c.Name
	}
	found, err := api.Endpoints(ctx, client.EndpointFilter{Account: account, UID: uid})
	if err != nil {
		return fmt.Errorf("find endpoint %s: %w", c.Name, err)
	}
	if len(found.Data) == 0 {
		return fmt.Errorf("there is no endpoint %s: name it by its id or by ACCOUNT:UID", c.Name)
	}
	c.ID = found.Data[0].ID
	return nil
}

// show makes one call that changes the status of the endpoint, and prints the status.
func (c *oneEndpoint) show(ctx context.Context, t terminal, call endpointCall) error {
	return ask(t, c.target, statusTable.one, func(api *client.Client) (apitypes.Endpoint, error) {
		return call(api, ctx, c.ID)
	})
}

// endpointCall is a method of the client that changes an endpoint and returns it.
type endpointCall func(*client.Client, context.Context, postrider.EndpointID) (apitypes.Endpoint, error)

type (
	endpointsGetCmd     struct{ oneEndpoint }
	endpointsResumeCmd  struct{ oneEndpoint }
	endpointsEnableCmd  struct{ oneEndpoint }
	endpointsDeleteCmd  struct{ oneEndpoint }
	endpointsSecretsCmd struct {
		oneEndpoint

		States bool `help:"Leave out the texts. Then the audit log has no entry, and the key needs only the scope webhooks:read."`
	}
)

// Run shows the endpoint.
func (c *endpointsGetCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, printDetails, func(api *client.Client) (apitypes.Endpoint, error) {
		return api.Endpoint(ctx, c.ID)
	})
}

type endpointsTestCmd struct {
	oneEndpoint

	Type string `placeholder:"TYPE" help:"A type of the catalogue, whose example is sent. Default: postrider.test."`
}

// Run publishes a test event to the endpoint and prints the receipt. The endpoint's event types do
// not matter. The command deliveries list shows the result.
func (c *endpointsTestCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, printReceipt, func(api *client.Client) (apitypes.Receipt, error) {
		return api.TestEndpoint(ctx, c.ID, apitypes.EndpointTest{Type: c.Type})
	})
}

type endpointsPauseCmd struct {
	oneEndpoint

	Reason string `placeholder:"TEXT" help:"The reason, which is shown with the endpoint."`
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

// Run enables the endpoint, and closes its circuit.
func (c *endpointsEnableCmd) Run(ctx context.Context, t terminal) error {
	return c.show(ctx, t, (*client.Client).EnableEndpoint)
}

type endpointsDisableCmd struct {
	oneEndpoint

	Reason string `placeholder:"TEXT" help:"The reason, which is shown with the endpoint."`
}

// Run disables the endpoint. In contrast to a pause, events that are published meanwhile are
// skipped and not queued.
func (c *endpointsDisableCmd) Run(ctx context.Context, t terminal) error {
	return c.show(ctx, t, func(api *client.Client, ctx context.Context, id postrider.EndpointID) (apitypes.Endpoint, error) {
		return api.DisableEndpoint(ctx, id, c.Reason)
	})
}

// Run deletes the endpoint.
func (c *endpointsDeleteCmd) Run(ctx context.Context, t terminal) error {
	return change(t, c.target, c.ID.String()+" is deleted", func(api *client.Client) error {
		return api.DeleteEndpoint(ctx, c.ID)
	})
}

// Run prints the endpoint's secrets with their texts, so that people can configure a receiver
// again. Of an ed25519 key it prints the public half; the private half never leaves the server.
func (c *endpointsSecretsCmd) Run(ctx context.Context, t terminal) error {
	if c.States {
		return ask(t, c.target, secretStateTable.all, func(api *client.Client) ([]apitypes.SecretState, error) {
			return api.SecretStates(ctx, c.ID)
		})
	}
	return ask(t, c.target, secretTable.all, func(api *client.Client) ([]apitypes.Secret, error) {
		return api.Secrets(ctx, c.ID)
	})
}

// endpointsRotateCmd is the command endpoints rotate. If Overlap is nil, the server uses its
// default. 0 is a value of its own: it ends the old secrets at once.
type endpointsRotateCmd struct {
	oneEndpoint

	Overlap     *time.Duration `help:"How long the old secrets stay valid, for example 24h or 2d; 0s ends them at once. Default: 24h."`
	secretFlags `embed:""`
}

// secretFlags has the flags for the secret of a new endpoint or of a rotation. Without them the
// server makes a secret. A given secret is for endpoints that move here from another sender and
// keep their receivers unchanged.
type secretFlags struct {
	KeyType    string `enum:",hmac,ed25519" default:"" placeholder:"hmac|ed25519" help:"The kind of secret that the server makes: hmac or ed25519. Default: hmac."`
	SecretFile string `placeholder:"FILE" help:"File with a secret of your own; - reads stdin. Default: the server makes one."`
}

// Run rotates the endpoint's secrets and prints the new one.
func (c *endpointsRotateCmd) Run(ctx context.Context, t terminal) error {
	own, err := c.ownSecret(t)
	if err != nil {
		return err
	}
	rotation := apitypes.SecretRotation{Secret: own, KeyType: c.KeyType}
	if c.Overlap != nil {
		rotation.OverlapMS = new(c.Overlap.Milliseconds())
	}
	return ask(t, c.target, secretTable.one, func(api *client.Client) (apitypes.Secret, error) {
		return api.RotateSecret(ctx, c.ID, rotation)
	})
}

// ownSecret returns the secret in the file that the flag names. If it is empty, the server makes a
// secret.
func (f secretFlags) ownSecret(t terminal) (string, error) {
	secret, err := readSecretFile(t, f.SecretFile)
	return strings.TrimSpace(secret), err
}

type endpointsRevealCmd struct {
	oneEndpoint

	Secret postrider.SecretID `arg:"" help:"Id of the secret, from endpoints secrets --states."`
}

// Run prints one secret with its text.
func (c *endpointsRevealCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, secretTable.one, func(api *client.Client) (apitypes.Secret, error) {
		return api.RevealSecret(ctx, c.ID, c.Secret)
	})
}

type endpointsRevokeCmd struct {
	oneEndpoint

	Secret postrider.SecretID `arg:"" help:"The secret's id, sec_…"`
}

// Run revokes the secret at once, without an overlap.
func (c *endpointsRevokeCmd) Run(ctx context.Context, t terminal) error {
	return change(t, c.target, c.Secret.String()+" is revoked", func(api *client.Client) error {
		return api.RevokeSecret(ctx, c.ID, c.Secret)
	})
}

type endpointsCreateCmd struct {
	target `embed:""`

	EndpointURL string            `arg:"" optional:"" name:"endpoint-url" help:"The URL that gets the requests, for example https://acme.example/hooks. An inspector has none."`
	Kind        string            `enum:"http,inspector" default:"http" help:"http, or inspector: requests are signed and kept in the server, for people who have no receiver yet. See endpoints requests."`
	Account     string            `required:"" help:"The account that the endpoint belongs to, by id or uid."`
	EventTypes  []string          `default:"*" help:"The event types that it gets, separated by commas: names as order.created, prefixes as order.*, or * for all."`
	UID         string            `help:"Your own name for the endpoint."`
	Description string            `help:"A description for people."`
	Metadata    map[string]string `mapsep:"none" placeholder:"KEY=VALUE" help:"What you want to note of the endpoint, which the customers of its account can read; may be given several times."`
	secretFlags `embed:""`
	policyFlags `embed:""`
}

// Run makes the endpoint and prints it, with the secret that its receiver needs.
func (c *endpointsCreateCmd) Run(ctx context.Context, t terminal) error {
	policy, err := c.policy(t, c.SecretFile)
	if err != nil {
		return err
	}
	own, err := c.ownSecret(t)
	if err != nil {
		return err
	}
	return ask(t, c.target, printCreated, func(api *client.Client) (apitypes.Endpoint, error) {
		return api.CreateEndpoint(ctx, apitypes.EndpointCreate{
			Account: c.Account, Kind: postrider.EndpointKind(c.Kind), URL: c.EndpointURL, EventTypes: c.EventTypes, UID: c.UID,
			Description: c.Description, Metadata: c.Metadata, Policy: policy,
			NewSecrets: apitypes.NewSecrets{Secret: own, KeyType: c.KeyType},
		})
	})
}

type endpointsPutCmd struct {
	target `embed:""`

	Name         string            `arg:"" help:"The endpoint: ACCOUNT:UID, or its uid with a key of its account. The id of an endpoint replaces it."`
	EndpointURL  string            `arg:"" optional:"" name:"endpoint-url" help:"The URL that gets the requests, for example https://acme.example/hooks. An inspector has none."`
	Kind         string            `enum:"http,inspector" default:"http" help:"http or inspector; it never changes."`
	EventTypes   []string          `default:"*" help:"The event types that it gets, separated by commas: names as order.created, prefixes as order.*, or * for all."`
	Description  string            `help:"A description for people."`
	Metadata     map[string]string `mapsep:"none" placeholder:"KEY=VALUE" help:"What you want to note of the endpoint, which the customers of its account can read; may be given several times."`
	revisionFlag `embed:""`
	secretFlags  `embed:""`
	policyFlags  `embed:""`
}

// Run makes or replaces the endpoint. It prints the secret only of a new endpoint. A deployment script
// can run the command each time.
func (c *endpointsPutCmd) Run(ctx context.Context, t terminal) error {
	policy, err := c.policy(t, c.SecretFile)
	if err != nil {
		return err
	}
	own, err := c.ownSecret(t)
	if err != nil {
		return err
	}
	put := apitypes.EndpointPut{
		Kind: postrider.EndpointKind(c.Kind), URL: c.EndpointURL, EventTypes: c.EventTypes, Description: apitypes.Of(c.Description),
		Policy: policy, NewSecrets: apitypes.NewSecrets{Secret: own, KeyType: c.KeyType},
	}
	if c.Metadata != nil {
		put.Metadata = apitypes.Of(c.Metadata)
	}
	return ask(t, c.target, printCreated, func(api *client.Client) (apitypes.Endpoint, error) {
		return c.on(api).PutEndpoint(ctx, c.Name, put)
	})
}

// printCreated prints a new endpoint with its secrets. Later only the command endpoints secrets
// shows them.
func printCreated(t terminal, asJSON bool, made apitypes.Endpoint) error {
	if err := endpointTable.one(t, asJSON, made); err != nil || asJSON {
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
	oneEndpoint

	EndpointURL   string   `placeholder:"URL" help:"The URL that gets the requests, for example https://acme.example/hooks."`
	EventTypes    []string `placeholder:"TYPE" help:"The event types that it gets, separated by commas: names as order.created, prefixes as order.*, or * for all."`
	UID           *string  `placeholder:"NAME" help:"Your own name for the endpoint."`
	Description   *string  `placeholder:"TEXT" help:"A description for people."`
	metadataFlags `embed:""`
	revisionFlag  `embed:""`
	policyFlags   `embed:""`
}

// Help returns the text above the flags in the help of the command.
func (endpointsUpdateCmd) Help() string {
	return "The header flags replace all headers of the endpoint. " +
		"With --auth of the endpoint's own type, and with the --tls flags, the parts that no flag names stay; " +
		"--auth none and --no-tls remove all parts."
}

// Run changes the endpoint and prints it. The request leaves out options without a flag, and these
// keep their values. A call without any flag is refused: it would change nothing and look like
// success.
func (c *endpointsUpdateCmd) Run(ctx context.Context, t terminal) error {
	policy, err := c.policy(t)
	if err != nil {
		return err
	}
	update := apitypes.EndpointUpdate{
		URL: c.EndpointURL, EventTypes: c.EventTypes, UID: apitypes.OfPointer(c.UID), Description: apitypes.OfPointer(c.Description),
		Metadata: c.metadata(), Policy: policy,
	}
	if compact(update) == "{}" {
		return misused("nothing to change: name at least one flag, as in --timeout 5s")
	}
	return ask(t, c.target, printDetails, func(api *client.Client) (apitypes.Endpoint, error) {
		// The API replaces authentication and TLS as a whole. So the command reads the endpoint
		// first, and keeps the parts that no flag names. If two updates run at the same time, the
		// last one wins, as in the API.
		if isPartial(policy) {
			current, err := api.Endpoint(ctx, c.ID)
			if err != nil {
				return current, err
			}
			keepParts(&update.Policy, current.Policy)
		}
		return c.on(api).ChangeEndpoint(ctx, c.ID, update)
	})
}
