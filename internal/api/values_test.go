package api_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider"
)

// where returns the ids of the events that a condition selects.
func (w *world) where(key, query string) (ids []string) {
	w.Helper()
	got := w.do(key, "GET /events?"+query, "")
	if got.status != 200 {
		w.Fatalf("%s = %d %s", query, got.status, got.text)
	}
	for _, e := range got.data() {
		if e["data"] != nil {
			w.Errorf("a list has the data of %v", e["id"])
		}
		ids = append(ids, fmt.Sprint(e["id"]))
	}
	return ids
}

// order publishes an event of the type order.paid.
func (w *world) order(account, data string) string {
	w.Helper()
	return w.want(202, "POST /events", `{"account": "`+account+`", "type": "order.paid", "data": `+data+`}`).id("id")
}

func TestEventsAreFoundByValuesOfTheirData(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.tenant("acme")
	w.tenant("other")
	account, _ := postrider.ParseID[postrider.AccountID](acme.account)
	bound := w.key(postrider.APIKey{Account: account, Scopes: []postrider.Scope{postrider.ScopeWebhooksRead}})
	before := w.order("acme", `{"order": {"number": 42}}`)
	w.want(201, "POST /event-types", `{"name": "order.paid", "paths": ["$.order.number", "$.lines.sku"]}`)
	number := w.order("acme", `{"order": {"number": 42.0}, "lines": [{"sku": "a"}, {"sku": "b"}]}`)
	text := w.order("acme", `{"order": {"number": "42"}, "lines": [{"sku": "c d"}]}`)
	foreign := w.order("other", `{"order": {"number": 42}}`)

	both := []string{text, number}
	for query, want := range map[string][]string{
		"account=acme&where=$.order.number=42":                   both,
		"account=acme&where=$.order.number=4.2e1":                both,
		"account=acme&where=$.order.number=42&order=asc":         {number, text},
		"account=acme&where=$.order.number=42&type=order.paid":   both,
		"account=acme&where=$.order.number=42&ordering_key=none": nil,
		"account=acme&where=$.order.number=4":                    nil,
		"account=acme&where=$.lines.sku=b":                       {number},
		"account=acme&where=$.lines.sku=c+d":                     {text},
		"account=other&where=$.order.number=42":                  {foreign},
	} {
		if got := w.where(w.admin, query); !slices.Equal(got, want) {
			t.Errorf("%s finds %v, want %v", query, got, want)
		}
	}
	if got := w.where(bound, "where=$.order.number=42"); !slices.Equal(got, both) {
		t.Errorf("a customer finds %v, want %v", got, both)
	}
	if got := w.do(bound, "GET /events?account=other&where=$.order.number=42", ""); got.status != 422 {
		t.Errorf("a customer that asks for another account's = %d %s", got.status, got.text)
	}
	hits := []string{"event " + text + " by value", "event " + number + " by value"}
	if diff := cmp.Diff(hits, w.hits(bound, "42")); diff != "" {
		t.Errorf("what a customer's search finds (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string(nil), w.hits(w.admin, "42")); diff != "" {
		t.Errorf("what a search of all accounts finds (-want +got):\n%s", diff)
	}
	got := w.want(200, "GET /search?account=other&q=42", "")
	if len(got.data()) != 1 || got.data()[0]["id"] != foreign || fmt.Sprint(got.body["value_paths"]) != "[$.lines.sku $.order.number]" {
		t.Errorf("a search of one account finds %s", got.text)
	}
	w.want(200, "PATCH /event-types/order.paid", `{"paths": ["$.order.number"]}`)
	if all := w.want(200, "GET /events/"+before, "").text; !strings.Contains(all, "42") {
		t.Errorf("the event from before the path is %s", all)
	}
}

// Two events may have one term, so the value is compared.
func TestAnEventWithAnotherValueIsNotFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	w.want(201, "POST /event-types", `{"name": "order.paid", "paths": ["$.a", "$.b"]}`)
	w.publisher.confuse.Store(true)
	w.order("acme", `{"a": "other", "b": "x"}`)
	if got := w.where(w.admin, "account=acme&where=$.a=x"); got != nil {
		t.Errorf("%v is found by a value that it does not have", got)
	}
}

