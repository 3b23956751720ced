package web_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/web"
)

// whyNotStates are the states of the pages that explain why an endpoint got an event or not.
var whyNotStates = []state{
	{
		name: "why not, of an event", path: "/events/{event}/why-not", people: "operator customer viewer", prepare: (*world).hostileFilter,
		want: []string{"Why did an endpoint get it or not?", `<option value="ep_`},
	},
	{
		name: "why not, of an event and an endpoint", path: "/events/{event}/why-not?endpoint={endpoint}", people: "operator customer viewer",
		prepare: (*world).hostileFilter,
		want:    []string{"its filter does not hold", "data.text", "would not select the event", "The event does not say what changed."},
	},
	{
		name: "why not, of an endpoint", path: "/endpoints/{endpoint}/why-not", people: "operator customer viewer",
		prepare: (*world).hostileFilter, want: []string{`name="event"`},
	},
	{
		name: "why not, of an endpoint and an event", path: "/endpoints/{endpoint}/why-not?event={event}", people: "operator customer viewer",
		prepare: (*world).hostileFilter, want: []string{"its filter does not hold", "until", "data.text"},
	},
}

// hostileFilter publishes an event that the filter of an endpoint leaves out. Then the endpoint gets
// other event types.
func (w *world) hostileFilter(path string) string {
	w.Helper()
	text, err := json.Marshal(map[string]any{"data": map[string]any{"text": []string{hostile}, hostile: []map[string]bool{{"exists": false}}}})
	if err != nil {
		w.Fatal(err)
	}
	e := w.endpoint(apitypes.EndpointCreate{
		URL: "https://acme.example/" + hostile, Description: hostile,
		Policy: apitypes.Policy{Filter: apitypes.Of(json.RawMessage(text)), Changed: apitypes.Of([]string{"$.text"})},
	})
	receipt := w.publish("order.created", `{"text": "<script>alert(3)</script>"}`)
	if _, err := w.admin.ChangeEndpoint(w.Context(), e.ID, apitypes.EndpointUpdate{EventTypes: []string{"user.*"}}); err != nil {
		w.Fatal(err)
	}
	return w.fill(path, e, receipt)
}

// A question that has no answer is asked again, with the reason.
func TestWhyNotHasNoAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	e := w.endpoint(apitypes.EndpointCreate{})
	event := "/events/" + w.publish("order.created", `{}`).ID.String()
	endpoint := "/endpoints/" + e.ID.String()
	for path, says := range map[string]string{
		event + "/why-not?endpoint=nobody":                               "nobody",
		endpoint + "/why-not?event=nothing":                              "nothing",
		endpoint + "/why-not?event=" + postrider.EventID{15: 1}.String(): "There is no such event.",
	} {
		got := w.as("customer", "GET /portal"+path, nil)
		if got.status != http.StatusUnprocessableEntity || !strings.Contains(got.html, says) || !strings.Contains(got.html, `role="alert"`) ||
			strings.Contains(got.html, `id="why-not"`) {
			t.Errorf("%s = %d, want the reason and %q\n%s", path, got.status, says, got.html)
		}
		checkHTML(t, got)
	}
	if got := w.as("customer", "GET /portal/events/"+postrider.EventID{15: 1}.String()+"/why-not", nil); got.status != http.StatusNotFound {
		t.Errorf("an event that does not exist = %d", got.status)
	}
}

// A customer sees no condition about internal, and nothing of what the event has there.
func TestWhyNotHidesInternal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	e := w.endpoint(apitypes.EndpointCreate{Policy: apitypes.Policy{
		Filter: apitypes.Of(json.RawMessage(`{"internal": {"risk": ["low"]}, "type": ["order.created"]}`)),
	}})
	receipt, err := w.admin.Publish(t.Context(), apitypes.EventCreate{
		Account: "acme", Type: "order.created", Data: json.RawMessage(`{}`), About: apitypes.About{Internal: map[string]string{"risk": "canary"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"/events/" + receipt.ID.String() + "/why-not?endpoint=" + e.ID.String(),
		"/endpoints/" + e.ID.String() + "/why-not?event=" + receipt.ID.String(),
	} {
		w.see("operator", "/dashboard"+path).says(t, "internal.risk", "canary")
		customer := w.see("customer", "/portal"+path)
		customer.says(t, "its filter does not hold", "order.created")
		customer.lacks(t, "internal.risk", "canary")
	}
}
