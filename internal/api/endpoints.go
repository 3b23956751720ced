package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/store"
)

const maxPatterns = 256 // of one endpoint

// viewEndpoint shows an endpoint whose secrets are known.
func viewEndpoint(e postrider.Endpoint, secrets []postrider.Secret) apitypes.Endpoint {
	patterns := make([]string, 0, len(e.EventTypes))
	for _, p := range e.EventTypes {
		patterns = append(patterns, string(p))
	}
	return apitypes.Endpoint{
		ID: e.ID, Account: e.Account, UID: orNull(e.UID), URL: e.URL, Description: e.Description,
		EventTypes: patterns, Status: e.Status, StatusReason: orNull(e.StatusReason), Policy: viewPolicy(e.Policy),
		Warnings: warnings(e, secrets), VerifiedAt: timeOrNull(e.VerifiedAt), CreatedAt: instant(e.CreatedAt), UpdatedAt: instant(e.UpdatedAt),
	}
}

// warnings returns what keeps, or will keep, requests to the endpoint from being
// signed.
func warnings(e postrider.Endpoint, secrets []postrider.Secret) []string {
	lasts := func(s postrider.Secret) bool { return s.ExpiresAt.IsZero() }
	switch {
	case e.Status == postrider.EndpointDeleted:
	case len(secrets) == 0:
		return []string{"no_secret"}
	case !slices.ContainsFunc(secrets, lasts):
		return []string{"secrets_expire"}
	}
	return []string{}
}

// EndpointPath names an endpoint.
type EndpointPath struct {
	Endpoint string `path:"endpoint" doc:"Id of the endpoint. With a key that is bound to an account, its uid works too."`
}

func (rt *router) endpoints() {
	read, write := postrider.ScopeWebhooksRead, postrider.ScopeWebhooksWrite
	handle(rt, route{
		name: "create-endpoint", path: "POST /endpoints",
		about: "Create an endpoint",
		codes: []string{"not_found", "conflict"},
		scope: write, status: 201, body: apitypes.EndpointCreate{},
	}, rt.createEndpoint)
	handle(rt, route{
		name: "list-endpoints", path: "GET /endpoints",
		about: "List endpoints, newest first",
		codes: []string{"not_found"},
		scope: read,
	}, rt.listEndpoints)
	handle(rt, route{
		name: "get-endpoint", path: "GET /endpoints/{endpoint}",
		about: "Get an endpoint",
		tells: "A deleted endpoint is found too.",
		scope: read,
	}, rt.getEndpoint)
	handle(rt, route{
		name: "update-endpoint", path: "PATCH /endpoints/{endpoint}",
		about: "Change an endpoint",
		tells: "A field that is left out keeps its value. Null sets a field back to its default.",
		codes: []string{"conflict"},
		scope: write, body: apitypes.EndpointUpdate{},
	}, rt.changeEndpoint)
	handle(rt, route{
		name: "delete-endpoint", path: "DELETE /endpoints/{endpoint}",
		about: "Delete an endpoint and cancel its pending deliveries",
		codes: []string{"conflict"},
		scope: write, status: 204,
	}, rt.deleteEndpoint)
	for _, c := range statusChanges {
		codes := []string{"conflict"}
		if c.to == postrider.EndpointEnabled {
			codes = append(codes, "unverified")
		}
		handle(rt, route{
			name: c.verb + "-endpoint", path: "POST /endpoints/{endpoint}/" + c.verb,
			about: c.about, tells: c.tells,
			codes: codes,
			scope: write, body: apitypes.EndpointReason{}, empty: true,
		}, rt.changeStatus(c))
	}
	handle(rt, route{
		name: "verify-endpoint", path: "POST /endpoints/{endpoint}/verify",
		about: "Verify that an endpoint's receiver wants events",
		tells: "If the endpoint is paused because its receiver has not agreed yet, an agreement resumes it.",
		codes: []string{"conflict", "verification_failed", "too_often"},
		scope: write, body: apitypes.EndpointVerification{}, empty: true, asks: handshakeTime,
	}, rt.verifyEndpoint)
	handle(rt, route{
		name: "test-endpoint", path: "POST /endpoints/{endpoint}/test",
		about: "Send a postrider.test event to this endpoint alone",
		tells: "The event has the type postrider.test.",
		codes: []string{"conflict", "too_often"},
		scope: write, status: 202,
	}, rt.testEndpoint)
}

