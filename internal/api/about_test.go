package api_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/api"
)

func TestWhatAnEventSaysOfItselfIsReturned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.tenant("acme")
	const said = `"subject": "order/42", "channels": ["a", "b"], "metadata": {"k": "1"}, "internal": {"i": "2"}`
	first := w.want(202, "POST /events", `{"account": "acme", "type": "a", "data": 1, "previous": {"a": 0}, `+said+`}`)
	batch := w.want(202, "POST /events/batch",
		`{"events": [{"account": "acme", "type": "a", "data": 1, "previous": null, "changed_paths": ["$.a"], `+said+`}]}`)
	labels := map[string]any{
		"subject": "order/42", "channels": []any{"a", "b"}, "metadata": map[string]any{"k": "1"}, "internal": map[string]any{"i": "2"},
	}
	with := func(name string, value any) map[string]any {
		all := maps.Clone(labels)
		all[name] = value
		return all
	}
	of := func(event map[string]any) map[string]any {
		got := map[string]any{}
		for _, name := range []string{"subject", "channels", "metadata", "internal", "previous", "changed_paths"} {
			if v, ok := event[name]; ok {
				got[name] = v
			}
		}
		return got
	}
	second := batch.data()[0]["id"].(string)
	list := w.want(200, "GET /events?account=acme", "").data()
	for name, tt := range map[string]struct{ got, want map[string]any }{
		"one":                    {w.want(200, "GET /events/"+first.id("id"), "").body, with("previous", map[string]any{"a": 0.0})},
		"one of a batch":         {w.want(200, "GET /events/"+second, "").body, with("changed_paths", []any{"$.a"})},
		"one of a list":          {list[0], labels},
		"another of a list":      {list[1], labels},
		"one that says nothing":  {w.want(200, "GET /events/"+acme.event, "").body, map[string]any{}},
		"the same in a list":     {list[2], map[string]any{}},
		"for a bound caller":     {w.do(w.bound(acme), "GET /events/"+first.id("id"), "").body, with("previous", map[string]any{"a": 0.0})},
		"for one that reads all": {w.do(w.bound(acme), "GET /events", "").data()[0], maps.Clone(labels)},
	} {
		if strings.HasPrefix(name, "for ") {
			delete(tt.want, "internal")
		}
		if diff := cmp.Diff(tt.want, of(tt.got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestFaultsOfWhatAnEventSaysOfItself(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, api.Options{MaxData: 4 << 10})
	acme := w.tenant("acme")
	for _, tt := range []struct {
		said   string
		status int
		fields []string
	}{
		{`"previous": {}, "changed_paths": ["$"]`, 422, []string{"changed_paths"}},
		{`"previous": [1]`, 422, []string{"previous"}},
		{`"subject": "", "channels": [1, null], "metadata": {"a": 1}, "internal": []`, 422, []string{
			"subject", "channels[0]", "channels[1]", "metadata.a", "internal",
		}},
		{`"subject": "\u0000", "metadata": {"a": "\u0000"}`, 422, []string{"subject", "metadata.a"}},
		{`"channels": ["a", "a", ""], "metadata": {"": "1"}, "changed_paths": ["status"]`, 422, []string{
			"channels[1]", "channels[2]", "metadata", "changed_paths[0]",
		}},
		{`"channels": [` + strings.TrimSuffix(strings.Repeat(`"a",`, 1000), ",") + `]`, 422, []string{"channels"}},
		{`"metadata": {"a": "` + strings.Repeat("b", 3000) + `"}`, 422, []string{"metadata"}},
		{`"metadata": {"a": "1", "a": "2"}`, 422, []string{"metadata.a"}},
		{`"previous": {"a": "` + strings.Repeat("b", 4<<10) + `"}`, 413, []string{"previous"}},
		{`"previous": {"a": "` + strings.Repeat("b", 200<<10) + `"}`, 413, nil}, // beyond the limit of the body
	} {
		body := `{"account": "acme", "type": "order.created", "data": 1, ` + tt.said + `}`
		got := w.do(w.admin, "POST /events", body)
		if diff := cmp.Diff(tt.fields, got.fields()); got.status != tt.status || diff != "" {
			t.Errorf("%.200s = %d %.500s, want %d (-want +got):\n%s", tt.said, got.status, got.text, tt.status, diff)
		}
		if tt.fields == nil {
			continue
		}
		fields := []string{}
		for _, field := range tt.fields {
			fields = append(fields, "events[0]."+field)
		}
		got = w.do(w.admin, "POST /events/batch", `{"events": [`+body+`]}`)
		if diff := cmp.Diff(fields, got.fields()); diff != "" {
			t.Errorf("in a batch, %.200s = %d %.500s (-want +got):\n%s", tt.said, got.status, got.text, diff)
		}
	}
	got := w.do(w.bound(acme), "POST /events", `{"type": "a", "data": 1, "internal": {"a": "1"}}`)
	if diff := cmp.Diff([]string{"internal"}, got.fields()); got.status != 422 || diff != "" {
		t.Errorf("internal of a bound caller = %d %s", got.status, got.text)
	}
	if events := w.want(200, "GET /events?account=acme", "").data(); len(events) != 1 {
		t.Errorf("%d events are stored, want the tenant's alone", len(events))
	}
}

func TestWhatAnEventSaysOfItselfIsItsContent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	body := func(said string) string {
		return `{"account": "acme", "type": "a", "data": 1, "idempotency_key": "k"` + said + `}`
	}
	w.want(202, "POST /events", body(`, "metadata": {"a": "1", "b": "2"}`))
	w.want(200, "POST /events", body(`, "metadata": {"b": "2", "a": "1"}`))
	for _, said := range []string{``, `, "internal": {"a": "1", "b": "2"}`, `, "metadata": {"a": "1"}`} {
		w.want(409, "POST /events", body(said))
	}
}

// TestInternalMetadataIsForThePlatformAlone sends every request of the document as callers that are
// bound to the account of an event, with the ids of their own objects.
func TestInternalMetadataIsForThePlatformAlone(t *testing.T) {
	t.Parallel()
	const canary = "canary-5d1f0c"
	w := newWorldOf(t, api.Options{PublicURL: "https://hooks.example"})
	acme := w.tenant("acme")
	w.want(200, "PATCH /endpoints/"+acme.endpoint, `{"filter": {"internal": {"risk": [{"exists": true}]}}}`)
	event := w.want(202, "POST /events", `{"account": "acme", "type": "order.created", "data": {"order_id": 43}, "ordering_key": "o",
		"idempotency_key": "k", "metadata": {"shop": "seen"}, "internal": {"`+canary+`": "1", "risk": "`+canary+`"}}`).id("id")
	delivery := w.want(200, "GET /events/"+event+"/deliveries", "").data()[0]["id"].(string)
	w.settle(acme.endpoint, postrider.Attempt{StatusCode: 410})
	ids := map[string]string{
		"{account}": acme.account, "{endpoint}": acme.endpoint, "{event}": event, "{delivery}": delivery, "{attempt}": "1",
		"{secret}":  w.want(200, "GET /endpoints/"+acme.endpoint+"/secrets", "").data()[0]["id"].(string),
		"{replay}":  w.want(201, "POST /replays", `{"endpoint": "`+acme.endpoint+`"}`).id("id"),
		"{request}": w.got(w.inspector("acme"), "acme", 4),
		"{name}":    "order.created",
		"{destination}": w.want(201, "POST /notice-destinations",
			`{"account": "acme", "channel": "slack", "address": "https://hooks.example/a"}`).id("id"),
	}
	callers := map[string]func(route, body string) response{
		"key":     func(route, body string) response { return w.do(w.bound(acme), route, body) },
		"session": w.as(w.portalSession(acme).Caller()),
	}
	reads := []string{
		"GET /search?q=" + canary, "GET /search?q=" + event, "GET /search?q=k", "GET /events?account=acme&idempotency_key=k",
		"GET /events/" + event + "/explain?endpoint=" + acme.endpoint,
	}
	var writes []string
	seen := 0
	for path, methods := range routes(t) {
		for name, id := range ids {
			path = strings.ReplaceAll(path, name, id)
		}
		for method := range methods {
			route := strings.ToUpper(method) + " " + strings.TrimPrefix(path, "/v1/webhooks")
			if method == "get" {
				reads = append(reads, route)
			} else {
				writes = append(writes, route)
			}
		}
	}
	for _, route := range append(reads, writes...) {
		for who, do := range callers {
			got := do(route, "")
			if strings.Contains(got.text, canary) || strings.Contains(fmt.Sprint(got.header), canary) {
				t.Errorf("%s by a %s shows internal metadata: %s", route, who, got.text)
			}
			if got.status == 200 && strings.Contains(got.text, `"shop":"seen"`) {
				seen++
			}
		}
	}
	if seen < 6 {
		t.Errorf("%d responses show the metadata of the event, want those of the event and of its lists", seen)
	}
	for _, route := range []string{"GET /events/" + event, "GET /events?account=acme"} {
		if got := w.want(200, route, ""); strings.Count(got.text, canary) != 2 {
			t.Errorf("%s as the operator = %s, want the internal metadata", route, got.text)
		}
	}
}
