package api_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/postrider/postrider"
)

// has fails the test unless the object has these members. The object may have more members.
func has(t *testing.T, what string, got, want map[string]any) {
	t.Helper()
	only := cmpopts.IgnoreMapEntries(func(name string, _ any) bool { _, ok := want[name]; return !ok })
	if diff := cmp.Diff(want, got, only); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestAccountsAreMadeListedAndChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made := w.want(201, "POST /accounts", `{"uid": "acme", "name": "Acme Inc."}`)
	has(t, "account", made.body, map[string]any{"uid": "acme", "name": "Acme Inc."})
	if _, err := time.Parse("2006-01-02T15:04:05.000000Z", made.id("created_at")); err != nil {
		t.Errorf("created_at: %v", err)
	}
	for _, name := range []string{"acme", made.id("id")} {
		if got := w.want(200, "GET /accounts/"+name, ""); got.id("id") != made.id("id") {
			t.Errorf("GET by %s = %s", name, got.text)
		}
	}
	if got := w.do(w.admin, "POST /accounts", `{"uid": "acme"}`); got.status != 409 || got.body["code"] != "uid_taken" {
		t.Errorf("the same uid again = %d %s, want 409 conflict", got.status, got.text)
	}
	changed := w.want(200, "PATCH /accounts/acme", `{"name": "Acme", "uid": "acme-2"}`)
	has(t, "changed", changed.body, map[string]any{"uid": "acme-2", "name": "Acme", "id": made.id("id")})
	w.want(404, "GET /accounts/acme", "")
	if got := w.want(200, "GET /accounts?uid=acme-2", "").data(); len(got) != 1 {
		t.Errorf("list by uid = %v", got)
	}
	has(t, "an account without a name", w.want(201, "POST /accounts", `{"uid": "nameless"}`).body,
		map[string]any{"uid": "nameless", "name": ""})
	has(t, "an account without a uid", w.want(201, "POST /accounts", `{"name": "Acme"}`).body, map[string]any{"uid": nil, "name": "Acme"})
}

func TestEventTypesAreKeptInACatalogue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.want(201, "POST /event-types", `{"name": "order.created", "description": "An order"}`)
	w.want(409, "POST /event-types", `{"name": "order.created"}`)
	w.want(201, "POST /event-types", `{"name": "a.first", "example": null}`)
	has(t, "type", w.want(200, "PATCH /event-types/order.created", `{"description": "Made"}`).body,
		map[string]any{"name": "order.created", "description": "Made"})
	if got := w.want(200, "GET /event-types", "").data(); len(got) != 2 || got[0]["name"] != "a.first" {
		t.Errorf("catalogue = %v", got)
	}
	example := map[string]any{"id": 42.0}
	has(t, "with an example", w.want(200, "PATCH /event-types/order.created", `{"example": {"id": 42}}`).body,
		map[string]any{"description": "Made", "example": example})
	has(t, "unchanged", w.want(200, "PATCH /event-types/order.created", `{}`).body, map[string]any{"description": "Made", "example": example})
	has(t, "without an example", w.want(200, "PATCH /event-types/order.created", `{"example": null}`).body, map[string]any{"example": nil})
	w.want(422, "PATCH /event-types/order.created", `{"example": "`+strings.Repeat("x", 8<<10)+`"}`)
	w.want(204, "DELETE /event-types/order.created", "")
	w.want(404, "GET /event-types/order.created", "")
	w.want(404, "DELETE /event-types/order.created", "")
}

func TestAnEndpointIsMadeReadAndChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.want(201, "POST /accounts", `{"uid": "acme"}`)
	made := w.want(201, "POST /endpoints", `{"account": "acme", "uid": "main", "url": "https://acme.example/hooks",
		"event_types": ["order.*"], "concurrency": 5, "retry": {"delays_ms": [0, 30000], "jitter": "full"}}`)
	policy := map[string]any{
		"status": "enabled", "concurrency": 5.0, "timeout_ms": 10000.0, "expiry_ms": 604800000.0, "payload": "envelope",
		"retry":     map[string]any{"delays_ms": []any{0.0, 30000.0}, "jitter": "full"},
		"signature": map[string]any{"schemes": []any{"standard"}}, "client_errors": "retry", "status_reason": nil,
	}
	has(t, "endpoint", made.body, policy)
	secrets, _ := made.body["secrets"].([]any)
	if len(secrets) != 1 || !strings.HasPrefix(secrets[0].(map[string]any)["secret"].(string), "whsec_") {
		t.Errorf("secrets = %v", secrets)
	}
	path := "/endpoints/" + made.id("id")
	read := w.want(200, "GET "+path, "")
	has(t, "read again", read.body, policy)
	if strings.Contains(read.text, "whsec_") {
		t.Errorf("GET shows a secret: %s", read.text)
	}
	changed := w.want(200, "PATCH "+path, `{"timeout_ms": 5000, "retry": {"preset": "seven-step"}, "event_types": ["*"]}`)
	has(t, "changed", changed.body, map[string]any{
		"timeout_ms": 5000.0, "retry": map[string]any{"preset": "seven-step"}, "event_types": []any{"*"}, "concurrency": 5.0,
	})
	for _, nothing := range []string{`{}`, `{"timeout_ms": 5000, "event_types": ["*"]}`} {
		same := w.want(200, "PATCH "+path, nothing)
		if diff := cmp.Diff(changed.body, same.body); diff != "" {
			t.Errorf("PATCH %s changed something (-want +got):\n%s", nothing, diff)
		}
	}
	if got := w.want(200, "GET /endpoints?account=acme&uid=main&status=enabled", "").data(); len(got) != 1 {
		t.Errorf("list = %v", got)
	}
	w.want(409, "POST /endpoints", `{"account": "acme", "uid": "main", "url": "https://acme.example", "event_types": ["*"]}`)

	w.want(204, "DELETE "+path, "")
	has(t, "deleted", w.want(200, "GET "+path, "").body, map[string]any{"status": "deleted"})
	for _, route := range []string{"DELETE " + path, "GET " + path + "/secrets", "GET " + path + "/circuit"} {
		w.want(404, route, "")
	}
	for _, verb := range []string{"pause", "resume", "enable", "disable", "test", "verify", "secrets/rotate"} {
		if got := w.want(409, "POST "+path+"/"+verb, ""); got.body["detail"] != "the endpoint is deleted" {
			t.Errorf("%s of a deleted endpoint says %q", verb, got.body["detail"])
		}
	}
}

func TestAnEndpointsStatusIsChangedByVerbs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := "/endpoints/" + w.tenant("acme").endpoint
	for _, step := range []struct {
		verb, body string
		code       int
		status     any
		reason     any
	}{
		{"resume", "", 200, "enabled", nil},
		{"pause", `{"reason": "moving house"}`, 200, "paused", "moving house"},
		{"enable", "", 409, nil, nil},
		{"pause", "", 200, "paused", nil},
		{"resume", "", 200, "enabled", nil},
		{"disable", `{"reason": "x"}`, 200, "disabled", "x"},
		{"pause", "", 409, nil, nil},
		{"resume", "{}", 409, nil, nil},
		{"enable", "", 200, "enabled", nil},
	} {
		got := w.do(w.admin, "POST "+path+"/"+step.verb, step.body)
		if got.status != step.code || (step.code == 200 && (got.body["status"] != step.status || got.body["status_reason"] != step.reason)) {
			t.Errorf("%s %s = %d %s, want %+v", step.verb, step.body, got.status, got.text, step)
		}
	}
}

