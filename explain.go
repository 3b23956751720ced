package postrider

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Explanation says why a delivery is in its state, what happens next, and when. Why, Next and
// Action are keys of translated texts; the other fields are values that the texts contain.
// [Explanation.String] returns the English text.
type Explanation struct {
	Why    string // status and reason of the delivery: "delivered", "dead.exhausted", "pending.scheduled"; see Whys
	Next   Next
	At     time.Time // time of Next; zero: the time is not known
	Action Action

	Attempt    int        // number of the next attempt, or of the last one if no more follow; 0: there was none
	StatusCode int        // status code of the last attempt; 0: it got no response, or there was no attempt
	Error      string     // error of the last attempt; empty: it was accepted, or there was no attempt
	For        DeliveryID // pending.ordering: the delivery that goes first
	Note       string     // why the endpoint is paused or disabled; empty: nobody gave a reason
	Limit      int        // pending.due: number of requests that the endpoint may have at once
	Rate       Rate       // pending.due: rate of the endpoint; zero: it has none
	Failure    Attempt    // pending.circuit_open: last failed attempt of the endpoint; zero: none is known
	Others     int        // pending.due: other pending deliveries of the endpoint, as far as they were counted
}

// Next is what happens to a delivery next if no person acts.
type Next string

// The values of Next.
const (
	NextAttempt Next = "attempt" // an attempt is made, at At or as soon as possible
	NextProbe   Next = "probe"   // the endpoint is probed at At; the delivery's attempt follows when a probe succeeds
	NextResult  Next = "result"  // the attempt under way ends
	NextCancel  Next = "cancel"  // the delivery is cancelled soon
	NextNothing Next = "nothing" // nothing, until a person acts
)

// Action is what a person can do to get the event delivered. Empty: nothing has to be done, or
// nothing helps.
type Action string

// The values of Action.
const (
	ToRelease      Action = "release"       // release or cancel the delivery
	ToResume       Action = "resume"        // resume the endpoint
	ToResumeStore  Action = "resume_store"  // resume the store, which is held after a restore
	ToEnable       Action = "enable"        // enable the endpoint
	ToSetPolicy    Action = "set_policy"    // set the endpoint's policy again
	ToRotateSecret Action = "rotate_secret" // give the endpoint a secret
	ToReplay       Action = "replay"        // replay the delivery
)

// ExplainFacts are the facts that [Explain] needs beside the delivery. If a field is zero, the
// explanation lacks what that field would add.
type ExplainFacts struct {
	Endpoint Endpoint
	Circuit  Circuit // circuit of the endpoint; needed with WaitDue and WaitCircuitOpen
	Failure  Attempt // last failed attempt of the endpoint; needed with WaitCircuitOpen
	Pending  int     // pending deliveries of the endpoint, including this one; needed with WaitDue
	// Resolution of the delivery's dead letter; empty: it is unresolved, or there is no dead
	// letter.
	Resolution Resolution
}

// Explain explains the delivery.
func Explain(d Delivery, f ExplainFacts) Explanation {
	x := Explanation{
		Why: string(d.Status), Next: NextNothing, Attempt: d.Attempts, StatusCode: d.LastStatusCode, Error: d.LastError,
	}
	if Unanswered(d.LastError) { // LastStatusCode is from an earlier attempt
		x.StatusCode = 0
	}
	switch {
	case d.Status == Pending:
		x.explainWaiting(d, f)
	case d.Reason != "":
		x.Why += "." + d.Reason
	}
	switch {
	case d.Status == Skipped && d.Reason == ReasonEndpointDeleted, f.Endpoint.Status == EndpointDeleted, d.Reason == ReasonSystem,
		f.Resolution != "":
	case d.Status == Dead, d.Status == Skipped, d.Reason == ReasonCancelled:
		x.Action = ToReplay
	}
	return x
}

// Unanswered reports whether the error of an attempt means that the attempt got no response.
func Unanswered(err string) bool {
	name, _, _ := strings.Cut(err, ":")
	failure := Failure(name)
	return failure != FailureStatus && failure != FailureRedirect && slices.Contains(Failures, failure)
}

