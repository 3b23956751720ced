// Package telemetry counts for Prometheus what the engine does.
//
//	m := telemetry.New(telemetry.Options{Version: version, Log: log})
//	observer := observe.New(observe.Join(m.Hooks(), …), log)
//	mux.Handle("GET /metrics", m.Handler())
//	err := m.Run(ctx, store, table.Len)
//
// It promises:
//
//   - It only observes: without it the engine works the same.
//   - A scrape reads only the memory of this node. Run reads the numbers that only
//     the store has every 15 s, by a query that stops counting at a bound.
//   - Several scrapes at once share one gathering.
//   - The number of series does not depend on how many endpoints, accounts and event
//     types there are. Options.Worst adds one series for each endpoint that it names.
//   - A hook allocates nothing for an attempt. It takes no lock that an attempt waits
//     for, except the lock of the worst endpoints. Series with known labels are made
//     at the start.
//
// The names, types, labels and meanings of metrics are an API. docs/operate/metrics.md lists them,
// and a test compares that page with the served metrics.
package telemetry

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/store"
)

// Options tunes a [Metrics].
type Options struct {
	Version    string       // version of the program
	Worst      int          // how many endpoints are named by their ids; 0: none
	HookPanics func() int64 // how many hooks panicked; default: none
	// Spans returns how many spans were sent and dropped by package traces. Default: none.
	Spans func() (sent, dropped int64)
	Log   *slog.Logger // default: discard
}

// Metrics are the metrics of one server. Its hooks may be called from any goroutine.
type Metrics struct {
	log      *slog.Logger
	registry *prometheus.Registry

	ingest     ingest
	deliveries deliveries
	queue      queue
	endpoints  endpoints
	node       node
	sources    sources
	worst      *worst // nil: no endpoint is named
}

// New returns metrics whose counters are 0.
func New(opts Options) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), log: cmp.Or(opts.Log, slog.New(slog.DiscardHandler))}
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	f := factory{promauto.With(m.registry)}
	m.ingest = newIngest(f)
	m.deliveries = newDeliveries(f)
	m.queue = newQueue(f)
	m.endpoints = newEndpoints(f)
	m.node = newNode(f)
	m.sources = newSources(f)
	f.gauges("build_info", "The build of this server; always 1.", "version", "goversion").WithLabelValues(opts.Version,
		runtime.Version()).Set(1)
	f.NewCounterFunc(prometheus.CounterOpts{Name: prefix + "hook_panics_total", Help: "Panics of observers, which cost no delivery."},
		func() float64 {
			if opts.HookPanics == nil {
				return 0
			}
			return float64(opts.HookPanics())
		})
	if opts.Spans == nil {
		opts.Spans = func() (sent, dropped int64) { return 0, 0 }
	}
	f.spans("trace_spans_sent_total", "Spans that the collector of traces accepted.", func() int64 { sent, _ := opts.Spans(); return sent })
	f.spans("trace_spans_dropped_total", "Spans that were dropped, because the collector of traces was away, slow or refused them.",
		func() int64 { _, dropped := opts.Spans(); return dropped })
	if opts.Worst > 0 {
		m.worst = newWorst(opts.Worst)
		m.registry.MustRegister(m.worst)
	}
	return m
}

// Hooks returns the hooks by which m counts.
func (m *Metrics) Hooks() observe.Hooks {
	return observe.Hooks{
		Accepted:       m.ingest.accepted,
		Committed:      m.committed,
		Responded:      m.ingest.responded,
		Handed:         m.ingest.handed,
		ReadRefused:    func(postrider.AccountID) { m.ingest.readsRefused.Inc() },
		Claimed:        m.node.claimed,
		Postponed:      m.deliveries.postpone,
		Settled:        m.settled,
		AttemptsLost:   func(n int) { m.deliveries.lost.Add(float64(n)) },
		Ended:          func(e observe.Ended) { m.deliveries.ended(e.Status, e.Reason, e.N) },
		Queue:          m.queueMeasured,
		CircuitChanged: m.endpoints.circuitChanged,
		HealthChanged:  m.endpoints.healthChanged,
		HealthCounted:  m.endpoints.counted,
		Lag:            func(lag time.Duration) { m.node.lag.Set(lag.Seconds()) },
		LoopLag:        func(lag time.Duration) { m.node.loopLag.Observe(lag.Seconds()) },
		Membership:     m.node.membership,
		WokenUp:        m.node.wokenUp,
		ChoreDone:      m.node.choreDone,
		ChoreWorks:     m.node.choreWorks,
		Noticed:        func(n postrider.Notice) { m.node.notices.WithLabelValues(string(n.Kind)).Inc() },
		NoticesWaiting: func(n int) { m.node.noticesWaiting.Set(float64(n)) },
		StoreCalled:    m.node.storeCalled,
		Disk:           func(used float64) { m.node.disk.Set(used) },
		Ready:          m.node.isReady,
		ClockOffset:    func(offset time.Duration) { m.node.clock.Set(offset.Seconds()) },
		MessageDone:    m.node.messageDone,
		Backup:         m.node.backup,
		SourceRead:     m.sources.read,
		SourceNoted:    m.sources.noted,
		Violated:       func(invariant string) { m.node.violated.WithLabelValues(invariant).Inc() },
	}
}

