package api_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/api"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/store"
)

// quotaNames are the limits of a response.
var quotaNames = []string{"events_per_second", "burst", "bytes_per_day", "endpoints", "backlog"}

// limitsOf returns a part of the quotas of an account, in the order of quotaNames.
func limitsOf(r response, part string) (limits []any) {
	of, _ := r.body[part].(map[string]any)
	for _, name := range quotaNames {
		limits = append(limits, of[name])
	}
	return limits
}

func equal(t *testing.T, what string, got, want []any) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s = %v, want %v", what, got, want)
	}
}

func TestLimitsOfAnAccountGoBeforeThoseOfTheServer(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, api.Options{Quotas: postrider.Quotas{EventsPerSecond: 100, Burst: 500, Endpoints: 10}})
	w.tenant("acme")
	for _, step := range []struct {
		patch       string
		limits, own []any
	}{
		{"", []any{100., 500., nil, 10., nil}, []any{nil, nil, nil, nil, nil}},
		{`{"events_per_second": 7, "bytes_per_day": 5000}`, []any{7., 7., 5000., 10., nil}, []any{7., nil, 5000., nil, nil}},
		{`{"burst": 9, "endpoints": 0, "backlog": 40}`, []any{7., 9., 5000., nil, 40.}, []any{7., 9., 5000., 0., 40.}},
		{`{"events_per_second": null, "burst": null, "bytes_per_day": null}`, []any{100., 500., nil, nil, 40.}, []any{nil, nil, nil, 0., 40.}},
	} {
		if step.patch != "" {
			w.want(200, "PATCH /accounts/acme/quotas", step.patch)
		}
		got := w.want(200, "GET /accounts/acme/quotas", "")
		equal(t, "limits after "+step.patch, limitsOf(got, "limits"), step.limits)
		equal(t, "own after "+step.patch, limitsOf(got, "own"), step.own)
	}
	for _, wrong := range []string{`{"events_per_second": -1}`, `{"burst": 10000001}`, `{"endpoints": 1.5}`, `{"rate": 1}`} {
		w.want(422, "PATCH /accounts/acme/quotas", wrong)
	}
	w.want(404, "GET /accounts/nobody/quotas", "")
	w.want(404, "PATCH /accounts/nobody/quotas", `{}`)
}

func TestAKeyOfAnAccountReadsItsLimitsAndChangesNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, evil := w.tenant("acme"), w.tenant("evil")
	bound := w.bound(acme)
	for route, status := range map[string]int{
		"GET /accounts/acme/quotas":                 200,
		"GET /accounts/" + acme.account + "/quotas": 200,
		"GET /accounts/evil/quotas":                 404,
		"GET /accounts/" + evil.account + "/quotas": 404,
		"PATCH /accounts/acme/quotas":               403,
		"PATCH /accounts/evil/quotas":               403,
	} {
		body := ""
		if status == 403 {
			body = `{"events_per_second": 0}`
		}
		if got := w.do(bound, route, body); got.status != status {
			t.Errorf("%s with a key of acme = %d %s, want %d", route, got.status, got.text, status)
		}
	}
}

func TestTheUseOfLimitsIsShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.tenant("acme")
	w.want(200, "PATCH /accounts/acme/quotas", `{"events_per_second": 1, "burst": 100, "bytes_per_day": 1000}`)
	id, err := postrider.ParseID[postrider.AccountID](acme.account)
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.store.SpendQuotas(t.Context(), []store.QuotaSpend{{Account: id, Rate: 1, Burst: 100, Events: 60, Bytes: 300}})
	if err != nil {
		t.Fatal(err)
	}
	used, _ := w.want(200, "GET /accounts/acme/quotas", "").body["used"].(map[string]any)
	if n, ok := used["events_now"].(float64); !ok || n < 40 || n > 60 {
		t.Errorf("events_now = %v, want 40 and what has flowed in", used["events_now"])
	}
	has(t, "the use", used, map[string]any{"bytes_today": 300., "endpoints": 1.})
	w.want(200, "PATCH /accounts/acme/quotas", `{"events_per_second": 0, "bytes_per_day": 0}`)
	used, _ = w.want(200, "GET /accounts/acme/quotas", "").body["used"].(map[string]any)
	has(t, "the use without limits", used, map[string]any{"events_now": nil, "bytes_today": nil})
}

