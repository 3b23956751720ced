// Package endpoints is the part of the API that serves endpoints: their fields, policy,
// credentials, status, verification, health and ordering keys, and test events.
//
// No response has a credential. Secret headers and the secrets of authentication are sent only to
// the host for which they were given.
package endpoints

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/api/render"
	"github.com/postrider/postrider/internal/api/rest"
	"github.com/postrider/postrider/internal/store"
)

// Store is the part of the store that this package reads and changes.
type Store interface {
	// Endpoints is the method of store.Directory.
	Endpoints(ctx context.Context, q store.EndpointQuery) (store.Page[postrider.Endpoint], error)
	// PutEndpoint is the method of store.Directory.
	PutEndpoint(ctx context.Context, p store.PutEndpoint) (postrider.Endpoint, error)
	// Secrets is the method of store.Directory.
	Secrets(ctx context.Context, endpoints ...postrider.EndpointID) ([]postrider.Secret, error)
	// EndpointStates is the method of store.Rollups.
	EndpointStates(ctx context.Context, ids ...postrider.EndpointID) ([]store.EndpointState, error)
	// LastFailures is the method of store.Rollups.
	LastFailures(ctx context.Context, ids ...postrider.EndpointID) ([]postrider.Attempt, error)
	// OrderedKeys is the method of store.Ledger.
	OrderedKeys(ctx context.Context, q store.OrderedKeyQuery) (store.Page[store.OrderedKey], error)
	// HealthHistory is the method of store.Ledger.
	HealthHistory(ctx context.Context, q store.HealthQuery) (store.Page[postrider.EndpointHealth], error)
	// ReplayJobs is the method of store.Replays.
	ReplayJobs(ctx context.Context, q store.ReplayJobQuery) (store.Page[postrider.ReplayJob], error)
	// Now returns the store's time, read from the store itself.
	Now(ctx context.Context) (time.Time, error)
}

// Guard checks the URLs and the TLS settings of endpoints.
type Guard interface {
	// CheckURL returns the canonical form of raw, or a *postrider.InvalidError
	// for the field "url".
	CheckURL(raw string) (string, error)

	// CheckTLS checks the TLS settings of an endpoint and the private key of
	// its certificate. It returns all faults joined, each a
	// *postrider.InvalidError for a field of "tls".
	CheckTLS(t postrider.TLS, key string) error
}

// Verifier asks the receivers of endpoints whether they want events.
type Verifier interface {
	// Verify performs the handshake with the endpoint. method is one of [VerifyMethods]. If the
	// receiver does not agree, or if no secret can sign the handshake, the error matches
	// postrider.ErrConflict. The client sees the text of that error.
	Verify(ctx context.Context, to store.EndpointSnapshot, method string) error
}

// VerifyMethods lists the handshakes with which a receiver is asked for consent.
var VerifyMethods = []string{"challenge", "cloudevents"}

// Vault encrypts and decrypts the credentials that the store keeps encrypted.
type Vault interface {
	// EncryptCredentials encrypts the credentials and stores them in e. The id of e must be set.
	// Empty credentials are stored as nil.
	EncryptCredentials(ctx context.Context, e *postrider.Endpoint, c postrider.Credentials) error
	// DecryptCredentials returns the credentials of e. Zero: e has none.
	DecryptCredentials(ctx context.Context, e postrider.Endpoint) (postrider.Credentials, error)
}

// Publisher publishes test events.
type Publisher interface {
	// PublishTo stores the event with one delivery, to the given endpoint. It ignores the event
	// types of the endpoint.
	PublishTo(ctx context.Context, e postrider.Event, endpoint postrider.EndpointID) (postrider.Receipt, error)
}

// Circuits has the circuits of endpoints.
type Circuits interface {
	// Circuit returns an endpoint's circuit.
	Circuit(ctx context.Context, id postrider.EndpointID) (postrider.Circuit, error)
	// Probe ends the cooldown of a circuit that failures opened.
	Probe(ctx context.Context, e postrider.Endpoint)
}

// Secrets makes the secrets of new endpoints.
type Secrets interface {
	// New returns the secrets of a new endpoint, newest first, and their views for the response.
	New(ctx context.Context, endpoint postrider.EndpointID, n apitypes.NewSecrets) ([]postrider.Secret, []apitypes.Secret, error)
}

