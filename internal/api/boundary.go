package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/postrider/postrider"
)

// boundary is what every request passes: it gets an id, its panic is caught,
// and it leaves one line in the log.
type boundary struct {
	next http.Handler
	log  *slog.Logger
}

// call is what is known of a request, for its handler and its log line.
type call struct {
	id      string
	key     postrider.APIKey    // zero until the caller is known
	account postrider.AccountID // that the request is about; zero: none, or unknown
	err     error               // behind a 5xx answer; the log alone may have it
	header  http.Header         // of the request
	body    []byte              // valid until the handler returns
}

type callKey struct{}

// callOf returns the call that ctx belongs to.
func callOf(ctx context.Context) *call {
	c, ok := ctx.Value(callKey{}).(*call)
	if !ok {
		return &call{}
	}
	return c
}

// ServeHTTP answers a request.
func (b *boundary) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	c := &call{id: fmt.Sprintf("req_%016x", rand.Uint64()), header: r.Header}
	r = r.WithContext(context.WithValue(r.Context(), callKey{}, c))
	a := &answer{ResponseWriter: w, request: r}
	a.Header().Set("Request-Id", c.id)
	defer func() { b.record(r, a.status, time.Since(start)) }() // of one that is cut short too
	b.serve(a, r)
}

func (b *boundary) serve(a *answer, r *http.Request) {
	defer func() {
		if cause := recover(); cause != nil {
			b.recovered(a, r, cause)
		}
	}()
	b.next.ServeHTTP(a, r)
	if a.unrouted {
		writeProblem(a, r, problemOf(r.Context(), unrouted(a.status)))
	}
}

func (b *boundary) recovered(a *answer, r *http.Request, cause any) {
	c := callOf(r.Context())
	c.err = fmt.Errorf("panic: %v", cause)
	b.log.ErrorContext(r.Context(), "handler panicked", "request", c.id, "error", c.err, "stack", string(debug.Stack()))
	if a.status != 0 { // part of an answer left; only closing the connection tells the client
		panic(http.ErrAbortHandler)
	}
	writeProblem(a, r, problemOf(r.Context(), c.err))
}

// record writes the request's line. It is an error only if the fault is ours,
// which a client that left is not.
func (b *boundary) record(r *http.Request, status int, took time.Duration) {
	c := callOf(r.Context())
	level := slog.LevelInfo
	if c.err != nil && !errors.Is(c.err, context.Canceled) {
		level = slog.LevelError
	}
	if !b.log.Enabled(r.Context(), level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("method", r.Method), slog.String("route", r.Pattern), slog.Int("status", status),
		slog.Int64("duration_ms", took.Milliseconds()), slog.String("request", c.id),
	}
	if !c.key.ID.IsZero() {
		attrs = append(attrs, slog.String("key", c.key.ID.String()))
	}
	if account := cmp.Or(c.account, c.key.Account); !account.IsZero() {
		attrs = append(attrs, slog.String("account", account.String()))
	}
	if c.err != nil {
		attrs = append(attrs, slog.Any("error", c.err))
	}
	b.log.LogAttrs(r.Context(), level, "request answered", attrs...)
}

// answer notes the status of an answer, and holds back what the mux says by
// itself: plain text where no route matches, and redirects to cleaner paths.
type answer struct {
	http.ResponseWriter
	request  *http.Request
	status   int
	unrouted bool
}

// WriteHeader sends the status, unless it is the mux's own.
func (a *answer) WriteHeader(status int) {
	first := a.status == 0
	a.status = status
	if first && (a.request.Pattern == "" || status/100 == 3) {
		a.unrouted = true
		return
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write sends bytes of the answer, unless they are the mux's own.
func (a *answer) Write(p []byte) (int, error) {
	if a.status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	if a.unrouted {
		return len(p), nil
	}
	return a.ResponseWriter.Write(p)
}

// Unwrap lets deadlines be set on the connection.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
