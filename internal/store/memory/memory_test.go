package memory_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/memory"
)

// backlog publishes n deliveries to one endpoint.
func backlog(t testing.TB, s *memory.Store, ids *store.IDs, n int) postrider.EndpointID {
	t.Helper()
	endpoint := store.NewID[postrider.EndpointID](ids)
	var batch store.Batch
	for range n {
		batch = append(batch, store.NewEvent{
			Event: postrider.Event{ID: store.NewID[postrider.EventID](ids), Type: "order.created", Data: []byte("1")},
			Deliveries: []store.NewDelivery{{
				ID: store.NewID[postrider.DeliveryID](ids), Endpoint: endpoint, Lane: postrider.LaneFirst, Expiry: time.Hour,
			}},
		})
	}
	if _, err := s.Publish(t.Context(), store.Publish{Batches: []store.Batch{batch}}); err != nil {
		t.Fatal(err)
	}
	return endpoint
}

func claim(t testing.TB, s *memory.Store, c store.Claim) store.Claims {
	t.Helper()
	claims, err := s.Claim(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return claims
}

func TestLeasesFollowTheClockOfABubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Options{})
		endpoint := backlog(t, s, store.NewIDs(time.Now, nil), 1)
		want := store.Want{Endpoint: endpoint, Lane: postrider.LaneFirst, N: 1, Lease: time.Hour}
		claim(t, s, store.Claim{Wants: []store.Want{want}, Token: 1})

		time.Sleep(time.Hour - time.Microsecond)
		if n := len(claim(t, s, store.Claim{Wants: []store.Want{want}, Token: 2}).Items); n != 0 {
			t.Errorf("claimed %d deliveries a microsecond before the lease ends", n)
		}
		time.Sleep(time.Microsecond)
		if n := len(claim(t, s, store.Claim{Wants: []store.Want{want}, Token: 3}).Items); n != 1 {
			t.Errorf("claimed %d deliveries when the lease ends, want 1", n)
		}
	})
}

func TestNowIsTheClockOfTheOptions(t *testing.T) {
	t.Parallel()
	instant := time.Date(2026, 3, 1, 12, 0, 0, 1999, time.FixedZone("", 3600))
	s := memory.New(memory.Options{Now: func() time.Time { return instant }})
	now, err := s.Now(t.Context())
	if want := time.Date(2026, 3, 1, 11, 0, 0, 1000, time.UTC); err != nil || now != want {
		t.Errorf("Now = %v, %v; want %v", now, err, want)
	}
}

// BenchmarkBacklog takes 100,000 deliveries of one endpoint through a first
// attempt that fails and a second that succeeds.
func BenchmarkBacklog(b *testing.B) {
	for b.Loop() {
		s := memory.New(memory.Options{})
		endpoint := backlog(b, s, store.NewIDs(time.Now, nil), 100_000)
		attempt(b, s, store.Want{Endpoint: endpoint, Lane: postrider.LaneFirst}, postrider.Transition{To: postrider.Pending})
		attempt(b, s, store.Want{Endpoint: endpoint, Lane: postrider.LaneRetry}, postrider.Transition{To: postrider.Delivered})
	}
}

// attempt claims and settles a hundred deliveries at a time until the lane is empty. After each
// it asks which lanes are due.
func attempt(b *testing.B, s *memory.Store, w store.Want, t postrider.Transition) {
	b.Helper()
	w.N, w.Lease = 100, time.Minute
	for token := postrider.Token(1); ; token++ {
		claims := claim(b, s, store.Claim{Wants: []store.Want{w}, Token: token})
		if len(claims.Items) == 0 {
			return
		}
		w.After = claims.Lanes[0].Low
		var settlements []store.Settlement
		for _, c := range claims.Items {
			settlements = append(settlements, store.Settlement{Claimed: c, Transition: t})
		}
		if _, err := s.Settle(b.Context(), settlements); err != nil {
			b.Fatal(err)
		}
		if _, err := s.Due(b.Context(), store.Due{Max: 100}); err != nil {
			b.Fatal(err)
		}
	}
}
