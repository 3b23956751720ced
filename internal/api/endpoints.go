package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/store"
)

// maxPatterns is the largest number of event type patterns of one endpoint.
const maxPatterns = 256

// viewEndpoint returns an endpoint in the form of a response. The secrets serve
// only for the warnings.
func (s *server) viewEndpoint(e postrider.Endpoint, secrets []postrider.Secret) apitypes.Endpoint {
	patterns := make([]string, 0, len(e.EventTypes))
	for _, p := range e.EventTypes {
		patterns = append(patterns, string(p))
	}
	view := apitypes.Endpoint{
		ID: e.ID, Account: e.Account, Kind: e.Kind, UID: orNull(e.UID), URL: e.URL, Description: e.Description,
		EventTypes: patterns, Status: e.Status, StatusReason: orNull(e.StatusReason), StatusSince: instant(e.StatusSince), FullSince: timeOrNull(e.FullSince), PolicyError: orNull(e.PolicyError),
		Warnings: s.warnings(e, secrets), VerifiedAt: timeOrNull(e.VerifiedAt), CreatedAt: instant(e.CreatedAt), UpdatedAt: instant(e.UpdatedAt),
	}
	if e.PolicyError == "" {
		view.Policy = viewPolicy(e.Policy)
	}
	return view
}

