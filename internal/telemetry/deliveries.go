package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/observe"
)

// numbers are the values of the label "number" of an attempt.
var numbers = [...]string{"1", "2", "3", "4", "5+"}

// deliveries has the metrics of attempts, and of the ends of deliveries.
type deliveries struct {
	attempts    map[postrider.Outcome]*[len(numbers)]prometheus.Counter
	lost        prometheus.Counter
	stale       prometheus.Counter
	postponed   map[postrider.Failure]prometheus.Counter
	byStatus    map[postrider.Status]prometheus.Counter
	skipped     map[string]prometheus.Counter // by reason
	deadLetters *prometheus.CounterVec
	unresolved  prometheus.Gauge
	response    prometheus.Histogram
	latency     prometheus.Histogram
	phases      [len(phaseNames)]prometheus.Observer
	connections map[string]prometheus.Counter
}

// phaseNames are the values of the label "phase", in the order in which requested observes them.
var phaseNames = [...]string{"dns", "connect", "tls", "first_byte"}

func newDeliveries(f factory) deliveries {
	attempts := f.counters("attempts_total", "Attempts by outcome and by their number in the delivery.", "outcome", "number")
	phases := f.histograms("egress_phase_seconds", "Time of a phase of a request to a receiver.", requestBuckets, "phase")
	d := deliveries{
		attempts: map[postrider.Outcome]*[len(numbers)]prometheus.Counter{},
		lost:     f.counter("attempts_lost_total", "Attempts whose server died before it recorded them."),
		stale:    f.counter("settlements_stale_total", "Attempts that ended after another server had taken their delivery over."),
		postponed: children(postrider.ServerFailures,
			f.counters("attempts_postponed_total", "Attempts that were not made, because this server lacks something.", "failure").WithLabelValues),
		byStatus: children([]postrider.Status{postrider.Delivered, postrider.Dead, postrider.Cancelled, postrider.Skipped},
			f.counters("deliveries_total", "Deliveries that ended, by their final status.", "status").WithLabelValues),
		skipped: children([]string{postrider.ReasonEndpointDisabled, postrider.ReasonEndpointDeleted, postrider.ReasonBacklogFull},
			f.counters("deliveries_skipped_total", "Deliveries that were skipped, by reason.", "reason").WithLabelValues),
		deadLetters: f.counters("dead_letters_total", "Dead letters by reason.", "reason"),
		unresolved:  f.gauge("dead_letters_unresolved", "Dead letters that nobody has replayed or discarded."),
		response:    f.histogram("response_seconds", "Time of attempts that got a response.", requestBuckets),
		latency:     f.histogram("delivery_seconds", "Time from the creation of a delivery to its delivery.", deliveryBuckets),
		connections: children([]string{"new", "reused"}, f.counters("egress_requests_total",
			"Requests by whether their connection was open already.", "connection").WithLabelValues),
	}
	// These series are served from the start. For a series whose first sample is 500, increase() is
	// 0: Prometheus would not see the first dead letters after a start.
	children(postrider.DeadReasons, d.deadLetters.WithLabelValues)
	for _, outcome := range postrider.Outcomes {
		if outcome == postrider.OutcomeNone || outcome == postrider.OutcomeLost {
			continue // no request was made, or AttemptsLost counts it
		}
		d.attempts[outcome] = &[len(numbers)]prometheus.Counter{}
		for i, number := range numbers {
			d.attempts[outcome][i] = attempts.WithLabelValues(string(outcome), number)
		}
	}
	for i, phase := range phaseNames {
		d.phases[i] = phases.WithLabelValues(phase)
	}
	return d
}

// settled counts an attempt and the end of its delivery. For a stale attempt it counts only that
// the attempt is stale, since the attempt was counted as lost before.
func (m *Metrics) settled(s observe.Settled) {
	d, a := &m.deliveries, &s.Attempt
	if s.Stale {
		d.stale.Inc()
		return
	}
	if counters := d.attempts[a.Outcome]; counters != nil {
		counters[min(max(a.Number, 1), len(numbers))-1].Inc()
		d.requested(a)
		if m.worst != nil && a.Outcome != postrider.OutcomeAccepted {
			m.worst.failed(s.Delivery.Endpoint, time.Now())
		}
	}
	if s.Transition.To == postrider.Delivered {
		d.latency.Observe(a.StartedAt.Add(a.Duration).Sub(s.Delivery.ID.Time()).Seconds())
	}
	if s.Transition.To != postrider.Pending {
		d.ended(s.Transition.To, s.Transition.Reason, 1)
	}
}

// postpone counts an attempt that was not made.
func (d *deliveries) postpone(why postrider.Failure) {
	if c := d.postponed[why]; c != nil {
		c.Inc()
	}
}

// requested counts the request of an attempt.
func (d *deliveries) requested(a *postrider.Attempt) {
	if a.StatusCode != 0 {
		d.response.Observe(a.Duration.Seconds())
	}
	t := &a.Timing
	for i, took := range [len(phaseNames)]time.Duration{t.DNS, t.Connect, t.TLS, t.FirstByte} {
		if took > 0 {
			d.phases[i].Observe(took.Seconds())
		}
	}
	switch {
	case t.Reused:
		d.connections["reused"].Inc()
	case t.Connect > 0:
		d.connections["new"].Inc()
	}
}

// skip counts deliveries that were skipped for a reason.
func (d *deliveries) skip(reason string, n int) {
	if n > 0 {
		d.skipped[reason].Add(float64(n))
		d.ended(postrider.Skipped, reason, n)
	}
}

// ended counts deliveries that ended.
func (d *deliveries) ended(status postrider.Status, reason string, n int) {
	if c := d.byStatus[status]; c != nil {
		c.Add(float64(n))
	}
	if status == postrider.Dead {
		d.deadLetters.WithLabelValues(reason).Add(float64(n))
	}
}
