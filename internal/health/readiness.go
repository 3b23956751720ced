package health

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/observe"
)

// Readiness decides whether the server should get traffic. The server is not ready until its store
// is open. After that, it is not ready while a check returns an error or the server drains.
type Readiness struct {
	draining atomic.Bool

	mu     sync.Mutex
	closed error                    // error of the last try to open the store; nil: no try has failed
	checks []Check                  // nil: the store is not open
	notes  map[string]func() string // texts for the report, by key; nil: the store is not open
}

// Check returns the reason why the server is not ready, or nil. All checks of one request share a
// time limit of one second, so that the probe of an orchestrator gets its response in time.
type Check func(ctx context.Context) error

// Opened notes that the store is open. It sets the checks, and the notes that the report has
// besides them, by key. An empty note is left out.
func (r *Readiness) Opened(checks []Check, notes map[string]func() string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.checks, r.notes = checks, notes
}

// Drain notes that the server is stopping.
func (r *Readiness) Drain() { r.draining.Store(true) }

// Wait notes the reason why the store cannot be opened yet.
func (r *Readiness) Wait(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = why
}

// reasons returns the reasons why the server is not ready. Empty: it is ready. It runs the checks
// without the lock, because the checks wait for the store.
func (r *Readiness) reasons(ctx context.Context) []string {
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

// readyEvery is the interval at which Watch reports.
const readyEvery = 5 * time.Second

// Watch calls tell with the readiness of the server every readyEvery until ctx ends. The first call
// may come before the store is open, and the last while the server drains.
func (r *Readiness) Watch(ctx context.Context, tell observe.Hook[bool]) error {
	for {
		tell.Call(len(r.reasons(ctx)) == 0)
		if !batch.Sleep(ctx, readyEvery) {
			return nil
		}
	}
}

// Report returns the status code and the body of /readyz.
func (r *Readiness) Report(ctx context.Context) (int, map[string]any) {
	report, status := map[string]any{"status": "ready"}, http.StatusOK
	if reasons := r.reasons(ctx); len(reasons) > 0 {
		report, status = map[string]any{"status": "not ready", "reasons": reasons}, http.StatusServiceUnavailable
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, note := range r.notes {
		if text := note(); text != "" {
			report[key] = text
		}
	}
	return status, report
}
