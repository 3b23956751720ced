package postrider_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/postrider/postrider"
)

// settleRow is one arrow of a delivery's state machine. Its name is the rule that
// docs/state-machine.md shows to operators.
type settleRow struct {
	name    string
	claimed postrider.Claimed
	attempt postrider.Attempt
	policy  postrider.Policy
	want    postrider.Transition
}

// threeTries returns a policy that waits exactly 0, 1 and 10 minutes.
func threeTries(clientErrors postrider.ClientErrors) postrider.Policy {
	p := postrider.DefaultPolicy()
	p.Retry = postrider.RetryPolicy{Delays: []time.Duration{0, time.Minute, 10 * time.Minute}}
	p.ClientErrors = clientErrors
	return p
}

var (
	retrying = threeTries(postrider.RetryClientErrors)
	strict   = threeTries(postrider.DeadLetterClientErrors)

	firstStep = postrider.Claimed{Attempt: 1, Step: 0, Event: &postrider.Event{}}
	lastStep  = postrider.Claimed{Attempt: 3, Step: 2, Event: &postrider.Event{}}
)

func claimedAfter(losses int) postrider.Claimed {
	return postrider.Claimed{Attempt: losses + 1, Step: 1, Losses: losses, Event: &postrider.Event{}}
}

// allowed returns a claim at a step, of an event that allows the number of attempts.
func allowed(attempts, step int) postrider.Claimed {
	return postrider.Claimed{Attempt: step + 1, Step: step, Event: &postrider.Event{MaxAttempts: attempts}}
}

func shown(o postrider.Outcome) postrider.Attempt { return postrider.Attempt{Outcome: o} }

func answered(code int, retryAfter time.Duration) postrider.Attempt {
	return postrider.Attempt{
		Outcome: postrider.Classify(code, retryAfter), StatusCode: code, RetryAfter: retryAfter,
	}
}

func asking(code int, ask postrider.ReceiverAsk) postrider.Attempt {
	a := answered(code, 0)
	a.Ask = ask
	return a
}

func excused(code int) postrider.Attempt {
	a := answered(code, 0)
	a.Excused = true
	return a
}

func pendingAt(step int, after time.Duration) postrider.Transition {
	return postrider.Transition{To: postrider.Pending, Step: step, After: after}
}

func paced(step int, after, pace time.Duration) postrider.Transition {
	return postrider.Transition{To: postrider.Pending, Step: step, After: after, Pace: pace}
}

func deadFor(reason string) postrider.Transition {
	return postrider.Transition{To: postrider.Dead, Reason: reason}
}

var (
	delivered = postrider.Transition{To: postrider.Delivered}
	goneAway  = postrider.Transition{To: postrider.Dead, Reason: postrider.ReasonGone, DisableEndpoint: true}
	aborted   = deadFor(postrider.ReasonAborted)
	disabling = postrider.Transition{To: postrider.Dead, Reason: postrider.ReasonAborted, DisableEndpoint: true}
	exhausted = deadFor(postrider.ReasonExhausted)
	spurned   = deadFor(postrider.ReasonClientError)
)

