package postrider

import "time"

// Attempt is one HTTP request for a delivery and its response. If its Outcome is
// [OutcomeNone], it is a decision without a request. The sender fills in the
// request and the response; the dispatcher adds the identifiers; the store adds
// Stale, StatusAfter and NextAt when it settles the attempt.
type Attempt struct {
	Delivery     DeliveryID
	Event        EventID
	Endpoint     EndpointID
	Number       int // from 1; no two attempts of a delivery have the same number
	Outcome      Outcome
	StatusCode   int           // 0: no response
	RetryAfter   time.Duration // of a 429 or 5xx response; 0: it had none
	StartedAt    time.Time     // if lost: when the loss was noticed; if none: when it was decided
	Duration     time.Duration // from the DNS lookup to the last byte of the response
	Timing       Timing        // what Duration was spent on
	Error        string        // a [Failure], and no more than the endpoint's owner may see; empty: accepted
	FinalURL     string        // URL that redirects led to, without its query; empty: there were no redirects
	RequestHead  []byte        // as sent, with signatures and credentials [Masked]
	ResponseHead []byte        // as received, at most 16 KiB, with credentials [Masked]
	ResponseBody []byte        // as received, at most 16 KiB
	Excused      bool          // it uses up no place in the retry schedule and says nothing about the endpoint; set by the sender, not stored
	Stale        bool          // another node had taken the lease over when the attempt was settled: it changed nothing
	StatusAfter  Status        // of the delivery, as this attempt left it; pending if Stale or lost: those move nothing
	NextAt       time.Time     // time of the delivery's next attempt; zero: there is none
}

// Outcome classifies an attempt. [Settle] decides by it what follows for the
// delivery, and [Breaker] what follows for the endpoint.
type Outcome string

// The outcomes. All but accepted, gone and none are followed by a retry while the
// policy has one left.
const (
	// OutcomeAccepted: a 2xx status. The delivery is delivered, and the endpoint's
	// failures in a row start from 0.
	OutcomeAccepted Outcome = "accepted"
	// OutcomeRejected: any status that is not one of the others. The policy may
	// make a 4xx end the delivery.
	OutcomeRejected Outcome = "rejected"
	// OutcomeGone: status 410. The delivery is dead and the endpoint is disabled.
	OutcomeGone Outcome = "gone"
	// OutcomeThrottled: 429, 502, 503 or 504, or another 5xx with a Retry-After. The
	// endpoint gets fewer attempts at a time, and none before its Retry-After.
	OutcomeThrottled Outcome = "throttled"
	// OutcomeUnreachable: no connection, so nothing was sent.
	OutcomeUnreachable Outcome = "unreachable"
	// OutcomeTimedOut: the endpoint's timeout passed. The receiver may have
	// processed the request.
	OutcomeTimedOut Outcome = "timed_out"
	// OutcomeBroken: the connection broke after sending began. The receiver may have
	// processed the request.
	OutcomeBroken Outcome = "broken"
	// OutcomeBlocked: the egress guard refused the address; nothing was sent.
	OutcomeBlocked Outcome = "blocked"
	// OutcomeLost: the node died before it recorded the attempt. The node that takes
	// the lease over writes it. The request may have been sent. It uses up no place
	// in the retry schedule and says nothing about the endpoint. Nobody knows when the
	// attempt began: StartedAt is when its loss was noticed, and Duration is 0.
	OutcomeLost Outcome = "lost"
	// OutcomeNone: a decision without a request, for example that the delivery has
	// expired.
	OutcomeNone Outcome = "none"
)

// OutcomePostponed is the outcome of an attempt that was not made, because of one of
// [ServerFailures]: no byte of a request left. It is never recorded. The lease is given
// back, so nothing of the delivery is used up, and the endpoint gets its next attempt
// after a back-off of [PostponedAtFirst] to [PostponedAtMost].
const OutcomePostponed Outcome = "postponed"

// The first wait of an endpoint after a postponed attempt, and the longest: each attempt
// that is postponed again doubles it.
const (
	PostponedAtFirst = time.Second
	PostponedAtMost  = 30 * time.Second
)

// Failed reports whether the outcome is that of a request that the endpoint did not accept.
func (o Outcome) Failed() bool {
	return o != OutcomeAccepted && o != OutcomeLost && o != OutcomeNone
}

// Outcomes lists every outcome.
var Outcomes = []Outcome{
	OutcomeAccepted, OutcomeRejected, OutcomeGone, OutcomeThrottled, OutcomeUnreachable,
	OutcomeTimedOut, OutcomeBroken, OutcomeBlocked, OutcomeLost, OutcomeNone,
}

// Classify returns the outcome of a response with the given status code and
// Retry-After; 0 means that it had none. 429, 502, 503 and 504 mean that the
// receiver, or a server behind its proxy, is overloaded. Every other 5xx with a
// Retry-After means the same.
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

// HonoursRetryAfter reports whether a Retry-After is honoured in a response with
// the status code: in a 429 and in every 5xx.
func HonoursRetryAfter(statusCode int) bool {
	return statusCode == 429 || statusCode >= 500 && statusCode <= 599
}
