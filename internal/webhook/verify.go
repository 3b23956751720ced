package webhook

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/egress"
	"github.com/postrider/postrider/internal/store"
)

// The methods of [Sender.Verify].
const (
	// VerifyChallenge sends a signed POST like that of an event, with the body
	// {"type":"postrider.challenge","challenge":"…"}. A receiver that wants events responds with
	// 2xx and only that challenge, as {"challenge":"…"} or as text. A server that echoes every
	// request therefore does not agree.
	VerifyChallenge = "challenge"
	// VerifyCloudEvents is the handshake of the CloudEvents HTTP webhook specification, section 4:
	// OPTIONS with WebHook-Request-Origin. A receiver that wants events responds with 2xx, and a
	// WebHook-Allowed-Origin that is the same origin or *.
	VerifyCloudEvents = "cloudevents"
)

// verifyTimeout is how long a receiver may take to agree.
const verifyTimeout = 10 * time.Second

// UnverifiedError is a [postrider.ErrConflict]: a receiver did not agree to get events, or could
// not be asked. Its texts contain only what the endpoint's owner may see.
type UnverifiedError struct {
	Unasked bool   // no secret can sign a challenge, so nothing was sent
	Reason  string // what the receiver responded instead, or why it was not asked
}

// Error says whether the receiver was asked, and the reason.
func (e *UnverifiedError) Error() string {
	if e.Unasked {
		return "the receiver was not asked: " + e.Reason
	}
	return "the receiver did not agree: " + e.Reason
}

// Unwrap returns [postrider.ErrConflict].
func (e *UnverifiedError) Unwrap() error { return postrider.ErrConflict }

// Verify asks the endpoint's receiver whether it wants events, by one of the methods, within ten
// seconds and the context. It follows no redirect. It returns an [*UnverifiedError] if the receiver
// does not agree or cannot be reached, or if the endpoint's schemes and secrets cannot sign a
// challenge. For an unknown method it returns a [*postrider.InvalidError]. Any other error is a
// fault on our side.
func (s *Sender) Verify(ctx context.Context, to store.EndpointSnapshot, method string) error {
	ctx, cancel := context.WithTimeout(ctx, verifyTimeout)
	defer cancel()
	policy := &to.Endpoint.Policy
	policy.Payload, policy.MaxRedirects, policy.SendTraceParent = postrider.PayloadRaw, 0, false
	switch method {
	case VerifyChallenge:
		return s.challenge(ctx, &to)
	case VerifyCloudEvents:
		return s.handshake(ctx, &to)
	}
	return &postrider.InvalidError{Field: "method", Code: postrider.FaultNotAChoice, Reason: "must be challenge or cloudevents"}
}

// challenge sends a random text as an event, and expects it back. The request is built like the
// request for any event. So a receiver that sends the text back has accepted the signatures, headers
// and credentials of its endpoint.
func (s *Sender) challenge(ctx context.Context, to *store.EndpointSnapshot) error {
	const kind = "postrider.challenge"
	challenge := rand.Text()
	now := s.now()
	event := postrider.Event{
		ID: newID[postrider.EventID](now), Type: kind, CreatedAt: now,
		Data: fmt.Appendf(nil, `{"type":%q,"challenge":%q}`, kind, challenge),
	}
	c := postrider.Claimed{ID: newID[postrider.DeliveryID](now), Endpoint: to.Endpoint.ID, Event: &event, Attempt: 1}
	// The event and the delivery exist only for this request.
	t, err := s.targets.make(ctx, to, now)
	if err != nil {
		return verifyError(ctx, err, false)
	}
	d := draft{claimed: &c, to: to, at: now}
	response, err := s.ask(ctx, t, func(token string, q *egress.Request) error {
		d.token = token
		_, err := d.build(t, q, nil)
		return err
	})
	if err != nil {
		return err
	}
	// The challenge is a secret until the receiver has read it. So the time of the comparison must
	// not show how much of a guess is right.
	if subtle.ConstantTimeCompare([]byte(repeated(response.Body)), []byte(challenge)) != 1 {
		return &UnverifiedError{Reason: "its response is not the challenge"}
	}
	return nil
}

// repeated returns the challenge in a response body.
func repeated(body []byte) string {
	var members map[string]string
	if err := json.Unmarshal(body, &members); err == nil && len(members) == 1 {
		return members["challenge"]
	}
	return strings.TrimSpace(string(body))
}

// newID returns an id for the event or the delivery of a challenge. Neither is ever
// stored.
func newID[I ~[16]byte](at time.Time) I {
	var random [10]byte
	_, _ = rand.Read(random[:]) // never fails
	return postrider.MakeID[I](at, random)
}

// handshake sends OPTIONS and expects that the response allows our origin. The request is not
// signed, so it needs no secret.
func (s *Sender) handshake(ctx context.Context, to *store.EndpointSnapshot) error {
	t, err := s.targets.makeUnsigned(ctx, to)
	if err != nil {
		return verifyError(ctx, err, false)
	}
	response, err := s.ask(ctx, t, func(token string, q *egress.Request) error {
		header := append(q.Buffer(), "OPTIONS "+s.targets.requestLine(t.url)...)
		header = append(header, "WebHook-Request-Origin: "+s.origin+"\r\n"...)
		q.Set(append(t.appendOwnLines(header, token), "\r\n"...), 0)
		return nil
	})
	if err != nil {
		return err
	}
	if allowed := response.Field("WebHook-Allowed-Origin"); allowed != "*" && !strings.EqualFold(allowed, s.origin) {
		return &UnverifiedError{Reason: "its response has no WebHook-Allowed-Origin that allows " + s.origin}
	}
	return nil
}

// ask sends the request that build makes to the target, and returns a 2xx response. The target is
// not cached, because its endpoint may not be stored yet.
func (s *Sender) ask(ctx context.Context, t *target, build func(token string, q *egress.Request) error) (egress.Response, error) {
	x := &exchange{target: t} // not from the pool, because its response is read after ask returns
	token, _, err := t.tokens.token(ctx, nil)
	if err == nil {
		err = build(token, &x.Request)
	}
	var response egress.Response
	if err == nil {
		response, err = s.roundTrip(ctx, x)
	}
	if err != nil {
		return egress.Response{}, verifyError(ctx, err, x.Sent)
	}
	if response.Status < 200 || response.Status > 299 {
		return egress.Response{}, &UnverifiedError{Reason: statusError(response.Status)}
	}
	return response, nil
}

// verifyError distinguishes a receiver that did not agree from a fault on our side.
func verifyError(ctx context.Context, err error, sent bool) error {
	if e, ok := errors.AsType[*postrider.FailureError](err); ok {
		if e.Failure == postrider.FailureUnsigned || e.Failure == postrider.FailureNoKey {
			return &UnverifiedError{Unasked: true, Reason: e.Error()}
		}
		if e.Failure == postrider.FailureSecrets || e.Failure == postrider.FailureHeaders {
			return fmt.Errorf("verify endpoint: %w", err)
		}
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("verify endpoint: %w", err)
	}
	_, f := classifyFailure(ctx, err, sent)
	return &UnverifiedError{Reason: string(f)}
}
