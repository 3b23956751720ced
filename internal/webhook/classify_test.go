package webhook_test

import (
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/webhook"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func TestParseRetryAfter(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, value, date string
		want              time.Duration
	}{
		{"nothing", "", "", 0},
		{"seconds", "120", "", 2 * time.Minute},
		{"zero", "0", "", 0},
		{"leading zeros", "0000120", "", 2 * time.Minute},
		{"a day", "86400", "", 24 * time.Hour},
		{"longer than a day", "86401", "", 24 * time.Hour},
		{"19 digits", "9999999999999999999", "", 24 * time.Hour},
		{"20 digits", "99999999999999999999", "", 0},
		{"megabytes", strings.Repeat("9", 1<<20), "", 0},
		{"negative", "-1", "", 0},
		{"a plus", "+1", "", 0},
		{"a fraction", "1.5", "", 0},
		{"an exponent", "1e300", "", 0},
		{"not a number", "NaN", "", 0},
		{"infinity", "Infinity", "", 0},
		{"hexadecimal", "0x10", "", 0},
		{"a space", " 5", "", 0},
		{"other digits", "٣", "", 0},
		{"NUL", "5\x00", "", 0},
		{"a date", "Mon, 04 May 2026 12:01:00 GMT", "", time.Minute},
		{"a date by the receiver's clock", "Mon, 04 May 2026 10:01:00 GMT", "Mon, 04 May 2026 10:00:00 GMT", time.Minute},
		{"a date and a Date of no form", "Mon, 04 May 2026 12:01:00 GMT", "yesterday", time.Minute},
		{"a date in the past", "Mon, 04 May 2026 11:59:59 GMT", "", 0},
		{"the year 9999", "Fri, 31 Dec 9999 23:59:59 GMT", "", 24 * time.Hour},
		{"centuries by the receiver's clock", "Fri, 31 Dec 9999 23:59:59 GMT", "Thu, 01 Jan 1600 00:00:00 GMT", 24 * time.Hour},
		{"another zone", "Mon, 04 May 2026 12:01:00 CET", "", 0},
		{"RFC 3339", "2026-05-04T12:01:00Z", "", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := webhook.ParseRetryAfter(tt.value, tt.date, noon); got != tt.want {
				t.Errorf("ParseRetryAfter = %v, want %v", got, tt.want)
			}
		})
	}
}

func FuzzParseRetryAfter(f *testing.F) {
	f.Add("120", "")
	f.Add("-1", "NaN")
	f.Add("Fri, 31 Dec 9999 23:59:59 GMT", "Mon, 04 May 2026 10:00:00 GMT")
	f.Fuzz(func(t *testing.T, value, date string) {
		if got := webhook.ParseRetryAfter(value, date, noon); got < 0 || got > postrider.MaxRetryAfter {
			t.Errorf("ParseRetryAfter(%q, %q) = %v", value, date, got)
		}
	})
}
