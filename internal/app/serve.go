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

	"github.com/postrider/postrider/internal/dispatch"
	"github.com/postrider/postrider/internal/store"
)

// server is an HTTP server on a listener that is bound already.
type server struct {
	listener net.Listener
	http     *http.Server
}

// Requests that are read or answered when the server ends get this long; it is
// more than the ReadTimeout, so that none is cut for being slow within bounds.
const answerTime = 35 * time.Second

// listen binds address; log is marked with the server's name.
func listen(ctx context.Context, address string, handler http.Handler, log *slog.Logger) (*server, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	return &server{listener: listener, http: &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       30 * time.Second,
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

	answer, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTime)
	defer cancel()
	if late := s.http.Shutdown(answer); late != nil {
		late = fmt.Errorf("requests cut: %w", late)
		serving.Wait()
		return errors.Join(err, late, s.http.Close())
	}
	serving.Wait()
	return err
}

// readiness says whether the server should get traffic.
type readiness struct {
	store      store.Store
	dispatcher *dispatch.Dispatcher
	clock      *clock
	draining   atomic.Bool
}

// reasons returns why the server is not ready; none: it is.
func (r *readiness) reasons(ctx context.Context) []string {
	reasons := []string{}
	if r.draining.Load() {
		reasons = append(reasons, "the server is draining")
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if _, err := r.store.Now(ctx); err != nil {
		reasons = append(reasons, "the store does not answer")
	}
	if err := r.dispatcher.Progressing(); err != nil {
		reasons = append(reasons, err.Error())
	}
	if reason := r.clock.reason(); reason != "" {
		reasons = append(reasons, reason)
	}
	return reasons
}

// opsHandler serves what operators and their machines look at.
func opsHandler(ready *readiness) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]any{"status": "alive"})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if reasons := ready.reasons(r.Context()); len(reasons) > 0 {
			answer(w, http.StatusServiceUnavailable, map[string]any{"status": "not ready", "reasons": reasons, "clock_offset": ready.clock.shown()})
			return
		}
		answer(w, http.StatusOK, map[string]any{"status": "ready", "clock_offset": ready.clock.shown()})
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
