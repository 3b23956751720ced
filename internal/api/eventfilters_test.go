package api_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// A filter is shown as it was given, except for white space.
func TestAFilterComesBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	const filter = `{"data":{"total":[{"numeric":[">=",9007199254740993.0]},"<&>"]}}`
	e := w.want(201, "POST /endpoints", `{"account": "acme", "url": "https://a.example", "event_types": ["*"], "filter": { "data":
		{"total": [{"numeric": [">=", 9007199254740993.0]}, "<&>"]} }}`)
	route := "/endpoints/" + e.id("id")
	for name, got := range map[string]response{
		"the endpoint": w.want(200, "GET "+route, ""),
		"a list":       w.want(200, "GET /endpoints?account=acme", ""),
		"a change":     w.want(200, "PATCH "+route, `{"description": "x"}`),
	} {
		if !strings.Contains(got.text, `"filter":`+filter) {
			t.Errorf("%s has not the filter %s: %s", name, filter, got.text)
		}
	}
	has(t, "without a filter", w.want(200, "PATCH "+route, `{"filter": null}`).body, map[string]any{"filter": nil})
}

// The field internal of events is for callers without an account: others may not ask for it, and do not
// see what the operator asks for.
func TestInternalIsForTheOperator(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.tenant("acme")
	bound := w.bound(acme)
	const filter = `{"filter": {"internal": {"risk": ["high"]}, "data": {"order_id": [1]}, "$or": [{"data": {"a": [1]}}, {"internal": {"b": [2]}}]}}`
	got := w.do(bound, "PATCH /endpoints/"+acme.endpoint, filter)
	if want := []string{"filter.internal", "filter.$or[1].internal"}; got.status != 422 || !slices.Equal(got.fields(), want) {
		t.Errorf("a bound key: %d %s, want faults of %q", got.status, got.text, want)
	}
	w.want(200, "PATCH /endpoints/"+acme.endpoint, filter)
	event := w.want(202, "POST /events", `{"account": "acme", "type": "order.created", "data": {"order_id": 1}}`).id("id")
	explain := "GET /events/" + event + "/explain?endpoint=" + acme.endpoint
	for key, want := range map[string][]any{
		w.admin: {"internal.risk", "data.order_id", "$or[0].data.a", "$or[1].internal.b"},
		bound:   {"data.order_id", "$or[0].data.a"},
	} {
		if diff := cmp.Diff(want, paths(w.do(key, explain, ""))); diff != "" {
			t.Errorf("conditions (-want +got):\n%s", diff)
		}
	}
	w.want(200, "PATCH /endpoints/"+acme.endpoint, `{"filter": null}`) // the earlier filter has them too
	if got := paths(w.do(bound, explain, "")); !slices.Equal(got, []any{"data.order_id", "$or[0].data.a"}) {
		t.Errorf("conditions of the earlier filter: %v", got)
	}
}

// paths returns the paths of the conditions of an explanation.
func paths(r response) (all []any) {
	explained, _ := r.body["filter"].(map[string]any)
	conditions, _ := explained["conditions"].([]any)
	for _, c := range conditions {
		all = append(all, c.(map[string]any)["path"])
	}
	return all
}

func TestAnEventIsExplained(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, evil := w.tenant("acme"), w.tenant("evil")
	const explain = "/explain?endpoint="
	w.want(200, "PATCH /endpoints/"+acme.endpoint, `{"uid": "shop"}`)
	for _, tt := range []struct {
		change              string
		matches, subscribed bool
		filter, changed     any
	}{
		{`{}`, true, true, nil, nil},
		{`{"event_types": ["user.*"]}`, false, false, nil, nil},
		{`{"event_types": ["*"], "filter": {"data": {"order_id": [{"numeric": ["<", 42]}], "x": [{"exists": false}]}}}`, false, true, map[string]any{
			"matches": false, "apart": false, "conditions": []any{
				map[string]any{"path": "data.order_id", "condition": []any{map[string]any{"numeric": []any{"<", 42.0}}}, "holds": false, "found": "42"},
				map[string]any{"path": "data.x", "condition": []any{map[string]any{"exists": false}}, "holds": true, "found": nil},
			},
		}, nil},
		{`{"filter": {"type": ["order.created"]}}`, true, true, map[string]any{
			"matches": true, "apart": false, "conditions": []any{
				map[string]any{"path": "type", "condition": []any{"order.created"}, "holds": true, "found": `"order.created"`},
			},
		}, nil},
		{`{"filter": null, "changed": ["$.order_id"]}`, false, true, nil, map[string]any{"matches": false, "told": false, "paths": []any{}}},
	} {
		w.want(200, "PATCH /endpoints/"+acme.endpoint, tt.change)
		event := w.want(202, "POST /events", `{"account": "acme", "type": "order.created", "data": {"order_id": 42}}`).id("id")
		got := w.want(200, "GET /events/"+event+explain+"shop", "").body
		want := map[string]any{
			"event": event, "endpoint": acme.endpoint, "matches": tt.matches, "matches_now": tt.matches, "type_matches": tt.subscribed,
			"deleted": false, "until": nil, "since": got["since"],
		}
		if tt.filter != nil {
			want["filter"] = tt.filter
		}
		if tt.changed != nil {
			want["changed"] = tt.changed
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.change, diff)
		}
	}
	for _, other := range []string{evil.endpoint, "nobody"} {
		if got := w.want(422, "GET /events/"+acme.event+explain+other, ""); !slices.Equal(got.fields(), []string{"endpoint"}) {
			t.Errorf("an endpoint of another account: %s", got.text)
		}
	}
	w.want(422, "GET /events/"+acme.event+explain, "")
}

