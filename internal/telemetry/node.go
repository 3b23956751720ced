package telemetry

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/store"
)

// endpoints has the metrics of endpoints, their circuits and their health.
type endpoints struct {
	open, together prometheus.Gauge
	circuitChanges *prometheus.CounterVec
	healthChanges  *prometheus.CounterVec

	health map[postrider.HealthStatus]prometheus.Gauge
	known  *known
}

// known has the numbers from which the gauge of endpoints is computed. Two goroutines write them.
type known struct {
	mu        sync.Mutex
	all       int
	unhealthy observe.HealthCounts
}

func newEndpoints(f factory) endpoints {
	return endpoints{
		open: f.gauge("circuits_open", "Endpoints of this server whose circuit is not closed, without those that have nothing to be probed with."),
		together: f.gauge("circuits_opened_together",
			"The most circuits that opened within one hour of each other, of those that are not closed."),
		circuitChanges: f.counters("circuit_changes_total", "Circuits that this server opened, probed or closed.", "status"),
		healthChanges:  f.counters("health_changes_total", "Endpoints whose health changed.", "health"),
		health: children([]postrider.HealthStatus{postrider.Healthy, postrider.HealthWarned, postrider.HealthDisabled},
			f.gauges("endpoints", "Endpoints of all servers by health.", "health").WithLabelValues),
		known: &known{},
	}
}

func (e *endpoints) circuitChanged(c postrider.Circuit) {
	status := c.Status
	if c.Closed() {
		status = postrider.CircuitClosed
	}
	e.circuitChanges.WithLabelValues(string(status)).Inc()
}

func (e *endpoints) healthChanged(h postrider.EndpointHealth) {
	e.healthChanges.WithLabelValues(string(h.Status)).Inc()
}

func (e *endpoints) total(n int) { e.update(func(k *known) { k.all = n }) }

func (e *endpoints) counted(h observe.HealthCounts) { e.update(func(k *known) { k.unhealthy = h }) }

// update changes the numbers and sets the gauges.
func (e *endpoints) update(change func(*known)) {
	k := e.known
	k.mu.Lock()
	defer k.mu.Unlock()
	change(k)
	e.health[postrider.HealthWarned].Set(float64(k.unhealthy.Warned))
	e.health[postrider.HealthDisabled].Set(float64(k.unhealthy.Disabled))
	e.health[postrider.Healthy].Set(float64(max(k.all-k.unhealthy.Warned-k.unhealthy.Disabled, 0)))
}

// node has the metrics of this server itself: its membership, its loop, its calls of the store and
// its chores.
type node struct {
	nodes, shards  prometheus.Gauge
	ready, clock   prometheus.Gauge
	wakeUps        *prometheus.CounterVec
	lag, disk      prometheus.Gauge
	loopLag        prometheus.Histogram
	claims         prometheus.Counter
	calls          *prometheus.HistogramVec
	chores         *prometheus.CounterVec
	choreRows      *prometheus.CounterVec
	choreSuccess   *prometheus.GaugeVec
	choreTakes     *prometheus.GaugeVec
	choreRound     *prometheus.GaugeVec
	notices        *prometheus.CounterVec
	noticesWaiting prometheus.Gauge
	messages       *prometheus.CounterVec
	failing        *prometheus.GaugeVec
	backupSuccess  *prometheus.GaugeVec
	backupFailing  *prometheus.GaugeVec
	violated       *prometheus.CounterVec
}

// invariants are the values of the label of violated invariants. They are served from the start, so
// that the first violation is an increase.
var invariants = []string{"attempt_panicked", "attempt_not_settled", "request_panicked"}

