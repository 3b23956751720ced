// Command crash kills a server again and again while events are published. Then it proves from
// outside that nothing was lost.
//
//	go run ./bench/crash -store sqlite -kills 50 -events 20000 -terms 10
//	go run ./bench/crash -store postgres -nodes 3 -kills 300 -min 200ms -max 12s -fanout 5000 -events 100000
//
// Without -max the kills are spread over the publishes. With -max, a server lives for -min to -max
// and is started again at once. With -fanout, that many endpoints get one event after another,
// besides the other events. With -deletes, that many further endpoints are deleted meanwhile;
// afterwards the lists and the statistics must agree with the requests that arrived.
//
// The program keeps two ledgers outside the server: the answers of publish, and the answers of the
// receiver. Publishers use idempotency keys and repeat a publish until they get an answer. The
// receiver refuses a few requests. After the last kill it refuses none, and the program waits until
// the API lists no pending delivery. The program exits 1 unless
//
//   - every acknowledged event was accepted by each endpoint that subscribes,
//   - no repeated publish was answered with another id,
//   - a kill explains every duplicate (see ledger.go),
//   - nothing is a dead letter,
//   - every request that arrived is recorded as an attempt, and
//   - the SIGTERM restarts of -terms led to no duplicate at all.
//
// It also reports how long after each start of a server the first request arrived while something
// was due.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/postrider/postrider/bench/internal/lab"
)

type options struct {
	store      string
	dir        string
	kills      int
	terms      int
	events     int
	publishers int
	window     time.Duration
	limit      time.Duration
	nodes      int
	min, max   time.Duration
	fanOut     int
	deletes    int
	seed       uint64
}

func main() {
	var o options
	flag.StringVar(&o.store, "store", "sqlite", "sqlite or postgres")
	flag.StringVar(&o.dir, "dir", "", "folder for the store; empty: the system's for temporary files")
	flag.IntVar(&o.kills, "kills", 50, "how often to kill -9")
	flag.IntVar(&o.terms, "terms", 0, "how often to restart with SIGTERM afterwards")
	flag.IntVar(&o.events, "events", 20_000, "events to publish during the kills")
	flag.IntVar(&o.publishers, "publishers", 16, "publishes at a time")
	flag.DurationVar(&o.window, "window", 500*time.Millisecond,
		"how long before a kill an answer may be that the kill kept from being recorded")
	flag.IntVar(&o.nodes, "nodes", 1, "servers on one PostgreSQL; each kill takes one of them")
	flag.DurationVar(&o.min, "min", 200*time.Millisecond, "with -max: how long a server lives at least")
	flag.DurationVar(&o.max, "max", 0, "how long a server lives at most; 0: the kills are spread over the publishes")
	flag.IntVar(&o.fanOut, "fanout", 0, "endpoints of the fan-outs that are under way during the kills; 0: none")
	flag.IntVar(&o.deletes, "deletes", 0, "endpoints that are deleted during the kills while deliveries for them are under way")
	flag.DurationVar(&o.limit, "limit", 15*time.Minute, "give up after this long")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "seed of the times of the kills")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, o.limit)
	defer cancel()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "crash:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	l, err := lab.Open(ctx, o.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	r, err := startReceiver(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	server, err := l.StartServer(ctx, lab.ServerOptions{Store: o.store})
	if err != nil {
		return err
	}
	servers := []*lab.Server{server}
	for len(servers) < o.nodes {
		another, err := l.StartNode(ctx, server)
		if err != nil {
			return err
		}
		servers = append(servers, another)
	}
	doomed, err := subscribe(ctx, server.Client(), r.url, o)
	if err != nil {
		return err
	}
	fmt.Printf("store %s, seed %d\n", o.store, o.seed)
	random := rand.New(rand.NewPCG(o.seed, 0))

	r.misbehave.Store(true)
	kills := phase{
		name: "kill", servers: servers, receiver: r, events: o.events, publishers: o.publishers, times: o.kills, random: random,
		min: o.min, max: o.max, fanOut: o.fanOut, doomed: doomed,
		restart: func(ctx context.Context, s *lab.Server) error {
			r.noteKill(time.Now())
			if err := s.Process().Kill(); err != nil {
				return err
			}
			r.noteStart(time.Now())
			return s.Restart(ctx)
		},
	}
	if err := kills.run(ctx, o.window); err != nil || o.terms == 0 {
		return err
	}

	terms := phase{
		name: "term", servers: servers, receiver: r, publishers: o.publishers, times: o.terms, random: random,
		events: o.events * o.terms / max(1, o.kills),
		restart: func(ctx context.Context, s *lab.Server) error {
			return errors.Join(s.Process().Terminate(time.Minute), s.Restart(ctx))
		},
	}
	return terms.run(ctx, 0)
}
