package api_test

import (
	"fmt"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// hits searches and returns the kind, id and reason of each hit.
func (w *world) hits(key, text string) []string {
	w.Helper()
	got := w.do(key, "GET /search?q="+url.QueryEscape(text), "")
	if got.status != 200 {
		w.Fatalf("searching %q = %d %s", text, got.status, got.text)
	}
	var hits []string
	for _, h := range got.data() {
		hits = append(hits, fmt.Sprint(h["kind"], " ", h["id"], " by ", h["matched_by"]))
	}
	return hits
}

func TestSearchFindsAnObjectByAnyOfItsNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.tenant("acme")
	w.want(200, "PATCH /endpoints/"+acme.endpoint, `{"url": "https://hooks.acme.example/in/orders", "description": "Billing of Acme"}`)
	w.want(201, "POST /event-types", `{"name": "order.paid"}`)
	w.want(201, "POST /event-types", `{"name": "order.created"}`)
	keyed := w.want(202, "POST /events",
		`{"account": "acme", "type": "order.paid", "data": 1, "idempotency_key": "order-42", "ordering_key": "cart-7"}`)
	apiKey := w.want(201, "POST /api-keys", `{"name": "ci", "scopes": ["admin"]}`)
	replay := w.want(201, "POST /replays", `{"account": "acme"}`)
	secret := w.want(200, "GET /endpoints/"+acme.endpoint+"/secrets", "").data()[0]["id"].(string)
	reader := w.key(postrider.APIKey{Scopes: []postrider.Scope{postrider.ScopeWebhooksRead}})
	account, endpoint := "account "+acme.account+" by ", "endpoint "+acme.endpoint+" by "

	for text, want := range map[string][]string{
		acme.account:                    {account + "id"},
		acme.endpoint:                   {endpoint + "id"},
		acme.event:                      {"event " + acme.event + " by id"},
		" " + acme.delivery + " ":       {"delivery " + acme.delivery + " by id"},
		apiKey.id("id"):                 {"api_key " + apiKey.id("id") + " by id"},
		replay.id("id"):                 {"replay " + replay.id("id") + " by id"},
		secret:                          {endpoint + "secret"},
		"order-42":                      {"event " + keyed.id("id") + " by idempotency_key"},
		"cart-7":                        {"event " + keyed.id("id") + " by ordering_key"},
		"acme.example":                  {endpoint + "name"},
		"https://hooks.acme.example/in": {endpoint + "name"},
		"in/orders":                     {endpoint + "name"},
		"/in/orders":                    {endpoint + "name"},
		"orders":                        {endpoint + "name"},
		"n/orders":                      nil,
		"/":                             {endpoint + "name"},
		"BILLING":                       {endpoint + "name"},
		"order.":                        {"event_type order.created by name", "event_type order.paid by name"},
		"order.paid":                    {"event_type order.paid by name"},
		"acme":                          {account + "uid", endpoint + "name"},
		"nothing":                       nil,
		"evt_nothing":                   nil,
	} {
		if diff := cmp.Diff(want, w.hits(w.admin, text)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
	if got := w.hits(reader, apiKey.id("id")); got != nil {
		t.Errorf("a key that is no admin finds the API key %v", got)
	}
	for _, query := range []string{"", "?q=", "?q=%20", "?q=%00"} {
		if got := w.do(w.admin, "GET /search"+query, ""); got.status != 422 {
			t.Errorf("searching with %q = %d %s", query, got.status, got.text)
		}
	}
}

func TestSearchFindsNothingOfAnotherAccount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, evil := w.tenant("acme"), w.tenant("evil")
	w.want(202, "POST /events",
		`{"account": "acme", "type": "order.paid", "data": 1, "idempotency_key": "order-42", "ordering_key": "cart-7"}`)
	secret := w.want(200, "GET /endpoints/"+acme.endpoint+"/secrets", "").data()[0]["id"].(string)
	foreign := w.bound(evil)
	for _, text := range []string{acme.account, acme.endpoint, acme.event, acme.delivery, acme.uid, secret, "order-42", "cart-7"} {
		if got := w.hits(foreign, text); got != nil {
			t.Errorf("a foreign key searches %q and finds %v", text, got)
		}
	}
	if got := w.hits(foreign, "evil"); len(got) == 0 {
		t.Error("a key of one account finds nothing of its own")
	}
	if got := w.do(foreign, "GET /accounts", "").data(); len(got) != 1 || got[0]["id"] != evil.account {
		t.Errorf("a key of one account lists the accounts %v", got)
	}
	if got := w.do(foreign, "GET /accounts/"+acme.account, ""); got.status != 404 {
		t.Errorf("another account = %d %s", got.status, got.text)
	}
}

func TestDeadLettersAreGroupedByEndpointAndCause(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, evil := w.tenant("acme"), w.tenant("evil")
	for _, e := range []tenant{acme, evil} {
		w.settle(e.endpoint, postrider.Attempt{StatusCode: 410, Error: "http_410"})
	}
	group := map[string]any{
		"account": acme.account, "endpoint": acme.endpoint, "reason": "gone", "last_status_code": 410.0, "last_error": "http_410",
		"count": 1.0, "oldest": acme.delivery, "newest": acme.delivery,
	}
	for _, query := range []string{"?account=acme", "?endpoint=" + acme.endpoint, "?account=acme&endpoint=" + acme.endpoint} {
		got := w.want(200, "GET /dead-letters/groups"+query, "").data()
		if len(got) != 1 {
			t.Fatalf("the groups of %s are %v", query, got)
		}
		has(t, "the group", got[0], group)
	}
	if got := w.want(200, "GET /dead-letters/groups", "").data(); len(got) != 2 {
		t.Errorf("all groups are %v", got)
	}
	if got := w.do(w.bound(evil), "GET /dead-letters/groups", "").data(); len(got) != 1 || got[0]["endpoint"] != evil.endpoint {
		t.Errorf("the groups of another account are %v", got)
	}
	if got := w.do(w.bound(evil), "GET /dead-letters/groups?endpoint="+acme.endpoint, ""); got.status != 422 {
		t.Errorf("a foreign endpoint = %d %s", got.status, got.text)
	}
}

// The cursor of a list is an id that the caller can choose.
func TestDeadLettersAreNotGroupedFromACursorOfAnotherAccount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, evil := w.tenant("acme"), w.tenant("evil")
	for _, e := range []tenant{acme, evil} {
		w.settle(e.endpoint, postrider.Attempt{StatusCode: 410})
	}
	for _, tt := range []struct{ caller, other tenant }{{acme, evil}, {evil, acme}} {
		id, err := postrider.ParseID[postrider.DeliveryID](tt.other.delivery)
		if err != nil {
			t.Fatal(err)
		}
		got := w.do(w.bound(tt.caller), "GET /dead-letters/groups?limit=250&cursor="+store.EncodeCursor(string(id[:])), "")
		if got.status != 200 || len(got.data()) != 0 {
			t.Errorf("%s from a cursor of %s = %d %s", tt.caller.uid, tt.other.uid, got.status, got.text)
		}
	}
}

// TestSearchFindsAnAccountAmongManyEndpoints checks that endpoints with a customer's name in their
// URL do not hide the customer's account, and that the number of found objects is right.
func TestSearchFindsAnAccountAmongManyEndpoints(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	customer := w.want(201, "POST /accounts", `{"uid": "northwind", "name": "Northwind Traders"}`).id("id")
	w.want(201, "POST /accounts", `{"uid": "other"}`)
	for n := range 22 {
		w.want(201, "POST /endpoints", fmt.Sprintf(`{"account": "other", "url": "https://northwind.example/%d", "event_types": ["*"]}`, n))
	}
	got := w.want(200, "GET /search?q=northwind", "")
	if hits := got.data(); len(hits) != 20 || hits[0]["id"] != customer || hits[0]["matched_by"] != "uid" {
		t.Errorf("the hits are %d and begin with %v, want 20 and the account", len(hits), hits[0])
	}
	if got.body["total"] != 23.0 {
		t.Errorf("total = %v, want 23", got.body["total"])
	}
	if hits := w.hits(w.admin, "traders"); len(hits) != 1 || hits[0] != "account "+customer+" by name" {
		t.Errorf("a word of its name finds %v", hits)
	}
}
