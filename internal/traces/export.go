package traces

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/batch"
)

const (
	// maxBatch is the most spans of one request, about 250 KB.
	maxBatch = 512
	// gather is how long Run waits for further spans after the first one of a batch.
	gather = time.Second
	// requestTime is the time limit of one request to the collector.
	requestTime = 10 * time.Second
	// The pause after a failed request doubles from leastPause to mostPause.
	leastPause, mostPause = time.Second, 30 * time.Second
	// giveUp is how long a batch is sent again before it is dropped. Then the next batch is sent.
	giveUp = time.Minute
	// lastWait is how long sending the last spans may take after ctx has ended.
	lastWait = 2 * time.Second
	// logEvery is how often dropped spans are logged at most.
	logEvery = time.Minute
	// schemaURL names the semantic conventions for attributes without the prefix postrider.
	schemaURL = "https://opentelemetry.io/schemas/1.43.0"
)

// Run sends the recorded spans until ctx ends, and then the remaining ones, within lastWait. Call
// it once. It returns nil, and leaves no connection open.
func (t *Tracer) Run(ctx context.Context) error {
	if t == nil {
		<-ctx.Done()
		return nil
	}
	defer t.door.CloseIdleConnections()
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(lastWait, cancel) })()
	e := exporter{Tracer: t}
	for open := true; open; {
		select {
		case <-t.spans.Ready():
			open = batch.Sleep(ctx, gather)
		case <-ctx.Done():
			open = false
		}
		e.sendWaiting(ctx, work)
	}
	return nil
}

// exporter is the part of a tracer that only Run's goroutine uses.
type exporter struct {
	*Tracer

	logged time.Time // when dropped spans were logged last; zero: never
}

// sendWaiting sends the spans that wait, and spans that are recorded meanwhile.
func (e *exporter) sendWaiting(ctx, work context.Context) {
	for spans := e.spans.Take(maxBatch); len(spans) > 0; spans = e.spans.Take(maxBatch) {
		e.send(ctx, work, spans)
	}
}

// send sends a batch. While the collector does not respond or is busy, it sends the batch again and
// again, for giveUp. The end of ctx cuts a pause; work then allows one last request. After the end of work the batch is
// not even encoded: on a busy machine, 8,192 spans would delay the end of the server by seconds.
func (e *exporter) send(ctx, work context.Context, spans []span) {
	begun, body, err := time.Now(), []byte(nil), work.Err()
	if err == nil {
		body, err = e.encode(spans)
	}
	for pause := leastPause; err == nil; pause = min(2*pause, mostPause) {
		var again time.Duration
		again, err = e.post(work, body)
		switch {
		case err == nil:
			e.sent.Add(int64(len(spans)))
			return
		case again >= 0 && ctx.Err() == nil && time.Since(begun) <= giveUp:
			err = nil
			batch.Sleep(ctx, min(max(pause, again), mostPause))
		}
	}
	e.dropped.Add(int64(len(spans)))
	if time.Since(e.logged) > logEvery {
		e.logged = time.Now()
		e.opts.Log.WarnContext(ctx, "spans dropped", "spans", len(spans), "dropped", e.dropped.Load(), "error", err)
	}
}

// post makes one request. If err is not nil, again is the least time until the request may be
// repeated. A negative again means that the collector has refused the request, and would refuse it
// again.
func (t *Tracer) post(ctx context.Context, body []byte) (again time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url, bytes.NewReader(body))
	if err != nil {
		return -1, fmt.Errorf("send spans: %w", err)
	}
	request.Header.Set("Content-Type", "application/x-protobuf")
	request.Header.Set("User-Agent", "Postrider/"+t.opts.Version)
	for name, value := range t.opts.Headers {
		request.Header.Set(name, value)
	}
	response, err := t.door.RoundTrip(request)
	if err != nil {
		return 0, fmt.Errorf("send spans: %w", err)
	}
	defer response.Body.Close()
	// The body is read to its end, so that the connection can be used again.
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 64<<10))
	again = -1
	switch response.StatusCode {
	case http.StatusOK, http.StatusAccepted, http.StatusNoContent:
		return 0, nil
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		seconds, _ := strconv.Atoi(response.Header.Get("Retry-After")) // 0 if it names no seconds
		again = time.Duration(min(max(seconds, 0), int(mostPause/time.Second))) * time.Second
	}
	return again, fmt.Errorf("send spans: the collector answers %s", response.Status)
}

// Check sends a request without spans, to find out whether the collector accepts requests.
func (t *Tracer) Check(ctx context.Context) error {
	defer t.door.CloseIdleConnections()
	_, err := t.post(ctx, nil)
	return err
}

// encode returns the body of a request. It encodes TracesData, which has the same form as
// ExportTraceServiceRequest; the package of the latter would bring gRPC with it.
func (t *Tracer) encode(spans []span) ([]byte, error) {
	scope := &trace.ScopeSpans{SchemaUrl: schemaURL, Scope: &common.InstrumentationScope{Name: "postrider", Version: t.opts.Version}}
	for i := range spans {
		scope.Spans = append(scope.Spans, spans[i].proto())
	}
	body, err := proto.Marshal(&trace.TracesData{ResourceSpans: []*trace.ResourceSpans{{
		Resource: &resource.Resource{Attributes: attributes{}.
			text("service.name", "postrider").text("service.version", t.opts.Version).text("service.instance.id", t.instance).text("host.name",
			t.opts.Node)},
		ScopeSpans: []*trace.ScopeSpans{scope}, SchemaUrl: schemaURL,
	}}})
	if err != nil {
		return nil, fmt.Errorf("encode spans: %w", err)
	}
	return body, nil
}

