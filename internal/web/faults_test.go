package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/web"
)

// TestRefusedFormsSpeakTheLanguageOfThePerson sends forms that the API refuses, and looks
// for the text of the catalogue, the marked field and the focus.
func TestRefusedFormsSpeakTheLanguageOfThePerson(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	e := w.endpoint(apitypes.EndpointCreate{})
	endpoint := "/portal/endpoints/" + e.ID.String()
	for _, tt := range []struct {
		name, path   string
		form         url.Values
		field        string // that is marked; empty: the form as a whole is wrong
		english, not string
		german       string
	}{
		{
			"no event type", "/portal/endpoints/new",
			url.Values{"url": {"https://a.example"}, "all": {"no"}},
			"event_types",
			"Choose at least one event type", "must have 1", "Wählen Sie mindestens einen Ereignistyp",
		},
		{
			"a bad pattern", "/portal/endpoints/new",
			url.Values{"url": {"https://a.example"}, "all": {"no"}, "patterns": {"a..b"}},
			"event_types",
			"a prefix like order.*", "event_types[0]", "ein Präfix wie order.*",
		},
		{
			"a long overlap", endpoint + "/secrets/rotate",
			url.Values{"overlap_ms": {"90d"}},
			"overlap_ms",
			"Must be 0 to 30 d.", "must be 0", "Muss zwischen 0 und 30 d liegen.",
		},
		{
			"a fast replay", "/portal/replays",
			url.Values{"per_second": {"100000"}, "endpoint": {e.ID.String()}},
			"",
			"Must be 1 to 5,000.", "must be", "Muss zwischen 1 und 5.000 liegen.",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for language, text := range map[string]string{"en": tt.english, "de": tt.german} {
				got := w.as("customer", "POST "+tt.path, tt.form, &http.Cookie{Name: "postrider-language", Value: language})
				if got.status != http.StatusUnprocessableEntity || !strings.Contains(got.html, text) || strings.Contains(got.html, tt.not) {
					t.Errorf("%s: %d, want %q and not %q\n%s", language, got.status, text, tt.not, got.html)
				}
				if tt.field != "" && (!strings.Contains(got.html, `id="fault-`+tt.field+`"`) || !strings.Contains(got.html, `aria-invalid="true"`) ||
					!strings.Contains(got.html, "autofocus")) {
					t.Errorf("%s: the field %s is not marked\n%s", language, tt.field, got.html)
				}
				checkHTML(t, got)
			}
		})
	}
}
