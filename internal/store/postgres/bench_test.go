package postgres_test

import (
	"testing"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

const benchBatch = 100

// One event of 1 KB with one delivery that is stored leased, in batches.
func BenchmarkPublish(b *testing.B) {
	s := newShop(b, freshDSN(b))
	for b.Loop() {
		b.StopTimer()
		batch := s.batch(benchBatch, 1<<32|1)
		b.StartTimer()
		publishBatch(b, s, batch)
	}
	perDelivery(b)
}

// Deliveries that are accepted at once, in batches.
func BenchmarkSettle(b *testing.B) {
	s := newShop(b, freshDSN(b))
	token := postrider.Token(1 << 32)
	for b.Loop() {
		b.StopTimer()
		token++
		batch := s.batch(benchBatch, token)
		publishBatch(b, s, batch)
		settlements := s.settlements(batch, token)
		b.StartTimer()
		if _, err := s.Settle(b.Context(), settlements); err != nil {
			b.Fatal(err)
		}
	}
	perDelivery(b)
}

func publishBatch(b *testing.B, s *shop, batch store.Batch) {
	b.Helper()
	if _, err := s.Publish(b.Context(), store.Publish{Version: 1, Batches: []store.Batch{batch}}); err != nil {
		b.Fatal(err)
	}
}

func perDelivery(b *testing.B) {
	b.Helper()
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchBatch, "ns/delivery")
}