func TestSecretsAreBroughtShownAndRotated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.want(201, "POST /accounts", `{"uid": "acme"}`)
	const newer, older = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz", "whsec_MTEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"
	made := w.want(201, "POST /endpoints", `{"account": "acme", "url": "https://a.example", "event_types": ["*"],
		"secrets": ["`+newer+`", "`+older+`"]}`)
	path := "/endpoints/" + made.id("id") + "/secrets"
	shown := w.want(200, "GET "+path, "").data()
	if len(shown) != 2 || shown[0]["secret"] != newer || shown[1]["secret"] != older {
		t.Errorf("secrets = %v", shown)
	}
	rotated := w.want(200, "POST "+path+"/rotate", "")
	shown = w.want(200, "GET "+path, "").data()
	if len(shown) != 3 || shown[0]["secret"] != rotated.id("secret") || shown[1]["expires_at"] == nil || shown[0]["expires_at"] != nil {
		t.Errorf("after a rotation: %v", shown)
	}
	last := w.want(200, "POST "+path+"/rotate", `{"overlap_ms": 0}`)
	if shown = w.want(200, "GET "+path, "").data(); len(shown) != 1 || shown[0]["id"] != last.id("id") {
		t.Errorf("after a rotation at once: %v", shown)
	}
	reader := w.key(postrider.APIKey{Scopes: []postrider.Scope{postrider.ScopeWebhooksRead}})
	if got := w.do(reader, "GET "+path, ""); got.status != 403 {
		t.Errorf("secrets with webhooks:read = %d, want 403", got.status)
	}
}

func TestPublishAnswersAsPromised(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.tenant("acme")
	const body = `{"account": "acme", "type": "order.created", "data": {"a":  [1.0, "\u0041"]}, "idempotency_key": "k", "api_version": "v1"}`
	first := w.want(202, "POST /events", body)
	has(t, "published", first.body, map[string]any{"deliveries": 1.0, "id": first.id("id")})
	again := w.want(200, "POST /events", body)
	has(t, "again", again.body, map[string]any{"id": first.id("id"), "duplicate": true, "deliveries": nil})
	other := w.do(w.admin, "POST /events", strings.Replace(body, "1.0", "1", 1))
	if other.status != 409 || other.body["code"] != "idempotency_conflict" {
		t.Errorf("other content = %d %s", other.status, other.text)
	}
	read := w.want(200, "GET /events/"+first.id("id"), "")
	has(t, "event", read.body, map[string]any{
		"account": acme.account, "type": "order.created", "api_version": "v1", "ordering_key": nil,
		"max_attempts": nil,
	})
	if !strings.Contains(read.text, `{"a":[1.0,"\u0041"]}`) {
		t.Errorf("data is not what was published: %s", read.text)
	}
	once := w.want(202, "POST /events", `{"account": "acme", "type": "order.created", "data": 1, "max_attempts": 1}`)
	has(t, "event", w.want(200, "GET /events/"+once.id("id"), "").body, map[string]any{"max_attempts": 1.0})
	batch := w.want(202, "POST /events/batch", `{"events": [`+body+`, {"account": "acme", "type": "x", "data": null}]}`).data()
	if len(batch) != 2 || batch[0]["duplicate"] != true || batch[0]["id"] != first.id("id") || batch[1]["duplicate"] != false {
		t.Errorf("batch = %v", batch)
	}
	taken := w.do(w.admin, "POST /events/batch", `{"events": [{"account": "acme", "type": "x", "data": 1},
		`+strings.TrimSuffix(body, "}")+`, "ordering_key": "o"}]}`)
	if taken.status != 409 || taken.body["index"] != 1.0 {
		t.Errorf("batch with a taken key = %d %s", taken.status, taken.text)
	}
	if got := w.want(200, "GET /events?account=acme&type=order.created", "").data(); len(got) != 3 {
		t.Errorf("events of the type = %d, want 3", len(got))
	}
	if got := w.want(202, "POST /endpoints/"+acme.endpoint+"/test", ""); got.body["deliveries"] != 1.0 {
		t.Errorf("test = %s", got.text)
	}
}

