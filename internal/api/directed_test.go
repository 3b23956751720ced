package api_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// An event names endpoints by id or uid, and is shown with their ids, also to a caller that is bound to
// the account.
func TestAnEventNamesEndpoints(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.tenant("acme")
	other := w.want(201, "POST /endpoints", `{"account": "acme", "url": "https://b.example", "event_types": ["a"], "uid": "b"}`).id("id")
	event := func(endpoints string) string {
		return `{"account": "acme", "type": "order.created", "data": 1, "idempotency_key": "k", "endpoints": ` + endpoints + `}`
	}
	id := w.want(202, "POST /events", event(`["b", "`+acme.endpoint+`"]`)).id("id")
	want := []any{acme.endpoint, other}
	if acme.endpoint > other {
		slices.Reverse(want)
	}
	for name, got := range map[string]any{
		"the event":      w.want(200, "GET /events/"+id, "").body["endpoints"],
		"a list":         w.want(200, "GET /events?account=acme", "").data()[0]["endpoints"],
		"a bound caller": w.do(w.bound(acme), "GET /events/"+id, "").body["endpoints"],
	} {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if n := len(w.want(200, "GET /events/"+id+"/deliveries", "").data()); n != 2 {
		t.Errorf("%d deliveries, want 2", n)
	}
	w.want(200, "POST /events", event(`["`+acme.endpoint+`", "`+other+`"]`)) // the same content
	w.want(409, "POST /events", event(`["b"]`))
	if got := w.want(200, "GET /events/"+acme.event, ""); strings.Contains(got.text, "endpoints") {
		t.Errorf("another event = %s", got.text)
	}
}

func TestFaultsOfNamedEndpoints(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, evil := w.tenant("acme"), w.tenant("evil")
	gone := w.want(201, "POST /endpoints", `{"account": "acme", "url": "https://b.example", "event_types": ["a"], "uid": "gone"}`).id("id")
	w.want(200, "PATCH /endpoints/"+acme.endpoint, `{"uid": "b"}`)
	w.want(200, "PATCH /endpoints/"+evil.endpoint, `{"uid": "c"}`)
	w.want(204, "DELETE /endpoints/"+gone, "")
	many := strings.TrimSuffix(strings.Repeat(`"b", `, 101), ", ")
	for _, tt := range []struct {
		endpoints string
		fields    []string
		says      string
	}{
		{`[]`, []string{"endpoints"}, `"code":"wrong_count"`},
		{`[` + many + `]`, []string{"endpoints"}, `"max":100`},
		{`["b", "` + evil.endpoint + `", "c", "evil:c", "", "nobody"]`, []string{
			"endpoints[1]", "endpoints[2]", "endpoints[3]", "endpoints[4]", "endpoints[5]",
		}, `"code":"not_found"`},
		{`["gone", "` + gone + `"]`, []string{"endpoints[0]", "endpoints[1]"}, `"code":"not_found"`},
		{`["b", "` + acme.endpoint + `"]`, []string{"endpoints[1]"}, `"code":"repeated"`},
		{`["b", 7]`, []string{"endpoints[1]"}, `"code":"malformed"`},
	} {
		body := `{"account": "acme", "type": "a", "data": 1, "endpoints": ` + tt.endpoints + `}`
		got := w.want(422, "POST /events", body)
		if diff := cmp.Diff(tt.fields, got.fields()); diff != "" || !strings.Contains(got.text, tt.says) {
			t.Errorf("%.100s = %s (-want +got):\n%s", tt.endpoints, got.text, diff)
		}
		got = w.want(422, "POST /events/batch", `{"events": [`+body+`]}`)
		for i, field := range got.fields() {
			if field != "events[0]."+tt.fields[i] {
				t.Errorf("in a batch, %.100s = %s", tt.endpoints, got.text)
			}
		}
	}
	if events := w.want(200, "GET /events?account=acme", "").data(); len(events) != 1 {
		t.Errorf("%d events are stored, want the tenant's alone", len(events))
	}
}

// Each name of a request is looked up, so a batch may not have any number of them.
func TestABatchNamesAThousandEndpoints(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.want(201, "POST /accounts", `{"uid": "acme"}`)
	var names, events []string
	for i := range 1001 {
		w.want(201, "POST /endpoints", fmt.Sprintf(`{"account": "acme", "url": "https://a.example", "event_types": ["a"], "uid": "n%d"}`, i))
		if names = append(names, fmt.Sprintf(`"n%d"`, i)); len(names) == 91 {
			events = append(events, `{"account": "acme", "type": "a", "data": 1, "endpoints": [`+strings.Join(names, ",")+`]}`)
			names = nil
		}
	}
	got := w.want(422, "POST /events/batch", `{"events": [`+strings.Join(events, ",")+`]}`)
	if diff := cmp.Diff([]string{"events[10].endpoints"}, got.fields()); diff != "" {
		t.Errorf("1,001 names (-want +got):\n%s", diff)
	}
}

// The explanation of an event that names endpoints asks nothing else.
func TestADirectedEventIsExplained(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.tenant("acme")
	other := w.want(201, "POST /endpoints", `{"account": "acme", "url": "https://b.example", "event_types": ["*"]}`).id("id")
	w.want(200, "PATCH /endpoints/"+acme.endpoint, `{"filter": {"type": ["none"]}, "channels": ["x"], "event_types": ["b"]}`)
	event := w.want(202, "POST /events", `{"account": "acme", "type": "a", "data": 1, "endpoints": ["`+acme.endpoint+`"]}`).id("id")
	for endpoint, want := range map[string]map[string]any{
		acme.endpoint: {"event": event, "endpoint": acme.endpoint, "matches": true, "matches_now": true, "directed": true, "type_matches": false},
		other:         {"event": event, "endpoint": other, "matches": false, "matches_now": false, "directed": true, "type_matches": true},
	} {
		want["deleted"], want["since"], want["until"] = false, nil, nil
		if diff := cmp.Diff(want, w.want(200, "GET /events/"+event+"/explain?endpoint="+endpoint, "").body); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}
