package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/config"
	"github.com/postrider/postrider/internal/config/configtest"
	"github.com/postrider/postrider/internal/doctor"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/memory"
)

// installation is servers with receivers and producers, in a bubble of virtual time. Everything
// between the handler of the API and the sender is that of a real server; the store is the model.
type installation struct {
	t       *testing.T
	ctx     context.Context // of all servers, for the length of the test
	store   *memory.Store
	dir     string
	flags   []string
	key     string // of the API
	ids     *store.IDs
	servers []*simulated
	running sync.WaitGroup

	index  map[postrider.EndpointID]int
	outbox *outboxServer // that is read; nil: none is

	mu      sync.Mutex
	respond receivers
	disk    float64        // which part is in use
	backup  observe.Backup // what is known of them
}

// receivers say what the receiver of an endpoint does with a request of a server. The attempt's
// Duration is how long it takes. It is called under the lock of the installation.
type receivers func(from *simulated, endpoint int, c *postrider.Claimed) postrider.Attempt

// simulated is one server of an installation, and its next incarnations.
type simulated struct {
	in   *installation
	name string
	way  *way

	mu   sync.Mutex
	app  *App // nil: the server does not run
	stop context.CancelFunc
}

// responds returns what a receiver does with a status.
func responds(status int, after time.Duration) postrider.Attempt {
	a := postrider.Attempt{Outcome: postrider.OutcomeAccepted, StatusCode: status, Duration: after}
	switch {
	case status == http.StatusGone:
		a.Outcome, a.Error = postrider.OutcomeGone, string(postrider.FailureStatus)
	case status >= 300:
		a.Outcome, a.Error = postrider.OutcomeRejected, string(postrider.FailureStatus)
	}
	return a
}

// hangs is a receiver that does not respond.
var hangs = postrider.Attempt{Duration: time.Hour}

// usual is a receiver that works.
func usual(*simulated, int, *postrider.Claimed) postrider.Attempt {
	return responds(http.StatusOK, 80*time.Millisecond)
}

// newInstallation starts the servers of a fault, with its endpoints, each of an account of its own.
func newInstallation(t *testing.T, f fault) *installation {
	t.Helper()
	in := &installation{
		t: t, ctx: t.Context(), store: memory.New(memory.Options{}), dir: t.TempDir(), ids: store.NewIDs(time.Now, &[32]byte{}), flags: f.flags,
		index: map[postrider.EndpointID]int{}, respond: usual, disk: .4,
		backup: observe.Backup{Kind: observe.BackupCopy, SucceededAt: time.Now()},
	}
	in.addEndpoints(orElse(f.endpoints, 30), f.policy)
	for i := range max(1, f.servers) {
		s := &simulated{in: in, name: string(rune('a' + i))}
		in.servers = append(in.servers, s)
		s.start()
	}
	return in
}

func (in *installation) addEndpoints(n int, policy func(int, *postrider.Policy)) {
	in.t.Helper()
	for range n {
		i := len(in.index)
		account := postrider.Account{ID: store.NewID[postrider.AccountID](in.ids), UID: fmt.Sprint("customer-", i)}
		e := postrider.Endpoint{
			ID: store.NewID[postrider.EndpointID](in.ids), Account: account.ID, URL: fmt.Sprintf("https://customer-%d.example/", i),
			EventTypes: []postrider.Pattern{"*"}, Status: postrider.EndpointEnabled, Policy: postrider.DefaultPolicy(),
		}
		if policy != nil {
			policy(i, &e.Policy)
		}
		err := in.store.PutAccount(in.ctx, account)
		if err == nil {
			_, err = in.store.PutEndpoint(in.ctx, store.PutEndpoint{Endpoint: e})
		}
		if err != nil {
			in.t.Fatal(err)
		}
		in.index[e.ID] = i
	}
}

// set changes what happens around the servers.
func (in *installation) set(change func()) {
	in.mu.Lock()
	defer in.mu.Unlock()
	change()
}

func (in *installation) config() config.Config {
	in.t.Helper()
	c, _ := configtest.Parse(in.t, nil, append([]string{
		"--listen=127.0.0.1:0", "--ops-listen=127.0.0.1:0", "--data-dir=" + filepath.Join(in.dir, "data"), "--dev",
		"--peer-listen=none", // in the bubble, time would stand still while a listener waits
	}, in.flags...)...)
	return c
}

