package web_test

import (
	"net/http"
	"testing"

	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/web"
)

func TestASubscriptionIsTriedAndSaved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	e := w.endpoint(apitypes.EndpointCreate{EventTypes: []string{"order.*", "invoice.*"}})
	w.publish("order.paid", `{"total": 99}`)
	w.publish("order.paid", `{"total": 100}`)
	w.publish("user.created", `{}`)
	path := "/portal/endpoints/" + e.ID.String()
	shown := w.see("customer", path+"/try")
	shown.says(t, "Of 3 events, 2 would be sent.", "The endpoint has deliveries of 2 of them. New: 0. No longer: 0.",
		"The event type is not selected.", "2 deliveries wait. They are not touched.")
	form := shown.fields()
	form.Set("event_types", "*")
	form.Set("filter", `{"data": {"total": [{"numeric": [">=", 100]}]}}`)
	tried := w.as("customer", "POST "+path+"/try", form)
	tried.says(t, "Of 3 events, 1 would be sent.", "New: 0. No longer: 1.", "<code>data.total</code> is <code>99</code>",
		"<code>data.total</code> is missing")
	checkHTML(t, tried)
	form.Set("was.event_types", "order.*\r\ninvoice.*") // as browsers send it
	form.Set("type", "order.paid")
	form.Set("last", "1000")
	w.as("customer", "POST "+path+"/try", form).says(t, "Of 2 events, 1 would be sent.", `value="order.paid"`, `value="1000" selected`)
	if stored, err := w.admin.Endpoint(t.Context(), e.ID); err != nil || stored.Revision != e.Revision {
		t.Fatalf("a try has changed the endpoint: revision %d, %v", stored.Revision, err)
	}

	form.Set("event_types", "order.*\r\ninvoice.*")
	form.Set("save", "yes") // the button leads to the form of all options
	w.submit("customer", path+"/options", form).says(t, "One option is changed.")
	stored, err := w.admin.Endpoint(t.Context(), e.ID)
	if err != nil || len(stored.Filter.Value()) == 0 {
		t.Errorf("the endpoint has the filter %s, %v", stored.Filter.Value(), err)
	}
}

func TestARefusedSubscriptionIsNotTried(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	e := w.endpoint(apitypes.EndpointCreate{})
	path := "/portal/endpoints/" + e.ID.String() + "/try"
	for field, tt := range map[string]struct{ typed, says string }{
		"filter":      {`{"internal": {"a": ["1"]}}`, `id="fault-filter"`},
		"changed":     {"status", `id="fault-changed"`},
		"event_types": {"", `id="fault-event_types"`},
		"type":        {"order.*", "Nothing was compared."},
	} {
		form := w.see("customer", path).fields()
		form.Set(field, tt.typed)
		got := w.as("customer", "POST "+path, form)
		if got.status != http.StatusUnprocessableEntity {
			t.Errorf("%s = %q: %d", field, tt.typed, got.status)
		}
		got.says(t, tt.says, "Nothing was saved yet.", "Nothing was compared.")
		checkHTML(t, got)
	}
	form := w.see("customer", path).fields()
	form.Set("last", "7")
	if got := w.as("customer", "POST "+path, form); got.status != http.StatusUnprocessableEntity {
		t.Errorf("a number of events that the page does not offer: %d", got.status)
	}
}
