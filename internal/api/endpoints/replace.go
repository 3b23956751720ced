package endpoints

import (
	"cmp"
	"context"
	"errors"
	"reflect"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/api/rest"
	"github.com/postrider/postrider/internal/shape"
)

// registerReplacement registers the route that creates or replaces an endpoint.
func (s *Routes) registerReplacement(rt *rest.Router) {
	rest.HandleBody(rt, rest.Route{
		Name: "put-endpoint", Path: "PUT /endpoints/{endpoint}",
		Summary: "Create or replace an endpoint",
		Description: "The uid in the path names it. If the account has no endpoint with the uid, one is created, with the secrets of the body or a new one. " +
			"Otherwise it is replaced: a field that is left out gets its default. Its secrets, status, circuit and history stay, and so do the credentials that a change keeps. " +
			"An option that the caller may not set stays, too. An id replaces the endpoint and keeps its uid. Repeated, it changes nothing more.",
		Codes: []string{"endpoint_deleted", "endpoint_quota_used", "uid_taken", "conflict"},
		Scope: postrider.ScopeEndpointsWrite, Withdraws: true, Conditional: true, Creates: true,
	}, s.replaceEndpoint)
}

// replaceEndpoint creates the endpoint that the path names by its uid, or replaces it. Of two requests
// at once that create it, one is refused by the store and then finds the endpoint of the other.
func (s *Routes) replaceEndpoint(
	ctx context.Context, in *rest.EndpointPath, body apitypes.EndpointPut,
) (*rest.Reply[apitypes.Endpoint], error) {
	if err := checkMaySet(rest.InfoOf(ctx).Caller, body.Policy); err != nil {
		return nil, err
	}
	return rest.RetryConflicts(func() (*rest.Reply[apitypes.Endpoint], error) {
		reply, err := s.replaceStored(ctx, in, body)
		if !errors.Is(err, postrider.ErrNotFound) {
			return reply, err
		}
		account, uid, err := s.Names.EndpointToCreate(ctx, in.Endpoint)
		if err != nil {
			return nil, err
		}
		if err := rest.IfMatch(ctx, 0); err != nil {
			return nil, err
		}
		reply, err = s.createEndpoint(ctx, nil, apitypes.EndpointCreate{
			Account: account.String(), UID: uid, Kind: body.Kind, URL: body.URL, Description: body.Description.Value(),
			Metadata: body.Metadata.Value(), EventTypes: body.EventTypes, Policy: body.Policy, NewSecrets: body.NewSecrets,
		})
		if err == nil {
			rest.InfoOf(ctx).Created()
		}
		return reply, err
	})
}

// replaceStored replaces a stored endpoint. Of its policy, every option that the request leaves out and
// the caller may set gets its default.
func (s *Routes) replaceStored(
	ctx context.Context, in *rest.EndpointPath, body apitypes.EndpointPut,
) (*rest.Reply[apitypes.Endpoint], error) {
	policy := body.Policy
	for option := range shape.Options(&policy, reflect.TypeFor[postrider.Policy]()) {
		if option.IsZero() && rest.InfoOf(ctx).Caller.MaySet(option.Name) {
			option.SetNull()
		}
	}
	return s.alter(ctx, in.Endpoint, func(e *postrider.Endpoint) error {
		was := *e
		if err := rest.IfMatch(ctx, was.Revision); err != nil {
			return err
		}
		if kind := cmp.Or(body.Kind, postrider.KindHTTP); kind != e.Kind {
			return rest.Invalid("kind", postrider.FaultNotAllowed, "must be "+string(e.Kind)+": the kind of an endpoint never changes")
		}
		e.URL, e.Description, e.Metadata = body.URL, body.Description.Value(), body.Metadata.Value()
		e.EventTypes = rest.Patterns(body.EventTypes)
		return s.changePolicy(ctx, e, was, policy)
	})
}

// alter is modify for a change that may set another URL, which is then pinged.
func (s *Routes) alter(ctx context.Context, text string, change func(*postrider.Endpoint) error) (*rest.Reply[apitypes.Endpoint], error) {
	var moved postrider.Endpoint // the endpoint with its new URL; zero: it keeps its URL
	reply, err := s.awaited(ctx)(s.modify(ctx, text, func(e *postrider.Endpoint) error {
		was := e.URL
		moved = postrider.Endpoint{}
		if err := change(e); err != nil {
			return err
		}
		if e.URL != was {
			moved = *e
		}
		return nil
	}))
	if err == nil {
		s.ping(ctx, moved)
	}
	return reply, err
}

// changePolicy applies the policy of a change to an endpoint whose other fields are set, checks the
// whole, and notes what changed for the audit log.
func (s *Routes) changePolicy(ctx context.Context, e *postrider.Endpoint, was postrider.Endpoint, to apitypes.Policy) error {
	if err := s.setPolicy(ctx, e, was, to); err != nil {
		return err
	}
	if !to.Signature.IsZero() {
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
}
