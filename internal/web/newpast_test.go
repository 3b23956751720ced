package web_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/api"
	apiendpoints "github.com/postrider/postrider/internal/api/endpoints"
	"github.com/postrider/postrider/internal/web"
	"github.com/postrider/postrider/internal/web/page"
)

// backfills returns the jobs of the account, and its endpoints.
func (w *world) backfills() ([]apitypes.Replay, []apitypes.Endpoint) {
	w.Helper()
	jobs, err := w.admin.Replays(w.Context(), client.ReplayFilter{})
	if err != nil {
		w.Fatal(err)
	}
	endpoints, err := w.admin.Endpoints(w.Context(), client.EndpointFilter{})
	if err != nil {
		w.Fatal(err)
	}
	return jobs.Data, endpoints.Data
}

// newEndpoint returns the forms of a new endpoint of order.*, by person.
func newEndpoint(since, at string) map[string]url.Values {
	past := func(form url.Values) url.Values {
		form.Set("url", "https://acme.example/hooks")
		form.Set("since", since)
		form.Set("since_at", at)
		return form
	}
	return map[string]url.Values{
		"customer": past(url.Values{"all": {"no"}, "patterns": {"order.*"}}),
		"operator": past(url.Values{"account": {"acme"}, "was.event_types": {""}, "event_types": {"order.*"}}),
	}
}

// bases are the paths above the pages of people.
var bases = map[string]string{"customer": "/portal", "operator": "/dashboard"}

func TestANewEndpointGetsEventsOfThePast(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ since, at, says string }{
		{"none", "2026-01-31T09:30", ""},
		{"1h", "", "3 events of the past are being sent, at most 100 a second."},
		{"24h", "", "3 events of the past are being sent"},
		{"168h", "", "3 events of the past are being sent"},
		{"date", "2026-01-31T09:30", "3 events of the past are being sent"},
	} {
		for person, form := range newEndpoint(tt.since, tt.at) {
			w := newWorld(t, web.Options{})
			for range 3 {
				w.publish("order.created", "1")
			}
			w.publish("user.created", "1")
			path := bases[person] + "/endpoints/new"
			w.see(person, path).says(t, `<option value="none" selected>no, only new ones</option>`)
			shown := w.submit(person, path, form)
			shown.says(t, "The endpoint was created.", tt.says)
			checkHTML(t, shown)
			jobs, endpoints := w.backfills()
			if tt.says == "" {
				if len(jobs) != 0 || len(endpoints) != 1 {
					t.Errorf("%s, %s: %d jobs and %d endpoints", person, tt.since, len(jobs), len(endpoints))
				}
				continue
			}
			if len(jobs) != 1 || len(endpoints) != 1 || jobs[0].Expected.Matches != 3 || *jobs[0].Endpoint != endpoints[0].ID {
				t.Fatalf("%s, %s: the jobs are %+v", person, tt.since, jobs)
			}
			shown.says(t, `<a href="`+bases[person]+`/replays/`+jobs[0].ID.String()+`">See the progress</a>`)
		}
	}
}

// What the form of a new endpoint asked for and what did not happen is said beside what did.
func TestANewEndpointSaysThatNothingOfThePastIsSent(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ order, patterns, says string }{
		"in order":     {"by_key", "order.*", "No event of the past is sent: The endpoint gets its events in order. Pause it first"},
		"nothing fits": {"", "invoice.*", "No event since then is one that the endpoint wants and did not get."},
		"unknown type": {"", "order.craeted", "No event of these types is known: order.craeted. Check the spelling in the options of the endpoint. No event since then"},
	} {
		w := newWorld(t, web.Options{})
		w.publish("order.created", "1")
		form := newEndpoint("24h", "")["customer"]
		form.Set("patterns", tt.patterns)
		form.Set("was.order", "")
		form.Set("order", tt.order)
		shown := w.submit("customer", "/portal/endpoints/new", form)
		shown.says(t, "The endpoint was created.", tt.says)
		_, endpoints := w.backfills()
		if len(endpoints) != 1 {
			t.Fatalf("%s: %d endpoints", name, len(endpoints))
		}
		if again := "/portal/endpoints/" + endpoints[0].ID.String() + "/missed?what=past"; name == "in order" {
			shown.says(t, `<a href="`+again+`">Try again</a>`)
			w.see("customer", again).says(t, "Events without a delivery")
		}
	}
}

// TestAnEndpointIsNotMadeTwiceForItsPast lets the call that starts the backfill fail. The endpoint was
// created, so the form is not shown again.
func TestAnEndpointIsNotMadeTwiceForItsPast(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	w.web = web.New(web.Deps{Deps: page.Deps{
		API: func(c postrider.Caller) http.RoundTripper { return noBackfills{w.api.As(c)} }, Share: w.api.Share,
		Sessions: w.sessions, Standard: apiendpoints.StandardPolicy(), Now: time.Now,
	}}, web.Options{})
	w.submit("customer", "/portal/endpoints/new", newEndpoint("24h", "")["customer"]).says(t,
		"The endpoint was created.", "No event of the past is sent: The server could not start it.", "Try again")
}

