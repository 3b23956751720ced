package dispatch

import (
	"context"
	"runtime/metrics"
	"time"

	"github.com/postrider/postrider/internal/schedule"
)

// watchLoad measures four times a second how long goroutines wait for a processor. It posts a
// change of the load to the loop, which adjusts the bulk rate and back-pressure. It also reports
// the lag to observers.
func (d *Dispatcher) watchLoad(ctx context.Context) {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	var l schedLatencies
	var was schedule.Load
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		d.opts.Hooks.Lag.Call(d.Lag())
		d.measureLoop(ctx)
		if is := l.read(); is != was {
			d.post(is)
			was = is
		}
	}
}

// measureLoop measures how long the loop takes to reach an input: the time for the inputs before
// it, and for a decision that is under way.
func (d *Dispatcher) measureLoop(ctx context.Context) {
	if d.opts.Hooks.LoopLag == nil {
		return
	}
	asked := time.Now()
	reached := make(chan struct{}, 1)
	if !d.postOwn(loopAsked{reached}) {
		return
	}
	select {
	case <-reached:
		d.opts.Hooks.LoopLag.Call(time.Since(asked))
	case <-d.done:
	case <-ctx.Done():
	}
}

// schedLatencies reads the runtime's histogram of how long goroutines waited to run.
//
// The load is measured by that wait and not by how busy the processors are. A machine at 100 % on
// which no goroutine waits is well used. A machine that shares its processors with other programs
// can be full at 50 %.
type schedLatencies struct {
	before []uint64 // the counts of the last read; nil: there was none
}

// read returns the load since the last call, from the goroutines that became ready in that time:
// how many of them waited for more than 0.1 ms (crowded) and for more than 1 ms (saturated).
func (l *schedLatencies) read() schedule.Load {
	sample := []metrics.Sample{{Name: "/sched/latencies:seconds"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindFloat64Histogram {
		return schedule.Load{}
	}
	now := sample[0].Value.Float64Histogram()
	var all, crowded, saturated uint64
	for i, n := range now.Counts {
		if l.before != nil {
			n -= l.before[i]
		}
		all += n
		if now.Buckets[i] >= 0.0001 {
			crowded += n
		}
		if now.Buckets[i] >= 0.001 {
			saturated += n
		}
	}
	l.before = now.Counts
	return schedule.Load{Saturated: saturated*10 > all, Crowded: crowded*16 > all}
}