func TestATestEventHasTheExampleOfItsType(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	test := "POST /endpoints/" + w.tenant("acme").endpoint + "/test"
	w.want(201, "POST /event-types", `{"name": "order.created", "example": {"id": 42}}`)
	w.want(201, "POST /event-types", `{"name": "order.paid"}`)
	for body, want := range map[string][2]string{
		"":                            {"postrider.test", `{"endpoint":"ep_`},
		`{}`:                          {"postrider.test", `{"endpoint":"ep_`},
		`{"type": "order.created"}`:   {"order.created", `{"id":42}`},
		`{"type": "order.paid"}`:      {"order.paid", `{"endpoint":"ep_`},
		`{"type": "order.cancelled"}`: {},
	} {
		if want[0] == "" {
			w.want(422, test, body)
			continue
		}
		got := w.want(200, "GET /events/"+w.want(202, test, body).id("id"), "")
		if got.body["type"] != want[0] || !strings.Contains(got.text, want[1]) {
			t.Errorf("the test event of %q is %s, want the type %s and the data %s", body, got.text, want[0], want[1])
		}
		has(t, "the test event", got.body, map[string]any{"test": true})
		has(t, "its delivery", w.want(200, "GET /deliveries?event="+got.id("id"), "").data()[0], map[string]any{"test": true})
	}
	published := w.want(202, "POST /events", `{"account": "acme", "type": "order.created", "data": 1}`).id("id")
	has(t, "an event of a producer", w.want(200, "GET /events/"+published, "").body, map[string]any{"test": false})
	has(t, "its delivery", w.want(200, "GET /deliveries?event="+published, "").data()[0], map[string]any{"test": false})
}

func TestTheKeyOfAnEventMayBeAHeader(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	const event = `{"account": "acme", "type": "order.created", "data": 1}`
	keyed := strings.Replace(event, "}", `, "idempotency_key": "k"}`, 1)
	first := w.want(202, "POST /events", keyed).id("id")
	for _, tt := range []struct {
		name, route, body string
		header            []string
		status            int
	}{
		{"header alone", "POST /events", event, []string{"k"}, 200},
		{"both", "POST /events", keyed, []string{"k"}, 200},
		{"another key", "POST /events", event, []string{"l"}, 202},
		{"other content", "POST /events", strings.Replace(event, "1", "2", 1), []string{"k"}, 409},
		{"both differ", "POST /events", keyed, []string{"l"}, 422},
		{"empty", "POST /events", event, []string{""}, 422},
		{"empty beside a key", "POST /events", keyed, []string{""}, 422},
		{"twice", "POST /events", event, []string{"k", "k"}, 422},
		{"long", "POST /events", event, []string{strings.Repeat("k", 257)}, 422},
		{"bytes", "POST /events", event, []string{"\xff"}, 422},
		{"batch", "POST /events/batch", `{"events": [` + event + `]}`, []string{"k"}, 422},
	} {
		r := w.request(w.admin, tt.route, tt.body)
		r.Header["Idempotency-Key"] = tt.header
		got := w.send(r)
		switch {
		case got.status != tt.status:
			t.Errorf("%s = %d %s, want %d", tt.name, got.status, got.text, tt.status)
		case got.status == 200 && got.id("id") != first:
			t.Errorf("%s = %s, want %s", tt.name, got.id("id"), first)
		case got.status == 409 && (got.body["code"] != "idempotency_conflict" || got.body["index"] != nil):
			t.Errorf("%s = %s, want idempotency_conflict without an index", tt.name, got.text)
		case got.status == 422 && !slices.Equal(got.fields(), []string{"Idempotency-Key"}):
			t.Errorf("%s names %v", tt.name, got.fields())
		}
	}
}

