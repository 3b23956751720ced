package egress

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// The methods of [Egress.Verify].
const (
	// VerifyChallenge sends a signed POST like an event's with the body
	// {"type":"postrider.challenge","challenge":"…"}. Who wants events answers
	// 2xx with that challenge alone, as {"challenge":"…"} or bare: a server that
	// only echoes what it gets has not read it.
	VerifyChallenge = "challenge"
	// VerifyCloudEvents is the handshake of the CloudEvents HTTP webhook
	// specification, section 4: OPTIONS with WebHook-Request-Origin. Who wants
	// events answers 2xx with a WebHook-Allowed-Origin that is the same, or *.
	VerifyCloudEvents = "cloudevents"
)

// verifyTime is how long a receiver may take to agree.
const verifyTime = 10 * time.Second

// UnverifiedError is a [postrider.ErrConflict]: a receiver did not agree to get
// events. Its reason says no more than the endpoint's owner may see.
type UnverifiedError struct{ Reason string }

// Error says what the receiver did instead.
func (e *UnverifiedError) Error() string { return "the receiver did not agree: " + e.Reason }

// Unwrap returns [postrider.ErrConflict].
func (e *UnverifiedError) Unwrap() error { return postrider.ErrConflict }

// UnsignedError is a [postrider.ErrConflict]: there is no secret that a
// challenge could be signed with. Its reason is for the endpoint's owner.
type UnsignedError struct{ Reason string }

// Error says why nobody was asked.
func (e *UnsignedError) Error() string { return "the receiver was not asked: " + e.Reason }

// Unwrap returns [postrider.ErrConflict].
func (e *UnsignedError) Unwrap() error { return postrider.ErrConflict }

// Verify asks the endpoint's receiver whether it wants events, by one of the
// methods, within ten seconds and the context. It follows no redirect. A
// receiver that does not agree, or cannot be reached, is an
// [*UnverifiedError]; a challenge that its schemes and secrets cannot sign is an
// [*UnsignedError]; any other method is a [*postrider.InvalidError]; what is
// broken on our side is another error.
func (e *Egress) Verify(ctx context.Context, to store.EndpointSnapshot, method string) error {
	ctx, cancel := context.WithTimeout(ctx, verifyTime)
	defer cancel()
	policy := &to.Endpoint.Policy
	policy.Payload, policy.MaxRedirects = postrider.PayloadRaw, 0
	switch method {
	case VerifyChallenge:
		return e.challenge(ctx, &to)
	case VerifyCloudEvents:
		return e.handshake(ctx, &to)
	}
	return &postrider.InvalidError{Field: "method", Reason: "must be challenge or cloudevents"}
}

func (e *Egress) challenge(ctx context.Context, to *store.EndpointSnapshot) error {
	const kind = "postrider.challenge"
	challenge := rand.Text()
	now := e.now()
	event := postrider.Event{
		ID: newID[postrider.EventID](now), Type: kind, CreatedAt: now,
		Data: fmt.Appendf(nil, `{"type":%q,"challenge":%q}`, kind, challenge),
	}
	c := postrider.Claimed{ID: newID[postrider.DeliveryID](now), Endpoint: to.Endpoint.ID, Event: &event, Attempt: 1}
	d := draft{claimed: &c, to: to, at: now}
	ans, err := e.question(ctx, &d, func(r *route) (q request, err error) {
		q, _, err = d.build(r, nil)
		return q, err
	})
	if err != nil {
		return err
	}
	if subtle.ConstantTimeCompare([]byte(echoed(ans.body)), []byte(challenge)) != 1 {
		return &UnverifiedError{"its answer is not the challenge"}
	}
	return nil
}

// echoed returns the challenge that an answer repeats.
func echoed(body []byte) string {
	var members map[string]string
	if err := json.Unmarshal(body, &members); err == nil && len(members) == 1 {
		return members["challenge"]
	}
	return strings.TrimSpace(string(body))
}

func newID[I ~[16]byte](at time.Time) I {
	var random [10]byte
	_, _ = rand.Read(random[:]) // which never fails
	return postrider.MakeID[I](at, random)
}

func (e *Egress) handshake(ctx context.Context, to *store.EndpointSnapshot) error {
	d := draft{to: to, at: e.now()}
	ans, err := e.question(ctx, &d, func(r *route) (request, error) {
		head := append([]byte("OPTIONS "), e.routes.target(r.url)...)
		head = append(head, "WebHook-Request-Origin: "+e.origin+"\r\n"...)
		return request{bytes: append(r.appendOwn(head, d.token), "\r\n"...)}, nil
	})
	if err != nil {
		return err
	}
	if !allowsOrigin(string(ans.allowed), e.origin) {
		return &UnverifiedError{"its answer has no WebHook-Allowed-Origin that allows " + e.origin}
	}
	return nil
}

// allowsOrigin reads the value of WebHook-Allowed-Origin.
func allowsOrigin(value, origin string) bool {
	return value == "*" || strings.EqualFold(value, origin)
}

// question asks the endpoint, and returns an answer that is 2xx.
func (e *Egress) question(ctx context.Context, d *draft, build func(*route) (request, error)) (answer, error) {
	x := newExchange()
	defer x.release()
	ans, err := e.put(ctx, x, d, build)
	if err != nil {
		return answer{}, unanswered(ctx, err, x.sent)
	}
	if ans.status < 200 || ans.status > 299 {
		return answer{}, &UnverifiedError{statusError(ans.status)}
	}
	ans.allowed = bytes.Clone(ans.allowed) // the room goes back
	return ans, nil
}

// put makes one exchange for an endpoint that may not be stored yet: nothing of
// it is remembered. One without a delivery is not signed.
func (e *Egress) put(ctx context.Context, x *exchange, d *draft, build func(*route) (request, error)) (_ answer, err error) {
	if d.claimed == nil {
		x.route, err = e.routes.makeUnsigned(ctx, d.to)
	} else {
		x.route, err = e.routes.make(ctx, d.to, d.at)
	}
	if err != nil {
		return answer{}, err
	}
	if d.token, err = x.route.grant.bearer(ctx); err != nil {
		return answer{}, err
	}
	if x.request, err = build(x.route); err != nil {
		return answer{}, err
	}
	return e.ask(ctx, x)
}

// unanswered tells what the receiver did from what is wrong with us.
func unanswered(ctx context.Context, err error, sent bool) error {
	s, early := errors.AsType[*stageError](err)
	if early && (s.failure == postrider.FailureUnsigned || s.failure == postrider.FailureNoKey) {
		return &UnsignedError{s.Error()}
	}
	ours := early && (s.failure == postrider.FailureSecrets || s.failure == postrider.FailureHeaders)
	if ours || errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("verify endpoint: %w", err)
	}
	_, failure := judgeFailure(ctx, err, sent)
	return &UnverifiedError{string(failure)}
}
