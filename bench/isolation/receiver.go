package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// kind is the way in which a healthy endpoint fails the first attempt of an event.
type kind string

const (
	refused kind = "refused" // its connection is refused
	status5 kind = "500"
	status3 kind = "503"
	timeout kind = "timeout"
	reset   kind = "reset" // its connection is reset instead of an answer
)

// kinds has refused first: the endpoints of that kind get only one event.
var kinds = [...]kind{refused, status5, status3, timeout, reset}

// event returns the event type of the kind's i-th endpoint.
func (k kind) event(i int) string { return fmt.Sprintf("healthy.%s.%d", k, i) }

// receiver serves all endpoints. Each endpoint has its own address in 127.0.0.0/8, because the
// server bounds the attempts at one host.
type receiver struct {
	bad     string // hang or 500
	port    int
	later   []string // addresses that refuse connections until open is called
	server  *http.Server
	serving sync.WaitGroup

	badRequests atomic.Int64

	mu    sync.Mutex
	first map[string]time.Time     // by endpoint and event: the time from which the retry counts
	late  map[kind][]time.Duration // how late the retries were
	done  map[string]bool          // retries that arrived
}

func startReceiver(ctx context.Context, o options) (*receiver, error) {
	r := &receiver{bad: o.bad, first: map[string]time.Time{}, late: map[kind][]time.Duration{}, done: map[string]bool{}}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp4", "0.0.0.0:0")
	if err != nil {
		return nil, fmt.Errorf("start receiver: %w", err)
	}
	r.port = listener.Addr().(*net.TCPAddr).Port //nolint:errcheck // a TCP listener's
	for i := range o.healthy {
		address, err := freeAddress(ctx, fmt.Sprintf("127.0.3.%d:0", 1+i))
		if err != nil {
			return nil, errors.Join(err, listener.Close())
		}
		r.later = append(r.later, address)
	}
	r.server = &http.Server{Handler: r, ReadHeaderTimeout: 10 * time.Second}
	r.serve(listener)
	return r, nil
}

// freeAddress returns an address on which no program listens.
func freeAddress(ctx context.Context, pattern string) (string, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp4", pattern)
	if err != nil {
		return "", fmt.Errorf("find an address: %w", err)
	}
	return listener.Addr().String(), listener.Close()
}

func (r *receiver) serve(listener net.Listener) {
	r.serving.Go(func() { _ = r.server.Serve(listener) }) // until close
}

func (r *receiver) close() error {
	err := r.server.Close()
	r.serving.Wait()
	return err
}

func (r *receiver) badURL(i int) string { return fmt.Sprintf("http://127.0.1.%d:%d/bad", 1+i, r.port) }

// healthyURL returns the URL of the i-th endpoint that fails in the way k.
func (r *receiver) healthyURL(k kind, i int) string {
	if k == refused {
		return "http://" + r.later[i] + "/" + string(k)
	}
	return fmt.Sprintf("http://127.0.2.%d:%d/%s/%d", 1+i, r.port, k, i)
}

// refuses records that an event is now published for the i-th endpoint of the kind refused.
func (r *receiver) refuses(i int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.first[r.later[i]] = time.Now()
}

// open makes the refusing addresses accept connections. It first waits for half of the time until
// the retries, so all first attempts are refused before.
func (r *receiver) open(ctx context.Context) {
	pause(ctx, retryAfter/2)
	for _, address := range r.later {
		listener, err := new(net.ListenConfig).Listen(context.WithoutCancel(ctx), "tcp4", address)
		if err != nil {
			continue // the report will miss its retry
		}
		r.serve(listener)
	}
}

// lateness returns how late each retry after a kind of failure was.
func (r *receiver) lateness(k kind) []time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]time.Duration(nil), r.late[k]...)
}

// ServeHTTP acts as a bad or a healthy endpoint. The path decides.
func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	_, _ = io.Copy(io.Discard, request.Body)
	k, _, _ := strings.Cut(request.URL.Path[1:], "/")
	switch kind(k) {
	case "bad":
		r.badRequests.Add(1)
		if r.bad == "hang" {
			<-request.Context().Done()
			return
		}
		w.WriteHeader(http.StatusInternalServerError)
	case refused:
		r.retried(refused, request.Host)
	default:
		r.healthy(w, request, kind(k))
	}
}

// healthy fails the first attempt of an event and accepts the second.
func (r *receiver) healthy(w http.ResponseWriter, request *http.Request, k kind) {
	attempt := request.URL.Path + " " + request.Host + " " + request.Header.Get("Webhook-Id")
	r.mu.Lock()
	_, again := r.first[attempt]
	if !again {
		r.first[attempt] = time.Now()
		if k == timeout {
			r.first[attempt] = time.Now().Add(healthyTimeout)
		}
	}
	r.mu.Unlock()
	if again {
		r.retried(k, attempt)
		return
	}
	switch k {
	case status5:
		w.WriteHeader(http.StatusInternalServerError)
	case status3:
		w.WriteHeader(http.StatusServiceUnavailable)
	case timeout:
		<-request.Context().Done()
	case reset:
		panic(http.ErrAbortHandler)
	case refused: // no request arrives
	}
}

// retried records how late the retry of an attempt arrived.
func (r *receiver) retried(k kind, attempt string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done[attempt] {
		return
	}
	r.done[attempt] = true
	r.late[k] = append(r.late[k], time.Since(r.first[attempt])-retryAfter)
}
