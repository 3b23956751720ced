package postrider_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/postrider/postrider"
)

// starts returns the start times of n attempts that are all ready at the beginning.
func starts(r postrider.Rate, b postrider.Bucket, n int) (after []time.Duration) {
	now := noon
	for range n {
		if ready := b.ReadyAt(r); ready.After(now) {
			now = ready
		}
		b.Take(r, now)
		after = append(after, now.Sub(noon))
	}
	return after
}

func TestARateSpacesAttempts(t *testing.T) {
	t.Parallel()
	hourly := postrider.Rate{Attempts: 1, Per: hour}
	tenth := postrider.Rate{Attempts: 20, Per: 20 * sec}
	for _, tt := range []struct {
		name   string
		rate   postrider.Rate
		bucket postrider.Bucket
		want   []time.Duration
	}{
		{"a fresh endpoint is sent to at once", hourly, postrider.Bucket{}, []time.Duration{0, hour, 2 * hour}},
		{"a tenth may start at once", tenth, postrider.Bucket{}, []time.Duration{0, 0, sec, 2 * sec}},
		{
			"or as many as the burst says",
			postrider.Rate{Attempts: 60, Per: mins, Burst: 3},
			postrider.Bucket{},
			[]time.Duration{0, 0, 0, sec, 2 * sec},
		},
		{
			"a burst of one spaces all of them",
			postrider.Rate{Attempts: 60, Per: mins, Burst: 1},
			postrider.Bucket{},
			[]time.Duration{0, sec, 2 * sec},
		},
		{"an empty bucket waits for one token", tenth, tenth.Empty(noon), []time.Duration{sec, 2 * sec, 3 * sec}},
		{"a stored one goes on where it was", hourly, hourly.Restore(noon.Add(10*mins), noon), []time.Duration{10 * mins, 70 * mins}},
		{"one that was stored long ago is full", tenth, tenth.Restore(noon.Add(-hour), noon), []time.Duration{0, 0, sec}},
		{"one that was stored by a slower rate is empty at most", tenth, tenth.Restore(noon.Add(hour), noon), []time.Duration{sec, 2 * sec}},
	} {
		if got := starts(tt.rate, tt.bucket, len(tt.want)); !slices.Equal(got, tt.want) {
			t.Errorf("%s: attempts start after %v, want %v", tt.name, got, tt.want)
		}
	}
}

// In any span of time, no more attempts start than the rate allows in that time plus its burst. No
// attempt waits longer than necessary.
func TestARateHoldsInEverySpan(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := postrider.Rate{
			Attempts: rapid.IntRange(1, 1000).Draw(t, "attempts"),
			Per:      time.Duration(rapid.Int64Range(int64(sec), int64(hour)).Draw(t, "per")),
		}
		r.Burst = rapid.IntRange(0, r.Attempts).Draw(t, "burst")
		burst := max(1, r.Attempts/10)
		if r.Burst > 0 {
			burst = r.Burst
		}
		var b postrider.Bucket
		var started []time.Time
		for now, n := noon, 0; n < 200; n++ {
			now = now.Add(time.Duration(rapid.Int64Range(0, 2*int64(r.Interval())).Draw(t, "pause")))
			if b.ReadyAt(r).After(now) {
				if b.ReadyAt(r).Sub(now) > r.Interval() {
					t.Fatalf("the next attempt waits for %v at one each %v", b.ReadyAt(r).Sub(now), r.Interval())
				}
				continue
			}
			b.Take(r, now)
			started = append(started, now)
		}
		for i := range started {
			for j := i; j < len(started); j++ {
				if most := burst + int(started[j].Sub(started[i])/r.Interval()); j-i+1 > most {
					t.Fatalf("%d attempts in %v at one each %v with a burst of %d", j-i+1, started[j].Sub(started[i]), r.Interval(), burst)
				}
			}
		}
	})
}
