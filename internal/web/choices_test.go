package web_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/web"
)

// Each field that only some choices have names these choices, by which the stylesheet shows
// it. No button is needed.
func TestFieldsNameTheChoicesThatHaveThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	e := w.endpoint(apitypes.EndpointCreate{})
	for _, path := range []string{"/dashboard/endpoints/" + e.ID.String() + "/options", "/dashboard/endpoints/new", "/portal/endpoints/new"} {
		person := "operator"
		if strings.HasPrefix(path, "/portal") {
			person = "customer"
		}
		shown := w.see(person, path)
		for field, choices := range map[string]string{
			"auth.username": "basic", "auth.secret": "basic bearer api_key oauth2", "auth.token_url": "oauth2", "circuit.failures": "own",
			"retry.delays_ms": "own", "retry.factor": "formula", "retry.jitter": "own formula",
		} {
			at := strings.Index(shown.html, `name="`+field+`"`)
			if at < 0 || !strings.Contains(shown.html[strings.LastIndex(shown.html[:at], `<div class="field"`):at], `data-for="`+choices+`"`) {
				t.Errorf("%s: the field %s is not for %q", path, field, choices)
			}
		}
		shown.lacks(t, `name="show"`)
		checkHTML(t, shown)
	}
}

// A schedule of one's own is a choice, and told in words. Another choice replaces it,
// although the text of the old one is left over, and the undo brings it back.
func TestAnOwnScheduleIsShownInWords(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	e := w.endpoint(apitypes.EndpointCreate{Policy: apitypes.Policy{Retry: apitypes.Of(apitypes.Retry{
		DelaysMS: []int64{0, 30_000, 300_000},
		Jitter:   "none",
	})}})
	path := "/dashboard/endpoints/" + e.ID.String() + "/options"
	shown := w.see("operator", path)
	shown.says(t, `<option value="own" selected>Own list of delays</option>`, `value="0s, 30s, 5m"`, `value="none"`,
		"Differs from the default. Now: 3 attempts: at once, after 30 s, after 5 min.")
	form := shown.fields()
	form.Set("retry.preset", "48h")
	form.Set("save", "yes")
	done := w.submit("operator", path, form)
	if got := w.options(e.ID).Retry.Value().Preset; got != "48h" {
		t.Errorf("the schedule is %q, want 48h", got)
	}
	w.undo(done)
	if got := w.options(e.ID).Retry.Value().DelaysMS; !slices.Equal(got, []int64{0, 30_000, 300_000}) {
		t.Errorf("the schedule after the undo is %v", got)
	}
	form = w.see("operator", path).fields()
	for typed, says := range map[string]string{
		"":                       "Delays before the attempts: Enter the delays, such as 0s, 30s, 5m, 1h.",
		"0s, soon, 1h":           "Delays before the attempts: Entry 2, “soon”, is no length of time",
		"0s\r\n90 d":             "Delays before the attempts: Entry 2: Must be 0 to 7 d.",
		"0s, 1 h, 2 weeks":       "Entry 3, “2 weeks”, is no length of time",
		strings.Repeat("x ", 99): "Entry 1, “x”, is no length of time",
	} {
		form.Set("retry.delays_ms", typed)
		form.Set("save", "yes")
		got := w.as("operator", "POST "+path, form)
		if got.status != http.StatusUnprocessableEntity || !strings.Contains(got.html, `id="fault-retry"`) || !strings.Contains(got.html, says) {
			t.Errorf("the delays %q = %d, want %q\n%s", typed, got.status, says, got.html)
		}
	}
	form.Del("save")
	form.Set("retry.delays_ms", "10s\r\n1m, 10m; 1 h")
	w.as("operator", "POST "+path, form).says(t, "4 attempts: after 10 s, after 1 min, after 10 min, after 1 h")
	grows := w.endpoint(apitypes.EndpointCreate{Policy: apitypes.Policy{Retry: apitypes.Of(apitypes.Retry{
		BaseMS: 5000, Factor: 2,
		CapMS: 60_000, MaxAttempts: 6, Jitter: "full",
	})}})
	w.see("operator", "/dashboard/endpoints/"+grows.ID.String()+"/options").says(t, `<option value="formula" selected>`, `value="5s"`,
		`value="2"`, `value="1m"`, `value="6"`, `value="full"`,
		"6 attempts; the first retry after 5 s, each later delay 2 times the one before, at most 1 min; random part of the delays: full.")
}
