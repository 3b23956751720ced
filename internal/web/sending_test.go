package web_test

import (
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/web"
)

// lacks ends with an error for each text that the page has.
func (p page) lacks(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if strings.Contains(p.html, text) {
			t.Errorf("the page says %q", text)
		}
	}
}

// The page of an endpoint says why its deliveries wait, with its window and its backlog.
func TestAnEndpointSaysWhyItsDeliveriesWait(t *testing.T) {
	t.Parallel()
	full := postrider.Pace{Slots: 32, Limit: 32}
	for _, test := range []struct {
		name    string
		prepare func(*world, apitypes.Endpoint)
		waits   bool // a delivery is due
		pace    postrider.Pace
		says    []string
	}{
		{"nothing waits", nil, false, full, []string{"No delivery waits.", "At most 32 at a time; none is under way"}},
		{"it is sent", nil, true, full, []string{"Requests are sent.", "oldest due for 7 min"}},
		{"it throttles", nil, true, postrider.Pace{Slots: 2, Limit: 32, InFlight: 2, Reason: postrider.PaceWindow}, []string{
			"too many requests (429 or 503)", "2 of 32 requests are sent at once", "At most 2 at a time now (32 when all goes well); 2 are under way", "<dd>1, oldest due for 7 min",
		}},
		{"it is silent", nil, true, postrider.Pace{Slots: 1, Limit: 32, Reason: postrider.PaceNoResponse}, []string{"got no response"}},
		{"its rate is used up", nil, true, postrider.Pace{Slots: 8, Limit: 8, Reason: postrider.PaceRate, ResumesAt: time.Now().Add(90 * time.Minute)}, []string{"rate of this endpoint, 2 per 1 s, is used up", "in 1 h"}},
		{"its window is full", nil, true, postrider.Pace{Slots: 32, Limit: 32, InFlight: 32}, []string{"all 32 requests that may be sent at once are under way"}},
		{"it is paused", func(w *world, e apitypes.Endpoint) {
			w.submit("operator", "/dashboard/endpoints/"+e.ID.String()+"/pause", nil)
		}, true, full, []string{"Nothing is sent while the endpoint is paused"}},
		{"its circuit is open", func(w *world, e apitypes.Endpoint) {
			w.submit("operator", "/dashboard/endpoints/"+e.ID.String()+"/circuit", url.Values{"value": {"open"}})
		}, true, full, []string{"The circuit is open: no request is sent", "Next request:"}},
		{"it asked for time", func(w *world, e apitypes.Endpoint) {
			if _, err := w.store.PutCircuit(w.Context(), store.PutCircuit{Circuit: postrider.Circuit{
				Endpoint: e.ID, Status: postrider.CircuitClosed, PacedUntil: time.Now().Add(time.Hour + time.Minute),
			}}); err != nil {
				w.Fatal(err)
			}
		}, true, full, []string{"asked for time with Retry-After", "in 1 h"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, web.Options{})
			e := w.endpoint(apitypes.EndpointCreate{Policy: apitypes.Policy{Rate: apitypes.Of(apitypes.Rate{Attempts: 2, PerMS: 1000})}})
			w.paces[e.ID] = test.pace
			if test.waits {
				w.publish("order.created", `{}`)
				w.later = 7 * time.Minute
			}
			if test.prepare != nil {
				test.prepare(w, e)
			}
			got := w.see("operator", "/dashboard/endpoints/"+e.ID.String())
			got.says(t, test.says...)
			if !strings.Contains(test.says[0], "Requests are sent.") {
				got.lacks(t, ">Requests are sent.<")
			}
			checkHTML(t, got)
		})
	}
}

// A test event cannot be sent to a paused endpoint: its button says so.
func TestATestNeedsAnEnabledEndpoint(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	path := "/dashboard/endpoints/" + w.endpoint(apitypes.EndpointCreate{}).ID.String()
	w.see("operator", path).says(t, `action="`+path+`/test"`)
	paused := w.submit("operator", path+"/pause", nil)
	paused.says(t, `<button disabled aria-describedby="untestable">`, "A test event can be sent when the endpoint is resumed.")
	paused.lacks(t, `action="`+path+`/test"`)
}

// The overview begins with how webhooks are, and an endpoint that falls behind is among
// those that need a person.
func TestTheOverviewSaysHowWebhooksAre(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, web.Options{})
		after := func(span time.Duration) page { // the overview keeps its numbers for a second
			time.Sleep(span)
			return w.see("operator", "/dashboard")
		}
		after(0).says(t, "All endpoints receive. No delivery is pending.")
		e := w.endpoint(apitypes.EndpointCreate{})
		w.publish("order.created", `{}`)
		after(2*time.Second).says(t, "All endpoints receive. One delivery is pending.")
		after(7*time.Minute).says(t, "One endpoint falls behind. The oldest delivery that is due waits for 7 min", "Falls behind", "oldest due for 7 min")
		w.submit("operator", "/dashboard/endpoints/"+e.ID.String()+"/pause", nil)
		after(2*time.Minute).says(t, "All endpoints receive. Only deliveries of paused or disabled endpoints wait for long, the oldest for 9 min")
		w.trouble("")
		after(2*time.Second).says(t, "One endpoint fails.", "The oldest delivery that is due waits for 9 min")
	})
}

// A dead letter is named whatever else is well, also if nothing has ended in the range.
func TestTheOverviewNamesDeadLettersAndWhatIsPending(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	w.dead()
	w.see("operator", "/dashboard").says(t, "One dead letter is unresolved.")
	w = newWorld(t, web.Options{})
	w.endpoint(apitypes.EndpointCreate{})
	w.publish("order.created", `{}`)
	w.see("operator", "/dashboard").says(t, "Nothing has ended yet; one delivery is pending.")
}

// A search that finds nothing below the links for a type says what can be found.
func TestASearchThatFindsNothingSaysWhatCanBeFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	got := w.see("operator", "/dashboard/search?q=order.created")
	got.says(t, "With the event type order.created", "Search finds whole ids and keys")
	got.lacks(t, "Nothing is called")
	w.see("operator", "/dashboard/search?q=a/b").says(t, "Nothing is called")
	w.as("operator", "GET /dashboard/search?q=%00", nil).says(t, "This filter cannot be used")
}

// From an account one gets to a new endpoint and to a new key of it.
func TestAnAccountLeadsToItsEndpointsAndKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	id := w.account.ID.String()
	w.see("operator", "/dashboard/accounts/"+id).says(t, `href="/dashboard/endpoints/new?account=`+id+`"`, `href="/dashboard/api-keys/new?account=`+id+`"`)
	for _, path := range []string{"endpoints", "api-keys"} {
		w.see("operator", "/dashboard/"+path+"/new?account="+id).says(t, `name="account" value="`+id+`"`)
	}
	w.see("viewer", "/dashboard/accounts/"+id).lacks(t, "/endpoints/new", "/api-keys/new")
}
