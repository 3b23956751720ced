package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

// script responds to each request with the next of its answers, and repeats the last one. It runs
// in a synctest bubble.
type script struct {
	answers []answer

	mu   sync.Mutex
	keys []string // idempotency keys in the order in which they came
	at   []time.Time
}

// answer is one response; with status 0 there is no response.
type answer struct {
	status     int
	retryAfter string
	body       string
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var body struct {
		Key    string `json:"idempotency_key"`
		Events []struct {
			Key string `json:"idempotency_key"`
		} `json:"events"`
	}
	if text, err := io.ReadAll(r.Body); err != nil {
		return nil, err
	} else if len(text) > 0 {
		if err := json.Unmarshal(text, &body); err != nil {
			return nil, err
		}
	}
	for _, e := range body.Events {
		body.Key += e.Key + " "
	}
	s.keys, s.at = append(s.keys, body.Key), append(s.at, time.Now())
	a := s.answers[min(len(s.at), len(s.answers))-1]
	if a.status == 0 {
		return nil, errors.New("connection reset by peer")
	}
	rec := httptest.NewRecorder()
	if a.retryAfter != "" {
		rec.Header().Set("Retry-After", a.retryAfter)
	}
	rec.WriteHeader(a.status)
	_, _ = rec.WriteString(a.body)
	return rec.Result(), nil
}

func (s *script) client(opts client.Options) *client.Client {
	opts.Transport = s
	return client.New("http://server.invalid", "k", opts)
}

var (
	lost    = answer{}
	busy    = answer{status: 503}
	receipt = answer{status: 202, body: `{"id":"evt_01h455vb4pex5vsknk084sn02q","deliveries":1}`}
)

func TestWhatIsSafeIsRepeated(t *testing.T) {
	t.Parallel()
	event := apitypes.EventCreate{Account: "acme", Type: "a", Data: json.RawMessage(`1`)}
	publish := func(x ctx, c *client.Client) error { _, err := c.Publish(x, event); return err }
	remove := func(x ctx, c *client.Client) error { return c.DeleteEndpoint(x, ep) }
	for _, tt := range []struct {
		name    string
		answers []answer
		call    func(ctx, *client.Client) error
		tries   int
		ok      bool
	}{
		{"a publish after no answer", []answer{lost, busy, {status: 429}, {status: 502}, receipt}, publish, 5, true},
		{"a publish for no longer than that", []answer{busy}, publish, 5, false},
		{"not what is wrong", []answer{{status: 422}}, publish, 1, false},
		{"not what is broken", []answer{{status: 500}}, publish, 1, false},
		{"not a loop", []answer{{status: 508}}, publish, 1, false},
		{"not what was not understood", []answer{{status: 202, body: "<html>"}}, publish, 1, false},
		{
			"a list",
			[]answer{lost, {status: 200, body: `{"data":[]}`}},
			func(x ctx, c *client.Client) error { _, err := c.Events(x, client.EventFilter{}); return err }, 2, true,
		},
		{"a change", []answer{busy, {status: 200, body: `{}`}}, func(x ctx, c *client.Client) error {
			_, err := c.ChangeEndpoint(x, ep, apitypes.EndpointUpdate{})
			return err
		}, 2, true},
		{"a deletion that got through", []answer{lost, {status: 404}}, remove, 2, true},
		{"a deletion that got through a gateway", []answer{{status: 504}, {status: 404}}, remove, 2, true},
		{"not a deletion of what was not there", []answer{busy, {status: 404}}, remove, 2, false},
		{"not a new endpoint", []answer{lost}, func(x ctx, c *client.Client) error {
			_, err := c.CreateEndpoint(x, apitypes.EndpointCreate{})
			return err
		}, 1, false},
		{"not a replay", []answer{busy}, func(x ctx, c *client.Client) error { _, err := c.ReplayDelivery(x, dlv); return err }, 1, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &script{answers: tt.answers}
				err := tt.call(t.Context(), s.client(client.Options{}))
				if len(s.at) != tt.tries || (err == nil) != tt.ok {
					t.Errorf("%d tries, %v; want %d, success %t", len(s.at), err, tt.tries, tt.ok)
				}
			})
		})
	}
}

func TestEveryTryOfAPublishHasTheSameKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &script{answers: []answer{lost, busy, receipt}}
		c := s.client(client.Options{})
		event := apitypes.EventCreate{Account: "acme", Type: "a", Data: json.RawMessage(`1`)}
		for range 2 {
			if _, err := c.Publish(t.Context(), event); err != nil {
				t.Fatal(err)
			}
		}
		if s.keys[0] == "" || s.keys[1] != s.keys[0] || s.keys[2] != s.keys[0] || s.keys[3] == s.keys[0] {
			t.Errorf("keys = %q", s.keys)
		}
		given := []apitypes.EventCreate{{Type: "a", Data: event.Data, IdempotencyKey: "mine"}, event}
		s = &script{answers: []answer{busy, {status: 202, body: `{"data":[{},{"duplicate":true}]}`}}}
		got, err := s.client(client.Options{}).PublishBatch(t.Context(), given)
		if err != nil || len(got) != 2 || !got[1].Duplicate {
			t.Errorf("PublishBatch = %v, %v", got, err)
		}
		if !strings.HasPrefix(s.keys[0], "mine auto-") || s.keys[1] != s.keys[0] || given[1].IdempotencyKey != "" {
			t.Errorf("keys = %q; the caller's: %q", s.keys, given[1].IdempotencyKey)
		}
	})
}

func TestOneAttemptIsOneRequestWithoutAKey(t *testing.T) {
	t.Parallel()
	s := &script{answers: []answer{busy}}
	_, err := s.client(client.Options{Attempts: 1}).Publish(t.Context(), apitypes.EventCreate{Data: json.RawMessage(`1`)})
	if !errors.Is(err, postrider.ErrBusy) || len(s.at) != 1 || s.keys[0] != "" {
		t.Errorf("%d requests with the keys %q, %v", len(s.at), s.keys, err)
	}
}

func TestPausesAreAsLongAsTheServerAsks(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		retryAfter  string
		least, most time.Duration
		tries       int
	}{
		{"", 100 * time.Millisecond, 200 * time.Millisecond, 2},
		{"7", 7 * time.Second, 7200 * time.Millisecond, 2},
		{"-7", 100 * time.Millisecond, 200 * time.Millisecond, 2},
		{"1h", 100 * time.Millisecond, 200 * time.Millisecond, 2},
		{"31", 0, 0, 1},
		{"99999999999999999999", 100 * time.Millisecond, 200 * time.Millisecond, 2},
		// The time of a synctest bubble begins in 2000.
		{"Sat, 01 Jan 2000 00:00:09 GMT", 8 * time.Second, 9200 * time.Millisecond, 2},
	} {
		t.Run(tt.retryAfter, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &script{answers: []answer{{status: 503, retryAfter: tt.retryAfter}, {status: 200, body: `{}`}}}
				_, err := s.client(client.Options{}).Endpoint(t.Context(), ep)
				if len(s.at) != tt.tries || (err == nil) != (tt.tries == 2) {
					t.Fatalf("%d tries, %v; want %d", len(s.at), err, tt.tries)
				}
				if pause := s.at[len(s.at)-1].Sub(s.at[0]); pause < tt.least || pause > tt.most {
					t.Errorf("pause = %s, want %s to %s", pause, tt.least, tt.most)
				}
			})
		})
	}
}

func TestAContextEndsThePause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &script{answers: []answer{{status: 429, retryAfter: "20"}}}
		x, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		_, err := s.client(client.Options{}).Endpoint(x, ep)
		if !errors.Is(err, postrider.ErrBusy) || time.Since(began) != time.Second || len(s.at) != 1 {
			t.Errorf("%d tries in %s, %v", len(s.at), time.Since(began), err)
		}
	})
}

func TestAWholeListIsWalked(t *testing.T) {
	t.Parallel()
	pages := map[string]apitypes.Page[int]{"": {Data: []int{1, 2}, NextCursor: new("a")}, "a": {NextCursor: new("b")}, "b": {Data: []int{3}}}
	var got []int
	for n, err := range client.All(func(p client.Paging) (apitypes.Page[int], error) { return pages[p.Cursor], nil }) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, n)
	}
	if diff := cmp.Diff([]int{1, 2, 3}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, err := range client.All(func(client.Paging) (apitypes.Page[int], error) { return apitypes.Page[int]{}, io.ErrUnexpectedEOF }) {
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("err = %v", err)
		}
	}
}