func TestAConditionThatCannotBeSearchedNamesItsFault(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	w.want(201, "POST /event-types", `{"name": "order.paid", "paths": ["$.a"]}`)
	w.want(201, "POST /event-types", `{"name": "order.sent"}`)
	for query, want := range map[string]string{
		"where=$.a=1":                              "account required",
		"account=acme&where=$.a":                   "where malformed",
		"account=acme&where=$.a=":                  "where malformed",
		"account=acme&where=a=1":                   "where malformed",
		"account=acme&where=$.b=1":                 "where not_found",
		"account=acme&type=order.sent&where=$.a=1": "where not_found",
		"account=acme&type=none&where=$.a=1":       "where not_found",
	} {
		got := w.do(w.admin, "GET /events?"+query, "")
		faults, _ := got.body["errors"].([]any)
		if got.status != 422 || len(faults) != 1 {
			t.Errorf("%s = %d %s", query, got.status, got.text)
			continue
		}
		fault, _ := faults[0].(map[string]any)
		if found := fmt.Sprint(fault["field"], " ", fault["code"]); found != want {
			t.Errorf("%s: %s, want %s", query, found, want)
		}
	}
	got := w.want(422, "POST /event-types", `{"name": "a b", "paths": ["$.a", "b", "$.a", "$[x]"]}`)
	for _, field := range []string{"name", "paths[1]", "paths[2]", "paths[3]"} {
		if !strings.Contains(got.text, `"`+field+`"`) {
			t.Errorf("the fault of %s is missing: %s", field, got.text)
		}
	}
	w.want(422, "PATCH /event-types/order.paid", `{"paths": ["$.a", "$.b", "$.c", "$.d", "$.e", "$.f"]}`)
}

func TestAnEventTypeSaysSinceWhenItsPathsAreIndexed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	paths := func(got response) (list []map[string]any) {
		for _, p := range got.body["paths"].([]any) {
			list = append(list, p.(map[string]any))
		}
		return list
	}
	made := paths(w.want(201, "POST /event-types", `{"name": "a", "paths": ["$.b", "$.a"]}`))
	kept := paths(w.want(200, "PATCH /event-types/a", `{"description": "text"}`))
	if diff := cmp.Diff(made, kept); diff != "" {
		t.Errorf("another change changes the paths (-before +after):\n%s", diff)
	}
	changed := paths(w.want(200, "PATCH /event-types/a", `{"paths": ["$.c", "$.b"]}`))
	if len(changed) != 2 || changed[0]["path"] != "$.b" || changed[0]["since"] != made[1]["since"] || changed[1]["path"] != "$.c" {
		t.Errorf("the paths are %v, before %v", changed, made)
	}
	if none := paths(w.want(200, "PATCH /event-types/a", `{"paths": null}`)); len(none) != 0 {
		t.Errorf("the paths are %v, want none", none)
	}
	var notes []string
	for _, entry := range w.audit("?action=update-event-type") {
		details, _ := entry["details"].(map[string]any)
		notes = append(notes, fmt.Sprint(details["paths"]))
	}
	if diff := cmp.Diff([]string{"<nil>", "$.a $.b → $.b $.c", "$.b $.c → "}, notes); diff != "" {
		t.Errorf("the audit log (-want +got):\n%s", diff)
	}
}

func TestASearchOfDataIsAudited(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.tenant("acme")
	search := func(route string) { w.want(200, "GET "+route+url.QueryEscape("private"), "") }
	search("/search?account=acme&q=")
	w.want(201, "POST /event-types", `{"name": "order.paid", "paths": ["$.a", "$.b"]}`)
	search("/search?q=")
	search("/search?account=acme&q=")
	search("/events?account=acme&where=$.a=")
	w.want(200, "GET /events?account=acme", "")
	for action, paths := range map[string]string{"search": "$.a $.b", "list-events": "$.a"} {
		entries := w.audit("?action=" + action)
		if len(entries) != 1 {
			t.Fatalf("%s has the entries %v, want one", action, entries)
		}
		has(t, action, entries[0], map[string]any{"object": "event", "object_id": nil, "outcome": "ok", "account": acme.account})
		if details, _ := entries[0]["details"].(map[string]any); details["where"] != paths {
			t.Errorf("%s has the details %v, want %s", action, details, paths)
		}
	}
	if all := w.want(200, "GET /audit", "").text; strings.Contains(all, "private") {
		t.Errorf("the audit log has the value: %s", all)
	}
}

func TestASearchOfDataIsAuditedForTheAccountThatIsSearched(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, other := w.tenant("acme"), w.tenant("other")
	w.want(201, "POST /event-types", `{"name": "order.paid", "paths": ["$.a"]}`)
	unknown := "acc_01h455vb4pex5vsknk084sn02q"
	for _, text := range []string{other.account, unknown} {
		if got := w.hits(w.bound(acme), text); got != nil {
			t.Errorf("a customer's search for %s finds %v", text, got)
		}
	}
	w.want(200, "GET /search?account=acme&q="+unknown, "")
	entries := w.audit("?action=search")
	if len(entries) != 3 {
		t.Fatalf("the entries are %v, want three", entries)
	}
	for _, e := range entries {
		has(t, "entry", e, map[string]any{"object": "event", "account": acme.account})
	}
}
