package filter_test

import (
	"encoding/json"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/filter"
)

// endpoints is the number of patterns in the benchmarks.
const endpoints = 10_000

// benchmarks are indexes of 10,000 patterns. Each pattern has three conditions, if not said
// otherwise.
var benchmarks = []struct {
	name    string
	pattern func(i int) string
}{
	{"ten of 10000 match", func(i int) string {
		return fmt.Sprintf(`{"data": {"status": ["paid"], "total": [{"numeric": [">", %d]}], "customer": {"id": ["c%d"]}}}`, i%10, i/10)
	}},
	{"rare value in metadata", func(i int) string {
		return fmt.Sprintf(`{"type": ["order.created"], "data": {"total": [{"numeric": [">", %d]}]}, "metadata": {"store": ["s%d"]}}`, i%100, i/10)
	}},
	{"all have one value", func(i int) string {
		return fmt.Sprintf(`{"data": {"status": ["paid"], "total": [{"numeric": [">", %d]}], "note": [{"prefix": "x%d"}]}}`, 100+i%7, i)
	}},
	{"few values", func(i int) string {
		return fmt.Sprintf(`{"data": {"status": ["%s"], "total": [{"numeric": [">", %d]}]}, "metadata": {"region": ["r%d"]}}`,
			[]string{"open", "paid", "sent"}[i%3], 1190+i, i%5)
	}},
	{"own field for each", func(i int) string {
		return fmt.Sprintf(`{"data": {"status": ["open"], "f%d": [{"exists": true}], "total": [{"numeric": [">", 1]}]}}`, i)
	}},
	{"prefixes", func(i int) string {
		return fmt.Sprintf(`{"data": {"note": [{"prefix": "%04d"}], "total": [{"numeric": [">", 1]}], "rush": [{"anything-but": "no"}]}}`, i)
	}},
	{"worst: ranges that do not hold", func(i int) string {
		return fmt.Sprintf(`{"data": {"total": [{"numeric": [">", %d]}], "tax": [{"numeric": [">", 1]}], "rush": [{"exists": true}]}}`, 10_000+i)
	}},
	{"worst: ranges that hold", func(i int) string {
		return fmt.Sprintf(`{"data": {"total": [{"numeric": [">", 1, "<", %d]}], "tax": [{"numeric": [">", 1]}], "rush": [{"exists": true}]}}`, 10_000+i)
	}},
}

// benchEvent is an event of about 1 KB.
func benchEvent(i int) *filter.Event {
	data := fmt.Sprintf(`{"status": "paid", "total": %d.50, "tax": 19, "rush": true, "note": "%04d please ring twice",
		"customer": {"id": "c%d", "email": "somebody@example.com"}, "items": [%s{"sku": "last", "quantity": 1}], "address": {"city": "Bern"}}`,
		200+i%1000, i%endpoints, i%1000, strings.Repeat(`{"sku": "A-1000", "quantity": 2, "price": 12.50}, `, 14))
	return &filter.Event{Type: "order.created", Data: []byte(data), Metadata: map[string]string{
		"store": fmt.Sprintf("s%d", i%1000), "region": fmt.Sprintf("r%d", i%5),
	}}
}

func newIndex(tb testing.TB, pattern func(int) string) *filter.Index[int] {
	tb.Helper()
	x := new(filter.Index[int])
	for i := range endpoints {
		x.Set(i, parse(tb, pattern(i)))
	}
	return x
}

func parse(tb testing.TB, pattern string) *filter.Pattern {
	tb.Helper()
	p, err := filter.Parse([]byte(pattern))
	if err != nil {
		tb.Fatalf("Parse(%s): %v", pattern, err)
	}
	return p
}

// BenchmarkIndex compares one event of 1 KB with 10,000 patterns, including its decoding.
func BenchmarkIndex(b *testing.B) {
	for _, bb := range benchmarks {
		b.Run(bb.name, func(b *testing.B) {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			x := newIndex(b, bb.pattern)
			runtime.GC()
			runtime.ReadMemStats(&after)
			var took []time.Duration
			found := 0
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				e := benchEvent(i)
				start := time.Now()
				found = len(x.Match(e, math.MaxInt))
				took = append(took, time.Since(start))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns")
			b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99-ns")
			b.ReportMetric(float64(found), "matches")
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/endpoints, "B/endpoint")
			runtime.KeepAlive(x)
		})
	}
}

func BenchmarkSet(b *testing.B) {
	x := newIndex(b, benchmarks[0].pattern)
	p := parse(b, benchmarks[0].pattern(1))
	for i := 0; b.Loop(); i++ {
		x.Set(i%endpoints, p)
	}
}

func BenchmarkParse(b *testing.B) {
	pattern := []byte(benchmarks[0].pattern(1))
	for b.Loop() {
		if _, err := filter.Parse(pattern); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLargeEvent compares an event of 256 KB with one pattern.
func BenchmarkLargeEvent(b *testing.B) {
	var data struct{ Items []map[string]any }
	for i := range 5000 {
		data.Items = append(data.Items, map[string]any{"sku": fmt.Sprint("A-", i), "quantity": 2, "price": 12.5})
	}
	encoded, err := json.Marshal(data)
	if err != nil {
		b.Fatal(err)
	}
	p := parse(b, `{"data": {"Items": {"sku": ["A-4999"], "quantity": [{"numeric": [">", 1]}]}}}`)
	b.SetBytes(int64(len(encoded)))
	for b.Loop() {
		if !p.Matches(&filter.Event{Data: encoded}) {
			b.Fatal("does not match")
		}
	}
}
