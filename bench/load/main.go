// Command load publishes events as fast as a server accepts them, or at a rate, and prints the
// result as JSON.
//
//	load -target 127.0.0.1:8080 -account bench -connections 32 -duration 10s
//
// The API key comes from -key or POSTRIDER_API_KEY. Each connection sends one publish at a time,
// and the next one after the answer. So the numbers are what a caller sees. Answers other than 2xx
// are counted. After a 429 or a 503 the connection waits a tenth of a second. Several targets share
// the connections. A connection that breaks continues at the next target.
//
// With -batch N each publish is a batch of N events. With -accounts N the events are for N accounts in
// turn: bench0, bench1, … The latencies are those of publishes, everything else counts events.
//
// With -keyed each event has an idempotency key, and a publish without an answer is repeated until
// it gets one. Then exactly the accepted events must arrive, whatever is killed.
//
// With -raw it posts the same events to a plain receiver, which shows the limit of the machine and
// of this program. -std uses net/http's client for that.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// plan has the flags of load.
type plan struct {
	targets     []string
	key         string
	account     string
	accounts    int
	raw         string
	std         bool
	prefix      string
	types       int
	connections int
	rate        float64
	count       int64
	duration    time.Duration
	size        int
	batch       int64
	keyed       bool
}

func main() {
	var p plan
	flag.StringVar(&p.key, "key", os.Getenv("POSTRIDER_API_KEY"), "API key")
	targets := flag.String("target", "127.0.0.1:8080", "addresses of the server's nodes, with commas between")
	flag.StringVar(&p.account, "account", "bench", "account to publish for")
	flag.IntVar(&p.accounts, "accounts", 0, "accounts bench0, bench1, … that take turns; 0: only -account itself")
	flag.StringVar(&p.raw, "raw", "", "path of a plain receiver to POST to instead")
	flag.BoolVar(&p.std, "std", false, "use net/http's client")
	flag.StringVar(&p.prefix, "prefix", "bench", "what the event types begin with")
	flag.IntVar(&p.types, "types", 1, "event types bench.t0, bench.t1, … that take turns")
	flag.IntVar(&p.connections, "connections", 32, "connections, each with one publish at a time")
	flag.Float64Var(&p.rate, "rate", 0, "events per second over all connections; 0: as fast as they are taken")
	flag.Int64Var(&p.count, "count", 0, "stop after this many; 0: by -duration alone")
	flag.DurationVar(&p.duration, "duration", 10*time.Second, "stop after this long")
	flag.IntVar(&p.size, "size", 1024, "bytes of data of an event, 32 at least")
	flag.Int64Var(&p.batch, "batch", 1, "events of a publish; -count must be a multiple of it")
	flag.BoolVar(&p.keyed, "keyed", false, "send an idempotency key with each, and repeat what got no answer")
	flag.Parse()
	p.targets = strings.Split(*targets, ",")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	result, err := publish(ctx, p)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(result)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}
