package web_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/web"
)

// TestEveryCodeOfTheAPIHasATextInEachLanguage looks for each code of a problem and of a
// fault in the OpenAPI document. No text quotes the English reason of a fault.
func TestEveryCodeOfTheAPIHasATextInEachLanguage(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/api/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]struct {
					Enum        []string
					Description string
				}
			}
		}
	}
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, code := range document.Components.Schemas["Problem"].Properties["code"].Enum {
		keys = append(keys, "problem."+code)
	}
	_, listed, _ := strings.Cut(document.Components.Schemas["Fault"].Properties["code"].Description, ": ")
	for _, code := range regexp.MustCompile(`[a-z_]{4,}`).FindAllString(listed, -1) {
		keys = append(keys, "fault."+code)
	}
	if len(keys) < 50 || !slices.Contains(keys, "fault."+string(postrider.FaultHasCredentials)) {
		t.Fatalf("the document has the codes %v", keys)
	}
	h := newWorld(t, web.Options{}).web
	for language, known := range h.Catalogues() {
		for _, key := range keys {
			if !slices.Contains(known, key) {
				t.Errorf("%s has no text %s", language, key)
			}
		}
		catalogue, err := os.ReadFile("text/" + language + ".json")
		if err != nil {
			t.Fatal(err)
		}
		if regexp.MustCompile(`"fault\.[^\n]*\{reason\}`).Match(catalogue) {
			t.Errorf("a text of %s quotes what the API said", language)
		}
	}
}

// english are words of the reasons that the API gives, which are English.
var english = regexp.MustCompile(`\b(must|needs|required|leave out|is set by)\b`)

// The paths of changed and the channels are one on each line, and a fault names the line.
func TestWrongLinesAreNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	path := "/dashboard/endpoints/" + w.endpoint(apitypes.EndpointCreate{}).ID.String() + "/options"
	for _, tt := range []struct{ field, value, says string }{
		{"changed", "$.a\nb", "Eintrag 2: Erwartet einen Pfad"},
		{"changed", "$.a\n$.a", "Eintrag 2: Das kommt doppelt vor"},
		{"changed", strings.Repeat("$\n", 11), "Zu viele: höchstens 10"},
		{"channels", "shop 7\na\x01", "Eintrag 2: Ein Kanal hat keine Steuerzeichen"},
		{"channels", strings.Repeat("a\n", 11), "Zu viele: höchstens 10"},
	} {
		form := w.see("operator", path).fields()
		form.Set("save", "yes")
		form.Set(tt.field, tt.value)
		got := w.as("operator", "POST "+path, form, german)
		if got.status != http.StatusUnprocessableEntity || !strings.Contains(got.html, tt.says) {
			t.Errorf("%q: %d without %q", tt.value, got.status, tt.says)
		}
	}
}

// A fault of a condition names the line and the character, and has what CEL says.
func TestWrongConditionsAreNamedByTheirPlaces(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	path := "/dashboard/endpoints/" + w.endpoint(apitypes.EndpointCreate{}).ID.String() + "/options"
	for value, says := range map[string]string{
		"true &&\r\n dat.a == 1":  "2:2: Hier ist der Ausdruck ungültig: undeclared reference",
		strings.Repeat("a", 5000): "Höchstens 4 KiB",
		strings.Repeat("data.a.all(x, data.a.all(y, x != y)) && ", 60) + "true": "Der Ausdruck kostet zu viel",
	} {
		form := w.see("operator", path).fields()
		form.Set("save", "yes")
		form.Set("condition", value)
		got := w.as("operator", "POST "+path, form, german)
		if got.status != http.StatusUnprocessableEntity || !strings.Contains(got.html, says) {
			t.Errorf("%q: %d without %q", value, got.status, says)
		}
	}
}

