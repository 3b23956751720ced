package webhook_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/testkit"
	"github.com/postrider/postrider/internal/webhook"
	"github.com/postrider/postrider/signature"
)

// auth returns a change that sets the authentication and its secret.
func auth(a postrider.Auth, secret string) func(*store.EndpointSnapshot) {
	return func(r *store.EndpointSnapshot) {
		r.Endpoint.Policy.Auth = a
		credentials(postrider.Credentials{Auth: secret})(r)
	}
}

func TestAuthentication(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, secret string
		auth         postrider.Auth
		header, want string
	}{
		{"none", "canary", postrider.Auth{Kind: postrider.AuthNone}, "Authorization", ""},
		{
			"basic", "canary:ö",
			postrider.Auth{Kind: postrider.AuthBasic, User: "u"},
			"Authorization",
			"Basic " + base64.StdEncoding.EncodeToString([]byte("u:canary:ö")),
		},
		{"basic without a password", "", postrider.Auth{Kind: postrider.AuthBasic, User: "u"}, "Authorization", "Basic dTo="},
		{"bearer", "canary", postrider.Auth{Kind: postrider.AuthBearer}, "Authorization", "Bearer canary"},
		{"an API key", "canary", postrider.Auth{Kind: postrider.AuthAPIKey, Header: "X-API-Key"}, "X-Api-Key", "canary"},
		{"an API key in Authorization", "canary", postrider.Auth{Kind: postrider.AuthAPIKey, Header: "authorization"}, "Authorization", "canary"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := testkit.NewReceiver(t, testkit.Status(400))
			a := send(t, open(t, laptop()), routed(r.URL, auth(tt.auth, tt.secret)), testkit.Patience)
			if got := strings.Join(r.Only(t).Header.Values(tt.header), "|"); got != tt.want {
				t.Errorf("%s: %q, want %q", tt.header, got, tt.want)
			}
			if head := string(a.RequestHead); head == "" || strings.Contains(head, "canary") || !strings.Contains(head, tt.header+": ***\r\n") &&
				!strings.Contains(head, tt.auth.Header+": ***\r\n") {
				t.Errorf("kept %q", head)
			}
		})
	}
}