// Limits knows the quotas of accounts.
type Limits interface {
	// MostEndpoints returns the number of endpoints that an account may have; 0: any number.
	MostEndpoints(ctx context.Context, account postrider.AccountID) (int64, error)
}

// Catalogue knows the event types.
type Catalogue interface {
	// Find returns the event type with this name, or postrider.ErrNotFound.
	Find(ctx context.Context, name string) (postrider.EventType, error)
}

// Deps has what the routes of endpoints need.
type Deps struct {
	*rest.Shared

	Store     Store
	Guard     Guard
	Verifier  Verifier
	Vault     Vault
	Publisher Publisher
	Circuits  Circuits
	Secrets   Secrets
	Limits    Limits
	Catalogue Catalogue
	// Verify is the method of [VerifyMethods] with which every new URL must be verified. Empty:
	// URLs need no verification.
	Verify string
	Ping   bool // true: each new URL gets an event of the type apitypes.PingType
}

// Routes serves endpoints.
type Routes struct {
	Deps

	// manualSends limits the tests and verifications of each endpoint. Without this limit, anyone
	// who may create endpoints could make the node send any number of requests to a third party.
	manualSends *rest.Limiter[postrider.EndpointID]
	// pings limits the pings of each endpoint in the same way, without a share of manualSends.
	pings *rest.Limiter[postrider.EndpointID]
}

// New returns the routes of endpoints.
func New(d Deps) *Routes {
	// A burst of five, then one every 12 s. So at most ten run in any minute.
	limiter := func(refusal string) *rest.Limiter[postrider.EndpointID] {
		return rest.NewLimiter[postrider.EndpointID](12*time.Second, 5, refusal)
	}
	return &Routes{
		d, limiter("an endpoint is tested or verified at most five times at once, then once every 12 seconds; see Retry-After"), limiter(""),
	}
}

// Register registers the routes of endpoints.
func (s *Routes) Register(rt *rest.Router) {
	read, write, operate := postrider.ScopeWebhooksRead, postrider.ScopeEndpointsWrite, postrider.ScopeWebhooksOperate
	rest.HandleBody(rt, rest.Route{
		Name: "create-endpoint", Path: "POST /endpoints",
		Summary: "Create an endpoint",
		Codes:   []string{"uid_taken", "endpoint_quota_used"},
		Scope:   write, Status: 201,
	}, s.createEndpoint)
	rest.Handle(rt, rest.Route{
		Name: "list-endpoints", Path: "GET /endpoints",
		Summary: "List endpoints, newest first",
		Scope:   read, Metadata: true,
	}, s.listEndpoints)
	rest.Handle(rt, rest.Route{
		Name: "get-endpoint", Path: "GET /endpoints/{endpoint}",
		Summary:     "Get an endpoint",
		Description: "A deleted endpoint is found too.",
		Scope:       read,
	}, s.getEndpoint)
	rest.HandleBody(rt, rest.Route{
		Name: "update-endpoint", Path: "PATCH /endpoints/{endpoint}",
		Summary:     "Change an endpoint",
		Description: "A field that is left out keeps its value. Null sets a field back to its default.",
		Codes:       []string{"endpoint_deleted", "uid_taken", "conflict"},
		Scope:       write, Withdraws: true, Conditional: true,
	}, s.changeEndpoint)
	s.registerReplacement(rt)
	rest.Handle(rt, rest.Route{
		Name: "delete-endpoint", Path: "DELETE /endpoints/{endpoint}",
		Summary: "Delete an endpoint and cancel its pending deliveries",
		Codes:   []string{"conflict"},
		Scope:   write, Status: 204, Withdraws: true,
	}, s.deleteEndpoint)
	s.registerStatusChanges(rt)
	rest.HandleBody(rt, rest.Route{
		Name: "verify-endpoint", Path: "POST /endpoints/{endpoint}/verify",
		Summary:     "Verify that an endpoint's receiver wants events",
		Description: "If the endpoint is paused because its receiver has not agreed yet, an agreement resumes it.",
		Codes: []string{
			"endpoint_deleted", "endpoint_set_aside", "endpoint_is_inspector", "conflict", "url_changed", "verification_failed",
			"too_often",
		},
		Scope: operate, Empty: true, ReceiverTime: handshakeTime,
	}, s.verifyEndpoint)
	rest.HandleBody(rt, rest.Route{
		Name: "test-endpoint", Path: "POST /endpoints/{endpoint}/test",
		Summary:     "Send a test event to this endpoint alone",
		Description: "The endpoint's event types do not matter.",
		Codes:       []string{"endpoint_deleted", "endpoint_set_aside", "endpoint_paused", "endpoint_disabled", "too_often"},
		Scope:       operate, Status: 202, Empty: true,
	}, s.testEndpoint)
	s.registerOrdering(rt)
	s.registerHealth(rt)
}