func (s *server) createEndpoint(ctx context.Context, _ *none) (*reply[apitypes.Endpoint], error) {
	var body apitypes.EndpointCreate
	if err := decode(ctx, &body); err != nil {
		return nil, err
	}
	account, err := s.requireAccount(ctx, "account", body.Account)
	if err != nil && !errors.Is(err, postrider.ErrInvalid) {
		return nil, err
	}
	e := postrider.Endpoint{
		ID: store.NewID[postrider.EndpointID](s.IDs), Account: account, UID: body.UID, URL: body.URL,
		Description: body.Description, Status: postrider.EndpointEnabled, Policy: postrider.DefaultPolicy(),
	}
	e.EventTypes = patterns(body.EventTypes)
	faults := s.complete(ctx, &e, postrider.Endpoint{}, body.Policy)
	secrets, shown, secretErr := s.newSecrets(ctx, e.ID, body.NewSecrets)
	if err := errors.Join(err, faults, secretErr); err != nil {
		return nil, err
	}
	if err := e.Policy.CheckSecrets(secrets); err != nil {
		return nil, err
	}
	s.resetVerification(&e)
	e, err = s.putEndpoint(ctx, store.PutEndpoint{Endpoint: e, Secrets: secrets})
	if err != nil {
		return nil, err
	}
	view := viewEndpoint(e, secrets)
	view.Secrets = shown
	return answered(view), nil
}

// complete puts what the request says of the policy into the endpoint, whose
// other fields are set, makes its URLs canonical, encrypts its credentials, and
// returns every fault. Was is the endpoint as it is stored; zero: it is new.
func (s *server) complete(ctx context.Context, e *postrider.Endpoint, was postrider.Endpoint, to apitypes.Policy) error {
	url, urlErr := s.Guard.CheckURL(e.URL)
	e.URL = url
	moved := urlErr == nil && host(url) != host(was.URL)
	opened := namesCredentials(to) || moved && was.Credentials != nil
	var c postrider.Credentials
	if opened {
		var err error
		if c, err = s.Vault.DecryptCredentials(ctx, was); err != nil {
			return err
		}
	}
	if moved {
		c.Headers, c.Auth = nil, ""
	}
	policyErr := applyPolicy(&e.Policy, &c, to)
	faults := []error{urlErr, checkEndpoint(*e), e.Policy.Check(), s.checkTokenURL(&e.Policy.Auth), policyErr}
	if opened && policyErr == nil {
		faults = append(faults, s.checkCredentials(was.Policy, e.Policy, c, to))
	}
	if err := errors.Join(faults...); err != nil || !opened {
		return err
	}
	return s.Vault.EncryptCredentials(ctx, e, c)
}

// checkEndpoint returns every fault of what an endpoint has besides its URL and
// its policy.
func checkEndpoint(e postrider.Endpoint) error {
	faults := []error{checkUID(e.UID), checkText("description", e.Description, maxDescription)}
	if n := len(e.EventTypes); n < 1 || n > maxPatterns {
		faults = append(faults, invalid("event_types", fmt.Sprintf("must have 1 to %d patterns", maxPatterns)))
	}
	for i, p := range e.EventTypes[:min(len(e.EventTypes), maxPatterns)] {
		faults = append(faults, p.Check(fmt.Sprintf("event_types[%d]", i)))
	}
	return errors.Join(faults...)
}

// checkTokenURL returns the fault of where tokens come from, and makes it
// canonical.
func (s *server) checkTokenURL(a *postrider.Auth) error {
	if a.Kind != postrider.AuthOAuth2 {
		return nil
	}
	if a.TokenURL == "" {
		return invalid("auth.token_url", "is required")
	}
	url, err := s.Guard.CheckURL(a.TokenURL)
	a.TokenURL = url
	for _, f := range postrider.Faults(err) {
		f.Field = "auth.token_url"
	}
	return err
}

func patterns(texts []string) []postrider.Pattern {
	list := make([]postrider.Pattern, 0, len(texts))
	for _, text := range texts {
		list = append(list, postrider.Pattern(text))
	}
	return list
}

