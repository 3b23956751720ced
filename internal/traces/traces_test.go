package traces_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/testkit"
	"github.com/postrider/postrider/internal/traces"
)

func TestMain(m *testing.M) { testkit.Main(m) }

var (
	noon      = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	parent, _ = postrider.ParseTraceParent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00")
	traced    = postrider.Event{
		ID: postrider.EventID{1, 15: 1}, Account: postrider.AccountID{2}, Type: "order.created", Data: []byte(`{"secret":1}`), TraceParent: parent,
	}
	untraced = postrider.Event{ID: postrider.EventID{1, 15: 2}, Account: postrider.AccountID{2}, Type: "order.paid", Data: []byte(`2`)}
)

// collector is a receiver of OTLP over HTTP.
type collector struct {
	*httptest.Server

	mu       sync.Mutex
	requests []*http.Request
	received []*trace.ResourceSpans
	spans    []*trace.Span
	arrived  chan struct{}
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{arrived: make(chan struct{}, 100)}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var data trace.TracesData
		if err = errors.Join(err, proto.Unmarshal(body, &data)); err != nil {
			t.Errorf("the collector cannot read a request: %v", err)
		}
		c.mu.Lock()
		c.requests, c.received = append(c.requests, r), append(c.received, data.ResourceSpans...)
		for _, of := range data.ResourceSpans {
			for _, scope := range of.ScopeSpans {
				c.spans = append(c.spans, scope.Spans...)
			}
		}
		c.mu.Unlock()
		w.Header().Set("Content-Type", "application/x-protobuf")
		c.arrived <- struct{}{}
	}))
	t.Cleanup(c.Close)
	return c
}

// run runs the tracer. stop ends it and waits for its end.
func run(t *testing.T, tr *traces.Tracer) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := tr.Run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}

// accepted returns an accepted publish of the events, which began a second ago.
func accepted(events ...postrider.Event) observe.Accepted {
	a := observe.Accepted{
		Events: len(events), Published: events, Begun: time.Now().Add(-time.Second), Took: 5 * time.Millisecond,
		Commit: observe.Committed{Events: 7, Deliveries: 9, Begun: time.Now().Add(-999 * time.Millisecond), Took: 3 * time.Millisecond},
	}
	for _, e := range events {
		a.Receipts = append(a.Receipts, postrider.Receipt{ID: e.ID, Deliveries: 3})
	}
	return a
}

// settled returns a rejected attempt of the event.
func settled(e *postrider.Event, number int) observe.Settled {
	return observe.Settled{
		Delivery: postrider.Claimed{ID: postrider.DeliveryID{3}, Endpoint: postrider.EndpointID{4}, Event: e, Lane: postrider.LaneRetry, Attempt: number},
		Attempt: postrider.Attempt{
			Outcome: postrider.OutcomeRejected, StatusCode: 500, Error: "status", StartedAt: noon, Duration: 40 * time.Millisecond,
			Timing: postrider.Timing{DNS: time.Millisecond, FirstByte: 30 * time.Millisecond}, ResponseBody: []byte("body"),
		},
		Transition: postrider.Transition{To: postrider.Pending, After: time.Minute},
	}
}

// byName returns the spans by their name, event type and attempt number.
func (c *collector) byName() map[string]*trace.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := map[string]*trace.Span{}
	for _, s := range c.spans {
		found[s.Name+" "+attribute(s, "postrider.event_type")+attribute(s, "postrider.attempt")] = s
	}
	return found
}

// attribute returns an attribute of a span as a text.
func attribute(s *trace.Span, key string) string {
	i := slices.IndexFunc(s.Attributes, func(a *common.KeyValue) bool { return a.Key == key })
	if i < 0 {
		return ""
	}
	switch v := s.Attributes[i].Value.Value.(type) {
	case *common.AnyValue_StringValue:
		return v.StringValue
	case *common.AnyValue_IntValue:
		return strconv.FormatInt(v.IntValue, 10)
	case *common.AnyValue_DoubleValue:
		return strconv.FormatFloat(v.DoubleValue, 'g', -1, 64)
	case *common.AnyValue_BoolValue:
		return strconv.FormatBool(v.BoolValue)
	}
	return "?"
}

