package contract_test

import (
	"strconv"
	"strings"
	"syscall"
	"time"
)

func (c *caller) driveAccounts() {
	c.Helper()
	unnamed := c.want(201, "POST /accounts", object{"name": "no uid"}).id("id")
	c.want(409, "POST /accounts", object{"uid": "acme"})
	c.want(200, "PATCH /accounts/"+unnamed, object{"name": "other", "keep_events_days": 7, "keep_attempts_days": 14, "keep_bodies_days": 3, "keep_idempotency_keys_days": 2})
	c.want(409, "PATCH /accounts/"+unnamed, object{"uid": "acme"})
	c.want(200, "PATCH /accounts/"+unnamed, object{"uid": "other"})
	c.want(200, "PATCH /accounts/other", object{"uid": nil})
	c.want(201, "PUT /accounts/put", object{"name": "put", "metadata": object{"plan": "gold"}})
	c.want(200, "PUT /accounts/put", object{})
	c.stale("PUT /accounts/put", object{})
	c.stale("PATCH /accounts/put", object{})
	c.want(404, "PUT /accounts/acc_01h455vb4pex5vsknk084sn02q", object{})
	c.want(201, "POST /accounts", object{"uid": "second"}) // of a list that leaves out deleted ones
	c.want(204, "DELETE /accounts/"+unnamed, nil)
	c.want(200, "GET /accounts/"+unnamed, nil)
	c.want(200, "GET /accounts/acme", nil)
	c.want(200, "GET /accounts", nil)
	c.paged("GET /accounts?limit=1")
}

// driveSearch finds an object of each kind.
func (c *caller) driveSearch() {
	c.Helper()
	endpoint := c.endpoint("sought", "/status/200", object{"description": "Sought hooks"})
	event, delivery := c.publish("sought")
	key := c.want(201, "POST /api-keys", object{"name": "sought", "scopes": []string{"admin"}}).id("id")
	c.want(201, "POST /event-types", object{"name": "sought", "paths": []string{"$.order"}})
	c.want(202, "POST /events", object{
		"account": "acme", "type": "sought", "data": object{"order": "sought-3"}, "idempotency_key": "sought-1", "ordering_key": "sought-2",
	})
	secret := c.want(200, "GET /endpoints/"+endpoint+"/secrets", nil).items()[0]["id"].(string)
	replay := c.want(201, "POST /replays", object{"account": "acme", "endpoint": endpoint}).id("id")
	for _, text := range []string{replay, endpoint, event, delivery, key, secret, "sought", "sought-1", "sought-2", "acme", "nothing"} {
		c.want(200, "GET /search?q="+text, nil)
	}
	c.want(200, "GET /search?account=acme&q=sought-3", nil)
	c.want(200, "GET /events?account=acme&where=%24.order%3Dsought-3", nil)
	c.want(200, "GET /events?account=acme&ordering_key=sought-2", nil)
	c.want(200, "GET /nodes", nil)
	c.want(200, "GET /hold", nil)
	c.want(200, "POST /hold/resume", nil)
}

// paged reads two pages of a list, as soon as there are two.
func (c *caller) paged(route string) {
	c.Helper()
	first := c.until("there is a second page", route, func(a answer) bool { return a.body["next_cursor"] != nil })
	c.want(200, route+"&cursor="+first.id("next_cursor"), nil)
}

func (c *caller) driveKeys() {
	c.Helper()
	soon := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	made := c.want(201, "POST /api-keys", object{"name": "a", "scopes": []string{"events:write", "webhooks:read", "webhooks:write"}, "account": "acme", "expires_at": soon})
	c.want(201, "POST /api-keys", object{"name": "b", "scopes": []string{"admin"}})
	used := c.send(request{route: "GET /events", key: made.id("key")})
	if used.status != 200 {
		c.Errorf("a key's first use = %d %s", used.status, used.text)
	}
	c.want(200, "GET /api-keys/"+made.id("id"), nil)
	c.want(204, "DELETE /api-keys/"+made.id("id"), nil)
	c.want(200, "GET /api-keys/"+made.id("id"), nil)
	c.want(200, "GET /api-keys", nil)
	c.want(200, "GET /api-keys?account=acme", nil)
	c.paged("GET /api-keys?limit=1")
}

