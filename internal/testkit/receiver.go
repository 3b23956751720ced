package testkit

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"
)

// Request is one request that a [Receiver] got.
type Request struct {
	Number int // from 1, in order of arrival
	Method string
	Target string // path and query as they were sent
	Host   string
	Header http.Header
	Body   []byte
	At     time.Time
}

// Answer writes the answer to a request. It is called from many goroutines.
type Answer func(w http.ResponseWriter, r Request)

// Status returns an Answer that always has the status and no body.
func Status(code int) Answer {
	return func(w http.ResponseWriter, _ Request) { w.WriteHeader(code) }
}

// Statuses returns an Answer with the statuses in turn, and after that always the last one.
func Statuses(codes ...int) Answer {
	return func(w http.ResponseWriter, r Request) { w.WriteHeader(codes[min(r.Number, len(codes))-1]) }
}

// RetryAfter returns an Answer with the status and a Retry-After header.
func RetryAfter(code int, wait time.Duration) Answer {
	return func(w http.ResponseWriter, _ Request) {
		w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)))
		w.WriteHeader(code)
	}
}

// Receiver is an HTTP server that records its requests. It may be used from any goroutine.
type Receiver struct {
	URL string // without a slash at the end

	mu       sync.Mutex
	answer   Answer
	requests []Request
}

// NewReceiver starts a receiver on the loopback interface.
func NewReceiver(tb testing.TB, answer Answer) *Receiver {
	tb.Helper()
	listener := listen(tb)
	return serve(tb, listener, "http://"+listener.Addr().String(), answer)
}

// NewTLSReceiver starts a receiver on the loopback interface that uses TLS with config. Failed
// handshakes do not fail the test.
func NewTLSReceiver(tb testing.TB, config *tls.Config, answer Answer) *Receiver {
	tb.Helper()
	listener := listen(tb)
	return serve(tb, tls.NewListener(listener, config), "https://"+listener.Addr().String(), answer)
}

// NewPipeReceiver starts a receiver without a network, for synctest bubbles, and returns the
// function that dials it. Its URL is http://receiver.test.
func NewPipeReceiver(tb testing.TB, answer Answer) (r *Receiver,
	dial func(ctx context.Context, network, address string) (net.Conn, error),
) {
	tb.Helper()
	pipes := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	return serve(tb, pipes, "http://receiver.test", answer), pipes.dial
}

func serve(tb testing.TB, listener net.Listener, url string, answer Answer) *Receiver {
	tb.Helper()
	r := &Receiver{URL: url, answer: answer}
	server := &http.Server{
		Handler: r, ReadHeaderTimeout: Patience,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			tb.Errorf("receiver: %v", err)
		}
	})
	tb.Cleanup(func() {
		if err := server.Close(); err != nil {
			tb.Errorf("close receiver: %v", err)
		}
		serving.Wait()
	})
	return r
}

// ServeHTTP records the request and answers it.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // the sender cut the connection, so this is no request
	}
	got := Request{
		Method: req.Method, Target: req.RequestURI, Host: req.Host,
		Header: req.Header, Body: body, At: time.Now(),
	}
	answer := r.record(&got)
	answer(w, got)
}

func (r *Receiver) record(got *Request) Answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	got.Number = len(r.requests) + 1
	r.requests = append(r.requests, *got)
	return r.answer
}

// Answer replaces the answer from now on.
func (r *Receiver) Answer(answer Answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

// Requests returns the requests so far, in order of arrival.
func (r *Receiver) Requests() []Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Request(nil), r.requests...)
}

// Wait waits for at least n requests and returns all. If they do not arrive, the test fails.
func (r *Receiver) Wait(tb testing.TB, n int) []Request {
	tb.Helper()
	tb.Cleanup(func() {
		if got := len(r.Requests()); tb.Failed() && got < n {
			tb.Logf("receiver: %d of %d requests arrived", got, n)
		}
	})
	Eventually(tb, "receiver: "+strconv.Itoa(n)+" requests", func() bool { return len(r.Requests()) >= n })
	return r.Requests()
}

// Only returns the only request. If there is not exactly one, the test fails.
func (r *Receiver) Only(tb testing.TB) Request {
	tb.Helper()
	requests := r.Requests()
	if len(requests) != 1 {
		tb.Fatalf("receiver: %d requests, want 1", len(requests))
	}
	return requests[0]
}

func listen(tb testing.TB) net.Listener {
	tb.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("listen: %v", err)
	}
	return listener
}

// pipeListener is a listener without a network, made of net.Pipe.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// Accept waits for a dial.
func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept and dialling.
func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr returns a made-up address.
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Net: "pipe", Name: "receiver"} }

func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.closed:
		return nil, errors.Join(net.ErrClosed, client.Close())
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), client.Close())
	}
}
