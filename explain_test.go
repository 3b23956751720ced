package postrider_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider"
)

// places returns a delivery for every state in which a store can show one.
func places() (all []postrider.Delivery) {
	for _, reason := range postrider.WaitReasons {
		all = append(all, postrider.Delivery{Status: postrider.Pending, Attempts: 2, Waiting: postrider.Waiting{Reason: reason}})
	}
	all = append(all, postrider.Delivery{Status: postrider.Pending, Waiting: postrider.Waiting{Reason: postrider.WaitScheduled}})
	for status, reasons := range map[postrider.Status][]string{
		postrider.Delivered: {""},
		postrider.Dead:      postrider.DeadReasons,
		postrider.Cancelled: {postrider.ReasonCancelled, postrider.ReasonEndpointDeleted},
		postrider.Skipped:   {postrider.ReasonEndpointDisabled, postrider.ReasonEndpointDeleted, postrider.ReasonBacklogFull},
	} {
		for _, reason := range reasons {
			all = append(all, postrider.Delivery{Status: status, Reason: reason, Attempts: 1})
		}
	}
	return all
}

func TestEveryPlaceOfADeliveryIsExplained(t *testing.T) {
	t.Parallel()
	// see TestAnExplanationIsASentence
	unused := slices.DeleteFunc(postrider.Whys(), func(why string) bool { return why == postrider.WhySlowed || why == postrider.WhyOpened })
	for _, d := range places() {
		x := postrider.Explain(d, postrider.ExplainFacts{})
		if !slices.Contains(postrider.Whys(), x.Why) {
			t.Errorf("%s %s %s has the unknown explanation %q", d.Status, d.Reason, d.Waiting.Reason, x.Why)
		}
		text := x.String()
		if text == "" || strings.ContainsAny(text, "{}") || !strings.HasSuffix(text, ".") {
			t.Errorf("%s is explained by %q", x.Why, text)
		}
		if final := d.Status != postrider.Pending; final && x.Next != postrider.NextNothing {
			t.Errorf("%s is final, and next is %q", x.Why, x.Next)
		}
		if d.Status == postrider.Pending && x.Next == postrider.NextNothing && x.Action == "" {
			t.Errorf("%s: nothing happens, and nobody can do anything", x.Why)
		}
		unused = slices.DeleteFunc(unused, func(why string) bool { return why == x.Why })
	}
	if len(unused) > 0 {
		t.Errorf("no delivery is explained by %q", unused)
	}
}

// sentence is a delivery with its expected explanation.
type sentence struct {
	name     string
	delivery postrider.Delivery
	facts    postrider.ExplainFacts
	want     string
}

// waitingSentences are for deliveries that are due or held.
func waitingSentences() []sentence {
	limited := postrider.Endpoint{Policy: postrider.Policy{Concurrency: 10, Rate: postrider.Rate{Attempts: 5, Per: time.Second}}}
	return []sentence{
		{
			"a held store",
			postrider.Delivery{
				Status: postrider.Pending, Waiting: postrider.Waiting{Reason: postrider.WaitHeld},
			},
			postrider.ExplainFacts{Endpoint: postrider.Endpoint{StatusReason: "maintenance"}},
			"The server was restored from a backup, and sends nothing until its operator resumes it. " +
				"It can be sent once the operator has resumed the server; a retry keeps its time.",
		},
		{
			"a full endpoint",
			postrider.Delivery{Status: postrider.Pending, Waiting: postrider.Waiting{Reason: postrider.WaitDue}},
			postrider.ExplainFacts{Endpoint: limited, Pending: 38},
			"It is due, and waits for one of the 10 requests that its endpoint may have at once, and for its rate of 5 in 1s. " +
				"Besides it, 37 of its deliveries wait. Attempt 1 follows as soon as possible.",
		},
		{
			"a throttled endpoint",
			postrider.Delivery{Status: postrider.Pending, Attempts: 1, Waiting: postrider.Waiting{Reason: postrider.WaitDue}},
			postrider.ExplainFacts{Endpoint: limited, Circuit: postrider.Circuit{LastOutcome: postrider.OutcomeThrottled}, Pending: 1},
			"It is due. The last request to its endpoint failed or was throttled, so the endpoint gets fewer at once than the 10 that it may have" +
				", and for its rate of 5 in 1s. Attempt 2 follows as soon as possible.",
		},
	}
}