// TestBadHeadersAreNotSent changes stored values, which only the last check before the request
// checks again.
func TestBadHeadersAreNotSent(t *testing.T) {
	t.Parallel()
	headers := func(list ...postrider.Header) func(*store.EndpointSnapshot) {
		return policy(func(p *postrider.Policy) { p.Headers = list })
	}
	github := postrider.Signature{Scheme: postrider.SchemeGitHub}
	for name, change := range map[string]func(*store.EndpointSnapshot){
		"a line end in a name":   headers(postrider.Header{Name: "X-A\r\nX-B", Value: "canary"}),
		"a line end in a value":  headers(postrider.Header{Name: "X-A", Value: "canary\r\nX-Evil: 1"}),
		"a line feed in a value": headers(postrider.Header{Name: "X-A", Value: "canary\nX-Evil: 1"}),
		"NUL":                    headers(postrider.Header{Name: "X-A", Value: "canary\x00"}),
		"a space at the end":     headers(postrider.Header{Name: "X-A", Value: "canary "}),
		"not ASCII":              headers(postrider.Header{Name: "X-A", Value: "canary\xff"}),
		"an empty name":          headers(postrider.Header{Name: "", Value: "canary"}),
		"a colon in a name":      headers(postrider.Header{Name: "X-A:", Value: "canary"}),
		"Host":                   headers(postrider.Header{Name: "Host", Value: "canary"}),
		"content-length":         headers(postrider.Header{Name: "content-LENGTH", Value: "0"}),
		"transfer-encoding":      headers(postrider.Header{Name: "Transfer-Encoding", Value: "chunked"}),
		"connection":             headers(postrider.Header{Name: "Connection", Value: "close"}),
		"expect":                 headers(postrider.Header{Name: "Expect", Value: "100-continue"}),
		"a webhook header":       headers(postrider.Header{Name: "Webhook-Hops", Value: "0"}),
		"a proxy header":         headers(postrider.Header{Name: "Proxy-Authorization", Value: "canary"}),
		"a second tracestate": func(r *store.EndpointSnapshot) {
			r.Endpoint.Policy.SendTraceParent = true
			headers(postrider.Header{Name: "Tracestate", Value: "canary"})(r)
		},
		"a second traceparent": func(r *store.EndpointSnapshot) {
			r.Endpoint.Policy.SendTraceParent = true
			headers(postrider.Header{Name: "Traceparent", Value: "canary"})(r)
		},
		"one twice": headers(postrider.Header{Name: "X-A", Value: "1"}, postrider.Header{Name: "x-a", Value: "2"}),
		"one of a scheme": func(r *store.EndpointSnapshot) {
			r.Endpoint.Policy.Signatures = []postrider.Signature{github}
			headers(postrider.Header{Name: "X-GitHub-Event", Value: "canary"})(r)
		},
		"a signature's own": func(r *store.EndpointSnapshot) {
			r.Endpoint.Policy.Signatures = []postrider.Signature{{Scheme: postrider.SchemePlain, Header: "X-Sum"}}
			headers(postrider.Header{Name: "x-sum", Value: "canary"})(r)
		},
		"a signature in ours": func(r *store.EndpointSnapshot) {
			r.Endpoint.Policy.Signatures[0] = postrider.Signature{Scheme: postrider.SchemePlain, Header: "webhook-id"}
		},
		"a signature in the framing": func(r *store.EndpointSnapshot) {
			r.Endpoint.Policy.Signatures[0] = postrider.Signature{Scheme: postrider.SchemePlain, Header: "Content-Length"}
		},
		"a signature in a bad header": func(r *store.EndpointSnapshot) {
			r.Endpoint.Policy.Signatures[0] = postrider.Signature{Scheme: postrider.SchemePlain, Header: "X: "}
		},
		"a signature behind a bad prefix": func(r *store.EndpointSnapshot) {
			r.Endpoint.Policy.Signatures[0] = postrider.Signature{Scheme: postrider.SchemePlain, Header: "X-A", Prefix: "\r\n"}
		},
		"a line end in a token": auth(postrider.Auth{Kind: postrider.AuthBearer}, "canary\r\nX-Evil: 1"),
		"no token":              auth(postrider.Auth{Kind: postrider.AuthBearer}, ""),
		"a key in Host":         auth(postrider.Auth{Kind: postrider.AuthAPIKey, Header: "Host"}, "canary"),
		"a key where a header is": func(r *store.EndpointSnapshot) {
			headers(postrider.Header{Name: "X-K", Value: "1"})(r)
			auth(postrider.Auth{Kind: postrider.AuthAPIKey, Header: "X-k"}, "canary")(r)
		},
		"no signature":                      signedBy(),
		"a kind that is none":               auth(postrider.Auth{Kind: "digest"}, "canary"),
		"more than a receiver would read":   headers(many(40, "x")...),
		"larger than a receiver would read": headers(many(8, strings.Repeat("x", 4<<10))...),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := testkit.NewReceiver(t, testkit.Status(200))
			log := new(bytes.Buffer)
			logged := webhook.Options{Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
			a := send(t, openWith(t, laptop(), glass{}, logged), routed(r.URL, change), testkit.Patience)
			known := a.Error == "invalid_headers" || a.Error == "no_active_secret"
			if a.Outcome != postrider.OutcomeUnreachable || !known || len(r.Requests()) != 0 {
				t.Errorf("outcome %s, error %q, %d requests", a.Outcome, a.Error, len(r.Requests()))
			}
			if strings.Contains(log.String(), "canary") {
				t.Errorf("log: %s", log)
			}
		})
	}
}

// TestLargestCredentialsAreSent: the largest policy and credentials that can be stored fit into a
// request.
func TestLargestCredentialsAreSent(t *testing.T) {
	t.Parallel()
	longest := strings.Repeat("x", 4<<10)
	for name, a := range map[string]postrider.Auth{
		"basic":   {Kind: postrider.AuthBasic, User: longest},
		"bearer":  {Kind: postrider.AuthBearer},
		"API key": {Kind: postrider.AuthAPIKey, Header: "X-Key"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := testkit.NewReceiver(t, testkit.Status(200))
			headers := policy(func(p *postrider.Policy) { p.Headers = many(2, longest[:len(longest)-8]) })
			to := routed(r.URL, auth(a, longest), headers, func(r *store.EndpointSnapshot) { r.Endpoint.Policy.Auth = a })
			if err := to.Endpoint.Policy.Check(); err != nil {
				t.Fatal(err)
			}
			if a := send(t, open(t, laptop()), to, testkit.Patience); a.Outcome != postrider.OutcomeAccepted {
				t.Errorf("outcome %s, error %q", a.Outcome, a.Error)
			}
		})
	}
}

