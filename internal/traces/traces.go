// Package traces sends spans of the steps of the engine to an OpenTelemetry collector, by OTLP over
// HTTP.
//
//	t := traces.New(traces.Options{URL: "http://collector:4318", Share: 0.01, Now: clock.Wall, Log: log})
//	observer := observe.New(observe.Join(t.Hooks(), …), log)
//	err := t.Run(ctx)
//
// All spans of an event belong to one trace. If the publish had the header traceparent, it is the
// producer's trace; otherwise it is a trace of the event's own ([postrider.Event.Trace]). The spans
// are
//
//	publish ─► commit ─┬─► fan-out chunk     (one for each chunk, if the event has a fan-out job)
//	                   └─► attempt ─► …      (each links to the one before it)
//
// It promises:
//
//   - It only observes: without it the engine works the same.
//   - The server's setting decides which share of the events is recorded; a producer
//     cannot change that. All nodes with the same share record the same events, with
//     all their spans.
//   - A hook never waits for the collector. The number of waiting spans is bounded;
//     further spans are dropped and counted ([Tracer.Counts]).
//   - A collector that does not respond costs one connection, and delays the end of
//     the server by at most lastWait.
//   - A span has no data, no header and no body. Of a URL it has only the scheme, host
//     and port: a path is often a secret.
//   - Attributes that are not Postrider's own have the names of the semantic conventions
//     of OpenTelemetry, version 1.43.0; a test compares the names.
//
// Read traces.go (which spans are recorded) first, then export.go (how they are sent).
package traces

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/egress"
	"github.com/postrider/postrider/internal/observe"
)

// Options says which spans are recorded and where they are sent.
type Options struct {
	URL     string            // URL of the collector; /v1/traces is added to its path
	Headers map[string]string // headers of each request to the collector, such as a token
	Share   float64           // share of the events that are recorded, 0 to 1
	Version string            // version of the program
	Node    string            // name of this server's machine

	// Target returns the URL of an endpoint; empty if it has none. Spans show its scheme, host and
	// port. Default: always empty.
	Target func(postrider.EndpointID) string

	Now func() time.Time // the store's time of day; default: this machine's
	Log *slog.Logger     // default: discard
}

// Tracer records spans of the events that are sampled. Its hooks may be called from any
// goroutine.
type Tracer struct {
	opts     Options
	url      string
	instance string             // identifies this process among all that send spans
	spans    *batch.Queue[span] // at most maxWaiting, plus one for each goroutine in add
	door     door

	sent, dropped atomic.Int64
}

// door sends requests to the collector, over connections that it keeps open.
type door interface {
	http.RoundTripper
	CloseIdleConnections()
}

// New returns a tracer; a nil one records nothing. Options.URL must be valid ([CheckURL]).
func New(opts Options) *Tracer {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Target == nil {
		opts.Target = func(postrider.EndpointID) string { return "" }
	}
	opts.Log = cmp.Or(opts.Log, slog.New(slog.DiscardHandler))
	t := &Tracer{opts: opts, spans: batch.NewQueue[span](), door: egress.OperatorTransport(), instance: newInstance()}
	if u, err := url.Parse(opts.URL); err == nil {
		t.url = u.JoinPath("v1", "traces").String()
	}
	return t
}

// newInstance returns a random UUID.
func newInstance() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // it never fails
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

// CheckURL reports whether the text can be the URL of a collector.
func CheckURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.User == nil && u.RawQuery == "" &&
		u.Fragment == ""
}

// Sampled reports whether the spans of an event are recorded.
func (t *Tracer) Sampled(id postrider.EventID) bool {
	return t != nil && postrider.Sampled(id, t.opts.Share)
}

// Counts returns how many spans the collector has accepted, and how many were dropped.
func (t *Tracer) Counts() (sent, dropped int64) {
	if t == nil {
		return 0, 0
	}
	return t.sent.Load(), t.dropped.Load()
}

// Hooks returns the hooks by which t records spans.
func (t *Tracer) Hooks() observe.Hooks {
	if t == nil {
		return observe.Hooks{}
	}
	return observe.Hooks{Accepted: t.accepted, Committed: t.committed, Settled: t.settled}
}

// maxWaiting is the most spans that wait for the collector: about 2 MB. If 1 % of 1,000 events a
// second are recorded, with one delivery each, it holds the spans of four and a half minutes.
const maxWaiting = 8192

