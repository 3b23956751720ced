package api_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/api"
	"github.com/postrider/postrider/internal/api/rest"
)

func TestBadInputIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	deep := strings.Repeat("[", 65) + strings.Repeat("]", 65)
	for _, tt := range []struct {
		name, route, body string
		fields            []string
	}{
		{"no body", "POST /events", "", []string{"body"}},
		{"nothing in it", "POST /events", `{}`, []string{"type", "data"}},
		{"no account", "POST /events", `{"type": "a", "data": 1}`, []string{"account"}},
		{"type", "POST /events", `{"account": "acme", "type": "a..b", "data": 1}`, []string{"type"}},
		{"type of the server", "POST /events", `{"account": "acme", "type": "postrider.test", "data": 1}`, []string{"type"}},
		{"type of the server in a batch", "POST /events/batch", `{"events": [{"account": "acme", "type": "postrider.x", "data": 1}]}`, []string{"events[0].type"}},
		{"pattern as a filter of deliveries", "GET /deliveries?event_type=order.*", "", []string{"event_type"}},
		{"pattern as a filter of dead letters", "GET /dead-letters?event_type=*", "", []string{"event_type"}},
		{"pattern as a filter of events", "GET /events?type=order.*", "", []string{"type"}},
		{"long key", "POST /events", `{"account": "acme", "type": "a", "data": 1, "idempotency_key": "` + strings.Repeat("k", 257) + `"}`, []string{"idempotency_key"}},
		{"no attempt", "POST /events", `{"account": "acme", "type": "a", "data": 1, "max_attempts": 0}`, []string{"max_attempts"}},
		{"too many attempts", "POST /events", `{"account": "acme", "type": "a", "data": 1, "max_attempts": 101}`, []string{"max_attempts"}},
		{"no attempt in a batch", "POST /events/batch", `{"events": [{"account": "acme", "type": "a", "data": 1, "max_attempts": -1}]}`, []string{"events[0].max_attempts"}},
		{"empty key", "POST /events", `{"account": "acme", "type": "a", "data": 1, "idempotency_key": ""}`, []string{"idempotency_key"}},
		{"NUL in a key", "POST /events", `{"account": "acme", "type": "a", "data": 1, "idempotency_key": "\u0000"}`, []string{"idempotency_key"}},
		{"name twice", "POST /events", `{"account": "acme", "type": "a", "data": {"x": 1, "x": 2}}`, []string{"data.x"}},
		{"lone surrogate", "POST /events", `{"account": "acme", "type": "a", "data": ["\ud800"]}`, []string{"data[0]"}},
		{"invalid UTF-8", "POST /events", "{\"account\": \"acme\", \"type\": \"a\", \"data\": \"\xff\"}", []string{"data"}},
		{"too deep", "POST /events", `{"account": "acme", "type": "a", "data": ` + deep + `}`, []string{"data"}},
		{"trailing", "POST /events", `{"account": "acme", "type": "a", "data": 1}{}`, []string{"body"}},
		{"unknown field", "POST /events", `{"account": "acme", "type": "a", "data": 1, "dedup": 1}`, []string{"dedup"}},
		{"empty batch", "POST /events/batch", `{"events": []}`, []string{"events"}},
		{"parameters", "POST /events?dry=1&a=b", `{"account": "acme", "type": "a", "data": 1}`, []string{"a", "dry"}},
		{"parameter of a batch", "POST /events/batch?x", `{"events": []}`, []string{"x"}},
		{"in a batch", "POST /events/batch", `{"events": [{"account": "acme", "type": "a", "data": 1}, {"type": "", "data": 1}]}`, []string{"events[1].account", "events[1].type"}},
		{"large batch", "POST /events/batch", `{"events": [` + strings.TrimSuffix(strings.Repeat(`{"account": "acme", "type": "a", "data": 1},`, 1001), ",") + `]}`, []string{"events"}},
		{"endpoint, everything", "POST /endpoints", `{"account": "acme", "url": "http://x", "event_types": ["a.*.b"], "timeout_ms": 1, "concurrency": 0,
			"client_errors": "x", "expiry_ms": 9223372036854775807, "payload": "x", "signature": {"schemes": ["x"]}, "secret": "whsec_x", "uid": "ep_1"}`, []string{
			"url", "uid", "event_types[0]", "timeout_ms", "client_errors", "concurrency", "expiry_ms", "payload", "signature.schemes[0]", "secret",
		}},
		{"retry", "POST /endpoints", `{"account": "acme", "url": "https://x", "event_types": ["*"], "retry": {"delays_ms": [0, -1, 9223372036854775807], "jitter": "x"}}`, []string{"retry.delays_ms[1]", "retry.delays_ms[2]", "retry.jitter"}},
		{"retry of two forms", "POST /endpoints", `{"account": "acme", "url": "https://x", "event_types": ["*"], "retry": {"preset": "default", "base_ms": 1}}`, []string{"retry"}},
		{"filter", "POST /endpoints", `{"account": "acme", "url": "https://x", "event_types": [], "changed": ["$.a", "b"], "filter": {"data": {"total": [{"numeric": [">"]}], "a": 1}, "source": ["x"]}}`, []string{"event_types", "changed[1]", "filter.data.total[0].numeric", "filter.data.a", "filter.source"}},
		{"later fields", "POST /endpoints", `{"account": "acme", "url": "https://x", "event_types": ["*"], "projection": {}, "transform": {}}`, []string{"projection", "transform"}},
		{"account", "POST /accounts", `{"uid": "acc_1", "name": 5}`, []string{"name"}},
		{"uid like an id", "POST /accounts", `{"uid": "acc_1"}`, []string{"uid"}},
		{"uid with a line break", "POST /accounts", `{"uid": "a\r\nb"}`, []string{"uid"}},
		{"uid with a next line", "POST /accounts", `{"uid": "a\u0085b"}`, []string{"uid"}},
		{"uid that turns text around", "POST /accounts", `{"uid": "a\u202eb"}`, []string{"uid"}},
		{"uid of a folder", "POST /accounts", `{"uid": "."}`, []string{"uid"}},
		{"uid of the folder above", "POST /endpoints", `{"account": "acme", "uid": "..", "url": "https://x", "event_types": ["*"]}`, []string{"uid"}},
		{"key", "POST /api-keys", `{"name": "", "scopes": ["root"], "expires_at": "2001-01-01T00:00:00Z"}`, []string{"name", "scopes[0]", "expires_at"}},
		{"bound admin", "POST /api-keys", `{"name": "x", "scopes": ["admin"], "account": "acme"}`, []string{"scopes[0]"}},
		{"event type", "POST /event-types", `{"name": "*"}`, []string{"name"}},
		{"limit", "GET /events?limit=251", "", []string{"limit"}},
		{"limit is a number", "GET /events?limit=x", "", []string{"limit"}},
		{"cursor", "GET /events?cursor=!", "", []string{"cursor"}},
		{"status", "GET /deliveries?status=gone", "", []string{"status"}},
		{"times", "GET /deliveries?from=yesterday", "", []string{"from"}},
		{"no time", "GET /deliveries?to=2026-11-21", "", []string{"to"}},
		{"span that ends first", "GET /deliveries?from=2026-11-22T05:00:00Z&to=2026-11-21T05:00:00Z", "", []string{"from"}},
		{"span of events", "GET /events?from=2026-11-22T05:00:00Z&to=2026-11-21T05:00:00Z", "", []string{"from"}},
		{"filter twice", "GET /deliveries?status=dead&status=pending", "", []string{"status"}},
		{"unknown filter", "GET /deliveries?statsu=dead", "", []string{"statsu"}},
		{"NUL in a filter", "GET /events?type=a%00b", "", []string{"type"}},
		{"bytes in a filter", "GET /endpoints?account=%ff", "", []string{"account"}},
		{"query that is none", "GET /events?a;b", "", []string{"query"}},
		{"uid without account", "GET /endpoints?uid=x", "", []string{"account"}},
		{"key without account", "GET /events?idempotency_key=x", "", []string{"account"}},
		{"order", "GET /events?order=up", "", []string{"order"}},
		{"reason", "GET /dead-letters?reason=x", "", []string{"reason"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := w.in(t).do(w.admin, tt.route, tt.body)
			if got.status != 422 || got.body["code"] != "invalid" || !slices.Equal(got.fields(), tt.fields) {
				t.Errorf("%s = %d %v %s, want 422 for %v", tt.route, got.status, got.fields(), got.text, tt.fields)
			}
		})
	}
}

