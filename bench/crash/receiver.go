package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/postrider/postrider"
)

// receiver gets the events, and has the ledger of the requests that arrived.
type receiver struct {
	url       string
	misbehave atomic.Bool
	server    *http.Server
	serving   sync.WaitGroup

	mu       sync.Mutex
	open     int // requests that are not answered yet
	arrivals map[arrival][]time.Time
	kills    []kill
	starts   []start
	requests int
	wide     int                    // how many of requests were for fan-out endpoints
	byEvent  map[arrival]int        // requests for each event, accepted or not
	began    map[string][]time.Time // by path: when each request for a doomed endpoint began to arrive
	faults   []string
}

// start is the time at which a server was started, and the time of the first request after that;
// zero: no request.
type start struct{ at, first time.Time }

// arrival is an event at an endpoint. receiver.arrivals has the times at which the
// endpoint accepted the event.
type arrival struct {
	path  string
	event postrider.EventID
}

// kill is the time at which a server was killed, and the number of requests that were open then.
type kill struct {
	at   time.Time
	open int
}

func startReceiver(ctx context.Context) (*receiver, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start receiver: %w", err)
	}
	r := &receiver{url: "http://" + listener.Addr().String()}
	r.startPhase()
	r.server = &http.Server{Handler: r, ReadHeaderTimeout: 10 * time.Second}
	r.serving.Go(func() { _ = r.server.Serve(listener) }) // until close
	return r, nil
}

func (r *receiver) close() error {
	err := r.server.Close()
	r.serving.Wait()
	return err
}

// startPhase empties the ledger.
func (r *receiver) startPhase() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.arrivals, r.byEvent, r.kills, r.starts, r.faults, r.requests, r.wide = map[arrival][]time.Time{}, map[arrival]int{}, nil, nil, nil, 0, 0
	r.began = map[string][]time.Time{}
}

func (r *receiver) noteKill(at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kills = append(r.kills, kill{at, r.open})
}

func (r *receiver) noteStart(at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.starts = append(r.starts, start{at: at})
}

// ServeHTTP answers after up to 20 ms. While misbehave is set, it refuses one request in 50.
func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	r.mu.Lock()
	r.open++
	r.requests++
	if strings.HasPrefix(request.URL.Path, widePath) {
		r.wide++
	}
	if strings.HasPrefix(request.URL.Path, doomedPath) {
		r.began[request.URL.Path] = append(r.began[request.URL.Path], time.Now())
	}
	if last := len(r.starts) - 1; last >= 0 && r.starts[last].first.IsZero() {
		r.starts[last].first = time.Now()
	}
	r.mu.Unlock()
	event, err := eventOf(request)
	pause(context.WithoutCancel(request.Context()), time.Duration(rand.Int64N(int64(20*time.Millisecond))))

	r.mu.Lock()
	defer r.mu.Unlock()
	r.open--
	if err == nil {
		r.byEvent[arrival{request.URL.Path, event}]++
	}
	switch {
	case err != nil && request.Context().Err() == nil:
		r.faults = append(r.faults, err.Error())
		w.WriteHeader(http.StatusBadRequest)
	case err != nil: // the request was cut before its body was read
		w.WriteHeader(http.StatusBadRequest)
	case r.misbehave.Load() && rand.IntN(50) == 0:
		w.WriteHeader(http.StatusServiceUnavailable)
	default:
		// The event counts as accepted even if the server died before it could read the answer.
		a := arrival{request.URL.Path, event}
		r.arrivals[a] = append(r.arrivals[a], time.Now())
		w.WriteHeader(http.StatusNoContent)
	}
}

// receivedWide returns how many requests for fan-out endpoints arrived.
func (r *receiver) receivedWide() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.wide
}

// received returns how many requests arrived.
func (r *receiver) received() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.requests
}

// repeated returns the events that arrived more than once at an endpoint, and how often.
func (r *receiver) repeated() map[arrival]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	repeated := map[arrival]int{}
	for a, n := range r.byEvent {
		if n > 1 {
			repeated[a] = n
		}
	}
	return repeated
}

func eventOf(request *http.Request) (postrider.EventID, error) {
	body, err := io.ReadAll(io.LimitReader(request.Body, 1<<20))
	if err != nil {
		return postrider.EventID{}, fmt.Errorf("read request: %w", err)
	}
	var envelope struct {
		ID postrider.EventID `json:"id"`
	}
	if err := json.Unmarshal(body, &envelope); err != nil {
		return postrider.EventID{}, fmt.Errorf("read envelope %.80q: %w", body, err)
	}
	return envelope.ID, nil
}