// TestRefusedFormsHaveNoEnglishReasons sends the forms of an endpoint, an account, a key
// and an event type in German with what each field can be refused for.
func TestRefusedFormsHaveNoEnglishReasons(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	e := w.endpoint(apitypes.EndpointCreate{})
	options := "/endpoints/" + e.ID.String() + "/options"
	for name, tt := range map[string]struct{ path, field, value, says string }{
		"a URL without a scheme":        {options, "url", "x", "Geben Sie eine vollständige URL ein"},
		"no URL":                        {options, "url", "", "Geben Sie die URL ein"},
		"a pattern":                     {options, "event_types", "a..b", "ein Präfix wie order.*"},
		"no pattern":                    {options, "event_types", "", "mindestens einen Ereignistyp"},
		"an own id like an id":          {options, "uid", "ep_01h455vb4pex5vsknk084sn02q", "nicht wie eine ID des Servers"},
		"a long description":            {options, "description", strings.Repeat("x", 5000), "Zu lang"},
		"an unknown scheme":             {options, "signature.custom", "none:X-A:", "Ein Verfahren mit diesem Namen"},
		"a header of another scheme":    {options, "signature.custom", "stripe:X-A:", "Nur github, github-sha1"},
		"a prefix with a space":         {options, "signature.custom", "plain:X-A:ü", "höchstens 64 sichtbare"},
		"a filter that is no JSON":      {options, "filter", "{", "Geben Sie JSON ein"},
		"a filter of another field":     {options, "filter", `{"source": ["x"]}`, "source: Kein Ereignis hat dieses Feld"},
		"a filter without a number":     {options, "filter", `{"data": [1, {"numeric": []}]}`, "data[1].numeric: Erwartet einen Operator"},
		"a reserved header":             {options, "headers", "Host: x", "Diesen Header setzt der Server"},
		"a header's name":               {options, "headers", "A B: x", "1 bis 128 Buchstaben"},
		"a header's value":              {options, "headers", "A: ü", "druckbare ASCII-Zeichen"},
		"a header twice":                {options, "headers", "A: 1\nA: 2", "kommt doppelt vor"},
		"many headers":                  {options, "headers", strings.Repeat("A: "+strings.Repeat("x", 1000)+"\n", 9), "zusammen 8 KiB"},
		"a sensitive header's value":    {options, "headers.secret", "A", "auch den Wert"},
		"authentication without a name": {options, "auth.type", "basic", "Füllen Sie dieses Feld aus"},
		"a certificate without a key":   {options, "tls.certificate", "x", "privaten Schlüssel"},
		"many redirects":                {options, "max_redirects", "9", "zwischen 0 und 3"},
		"an empty schedule":             {options, "retry.delays_ms", "", "Geben Sie die Abstände ein"},
		"a schedule with a word":        {options, "retry.delays_ms", "0s, bald", "Eintrag 2, „bald“, ist keine Zeitdauer"},
		"an empty formula":              {options, "retry.preset", "formula", "Wählen Sie einen Plan"},
		"an unknown schedule":           {options, "retry.preset", "x", "Einen Plan mit diesem Namen"},
		"a jitter":                      {options, "retry.jitter", "x", "ein Prozentsatz wie 10%"},
		"a falling cap":                 {options, "retry.cap_ms", "1s", "Die längste Wartezeit"},
		"a factor in words":             {options, "retry.factor", "two", "Geben Sie eine Zahl wie 2 oder 1.5 ein"},
		"a short expiry":                {options, "expiry_ms", "1s", "zwischen 1 min und 90 d"},
		"a burst above the rate":        {options, "rate", "5/1s+9", "Der Burst muss"},
		"an empty rate":                 {options, "rate", "0/0s", "Lassen Sie die Rate leer"},
		"a wait without an order":       {options, "on_dead", "pause", "setzt die Reihenfolge nach Schlüssel voraus"},
		"an account without a name":     {"/accounts", "name", "", "Füllen Sie dieses Feld aus"},
		"an account with a server's id": {"/accounts", "uid", "acc_01h455vb4pex5vsknk084sn02q", "nicht wie eine ID des Servers"},
		"an account that is there":      {"/accounts", "uid", "acme", "schon vergeben"},
		"a key without a name":          {"/api-keys", "name", "", "Füllen Sie dieses Feld aus"},
		"a key of no account":           {"/api-keys", "account", "none", "kein Konto mit dieser ID"},
		"a key with a past end":         {"/api-keys", "expires_at", "2001-01-01T00:00", "eine Zeit in der Zukunft"},
		"a key without scopes":          {"/api-keys", "scopes", "", "mindestens ein Recht"},
		"a type without a name":         {"/event-types", "name", "", "durch Punkte verbunden"},
		"a type with a space":           {"/event-types", "name", "a b", "durch Punkte verbunden"},
		"an example":                    {"/event-types", "example", "{", "Geben Sie JSON ein"},
		"a secret's overlap":            {"/endpoints/" + e.ID.String() + "/secrets/rotate", "overlap_ms", "90d", "zwischen 0 und 30 d"},
		"a secret's type":               {"/endpoints/" + e.ID.String() + "/secrets/rotate", "key_type", "x", "ein gemeinsames Secret oder ein Schlüsselpaar"},
	} {
		t.Run(name, func(t *testing.T) {
			form := url.Values{"name": {"x"}, "scopes": {"webhooks:read"}, "overlap_ms": {"1h"}, "confirmed": {"yes"}}
			if tt.path == options {
				form = w.see("operator", "/dashboard"+options).fields()
				form.Set("save", "yes")
				form.Set("signature", "standard")
			}
			switch tt.field {
			case "retry.delays_ms", "retry.jitter":
				form.Set("retry.preset", "own")
				form.Set("retry.delays_ms", "0s")
			case "retry.cap_ms", "retry.factor":
				form.Set("retry.preset", "formula")
				form.Set("retry.base_ms", "5s")
				form.Set("retry.factor", "2")
				form.Set("retry.cap_ms", "1h")
				form.Set("retry.max_attempts", "3")
			}
			if form.Set(tt.field, tt.value); tt.field == "scopes" {
				form.Del("scopes")
			}
			got := w.as("operator", "POST /dashboard"+tt.path, form, german)
			said := strings.Join(regexp.MustCompile(`(?s)<div class="flash bad".*?</div></div>|<span class="fault".*?</span>`).FindAllString(got.html, -1), "\n")
			if got.status != http.StatusUnprocessableEntity && got.status != http.StatusConflict || !strings.Contains(got.html, tt.says) || english.MatchString(said) {
				t.Errorf("%d, want %q in %s\n%s", got.status, tt.says, said, got.html)
			}
		})
	}
}
