package web_test

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/postrider/postrider/apitypes"
	apiendpoints "github.com/postrider/postrider/internal/api/endpoints"
	"github.com/postrider/postrider/internal/web"
)

// reviewed returns the lines of the review of changes as a browser shows them, without their marks.
func (p response) reviewed() []string {
	_, review, _ := strings.Cut(p.html, `<div class="flash busy"`)
	review, _, _ = strings.Cut(review, "</ul>")
	var lines []string
	for _, m := range regexp.MustCompile(`(?s)<li>(.*?)</li>`).FindAllStringSubmatch(review, -1) {
		lines = append(lines, strings.Join(strings.Fields(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(m[1], "")), " "))
	}
	return lines
}

// The review of changes has one line for each option, with its label and both values in
// words, in the language of the person.
func TestTheReviewSaysEachOptionInWords(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	e := w.endpoint(apitypes.EndpointCreate{})
	path := "/dashboard/endpoints/" + e.ID.String() + "/options"
	form := w.see("operator", path).fields()
	for field, value := range map[string]string{
		"event_types": "order.*\r\ninvoice.paid", "signature.custom": "plain:X-Acme:sha256=", "headers": "X-Tenant: 7",
		"headers.secret": "X-Key: hush", "filter": `{"data":{"total":[{"numeric":[">",5.0]}]}}`,
		"changed": "$.status\r\n$.total", "channels": "shop 7\r\n\r\n b ",
		"condition":    "data.total > 5.0\r\n&& type != \"a\"",
		"retry.preset": "own", "retry.delays_ms": "0s 30s 5m", "timeout_ms": "30s", "rate": "100/1m+20", "order": "by_key",
		"circuit.preset": "own", "circuit.failures": "3", "circuit.percent": "", "circuit.attempts": "", "circuit.window_ms": "",
		"circuit.cooldown_ms": "10s", "circuit.max_cooldown_ms": "5m",
	} {
		form.Set(field, value)
		if strings.HasPrefix(field, "circuit.") && field != "circuit.preset" {
			form.Set("was."+field, "")
		}
	}
	form["signature"] = []string{"standard", "stripe"}
	form.Set("tls.authorities", "PEM")
	for language, want := range map[*http.Cookie][]string{
		{Name: "postrider-language", Value: "en"}: {
			"Event types: order.* → order.*, invoice.paid",
			"Filter: none → { &#34;data&#34;: { &#34;total&#34;: [ { &#34;numeric&#34;: [ &#34;&gt;&#34;, 5.0 ] } ] } }",
			"Changed fields: none → $.status, $.total",
			"Channels: none → shop 7, b",
			"Condition: none → data.total &gt; 5.0 &amp;&amp; type != &#34;a&#34;",
			"Signature: Standard Webhooks → Standard Webhooks, Stripe, Plain in X-Acme (sha256=)",
			"Headers: none → X-Tenant: 7, X-Key (sensitive)",
			"TLS: none → Authorities",
			"Retries: “default”: 10 attempts in 76 hours → 3 attempts: at once, after 30 s, after 5 min",
			"Circuit breaker: “default”: 5 failures in a row, or half of the last 20 → Opens after 3 failures in a row; first pause 10 s, longest 5 min",
			"Timeout: 10 s → 30 s",
			"Rate: unlimited → 100 per 1 min, up to 20 at once",
			"Order: None → By ordering key",
		},
		german: {
			"Ereignistypen: order.* → order.*, invoice.paid",
			"Filter: nichts → { &#34;data&#34;: { &#34;total&#34;: [ { &#34;numeric&#34;: [ &#34;&gt;&#34;, 5.0 ] } ] } }",
			"Geänderte Felder: nichts → $.status, $.total",
			"Kanäle: nichts → shop 7, b",
			"Bedingung: nichts → data.total &gt; 5.0 &amp;&amp; type != &#34;a&#34;",
			"Signatur: Standard Webhooks → Standard Webhooks, Stripe, Plain in X-Acme (sha256=)",
			"Header: nichts → X-Tenant: 7, X-Key (vertraulich)",
			"TLS: nichts → Zertifizierungsstellen",
			"Erneute Versuche: „default“: 10 Versuche in 76 Stunden → 3 Versuche: sofort, nach 30 s, nach 5 min",
			"Circuit Breaker: „default“: 5 Fehler in Folge oder die Hälfte der letzten 20 → Öffnet nach 3 Fehlern in Folge; erste Pause 10 s, längste 5 min",
			"Zeitlimit: 10 s → 30 s",
			"Rate: unbegrenzt → 100 pro 1 min, bis zu 20 auf einmal",
			"Reihenfolge: Keine → Nach Schlüssel",
		},
	} {
		review := w.as("operator", "POST "+path, form, language)
		if got := review.reviewed(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: the review says\n%s\nwant\n%s", language.Value, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		checkHTML(t, review)
	}
	if got := w.options(e.ID); !reflect.DeepEqual(got, apiendpoints.StandardPolicy()) {
		t.Error("the review has saved the change")
	}
	secret := w.see("operator", path).fields()
	secret.Set("headers.secret", "X-Key: hush")
	secret.Set("save", "yes")
	w.submit("operator", path, secret)
	secret = w.see("operator", path).fields()
	secret.Set("headers.secret", "X-Key: other")
	if got := w.as("operator", "POST "+path, secret).reviewed(); !reflect.DeepEqual(got, []string{"Headers is changed"}) {
		t.Errorf("of a changed secret the review says %q", got)
	}
}

// Numbers of one's own for the circuit have a field each, and are refused by the API like
// its own. Those that open no circuit by being 0 take it, as their hints say.
func TestTheCircuitHasAFieldForEachNumber(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	e := w.endpoint(apitypes.EndpointCreate{})
	path := "/dashboard/endpoints/" + e.ID.String() + "/options"
	shown := w.see("operator", path)
	shown.says(t, "Failures in a row", "0 to 1,000. 0 or empty:", "Share of failures (%)", "0 to 100, of", `name="circuit.failures" value="5"`,
		`name="circuit.cooldown_ms" value="1m"`, `name="circuit.max_cooldown_ms" value="30m"`)
	form := shown.fields()
	form.Set("circuit.preset", "own")
	for _, failures := range []string{"0", "", "1", "1000"} {
		own := shown.fields()
		own.Set("circuit.preset", "own")
		own.Set("circuit.failures", failures)
		for _, none := range []string{"circuit.percent", "circuit.attempts", "circuit.window_ms"} {
			own.Set(none, "0")
		}
		own.Set("save", "yes")
		w.submit("operator", path, own)
		if got, want := w.options(e.ID).Circuit.Value(), "0"+failures; *got.Failures != number(t, want) || *got.Percent != 0 {
			t.Errorf("%s failures in a row are stored as %d, with %d %%", failures, *got.Failures, *got.Percent)
		}
	}
	marks := map[string]string{"circuit.window_ms": "circuit.percent", "circuit.percent": "circuit.attempts"} // where the API finds others
	for _, refused := range []struct{ field, value, says string }{
		{"circuit.failures", "many", "Failures in a row: Enter a whole number."},
		{"circuit.failures", "1001", "Must be 0 to 1,000."},
		{"circuit.cooldown_ms", "soon", "Enter a length of time"},
		{"circuit.cooldown_ms", "100ms", "Must be 1 s to 1 d."},
		{"circuit.attempts", "61", "Must be 10 to 60."},
		{"circuit.window_ms", "10m", "either a number of attempts or a time"},
		{"circuit.percent", "", "A number of attempts needs a share of failures."},
		{"circuit.max_cooldown_ms", "1s", "The longest pause must not be shorter"},
	} {
		bad := url.Values{}
		maps.Copy(bad, form)
		bad.Set(refused.field, refused.value)
		bad.Set("save", "yes")
		got := w.as("operator", "POST "+path, bad)
		got.says(t, refused.says, `id="fault-circuit"`, `value="`+refused.value+`"`)
		if marked := strings.Count(got.html, `aria-invalid="true"`); got.status != http.StatusUnprocessableEntity || marked != 1 ||
			!regexp.MustCompile(`name="`+cmp.Or(marks[refused.field], refused.field)+`"[^>]*aria-invalid="true"`).MatchString(got.html) {
			t.Errorf("%s = %s: %d, with %d marked fields, want its own alone", refused.field, refused.value, got.status, marked)
		}
		checkHTML(t, got)
	}
	form.Set("circuit.failures", "3")
	form.Set("circuit.cooldown_ms", "10s")
	form.Set("circuit.percent", "40 %")
	form.Set("save", "yes")
	done := w.submit("operator", path, form)
	c := w.options(e.ID).Circuit.Value()
	if *c.Failures != 3 || *c.Percent != 40 || *c.Attempts != 20 || *c.CooldownMS != 10_000 || *c.MaxCooldownMS != 1_800_000 ||
		c.Preset != "" {
		t.Errorf("the circuit is %+v", c)
	}
	own := w.see("operator", path)
	own.says(t, `name="circuit.failures" value="3"`,
		"Differs from the default. Now: Opens after 3 failures in a row or 40 % failures in the last 20 attempts; first pause 10 s, longest 30 min.",
		"Default: “default”: 5 failures in a row")
	if n := strings.Count(own.html, "Differs from the default"); n != 1 {
		t.Errorf("%d options differ from the default, want the circuit alone", n)
	}
	w.undo(done)
	if got := w.options(e.ID); !reflect.DeepEqual(got, apiendpoints.StandardPolicy()) {
		t.Errorf("the options after the undo are %+v", got)
	}
	created := w.see("operator", "/dashboard/endpoints/new")
	created.says(t, "Default: 10 s.", "Default: unlimited.")
	created.lacks(t, "Differs from the default")
}

// The pages of a deleted endpoint that change it say that it is deleted, and have no form.
func TestTheFormsOfADeletedEndpointAreGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	e := w.endpoint(apitypes.EndpointCreate{})
	options := "/dashboard/endpoints/" + e.ID.String() + "/options"
	stale := w.see("operator", options).fields()
	stale.Set("timeout_ms", "20s")
	if err := w.admin.DeleteEndpoint(t.Context(), e.ID); err != nil {
		t.Fatal(err)
	}
	for person, base := range map[string]string{"operator": "/dashboard/endpoints/", "customer": "/portal/endpoints/"} {
		for _, tab := range []string{"options", "secrets", "start", "snippets", "tests", "missed", "why-not", "delete"} {
			got := w.as(person, "GET "+base+e.ID.String()+"/"+tab, nil)
			if got.status != http.StatusGone || !strings.Contains(got.html, "This endpoint is deleted") ||
				strings.Contains(got.html, `action="`+base) || strings.Contains(got.html, `name="url"`) {
				t.Errorf("%s of a deleted endpoint for a %s = %d\n%s", tab, person, got.status, got.html)
			}
			checkHTML(t, got)
		}
	}
	if got := w.as("operator", "POST "+options, stale); got.status != http.StatusGone ||
		!strings.Contains(got.html, "This endpoint is deleted") {
		t.Errorf("a form that was open while the endpoint was deleted = %d", got.status)
	}
}

// number reads a whole number.
func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