// explainWaiting sets the fields for a pending delivery.
func (x *Explanation) explainWaiting(d Delivery, f ExplainFacts) {
	reason, e := d.Waiting.Reason, f.Endpoint
	x.Why += "." + string(reason)
	x.Next, x.At, x.For = NextAttempt, d.Waiting.Until, d.Waiting.For
	x.Attempt++ // Attempts does not count an attempt that is under way
	switch reason {
	case WaitScheduled:
		if d.Attempts > 0 {
			x.Why = WhyRetry
		}
	case WaitInFlight:
		x.Next = NextResult
	case WaitCircuitOpen:
		x.Next, x.Failure = NextProbe, f.Failure
		if f.Circuit.Reason == ReasonManual {
			x.Why, x.Failure = WhyOpened, Attempt{}
		}
	case WaitEndpointDeleted:
		x.Next = NextCancel
	case WaitParked:
		x.Next, x.Action = NextNothing, ToRelease
	case WaitHeld:
		x.Next, x.Action = NextNothing, ToResumeStore
	case WaitEndpointDisabled:
		x.Next, x.Action, x.Note = NextNothing, ToEnable, e.StatusReason
	case WaitEndpointPaused:
		x.Next, x.Action, x.Note = NextNothing, ToResume, e.StatusReason
	case WaitPolicyUnreadable:
		x.Next, x.Action = NextNothing, ToSetPolicy
	case WaitNoSecret:
		x.Next, x.Action = NextNothing, ToRotateSecret
	case WaitDue:
		x.Limit, x.Rate, x.Others = e.Policy.Concurrency, e.Policy.Rate, max(f.Pending-1, 0)
		if f.Circuit.Failures > 0 || f.Circuit.LastOutcome == OutcomeThrottled {
			x.Why = WhySlowed
		}
	case WaitOrdering, WaitSuspected, WaitAskedToWait:
	}
}

// WhyRetry is the Why of a delivery whose last attempt failed and whose next attempt is scheduled.
// Before the first attempt the Why is pending.scheduled.
const WhyRetry = "pending.retry"

// WhyOpened is the Why of a delivery that waits because a person opened the endpoint's circuit.
const WhyOpened = "pending.circuit_opened"

// WhySlowed is the Why of a due delivery whose endpoint failed or throttled the last attempt. The
// concurrency window of such an endpoint is small.
const WhySlowed = "pending.due_slowed"

// whys has the English text of each Why. String replaces the words in braces.
var whys = map[string]string{
	"pending.in_flight":          "Attempt {attempt} is under way or about to start.",
	"pending.parked":             "It is parked, because servers died while they attempted it alone.",
	"pending.endpoint_deleted":   "Its endpoint is deleted.",
	"pending.held":               "The server was restored from a backup, and sends nothing until its operator resumes it.",
	"pending.endpoint_disabled":  "Its endpoint is disabled{note}.",
	"pending.endpoint_paused":    "Its endpoint is paused{note}.",
	"pending.policy_unreadable":  "The server cannot read the policy of its endpoint.",
	"pending.no_secret":          "Its endpoint has no valid secret to sign with.",
	"pending.ordering":           "{for} has the same ordering key and goes first.",
	"pending.suspected":          "Servers died while they attempted it, so it is attempted apart from others.",
	"pending.scheduled":          "Its first attempt is scheduled.",
	WhyRetry:                     "Attempt {last} failed{result}.",
	"pending.circuit_open":       "The circuit of its endpoint is open, because the endpoint keeps failing{failure}.",
	WhyOpened:                    "A person opened the circuit of its endpoint.",
	"pending.asked_to_wait":      "The receiver asked with Retry-After to be left alone.",
	"pending.due":                "It is due, and waits for one of the {limit} requests that its endpoint may have at once{rate}.{others}",
	WhySlowed:                    "It is due. The last request to its endpoint failed or was throttled, so the endpoint gets fewer at once than the {limit} that it may have{rate}.{others}",
	"delivered":                  "The endpoint accepted attempt {attempt}{result}.",
	"dead.exhausted":             "Attempt {attempt} failed{result}, and it was the last of the retry schedule.",
	"dead.gone":                  "The endpoint responded 410, which means that it wants no more events.",
	"dead.client_error":          "Attempt {attempt} failed{result}, and the policy of the endpoint retries no client error.",
	"dead.aborted_by_receiver":   "Attempt {attempt} failed{result}, and the receiver asked for no other one.",
	"dead.expired":               "It expired before the endpoint accepted it.",
	"dead.filter_failed":         "The condition of its endpoint could not be evaluated for the event.",
	"dead.system":                "The data of its event was deleted before it was sent.",
	"cancelled.cancelled":        "A person cancelled it.",
	"cancelled.endpoint_deleted": "Its endpoint was deleted while it was pending.",
	"skipped.endpoint_disabled":  "Its endpoint was disabled when the event was published.",
	"skipped.backlog_full":       "Too many deliveries waited for its endpoint when the event was published.",
	"skipped.endpoint_deleted":   "Its endpoint was deleted before the event reached it.",
}

