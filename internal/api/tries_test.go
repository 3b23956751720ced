package api_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider/internal/api"
	"github.com/postrider/postrider/internal/store/memory"
)

func TestAnEventIsTried(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bound := w.bound(w.tenant("acme"))
	for _, tt := range []struct {
		body string
		want map[string]any
	}{
		{`{"event": {"type": "a", "data": null}}`, map[string]any{"matches": true, "type_matches": true}},
		{`{"event_types": ["b"], "filter": null, "changed": null, "event": {"type": "a", "data": 1}}`, map[string]any{"matches": false, "type_matches": false}},
		{
			`{"filter": {"subject": ["order/1"], "data": [2]}, "event": {"type": "a", "data": 1, "subject": "order/1"}}`,
			map[string]any{"matches": false, "type_matches": true, "filter": map[string]any{"matches": false, "apart": false, "conditions": []any{
				map[string]any{"path": "subject", "condition": []any{"order/1"}, "holds": true, "found": `"order/1"`},
				map[string]any{"path": "data", "condition": []any{2.0}, "holds": false, "found": "1"},
			}}},
		},
		{
			`{"changed": ["$.a"], "event": {"type": "a", "data": {"a": 1}, "previous": {"a": 2}}}`,
			map[string]any{"matches": true, "type_matches": true, "changed": map[string]any{"matches": true, "told": true, "paths": []any{"$.a"}}},
		},
	} {
		if diff := cmp.Diff(tt.want, w.do(bound, "POST /events/dry-run", tt.body).body); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.body, diff)
		}
	}
	if events := w.want(200, "GET /events", "").data(); len(events) != 1 {
		t.Errorf("%d events are stored, want that of the tenant alone", len(events))
	}
}

func TestFaultsOfTries(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, api.Options{MaxData: 1 << 10})
	acme := w.tenant("acme")
	bound := w.bound(acme)
	what := "POST /endpoints/" + acme.endpoint + "/what-if"
	for _, tt := range []struct {
		key, route, body string
		status           int
		fields           []string
	}{
		{
			w.admin, "POST /events/dry-run",
			`{"event_types": ["a.*.b"], "filter": {"x": [1]}, "changed": ["a"], "event": {"type": "", "data": 1, "changed_paths": ["a"]}}`,
			422,
			[]string{"event_types[0]", "filter.x", "changed[0]", "event.type", "event.changed_paths[0]"},
		},
		{w.admin, "POST /events/dry-run", `{"event": {"type": "a"}}`, 422, []string{"event.data"}},
		{w.admin, "POST /events/dry-run", `{"event": {"type": "a", "data": "` + strings.Repeat("x", 1<<10) + `"}}`, 413, []string{"event.data"}},
		{
			bound, "POST /events/dry-run", `{"filter": {"internal": {"a": ["1"]}}, "event": {"type": "a", "data": 1, "internal": {"a": "1"}}}`,
			422,
			[]string{"filter.internal", "event.internal"},
		},
		{bound, what, `{"filter": {"internal": {"a": ["1"]}}}`, 422, []string{"filter.internal"}},
		{
			w.admin, what, `{"event_types": [], "changed": [], "last": 0, "type": "a.*", "from": "2026-01-02T00:00:00Z", "to": "2026-01-01T00:00:00Z"}`,
			422,
			[]string{"event_types", "changed", "type", "from", "last"},
		},
		{w.admin, what, `{"last": 100001}`, 422, []string{"last"}},
		{w.admin, what, `{"cursor": "x"}`, 422, []string{"cursor"}},
		{w.bound(w.tenant("evil")), what, `{}`, 404, nil},
	} {
		if got := w.do(tt.key, tt.route, tt.body); got.status != tt.status || !slices.Equal(got.fields(), tt.fields) {
			t.Errorf("%s %s = %d %q %s, want %d %q", tt.route, tt.body, got.status, got.fields(), got.text, tt.status, tt.fields)
		}
	}
}

// published publishes an event of acme, and returns its id.
func (w *world) published(kind, data string) string {
	w.Helper()
	return w.want(202, "POST /events", `{"account": "acme", "type": "`+kind+`", "data": `+data+`}`).id("id")
}

// counts returns the numbers of a result.
func counts(r response) string {
	text := ""
	for _, name := range []string{"events", "matched", "delivered", "new", "gone"} {
		text += fmt.Sprint(r.body[name], " ")
	}
	return text + fmt.Sprint(r.body["next_cursor"])
}

