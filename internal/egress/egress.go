// Package egress is the one door to the outside: every request that leaves
// this program leaves through [Egress.Send].
//
// Send makes one attempt of a delivery: it builds the body, signs it, connects
// to an address that the guard has vetted, POSTs, reads the answer and says
// what it means as a [postrider.Attempt]. A failed delivery is a value, never
// an error. [Egress.CheckURL] is the part of the guard that needs no network,
// for whoever stores a URL.
//
// Whatever a URL, the DNS or a receiver does, this holds:
//
//   - No request and no connection goes to an address that [Options] does not
//     allow. The address is judged when it is dialled, after the DNS answered,
//     and where a name has one forbidden address, all of it is refused.
//   - An attempt ends with its context, whose deadline covers everything from
//     the DNS to the last byte of the body. Only a dial may go on behind it, and
//     no longer than to the same deadline.
//   - One Send puts at most one request on the wire. Redirects, proxies of the
//     environment, cookies and compression do not exist here.
//   - An answer costs at most 16 KiB of head and 24 KiB of body in memory; 16 KiB
//     of each are kept.
//   - What is sent is what was signed, and inside it the event's bytes as they
//     were published.
//   - No text of an attempt, an error or a log line carries a secret, a
//     signature or the query of a URL.
//
// It does not retry, pace or count: that is the dispatcher's.
package egress

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// Options says what may be reached. The zero value is the production default:
// https to public addresses on ports 80, 443, 8080 and 8443.
type Options struct {
	AllowHTTP bool           // http besides https
	Allow     []netip.Prefix // addresses allowed although they are not public; they beat Deny
	Deny      []netip.Prefix // addresses refused although they are public, such as our own
	Ports     []uint16       // ports allowed; nil: 80, 443, 8080, 8443
	AnyPort   bool           // any port
	Resolver  Resolver       // default: the pure Go resolver
	RootCAs   *x509.CertPool // whom receivers' certificates must come from; nil: the system's
	UserAgent string         // default: Postrider
	Log       *slog.Logger   // default: discard
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
	maxIdle      = 512
	maxIdleHost  = 64
	idleTimeout  = 30 * time.Second
	tlsSessions  = 1024
	maxAddresses = 8 // of one name that are tried in one attempt
)

func (o Options) withDefaults() Options {
	if o.Ports == nil {
		o.Ports = []uint16{80, 443, 8080, 8443}
	}
	if o.Resolver == nil {
		// The resolver of the C library also reads spellings like 0x7f.1, and
		// its lookups cannot be cancelled.
		o.Resolver = &net.Resolver{PreferGo: true}
	}
	o.UserAgent = cmp.Or(o.UserAgent, "Postrider")
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return o
}

// Egress sends attempts. It may be used from any goroutine.
type Egress struct {
	guard  *guard
	pooled *http.Transport
	fresh  *http.Transport // never reuses a connection
	agent  []string        // the user-agent header's values, shared by all requests
	log    *slog.Logger
}

// New returns the door that opens as far as opts say.
func New(opts Options) *Egress {
	opts = opts.withDefaults()
	g := newGuard(opts)
	d := &dialer{
		guard:    g,
		resolver: opts.Resolver,
		net:      net.Dialer{ControlContext: g.control},
		tls: &tls.Config{
			MinVersion:         tls.VersionTLS12,
			RootCAs:            opts.RootCAs,
			ClientSessionCache: tls.NewLRUClientSessionCache(tlsSessions),
		},
	}
	return &Egress{
		guard:  g,
		pooled: newTransport(d, false),
		fresh:  newTransport(d, true),
		agent:  []string{opts.UserAgent},
		log:    opts.Log,
	}
}

// newTransport sets no timeouts: the context of an attempt covers all of it.
func newTransport(d *dialer, closeAlways bool) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true) // HTTP/2 gives an untrusted peer more to attack
	return &http.Transport{
		Proxy:                  nil,
		DialContext:            d.dial,
		DialTLSContext:         d.dialTLS,
		DisableCompression:     true,
		DisableKeepAlives:      closeAlways,
		MaxIdleConns:           maxIdle,
		MaxIdleConnsPerHost:    maxIdleHost,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHead,
		Protocols:              protocols,
	}
}

