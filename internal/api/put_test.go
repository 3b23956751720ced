package api_test

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider"
)

// putCases has, for each kind of object, a name that nothing has, a body, the path of its list, and the
// fields of the response after a PUT with every field and after one without.
var putCases = map[string]struct {
	path, list, full, least, change string
	has, lacks                      map[string]any
}{
	"account": {
		"/accounts/new", "/accounts?uid=new", `{"name": "New", "metadata": {"plan": "gold"}, "keep_events_days": 7}`, `{}`, `{"name": "x"}`,
		map[string]any{"uid": "new", "name": "New", "metadata": map[string]any{"plan": "gold"}, "keep_events_days": 7.0},
		map[string]any{"uid": "new", "name": "", "metadata": nil, "keep_events_days": nil},
	},
	"endpoint": {
		"/endpoints/acme:new", "/endpoints?account=acme&uid=new",
		`{"url": "https://new.example/", "event_types": ["a"], "description": "d", "metadata": {"plan": "gold"}, "timeout_ms": 2000,
			"headers": [{"name": "X-A", "value": "a"}, {"name": "X-S", "value": "s3cret", "sensitive": true}]}`,
		`{"url": "https://new.example/", "event_types": ["*"]}`, `{"description": "x"}`,
		map[string]any{"uid": "new", "description": "d", "metadata": map[string]any{"plan": "gold"}, "timeout_ms": 2000.0},
		map[string]any{"uid": "new", "description": "", "metadata": nil, "timeout_ms": 10000.0, "headers": []any{}},
	},
	"event type": {
		"/event-types/order.new", "/event-types", `{"description": "d", "example": {"n": 1}}`, `{}`, `{"description": "x"}`,
		map[string]any{"name": "order.new", "description": "d", "example": map[string]any{"n": 1.0}},
		map[string]any{"name": "order.new", "description": "", "example": nil},
	},
}

func TestPutCreatesOrReplaces(t *testing.T) {
	t.Parallel()
	for kind, c := range putCases {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.tenant("acme")
			made := w.want(201, "PUT "+c.path, c.full)
			has(t, "what was created", made.body, c.has)
			has(t, "its revision", made.body, map[string]any{"revision": 1.0})
			again := w.want(200, "PUT "+c.path, c.full)
			delete(made.body, "secrets") // only shown once
			if diff := cmp.Diff(made.body, again.body); diff != "" {
				t.Errorf("repeated, it changes something (-made +again):\n%s", diff)
			}
			least := w.want(200, "PUT "+c.path, c.least)
			has(t, "without the fields", least.body, c.lacks)
			has(t, "the revision of the second change", least.body, map[string]any{"revision": 2.0})
			if got := w.want(200, "GET "+c.path, "").body; !cmp.Equal(got, least.body) {
				t.Errorf("read again:\n%s", cmp.Diff(least.body, got))
			}
			if n := len(w.want(200, "GET "+c.list, "").data()); n != 1 {
				t.Errorf("there are %d of them, want 1", n)
			}
			action := "put-" + strings.ReplaceAll(kind, " ", "-")
			entries := w.want(200, "GET /audit?action="+action, "").data()
			details, _ := entries[0]["details"].(map[string]any)
			if got := details["description"]; kind != "account" && got != `"d" → ""` {
				t.Errorf("the audit entry has %v", details)
			}
			for _, entry := range entries {
				if id := cmpOr(made.body["id"], made.body["name"]); entry["object_id"] != id {
					t.Errorf("an audit entry names %v, want %v", entry["object_id"], id)
				}
			}
		})
	}
}

// cmpOr returns the first value that is there.
func cmpOr(values ...any) any {
	return values[slices.IndexFunc(values, func(v any) bool { return v != nil })]
}

