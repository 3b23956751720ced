package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/postrider/postrider/internal/api/rest"
	"github.com/postrider/postrider/internal/health"
	"github.com/postrider/postrider/internal/web/page"
)

// doors has the two listeners of a server.
type doors struct {
	api, ops *server
	gate     gate // the handler of the API: 503 until the store is open
}

// bind binds both listeners. If one cannot be bound, neither is.
func (d *doors) bind(ctx context.Context, b base) (err error) {
	d.gate.set(starting{rest.Starting(b.logOf("api")), page.Starting(page.Options{Version: Version(), Log: b.logOf("web")})})
	if d.api, err = listen(ctx, b.config.Listen, &d.gate, b.log.With("server", "api")); err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	// The handler extends this deadline while a body arrives.
	d.api.http.ReadTimeout = rest.RequestTime
	ops := opsHandler(&b.vitals.readiness, b.watchers.telemetry.Handler())
	if d.ops, err = listen(ctx, b.config.OpsListen, ops, b.log.With("server", "ops")); err != nil {
		return errors.Join(fmt.Errorf("--ops-listen: %w", err), d.api.Close())
	}
	cut := func() {
		b.watchers.live.End()
		d.gate.endBodies()
	}
	d.api.ending = ending{cut: cut, within: b.config.AnswerTimeout + handshakeTime}
	d.ops.ending = ending{within: opsEnd}
	return nil
}

const (
	// handshakeTime is added to AnswerTimeout when the server stops. A request that verifies an
	// endpoint waits for the receiver, so it takes longer than other requests.
	handshakeTime = 11 * time.Second
	// opsEnd is the time that requests to the operations listener have when the server stops.
	opsEnd = 5 * time.Second
)

// server is an HTTP server on a listener that is already bound.
type server struct {
	listener net.Listener
	http     *http.Server
	log      *slog.Logger
	ending   ending // set before Run; zero: requests are cut at once
}

// ending says how a server stops.
type ending struct {
	// cut is called bodyGrace after the stop began. It aborts the bodies that are still being read.
	// Nil: bodies may be read until within has passed.
	cut func()
	// within is the time that requests in flight have after the stop began. Then their connections
	// are closed.
	within time.Duration
}

// bodyGrace is the time for which request bodies may still arrive after the stop began. After a
// body is cut, net/http keeps the connection for half a second, so that the client can read the
// response. So the bodies delay the stop by less than a second.
const bodyGrace = 100 * time.Millisecond

// listen binds the address. Each line of log must have the server's name.
func listen(ctx context.Context, address string, handler http.Handler, log *slog.Logger) (*server, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s is in use", address)
	}
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	return &server{listener: listener, log: log, http: &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		// WriteTimeout is longer than any pprof profile takes, and than the slowest body and its
		// response take.
		ReadTimeout:    3 * time.Minute,
		WriteTimeout:   3 * time.Minute,
		IdleTimeout:    2 * time.Minute,
		MaxHeaderBytes: 32 << 10,
		ErrorLog:       slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}}, nil
}

// Addr returns the bound address.
func (s *server) Addr() net.Addr { return s.listener.Addr() }

// Close frees the address of a server that never ran. The listener of a server that ran is closed
// already.
func (s *server) Close() error { return s.listener.Close() }

// Run serves until ctx ends or the listener fails. Then it accepts no more requests. It returns
// when the requests in flight have their responses or their time is over.
func (s *server) Run(ctx context.Context) error {
	var serving sync.WaitGroup
	var err error
	failed, fail := context.WithCancel(ctx)
	defer fail()
	serving.Go(func() {
		defer fail()
		if err = s.http.Serve(s.listener); errors.Is(err, http.ErrServerClosed) {
			err = nil
		}
	})
	<-failed.Done()

	if s.ending.cut != nil {
		cut := time.AfterFunc(bodyGrace, s.ending.cut)
		defer cut.Stop()
	}
	if !s.shutdown(context.WithoutCancel(ctx)) {
		s.log.WarnContext(ctx, "requests were cut at the shutdown", "after", s.ending.within)
		err = errors.Join(err, s.http.Close())
	}
	serving.Wait()
	return err
}

