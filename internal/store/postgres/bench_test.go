package postgres_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/testkit"
)

const benchBatch = 100

// BenchmarkPublish publishes batches of events of 1 KB. Each event has one delivery, which is
// stored leased.
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

// BenchmarkSettle settles batches of deliveries that are accepted at once.
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

const benchGroup = 60

// BenchmarkDelivery publishes and settles groups of deliveries that are accepted at once, several
// groups at a time. It measures the CPU time of the server, independent of other work on the
// machine.
func BenchmarkDelivery(b *testing.B) {
	for _, terms := range []int{0, 5} {
		b.Run(fmt.Sprintf("%d terms", terms), func(b *testing.B) { benchmarkDelivery(b, terms) })
	}
}

func benchmarkDelivery(b *testing.B, terms int) {
	b.Helper()
	s := newShop(b, freshDSN(b))
	var tokens atomic.Int64
	tokens.Store(1 << 32)
	before := serverCPU(b)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			token := postrider.Token(tokens.Add(1))
			batch := s.batch(benchGroup, token)
			for i := range batch {
				for range terms {
					batch[i].Terms = append(batch[i].Terms, store.Term(rand.Uint64()))
				}
			}
			publishBatch(b, s, batch)
			if _, err := s.Settle(b.Context(), s.settlements(batch, token)); err != nil {
				b.Error(err)
			}
		}
	})
	n := float64(b.N) * benchGroup
	b.ReportMetric(float64((serverCPU(b)-before).Microseconds())/n, "µs-cpu/delivery")
	b.ReportMetric(n/b.Elapsed().Seconds(), "deliveries/s")
}

// serverCPU returns the CPU time of the shared cluster's processes, with those that have ended.
func serverCPU(b *testing.B) time.Duration {
	b.Helper()
	pidFile, err := os.ReadFile(filepath.Join(filepath.Dir(testkit.SharedCluster(b).Socket()), "data", "postmaster.pid"))
	if err != nil {
		b.Fatal(err)
	}
	postmaster, _, _ := strings.Cut(string(pidFile), "\n")
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	ticks := 0
	for _, path := range stats {
		stat, _ := os.ReadFile(path) // empty if the process has ended
		name := bytes.LastIndexByte(stat, ')')
		fields := strings.Fields(string(stat[name+1:])) // from the third field on
		counted := 0
		switch {
		case strings.HasPrefix(string(stat), postmaster+" "):
			counted = 4 // its own fields, and those of its children that have ended
		case len(fields) > 1 && fields[1] == postmaster:
			counted = 2
		}
		for i := range counted {
			n, _ := strconv.Atoi(fields[11+i])
			ticks += n
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// benchEndpoints is how many endpoints a fold of [BenchmarkFoldRollups] has. Each needs two rollups.
const benchEndpoints = 500

// BenchmarkFoldRollups folds the durations of endpoints whose rollups exist already, which is what
// nearly every fold of a busy node does.
func BenchmarkFoldRollups(b *testing.B) {
	s := newShop(b, freshDSN(b))
	seen := make([]store.Seen, benchEndpoints)
	for i := range seen {
		seen[i].DeltaKey = store.DeltaKey{
			Account: s.endpoint.Account, Endpoint: store.NewID[postrider.EndpointID](s.ids), Type: "order.created",
		}
		seen[i].At = time.Now()
		for n := range 20 {
			seen[i].Responses.Add(time.Duration(i+n) * time.Millisecond)
			seen[i].Latencies.Add(time.Duration(i+2*n) * time.Millisecond)
		}
	}
	fold := func() {
		if _, err := s.FoldRollups(b.Context(), store.Fold{Seen: seen}); err != nil {
			b.Fatal(err)
		}
	}
	fold()
	b.ReportAllocs()
	for b.Loop() {
		fold()
	}
}