// onePixel is a PNG.
const onePixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGNgZGIGAAAOAAfXb+R4AAAAAElFTkSuQmCC"

// driveAccess makes links to the portal, changes how it looks, and reads who did it.
func (c *caller) driveAccess() {
	c.Helper()
	c.want(200, "GET /portal", nil)
	c.want(404, "GET /portal/logo", nil)
	c.want(200, "PUT /portal", object{"name": "Acme", "colour": "#0a5f8e", "frame_origins": []string{"https://app.example"}, "options": nil})
	c.want(422, "PUT /portal", object{"colour": "#ffff00"})
	c.want(200, "PUT /portal/logo", object{"png": onePixel})
	c.want(200, "GET /portal", nil)
	c.want(200, "GET /portal/logo", nil)
	c.want(204, "DELETE /portal/logo", nil)

	link := object{"account": "acme", "name": "Ann", "capabilities": []string{"view", "operate", "edit", "secrets"}, "ttl_ms": 60000, "embedded": true, "locale": "de"}
	made := c.want(201, "POST /portal-sessions", link)
	c.want(204, "DELETE /sessions/"+made.id("id"), nil)
	c.want(200, "GET /sessions?ended=true", nil)
	c.want(200, "GET /sessions?kind=operator", nil)
	for c.send(request{route: "POST /portal-sessions", body: link}).status != 429 {
	}
	c.want(200, "GET /sessions?kind=portal&account=acme", nil)
	c.paged("GET /sessions?limit=1")
	c.want(200, "GET /audit?account=acme&action=create-portal-session&object="+made.id("id"), nil)
	c.paged("GET /audit?limit=1")
}

func (c *caller) driveEventTypes() {
	c.Helper()
	for _, name := range []string{"order.created", "order.paid"} {
		c.want(201, "POST /event-types", object{"name": name, "example": object{"a": []int{1}}})
	}
	c.want(409, "POST /event-types", object{"name": "order.paid"})
	c.want(200, "PATCH /event-types/order.paid", object{"description": "d", "example": "text"})
	c.want(200, "PATCH /event-types/order.paid", object{"example": nil})
	c.want(200, "GET /event-types/order.paid", nil)
	c.want(201, "PUT /event-types/order.put", object{"example": 1})
	c.want(200, "PUT /event-types/order.put", object{})
	c.stale("PUT /event-types/order.put", object{})
	c.stale("PATCH /event-types/order.put", object{})
	c.paged("GET /event-types?limit=1")
	c.want(204, "DELETE /event-types/order.paid", nil)
	c.want(200, "GET /event-types", nil)
}

func (c *caller) drivePublishing() {
	c.Helper()
	event := object{"account": "acme", "type": "published", "data": 1, "idempotency_key": "k", "api_version": "v1", "ordering_key": "o", "max_attempts": 3}
	first := c.want(202, "POST /events", event)
	c.want(200, "POST /events", event)
	c.want(200, "GET /events/"+first.id("id"), nil)
	event["data"] = 2
	c.want(409, "POST /events", event)
	said := object{
		"account": "acme", "type": "published", "data": 1, "subject": "order/42", "channels": []string{"a"}, "metadata": object{"a": "1"},
		"internal": object{"b": "2"}, "previous": object{"a": 1}, "occurred_at": "2026-05-04T05:02:01+02:00",
	}
	c.want(200, "GET /events/"+c.want(202, "POST /events", said).id("id"), nil)
	said["changed_paths"] = []string{"$.a"}
	c.want(422, "POST /events", said)
	said["previous"] = nil
	c.want(200, "GET /events/"+c.want(202, "POST /events", said).id("id"), nil)
	picture := object{"account": "acme", "type": "published", "data": "iVBORw==", "data_encoding": "base64", "content_type": "image/png"}
	c.want(200, "GET /events/"+c.want(202, "POST /events", picture).id("id"), nil)
	c.want(202, "POST /events/batch", object{"events": []object{{"account": "acme", "type": "published", "data": nil}}})
	c.want(409, "POST /events/batch", object{"events": []object{event}})
	again := object{"account": "acme", "type": "published", "data": 1, "idempotency_key": "k", "api_version": "v1", "ordering_key": "o", "max_attempts": 3}
	c.want(202, "POST /events/batch", object{"events": []object{again}})
	looping := map[string]string{"Webhook-Hops": "8"}
	c.send(request{route: "POST /events", body: again, header: looping})
	c.send(request{route: "POST /events/batch", body: object{"events": []object{again}}, header: looping})
	c.paged("GET /events?limit=1")
	c.want(200, "GET /events", nil)

	for i := range 257 { // an event for more than 256 endpoints gets a fan-out job
		c.endpoint("fanned.out", "/status/200", object{"uid": "fan-" + strconv.Itoa(i)})
	}
	fanned, _ := c.publish("fanned.out")
	c.paged("GET /events/" + fanned + "/deliveries?limit=1")
	c.paged("GET /events/" + fanned + "/attempts?limit=1")
}

