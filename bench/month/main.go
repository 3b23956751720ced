// Command month shows how large a store is from day to day while retention deletes old rows.
//
//	go run ./bench/month -days 30 -rows 20000
//
// It makes the rows of one day after another by SQL. After each day it runs the built server until
// retention has nothing left to do, and then notes the size of the store. The clock is not changed.
// The days are in the past, the last one is yesterday, and the settings of retention are longer by
// the age of the day. So after each day the server deletes what it would have deleted on that day.
//
// The program exits 1 if the store grew by more than -within between the end of the longest
// retention and the last day.
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
	stores   string
	dir      string
	days     int
	rows     int
	events   int
	attempts int
	within   float64
}

func main() {
	var o options
	flag.StringVar(&o.stores, "stores", "sqlite,postgres", "stores to measure")
	flag.StringVar(&o.dir, "dir", "", "folder for the store; empty: the system's for temporary files")
	flag.IntVar(&o.days, "days", 30, "days to simulate")
	flag.IntVar(&o.rows, "rows", 20_000, "events of a day, each with an attempt and its bodies, and with an idempotency key")
	flag.IntVar(&o.events, "keep-events", 5, "days for which events, bodies and idempotency keys are kept")
	flag.IntVar(&o.attempts, "keep-attempts", 10, "days for which attempts are kept")
	flag.Float64Var(&o.within, "within", 0.1, "how much the store may grow after that, as a share")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "month:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	if o.events < 1 || o.attempts < 1 || o.days <= max(o.events, o.attempts)+2 || o.rows < 1 {
		return errors.New("-days must be at least three more than -keep-events and -keep-attempts, and none may be 0")
	}
	l, err := lab.Open(ctx, o.dir, "sink")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	var errs []error
	for store := range strings.SplitSeq(o.stores, ",") {
		if store != "sqlite" && store != "postgres" {
			return fmt.Errorf("-stores: there is no store %q", store)
		}
		if err := simulate(ctx, l, o, store); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", store, err))
		}
	}
	return errors.Join(errs...)
}

// simulate makes one day after another and prints the size of the store after each.
func simulate(ctx context.Context, l *lab.Lab, o options, store string) error {
	m, err := startMonth(ctx, l, o, store)
	if err != nil {
		return err
	}
	fmt.Printf("%s, %d events a day, kept for %d days, attempts for %d\n\n| day | MB | retention took |\n|--:|--:|--:|\n", store, o.rows,
		o.events, o.attempts)
	var sizes []float64
	for day := 1; day <= o.days; day++ {
		took, err := m.live(ctx, day)
		if err != nil {
			return fmt.Errorf("day %d: %w", day, err)
		}
		size, err := m.size(ctx)
		if err != nil {
			return err
		}
		sizes = append(sizes, size)
		fmt.Printf("| %d | %.1f | %.1f s |\n", day, size, took.Seconds())
	}
	// The first day is deleted at the end of the day after its retention. SQLite gives the pages
	// back a day later.
	full := sizes[max(o.events, o.attempts)+1:]
	growth := full[len(full)-1]/full[0] - 1
	fmt.Printf("\nfrom day %d to %d: %.1f to %.1f MB, %+.1f %%\n\n", o.days-len(full)+1, o.days, full[0], full[len(full)-1], 100*growth)
	if err := l.DropStore(ctx, m.server); err != nil {
		return err
	}
	if growth > o.within {
		return fmt.Errorf("the store grew by %.1f %% although retention deletes", 100*growth)
	}
	return nil
}

// retentionTime is the time limit for the retention of one day.
const retentionTime = 10 * time.Minute
