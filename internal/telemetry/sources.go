package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider/internal/observe"
)

// sources has the metrics of the outboxes that this node reads. A store has at most store.MaxSources.
type sources struct {
	rows   *prometheus.CounterVec
	cycles *prometheus.HistogramVec

	failing, waiting, rejected, missing, lag, open *prometheus.GaugeVec
}

func newSources(f factory) sources {
	return sources{
		rows:     f.counters("source_rows_total", "Rows that were read from the outbox of a producer.", "source", "result"),
		cycles:   f.histograms("source_cycle_seconds", "Time to read and publish a page of rows.", callBuckets, "source"),
		failing:  f.gauges("source_failing", "1: the outbox of a producer is not read.", "source"),
		waiting:  f.gauges("source_waiting_rows", "Rows that wait in the outbox of a producer; an estimate above 10,000.", "source"),
		rejected: f.gauges("source_rejected_rows", "Rows that were rejected and wait for a person.", "source"),
		missing: f.gauges("source_missing_events",
			"Events that may be missing after the last restore of the store, because their rows were kept no longer.", "source"),
		lag:  f.gauges("source_lag_seconds", "Age of the oldest row that waits in the outbox of a producer; 0: none waits.", "source"),
		open: f.gauges("source_open_transaction_seconds", "Age of the oldest open transaction of a producer's database.", "source"),
	}
}

func (s *sources) read(r observe.SourceRead) {
	for result, n := range map[string]int{
		"published": r.Rows - r.Duplicates, "duplicate": r.Duplicates, "rejected": r.Rejected,
	} {
		s.rows.WithLabelValues(r.Source, result).Add(float64(n))
	}
	s.cycles.WithLabelValues(r.Source).Observe(r.Took.Seconds())
}

// noted shows the state of a source, from the node that reads it alone.
func (s *sources) noted(n observe.SourceNoted) {
	if n.Ended {
		for _, gauge := range []*prometheus.GaugeVec{s.failing, s.waiting, s.rejected, s.missing, s.lag, s.open} {
			gauge.DeleteLabelValues(n.Source)
		}
		return
	}
	failing := 0.
	if n.State.Error != "" {
		failing = 1
	}
	s.failing.WithLabelValues(n.Source).Set(failing)
	s.waiting.WithLabelValues(n.Source).Set(float64(n.State.Waiting))
	s.rejected.WithLabelValues(n.Source).Set(float64(n.State.Rejected))
	s.missing.WithLabelValues(n.Source).Set(float64(n.State.Missing))
	s.lag.WithLabelValues(n.Source).Set(ageOf(n.State.Oldest, n.State.At))
	s.open.WithLabelValues(n.Source).Set(ageOf(n.State.OpenSince, n.State.At))
}

// ageOf returns how many seconds before now a time was; 0 for no time, and for one of a clock that is ahead.
func ageOf(at, now time.Time) float64 {
	if at.IsZero() {
		return 0
	}
	return max(0, now.Sub(at).Seconds())
}
