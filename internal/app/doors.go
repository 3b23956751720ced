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

// doors are the two listeners of a server.
type doors struct {
	api, ops *server
	gate     gate // the handler of the API: 503 until the store is open
}

// bind binds both listeners, or none.
func (d *doors) bind(ctx context.Context, b base) (err error) {
	d.gate.set(starting{rest.Starting(b.logOf("api")), page.Starting(page.Options{Version: Version(), Log: b.logOf("web")})})
	if d.api, err = listen(ctx, b.config.Listen, &d.gate, b.log.With("server", "api")); err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	d.api.http.ReadTimeout = rest.RequestTime // its handler moves it on while a body arrives
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
	// handshakeTime is added to AnswerTimeout at the end of the server. A
	// request that verifies an endpoint waits for the receiver, and so takes longer
	// than others.
	handshakeTime = 11 * time.Second
	// opsEnd bounds the requests to the operations listener at the end of the
	// server.
	opsEnd = 5 * time.Second
)

// server is an HTTP server on a listener that is already bound.
type server struct {
	listener net.Listener
	http     *http.Server
	log      *slog.Logger
	ending   ending // set before Run; zero: requests are cut at once
}

// ending says how a server ends.
type ending struct {
	// Called bodyGrace after the end began. It gives up the bodies that are still
	// being read. Nil: they have until within has passed.
	cut func()
	// How long the requests in flight may take after the end began. Then their
	// connections are closed.
	within time.Duration
}

// bodyGrace is how long request bodies may continue to arrive after the end began.
// After a body is cut, net/http keeps its connection for half a second, so that the
// client can read the response. Together the end takes less than a second.
const bodyGrace = 100 * time.Millisecond

// listen binds address. The log must carry the server's name.
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
		// When ReadTimeout passes, net/http cancels the handler. It is longer than
		// any pprof profile takes. WriteTimeout is longer than the slowest body and
		// its response.
		ReadTimeout:    3 * time.Minute,
		WriteTimeout:   3 * time.Minute,
		IdleTimeout:    2 * time.Minute,
		MaxHeaderBytes: 32 << 10,
		ErrorLog:       slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}}, nil
}

// Addr returns the bound address.
func (s *server) Addr() net.Addr { return s.listener.Addr() }

// Close frees the address of a server that never ran. A server that ran has closed
// its listener.
func (s *server) Close() error { return s.listener.Close() }

// Run serves until ctx ends or the listener fails. Then it accepts no more
// requests, and returns when those in flight are answered or their time is over.
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

// shutdown closes the listener and waits for the requests in flight. It reports
// whether all of them got their responses in time.
//
// It calls Shutdown anew every 100 ms: one call polls the connections after a
// millisecond and then at growing intervals, which would lengthen the end.
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

// gate is the handler of the API listener. It passes requests to the handler of the
// start, which responds with 503, and to the real one once the store is open.
type gate struct{ now atomic.Pointer[http.Handler] }

// set replaces the handler. Requests in flight finish with the one that they began
// with.
func (g *gate) set(h http.Handler) { g.now.Store(&h) }

// ServeHTTP serves a request with the current handler.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) { (*g.now.Load()).ServeHTTP(w, r) }

// endBodies gives up the request bodies that are being read. The handler of the
// start reads none.
func (g *gate) endBodies() {
	if handler, ok := (*g.now.Load()).(*front); ok {
		handler.EndBodies()
	}
}

// opsHandler serves /livez, /readyz, /metrics and pprof. It has no authentication: its
// listener must not be public. Profiles show memory, so they are for this machine alone,
// where /metrics may be scraped from another one. /livez returns 200 as long as the process serves
// HTTP, so that a database that is away restarts no server.
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

// onLoopback refuses requests from other machines. An address that a proxy passed on in a
// header does not count: only a connection from this machine has a loopback address.
func onLoopback(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !fromLoopback(r) {
			respond(w, http.StatusForbidden, map[string]any{"status": "profiles are served to this machine only"})
			return
		}
		onOwnName(next).ServeHTTP(w, r)
	}
}

// onOwnName refuses requests of this machine whose Host is a foreign name. A site that a browser
// on this machine shows could let its name resolve to 127.0.0.1 and read what is served here
// (DNS rebinding). An IP address, localhost and the name of the machine are its own.
func onOwnName(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if fromLoopback(r) && !isOwnName(r.Host) {
			respond(w, http.StatusForbidden, map[string]any{"status": "the Host of the request is not this machine: use its address, localhost or its host name"})
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
	_ = json.NewEncoder(w).Encode(body) // an error means that the client has gone
}
