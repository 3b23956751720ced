// Package webhook delivers events to endpoints as signed HTTP requests.
//
// [Sender.Send] makes one attempt of a delivery. It builds the body, signs it, adds the endpoint's
// headers and its authentication, sends the request through package egress, and classifies the
// response or the error as a [postrider.Attempt]. A failed delivery is a value, never an error.
// [Sender.Verify] asks a receiver whether it wants events at all.
//
// These promises hold, whatever an endpoint or its receiver does:
//
//   - Every request goes through [egress.Egress], including the request for a token.
//     So all promises of egress about addresses, memory and time hold.
//   - An attempt ends at its deadline or with its context. Fetching a token and
//     following redirects happen within the same deadline.
//   - Just before each request is written, including redirected requests and requests
//     for a token, the sender asks again whether the endpoint and the delivery are
//     unchanged (Options.Current).
//   - One attempt writes one request, and one more for each redirect that the
//     endpoint's policy allows. It follows at most three redirects, and only those
//     that keep method and body. Each URL is checked like an endpoint's, and never
//     leads from https to http. Another host gets the body, the event's type and its
//     id, and nothing that shows who sent them.
//   - One Send makes one attempt, and a second one if the endpoint refused a cached
//     token. The first is recorded before the second begins.
//   - The bytes that are sent are the bytes that were signed, compressed afterwards
//     if the endpoint wants that. They contain the event's data exactly as it was
//     published.
//   - Secrets are decrypted when they are needed. An endpoint whose secret cannot
//     be decrypted gets no request. That is a failure of this server, as if it had no
//     descriptors left: the attempt is postponed and not made
//     ([postrider.OutcomePostponed]).
//   - No text of an attempt, an error or a log line contains a secret, a credential,
//     a token, a signature or the query of a URL. Of a request's header, only
//     fields that are known to be harmless are recorded.
//
// [Sender.Describe] and [Sender.Sign] build requests in the same way and send nothing. The package
// does not retry, limit rates or count; the dispatcher does.
//
// One attempt passes through these files: target.go (the prepared and cached parts of an endpoint's
// requests), token.go (OAuth2), request.go and headers.go (the bytes of the request), redirect.go,
// classify.go (the outcome).
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
	UserAgent     string // default: Postrider
	RequestOrigin string // WebHook-Request-Origin of CloudEvents handshakes; default: postrider
	// Store's time of day, for times that are signed or recorded; default: the machine's.
	Now func() time.Time
	Log *slog.Logger // default: discard

	// Continue records an attempt whose token was refused. After that the sender makes another one
	// under the same lease, with the next number. If Continue returns an error, the lease is gone
	// or the store is away, and no further attempt is made. Default: nothing is recorded.
	Continue func(ctx context.Context, c postrider.Claimed, a postrider.Attempt) error

	// Current reports whether an attempt that began with these settings may send now: the endpoint
	// has not changed since, and the delivery is not cancelled. Default: it always may.
	Current func(c *postrider.Claimed, to *store.EndpointSnapshot) bool

	// ReceiverControl obeys the header webhook-delivery of receivers; see [postrider.ReceiverAsk]. Default: it is
	// ignored.
	ReceiverControl bool

	// Sampled reports whether the spans of an event are recorded, for the header traceparent of
	// endpoints that want it. Default: they are not.
	Sampled func(postrider.EventID) bool
}

// withDefaults replaces zero values. It removes characters that would end a header line from the
// two texts that are sent in headers.
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

// printable drops characters that are not allowed in a header.
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
	// DecryptCredentials returns the credentials of the endpoint. It returns the zero value if the
	// endpoint has none.
	DecryptCredentials(ctx context.Context, e postrider.Endpoint) (postrider.Credentials, error)
}

// Sender sends attempts. It may be used from any goroutine.
type Sender struct {
	egress  *egress.Egress
	targets *targets
	unsent  *targets // targets with placeholders for secrets; see Describe
	origin  string
	obeys   bool // Options.ReceiverControl
	now     func() time.Time
	current func(*postrider.Claimed, *store.EndpointSnapshot) bool
	log     *slog.Logger
	goOn    func(context.Context, postrider.Claimed, postrider.Attempt) error // see Options.Continue

	postponed perSecond // attempts that this server could not make because it lacked something
}

