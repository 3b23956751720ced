// Command isolation measures how late a healthy endpoint is retried while other endpoints are bad.
//
//	go run ./bench/isolation -store sqlite -bad hang -circuit never
//	make isolation   # both stores, endpoints that hang and that answer 500, with and without a circuit
//
// A server delivers to -endpoints bad endpoints, each at an address of its own. They hang for their
// whole timeout, or answer 500, and get events all the time. Healthy endpoints get events too, and
// fail the first attempt of each. Most fail with 500, 503, a time-out or a reset. Some fail once,
// with a refused connection. Their retry is due after two seconds. The program prints how late the
// retries arrived.
//
// It exits 1 if a retry did not arrive, if the 99th percentile of a kind of failure is over
// -within, or if a publish was refused.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/bench/internal/lab"
	"github.com/postrider/postrider/client"
)

type options struct {
	store     string
	bad       string // how bad endpoints fail: hang or 500
	circuit   string // preset of their circuit
	endpoints int    // number of bad endpoints
	healthy   int    // number of healthy endpoints for each kind of failure
	seconds   int
	within    time.Duration
}

const (
	account    = "isolation"
	retryAfter = 2 * time.Second
	// warmUp is how long only the bad endpoints get events. It is longer than their first time-out.
	warmUp = 6 * time.Second
	// every is the time between two events for a healthy endpoint. An event is retried before the
	// next one is published.
	every = 6 * time.Second
	// healthyTimeout is the timeout of healthy endpoints, badTimeout is the timeout
	// of bad ones.
	healthyTimeout, badTimeout = time.Second, 5 * time.Second
)

func main() {
	var o options
	flag.StringVar(&o.store, "store", "sqlite", "sqlite or postgres")
	flag.StringVar(&o.bad, "bad", "hang", "how bad endpoints fail: hang or 500")
	flag.StringVar(&o.circuit, "circuit", "default", "preset of the bad endpoints' circuit: default or never")
	flag.IntVar(&o.endpoints, "endpoints", 200, "bad endpoints, at most 250")
	flag.IntVar(&o.healthy, "healthy", 20, "healthy endpoints for each kind of failure, at most 50")
	flag.IntVar(&o.seconds, "seconds", 45, "how long events are published")
	flag.DurationVar(&o.within, "within", time.Second, "how late the 99th percentile of the retries may be")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "isolation:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	l, err := lab.Open(ctx, "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	r, err := startReceiver(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	server, err := l.StartServer(ctx, lab.ServerOptions{Store: o.store})
	if err != nil {
		return err
	}
	s := study{options: o, client: server.Client(), receiver: r}
	if err := s.subscribe(ctx); err != nil {
		return err
	}
	s.publish(ctx)
	if err := s.untilRetried(ctx); err != nil {
		return err
	}
	return s.report()
}

// study is one run, with its publishes and their results.
type study struct {
	options
	client   *client.Client
	receiver *receiver

	mu       sync.Mutex
	expected map[kind]int // retries that must arrive
	refused  []string     // publishes without a 2xx answer
}

// subscribe creates the bad and the healthy endpoints.
func (s *study) subscribe(ctx context.Context) error {
	if _, err := s.client.CreateAccount(ctx, apitypes.AccountCreate{UID: account}); err != nil {
		return fmt.Errorf("create account: %w", err)
	}
	for i := range s.endpoints {
		if err := s.create(ctx, apitypes.EndpointCreate{
			URL: s.receiver.badURL(i), EventTypes: []string{s.bad},
			Policy: apitypes.Policy{
				TimeoutMS: apitypes.Of(badTimeout.Milliseconds()), Circuit: apitypes.Of(apitypes.CircuitPolicy{Preset: s.circuit}),
			},
		}); err != nil {
			return err
		}
	}
	for _, k := range kinds {
		for i := range s.healthy {
			if err := s.create(ctx, apitypes.EndpointCreate{
				URL: s.receiver.healthyURL(k, i), EventTypes: []string{k.event(i)},
				Policy: apitypes.Policy{
					TimeoutMS: apitypes.Of(healthyTimeout.Milliseconds()),
					Retry: apitypes.Of(apitypes.Retry{
						BaseMS: retryAfter.Milliseconds(), Factor: 1, CapMS: retryAfter.Milliseconds(), MaxAttempts: 20,
						Jitter: "none",
					}),
				},
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *study) create(ctx context.Context, e apitypes.EndpointCreate) error {
	e.Account = account
	if _, err := s.client.CreateEndpoint(ctx, e); err != nil {
		return fmt.Errorf("create endpoint %s: %w", e.URL, err)
	}
	return nil
}

// publish publishes for the bad endpoints all the time, and for the healthy ones after warmUp.
func (s *study) publish(ctx context.Context) {
	s.expected = map[kind]int{}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(s.seconds)*time.Second)
	defer cancel()
	var publishing sync.WaitGroup
	defer publishing.Wait()
	publishing.Go(func() {
		for ctx.Err() == nil {
			s.event(ctx, s.bad)
			pause(ctx, 200*time.Millisecond)
		}
	})
	pause(ctx, min(warmUp, time.Duration(s.seconds)*time.Second/2))
	for i := range s.healthy {
		s.receiver.refuses(i)
		s.eventFor(ctx, refused, i)
	}
	s.receiver.open(ctx)
	for i := 0; ctx.Err() == nil; i++ {
		for _, k := range kinds[1:] {
			s.eventFor(ctx, k, i%s.healthy)
		}
		pause(ctx, every/time.Duration(s.healthy))
	}
}

// eventFor publishes an event for the i-th endpoint of a kind of failure.
func (s *study) eventFor(ctx context.Context, k kind, i int) {
	if s.event(ctx, k.event(i)) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.expected[k]++
	}
}

func (s *study) event(ctx context.Context, eventType string) (ok bool) {
	_, err := s.client.Publish(context.WithoutCancel(ctx),
		apitypes.EventCreate{Account: account, Type: eventType, Data: json.RawMessage(`{}`)})
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.refused = append(s.refused, fmt.Sprintf("%s: %v", eventType, err))
	}
	return err == nil
}

// untilRetried waits for the retries, at most a minute.
func (s *study) untilRetried(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		missing := 0
		for k, n := range s.expected {
			missing += n - len(s.receiver.lateness(k))
		}
		if missing <= 0 {
			return nil
		}
		pause(ctx, 100*time.Millisecond)
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("wait for retries: %d did not arrive: %w", missing, err)
		}
	}
}

func (s *study) report() error {
	fmt.Printf("%s, %d endpoints that fail with %s, circuit %s: %d requests to them, %d publishes refused\n",
		s.store, s.endpoints, s.bad, s.circuit, s.receiver.badRequests.Load(), len(s.refused))
	var faults []error
	for _, refusal := range s.refused[:min(5, len(s.refused))] {
		faults = append(faults, fmt.Errorf("publish refused: %s", refusal))
	}
	for _, k := range kinds {
		late := s.receiver.lateness(k)
		slices.Sort(late)
		if len(late) == 0 {
			faults = append(faults, fmt.Errorf("%s: no retry", k))
			continue
		}
		p99 := late[len(late)*99/100]
		fmt.Printf("  %-8s %4d retries, late: median %v, 99th percentile %v, longest %v\n", k, len(late),
			late[len(late)/2].Round(time.Millisecond), p99.Round(time.Millisecond), late[len(late)-1].Round(time.Millisecond))
		if p99 > s.within {
			faults = append(faults, fmt.Errorf("%s: 99th percentile %v is over %v", k, p99, s.within))
		}
	}
	return errors.Join(faults...)
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
