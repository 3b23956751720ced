package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/bench/internal/lab"
)

const (
	account  = "bench"
	warmUp   = 2 * time.Second
	patience = 3 * time.Minute // longest wait until the accepted events have arrived
	dataSize = 1024
)

// setup is an empty store with servers and endpoints, and the phases that are measured on it.
type setup struct {
	nodes    int // number of nodes; 0: one
	groups   []group
	distinct bool // count distinct events instead of arrivals, because duplicates are expected
	logged   bool // log every statement of the server
	variant  variant
	spans    *atomic.Int64 // spans that the collector of the variant got
	raw      raws          // rates of the machine just before
	phases   []phase
}

// group is a number of endpoints of one kind. They subscribe to the event types class.t0, class.t1,
// …: each to one of them, or, with fanOut, all to class.*.
type group struct {
	class       string // class of the requests at the sink
	endpoints   int
	accounts    int  // number of accounts that the endpoints belong to in turn; 0: the one account
	fanOut      bool // every endpoint gets every event
	concurrency int  // of each endpoint; 0: the default
	hosts       int  // number of addresses of the endpoints; 0: one, 127.0.0.1
	paused      bool
	diesAtOnce  bool // a refused delivery is a dead letter, and no circuit opens
}

// policy returns the options of each endpoint of the group.
func (g group) policy() (p apitypes.Policy) {
	if g.concurrency > 0 {
		p.Concurrency = apitypes.Of(g.concurrency)
	}
	if g.diesAtOnce {
		p.ClientErrors = apitypes.Of(postrider.DeadLetterClientErrors)
		p.Circuit = apitypes.Of(apitypes.CircuitPolicy{Preset: "never"})
	}
	return p
}

// account returns the account of endpoint i. bench/load gives the same names to its accounts.
func (g group) account(i int) string {
	if g.accounts == 0 {
		return account
	}
	return account + strconv.Itoa(i%g.accounts)
}

// copied reports whether the endpoints are copies that SQL makes, where the store is PostgreSQL.
func (g group) copied() bool { return g.endpoints >= manyEndpoints && g.accounts == 0 }

// types returns how many event types the group has.
func (g group) types() int {
	if g.fanOut {
		return 1
	}
	return g.endpoints
}

// matches returns how many endpoints an event matches.
func (g group) matches() int64 {
	if g.fanOut {
		return int64(g.endpoints)
	}
	return 1
}

// manyEndpoints is the least size of a group whose endpoints are made by SQL.
const manyEndpoints = 200

// environment is a setup with running servers.
type environment struct {
	setup

	lab      *lab.Lab
	sink     *lab.Sink
	nodes    []*lab.Server
	gone     []*lab.Server  // killed nodes
	browsers []*http.Client // sessions at the first node, each for streamsOf pages
	greedy   []greedyAccount
	asked    postrider.EndpointID // of the account asking
	producer *lab.Producer        // with an outbox; nil: none
	first    map[string]apitypes.Endpoint
	started  time.Time // when restarted last started a server
	holes    []*hole
	closers  []func() error // close everything else that belongs to the environment
}

// setUp starts the parts of the setup. It returns the environment even with an error, because the
// caller must close it.
func setUp(ctx context.Context, l *lab.Lab, store string, st setup) (*environment, error) {
	w := &environment{setup: st, lab: l, first: map[string]apitypes.Endpoint{}}
	var err error
	if w.sink, err = l.StartSink(ctx, st.distinct); err != nil {
		return w, err
	}
	args, err := w.startVariant(ctx)
	if err != nil {
		return w, err
	}
	first, err := l.StartServer(ctx, lab.ServerOptions{Store: store, Ready: time.Minute, Args: args, Program: w.variant.program})
	if err != nil {
		return w, err
	}
	w.nodes = append(w.nodes, first)
	if st.logged {
		err = l.LogStatements(ctx, first)
	}
	if err = errors.Join(err, w.subscribe(ctx, store)); err != nil {
		return w, err
	}
	for len(w.nodes) < st.nodes {
		node, err := l.StartNode(ctx, first)
		if err != nil {
			return w, err
		}
		w.nodes = append(w.nodes, node)
	}
	syscall.Sync() // the writes of the set-up must not happen during the measurement
	return w, nil
}

