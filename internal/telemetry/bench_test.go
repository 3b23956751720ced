package telemetry_test

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/telemetry"
)

// BenchmarkAttempt measures the cost of the metrics for an attempt that is accepted on an open
// connection. Only one hook is called for each attempt.
func BenchmarkAttempt(b *testing.B) {
	settled := telemetry.New(telemetry.Options{}).Hooks().Settled
	s := attempted(1, postrider.OutcomeAccepted, postrider.Delivered)
	s.Attempt.Timing = postrider.Timing{FirstByte: 90 * time.Millisecond, Reused: true}
	b.ReportAllocs()
	for b.Loop() {
		settled(s)
	}
}

// BenchmarkScrape serves /metrics of a server with 10,000 endpoints. All of them have work and fail
// sometimes, and every verb of the store was called.
func BenchmarkScrape(b *testing.B) {
	m, handler := busy(b)
	b.ReportAllocs()
	for b.Loop() {
		answer := httptest.NewRecorder()
		handler(answer)
		if answer.Code != 200 || answer.Body.Len() == 0 {
			b.Fatalf("scrape: %d", answer.Code)
		}
	}
	b.ReportMetric(float64(len(scrape(b, m).samples)), "series")
}

// busy returns the metrics of such a server, and a function that scrapes them.
func busy(b *testing.B) (*telemetry.Metrics, func(*httptest.ResponseRecorder)) {
	b.Helper()
	m := telemetry.New(telemetry.Options{Worst: 10})
	h := m.Hooks()
	var q observe.Queue
	for i := range 10_000 {
		s := attempted(i%7, postrider.Outcomes[i%len(postrider.Outcomes)], postrider.Pending)
		s.Delivery.Endpoint = postrider.EndpointID{byte(i), byte(i >> 8)}
		s.Attempt.Duration = time.Duration(i) * time.Millisecond
		h.Settled.Call(s)
		q.Lanes = append(q.Lanes, observe.QueueLane{
			Endpoint: s.Delivery.Endpoint, Lane: postrider.LaneFirst, HeldBy: postrider.HeldByNothing, Waiting: 10, Due: 10,
			Oldest: time.Duration(i) * time.Millisecond,
		})
		verb := string(rune('A'+i%26)) + string(rune('a'+i%4))
		h.StoreCalled.Call(observe.StoreCall{Verb: verb, Took: time.Duration(i) * time.Microsecond})
		h.StoreCalled.Call(observe.StoreCall{Verb: verb, Took: time.Duration(i) * time.Microsecond, Err: postrider.ErrBusy})
	}
	h.Queue.Call(q)
	handler, request := m.Handler(), httptest.NewRequestWithContext(b.Context(), "GET", "/metrics", nil)
	return m, func(answer *httptest.ResponseRecorder) { handler.ServeHTTP(answer, request) }
}
