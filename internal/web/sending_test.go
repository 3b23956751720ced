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
func (p response) lacks(t *testing.T, texts ...string) {
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
		{"the server lacks something", nil, true, postrider.Pace{Slots: 32, Limit: 32, Reason: postrider.PacePostponed, ResumesAt: time.Now().Add(8 * time.Second)}, []string{"the server could not make the last attempt"}},
		{"its rate is used up", nil, true, postrider.Pace{Slots: 8, Limit: 8, Reason: postrider.PaceRate, ResumesAt: time.Now().Add(150 * time.Minute)}, []string{"rate of this endpoint, 2 per 1 s, is used up", "in 2 h"}},
		{"its window is full", nil, true, postrider.Pace{Slots: 32, Limit: 32, InFlight: 32}, []string{"all 32 requests that may be sent at once are under way"}},
		{"it is paused", func(w *world, e apitypes.Endpoint) {
			w.submit("operator", "/dashboard/endpoints/"+e.ID.String()+"/pause", nil)
		}, true, full, []string{"Nothing is sent while the endpoint is paused", "</strong> Since <span", "Resume it when its receiver is ready."}},
		{"its backlog is full", func(w *world, e apitypes.Endpoint) {
			if _, err := w.store.MarkFull(w.Context(), store.MarkFull{Full: []postrider.EndpointID{e.ID}}); err != nil {
				w.Fatal(err)
			}
		}, false, full, []string{"<strong>Backlog full.</strong> As many deliveries wait as are allowed for one endpoint", "can be replayed then. Since <span"}},
		{"its circuit is open", func(w *world, e apitypes.Endpoint) {
			w.submit("operator", "/dashboard/endpoints/"+e.ID.String()+"/circuit", url.Values{"value": {"open"}})
		}, true, full, []string{"The circuit is open: nothing but a probe is sent", "It opened because a person opened it.", "</strong> Since <span", "Next probe:", "The circuit closes when a probe succeeds"}},
		{"it asked for time", func(w *world, e apitypes.Endpoint) {
			if _, err := w.store.PutCircuit(w.Context(), store.PutCircuit{Circuit: postrider.Circuit{
				Endpoint: e.ID, Status: postrider.CircuitClosed, PacedUntil: w.store.Clock().Now().Add(2 * time.Hour),
			}}); err != nil {
				w.Fatal(err)
			}
		}, true, full, []string{"asked for time with Retry-After", "in 2 h"}},
		{"it fails", func(w *world, e apitypes.Endpoint) {
			if _, err := w.store.PutCircuit(w.Context(), store.PutCircuit{Circuit: postrider.Circuit{
				Endpoint: e.ID, Status: postrider.CircuitClosed, FailingSince: time.Now().Add(-time.Hour),
			}}); err != nil {
				w.Fatal(err)
			}
		}, false, full, []string{"the last ones were not accepted", "</strong> Since <span", "60 min ago", "Retries follow by themselves."}},
		{"it is warned about", func(w *world, e apitypes.Endpoint) {
			w.judge(e, postrider.HealthWarned, postrider.ReasonFailing)
		}, true, full, []string{"Requests are sent.", "The endpoint is warned about, because it has been failing for hours.", "If this goes on, the server disables it."}},
		{"the server disabled it", func(w *world, e apitypes.Endpoint) {
			w.judge(e, postrider.HealthDisabled, postrider.ReasonDeadLetters)
		}, true, full, []string{"The server disabled the endpoint, because most deliveries of a day failed for good.", "</strong> Since <span", "enable the endpoint, then replay what it missed"}},
		{"its deliveries died", func(w *world, e apitypes.Endpoint) {
			w.publish("order.created", `{}`)
			w.settle(e.ID, postrider.Attempt{StatusCode: 404}, postrider.Policy{ClientErrors: postrider.DeadLetterClientErrors})
		}, false, full, []string{"Requests are sent, but the latest was not accepted.", "One dead letter waits for a person", "/dead-letters?endpoint=ep_", "See and replay them"}},
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

// An endpoint that failed and has no rate is sent fewer requests at once, which is not its rate.
func TestAnEndpointWithoutARateIsNotSaidToHaveUsedItUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	e := w.endpoint(apitypes.EndpointCreate{})
	w.paces[e.ID] = postrider.Pace{Slots: 1, Limit: 10, Reason: postrider.PaceWindow, ResumesAt: time.Now().Add(time.Minute)}
	w.publish("order.created", `{}`)
	w.later = 7 * time.Minute
	got := w.see("operator", "/dashboard/endpoints/"+e.ID.String())
	got.says(t, "1 of 10 requests are sent at once")
	got.lacks(t, "is used up", "Next request:")
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
		after := func(span time.Duration) response { // the overview keeps its numbers for a second
			time.Sleep(span)
			return w.see("operator", "/dashboard")
		}
		after(0).says(t, "<strong>All endpoints receive.</strong> No delivery is pending.")
		e := w.endpoint(apitypes.EndpointCreate{})
		w.publish("order.created", `{}`)
		after(2*time.Second).says(t, "<strong>All endpoints receive.</strong> <a href=\"/dashboard/deliveries?status=pending\">One delivery is pending.</a>")
		after(7*time.Minute).says(t, "<strong>One endpoint falls behind.</strong>", "The oldest delivery that is due waits for 7 min", "Falls behind", "oldest due for 7 min")
		w.submit("operator", "/dashboard/endpoints/"+e.ID.String()+"/pause", nil)
		after(2*time.Minute).says(t, "<strong>All endpoints receive.</strong>", "Only deliveries of paused or disabled endpoints wait for long, the oldest for 9 min")
		w.trouble("")
		after(2*time.Second).says(t, `<strong><a href="/dashboard/endpoints?health=failing">One endpoint fails.</a></strong>`, "The oldest delivery that is due waits for 9 min")
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

// judge stores a health of the endpoint.
func (w *world) judge(e apitypes.Endpoint, status postrider.HealthStatus, reason string) {
	w.Helper()
	if err := w.store.PutHealth(w.Context(), postrider.EndpointHealth{
		Endpoint: e.ID, Account: e.Account, Number: 1, Status: status, Reason: reason, Warnings: 1, Since: time.Now().Add(-3 * time.Hour),
	}); err != nil {
		w.Fatal(err)
	}
}

// What an endpoint suffers from is said before everything else of its page.
func TestAnEndpointsPageBeginsWithItsState(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	e := w.endpoint(apitypes.EndpointCreate{})
	path := "/dashboard/endpoints/" + e.ID.String()
	w.submit("operator", path+"/circuit", url.Values{"value": {"open"}})
	for person, base := range map[string]string{"operator": "/dashboard", "customer": "/portal"} {
		page := w.see(person, base+"/endpoints/"+e.ID.String()).html
		said, traffic, below := strings.Index(page, "The circuit is open"), strings.Index(page, `class="ranges"`), strings.Index(page, `id="circuit-panel"`)
		if said < 0 || said > traffic || said > below || traffic < 0 || below < 0 {
			t.Errorf("the state is said at %d, the numbers at %d, the circuit at %d", said, traffic, below)
		}
	}
}

// probeStates are circuits, with what the page of their endpoint offers and lacks. before is
// the form that was submitted before, or due: a delivery was published.
var probeStates = []struct {
	name          string
	status        postrider.CircuitStatus
	probe, paced  time.Duration // from now
	before        string
	offers, lacks []string
}{
	{"closed", postrider.CircuitClosed, 0, 0, "due", []string{`value="open"`}, []string{probeForm, closeForm}},
	{"open", postrider.CircuitOpen, time.Hour, 0, "due", []string{probeForm, closeForm, "Next probe:", "A probe is one delivery that is due."}, []string{"No delivery is due now"}},
	{"open with nothing to send", postrider.CircuitOpen, time.Hour, 0, "", []string{probeForm, closeForm, "Next probe:", "After this, the next one that is due is the probe"}, nil},
	{"after the cooldown", postrider.CircuitOpen, -time.Second, 0, "due", []string{closeForm, "its cooldown is over: the next delivery that is due is sent as the probe"}, []string{probeForm, "Next probe:", "No delivery is due now"}},
	{"after the cooldown with nothing to send", postrider.CircuitOpen, -time.Second, 0, "", []string{closeForm, "not known: nothing to send", "Half open", "A test event is due at once, and is the probe then."}, []string{probeForm, "Next probe:"}},
	{"it asked for time", postrider.CircuitOpen, -time.Second, time.Hour, "due", []string{closeForm, "Next probe:", "no probe is sent before"}, []string{probeForm}},
	{"a probe is under way", postrider.CircuitHalfOpen, time.Hour, 0, "due", []string{closeForm, "One request, the probe, is under way."}, []string{probeForm, "Next probe:"}},
	{"a probe that never ended", postrider.CircuitHalfOpen, -time.Second, 0, "due", []string{closeForm, "its cooldown is over"}, []string{probeForm, "is under way."}},
	{"open and paused", postrider.CircuitOpen, time.Hour, 0, "pause", []string{closeForm, "Nothing is sent while the endpoint is paused", "not even a probe"}, []string{probeForm, "Next probe:"}},
	{"open and disabled", postrider.CircuitOpen, time.Hour, 0, "disable", []string{closeForm, "Nothing is sent while the endpoint is disabled", "not even a probe"}, []string{probeForm, "Next probe:"}},
}

const (
	probeForm = `name="value" value="half_open"`
	closeForm = `name="value" value="closed"`
)

// The form that asks for a probe is there only if the endpoint gets one earlier by it, and the
// sentences of the page agree with what the circuit does.
func TestAProbeIsOfferedWhereItDoesSomething(t *testing.T) {
	t.Parallel()
	for _, test := range probeStates {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, web.Options{})
			e := w.endpoint(apitypes.EndpointCreate{})
			circuit := postrider.Circuit{Endpoint: e.ID, Status: test.status, ProbeAt: time.Now().Add(test.probe)}
			if test.paced > 0 {
				circuit.PacedUntil = time.Now().Add(test.paced)
			}
			if _, err := w.store.PutCircuit(t.Context(), store.PutCircuit{Circuit: circuit}); err != nil {
				t.Fatal(err)
			}
			path := "/dashboard/endpoints/" + e.ID.String()
			switch test.before {
			case "":
			case "due":
				w.publish("order.created", `{}`)
			default:
				w.submit("operator", path+"/"+test.before, nil)
			}
			got := w.see("operator", path)
			got.says(t, test.offers...)
			got.lacks(t, test.lacks...)
			checkHTML(t, got)
		})
	}
}

