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
	"sync"
	"sync/atomic"
	"time"

	"github.com/postrider/postrider/internal/api"
)

// server is an HTTP server on a listener that is bound already.
type server struct {
	listener net.Listener
	http     *http.Server
	log      *slog.Logger
	ending   ending // set before Run
}

// ending is how a server ends.
type ending struct {
	cut    func()        // called bodyGrace after the end began: gives up bodies that are still being read
	within time.Duration // until the requests at hand must be answered
}

// bodyGrace is how long bodies that are being read when the server ends may go
// on arriving. With half a second in which net/http keeps the connection of a
// body that was cut, so that the client sees the answer, the end takes less than
// a second.
const bodyGrace = 100 * time.Millisecond

// listen binds address; log is marked with the server's name.
func listen(ctx context.Context, address string, handler http.Handler, log *slog.Logger) (*server, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	return &server{listener: listener, log: log, http: &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       3 * time.Minute, // when it passes, net/http cancels the handler: longer than any profile takes
		WriteTimeout:      3 * time.Minute, // longer than the slowest body and its answer may take
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}}, nil
}

// Addr returns the address that is bound.
func (s *server) Addr() net.Addr { return s.listener.Addr() }

// Close frees the address of a server that never ran.
func (s *server) Close() error { return s.listener.Close() }

// Run serves until ctx ends, and then until the requests at hand are answered.
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
		s.log.WarnContext(ctx, "requests cut at the end", "after", s.ending.within)
		err = errors.Join(err, s.http.Close())
	}
	serving.Wait()
	return err
}

// shutdown reports whether all requests at hand were answered in time. It
// begins again every 100 ms: Shutdown looks at first after a millisecond, and
// then more and more seldom.
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

// gate is the API's handler, which is another one once the store is open.
type gate struct{ now atomic.Pointer[http.Handler] }

func (g *gate) set(h http.Handler) { g.now.Store(&h) }

// ServeHTTP answers a request.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) { (*g.now.Load()).ServeHTTP(w, r) }

// endBodies gives up the bodies that are being read.
func (g *gate) endBodies() {
	if handler, ok := (*g.now.Load()).(*api.Handler); ok {
		handler.EndBodies()
	}
}

// readiness says whether the server should get traffic. It is not ready until
// its store is open, and then while any of its checks has a reason.
type readiness struct {
	draining atomic.Bool

	mu     sync.Mutex
	closed error // why the store is not open
	checks []check
	clock  *clock // nil: the store is not open
}

// check returns why the server is not ready; nil: it is no reason. ctx ends
// after a second.
type check func(ctx context.Context) error

// opened has the checks asked that an open store allows.
func (r *readiness) opened(a *App) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clock = a.clock
	r.checks = []check{
		func(ctx context.Context) error {
			if _, err := a.store.Now(ctx); err != nil {
				return errors.New("the store does not answer")
			}
			return nil
		},
		a.writes.check,
		func(context.Context) error { return a.dispatcher.Progressing() },
		a.clock.check,
	}
}

// wait notes why the store is not open yet.
func (r *readiness) wait(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = why
}

// reasons returns why the server is not ready; none: it is.
func (r *readiness) reasons(ctx context.Context) []string {
	r.mu.Lock()
	checks, closed := r.checks, r.closed
	r.mu.Unlock()
	reasons := []string{}
	if r.draining.Load() {
		reasons = append(reasons, "the server is draining")
	}
	if checks == nil && closed == nil {
		reasons = append(reasons, "the store is being opened")
	} else if checks == nil {
		reasons = append(reasons, "the store cannot be opened: "+closed.Error())
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	for _, c := range checks {
		if err := c(ctx); err != nil {
			reasons = append(reasons, err.Error())
		}
	}
	return reasons
}

// report returns what /readyz answers, and with which status.
func (r *readiness) report(ctx context.Context) (int, map[string]any) {
	report, status := map[string]any{"status": "ready"}, http.StatusOK
	if reasons := r.reasons(ctx); len(reasons) > 0 {
		report, status = map[string]any{"status": "not ready", "reasons": reasons}, http.StatusServiceUnavailable
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.clock != nil {
		report["clock_offset"] = r.clock.shown()
	}
	return status, report
}

// opsHandler serves what operators and their machines look at.
func opsHandler(ready *readiness) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]any{"status": "alive"})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		status, report := ready.report(r.Context())
		answer(w, status, report)
	})
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // who asked has gone
}