func many(n int, value string) (list []postrider.Header) {
	for i := range n {
		list = append(list, postrider.Header{Name: "X-" + strings.Repeat("a", i+1), Value: value})
	}
	return list
}

// stuckVault is a vault that fails to decrypt.
type stuckVault struct{ secret, credentials error }

func (v stuckVault) DecryptSecret(_ context.Context, s postrider.Secret) (string, error) {
	return string(s.Encrypted), v.secret
}

func (v stuckVault) DecryptCredentials(context.Context, postrider.Endpoint) (postrider.Credentials, error) {
	return postrider.Credentials{}, v.credentials
}

// TestWhatCannotBeOpenedIsPostponed has secrets that cannot be read. Nothing is sent. Because only
// an operator can repair that, it counts as no attempt.
func TestWhatCannotBeOpenedIsPostponed(t *testing.T) {
	t.Parallel()
	lost := errors.New("key is unknown")
	hidden := policy(func(p *postrider.Policy) { p.Headers = []postrider.Header{{Name: "X-Hidden", Secret: true}} })
	for name, tt := range map[string]struct {
		vault  stuckVault
		change func(*store.EndpointSnapshot)
	}{
		"a secret":              {stuckVault{secret: lost}, func(*store.EndpointSnapshot) {}},
		"the credentials":       {stuckVault{credentials: lost}, func(*store.EndpointSnapshot) {}},
		"no value of a header":  {stuckVault{}, hidden},
		"something else inside": {stuckVault{}, func(r *store.EndpointSnapshot) { r.Secrets[0].Encrypted = []byte("canary") }},
		"one secret of several": {stuckVault{}, func(r *store.EndpointSnapshot) {
			r.Secrets = append(r.Secrets, postrider.Secret{ID: postrider.SecretID{2}})
		}},
		"a misspelt private key": {
			stuckVault{},
			func(r *store.EndpointSnapshot) { r.Secrets[0].Encrypted = []byte("whsk_canarycanarycanarycanary") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := testkit.NewReceiver(t, testkit.Status(200))
			log := new(bytes.Buffer)
			e := openWith(t, laptop(), tt.vault, webhook.Options{Log: slog.New(slog.NewTextHandler(log, nil))})
			a := send(t, e, routed(r.URL, tt.change), testkit.Patience)
			if a.Outcome != postrider.OutcomePostponed || a.Error != "secret_unavailable" || len(r.Requests()) != 0 {
				t.Errorf("outcome %s, error %q, %d requests", a.Outcome, a.Error, len(r.Requests()))
			}
			if text := log.String(); !strings.Contains(text, "level=ERROR") || strings.Contains(text, "canary") {
				t.Errorf("log: %s", text)
			}
		})
	}
}