// TestNothingIsNoFilter sends the empty parameters of a client whose variables are not set.
func TestNothingIsNoFilter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.tenant("acme")
	for _, tt := range []struct {
		name, route, body string
		fields            []string
	}{
		{"empty filter", "GET /endpoints?account=", "", []string{"account"}},
		{"empty filters", "GET /deliveries?endpoint=", "", []string{"endpoint"}},
		{"empty cursor", "GET /events?cursor=", "", []string{"cursor"}},
		{"empty status", "GET /deliveries?status=", "", []string{"status"}},
		{"empty time", "GET /dead-letters?from=", "", []string{"from"}},
		{"empty account of an event", "POST /events", `{"account": "", "type": "a", "data": 1}`, []string{"account"}},
		{"empty account in a batch", "POST /events/batch", `{"events": [{"account": "acme", "type": "a", "data": 1}, {"account": "", "type": "a", "data": 1}]}`, []string{"events[1].account"}},
		{"unknown account", "POST /events", `{"account": "nobody", "type": "", "data": 1}`, []string{"account", "type"}},
		{"unknown account in a batch", "POST /events/batch", `{"events": [{"account": "acme", "type": "", "data": 1}, {"account": "nobody", "type": "a", "data": 1}]}`, []string{"events[0].type", "events[1].account"}},
		{"empty account of an endpoint", "POST /endpoints", `{"account": "", "url": "https://x", "event_types": ["*"]}`, []string{"account"}},
		{"empty uid of an endpoint", "POST /endpoints", `{"account": "acme", "uid": "", "url": "https://x", "event_types": ["*"]}`, []string{"uid"}},
		{"empty account of a key", "POST /api-keys", `{"name": "x", "scopes": ["webhooks:read"], "account": ""}`, []string{"account"}},
		{"account without a name", "POST /accounts", `{}`, []string{"name"}},
		{"account with an empty uid", "POST /accounts", `{"uid": "", "name": "x"}`, []string{"uid"}},
		{"empty endpoint of a replay", "POST /events/" + acme.event + "/replay", `{"endpoint": ""}`, []string{"endpoint"}},
		{"empty status of a replay", "POST /events/" + acme.event + "/replay", `{"status": ""}`, []string{"status"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := w.in(t).do(w.admin, tt.route, tt.body)
			if got.status != 422 || got.body["code"] != "invalid" || !slices.Equal(got.fields(), tt.fields) {
				t.Errorf("%s = %d %v %s, want 422 for %v", tt.route, got.status, got.fields(), got.text, tt.fields)
			}
		})
	}
}

