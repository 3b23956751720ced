// Package traces sends spans of what the engine does to an OpenTelemetry collector, by OTLP
// over HTTP.
//
//	t := traces.New(traces.Options{URL: "http://collector:4318", Share: 0.01, Now: clock.Wall, Log: log})
//	observer := observe.New(observe.Join(t.Hooks(), …), log)
//	err := t.Run(ctx)
//
// All spans of an event have one trace: the producer's, if its publish had the header
// traceparent, or else one of the event's own ([postrider.Event.Trace]). The spans are
//
//	publish ─► commit ─┬─► fan-out chunk     (one for each chunk, if the event has a fan-out job)
//	                   └─► attempt ─► …      (each links to the one before it)
//
// It promises:
//
//   - It observes and does nothing else: without it the engine works the same.
//   - The share of events that are recorded is the server's setting; no producer can have its
//     own recorded. An event is recorded as a whole, by all nodes with the same share.
//   - A hook never waits for the collector. Spans that wait for it are bounded; what is more
//     is dropped and counted ([Tracer.Counts]).
//   - A collector that does not respond costs one connection, and at the end of the server at
//     most lastWait.
//   - A span has no data, no header and no body of anybody, and of a URL the scheme, host and
//     port: a path is often a secret.
//   - What is not Postrider's own is named by the semantic conventions of OpenTelemetry,
//     version 1.43.0; a test compares the names with theirs.
//
// Read traces.go (what is recorded) first, then export.go (how it is sent).
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

// Options says what is recorded and where it is sent.
type Options struct {
	URL     string            // of the collector; /v1/traces is added to its path
	Headers map[string]string // of each request to it, such as a token
	Share   float64           // of the events, from 0 to 1
	Version string            // of the program
	Node    string            // name of this server's machine

	// Target returns the URL of an endpoint, of which spans show the scheme, host and port;
	// empty: it has none. Default: none has.
	Target func(postrider.EndpointID) string

	Now func() time.Time // the store's time of day; default: this machine's
	Log *slog.Logger     // default: discard
}

// Tracer records spans of the events that are sampled. Its hooks may be called from any
// goroutine.
type Tracer struct {
	opts     Options
	url      string
	instance string             // id of this process among all that send spans
	spans    *batch.Queue[span] // at most maxWaiting and one for each goroutine that adds
	door     door

	sent, dropped atomic.Int64
}

// door sends requests to the collector, over connections that it keeps.
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
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.User == nil && u.RawQuery == "" && u.Fragment == ""
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

// Hooks returns the hooks by which t records.
func (t *Tracer) Hooks() observe.Hooks {
	if t == nil {
		return observe.Hooks{}
	}
	return observe.Hooks{Accepted: t.accepted, Committed: t.committed, Settled: t.settled}
}

// maxWaiting is how many spans wait for the collector at most: about 2 MB. At 1 % of 1,000
// events a second with one delivery each it is four and a half minutes' worth.
const maxWaiting = 8192

// span is what is recorded of a step. It refers to no event, so that spans which wait keep no
// data of events in memory.
type span struct {
	kind   kind
	id     postrider.SpanID
	parent postrider.SpanID // zero: it is the first span of the trace
	link   postrider.SpanID // zero: there is none
	begun  time.Time
	took   time.Duration

	trace   postrider.TraceID
	state   string // the producer's tracestate
	event   postrider.EventID
	account postrider.AccountID
	of      string // event type

	// Of a publish the deliveries; of a commit or a chunk, the events and deliveries that it
	// stored together.
	events, deliveries int

	route string // of a publish: path of the API's operation; empty: no request published it

	// Of an attempt.
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

// kind is the step that a span is of.
type kind int

const (
	kindPublish kind = iota
	kindCommit
	kindChunk
	kindAttempt
)

// add makes a span wait for its way to the collector, or drops it.
func (t *Tracer) add(s span) {
	if t.spans.Len() >= maxWaiting || !t.spans.Add(s) {
		t.dropped.Add(1)
	}
}

// wall returns the time of day of an instant of this machine's clock.
func (t *Tracer) wall(at time.Time) time.Time { return t.opts.Now().Add(-time.Since(at)) }

// accepted records the publish and the commit of each sampled event. A duplicate was recorded
// when it was published first.
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

// committed records the chunks of fan-out jobs. The commits of publishes come with
// [observe.Accepted], which knows their events.
func (t *Tracer) committed(c observe.Committed) {
	if c.Chunk == nil || c.Err != nil || !t.Sampled(c.Chunk.Event.ID) {
		return
	}
	e := c.Chunk.Event
	s := spanOf(e, kindChunk, postrider.ChunkSpan(e.ID, c.Chunk.Behind))
	s.parent, s.begun, s.took, s.deliveries = postrider.CommitSpan(e.ID), t.wall(c.Begun), c.Took, c.Deliveries
	t.add(s)
}

// settled records an attempt. Its span links to that of the attempt before, which may have been
// days ago or lost; a link names it in either case.
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

// spanOf returns a span with what all spans of an event have.
func spanOf(e *postrider.Event, k kind, id postrider.SpanID) span {
	return span{kind: k, id: id, trace: e.Trace(), state: e.TraceState, event: e.ID, account: e.Account, of: e.Type}
}