func TestPutAndPatchHeedIfMatch(t *testing.T) {
	t.Parallel()
	for kind, c := range putCases {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.tenant("acme")
			try := func(status int, method, match, body string) response {
				t.Helper()
				r := w.request(w.admin, method+" "+c.path, body)
				r.Header.Set("If-Match", match)
				got := w.send(r)
				if got.status != status {
					t.Errorf("%s with %s = %d %s, want %d", method, match, got.status, got.text, status)
				}
				return got
			}
			try(412, "PUT", "*", c.least)
			try(412, "PUT", `"1"`, c.least)
			if got := w.want(201, "PUT "+c.path, c.least); got.header.Get("ETag") != `"1"` {
				t.Errorf("the ETag is %s", got.header.Get("ETag"))
			}
			for _, match := range []string{`"0"`, `"2"`, `1`, `W/"1"`, `"x"`} {
				if got := try(412, "PUT", match, c.full); got.body["code"] != "precondition_failed" {
					t.Errorf("the problem is %s", got.text)
				}
			}
			try(412, "PATCH", `"2"`, c.change)
			try(200, "PUT", `"7", "1"`, c.full)
			if got := w.want(200, "GET "+c.path, "").header.Get("ETag"); got != `"2"` {
				t.Errorf("the ETag is %s", got)
			}
			try(412, "PUT", `"1"`, c.least)
			try(200, "PATCH", `"2"`, c.change)
			try(200, "PUT", `*`, c.least)
		})
	}
}

func TestOfTwoPutsAtOnceOneCreates(t *testing.T) {
	t.Parallel()
	for kind, c := range putCases {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.tenant("acme")
			statuses := make([]int, 2)
			var callers sync.WaitGroup
			for i, body := range []string{c.full, c.least} {
				callers.Go(func() { statuses[i] = w.do(w.admin, "PUT "+c.path, body).status })
			}
			callers.Wait()
			slices.Sort(statuses)
			if !slices.Equal(statuses, []int{http.StatusOK, http.StatusCreated}) {
				t.Errorf("two at once = %v, want 200 and 201", statuses)
			}
			if n := len(w.want(200, "GET "+c.list, "").data()); n != 1 {
				t.Errorf("there are %d of them, want 1", n)
			}
		})
	}
}

// TestPutKeepsWhatIsNotInIt replaces an endpoint that has a secret, a status, a circuit, a delivery and
// credentials.
func TestPutKeepsWhatIsNotInIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.tenant("acme")
	path := "/endpoints/" + acme.endpoint
	w.want(200, "PATCH "+path, `{"uid": "main", "signature": {"schemes": ["standard", "plain"]},
		"headers": [{"name": "X-S", "value": "s3cret", "sensitive": true}]}`)
	w.want(200, "POST "+path+"/circuit", `{"status": "open"}`)
	w.want(200, "POST "+path+"/pause", `{"reason": "maintenance"}`)
	secrets, circuit := w.want(200, "GET "+path+"/secrets", "").text, w.want(200, "GET "+path+"/circuit", "").body["status"]
	url := w.want(200, "GET "+path, "").body["url"].(string)
	put := func(body string) response {
		t.Helper()
		return w.want(200, "PUT /endpoints/acme:main", `{"event_types": ["*"], "secret": "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz", "url": "`+body)
	}
	got := put(url + `", "headers": [{"name": "X-S", "sensitive": true}]}`)
	has(t, "the endpoint", got.body, map[string]any{
		"id": acme.endpoint, "uid": "main", "status": "paused", "status_reason": "maintenance",
		"headers":   []any{map[string]any{"name": "X-S", "value": nil, "sensitive": true}},
		"signature": map[string]any{"schemes": []any{"standard"}},
	})
	if now := w.want(200, "GET "+path+"/secrets", "").text; now != secrets {
		t.Errorf("the secrets are\n%s, and were\n%s", now, secrets)
	}
	if now := w.want(200, "GET "+path+"/circuit", "").body["status"]; now != circuit {
		t.Errorf("the circuit is %v, and was %v", now, circuit)
	}
	w.want(200, "GET /deliveries/"+acme.delivery, "")
	put(url + `"}`)
	w.want(422, "PUT /endpoints/acme:main", `{"event_types": ["*"], "url": "`+url+`", "headers": [{"name": "X-S", "sensitive": true}]}`)
	has(t, "an id keeps the uid", w.want(200, "PUT "+path, `{"event_types": ["*"], "url": "`+url+`"}`).body, map[string]any{"uid": "main"})
}

func TestPutRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.tenant("acme")
	w.want(201, "POST /endpoints", `{"account": "acme", "uid": "tester", "kind": "inspector", "event_types": ["*"]}`)
	gone := w.want(201, "POST /accounts", `{"uid": "gone"}`).id("id")
	w.want(204, "DELETE /accounts/"+gone, "")
	w.want(204, "DELETE /endpoints/"+acme.endpoint, "")
	body := `{"url": "https://new.example/", "event_types": ["*"]}`
	for _, tt := range []struct {
		route, body string
		status      int
		fields      []string
	}{
		{"PUT /accounts/acc_01h455vb4pex5vsknk084sn02q", `{}`, 404, nil},
		{"PUT /accounts/" + gone, `{}`, 404, nil},
		{"PUT /accounts/acc_x", `{}`, 422, []string{"uid"}},
		{"PUT /accounts/acme", `{"uid": "other"}`, 422, []string{"uid"}},
		{"PUT /accounts/acme", `{"keep_events_days": 0, "metadata": {"": ""}}`, 422, []string{"metadata", "keep_events_days"}},
		{"PUT /endpoints/ep_01h455vb4pex5vsknk084sn02q", body, 404, nil},
		{"PUT /endpoints/" + acme.endpoint, body, 409, nil},
		{"PUT /endpoints/nobody:new", body, 404, nil},
		{"PUT /endpoints/new", body, 404, nil},
		{"PUT /endpoints/acme:", body, 404, nil},
		{"PUT /endpoints/" + gone + ":new", body, 422, []string{"account"}},
		{"PUT /endpoints/acme:tester", body, 422, []string{"kind"}},
		{
			"PUT /endpoints/acme:new", `{"event_types": [], "timeout_ms": 1, "metadata": {"a": "\t"}}`, 422,
			[]string{"url", "metadata.a", "event_types", "timeout_ms"},
		},
		{"PUT /endpoints/acme:new", `{}`, 422, []string{"event_types"}},
		{"PUT /event-types/no", `{"example": "` + strings.Repeat("x", 9000) + `"}`, 422, []string{"example"}},
		{"PUT /event-types/no..type", `{}`, 422, []string{"name"}},
	} {
		got := w.want(tt.status, tt.route, tt.body)
		if fields := got.fields(); tt.fields != nil && !slices.Equal(fields, tt.fields) {
			t.Errorf("%s: faults of %v, want %v", tt.route, fields, tt.fields)
		}
	}
	w.want(201, "PUT /endpoints/acme:new", body) // the uid of a deleted endpoint is free, too
	w.want(204, "DELETE /endpoints/acme:new", "")
	w.want(201, "PUT /endpoints/acme:new", body)
	for _, route := range []string{"PUT /accounts/acme", "PUT /event-types/order.new"} {
		if got := w.do(w.bound(acme), route, `{}`); got.status != 403 {
			t.Errorf("%s with a key of an account = %d %s", route, got.status, got.text)
		}
	}
}

// TestACustomerPutsEndpoints replaces an endpoint with a key of its account, and with a session of the
// portal, which may not set all options.
func TestACustomerPutsEndpoints(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.tenant("acme")
	evil := w.tenant("evil")
	body := `{"url": "https://new.example/", "event_types": ["*"]}`
	if got := w.do(w.bound(acme), "PUT /endpoints/new", body); got.status != 201 || got.body["account"] != acme.account {
		t.Errorf("a key of the account = %d %s", got.status, got.text)
	}
	if got := w.do(w.bound(evil), "PUT /endpoints/new", body); got.status != 201 || got.body["account"] != evil.account {
		t.Errorf("a key of another account = %d %s, want an endpoint of its own", got.status, got.text)
	}
	w.want(200, "PATCH /endpoints/acme:new", `{"order": "by_key", "timeout_ms": 2000}`)
	account, err := postrider.ParseID[postrider.AccountID](acme.account)
	if err != nil {
		t.Fatal(err)
	}
	do := w.as(postrider.Caller{
		Session: postrider.SessionID{1}, Account: account, Name: "Carla", Scopes: []postrider.Scope{postrider.ScopeEndpointsWrite},
		Options: []string{"timeout_ms", "headers", "retry"},
	})
	got := do("PUT /endpoints/new", body)
	has(t, "replaced in a session", got.body, map[string]any{"timeout_ms": 10000.0, "order": "by_key"}) // it may set only the first
	got = do("PUT /endpoints/new", `{"url": "https://new.example/", "event_types": ["*"], "order": "none"}`)
	if got.status != 403 {
		t.Errorf("a session that sets another option = %d %s", got.status, got.text)
	}
	if got := do("PUT /endpoints/another", body); got.status != 201 {
		t.Errorf("a session that creates = %d %s", got.status, got.text)
	}
}
