package client_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// request is a request as a server received it.
type request struct {
	Line, Key, Type, Body string
}

// answering returns a client of a server that always gives one response, and the request that the
// server received last.
func answering(t *testing.T, status int, body string) (*client.Client, *request) {
	t.Helper()
	seen := &request{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("read request: %v", err)
		}
		*seen = request{r.Method + " " + r.RequestURI, r.Header.Get("Authorization"), r.Header.Get("Content-Type"), string(text)}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Retry-After", "3")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	c := client.New(server.URL+"/", "pr_hush", client.Options{Attempts: 1})
	t.Cleanup(func() {
		c.Close()
		server.Close()
	})
	return c, seen
}

func TestPublishSendsTheEventAsItIsAndReadsTheReceipt(t *testing.T) {
	t.Parallel()
	c, seen := answering(t, 202, `{"id":"evt_01h455vb4pex5vsknk084sn02q","deliveries":2,"newer":true}`)
	receipt, err := c.Publish(t.Context(), apitypes.EventCreate{
		Account: "acme", Type: "order.created", Data: json.RawMessage(`{"b": 1e2,  "a":"<"}`), IdempotencyKey: "k",
	})
	if err != nil {
		t.Fatal(err)
	}
	if receipt.ID.String() != "evt_01h455vb4pex5vsknk084sn02q" || receipt.Deliveries == nil || *receipt.Deliveries != 2 {
		t.Errorf("receipt = %+v", receipt)
	}
	want := request{
		"POST /v1/webhooks/events", "Bearer pr_hush", "application/json",
		`{"data":{"b": 1e2,  "a":"<"},"account":"acme","type":"order.created","idempotency_key":"k"}`,
	}
	if diff := cmp.Diff(want, *seen); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
}

func TestWhatAnEventSaysOfItselfIsSent(t *testing.T) {
	t.Parallel()
	c, seen := answering(t, 202, `{"id":"evt_01h455vb4pex5vsknk084sn02q","deliveries":2}`)
	e := apitypes.EventCreate{Account: "acme", Type: "order.created", Data: json.RawMessage(`1`), IdempotencyKey: "k", About: apitypes.About{
		Subject: "order/42", Channels: []string{"shop"}, Metadata: map[string]string{"a": "1"}, Internal: map[string]string{"b": "2"},
		Previous: json.RawMessage(`{"a" : 1}`),
	}}
	if _, err := c.Publish(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	want := `{"data":1,"previous":{"a" : 1},"subject":"order/42","channels":["shop"],"metadata":{"a":"1"},"internal":{"b":"2"},` +
		`"account":"acme","type":"order.created","idempotency_key":"k"}`
	if seen.Body != want {
		t.Errorf("the body is %s, want %s", seen.Body, want)
	}
	e.Previous, e.ChangedPaths = nil, []string{"$.a"}
	if _, err := c.Publish(t.Context(), e); err != nil || !strings.Contains(seen.Body, `"changed_paths":["$.a"],`) {
		t.Errorf("%v; the body %s lacks the paths", err, seen.Body)
	}
	e.Previous = json.RawMessage(`{`)
	if _, err := c.Publish(t.Context(), e); err == nil || postrider.Faults(err)[0].Field != "previous" {
		t.Errorf("an object before that is not JSON: %v", err)
	}
}

func TestAListAsksForItsFiltersAndPage(t *testing.T) {
	t.Parallel()
	c, seen := answering(t, 200, `{"data":[{"id":"dlv_01h455vb4pex5vsknk084sn02q","status":"dead","last_error":null}],"next_cursor":"abc"}`)
	page, err := c.Deliveries(t.Context(), client.DeliveryFilter{
		Account: "a&b", Status: postrider.Dead, Paging: client.Paging{Limit: 7, Cursor: "x"},
	})
	if err != nil || len(page.Data) != 1 || page.Data[0].Status != postrider.Dead || page.Next() != "abc" {
		t.Errorf("Deliveries = %+v, %v", page, err)
	}
	if want := "GET /v1/webhooks/deliveries?account=a%26b&cursor=x&limit=7&status=dead"; seen.Line != want {
		t.Errorf("request = %s, want %s", seen.Line, want)
	}
}

func TestAProblemIsAnErrorThatProgramsCanRead(t *testing.T) {
	t.Parallel()
	c, _ := answering(t, 422, `{"title":"Unprocessable","status":422,"code":"invalid","detail":"see errors","request_id":"req_1",
		"errors":[{"field":"retry.delays_ms[2]","code":"out_of_range","reason":"must be 0 to 7 days"}]}`)
	_, err := c.CreateEndpoint(t.Context(), apitypes.EndpointCreate{})

	problem, ok := errors.AsType[*client.Error](err)
	if !ok {
		t.Fatalf("CreateEndpoint = %v, want a *client.Error", err)
	}
	want := client.Error{
		Status: 422, Code: "invalid", Detail: "see errors", RequestID: "req_1", RetryAfter: 3 * time.Second,
		Fields: []apitypes.Fault{{Field: "retry.delays_ms[2]", Code: "out_of_range", Reason: "must be 0 to 7 days"}},
	}
	if diff := cmp.Diff(want, *problem); diff != "" {
		t.Errorf("problem (-want +got):\n%s", diff)
	}
	if text := "see errors (422, invalid); retry.delays_ms[2] must be 0 to 7 days"; err.Error() != text {
		t.Errorf("Error() = %s, want %s", err, text)
	}
}

func TestAStatusMatchesTheErrorOfTheDomain(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]error{
		404: postrider.ErrNotFound, 409: postrider.ErrConflict, 410: postrider.ErrGone, 413: postrider.ErrInvalid,
		422: postrider.ErrInvalid, 429: postrider.ErrBusy, 503: postrider.ErrBusy,
	} {
		c, _ := answering(t, status, "<html>")
		if _, err := c.Delivery(t.Context(), postrider.DeliveryID{}); !errors.Is(err, want) {
			t.Errorf("%d = %v, want %v", status, err, want)
		}
	}
}

