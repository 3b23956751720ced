package postrider

import "time"

// Attempt is one HTTP request for a delivery and its response. If its Outcome is [OutcomeNone], it
// is a decision without a request. The sender fills in the request and the response. The dispatcher
// adds the identifiers. The store adds Stale, StatusAfter and NextAt when it settles the attempt.
type Attempt struct {
	Delivery     DeliveryID
	Event        EventID
	Endpoint     EndpointID
	Number       int // counts from 1; no two attempts of a delivery have the same number
	Outcome      Outcome
	StatusCode   int           // 0: no response
	RetryAfter   time.Duration // value in a 429 or 5xx response; 0: the response had none
	StartedAt    time.Time     // OutcomeLost: when the loss was noticed; OutcomeNone: when the decision was made
	Duration     time.Duration // from the DNS lookup to the last byte of the response
	Timing       Timing        // the parts of Duration
	Error        string        // a [Failure], with no detail that the endpoint's owner may not see; empty: accepted
	FinalURL     string        // URL that redirects led to, without its query; empty: there were no redirects
	RequestHead  []byte        // as sent, with signatures and credentials [Masked]
	ResponseHead []byte        // as received, at most 16 KiB, with credentials [Masked]
	ResponseBody []byte        // as received, at most 16 KiB
	// True: the attempt uses up no place in the retry schedule and says nothing about the endpoint;
	// set by the sender, not stored.
	Excused bool
	Ask     ReceiverAsk // what the receiver asked for; set by the sender if the server allows it, not stored
	// True: another node had taken over the lease when the attempt was settled, so the attempt
	// changed nothing.
	Stale bool
	// Status of the delivery after this attempt; Pending for a stale or lost attempt, which changes
	// no status.
	StatusAfter Status
	NextAt      time.Time // time of the delivery's next attempt; zero: none is scheduled
}

// ReceiverAsk is what a receiver asks for in the header webhook-delivery of a response that is not 2xx.
type ReceiverAsk string

// What a receiver may ask for. Empty: nothing.
const (
	AskAbort   ReceiverAsk = "abort"   // no further attempt of this delivery
	AskDisable ReceiverAsk = "disable" // the same, and the endpoint is disabled
)

// Outcome classifies an attempt. [Settle] uses it to decide what happens to the delivery, and
// [Breaker] to decide what happens to the endpoint.
type Outcome string

// The outcomes. After accepted, gone and none there is no retry. After any other outcome there is a
// retry while the policy has one left.
const (
	// OutcomeAccepted: a 2xx status. The delivery is delivered, and the endpoint's
	// failures in a row start from 0.
	OutcomeAccepted Outcome = "accepted"
	// OutcomeRejected: a status that no other outcome covers. With DeadLetterClientErrors, most 4xx
	// statuses end the delivery.
	OutcomeRejected Outcome = "rejected"
	// OutcomeGone: status 410. The delivery is dead and the endpoint is disabled.
	OutcomeGone Outcome = "gone"
	// OutcomeThrottled: status 429, 502, 503 or 504, or another 5xx with a Retry-After. The
	// endpoint gets fewer attempts at a time, and no attempt before the time of its Retry-After.
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
	// OutcomeLost: the node died before it recorded the attempt. The node that takes over the lease
	// records it. The request may have been sent. A lost attempt uses up no place in the retry
	// schedule and says nothing about the endpoint. Nobody knows when it began: StartedAt is when
	// its loss was noticed, and Duration is 0.
	OutcomeLost Outcome = "lost"
	// OutcomeNone: a decision without a request, for example that the delivery has
	// expired.
	OutcomeNone Outcome = "none"
)

// OutcomePostponed is the outcome of an attempt that one of [ServerFailures] prevented. No byte of
// a request left. This outcome is never recorded. The delivery keeps its place in the retry
// schedule and its lease is given back. The endpoint gets its next attempt after a back-off of
// [PostponedAtFirst] to [PostponedAtMost].
const OutcomePostponed Outcome = "postponed"

// The bounds of the back-off of an endpoint after a postponed attempt. It begins with
// PostponedAtFirst and doubles with each postponed attempt in a row.
const (
	PostponedAtFirst = time.Second
	PostponedAtMost  = 30 * time.Second
)

// Failed reports whether a request was made and the endpoint did not accept it.
func (o Outcome) Failed() bool {
	return o != OutcomeAccepted && o != OutcomeLost && o != OutcomeNone
}

// Outcomes lists every outcome.
var Outcomes = []Outcome{
	OutcomeAccepted, OutcomeRejected, OutcomeGone, OutcomeThrottled, OutcomeUnreachable,
	OutcomeTimedOut, OutcomeBroken, OutcomeBlocked, OutcomeLost, OutcomeNone,
}

// Classify returns the outcome of a response with the given status code and Retry-After; a
// retryAfter of 0 means that the response had none. The statuses 429, 502, 503 and 504 mean that
// the receiver, or a server behind its proxy, is overloaded. Every other 5xx with a Retry-After
// means the same.
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

// HonoursRetryAfter reports whether Postrider honours a Retry-After in a response with the status
// code: it does in a 429 and in every 5xx.
func HonoursRetryAfter(statusCode int) bool {
	return statusCode == 429 || statusCode >= 500 && statusCode <= 599
}