// The libraries of a scheme get the headers that they want. A header of the endpoint wins.
func TestSchemesHavePresets(t *testing.T) {
	t.Parallel()
	account := postrider.AccountID{5}
	e := open(t, laptop())
	for _, tt := range []struct {
		name   string
		change func(*store.EndpointSnapshot)
		want   map[string]string
	}{
		{"github", signedBy(postrider.SchemeGitHub), map[string]string{
			"X-GitHub-Event": "order.created", "X-GitHub-Hook-ID": postrider.EndpointID{7, 8, 9}.String(), "X-Shopify-Shop-Domain": "",
		}},
		{"both of github", signedBy(postrider.SchemeGitHubSHA1, postrider.SchemeGitHub), map[string]string{
			"X-GitHub-Hook-ID": postrider.EndpointID{7, 8, 9}.String(),
		}},
		{"shopify", signedBy(postrider.SchemeShopify), map[string]string{
			"X-Shopify-Topic": "order.created", "X-Shopify-Shop-Domain": account.String(), "X-Shopify-API-Version": "unstable",
			"X-GitHub-Hook-ID": "",
		}},
		{"shopify with a header of the endpoint", func(r *store.EndpointSnapshot) {
			signedBy(postrider.SchemeShopify)(r)
			r.Endpoint.Policy.Headers = []postrider.Header{{Name: "x-shopify-shop-domain", Value: "acme.myshopify.com"}}
		}, map[string]string{"X-Shopify-Shop-Domain": "acme.myshopify.com", "X-Shopify-API-Version": "unstable"}},
		{"another scheme", signedBy(postrider.SchemeStripe), map[string]string{"X-GitHub-Hook-ID": "", "X-Shopify-API-Version": ""}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := testkit.NewReceiver(t, testkit.Status(500))
			to := routed(r.URL, tt.change, func(to *store.EndpointSnapshot) { to.Endpoint.Account = account })
			a := send(t, e, to, testkit.Patience)
			got := r.Only(t).Header
			for name, value := range tt.want {
				if all := got.Values(name); len(all) > 1 || got.Get(name) != value {
					t.Errorf("%s: %q, want %q", name, all, value)
				}
				line := "\r\n" + strings.ToLower(name+": "+value) + "\r\n"
				if value != "" && !strings.Contains(strings.ToLower(string(a.RequestHead)), line) {
					t.Errorf("%q is not recorded in %q", line, a.RequestHead)
				}
			}
		})
	}
}

func TestOnlyHarmlessHeadersAreKept(t *testing.T) {
	t.Parallel()
	r := testkit.NewReceiver(t, testkit.Status(500))
	a := send(t, open(t, laptop()), routed(r.URL+"/?canary", following(0), func(to *store.EndpointSnapshot) {
		to.Endpoint.Policy.Signatures[2] = postrider.Signature{Scheme: postrider.SchemeGitHub, Header: "X-Sum", Prefix: "canary="}
	}), testkit.Patience)
	if r.Only(t).Header.Get("X-Sum") == "" {
		t.Error("the scheme's own header was not sent")
	}
	head := string(a.RequestHead)
	for _, secret := range []string{"canary-hidden", "canary-token", "canary=", "?canary", "v1,", "v1=", "v0=", "sha256="} {
		if strings.Contains(head, secret) {
			t.Errorf("%q is kept in %q", secret, head)
		}
	}
	for _, harmless := range []string{
		"X-Env: canary-plain\r\n", "Webhook-Hops: 1\r\n", "X-GitHub-Event: order.created\r\n", "Svix-Id: evt_",
		"X-Sum: ***\r\n", "Svix-Signature: ***\r\n",
	} {
		if !strings.Contains(strings.ToLower(head), strings.ToLower(harmless)) {
			t.Errorf("%q is not kept in %q", harmless, head)
		}
	}
}

func TestHopsAreCounted(t *testing.T) {
	t.Parallel()
	r := testkit.NewReceiver(t, testkit.Status(200))
	e := event(`{}`)
	e.Hops = 6
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	open(t, laptop()).Send(ctx, claimed(e), routed(r.URL))
	if got := r.Only(t).Header.Get("Webhook-Hops"); got != "7" {
		t.Errorf("Webhook-Hops: %q, want 7", got)
	}
}

// TestTheTraceIsSentWhereTheEndpointAsks sends events with and without a producer's trace.
func TestTheTraceIsSentWhereTheEndpointAsks(t *testing.T) {
	t.Parallel()
	parent, _ := postrider.ParseTraceParent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	asks := policy(func(p *postrider.Policy) { p.SendTraceParent = true })
	for _, sampled := range []bool{false, true} {
		e, flags := open(t, laptop()), "00"
		if sampled {
			e, flags = openWith(t, laptop(), glass{}, webhook.Options{Sampled: func(postrider.EventID) bool { return true }}), "01"
		}
		for _, from := range []postrider.TraceParent{{}, parent} {
			r := testkit.NewReceiver(t, testkit.Status(500))
			c := claimed(event(`{}`))
			var state []string
			if c.Event.TraceParent = from; !from.IsZero() {
				c.Event.TraceState, state = "a=1,b=2", []string{"a=1,b=2"}
			}
			want := "00-" + c.Event.Trace().String() + "-"
			for attempt := range 2 {
				c.Attempt = attempt + 1
				a := reject(t, e, c, routed(r.URL, asks))
				line := want + postrider.AttemptSpan(c.ID, c.Attempt).String() + "-" + flags
				if got := r.Requests()[attempt].Header; !slices.Equal(got["Traceparent"], []string{line}) || !slices.Equal(got["Tracestate"], state) {
					t.Errorf("traceparent %q, tracestate %q, want %q and %q", got["Traceparent"], got["Tracestate"], line, state)
				}
				if !strings.Contains(string(a.RequestHead), "traceparent: "+line) {
					t.Errorf("the recorded head has no traceparent:\n%s", a.RequestHead)
				}
			}
			if reject(t, e, c, routed(r.URL)); r.Requests()[2].Header["Traceparent"] != nil || r.Requests()[2].Header["Tracestate"] != nil {
				t.Error("an endpoint that does not ask gets the trace")
			}
		}
	}
}

