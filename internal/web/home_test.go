package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/web"
)

// TestTheFirstPageSaysWhatIsTrue brings an account into each state, and looks for the
// sentences of the first page of the portal.
func TestTheFirstPageSaysWhatIsTrue(t *testing.T) {
	t.Parallel()
	const (
		untested, stopped, first = "Nothing was delivered yet", "Nothing is being sent", "Your first delivery is on its way"
		all, none, others        = "Every delivery that has ended was delivered.", "No delivery has ended yet.", "Others are still on their way."
		lost                     = "Not every delivery arrived"
		dead                     = "These get no further attempt by themselves."
	)
	sentences := []string{untested, stopped, first, all, none, others, lost, dead}
	one := func(w *world) (apitypes.Endpoint, apitypes.Delivery) {
		e := w.endpoint(apitypes.EndpointCreate{})
		return e, w.deliveryOf(w.publish("order.created", `{}`))
	}
	delivered := func(w *world) apitypes.Endpoint {
		e, _ := one(w)
		w.settle(e.ID, postrider.Attempt{StatusCode: 204}, postrider.DefaultPolicy())
		return e
	}
	post := func(w *world, path string) { w.submit("customer", path, url.Values{}) }
	for name, tt := range map[string]struct {
		make func(*world)
		want []string
	}{
		"nothing published": {func(w *world) { w.endpoint(apitypes.EndpointCreate{}) }, []string{untested, none}},
		"one pending":       {func(w *world) { one(w) }, []string{first, none, others}},
		"one delivered":     {func(w *world) { delivered(w) }, []string{all}},
		"one delivered, one pending": {func(w *world) {
			delivered(w)
			w.publish("order.created", `{}`)
		}, []string{all, others}},
		"one cancelled": {func(w *world) {
			_, d := one(w)
			post(w, "/portal/deliveries/"+d.ID.String()+"/cancel")
		}, []string{untested, lost}},
		"one delivered, one cancelled": {func(w *world) {
			delivered(w)
			post(w, "/portal/deliveries/"+w.deliveryOf(w.publish("order.created", `{}`)).ID.String()+"/cancel")
		}, []string{lost}},
		"one dead": {func(w *world) { w.dead() }, []string{untested, dead}},
		"one dead and discarded": {func(w *world) {
			_, d := w.dead()
			post(w, "/portal/deliveries/"+d.ID.String()+"/discard")
		}, []string{untested, lost}},
		"paused": {func(w *world) { post(w, "/portal/endpoints/"+delivered(w).ID.String()+"/pause") }, []string{stopped, all}},
		"paused, one pending": {func(w *world) {
			e, _ := one(w)
			post(w, "/portal/endpoints/"+e.ID.String()+"/pause")
		}, []string{stopped, none, others}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, web.Options{})
			tt.make(w)
			got := w.see("customer", "/portal")
			for _, sentence := range sentences {
				want := false
				for _, s := range tt.want {
					want = want || s == sentence
				}
				if strings.Contains(got.html, sentence) != want {
					t.Errorf("the page says %q: %t, want %t", sentence, !want, want)
				}
			}
		})
	}
}

func TestAnUnknownTimeZoneIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	for _, zone := range []string{"Europa/Berlin", "", "Local", "../etc/passwd"} {
		got := w.as("customer", "POST /portal/preferences", url.Values{"language": {"de"}, "zone": {zone}, "back": {"/portal/events"}})
		for _, text := range []string{
			`id="fault-zone"`, `aria-invalid="true"`, `value="/portal/events"`, `value="` + zone + `"`,
			`<option value="de" selected>`,
		} {
			if got.status != http.StatusUnprocessableEntity || !strings.Contains(got.html, text) {
				t.Errorf("the zone %q = %d, without %q", zone, got.status, text)
			}
		}
		if len(got.cookie) != 0 {
			t.Errorf("the zone %q sets %v", zone, got.cookie)
		}
		checkHTML(t, got)
	}
	says(t, w.submit("customer", "/portal/preferences", url.Values{"zone": {"Europe/Berlin"}, "back": {"/portal/events"}}),
		"Times are in Europe/Berlin now.")
	says(t, w.see("customer", "/portal/preferences"), "Time zone")
}

// TestAUsedLinkLeadsToTheOpenSession opens a link again, with and without the session
// that it made.
func TestAUsedLinkLeadsToTheOpenSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	const link = "/portal/enter/code-of-customer"
	w.sessions.speak("customer", "de")
	says(t, w.see("nobody", link), "Webhooks öffnen")
	if got := w.as("nobody", "POST "+link, nil); got.status != http.StatusSeeOther {
		t.Fatalf("the link = %d", got.status)
	}
	for _, method := range []string{"GET ", "POST "} {
		got := w.as("customer", method+link, nil)
		if got.status != http.StatusGone || !strings.Contains(got.html, "Dieser Link funktioniert nicht") ||
			!strings.Contains(got.html, `href="/portal"`) {
			t.Errorf("%swith a session = %d\n%s", method, got.status, got.html)
		}
		got = w.as("nobody", method+link, nil)
		if got.status != http.StatusGone || strings.Contains(got.html, `href="/portal"`) ||
			!strings.Contains(got.html, "Go back to the application") {
			t.Errorf("%swithout a session = %d\n%s", method, got.status, got.html)
		}
	}
}
