package endpoints

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/api/rest"
	"github.com/postrider/postrider/internal/store"
)

// reasonUnverified is the status reason of an endpoint that is paused until its receiver agrees to
// receive events. It is also a warning, because a person who pauses or disables the endpoint
// replaces the status reason. The warning lasts until the receiver agrees.
const reasonUnverified = "unverified"

// resetVerification marks a new URL as unverified. If the operator requires verification, it also
// pauses an enabled endpoint.
func (s *Routes) resetVerification(e *postrider.Endpoint) {
	e.VerifiedAt = postrider.Endpoint{}.VerifiedAt
	if s.Verify != "" && e.Kind != postrider.KindInspector && e.Status == postrider.EndpointEnabled {
		e.Status, e.StatusReason = postrider.EndpointPaused, reasonUnverified
	}
}

// requireVerified refuses to enable an unverified endpoint, if the operator requires verification.
// It lets an endpoint that is already enabled stay enabled.
func (s *Routes) requireVerified(e postrider.Endpoint, to postrider.EndpointStatus) error {
	if s.Verify == "" || e.Kind == postrider.KindInspector || to != postrider.EndpointEnabled || !e.VerifiedAt.IsZero() ||
		e.Status == postrider.EndpointEnabled {
		return nil
	}
	return &rest.Error{
		Class: postrider.ErrConflict, Code: "unverified",
		Detail: "its receiver has not agreed to events at this URL; see POST /endpoints/{endpoint}/verify",
	}
}

// handshakeTime is the time limit for the receiver's response to a handshake.
const handshakeTime = 10 * time.Second

// verifyEndpoint performs the handshake and stores that the receiver agreed. The handshake may take
// ten seconds, so no transaction is open meanwhile. If the URL changed during the handshake, the
// response is a conflict, because the receiver agreed to the old URL.
//
// An agreement enables the endpoint only if it is paused with reasonUnverified. An endpoint that a
// person has paused or disabled keeps its status.
func (s *Routes) verifyEndpoint(ctx context.Context, in *rest.EndpointPath,
	body apitypes.EndpointVerification,
) (*rest.Reply[apitypes.Endpoint], error) {
	asked, err := s.Names.ReadableEndpoint(ctx, in.Endpoint)
	if err != nil {
		return nil, err
	}
	if asked.Kind == postrider.KindInspector {
		return nil, rest.Conflict("endpoint_is_inspector", "an inspector has no receiver that could agree")
	}
	method, err := s.verifyMethod(body)
	if err != nil {
		return nil, err
	}
	// The limit is checked after the validation, so that an invalid request does not count.
	if err := s.manualSends.Allow(asked.ID); err != nil {
		return nil, err
	}
	secrets, err := s.Store.Secrets(ctx, asked.ID)
	if err != nil {
		return nil, err
	}
	if err := s.Verifier.Verify(ctx, store.EndpointSnapshot{Endpoint: asked, Secrets: secrets}, method); err != nil {
		return nil, noConsent(method, err)
	}
	now, err := s.Store.Now(ctx)
	if err != nil {
		return nil, err
	}
	return s.modify(ctx, in.Endpoint, func(e *postrider.Endpoint) error {
		if e.URL != asked.URL {
			return rest.Conflict("url_changed", "the url changed while its receiver was being verified")
		}
		e.VerifiedAt = now
		if e.Status == postrider.EndpointPaused && e.StatusReason == reasonUnverified {
			e.Status, e.StatusReason = postrider.EndpointEnabled, ""
		}
		return nil
	})
}

// verifyMethod returns the method of the handshake. If the operator set a method, it returns that
// method, and a fault if the body names another one. Otherwise the body must name a method.
func (s *Routes) verifyMethod(body apitypes.EndpointVerification) (string, error) {
	method := body.Method
	switch {
	case s.Verify != "" && (method == "" || method == s.Verify):
		return s.Verify, nil
	case s.Verify != "":
		return "", rest.Invalid("method", postrider.FaultNotAChoice, fmt.Sprintf("must be %s, the operator's choice", s.Verify))
	case method == "":
		return "", rest.Invalid("method", postrider.FaultRequired, "is required")
	case !slices.Contains(VerifyMethods, method):
		return "", rest.Invalid("method", postrider.FaultNotAChoice, "must be challenge or cloudevents")
	}
	return method, nil
}

// consents describes, for each method, the response that counts as consent. The client sees these
// texts.
var consents = map[string]string{
	"challenge":   `the receiver must respond to the signed POST with 2xx and {"challenge": "…"}, with the challenge of the request`,
	"cloudevents": "the receiver must respond to OPTIONS with 2xx and a WebHook-Allowed-Origin that is * or the WebHook-Request-Origin of the request",
}

// noConsent turns a receiver's refusal into a 409 with instructions. It returns other errors
// unchanged.
func noConsent(method string, err error) error {
	if !errors.Is(err, postrider.ErrConflict) {
		return err
	}
	return &rest.Error{
		Class: err, Code: "verification_failed", Detail: fmt.Sprintf("%s; %v", consents[method], err),
	}
}