// Close closes the connections that are kept for later. Attempts under way go
// on.
func (e *Egress) Close() {
	e.pooled.CloseIdleConnections()
	e.fresh.CloseIdleConnections()
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
// context carries the attempt's deadline.
func (e *Egress) Send(ctx context.Context, c postrider.Claimed, to store.Routed) postrider.Attempt {
	started := time.Now()
	a := postrider.Attempt{
		Delivery:  c.ID,
		Event:     c.Event.ID,
		Endpoint:  c.Endpoint,
		Number:    c.Attempt,
		StartedAt: started.UTC().Truncate(time.Microsecond),
	}
	cause := e.attempt(ctx, &a, c, to)
	a.Duration = time.Since(started)
	if cause != nil {
		e.log.DebugContext(ctx, "attempt failed", "delivery", c, "outcome", string(a.Outcome), "class", a.Error, "cause", cause)
	}
	return a
}

// attempt fills in a and returns what operators may read about a failure.
func (e *Egress) attempt(ctx context.Context, a *postrider.Attempt, c postrider.Claimed, to store.Routed) error {
	u, err := e.guard.parse(to.Endpoint.URL)
	if err != nil {
		a.Outcome, a.Error = postrider.OutcomeBlocked, classForbidden
		return err
	}
	req, err := e.request(u, c, to, a.StartedAt)
	if err != nil {
		a.Outcome, a.Error = postrider.OutcomeUnreachable, classUnsigned
		return err
	}
	f := newFlight(ctx)
	resp, err := e.roundTrip(f.follow(ctx), req, f)
	a.ResponseHead = f.head()
	if err == nil || f.sent() {
		a.RequestHead = req.head()
	}
	if err != nil {
		a.Outcome, a.Error = judgeFailure(ctx, err, f)
		return err
	}
	defer resp.Body.Close()
	judgeAnswer(a, resp, time.Now())
	a.ResponseBody = readBody(resp)
	return nil
}

// roundTrip repeats a request on a new connection when the kept one turned out
// to be closed before any of the request was written.
func (e *Egress) roundTrip(ctx context.Context, req *outgoing, f *flight) (*http.Response, error) {
	resp, err := e.pooled.RoundTrip(req.in(ctx))
	if err == nil || !f.reused || f.sent() || ctx.Err() != nil {
		return resp, err
	}
	return e.fresh.RoundTrip(req.in(ctx))
}

// The classes of failure that the owner of an endpoint sees. They tell nothing
// of the network behind a name.
const (
	classForbidden   = "target_forbidden"
	classUnsigned    = "no_active_secret"
	classDNS         = "dns_error"
	classConnect     = "connect_error"
	classTLS         = "tls_error"
	classTimeout     = "timeout"
	classCut         = "connection_cut"
	classBadResponse = "bad_response"
	classCanceled    = "canceled"
	classStatus      = "http_status"
	classRedirect    = "redirect"
)

// judgeFailure says what an exchange without an answer shows.
func judgeFailure(ctx context.Context, err error, f *flight) (postrider.Outcome, string) {
	var s *stageError
	early := errors.As(err, &s)
	switch {
	case early && s.class == classForbidden:
		return postrider.OutcomeBlocked, classForbidden
	case expired(ctx):
		return postrider.OutcomeTimedOut, classTimeout
	case ctx.Err() != nil && f.sent():
		return postrider.OutcomeBroken, classCanceled
	case ctx.Err() != nil:
		return postrider.OutcomeUnreachable, classCanceled
	case early:
		return postrider.OutcomeUnreachable, s.class
	case !f.sent():
		return postrider.OutcomeUnreachable, classConnect
	case f.cut():
		return postrider.OutcomeBroken, classCut
	}
	return postrider.OutcomeBroken, classBadResponse
}

// expired reports whether the deadline has passed, also in the moment before
// the context notices.
func expired(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return errors.Is(ctx.Err(), context.DeadlineExceeded) || ok && !time.Now().Before(deadline)
}
