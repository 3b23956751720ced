// Package webhook delivers events to endpoints as signed HTTP requests.
//
// [Sender.Send] makes one attempt of a delivery: it builds the body, signs it,
// adds the endpoint's headers and its authentication, sends the request through
// package egress and classifies the response or the error as a [postrider.Attempt]. A
// delivery that fails is a value, never an error. [Sender.Verify] asks a receiver
// whether it wants events at all.
//
// Whatever an endpoint or its receiver does, this holds:
//
//   - Every request goes through [egress.Egress], also the request for a token, so
//     everything that egress promises about addresses, memory and time holds.
//   - An attempt ends at its deadline or with its context. Fetching a token and
//     following redirects happen within the same deadline.
//   - Just before a request is written, also a redirected one and one for a token, it is asked
//     again whether the endpoint and the delivery are still as they were (Options.Current).
//   - One attempt writes one request, and one more for each redirect that the
//     endpoint wants followed: at most three, only those that keep method and
//     body, each URL checked like an endpoint's, never from https to http.
//     Another host gets the body and what it is, and nothing that shows who
//     sent it.
//   - One Send makes one attempt, and a second one if the endpoint refused a cached
//     token. The first is recorded before the second begins.
//   - The bytes that are sent are the bytes that were signed, compressed afterwards
//     if the endpoint wants that. They contain the event's data exactly as it was
//     published.
//   - Secrets are decrypted when they are needed. An endpoint whose secret cannot
//     be decrypted gets no request. That is the operator's failure, like a machine without
//     descriptors: the attempt is postponed and not made ([postrider.OutcomePostponed]).
//   - No text of an attempt, an error or a log line has a secret, a credential,
//     a token, a signature or the query of a URL. Of a request's header, only
//     fields that are known to be harmless are recorded.
//
// [Sender.Describe] and [Sender.Sign] build requests in the same way and send nothing.
// It does not retry, limit rates or count; the dispatcher does.
//
// One attempt passes through these files: target.go (what is prepared for an
// endpoint and cached), token.go (OAuth2), request.go and headers.go (the bytes
// of the request), redirect.go, classify.go (what it means).
package webhook

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/egress"
	"github.com/postrider/postrider/internal/store"
)

// Options configures a [Sender]. The zero value is the production default.
type Options struct {
	UserAgent     string           // default: Postrider
	RequestOrigin string           // WebHook-Request-Origin of CloudEvents handshakes; default: postrider
	Now           func() time.Time // the store's time of day, for what is signed or recorded; default: the machine's
	Log           *slog.Logger     // default: discard

	// Continue records an attempt whose token was refused, before another one is made under
	// the same lease, with the next number. An error: the lease is gone, or the store away;
	// the delivery waits then. Default: nothing is recorded.
	Continue func(ctx context.Context, c postrider.Claimed, a postrider.Attempt) error

	// Current reports whether an attempt that began with these settings may send now: the
	// endpoint has not changed since, and the delivery is not cancelled. Default: it may.
	Current func(c *postrider.Claimed, to *store.EndpointSnapshot) bool

	// Sampled reports whether the spans of an event are recorded, for the header traceparent of
	// endpoints that ask for it. Default: none are.
	Sampled func(postrider.EventID) bool
}

