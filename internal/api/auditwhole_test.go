package api_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// longFilter returns a filter of almost the largest size that can be saved.
func longFilter(t *testing.T, begin string) string {
	t.Helper()
	pattern := `{"data":{"total":[{"numeric":["<",100]}],"name":["` + begin + `"`
	for i := 0; len(pattern) < 16<<10-200; i++ {
		pattern += fmt.Sprintf(`,"%d %s"`, i, strings.Repeat("ü", 60))
	}
	return pattern + `]}}`
}

// TestAnEntryHasAllOfASubscription changes what says which events an endpoint gets, in its largest
// size. The entries have all of the old and the new text, as it was written.
func TestAnEntryHasAllOfASubscription(t *testing.T) {
	t.Parallel()
	w := newPeople(t)
	acme := w.tenant("acme")
	first, second := longFilter(t, "first"), longFilter(t, "second")
	long := `data.total < 5.0 && data.name != "` + strings.Repeat("é&", (4<<10-100)/3) + `"`
	quoted, err := json.Marshal(long)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer(`\u003c`, "<", `\u0026`, "&").Replace(string(quoted))
	var channels, paths []string
	for i := range 10 {
		channels = append(channels, fmt.Sprintf(`"%d%s"`, i, strings.Repeat("c", 100)))
		paths = append(paths, fmt.Sprintf(`"$.%d%s"`, i, strings.Repeat("p", 200)))
	}
	types := `["a.` + strings.Repeat("b", 100) + `","*"]`
	names, changed := "["+strings.Join(channels, ",")+"]", "["+strings.Join(paths, ",")+"]"
	for _, tt := range []struct{ body, field, want string }{
		{`{"filter": ` + first + `}`, "filter", "null → " + first},
		{`{"filter": ` + second + `}`, "filter", first + " → " + second},
		{`{"filter": null}`, "filter", second + " → null"},
		{`{"condition": ` + string(quoted) + `}`, "condition", "null → " + text},
		{`{"condition": null}`, "condition", text + " → null"},
		{`{"channels": ` + names + `}`, "channels", "null → " + names},
		{`{"changed": ` + changed + `}`, "changed", "null → " + changed},
		{`{"event_types": ` + types + `}`, "event_types", `["order.*"] → ` + types},
	} {
		before := len(w.audit(""))
		w.want(200, "PATCH /endpoints/"+acme.endpoint, tt.body)
		entries := w.audit("")[before:]
		if len(entries) != 1 {
			t.Fatalf("%.60s has the entries %v, want one", tt.body, entries)
		}
		details, _ := entries[0]["details"].(map[string]any)
		if details[tt.field] != tt.want {
			t.Errorf("%.60s has the detail\n%v\nwant\n%s", tt.body, details[tt.field], tt.want)
		}
	}
}

// TestAnEntryHasAllOfANewSubscription creates endpoints, by POST and by PUT. The entries have all of what
// says which events they get, and null as the old text. What is not set has no text.
func TestAnEntryHasAllOfANewSubscription(t *testing.T) {
	t.Parallel()
	w := newPeople(t)
	w.tenant("acme")
	filter := longFilter(t, "first")
	condition := `"data.total < 5.0 && data.name != \"` + strings.Repeat("é", 2000) + `\""`
	const url = `"url": "https://hooks.example/in?token=hush", `
	for _, tt := range []struct {
		route, body string
		want        map[string]any
	}{
		{
			"POST /endpoints",
			`{"account": "acme", ` + url + `"event_types": ["order.*"], "filter": ` + filter + `, "condition": ` + condition + `}`,
			map[string]any{"event_types": `null → ["order.*"]`, "filter": "null → " + filter, "condition": "null → " + condition},
		},
		{
			"PUT /endpoints/acme:crm", `{` + url + `"event_types": ["*"], "channels": ["shop"], "changed": ["$.a"], "filter": ` + filter + `}`,
			map[string]any{
				"event_types": `null → ["*"]`, "filter": "null → " + filter, "channels": `null → ["shop"]`,
				"changed": `null → ["$.a"]`,
			},
		},
		{
			"POST /endpoints", `{"account": "acme", ` + url + `"event_types": ["*"], "filter": null}`,
			map[string]any{"event_types": `null → ["*"]`},
		},
	} {
		before := len(w.audit(""))
		w.want(201, tt.route, tt.body)
		entries := w.audit("")[before:]
		if len(entries) != 1 {
			t.Fatalf("%s has the entries %v, want one", tt.route, entries)
		}
		details, _ := entries[0]["details"].(map[string]any)
		delete(details, "fields")
		if !reflect.DeepEqual(details, tt.want) {
			t.Errorf("%s %.200s has the details\n%v\nwant\n%v", tt.route, tt.body, details, tt.want)
		}
	}
}