// Handler serves the metrics in the format that the scraper asks for. Native histograms need
// protobuf; every format has the classic buckets.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorLog:       slog.NewLogLogger(m.log.Handler(), slog.LevelError),
		ErrorHandling:  promhttp.ContinueOnError,
		CoalesceGather: true,
	})
}

// Backlog is the part of the store that [Metrics.Run] needs.
type Backlog interface {
	// Backlog is the method of [store.Rollups].
	Backlog(ctx context.Context, q store.BacklogQuery) (store.Backlog, error)
}

// readEvery is the interval in which Run reads the numbers that only the store has.
const readEvery = 15 * time.Second

// Run reads how many dead letters are unresolved and how many endpoints there are, every 15 s until
// ctx ends. It always returns nil: after an error the last number stays.
func (m *Metrics) Run(ctx context.Context, s Backlog, endpoints func() int) error {
	for {
		m.endpoints.total(endpoints())
		backlog, err := s.Backlog(ctx, store.BacklogQuery{})
		switch {
		case err == nil:
			m.deliveries.unresolved.Set(float64(backlog.DeadLetters))
		case ctx.Err() == nil:
			m.log.WarnContext(ctx, "dead letters not counted", "error", err)
		}
		if !batch.Sleep(ctx, readEvery) {
			return nil
		}
	}
}

// prefix begins the name of every metric of this program.
const prefix = "postrider_"

// factory makes metrics, adds the prefix to their names and registers them.
type factory struct{ promauto.Factory }

func (f factory) spans(name, help string, count func() int64) {
	f.NewCounterFunc(prometheus.CounterOpts{Name: prefix + name, Help: help}, func() float64 { return float64(count()) })
}

func (f factory) counter(name, help string) prometheus.Counter {
	return f.NewCounter(prometheus.CounterOpts{Name: prefix + name, Help: help})
}

func (f factory) counters(name, help string, labels ...string) *prometheus.CounterVec {
	return f.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, labels)
}

func (f factory) gauge(name, help string) prometheus.Gauge {
	return f.NewGauge(prometheus.GaugeOpts{Name: prefix + name, Help: help})
}

func (f factory) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return f.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + name, Help: help}, labels)
}

func (f factory) histogram(name, help string, buckets []float64) prometheus.Histogram {
	return f.NewHistogram(histogramOf(name, help, buckets))
}

func (f factory) histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return f.NewHistogramVec(histogramOf(name, help, buckets), labels)
}

// histogramOf returns the options of a histogram with classic and native buckets. A native
// histogram has an error of at most 5 %. If it needs more than 160 buckets, it starts anew, at most
// once an hour; in between its buckets are merged.
func histogramOf(name, help string, buckets []float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: prefix + name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160, NativeHistogramMinResetDuration: time.Hour,
	}
}

// The classic buckets, in seconds: of calls within the program, of requests to receivers, and of
// deliveries, which may take days. eventBuckets counts events.
var (
	callBuckets     = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
	requestBuckets  = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 15, 30}
	deliveryBuckets = []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200, 28800, 86400}
	eventBuckets    = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000}
)

// children returns the child of each value of a vector's only label. So the children are served
// from the start and need no look-up.
func children[K ~string, M any](values []K, with func(...string) M) map[K]M {
	made := make(map[K]M, len(values))
	for _, v := range values {
		made[v] = with(string(v))
	}
	return made
}
