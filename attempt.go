package postrider

import "time"

// Attempt is one HTTP request made for a delivery, with what came back; or,
// when its Outcome is [OutcomeNone], a decision made without a request.
type Attempt struct {
	Delivery     DeliveryID
	Event        EventID
	Endpoint     EndpointID
	Number       int // from 1, unique in its delivery
	Outcome      Outcome
	StatusCode   int           // 0: no answer
	RetryAfter   time.Duration // what a 429 or 5xx asked for; 0: nothing
	StartedAt    time.Time
	Duration     time.Duration // DNS to last body byte
	Error        string        // a class and no more than its owner may see; empty when accepted
	FinalURL     string        // where redirects led to, without its query; empty: there were none
	RequestHead  []byte        // as sent, without signatures and credentials
	ResponseHead []byte        // as received, at most 16 KiB
	ResponseBody []byte        // as received, at most 16 KiB
	Stale        bool          // its lease had been taken by another when it settled
	StatusAfter  Status
	NextAt       time.Time // when the next attempt is due; zero: none is
}

// Outcome is what one attempt showed.
type Outcome string

// The outcomes.
const (
	OutcomeAccepted    Outcome = "accepted"    // 2xx
	OutcomeRejected    Outcome = "rejected"    // any other answer
	OutcomeGone        Outcome = "gone"        // 410
	OutcomeThrottled   Outcome = "throttled"   // 429, 502, 503 or 504, or another 5xx with Retry-After
	OutcomeUnreachable Outcome = "unreachable" // nothing was sent
	OutcomeTimedOut    Outcome = "timed_out"   // the deadline passed
	OutcomeBroken      Outcome = "broken"      // cut after sending began
	OutcomeBlocked     Outcome = "blocked"     // refused by the guard; nothing was sent
	OutcomeLost        Outcome = "lost"        // its node died
	OutcomeNone        Outcome = "none"        // a decision without a request
)

// Outcomes lists every outcome there is.
var Outcomes = []Outcome{
	OutcomeAccepted, OutcomeRejected, OutcomeGone, OutcomeThrottled, OutcomeUnreachable,
	OutcomeTimedOut, OutcomeBroken, OutcomeBlocked, OutcomeLost, OutcomeNone,
}

// Classify returns the outcome of an answer with the given status code and
// Retry-After. 429, 502, 503 and 504 say that there is too much to do, at the
// receiver or behind its proxy; so does every 5xx that says when to come again.
func Classify(statusCode int, retryAfter time.Duration) Outcome {
	switch {
	case statusCode >= 200 && statusCode <= 299:
		return OutcomeAccepted
	case statusCode == 410:
		return OutcomeGone
	case statusCode == 429, statusCode >= 502 && statusCode <= 504, HonoursRetryAfter(statusCode) && retryAfter > 0:
		return OutcomeThrottled
	}
	return OutcomeRejected
}

// HonoursRetryAfter reports whether a Retry-After counts in an answer with the
// status code: in a 429 and in every 5xx.
func HonoursRetryAfter(statusCode int) bool {
	return statusCode == 429 || statusCode >= 500 && statusCode <= 599
}