// driveOptions gives an endpoint each option's every value.
func (c *caller) driveOptions() {
	c.Helper()
	id := c.endpoint("options", "/status/200", object{"uid": "options", "description": "d"})
	c.want(409, "POST /endpoints", object{"account": "acme", "url": c.receiver.url, "event_types": []string{"x"}, "uid": "options"})
	put := object{"url": c.receiver.url, "event_types": []string{"put"}, "metadata": object{"plan": "gold"}}
	c.want(201, "PUT /endpoints/acme:put", put)
	c.want(200, "PUT /endpoints/acme:put", put)
	c.stale("PUT /endpoints/acme:put", put)
	c.stale("PATCH /endpoints/acme:put", object{})
	for _, change := range []object{
		{"client_errors": "dead_letter", "order": "by_key", "on_dead": "pause", "payload": "raw", "compression": "gzip"},
		{"circuit": object{"preset": "default"}},
		{"circuit": object{"preset": "strict"}},
		{"circuit": object{"preset": "windowed"}},
		{"circuit": object{"failures": 3, "attempts": 20, "percent": 50}},
		{"adaptive_timeout": true, "max_redirects": 3},
		{"rate": object{"attempts": 5, "per_ms": 1000}},
		{"retry": object{"base_ms": 1000, "factor": 2, "cap_ms": 5000, "max_attempts": 3, "jitter": "10%"}},
		{"headers": []object{{"name": "X-A", "value": "a"}, {"name": "X-B", "value": "b", "sensitive": true}}},
		{"signature": object{"schemes": []any{"standard", "stripe", "github", "github-sha1", "slack", "svix", "timestamped", "plain"}}},
		{"signature": object{"schemes": []any{"shopify"}}},
		{"auth": object{"type": "basic", "username": "u", "password": "p"}},
		{"auth": object{"type": "bearer", "token": "t"}},
		{"auth": object{"type": "api_key", "header": "X-Key", "key": "k"}},
		{"auth": object{"type": "oauth2", "token_url": c.receiver.url + "/token", "client_id": "c", "client_secret": "s", "scopes": []string{"a"}, "audience": "b"}},
		{"tls": object{"authorities": authority(c.T)}},
		{"auth": nil, "tls": nil, "retry": nil, "rate": nil, "signature": nil},
		{"uid": nil, "description": nil, "url": c.receiver.url + "/other", "event_types": []string{"options", "more.*"}},
	} {
		c.want(200, "PATCH /endpoints/"+id, change)
	}
	c.driveComparisons(id)
	for _, scheme := range []string{"github", "github-sha1", "shopify", "plain"} {
		c.want(200, "PATCH /endpoints/"+id, object{"signature": object{"schemes": []any{object{"scheme": scheme, "header": "X-Signature", "prefix": "p="}}}})
	}
	other := c.endpoint("options", "/status/200", object{"uid": "other"})
	c.want(409, "PATCH /endpoints/"+id, object{"uid": "other"})
	c.want(200, "GET /endpoints?account=acme&uid=other", nil)
	c.paged("GET /endpoints?limit=1")
	c.want(204, "DELETE /endpoints/"+other, nil)
	c.want(200, "GET /endpoints/"+other, nil)
}

