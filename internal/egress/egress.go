// Package egress is the one door to the outside: every request that leaves
// this program leaves through [Egress.Send].
//
// Send makes one attempt of a delivery: it builds the body, signs it, connects
// to an address that the guard has vetted, POSTs, reads the answer and says
// what it means as a [postrider.Attempt]. A failed delivery is a value, never
// an error. [Egress.Verify] asks a receiver whether it wants events at all.
// [Egress.CheckURL] is the part of the guard that needs no network, for whoever
// stores a URL.
//
// Whatever a URL, the DNS or a receiver does, this holds:
//
//   - No request and no connection goes to an address that [Options] does not
//     allow. The address is judged when it is dialled, after the DNS answered,
//     and where a name has one forbidden address, all of it is refused.
//   - An attempt ends with its context, whose deadline covers everything from
//     the DNS to the last byte of the body. The caller's goroutine makes it; only
//     a lookup or a fetch of a token that was given up may end a moment later.
//   - One Send puts one request on the wire, and one more for each redirect
//     that the endpoint wants followed: at most three, only where method and
//     body stay the same, each judged like an endpoint's URL, never from https to
//     http. Another host gets the body and what it is, and nothing that shows
//     who sent it. A token that the endpoint needs is fetched before, by the
//     same door and within the same deadline.
//   - Proxies of the environment, cookies and compressed answers do not exist
//     here.
//   - A connection is used again only when its last answer was read to an end
//     that nobody could place elsewhere, and its peer has been silent since.
//   - Whoever shows another certificate, or trusts other authorities, shares
//     neither connections nor sessions of TLS with anybody.
//   - An answer costs at most 16 KiB of head and 24 KiB of body in memory;
//     16 KiB of each are kept.
//   - What is sent is what was signed, compressed afterwards where the endpoint
//     wants that, and inside it the event's bytes as they were published.
//   - What is encrypted is opened when it is needed and never guessed: an endpoint
//     whose secret cannot be opened gets nothing.
//   - No text of an attempt, an error or a log line carries a secret, a
//     credential, a token, a signature or the query of a URL; a head is kept with
//     those headers alone that are known to be harmless.
//
// It does not retry, pace or count: that is the dispatcher's.
package egress

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// Options tunes the door. The zero value is the production default, but for the
// Vault.
type Options struct {
	Reach
	Vault     Vault            // default: one that opens nothing
	Proxy     *url.URL         // from [ParseProxy]: makes every connection, to addresses that were vetted here; nil: none
	Resolver  Resolver         // default: the pure Go resolver
	RootCAs   *x509.CertPool   // whom receivers' certificates must come from; nil: the system's
	UserAgent string           // default: Postrider
	Now       func() time.Time // the store's time of day, for what is signed or shown; default: the machine's
	Origin    string           // who asks receivers whether they want events; default: postrider
	Log       *slog.Logger     // default: discard
}

// Reach says what may be reached. The zero value is the production default:
// https to public addresses on ports 80, 443, 8080 and 8443.
type Reach struct {
	AllowHTTP bool           // http besides https
	Allow     []netip.Prefix // addresses allowed although they are not public; they beat Deny
	Deny      []netip.Prefix // addresses refused although they are public, such as our own
	Ports     []uint16       // ports allowed; nil: 80, 443, 8080, 8443
	AnyPort   bool           // any port
}

