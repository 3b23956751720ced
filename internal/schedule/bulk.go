package schedule

import "time"

// bulkLimiter limits how fast the node starts deliveries of the bulk lanes, so that a large fan-out
// or replay does not delay other events. It is a token bucket. Its rate follows the load of the
// processors, four times a second:
//
//	goroutines wait over 1 ms            two fifths less
//	they wait over 0.1 ms, and urgent
//	deliveries started within a second   15 % less
//	the rate was used up                 10 % more
//	it was not                           back towards 1,500 a second
//
// Example: a fan-out to 100,000 endpoints begins at 1,500 a second. On an idle machine the rate
// doubles every 2 s. If there are urgent deliveries too, the rate settles where those begin to
// wait.
type bulkLimiter struct {
	slots    *slots
	rate     float64 // deliveries a second; set by the first refill
	tokens   float64
	refilled time.Time // zero: never
	short    bool      // allows found too few tokens since the last adjust
	urgentAt time.Time // when a delivery of another lane last started
	asked    int       // bulk deliveries that the claim under way asks for
	waiting  queue     // endpoints whose bulk deliveries wait for the rate
}

const (
	minBulkRate     = 600    // deliveries a second, even if the processors are always overloaded
	initialBulkRate = 1500   // deliveries a second at the start of a burst
	maxBulkRate     = 20_000 // deliveries a second
	// Between two looks at endpoints that wait for the rate; short, so that bursts are small.
	bulkStep  = 2 * time.Millisecond
	bulkAhead = 100 * time.Millisecond // time for which prefetched bulk deliveries last
)

func (b *bulkLimiter) refill(now time.Time) {
	if b.refilled.IsZero() {
		b.rate = initialBulkRate
	} else {
		b.tokens = min(b.tokens+b.rate*now.Sub(b.refilled).Seconds(), b.rate/20)
	}
	b.refilled = now
}

// allows reports whether a bulk delivery may start.
func (b *bulkLimiter) allows(now time.Time) bool {
	b.refill(now)
	b.short = b.short || b.tokens < 1
	return b.tokens >= 1
}

// adjust sets the rate, four times a second. An unused rate returns to its initial value, because
// the next burst must not begin at the rate that the last one reached.
func (b *bulkLimiter) adjust(now time.Time, l Load) {
	switch {
	case l.Saturated:
		b.rate *= 0.6
	case l.Crowded && now.Sub(b.urgentAt) < time.Second:
		b.rate *= 0.85
	case b.short:
		b.rate *= 1.1
	default:
		b.rate = min(max(b.rate*0.85, initialBulkRate), b.rate*1.1)
	}
	b.short = false
	b.rate = min(max(b.rate, minBulkRate), maxBulkRate)
}

// free returns how many more bulk deliveries may be leased: as many as start within bulkAhead, and
// at most half of the deliveries that the node may prefetch.
func (b *bulkLimiter) free() int {
	soon := max(b.rate, minBulkRate) * bulkAhead.Seconds()
	return min(int(soon), max(1, b.slots.limit/2)) - b.slots.leased[bulkLane]
}

// mayPrefetch reports whether the endpoint may lease one more bulk delivery. Bulk may use at most
// half of the endpoint's credit, so that some is left for first attempts. It must also leave as
// many bulk leases for other endpoints as it has itself.
func (b *bulkLimiter) mayPrefetch(now time.Time, ep *endpoint) bool {
	free, has := b.free(), len(ep.prefetched[bulkLane])+ep.asked[bulkLane]
	return free > 0 && has < max(1, min(free, b.slots.creditLimit(now, ep)/2))
}

// resumable returns how many waiting endpoints to review: one for each token.
func (b *bulkLimiter) resumable(now time.Time) int {
	if b.waiting.len() == 0 || !b.allows(now) {
		return 0
	}
	return min(int(b.tokens), b.waiting.len())
}