// shutdown closes the listener and waits for the requests in flight. It reports whether all of them
// got their responses in time.
//
// It calls Shutdown again every 100 ms. A single call checks the connections after a millisecond
// and then at growing intervals, so it would return late.
func (s *server) shutdown(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, s.ending.within)
	defer cancel()
	for ctx.Err() == nil {
		look, stop := context.WithTimeout(ctx, 100*time.Millisecond)
		err := s.http.Shutdown(look)
		stop()
		if err == nil {
			return true
		}
	}
	return false
}

// gate is the handler of the API listener. Until the store is open, it passes requests to a handler
// that responds with 503. Then it passes them to the real handler.
type gate struct{ now atomic.Pointer[http.Handler] }

// set replaces the handler. A request in flight finishes with the handler that it began with.
func (g *gate) set(h http.Handler) { g.now.Store(&h) }

// ServeHTTP serves a request with the current handler.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) { (*g.now.Load()).ServeHTTP(w, r) }

// endBodies aborts the reading of request bodies. The handler of a starting server reads no bodies.
func (g *gate) endBodies() {
	if handler, ok := (*g.now.Load()).(*front); ok {
		handler.EndBodies()
	}
}

// opsHandler serves /livez, /readyz, /metrics and pprof. It has no authentication, so its listener
// must not be public. Profiles show memory, so they are served only to this machine. /metrics may
// also be read from other machines. /livez returns 200 as long as the process serves HTTP, so an
// unreachable database makes no orchestrator restart the server.
func opsHandler(ready *health.Readiness, metrics http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		respond(w, http.StatusOK, map[string]any{"status": "alive"})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		status, report := ready.Report(r.Context())
		respond(w, status, report)
	})
	mux.Handle("GET /metrics", onOwnName(metrics))
	mux.HandleFunc("GET /debug/pprof/", onLoopback(pprof.Index))
	mux.HandleFunc("GET /debug/pprof/cmdline", onLoopback(pprof.Cmdline))
	mux.HandleFunc("GET /debug/pprof/profile", onLoopback(pprof.Profile))
	mux.HandleFunc("GET /debug/pprof/symbol", onLoopback(pprof.Symbol))
	mux.HandleFunc("GET /debug/pprof/trace", onLoopback(pprof.Trace))
	return mux
}

// onLoopback refuses requests from other machines. It ignores addresses in headers that a proxy
// added: only the connection counts.
func onLoopback(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !fromLoopback(r) {
			respond(w, http.StatusForbidden, map[string]any{"status": "profiles are served to this machine only"})
			return
		}
		onOwnName(next).ServeHTTP(w, r)
	}
}

// onOwnName refuses a request from this machine whose Host is a foreign name. Otherwise a web site
// that is open in a browser on this machine could resolve its name to 127.0.0.1 and read these
// pages (DNS rebinding). IP addresses, localhost and the name of the machine are accepted.
func onOwnName(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if fromLoopback(r) && !isOwnName(r.Host) {
			respond(w, http.StatusForbidden,
				map[string]any{"status": "the Host of the request is not this machine: use its address, localhost or its host name"})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// fromLoopback reports whether the connection of the request comes from this machine.
func fromLoopback(r *http.Request) bool {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && from.Addr().Unmap().IsLoopback()
}

// isOwnName reports whether a Host, with or without a port, names this machine.
func isOwnName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return true
	}
	own, err := os.Hostname()
	return strings.EqualFold(host, "localhost") || err == nil && strings.EqualFold(host, own)
}

// respond writes a JSON response that no proxy may cache.
func respond(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // an error means that the client is gone
}
