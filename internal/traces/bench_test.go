package traces_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/traces"
)

// BenchmarkHooks measures the cost of tracing for an event with one delivery: the hooks of its
// publish and of its attempt. The case off has no tracer. With a share, the recorded spans are sent
// to a collector that accepts them at once, and the time includes their encoding.
func BenchmarkHooks(b *testing.B) {
	for _, share := range []float64{-1, 0, 0.01, 1} {
		name := "off"
		if share >= 0 {
			name = fmt.Sprint(share)
		}
		b.Run(name, func(b *testing.B) {
			var h observe.Hooks
			var tr *traces.Tracer
			if share >= 0 {
				tr = traces.New(traces.Options{URL: "http://collector", Share: share})
				tr.SendBy(func(*http.Request) (*http.Response, error) { return answer(200, nil), nil })
				h = tr.Hooks()
			}
			events := make([]postrider.Event, 1000)
			for i := range events {
				events[i] = postrider.Event{ID: postrider.EventID{1, 14: byte(i >> 8), 15: byte(i)}, Type: "order.created"}
			}
			a, s := accepted(traced), settled(&traced, 1)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				e := &events[i%len(events)]
				if i++; i%100 == 0 && tr != nil {
					tr.SendWaiting(b.Context())
				}
				if h.Accepted != nil {
					a.Published = events[i%len(events) : i%len(events)+1]
					h.Accepted(a)
				}
				if h.Settled != nil {
					s.Delivery.Event = e
					h.Settled(s)
				}
			}
		})
	}
}
