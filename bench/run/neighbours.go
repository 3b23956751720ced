package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/bench/internal/lab"
)

// neighbour is other work in the same server.
type neighbour struct {
	name    string
	unit    string  // of its work
	groups  []group // further endpoints
	prepare action  // before the phase without the work
	start   action  // before the phase with the work; nil: nothing
	during  action  // does the work, and counts it in reading.work
	ends    bool    // the work ends by itself; false: it goes on as long as the phase
}

// work does the work of the neighbour and measures how long it takes. It fails if nothing was done.
func (n neighbour) work(ctx context.Context, w *environment, r *reading) error {
	began := time.Now()
	if err := n.during(ctx, w, r); err != nil {
		return err
	}
	if r.took == 0 {
		r.took = time.Since(began)
	}
	if r.work.Load() == 0 {
		return errors.New("the work was not done: no " + n.unit)
	}
	return nil
}

// basis is a scenario that is measured without and with each neighbour.
type basis struct {
	name  string
	load  load
	lasts time.Duration
}

// halfOfB2 is the rate of B2 beside the neighbours, as a share of raw (net/http). The goal of B2 at full load
// is 0.21.
const halfOfB2 = 0.1

// noisyNeighbours measures B4, and then B2 at a fixed rate, without and with each neighbour. Each
// neighbour has a store of its own.
func noisyNeighbours(e extent) scenario {
	bases := []basis{
		{"B4", ofB4, 3 * e.full},
		{"B2", load{class: "b2", connections: 64, ofRaw: halfOfB2}, e.full},
	}
	s := scenario{name: "B19 noisy neighbours", cross: cross{columns: []string{
		"B2 p50 ÷ without", "B2 p99 ÷ without", "B4 p50 ÷ without", "B4 p99 ÷ without",
		"took beside B2", "took beside B4", "done beside B2", "done beside B4",
	}}}
	var units []string
	for place, b := range bases {
		for i, n := range neighbours(e, place) {
			if place == 0 {
				groups := []group{{class: good, endpoints: 1}, {class: "b2", endpoints: 100}}
				s.setups = append(s.setups, setup{groups: append(groups, n.groups...)})
				s.cross.rows, units = append(s.cross.rows, n.name), append(units, n.unit)
			}
			without := phase{
				name: n.name + ": " + b.name + " without", lasts: b.lasts, loads: []load{b.load}, before: inTurn(n.prepare, warmed),
			}
			with := phase{name: n.name + ": " + b.name, lasts: b.lasts, loads: []load{b.load}, before: n.start, during: n.work, ends: n.ends}
			if n.ends {
				with.lasts = 20 * time.Minute
			}
			for _, g := range n.groups {
				with.ignored = append(with.ignored, g.class)
			}
			s.setups[i].phases = append(s.setups[i].phases, without, with)
		}
	}
	s.figures = func(got shown) (figures []figure) {
		for i, name := range s.cross.rows {
			for _, b := range bases {
				figures = append(figures, got.besideNeighbour(name, units[i], b)...)
			}
		}
		return figures
	}
	return s
}

// neighbours returns the neighbours of a basis. They share their store with those of the other basis, so
// each place has accounts and days of its own.
func neighbours(e extent, place int) []neighbour {
	leaver, many := fmt.Sprintf("leaver%d", place), e.many(100_000)
	return []neighbour{
		{
			name: "200 readers of lists", unit: "lists", prepare: greedyAccounts(10),
			during: inTurn(readGreedily(200, 10, []string{"list"}), allServed),
		},
		{name: "20 dashboards", unit: "pages", prepare: logIn(20), during: watch(20, "/live")},
		{
			name: "replay", unit: "replays", groups: []group{{class: old, endpoints: 10, diesAtOnce: true}},
			prepare: deadLetters(many), during: inTurn(replayAll(0), allReplayed(many)), ends: true,
		},
		{
			name: "what-if", unit: "events", prepare: storedEvents(many), during: askWhatIf(many), ends: true,
		},
		{
			name: "archive", unit: "rows", prepare: restarted(filled(oldDay(12+place, many)), keepAll(30)...),
			start: archiving(keepAll(10)), during: inTurn(untilSwept("archive"), allArchived(many)), ends: true,
		},
		{name: "expunge", unit: "rows", prepare: leavingAccount(leaver, many), during: expungeAccount(leaver, many), ends: true},
	}
}

// warmed runs the loads of the phase for a short time.
func warmed(ctx context.Context, w *environment, r *reading) error { return w.warmUp(ctx, r.phase) }

