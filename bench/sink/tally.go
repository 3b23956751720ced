package main

import (
	"encoding/json"
	"slices"
	"sync"
	"time"
)

// tally counts what arrived and how long it took since it was published.
type tally struct {
	mu          sync.Mutex
	count       int64
	first, last time.Time
	latencies   []int32 // microseconds; the first maxLatencies of them
}

// maxLatencies bounds the memory of a run to 16 MB.
const maxLatencies = 4 << 20

func (t *tally) add(at, created time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count == 0 {
		t.first = at
	}
	t.count++
	t.last = at
	if !created.IsZero() && len(t.latencies) < maxLatencies {
		t.latencies = append(t.latencies, int32(min(at.Sub(created).Microseconds(), 1<<31-1)))
	}
}

func (t *tally) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count, t.first, t.last, t.latencies = 0, time.Time{}, time.Time{}, nil
}

// report is the JSON of /stats: lab.SinkStats reads it.
func (t *tally) report() []byte {
	t.mu.Lock()
	latencies := slices.Clone(t.latencies)
	answer := map[string]any{"count": t.count, "first_at": t.first, "last_at": t.last}
	t.mu.Unlock()

	slices.Sort(latencies)
	for name, share := range map[string]float64{"p50_us": 0.50, "p95_us": 0.95, "p99_us": 0.99} {
		answer[name] = 0
		if len(latencies) > 0 {
			answer[name] = latencies[int(share*float64(len(latencies)-1))]
		}
	}
	body, err := json.Marshal(answer)
	if err != nil {
		return []byte("{}") // numbers and times always encode
	}
	return body
}
