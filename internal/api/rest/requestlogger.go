package rest

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/observe"
)

// requestLogger is the outermost middleware. It assigns the request id, recovers panics, and writes
// one log line for each request, except that refusals share lines. Because it is outermost, every
// response has an id and every request is logged.
type requestLogger struct {
	next http.Handler
	log  *slog.Logger
	// hooks are called for each response, also after a panic.
	hooks    observe.Hooks
	refusals *refusals
}

// newRequestLogger returns a middleware that logs the requests of next.
func newRequestLogger(next http.Handler, log *slog.Logger, hooks observe.Hooks) *requestLogger {
	return &requestLogger{next: next, log: log, hooks: hooks, refusals: &refusals{log: log}}
}

// Info has the facts about a request that the handler and the log line need. The request's
// goroutine owns it.
type Info struct {
	// id is the request id, set by ServeHTTP.
	id string
	// start is the time of arrival, by this machine's clock.
	start time.Time
	// inside is the caller of a call inside the process; nil: the request came from the network.
	inside *postrider.Caller
	// Caller is nobody until authorize sets the caller. It must not be changed, because it belongs
	// to a cache.
	Caller *postrider.Caller
	// Account is the account that the request is about, for the log. Zero: none, or the account is
	// not resolved yet. Set by Names and by some handlers.
	Account postrider.AccountID
	// endpoint is the endpoint that the request names. Zero: the request names none, or the
	// endpoint is not found yet. Set by Names.
	endpoint postrider.EndpointID
	// object is the id of the object of the request, if the path may name it by a name. Object sets it.
	object string
	// Event is the event that the request published. For a batch it is the first event. Zero: the
	// request published no event.
	Event postrider.EventID
	// Trace is the trace from the header traceparent. Zero: the request has no valid header.
	Trace postrider.TraceParent
	// details are added to the audit entry of the request. The handler writes them with Note.
	details map[string]string
	// searchesData is true if the data of events was searched. SearchesData sets it.
	searchesData bool
	// notEffective has the nodes on which the request's change is not in effect yet. Effects sets
	// it.
	notEffective postrider.NotEffective
	// tag is the ETag of the object in the response. Empty: it has none.
	tag string
	// created is true if a PUT has created the object. Created sets it.
	created bool
	// err is the error behind a 5xx response, for the log only. problemOf sets it.
	err error
	// problem is the code of the problem in the response. Empty: the response is no problem.
	// problemOf sets it.
	problem string
	// request is the request, if huma serves the route. nil: the route does not use huma, or the
	// context belongs to no request.
	request *http.Request
	// Header has the request's headers.
	Header http.Header
	// body is the request body, for handlers of huma. It is valid until the handler returns,
	// because its buffer is reused.
	body []byte
	// reading is the time that the body took to arrive. The deadline of the response is extended by
	// it. readBody sets it.
	reading time.Duration
}

// nobody is the caller of an unauthenticated request. It has no scopes.
var nobody postrider.Caller

// infoKey is the context key of Info.
type infoKey struct{}

// in returns ctx with the request's info, for InfoOf.
func (c *Info) in(ctx context.Context) context.Context {
	return context.WithValue(ctx, infoKey{}, c)
}

// InfoOf returns the info of the request that ctx belongs to. For any other context it returns an
// empty info with the caller nobody, never nil.
func InfoOf(ctx context.Context) *Info {
	c, ok := ctx.Value(infoKey{}).(*Info)
	if !ok {
		return &Info{Caller: &nobody}
	}
	return c
}

// ServeHTTP serves one request and logs it.
func (b *requestLogger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := &responseWriter{ResponseWriter: w, request: r, info: Info{
		id: requestID(), start: time.Now(), inside: insider(r), Caller: &nobody, Header: r.Header,
	}}
	if caller := a.info.inside; caller != nil {
		a.info.id = cmp.Or(caller.Request, a.info.id)
	}
	if header := r.Header[traceHeader]; len(header) == 1 {
		// If the header is invalid, Trace is zero.
		a.info.Trace, _ = postrider.ParseTraceParent(header[0])
	}
	// The name is canonical already, so direct assignment is cheaper than Set.
	header := a.Header()
	header["Request-Id"] = []string{a.info.id}
	header["Cache-Control"], header["X-Content-Type-Options"] = noStore, noSniff
	defer b.record(a) // also after http.ErrAbortHandler
	b.serve(a)
}

