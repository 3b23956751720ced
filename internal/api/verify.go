package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/store"
)

// reasonUnverified is why an endpoint is paused whose receiver has not yet said
// that it wants events.
const reasonUnverified = "unverified"

// resetVerification pauses an endpoint until its receiver agreed to events, if the
// operator requires that. Call it when the URL is new.
func (s *server) resetVerification(e *postrider.Endpoint) {
	e.VerifiedAt = postrider.Endpoint{}.VerifiedAt
	if s.opts.Verify != "" && e.Status == postrider.EndpointEnabled {
		e.Status, e.StatusReason = postrider.EndpointPaused, reasonUnverified
	}
}

// requireVerified refuses to enable an endpoint that has yet to be verified.
func (s *server) requireVerified(e postrider.Endpoint, to postrider.EndpointStatus) error {
	if s.opts.Verify == "" || to != postrider.EndpointEnabled || !e.VerifiedAt.IsZero() || e.Status == postrider.EndpointEnabled {
		return nil
	}
	return &apiError{
		class: postrider.ErrConflict, code: "unverified",
		detail: "its receiver has not agreed to events at this URL; see POST /endpoints/{endpoint}/verify",
	}
}

// handshakeTime is what a receiver may take to say whether it wants events.
const handshakeTime = 10 * time.Second

// verifyEndpoint asks the receiver, and notes that it agreed, unless the URL is
// another one by then.
func (s *server) verifyEndpoint(ctx context.Context, in *EndpointPath) (*reply[apitypes.Endpoint], error) {
	var body apitypes.EndpointVerification
	if err := decodeIfAny(ctx, &body); err != nil {
		return nil, err
	}
	asked, err := s.findLive(ctx, in.Endpoint)
	if err != nil {
		return nil, err
	}
	method, err := s.verifyMethod(body)
	if err != nil {
		return nil, err
	}
	if err := s.manualSends.allow(asked.ID); err != nil {
		return nil, err
	}
	secrets, err := s.Store.Secrets(ctx, asked.ID)
	if err != nil {
		return nil, err
	}
	if err := s.Verifier.Verify(ctx, store.EndpointSnapshot{Endpoint: asked, Secrets: secrets}, method); err != nil {
		return nil, unanswered(method, err)
	}
	now, err := s.Store.Now(ctx)
	if err != nil {
		return nil, err
	}
	return s.modify(ctx, in.Endpoint, func(e *postrider.Endpoint) error {
		if e.URL != asked.URL {
			return conflict("the url was changed while its receiver was asked")
		}
		e.VerifiedAt = now
		if e.Status == postrider.EndpointPaused && e.StatusReason == reasonUnverified {
			e.Status, e.StatusReason = postrider.EndpointEnabled, ""
		}
		return nil
	})
}

// verifyMethod returns how to ask: as the operator wants it, or else as the
// body says.
func (s *server) verifyMethod(body apitypes.EndpointVerification) (string, error) {
	method := body.Method
	switch {
	case s.opts.Verify != "" && (method == "" || method == s.opts.Verify):
		return s.opts.Verify, nil
	case s.opts.Verify != "":
		return "", invalid("method", fmt.Sprintf("must be %s, the operator's choice", s.opts.Verify))
	case method == "":
		return "", invalid("method", "is required")
	case !slices.Contains(VerifyMethods, method):
		return "", invalid("method", "must be challenge or cloudevents")
	}
	return method, nil
}

// wantedAnswers say what a receiver must answer to agree.
var wantedAnswers = map[string]string{
	"challenge":   `the receiver must answer the signed POST with 2xx and {"challenge": "…"}, the challenge that it was sent`,
	"cloudevents": "the receiver must answer OPTIONS with 2xx and a WebHook-Allowed-Origin that is the WebHook-Request-Origin it was sent, or *",
}

// unanswered tells a receiver's refusal from what broke on our side.
func unanswered(method string, err error) error {
	if !errors.Is(err, postrider.ErrConflict) {
		return err
	}
	return &apiError{
		class: err, code: "verification_failed", detail: fmt.Sprintf("%s; %v", wantedAnswers[method], err),
	}
}
