package egress_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/egress"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/testkit"
	"github.com/postrider/postrider/signature"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// laptop are options with which receivers of these tests can be reached.
func laptop() egress.Options {
	return egress.Options{AllowHTTP: true, AnyPort: true, Allow: loopback}
}

func open(tb testing.TB, opts egress.Options) *egress.Egress {
	tb.Helper()
	e := egress.New(opts)
	tb.Cleanup(e.Close)
	return e
}

func event(data string) *postrider.Event {
	return &postrider.Event{
		ID:        postrider.EventID{1, 2, 3},
		Type:      "order.created",
		Data:      []byte(data),
		CreatedAt: time.Date(2026, 5, 4, 3, 2, 1, 123456789, time.UTC),
	}
}

func claimed(e *postrider.Event) postrider.Claimed {
	return postrider.Claimed{
		ID: postrider.DeliveryID{4, 5, 6}, Endpoint: postrider.EndpointID{7, 8, 9}, Event: e, Attempt: 3,
	}
}

// routed returns an endpoint with a secret, changed by each of the changes.
func routed(url string, changes ...func(*store.Routed)) store.Routed {
	r := store.Routed{
		Endpoint: postrider.Endpoint{ID: postrider.EndpointID{7, 8, 9}, URL: url, Policy: postrider.DefaultPolicy()},
		Secrets:  []postrider.Secret{{ID: postrider.SecretID{1}, Key: bytes.Repeat([]byte{1}, 32)}},
	}
	for _, change := range changes {
		change(&r)
	}
	return r
}

func raw(r *store.Routed) { r.Endpoint.Policy.Payload = postrider.PayloadRaw }

func signedBy(schemes ...postrider.Scheme) func(*store.Routed) {
	return func(r *store.Routed) { r.Endpoint.Policy.Signatures = schemes }
}

// send makes one attempt with a deadline.
func send(tb testing.TB, e *egress.Egress, to store.Routed, within time.Duration) postrider.Attempt {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), within)
	defer cancel()
	return e.Send(ctx, claimed(event(`{"order_id":42}`)), to)
}