// withDefaults replaces zero values. The two texts that get into headers lose the
// characters that would end a line there.
func (o Options) withDefaults() Options {
	o.UserAgent = cmp.Or(strings.Map(printable, o.UserAgent), "Postrider")
	o.RequestOrigin = cmp.Or(strings.Map(printable, o.RequestOrigin), "postrider")
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Continue == nil {
		o.Continue = func(context.Context, postrider.Claimed, postrider.Attempt) error { return nil }
	}
	if o.Current == nil {
		o.Current = func(*postrider.Claimed, *store.EndpointSnapshot) bool { return true }
	}
	if o.Sampled == nil {
		o.Sampled = func(postrider.EventID) bool { return false }
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return o
}

// printable drops what must not be in a header.
func printable(r rune) rune {
	if r < ' ' || r > '~' {
		return -1
	}
	return r
}

// Vault decrypts secrets and credentials.
type Vault interface {
	// DecryptSecret returns the text of the secret.
	DecryptSecret(ctx context.Context, s postrider.Secret) (string, error)
	// DecryptCredentials returns the credentials of the endpoint; the zero value
	// if it has none.
	DecryptCredentials(ctx context.Context, e postrider.Endpoint) (postrider.Credentials, error)
}

// Sender sends attempts. It may be used from any goroutine.
type Sender struct {
	egress  *egress.Egress
	targets *targets
	unsent  *targets // with placeholders for secrets; see Describe
	origin  string
	now     func() time.Time
	current func(*postrider.Claimed, *store.EndpointSnapshot) bool
	log     *slog.Logger
	goOn    func(context.Context, postrider.Claimed, postrider.Attempt) error // see Options.Continue

	postponed perSecond // attempts that this server's own fault prevented
}

// New returns a Sender that sends through door and decrypts secrets with vault.
func New(door *egress.Egress, vault Vault, opts Options) *Sender {
	opts = opts.withDefaults()
	return &Sender{
		egress:  door,
		targets: newTargets(door, vault, opts),
		unsent:  newTargets(door, placeholders{}, opts),
		origin:  opts.RequestOrigin,
		now:     opts.Now,
		current: opts.Current,
		log:     opts.Log,
		goOn:    opts.Continue,
	}
}

// Send makes the attempt that c is leased for, and returns its record. The deadline
// may be earlier than the time-out of the endpoint's policy says. Send returns soon
// after it, or after ctx has ended, whichever comes first.
//
// If the endpoint refuses a cached token, the attempt is recorded and excused, and another
// one follows with a new token, within the same deadline: the record that Send returns has
// the next number then. A second refusal is the endpoint's.
//
// If it finds before the first request of an attempt that it is not current any more, nothing is
// sent, and the outcome is [postrider.OutcomeNone].
func (s *Sender) Send(
	ctx context.Context, deadline time.Time, c *postrider.Claimed, to *store.EndpointSnapshot,
) postrider.Attempt {
	a := s.sendOnce(ctx, deadline, draft{claimed: c, to: to, mayRefuse: true})
	if a.Error != string(postrider.FailureTokenRefused) || !time.Now().Before(deadline) {
		return a
	}
	limited, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	if err := s.goOn(limited, *c, a); err != nil {
		s.log.WarnContext(ctx, "attempt not made again with a new token", "delivery", *c, "error", err)
		return a
	}
	next := *c
	next.Attempt++
	return s.sendOnce(ctx, deadline, draft{claimed: &next, to: to})
}

// sendOnce makes one attempt.
func (s *Sender) sendOnce(ctx context.Context, deadline time.Time, d draft) postrider.Attempt {
	c := d.claimed
	started := time.Now()
	a := postrider.Attempt{
		Delivery:  c.ID,
		Event:     c.Event.ID,
		Endpoint:  c.Endpoint,
		Number:    c.Attempt,
		StartedAt: s.now().UTC().Truncate(time.Microsecond),
	}
	d.at = a.StartedAt
	cause := s.attempt(ctx, deadline, &a, d)
	a.Duration = time.Since(started)
	switch {
	case a.Outcome == postrider.OutcomePostponed || a.Excused && cause != nil:
		if n := s.postponed.count(started); n > 0 {
			s.log.ErrorContext(ctx, "attempts postponed, because this server lacks something",
				"attempts", n, "last", *c, "class", a.Error, "cause", cause)
		}
	case cause != nil:
		s.log.DebugContext(ctx, "attempt failed", "delivery", *c, "outcome", string(a.Outcome), "class", a.Error, "cause", cause)
	}
	return a
}

// perSecond counts what is logged once a second.
type perSecond struct {
	mu       sync.Mutex
	n        int
	loggedAt time.Time
}

// count counts one more. It returns how many there were since the last line, if that was
// a second ago, and else 0: then nothing is logged.
func (p *perSecond) count(now time.Time) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n++
	if now.Sub(p.loggedAt) < time.Second {
		return 0
	}
	n := p.n
	p.n, p.loggedAt = 0, now
	return n
}