// viewEndpoint returns an endpoint in the form of a response. The secrets are used only for the
// warnings.
func (s *Routes) viewEndpoint(e postrider.Endpoint, secrets []postrider.Secret) apitypes.Endpoint {
	patterns := make([]string, 0, len(e.EventTypes))
	for _, p := range e.EventTypes {
		patterns = append(patterns, string(p))
	}
	view := apitypes.Endpoint{
		ID: e.ID, Account: e.Account, Kind: e.Kind, UID: render.OrNull(e.UID), URL: e.URL, Description: e.Description, Metadata: e.Metadata,
		EventTypes: patterns, Status: e.Status, StatusReason: render.OrNull(e.StatusReason), StatusSince: render.Instant(e.StatusSince),
		FullSince: render.TimeOrNull(e.FullSince), PolicyError: render.OrNull(e.PolicyError), Warnings: s.warnings(e, secrets),
		VerifiedAt: render.TimeOrNull(e.VerifiedAt), CreatedAt: render.Instant(e.CreatedAt), UpdatedAt: render.Instant(e.UpdatedAt),
		Revision: e.Revision,
	}
	if e.PolicyError == "" || e.ConditionFailed {
		view.Policy = viewPolicy(e.Policy)
	}
	return view
}

// warnings returns the reasons why nothing is sent to the endpoint, why nothing will be sent once
// the last secret expires, or why new events are skipped. Without a reason the list is empty, not
// null.
func (s *Routes) warnings(e postrider.Endpoint, secrets []postrider.Secret) []string {
	lasts := func(s postrider.Secret) bool { return s.ExpiresAt.IsZero() }
	texts := []string{}
	if e.Status == postrider.EndpointDeleted {
		return texts
	}
	switch {
	case e.PolicyError != "":
		texts = append(texts, "policy_unreadable")
	case len(secrets) == 0:
		texts = append(texts, "no_secret")
	case !slices.ContainsFunc(secrets, lasts):
		texts = append(texts, "secrets_expire")
	}
	if s.requireVerified(e, postrider.EndpointEnabled) != nil {
		texts = append(texts, reasonUnverified)
	}
	if !e.FullSince.IsZero() {
		texts = append(texts, postrider.ReasonBacklogFull)
	}
	return texts
}

// createEndpoint creates an endpoint with its secrets. The endpoint starts with the default policy,
// to which the request is applied like a change. All faults of the request are reported together,
// with one exception: whether the secrets fit the signature schemes is checked last, because the
// check needs both to be valid. The response shows the texts of the secrets.
func (s *Routes) createEndpoint(ctx context.Context, _ *rest.None, body apitypes.EndpointCreate) (*rest.Reply[apitypes.Endpoint], error) {
	if err := checkMaySet(rest.InfoOf(ctx).Caller, body.Policy); err != nil {
		return nil, err
	}
	account, err := s.Names.RequireAccount(ctx, "account", body.Account)
	if err != nil && !errors.Is(err, postrider.ErrInvalid) {
		return nil, err
	}
	e := postrider.Endpoint{
		ID: store.NewID[postrider.EndpointID](s.IDs), Account: account, Kind: cmp.Or(body.Kind, postrider.KindHTTP), UID: body.UID, URL: body.URL,
		Description: body.Description, Metadata: body.Metadata, Status: postrider.EndpointEnabled, Policy: postrider.DefaultPolicy(),
	}
	e.EventTypes = rest.Patterns(body.EventTypes)
	faults := s.setPolicy(ctx, &e, postrider.Endpoint{}, body.Policy)
	secrets, shown, secretErr := s.Secrets.New(ctx, e.ID, body.NewSecrets)
	if err := errors.Join(err, faults, secretErr); err != nil {
		return nil, err
	}
	if err := e.Policy.CheckSecrets(secrets); err != nil {
		return nil, err
	}
	s.resetVerification(&e)
	rest.InfoOf(ctx).Selects(s.viewEndpoint(e, nil))
	most, err := s.Limits.MostEndpoints(ctx, account)
	if err != nil {
		return nil, err
	}
	e, err = s.putEndpoint(ctx, store.PutEndpoint{Endpoint: e, Secrets: secrets, Most: most})
	if err != nil {
		if used, ok := errors.AsType[*postrider.QuotaError](err); ok {
			s.Hooks.QuotaUsed.Call(used)
		}
		return nil, err
	}
	s.ping(ctx, e)
	view := s.viewEndpoint(e, secrets)
	view.Secrets = shown
	return rest.Respond(view), nil
}