// TestACollectorGetsTheStoryOfAnEvent sends over a real connection, and decodes the requests by the
// definitions of OTLP.
func TestACollectorGetsTheStoryOfAnEvent(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	tr := traces.New(traces.Options{
		URL: c.URL + "/tenant/", Headers: map[string]string{"authorization": "Bearer token"}, Share: 1, Version: "v1", Node: "node-1",
		Now: func() time.Time { return noon }, Target: func(postrider.EndpointID) string { return "https://user:canary@hooks.example/canary?canary=1" },
	})
	h := tr.Hooks()
	duplicate := accepted(untraced)
	duplicate.Receipts[0].Duplicate = true
	h.Accepted.Call(duplicate)
	both := accepted(traced, untraced)
	both.Route = "/v1/webhooks/events"
	h.Accepted.Call(both)
	h.Committed.Call(observe.Committed{Events: 2, Begun: time.Now(), Took: time.Millisecond})
	h.Committed.Call(observe.Committed{Chunk: &observe.Chunk{Event: &traced}, Deliveries: 1000, Begun: time.Now(), Took: time.Millisecond})
	h.Settled.Call(settled(&traced, 1))
	stale := settled(&traced, 2)
	stale.Stale, stale.Delivery.ReplayedFrom = true, postrider.DeliveryID{9}
	h.Settled.Call(stale)
	h.Settled.Call(observe.Settled{Delivery: settled(&traced, 3).Delivery, Attempt: postrider.Attempt{Outcome: postrider.OutcomeNone}})
	run(t, tr)()

	spans := c.byName()
	publish, commit := postrider.PublishSpan(traced.ID), postrider.CommitSpan(traced.ID)
	chunk := postrider.ChunkSpan(traced.ID, postrider.EndpointID{})
	first, second := postrider.AttemptSpan(postrider.DeliveryID{3}, 1), postrider.AttemptSpan(postrider.DeliveryID{3}, 2)
	for name, want := range map[string]struct {
		trace            postrider.TraceID
		id, parent, link postrider.SpanID
	}{
		"publish order.created":  {parent.Trace(), publish, parent.Span(), postrider.SpanID{}},
		"commit order.created":   {parent.Trace(), commit, publish, postrider.SpanID{}},
		"fan out order.created":  {parent.Trace(), chunk, commit, postrider.SpanID{}},
		"attempt order.created1": {parent.Trace(), first, commit, postrider.SpanID{}},
		"attempt order.created2": {parent.Trace(), second, commit, first},
		"publish order.paid":     {untraced.Trace(), postrider.PublishSpan(untraced.ID), postrider.SpanID{}, postrider.SpanID{}},
		"commit order.paid": {
			untraced.Trace(), postrider.CommitSpan(untraced.ID), postrider.PublishSpan(untraced.ID), postrider.SpanID{},
		},
	} {
		s := spans[name]
		if s == nil {
			t.Errorf("no span %q among %d", name, len(spans))
			continue
		}
		var link postrider.SpanID
		if len(s.Links) > 0 {
			link = postrider.SpanID(s.Links[0].SpanId)
		}
		var from postrider.SpanID
		copy(from[:], s.ParentSpanId)
		if postrider.TraceID(s.TraceId) != want.trace || postrider.SpanID(s.SpanId) != want.id || from != want.parent || link != want.link {
			t.Errorf("%s: trace %x, span %x, parent %x, link %x, want %+v", name, s.TraceId, s.SpanId, s.ParentSpanId, link, want)
		}
		if remote := s.Flags&0x300 == 0x300; remote != (name == "publish order.created") {
			t.Errorf("%s: the parent is another program's: %t", name, remote)
		}
	}
	if sent, dropped := tr.Counts(); len(c.spans) != 7 || sent != 7 || dropped != 0 {
		t.Errorf("%d spans arrived, %d were sent and %d dropped, want 7", len(c.spans), sent, dropped)
	}
	c.checkRequest(t)
	c.checkNames(t)
	if s := spans["publish order.created"]; attribute(s, "http.route") != "/v1/webhooks/events" || attribute(s, "url.path") != "/v1/webhooks/events" ||
		attribute(s, "http.request.method") != "POST" || attribute(s, "http.response.status_code") != "202" || s.Kind != trace.Span_SPAN_KIND_SERVER {
		t.Errorf("the publish is %v", s)
	}
	checkAttempt(t, spans["attempt order.created2"])
	if s := spans["commit order.created"]; attribute(s, "postrider.commit.events") != "7" || attribute(s, "postrider.commit.deliveries") != "9" {
		t.Errorf("the commit is %v", s.Attributes)
	}
	begun := time.Unix(0, int64(spans["publish order.created"].StartTimeUnixNano))
	if off := noon.Add(-time.Second).Sub(begun); off < 0 || off > 10*time.Second {
		t.Errorf("the publish began at %v, want a second before %v by the store's time of day", begun, noon)
	}
}