// Resolver finds the addresses of a name. [net.Resolver] is one.
type Resolver interface {
	// LookupNetIP returns every address of the host.
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// The bounds of an answer, and of what is kept between attempts.
const (
	maxHead      = 16 << 10
	maxBody      = 16 << 10
	maxDrain     = 8 << 10 // read past maxBody to keep a connection
	maxIdle      = 1024
	maxIdleHost  = 256 // the dispatcher's default of attempts at a time
	idleTimeout  = 30 * time.Second
	tlsSessions  = 1024
	maxAddresses = 8 // of one name that are tried in one attempt
)

func (o Options) withDefaults() Options {
	if o.Ports == nil {
		o.Ports = []uint16{80, 443, 8080, 8443}
	}
	if o.Vault == nil {
		o.Vault = closed{}
	}
	if o.Resolver == nil {
		// The resolver of the C library also reads spellings like 0x7f.1, and
		// its lookups cannot be cancelled.
		o.Resolver = &net.Resolver{PreferGo: true}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.UserAgent = cmp.Or(strings.Map(printable, o.UserAgent), "Postrider")
	o.Origin = cmp.Or(strings.Map(printable, o.Origin), "postrider")
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return o
}

// printable drops what may not be in a header.
func printable(r rune) rune {
	if r < ' ' || r > '~' {
		return -1
	}
	return r
}

// Egress sends attempts. It may be used from any goroutine.
type Egress struct {
	guard  *guard
	routes *routes
	pool   *pool
	dialer *dialer
	now    func() time.Time
	origin string
	log    *slog.Logger
}

// New returns the door that opens as far as opts say.
func New(opts Options) *Egress {
	opts = opts.withDefaults()
	g := newGuard(opts.Reach)
	d := &dialer{
		guard:      g,
		resolver:   opts.Resolver,
		lookups:    make(chan struct{}, maxLookups),
		net:        net.Dialer{ControlContext: g.control},
		proxy:      newProxy(opts.Proxy, opts.RootCAs),
		identities: newIdentities(opts.RootCAs),
	}
	return &Egress{
		guard: g,
		routes: &routes{
			guard: g, vault: opts.Vault, dialer: d, agent: opts.UserAgent, known: map[postrider.EndpointID]*route{},
		},
		pool:   newPool(),
		dialer: d,
		now:    opts.Now,
		origin: opts.Origin,
		log:    opts.Log,
	}
}

// Close closes the connections that are kept for later; from now on none are.
// Attempts under way go on.
func (e *Egress) Close() {
	e.pool.close()
}

// CheckURL returns the canonical form of an endpoint's URL, or an
// [postrider.InvalidError] for the field "url" that says what it must be and
// repeats nothing of it. A name that passes may still resolve to a forbidden
// address: that is judged at every attempt.
func (e *Egress) CheckURL(raw string) (string, error) {
	u, err := e.guard.parse(raw)
	if err != nil {
		return "", err
	}
	return u.String(), nil
}

// Send makes the attempt that c is leased for and returns it as it went. The
// context carries the attempt's deadline, which may be shorter than the
// endpoint's policy says.
func (e *Egress) Send(ctx context.Context, c postrider.Claimed, to store.EndpointSnapshot) postrider.Attempt {
	started := time.Now()
	a := postrider.Attempt{
		Delivery:  c.ID,
		Event:     c.Event.ID,
		Endpoint:  c.Endpoint,
		Number:    c.Attempt,
		StartedAt: e.now().UTC().Truncate(time.Microsecond),
	}
	cause := e.attempt(ctx, &a, &c, &to)
	a.Duration = time.Since(started)
	if cause != nil {
		level := slog.LevelDebug
		if a.Error == string(postrider.FailureSecrets) { // nothing but an operator can help here
			level = slog.LevelError
		}
		e.log.Log(ctx, level, "attempt failed", "delivery", c, "outcome", string(a.Outcome), "class", a.Error, "cause", cause)
	}
	return a
}

// keptStart is how much of an accepted answer's body the stores keep in the
// attempt's own row. Whoever has no more to say has no heads worth keeping.
const keptStart = 256

// attempt fills in a and returns what operators may read about a failure.
func (e *Egress) attempt(ctx context.Context, a *postrider.Attempt, c *postrider.Claimed, to *store.EndpointSnapshot) error {
	x := newExchange()
	defer x.release()
	ans, err := e.exchange(ctx, x, draft{claimed: c, to: to, at: a.StartedAt})
	if err == nil {
		judgeAnswer(a, ans.answerHead, e.now())
		a.ResponseBody = ans.body
	} else {
		judgeError(ctx, a, err, x.sent)
	}
	if x.led {
		a.FinalURL = finalURL(x.route.url)
	}
	if x.sent && (a.Outcome != postrider.OutcomeAccepted || len(a.ResponseBody) > keptStart) {
		a.RequestHead = redact(x.head, x.route.shown)
		a.ResponseHead = x.in.began()
	}
	return err
}

// judgeError fills in what became of an attempt without a final answer. One
// that was redirected, and went nowhere from there, has that answer.
func judgeError(ctx context.Context, a *postrider.Attempt, err error, sent bool) {
	if h, ok := errors.AsType[*hopError](err); ok && !ended(ctx) {
		judgeAnswer(a, h.answer.answerHead, a.StartedAt)
		a.Error, a.ResponseBody = h.text(), h.answer.body
		return
	}
	outcome, failure := judgeFailure(ctx, err, sent)
	a.Outcome, a.Error = outcome, string(failure)
	if failure == postrider.FailureAuth {
		a.Error += tokenDetail(err)
	}
}

// judgeFailure says what an exchange without an answer shows.
func judgeFailure(ctx context.Context, err error, sent bool) (postrider.Outcome, postrider.Failure) {
	s, early := errors.AsType[*stageError](err)
	switch {
	case early && s.failure == postrider.FailureForbidden && !sent:
		return postrider.OutcomeBlocked, postrider.FailureForbidden
	case early && s.failure == postrider.FailureAuth && !sent && !errors.Is(ctx.Err(), context.Canceled):
		return postrider.OutcomeUnreachable, postrider.FailureAuth
	case expired(ctx) && early && late(s.err) && s.failure != postrider.FailureProxy:
		return postrider.OutcomeTimedOut, s.failure
	case expired(ctx):
		return postrider.OutcomeTimedOut, postrider.FailureTimeout
	case ctx.Err() != nil && sent:
		return postrider.OutcomeBroken, postrider.FailureCanceled
	case ctx.Err() != nil:
		return postrider.OutcomeUnreachable, postrider.FailureCanceled
	case early:
		return postrider.OutcomeUnreachable, s.failure
	case !sent:
		return postrider.OutcomeUnreachable, connectFailure(err)
	case errors.Is(err, errAnswer):
		return postrider.OutcomeBroken, postrider.FailureBadResponse
	case isAlert(err):
		return postrider.OutcomeBroken, postrider.FailureTLSRefused
	}
	return postrider.OutcomeBroken, postrider.FailureCut
}

// ended reports whether an attempt in the context may not go on.
func ended(ctx context.Context) bool { return ctx.Err() != nil || expired(ctx) }

// expired reports whether the deadline has passed, also in the moment before
// the context notices.
func expired(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return errors.Is(ctx.Err(), context.DeadlineExceeded) || ok && !time.Now().Before(deadline)
}