// setPolicy applies the policy of the request to the endpoint, normalizes the URLs, encrypts the
// credentials, and returns all faults. The other fields of e must be set. The argument was is the
// stored endpoint. For a new endpoint it is zero.
//
// Create and update share this function, so that both make the same checks. The order of the steps
// matters. The canonical URL shows whether the host changed. The host decides which stored secrets
// are kept. Only then is it known which secrets are missing. The credentials are encrypted last,
// when every check has passed.
//
// Credentials are decrypted only if the request names some or if the host changes. So most changes
// need no encryption key, and work even if the key is missing.
func (s *Routes) setPolicy(ctx context.Context, e *postrider.Endpoint, was postrider.Endpoint, to apitypes.Policy) error {
	url, urlErr := s.checkURL(*e)
	e.URL = url
	moved := urlErr == nil && host(url) != host(was.URL)
	switch {
	case e.ConditionFailed && !to.Condition.IsZero(): // the endpoint is not set aside any more
		e.PolicyError, e.ConditionFailed = "", false
	case e.PolicyError != "" && !e.ConditionFailed:
		named, missing := policyFields(to)
		if named == 0 && !moved { // a new host must not get the credentials of the old host
			missing = nil
		}
		if named == 0 || missing != nil {
			return errors.Join(urlErr, checkEndpoint(*e), missing)
		}
		e.Policy, e.PolicyError, was.Policy = postrider.DefaultPolicy(), "", postrider.Policy{}
	}
	opened := namesCredentials(to) || moved && was.Credentials != nil
	var c postrider.Credentials
	if opened {
		var err error
		if c, err = s.Vault.DecryptCredentials(ctx, was); err != nil {
			return err
		}
	}
	// The secrets of headers and of authentication are bound to their host, so a new host gets none
	// of them. Otherwise a person who may change an endpoint, but not read its secrets, could have
	// the secrets sent to a host of their own. The TLS key is kept, because it is never sent.
	if moved {
		c.Headers, c.Auth = nil, ""
	}
	stored := c
	policyErr := applyPolicy(rest.InfoOf(ctx).Caller, &e.Policy, &c, to)
	faults := []error{urlErr, checkEndpoint(*e), e.Policy.Check(), s.checkTokenURL(&e.Policy.Auth), checkInspector(*e), policyErr}
	if opened && policyErr == nil {
		faults = append(faults, s.checkCredentials(was.Policy, e.Policy, c, to))
	}
	err := errors.Join(faults...)
	// If the credentials stay, so does their encrypted form, which another encryption would change.
	stay := !moved && c.Auth == stored.Auth && c.TLSKey == stored.TLSKey && maps.Equal(c.Headers, stored.Headers)
	if err != nil || !opened || stay {
		return err
	}
	return s.Vault.EncryptCredentials(ctx, e, c)
}

// checkURL returns the canonical form of the endpoint's URL. An inspector has no URL.
func (s *Routes) checkURL(e postrider.Endpoint) (string, error) {
	switch {
	case e.Kind != postrider.KindInspector:
		return s.Guard.CheckURL(e.URL)
	case e.URL != "":
		return "", rest.Invalid("url", postrider.FaultNotAllowed, "must be left out: an inspector has none")
	}
	return "", nil
}