// TestFaultsHaveCodes checks the parts of a fault that programs and translations read.
func TestFaultsHaveCodes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	endpoint := func(fields string) string {
		return `{"account": "acme", "url": "https://x", "event_types": ["*"], ` + fields + `}`
	}
	for _, tt := range []struct{ route, body, fault string }{
		{"POST /endpoints", `{"account": "acme", "url": "https://x"}`, `"field":"event_types","code":"required"`},
		{"POST /endpoints", `{"account": "acme", "url": "https://x", "event_types": []}`, `"field":"event_types","code":"wrong_count","reason":"must have 1 to 256 patterns","min":1,"max":256`},
		{"POST /endpoints", `{"account": "acme", "url": "https://x", "event_types": ["a b"]}`, `"field":"event_types[0]","code":"malformed"`},
		{"POST /endpoints", `{"account": "nobody", "url": "https://x", "event_types": ["*"]}`, `"field":"account","code":"not_found"`},
		{"POST /endpoints", endpoint(`"timeout_ms": 1`), `"field":"timeout_ms","code":"out_of_range","reason":"must be 1000 to 30000","min":1000,"max":30000`},
		{"POST /endpoints", endpoint(`"max_redirects": 9`), `"field":"max_redirects","code":"out_of_range","reason":"must be 0 to 3","min":0,"max":3`},
		{"POST /endpoints", endpoint(`"payload": "raw", "include_previous": true`), `"field":"include_previous","code":"contradictory"`},
		{"POST /endpoints", endpoint(`"payload": "x"`), `"field":"payload","code":"not_a_choice"`},
		{"POST /endpoints", endpoint(`"on_dead": "pause"`), `"field":"on_dead","code":"contradictory"`},
		{"POST /endpoints", endpoint(`"headers": [{"name": "a", "value": "1"}, {"name": "A", "value": "2"}]`), `"field":"headers[1].name","code":"repeated"`},
		{"POST /endpoints", endpoint(`"headers": [{"name": "host", "value": "1"}]`), `"field":"headers[0].name","code":"not_allowed"`},
		{"POST /endpoints", endpoint(`"changed": []`), `"field":"changed","code":"required"`},
		{"POST /endpoints", endpoint(`"channels": []`), `"field":"channels","code":"required"`},
		{"POST /endpoints", endpoint(`"channels": ["a", "a"]`), `"field":"channels[1]","code":"repeated"`},
		{"POST /endpoints", endpoint(`"channels": ["a\u0000"]`), `"field":"channels[0]","code":"malformed"`},
		{"POST /endpoints", endpoint(`"changed": ["$.a b"]`), `"field":"changed[0]","code":"malformed"`},
		{"POST /endpoints", endpoint(`"transform": {}`), `"field":"transform","code":"unknown_field"`},
		{"POST /endpoints", endpoint(`"description": "` + strings.Repeat("x", 5000) + `"`), `"field":"description","code":"too_long","reason":"is too long","min":0,"max":`},
		{"POST /replays/dry-run", `{"account": "acme", "statuses": ["dead"], "per_second": -1}`, `"field":"per_second","code":"out_of_range","reason":"must be 1 to 5000","min":1,"max":5000`},
		{"GET /events?limit=251", "", `"field":"limit","code":"malformed"`},
	} {
		t.Run(tt.fault, func(t *testing.T) {
			t.Parallel()
			if got := w.in(t).do(w.admin, tt.route, tt.body); got.status != 422 || !strings.Contains(got.text, tt.fault) {
				t.Errorf("%s = %d %s, want %s", tt.route, got.status, got.text, tt.fault)
			}
		})
	}
}

