package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/bench/internal/lab"
)

// phase is a measured part of a setup.
type phase struct {
	name    string // unique in its scenario
	lasts   time.Duration
	answers map[string]lab.Answer // of the sink, by class, from this phase on
	before  action                // runs before the measurement
	during  action                // runs at the same time as the loads
	ends    bool                  // the loads end when during ends
	loads   []load
	ignored []string // classes whose deliveries are not waited for
}

// shortest is the least time of the loads of a phase with ends.
const shortest = 5 * time.Second

// action does something besides the loads.
type action func(ctx context.Context, w *environment, r *reading) error

// load publishes events for a class.
type load struct {
	class       string
	connections int
	rate        float64       // events per second; 0: as fast as possible
	ofRaw       float64       // the rate as a share of raw (net/http); 0: rate says it
	count       int64         // number of events; 0: until the phase ends
	after       time.Duration // when the load begins in the phase
	keyed       bool
	batch       int // events of a publish; 0: one
}

// reading has the results of a phase.
type reading struct {
	phase   phase
	began   time.Time // start of its loads
	loads   map[string]lab.LoadStats
	sinks   map[string]lab.SinkStats
	used    usages
	grew    int64   // growth of the server's memory, from the phase's start to its peak, in bytes
	disk    int64   // growth of the store without the write-ahead log, in bytes
	wal     int64   // growth of the write-ahead log, in bytes
	missing int64   // deliveries that did not arrive in time
	surplus int64   // repeated arrivals
	stolen  float64 // per cent of the machine's time

	shares  []float64       // sampled shares of the slots
	claims  []time.Duration // how long the claims took
	replay  apitypes.Replay // the job of the phase, after all its deliveries had ended
	swept   swept           // work of retention
	reads   *readStats      // of greedy readers; nil: none
	work    atomic.Int64    // what a neighbour has done, in its unit
	took    time.Duration   // how long the work of a neighbour took
	dropped float64         // spans that the servers had dropped at the last scrape
	said    []string        // lines of the server's log and metrics that show the trouble
}

// usages is the usage of the processes.
type usages struct{ server, postgres, producer, load, sink lab.Usage }

// shown has the results of a scenario, by the names of its phases.
type shown struct {
	store    string
	variant  variant
	spans    *atomic.Int64 // spans that the variant's collector got
	profiles string        // start of the names of profiles; empty: no profiles
	raw      raws
	readings map[string]*reading
}

// measure runs a scenario. Each of its setups has an empty store.
func measure(ctx context.Context, l *lab.Lab, c chosen, raw raws) (shown, error) {
	s := shown{store: c.store, variant: c.variant, spans: new(atomic.Int64), raw: raw, readings: map[string]*reading{}}
	if c.profiles != "" {
		short, _, _ := strings.Cut(c.name, " ")
		s.profiles = filepath.Join(c.profiles, short+"-"+c.store+"-")
	}
	for _, st := range c.setups {
		if err := s.play(ctx, l, st); err != nil {
			return s, err
		}
	}
	return s, nil
}

func (s shown) play(ctx context.Context, l *lab.Lab, st setup) (err error) {
	st.variant, st.spans, st.raw = s.variant, s.spans, s.raw
	w, err := setUp(ctx, l, s.store, st)
	defer func() { err = errors.Join(err, w.close(ctx)) }()
	if err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	if err := w.warmUp(ctx, st.phases[0]); err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	for _, p := range st.phases {
		if s.profiles != "" {
			p.during = profiled(s.profiles+fileName(p.name), p.during)
		}
		if s.variant.scraped {
			p.during = scraped(p.during)
		}
		r, err := w.measure(ctx, p)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		s.readings[p.name] = r
	}
	return nil
}

// warmUp runs the loads of a phase for a short time. All deliveries must arrive.
func (w *environment) warmUp(ctx context.Context, p phase) error {
	p.lasts, p.before, p.during, p.ends = warmUp, nil, nil, false
	r, err := w.measure(ctx, p)
	if err == nil && r.missing > 0 {
		err = fmt.Errorf("%d deliveries did not arrive", r.missing)
	}
	return err
}