// circuitSentences are for deliveries that wait for an open circuit.
func circuitSentences() []sentence {
	at := time.Date(2026, 11, 22, 12, 30, 0, 0, time.UTC)
	return []sentence{
		{
			"an open circuit",
			postrider.Delivery{
				Status: postrider.Pending, Attempts: 1, Waiting: postrider.Waiting{Reason: postrider.WaitCircuitOpen, Until: at},
			},
			postrider.ExplainFacts{Failure: postrider.Attempt{StatusCode: 500, Error: "http_status: 500", StartedAt: at.Add(-time.Minute)}},
			"The circuit of its endpoint is open, because the endpoint keeps failing (HTTP 500 at 2026-11-22 12:29:00 UTC). " +
				"The endpoint is probed at 2026-11-22 12:30:00 UTC; attempt 2 follows when it responds again.",
		},
		{
			"an open circuit of an endpoint that cannot be reached",
			postrider.Delivery{Status: postrider.Pending, Waiting: postrider.Waiting{Reason: postrider.WaitCircuitOpen}},
			postrider.ExplainFacts{Failure: postrider.Attempt{Error: "timeout", StartedAt: at}},
			"The circuit of its endpoint is open, because the endpoint keeps failing (timeout at 2026-11-22 12:30:00 UTC). " +
				"Attempt 1 follows when the endpoint responds to a probe.",
		},
		{
			"a circuit that a person opened",
			postrider.Delivery{Status: postrider.Pending, Waiting: postrider.Waiting{Reason: postrider.WaitCircuitOpen}},
			postrider.ExplainFacts{
				Circuit: postrider.Circuit{Reason: postrider.ReasonManual},
				Failure: postrider.Attempt{StatusCode: 500, StartedAt: at},
			},
			"A person opened the circuit of its endpoint. Attempt 1 follows when the endpoint responds to a probe.",
		},
	}
}

func TestAnExplanationIsASentence(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 22, 12, 30, 0, 0, time.UTC)
	for _, test := range append(append(waitingSentences(), circuitSentences()...), []sentence{
		{
			"a retry",
			postrider.Delivery{
				Status: postrider.Pending, Attempts: 3, LastStatusCode: 503, LastError: "http_status: 503",
				Waiting: postrider.Waiting{Reason: postrider.WaitScheduled, Until: at},
			},
			postrider.ExplainFacts{},
			"Attempt 3 failed (HTTP 503). Attempt 4 follows at 2026-11-22 12:30:00 UTC.",
		},
		{
			"a paused endpoint",
			postrider.Delivery{
				Status: postrider.Pending, Waiting: postrider.Waiting{Reason: postrider.WaitEndpointPaused},
			},
			postrider.ExplainFacts{Endpoint: postrider.Endpoint{StatusReason: "maintenance"}},
			"Its endpoint is paused (maintenance). It can be sent once the endpoint is resumed; a retry keeps its time.",
		},
		{
			"an ordering key",
			postrider.Delivery{
				Status: postrider.Pending, Waiting: postrider.Waiting{Reason: postrider.WaitOrdering, For: postrider.DeliveryID{15: 1}},
			},
			postrider.ExplainFacts{},
			"dlv_00000000000000000000000001 has the same ordering key and goes first. Attempt 1 follows as soon as possible.",
		},
		{
			"a dead letter",
			postrider.Delivery{Status: postrider.Dead, Reason: postrider.ReasonExhausted, Attempts: 10, LastError: "timeout"},
			postrider.ExplainFacts{},
			"Attempt 10 failed (timeout), and it was the last of the retry schedule. A replay sends the event again.",
		},
		{
			"a dead letter of a deleted endpoint",
			postrider.Delivery{Status: postrider.Dead, Reason: postrider.ReasonGone, Attempts: 1},
			postrider.ExplainFacts{Endpoint: postrider.Endpoint{Status: postrider.EndpointDeleted}},
			"The endpoint responded 410, which means that it wants no more events.",
		},
		{
			"a dead letter that was discarded",
			postrider.Delivery{Status: postrider.Dead, Reason: postrider.ReasonGone, Attempts: 1},
			postrider.ExplainFacts{Resolution: postrider.Discarded},
			"The endpoint responded 410, which means that it wants no more events.",
		},
		{
			"a refused connection after a response",
			postrider.Delivery{
				Status: postrider.Dead, Reason: postrider.ReasonExhausted, Attempts: 2, LastStatusCode: 503,
				LastError: "connection_refused",
			},
			postrider.ExplainFacts{},
			"Attempt 2 failed (connection_refused), and it was the last of the retry schedule. A replay sends the event again.",
		},
		{
			"what was delivered",
			postrider.Delivery{Status: postrider.Delivered, Attempts: 2, LastStatusCode: 204},
			postrider.ExplainFacts{},
			"The endpoint accepted attempt 2 (HTTP 204).",
		},
	}...) {
		if got := postrider.Explain(test.delivery, test.facts).String(); got != test.want {
			t.Errorf("%s:\n got %s\nwant %s", test.name, got, test.want)
		}
	}
}