// early publishes an event whose id is older than every endpoint, and returns the id.
func (w *world) early(of tenant) string {
	w.Helper()
	account, err := postrider.ParseID[postrider.AccountID](of.account)
	if err != nil {
		w.Fatal(err)
	}
	id := postrider.MakeID[postrider.EventID](time.Now().Add(-time.Hour), [10]byte{})
	event := postrider.Event{ID: id, Account: account, Type: "order.created", Data: []byte(`{"total": 5}`), CreatedAt: id.Time()}
	if _, err := w.publisher.Publish(w.Context(), []postrider.Event{event}); err != nil {
		w.Fatal(err)
	}
	return id.String()
}

// An event is explained by the subscription of its time, whatever the endpoint subscribes to now.
func TestPromise2AnEventIsExplainedByTheSubscriptionOfItsTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.tenant("acme")
	publish := func() string {
		return w.want(202, "POST /events", `{"account": "acme", "type": "order.created", "data": {"total": 5}}`).id("id")
	}
	id := w.want(201, "POST /endpoints", `{"account": "acme", "url": "https://a.example", "event_types": ["*"]}`).id("id")
	endpoint := "/endpoints/" + id
	all := publish()
	changed := w.want(200, "PATCH "+endpoint, `{"filter": {"data": {"total": [6]}}}`).body["updated_at"]
	filtered := publish()
	mended := w.want(200, "PATCH "+endpoint, `{"filter": {"data": {"total": [5]}}}`).body["updated_at"]
	w.want(200, "PATCH "+endpoint, `{"description": "the subscription stays"}`)
	latest := publish()
	explained := func(event string, want map[string]any) {
		t.Helper()
		got := w.want(200, "GET /events/"+event+"/explain?endpoint="+id, "").body
		has(t, event, got, want)
	}
	explained(w.early(acme), map[string]any{"since": nil, "until": nil, "matches": true, "matches_now": true, "deleted": false})
	explained(all, map[string]any{"until": changed, "matches": true, "matches_now": true})
	explained(filtered, map[string]any{"since": changed, "until": mended, "matches": false, "matches_now": true})
	explained(latest, map[string]any{"since": mended, "until": nil, "matches": true, "matches_now": true})
	w.want(204, "DELETE "+endpoint, "")
	explained(latest, map[string]any{"matches": true, "matches_now": false, "deleted": false})
	explained(publish(), map[string]any{"matches": false, "matches_now": false, "deleted": true})
}

// An endpoint with channels wants an event that has one of them, if its filter holds too.
func TestChannelsAreExplained(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.tenant("acme")
	w.want(200, "PATCH /endpoints/"+acme.endpoint, `{"channels": ["shop-7", "shop-8"], "filter": {"data": {"a": [1]}}}`)
	for _, tt := range []struct {
		event    string
		matches  bool
		channels []any
	}{
		{`"data": {"a": 1}, "channels": ["x", "shop-8"]`, true, []any{"shop-8"}},
		{`"data": {"a": 2}, "channels": ["shop-8", "shop-7"]`, false, []any{"shop-7", "shop-8"}},
		{`"data": {"a": 1}, "channels": ["shop-70"]`, false, []any{}},
		{`"data": {"a": 1}`, false, []any{}},
	} {
		event := w.want(202, "POST /events", `{"account": "acme", "type": "order.changed", `+tt.event+`}`).id("id")
		got := w.want(200, "GET /events/"+event+"/explain?endpoint="+acme.endpoint, "").body
		channels := map[string]any{"matches": len(tt.channels) > 0, "channels": tt.channels}
		if diff := cmp.Diff(channels, got["channels"]); diff != "" || got["matches"] != tt.matches {
			t.Errorf("%s matches: %v, want %v; channels (-want +got):\n%s", tt.event, got["matches"], tt.matches, diff)
		}
	}
	has(t, "without channels", w.want(200, "PATCH /endpoints/"+acme.endpoint, `{"channels": null}`).body, map[string]any{"channels": nil})
}