func TestConflictsSayTheFact(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, other, third := w.tenant("acme"), w.tenant("other"), w.tenant("third")
	conflict := func(route, detail string) {
		t.Helper()
		if got := w.want(409, route, ""); got.body["detail"] != detail {
			t.Errorf("%s says %q, want %q", route, got.body["detail"], detail)
		}
	}
	conflict("POST /deliveries/"+acme.delivery+"/replay", "the delivery is pending")
	w.settle(acme.endpoint, postrider.Attempt{StatusCode: 200})
	conflict("POST /deliveries/"+acme.delivery+"/cancel", "the delivery is delivered")
	w.want(204, "DELETE /endpoints/"+acme.endpoint, "")
	conflict("POST /deliveries/"+acme.delivery+"/replay", "the endpoint is deleted")

	w.settle(other.endpoint, postrider.Attempt{StatusCode: 410})
	w.want(200, "POST /dead-letters/"+other.delivery+"/discard", "")
	conflict("POST /dead-letters/"+other.delivery+"/discard", "the dead letter was discarded")
	w.settle(third.endpoint, postrider.Attempt{StatusCode: 410})
	w.want(202, "POST /dead-letters/"+third.delivery+"/replay", "")
	conflict("POST /dead-letters/"+third.delivery+"/discard", "the dead letter was replayed")

	for _, step := range [][2]string{{"pause", "paused"}, {"disable", "disabled"}} {
		w.want(200, "POST /endpoints/"+other.endpoint+"/"+step[0], "")
		conflict("POST /endpoints/"+other.endpoint+"/test", "the endpoint is "+step[1])
	}
}

func TestSecretsInForceAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rotate := "POST /endpoints/" + w.tenant("acme").endpoint + "/secrets/rotate"
	for range 9 {
		w.want(200, rotate, "")
	}
	w.want(409, rotate, "")
	const brought = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"
	w.want(422, rotate, `{"secret": "whsec_x", "overlap_ms": 0}`)
	if got := w.want(200, rotate, `{"secret": "`+brought+`", "overlap_ms": 0}`); got.body["secret"] != brought {
		t.Errorf("rotated to %s, want the secret that was brought along", got.text)
	}
	w.want(200, rotate, "")
}

func TestADeliveryIsFollowedToItsEndAndReplayed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.tenant("acme")
	delivery := "/deliveries/" + acme.delivery
	has(t, "pending", w.want(200, "GET "+delivery, "").body, map[string]any{
		"event": acme.event, "endpoint": acme.endpoint, "status": "pending", "finished_at": nil, "last_status_code": nil,
	})
	w.want(409, "POST "+delivery+"/replay", "")
	w.want(404, "POST /dead-letters/"+acme.delivery+"/replay", "")

	w.settle(acme.endpoint, postrider.Attempt{StatusCode: 410, Duration: 12 * time.Millisecond, ResponseBody: []byte("\xff gone")})
	has(t, "dead", w.want(200, "GET "+delivery, "").body,
		map[string]any{"status": "dead", "reason": "gone", "attempts": 1.0, "last_status_code": 410.0})
	attempt := w.want(200, "GET "+delivery+"/attempts", "").data()[0]
	has(t, "attempt", attempt, map[string]any{
		"attempt": 1.0, "outcome": "gone", "status_code": 410.0, "duration_ms": 12.0, "response_body": nil, "response_body_base64": "/yBnb25l",
	})
	if got := w.want(200, "GET /events/"+acme.event+"/attempts", "").data(); len(got) != 1 {
		t.Errorf("attempts of the event = %v", got)
	}
	for _, list := range []string{
		"/dead-letters", "/dead-letters?account=acme&endpoint=" + acme.endpoint, "/deliveries?status=dead",
		"/endpoints/" + acme.endpoint + "/deliveries?status=dead",
	} {
		if got := w.want(200, "GET "+list, "").data(); len(got) != 1 {
			t.Errorf("%s = %v", list, got)
		}
	}
	replay := w.want(202, "POST /dead-letters/"+acme.delivery+"/replay", "")
	has(t, "replay", replay.body, map[string]any{"replayed_from": acme.delivery, "status": "pending"})
	if got := w.do(w.admin, "POST "+delivery+"/replay", ""); got.status != 409 || got.body["code"] != "replay_pending" ||
		got.body["replay"] != replay.id("id") {
		t.Errorf("second replay = %d %s", got.status, got.text)
	}
	has(t, "cancelled", w.want(200, "POST /deliveries/"+replay.id("id")+"/cancel", "").body, map[string]any{"status": "cancelled"})
	w.want(409, "POST /deliveries/"+replay.id("id")+"/cancel", "")
	w.want(202, "POST /endpoints/"+acme.endpoint+"/deliveries/"+acme.delivery+"/replay", "")
}