func TestWhatIf(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.tenant("acme") // with an event of the type order.created
	w.tenant("other")
	small, large := w.published("order.paid", `{"total": 9}`), w.published("order.paid", `{"total": 10}`)
	user := w.published("user.created", `{}`)
	w.want(202, "POST /endpoints/"+acme.endpoint+"/test", "")
	what := "POST /endpoints/" + acme.endpoint + "/what-if"
	const filter = `"filter": {"data": {"total": [{"numeric": [">", 9]}]}}`
	for body, want := range map[string]string{
		``:                                       "4 3 3 0 0 <nil>",
		`{"event_types": ["user.*"]}`:            "4 1 3 1 3 <nil>",
		`{` + filter + `}`:                       "4 1 3 0 2 <nil>",
		`{` + filter + `, "last": 2}`:            "2 1 1 0 0 <nil>",
		`{` + filter + `, "type": "order.paid"}`: "2 1 2 0 1 <nil>",
		`{"changed": ["$"], "to": "2020-01-01T00:00:00Z"}`:                                 "0 0 0 0 0 <nil>",
		`{"changed": ["$"], "from": "2020-01-01T00:00:00Z", "to": "2120-01-01T00:00:00Z"}`: "4 0 3 0 3 <nil>",
	} {
		if got := counts(w.want(200, what, body)); got != want {
			t.Errorf("%s: events, matched, delivered, new, gone, cursor = %s, want %s", body, got, want)
		}
	}

	got := w.do(w.bound(acme), what, `{"event_types": ["order.paid", "user.*"], `+filter+`}`).body
	if diff := cmp.Diff([]any{
		map[string]any{"reason": "filter", "path": "data.total", "condition": []any{map[string]any{"numeric": []any{">", 9.0}}}, "events": 2.0},
		map[string]any{"reason": "type", "path": "", "events": 1.0},
	}, got["not_matched"]); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
	var shown []string
	for _, item := range got["examples"].([]any) {
		e := item.(map[string]any)
		shown = append(shown, fmt.Sprint(e["event"], " ", e["matches"], " ", e["delivered"]))
	}
	wanted := []string{user + " false false", large + " true true", small + " false true", acme.event + " false true"}
	if diff := cmp.Diff(wanted, shown); diff != "" {
		t.Errorf("examples (-want +got):\n%s", diff)
	}
}

// An example of an event that would be new or gone comes before the others, however old it is.
func TestWhatIfShowsWhatDiffers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.tenant("acme")
	for range 25 {
		w.published("user.created", `{}`)
	}
	got := w.want(200, "POST /endpoints/"+acme.endpoint+"/what-if", `{"event_types": ["invoice.*"]}`).body["examples"].([]any)
	if last := got[len(got)-1].(map[string]any); len(got) != 20 || last["event"] != acme.event {
		t.Errorf("%d examples, the last is %v, want 20, and %s the last", len(got), last, acme.event)
	}
}

// A condition for the field internal may be in a stored filter. A bound caller learns neither the
// condition nor the value.
func TestWhatIfHidesInternal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.tenant("acme")
	w.want(202, "POST /events", `{"account": "acme", "type": "order.paid", "data": 1, "internal": {"risk": "canary"}}`)
	w.want(200, "PATCH /endpoints/"+acme.endpoint, `{"filter": {"internal": {"risk": ["canary-2"]}}}`)
	what := "POST /endpoints/" + acme.endpoint + "/what-if"
	if got := w.want(200, what, ""); !strings.Contains(got.text, "internal.risk") || !strings.Contains(got.text, "canary") {
		t.Errorf("an operator does not see the condition: %s", got.text)
	}
	got := w.do(w.bound(acme), what, "")
	if counts(got) != "2 0 2 0 2 <nil>" || strings.Contains(got.text, "canary") || strings.Contains(got.text, "risk") {
		t.Errorf("a bound caller gets %s", got.text)
	}
}

// Each page of a store that takes a second for it is a read of its own. So after 5 seconds four pages
// are compared, others have read between them, and a second request goes on.
func TestWhatIfStopsAndGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		over := &slowLists{Store: memory.New(memory.Options{})}
		w := newWorldOver(t, over, api.Options{AccountReads: 1})
		acme := w.tenant("acme")
		events := strings.TrimSuffix(strings.Repeat(`{"account": "acme", "type": "order.paid", "data": 1},`, 999), ",")
		w.want(202, "POST /events/batch", `{"events": [`+events+`]}`)
		key, what := w.reader(acme), "POST /endpoints/"+acme.endpoint+"/what-if"
		var first response
		var running sync.WaitGroup
		running.Go(func() { first = w.do(key, what, `{"last": 100000}`) })
		synctest.Wait()
		began := time.Now()
		if got := w.do(key, "GET /events", ""); got.status != 200 || time.Since(began) > 2*time.Second {
			t.Errorf("a read beside the comparison: %d after %v", got.status, time.Since(began))
		}
		running.Wait()
		next, _ := first.body["next_cursor"].(string)
		if n, _ := first.body["events"].(float64); first.status != 200 || n < 25 || n >= 1000 || next == "" {
			t.Fatalf("the first request = %d %s", first.status, first.text)
		}
		second := w.do(key, what, `{"last": 100000, "cursor": "`+next+`"}`)
		if got := first.body["delivered"].(float64) + second.body["delivered"].(float64); got != 1000 || second.body["next_cursor"] != nil {
			t.Errorf("both compare %v delivered events, want 1000: %s", got, second.text)
		}
		if n := over.unmarked.Load(); n > 0 {
			t.Errorf("%d pages are read on the connections of the engine", n)
		}
	})
}

func TestWhatIfRunsOnceAnAccountAndTwiceANode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOver(t, &slowLists{Store: memory.New(memory.Options{})}, api.Options{})
		what := func(of tenant) string { return "POST /endpoints/" + of.endpoint + "/what-if" }
		tenants := []tenant{w.tenant("acme"), w.tenant("b"), w.tenant("c")}
		var running sync.WaitGroup
		for _, of := range tenants[:2] {
			running.Go(func() {
				if got := w.do(w.admin, what(of), ""); got.status != http.StatusOK {
					t.Errorf("one of two = %d %s", got.status, got.text)
				}
			})
		}
		synctest.Wait()
		for i, detail := range []string{"already", "already", "no more"} {
			got := w.do(w.admin, what(tenants[i]), "")
			if got.status != http.StatusTooManyRequests || !strings.Contains(got.id("detail"), detail) || got.header.Get("Retry-After") == "" {
				t.Errorf("one too many = %d %s", got.status, got.text)
			}
		}
		running.Wait()
		w.want(200, what(tenants[2]), "")
	})
}