// The flags of a recorded span, and of a span with a parent from another program.
const (
	flagSampled = 0x01
	flagRemote  = 0x300 // 0x100: the next bit is valid; 0x200: the parent is remote
)

// proto converts the span to its OTLP form.
func (s *span) proto() *trace.Span {
	p := &trace.Span{
		TraceId: s.trace[:], SpanId: s.id[:], TraceState: s.state, Flags: flagSampled,
		StartTimeUnixNano: uint64(s.begun.UnixNano()), EndTimeUnixNano: uint64(s.begun.Add(s.took).UnixNano()),
	}
	if s.parent != (postrider.SpanID{}) {
		p.ParentSpanId = s.parent[:]
	}
	if s.link != (postrider.SpanID{}) {
		p.Links = []*trace.Span_Link{{TraceId: s.trace[:], SpanId: s.link[:], Flags: flagSampled}}
	}
	of := attributes{}.text("postrider.event", s.event.String()).text("postrider.account", s.account.String()).text("postrider.event_type",
		s.of)
	switch s.kind {
	case kindPublish:
		p.Name, p.Kind = "publish", trace.Span_SPAN_KIND_INTERNAL
		if p.ParentSpanId != nil {
			p.Flags |= flagRemote
		}
		if s.route != "" {
			p.Kind = trace.Span_SPAN_KIND_SERVER
			of = of.text("http.request.method", http.MethodPost).text("http.route", s.route).
				text("url.scheme", "http").number("http.response.status_code", http.StatusAccepted)
			if !strings.Contains(s.route, "{") {
				of = of.text("url.path", s.route)
			}
		}
		of = of.number("postrider.events", s.events).number("postrider.deliveries", s.deliveries)
	case kindCommit:
		p.Name, p.Kind = "commit", trace.Span_SPAN_KIND_INTERNAL
		of = of.number("postrider.commit.events", s.events).number("postrider.commit.deliveries", s.deliveries)
	case kindChunk:
		p.Name, p.Kind = "fan out", trace.Span_SPAN_KIND_INTERNAL
		of = of.number("postrider.deliveries", s.deliveries)
	case kindAttempt:
		p.Name, p.Kind = "attempt", trace.Span_SPAN_KIND_CLIENT
		of = s.describeAttempt(of)
		if s.attempt.outcome != postrider.OutcomeAccepted {
			p.Status = &trace.Status{Code: trace.Status_STATUS_CODE_ERROR}
			if s.attempt.status == 0 { // the status code is enough
				p.Status.Message = s.attempt.error
			}
		}
	}
	p.Attributes = of
	return p
}

// describeAttempt appends the attributes of an attempt.
func (s *span) describeAttempt(of attributes) attributes {
	of = of.text("postrider.delivery", s.claimed.id.String()).text("postrider.endpoint", s.claimed.endpoint.String()).
		number("postrider.attempt", s.claimed.number).text("postrider.lane", string(s.claimed.lane)).
		text("postrider.outcome", string(s.attempt.outcome)).text("postrider.status", string(s.transition.To)).
		text("postrider.reason", s.transition.Reason).
		duration("postrider.retry_in_ms", s.transition.After).
		duration("postrider.dns_ms", s.attempt.timing.DNS).duration("postrider.connect_ms", s.attempt.timing.Connect).
		duration("postrider.tls_ms", s.attempt.timing.TLS).duration("postrider.first_byte_ms", s.attempt.timing.FirstByte)
	of = s.describeRequest(of)
	if !s.claimed.replayedFrom.IsZero() {
		of = of.text("postrider.replayed_from", s.claimed.replayedFrom.String())
	}
	if s.attempt.stale {
		of = append(of, &common.KeyValue{Key: "postrider.stale", Value: &common.AnyValue{Value: &common.AnyValue_BoolValue{BoolValue: true}}})
	}
	return of
}

// describeRequest appends the attributes that the semantic conventions define for the request of a
// client.
func (s *span) describeRequest(of attributes) attributes {
	of = of.text("http.request.method", http.MethodPost)
	if u, err := url.Parse(s.target); err == nil && u.Host != "" {
		port, _ := strconv.Atoi(u.Port())
		if port == 0 {
			port = map[string]int{"https": 443, "http": 80}[u.Scheme]
		}
		of = of.text("server.address", u.Hostname()).number("server.port", port).text("url.full", u.Scheme+"://"+u.Host+"/REDACTED")
	}
	if s.claimed.number > 1 {
		of = of.number("http.request.resend_count", s.claimed.number-1)
	}
	class, _, _ := strings.Cut(s.attempt.error, ":")
	if s.attempt.status != 0 {
		of = of.number("http.response.status_code", s.attempt.status)
		if s.attempt.outcome != postrider.OutcomeAccepted {
			class = strconv.Itoa(s.attempt.status)
		}
	}
	return of.text("error.type", class)
}

// attributes are the attributes of a span.
type attributes []*common.KeyValue

// text appends a text, unless it is empty.
func (a attributes) text(key, value string) attributes {
	if value == "" {
		return a
	}
	return append(a, &common.KeyValue{Key: key, Value: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: value}}})
}

// number appends a number.
func (a attributes) number(key string, value int) attributes {
	return append(a, &common.KeyValue{Key: key, Value: &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: int64(value)}}})
}

// duration appends a duration in milliseconds, unless it is zero.
func (a attributes) duration(key string, value time.Duration) attributes {
	if value == 0 {
		return a
	}
	ms := float64(value) / float64(time.Millisecond)
	return append(a, &common.KeyValue{Key: key, Value: &common.AnyValue{Value: &common.AnyValue_DoubleValue{DoubleValue: ms}}})
}