func TestEveryKindOfErrorHasItsAnswer(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, api.Options{MaxData: 100})
	acme := w.tenant("acme")
	reader := w.key(postrider.APIKey{Scopes: []postrider.Scope{postrider.ScopeWebhooksRead}})
	large := `{"account": "acme", "type": "a", "data": "` + strings.Repeat("x", 100) + `"}`
	huge := strings.Repeat("x", 20<<10)
	plain := w.request(w.admin, "POST /events", "{}")
	plain.Header.Set("Content-Type", "text/plain")
	latin := w.request(w.admin, "POST /events", "{}")
	latin.Header.Set("Content-Type", "application/json; charset=iso-8859-1")
	utf8 := w.request(w.admin, "POST /events", "{}")
	utf8.Header.Set("Content-Type", `application/json; charset="UTF-8"`)
	for _, tt := range []struct {
		name    string
		request *http.Request
		status  int
		code    string
	}{
		{"no key", w.request("", "GET /events", ""), 401, "unauthorized"},
		{"no such key", w.request("pr_x", "GET /events", ""), 401, "unauthorized"},
		{"no scope", w.request(reader, "POST /events", "{}"), 403, "forbidden"},
		{"no route", w.request(w.admin, "GET /nothing", ""), 404, "not_found"},
		{"unclean path", w.request(w.admin, "GET //events/"+acme.event, ""), 404, "not_found"},
		{"no method", w.request(w.admin, "PUT /events", ""), 405, "method_not_allowed"},
		{"NUL in a path", w.request(w.admin, "GET /accounts/a%00", ""), 404, "not_found"},
		{"malformed id", w.request(w.admin, "GET /events/evt_x", ""), 404, "not_found"},
		{"id of another type", w.request(w.admin, "GET /events/"+acme.delivery, ""), 404, "not_found"},
		{"no such account", w.request(w.admin, "POST /events", `{"account": "nobody", "type": "a", "data": 1}`), 422, "invalid"},
		{"no such account of an endpoint", w.request(w.admin, "POST /endpoints", `{"account": "nobody", "url": "https://x", "event_types": ["*"]}`), 422, "invalid"},
		{"no such filter", w.request(w.admin, "GET /events?account=nobody", ""), 422, "invalid"},
		{"media type", plain, 415, "unsupported_media_type"},
		{"charset", latin, 415, "unsupported_media_type"},
		{"charset of JSON", utf8, 422, "invalid"},
		{"large data", w.request(w.admin, "POST /events", large), 413, "too_large"},
		{"large data in a batch", w.request(w.admin, "POST /events/batch", `{"events": [`+large+`]}`), 413, "too_large"},
		{"large body", w.request(w.admin, "POST /events", huge), 413, "too_large"},
		{"large body, not announced", w.body(w.admin, "POST /events", strings.NewReader(huge)), 413, "too_large"},
		{"slow body", w.body(w.admin, "POST /events", broken{timeout{}}), 408, "timeout"},
		{"body cut off", w.body(w.admin, "POST /events", broken{io.ErrUnexpectedEOF}), 503, "unavailable"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := w.in(t).send(tt.request)
			if got.status != tt.status || got.body["code"] != tt.code {
				t.Errorf("%d %s, want %d %s", got.status, got.text, tt.status, tt.code)
			}
			checkProblem(t, got)
		})
	}
}

