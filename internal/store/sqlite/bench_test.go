package sqlite_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/sqlite"
)

// rig is a store with one endpoint, and helpers for a producer and a worker.
type rig struct {
	testing.TB
	*sqlite.Store
	ids      *store.IDs
	endpoint postrider.Endpoint
	version  int64
}

// newRig opens the store in dir, and adds an endpoint.
func newRig(t testing.TB, dir string, opts sqlite.Options) *rig {
	t.Helper()
	s, err := sqlite.Open(t.Context(), dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{TB: t, Store: s, ids: store.NewIDs(time.Now, nil)}
	account := postrider.Account{ID: store.NewID[postrider.AccountID](r.ids), Name: "Acme Inc."}
	r.ok(s.PutAccount(t.Context(), account))
	r.endpoint, err = s.PutEndpoint(t.Context(), store.PutEndpoint{Endpoint: postrider.Endpoint{
		ID: store.NewID[postrider.EndpointID](r.ids), Account: account.ID, URL: "https://acme.example/hooks",
		EventTypes: []postrider.Pattern{"*"}, Status: postrider.EndpointEnabled, Policy: postrider.DefaultPolicy(),
	}})
	r.ok(err)
	changes, err := s.Changes(t.Context(), 0, 1000)
	r.ok(err)
	r.version = changes.Version
	return r
}

func (r *rig) ok(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// batch returns n events of size bytes, each with one delivery that is leased for an hour, and
// the settlements of these deliveries as delivered.
func (r *rig) batch(n, size int) (store.Publish, []store.Settlement) {
	p := store.Publish{Version: r.version}
	var settlements []store.Settlement
	for range n {
		d := store.NewDelivery{
			ID: store.NewID[postrider.DeliveryID](r.ids), Endpoint: r.endpoint.ID, Lane: postrider.LaneFirst,
			Expiry: time.Hour, Token: 1, Lease: time.Hour,
		}
		e := postrider.Event{
			ID: store.NewID[postrider.EventID](r.ids), Account: r.endpoint.Account, Type: "order.created", Data: make([]byte, size),
		}
		p.Batches = append(p.Batches, store.Batch{{Event: e, Deliveries: []store.NewDelivery{d}}})
		settlements = append(settlements, store.Settlement{
			Claimed: postrider.Claimed{ID: d.ID, Endpoint: d.Endpoint, Event: &e, Attempt: 1, Token: d.Token},
			Attempt: postrider.Attempt{
				Outcome: postrider.OutcomeAccepted, StatusCode: 200, StartedAt: time.Now(), Duration: 12 * time.Millisecond,
				ResponseBody: []byte("ok"), ResponseHead: []byte("HTTP/1.1 200 OK\r\nServer: nginx\r\nContent-Type: application/json\r\n\r\n"),
			},
			Transition: postrider.Transition{To: postrider.Delivered},
		})
	}
	return p, settlements
}

// One operation is a batch. The metric to compare is deliveries/s.
func BenchmarkPublish(b *testing.B) {
	benchmark(b, func(r *rig, p store.Publish, _ []store.Settlement) {
		_, err := r.Publish(r.Context(), p)
		r.ok(err)
	})
}

func BenchmarkPublishAndSettle(b *testing.B) {
	benchmark(b, func(r *rig, p store.Publish, settlements []store.Settlement) {
		_, err := r.Publish(r.Context(), p)
		r.ok(err)
		_, err = r.Settle(r.Context(), settlements)
		r.ok(err)
	})
}

func BenchmarkSettle(b *testing.B) {
	benchmark(b, func(r *rig, p store.Publish, settlements []store.Settlement) {
		r.TB.(*testing.B).StopTimer()
		_, err := r.Publish(r.Context(), p)
		r.ok(err)
		r.TB.(*testing.B).StartTimer()
		_, err = r.Settle(r.Context(), settlements)
		r.ok(err)
	})
}

func benchmark(b *testing.B, do func(*rig, store.Publish, []store.Settlement)) {
	b.Helper()
	for _, size := range []int{1, 100} {
		b.Run(fmt.Sprint("batch=", size), func(b *testing.B) {
			r := newRig(b, b.TempDir(), sqlite.Options{})
			for b.Loop() {
				b.StopTimer()
				p, settlements := r.batch(size, 1024)
				b.StartTimer()
				do(r, p, settlements)
			}
			b.ReportMetric(float64(size*b.N)/b.Elapsed().Seconds(), "deliveries/s")
			r.ok(r.Close())
		})
	}
}