// checkInspector refuses the options that say how to connect to a receiver, if the endpoint is an
// inspector. An inspector has no receiver.
func checkInspector(e postrider.Endpoint) error {
	if e.Kind != postrider.KindInspector {
		return nil
	}
	const reason = "must be left out: an inspector connects to nothing"
	var faults []error
	if e.Policy.TLS != (postrider.TLS{}) {
		faults = append(faults, rest.Invalid("tls", postrider.FaultNotAllowed, reason))
	}
	if e.Policy.Auth.Kind == postrider.AuthOAuth2 {
		faults = append(faults, rest.Invalid("auth.type", postrider.FaultNotAllowed, reason))
	}
	if e.Policy.MaxRedirects != 0 {
		faults = append(faults, rest.Invalid("max_redirects", postrider.FaultNotAllowed, reason))
	}
	return errors.Join(faults...)
}

// checkEndpoint returns all faults of an endpoint's fields, except those of its URL and its policy.
func checkEndpoint(e postrider.Endpoint) error {
	return errors.Join(rest.CheckUID(e.UID), rest.CheckText("description", e.Description, rest.MaxDescription), e.Metadata.Check("metadata"),
		rest.CheckPatterns(e.EventTypes))
}

// checkTokenURL validates and normalizes the URL of the OAuth 2.0 token server. This URL must
// follow the same rules as the endpoint's own URL, because the node sends requests to both.
func (s *Routes) checkTokenURL(a *postrider.Auth) error {
	if a.Kind != postrider.AuthOAuth2 {
		return nil
	}
	if a.TokenURL == "" {
		return rest.Invalid("auth.token_url", postrider.FaultRequired, "is required")
	}
	url, err := s.Guard.CheckURL(a.TokenURL)
	a.TokenURL = url
	for _, f := range postrider.Faults(err) {
		f.Field = "auth.token_url"
	}
	return err
}

// getEndpoint returns an endpoint. It also finds a deleted endpoint, whose history remains.
func (s *Routes) getEndpoint(ctx context.Context, in *rest.EndpointPath) (*rest.Reply[apitypes.Endpoint], error) {
	e, err := s.Names.Endpoint(ctx, in.Endpoint)
	if err != nil {
		return nil, err
	}
	secrets, err := s.Store.Secrets(ctx, e.ID)
	if err != nil {
		return nil, err
	}
	return rest.Respond(s.viewEndpoint(e, secrets)), nil
}

// changeEndpoint applies a PATCH. An omitted field keeps its value, and null sets the default. A
// new URL must be verified again, and is pinged.
func (s *Routes) changeEndpoint(
	ctx context.Context, in *rest.EndpointPath, body apitypes.EndpointUpdate,
) (*rest.Reply[apitypes.Endpoint], error) {
	if err := checkMaySet(rest.InfoOf(ctx).Caller, body.Policy); err != nil {
		return nil, err
	}
	return s.alter(ctx, in.Endpoint, func(e *postrider.Endpoint) error {
		was := *e
		if err := rest.IfMatch(ctx, was.Revision); err != nil {
			return err
		}
		rest.Set(&e.UID, body.UID, "")
		rest.Set(&e.Description, body.Description, "")
		rest.Set((*apitypes.Metadata)(&e.Metadata), body.Metadata, nil)
		e.URL = cmp.Or(body.URL, e.URL)
		if body.EventTypes != nil {
			e.EventTypes = rest.Patterns(body.EventTypes)
		}
		return s.changePolicy(ctx, e, was, body.Policy)
	})
}

// deleteEndpoint marks the endpoint as deleted. Its pending deliveries are
// cancelled in the background.
func (s *Routes) deleteEndpoint(ctx context.Context, in *rest.EndpointPath) (*rest.None, error) {
	_, err := s.awaited(ctx)(s.modify(ctx, in.Endpoint, func(e *postrider.Endpoint) error {
		e.Status, e.StatusReason = postrider.EndpointDeleted, ""
		return nil
	}))
	switch {
	case errors.Is(err, rest.ErrDeleted): // for a client that repeats a DELETE, a 404 means success
		return nil, postrider.ErrNotFound
	case err == nil:
		s.Effects.Canceller.CancelDeleted()
	}
	return nil, err
}

// modify reads an endpoint, applies the change and stores the endpoint. The store refuses the write
// if the endpoint has changed since the read. modify then starts again with the new state. So
// change may be called several times, and must keep nothing from an earlier call.
func (s *Routes) modify(ctx context.Context, text string, change func(*postrider.Endpoint) error) (*rest.Reply[apitypes.Endpoint], error) {
	return s.put(ctx, text, func(p *store.PutEndpoint) error { return change(&p.Endpoint) })
}