// checkProblem checks that a response follows RFC 9457 and has our own fields.
func checkProblem(t *testing.T, got response) {
	t.Helper()
	if ct := got.header.Get("Content-Type"); ct != "application/problem+json" {
		t.Errorf("Content-Type = %q", ct)
	}
	if got.body["type"] != "about:blank" || got.body["title"] != http.StatusText(got.status) ||
		got.body["status"] != float64(got.status) || got.body["detail"] == "" ||
		got.header.Get("Cache-Control") != "no-store" || got.header.Get("X-Content-Type-Options") != "nosniff" ||
		got.body["request_id"] != got.header.Get("Request-Id") || got.body["request_id"] == "" {
		t.Errorf("not a problem of ours: %s", got.text)
	}
}

func TestErrorsOfThePublisherAreTranslated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	const canary = "postgres://user:hunter2@db"
	for _, tt := range []struct {
		err        error
		status     int
		code       string
		retryAfter string
	}{
		{&postrider.OverloadError{RetryAfter: 1500 * time.Millisecond}, 429, "overloaded", "2"},
		{fmt.Errorf("publish: %w", &postrider.OverloadError{}), 429, "overloaded", "1"},
		{fmt.Errorf("commit %s: %w", canary, postrider.ErrBusy), 503, "unavailable", "1"},
		{context.DeadlineExceeded, 503, "unavailable", "1"},
		{&postrider.KeyTakenError{Index: 3}, 409, "idempotency_conflict", ""},
		{errors.New("dial " + canary), 500, "internal", ""},
	} {
		w.publisher.fail(tt.err)
		got := w.do(w.admin, "POST /events", `{"account": "acme", "type": "a", "data": 1}`)
		if got.status != tt.status || got.body["code"] != tt.code || got.header.Get("Retry-After") != tt.retryAfter {
			t.Errorf("%v = %d %s, Retry-After %q", tt.err, got.status, got.text, got.header.Get("Retry-After"))
		}
		checkProblem(t, got)
		if strings.Contains(got.text, "hunter2") {
			t.Errorf("the answer leaks an error's text: %s", got.text)
		}
		if tt.status >= 500 && !strings.Contains(w.log.String(), got.id("request_id")) {
			t.Errorf("%v is not in the log", tt.err)
		}
	}
	if !strings.Contains(w.log.String(), "dial "+canary) {
		t.Error("the log lacks the chain of the unknown error")
	}
}

