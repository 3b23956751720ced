package telemetry

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider"
)

const (
	// worstSpan is the length of a span. Failed attempts count for the present span and the one
	// before, so for one to two spans.
	worstSpan = 5 * time.Minute
	// maxFailing is how many failing endpoints a span remembers; about 1 MB.
	maxFailing = 10_000
)

// worst names the endpoints with the most failed attempts of the last minutes. It is a collector,
// because its labels change from scrape to scrape: an endpoint that is no longer among the worst
// has no series.
type worst struct {
	most int
	desc *prometheus.Desc

	mu          sync.Mutex
	now, before map[postrider.EndpointID]int // failed attempts of this span, and of the span before
	began       time.Time                    // when this span began
}

func newWorst(most int) *worst {
	return &worst{
		most: most, now: map[postrider.EndpointID]int{}, before: map[postrider.EndpointID]int{},
		desc: prometheus.NewDesc(prefix+"worst_endpoint_failures", "Failed attempts of the last 5 to 10 minutes, of the endpoints with the most.",
			[]string{"endpoint"}, nil),
	}
}

// failed counts a failed attempt. Once a span has maxFailing endpoints, it counts no further
// endpoints.
func (w *worst) failed(id postrider.EndpointID, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turn(at)
	if n, known := w.now[id]; known || len(w.now) < maxFailing {
		w.now[id] = n + 1
	}
}

// turn begins a new span if this one is over. The caller holds mu.
func (w *worst) turn(at time.Time) {
	switch past := at.Sub(w.began); {
	case past >= 2*worstSpan:
		w.now, w.before, w.began = map[postrider.EndpointID]int{}, map[postrider.EndpointID]int{}, at
	case past >= worstSpan:
		w.now, w.before, w.began = map[postrider.EndpointID]int{}, w.now, at
	}
}

// Describe implements [prometheus.Collector].
func (w *worst) Describe(to chan<- *prometheus.Desc) { to <- w.desc }

// Collect implements [prometheus.Collector].
func (w *worst) Collect(to chan<- prometheus.Metric) {
	for _, e := range w.list(time.Now()) {
		to <- prometheus.MustNewConstMetric(w.desc, prometheus.GaugeValue, float64(e.failures), e.id.String())
	}
}

// failing is an endpoint with its failed attempts.
type failing struct {
	id       postrider.EndpointID
	failures int
}

// list returns the worst endpoints, the worst first. Of equal ones the lower id comes first, so
// that scrapes agree.
func (w *worst) list(at time.Time) []failing {
	w.mu.Lock()
	w.turn(at)
	all := make([]failing, 0, len(w.now)+len(w.before))
	for id, n := range w.now {
		all = append(all, failing{id, n + w.before[id]})
	}
	for id, n := range w.before {
		if _, counted := w.now[id]; !counted {
			all = append(all, failing{id, n})
		}
	}
	w.mu.Unlock()
	slices.SortFunc(all, func(a, b failing) int {
		return cmp.Or(cmp.Compare(b.failures, a.failures), a.id.Compare(b.id))
	})
	return all[:min(len(all), w.most)]
}
