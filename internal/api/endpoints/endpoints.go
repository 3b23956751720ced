// Package endpoints is the part of the API that serves endpoints: their fields, policy, credentials,
// status, verification, health and ordering keys, and the test events that people send to them.
//
// No response has a credential. Secret headers and the secrets of authentication stay with the
// host that they were given for; another host gets none of them.
package endpoints

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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

// Verifier asks receivers whether they want events.
type Verifier interface {
	// Verify performs the handshake with the endpoint, by a method of
	// [VerifyMethods]. If the receiver does not agree, or if no secret can sign
	// the handshake, the error matches postrider.ErrConflict. The text of that
	// error is shown to the client.
	Verify(ctx context.Context, to store.EndpointSnapshot, method string) error
}

// VerifyMethods lists the handshakes that ask a receiver for its consent.
var VerifyMethods = []string{"challenge", "cloudevents"}

// Vault encrypts and decrypts the credentials that the store keeps encrypted.
type Vault interface {
	// EncryptCredentials encrypts the credentials into the endpoint. The
	// endpoint's id must be set. Empty credentials are stored as nil.
	EncryptCredentials(ctx context.Context, e *postrider.Endpoint, c postrider.Credentials) error
	// DecryptCredentials returns the endpoint's credentials. Zero: it has none.
	DecryptCredentials(ctx context.Context, e postrider.Endpoint) (postrider.Credentials, error)
}

// Publisher publishes test events.
type Publisher interface {
	// PublishTo stores the event with one delivery, to the given endpoint. The
	// endpoint's event types are ignored.
	PublishTo(ctx context.Context, e postrider.Event, endpoint postrider.EndpointID) (postrider.Receipt, error)
}

// Circuits has the circuits of endpoints.
type Circuits interface {
	// Circuit returns an endpoint's circuit.
	Circuit(ctx context.Context, id postrider.EndpointID) (postrider.Circuit, error)
	// Probe ends the cooldown of a circuit that failures opened.
	Probe(ctx context.Context, e postrider.Endpoint)
}

// Secrets makes secrets.
type Secrets interface {
	// New returns the secrets of a new endpoint, newest first, and their views for the response.
	New(ctx context.Context, endpoint postrider.EndpointID, n apitypes.NewSecrets) ([]postrider.Secret, []apitypes.Secret, error)
}

// Limits has the quotas of accounts.
type Limits interface {
	// MostEndpoints returns how many endpoints an account may have; 0: any number.
	MostEndpoints(ctx context.Context, account postrider.AccountID) (int64, error)
}

// Catalogue has the event types.
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
	// Verify is the method of [VerifyMethods] by which new URLs must be verified. Empty:
	// endpoints need no verification.
	Verify string
}

// Routes serves endpoints.
type Routes struct {
	Deps

	// manualSends limits tests and verifications, per endpoint. Without it, anyone who
	// may create endpoints could make the node send requests to a third party without
	// end.
	manualSends *rest.Limiter[postrider.EndpointID]
}

// New returns the routes of endpoints.
func New(d Deps) *Routes {
	// A burst of five and one every 12 s: at most ten in any minute.
	return &Routes{d, rest.NewLimiter[postrider.EndpointID](12*time.Second, 5,
		"an endpoint is tested or verified at most five times at once, then once every 12 seconds; see Retry-After")}
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
		Scope:   read,
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
		Scope:       write, Withdraws: true,
	}, s.changeEndpoint)
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
		Codes:       []string{"endpoint_deleted", "endpoint_set_aside", "endpoint_is_inspector", "conflict", "url_changed", "verification_failed", "too_often"},
		Scope:       operate, Empty: true, ReceiverTime: handshakeTime,
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

// viewEndpoint returns an endpoint in the form of a response. The secrets serve
// only for the warnings.
func (s *Routes) viewEndpoint(e postrider.Endpoint, secrets []postrider.Secret) apitypes.Endpoint {
	patterns := make([]string, 0, len(e.EventTypes))
	for _, p := range e.EventTypes {
		patterns = append(patterns, string(p))
	}
	view := apitypes.Endpoint{
		ID: e.ID, Account: e.Account, Kind: e.Kind, UID: render.OrNull(e.UID), URL: e.URL, Description: e.Description, EventTypes: patterns,
		Status: e.Status, StatusReason: render.OrNull(e.StatusReason), StatusSince: render.Instant(e.StatusSince),
		FullSince: render.TimeOrNull(e.FullSince), PolicyError: render.OrNull(e.PolicyError), Warnings: s.warnings(e, secrets),
		VerifiedAt: render.TimeOrNull(e.VerifiedAt), CreatedAt: render.Instant(e.CreatedAt), UpdatedAt: render.Instant(e.UpdatedAt),
	}
	if e.PolicyError == "" {
		view.Policy = viewPolicy(e.Policy)
	}
	return view
}