func TestErrorsOfParametersAreInWords(t *testing.T) {
	t.Parallel()
	got := newWorld(t).want(422, "GET /events?from=yesterday", "")
	if !strings.Contains(got.text, `"must be a time like 2026-11-21T05:00:00Z"`) {
		t.Errorf("a date of no form = %s", got.text)
	}
}

func TestOnlyOurFaultsAreLoggedAsErrors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	for _, tt := range []struct {
		name, level string
		request     *http.Request
		err         error
	}{
		{"refused", "INFO", w.request(w.admin, "GET /events/evt_x", ""), nil},
		{"no key", "INFO", w.request("", "GET /events", ""), nil},
		{"client left", "INFO", w.body(w.admin, "POST /events", broken{io.ErrUnexpectedEOF}), nil},
		{"given up", "INFO", w.request(w.admin, "POST /events", `{"account": "acme", "type": "a", "data": 1}`), context.Canceled},
		{"broken", "ERROR", w.request(w.admin, "POST /events", `{"account": "acme", "type": "a", "data": 1}`), errors.New("x")},
	} {
		w.publisher.fail(tt.err)
		got := w.send(tt.request)
		for line := range strings.Lines(w.log.String()) {
			if strings.Contains(line, got.header.Get("Request-Id")) && !strings.Contains(line, `"level":"`+tt.level+`"`) {
				t.Errorf("%s is not logged as %s: %s", tt.name, tt.level, line)
			}
		}
	}
}

// torn is a response writer that panics after the response has begun.
type torn struct{ *httptest.ResponseRecorder }

func (torn) Write([]byte) (int, error) { panic("torn") }

func TestAPanicAfterTheFirstByteIsLogged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	defer func() {
		if cause := recover(); cause != http.ErrAbortHandler { //nolint:errorlint // net/http compares it too
			t.Errorf("the handler ended with %v, want http.ErrAbortHandler", cause)
		}
		if log := w.log.String(); !strings.Contains(log, `"stack":"goroutine`) || !strings.Contains(log, `"error":"panic: torn"`) {
			t.Errorf("the log lacks the stack: %s", log)
		}
	}()
	w.handler.ServeHTTP(torn{httptest.NewRecorder()}, w.request(w.admin, "GET /openapi.json", ""))
}

func TestAPanicIsOneAnswer(t *testing.T) {
	t.Parallel()
	handler := api.New(api.Deps{}, api.Options{}) // no store: the first lookup panics
	w := &world{TB: t, handler: handler}
	got := w.do(guess("pr_", 1), "GET /events", "")
	if got.status != 500 || got.body["code"] != "internal" {
		t.Errorf("a panic = %d %s, want 500", got.status, got.text)
	}
	checkProblem(t, got)
}

