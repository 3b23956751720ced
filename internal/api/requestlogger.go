package api

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
)

// requestLogger is the outermost middleware: it gives each request an id, catches
// its panic, and logs one line for it.
type requestLogger struct {
	next http.Handler
	log  *slog.Logger
}

// requestInfo is what is known of a request, for its handler and its log line.
type requestInfo struct {
	id      string
	start   time.Time
	key     *postrider.APIKey   // noKey until the caller is known
	account postrider.AccountID // that the request is about; zero: none, or unknown
	err     error               // behind a 5xx answer; the log alone may have it
	header  http.Header         // of the request
	body    []byte              // valid until the handler returns
	reading time.Duration       // that the body took to arrive
}

type infoKey struct{}

// in returns ctx with the call, for infoOf.
func (c *requestInfo) in(ctx context.Context) context.Context {
	return context.WithValue(ctx, infoKey{}, c)
}

// infoOf returns the call that ctx belongs to.
func infoOf(ctx context.Context) *requestInfo {
	c, ok := ctx.Value(infoKey{}).(*requestInfo)
	if !ok {
		return &requestInfo{key: &noKey}
	}
	return c
}

// ServeHTTP answers a request.
func (b *requestLogger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := &responseWriter{ResponseWriter: w, request: r, info: requestInfo{
		id: requestID(), start: time.Now(), key: &noKey, header: r.Header,
	}}
	a.Header()["Request-Id"] = []string{a.info.id}
	defer b.record(a) // of one that is cut short too
	b.serve(a)
}

// requestID returns req_ and 64 random bits.
func requestID() string {
	var random [8]byte
	binary.BigEndian.PutUint64(random[:], rand.Uint64())
	return string(hex.AppendEncode(append(make([]byte, 0, 20), "req_"...), random[:]))
}

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

func (b *requestLogger) recovered(a *responseWriter, cause any) {
	err := fmt.Errorf("panic: %v", cause)
	b.log.ErrorContext(a.request.Context(), "handler panicked", "request", a.info.id, "error", err, "stack", string(debug.Stack()))
	if a.status != 0 { // part of an answer left; only closing the connection tells the client
		a.info.err = err
		panic(http.ErrAbortHandler)
	}
	a.refuse(err)
}

// record writes the request's line. It is an error only if the fault is ours,
// which a client that left is not.
func (b *requestLogger) record(a *responseWriter) {
	c, r := &a.info, a.request
	level := slog.LevelInfo
	if c.err != nil && !isClients(c.err) {
		level = slog.LevelError
	}
	if !b.log.Enabled(r.Context(), level) {
		return
	}
	attrs := append(make([]slog.Attr, 0, 8),
		slog.String("method", r.Method), slog.String("route", r.Pattern), slog.Int("status", a.status),
		slog.Int64("duration_ms", time.Since(c.start).Milliseconds()), slog.String("request", c.id))
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

// isClients reports whether err, behind a 5xx answer, is no fault of this server.
func isClients(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, errBroken) || errors.Is(err, errDraining) || errors.Is(err, errStarting)
}

const (
	// answerSlack is how long a client may take to receive an answer, besides
	// the time that its size takes at answerRate.
	answerSlack = 30 * time.Second
	// answerRate is the least rate at which an answer must be received, in bytes
	// a second.
	answerRate = 64 << 10
	// answerSmall is the size up to which an answer has the WriteTimeout of the
	// server: the system takes it at once, unless the client receives nothing.
	answerSmall = 4 << 10
)

// responseWriter notes the status of an answer, gives the client a time to receive it, and holds back what the mux says by
// itself: plain text where no route matches, and redirects to cleaner paths.
type responseWriter struct {
	http.ResponseWriter
	info     requestInfo
	request  *http.Request
	intake   intake
	status   int
	unrouted bool
	began    time.Time // when more than answerSmall was written first
	size     int       // bytes written
}

// WriteHeader sends the status, unless it is the mux's own.
func (a *responseWriter) WriteHeader(status int) {
	first := a.status == 0
	a.status = status
	if first && (a.request.Pattern == "" || status/100 == 3) {
		a.unrouted = true
		return
	}
	a.head(status)
}

// head sends the status. Before it, net/http reads what is left of the body, for
// at most restTime.
func (a *responseWriter) head(status int) {
	if a.request.ContentLength != 0 && !a.intake.over && !a.intake.cut.Load() {
		_ = http.NewResponseController(a.ResponseWriter).SetReadDeadline(time.Now().Add(restTime))
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write sends bytes of the answer, unless they are the mux's own.
func (a *responseWriter) Write(p []byte) (int, error) {
	if a.status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	if a.unrouted {
		return len(p), nil
	}
	a.sends(len(p))
	return a.ResponseWriter.Write(p)
}

// sends moves the deadline on for n more bytes of the answer. A writer without
// deadlines is that of a test.
func (a *responseWriter) sends(n int) {
	a.size += n
	if a.size <= answerSmall {
		return
	}
	if a.began.IsZero() {
		a.began = time.Now()
	}
	within := answerSlack + time.Duration(a.size)*time.Second/answerRate
	_ = http.NewResponseController(a.ResponseWriter).SetWriteDeadline(a.began.Add(within))
}

// refuse answers with the problem that the error is. When the server ends while
// the body arrives, it closes the connection at once: net/http would keep it for
// half a second where much of the body is left, and hold up the server's end.
func (a *responseWriter) refuse(err error) {
	writeProblem(a, problemOf(a.info.in(a.request.Context()), err))
	if a.intake.cut.Load() {
		_ = http.NewResponseController(a.ResponseWriter).Flush() // a writer that cannot is that of a test
		panic(http.ErrAbortHandler)
	}
}

// Unwrap lets deadlines be set on the connection.
func (a *responseWriter) Unwrap() http.ResponseWriter { return a.ResponseWriter }
