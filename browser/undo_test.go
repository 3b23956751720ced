package browser_test

import "testing"

// TestOperatorTakesChangesBack does what the pages offer to undo, and undoes it.
func TestOperatorTakesChangesBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tb := w.visitors[operator].newTab(t)
	endpoint := func(name string) string { return w.call(t, "GET /endpoints/"+w.names["healthy"], nil).id(name) }
	tb.open("/dashboard/endpoints/" + w.names["healthy"])
	tb.click("Pause")
	tb.sees("The endpoint is paused")
	if got := endpoint("status"); got != "paused" {
		t.Errorf("after Pause the endpoint is %s", got)
	}
	tb.click("Undo")
	tb.sees("The endpoint is resumed. Deliveries that are due") // a paused one waits "until the endpoint is resumed"
	if got := endpoint("status"); got != "enabled" {
		t.Errorf("after Undo the endpoint is %s", got)
	}

	id := w.call(t, "POST /endpoints", object{
		"account": "acme", "url": w.receiver.url + "/acme/new",
		"event_types": []string{"order.*"},
	}).id("id")
	tb.open("/dashboard/endpoints/" + id)
	tb.click("Open the circuit")
	tb.inDialog("Open the circuit")
	tb.sees("The circuit is open")
	tb.click("Undo")
	tb.sees("The circuit is closed")
	if got := w.call(t, "GET /endpoints/"+id+"/circuit", nil).id("status"); got != "closed" {
		t.Errorf("after Undo the circuit is %s", got)
	}
}

// TestOperatorCancelsAReplay stops a replay that runs: for a while, and for good.
// What is left stays a dead letter.
func TestOperatorCancelsAReplay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const letters = 100
	events := make([]object, letters)
	for i := range events {
		events[i] = object{"account": "globex", "type": "order.created", "data": object{"n": i}}
	}
	w.call(t, "POST /events/batch", object{"events": events})
	selected := object{"endpoint": w.names["failing"], "per_second": 1}
	eventually(t, func() string {
		for _, group := range w.call(t, "GET /dead-letters/groups?endpoint="+w.names["failing"], nil).items() {
			if count, _ := group["count"].(float64); count >= letters {
				return ""
			}
		}
		return "not all deliveries have died"
	})
	w.receiver.tell("/globex/hooks", nil)
	id := w.call(t, "POST /replays", selected).id("id")
	status := func() string { return w.call(t, "GET /replays/"+id, nil).id("status") }

	tb := w.visitors[operator].newTab(t)
	tb.open("/dashboard/replays/" + id)
	tb.sees("Running")
	tb.click("Pause")
	tb.sees("The replay is paused")
	if got := status(); got != "paused" {
		t.Errorf("after Pause the replay is %s", got)
	}
	tb.click("Undo")
	tb.sees("The replay goes on")
	if got := status(); got != "running" {
		t.Errorf("after Undo the replay is %s", got)
	}

	tb.click("Cancel the replay")
	tb.inDialog("Cancel the replay")
	tb.sees("The replay is cancelled", "Cancelled")
	if got := status(); got != "cancelled" {
		t.Errorf("after Cancel the replay is %s", got)
	}
	left := 0.0
	for _, group := range w.call(t, "GET /dead-letters/groups?endpoint="+w.names["failing"], nil).items() {
		count, _ := group["count"].(float64)
		left += count
	}
	if left == 0 {
		t.Error("a cancelled replay leaves no dead letter")
	}
}