func (c *caller) driveSecrets() {
	c.Helper()
	id := c.endpoint("secrets", "/status/200")
	c.endpoint("secrets", "/status/200", object{"key_type": "ed25519"})
	c.endpoint("secrets", "/status/200", object{"secret": "twenty-four-characters-ok"})
	c.want(200, "POST /endpoints/"+id+"/secrets/rotate", object{"secret": "another-24-characters-long", "overlap_ms": 3600000})
	pairs := "/endpoints/" + c.endpoint("secrets", "/status/200", object{"key_type": "ed25519"})
	private := c.want(200, "POST "+pairs+"/secrets/rotate", object{"key_type": "ed25519"})
	c.want(200, "GET "+pairs+"/secret-states", nil)
	if private.id("public_key") == "" {
		c.Errorf("an ed25519 secret has no public key: %s", private.text)
	}
	secrets := c.want(200, "GET /endpoints/"+id+"/secrets", nil).items()
	c.want(200, "GET /endpoints/"+id+"/secret-states", nil)
	c.want(200, "POST /endpoints/"+id+"/secrets/"+secrets[0]["id"].(string)+"/reveal", nil)
	c.want(409, "POST /endpoints/"+id+"/secrets/rotate", object{"secret": "another-24-characters-long"})
	c.want(204, "DELETE /endpoints/"+id+"/secrets/"+secrets[1]["id"].(string), nil)
	c.refused("last_secret", "{endpoint}", id, "{secret}", secrets[0]["id"].(string))
	for range 9 { // ten are the most
		c.want(200, "POST /endpoints/"+id+"/secrets/rotate", nil)
	}
	c.refused("too_many_secrets", "{endpoint}", id)
	c.want(200, "POST /secrets/reencrypt", nil)
}

// once makes one attempt and no second.
var once = object{"retry": object{"delays_ms": []int{0}, "jitter": "none"}}

// later makes a second attempt in an hour.
var later = object{"retry": object{"delays_ms": []int{0, 3600000}, "jitter": "none"}}

// driveDeliveries brings deliveries to every end, and attempts to every
// outcome.
func (c *caller) driveDeliveries() {
	c.Helper()
	c.endpoint("ok", "/status/200", once)
	_, ok := c.publish("ok")
	c.settled(ok, "delivered")
	c.attempted(ok, "accepted")
	c.endpoint("binary", "/binary", once)
	_, binary := c.publish("binary")
	c.settled(binary, "delivered")
	c.want(200, "GET /deliveries/"+binary+"/attempts", nil)
	c.want(200, "GET /deliveries/"+binary+"/attempts/1/request", nil)
	c.want(404, "GET /deliveries/"+binary+"/attempts/2/request", nil)
	for path, outcome := range map[string]string{
		"/status/500": "rejected", "/status/429": "throttled", "http://127.0.0.1:1/": "unreachable", "/cut": "broken",
	} {
		kind := "is." + outcome
		id := c.endpoint(kind, path, later)
		_, delivery := c.publish(kind)
		c.attempted(delivery, outcome)
		c.settled(delivery, "pending")
		c.want(200, "GET /endpoints/"+id+"/circuit", nil) // with this failure, which is stored
		if outcome == "throttled" {
			c.until("the endpoint is paced", "GET /endpoints/"+id+"/circuit", func(a answer) bool { return a.body["paced_until"] != nil })
			_, next := c.publish(kind)
			c.settled(next, "pending") // it waits until the receiver has had the time that it asked for
		}
	}
	c.endpoint("hangs", "/wait", later, object{"timeout_ms": 1000})
	_, hangs := c.publish("hangs")
	c.endpoint("moved", "/redirect?to="+c.receiver.url+"/status/200", once, object{"max_redirects": 1})
	_, moved := c.publish("moved")
	c.settled(moved, "delivered")
	c.want(200, "GET /deliveries/"+moved+"/attempts", nil)
	c.attempted(hangs, "timed_out")

	c.paged("GET /deliveries/" + c.twice() + "/attempts?limit=1")
	c.paged("GET /deliveries?limit=1")
	for _, status := range []string{"pending", "delivered"} {
		c.want(200, "GET /deliveries?status="+status, nil)
	}
	c.want(200, "POST /deliveries/"+hangs+"/cancel", nil)
	c.settled(hangs, "cancelled")
	c.refused("delivery_cancelled", "{delivery}", hangs)
	c.refused("delivery_delivered", "{delivery}", ok)
	c.refused("delivery_not_parked", "{delivery}", hangs)
	c.want(409, "GET /deliveries/"+hangs+"/attempts/2/request", nil) // a decision is no request
	_, waits := c.publish("hangs")
	c.attempted(waits, "timed_out")
	c.want(200, "POST /deliveries/"+waits+"/retry", nil)
	c.want(202, "POST /deliveries/"+ok+"/replay", nil)
}