// start starts the server, or its next incarnation.
func (s *simulated) start() {
	in := s.in
	in.t.Helper()
	a, err := New(in.ctx, in.config(), slog.New(slog.DiscardHandler))
	if err != nil {
		in.t.Fatal(err)
	}
	a.vitals.disk.Measure = func(string) (doctor.Space, error) {
		in.mu.Lock()
		defer in.mu.Unlock()
		used := uint64(in.disk * 10_000)
		return doctor.Space{Used: used, Free: 10_000 - used}, nil
	}
	s.way = &way{Store: in.store, calls: a.storeCalled}
	if err := a.use(in.ctx, s.way); err != nil {
		in.t.Fatal(err)
	}
	if a.firstKey.Text != "" {
		in.key = a.firstKey.Text
	}
	a.sending.senders.http = s
	a.kept.backups = func(context.Context) ([]observe.Backup, error) {
		in.mu.Lock()
		defer in.mu.Unlock()
		return []observe.Backup{in.backup}, nil
	}
	ctx, cancel := context.WithCancel(in.ctx)
	s.mu.Lock()
	s.app, s.stop = a, cancel
	s.mu.Unlock()
	in.running.Go(func() { _ = a.vitals.readiness.Watch(ctx, a.hooks().Ready) })
	in.running.Go(func() {
		err := errors.Join(a.serveOpened(ctx), a.doors.api.Close(), a.doors.ops.Close())
		if err != nil && ctx.Err() == nil {
			in.t.Errorf("server %s: %v", s.name, err)
		}
	})
}

// end stops the server as an operator does.
func (s *simulated) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.app != nil {
		s.app.vitals.readiness.Drain()
		s.stop()
	}
	s.app = nil
}

// kill ends the server without a word to the store.
func (s *simulated) kill() {
	s.way.set(func(string) trouble { return trouble{err: errors.New("killed")} })
	s.end()
}

// now returns the server's present incarnation; nil: it does not run.
func (s *simulated) now() *App {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.app
}

// receive returns what the receiver of a delivery does.
func (in *installation) receive(from *simulated, c *postrider.Claimed) postrider.Attempt {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.respond(from, in.index[c.Endpoint], c)
}

// Send implements [dispatch.Sender]: it is the receivers.
func (s *simulated) Send(ctx context.Context, deadline time.Time, c *postrider.Claimed, _ *store.EndpointSnapshot) postrider.Attempt {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	begun := time.Now()
	a := s.in.receive(s, c)
	if a.Duration == 0 {
		return a
	}
	select {
	case <-time.After(a.Duration):
	case <-ctx.Done():
		a = postrider.Attempt{Outcome: postrider.OutcomeTimedOut, Error: string(postrider.FailureTimeout)}
	}
	a.Duration = time.Since(begun)
	return a
}

// produce publishes an event to one customer after the other, in equal intervals, until ctx ends.
// Like a load balancer it asks each server that lives in turn.
func (in *installation) produce(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		in.running.Go(func() { in.publish(n, n%len(in.index)) })
	}
}

// publish publishes an event to a customer, at the n-th of the servers that live.
func (in *installation) publish(n, customer int) (status int) {
	var living []*App
	for _, s := range in.servers {
		if a := s.now(); a != nil {
			living = append(living, a)
		}
	}
	if len(living) == 0 {
		return 0
	}
	body := fmt.Sprintf(`{"account": "customer-%d", "type": "order.created", "data": {"n": %d}}`, customer, n)
	request := httptest.NewRequestWithContext(in.ctx, http.MethodPost, "/v1/webhooks/events", strings.NewReader(body))
	request.Header.Set("Authorization", "Bearer "+in.key)
	request.Header.Set("Content-Type", "application/json")
	response := httptest.NewRecorder()
	living[n%len(living)].Handler().ServeHTTP(response, request)
	return response.Code
}

// close stops all servers and waits for them.
func (in *installation) close() {
	for _, s := range in.servers {
		s.end()
	}
	in.running.Wait()
}
