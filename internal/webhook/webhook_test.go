package webhook_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/egress"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/testkit"
	"github.com/postrider/postrider/internal/webhook"
	"github.com/postrider/postrider/signature"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// laptop returns options that allow requests to the receivers of these tests.
func laptop() egress.Options {
	return egress.Options{Reach: egress.Reach{AllowHTTP: true, AnyPort: true, Allow: loopback}}
}

// door is a sender, with the egress through which it sends.
type door struct {
	*egress.Egress
	*webhook.Sender
}

// Send makes an attempt of a delivery. It copies the snapshot, because the test may change it
// afterwards. It passes the deadline of the context as an argument, and a context without a
// deadline, as in production.
func (d *door) Send(ctx context.Context, c postrider.Claimed, to store.EndpointSnapshot) postrider.Attempt {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(testkit.Patience)
	}
	plain, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.Canceled) {
			cancel()
		}
	})
	defer stop()
	return d.Sender.Send(plain, deadline, &c, &to)
}

func open(tb testing.TB, opts egress.Options) *door {
	tb.Helper()
	return openWith(tb, opts, glass{}, webhook.Options{})
}

func openWith(tb testing.TB, opts egress.Options, vault webhook.Vault, more webhook.Options) *door {
	tb.Helper()
	e := egress.New(opts)
	tb.Cleanup(e.Close)
	return &door{e, webhook.New(e, vault, more)}
}

// glass is a vault whose secrets are not encrypted.
type glass struct{}

// DecryptSecret returns the bytes of the secret as text.
func (glass) DecryptSecret(_ context.Context, s postrider.Secret) (string, error) {
	return string(s.Encrypted), nil
}

// DecryptCredentials reads the result of credentials.
func (glass) DecryptCredentials(_ context.Context, e postrider.Endpoint) (c postrider.Credentials, err error) {
	if e.Credentials != nil {
		err = json.Unmarshal(e.Credentials, &c)
	}
	return c, err
}

// credentials returns a change that gives the endpoint these credentials.
func credentials(c postrider.Credentials) func(*store.EndpointSnapshot) {
	return func(r *store.EndpointSnapshot) {
		var err error
		if r.Endpoint.Credentials, err = json.Marshal(c); err != nil {
			panic(err) // cannot happen: the value has only texts
		}
	}
}

// policy returns a change of the endpoint's policy.
func policy(change func(*postrider.Policy)) func(*store.EndpointSnapshot) {
	return func(r *store.EndpointSnapshot) { change(&r.Endpoint.Policy) }
}

// secretOf returns a secret whose key is the byte, 32 times.
func secretOf(b byte) signature.Secret {
	secret, err := signature.ParseSecret("whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, 32)))
	if err != nil {
		panic(err) // cannot happen
	}
	return secret
}

// encrypted returns the secret of the byte in the form in which an endpoint has it.
func encrypted(id, b byte) postrider.Secret {
	return postrider.Secret{ID: postrider.SecretID{id}, Encrypted: []byte(secretOf(b).Text())}
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

// revisions counts the endpoints of all tests. Each has its own revision, because all have the same
// id.
var revisions atomic.Int64

// routed returns an endpoint with a secret, to which all changes were applied.
func routed(url string, changes ...func(*store.EndpointSnapshot)) store.EndpointSnapshot {
	r := store.EndpointSnapshot{
		Endpoint: postrider.Endpoint{
			ID: postrider.EndpointID{7, 8, 9}, URL: url, Policy: postrider.DefaultPolicy(), Revision: revisions.Add(1),
		},
		Secrets: []postrider.Secret{encrypted(1, 1)},
	}
	for _, change := range changes {
		change(&r)
	}
	return r
}

func raw(r *store.EndpointSnapshot) { r.Endpoint.Policy.Payload = postrider.PayloadRaw }

func signedBy(schemes ...postrider.Scheme) func(*store.EndpointSnapshot) {
	return func(r *store.EndpointSnapshot) {
		r.Endpoint.Policy.Signatures = nil
		for _, s := range schemes {
			r.Endpoint.Policy.Signatures = append(r.Endpoint.Policy.Signatures, postrider.Signature{Scheme: s})
		}
	}
}

// send makes one attempt, with a deadline.
func send(tb testing.TB, e *door, to store.EndpointSnapshot, within time.Duration) postrider.Attempt {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), within)
	defer cancel()
	return e.Send(ctx, claimed(event(`{"order_id":42}`)), to)
}