var settleRows = []settleRow{
	{"a 2xx is final", firstStep, answered(204, 0), retrying, delivered},
	{"a 2xx to the last attempt is final too", lastStep, answered(200, 0), retrying, delivered},
	{"a 410 never retries and disables the endpoint", firstStep, answered(410, 0), retrying, goneAway},
	{"a 410 means the same under strict client errors", firstStep, answered(410, 0), strict, goneAway},
	{"a receiver that aborts gets no other attempt", firstStep, asking(500, postrider.AskAbort), retrying, aborted},
	{"it may abort at the last step too", lastStep, asking(500, postrider.AskAbort), retrying, aborted},
	{"a receiver that disables is disabled", firstStep, asking(404, postrider.AskDisable), strict, disabling},
	{
		"a receiver that aborts with a 429 paces the endpoint", firstStep,
		postrider.Attempt{Outcome: postrider.OutcomeThrottled, StatusCode: 429, RetryAfter: time.Hour, Ask: postrider.AskAbort},
		retrying,
		postrider.Transition{To: postrider.Dead, Reason: postrider.ReasonAborted, Pace: time.Hour},
	},
	{"a 410 that aborts is a 410", firstStep, asking(410, postrider.AskAbort), retrying, goneAway},
	{"a 5xx waits for the next step", firstStep, answered(500, 0), retrying, pendingAt(1, time.Minute)},
	{"an event that allows one attempt is not retried", allowed(1, 0), answered(500, 0), retrying, exhausted},
	{"an event that allows two is retried once", allowed(2, 0), answered(500, 0), retrying, pendingAt(1, time.Minute)},
	{"the second attempt of two is the last", allowed(2, 1), answered(500, 0), retrying, exhausted},
	{"an event that allows more than the policy changes nothing", allowed(9, 2), answered(500, 0), retrying, exhausted},
	{"a redirect is a failure", firstStep, answered(302, 0), retrying, pendingAt(1, time.Minute)},
	{"a 4xx is retried by default", firstStep, answered(404, 0), retrying, pendingAt(1, time.Minute)},
	{"a 4xx is dead at once under strict client errors", firstStep, answered(404, 0), strict, spurned},
	{"a 408 is retried under strict client errors", firstStep, answered(408, 0), strict, pendingAt(1, time.Minute)},
	{"a 409 is retried under strict client errors", firstStep, answered(409, 0), strict, pendingAt(1, time.Minute)},
	{"a 425 is retried under strict client errors", firstStep, answered(425, 0), strict, pendingAt(1, time.Minute)},
	{"a 429 is retried under strict client errors", firstStep, answered(429, 0), strict, pendingAt(1, time.Minute)},
	{"a 5xx is retried under strict client errors", firstStep, answered(500, 0), strict, pendingAt(1, time.Minute)},
	{
		"a 429 with a Retry-After longer than the step waits that long and paces the endpoint", firstStep,
		answered(429, time.Hour), retrying, paced(1, time.Hour, time.Hour),
	},
	{
		"a 429 with a Retry-After shorter than the step waits as the schedule says", firstStep,
		answered(429, time.Second), retrying, paced(1, time.Minute, time.Second),
	},
	{
		"a 503 with Retry-After paces the endpoint", firstStep,
		answered(503, time.Hour), retrying, paced(1, time.Hour, time.Hour),
	},
	{
		"a Retry-After of more than a day counts as a day", firstStep,
		answered(429, 72*time.Hour), retrying, paced(1, postrider.MaxRetryAfter, postrider.MaxRetryAfter),
	},
	{
		"a 500 with Retry-After paces the endpoint", firstStep,
		answered(500, time.Hour), retrying, paced(1, time.Hour, time.Hour),
	},
	{
		"a Retry-After with any other status is ignored", firstStep,
		answered(408, time.Hour), retrying, pendingAt(1, time.Minute),
	},
	{
		"an endpoint that cannot be reached is tried again", firstStep,
		shown(postrider.OutcomeUnreachable), retrying, pendingAt(1, time.Minute),
	},
	{
		"a deadline that passed is tried again", firstStep,
		shown(postrider.OutcomeTimedOut), retrying, pendingAt(1, time.Minute),
	},
	{
		"a connection that was cut is tried again", firstStep,
		shown(postrider.OutcomeBroken), retrying, pendingAt(1, time.Minute),
	},
	{
		"an address that the guard refuses is tried again", firstStep,
		shown(postrider.OutcomeBlocked), retrying, pendingAt(1, time.Minute),
	},
	{
		"the second failure waits for the third step",
		postrider.Claimed{Attempt: 2, Step: 1, Event: &postrider.Event{}},
		answered(500, 0), retrying, pendingAt(2, 10*time.Minute),
	},
	{"the last failure is a dead letter", lastStep, answered(500, 0), retrying, exhausted},
	{
		"the last answer that throttles still paces the endpoint", lastStep, answered(429, time.Hour), retrying,
		postrider.Transition{To: postrider.Dead, Reason: postrider.ReasonExhausted, Pace: time.Hour},
	},
	{
		"the schedule counts steps, not attempts",
		postrider.Claimed{Attempt: 7, Step: 0, Event: &postrider.Event{}},
		answered(500, 0), retrying, pendingAt(1, time.Minute),
	},
	{"a lost node keeps the place in the schedule", claimedAfter(1), shown(postrider.OutcomeLost), retrying, pendingAt(1, 0)},
	{"a lost node at the last step gives another attempt", lastStep, shown(postrider.OutcomeLost), retrying, pendingAt(2, 0)},
	{"an excused attempt keeps the place in the schedule", lastStep, excused(401), strict, pendingAt(2, time.Second)},
	{"lost nodes alone never end it", claimedAfter(100), shown(postrider.OutcomeLost), retrying, pendingAt(1, 0)},
}

