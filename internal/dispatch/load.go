package dispatch

import (
	"context"
	"runtime/metrics"
	"time"

	"github.com/postrider/postrider/internal/schedule"
)

// watchLoad tells the loop, four times a second, how long this process waits
// for processors, and observers how far it lags.
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
		if is := l.read(); is != was {
			d.post(is)
			was = is
		}
	}
}

// The load is taken from how long goroutines wait for a processor and not from
// how busy the processors are: a machine at 100 % that lets nobody wait is well
// used, and one whose processors are shared with others can be full at 50 %.

// schedLatencies is how long goroutines waited to run, as a histogram that the
// runtime keeps.
type schedLatencies struct {
	before []uint64
}

// read returns how goroutines fared since the last call.
func (l *schedLatencies) read() schedule.Load {
	sample := []metrics.Sample{{Name: "/sched/latencies:seconds"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindFloat64Histogram {
		return schedule.Load{}
	}
	now := sample[0].Value.Float64Histogram()
	var all, slow, late uint64
	for i, n := range now.Counts {
		if l.before != nil {
			n -= l.before[i]
		}
		all += n
		if now.Buckets[i] >= 0.0001 {
			slow += n
		}
		if now.Buckets[i] >= 0.001 {
			late += n
		}
	}
	l.before = now.Counts
	return schedule.Load{Saturated: late*10 > all, Crowded: slow*16 > all}
}
