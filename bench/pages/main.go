// Command pages measures how long the pages of the dashboard take if the store has a long history.
//
//	go run ./bench/pages -attempts 10000000
//
// It fills a store of SQLite, then one of PostgreSQL, by SQL, with copies of rows that the server
// made: a month of attempts for thousands of endpoints, dead letters, a backlog and statistics.
// Then it logs in as an operator and reads every page several times. It prints the time from the
// request to the last byte, and the bytes of the page.
//
// It exits 1 if a page fails, or if the 95th percentile of a page is over -within.
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
	stores    string
	dir       string
	attempts  int
	endpoints int
	reads     int
	within    time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.stores, "stores", "sqlite,postgres", "stores to measure")
	flag.StringVar(&o.dir, "dir", "", "folder for the store; empty: the system's for temporary files")
	flag.IntVar(&o.attempts, "attempts", 10_000_000, "attempts in the store")
	flag.IntVar(&o.endpoints, "endpoints", 10_000, "endpoints, of a hundred accounts")
	flag.IntVar(&o.reads, "reads", 40, "how often each page is read")
	flag.DurationVar(&o.within, "within", 50*time.Millisecond, "how long the 95th percentile of a page may be")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "pages:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	stores := strings.Split(o.stores, ",")
	for _, store := range stores {
		if store != "sqlite" && store != "postgres" {
			return fmt.Errorf("-stores: there is no store %q", store)
		}
	}
	l, err := lab.Open(ctx, o.dir, "sink")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	var errs []error
	for _, store := range stores {
		if err := measure(ctx, l, o, store); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", store, err))
		}
	}
	return errors.Join(errs...)
}

// measure fills a store and reads the pages. It returns an error if a page is too slow.
func measure(ctx context.Context, l *lab.Lab, o options, store string) error {
	h, err := startHistory(ctx, l, o, store)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := h.seed(ctx); err != nil {
		return err
	}
	fmt.Printf("%s, %d attempts of %d endpoints: seeded in %.0f s\n\n", store, o.attempts, o.endpoints, time.Since(began).Seconds())
	reader, err := h.login(ctx)
	if err != nil {
		return err
	}
	err = reader.report(ctx, o)
	fmt.Println()
	return errors.Join(err, h.server.Process().Terminate(30*time.Second), l.DropStore(ctx, h.server))
}
