package events

import (
	"testing"
	"testing/synctest"
	"time"
)

// A comparison is spread over its time, and never rests for less than half of its work.
func TestAComparisonIsSpreadOverItsTime(t *testing.T) {
	t.Parallel()
	const page = 250
	for _, tt := range []struct {
		name   string
		left   int
		worked time.Duration // for the page
		want   time.Duration // of a rest after 2 ms of work
	}{
		{"many events that cost little", 100_000, 4500 * time.Microsecond, 3 * time.Millisecond},
		{"many events that cost too much", 100_000, 20 * time.Millisecond, time.Millisecond},
		{"few events", 1000, 5 * time.Millisecond, 6 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := history{until: time.Now().Add(whatIfTime), left: tt.left, worked: tt.worked}
			h.pace(page)
			if got := time.Duration(h.rest * float64(2*time.Millisecond)).Round(time.Microsecond); got != tt.want {
				t.Errorf("%s: a rest of %v, want %v", tt.name, got, tt.want)
			}
		})
	}
}