// twice returns a delivery with two attempts.
func (c *caller) twice() string {
	c.Helper()
	c.endpoint("twice", "/status/500", object{"retry": object{"delays_ms": []int{0, 0}, "jitter": "none"}})
	event, delivery := c.publish("twice")
	c.settled(delivery, "dead")
	c.want(200, "GET /events/"+event+"/attempts", nil)
	return delivery
}

// driveDeadLetters brings deliveries to the dead letters and resolves some.
func (c *caller) driveDeadLetters() {
	c.Helper()
	failing := c.endpoint("dies", "/status/500", once)
	dead := make([]string, 4)
	var event string
	for i := range dead {
		event, dead[i] = c.publish("dies")
		c.settled(dead[i], "dead")
	}
	c.want(200, "POST /dead-letters/"+dead[0]+"/discard", object{"reason": "known"})
	c.refused("delivery_dead", "{delivery}", dead[0])
	c.refused("dead_letter_discarded", "{delivery}", dead[0], "{endpoint}", failing)
	c.want(200, "POST /endpoints/"+failing+"/pause", nil) // so that replays are pending
	c.want(202, "POST /dead-letters/"+dead[1]+"/replay", nil)
	c.want(202, "POST /endpoints/"+failing+"/deliveries/"+dead[2]+"/replay", nil)
	c.refused("replay_pending", "{delivery}", dead[1], "{endpoint}", failing)
	c.refused("dead_letter_replayed", "{delivery}", dead[1])
	job := c.want(202, "POST /events/"+event+"/replay", object{"endpoint": failing, "status": "dead", "per_second": 10}).id("id")
	made := c.until("the event is replayed", "GET /deliveries?replay_job="+job, func(a answer) bool { return len(a.items()) == 1 })
	c.refused("delivery_pending", "{delivery}", made.items()[0]["id"].(string), "{endpoint}", failing)
	c.want(200, "GET /events/"+event+"/deliveries", nil)
	c.paged("GET /events/" + event + "/deliveries?limit=1")
	c.want(200, "GET /dead-letters/"+dead[0], nil)
	c.want(200, "GET /dead-letters?resolved=true", nil)
	c.paged("GET /dead-letters?resolved=true&limit=1")
	c.want(200, "GET /dead-letters/groups", nil)
	c.want(200, "GET /dead-letters/groups?account=acme&endpoint="+failing, nil)

	c.driveReplays(failing)

	refusing := c.endpoint("refused", "/status/404", object{"client_errors": "dead_letter"})
	event, refused := c.publish("refused")
	c.settled(refused, "dead")
	again := c.want(202, "POST /dead-letters/"+refused+"/replay", nil).id("id")
	c.settled(again, "dead")
	c.want(200, "GET /dead-letters?reason=client_error", nil)
	c.want(204, "DELETE /endpoints/"+refusing, nil)
	c.refused("endpoint_deleted", "{delivery}", again, "{endpoint}", refusing)
	c.want(202, "POST /events/"+event+"/replay", nil) // skips it
	c.driveAsked()
	gone := c.endpoint("gone", "/status/410")
	_, left := c.publish("gone")
	c.settled(left, "dead")
	c.attempted(left, "gone")
	c.until("it is disabled", "GET /endpoints/"+gone, func(a answer) bool { return a.id("status") == "disabled" })
	c.until("its health says so", "GET /endpoints/"+gone+"/health", func(a answer) bool { return len(a.items()) > 0 })
	c.want(200, "GET /endpoints?health=disabled", nil)
	c.want(200, "GET /dead-letters", nil)
	c.want(200, "GET /endpoints/"+gone+"/deliveries", nil)
	c.paged("GET /endpoints/" + failing + "/deliveries?limit=1")
	c.want(200, "POST /endpoints/"+gone+"/enable", nil) // healthy again at the next assessment
	c.until("something is counted", "GET /stats?step=minute", func(a answer) bool { return len(a.body["points"].([]any)) > 0 })
	c.want(200, "GET /accounts/acme/stats?step=hour&type=gone", nil)
	c.want(200, "GET /endpoints/"+gone+"/stats?step=day&tz=Europe/Berlin", nil)
}