// put is modify for a change that may also close the circuit. If the change alters nothing, nothing
// is stored. put gives up after three conflicts.
//
// A conflict has two causes, and the store does not say which one it is. Either the endpoint has
// changed since the read, which another try resolves, or its new uid is in use, which no try
// resolves. The text of the last error names both causes. The code is uid_taken if the change sets
// another uid.
func (s *Routes) put(ctx context.Context, text string, change func(*store.PutEndpoint) error) (*rest.Reply[apitypes.Endpoint], error) {
	code := "conflict"
	for range 3 {
		e, err := s.Names.ChangeableEndpoint(ctx, text)
		if err != nil {
			return nil, err
		}
		p := store.PutEndpoint{Endpoint: e}
		if err := change(&p); err != nil {
			return nil, err
		}
		if p.Endpoint.UID != e.UID {
			code = "uid_taken"
		}
		// The secrets are read before the write. An error after the write would hide that the write
		// succeeded.
		secrets, err := s.Store.Secrets(ctx, e.ID)
		if err != nil {
			return nil, err
		}
		if !p.CloseCircuit && reflect.DeepEqual(p.Endpoint, e) {
			return rest.Respond(s.viewEndpoint(e, secrets)), nil // updated_at does not change
		}
		circuit, closes, err := s.circuitToClose(ctx, p)
		if err != nil {
			return nil, err
		}
		e, err = s.putEndpoint(ctx, p)
		if err == nil {
			if closes {
				s.Hooks.CircuitChanged.Call(circuit)
			}
			return rest.Respond(s.viewEndpoint(e, secrets)), nil
		}
		if !errors.Is(err, postrider.ErrConflict) {
			return nil, err
		}
	}
	return nil, rest.Conflict(code, "another endpoint of the account has this uid, or it is being changed by others")
}

// circuitToClose returns the circuit as the change will store it, and whether the change closes the
// circuit. The store does not return the circuit. So if an attempt changes the circuit at the same
// moment, the returned circuit is a little out of date.
func (s *Routes) circuitToClose(ctx context.Context, p store.PutEndpoint) (closed postrider.Circuit, closes bool, err error) {
	if !p.CloseCircuit || s.Hooks.CircuitChanged == nil {
		return closed, false, nil
	}
	c, err := s.Circuits.Circuit(ctx, p.Endpoint.ID)
	closed, closes = c.ClosedByHand()
	closed.Generation++
	return closed, closes && err == nil, err
}

// putEndpoint stores an endpoint and notifies the dispatcher. On a conflict it returns the error
// for a uid that is in use. A caller that retries replaces this error, because the store does not
// say which of the two conflicts it found.
func (s *Routes) putEndpoint(ctx context.Context, p store.PutEndpoint) (postrider.Endpoint, error) {
	e, err := s.Store.PutEndpoint(ctx, p)
	if errors.Is(err, postrider.ErrConflict) {
		return e, errors.Join(rest.Conflict("uid_taken", "another endpoint of the account has this uid"), err)
	}
	if err != nil {
		return e, err
	}
	s.Effects.Notify(e.ID)
	return e, nil
}

// awaited returns a function that takes the results of a change of an endpoint. If the change
// succeeded, the function waits until the change is in effect.
func (s *Routes) awaited(ctx context.Context) func(*rest.Reply[apitypes.Endpoint], error) (*rest.Reply[apitypes.Endpoint], error) {
	return func(r *rest.Reply[apitypes.Endpoint], err error) (*rest.Reply[apitypes.Endpoint], error) {
		if err == nil {
			s.Effects.Await(ctx, postrider.Withdrawal{Endpoint: r.Body.ID})
		}
		return r, err
	}
}

// checkSigns refuses a policy with a signature scheme for which the endpoint has no secret. It may
// miss a concurrent rotation or revocation.
func (s *Routes) checkSigns(ctx context.Context, e postrider.Endpoint) error {
	secrets, err := s.Store.Secrets(ctx, e.ID)
	if err != nil {
		return err
	}
	return e.Policy.CheckSecrets(secrets)
}
