package web_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/web"
)

// fails makes an endpoint whose last attempt got a 500 with a body and whose circuit is open
// since a time ago, while other deliveries wait. It returns the delivery that was attempted.
func (w *world) fails(since time.Duration) (apitypes.Endpoint, postrider.DeliveryID) {
	w.Helper()
	e := w.endpoint(apitypes.EndpointCreate{Description: "ERP"})
	tried := w.deliveryOf(w.publish("order.created", `{}`))
	w.settle(e.ID, postrider.Attempt{
		StatusCode: 500, Error: "http_status: 500", ResponseBody: []byte(`{"error": "relation \"orders_v2\" does not exist"}`),
		StartedAt: time.Now(),
	}, postrider.DefaultPolicy())
	if _, err := w.store.PutCircuit(w.Context(), store.PutCircuit{Circuit: postrider.Circuit{
		Endpoint: e.ID, Status: postrider.CircuitOpen, Reason: postrider.ReasonProbeFailed, FailingSince: time.Now().Add(-since),
		OpenedAt: time.Now().Add(-since), ProbeAt: time.Now().Add(time.Hour),
	}}); err != nil {
		w.Fatal(err)
	}
	return e, tried.ID
}

// Whoever looks at an endpoint that fails, at a delivery that waits for it, or at what needs
// attention, sees how the last request failed, and the way to it.
func TestAnEndpointSaysHowItsLastRequestFailed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	e, tried := w.fails(time.Hour)
	waits := w.deliveryOf(w.publish("order.created", `{}`))
	for person, base := range map[string]string{"operator": "/dashboard", "customer": "/portal"} {
		paths := []string{"/endpoints/" + e.ID.String(), "/deliveries/" + waits.ID.String(), "/endpoints"}
		if person == "operator" {
			paths = append(paths, "")
		} else {
			paths = append(paths, "/")
		}
		for _, path := range paths {
			got := w.see(person, strings.TrimSuffix(base+path, "/"))
			got.says(t, `href="`+base+"/deliveries/"+tried.String()+`?attempt=1">Receiver answered 500</a>`, "orders_v2")
			checkHTML(t, got)
		}
	}
	w.see("operator", "/dashboard/endpoints/"+e.ID.String()).says(t, "Look into its log at the time of the request.")
}

// What broke last is listed first. The true number is said, and leads to all of them.
func TestTheOverviewListsWhatBrokeLast(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	for n := range 11 {
		e := w.endpoint(apitypes.EndpointCreate{URL: fmt.Sprintf("https://old%02d.example/", n)})
		if _, err := w.store.PutCircuit(w.Context(), store.PutCircuit{Circuit: postrider.Circuit{
			Endpoint: e.ID, Status: postrider.CircuitClosed, FailingSince: time.Now().Add(-72 * time.Hour),
		}}); err != nil {
			t.Fatal(err)
		}
	}
	w.fails(10 * time.Minute)
	got := w.see("operator", "/dashboard")
	got.says(t, `<a href="/dashboard/endpoints?health=failing">12 endpoints fail.</a>`, "All 12 that fail")
	if first, old := strings.Index(got.html, "<b>acme.example</b>"), strings.Index(got.html, "<b>old"); first < 0 || first > old {
		t.Errorf("what broke last stands at %d, the older ones begin at %d", first, old)
	}
	if list, charts := strings.Index(got.html, `id="troubled"`), strings.Index(got.html, `id="traffic"`); list > charts {
		t.Errorf("what needs attention stands at %d, after the charts at %d", list, charts)
	}
}

// While deliveries are overdue, no page says that all were delivered.
func TestSuccessCountsWhatIsOverdue(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	e := w.endpoint(apitypes.EndpointCreate{})
	for range 3 {
		w.publish("order.created", `{}`)
	}
	w.settle(e.ID, postrider.Attempt{StatusCode: 200}, postrider.DefaultPolicy())
	w.publish("order.created", `{}`)
	if _, err := w.store.FoldRollups(t.Context(), store.Fold{Deltas: 100}); err != nil {
		t.Fatal(err)
	}
	w.see("operator", "/dashboard/endpoints").says(t, "100\u00a0%")
	w.later = 2 * time.Minute
	for _, path := range []string{"/dashboard/endpoints", "/dashboard/endpoints/" + e.ID.String(), "/dashboard"} {
		got := w.see("operator", path)
		got.says(t, "75\u00a0%")
		got.lacks(t, "<dt>Success</dt><dd>100", `data-label="Success"><span>100`)
	}
	w.see("operator", "/dashboard/endpoints").says(t, "one waits")
	w.see("operator", "/dashboard/endpoints/"+e.ID.String()).says(t, "of 4 deliveries; 1 late")
}

// What was found is grouped by its kind, the customer before the endpoints of others, and the
// page says how much it leaves out and what it does not search.
func TestASearchGroupsWhatItFinds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	for n := range 22 {
		w.endpoint(apitypes.EndpointCreate{URL: fmt.Sprintf("https://acme.example/%d", n)})
	}
	got := w.see("operator", "/dashboard/search?q=acme")
	got.says(t, "20 of 23 are shown.", "Its uid", "Choose an account to search in the data of its events too")
	if accounts, endpoints := strings.Index(got.html, `<h2 id="account">`), strings.Index(got.html, `<h2 id="endpoint">`); accounts < 0 ||
		accounts > endpoints {
		t.Errorf("accounts stand at %d, endpoints at %d", accounts, endpoints)
	}
	w.see("operator", "/dashboard/search?q=NW-140000&account=acme").says(t, "no event type names a path")
}

// A new API key has the scopes that a person ticks, and no other one.
func TestANewKeyHasNothingTicked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	w.see("operator", "/dashboard/api-keys/new").lacks(t, " checked")
	support := w.see("operator", "/dashboard/api-keys/new?preset=support&account=acme")
	support.says(t, `value="webhooks:read" checked`, `value="webhooks:operate" checked`, `?preset=read&amp;account=acme">read</a>`)
	support.lacks(t, `value="events:write" checked`)
}

// A test event that the circuit holds says so, with the button that sends a probe.
func TestATestEventThatWaitsSaysWhy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	e := w.endpoint(apitypes.EndpointCreate{})
	path := "/portal/endpoints/" + e.ID.String()
	w.submit("operator", "/dashboard/endpoints/"+e.ID.String()+"/circuit", map[string][]string{"value": {"open"}})
	got := w.submit("customer", path+"/tests", nil)
	got.says(t, "A person opened the circuit of its endpoint.", `value="half_open"`, "Probe now")
	got.lacks(t, "On its way")
}