func TestTheKeyGoesNowhereElse(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.RedirectHandler("http://elsewhere.invalid/", http.StatusTemporaryRedirect))
	c := client.New(server.URL, "pr_hush", client.Options{})
	t.Cleanup(func() {
		c.Close()
		server.Close()
	})
	_, err := c.Keys(t.Context(), client.KeyFilter{})
	problem, ok := errors.AsType[*client.Error](err)
	if !ok || problem.Status != http.StatusTemporaryRedirect || strings.Contains(err.Error(), "hush") {
		t.Errorf("Keys = %v, want the redirect as an error", err)
	}
}

func TestAnAnswerThatIsNoJSONNamesTheCall(t *testing.T) {
	t.Parallel()
	c, _ := answering(t, 200, "<html>")
	_, err := c.Endpoint(t.Context(), postrider.EndpointID{})
	if err == nil || !strings.HasPrefix(err.Error(), "GET /endpoints/ep_00000000000000000000000000: decode response: ") {
		t.Errorf("Endpoint = %v", err)
	}
}

func TestAReplayOfAnEventSaysWhichDeliveries(t *testing.T) {
	t.Parallel()
	c, seen := answering(t, 202, `{}`)
	if _, err := c.ReplayEvent(t.Context(), postrider.EventID{}, apitypes.EventReplay{}); err != nil || seen.Body != `{}` {
		t.Errorf("all: body %s, %v; want {}", seen.Body, err)
	}
	if _, err := c.ReplayEvent(t.Context(), postrider.EventID{}, apitypes.EventReplay{Status: postrider.Dead}); err != nil ||
		seen.Body != `{"status":"dead"}` {
		t.Errorf("dead ones: body %s, %v", seen.Body, err)
	}
}

func TestAnEndpointsChangeHasOnlyWhatChanges(t *testing.T) {
	t.Parallel()
	var id postrider.EndpointID
	for _, tt := range []struct {
		change apitypes.EndpointUpdate
		body   string
	}{
		{apitypes.EndpointUpdate{}, `{}`},
		{policy(apitypes.Policy{Rate: apitypes.Of(apitypes.Rate{Attempts: 100, PerMS: 1000})}), `{"rate":{"attempts":100,"per_ms":1000}}`},
		{policy(apitypes.Policy{Rate: apitypes.Null[apitypes.Rate]()}), `{"rate":null}`},
		{policy(apitypes.Policy{Circuit: apitypes.Of(apitypes.CircuitPolicy{Preset: "strict"})}), `{"circuit":{"preset":"strict"}}`},
		{
			apitypes.EndpointUpdate{UID: apitypes.Of(""), Policy: apitypes.Policy{AdaptiveTimeout: apitypes.Of(false)}},
			`{"uid":"","adaptive_timeout":false}`,
		},
		{
			policy(apitypes.Policy{Concurrency: apitypes.Of(3), Retry: apitypes.Null[apitypes.Retry](), TimeoutMS: apitypes.Null[int64]()}),
			`{"retry":null,"timeout_ms":null,"concurrency":3}`,
		},
		{
			policy(apitypes.Policy{Order: apitypes.Of(postrider.OrderByKey), OnDead: apitypes.Of(postrider.PauseOnDead)}),
			`{"order":"by_key","on_dead":"pause"}`,
		},
	} {
		c, seen := answering(t, 200,
			`{"adaptive_timeout":true,"circuit":{"preset":"strict","failures":5},"rate":null,"order":"by_key","on_dead":"pause"}`)
		e, err := c.ChangeEndpoint(t.Context(), id, tt.change)
		if err != nil || !e.AdaptiveTimeout.Value() || *e.Circuit.Value().Failures != 5 || !e.Rate.IsNull() ||
			e.Order.Value() != postrider.OrderByKey || e.OnDead.Value() != postrider.PauseOnDead {
			t.Errorf("ChangeEndpoint = %+v, %v", e, err)
		}
		if want := "PATCH /v1/webhooks/endpoints/" + id.String(); seen.Line != want || seen.Body != tt.body {
			t.Errorf("request = %s %s, want %s %s", seen.Line, seen.Body, want, tt.body)
		}
	}
}