// Every response has these headers. Responses have secrets and data of customers, so no cache may
// keep a response and no browser may guess its media type. All responses share these slices,
// because no code changes the slices. A handler may set another value.
var (
	noStore = []string{"no-store"}
	noSniff = []string{"nosniff"}
)

// requestID returns req_ and 64 random bits in hex. The id need not be secret, so the fast random
// generator is good enough.
func requestID() string {
	var random [8]byte
	binary.BigEndian.PutUint64(random[:], rand.Uint64())
	return string(hex.AppendEncode(append(make([]byte, 0, 20), "req_"...), random[:]))
}

// serve calls the next handler and recovers its panic. It does not stop the panic
// http.ErrAbortHandler, which closes the connection. It sends the problem for a request without a
// route, because responseWriter suppressed the response of the mux.
func (b *requestLogger) serve(a *responseWriter) {
	defer func() {
		switch cause := recover(); cause {
		case nil:
		case http.ErrAbortHandler:
			panic(cause)
		default:
			b.recovered(a, cause)
		}
	}()
	b.next.ServeHTTP(a, a.request)
	if a.unrouted {
		a.refuse(unrouted(a.status))
	}
}

// recovered logs a panic with its stack and responds with 500.
func (b *requestLogger) recovered(a *responseWriter, cause any) {
	err := fmt.Errorf("panic: %v", cause)
	b.hooks.Violated.Call("request_panicked")
	b.log.ErrorContext(a.request.Context(), "handler panicked", "request", a.info.id, "error", err, "stack", string(debug.Stack()))
	if a.status != 0 { // the status is sent: only a closed connection shows the failure
		a.info.err = err
		panic(http.ErrAbortHandler)
	}
	a.refuse(err)
}

// record calls the hooks for the response and writes the log line of the request. The level is
// error only for a fault of this server. A client that disconnects is not such a fault.
func (b *requestLogger) record(a *responseWriter) {
	c, r := &a.info, a.request
	b.hooks.Responded.Call(observe.Responded{Route: r.Pattern, Status: a.status, Problem: c.problem, Took: time.Since(c.start)})
	level := slog.LevelInfo
	if c.inside != nil { // the request for the page has its own line
		level = slog.LevelDebug
	}
	if c.err != nil && !isClients(c.err) {
		level = slog.LevelError
	}
	// Skip building the attributes for a level that is not logged.
	if !b.log.Enabled(r.Context(), level) {
		return
	}
	if refuses(a.status) && !b.refusals.first(r.Context(), refusal{r.Pattern, c.problem, classOf(c.err).detail, level}) {
		return
	}
	attrs := append(make([]slog.Attr, 0, 13),
		slog.String("method", r.Method), slog.String("route", r.Pattern), slog.Int("status", a.status),
		slog.Int64("duration_ms", time.Since(c.start).Milliseconds()), slog.String("request", c.id))
	attrs = appendID(attrs, "key", c.Caller.Key)
	attrs = appendID(attrs, "session", c.Caller.Session)
	attrs = appendID(attrs, "account", cmp.Or(c.Account, c.Caller.Account))
	attrs = c.appendSubject(attrs, r)
	if c.err != nil {
		attrs = append(attrs, slog.Any("error", c.err))
	}
	b.log.LogAttrs(r.Context(), level, "request answered", attrs...)
}

// appendSubject appends the event, delivery, endpoint and trace that the request is about. With
// these, a search finds the log line together with the lines of attempts. A path may hold any text,
// so only valid ids of a path are logged.
func (c *Info) appendSubject(attrs []slog.Attr, r *http.Request) []slog.Attr {
	event, _ := Filtered[postrider.EventID]("event", r.PathValue("event"))
	delivery, _ := Filtered[postrider.DeliveryID]("delivery", r.PathValue("delivery"))
	attrs = appendID(attrs, "event", cmp.Or(c.Event, event))
	attrs = appendID(attrs, "delivery", delivery)
	attrs = appendID(attrs, "endpoint", c.endpoint)
	if !c.Trace.IsZero() {
		attrs = append(attrs, slog.String("trace", c.Trace.Trace().String()))
	}
	return attrs
}