func TestAttemptIsFilledIn(t *testing.T) {
	t.Parallel()
	r := testkit.NewReceiver(t, func(w http.ResponseWriter, _ testkit.Request) {
		w.Header().Set("X-Receiver", "yes")
		if _, err := io.WriteString(w, "thanks"); err != nil {
			t.Error(err)
		}
	})
	got := send(t, open(t, laptop()), routed(r.URL+"/hooks?token=canary"), testkit.Patience)
	if got.Duration <= 0 || time.Since(got.StartedAt) > testkit.Patience {
		t.Errorf("started at %v, took %v", got.StartedAt, got.Duration)
	}
	if head := string(got.ResponseHead); !strings.HasPrefix(head, "HTTP/1.1 200 OK\r\n") ||
		!strings.Contains(head, "X-Receiver: yes\r\n") || !strings.HasSuffix(head, "\r\n\r\n") {
		t.Errorf("response head = %q", head)
	}
	request := r.Only(t)
	if request.Target != "/hooks?token=canary" || request.Method != http.MethodPost {
		t.Errorf("received %s %s", request.Method, request.Target)
	}
	head := string(got.RequestHead)
	for _, secret := range []string{"canary", "v1,", "Signature"} {
		if strings.Contains(head, secret) {
			t.Errorf("request head carries %q: %s", secret, head)
		}
	}
	if !strings.HasPrefix(head, "POST /hooks?... HTTP/1.1\r\nHost: ") || !strings.Contains(head, "Webhook-Id: evt_") {
		t.Errorf("request head = %q", head)
	}
	got.StartedAt, got.Duration, got.RequestHead, got.ResponseHead = time.Time{}, 0, nil, nil
	want := postrider.Attempt{
		Delivery: postrider.DeliveryID{4, 5, 6}, Event: postrider.EventID{1, 2, 3}, Endpoint: postrider.EndpointID{7, 8, 9},
		Number: 3, Outcome: postrider.OutcomeAccepted, StatusCode: 200, ResponseBody: []byte("thanks"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("attempt (-want +got):\n%s", diff)
	}
}

func TestEnvelopeKeepsTheBytes(t *testing.T) {
	t.Parallel()
	data := "{ \"b\":1.00,\n\"a\":\"\\u0000<>\u00e9\", \"a\":1e400 }"
	for _, tt := range []struct {
		name, version, want string
	}{
		{"without a version", "", `{"id":"ID","type":"order.created","timestamp":"2026-05-04T03:02:01.123456Z","data":DATA}`},
		{"with a version", "2026-01", `{"id":"ID","type":"order.created","api_version":"2026-01","timestamp":"2026-05-04T03:02:01.123456Z","data":DATA}`},
		{"with an odd version", "a\"\\\n", `{"id":"ID","type":"order.created","api_version":"a\"\\\n","timestamp":"2026-05-04T03:02:01.123456Z","data":DATA}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := testkit.NewReceiver(t, testkit.Status(200))
			e := event(data)
			e.APIVersion = tt.version
			ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
			defer cancel()
			open(t, laptop()).Send(ctx, claimed(e), routed(r.URL))
			body := string(r.Only(t).Body)
			want := strings.NewReplacer("ID", e.ID.String(), "DATA", data).Replace(tt.want)
			if body != want || !json.Valid([]byte(body)) {
				t.Errorf("body = %s\nwant   %s", body, want)
			}
		})
	}
}

func TestRawPayloadIsTheDataAlone(t *testing.T) {
	t.Parallel()
	r := testkit.NewReceiver(t, testkit.Status(200))
	send(t, open(t, laptop()), routed(r.URL, raw), testkit.Patience)
	if body := string(r.Only(t).Body); body != `{"order_id":42}` {
		t.Errorf("body = %s", body)
	}
}

func TestEverySchemeAndSecretVerifies(t *testing.T) {
	t.Parallel()
	r := testkit.NewReceiver(t, testkit.Status(200))
	old := postrider.Secret{ID: postrider.SecretID{2}, Key: bytes.Repeat([]byte{2}, 32), ExpiresAt: time.Now().Add(time.Hour)}
	gone := postrider.Secret{ID: postrider.SecretID{3}, Key: bytes.Repeat([]byte{3}, 32), ExpiresAt: time.Now().Add(-time.Second)}
	to := routed(r.URL, signedBy(postrider.Schemes...), func(r *store.Routed) { r.Secrets = append(r.Secrets, old, gone) })
	send(t, open(t, laptop()), to, testkit.Patience)

	request := r.Only(t)
	verify := func(scheme signature.Scheme, key []byte) error {
		v := signature.Verifier{Scheme: scheme, Keys: []signature.Key{{Secret: key}}}
		return v.Verify(request.Header, request.Body, request.At)
	}
	for _, scheme := range []signature.Scheme{signature.Standard, signature.Timestamped, signature.Plain} {
		if err := verify(scheme, to.Secrets[0].Key); err != nil {
			t.Errorf("%s with the newest secret: %v", scheme, err)
		}
	}
	if err := verify(signature.Standard, old.Key); err != nil {
		t.Errorf("standard with the older secret: %v", err)
	}
	if err := verify(signature.Standard, gone.Key); err == nil {
		t.Error("standard with an expired secret verified")
	}
	for name, want := range map[string]string{
		"Content-Type": "application/json", "User-Agent": "Postrider", "Webhook-Id": event("").ID.String(),
		"X-Event-Id": event("").ID.String(), "X-Webhook-Id": claimed(nil).ID.String(), "Accept-Encoding": "",
	} {
		if got := request.Header.Get(name); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
}

func TestStatusDecides(t *testing.T) {
	t.Parallel()
	e := open(t, laptop())
	for _, tt := range []struct {
		name   string
		answer testkit.Answer
		want   postrider.Attempt
	}{
		{"201", testkit.Status(201), postrider.Attempt{Outcome: postrider.OutcomeAccepted, StatusCode: 201}},
		{"404", testkit.Status(404), postrider.Attempt{Outcome: postrider.OutcomeRejected, StatusCode: 404, Error: "http_status: 404 Not Found"}},
		{"410", testkit.Status(410), postrider.Attempt{Outcome: postrider.OutcomeGone, StatusCode: 410, Error: "http_status: 410 Gone"}},
		{"429", testkit.Status(429), postrider.Attempt{Outcome: postrider.OutcomeThrottled, StatusCode: 429, Error: "http_status: 429 Too Many Requests"}},
		{"429 that says for how long", testkit.RetryAfter(429, time.Minute), postrider.Attempt{
			Outcome: postrider.OutcomeThrottled, StatusCode: 429, Error: "http_status: 429 Too Many Requests", RetryAfter: time.Minute,
		}},
		{"503", testkit.Status(503), postrider.Attempt{Outcome: postrider.OutcomeRejected, StatusCode: 503, Error: "http_status: 503 Service Unavailable"}},
		{"503 that says for how long", testkit.RetryAfter(503, time.Minute), postrider.Attempt{
			Outcome: postrider.OutcomeThrottled, StatusCode: 503, Error: "http_status: 503 Service Unavailable", RetryAfter: time.Minute,
		}},
		{"500 that says for how long", testkit.RetryAfter(500, time.Minute), postrider.Attempt{
			Outcome: postrider.OutcomeRejected, StatusCode: 500, Error: "http_status: 500 Internal Server Error",
		}},
		{"302", func(w http.ResponseWriter, _ testkit.Request) {
			w.Header().Set("Location", "https://u:p@Other.example/path?token=1")
			w.WriteHeader(302)
		}, postrider.Attempt{Outcome: postrider.OutcomeRejected, StatusCode: 302, Error: "redirect: to other.example"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := testkit.NewReceiver(t, tt.answer)
			a := send(t, e, routed(r.URL), testkit.Patience)
			got := postrider.Attempt{Outcome: a.Outcome, StatusCode: a.StatusCode, Error: a.Error, RetryAfter: a.RetryAfter}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("attempt (-want +got):\n%s", diff)
			}
			if n := len(r.Requests()); n != 1 {
				t.Errorf("%d requests, want 1", n)
			}
		})
	}
}

func TestBodyIsCut(t *testing.T) {
	t.Parallel()
	e := open(t, laptop())
	for _, tt := range []struct {
		name       string
		sent, kept int
	}{
		{"none", 0, 0},
		{"small", 100, 100},
		{"as much as is kept", 16 << 10, 16 << 10},
		{"a little more", 20 << 10, 16 << 10},
		{"much more", 1 << 20, 16 << 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := testkit.NewReceiver(t, func(w http.ResponseWriter, _ testkit.Request) {
				// Fails where the sender has had enough.
				_, _ = w.Write(bytes.Repeat([]byte("x"), tt.sent))
			})
			a := send(t, e, routed(r.URL), testkit.Patience)
			if a.Outcome != postrider.OutcomeAccepted || len(a.ResponseBody) != tt.kept {
				t.Errorf("outcome %s, kept %d bytes; want accepted, %d", a.Outcome, len(a.ResponseBody), tt.kept)
			}
		})
	}
}

func TestNothingIsSentUnsigned(t *testing.T) {
	t.Parallel()
	r := testkit.NewReceiver(t, testkit.Status(200))
	a := send(t, open(t, laptop()), routed(r.URL, func(r *store.Routed) { r.Secrets = nil }), testkit.Patience)
	if a.Outcome != postrider.OutcomeUnreachable || a.Error != "no_active_secret" || len(r.Requests()) != 0 {
		t.Errorf("outcome %s, error %q, %d requests", a.Outcome, a.Error, len(r.Requests()))
	}
}

func TestCanceledAttemptEndsAtOnce(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	r := testkit.NewReceiver(t, func(http.ResponseWriter, testkit.Request) {
		cancel() // the request has arrived
		<-t.Context().Done()
	})
	a := open(t, laptop()).Send(ctx, claimed(event(`{}`)), routed(r.URL))
	if a.Outcome != postrider.OutcomeBroken || a.Error != "canceled" {
		t.Errorf("outcome %s, error %q; want broken, canceled", a.Outcome, a.Error)
	}
}
