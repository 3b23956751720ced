package dispatch

import (
	"context"
	"runtime/metrics"
	"time"
)

// watchLoad tells the loop, four times a second, whether this process waits
// for processors: then a backlog is the node's fault.
func (d *Dispatcher) watchLoad(ctx context.Context) {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	var l schedLatencies
	was := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if is := l.saturated(); is != was {
			d.post(load{is})
			was = is
		}
	}
}

// schedLatencies is how long goroutines waited to run, as a histogram that the
// runtime keeps.
type schedLatencies struct {
	before []uint64
}

// saturated reports whether one in ten goroutines waited for over a
// millisecond to run, since the last call.
func (l *schedLatencies) saturated() bool {
	sample := []metrics.Sample{{Name: "/sched/latencies:seconds"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindFloat64Histogram {
		return false
	}
	now := sample[0].Value.Float64Histogram()
	var all, late uint64
	for i, n := range now.Counts {
		if l.before != nil {
			n -= l.before[i]
		}
		all += n
		if now.Buckets[i] >= 0.001 {
			late += n
		}
	}
	l.before = now.Counts
	return late*10 > all
}