// driveAsked has a receiver ask to be disabled.
func (c *caller) driveAsked() {
	c.Helper()
	asks := c.endpoint("asks", "/asks/disable")
	_, asked := c.publish("asks")
	c.settled(asked, "dead")
	c.want(200, "GET /dead-letters?reason=aborted_by_receiver", nil)
	c.want(200, "GET /dead-letters/groups", nil)
	c.until("its health says so", "GET /endpoints/"+asks+"/health", func(a answer) bool { return len(a.items()) > 0 })
	c.want(200, "GET /endpoints?health=disabled", nil)
}

// driveReplays brings replay jobs into every status that a person can bring about. The dead
// letters of the endpoint are resolved, but for one.
func (c *caller) driveReplays(failing string) {
	c.Helper()
	selected := object{
		"endpoint": failing, "statuses": []string{"dead", "skipped", "cancelled"}, "event_types": []string{"*"}, "reason": "exhausted",
		"from": "2026-01-01T00:00:00Z", "to": "2100-01-01T00:00:00Z", "per_second": 1, "note": "mended",
	}
	c.want(200, "POST /replays/dry-run", selected)
	c.want(200, "POST /replays/dry-run", nil)
	c.want(422, "POST /replays", object{"statuses": []string{"pending"}, "per_second": 5001, "endpoint": "ep_x", "action": "discard"})
	done := c.want(201, "POST /replays", selected).id("id")
	c.until("it is done", "GET /replays/"+done, func(a answer) bool { return a.id("status") == "done" })
	c.want(200, "GET /endpoints/"+failing+"/deliveries?replay_job="+done, nil)
	c.refused("replay_done", "{replay}", done)
	all := object{"statuses": []string{"delivered", "dead"}, "per_second": 1}
	paused := c.want(201, "POST /replays", all).id("id")
	c.want(200, "POST /replays/"+paused+"/pause", nil)
	c.want(200, "GET /replays/"+paused, nil)
	c.want(200, "POST /replays/"+paused+"/resume", nil)
	c.want(200, "POST /replays/"+paused+"/cancel", nil)
	c.refused("replay_cancelled", "{replay}", paused)
	c.want(422, "POST /replays", object{"per_second": 0})
	discard := c.want(201, "POST /replays", object{"action": "discard", "endpoint": failing, "reason": "gone"}).id("id")
	c.until("it is done", "GET /replays/"+discard, func(a answer) bool { return a.id("status") == "done" })
	c.want(200, "GET /replays?status=done", nil)
	c.paged("GET /replays?limit=1")
}

// driveManyReplays starts replays for an account of its own until no more may run. Each has
// more to do than it can before the last one is refused.
func (c *caller) driveManyReplays() {
	c.Helper()
	c.want(201, "POST /accounts", object{"uid": "busy"})
	of := object{"account": "busy"}
	disabled := c.endpoint("busy", "/status/200", of)
	c.want(200, "POST /endpoints/"+disabled+"/disable", nil)
	var event string
	for range 60 {
		event, _ = c.publish("busy", of)
	}
	slow := object{"account": "busy", "statuses": []string{"skipped"}, "per_second": 1}
	var running []string
	for len(running) <= 100 {
		got := c.send(request{route: "POST /replays", body: slow})
		if got.status != 201 {
			break
		}
		running = append(running, got.id("id"))
	}
	c.want(409, "POST /replays", slow)
	c.want(409, "POST /events/"+event+"/replay", nil)
	late := c.endpoint("busy", "/status/200", of)
	since := object{"start_from": "2026-01-01T00:00:00Z", "per_second": 1, "note": "late"}
	c.want(409, "POST /endpoints/"+late+"/backfill", since)
	for _, id := range running {
		c.want(200, "POST /replays/"+id+"/cancel", nil)
	}
	c.want(200, "POST /endpoints/"+late+"/backfill/dry-run", since)
	ordered := c.endpoint("busy", "/status/200", object{"account": "busy", "order": "by_key"})
	c.refused("endpoint_not_paused", "{endpoint}", ordered)
	c.want(200, "POST /endpoints/"+ordered+"/pause", nil)
	backfill := c.want(202, "POST /endpoints/"+ordered+"/backfill", since).id("id")
	c.want(409, "POST /endpoints/"+ordered+"/resume", nil)
	c.want(409, "POST /endpoints/"+ordered+"/backfill", since)
	c.want(200, "POST /endpoints/"+ordered+"/disable", nil)
	c.want(409, "POST /endpoints/"+ordered+"/enable", nil)
	c.want(200, "POST /replays/"+backfill+"/cancel", nil)
}