// span is the record of one step. It has no pointer to an event, so that waiting spans keep no data
// of events in memory.
type span struct {
	kind   kind
	id     postrider.SpanID
	parent postrider.SpanID // zero: the first span of the trace
	link   postrider.SpanID // the attempt before; zero: none
	begun  time.Time
	took   time.Duration

	trace   postrider.TraceID
	state   string // the producer's tracestate
	event   postrider.EventID
	account postrider.AccountID
	of      string // event type

	// For a publish: deliveries counts the event's own. For a commit or a chunk: the events and
	// deliveries that it stored together.
	events, deliveries int

	route string // for a publish: path of the API's operation; empty: published without a request

	// The fields below are for an attempt.
	target     string // the endpoint's URL
	claimed    claimed
	attempt    outcome
	transition postrider.Transition
}

// claimed is the part of a [postrider.Claimed] that a span shows.
type claimed struct {
	id, replayedFrom postrider.DeliveryID
	endpoint         postrider.EndpointID
	lane             postrider.Lane
	number           int
}

// outcome is the part of a [postrider.Attempt] that a span shows.
type outcome struct {
	outcome postrider.Outcome
	status  int
	error   string
	timing  postrider.Timing
	stale   bool
}

// kind is the step that a span records.
type kind int

const (
	kindPublish kind = iota
	kindCommit
	kindChunk
	kindAttempt
)

// add queues a span for the collector, or drops it if too many spans wait.
func (t *Tracer) add(s span) {
	if t.spans.Len() >= maxWaiting || !t.spans.Add(s) {
		t.dropped.Add(1)
	}
}

// wall converts an instant of this machine's clock to the time of day of t.opts.Now.
func (t *Tracer) wall(at time.Time) time.Time { return t.opts.Now().Add(-time.Since(at)) }

// accepted records the publish and the commit of each sampled event. It leaves out duplicates,
// which were recorded when they were published first.
func (t *Tracer) accepted(a observe.Accepted) {
	for i := range a.Published {
		e := &a.Published[i]
		if a.Receipts[i].Duplicate || !t.Sampled(e.ID) {
			continue
		}
		publish := spanOf(e, kindPublish, postrider.PublishSpan(e.ID))
		publish.parent, publish.begun, publish.took = e.TraceParent.Span(), t.wall(a.Begun), a.Took
		publish.route = a.Route
		publish.events, publish.deliveries = a.Events, a.Receipts[i].Deliveries
		t.add(publish)
		commit := spanOf(e, kindCommit, postrider.CommitSpan(e.ID))
		commit.parent, commit.begun, commit.took = publish.id, t.wall(a.Commit.Begun), a.Commit.Took
		commit.events, commit.deliveries = a.Commit.Events, a.Commit.Deliveries
		t.add(commit)
	}
}

// committed records the chunks of fan-out jobs. accepted records the commits of publishes, because
// [observe.Accepted] has the events.
func (t *Tracer) committed(c observe.Committed) {
	if c.Chunk == nil || c.Err != nil || !t.Sampled(c.Chunk.Event.ID) {
		return
	}
	e := c.Chunk.Event
	s := spanOf(e, kindChunk, postrider.ChunkSpan(e.ID, c.Chunk.Behind))
	s.parent, s.begun, s.took, s.deliveries = postrider.CommitSpan(e.ID), t.wall(c.Begun), c.Took, c.Deliveries
	t.add(s)
}

// settled records an attempt. Its span links to the span of the attempt before. That attempt may
// have been days ago or lost; the link names it in any case.
func (t *Tracer) settled(settled observe.Settled) {
	c, a := &settled.Delivery, &settled.Attempt
	if !t.Sampled(c.Event.ID) || a.Outcome == postrider.OutcomeNone {
		return
	}
	s := spanOf(c.Event, kindAttempt, postrider.AttemptSpan(c.ID, c.Attempt))
	s.parent, s.begun, s.took = postrider.CommitSpan(c.Event.ID), a.StartedAt, a.Duration
	if c.Attempt > 1 {
		s.link = postrider.AttemptSpan(c.ID, c.Attempt-1)
	}
	s.target = t.opts.Target(c.Endpoint)
	s.claimed = claimed{c.ID, c.ReplayedFrom, c.Endpoint, c.Lane, c.Attempt}
	s.attempt = outcome{a.Outcome, a.StatusCode, a.Error, a.Timing, settled.Stale}
	s.transition = settled.Transition
	t.add(s)
}

// spanOf returns a span with the fields that all spans of an event share.
func spanOf(e *postrider.Event, k kind, id postrider.SpanID) span {
	return span{kind: k, id: id, trace: e.Trace(), state: e.TraceState, event: e.ID, account: e.Account, of: e.Type}
}