func newNode(f factory) node {
	n := node{
		nodes:          f.gauge("nodes", "Servers that live, as this one sees it."),
		shards:         f.gauge("shards_owned", "Shards that this server owns."),
		ready:          f.gauge("ready", "1: /readyz says that the server is ready."),
		clock:          f.gauge("clock_offset_seconds", "How far the clock of the store is ahead of this machine's."),
		wakeUps:        f.counters("wake_ups_total", "Messages between servers.", "verb", "direction"),
		lag:            f.gauge("lag_seconds", "How long this server needs for the due deliveries that it could send now."),
		disk:           f.gauge("disk_used_ratio", "Part of the disk of the SQLite store that is in use."),
		loopLag:        f.histogram("loop_lag_seconds", "How long the dispatcher's loop takes to reach an input.", callBuckets),
		claims:         f.counter("deliveries_claimed_total", "Deliveries that were leased from the queue."),
		calls:          f.histograms("store_call_seconds", "Time of a call of the store.", callBuckets, "verb", "result"),
		chores:         f.counters("chore_runs_total", "Rounds of chores.", "chore", "result"),
		choreRows:      f.counters("chore_rows_total", "Rows that a chore changed.", "chore"),
		notices:        f.counters("notices_total", "Notices that this server wrote.", "kind"),
		noticesWaiting: f.gauge("notices_waiting", "Notices whose operational events are not published yet, at most 100."),
		messages:       f.counters("messages_total", "Messages to notice destinations by this server.", "channel", "result"),
		failing:        f.gauges("destinations_failing", "Notice destinations whose last message by this server was not sent.", "channel"),
		choreSuccess:   f.gauges("chore_last_success_timestamp_seconds", "When a round of a chore last succeeded.", "chore"),
		backupSuccess:  f.gauges("backup_last_success_timestamp_seconds", "When a backup of the store last succeeded; 0: never.", "kind"),
		backupFailing:  f.gauges("backup_failing", "1: the last backup of the store failed.", "kind"),
		choreTakes:     f.gauges("chore_round_seconds", "How long the present round of a chore has worked; 0: it rests.", "chore"),
		choreRound:     f.gauges("chore_round_rows", "Rows that the present round of a chore has changed; 0: it rests.", "chore"),
		violated:       f.counters("invariants_violated_total", "Things that happened and must not.", "invariant"),
	}
	children(invariants, n.violated.WithLabelValues)
	children(postrider.NoticeKinds, n.notices.WithLabelValues)
	children(postrider.Channels, n.failing.WithLabelValues)
	for _, channel := range postrider.Channels {
		for _, result := range []string{observe.MessageSent, observe.MessageFailed, observe.MessageRefused} {
			n.messages.WithLabelValues(string(channel), result)
		}
	}
	return n
}

func (n *node) membership(m observe.Membership) {
	n.nodes.Set(float64(m.Nodes))
	n.shards.Set(float64(m.Shards))
}

func (n *node) isReady(ready bool) {
	n.ready.Set(0)
	if ready {
		n.ready.Set(1)
	}
}

func (n *node) messageDone(m observe.MessageDone) {
	n.messages.WithLabelValues(string(m.Channel), m.Result).Inc()
	n.failing.WithLabelValues(string(m.Channel)).Set(float64(m.Failing))
}

func (n *node) backup(b observe.Backup) {
	succeeded, failing := 0., 0.
	if !b.SucceededAt.IsZero() {
		succeeded = float64(b.SucceededAt.UnixMilli()) / 1000
	}
	if b.Failing {
		failing = 1
	}
	n.backupSuccess.WithLabelValues(b.Kind).Set(succeeded)
	n.backupFailing.WithLabelValues(b.Kind).Set(failing)
}

func (n *node) wokenUp(w observe.WakeUp) {
	direction := "received"
	switch {
	case w.Err != nil:
		direction = "not_sent"
	case w.Sent:
		direction = "sent"
	}
	n.wakeUps.WithLabelValues(w.Verb, direction).Inc()
}

func (n *node) claimed(c observe.Claimed) { n.claims.Add(float64(c.Got)) }

func (n *node) choreDone(c observe.ChoreDone) {
	chore, result := choreLabel(c), resultOK
	if c.Err != nil {
		result = resultError
	} else {
		n.choreSuccess.WithLabelValues(chore).Set(float64(time.Now().UnixMilli()) / 1000)
	}
	// This series is served from the first round on, so that the first failure is an increase.
	n.chores.WithLabelValues(chore, resultError)
	n.chores.WithLabelValues(chore, result).Inc()
	n.choreRows.WithLabelValues(chore).Add(float64(c.Rows))
	n.choreTakes.WithLabelValues(chore).Set(0)
	n.choreRound.WithLabelValues(chore).Set(0)
}

// choreWorks shows a round that is still running: to delete a million rows takes minutes.
func (n *node) choreWorks(c observe.ChoreDone) {
	n.choreTakes.WithLabelValues(choreLabel(c)).Set(c.Took.Seconds())
	n.choreRound.WithLabelValues(choreLabel(c)).Set(float64(c.Rows))
}

func choreLabel(c observe.ChoreDone) string { return strings.ReplaceAll(c.Name, " ", "_") }

func (n *node) storeCalled(c observe.StoreCall) {
	n.calls.WithLabelValues(c.Verb, resultOf(c.Err)).Observe(c.Took.Seconds())
}

// The results of calls of the store.
const (
	resultOK        = "ok"
	resultRefused   = "refused"   // by a rule: the request contradicts the stored rows
	resultBusy      = "busy"      // the store is away, full or too slow
	resultCancelled = "cancelled" // the caller gave up
	resultError     = "error"
)

// resultOf returns the result of a call of the store.
func resultOf(err error) string {
	is := func(targets ...error) bool {
		for _, target := range targets {
			if errors.Is(err, target) {
				return true
			}
		}
		return false
	}
	switch {
	case err == nil:
		return resultOK
	case is(postrider.ErrBusy, context.DeadlineExceeded):
		return resultBusy
	case is(context.Canceled):
		return resultCancelled
	case is(store.ErrMoved, postrider.ErrNotFound, postrider.ErrInvalid, postrider.ErrConflict, postrider.ErrFenced, postrider.ErrGone):
		return resultRefused
	}
	return resultError
}
