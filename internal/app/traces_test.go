package app_test

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

const producer = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"

// subscribed makes an account with an endpoint that asks for the trace.
func (r *running) subscribed(t *testing.T, url string) {
	t.Helper()
	_, err := r.api.CreateAccount(t.Context(), apitypes.AccountCreate{UID: "acme"})
	if err == nil {
		_, err = r.api.CreateEndpoint(t.Context(), apitypes.EndpointCreate{
			Account: "acme", URL: url, EventTypes: []string{"*"}, Policy: apitypes.Policy{
				SendTraceParent: apitypes.Of(true), Retry: apitypes.Of(apitypes.Retry{DelaysMS: []int64{0, 500}, Jitter: "none"}),
			},
		})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestATraceLeadsFromTheProducerToTheReceiver publishes with a producer's span, and the receiver
// fails once. The collector gets one trace that leads from the producer's span to the spans that
// the receiver was told.
func TestATraceLeadsFromTheProducerToTheReceiver(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var told []string
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.Header.Get("Tracestate") != "vendor=1" {
			t.Errorf("the receiver got tracestate %q", r.Header["Tracestate"])
		}
		if told = append(told, r.Header.Get("Traceparent")); len(told) == 1 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	defer receiver.Close()
	spans := map[string]*trace.Span{}
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		body, err := io.ReadAll(r.Body)
		var data trace.TracesData
		if err != nil || proto.Unmarshal(body, &data) != nil || r.Header.Get("X-Token") != "hush" || r.URL.Path != "/v1/traces" {
			t.Errorf("the collector got %s %v, %v", r.URL, r.Header, err)
		}
		for _, of := range data.ResourceSpans {
			for _, s := range of.ScopeSpans[0].Spans {
				spans[s.Name+postrider.SpanID(s.SpanId).String()] = s
			}
		}
	}))
	defer collector.Close()
	r := startWith(t, t.TempDir(), map[string]string{
		"POSTRIDER_OTLP_URL": collector.URL, "POSTRIDER_OTLP_HEADERS": "x-token=hush", "POSTRIDER_TRACE_SAMPLE": "1",
		"POSTRIDER_LOG_FORMAT": "json",
	})
	r.subscribed(t, receiver.URL)
	receipt, err := r.api.Publish(t.Context(), apitypes.EventCreate{
		Account: "acme", Type: "a", Data: json.RawMessage(`1`), TraceParent: producer,
		TraceState: "vendor=1",
	})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "delivered", func() bool { return r.delivered(t, receipt.ID) })
	event, err := r.api.Event(t.Context(), receipt.ID)
	if err != nil || event.TraceID != producer[3:35] {
		t.Errorf("the event has the trace %q, %v", event.TraceID, err)
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	publish, commit := postrider.PublishSpan(receipt.ID), postrider.CommitSpan(receipt.ID)
	checkChild(t, spans["publish"+publish.String()], producer[36:52])
	checkChild(t, spans["commit"+commit.String()], publish.String())
	for _, line := range told {
		if len(line) != 55 || !strings.HasPrefix(line, producer[:36]) || !strings.HasSuffix(line, "-01") || line[36:52] == producer[36:52] {
			t.Fatalf("the receiver was told %q", told)
		}
		checkChild(t, spans["attempt"+line[36:52]], commit.String())
	}
	if len(told) != 2 || told[0] == told[1] || len(spans) != 4 {
		t.Errorf("%d spans, and the receiver was told %q", len(spans), told)
	}
	if links := spans["attempt"+told[1][36:52]].Links; len(links) != 1 || postrider.SpanID(links[0].SpanId).String() != told[0][36:52] {
		t.Errorf("the second attempt links to %v, want to the first", links)
	}
	for _, text := range []string{`"trace":"` + producer[3:35] + `"`, `"otlp_headers":"xxxxx"`} {
		if !strings.Contains(r.log.String(), text) {
			t.Errorf("the log does not have %s", text)
		}
	}
	if strings.Contains(r.log.String(), "hush") {
		t.Error("the log has the collector's token")
	}
}

// checkChild compares a span with the producer's trace and its parent.
func checkChild(t *testing.T, s *trace.Span, parent string) {
	t.Helper()
	if s == nil {
		t.Errorf("no span below %s", parent)
	} else if postrider.TraceID(s.TraceId).String() != producer[3:35] || postrider.SpanID(s.ParentSpanId).String() != parent ||
		s.TraceState != "vendor=1" {
		t.Errorf("%s is of the trace %x (%s) below %x, want %s", s.Name, s.TraceId, s.TraceState, s.ParentSpanId, parent)
	}
}

// TestACollectorThatHangsDelaysNothing uses a collector that accepts connections and never
// responds. Publishes, deliveries and the stop of the server take as long as without a collector.
func TestACollectorThatHangsDelaysNothing(t *testing.T) {
	t.Parallel()
	hung, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer hung.Close()
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer receiver.Close()
	r := startWith(t, t.TempDir(), map[string]string{"POSTRIDER_OTLP_URL": "http://" + hung.Addr().String(), "POSTRIDER_TRACE_SAMPLE": "1"})
	r.subscribed(t, receiver.URL)
	events := make([]apitypes.EventCreate, 1000)
	for i := range events {
		events[i] = apitypes.EventCreate{Account: "acme", Type: "a", Data: json.RawMessage(`1`)}
	}
	for range 4 { // 12,000 spans, of which 8,192 can wait
		var receipts []apitypes.BatchReceipt
		eventually(t, "accepted", func() bool { // a slow machine is overloaded for a while
			receipts, err = r.api.PublishBatch(t.Context(), slices.Clone(events))
			refused, is := errors.AsType[*client.Error](err)
			return !is || refused.Status != http.StatusTooManyRequests && refused.Status != http.StatusServiceUnavailable
		})
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "delivered", func() bool { return r.delivered(t, receipts[len(receipts)-1].ID) })
	}
	eventually(t, "what cannot wait is dropped", func() bool { return sample(r.metrics(t), "postrider_trace_spans_dropped_total") > 0 })
	if sent := sample(r.metrics(t), "postrider_trace_spans_sent_total"); sent != 0 {
		t.Errorf("%v spans were sent", sent)
	}
	ending := time.Now()
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(ending); took > 10*time.Second {
		t.Errorf("the end took %v", took)
	}
}