// warnings returns the reasons for which nothing is sent to the endpoint, will not be
// after the last secret expires, or for which new events are skipped. The list is empty,
// not null, if there are none.
func (s *server) warnings(e postrider.Endpoint, secrets []postrider.Secret) []string {
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

// EndpointPath names an endpoint.
type EndpointPath struct {
	Endpoint string `path:"endpoint" doc:"Id of the endpoint, or its uid: the uid with a key that is bound to an account, otherwise ACCOUNT:UID with the id or the uid of its account."`
}

// endpoints registers the routes of endpoints.
func (rt *router) endpoints() {
	read, write, operate := postrider.ScopeWebhooksRead, postrider.ScopeEndpointsWrite, postrider.ScopeWebhooksOperate
	handle(rt, route{
		name: "create-endpoint", path: "POST /endpoints",
		summary: "Create an endpoint",
		codes:   []string{"uid_taken", "endpoint_quota_used"},
		scope:   write, status: 201, body: apitypes.EndpointCreate{},
	}, rt.createEndpoint)
	handle(rt, route{
		name: "list-endpoints", path: "GET /endpoints",
		summary: "List endpoints, newest first",
		scope:   read,
	}, rt.listEndpoints)
	handle(rt, route{
		name: "get-endpoint", path: "GET /endpoints/{endpoint}",
		summary:     "Get an endpoint",
		description: "A deleted endpoint is found too.",
		scope:       read,
	}, rt.getEndpoint)
	handle(rt, route{
		name: "update-endpoint", path: "PATCH /endpoints/{endpoint}",
		summary:     "Change an endpoint",
		description: "A field that is left out keeps its value. Null sets a field back to its default.",
		codes:       []string{"endpoint_deleted", "uid_taken", "conflict"},
		scope:       write, body: apitypes.EndpointUpdate{}, withdraws: true,
	}, rt.changeEndpoint)
	handle(rt, route{
		name: "delete-endpoint", path: "DELETE /endpoints/{endpoint}",
		summary: "Delete an endpoint and cancel its pending deliveries",
		codes:   []string{"conflict"},
		scope:   write, status: 204, withdraws: true,
	}, rt.deleteEndpoint)
	rt.statusChanges()
	handle(rt, route{
		name: "verify-endpoint", path: "POST /endpoints/{endpoint}/verify",
		summary:     "Verify that an endpoint's receiver wants events",
		description: "If the endpoint is paused because its receiver has not agreed yet, an agreement resumes it.",
		codes:       []string{"endpoint_deleted", "endpoint_set_aside", "endpoint_is_inspector", "conflict", "url_changed", "verification_failed", "too_often"},
		scope:       operate, body: apitypes.EndpointVerification{}, empty: true, receiverTime: handshakeTime,
	}, rt.verifyEndpoint)
	handle(rt, route{
		name: "test-endpoint", path: "POST /endpoints/{endpoint}/test",
		summary:     "Send a test event to this endpoint alone",
		description: "The endpoint's event types do not matter.",
		codes:       []string{"endpoint_deleted", "endpoint_set_aside", "endpoint_paused", "endpoint_disabled", "too_often"},
		scope:       operate, status: 202, body: apitypes.EndpointTest{}, empty: true,
	}, rt.testEndpoint)
}

// statusChanges registers the routes that change the status of an endpoint.
func (rt *router) statusChanges() {
	for _, c := range statusChanges {
		codes := []string{"endpoint_deleted", "conflict"}
		for _, status := range []postrider.EndpointStatus{postrider.EndpointEnabled, postrider.EndpointPaused, postrider.EndpointDisabled} {
			if !slices.Contains(c.from, status) {
				codes = append(codes, "endpoint_"+string(status))
			}
		}
		if c.to == postrider.EndpointEnabled {
			codes = append(codes, "unverified")
		}
		handle(rt, route{
			name: c.verb + "-endpoint", path: "POST /endpoints/{endpoint}/" + c.verb,
			summary: c.summary, description: c.description,
			codes: codes,
			scope: c.scope, body: apitypes.EndpointReason{}, empty: true, withdraws: c.to != postrider.EndpointEnabled,
		}, rt.changeStatus(c))
	}
}

// createEndpoint creates an endpoint with its secrets. All faults of the
// request are reported together, except that the secrets are matched with the
// signature schemes last: whether they fit is only known if both are valid. The
// endpoint starts with the default policy, and the request is applied to it as a
// change would be. The response shows the texts of the secrets.
func (s *server) createEndpoint(ctx context.Context, _ *none) (*reply[apitypes.Endpoint], error) {
	var body apitypes.EndpointCreate
	if err := decode(ctx, &body); err != nil {
		return nil, err
	}
	if err := checkMaySet(infoOf(ctx).caller, body.Policy); err != nil {
		return nil, err
	}
	account, err := s.requireAccount(ctx, "account", body.Account)
	if err != nil && !errors.Is(err, postrider.ErrInvalid) {
		return nil, err
	}
	e := postrider.Endpoint{
		ID: store.NewID[postrider.EndpointID](s.IDs), Account: account, Kind: cmp.Or(body.Kind, postrider.KindHTTP), UID: body.UID, URL: body.URL,
		Description: body.Description, Status: postrider.EndpointEnabled, Policy: postrider.DefaultPolicy(),
	}
	e.EventTypes = patterns(body.EventTypes)
	faults := s.setPolicy(ctx, &e, postrider.Endpoint{}, body.Policy)
	secrets, shown, secretErr := s.newSecrets(ctx, e.ID, body.NewSecrets)
	if err := errors.Join(err, faults, secretErr); err != nil {
		return nil, err
	}
	if err := e.Policy.CheckSecrets(secrets); err != nil {
		return nil, err
	}
	s.resetVerification(&e)
	most, err := s.mostEndpoints(ctx, account)
	if err != nil {
		return nil, err
	}
	e, err = s.putEndpoint(ctx, store.PutEndpoint{Endpoint: e, Secrets: secrets, Most: most})
	if err != nil {
		if used, ok := errors.AsType[*postrider.QuotaError](err); ok {
			s.opts.Hooks.QuotaUsed.Call(used)
		}
		return nil, err
	}
	view := s.viewEndpoint(e, secrets)
	view.Secrets = shown
	return respond(view), nil
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
func (s *server) setPolicy(ctx context.Context, e *postrider.Endpoint, was postrider.Endpoint, to apitypes.Policy) error {
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

// checkURL returns the canonical form of the endpoint's URL; an inspector has none.
func (s *server) checkURL(e postrider.Endpoint) (string, error) {
	switch {
	case e.Kind != postrider.KindInspector:
		return s.Guard.CheckURL(e.URL)
	case e.URL != "":
		return "", invalid("url", postrider.FaultNotAllowed, "must be left out: an inspector has none")
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
		faults = append(faults, invalid("tls", postrider.FaultNotAllowed, reason))
	}
	if e.Policy.Auth.Kind == postrider.AuthOAuth2 {
		faults = append(faults, invalid("auth.type", postrider.FaultNotAllowed, reason))
	}
	if e.Policy.MaxRedirects != 0 {
		faults = append(faults, invalid("max_redirects", postrider.FaultNotAllowed, reason))
	}
	return errors.Join(faults...)
}

// checkEndpoint returns all faults of an endpoint's fields besides its URL and
// its policy.
func checkEndpoint(e postrider.Endpoint) error {
	faults := []error{checkUID(e.UID), checkText("description", e.Description, maxDescription)}
	if n := len(e.EventTypes); n < 1 || n > maxPatterns {
		faults = append(faults, wrongCount("event_types", 1, maxPatterns, "patterns"))
	}
	for i, p := range e.EventTypes[:min(len(e.EventTypes), maxPatterns)] {
		faults = append(faults, p.Check(fmt.Sprintf("event_types[%d]", i)))
	}
	return errors.Join(faults...)
}

// checkTokenURL validates and normalizes the URL of the OAuth 2.0 token server.
// This URL is subject to the same rules as the endpoint's own, because the node
// sends requests to it too.
func (s *server) checkTokenURL(a *postrider.Auth) error {
	if a.Kind != postrider.AuthOAuth2 {
		return nil
	}
	if a.TokenURL == "" {
		return invalid("auth.token_url", postrider.FaultRequired, "is required")
	}
	url, err := s.Guard.CheckURL(a.TokenURL)
	a.TokenURL = url
	for _, f := range postrider.Faults(err) {
		f.Field = "auth.token_url"
	}
	return err
}

// patterns converts the texts without validation, which is checkEndpoint's.
func patterns(texts []string) []postrider.Pattern {
	list := make([]postrider.Pattern, 0, len(texts))
	for _, text := range texts {
		list = append(list, postrider.Pattern(text))
	}
	return list
}

// getEndpoint returns a deleted endpoint too, because its history remains.
func (s *server) getEndpoint(ctx context.Context, in *EndpointPath) (*reply[apitypes.Endpoint], error) {
	e, err := s.findEndpoint(ctx, in.Endpoint)
	if err != nil {
		return nil, err
	}
	secrets, err := s.Store.Secrets(ctx, e.ID)
	if err != nil {
		return nil, err
	}
	return respond(s.viewEndpoint(e, secrets)), nil
}

// changeEndpoint applies a PATCH: an omitted field keeps its value, and null
// sets the default. A new URL must be verified again.
func (s *server) changeEndpoint(ctx context.Context, in *EndpointPath) (*reply[apitypes.Endpoint], error) {
	var body apitypes.EndpointUpdate
	if err := decode(ctx, &body); err != nil {
		return nil, err
	}
	if err := checkMaySet(infoOf(ctx).caller, body.Policy); err != nil {
		return nil, err
	}
	return s.awaited(ctx)(s.modify(ctx, in.Endpoint, func(e *postrider.Endpoint) error {
		was := *e
		set(&e.UID, body.UID, "")
		set(&e.Description, body.Description, "")
		e.URL = cmp.Or(body.URL, e.URL)
		if body.EventTypes != nil {
			e.EventTypes = patterns(body.EventTypes)
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
				infoOf(ctx).note("host", from+" to "+to)
			}
		}
		infoOf(ctx).changed(s.viewEndpoint(was, nil), s.viewEndpoint(*e, nil))
		return nil
	}))
}

// deleteEndpoint marks the endpoint as deleted. Its pending deliveries are
// cancelled in the background.
func (s *server) deleteEndpoint(ctx context.Context, in *EndpointPath) (*none, error) {
	_, err := s.awaited(ctx)(s.modify(ctx, in.Endpoint, func(e *postrider.Endpoint) error {
		e.Status, e.StatusReason = postrider.EndpointDeleted, ""
		return nil
	}))
	switch {
	case errors.Is(err, errDeleted): // a client that repeats a DELETE takes a 404 for success
		return nil, postrider.ErrNotFound
	case err == nil:
		s.Canceller.CancelDeleted()
	}
	return nil, err
}

// statusChange is one of the changes of an endpoint's status that the API
// offers.
type statusChange struct {
	// verb is the last segment of the path. For the other two see route.
	verb, summary, description string

	// scope is the scope that the change needs.
	scope postrider.Scope
	// to is the status after the change.
	to postrider.EndpointStatus
	// from are the statuses that allow the change. If the endpoint already has
	// the status to, a repeated request succeeds.
	from []postrider.EndpointStatus
	// closes is true if the change also closes the circuit, so that deliveries
	// start again at once.
	closes bool
}

// statusChanges has the four changes. Pause and resume are meant for
// maintenance; disable and enable also for endpoints that Postrider disabled
// for their failures. A disabled endpoint loses events, so disabling needs another scope
// than the rest.
var statusChanges = []statusChange{{
	verb: "pause", summary: "Pause an endpoint", description: "Its deliveries wait until it is resumed.",
	scope: postrider.ScopeWebhooksOperate,
	to:    postrider.EndpointPaused, from: []postrider.EndpointStatus{postrider.EndpointEnabled, postrider.EndpointPaused},
}, {
	verb: "resume", summary: "Resume a paused endpoint", description: "Deliveries that are due are sent. Those that wait for a retry keep their time.",
	scope: postrider.ScopeWebhooksOperate,
	to:    postrider.EndpointEnabled, from: []postrider.EndpointStatus{postrider.EndpointEnabled, postrider.EndpointPaused},
}, {
	verb: "enable", summary: "Enable a disabled endpoint", description: "Its circuit is closed, too. Deliveries that are due are sent; those that wait for a retry keep their time. Repeated, it changes nothing more.",
	scope: postrider.ScopeWebhooksOperate,
	to:    postrider.EndpointEnabled, from: []postrider.EndpointStatus{postrider.EndpointEnabled, postrider.EndpointDisabled},
	closes: true,
}, {
	verb: "disable", summary: "Disable an endpoint", description: "Pending deliveries wait until it is enabled. Events that are published in the meantime are skipped.",
	scope: postrider.ScopeEndpointsWrite,
	to:    postrider.EndpointDisabled,
	from:  []postrider.EndpointStatus{postrider.EndpointEnabled, postrider.EndpointPaused, postrider.EndpointDisabled},
}}

// changeStatus returns the handler of a status change. The status and the
// circuit change in one transaction.
func (s *server) changeStatus(c statusChange) func(context.Context, *EndpointPath) (*reply[apitypes.Endpoint], error) {
	return func(ctx context.Context, in *EndpointPath) (*reply[apitypes.Endpoint], error) {
		var body apitypes.EndpointReason
		if err := decodeIfAny(ctx, &body); err != nil {
			return nil, err
		}
		wait := s.awaited(ctx)
		if c.to == postrider.EndpointEnabled { // nothing is taken away
			wait = func(r *reply[apitypes.Endpoint], err error) (*reply[apitypes.Endpoint], error) { return r, err }
		}
		return wait(s.put(ctx, in.Endpoint, func(p *store.PutEndpoint) error {
			e := &p.Endpoint
			if !slices.Contains(c.from, e.Status) {
				return conflict("endpoint_"+string(e.Status), "the endpoint is "+string(e.Status))
			}
			if err := s.requireVerified(*e, c.to); err != nil {
				return err
			}
			e.Status, e.StatusReason = c.to, body.Reason
			p.CloseCircuit = c.closes
			if c.to == postrider.EndpointEnabled {
				e.StatusReason = ""
			}
			return checkText("reason", body.Reason, maxDescription)
		}))
	}
}

// findEndpoint returns the endpoint if the caller may see it, also a deleted one, and
// notes it for the log and the audit log.
func (s *server) findEndpoint(ctx context.Context, text string) (postrider.Endpoint, error) {
	c := infoOf(ctx)
	e, err := s.endpointOf(ctx, c.caller.Account, text)
	c.endpoint, c.account = e.ID, cmp.Or(c.account, e.Account)
	return e, err
}

// endpointOf returns the endpoint with this id or uid. A uid is unique only within its
// account: if that is not known, the name must be ACCOUNT:UID.
func (s *server) endpointOf(ctx context.Context, account postrider.AccountID, name string) (postrider.Endpoint, error) {
	if id, err := parseID[postrider.EndpointID](name); err == nil {
		return store.First(s.Store.Endpoints(ctx, store.EndpointQuery{Account: account, ID: id}))
	}
	if account.IsZero() {
		of, uid, _ := strings.Cut(name, ":")
		named, err := s.accountNamed(ctx, of)
		if err != nil {
			return postrider.Endpoint{}, err
		}
		account, name = named.id, uid
	}
	if name == "" { // the query would have no filter
		return postrider.Endpoint{}, postrider.ErrNotFound
	}
	return store.First(s.Store.Endpoints(ctx, store.EndpointQuery{Account: account, UID: name}))
}

// findReadable is findChangeable for operations that need the endpoint's policy.
func (s *server) findReadable(ctx context.Context, text string) (postrider.Endpoint, error) {
	e, err := s.findChangeable(ctx, text)
	if err == nil && e.PolicyError != "" {
		return e, conflict("endpoint_set_aside", "the endpoint is set aside until its policy is set again: "+e.PolicyError)
	}
	return e, err
}

// findChangeable is findEndpoint for operations that a deleted endpoint does not
// support. It is a conflict and not a 404, because a GET finds the endpoint.
func (s *server) findChangeable(ctx context.Context, text string) (postrider.Endpoint, error) {
	e, err := s.findEndpoint(ctx, text)
	if err == nil && e.Status == postrider.EndpointDeleted {
		return e, errDeleted
	}
	return e, err
}

// errDeleted is the response to operations on a deleted endpoint.
var errDeleted = conflict("endpoint_deleted", "the endpoint is deleted")

// findLive is findEndpoint for reading what only an endpoint has that is not deleted: its
// secrets, circuit and ordering keys. Of a deleted one they are not found.
func (s *server) findLive(ctx context.Context, text string) (postrider.Endpoint, error) {
	e, err := s.findEndpoint(ctx, text)
	if err == nil && e.Status == postrider.EndpointDeleted {
		return e, postrider.ErrNotFound
	}
	return e, err
}

// modify reads an endpoint, applies the change and stores it. The store refuses the
// write if the endpoint has changed since it was read. modify then starts again
// with the new state, so change may be called several times and must not keep
// anything from an earlier call.
func (s *server) modify(ctx context.Context, text string, change func(*postrider.Endpoint) error) (*reply[apitypes.Endpoint], error) {
	return s.put(ctx, text, func(p *store.PutEndpoint) error { return change(&p.Endpoint) })
}

// put is modify for a change that may also close the circuit. A change of nothing is
// not stored. It gives up after three conflicts. A conflict has two causes that the store does not tell apart: the
// endpoint has changed since it was read, which another try resolves, or its new uid
// is in use, which none does. The text of the last error names both; its code takes a
// change of the uid for the cause.
func (s *server) put(ctx context.Context, text string, change func(*store.PutEndpoint) error) (*reply[apitypes.Endpoint], error) {
	code := "conflict"
	for range 3 {
		e, err := s.findChangeable(ctx, text)
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
			return respond(s.viewEndpoint(e, secrets)), nil // updated_at stays
		}
		circuit, closes, err := s.circuitToClose(ctx, p)
		if err != nil {
			return nil, err
		}
		e, err = s.putEndpoint(ctx, p)
		if err == nil {
			if closes {
				s.opts.Hooks.CircuitChanged.Call(circuit)
			}
			return respond(s.viewEndpoint(e, secrets)), nil
		}
		if !errors.Is(err, postrider.ErrConflict) {
			return nil, err
		}
	}
	return nil, conflict(code, "another endpoint of the account has this uid, or it is being changed by others")
}

// circuitToClose returns the circuit as the change is about to store it, and
// whether the change closes it. The store does not return the circuit; an attempt
// that changes it at the same moment makes the one returned here a little older.
func (s *server) circuitToClose(ctx context.Context, p store.PutEndpoint) (closed postrider.Circuit, closes bool, err error) {
	if !p.CloseCircuit || s.opts.Hooks.CircuitChanged == nil {
		return closed, false, nil
	}
	c, err := s.circuit(ctx, p.Endpoint.ID)
	closed, closes = c.ClosedByHand()
	closed.Generation++
	return closed, closes && err == nil, err
}

// putEndpoint stores an endpoint and notifies the dispatcher. A conflict gets
// the text for a uid that is in use. The caller that retries replaces the text,
// since the store does not tell the two conflicts apart.
func (s *server) putEndpoint(ctx context.Context, p store.PutEndpoint) (postrider.Endpoint, error) {
	e, err := s.Store.PutEndpoint(ctx, p)
	if errors.Is(err, postrider.ErrConflict) {
		return e, errors.Join(conflict("uid_taken", "another endpoint of the account has this uid"), err)
	}
	if err != nil {
		return e, err
	}
	s.Notifier.Notify(e.ID)
	return e, nil
}