// measure runs a phase and returns its results.
func (w *environment) measure(ctx context.Context, p phase) (*reading, error) {
	r := &reading{phase: p, loads: map[string]lab.LoadStats{}, sinks: map[string]lab.SinkStats{}}
	for _, class := range slices.Sorted(maps.Keys(p.answers)) {
		if err := w.sink.Answer(ctx, class, p.answers[class]); err != nil {
			return nil, err
		}
	}
	if p.before != nil {
		if err := p.before(ctx, w, r); err != nil {
			return nil, err
		}
	}
	if err := w.sink.Reset(ctx); err != nil {
		return nil, err
	}
	before, err := w.meter(ctx)
	if err != nil {
		return nil, err
	}
	if err := w.publish(ctx, r); err != nil {
		return nil, err
	}
	if err := w.collect(ctx, r); err != nil {
		return nil, err
	}
	after, err := w.meter(ctx)
	if err != nil {
		return nil, err
	}
	r.note(before, after)
	if w.logged {
		r.claims, err = w.lab.StatementTimes(before.log, "for update skip locked", "from queue")
	}
	return r, err
}

// publish runs the phase's loads and its action during until they end.
func (w *environment) publish(ctx context.Context, r *reading) error {
	key, err := w.nodes[0].Key()
	if err != nil {
		return err
	}
	var targets []string
	for _, node := range w.nodes {
		targets = append(targets, node.Address())
	}
	r.began = time.Now()
	stats, errs := make([]lab.LoadStats, len(r.phase.loads)), make([]error, len(r.phase.loads)+1)
	end := make(chan struct{})
	var running sync.WaitGroup
	for i, ld := range r.phase.loads {
		g := w.group(ld.class)
		running.Go(func() {
			pause(ctx, ld.after)
			stats[i], errs[i] = w.lab.RunLoad(ctx, lab.Load{
				Targets: targets, Key: key, Account: account, Accounts: g.accounts, Prefix: ld.class, Types: g.types(), Size: dataSize,
				Connections: ld.connections, Rate: ld.rate + ld.ofRaw*w.raw.std.Rate(), Count: ld.count,
				Duration: r.phase.lasts - ld.after, Keyed: ld.keyed, Batch: ld.batch, End: end,
			})
		})
	}
	if r.phase.during != nil {
		errs[len(stats)] = r.phase.during(ctx, w, r)
	}
	if r.phase.ends {
		pause(ctx, time.Until(r.began.Add(shortest)))
		close(end)
	}
	running.Wait()
	for i, ld := range r.phase.loads {
		r.loads[ld.class] = stats[i]
		r.used.load.CPU += stats[i].Usage.CPU
	}
	return errors.Join(append(errs, w.sink.Mark(ctx))...)
}

// collect waits until the accepted events have arrived at the sink, and reads the numbers of the
// sink.
func (w *environment) collect(ctx context.Context, r *reading) error {
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, ld := range r.phase.loads {
		want := r.loads[ld.class].Accepted * w.group(ld.class).matches()
		if slices.Contains(r.phase.ignored, ld.class) {
			continue
		}
		have, err := w.arrivals(waiting, ld.class, want)
		if err != nil {
			return err
		}
		r.missing += max(0, want-have)
	}
	for _, g := range w.groups {
		stats, err := w.sink.Stats(ctx, g.class)
		if err != nil {
			return err
		}
		r.sinks[g.class] = stats
		switch waited := !slices.Contains(r.phase.ignored, g.class); {
		case waited && w.distinct:
			r.surplus += stats.Count - stats.Distinct
		case waited:
			r.surplus += max(0, stats.Count-r.loads[g.class].Accepted*g.matches())
		}
	}
	return nil
}

// arrivals waits until want events of a class have arrived or ctx ends. It returns how many have
// arrived.
func (w *environment) arrivals(ctx context.Context, class string, want int64) (int64, error) {
	var have int64
	for ctx.Err() == nil {
		stats, err := w.sink.Count(ctx, class)
		if err != nil && ctx.Err() == nil {
			return have, err
		}
		if err == nil {
			have = stats.Count
		}
		if w.distinct && err == nil {
			have = stats.Distinct
		}
		if have >= want {
			break
		}
		pause(ctx, 50*time.Millisecond)
	}
	return have, nil
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