// policy returns a change of an endpoint's policy.
func policy(p apitypes.Policy) apitypes.EndpointUpdate { return apitypes.EndpointUpdate{Policy: p} }

func TestACircuitIsReadAndSet(t *testing.T) {
	t.Parallel()
	var id postrider.EndpointID
	path := "/v1/webhooks/endpoints/" + id.String() + "/circuit"
	c, seen := answering(t, 200,
		`{"status":"open","reason":"manual","opened_at":"2026-11-21T05:00:00.000000Z","probe_at":null,"cooldown_ms":60000,"failing_since":null,"generation":3}`)
	opened := apitypes.Time{Time: time.Date(2026, 11, 21, 5, 0, 0, 0, time.UTC)}
	want := apitypes.Circuit{Status: postrider.CircuitOpen, Reason: new("manual"), OpenedAt: &opened, CooldownMS: 60000, Generation: 3}
	got, err := c.Circuit(t.Context(), id)
	if diff := cmp.Diff(want, got); err != nil || diff != "" || seen.Line != "GET "+path {
		t.Errorf("%s: %v (-want +got):\n%s", seen.Line, err, diff)
	}
	got, err = c.SetCircuit(t.Context(), id, postrider.CircuitHalfOpen)
	if diff := cmp.Diff(want, got); err != nil || diff != "" || seen.Line != "POST "+path || seen.Body != `{"status":"half_open"}` {
		t.Errorf("%s %s: %v (-want +got):\n%s", seen.Line, seen.Body, err, diff)
	}
}

func TestWhatAnEndpointKeepsInOrderAndHowItStandsAreListed(t *testing.T) {
	t.Parallel()
	var id postrider.EndpointID
	c, seen := answering(t, 200, `{"data":[{"key":"k","waiting":2,"head":null,"sequence":null,"since":"2026-11-21T05:00:00Z","lag_ms":7,
		"paused_by":"dlv_01h455vb4pex5vsknk084sn02q"}],"next_cursor":"c"}`)
	keys, err := c.OrderingKeys(t.Context(), id, client.Paging{Limit: 1})
	if err != nil || keys.Next() != "c" || len(keys.Data) != 1 || keys.Data[0].PausedBy == nil || keys.Data[0].Head != nil ||
		keys.Data[0].LagMS != 7 {
		t.Errorf("OrderingKeys = %+v, %v", keys, err)
	}
	if want := "GET /v1/webhooks/endpoints/" + id.String() + "/ordering-keys?limit=1"; seen.Line != want {
		t.Errorf("request = %s, want %s", seen.Line, want)
	}
	c, seen = answering(t, 200,
		`{"data":[{"number":2,"status":"warned","reason":"failing","warnings":1,"since":"2026-11-21T05:00:00Z"}],"next_cursor":null}`)
	history, err := c.EndpointHealth(t.Context(), id, client.Paging{})
	if err != nil || len(history.Data) != 1 || history.Data[0].Status != postrider.HealthWarned || history.Data[0].Warnings != 1 {
		t.Errorf("EndpointHealth = %+v, %v", history, err)
	}
	if want := "GET /v1/webhooks/endpoints/" + id.String() + "/health"; seen.Line != want {
		t.Errorf("request = %s, want %s", seen.Line, want)
	}
}

func TestAProblemHasWhatTheDocumentSays(t *testing.T) {
	t.Parallel()
	c, _ := answering(t, 409,
		`{"code":"replay_pending","detail":"d","index":7,"replay":"dlv_01h455vb4pex5vsknk084sn02q","request_id":"req_1"}`)
	_, err := c.ReplayDeadLetter(t.Context(), dlv)
	want := &client.Error{
		Status: 409, Code: "replay_pending", Detail: "d", Index: new(7), Replay: "dlv_01h455vb4pex5vsknk084sn02q",
		RequestID: "req_1", RetryAfter: 3e9,
	}
	if diff := cmp.Diff(error(want), err); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