func (c *caller) driveOrder() {
	c.Helper()
	id := c.endpoint("ordered", "/status/500", once, object{"order": "by_key", "on_dead": "pause"})
	for _, key := range []string{"a", "a", "b"} {
		c.publish("ordered", object{"ordering_key": key})
	}
	list := "GET /endpoints/" + id + "/ordering-keys"
	c.until("a key is paused", list, func(a answer) bool {
		return len(a.items()) == 2 && a.items()[0]["paused_by"] != nil && a.items()[1]["paused_by"] != nil
	})
	c.paged(list + "?limit=1")
	held := c.endpoint("held", "/status/200", object{"order": "by_key"})
	c.want(200, "POST /endpoints/"+held+"/pause", nil)
	c.publish("held", object{"ordering_key": "k"})
	c.want(200, "GET /endpoints/"+held+"/ordering-keys", nil)
}

// driveStatuses brings an endpoint into every status.
func (c *caller) driveStatuses() {
	c.Helper()
	id := c.endpoint("statuses", "/status/200")
	path := "POST /endpoints/" + id
	c.want(202, path+"/test", nil)
	c.want(202, path+"/test", object{"type": "postrider.test"})
	c.want(409, path+"/verify", object{"method": "challenge"})
	c.want(200, path+"/pause", object{"reason": "maintenance"})
	_, held := c.publish("statuses")
	c.want(200, "GET /deliveries/"+held, nil)
	c.refused("endpoint_paused", "{endpoint}", id)
	c.want(200, path+"/resume", nil)
	c.want(200, path+"/disable", nil)
	c.refused("endpoint_disabled", "{endpoint}", id)
	_, skipped := c.publish("statuses")
	c.settled(skipped, "skipped")
	c.refused("delivery_skipped", "{delivery}", skipped)
	c.want(200, path+"/enable", nil)
	for range 6 { // five at once are the most
		c.send(request{route: path + "/test"})
		c.send(request{route: path + "/verify", body: object{"method": "challenge"}})
	}
	agreeing := c.endpoint("agrees", "/agree")
	c.want(200, "POST /endpoints/"+agreeing+"/verify", object{"method": "challenge"})
	c.driveLateAgreement()

	deleted := c.endpoint("deleted", "/status/200")
	c.want(200, "POST /endpoints/"+deleted+"/pause", nil)
	_, waiting := c.publish("deleted")
	c.want(200, "POST /endpoints/"+deleted+"/disable", nil)
	c.settled(waiting, "pending") // it waits for the endpoint to be enabled
	c.want(204, "DELETE /endpoints/"+deleted, nil)
	c.settled(waiting, "cancelled")
	c.until("it is counted, without an attempt", "GET /endpoints/"+deleted+"/stats?step=minute", func(a answer) bool { return len(a.body["points"].([]any)) > 0 })
	c.driveInspector()
	for _, status := range []string{"enabled", "paused", "disabled"} {
		c.want(200, "GET /endpoints?status="+status, nil)
	}
	c.want(200, "GET /endpoints?health=warned&circuit=open&failing=true", nil)
	c.want(200, "GET /endpoints?health=healthy&failing=false", nil)
}

