package main

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// class is a kind of request that has its own counts and its own answer.
type class struct {
	name   string
	open   atomic.Int64 // received requests that are not answered yet
	answer atomic.Pointer[answer]

	mu        sync.Mutex
	count     int64
	first     time.Time
	last      time.Time
	latencies []int32             // of each stride-th event, in microseconds
	stride    int64               // doubled when latencies is full; 0 is 1
	longest   time.Duration       // the longest latency
	again     time.Duration       // the longest latency of an event that had arrived before
	mark      time.Time           // when the load ended; zero: it has not
	oldest    time.Time           // earliest creation of an event that arrived after the mark
	ids       map[uint64]struct{} // hashes of the events' ids; nil: not counted
}

// maxLatencies bounds the memory of a class to 16 MB.
const maxLatencies = 4 << 20

// answer says how a class is answered.
type answer struct {
	after time.Duration
	never bool
	bytes []byte
}

func newAnswer(status int) *answer {
	text := fmt.Sprintf("HTTP/1.1 %d %s\r\n", status, http.StatusText(status))
	if status != http.StatusNoContent {
		text += "Content-Length: 0\r\n"
	}
	return &answer{bytes: []byte(text + "\r\n")}
}

// stats is the answer of the control. lab.SinkStats reads it.
type stats struct {
	Count    int64     `json:"count"`
	Distinct int64     `json:"distinct"`
	Open     int64     `json:"open"`
	FirstAt  time.Time `json:"first_at"`
	LastAt   time.Time `json:"last_at"`
	P50      int64     `json:"p50_us"`
	P95      int64     `json:"p95_us"`
	P99      int64     `json:"p99_us"`
	Longest  int64     `json:"longest_us"`
	Again    int64     `json:"again_us"`  // longest latency of an event that had arrived before
	Oldest   int64     `json:"oldest_us"` // age, at the mark, of the oldest event that arrived after it
}

var seed = maphash.MakeSeed()

func (c *class) add(at time.Time, opening []byte) {
	created := createdAt(opening)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count == 0 {
		c.first = at
	}
	c.count++
	c.last = at
	took := at.Sub(created)
	if c.ids != nil {
		id := maphash.Bytes(seed, field(opening, `"id":"`))
		if _, known := c.ids[id]; known {
			c.again = max(c.again, took)
			return
		}
		c.ids[id] = struct{}{}
	}
	if created.IsZero() {
		return
	}
	c.longest = max(c.longest, took)
	if c.count%max(1, c.stride) == 0 {
		c.latencies = append(c.latencies, int32(min(took.Microseconds(), 1<<31-1)))
	}
	if len(c.latencies) == maxLatencies {
		c.thinLocked()
	}
	if !c.mark.IsZero() && (c.oldest.IsZero() || created.Before(c.oldest)) {
		c.oldest = created
	}
}

// thinLocked keeps every second latency, so that the percentiles are those of the whole load.
func (c *class) thinLocked() {
	for i := range maxLatencies / 2 {
		c.latencies[i] = c.latencies[2*i]
	}
	c.latencies, c.stride = c.latencies[:maxLatencies/2], 2*max(1, c.stride)
}

func (c *class) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count, c.first, c.last, c.latencies, c.stride = 0, time.Time{}, time.Time{}, nil, 0
	c.longest, c.again = 0, 0
	c.mark, c.oldest = time.Time{}, time.Time{}
	if c.ids != nil {
		c.ids = map[uint64]struct{}{}
	}
}

// ended records that the load has ended.
func (c *class) ended(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mark = at
}

// counts returns the stats without the percentiles, which take time.
func (c *class) counts() stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.countsLocked()
}

func (c *class) countsLocked() stats {
	s := stats{
		Count: c.count, Distinct: int64(len(c.ids)), Open: c.open.Load(),
		FirstAt: c.first, LastAt: c.last,
		Longest: c.longest.Microseconds(), Again: c.again.Microseconds(),
	}
	if !c.oldest.IsZero() {
		s.Oldest = max(0, c.mark.Sub(c.oldest).Microseconds())
	}
	return s
}

func (c *class) stats() stats {
	c.mu.Lock()
	s, latencies := c.countsLocked(), slices.Clone(c.latencies)
	c.mu.Unlock()

	slices.Sort(latencies)
	if last := float64(len(latencies) - 1); last >= 0 {
		s.P50 = int64(latencies[int(0.50*last)])
		s.P95 = int64(latencies[int(0.95*last)])
		s.P99 = int64(latencies[int(0.99*last)])
	}
	return s
}

// createdAt returns the timestamp of an envelope; zero if there is none.
func createdAt(opening []byte) time.Time {
	at, err := time.Parse(time.RFC3339Nano, string(field(opening, `"timestamp":"`)))
	if err != nil {
		return time.Time{}
	}
	return at
}

// field returns the text from name to the next quotation mark.
func field(opening []byte, name string) []byte {
	_, rest, ok := bytes.Cut(opening, []byte(name))
	value, _, closed := bytes.Cut(rest, []byte(`"`))
	if !ok || !closed {
		return nil
	}
	return value
}