// warnings returns the reasons for which nothing is sent to the endpoint, will not be
// after the last secret expires, or for which new events are skipped. The list is empty,
// not null, if there are none.
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

// createEndpoint creates an endpoint with its secrets. All faults of the
// request are reported together, except that the secrets are matched with the
// signature schemes last: whether they fit is only known if both are valid. The
// endpoint starts with the default policy, and the request is applied to it as a
// change would be. The response shows the texts of the secrets.
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
		Description: body.Description, Status: postrider.EndpointEnabled, Policy: postrider.DefaultPolicy(),
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
	view := s.viewEndpoint(e, secrets)
	view.Secrets = shown
	return rest.Respond(view), nil
}

// setPolicy applies the policy of the request to the endpoint, normalizes its
// URLs, encrypts its credentials, and returns all faults. The endpoint's other
// fields must be set. The argument was is the stored endpoint; zero: the
// endpoint is new.
//
// Create and update share this function, so that both check the same. The order
// matters: the canonical URL decides whether the host changed, the host decides
// which stored secrets the request may keep, and only then is it known which
// secrets are missing. The result is encrypted last, after every check has passed.
//
// Credentials are decrypted only if the request names some or if the host changes.
// Most changes need no encryption key, and so still work if the key is missing.
func (s *Routes) setPolicy(ctx context.Context, e *postrider.Endpoint, was postrider.Endpoint, to apitypes.Policy) error {
	url, urlErr := s.checkURL(*e)
	e.URL = url
	moved := urlErr == nil && host(url) != host(was.URL)
	if e.PolicyError != "" {
		named, missing := policyFields(to)
		if named == 0 && !moved { // a new host must not get the credentials of the old one
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
	// The secrets of headers and of authentication are bound to their host, so a new
	// host gets none of them. Otherwise a person who may change an endpoint, but not
	// read its secrets, could have them sent to a host of their own. The TLS key
	// stays, because it is never sent.
	if moved {
		c.Headers, c.Auth = nil, ""
	}
	policyErr := applyPolicy(&e.Policy, &c, to)
	faults := []error{urlErr, checkEndpoint(*e), e.Policy.Check(), s.checkTokenURL(&e.Policy.Auth), checkInspector(*e), policyErr}
	if opened && policyErr == nil {
		faults = append(faults, s.checkCredentials(was.Policy, e.Policy, c, to))
	}
	if err := errors.Join(faults...); err != nil || !opened {
		return err
	}
	return s.Vault.EncryptCredentials(ctx, e, c)
}

// CheckURL returns the canonical form of the endpoint's URL; an inspector has none.
func (s *Routes) checkURL(e postrider.Endpoint) (string, error) {
	switch {
	case e.Kind != postrider.KindInspector:
		return s.Guard.CheckURL(e.URL)
	case e.URL != "":
		return "", rest.Invalid("url", postrider.FaultNotAllowed, "must be left out: an inspector has none")
	}
	return "", nil
}

// checkInspector refuses the options of an inspector that say how to connect to a
// receiver: there is none.
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

// checkEndpoint returns all faults of an endpoint's fields besides its URL and
// its policy.
func checkEndpoint(e postrider.Endpoint) error {
	faults := []error{rest.CheckUID(e.UID), rest.CheckText("description", e.Description, rest.MaxDescription)}
	if n := len(e.EventTypes); n < 1 || n > rest.MaxPatterns {
		faults = append(faults, rest.WrongCount("event_types", 1, rest.MaxPatterns, "patterns"))
	}
	for i, p := range e.EventTypes[:min(len(e.EventTypes), rest.MaxPatterns)] {
		faults = append(faults, p.Check(fmt.Sprintf("event_types[%d]", i)))
	}
	return errors.Join(faults...)
}

// checkTokenURL validates and normalizes the URL of the OAuth 2.0 token server.
// This URL is subject to the same rules as the endpoint's own, because the node
// sends requests to it too.
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

// getEndpoint returns a deleted endpoint too, because its history remains.
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

// changeEndpoint applies a PATCH: an omitted field keeps its value, and null
// sets the default. A new URL must be verified again.
func (s *Routes) changeEndpoint(ctx context.Context, in *rest.EndpointPath, body apitypes.EndpointUpdate) (*rest.Reply[apitypes.Endpoint], error) {
	if err := checkMaySet(rest.InfoOf(ctx).Caller, body.Policy); err != nil {
		return nil, err
	}
	return s.awaited(ctx)(s.modify(ctx, in.Endpoint, func(e *postrider.Endpoint) error {
		was := *e
		rest.Set(&e.UID, body.UID, "")
		rest.Set(&e.Description, body.Description, "")
		e.URL = cmp.Or(body.URL, e.URL)
		if body.EventTypes != nil {
			e.EventTypes = rest.Patterns(body.EventTypes)
		}
		if err := s.setPolicy(ctx, e, was, body.Policy); err != nil {
			return err
		}
		if !body.Signature.IsZero() {
			if err := s.checkSigns(ctx, *e); err != nil {
				return err
			}
		}
		if e.URL != was.URL {
			s.resetVerification(e)
			if from, to := host(was.URL), host(e.URL); from != to {
				rest.InfoOf(ctx).Note("host", from+" to "+to)
			}
		}
		rest.InfoOf(ctx).Changed(s.viewEndpoint(was, nil), s.viewEndpoint(*e, nil))
		return nil
	}))
}

// deleteEndpoint marks the endpoint as deleted. Its pending deliveries are
// cancelled in the background.
func (s *Routes) deleteEndpoint(ctx context.Context, in *rest.EndpointPath) (*rest.None, error) {
	_, err := s.awaited(ctx)(s.modify(ctx, in.Endpoint, func(e *postrider.Endpoint) error {
		e.Status, e.StatusReason = postrider.EndpointDeleted, ""
		return nil
	}))
	switch {
	case errors.Is(err, rest.ErrDeleted): // a client that repeats a DELETE takes a 404 for success
		return nil, postrider.ErrNotFound
	case err == nil:
		s.Effects.Canceller.CancelDeleted()
	}
	return nil, err
}

// modify reads an endpoint, applies the change and stores it. The store refuses the
// write if the endpoint has changed since it was read. modify then starts again
// with the new state, so change may be called several times and must not keep
// anything from an earlier call.
func (s *Routes) modify(ctx context.Context, text string, change func(*postrider.Endpoint) error) (*rest.Reply[apitypes.Endpoint], error) {
	return s.put(ctx, text, func(p *store.PutEndpoint) error { return change(&p.Endpoint) })
}

// put is modify for a change that may also close the circuit. A change of nothing is
// not stored. It gives up after three conflicts. A conflict has two causes that the store does not tell apart: the
// endpoint has changed since it was read, which another try resolves, or its new uid
// is in use, which none does. The text of the last error names both; its code takes a
// change of the uid for the cause.
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
		// Before the write: a later error would hide that it succeeded.
		secrets, err := s.Store.Secrets(ctx, e.ID)
		if err != nil {
			return nil, err
		}
		if !p.CloseCircuit && reflect.DeepEqual(p.Endpoint, e) {
			return rest.Respond(s.viewEndpoint(e, secrets)), nil // updated_at stays
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

// circuitToClose returns the circuit as the change is about to store it, and
// whether the change closes it. The store does not return the circuit; an attempt
// that changes it at the same moment makes the one returned here a little older.
func (s *Routes) circuitToClose(ctx context.Context, p store.PutEndpoint) (closed postrider.Circuit, closes bool, err error) {
	if !p.CloseCircuit || s.Hooks.CircuitChanged == nil {
		return closed, false, nil
	}
	c, err := s.Circuits.Circuit(ctx, p.Endpoint.ID)
	closed, closes = c.ClosedByHand()
	closed.Generation++
	return closed, closes && err == nil, err
}

// putEndpoint stores an endpoint and notifies the dispatcher. A conflict gets
// the text for a uid that is in use. The caller that retries replaces the text,
// since the store does not tell the two conflicts apart.
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

// awaited returns a function that awaits the change of an endpoint that its arguments say of.
func (s *Routes) awaited(ctx context.Context) func(*rest.Reply[apitypes.Endpoint], error) (*rest.Reply[apitypes.Endpoint], error) {
	return func(r *rest.Reply[apitypes.Endpoint], err error) (*rest.Reply[apitypes.Endpoint], error) {
		if err == nil {
			s.Effects.Await(ctx, postrider.Withdrawal{Endpoint: r.Body.ID})
		}
		return r, err
	}
}

// checkSigns refuses a policy with a scheme that no secret of the endpoint can
// serve. It may miss a concurrent rotation or revocation.
func (s *Routes) checkSigns(ctx context.Context, e postrider.Endpoint) error {
	secrets, err := s.Store.Secrets(ctx, e.ID)
	if err != nil {
		return err
	}
	return e.Policy.CheckSecrets(secrets)
}