// driveInspector has an inspector endpoint get requests.
func (c *caller) driveInspector() {
	c.Helper()
	var list string
	for event, schemes := range map[string][]any{ // shopify uses the header of another one
		"inspected.all": {"standard", "stripe", "github", "github-sha1", "slack", "svix", "timestamped", "plain"}, "inspected.shopify": {"shopify"},
	} {
		id := c.want(201, "POST /endpoints", object{
			"account": "acme", "kind": "inspector", "event_types": []string{event}, "signature": object{"schemes": schemes},
		}).id("id")
		for _, data := range []any{1, strings.Repeat("x", 20<<10)} { // one that a response repeats, and one that it does not
			_, delivery := c.publish(event, object{"data": data})
			c.settled(delivery, "delivered")
			c.want(200, "GET /deliveries/"+delivery+"/attempts/1/request", nil)
		}
		list = "GET /endpoints/" + id + "/requests"
		c.paged(list + "?limit=1")
		c.want(200, list+"/"+c.want(200, list, nil).items()[0]["id"].(string), nil)
	}
	id := c.want(201, "POST /endpoints", object{"account": "acme", "kind": "inspector", "event_types": []string{"none"}}).id("id")
	c.want(404, list+"/ins_00000000000000000000000000", nil)
	c.refused("endpoint_is_inspector", "{endpoint}", id)
	c.refused("endpoint_no_inspector", "{endpoint}", c.endpoint("not.inspected", "/status/200"))
}

// driveRestart kills the server while an attempt is under way, and starts it
// with another setting.
func (c *caller) driveRestart() {
	c.Helper()
	c.endpoint("killed", "/wait/killed", later, object{"timeout_ms": 30000})
	_, killed := c.publish("killed")
	c.reached("/wait/killed")
	c.want(200, "GET /deliveries/"+killed, nil) // whose attempt is under way
	c.endpoint("blocked", "/status/200", later)
	c.restart(syscall.SIGKILL, "--verify-endpoints=challenge")
	c.attempted(killed, "lost")
	_, blocked := c.publish("blocked")
	c.attempted(blocked, "blocked")                                 // only --dev allows the receiver's address
	c.want(422, "POST /portal-sessions", object{"account": "acme"}) // only --dev needs no --public-url
	c.want(422, "POST /notice-destinations", object{"channel": "email", "address": "ops@acme.example"})
	id := c.endpoint("unverified", "https://example.com/")
	c.want(409, "POST /endpoints/"+id+"/resume", nil)
	c.want(200, "POST /endpoints/"+id+"/disable", nil)
	c.want(409, "POST /endpoints/"+id+"/enable", nil)
}

// slow is what takes a minute.
type slow struct {
	expiring string // a delivery with an attempt, and one without
	untried  string
	dying    string // an endpoint most of whose deliveries are dead
}

func (c *caller) startSlow() slow {
	c.Helper()
	// The retry is due just after the expiry: if the chore that expires deliveries runs between both,
	// no attempt is recorded. The chore runs once a minute, and at a start.
	c.endpoint("expires", "/status/500", object{"expiry_ms": 60000, "retry": object{"delays_ms": []int{0, 60010}, "jitter": "none"}})
	_, delivery := c.publish("expires")
	held := c.endpoint("expires.untried", "/status/200", object{"expiry_ms": 60000})
	c.want(200, "POST /endpoints/"+held+"/pause", nil)
	_, untried := c.publish("expires.untried")
	dying := c.endpoint("many.dead", "/status/500", once)
	for range 25 {
		c.publish("many.dead")
	}
	return slow{expiring: delivery, untried: untried, dying: dying}
}

func (c *caller) finishSlow(s slow) {
	c.Helper()
	c.until("the endpoint is warned", "GET /endpoints/"+s.dying+"/health", func(a answer) bool { return len(a.items()) > 0 })
	c.want(200, "GET /endpoints?health=warned", nil)
	c.settled(s.expiring, "dead")
	c.settled(s.untried, "dead")
	c.attempted(s.expiring, "none")
	c.want(200, "GET /dead-letters?limit=250", nil)
	c.want(200, "GET /dead-letters/groups?limit=250", nil)
	c.paged("GET /dead-letters/groups?limit=1")
	gone := c.want(200, "GET /dead-letters?reason=gone", nil).items()[0]["endpoint"].(string)
	history := "GET /endpoints/" + gone + "/health"
	c.until("the endpoint is healthy", history, func(a answer) bool { return len(a.items()) > 1 && a.items()[0]["status"] == "healthy" })
	c.paged(history + "?limit=1")
}
