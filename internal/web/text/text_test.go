package text

import (
	"testing"
	"time"
)

// Relative times are rounded, and as exact as the time is near: an overlap of two hours is
// said to end in two hours, not in one.
func TestTextOfRelativeTimes(t *testing.T) {
	t.Parallel()
	texts := New()
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		ahead   time.Duration
		english string
		german  string
	}{
		{0, "now", "jetzt"},
		{-900 * time.Millisecond, "now", "jetzt"},
		{1400 * time.Millisecond, "in 1 s", "in 1 s"},
		{-59600 * time.Millisecond, "60 s ago", "vor 60 s"},
		{119400 * time.Millisecond, "in 119 s", "in 119 s"},
		{119500 * time.Millisecond, "in 2 min", "in 2 min"},
		{-149 * time.Second, "2 min ago", "vor 2 min"},
		{-151 * time.Second, "3 min ago", "vor 3 min"},
		{90 * time.Minute, "in 90 min", "in 90 min"},
		{2*time.Hour - time.Second, "in 2 h", "in 2 h"},
		{-47 * time.Hour, "47 h ago", "vor 47 h"},
		{48*time.Hour - time.Minute, "in 2 d", "in 2 d"},
		{30*24*time.Hour - time.Second, "in 30 d", "in 30 d"},
	} {
		for language, want := range map[string]string{"en": test.english, "de": test.german} {
			if got := texts.Choose(language).Relative(now.Add(test.ahead), now); got != want {
				t.Errorf("%v ahead in %s is %q, want %q", test.ahead, language, got, want)
			}
		}
	}
}

// A length of time is rounded to the smaller of its two units, which may carry to the next.
func TestTextOfDurations(t *testing.T) {
	t.Parallel()
	english := New().Choose("en")
	for d, want := range map[time.Duration]string{
		0:                              "0 ms",
		1234 * time.Microsecond:        "1 ms",
		9996 * time.Millisecond:        "10 s",
		59700 * time.Millisecond:       "1 min",
		2*time.Hour - time.Millisecond: "2 h",
		26*time.Hour + 40*time.Minute:  "1 d 3 h",
		24*time.Hour - 10*time.Second:  "1 d",
		3661 * time.Second:             "1 h 1 min",
		-90 * time.Second:              "−1 min 30 s",
	} {
		if got := english.Duration(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
	for ms, want := range map[int64]string{0: "< 1 ms", 1: "1 ms", 1500: "1.5 s"} {
		if got := english.Measured(ms); got != want {
			t.Errorf("%d ms is %q, want %q", ms, got, want)
		}
	}
}