func TestSettle(t *testing.T) {
	t.Parallel()
	for _, row := range settleRows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			got := postrider.Settle(row.claimed, row.attempt, row.policy)
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Errorf("Settle(step %d, %s %d) differs (-want +got):\n%s",
					row.claimed.Step, row.attempt.Outcome, row.attempt.StatusCode, diff)
			}
		})
	}
}

// refuseRow is an arrow that is taken before any request is made.
type refuseRow struct {
	name    string
	claimed postrider.Claimed
	want    postrider.Transition
	refused bool
}

var refuseNow = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func claimedUntil(expiresIn time.Duration, data string, losses int) postrider.Claimed {
	e := &postrider.Event{}
	if data != "" {
		e.Data = []byte(data)
	}
	return postrider.Claimed{Event: e, ExpiresAt: refuseNow.Add(expiresIn), Losses: losses}
}

var refuseRows = []refuseRow{
	{"a delivery in time is attempted", claimedUntil(1, "{}", 0), postrider.Transition{}, false},
	{"lost nodes alone never refuse it", claimedUntil(1, "{}", 100), postrider.Transition{}, false},
	{"an event whose bytes are gone is not attempted", claimedUntil(1, "", 0), deadFor(postrider.ReasonSystem), true},
	{"a delivery expires at the instant of its expiry", claimedUntil(0, "{}", 0), deadFor(postrider.ReasonExpired), true},
	{"a delivery past its expiry is not attempted", claimedUntil(-1, "{}", 0), deadFor(postrider.ReasonExpired), true},
	{
		"a delivery whose condition failed is not attempted",
		postrider.Claimed{Event: &postrider.Event{Data: []byte("{}")}, Step: postrider.StepFilterFailed, ExpiresAt: refuseNow},
		deadFor(postrider.ReasonFilterFailed), true,
	},
	{"what is our fault is not called expired", claimedUntil(-1, "", 0), deadFor(postrider.ReasonSystem), true},
}

func TestRefuse(t *testing.T) {
	t.Parallel()
	for _, row := range refuseRows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			got, refused := postrider.Refuse(row.claimed, refuseNow)
			if refused != row.refused {
				t.Errorf("Refuse = refused %t, want %t", refused, row.refused)
			}
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Errorf("Refuse differs (-want +got):\n%s", diff)
			}
		})
	}
}

// For every result of an attempt, the delivery either ends or gets a next attempt, and never both.
func TestSettleAlwaysEndsOrMoves(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		policy := postrider.DefaultPolicy()
		policy.Retry = postrider.RetryPolicy{Preset: rapid.SampledFrom(postrider.Presets()).Draw(t, "preset")}
		claimed := postrider.Claimed{
			Step:   rapid.IntRange(0, policy.Retry.Attempts()-1).Draw(t, "step"),
			Losses: rapid.IntRange(0, 100).Draw(t, "losses"),
			Event:  &postrider.Event{MaxAttempts: rapid.IntRange(0, postrider.MaxRetryAttempts).Draw(t, "max attempts")},
		}
		attempt := postrider.Attempt{
			Outcome:    rapid.SampledFrom(postrider.Outcomes).Draw(t, "outcome"),
			StatusCode: rapid.IntRange(0, 999).Draw(t, "code"),
			RetryAfter: time.Duration(rapid.Int64Range(0, int64(100*time.Hour)).Draw(t, "retry after")),
			Ask:        rapid.SampledFrom([]postrider.ReceiverAsk{"", postrider.AskAbort, postrider.AskDisable}).Draw(t, "ask"),
		}

		got := postrider.Settle(claimed, attempt, policy)

		switch got.To {
		case postrider.Pending:
			if got.Reason != "" || got.Step < claimed.Step || got.Step >= policy.Retry.Attempts() {
				t.Errorf("Settle = %+v, want a step inside the schedule and no reason", got)
			}
		case postrider.Dead:
			if got.Reason == "" || got.After != 0 {
				t.Errorf("Settle = %+v, want a reason and no wait", got)
			}
		case postrider.Delivered:
			if attempt.Outcome != postrider.OutcomeAccepted {
				t.Errorf("Settle(%s) = delivered", attempt.Outcome)
			}
		case postrider.Cancelled, postrider.Skipped:
			t.Errorf("Settle = %s, which no attempt leads to", got.To)
		}
		if got.Pace > postrider.MaxRetryAfter {
			t.Errorf("Settle paces for %v, more than %v", got.Pace, postrider.MaxRetryAfter)
		}
	})
}