// New returns a Sender that sends through door and decrypts secrets with vault.
func New(door *egress.Egress, vault Vault, opts Options) *Sender {
	opts = opts.withDefaults()
	return &Sender{
		egress:  door,
		targets: newTargets(door, vault, opts),
		unsent:  newTargets(door, placeholders{}, opts),
		origin:  opts.RequestOrigin,
		obeys:   opts.ReceiverControl,
		now:     opts.Now,
		current: opts.Current,
		log:     opts.Log,
		goOn:    opts.Continue,
	}
}

// Send makes the attempt that c is leased for, and returns its record. The deadline may be earlier
// than the timeout of the endpoint's policy. Send returns soon after the deadline has passed or ctx
// has ended, whichever is first.
//
// If the endpoint refuses a cached token, that attempt is recorded and excused. Send makes another
// one with a new token, within the same deadline, and returns its record, which has the next
// number. A second refusal counts as the endpoint's failure.
//
// If Options.Current reports false before the first request of an attempt, nothing is sent, and the
// outcome is [postrider.OutcomeNone].
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

// perSecond counts events that are logged at most once a second.
type perSecond struct {
	mu       sync.Mutex
	n        int
	loggedAt time.Time
}

// count counts one more. If the last log line is at least a second old, it returns the number since
// then, and the caller logs it. Otherwise it returns 0.
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

// attempt makes the attempt and records its result in a. It also returns why the attempt failed,
// only for the log: the error may contain an address, which the endpoint's owner must not see.
//
// The deadline is set on the exchange and not in ctx. So an attempt on a pooled connection needs no
// timer and no context of its own. Only code that may wait for something else, such as a DNS lookup
// or a token, makes a context with the deadline, by [egress.Exchange.Limit]. Classifying a failure
// needs such a context, too, because it must know whether the deadline has passed.
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
		switch {
		case x.refused:
			a.Outcome, a.Error, a.Excused = postrider.OutcomeRejected, string(postrider.FailureTokenRefused), true
		case s.obeys && !x.redirected:
			a.Ask = askOf(&response)
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
	// The stores keep whole heads only for an attempt that needs a row of its own.
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

// exchange is the memory of one attempt. It is reused.
type exchange struct {
	egress.Exchange

	target     *target // target of the last request
	header     []byte  // header of the last request; the request itself is freed when it is written
	redirected bool    // a redirect was followed
	refused    bool    // the response refuses a cached token, and another token may be fetched
}

// exchanges are the memory of attempts that have ended. Each has a response buffer of 4 KiB and the
// header of the last request.
var exchanges = sync.Pool{New: func() any { return new(exchange) }}

// newExchange returns memory for one attempt. The caller must release it.
func newExchange() *exchange {
	x, ok := exchanges.Get().(*exchange)
	if !ok {
		x = new(exchange)
	}
	return x
}

// release returns the memory to the pool. From then on, slices of the response's header are
// invalid; its body is a copy.
func (x *exchange) release() {
	x.Reset()
	*x = exchange{Exchange: x.Exchange, header: x.header[:0]}
	exchanges.Put(x)
}

// exchange builds the request of the draft, sends it, and follows as many redirects as the
// endpoint's policy allows. It returns the last response.
//
// It remembers the token source before it follows redirects, because a target on another host has
// none. A refusal counts only if the response came from a target to which the token was sent.
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
			response, err = before, nil // the result of the attempt is the redirect, which is not followed
			break
		}
	}
	if err == nil && x.target.tokens != nil && cached && d.mayRefuse && refusesToken(&response) {
		x.refused = tokens.reject(d.token, time.Now())
	}
	return response, err
}

// prepare sets the target of x, and returns the token that the target needs. Usually the target is
// cached and needs no token. Otherwise a secret may have to be read from the database and the token
// from its server. Both waits need a context with the deadline.
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
