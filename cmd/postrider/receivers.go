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

// receivers are the receivers of the demonstration: one local HTTP server with a
// path for each of them.
type receivers struct {
	// Set by newReceivers; in the order of the summary.
	all      []*receiver
	server   *http.Server
	link     *link        // to the dashboard; served beside the receivers
	listener net.Listener // set by listen
	began    time.Time    // set by listen; the outages are counted from it

	mu       sync.Mutex
	expected map[string]bool // ids of the events that were published; expect adds them
}

// receiver is the other side of one endpoint. It verifies signatures with the
// secret of its endpoint, and keeps a ledger of its own. The verdict compares these
// ledgers with the events that were published; it does not ask the server, whose
// records are what the demonstration checks.
type receiver struct {
	name, behaviour string  // the path and the description of its behaviour
	accepts         bool    // whether it accepts every event in the end
	delays          []int64 // the retry policy of its endpoint, in milliseconds
	// The circuit of its endpoint. Most have none: an open circuit would last longer
	// than the story.
	circuit apitypes.CircuitPolicy
	// Returns the status code for a request. Times counts the requests with this
	// event, the current one included.
	respond func(request *http.Request, times int) int

	endpoint postrider.EndpointID // set by enrol

	mu sync.Mutex
	// The secrets of the endpoint. enrol sets them; until then every request is
	// forged.
	keys     []signature.Key
	times    map[string]int  // requests by the event's id
	accepted map[string]bool // ids of the events that got a 2xx
	// All requests, and those whose signature did not verify.
	requests int
	forged   int
}

// totals holds the totals of a receiver's ledger.
type totals struct{ requests, events, accepted int }

const (
	// An outage of the receiver outages begins every outageInterval and lasts for
	// outageTime. The first one begins outageTime before the first interval is over.
	outageInterval = 20 * time.Second
	outageTime     = 10 * time.Second
)

// newReceivers returns the six receivers of the story. Their retries are short, so
// that a delivery ends within seconds. The flaky one needs four attempts and 1.2 s;
// that is why the demonstration stops publishing some seconds before its end.
func newReceivers() *receivers {
	always := func(code int) func(*http.Request, int) int {
		return func(*http.Request, int) int { return code }
	}
	sixAttempts := []int64{0, 300, 300, 600, 600, 1000}
	never := apitypes.CircuitPolicy{Preset: "never"}
	rs := &receivers{expected: map[string]bool{}, link: newLink()}
	rs.all = []*receiver{
		{name: "healthy", behaviour: "accepts at once", accepts: true, delays: sixAttempts, circuit: never, respond: always(http.StatusNoContent)},
		{name: "slow", behaviour: "accepts after half a second", accepts: true, delays: sixAttempts, circuit: never, respond: acceptSlowly},
		{name: "flaky", behaviour: "fails three times, then accepts", accepts: true, delays: sixAttempts, circuit: never, respond: acceptFourth},
		{
			name: "outages", behaviour: "is down for 10 s of every 20 s; its circuit opens and closes again",
			delays:  []int64{0, 1000, 2000, 4000, 8000, 16_000, 32_000},
			circuit: apitypes.CircuitPolicy{Failures: new(5), CooldownMS: new(int64(2000)), MaxCooldownMS: new(int64(4000))}, respond: rs.failInOutages,
		},
		{name: "dead", behaviour: "fails three times, so each event becomes a dead letter; accepts a replay", delays: []int64{0, 500, 500}, circuit: never, respond: acceptFourth},
		{name: "gone", behaviour: "responds with 410, which disables the endpoint", delays: sixAttempts, circuit: never, respond: always(http.StatusGone)},
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

// failInOutages fails while an outage lasts.
func (rs *receivers) failInOutages(*http.Request, int) int {
	if time.Since(rs.began)%outageInterval >= outageInterval-outageTime {
		return http.StatusInternalServerError
	}
	return http.StatusNoContent
}

// listen binds an address of this machine. Its port 0 is a free port.
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

// dashboard returns the link that logs in to the dashboard. It works from now on.
func (rs *receivers) dashboard(server http.Handler, url, key string) string {
	rs.link.server, rs.link.url, rs.link.key = server, url, key
	return "http://" + rs.listener.Addr().String() + rs.link.path()
}

// url returns the URL of a receiver. It needs the port, so listen comes first.
func (rs *receivers) url(r *receiver) string {
	return "http://" + rs.listener.Addr().String() + "/" + r.name
}

// expect notes the id of a published event. A receiver may get the event before
// that, because delivery starts before the publisher has read its response. Only the
// verdict compares the two.
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

// verdict returns how many published events each accepting receiver lacks, by its
// name, and how many requests to any receiver had a signature that does not verify.
// A receiver that lacks none is not in the map.
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

// enrol gives the receiver the id and the secrets of its endpoint. It comes before the
// first event: a request without a known secret counts as forged.
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

// ServeHTTP handles a webhook as a careful receiver does: it limits the body,
// verifies the signature, and only then responds with its own behaviour.
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
	// The lock is not held here: the slow receiver would make its other requests
	// wait.
	code := r.respond(request, times)
	if code < 300 {
		r.mu.Lock()
		r.accepted[event] = true
		r.mu.Unlock()
	}
	w.WriteHeader(code)
}

// record verifies a request and enters it into the ledger. It returns the event's id
// and how many requests with this event have arrived.
func (r *receiver) record(header http.Header, body []byte) (event string, times int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// Forged requests count, too: the summary shows everything that arrived.
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

// seen returns the totals of the ledger. Requests minus events is the number of
// retries.
func (r *receiver) seen() totals {
	r.mu.Lock()
	defer r.mu.Unlock()
	return totals{requests: r.requests, events: len(r.times), accepted: len(r.accepted)}
}

// check returns how many of the expected events the receiver has not accepted, and
// how many of its requests were forged. An event counts as accepted with the first 2xx;
// later requests with it are duplicates, which the server may send after a crash.
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
