package browser_test

import "testing"

// TestACustomerSubscribesToExactlyWhatTheyNeed goes the way of docs/subscriptions.md in the portal, from an
// empty server: an endpoint that starts in the past, a filter built against real events, a trigger on a
// changed field, an event that did not come, an order found by its number.
func TestACustomerSubscribesToExactlyWhatTheyNeed(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.call(t, "POST /accounts", object{"uid": "acme", "name": "Acme Corporation"})
	s.call(t, "POST /event-types", object{"name": "order.paid", "paths": []string{"$.order.number"}})
	for number, total := range map[int]int{41: 99, 42: 250, 43: 80} {
		s.publish(t, "acme", "order.paid", object{"data": object{"order": object{"number": number}, "total": total}})
	}
	w := &world{server: s}
	w.enter(t, "acme", customer)
	tb := w.visitors[customer].newTab(t)

	// A new endpoint, with the events of before it. The form asks for a date only if it needs one.
	for _, choice := range []string{"since a date", "of the last 24"} {
		tb.open("/portal/endpoints/new")
		tb.choose("Also send events", choice)
		if asked := eval[bool](tb, "document.getElementById('since_at').checkVisibility()"); asked != (choice == "since a date") {
			t.Errorf("after %q the form asks for a date: %t", choice, asked)
		}
	}
	tb.click("I have no receiver yet…")
	tb.click("All events…")
	tb.click("Add endpoint")
	tb.sees("The endpoint was created", "3 events of the past are being sent, at most 100 a second.")
	endpoint := s.call(t, "GET /endpoints", nil).items()[0]["id"].(string)
	tb.click("See the progress")
	tb.sees("Start in the past", "3 of 3.", "Sent for the first time")

	// A filter, tried on these events before it is saved, and a trigger on a changed field.
	tb.open("/portal/endpoints/" + endpoint + "/try")
	tb.sees("Of 3 events, 3 would be sent.", "deliveries of 3 of them. New: 0. No longer: 0.")
	tb.fill("Filter", `{"data": {"total": [{"numeric": [">=", 100]}]}}`)
	tb.click("Compare")
	tb.sees("Of 3 events, 1 would be sent.", "No longer: 2.", "data.total is 99")
	tb.click("Save the changes")
	tb.sees("One option is changed.")
	_, small := s.publish(t, "acme", "order.paid", object{"data": object{"order": object{"number": 44}, "total": 99}})
	if small != "" {
		t.Errorf("an order below the filter has the delivery %s", small)
	}
	tb.open("/portal/endpoints/" + endpoint + "/try")
	tb.sees("Of 4 events, 1 would be sent.", "deliveries of 3 of them. New: 0. No longer: 2.")
	tb.fill("Changed fields", "$.status")
	tb.fill("Filter", " ")
	tb.click("Compare")
	tb.sees("Of 4 events, 0 would be sent.", "does not say what changed")
	tb.click("Save the changes")
	tb.sees("2 options are changed.")
	old := object{"status": "new", "note": ""}
	_, paid := s.publish(t, "acme", "order.updated", object{"data": object{"status": "paid", "note": ""}, "previous": old})
	s.settled(t, paid, "delivered")
	noted, none := s.publish(t, "acme", "order.updated", object{"data": object{"status": "new", "note": "fragile"}, "previous": old})
	if none != "" {
		t.Errorf("an order whose note has changed has the delivery %s", none)
	}

	// The customer asks why, and finds an order.
	tb.open("/portal/events/" + noted + "/why-not?endpoint=" + endpoint)
	tb.sees("none of the fields changed that it asks for")
	tb.open("/portal/search?q=42")
	tb.sees("order.paid", "$.order.number")
}
