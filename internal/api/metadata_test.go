package api_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/postrider/postrider"
)

func TestAccountsAndEndpointsHaveMetadata(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	gold := map[string]any{"plan": "gold", "region": "eu"}
	account := w.want(201, "POST /accounts", `{"uid": "acme", "metadata": {"plan": "gold", "region": "eu"}}`)
	has(t, "the new account", account.body, map[string]any{"metadata": gold})
	has(t, "an account without", w.want(201, "POST /accounts", `{"uid": "evil"}`).body, map[string]any{"metadata": nil})
	endpoint := w.want(201, "POST /endpoints",
		`{"account": "acme", "url": "https://acme.example/hooks", "event_types": ["*"], "metadata": {"plan": "gold", "region": "eu"}}`)
	has(t, "the new endpoint", endpoint.body, map[string]any{"metadata": gold})
	for _, path := range []string{"/accounts/acme", "/endpoints/" + endpoint.id("id")} {
		for _, step := range []struct {
			change string
			want   any
		}{
			{`{}`, gold},
			{`{"metadata": {"plan": "silver"}}`, map[string]any{"plan": "silver"}},
			{`{"metadata": {}}`, nil},
			{`{"metadata": {"plan": ""}}`, map[string]any{"plan": ""}},
			{`{"metadata": null}`, nil},
		} {
			has(t, path+" after "+step.change, w.want(200, "PATCH "+path, step.change).body, map[string]any{"metadata": step.want})
			has(t, path+" read after "+step.change, w.want(200, "GET "+path, "").body, map[string]any{"metadata": step.want})
		}
		kind, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "s/")
		entry := w.want(200, "GET /audit?action=update-"+kind, "").data()
		changed, _ := entry[len(entry)-2]["details"].(map[string]any)
		if got, want := changed["metadata"], `{"plan":"gold","region":"eu"} → {"plan":"silver"}`; got != want {
			t.Errorf("%s: the audit entry has %v, want %s", path, got, want)
		}
	}
}

// TestCustomersReadMetadata reads what the documentation says that customers can read.
func TestCustomersReadMetadata(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.tenant("acme")
	w.want(200, "PATCH /accounts/acme", `{"metadata": {"plan": "gold"}}`)
	w.want(200, "PATCH /endpoints/"+acme.endpoint, `{"metadata": {"plan": "gold"}}`)
	key := w.bound(acme)
	for _, route := range []string{
		"GET /accounts/acme", "GET /accounts?metadata.plan=gold", "GET /endpoints/" + acme.endpoint, "GET /endpoints?metadata.plan=gold",
	} {
		if got := w.do(key, route, ""); got.status != 200 || !strings.Contains(got.text, `"metadata":{"plan":"gold"}`) {
			t.Errorf("%s = %d %s", route, got.status, got.text)
		}
	}
	evil := w.bound(w.tenant("evil"))
	for _, route := range []string{"GET /accounts?metadata.plan=gold", "GET /endpoints?metadata.plan=gold"} {
		if got := w.do(evil, route, ""); got.status != 200 || len(got.data()) != 0 {
			t.Errorf("%s of another account = %d %s", route, got.status, got.text)
		}
	}
}

func TestMetadataThatIsTooMuchIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.tenant("acme")
	var many []string
	for i := range postrider.MaxMetadataKeys + 1 {
		many = append(many, fmt.Sprintf(`"key%d": ""`, i))
	}
	for _, tt := range []struct {
		metadata string
		want     []string
	}{
		{`"text"`, []string{"metadata"}},
		{`{"a": 1, "b": null, "c": {}}`, []string{"metadata.a", "metadata.b", "metadata.c"}},
		{`{"a": "1", "a": "2"}`, []string{"metadata.a"}},
		{`{"a": "\u0000", "b": "line\nbreak"}`, []string{"metadata.a"}}, // the decoder refuses NUL, and stops there
		{`{"b": "line\nbreak", "c": "tab\t"}`, []string{"metadata.b", "metadata.c"}},
		{"{" + strings.Join(many, ", ") + "}", []string{"metadata"}},
		{`{"": "", "` + strings.Repeat("k", postrider.MaxMetadataKey+1) + `": ""}`, []string{"metadata", "metadata"}},
		{`{"long": "` + strings.Repeat("x", 100_000) + `"}`, []string{"metadata"}},
	} {
		for _, route := range []string{"PATCH /accounts/acme", "PATCH /endpoints/" + acme.endpoint} {
			got := w.want(422, route, `{"metadata": `+tt.metadata+`}`)
			if fields := got.fields(); !slices.Equal(fields, tt.want) {
				t.Errorf("%s with %.60s: faults of %v, want %v", route, tt.metadata, fields, tt.want)
			}
		}
	}
	got := w.want(422, "POST /endpoints", `{"account": "acme", "url": "ftp://x", "event_types": [], "metadata": {"a": "x\ty"}}`)
	if fields, want := slices.Sorted(slices.Values(got.fields())), []string{"event_types", "metadata.a", "url"}; !slices.Equal(fields, want) {
		t.Errorf("all faults at once: %v, want %v", fields, want)
	}
}

func TestListsAreFilteredByMetadata(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	endpoint := func(metadata string) any {
		return w.want(201, "POST /endpoints",
			`{"account": "acme", "url": "https://acme.example/hooks", "event_types": ["*"], "metadata": `+metadata+`}`).body["id"]
	}
	gold, both := endpoint(`{"plan": "gold"}`), endpoint(`{"plan": "gold", "a.b=c": "ü & 1"}`)
	for _, tt := range []struct {
		query string
		want  []any
	}{
		{"metadata.plan=gold", []any{both, gold}},
		{"account=acme&metadata.plan=gold&metadata.a.b%3Dc=%C3%BC+%26+1", []any{both}},
		{"account=acme&status=paused&metadata.plan=gold", nil},
		{"metadata.plan=gol", nil},
		{"metadata.plan=gold&limit=1", []any{both}},
	} {
		if got := names(w.want(200, "GET /endpoints?"+tt.query, ""), "id"); !slices.Equal(got, tt.want) {
			t.Errorf("%s lists %v, want %v", tt.query, got, tt.want)
		}
	}
	for _, query := range []string{
		"metadata.=x", "metadata.plan=", "metadata=gold", "metadata.plan=a&metadata.plan=b", "metadata.plan=" + strings.Repeat("x", 2100),
	} {
		w.want(422, "GET /endpoints?"+query, "")
		w.want(422, "GET /accounts?"+query, "")
	}
	w.want(422, "GET /events?metadata.plan=gold", "")
}
