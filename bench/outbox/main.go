// Command outbox kills servers and databases again and again while a producer writes orders and publishes their events
// in the same transactions. Then it proves from outside that each event of a committed order was delivered, in the order
// of its key, and no other.
//
//	go run ./bench/outbox -store sqlite -kills 300
//	go run ./bench/outbox -store postgres -nodes 3 -kills 300
//
// A third of the transactions roll back. Others have a savepoint to which they roll back, or are prepared first and then
// committed or rolled back. Some connections are cut during their commit, so that nobody knows its result. The table of
// orders says what was committed.
//
// At random times one of these is killed, and started again: a server (kill -9), the PostgreSQL of the producer, the
// PostgreSQL of the store (both: immediate stop), or the connections of all readers. The program exits 1 unless
//
//   - each committed order has one event, and its webhook arrived,
//   - nothing arrived of an order that was not committed,
//   - of each ordering key the webhooks arrived first in the order of the commits,
//   - a kill explains each webhook that arrived again, and
//   - nothing is rejected, waits, or is a dead letter.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/bench/internal/lab"
	"github.com/postrider/postrider/client"
)

const account = "crash"

type options struct {
	store     string
	dir       string
	nodes     int
	kills     int
	producers int
	keys      int
	min, max  time.Duration
	rest      time.Duration
	window    time.Duration
	limit     time.Duration
	seed      uint64
}

func main() {
	var o options
	flag.StringVar(&o.store, "store", "sqlite", "sqlite or postgres")
	flag.StringVar(&o.dir, "dir", "", "folder for the stores; empty: the system's for temporary files")
	flag.IntVar(&o.nodes, "nodes", 1, "servers on one PostgreSQL")
	flag.IntVar(&o.kills, "kills", 50, "how often to kill something")
	flag.IntVar(&o.producers, "producers", 16, "transactions at a time")
	flag.IntVar(&o.keys, "keys", 200, "ordering keys")
	flag.DurationVar(&o.min, "min", 200*time.Millisecond, "time between two kills, at least")
	flag.DurationVar(&o.max, "max", 4*time.Second, "time between two kills, at most")
	flag.DurationVar(&o.rest, "rest", 20*time.Millisecond, "pause of a producer after a transaction")
	flag.DurationVar(&o.window, "window", 5*time.Second, "how long before a kill an answer may be that the kill kept from being recorded")
	flag.DurationVar(&o.limit, "limit", time.Hour, "give up after this long")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "seed of the kills and the transactions")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, o.limit)
	defer cancel()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "outbox:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	l, err := lab.Open(ctx, o.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	producer, err := l.StartProducer(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, producer.Stop()) }()
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
	install := exec.CommandContext(ctx, l.Program("postrider"), "outbox", "install", "--database-url", producer.URL)
	if out, err := install.CombinedOutput(); err != nil {
		return fmt.Errorf("install the outbox: %w: %s", err, out)
	}
	if err := subscribe(ctx, server.Client(), r.url, producer.URL); err != nil {
		return err
	}
	fmt.Printf("store %s, %d servers, seed %d\n", o.store, o.nodes, o.seed)
	s := &study{options: o, lab: l, producer: producer, servers: servers, receiver: r}
	return s.run(ctx)
}

// subscribe creates the account, its endpoint and the source.
func subscribe(ctx context.Context, c *client.Client, url, database string) error {
	if _, err := c.CreateAccount(ctx, apitypes.AccountCreate{UID: account}); err != nil {
		return fmt.Errorf("create account: %w", err)
	}
	_, err := c.CreateEndpoint(ctx, apitypes.EndpointCreate{
		Account: account, URL: url, EventTypes: []string{"*"},
		Policy: apitypes.Policy{
			Concurrency: apitypes.Of(40), TimeoutMS: apitypes.Of[int64](5000), Order: apitypes.Of(postrider.OrderByKey),
			Retry: apitypes.Of(apitypes.Retry{BaseMS: 100, Factor: 2, CapMS: 2000, MaxAttempts: 100, Jitter: "full"}),
		},
	})
	if err != nil {
		return fmt.Errorf("create endpoint: %w", err)
	}
	if _, err := c.PutSource(ctx, "shop", apitypes.SourcePut{DatabaseURL: database}, false); err != nil {
		return fmt.Errorf("create source: %w", err)
	}
	return nil
}
