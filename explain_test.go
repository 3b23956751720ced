package postrider_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider"
)

// places are all places where a delivery can be, as stores show it.
func places() (all []postrider.Delivery) {
	for _, reason := range postrider.WaitReasons {
		all = append(all, postrider.Delivery{Status: postrider.Pending, Attempts: 2, Waiting: postrider.Waiting{Reason: reason}})
	}
	all = append(all, postrider.Delivery{Status: postrider.Pending, Waiting: postrider.Waiting{Reason: postrider.WaitScheduled}})
	for status, reasons := range map[postrider.Status][]string{
		postrider.Delivered: {""},
		postrider.Dead: {
			postrider.ReasonExhausted, postrider.ReasonGone, postrider.ReasonClientError, postrider.ReasonExpired, postrider.ReasonSystem,
		},
		postrider.Cancelled: {postrider.ReasonCancelled, postrider.ReasonEndpointDeleted},
		postrider.Skipped:   {postrider.ReasonEndpointDisabled, postrider.ReasonEndpointDeleted},
	} {
		for _, reason := range reasons {
			all = append(all, postrider.Delivery{Status: status, Reason: reason, Attempts: 1})
		}
	}
	return all
}

func TestEveryPlaceOfADeliveryIsExplained(t *testing.T) {
	t.Parallel()
	unused := postrider.Whys()
	for _, d := range places() {
		x := postrider.Explain(d, postrider.Endpoint{})
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

func TestAnExplanationIsASentence(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 22, 12, 30, 0, 0, time.UTC)
	for _, test := range []struct {
		name     string
		delivery postrider.Delivery
		endpoint postrider.Endpoint
		want     string
	}{
		{
			"a retry",
			postrider.Delivery{
				Status: postrider.Pending, Attempts: 3, LastStatusCode: 503, LastError: "http_status: 503",
				Waiting: postrider.Waiting{Reason: postrider.WaitScheduled, Until: at},
			},
			postrider.Endpoint{},
			"Attempt 3 failed (HTTP 503). Attempt 4 follows at 2026-11-22 12:30:00 UTC.",
		},
		{
			"a paused endpoint",
			postrider.Delivery{
				Status: postrider.Pending, Waiting: postrider.Waiting{Reason: postrider.WaitEndpointPaused},
			},
			postrider.Endpoint{StatusReason: "maintenance"},
			"Its endpoint is paused (maintenance). It can be sent once the endpoint is resumed; a retry keeps its time.",
		},
		{
			"an open circuit",
			postrider.Delivery{
				Status: postrider.Pending, Attempts: 1, Waiting: postrider.Waiting{Reason: postrider.WaitCircuitOpen, Until: at},
			},
			postrider.Endpoint{},
			"The circuit of its endpoint is open, because the endpoint kept failing or a person opened it. " +
				"The endpoint is probed at 2026-11-22 12:30:00 UTC; attempt 2 follows when it responds again.",
		},
		{
			"an ordering key",
			postrider.Delivery{
				Status: postrider.Pending, Waiting: postrider.Waiting{Reason: postrider.WaitOrdering, For: postrider.DeliveryID{15: 1}},
			},
			postrider.Endpoint{},
			"dlv_00000000000000000000000001 has the same ordering key and goes first. Attempt 1 follows as soon as possible.",
		},
		{
			"a dead letter",
			postrider.Delivery{Status: postrider.Dead, Reason: postrider.ReasonExhausted, Attempts: 10, LastError: "timeout"},
			postrider.Endpoint{},
			"Attempt 10 failed (timeout), and it was the last of the retry schedule. A replay sends the event again.",
		},
		{
			"a dead letter of a deleted endpoint",
			postrider.Delivery{Status: postrider.Dead, Reason: postrider.ReasonGone, Attempts: 1},
			postrider.Endpoint{Status: postrider.EndpointDeleted},
			"The endpoint responded 410, which means that it wants no more events.",
		},
		{
			"what was delivered",
			postrider.Delivery{Status: postrider.Delivered, Attempts: 2, LastStatusCode: 204},
			postrider.Endpoint{},
			"The endpoint accepted attempt 2 (HTTP 204).",
		},
	} {
		if got := postrider.Explain(test.delivery, test.endpoint).String(); got != test.want {
			t.Errorf("%s:\n got %s\nwant %s", test.name, got, test.want)
		}
	}
}