// Whys returns every Why, for a test that every language has a text for each of them.
func Whys() (all []string) {
	for why := range whys {
		all = append(all, why)
	}
	return all
}

// nexts has the English texts of each Next: the first for a known time, the second for an unknown
// one.
var nexts = map[Next][2]string{
	NextAttempt: {"Attempt {attempt} follows at {at}.", "Attempt {attempt} follows as soon as possible."},
	NextProbe: {
		"The endpoint is probed at {at}; attempt {attempt} follows when it responds again.",
		"Attempt {attempt} follows when the endpoint responds to a probe.",
	},
	NextResult: {"", "Its result is known when the endpoint responds or the timeout passes."},
	NextCancel: {"", "It will be cancelled soon."},
}

// actions has the English text of each Action.
var actions = map[Action]string{
	ToRelease:      "A person has to release or cancel it.",
	ToResume:       "It can be sent once the endpoint is resumed; a retry keeps its time.",
	ToResumeStore:  "It can be sent once the operator has resumed the server; a retry keeps its time.",
	ToEnable:       "It can be sent once the endpoint is enabled; a retry keeps its time.",
	ToSetPolicy:    "It is sent when the policy is set again.",
	ToRotateSecret: "It is sent when a rotation gives the endpoint a secret.",
	ToReplay:       "A replay sends the event again.",
}

// String returns the explanation in English, as a few sentences.
func (x Explanation) String() string {
	next := nexts[x.Next][1]
	if !x.At.IsZero() && nexts[x.Next][0] != "" {
		next = nexts[x.Next][0]
	}
	var parts []string
	for _, part := range []string{whys[x.Why], next, actions[x.Action]} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	note, result := x.Note, x.Error
	if note != "" {
		note = " (" + note + ")"
	}
	rate, others := "", ""
	if x.Rate != (Rate{}) {
		rate = fmt.Sprintf(", and for its rate of %d in %s", x.Rate.Attempts, x.Rate.Per)
	}
	if x.Others > 0 {
		others = fmt.Sprintf(" Besides it, %d of its deliveries wait.", x.Others)
	}
	if x.StatusCode != 0 {
		result = fmt.Sprintf("HTTP %d", x.StatusCode)
	}
	if result != "" {
		result = " (" + result + ")"
	}
	return strings.NewReplacer(
		"{failure}", x.failure(), "{limit}", fmt.Sprint(x.Limit), "{rate}", rate, "{others}", others,
		"{attempt}", fmt.Sprint(x.Attempt), "{last}", fmt.Sprint(x.Attempt-1), "{for}", x.For.String(), "{note}", note, "{result}", result,
		"{at}", x.At.UTC().Format("2006-01-02 15:04:05 UTC"),
	).Replace(strings.Join(parts, " "))
}

// failure returns the endpoint's last failed attempt, in brackets. Empty: none is known.
func (x Explanation) failure() string {
	shown := x.Failure.Error
	if x.Failure.StatusCode != 0 {
		shown = fmt.Sprintf("HTTP %d", x.Failure.StatusCode)
	}
	if shown == "" {
		return ""
	}
	return fmt.Sprintf(" (%s at %s)", shown, x.Failure.StartedAt.UTC().Format("2006-01-02 15:04:05 UTC"))
}
