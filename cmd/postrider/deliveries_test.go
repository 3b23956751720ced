package main

import (
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
)

// TestEveryReasonToWaitIsExplained checks the text for each reason, with the command
// that helps. Only the reasons in alone need none.
func TestEveryReasonToWaitIsExplained(t *testing.T) {
	t.Parallel()
	id, head, endpoint := postrider.DeliveryID{1}, postrider.DeliveryID{2}, postrider.EndpointID{3}
	until := apitypes.Time{Time: time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)}
	alone := map[postrider.WaitReason]bool{
		postrider.WaitInFlight: true, postrider.WaitEndpointDeleted: true, postrider.WaitSuspected: true,
		postrider.WaitScheduled: true, postrider.WaitOrdering: true, postrider.WaitDue: true,
	}
	for _, reason := range postrider.WaitReasons {
		text := waitingText(apitypes.Delivery{ID: id, Endpoint: endpoint, Waiting: &apitypes.Waiting{Reason: reason}})
		if command := strings.Contains(text, "postrider "); command == alone[reason] {
			t.Errorf("%s is explained by %q, want a command: %t", reason, text, !alone[reason])
		}
	}
	for _, row := range []struct {
		waiting *apitypes.Waiting
		want    string
	}{
		{nil, ""},
		{&apitypes.Waiting{Reason: postrider.WaitOrdering, Delivery: &head}, "ordering, after " + head.String()},
		{&apitypes.Waiting{Reason: postrider.WaitScheduled, Until: &until}, "scheduled until 2026-05-04T12:00:00Z"},
		{&apitypes.Waiting{Reason: postrider.WaitParked}, "parked; postrider deliveries release " + id.String()},
		{&apitypes.Waiting{Reason: postrider.WaitAskedToWait, Until: &until}, "asked_to_wait until 2026-05-04T12:00:00Z; see: postrider endpoints circuit " + endpoint.String()},
	} {
		if got := waitingText(apitypes.Delivery{ID: id, Endpoint: endpoint, Waiting: row.waiting}); got != row.want {
			t.Errorf("waitingText = %q, want %q", got, row.want)
		}
	}
}
