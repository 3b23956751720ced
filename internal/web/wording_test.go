package web_test

import (
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/web"
)

// german asks for pages in German.
var german = &http.Cookie{Name: "postrider-language", Value: "de"}

// TestWordsOfThePortal looks for the words with which pages name what newcomers do not
// know yet.
func TestWordsOfThePortal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	e := w.endpoint(apitypes.EndpointCreate{})
	endpoint := "/endpoints/" + e.ID.String()
	w.as("customer", "GET /portal"+endpoint, nil).says(t,
		"An open circuit stops sending until a person closes it", "of 0 ended deliveries")
	w.as("customer", "GET /portal"+endpoint, nil, german).says(t, "Verpasstes", "Ein offener Circuit Breaker")
	w.as("customer", "GET /portal/dead-letters?all=1", nil).lacks(t, "Asked to slow down", "Refused by the receiver")
	w.as("customer", "GET /portal"+endpoint+"/start", nil).lacks(t, "audit log")
	w.as("customer", "GET /portal"+endpoint+"/secrets", nil).lacks(t, "audit log")
	w.as("operator", "GET /dashboard"+endpoint+"/start", nil).says(t, "The audit log notes that you saw it.")
	w.as("customer", "POST /portal"+endpoint+"/start", nil).says(t, "Its example reads it from the environment variable", `class="whole"`)
	for language, says := range map[string]string{"en": "This link does not work", "de": "Dieser Link funktioniert nicht"} {
		got := w.as("", "GET /portal/enter/never", nil, &http.Cookie{Name: "postrider-language", Value: language})
		if got.status != http.StatusGone || !strings.Contains(got.html, says) {
			t.Errorf("%s: %d, want %q\n%s", language, got.status, says, got.html)
		}
	}
	w.as("", "GET /portal", nil).lacks(t, "an hour")
}

// TestAFormSaysAllItsFaultsAtOnce sends forms with what cannot be read beside what the
// API refuses, and looks for every fault in the summary and at its field. Nothing is
// saved.
func TestAFormSaysAllItsFaultsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	e := w.endpoint(apitypes.EndpointCreate{})
	stored := w.options(e.ID)
	for field, typed := range map[string]string{
		"rate": "many", "concurrency": "ten", "max_redirects": "x", "expiry_ms": "soon", "timeout_ms": "soon", "retry": "soon", "circuit": "many",
		"headers": "X-Tenant",
	} {
		input := field
		form := url.Values{"where": {"url"}, "url": {"ftp://x"}, "all": {"yes"}, "was.headers.secret": {""}, "headers.secret": {"Host: x"}}
		if field == "retry" || field == "circuit" {
			form.Set("was."+field+".preset", "")
			form.Set(field+".preset", "own")
			input = "retry.delays_ms"
		}
		if field == "circuit" {
			input = "circuit.failures"
			for _, name := range circuitFields {
				form.Set("was."+name, "")
			}
		}
		form.Set("was."+input, "")
		form.Set(input, typed)
		for _, path := range []string{"/portal/endpoints/new", "/portal/endpoints/" + e.ID.String() + "/options"} {
			form.Set("was.url", "https://a.example")
			form.Set("save", "yes")
			got := w.as("customer", "POST "+path, form)
			if got.status != http.StatusUnprocessableEntity || strings.Count(got.html, "Enter a whole URL") != 2 ||
				!strings.Contains(got.html, `id="fault-`+field+`"`) || !strings.Contains(got.html, `id="fault-headers"`) {
				t.Errorf("%s, %s: %d\n%s", path, field, got.status, got.html)
			}
			if field != "headers" {
				got.says(t, "Host: The server sets this header itself.")
			}
			checkHTML(t, got)
		}
	}
	if !reflect.DeepEqual(w.options(e.ID), stored) {
		t.Error("a refused form was saved")
	}
	form := url.Values{
		"where": {"url"}, "url": {"https://a.example"}, "all": {"yes"}, "was.headers": {""}, "headers": {"Host: x"},
		"was.rate": {""}, "rate": {"x"},
	}
	w.as("customer", "POST /portal/endpoints/new", form, german).says(t, "Host: Diesen Header setzt der Server selbst.",
		"Geben Sie eine Rate wie", "Korrigieren Sie diese 2 Angaben", "<strong>Header</strong>", "<strong>Rate</strong>")
}

// TestAnInspectorsTestLeadsToItsRequests sends a test event to an inspector, and opens
// the page of the result.
func TestAnInspectorsTestLeadsToItsRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	e := w.endpoint(apitypes.EndpointCreate{Kind: postrider.KindInspector})
	path := "/portal/endpoints/" + e.ID.String()
	w.submit("customer", path+"/tests", url.Values{"type": {"postrider.test"}}).says(t,
		`href="`+path+`/requests">See the request and whether its signature verifies`)
	w.see("customer", path+"/options").lacks(t, `<code class="muted">`, "(oauth2)")
	w.see("customer", path+"/options").says(t, "An empty secret keeps the stored one.")
	w.see("customer", "/portal/endpoints/new").lacks(t, `<code class="muted">`, "keeps the stored one", "keeps its value")
	w.as("customer", "POST "+path+"/secrets/rotate", url.Values{"overlap_ms": {"24h"}}).says(t, "The old ones sign too for 1 d")
}
