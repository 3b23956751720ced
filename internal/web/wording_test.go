package web_test

import (
	"net/http"
	"strings"
	"testing"

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