func TestAUsedUpQuotaSaysWhichAndUntilWhen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	ends := time.Date(2026, 11, 24, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		quota postrider.QuotaName
		code  string
	}{{postrider.QuotaEvents, "event_quota_used"}, {postrider.QuotaBytes, "byte_quota_used"}} {
		w.publisher.fail(&postrider.QuotaError{Quota: c.quota, Limit: 7, EndsAt: ends, RetryAfter: 1500 * time.Millisecond})
		for _, r := range []response{
			w.want(429, "POST /events", `{"account": "acme", "type": "a", "data": 1}`),
			w.want(429, "POST /events/batch", `{"events": [{"account": "acme", "type": "a", "data": 1}]}`),
		} {
			has(t, "the problem", r.body, map[string]any{"code": c.code, "status": 429., "title": "Too Many Requests"})
			quota, _ := r.body["quota"].(map[string]any)
			has(t, "its quota", quota, map[string]any{"name": string(c.quota), "limit": 7., "ends_at": "2026-11-24T00:00:00.000000Z"})
			if after := r.header.Get("Retry-After"); after != "2" {
				t.Errorf("Retry-After = %q, want 2", after)
			}
		}
	}
}

func TestAnAccountGetsNoMoreEndpointsThanItMayHave(t *testing.T) {
	t.Parallel()
	var used []string
	w := newWorldOf(t, api.Options{Quotas: postrider.Quotas{Endpoints: 2}, Hooks: observe.Hooks{QuotaUsed: func(e *postrider.QuotaError) {
		used = append(used, fmt.Sprint(e.Account, " ", e.Quota, " ", e.Limit))
	}}})
	acme := w.tenant("acme") // has one
	create := `{"account": "acme", "url": "https://acme.example/2", "event_types": ["*"]}`
	w.want(201, "POST /endpoints", create)
	r := w.want(409, "POST /endpoints", create)
	has(t, "the problem", r.body, map[string]any{"code": "endpoint_quota_used"})
	quota, _ := r.body["quota"].(map[string]any)
	has(t, "its quota", quota, map[string]any{"name": "endpoints", "limit": 2., "ends_at": nil})
	if want := []string{acme.account + " endpoints 2"}; !slices.Equal(used, want) {
		t.Errorf("reported %q, want %q", used, want)
	}
	w.want(200, "PATCH /endpoints/"+acme.endpoint, `{"description": "changed"}`)
	w.want(204, "DELETE /endpoints/"+acme.endpoint, "")
	w.want(201, "POST /endpoints", create)
	w.want(200, "PATCH /accounts/acme/quotas", `{"endpoints": 3}`)
	w.want(201, "POST /endpoints", create)
}

func TestAFullEndpointSaysSinceWhen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.tenant("acme")
	id, err := postrider.ParseID[postrider.EndpointID](acme.endpoint)
	if err != nil {
		t.Fatal(err)
	}
	shown := func(since bool, warnings ...any) {
		t.Helper()
		list := w.want(200, "GET /endpoints?account=acme", "").data()[0]
		for what, e := range map[string]map[string]any{
			"the endpoint": w.do(w.bound(acme), "GET /endpoints/"+acme.endpoint, "").body, "the list": list,
			"a change": w.want(200, "PATCH /endpoints/"+acme.endpoint, `{"description": "x"}`).body,
		} {
			if (e["backlog_full_since"] != nil) != since || !slices.Equal(e["warnings"].([]any), warnings) {
				t.Errorf("%s is full since %v, with the warnings %v, want %v", what, e["backlog_full_since"], e["warnings"], warnings)
			}
		}
	}
	shown(false)
	for _, m := range []store.MarkFull{{Full: []postrider.EndpointID{id}}, {Free: []postrider.EndpointID{id}}} {
		if _, err := w.store.MarkFull(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		if len(m.Full) > 0 {
			shown(true, postrider.ReasonBacklogFull)
		}
	}
	shown(false)
	w.want(422, "POST /replays", `{"account": "acme", "reason": "full"}`)
	w.want(201, "POST /replays", `{"account": "acme", "statuses": ["skipped"], "reason": "backlog_full"}`)
}