// checkRequest compares a request with the options.
func (c *collector) checkRequest(t *testing.T) {
	t.Helper()
	r := c.requests[0]
	if r.Method != "POST" || r.URL.Path != "/tenant/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" ||
		r.Header.Get("Authorization") != "Bearer token" || r.Header.Get("User-Agent") != "Postrider/v1" {
		t.Errorf("the request is %s %s with %v", r.Method, r.URL, r.Header)
	}
	var resource []string
	uuid := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	for _, a := range c.received[0].Resource.Attributes {
		resource = append(resource, a.Key+"="+uuid.ReplaceAllString(a.Value.GetStringValue(), "UUID"))
	}
	if want := []string{"service.name=postrider", "service.version=v1", "service.instance.id=UUID", "host.name=node-1"}; !slices.Equal(resource, want) {
		t.Errorf("the resource is %v, want %v", resource, want)
	}
	if schema := "https://opentelemetry.io/schemas/1.43.0"; c.received[0].SchemaUrl != schema || c.received[0].ScopeSpans[0].SchemaUrl != schema {
		t.Errorf("the schema is %s, want %s", c.received[0].SchemaUrl, schema)
	}
}

// checkNames compares the names of attributes that are not Postrider's own with the names of the
// semantic conventions.
func (c *collector) checkNames(t *testing.T) {
	t.Helper()
	file, err := os.ReadFile("testdata/semconv-1.43.0.txt")
	if err != nil {
		t.Fatal(err)
	}
	known := strings.Fields(string(file))
	all := slices.Clone(c.received[0].Resource.Attributes)
	for _, s := range c.spans {
		all = append(all, s.Attributes...)
	}
	for _, a := range all {
		if !strings.HasPrefix(a.Key, "postrider.") && !slices.Contains(known, a.Key) {
			t.Errorf("the semantic conventions have no attribute %s", a.Key)
		}
	}
}

func checkAttempt(t *testing.T, s *trace.Span) {
	t.Helper()
	got := map[string]string{}
	for _, a := range s.Attributes {
		got[a.Key] = attribute(s, a.Key)
	}
	want := map[string]string{
		"http.request.method": "POST", "http.request.resend_count": "1", "server.address": "hooks.example", "server.port": "443",
		"url.full":        "https://hooks.example/REDACTED",
		"postrider.event": traced.ID.String(), "postrider.account": traced.Account.String(), "postrider.event_type": "order.created",
		"postrider.delivery": postrider.DeliveryID{3}.String(), "postrider.endpoint": postrider.EndpointID{4}.String(),
		"postrider.attempt": "2", "postrider.lane": "retry", "postrider.outcome": "rejected", "postrider.status": "pending",
		"postrider.retry_in_ms": "60000", "postrider.dns_ms": "1", "postrider.first_byte_ms": "30",
		"http.response.status_code": "500", "error.type": "500", "postrider.replayed_from": postrider.DeliveryID{9}.String(), "postrider.stale": "true",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the attributes of an attempt (-want +got):\n%s", diff)
	}
	if took := s.EndTimeUnixNano - s.StartTimeUnixNano; time.Duration(took) != 40*time.Millisecond || int64(s.StartTimeUnixNano) != noon.UnixNano() {
		t.Errorf("the attempt began at %d and took %d ns", s.StartTimeUnixNano, took)
	}
	if s.Kind != trace.Span_SPAN_KIND_CLIENT || s.Status.GetCode() != trace.Status_STATUS_CODE_ERROR {
		t.Errorf("the attempt is of the kind %v with the status %v", s.Kind, s.Status)
	}
}

