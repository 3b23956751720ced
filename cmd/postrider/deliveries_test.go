package main

import (
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
)

// TestAnExplanationNamesTheCommandThatHelps checks the command for each action, and for the reasons
// for which another command tells more.
func TestAnExplanationNamesTheCommandThatHelps(t *testing.T) {
	t.Parallel()
	id, endpoint := postrider.DeliveryID{1}, postrider.EndpointID{3}
	for _, test := range []struct {
		action postrider.Action
		reason postrider.WaitReason
		want   string
	}{
		{"", postrider.WaitDue, "Why. Next."},
		{"", postrider.WaitScheduled, "Why. Next. postrider deliveries retry " + id.String()},
		{"", postrider.WaitCircuitOpen, "Why. Next. postrider endpoints circuit " + endpoint.String()},
		{"", postrider.WaitAskedToWait, "Why. Next. postrider endpoints circuit " + endpoint.String()},
		{postrider.ToRelease, postrider.WaitParked, "Why. Next. postrider deliveries release " + id.String()},
		{postrider.ToResume, postrider.WaitEndpointPaused, "Why. Next. postrider endpoints resume " + endpoint.String()},
		{postrider.ToResumeStore, postrider.WaitHeld, "Why. Next. postrider resume --after-restore"},
		{postrider.ToEnable, postrider.WaitEndpointDisabled, "Why. Next. postrider endpoints enable " + endpoint.String()},
		{postrider.ToRotateSecret, postrider.WaitNoSecret, "Why. Next. postrider endpoints rotate " + endpoint.String()},
		{postrider.ToSetPolicy, postrider.WaitPolicyUnreadable, "Why. Next. postrider endpoints get " + endpoint.String()},
		{postrider.ToReplay, "", "Why. Next. postrider replay " + id.String()},
	} {
		d := apitypes.Delivery{
			ID: id, Endpoint: endpoint, Waiting: &apitypes.Waiting{Reason: test.reason},
			Explanation: &apitypes.Explanation{Text: "Why. Next.", Action: test.action},
		}
		if got := explanationText(d); got != test.want {
			t.Errorf("%s: %q, want %q", test.action, got, test.want)
		}
	}
	if got := explanationText(apitypes.Delivery{}); got != "" {
		t.Errorf("without an explanation: %q", got)
	}
}

func TestAWaitingDeliveryNamesItsReason(t *testing.T) {
	t.Parallel()
	head, until := postrider.DeliveryID{2}, apitypes.Time{Time: time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)}
	for _, test := range []struct {
		waiting *apitypes.Waiting
		want    string
	}{
		{nil, ""},
		{&apitypes.Waiting{Reason: postrider.WaitOrdering, Delivery: &head}, "ordering, after " + head.String()},
		{&apitypes.Waiting{Reason: postrider.WaitScheduled, Until: &until}, "scheduled until 2026-05-04T12:00:00Z"},
	} {
		if got := waitingText(test.waiting); got != test.want {
			t.Errorf("waitingText = %q, want %q", got, test.want)
		}
	}
}