func TestNoByteOfTheBodyIsReadBeforeTheKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	bound := w.key(postrider.APIKey{Scopes: []postrider.Scope{postrider.ScopeWebhooksRead}})
	for _, key := range []string{"", "pr_wrong", bound} {
		body := &counting{Reader: bytes.NewReader(make([]byte, 1<<20))}
		if got := w.send(w.body(key, "POST /events", body)); got.status/100 != 4 || body.n != 0 {
			t.Errorf("key %q: %d after reading %d bytes", key, got.status, body.n)
		}
	}
}

func TestOneLineIsLoggedForARequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.want(200, "GET /events", "")
	log := w.log.String()
	for _, want := range []string{`"msg":"request answered"`, `"method":"GET"`, `"route":"GET /v1/webhooks/events"`, `"status":200`, `"duration_ms":`, `"key":"key_`, `"request":"req_`} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %s: %s", want, log)
		}
	}
	if n := strings.Count(log, "\n"); n != 1 || strings.Contains(log, w.admin) {
		t.Errorf("%d lines, or the key itself: %s", n, log)
	}
}

func TestRefusalsOfOneKindShareALineASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		h := rest.Starting(slog.New(slog.NewTextHandler(&log, nil)))
		for range 5000 { // 700 a second
			time.Sleep(time.Second / 700)
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/v1/webhooks/events", http.NoBody))
		}
		time.Sleep(5 * time.Second)
		synctest.Wait() // for the line of the last second
		lines, told := strings.Count(log.String(), "\n"), 0
		for _, count := range regexp.MustCompile(`requests=(\d+)`).FindAllStringSubmatch(log.String(), -1) {
			n, _ := strconv.Atoi(count[1])
			told += n
		}
		if lines > 9 || told != 4999 {
			t.Errorf("%d lines name %d more refusals; want 4999 in 9 lines: %s", lines, told, &log)
		}
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/v1/webhooks/events", http.NoBody))
		if n := strings.Count(log.String(), "request answered"); n != 2 {
			t.Errorf("%d refusals have a line of their own, want the first one and one after a pause", n)
		}
		time.Sleep(2 * time.Second)
	})
}

type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }

type timeout struct{}

func (timeout) Error() string   { return "i/o timeout" }
func (timeout) Timeout() bool   { return true }
func (timeout) Temporary() bool { return true }

type counting struct {
	io.Reader
	n int
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += n
	return n, err
}

func TestAPathAllowsItsOwnMethodsAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for route, allow := range map[string]string{
		"PUT /events":                           "GET, HEAD, POST",
		"GET /events/batch":                     "POST",
		"DELETE /events/batch":                  "POST",
		"PUT /events/evt_x":                     "GET, HEAD",
		"DELETE /endpoints/ep_x/secrets/rotate": "POST",
		"GET /endpoints/ep_x/secrets/rotate":    "POST",
		"POST /endpoints/ep_x/secrets/sec_x":    "DELETE",
		"POST /openapi.json":                    "GET, HEAD",
	} {
		got := w.do(w.admin, route, "")
		if got.status != http.StatusMethodNotAllowed || got.header.Get("Allow") != allow {
			t.Errorf("%s = %d, Allow %q; want 405 and %q", route, got.status, got.header.Get("Allow"), allow)
		}
		checkProblem(t, got)
	}
}

func TestABodyThatIsEncodedIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	for coding, status := range map[string]int{"": 202, "identity": 202, "Identity": 202, "gzip": 415, "identity, gzip": 415} {
		r := w.request(w.admin, "POST /events", `{"account": "acme", "type": "a", "data": 1}`)
		if coding != "" {
			r.Header.Set("Content-Encoding", coding)
		}
		got := w.send(r)
		if got.status != status {
			t.Errorf("Content-Encoding %q = %d %s, want %d", coding, got.status, got.text, status)
		}
		if status == 415 && got.header.Get("Accept-Encoding") != "identity" {
			t.Errorf("Content-Encoding %q: Accept-Encoding %q, want identity", coding, got.header.Get("Accept-Encoding"))
		}
	}
}
