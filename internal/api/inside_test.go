package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/api"
)

// as returns a function that makes requests inside the process as the caller.
func (w *world) as(caller postrider.Caller) func(route, body string) response {
	transport := w.handler.(*api.Handler).As(caller)
	return func(route, body string) response {
		w.Helper()
		method, path, _ := strings.Cut(route, " ")
		r, err := http.NewRequestWithContext(w.Context(), method, "http://inside/v1/webhooks"+path, strings.NewReader(body))
		if err != nil {
			w.Fatal(err)
		}
		if body != "" {
			r.Header.Set("Content-Type", "application/json")
		}
		answer, err := transport.RoundTrip(r)
		if err != nil {
			w.Fatalf("%s inside: %v", route, err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			w.Fatal(err)
		}
		got := response{status: answer.StatusCode, header: answer.Header, text: string(text)}
		if len(text) > 0 {
			if err := json.Unmarshal(text, &got.body); err != nil {
				w.Fatalf("%s inside answers no JSON: %q", route, text)
			}
		}
		return got
	}
}

func TestACallInsideIsAnsweredAsAnyClients(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, evil := w.tenant("acme"), w.tenant("evil")
	account, err := postrider.ParseID[postrider.AccountID](acme.account)
	if err != nil {
		t.Fatal(err)
	}
	session := postrider.SessionID{7}
	do := w.as(postrider.Caller{
		Session: session, Name: "Ann", Account: account, Request: "req_page",
		Scopes: []postrider.Scope{postrider.ScopeWebhooksRead, postrider.ScopeEndpointsWrite},
	})
	read := do("GET /endpoints", "")
	if len(read.data()) != 1 || read.data()[0]["id"] != acme.endpoint || read.header.Get("Request-Id") != "req_page" ||
		read.header.Get("Cache-Control") != "no-store" || read.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("endpoints = %d %s %v, want those of acme under the page's request id", read.status, read.text, read.header)
	}
	for _, tt := range []struct {
		route, body string
		status      int
	}{
		{"GET /endpoints/" + evil.endpoint, "", 404},
		{"GET /endpoints/" + acme.endpoint + "/secrets", "", 403},
		{"POST /endpoints/" + acme.endpoint + "/pause", "", 403},
		{"POST /accounts", `{"uid": "x"}`, 403},
		{"GET /accounts/" + evil.account, "", 404},
		{"PATCH /endpoints/" + acme.endpoint, `{"nonsense": 1}`, 422},
		{"PATCH /endpoints/" + acme.endpoint, `{"description": "` + strings.Repeat("x", 300<<10) + `"}`, 413},
		{"PATCH /endpoints/" + acme.endpoint, `{"description": "hooks"}`, 200},
		{"POST /endpoints", `{"url": "https://b.example", "event_types": ["*"]}`, 201},
		{"GET /nothing", "", 404},
	} {
		if got := do(tt.route, tt.body); got.status != tt.status {
			t.Errorf("%s inside = %d %.200s, want %d", tt.route, got.status, got.text, tt.status)
		}
	}
	if strings.Contains(w.log.String(), session.String()) {
		t.Errorf("calls inside are logged above debug:\n%s", w.log)
	}
}

func TestACallInsideIsLoggedAtDebugUnderThePagesRequest(t *testing.T) {
	t.Parallel()
	log := new(buffer)
	h := api.New(api.Deps{}, api.Options{Log: slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://inside/v1/webhooks/openapi.json", nil)
	answer, err := h.As(postrider.Caller{Request: "req_page"}).RoundTrip(r)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", answer, err)
	}
	answer.Body.Close()
	if line := log.String(); !strings.Contains(line, `"level":"DEBUG"`) || !strings.Contains(line, `"request":"req_page"`) {
		t.Errorf("logged %s", line)
	}
}

func TestACallInsideEndsWithItsContext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("the page is gone")
	cancel(cause)
	r, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://inside/v1/webhooks/events", nil)
	answer, err := w.handler.(*api.Handler).As(postrider.Caller{Scopes: postrider.Scopes}).RoundTrip(r)
	if err == nil {
		answer.Body.Close()
	}
	if !errors.Is(err, cause) {
		t.Errorf("error = %v, want the context's cause", err)
	}
}

func TestACallerSetsItsOptionsAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.tenant("acme")
	do := w.as(postrider.Caller{Scopes: []postrider.Scope{postrider.ScopeWebhooksWrite}, Options: []string{"timeout_ms", "rate"}})
	change, create := "PATCH /endpoints/"+acme.endpoint, `{"account": "acme", "url": "https://b.example", "event_types": ["*"]`
	for _, tt := range []struct {
		route, body string
		status      int
		fields      []string
	}{
		{change, `{"timeout_ms": 5000, "rate": null}`, 200, nil},
		{change, `{"description": "no option", "event_types": ["a"]}`, 200, nil},
		{change, `{"timeout_ms": 6000, "concurrency": 5, "retry": null}`, 403, []string{"retry", "concurrency"}},
		{"POST /endpoints", create + `, "timeout_ms": 5000}`, 201, nil},
		{"POST /endpoints", create + `, "headers": []}`, 403, []string{"headers"}},
	} {
		got := do(tt.route, tt.body)
		if got.status != tt.status || !slices.Equal(got.fields(), tt.fields) {
			t.Errorf("%s %s = %d %s, want %d for %v", tt.route, tt.body, got.status, got.text, tt.status, tt.fields)
		}
	}
	if got := w.want(200, "GET /endpoints/"+acme.endpoint, ""); got.body["timeout_ms"] != 5000.0 || got.body["concurrency"] != 10.0 {
		t.Errorf("a refused change was stored: %s", got.text)
	}
}

// TestWhatEachScopeOpens requests the routes of an endpoint with keys that each have one scope.
func TestWhatEachScopeOpens(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	endpoint := "/endpoints/" + w.tenant("acme").endpoint
	for route, scope := range map[string]postrider.Scope{
		"GET " + endpoint: postrider.ScopeWebhooksRead, "GET " + endpoint + "/secrets": postrider.ScopeSecretsRead,
		"POST " + endpoint + "/pause": postrider.ScopeWebhooksOperate, "POST " + endpoint + "/resume": postrider.ScopeWebhooksOperate,
		"POST " + endpoint + "/test": postrider.ScopeWebhooksOperate, "POST " + endpoint + "/secrets/rotate": postrider.ScopeEndpointsWrite,
		"GET " + endpoint + "/secret-states": postrider.ScopeWebhooksRead, "POST " + endpoint + "/secrets/x/reveal": postrider.ScopeSecretsRead,
		"POST " + endpoint + "/disable": postrider.ScopeEndpointsWrite, "DELETE " + endpoint + "x": postrider.ScopeEndpointsWrite,
	} {
		for _, own := range postrider.Scopes {
			got := w.as(postrider.Caller{Scopes: []postrider.Scope{own}})(route, "")
			if refused := got.status == http.StatusForbidden; refused == own.Includes(scope) {
				t.Errorf("%s with %s = %d %s, want it to need %s", route, own, got.status, got.text, scope)
			}
		}
	}
}