// An endpoint with changed paths and a filter wants an event if both hold, and the explanation has both.
func TestChangedPathsAreExplained(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.tenant("acme")
	w.want(200, "PATCH /endpoints/"+acme.endpoint, `{"changed": ["$.status", "$.items[0].id"], "filter": {"data": {"status": ["paid"]}}}`)
	for _, tt := range []struct {
		event   string
		matches bool
		paths   []any
	}{
		{`"data": {"status": "paid", "items": []}, "previous": {"status": "open", "items": []}`, true, []any{"$.status"}},
		{`"data": {"status": "open", "items": [{"id": 1}]}, "previous": {"items": []}`, false, []any{"$.status", "$.items[0].id"}},
		{`"data": {"status": "paid", "total": 2}, "previous": {"status": "paid", "total": 1}`, false, []any{}},
		{`"data": {"status": "paid"}, "changed_paths": ["$.items"]`, true, []any{"$.items[0].id"}},
		{`"data": {"status": "paid"}, "changed_paths": ["$.total"]`, false, []any{}},
	} {
		event := w.want(202, "POST /events", `{"account": "acme", "type": "order.changed", `+tt.event+`}`).id("id")
		got := w.want(200, "GET /events/"+event+"/explain?endpoint="+acme.endpoint, "").body
		changed := map[string]any{"matches": len(tt.paths) > 0, "told": true, "paths": tt.paths}
		if diff := cmp.Diff(changed, got["changed"]); diff != "" || got["matches"] != tt.matches {
			t.Errorf("%s matches: %v, want %v; changed (-want +got):\n%s", tt.event, got["matches"], tt.matches, diff)
		}
	}
}

func TestAConditionIsExplained(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.tenant("acme")
	bound := w.bound(acme)
	for _, tt := range []struct {
		condition             string
		matches               bool
		text, boundText, says any
	}{
		{`data.order_id == 42`, true, `data.order_id == 42`, `data.order_id == 42`, nil},
		{`data.order_id > 42`, false, `data.order_id > 42`, `data.order_id > 42`, nil},
		{`data.total > 42`, true, `data.total > 42`, `data.total > 42`, "no such key: total"},
		{`internal.risk == 'high'`, true, `internal.risk == 'high'`, nil, "no such key: risk"},
	} {
		w.want(200, "PATCH /endpoints/"+acme.endpoint, `{"condition": "`+tt.condition+`"}`)
		event := w.want(202, "POST /events", `{"account": "acme", "type": "order.created", "data": {"order_id": 42}}`).id("id")
		explain := "GET /events/" + event + "/explain?endpoint=" + acme.endpoint
		for key, text := range map[string]any{w.admin: tt.text, bound: tt.boundText} {
			got := w.do(key, explain, "").body
			explained, _ := got["condition"].(map[string]any)
			says := tt.says
			if text == nil {
				says = nil
			}
			want := map[string]any{"matches": tt.matches, "text": text, "error": says, "cost": explained["cost"]}
			if diff := cmp.Diff(want, explained); diff != "" || got["matches"] != tt.matches {
				t.Errorf("%s matches: %v, want %v; condition (-want +got):\n%s", tt.condition, got["matches"], tt.matches, diff)
			}
		}
	}
	refused := w.do(bound, "PATCH /endpoints/"+acme.endpoint, `{"condition": "data.a == 1 || internal.b == '2'"}`)
	if refused.status != 422 || !slices.Equal(refused.fields(), []string{"condition.1:16"}) {
		t.Errorf("a bound key: %d %s", refused.status, refused.text)
	}
	has(t, "without a condition", w.want(200, "PATCH /endpoints/"+acme.endpoint, `{"condition": null}`).body, map[string]any{"condition": nil})
}

// An endpoint that is set aside because its condition fails has its options. Only a change of the
// condition, also to the same one, ends that.
func TestAFailingConditionIsSetAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.tenant("acme")
	route := "/endpoints/" + acme.endpoint
	w.want(200, "PATCH "+route, `{"condition": "data.total > 5.0"}`)
	id, err := postrider.ParseID[postrider.EndpointID](acme.endpoint)
	if err != nil {
		t.Fatal(err)
	}
	page, err := w.store.Endpoints(t.Context(), store.EndpointQuery{ID: id})
	if err != nil {
		t.Fatal(err)
	}
	page.Items[0].ConditionFailed = true
	if _, err := w.store.PutEndpoint(t.Context(), store.PutEndpoint{Endpoint: page.Items[0]}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		change string
		aside  bool
	}{{`{"concurrency": 7}`, true}, {`{"condition": "data.total > 5.0"}`, false}} {
		got := w.want(200, "PATCH "+route, tt.change).body
		if got["condition"] != "data.total > 5.0" || (got["policy_error"] != nil) != tt.aside {
			t.Errorf("%s: %v, want it set aside: %t", tt.change, got, tt.aside)
		}
	}
	has(t, "the options", w.want(200, "GET "+route, "").body, map[string]any{"concurrency": 7.0, "policy_error": nil})
}

func TestConditionsAreRefusedWithTheirPlaces(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	for condition, places := range map[string][]string{
		`dat.a == 1 ||\n type.matches(\"(a+)+$\")`:                              {"event_types", "condition.1:1", "condition.2:14"},
		strings.Repeat("data.a.all(x, data.a.all(y, x != y)) && ", 60) + "true": {"event_types", "condition"},
	} {
		got := w.want(422, "POST /endpoints", `{"account": "acme", "url": "https://x.example", "event_types": [], "condition": "`+condition+`"}`)
		if !slices.Equal(got.fields(), places) {
			t.Errorf("%s: %s", condition, got.text)
		}
	}
}