func (s *server) listEndpoints(ctx context.Context, in *struct {
	Account string `query:"account" doc:"Id or uid of the account."`
	UID     string `query:"uid" doc:"Uid of the endpoint. It needs the account too."`
	Status  string `query:"status" enum:"enabled,paused,disabled"`
	Paging
},
) (*reply[apitypes.Page[apitypes.Endpoint]], error) {
	account, err := s.resolveAccount(ctx, "account", in.Account)
	if err != nil {
		return nil, err
	}
	if in.UID != "" && account.IsZero() {
		return nil, invalid("account", "is required with uid")
	}
	endpoints, err := s.Store.Endpoints(ctx, store.EndpointQuery{
		Account: account, UID: in.UID, Status: postrider.EndpointStatus(in.Status), Paging: in.Paging.of(),
	})
	if err != nil {
		return nil, err
	}
	ids := make([]postrider.EndpointID, 0, len(endpoints.Items))
	for _, e := range endpoints.Items {
		ids = append(ids, e.ID)
	}
	secrets, err := s.Store.Secrets(ctx, ids...)
	if err != nil {
		return nil, err
	}
	of := map[postrider.EndpointID][]postrider.Secret{}
	for _, secret := range secrets {
		of[secret.Endpoint] = append(of[secret.Endpoint], secret)
	}
	return pageOf(endpoints, func(e postrider.Endpoint) apitypes.Endpoint { return viewEndpoint(e, of[e.ID]) }), nil
}

func (s *server) getEndpoint(ctx context.Context, in *EndpointPath) (*reply[apitypes.Endpoint], error) {
	e, err := s.findEndpoint(ctx, in.Endpoint)
	if err != nil {
		return nil, err
	}
	secrets, err := s.Store.Secrets(ctx, e.ID)
	if err != nil {
		return nil, err
	}
	return answered(viewEndpoint(e, secrets)), nil
}

func (s *server) changeEndpoint(ctx context.Context, in *EndpointPath) (*reply[apitypes.Endpoint], error) {
	var body apitypes.EndpointUpdate
	if err := decode(ctx, &body); err != nil {
		return nil, err
	}
	return s.modify(ctx, in.Endpoint, func(e *postrider.Endpoint) error {
		was := *e
		set(&e.UID, body.UID, "")
		set(&e.Description, body.Description, "")
		e.URL = cmp.Or(body.URL, e.URL)
		if body.EventTypes != nil {
			e.EventTypes = patterns(body.EventTypes)
		}
		if err := s.complete(ctx, e, was, body.Policy); err != nil {
			return err
		}
		if !body.Signature.IsZero() {
			if err := s.checkSigns(ctx, *e); err != nil {
				return err
			}
		}
		if e.URL != was.URL {
			s.resetVerification(e)
		}
		return nil
	})
}

func (s *server) deleteEndpoint(ctx context.Context, in *EndpointPath) (*none, error) {
	_, err := s.modify(ctx, in.Endpoint, func(e *postrider.Endpoint) error {
		e.Status, e.StatusReason = postrider.EndpointDeleted, ""
		return nil
	})
	if err == nil {
		s.Canceller.CancelDeleted()
	}
	return nil, err
}

// statusChange is a change of status that a person may ask for.
type statusChange struct {
	verb, about, tells string

	to     postrider.EndpointStatus
	from   []postrider.EndpointStatus // to among them: that change is none, and answers like one
	closes bool                       // the circuit too: the endpoint gets another chance, as if it had never failed
}

var statusChanges = []statusChange{{
	verb: "pause", about: "Pause an endpoint", tells: "Its deliveries wait until it is resumed.",
	to: postrider.EndpointPaused, from: []postrider.EndpointStatus{postrider.EndpointEnabled, postrider.EndpointPaused},
}, {
	verb: "resume", about: "Resume a paused endpoint",
	to: postrider.EndpointEnabled, from: []postrider.EndpointStatus{postrider.EndpointEnabled, postrider.EndpointPaused},
}, {
	verb: "enable", about: "Enable a disabled endpoint", tells: "Its circuit is closed, too. Repeated, it changes nothing more.",
	to: postrider.EndpointEnabled, from: []postrider.EndpointStatus{postrider.EndpointEnabled, postrider.EndpointDisabled},
	closes: true,
}, {
	verb: "disable", about: "Disable an endpoint", tells: "Pending deliveries wait until it is enabled. Events that are published in the meantime are skipped.",
	to:   postrider.EndpointDisabled,
	from: []postrider.EndpointStatus{postrider.EndpointEnabled, postrider.EndpointPaused, postrider.EndpointDisabled},
}}