// attempt makes the attempt and records in a what it showed. It returns why it
// failed, only for the log: the error may contain an address, which the endpoint's
// owner must not see.
//
// The deadline is set on the exchange and not in ctx. So an attempt on a pooled
// connection needs no timer and no context of its own. Only the paths that may wait
// for something else, such as a DNS lookup or a token, make a context with the
// deadline, by [egress.Exchange.Limit]. A failure is classified with such a context,
// too, because it must know whether the deadline has passed.
func (s *Sender) attempt(ctx context.Context, deadline time.Time, a *postrider.Attempt, d draft) error {
	x := newExchange()
	defer x.release()
	x.Deadline = deadline
	x.Look = func() bool { return s.current(d.claimed, d.to) }
	response, err := s.exchange(ctx, x, d)
	if errors.Is(err, egress.ErrWithdrawn) && !x.Sent {
		a.Outcome = postrider.OutcomeNone
		return nil
	}
	if err == nil {
		classifyResponse(a, &response, s.now())
		if x.refused {
			a.Outcome, a.Error, a.Excused = postrider.OutcomeRejected, string(postrider.FailureTokenRefused), true
		}
	} else {
		limited, cancel := x.Limit(ctx)
		classifyError(limited, a, err, x.Sent)
		cancel()
	}
	a.Timing = x.Timing
	if x.redirected {
		a.FinalURL = withoutQuery(x.target.url)
	}
	// The stores keep whole heads only with what needs a row of its own.
	switch {
	case !x.Sent:
	case store.InOneRow(a):
		a.ResponseHead = selectHead(x.RawHeader(), x.target.shown)
	default:
		a.RequestHead = redact(x.header, x.target.shown)
		a.ResponseHead = redactResponse(x.RawHeader(), x.target.shown)
	}
	return err
}

// exchange is the memory of one attempt. It is used again.
type exchange struct {
	egress.Exchange

	target     *target // of the last request
	header     []byte  // of the last request: the request itself is freed when it is written
	redirected bool    // a redirect was followed
	refused    bool    // the response refuses a cached token, and another token may be fetched
}

// exchanges are the memory of attempts that have ended: a response buffer of 4 KiB
// and the header of the last request each.
var exchanges = sync.Pool{New: func() any { return new(exchange) }}

// newExchange returns memory for one attempt. It has to be released.
func newExchange() *exchange {
	x, ok := exchanges.Get().(*exchange)
	if !ok {
		x = new(exchange)
	}
	return x
}

// release gives the memory back. Whatever was read from the response's header is
// invalid from then on; its body is a copy.
func (x *exchange) release() {
	x.Reset()
	*x = exchange{Exchange: x.Exchange, header: x.header[:0]}
	exchanges.Put(x)
}

// exchange builds the request of the draft, sends it, and follows redirects as
// far as the endpoint wants. It returns the last response.
//
// The token source is remembered before redirects are followed: a target on another
// host has none. A refusal counts only if the response came from a target that was sent
// the token.
func (s *Sender) exchange(ctx context.Context, x *exchange, d draft) (response egress.Response, err error) {
	cached := false
	if d.token, cached, err = s.prepare(ctx, x, d); err != nil {
		return egress.Response{}, err
	}
	tokens := x.target.tokens
	if x.header, err = d.build(x.target, &x.Request, x.header[:0]); err != nil {
		return egress.Response{}, err
	}
	response, err = s.roundTrip(ctx, x)
	for range x.target.maxRedirects {
		if err != nil || !keepsRequest(response.Status) {
			break
		}
		before := response
		if response, err = s.follow(ctx, x, &d, response); errors.Is(err, egress.ErrWithdrawn) {
			response, err = before, nil // what the attempt showed: the redirect is not followed
			break
		}
	}
	if err == nil && x.target.tokens != nil && cached && d.mayRefuse && refusesToken(&response) {
		x.refused = tokens.reject(d.token, time.Now())
	}
	return response, err
}

// prepare sets the target of x, and returns the token that it needs. Usually
// the target is cached and needs none. Otherwise a secret may have to be read from
// the database and the token from its server, and both waits need the deadline in
// their context.
func (s *Sender) prepare(ctx context.Context, x *exchange, d draft) (token string, cached bool, err error) {
	if x.target = s.targets.cached(d.to, d.at); x.target != nil && x.target.tokens == nil {
		return "", false, nil
	}
	ctx, cancel := x.Limit(ctx)
	defer cancel()
	if x.target, err = s.targets.find(ctx, d.to, d.at); err != nil {
		return "", false, err
	}
	return x.target.tokens.token(ctx, x.Look)
}

// roundTrip sends the request of x to its target.
func (s *Sender) roundTrip(ctx context.Context, x *exchange) (egress.Response, error) {
	return s.egress.RoundTrip(ctx, x.target.server, &x.Exchange)
}