// answer is a response of a collector.
func answer(status int, header http.Header) *http.Response {
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Header: header, Body: http.NoBody}
}

// TestACollectorThatHangsHoldsNothing has a collector that accepts requests and never answers.
func TestACollectorThatHangsHoldsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tr := traces.New(traces.Options{URL: "http://collector", Share: 1})
		under := 0
		tr.SendBy(func(r *http.Request) (*http.Response, error) {
			under++
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		stop := run(t, tr)
		h, begun := tr.Hooks(), time.Now()
		for i := range 3 * traces.MaxWaiting {
			h.Settled.Call(settled(&traced, i+1))
		}
		if took := time.Since(begun); took != 0 {
			t.Errorf("hooks took %v", took)
		}
		if _, dropped := tr.Counts(); dropped != 2*traces.MaxWaiting {
			t.Errorf("%d spans were dropped at once, want those over %d", dropped, traces.MaxWaiting)
		}
		time.Sleep(10 * traces.GiveUp)
		synctest.Wait()
		if sent, dropped := tr.Counts(); sent != 0 || dropped <= 2*traces.MaxWaiting || under < 3 {
			t.Errorf("after a while %d are sent and %d dropped, in %d requests", sent, dropped, under)
		}
		ending := time.Now()
		stop()
		if took := time.Since(ending); took > traces.LastWait {
			t.Errorf("the end took %v, want at most %v", took, traces.LastWait)
		}
		if sent, dropped := tr.Counts(); sent+dropped != 3*traces.MaxWaiting {
			t.Errorf("%d sent and %d dropped, want all of %d", sent, dropped, 3*traces.MaxWaiting)
		}
	})
}

// TestSpansWaitForACollectorThatComesBack answers the first requests with errors that can pass by
// themselves.
func TestSpansWaitForACollectorThatComesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tr := traces.New(traces.Options{URL: "http://collector", Share: 1})
		var at []time.Duration
		begun := time.Now()
		tr.SendBy(func(*http.Request) (*http.Response, error) {
			at = append(at, time.Since(begun))
			switch len(at) {
			case 1:
				return nil, errors.New("connection refused")
			case 2:
				return answer(503, http.Header{"Retry-After": {"9"}}), nil
			case 3:
				return answer(429, http.Header{"Retry-After": {"86400"}}), nil
			}
			return answer(200, nil), nil
		})
		defer run(t, tr)()
		tr.Hooks().Settled.Call(settled(&traced, 1))
		time.Sleep(2 * traces.GiveUp)
		synctest.Wait()
		want := []time.Duration{time.Second, 2 * time.Second, 11 * time.Second, 41 * time.Second}
		if sent, dropped := tr.Counts(); sent != 1 || dropped != 0 || !slices.Equal(at, want) {
			t.Errorf("%d sent, %d dropped, by requests at %v, want at %v", sent, dropped, at, want)
		}
	})
}