func (s *server) changeStatus(c statusChange) func(context.Context, *EndpointPath) (*reply[apitypes.Endpoint], error) {
	return func(ctx context.Context, in *EndpointPath) (*reply[apitypes.Endpoint], error) {
		var body apitypes.EndpointReason
		if err := decodeIfAny(ctx, &body); err != nil {
			return nil, err
		}
		return s.put(ctx, in.Endpoint, func(p *store.PutEndpoint) error {
			e := &p.Endpoint
			if !slices.Contains(c.from, e.Status) {
				return conflict("the endpoint is " + string(e.Status))
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
		})
	}
}

// testType is the type of the events that POST …/test makes.
const testType = "postrider.test"

func (s *server) testEndpoint(ctx context.Context, in *EndpointPath) (*reply[apitypes.Receipt], error) {
	e, err := s.findLive(ctx, in.Endpoint)
	if err != nil {
		return nil, err
	}
	if e.Status != postrider.EndpointEnabled {
		return nil, conflict("the endpoint is " + string(e.Status)) // the event would be skipped, or wait
	}
	if err := s.manualSends.allow(e.ID); err != nil {
		return nil, err
	}
	data, err := json.Marshal(map[string]string{"endpoint": e.ID.String()})
	if err != nil {
		return nil, fmt.Errorf("encode test event: %w", err)
	}
	receipt, err := s.Publisher.PublishTo(ctx, postrider.Event{Account: e.Account, Type: testType, Data: data}, e.ID)
	if err != nil {
		return nil, err
	}
	return answered(viewReceipt(receipt)), nil
}

// findEndpoint returns the endpoint if the key may see it; a deleted one too.
func (s *server) findEndpoint(ctx context.Context, text string) (postrider.Endpoint, error) {
	return s.endpointOf(ctx, infoOf(ctx).key.Account, text)
}

// endpointOf returns the endpoint that has the name as its id or, where the
// account is known, as its uid.
func (s *server) endpointOf(ctx context.Context, account postrider.AccountID, name string) (postrider.Endpoint, error) {
	query := store.EndpointQuery{Account: account}
	id, err := parseID[postrider.EndpointID](name)
	switch {
	case err == nil:
		query.ID = id
	case account.IsZero():
		return postrider.Endpoint{}, postrider.ErrNotFound
	default:
		query.UID = name
	}
	return first(s.Store.Endpoints(ctx, query))
}

// findLive returns an endpoint that is not deleted.
func (s *server) findLive(ctx context.Context, text string) (postrider.Endpoint, error) {
	e, err := s.findEndpoint(ctx, text)
	if err == nil && e.Status == postrider.EndpointDeleted {
		return e, postrider.ErrNotFound
	}
	return e, err
}

// modify changes an endpoint, and begins anew if another change came between.
func (s *server) modify(ctx context.Context, text string, change func(*postrider.Endpoint) error) (*reply[apitypes.Endpoint], error) {
	return s.put(ctx, text, func(p *store.PutEndpoint) error { return change(&p.Endpoint) })
}

// put is modify for a change that is more than the endpoint's own.
func (s *server) put(ctx context.Context, text string, change func(*store.PutEndpoint) error) (*reply[apitypes.Endpoint], error) {
	for range 3 {
		e, err := s.findLive(ctx, text)
		if err != nil {
			return nil, err
		}
		p := store.PutEndpoint{Endpoint: e}
		if err := change(&p); err != nil {
			return nil, err
		}
		secrets, err := s.Store.Secrets(ctx, e.ID) // before the change, which an error after it would hide
		if err != nil {
			return nil, err
		}
		e, err = s.putEndpoint(ctx, p)
		if err == nil {
			return answered(viewEndpoint(e, secrets)), nil
		}
		if !errors.Is(err, postrider.ErrConflict) {
			return nil, err
		}
	}
	return nil, conflict("another endpoint of the account has this uid, or it is being changed by others")
}

func (s *server) putEndpoint(ctx context.Context, p store.PutEndpoint) (postrider.Endpoint, error) {
	e, err := s.Store.PutEndpoint(ctx, p)
	if errors.Is(err, postrider.ErrConflict) {
		return e, errors.Join(conflict("another endpoint of the account has this uid"), err)
	}
	if err != nil {
		return e, err
	}
	s.Notifier.Notify(e.ID)
	return e, nil
}