// close ends what setUp started and removes the store.
func (w *environment) close(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	var errs []error
	for _, node := range w.nodes {
		errs = append(errs, node.Process().Terminate(time.Minute))
	}
	if w.sink != nil {
		errs = append(errs, w.sink.Kill())
	}
	for _, c := range w.closers {
		errs = append(errs, c())
	}
	if all := slices.Concat(w.nodes, w.gone); len(all) > 0 {
		errs = append(errs, w.lab.DropStore(ctx, all[0]))
	}
	return errors.Join(errs...)
}

// subscribe creates the account and the endpoints. It uses the API; for a large group, SQL copies
// the first endpoint.
func (w *environment) subscribe(ctx context.Context, store string) error {
	c := w.nodes[0].Client()
	if _, err := c.CreateAccount(ctx, apitypes.AccountCreate{UID: account, Name: "Benchmark"}); err != nil {
		return fmt.Errorf("create account: %w", err)
	}
	var seeded bool
	for place, g := range w.groups {
		for i := range g.accounts {
			if _, err := c.CreateAccount(ctx, apitypes.AccountCreate{UID: g.account(i), Name: "One of many"}); err != nil {
				return fmt.Errorf("create account %d of %s: %w", i, g.class, err)
			}
		}
		byAPI := g.endpoints
		if store == postgres && g.copied() {
			byAPI, seeded = 1, true
		}
		for i := range byAPI {
			if err := w.createEndpoint(ctx, place, i); err != nil {
				return fmt.Errorf("create endpoint %d of %s: %w", i, g.class, err)
			}
		}
		if g.paused {
			if _, err := c.PauseEndpoint(ctx, w.first[g.class].ID, ""); err != nil {
				return fmt.Errorf("pause %s: %w", g.class, err)
			}
		}
	}
	if !seeded && !w.logged {
		return nil
	}
	if err := w.nodes[0].Process().Terminate(time.Minute); err != nil {
		return err
	}
	for place, g := range w.groups {
		if g.copied() {
			if err := w.seedEndpoints(ctx, place); err != nil {
				return fmt.Errorf("seed endpoints of %s: %w", g.class, err)
			}
		}
	}
	return w.nodes[0].Restart(ctx)
}

func (w *environment) createEndpoint(ctx context.Context, place, i int) error {
	g := w.groups[place]
	pattern := fmt.Sprintf("%s.t%d", g.class, i)
	if g.fanOut {
		pattern = g.class + ".*"
	}
	host := "127.0.0.1"
	if h := i % max(1, g.hosts); h > 0 || place > 0 {
		// seedEndpoints uses the same addresses in SQL.
		host = fmt.Sprintf("127.%d.%d.%d", place, h/250, 1+h%250)
	}
	made, err := w.nodes[0].Client().CreateEndpoint(ctx, apitypes.EndpointCreate{
		Account: g.account(i), URL: "http://" + host + ":" + w.sink.Port() + "/" + g.class,
		EventTypes: []string{pattern}, Policy: g.policy(),
	})
	if i == 0 {
		w.first[g.class] = made
	}
	return err
}

// kill ends a node as a power cut would.
func (w *environment) kill(place int) error {
	node := w.nodes[place]
	w.nodes = slices.Delete(w.nodes, place, place+1)
	w.gone = append(w.gone, node)
	return node.Process().Kill()
}

// group returns the group of a class.
func (w *environment) group(class string) group {
	for _, g := range w.groups {
		if g.class == class {
			return g
		}
	}
	return group{}
}
