package postrider

import "time"

// Rate is a rate limit: in the time Per, as many as Attempts attempts may start. The zero Rate is
// unlimited.
type Rate struct {
	Attempts int           // from 1 to 100,000
	Per      time.Duration // from 1 s to an hour
	Burst    int           // attempts that may start at once; 0: a tenth of Attempts, at least 1
}

// Interval returns the time between two attempts at the rate.
func (r Rate) Interval() time.Duration { return r.Per / time.Duration(r.Attempts) }

// burst returns how many attempts may start at once.
func (r Rate) burst() int {
	if r.Burst > 0 {
		return r.Burst
	}
	return max(1, r.Attempts/10)
}

// Bucket is the token bucket of an endpoint with a [Rate]. It holds at most as many tokens as the
// rate's burst. An attempt takes a token, and each interval adds one. Its state is a single time,
// which is cheap to store (the generic cell rate algorithm, ITU-T I.371). The zero Bucket is full.
type Bucket struct {
	FullAt time.Time // when the bucket will be full if no attempt starts
}

// ReadyAt returns the earliest start of the next attempt. If it is not after now, the attempt may
// start now.
func (b Bucket) ReadyAt(r Rate) time.Time {
	return b.FullAt.Add(-time.Duration(r.burst()-1) * r.Interval())
}

// Take takes a token at now.
func (b *Bucket) Take(r Rate, now time.Time) {
	if b.FullAt.Before(now) {
		b.FullAt = now
	}
	b.FullAt = b.FullAt.Add(r.Interval())
}

// Empty returns a bucket without a token at now.
func (r Rate) Empty(now time.Time) Bucket {
	return Bucket{FullAt: now.Add(time.Duration(r.burst()) * r.Interval())}
}

// Restore returns the bucket that was stored as fullAt. If the rate has changed since, the bucket
// may seem to lack more tokens than it can hold. Then it is empty.
func (r Rate) Restore(fullAt, now time.Time) Bucket {
	if empty := r.Empty(now); fullAt.After(empty.FullAt) {
		return empty
	}
	return Bucket{FullAt: fullAt}
}