// appendID appends an id, unless it is zero.
func appendID[I interface {
	IsZero() bool
	String() string
}](attrs []slog.Attr, name string, id I) []slog.Attr {
	if id.IsZero() {
		return attrs
	}
	return append(attrs, slog.String(name, id.String()))
}

// isClients reports whether err, the cause of a 5xx response, is no fault of this server. That is
// so if the client disconnected, or if the server is starting or stopping.
func isClients(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, errBroken) || errors.Is(err, errDraining) || errors.Is(err, errStarting)
}

const (
	// responseSlack is the time that a client may take for a response of any size. A response
	// larger than smallResponse gets more time, by its size and responseRate.
	responseSlack = 30 * time.Second
	// responseRate is the slowest rate at which a client may receive a response,
	// in bytes per second.
	responseRate = 64 << 10
	// smallResponse is the size, in bytes, up to which the server's WriteTimeout applies. The
	// socket's buffer takes such a response at once, unless the client reads nothing.
	smallResponse = 4 << 10
)

// responseWriter records the status of the response and sets write deadlines by the size of the
// response. It suppresses the responses of the mux itself: plain text for a missing route, and
// redirects to cleaned paths. requestLogger.serve sends problems instead.
type responseWriter struct {
	http.ResponseWriter
	// info is embedded by value, so that a request allocates only once.
	info    Info
	request *http.Request
	// intake is the state of the request's body. Zero: no body was read.
	intake intake
	// status is the status of the response. 0: no status has been written yet.
	status int
	// unrouted is true if the mux wrote its own response, which is suppressed.
	unrouted bool
	// began is the time of the write with which the response exceeded smallResponse. Zero: the
	// response is not larger than that.
	began time.Time
	// size counts the bytes written to the response body.
	size int
	// giveBack ends the turn of a request that only reads, so that another read may start. Write
	// calls it before the first byte is sent, because the whole body is encoded by then. So a
	// client that does not read its response keeps no turn. nil: the request needs no turn.
	giveBack func()
}

// WriteHeader sends the status. It suppresses a status that the mux chose itself: no pattern
// matched, or the status is a redirect, which no handler of the API sends.
func (a *responseWriter) WriteHeader(status int) {
	first := a.status == 0
	status = a.noteEffect(a.noteRevision(status))
	a.status = status
	if first && (a.request.Pattern == "" || status/100 == 3) {
		a.unrouted = true
		return
	}
	a.head(status)
}

// head sends the status. Before net/http sends it, net/http reads the unread rest of the body. The
// read deadline limits this to restTime.
func (a *responseWriter) head(status int) {
	if a.request.ContentLength != 0 && !a.intake.over && !a.intake.cut.Load() {
		_ = http.NewResponseController(a.ResponseWriter).SetReadDeadline(time.Now().Add(restTime))
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write sends bytes of the response. It discards the bytes of a suppressed response.
func (a *responseWriter) Write(p []byte) (int, error) {
	if a.status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	if a.unrouted {
		return len(p), nil
	}
	if a.giveBack != nil {
		a.giveBack()
	}
	a.sends(len(p))
	return a.ResponseWriter.Write(p)
}

// sends extends the write deadline for n more bytes of the response. It ignores the error of a
// writer that has no deadlines; only tests use such a writer.
func (a *responseWriter) sends(n int) {
	a.size += n
	if a.size <= smallResponse {
		return
	}
	if a.began.IsZero() {
		a.began = time.Now()
	}
	within := responseSlack + time.Duration(a.size)*time.Second/responseRate
	_ = http.NewResponseController(a.ResponseWriter).SetWriteDeadline(a.began.Add(within))
}

// refuse responds with the problem of the error. If the server stopped while the body was arriving,
// it also closes the connection at once. Otherwise, when much of the body is unread, net/http would
// keep the connection for half a second and delay the shutdown.
func (a *responseWriter) refuse(err error) {
	writeProblem(a, problemOf(a.info.in(a.request.Context()), err))
	if a.intake.cut.Load() {
		// An error is ignored, because only writers of tests cannot flush.
		_ = http.NewResponseController(a.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
}

// Unwrap returns the writer of net/http, for [http.ResponseController].
func (a *responseWriter) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// traceHeader is the request header with the producer's trace, as net/http spells it.
const traceHeader = "Traceparent"