// A page that is older than its circuit offers a probe that would open the circuit again, or
// that is under way. Such a form changes nothing and says so.
func TestAProbeOfACircuitThatIsNotOpen(t *testing.T) {
	t.Parallel()
	for status, says := range map[postrider.CircuitStatus]string{
		postrider.CircuitClosed:   "The circuit has closed already. Nothing was changed.",
		postrider.CircuitHalfOpen: "The next delivery is the probe already, or it is under way. Nothing was changed.",
	} {
		w := newWorld(t, web.Options{})
		e := w.endpoint(apitypes.EndpointCreate{})
		if _, err := w.store.PutCircuit(t.Context(), store.PutCircuit{Circuit: postrider.Circuit{Endpoint: e.ID, Status: status, ProbeAt: time.Now().Add(time.Hour)}}); err != nil {
			t.Fatal(err)
		}
		w.submit("operator", "/dashboard/endpoints/"+e.ID.String()+"/circuit", url.Values{"value": {"half_open"}}).says(t, says)
		if c, err := w.admin.Circuit(t.Context(), e.ID); err != nil || c.Status != status {
			t.Errorf("the circuit is %v, %v, want %s", c.Status, err, status)
		}
	}
}

// The page of an endpoint says how many deliveries were skipped in the last hour, also when its
// backlog is not full any more, and leads to them.
func TestAnEndpointSaysWhatWasSkipped(t *testing.T) {
	t.Parallel()
	for ago, says := range map[time.Duration]bool{time.Minute: true, 2 * time.Hour: false} {
		w := newWorld(t, web.Options{})
		w.later = -ago
		e := w.endpoint(apitypes.EndpointCreate{})
		mark := func(m store.MarkFull) {
			if _, err := w.store.MarkFull(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
		mark(store.MarkFull{Full: []postrider.EndpointID{e.ID}})
		w.publish("order.created", `{}`)
		w.publish("order.created", `{}`)
		if _, err := w.store.FoldRollups(t.Context(), store.Fold{Deltas: 100}); err != nil {
			t.Fatal(err)
		}
		mark(store.MarkFull{Free: []postrider.EndpointID{e.ID}})
		w.later = 0
		for _, query := range []string{"", "?range=1h"} {
			got := w.see("operator", "/dashboard/endpoints/"+e.ID.String()+query)
			if says {
				got.says(t, "2 deliveries were skipped in the last hour", "/dashboard/deliveries?status=skipped&amp;endpoint="+e.ID.String())
			} else {
				got.lacks(t, "were skipped in the last hour")
			}
			checkHTML(t, got)
		}
	}
}

// TestTimesAreShownAgainstTheStoresTimeOfDay steps the time of day an hour ahead of this
// machine's, with an open circuit: the page says in how long its probe is, and not an hour more.
func TestTimesAreShownAgainstTheStoresTimeOfDay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	e := w.endpoint(apitypes.EndpointCreate{})
	c := w.store.Clock()
	if _, err := w.store.PutCircuit(t.Context(), store.PutCircuit{Circuit: postrider.Circuit{
		Endpoint: e.ID, Status: postrider.CircuitOpen, Reason: postrider.ReasonFailuresInRow, OpenedAt: c.Now(), FailingSince: c.Now(), ProbeAt: c.Now().Add(630 * time.Second),
	}}); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	c.Follow(store.Reading{Asked: now, Answered: now, Wall: c.Wall()})
	c.Follow(store.Reading{Asked: now, Answered: now, Wall: c.Wall().Add(time.Hour), Ahead: -time.Hour, Version: 1})
	got := w.see("operator", "/dashboard/endpoints/"+e.ID.String())
	got.says(t, ">in 10 min<")
	got.lacks(t, "in 1 h", "1 h ago", "in 59 min")
}
