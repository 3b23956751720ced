package web_test

import (
	"net/url"
	"testing"

	"github.com/postrider/postrider/internal/web"
)

// A person names a path in the form of an event type, and finds an event by a value there: the
// customer with the search alone, the operator after choosing the account. The pages say where values
// are found and where not.
func TestAnEventIsFoundByAValueInItsData(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	w.see("operator", "/dashboard/search?q=NW-7&account=acme").says(t, "no event type names a path")
	old := w.publish("order.paid", `{"order": {"number": "NW-7"}}`).ID.String()
	form := url.Values{"name": {"order.paid"}, "paths": {"$.order.number  $.total"}}
	if got := w.as("operator", "POST /dashboard/event-types", form); got.status != 303 {
		t.Fatalf("the form = %d\n%s", got.status, got.html)
	}
	w.see("operator", "/dashboard/event-types/order.paid").says(t, "Events since", "$.order.number $.total")
	w.see("customer", "/portal/event-types/order.paid").says(t, "<code>$.order.number</code>", "<code>$.total</code>")
	found := w.publish("order.paid", `{"order": {"number": "NW-7"}, "total": 12.50}`).ID.String()

	w.see("operator", "/dashboard/search?q=NW-7").says(t, "Choose an account")
	for person, path := range map[string]string{"operator": "/dashboard/search?account=acme&q=NW-7", "customer": "/portal/search?q=NW-7"} {
		got := w.see(person, path)
		got.says(t, found, "A value in its data", "<code>$.order.number</code> <code>$.total</code>",
			"Not found are events that were published before")
		got.lacks(t, old)
	}
	for person, path := range map[string]string{"operator": "/dashboard/events?account=acme&where=", "customer": "/portal/events?where="} {
		got := w.see(person, path+url.QueryEscape("$.total=12.5"))
		got.says(t, found, "Value in the data", "Not found are events that were published before")
		got.lacks(t, old)
		got = w.as(person, "GET "+path+url.QueryEscape("$.other=1"), nil)
		got.says(t, "No event type of this filter names this path")
	}
	w.see("customer", "/portal/search?q=nothing").says(t, "Not found are events that were published before")
}

func TestAWrongPathIsNamedInTheForm(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	got := w.as("operator", "POST /dashboard/event-types", url.Values{"name": {"order.paid"}, "paths": {"$.a order.number"}})
	got.says(t, "Enter paths such as $.order.number", "Paths for the search", `value="$.a order.number"`)
	got = w.as("operator", "POST /dashboard/event-types", url.Values{"name": {"order.paid"}, "paths": {"$.a $.b $.c $.d $.e $.f"}})
	got.says(t, "At most 5 paths.")
}
