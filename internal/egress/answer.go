package egress

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/postrider/postrider"
)

// judgeAnswer says what an answer means. Its status decides. The body does
// not: a 2xx is accepted also when its body is cut, or has not ended when the
// attempt's time is over, since the receiver has said that it has the event. What
// came of such a body is kept, and its connection is closed.
func judgeAnswer(a *postrider.Attempt, h answerHead, now time.Time) {
	code := h.status
	a.StatusCode = code
	if postrider.HonoursRetryAfter(code) {
		a.RetryAfter = ParseRetryAfter(string(h.retryAfter), string(h.date), now)
	}
	a.Outcome = postrider.Classify(code, a.RetryAfter)
	switch {
	case a.Outcome == postrider.OutcomeAccepted:
	case code < 200:
		a.Error = string(postrider.FailureBadResponse)
	case code >= 300 && code <= 399:
		a.Error = string(postrider.FailureRedirect) + target(h.location)
	default:
		a.Error = statusError(code)
	}
}

func statusError(code int) string {
	text := string(postrider.FailureStatus) + ": " + strconv.Itoa(code)
	if name := http.StatusText(code); name != "" {
		text += " " + name
	}
	return text
}

// maxShown bounds what is shown of a location.
const maxShown = 1024

// target says where a redirect points, as the end of an error: ": to" and the
// location without user, query and fragment, which may hold credentials. Of a
// path with unusual characters only the host is shown, and of an unusual host
// nothing.
func target(location []byte) string {
	u, err := url.Parse(string(location))
	if err != nil || len(location) > maxURL || u.Opaque != "" || (u.Scheme != "" && u.Host == "") {
		return ""
	}
	shown := finalURL(&url.URL{Scheme: u.Scheme, Host: strings.ToLower(u.Host)})
	if strings.ContainsFunc(shown, unlike(hostBytes)) {
		return ""
	}
	if whole := shown + u.EscapedPath(); len(whole) <= maxShown && !strings.ContainsFunc(whole, unlike(hostBytes+pathBytes)) {
		shown = whole
	}
	if shown == "" {
		return ""
	}
	return ": to " + shown
}

const (
	hostBytes = "abcdefghijklmnopqrstuvwxyz0123456789-._:/[]"
	pathBytes = "ABCDEFGHIJKLMNOPQRSTUVWXYZ~%@!$()*+,;="
)

func unlike(allowed string) func(rune) bool {
	return func(r rune) bool { return !strings.ContainsRune(allowed, r) }
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