// noBackfills is an API whose backfills fail.
type noBackfills struct{ http.RoundTripper }

func (n noBackfills) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(r.URL.Path, "/backfill") {
		return n.RoundTripper.RoundTrip(r)
	}
	away := httptest.NewRecorder()
	away.WriteHeader(http.StatusServiceUnavailable)
	return away.Result(), nil
}

func TestABadTimeMakesNoEndpoint(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	for at, says := range map[string]string{
		"": "The time cannot be read.", "yesterday": "The time cannot be read.", "2999-01-01T00:00": "Choose a time that has passed.",
	} {
		for person, form := range newEndpoint("date", at) {
			got := w.as(person, "POST "+bases[person]+"/endpoints/new", form)
			if got.status != http.StatusUnprocessableEntity {
				t.Errorf("%s, since %q = %d", person, at, got.status)
			}
			got.says(t, says, "<strong>Events of the past</strong>", `id="fault-start_from"`, `<option value="date" selected>`, `value="`+at+`"`)
			checkHTML(t, got)
		}
	}
	if jobs, endpoints := w.backfills(); len(jobs)+len(endpoints) != 0 {
		t.Errorf("%d jobs and %d endpoints were made", len(jobs), len(endpoints))
	}
}

// A page says since when events are kept, if that is later than the chosen time. A person who may not see
// secrets later gets the message on the page that shows the secret once.
func TestANewEndpointSaysSinceWhenEventsAreKept(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, web.Options{}, api.Options{
		Retention: postrider.AccountRetention{Events: 3, Attempts: 3, Bodies: 3, IdempotencyKeys: 3},
	})
	w.later = 30 * 24 * time.Hour
	w.publish("order.created", "1")
	w.submit("operator", "/dashboard/endpoints/new", newEndpoint("168h", "")["operator"]).says(t, "One event of the past is being sent.",
		"What was created before 20", "may be deleted. It is then not selected")
	w.sessions.add("maker", postrider.Caller{
		Name: "Max", Account: w.account.ID, Scopes: []postrider.Scope{postrider.ScopeWebhooksRead, postrider.ScopeEndpointsWrite},
	})
	w.as("maker", "POST /portal/endpoints/new", newEndpoint("24h", "")["customer"], german).says(t,
		"Ein vergangenes Ereignis wird gesendet.", "Den Fortschritt ansehen", "whsec_")
}

func TestAChangedSubscriptionStartsInThePast(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	for range 2 {
		w.publish("invoice.paid", "1")
	}
	e := w.endpoint(apitypes.EndpointCreate{})
	path := "/dashboard/endpoints/" + e.ID.String()
	options := w.see("operator", path+"/options")
	options.lacks(t, "Also send events")
	form := options.fields()
	form.Set("payload", "raw")
	w.as("operator", "POST "+path+"/options", form).lacks(t, "Also send events") // it changes no subscription
	form.Set("event_types", "order.*\r\ninvoice.*")
	review := w.as("operator", "POST "+path+"/options", form)
	review.says(t, "Also send events")
	checkHTML(t, review)
	form.Set("save", "yes")
	form.Set("since", "date")
	form.Set("since_at", "2999-01-01T00:00")
	if got := w.as("operator", "POST "+path+"/options", form); got.status != http.StatusUnprocessableEntity ||
		!strings.Contains(got.html, "Choose a time that has passed.") || len(w.subscribed(e.ID)) != 1 {
		t.Errorf("a time to come = %d\n%s", got.status, got.html)
	}
	form.Set("since", "24h")
	done := w.submit("operator", path+"/options", form)
	done.says(t, "2 options are changed.", "next attempt. 2 events of the past are being sent", "See the progress")
	form = w.see("operator", path+"/try").says(t, "Also send events").fields()
	form.Set("save", "yes")
	form.Set("since", "1h")
	w.submit("operator", path+"/options", form).says(t, "Nothing was changed. No event of the past is sent: Old events are already being sent")
	w.undo(done).lacks(t, "events of the past")
	if jobs, _ := w.backfills(); len(jobs) != 1 {
		t.Errorf("%d backfills were started, want one", len(jobs))
	}
}

// subscribed returns the event types of an endpoint.
func (w *world) subscribed(id postrider.EndpointID) []string {
	w.Helper()
	e, err := w.admin.Endpoint(w.Context(), id)
	if err != nil {
		w.Fatal(err)
	}
	return e.EventTypes
}