// TestARefusedBatchIsNotSentAgain has a collector that refuses requests for good.
func TestARefusedBatchIsNotSentAgain(t *testing.T) {
	t.Parallel()
	for _, status := range []int{302, 400, 401, 404, 500} {
		synctest.Test(t, func(t *testing.T) {
			var log strings.Builder
			tr := traces.New(traces.Options{URL: "http://collector", Headers: map[string]string{"x-key": "canary"}, Share: 1, Log: slog.New(slog.NewTextHandler(&log, nil))})
			requests := 0
			tr.SendBy(func(*http.Request) (*http.Response, error) {
				requests++
				return answer(status, http.Header{"Location": {"http://elsewhere"}}), nil
			})
			stop := run(t, tr)
			for i := range traces.MaxBatch + 1 {
				tr.Hooks().Settled.Call(settled(&traced, i+1))
			}
			time.Sleep(2 * traces.GiveUp)
			stop()
			if sent, dropped := tr.Counts(); sent != 0 || dropped != traces.MaxBatch+1 || requests != 2 {
				t.Errorf("%d: %d sent, %d dropped, in %d requests", status, sent, dropped, requests)
			}
			if lines := strings.Count(log.String(), "spans dropped"); lines != 1 || strings.Contains(log.String(), "canary") {
				t.Errorf("%d: the log has %d lines, want one without secrets:\n%s", status, lines, log.String())
			}
		})
	}
}

func TestTheServerDecidesWhatIsRecorded(t *testing.T) {
	t.Parallel()
	sampled, _ := postrider.ParseTraceParent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	for _, share := range []float64{0, 0.01, 1} {
		tr := traces.New(traces.Options{URL: "http://127.0.0.1:1", Share: share})
		tr.SendBy(func(*http.Request) (*http.Response, error) { return answer(200, nil), nil })
		h, want := tr.Hooks(), 0
		for i := range 2000 {
			e := postrider.Event{ID: postrider.EventID{1, 14: byte(i >> 8), 15: byte(i)}, TraceParent: sampled}
			if postrider.Sampled(e.ID, share) {
				want += 4 // two of the publish, one of the chunk, one of the attempt
			}
			h.Accepted.Call(accepted(e))
			h.Committed.Call(observe.Committed{Chunk: &observe.Chunk{Event: &e}})
			h.Committed.Call(observe.Committed{Chunk: &observe.Chunk{Event: &e}, Err: postrider.ErrBusy})
			h.Settled.Call(settled(&e, 1))
		}
		run(t, tr)()
		if sent, _ := tr.Counts(); int(sent) != want {
			t.Errorf("share %v: %d spans, want %d", share, sent, want)
		}
	}
}

func TestAnEventThatIsNotSampledCostsNoMemory(t *testing.T) { //nolint:paralleltest // it counts the allocations of the process
	h := traces.New(traces.Options{URL: "http://collector", Share: 0}).Hooks()
	a, s, chunk := accepted(traced), settled(&traced, 1), observe.Committed{Chunk: &observe.Chunk{Event: &traced}}
	if n := testing.AllocsPerRun(1000, func() {
		h.Accepted.Call(a)
		h.Committed.Call(chunk)
		h.Settled.Call(s)
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

func TestCheckURL(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"http://collector:4318": true, "https://otlp.example.com/tenant": true, "http://[::1]:4318/": true,
		"collector:4318": false, "grpc://collector:4317": false, "http://": false, "http://us:secret@collector": false,
		"http://collector?key=secret": false, "http://collector#x": false, "": false, "http://a b": false,
	} {
		if got := traces.CheckURL(text); got != want {
			t.Errorf("CheckURL(%q) = %t, want %t", text, got, want)
		}
	}
}

func TestCheckSaysWhetherTheCollectorAnswers(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	if err := traces.New(traces.Options{URL: c.URL}).Check(t.Context()); err != nil || len(c.requests) != 1 || len(c.spans) != 0 {
		t.Errorf("check = %v, after %d requests with %d spans", err, len(c.requests), len(c.spans))
	}
	c.Close()
	if err := traces.New(traces.Options{URL: c.URL}).Check(t.Context()); err == nil {
		t.Error("a collector that is gone passes the check")
	}
}
