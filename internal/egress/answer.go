package egress

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/postrider/postrider"
)

// judgeAnswer says what an answer means. Its status alone decides: a 2xx whose
// body is cut or never ends is accepted all the same, since the receiver said
// that it has the event.
func judgeAnswer(a *postrider.Attempt, h answerHead, now time.Time) {
	code := h.status
	a.StatusCode = code
	if code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable {
		a.RetryAfter = ParseRetryAfter(string(h.retryAfter), string(h.date), now)
	}
	a.Outcome = postrider.Classify(code, a.RetryAfter)
	switch {
	case a.Outcome == postrider.OutcomeAccepted:
	case code < 200:
		a.Error = classBadResponse
	case code >= 300 && code <= 399:
		a.Error = redirectError(string(h.location))
	default:
		a.Error = statusError(code)
	}
}

func statusError(code int) string {
	text := classStatus + ": " + strconv.Itoa(code)
	if name := http.StatusText(code); name != "" {
		text += " " + name
	}
	return text
}

// redirectError names the host that the answer points to, and no more of it.
func redirectError(location string) string {
	u, err := url.Parse(location)
	if err != nil || len(location) > maxURL {
		return classRedirect
	}
	host := strings.ToLower(u.Hostname())
	strange := func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789-._:", r)
	}
	if host == "" || len(host) > maxHost || strings.ContainsFunc(host, strange) {
		return classRedirect
	}
	return classRedirect + ": to " + host
}

// ParseRetryAfter returns how long a Retry-After header asks to wait (RFC 9110,
// 10.2.3): at most [postrider.MaxRetryAfter], and 0 for what cannot be read or
// lies in the past. A date is compared with the answer's own Date, so that the
// receiver's clock need not agree with ours; now stands in for one that is
// missing.
func ParseRetryAfter(value, date string, now time.Time) time.Duration {
	if value == "" {
		return 0
	}
	if len(value) <= 19 && strings.Trim(value, "0123456789") == "" {
		seconds, err := strconv.ParseUint(value, 10, 64)
		if err != nil || seconds > uint64(postrider.MaxRetryAfter/time.Second) {
			return postrider.MaxRetryAfter
		}
		return time.Duration(seconds) * time.Second
	}
	until, err := time.Parse(http.TimeFormat, value)
	if err != nil {
		return 0
	}
	if sent, err := time.Parse(http.TimeFormat, date); err == nil {
		now = sent
	}
	return min(max(until.Sub(now), 0), postrider.MaxRetryAfter)
}
