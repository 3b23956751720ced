package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/observe"
)

// queue has the metrics of the deliveries that wait for the endpoints of this node.
type queue struct {
	waiting, laneAge map[postrider.Lane]prometheus.Gauge   // by lane
	due, heldAge     map[postrider.HeldBy]prometheus.Gauge // by what holds the endpoint
	p99              prometheus.Gauge
	partial          prometheus.Gauge
	measured         prometheus.Gauge
}

func newQueue(f factory) queue {
	q := queue{
		waiting: children(postrider.Lanes, f.gauges("queue_deliveries", "Deliveries that wait, are due or are leased, by lane.",
			"lane").WithLabelValues),
		laneAge: children(postrider.Lanes, f.gauges("queue_oldest_due_seconds", "How long the oldest due delivery of a lane has been due.",
			"lane").WithLabelValues),
		due: children(postrider.HeldByAll, f.gauges("due_deliveries", "Due deliveries by what holds them.", "held_by").WithLabelValues),
		heldAge: children(postrider.HeldByAll, f.gauges("due_oldest_seconds", "How long the oldest of them has been due.",
			"held_by").WithLabelValues),
		p99: f.gauge("due_p99_seconds",
			"99th percentile of how long the due deliveries that nothing of their own endpoint holds have been due."),
		partial:  f.gauge("queue_partial", "1: more lanes have work than were read."),
		measured: f.gauge("queue_measured_timestamp_seconds", "When the queue was measured last; before that, when the server started."),
	}
	// A server that has just started must not look like one that cannot measure.
	q.measured.SetToCurrentTime()
	return q
}

// queueMeasured sets all gauges. A lane without work is not in q, so its gauges become 0.
func (m *Metrics) queueMeasured(q observe.Queue) {
	waiting, laneAge := map[postrider.Lane]int{}, map[postrider.Lane]float64{}
	due, heldAge := map[postrider.HeldBy]int{}, map[postrider.HeldBy]float64{}
	var free []ages
	for _, l := range q.Lanes {
		oldest := l.Oldest.Seconds()
		waiting[l.Lane] += l.Waiting
		laneAge[l.Lane] = max(laneAge[l.Lane], oldest)
		due[l.HeldBy] += l.Due
		heldAge[l.HeldBy] = max(heldAge[l.HeldBy], oldest)
		if l.HeldBy == postrider.HeldByNothing && l.Due > 0 {
			free = append(free, ages{n: float64(l.Due), newest: l.Newest.Seconds(), oldest: oldest})
		}
	}
	for lane, gauge := range m.queue.waiting {
		gauge.Set(float64(waiting[lane]))
		m.queue.laneAge[lane].Set(laneAge[lane])
	}
	for hold, gauge := range m.queue.due {
		gauge.Set(float64(due[hold]))
		m.queue.heldAge[hold].Set(heldAge[hold])
	}
	m.queue.p99.Set(quantile(free, 0.99))
	m.queue.partial.Set(0)
	if q.Partial {
		m.queue.partial.Set(1)
	}
	m.queue.measured.SetToCurrentTime()
	m.endpoints.open.Set(float64(q.OpenCircuits))
	m.endpoints.together.Set(float64(q.OpenedTogether))
}

// ages has the number and the age range, in seconds, of the due deliveries of one lane.
type ages struct{ n, newest, oldest float64 }

// above returns how many deliveries are older than x, if the ages are spread evenly.
func (a ages) above(x float64) float64 {
	switch {
	case x >= a.oldest:
		return 0
	case x < a.newest:
		return a.n
	}
	return a.n * (a.oldest - x) / (a.oldest - a.newest)
}

// quantile returns the age that the share q of all deliveries does not exceed. Its error is at most
// a hundredth of a per cent of the oldest age. Without deliveries it returns 0.
func quantile(all []ages, q float64) float64 {
	var n, high float64
	for _, a := range all {
		n, high = n+a.n, max(high, a.oldest)
	}
	low, step := 0.0, high/10_000
	for high-low > step {
		middle := (low + high) / 2
		var above float64
		for _, a := range all {
			above += a.above(middle)
		}
		if above > (1-q)*n {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}