// reject makes the attempt of a delivery. Its receiver rejects it, so that the head of the request
// is recorded.
func reject(t *testing.T, e *door, c postrider.Claimed, to store.EndpointSnapshot) postrider.Attempt {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	a := e.Send(ctx, c, to)
	if a.StatusCode != 500 {
		t.Fatalf("attempt: %+v", a)
	}
	return a
}

// TestCompression: the signature is of the body before compression.
func TestCompression(t *testing.T) {
	t.Parallel()
	for _, data := range []string{`{}`, kilobyte, `"` + strings.Repeat("hello ", 50000) + `"`} {
		for _, payload := range []postrider.Payload{postrider.PayloadEnvelope, postrider.PayloadRaw} {
			r := testkit.NewReceiver(t, testkit.Status(200))
			e := open(t, laptop())
			to := routed(r.URL, policy(func(p *postrider.Policy) { p.Compression, p.Payload = postrider.CompressionGzip, payload }))
			ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
			e.Send(ctx, claimed(event(data)), to)
			to.Endpoint.Policy.Compression, to.Endpoint.Revision = postrider.CompressionNone, revisions.Add(1)
			e.Send(ctx, claimed(event(data)), to)
			cancel()
			small, plain := r.Requests()[0], r.Requests()[1]
			unpacked := gunzip(t, small.Body)
			if small.Header.Get("Content-Encoding") != "gzip" || plain.Header.Get("Content-Encoding") != "" || !bytes.Equal(unpacked, plain.Body) {
				t.Errorf("%s: %d bytes unpack to %d, want %d", small.Header.Get("Content-Encoding"), len(small.Body), len(unpacked), len(plain.Body))
			}
			v := signature.Verifier{Keys: []signature.Key{{Secret: secretOf(1)}}}
			if err := v.Verify(small.Header, unpacked, time.Now()); err != nil {
				t.Error(err)
			}
			if len(data) > 1000 && len(small.Body)*4 > len(data) {
				t.Errorf("%d bytes became %d", len(data), len(small.Body))
			}
		}
	}
}

func gunzip(t *testing.T, body []byte) []byte {
	t.Helper()
	in, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	unpacked, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	return unpacked
}

// TestPromise4WhatIsStoredIsWhatIsSent sends raw events with many kinds of bytes.
func TestPromise4WhatIsStoredIsWhatIsSent(t *testing.T) {
	t.Parallel()
	var last []byte
	r := testkit.NewReceiver(t, func(_ http.ResponseWriter, got testkit.Request) { last = got.Body })
	e := open(t, laptop())
	for i := range 2000 {
		data := randomJSON(i)
		ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
		a := e.Send(ctx, claimed(event(data)), routed(r.URL, raw))
		cancel()
		if a.Error != "" || string(last) != data {
			t.Fatalf("sent %q, stored %q: %s", last, data, a.Error)
		}
	}
}

// randomJSON returns JSON texts that would change if they were decoded and encoded again.
func randomJSON(seed int) string {
	random := rand.New(rand.NewPCG(uint64(seed), 1))
	pieces := []string{
		`"\u0000"`, `1e400`, `1.00`, "\"\xff\"", `"\ud800"`, `{"a":1,"a":2}`, " [ ]\n", `"<>&"`, `12345678901234567890`,
		"\t{ }", `"é\u00e9"`,
	}
	var b strings.Builder
	b.WriteByte('[')
	for i := range random.IntN(20) {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(pieces[random.IntN(len(pieces))])
	}
	b.WriteByte(']')
	return b.String()
}