// allServed counts the lists that were read. A server may refuse readers, but no read may fail.
func allServed(_ context.Context, _ *environment, r *reading) error {
	r.work.Store(r.reads.served.Load())
	r.said = append(r.said, fmt.Sprintf("%d lists were read, and the server refused %d", r.reads.served.Load(), r.reads.refused.Load()))
	if failed := r.reads.failed.Load(); failed > 0 {
		return fmt.Errorf("%d reads failed", failed)
	}
	return nil
}

// allReplayed counts the replays, which must be n that were delivered.
func allReplayed(n int) action {
	return func(_ context.Context, _ *environment, r *reading) error {
		r.work.Store(int64(r.replay.Handled))
		if delivered := r.replay.Deliveries.Delivered; r.replay.Handled != n || delivered != n {
			return fmt.Errorf("of %d dead letters %d were replayed and %d delivered", n, r.replay.Handled, delivered)
		}
		return nil
	}
}

// keepAll returns the flags that keep everything for a number of days.
func keepAll(days int) []string {
	return []string{"--keep-events", hours(days), "--keep-bodies", hours(days), "--keep-attempts", hours(days)}
}

// oldDay makes n events, attempts and bodies each, of one day.
func oldDay(ago, n int) func(ctx context.Context, w *environment, f lab.Fill) error {
	return func(ctx context.Context, w *environment, f lab.Fill) error {
		var errs []error
		for _, table := range []string{"events", "attempt_bodies", "attempts"} {
			errs = append(errs, w.fillDays(ctx, f, table, days{ago: ago, n: 1, rows: n}))
		}
		return errors.Join(errs...)
	}
}

// allArchived counts the archived rows, which must be n of each kind. The archive begins with the server.
func allArchived(n int) action {
	return func(_ context.Context, _ *environment, r *reading) error {
		r.took = r.swept.took
		r.work.Store(r.swept.rows)
		if want := int64(n * len(archivedKinds)); r.swept.rows != want {
			return fmt.Errorf("%d of %d rows were archived", r.swept.rows, want)
		}
		return nil
	}
}

// leavingAccount makes an account with n events that were delivered.
func leavingAccount(uid string, n int) action {
	return func(ctx context.Context, w *environment, _ *reading) error {
		if err := w.makeAccount(ctx, uid, uid); err != nil {
			return fmt.Errorf("make an account: %w", err)
		}
		if err := w.publishAll(ctx, uid, uid, n); err != nil {
			return fmt.Errorf("publish what is to be expunged: %w", err)
		}
		return w.untilNothingIsPending(ctx)
	}
}

// expungeAccount expunges the account, and waits until all its n events and attempts are removed. The
// expunge itself ends later, after it has found no rows for some time.
func expungeAccount(uid string, n int) action {
	return func(ctx context.Context, w *environment, r *reading) error {
		ctx, cancel := context.WithTimeout(ctx, r.phase.lasts)
		defer cancel()
		c := w.nodes[0].Client()
		e, err := c.CreateExpunge(ctx, apitypes.ExpungeCreate{Account: uid})
		for err == nil && (e.Removed.Events < n || e.Removed.Attempts < n) {
			pause(ctx, 100*time.Millisecond)
			e, err = c.Expunge(ctx, e.ID)
		}
		if err != nil {
			return fmt.Errorf("expunge an account: %w", err)
		}
		r.work.Store(int64(e.Removed.Events + e.Removed.Attempts + e.Removed.DeadLetters + e.Removed.Other))
		return nil
	}
}

// besideNeighbour compares a basis without and with a neighbour, and says what the neighbour did.
func (s shown) besideNeighbour(name, unit string, b basis) (figures []figure) {
	title := name + ": " + b.name
	for _, phase := range []string{title + " without", title} {
		r := s.readings[phase]
		sink := r.sinks[b.load.class]
		cost := float64((r.used.server.CPU + r.used.postgres.CPU).Microseconds()) / float64(max(1, sink.Count))
		figures = append(figures, millis(phase+", p50", sink.P50), millis(phase+", p99", sink.P99),
			figure{phase + ", deliveries/s", "%.0f", s.drainRate(phase, b.load.class)},
			figure{phase + ", " + costCPU, "%.0f µs", cost})
	}
	without, with := s.readings[title+" without"].sinks[b.load.class], s.readings[title].sinks[b.load.class]
	r := s.readings[title]
	return append(figures,
		ratio(title+" p50 ÷ without", float64(with.P50), float64(without.P50)),
		ratio(title+" p99 ÷ without", float64(with.P99), float64(without.P99)),
		figure{name + ": took beside " + b.name, "%.1f s", r.took.Seconds()},
		figure{name + ": done beside " + b.name, "%.0f " + unit, float64(r.work.Load())})
}