func TestAnEventIsReplayedWhereItIsNotPending(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.tenant("acme")
	other := w.want(201, "POST /endpoints", `{"account": "acme", "url": "https://b.example", "event_types": ["*"]}`).id("id")
	event := w.want(202, "POST /events", `{"account": "acme", "type": "order.created", "data": 1}`).id("id")
	selects := func(what, body string, want float64) {
		t.Helper()
		got := w.want(202, "POST /events/"+event+"/replay", body)
		has(t, what, got.body, map[string]any{"expected": map[string]any{"matches": want, "exact": true}})
	}
	selects("while all is pending", "", 0)
	w.settle(acme.endpoint, postrider.Attempt{StatusCode: 410})
	w.settle(other, postrider.Attempt{StatusCode: 200})
	selects("the dead", `{"status": "dead"}`, 1)
	selects("one endpoint", `{"endpoint": "`+other+`"}`, 1)
	selects("all", "{}", 2)
	letter := w.want(200, "GET /dead-letters?endpoint="+acme.endpoint, "").data()[0]["delivery"].(string)
	w.want(202, "POST /dead-letters/"+letter+"/replay", "")
	selects("while one is pending again", "", 1)
}

func TestADeadLetterIsDiscarded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.tenant("acme")
	w.settle(acme.endpoint, postrider.Attempt{StatusCode: 410})
	letter := w.want(200, "POST /dead-letters/"+acme.delivery+"/discard", `{"reason": "no longer needed"}`)
	has(t, "discarded", letter.body, map[string]any{"resolution": "discarded", "resolved_by": "test", "note": "no longer needed"})
	w.want(409, "POST /dead-letters/"+acme.delivery+"/discard", "")
	for _, route := range []string{
		"POST /dead-letters/" + acme.delivery, "POST /deliveries/" + acme.delivery,
		"POST /endpoints/" + acme.endpoint + "/deliveries/" + acme.delivery,
	} {
		refused := w.want(409, route+"/replay", "")
		has(t, route, refused.body, map[string]any{
			"code":   "dead_letter_discarded",
			"detail": "the dead letter was discarded, and stays so; publish the event again if its receiver needs it",
		})
	}
	has(t, "its event", w.want(202, "POST /events/"+acme.event+"/replay", "").body,
		map[string]any{"expected": map[string]any{"matches": 0.0, "exact": true}})
	has(t, "still discarded", w.want(200, "GET /dead-letters/"+acme.delivery, "").body, letter.body)
	w.want(404, "GET /dead-letters/dlv_00000000000000000000000000", "")
	for query, want := range map[string]int{"": 0, "?resolved=true": 1} {
		if got := w.want(200, "GET /dead-letters"+query, "").data(); len(got) != want {
			t.Errorf("dead letters%s = %v, want %d", query, got, want)
		}
	}
}

func TestACursorWalksTheWholeList(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.tenant("acme")
	var events []string
	for i := range 24 {
		events = append(events, fmt.Sprintf(`{"account": "acme", "type": "order.created", "data": %d}`, i))
	}
	w.want(202, "POST /events/batch", `{"events": [`+strings.Join(events, ",")+`]}`)
	for _, list := range []string{
		"/events?limit=7", "/deliveries?limit=7&account=acme",
		"/endpoints/" + acme.endpoint + "/deliveries?limit=7",
	} {
		seen, cursor, last := map[any]bool{}, "", "~"
		for range 10 {
			page := w.want(200, "GET "+list+cursor, "")
			for _, item := range page.data() {
				id, _ := item["id"].(string)
				if seen[id] || id >= last {
					t.Fatalf("%s: %s is out of order", list, id)
				}
				seen[id], last = true, id
			}
			if page.body["next_cursor"] == nil {
				break
			}
			cursor = "&cursor=" + page.id("next_cursor")
		}
		if len(seen) != 25 {
			t.Errorf("%s walked %d of 25", list, len(seen))
		}
	}
}
