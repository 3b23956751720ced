// Command run measures Postrider on this machine. It starts servers, a receiver and publishers as
// processes of their own, runs the scenarios of scenarios.go on empty stores, and writes a table in
// Markdown.
//
//	go run ./bench/run -runs 3 -out bench/RESULTS.md
//	go run ./bench/run -stores postgres -only B5,B6
//	go run ./bench/run -only B1,B2 -variants plain,metrics,traces1,traces100 -runs 3
//	go run ./bench/run -only B1,B2,B3 -against "$(cat bench/BASE)" -runs 7
//	go run ./bench/run -quick
//
// The file README.md in this folder explains the figures. Every wait is bounded, and the number of
// lost deliveries is a figure. Nothing leaves the loopback interface.
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
	only     string
	dir      string
	out      string
	profiles string
	variants string
	against  string
	seconds  int
	runs     int
	quick    bool
	history  extentOfHistory
}

func main() {
	var o options
	flag.StringVar(&o.stores, "stores", "sqlite,postgres", "stores to measure")
	flag.StringVar(&o.only, "only", "", "scenarios to run, B5 or a whole name, with commas between; empty: all")
	flag.StringVar(&o.dir, "dir", "", "folder for the stores: its disk decides; empty: the system's for temporary files")
	flag.StringVar(&o.out, "out", "", "file for the table; empty: standard output")
	flag.StringVar(&o.profiles, "profiles", "",
		"existing folder for CPU and allocation profiles of the first node, of each phase; empty: none")
	flag.IntVar(&o.seconds, "seconds", 10, "how long scenarios of the highest rate publish")
	flag.IntVar(&o.runs, "runs", 1, "how often to run each scenario")
	flag.StringVar(&o.variants, "variants", "",
		"plain,metrics,traces1,traces100 or some of them: run each scenario once so in each round, and compare them; empty: plain")
	flag.StringVar(&o.against, "against", "",
		"another commit: run each scenario with its server too, and print the ratios; bench/BASE names the best one")
	flag.IntVar(&o.history.days, "days", 90, "B17: days of history")
	flag.IntVar(&o.history.rows, "day-rows", 100_000, "B17: rows of a day and table")
	flag.IntVar(&o.history.full, "full-day", 1_200_000, "B17: rows of a table on the days that are deleted")
	flag.BoolVar(&o.quick, "quick", false, "short and small, to try the scenarios: the numbers mean nothing")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	wanted, err := choose(scenarios(o.extent()), o)
	if err != nil {
		return err
	}
	l, err := lab.Open(ctx, o.dir, "sink", "load")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if o.against != "" {
		program, err := l.BuildCommit(ctx, o.against)
		if err != nil {
			return err
		}
		wanted = withBase(wanted, o.against, program)
	}
	rep := newReport(o)
	var errs []error
	for round := range o.runs {
		if ctx.Err() != nil {
			break
		}
		errs = append(errs, measureRound(ctx, l, rep, inOrder(wanted, round)))
		fmt.Fprintf(os.Stderr, "round %d of %d: done\n", round+1, o.runs)
	}
	rep.faults = errors.Join(errs...)
	rep.server, err = l.PostgresVersion(ctx)
	return errors.Join(rep.faults, err, rep.write(o.out))
}

// measureRound runs every scenario once. Before each it measures what the machine can do at that
// moment. If a scenario fails, the others still run.
func measureRound(ctx context.Context, l *lab.Lab, rep *report, wanted []chosen) error {
	var errs []error
	var done []measured
	for _, c := range wanted {
		if ctx.Err() != nil {
			return errors.Join(append(errs, ctx.Err())...)
		}
		began := time.Now()
		shown, err := measureCalmly(ctx, l, rep, c)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s on %s: %w", c.name, c.store, err))
			fmt.Fprintln(os.Stderr, errs[len(errs)-1])
			continue
		}
		rep.addRaw(shown.raw)
		rep.add(c, append(c.figures(shown), shown.losses()...))
		rep.say(c, shown)
		done = append(done, measured{c, shown})
		fmt.Fprintf(os.Stderr, "%s on %s: %.0f s\n", c.title(), c.store, time.Since(began).Seconds())
	}
	for _, m := range done {
		rep.add(m.chosen, m.against(done))
	}
	return errors.Join(errs...)
}

// measureCalmly runs a scenario. It repeats it up to twice if the host of a virtual machine gave
// more than a tenth of the time to others meanwhile.
func measureCalmly(ctx context.Context, l *lab.Lab, rep *report, c chosen) (shown, error) {
	const tolerated = 10 // percent
	for left := 2; ; left-- {
		raw, err := measureRaw(ctx, l)
		if err != nil {
			return shown{}, fmt.Errorf("raw: %w", err)
		}
		s, err := measure(ctx, l, c, raw)
		if err != nil || s.stolen() <= tolerated || left == 0 {
			return s, err
		}
		rep.thrown++
		fmt.Fprintf(os.Stderr, "%s on %s: again, %.0f %% of the machine was stolen\n", c.name, c.store, s.stolen())
	}
}

// chosen is a scenario on a store.
type chosen struct {
	scenario

	store    string
	profiles string // folder for profiles; empty: none
	variant  variant
}

// choose returns the scenarios that the options name. An unknown name is an error, so that no table
// is empty.
func choose(all []scenario, o options) ([]chosen, error) {
	if o.runs < 1 || o.seconds < 1 {
		return nil, errors.New("-runs and -seconds must be at least 1")
	}
	variants, err := variantsOf(o.variants)
	if err != nil {
		return nil, err
	}
	unmet := map[string]bool{}
	for name := range strings.SplitSeq(o.only, ",") {
		unmet[name] = true
	}
	var wanted []chosen
	for store := range strings.SplitSeq(o.stores, ",") {
		if store != sqlite && store != postgres {
			return nil, fmt.Errorf("-stores: there is no store %q", store)
		}
		for _, s := range all {
			if s.only != "" && s.only != store {
				continue
			}
			asked := o.only == ""
			for _, name := range s.names(store) {
				asked = met(unmet, name) || asked
			}
			for _, v := range variants {
				if asked {
					wanted = append(wanted, chosen{s, store, o.profiles, v})
				}
			}
		}
	}
	for name, still := range unmet {
		if o.only != "" && still {
			return nil, fmt.Errorf("-only: no scenario %q on %s", name, o.stores)
		}
	}
	return wanted, nil
}

// met reports whether name was asked for, and records that it exists.
func met(unmet map[string]bool, name string) bool {
	_, asked := unmet[name]
	if asked {
		unmet[name] = false
	}
	return asked
}
