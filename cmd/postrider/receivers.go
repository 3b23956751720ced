package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/signature"
)

// receivers are the receivers of the demonstration: one local HTTP server with a path for each
// receiver.
type receivers struct {
	// all is in the order of the summary. newReceivers sets it.
	all      []*receiver
	server   *http.Server
	link     *link        // the link to the dashboard; the receivers' server serves it too
	listener net.Listener // set by listen
	began    time.Time    // set by listen; outages are counted from this time

	mu       sync.Mutex
	expected map[string]bool // ids of the events that were published; expect adds them
}

// receiver is the other side of one endpoint. It verifies signatures with the secret of its
// endpoint, and records its requests. The verdict compares these records with the published events.
// It does not ask the server, because the demonstration checks the server's work.
type receiver struct {
	name, behaviour string  // the path, and a description of the behaviour
	accepts         bool    // it accepts every event in the end
	delays          []int64 // the retry policy of its endpoint, in milliseconds
	// circuit is the circuit policy of its endpoint. Most receivers have none, because an open
	// circuit would last longer than the demonstration.
	circuit apitypes.CircuitPolicy
	// respond returns the status code for a request. times counts the requests with this event,
	// this one included.
	respond func(request *http.Request, times int) int

	endpoint postrider.EndpointID // set by enrol

	mu sync.Mutex
	// keys are the secrets of the endpoint, set by enrol. Before that, every request counts as
	// forged.
	keys     []signature.Key
	times    map[string]int  // requests by the event's id
	accepted map[string]bool // ids of the events that got a 2xx
	// requests counts all requests; forged counts those whose signature did not verify.
	requests int
	forged   int
}

// totals are the totals of a receiver's records.
type totals struct{ requests, events, accepted int }

const (
	// The receiver named outages is down for outageTime at the end of each outageInterval.
	outageInterval = 20 * time.Second
	outageTime     = 10 * time.Second
)

// newReceivers returns the six receivers. Their retries are short, so that a delivery ends within
// seconds. The flaky one needs four attempts and 1.2 s. Therefore the demonstration stops
// publishing some seconds before its end.
func newReceivers() *receivers {
	always := func(code int) func(*http.Request, int) int {
		return func(*http.Request, int) int { return code }
	}
	sixAttempts := []int64{0, 300, 300, 600, 600, 1000}
	never := apitypes.CircuitPolicy{Preset: "never"}
	rs := &receivers{expected: map[string]bool{}, link: newLink()}
	rs.all = []*receiver{
		{
			name: "healthy", behaviour: "accepts at once", accepts: true, delays: sixAttempts, circuit: never,
			respond: always(http.StatusNoContent),
		},
		{name: "slow", behaviour: "accepts after half a second", accepts: true, delays: sixAttempts, circuit: never, respond: acceptSlowly},
		{name: "flaky", behaviour: "fails three times, then accepts", accepts: true, delays: sixAttempts, circuit: never, respond: acceptFourth},
		{
			name: "outages", behaviour: "is down for 10 s of every 20 s; its circuit opens and closes again",
			delays:  []int64{0, 1000, 2000, 4000, 8000, 16_000, 32_000},
			circuit: apitypes.CircuitPolicy{Failures: new(5), CooldownMS: new(int64(2000)), MaxCooldownMS: new(int64(4000))},
			respond: rs.failInOutages,
		},
		{
			name: "dead", behaviour: "fails three times, so each event becomes a dead letter; accepts a replay", delays: []int64{0, 500, 500},
			circuit: never, respond: acceptFourth,
		},
		{
			name: "gone", behaviour: "responds with 410, which disables the endpoint", delays: sixAttempts, circuit: never,
			respond: always(http.StatusGone),
		},
	}
	mux := http.NewServeMux()
	for _, r := range rs.all {
		r.times, r.accepted = map[string]int{}, map[string]bool{}
		mux.Handle("POST /"+r.name, r)
	}
	mux.Handle("GET "+rs.link.path(), rs.link)
	rs.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	return rs
}

// acceptSlowly accepts after half a second.
func acceptSlowly(request *http.Request, _ int) int {
	select {
	case <-time.After(500 * time.Millisecond):
	case <-request.Context().Done():
	}
	return http.StatusOK
}

// acceptFourth fails three times for each event and accepts the fourth request.
func acceptFourth(_ *http.Request, times int) int {
	if times < 4 {
		return http.StatusServiceUnavailable
	}
	return http.StatusOK
}

// failInOutages fails during an outage and accepts otherwise.
func (rs *receivers) failInOutages(*http.Request, int) int {
	if time.Since(rs.began)%outageInterval >= outageInterval-outageTime {
		return http.StatusInternalServerError
	}
	return http.StatusNoContent
}

// listen listens at an address of this machine. Port 0 takes a free port.
func (rs *receivers) listen(ctx context.Context, at netip.AddrPort) (err error) {
	if rs.listener, err = new(net.ListenConfig).Listen(ctx, "tcp", at.String()); err != nil {
		return fmt.Errorf("receive: %w", err)
	}
	rs.began = time.Now()
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

// dashboard returns the link that logs in to the dashboard. The link works from then on.
func (rs *receivers) dashboard(server http.Handler, url, key string) string {
	rs.link.server, rs.link.url, rs.link.key = server, url, key
	return "http://" + rs.listener.Addr().String() + rs.link.path()
}

// url returns the URL of a receiver. It needs the port, so listen must be called before.
func (rs *receivers) url(r *receiver) string {
	return "http://" + rs.listener.Addr().String() + "/" + r.name
}

// expect records the id of a published event. A receiver may get the event earlier, because the
// delivery starts before the publisher has read its response. Only the verdict compares the two.
func (rs *receivers) expect(event string) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.expected[event] = true
}

// published returns the number of published events.
func (rs *receivers) published() int {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return len(rs.expected)
}

// verdict returns how many published events each accepting receiver lacks, by its name. Receivers
// that lack none are not in the map. forged is how many requests to any receiver had a signature
// that does not verify.
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

// accepting returns the names of the receivers that accept every event in the end.
func (rs *receivers) accepting() (names []string) {
	for _, r := range rs.all {
		if r.accepts {
			names = append(names, r.name)
		}
	}
	return names
}

// enrol gives the receiver the id and the secrets of its endpoint. It must be called before the
// first event, since a request without a known secret counts as forged.
func (r *receiver) enrol(e apitypes.Endpoint) error {
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

// ServeHTTP handles a webhook as a careful receiver does: it limits the body, verifies the
// signature, and only then responds.
func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, request.Body, 1<<20))
	if err != nil {
		http.Error(w, "body cut", http.StatusBadRequest)
		return
	}
	event, times, err := r.record(request.Header, body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnauthorized)
		return
	}
	// The lock is not held here. Otherwise the slow receiver would delay its other requests.
	code := r.respond(request, times)
	if code < 300 {
		r.mu.Lock()
		r.accepted[event] = true
		r.mu.Unlock()
	}
	w.WriteHeader(code)
}

// record verifies a request and counts it. It returns the event's id, and how many requests with
// this event have arrived.
func (r *receiver) record(header http.Header, body []byte) (event string, times int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// Forged requests count too, because the summary shows all requests.
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

// seen returns the totals of the records. The number of retries is requests minus events.
func (r *receiver) seen() totals {
	r.mu.Lock()
	defer r.mu.Unlock()
	return totals{requests: r.requests, events: len(r.times), accepted: len(r.accepted)}
}

// check returns how many of the expected events the receiver has not accepted, and how many of its
// requests were forged. An event counts as accepted with the first 2xx. Later requests with the
// event are duplicates, which the server may send after a crash.
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
