// Command run measures Postrider on this machine: it starts a server, a
// receiver and a publisher as processes of their own, runs the scenarios of
// scenarios.go on each store, and prints a table in Markdown.
//
//	go run ./bench/run -stores sqlite,postgres -seconds 10
//
// README.md beside it says what the columns mean. Every scenario is bounded in
// time; nothing leaves the loopback interface.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/postrider/postrider/bench/internal/lab"
)

type options struct {
	stores  string
	only    string
	dir     string
	seconds int
}

func main() {
	var o options
	flag.StringVar(&o.stores, "stores", "sqlite,postgres", "stores to measure")
	flag.StringVar(&o.only, "only", "", "scenarios to run, with commas between; empty: all")
	flag.StringVar(&o.dir, "dir", "", "folder for the stores: its disk decides; empty: the system's for temporary files")
	flag.IntVar(&o.seconds, "seconds", 10, "how long each scenario publishes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	l, err := lab.Open(ctx, o.dir, "sink", "load")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	raw, err := measureRaw(ctx, l)
	if err != nil {
		return fmt.Errorf("raw: %w", err)
	}
	fmt.Printf("%s\n\nraw: %.0f requests/s from load to sink, p50 %s, p99 %s\n\n%s", machine(), raw.Rate(),
		millis(raw.P50), millis(raw.P99), tableHead)
	var errs []error
	for store := range strings.SplitSeq(o.stores, ",") {
		for _, s := range scenarios {
			if o.only != "" && !strings.Contains(","+o.only+",", ","+s.name+",") {
				continue
			}
			m, err := measure(ctx, l, store, s.lasting(time.Duration(o.seconds)*time.Second))
			if err != nil {
				errs = append(errs, fmt.Errorf("%s on %s: %w", s.name, store, err))
				continue
			}
			fmt.Print(m.row())
		}
	}
	return errors.Join(errs...)
}
