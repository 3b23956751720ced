package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/signature"
)

// receivers are what the demonstration sends to: one local server, a path for
// each way to behave.
type receivers struct {
	all      []*receiver
	server   *http.Server
	listener net.Listener

	mu       sync.Mutex
	expected map[string]bool // events that were published
}

// receiver is one endpoint's other side. It checks signatures with the secret
// that the endpoint was given, and keeps a ledger of its own.
type receiver struct {
	name, manner string
	accepts      bool // every event in the end
	delays       []int64
	answer       func(request *http.Request, times int) int // times: how often the event came, this one included

	endpoint postrider.EndpointID

	mu       sync.Mutex
	keys     []signature.Key
	times    map[string]int  // requests by event
	accepted map[string]bool // events answered with 2xx
	requests int
	forged   int
}

// sight is a receiver's ledger, added up.
type sight struct{ requests, events, accepted int }

func newReceivers() *receivers {
	always := func(code int) func(*http.Request, int) int {
		return func(*http.Request, int) int { return code }
	}
	patient := []int64{0, 300, 300, 600, 600, 1000}
	rs := &receivers{expected: map[string]bool{}, all: []*receiver{
		{name: "healthy", manner: "accepts at once", accepts: true, delays: patient, answer: always(http.StatusNoContent)},
		{name: "slow", manner: "accepts after half a second", accepts: true, delays: patient, answer: acceptSlowly},
		{name: "flaky", manner: "fails three times, then accepts", accepts: true, delays: patient, answer: acceptFourth},
		{name: "dead", manner: "always fails; three attempts, then a dead letter", delays: []int64{0, 500, 500}, answer: always(http.StatusInternalServerError)},
		{name: "gone", manner: "answers 410, which disables the endpoint", delays: patient, answer: always(http.StatusGone)},
	}}
	mux := http.NewServeMux()
	for _, r := range rs.all {
		r.times, r.accepted = map[string]int{}, map[string]bool{}
		mux.Handle("POST /"+r.name, r)
	}
	rs.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	return rs
}

func acceptSlowly(request *http.Request, _ int) int {
	select {
	case <-time.After(500 * time.Millisecond):
	case <-request.Context().Done():
	}
	return http.StatusOK
}

func acceptFourth(_ *http.Request, times int) int {
	if times < 4 {
		return http.StatusServiceUnavailable
	}
	return http.StatusOK
}

// listen takes a free port.
func (rs *receivers) listen(ctx context.Context) (err error) {
	if rs.listener, err = new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0"); err != nil {
		return fmt.Errorf("receive: %w", err)
	}
	return nil
}

// run receives until ctx ends.
func (rs *receivers) run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { rs.server.Close() })
	defer stop()
	if err := rs.server.Serve(rs.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("receive: %w", err)
	}
	return nil
}

func (rs *receivers) url(r *receiver) string {
	return "http://" + rs.listener.Addr().String() + "/" + r.name
}

func (rs *receivers) expect(event string) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.expected[event] = true
}

func (rs *receivers) published() int {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return len(rs.expected)
}

// verdict returns how many of the published events each receiver that accepts
// has not accepted yet, by its name, and how many requests to any receiver were
// not authentic.
func (rs *receivers) verdict() (missing map[string]int, forged int) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	missing = map[string]int{}
	for _, r := range rs.all {
		missed, bad := r.check(rs.expected)
		forged += bad
		if r.accepts && missed > 0 {
			missing[r.name] = missed
		}
	}
	return missing, forged
}

// accepting returns the names of the receivers that accept every event.
func (rs *receivers) accepting() (names []string) {
	for _, r := range rs.all {
		if r.accepts {
			names = append(names, r.name)
		}
	}
	return names
}

// learn tells the receiver whose it is and with what requests are signed.
func (r *receiver) learn(e apitypes.Endpoint) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endpoint = e.ID
	for _, s := range e.Secrets {
		secret, err := signature.ParseSecret(optional(s.Secret))
		if err != nil {
			return fmt.Errorf("secret of the receiver %s: %w", r.name, err)
		}
		r.keys = append(r.keys, signature.Key{ID: s.ID.String(), Secret: secret})
	}
	return nil
}

// ServeHTTP takes a webhook as a careful receiver would, and answers in the
// receiver's manner.
func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, request.Body, 1<<20))
	if err != nil {
		http.Error(w, "body cut", http.StatusBadRequest)
		return
	}
	event, times, err := r.note(request.Header, body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnauthorized)
		return
	}
	code := r.answer(request, times)
	if code < 300 {
		r.mu.Lock()
		r.accepted[event] = true
		r.mu.Unlock()
	}
	w.WriteHeader(code)
}

// note verifies a request and enters it into the ledger.
func (r *receiver) note(header http.Header, body []byte) (event string, times int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests++
	verifier := signature.Verifier{Keys: r.keys}
	if err := verifier.Verify(header, body, time.Now()); err != nil {
		r.forged++
		return "", 0, err
	}
	event = header.Get("Webhook-Id")
	r.times[event]++
	return event, r.times[event], nil
}

func (r *receiver) seen() sight {
	r.mu.Lock()
	defer r.mu.Unlock()
	return sight{requests: r.requests, events: len(r.times), accepted: len(r.accepted)}
}

func (r *receiver) check(expected map[string]bool) (missing, forged int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for event := range expected {
		if !r.accepted[event] {
			missing++
		}
	}
	return missing, r.forged
}