// sendUntil makes attempts with longer and longer deadlines, each twice as long, until an attempt
// gets as far as the test needs before its deadline. On a busy machine that may take a while. It
// returns the attempt and its deadline.
func sendUntil(tb testing.TB, e *door, to store.EndpointSnapshot, reached func(postrider.Attempt) bool) (a postrider.Attempt,
	within time.Duration,
) {
	tb.Helper()
	for within = slow; ; within *= 2 {
		if a = send(tb, e, to, within); reached(a) || within > testkit.Patience {
			return a, within
		}
	}
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
	if request := r.Only(t); request.Target != "/hooks?token=canary" || request.Method != http.MethodPost {
		t.Errorf("received %s %s", request.Method, request.Target)
	}
	got.StartedAt, got.Duration, got.Timing = time.Time{}, 0, postrider.Timing{}
	want := postrider.Attempt{
		Delivery: postrider.DeliveryID{4, 5, 6}, Event: postrider.EventID{1, 2, 3}, Endpoint: postrider.EndpointID{7, 8, 9},
		Number: 3, Outcome: postrider.OutcomeAccepted, StatusCode: 200, ResponseBody: []byte("thanks"),
		ResponseHead: []byte("HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("attempt (-want +got):\n%s", diff)
	}
}

func TestSequenceIsSent(t *testing.T) {
	t.Parallel()
	r := testkit.NewReceiver(t, testkit.Status(200))
	e, ev := open(t, laptop()), event(`{}`)
	for _, ev.Sequence = range []int64{0, 1, math.MaxInt64} {
		ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
		e.Send(ctx, claimed(ev), routed(r.URL))
		cancel()
	}
	var got []string
	for _, request := range r.Requests() {
		got = append(got, strings.Join(request.Header.Values("webhook-sequence"), " "))
	}
	if diff := cmp.Diff([]string{"", "1", "9223372036854775807"}, got); diff != "" {
		t.Errorf("webhook-sequence (-want +got):\n%s", diff)
	}
}

// TestEndpointsChange: cached data of an endpoint must not be used after the endpoint has changed.
func TestEndpointsChange(t *testing.T) {
	t.Parallel()
	r := testkit.NewReceiver(t, testkit.Status(200))
	e := open(t, laptop())
	changes := []func(*store.EndpointSnapshot){
		func(*store.EndpointSnapshot) {},
		func(r *store.EndpointSnapshot) { r.Secrets[0] = encrypted(9, 9) },
		func(r *store.EndpointSnapshot) { r.Endpoint.URL += "/other" },
		signedBy(postrider.SchemeTimestamped),
	}
	for _, change := range changes {
		to := routed(r.URL, change)
		if a := send(t, e, to, testkit.Patience); a.Outcome != postrider.OutcomeAccepted {
			t.Fatalf("outcome %s, error %q", a.Outcome, a.Error)
		}
		got := r.Requests()[len(r.Requests())-1]
		if want := strings.TrimPrefix(to.Endpoint.URL, r.URL); strings.TrimPrefix(got.Target, "/") != strings.TrimPrefix(want, "/") {
			t.Errorf("sent to %q, want %q", got.Target, want)
		}
		secret := secretOf(to.Secrets[0].ID[0])
		v := signature.Verifier{
			Format: signature.Format{Scheme: signature.Scheme(to.Endpoint.Policy.Signatures[0].Scheme)},
			Keys:   []signature.Key{{Secret: secret}},
		}
		if err := v.Verify(got.Header, got.Body, got.At); err != nil {
			t.Error(err)
		}
	}
}

// TestASecretThatExpiresSignsNoMore changes only the time.
func TestASecretThatExpiresSignsNoMore(t *testing.T) {
	t.Parallel()
	r := testkit.NewReceiver(t, testkit.Status(200))
	e := open(t, laptop())
	signatures := func(to store.EndpointSnapshot) int {
		t.Helper()
		if a := send(t, e, to, testkit.Patience); a.Outcome != postrider.OutcomeAccepted {
			t.Fatalf("outcome %s, error %q", a.Outcome, a.Error)
		}
		return len(strings.Fields(r.Requests()[len(r.Requests())-1].Header.Get("Webhook-Signature")))
	}
	var to store.EndpointSnapshot
	older := encrypted(8, 8)
	for life := 50 * time.Millisecond; ; life *= 2 { // long enough for one attempt, even on a busy machine
		older.ExpiresAt = time.Now().Add(life)
		to = routed(r.URL, func(r *store.EndpointSnapshot) { r.Secrets = append(r.Secrets, older) })
		if signatures(to) == 2 {
			break
		}
		if life > testkit.Patience {
			t.Fatal("the older secret does not sign")
		}
	}
	testkit.Eventually(t, "the older secret has expired", func() bool { return time.Now().After(older.ExpiresAt) })
	if n := signatures(to); n != 1 {
		t.Errorf("%d signatures with an expired secret, want 1", n)
	}
}

func TestEnvelopeKeepsTheBytes(t *testing.T) {
	t.Parallel()
	data := "{ \"b\":1.00,\n\"a\":\"\\u0000<>\u00e9\", \"a\":1e400 }"
	for _, tt := range []struct {
		name, version, want string
	}{
		{"without a version", "", `{"id":"ID","type":"order.created","timestamp":"2026-05-04T03:02:01.123456Z","data":DATA}`},
		{
			"with a version", "2026-01",
			`{"id":"ID","type":"order.created","api_version":"2026-01","timestamp":"2026-05-04T03:02:01.123456Z","data":DATA}`,
		},
		{
			"with an odd version", "a\"\\\n",
			`{"id":"ID","type":"order.created","api_version":"a\"\\\n","timestamp":"2026-05-04T03:02:01.123456Z","data":DATA}`,
		},
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

func TestTheTimestampIsWhenTheEventOccurred(t *testing.T) {
	t.Parallel()
	e, to := open(t, laptop()), routed("http://127.0.0.1:1/")
	signedBy(postrider.SchemeShopify)(&to)
	ev := event(`{}`)
	ev.OccurredAt = ev.CreatedAt.Add(-time.Hour)
	c := claimed(ev)
	built, err := e.Build(&c, &to, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"timestamp":"` + ev.OccurredAt.Format("2006-01-02T15:04:05.000000Z") + `"`,
		"X-Shopify-Triggered-At: " + ev.OccurredAt.Format(time.RFC3339Nano),
	} {
		if !bytes.Contains(built.Bytes, []byte(want)) {
			t.Errorf("no %s in %s", want, built.Bytes)
		}
	}
}

func TestTimestampsHaveSixDigits(t *testing.T) {
	t.Parallel()
	e, to := open(t, laptop()), routed("http://127.0.0.1:1/")
	for _, at := range []time.Time{
		time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC),
		time.Date(2026, 12, 31, 23, 59, 59, 999999999, time.UTC),
		time.Date(2026, 5, 4, 3, 2, 1, 1000, time.FixedZone("", 3600)),
		time.Date(2026, 5, 4, 3, 2, 1, 50607999, time.UTC),
	} {
		ev := event(`{}`)
		ev.CreatedAt = at
		c := claimed(ev)
		built, err := e.Build(&c, &to, at)
		if err != nil {
			t.Fatal(err)
		}
		if want := at.UTC().Format("2006-01-02T15:04:05.000000Z"); !bytes.Contains(built.Bytes, []byte(want)) {
			t.Errorf("no %s in %s", want, built.Bytes)
		}
		built.Release()
	}
}

// TestARetryHasTheSameIDAndATimeOfItsOwn compares the requests of two attempts of a delivery.
func TestARetryHasTheSameIDAndATimeOfItsOwn(t *testing.T) {
	t.Parallel()
	e, to := open(t, laptop()), routed("http://127.0.0.1:1/")
	c := claimed(event(`{}`))
	var ids, times, bodies []string
	for _, at := range []time.Time{time.Unix(1777863721, 0), time.Unix(1777863726, 999999999)} {
		built, err := e.Build(&c, &to, at)
		if err != nil {
			t.Fatal(err)
		}
		head, body, _ := strings.Cut(string(built.Bytes), "\r\n\r\n")
		request, err := http.ReadRequest(bufio.NewReader(strings.NewReader(head + "\r\n\r\n")))
		if err != nil {
			t.Fatal(err)
		}
		v := signature.Verifier{Keys: []signature.Key{{Secret: secretOf(1)}}}
		if err := v.Verify(request.Header, []byte(body), at); err != nil {
			t.Error(err)
		}
		ids, times, bodies = append(ids, request.Header.Get("Webhook-Id")), append(times, request.Header.Get("Webhook-Timestamp")),
			append(bodies, body)
		built.Release()
		c.Attempt++
	}
	if ids[0] != c.Event.ID.String() || ids[1] != ids[0] || bodies[1] != bodies[0] {
		t.Errorf("ids %q, bodies %q; want the event's and the same", ids, bodies)
	}
	if want := []string{"1777863721", "1777863726"}; !slices.Equal(times, want) {
		t.Errorf("times %q, want %q", times, want)
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
	old, gone := encrypted(2, 2), encrypted(3, 3)
	old.ExpiresAt, gone.ExpiresAt = time.Now().Add(time.Hour), time.Now().Add(-time.Second)
	to := routed(r.URL, signedBy(postrider.Schemes...), func(r *store.EndpointSnapshot) { r.Secrets = append(r.Secrets, old, gone) })
	send(t, open(t, laptop()), to, testkit.Patience)

	request := r.Only(t)
	verify := func(scheme signature.Scheme, key byte) error {
		v := signature.Verifier{Format: signature.Format{Scheme: scheme}, Keys: []signature.Key{{Secret: secretOf(key)}}}
		return v.Verify(request.Header, request.Body, request.At)
	}
	for _, scheme := range signature.Schemes() {
		if err := verify(scheme, 1); err != nil {
			t.Errorf("%s with the newest secret: %v", scheme, err)
		}
	}
	if err := verify(signature.Standard, 2); err != nil {
		t.Errorf("standard with the older secret: %v", err)
	}
	if err := verify(signature.Standard, 3); err == nil {
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
		{"429", testkit.Status(429), postrider.Attempt{
			Outcome: postrider.OutcomeThrottled, StatusCode: 429,
			Error: "http_status: 429 Too Many Requests",
		}},
		{"429 that says for how long", testkit.RetryAfter(429, time.Minute), postrider.Attempt{
			Outcome: postrider.OutcomeThrottled, StatusCode: 429, Error: "http_status: 429 Too Many Requests", RetryAfter: time.Minute,
		}},
		{"503", testkit.Status(503), postrider.Attempt{
			Outcome: postrider.OutcomeThrottled, StatusCode: 503,
			Error: "http_status: 503 Service Unavailable",
		}},
		{"503 that says for how long", testkit.RetryAfter(503, time.Minute), postrider.Attempt{
			Outcome: postrider.OutcomeThrottled, StatusCode: 503, Error: "http_status: 503 Service Unavailable", RetryAfter: time.Minute,
		}},
		{"500 that says for how long", testkit.RetryAfter(500, time.Minute), postrider.Attempt{
			Outcome: postrider.OutcomeThrottled, StatusCode: 500, Error: "http_status: 500 Internal Server Error", RetryAfter: time.Minute,
		}},
		{"408 that says for how long", testkit.RetryAfter(408, time.Minute), postrider.Attempt{
			Outcome: postrider.OutcomeRejected, StatusCode: 408, Error: "http_status: 408 Request Timeout",
		}},
		{"302", func(w http.ResponseWriter, _ testkit.Request) {
			w.Header().Set("Location", "https://u:p@Other.example/path?token=1")
			w.WriteHeader(302)
		}, postrider.Attempt{Outcome: postrider.OutcomeRejected, StatusCode: 302, Error: "redirect: to https://other.example/path"}},
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
				// The write fails when the sender has read enough and closed.
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
	a := send(t, open(t, laptop()), routed(r.URL, func(r *store.EndpointSnapshot) { r.Secrets = nil }), testkit.Patience)
	if a.Outcome != postrider.OutcomeUnreachable || a.Error != "no_active_secret" || len(r.Requests()) != 0 {
		t.Errorf("outcome %s, error %q, %d requests", a.Outcome, a.Error, len(r.Requests()))
	}
}

// unsignable returns a change to a scheme in which the endpoint's only secret cannot sign.
func unsignable(tb testing.TB) func(*store.EndpointSnapshot) {
	tb.Helper()
	key, err := signature.NewPrivateKey(rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return func(r *store.EndpointSnapshot) {
		signedBy(postrider.SchemeStandard, postrider.SchemeGitHub)(r)
		r.Secrets = []postrider.Secret{{ID: postrider.SecretID{1}, Encrypted: []byte(key.Text()), Public: key.Public().Text()}}
	}
}

func TestASchemeWithoutAKeyIsNamed(t *testing.T) {
	t.Parallel()
	r := testkit.NewReceiver(t, testkit.Status(200))
	a := send(t, open(t, laptop()), routed(r.URL, unsignable(t)), testkit.Patience)
	if a.Outcome != postrider.OutcomeUnreachable || a.Error != "no_key_for_scheme" || len(r.Requests()) != 0 {
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

func TestAttemptsEndWithTheirDeadline(t *testing.T) {
	t.Parallel()
	e := open(t, laptop())
	for _, h := range testkit.Hostiles() {
		if h.Name != "read and never answer" {
			continue
		}
		url := testkit.NewHostile(t, h)
		// With http: the attempt waits for a response, with https: in the handshake.
		for _, scheme := range []string{"http:", "https:"} {
			started := time.Now()
			ctx, cancel := context.WithDeadline(t.Context(), started.Add(slow))
			a := e.Send(ctx, claimed(event(`{}`)), routed(strings.Replace(url, "http:", scheme, 1)))
			cancel()
			// May be milliseconds longer than the attempt's own duration, on a busy machine.
			took := time.Since(started)
			if a.Outcome != postrider.OutcomeTimedOut || took < slow || a.Duration > slow+grace {
				t.Errorf("%s outcome %s, error %q after %v, of which the attempt took %v", scheme, a.Outcome, a.Error, took, a.Duration)
			}
		}
	}
}
