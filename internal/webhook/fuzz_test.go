package webhook_test

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/egress"
	"github.com/postrider/postrider/internal/webhook"
	"github.com/postrider/postrider/signature"
)

// FuzzRequest parses the written request with net/http and compares it with its source.
func FuzzRequest(f *testing.F) {
	f.Add("/hooks?a=b", "order.created", "2026-01", []byte(`{"a":1}`), int64(0), uint16(1))
	f.Add("", "a", "\r\nX: y", []byte(`"\r\n"`), int64(7), uint16(0x100))
	f.Add("/%0d%0a{}?x y", "a b", "", []byte("\r\n\r\n"), int64(-1), uint16(0x3ff))
	e := openWith(f, egress.Options{Reach: egress.Reach{AllowHTTP: true}}, glass{}, webhook.Options{UserAgent: "Postrider\r\nX-Evil: 1"})
	f.Fuzz(func(t *testing.T, path, kind, version string, data []byte, sequence int64, which uint16) {
		checked, err := e.CheckURL("http://receiver.example:8080" + path)
		if err != nil {
			return
		}
		ev := event(string(data))
		ev.Type, ev.APIVersion, ev.Sequence = kind, version, sequence
		c, to := claimed(ev), routed(checked, signedBy(chosen(which)...))
		if which&0x200 != 0 {
			to.Endpoint.Policy.Payload = postrider.PayloadRaw
		}
		built, err := e.Build(&c, &to, time.Unix(1760000000, 0))
		if err != nil {
			return // the type cannot be a header value
		}
		defer built.Release()
		req, body := parse(t, built.Bytes)
		if to.Endpoint.Policy.Payload == postrider.PayloadRaw && !bytes.Equal(body, data) {
			t.Errorf("raw body = %q, want %q", body, data)
		}
		u, err := url.Parse(checked)
		if err != nil || req.Method != http.MethodPost || req.RequestURI != u.RequestURI() || req.Host != "receiver.example:8080" || req.Close {
			t.Errorf("%s %s to %s, close %t, %v", req.Method, req.RequestURI, req.Host, req.Close, err)
		}
		checkHeader(t, req.Header, body, to.Endpoint.Policy.Signatures)
		line, _, _ := bytes.Cut(built.Redacted, []byte("\r\n"))
		if _, query, ok := bytes.Cut(line, []byte("?")); ok && string(query) != "... HTTP/1.1" {
			t.Errorf("%q is kept", line)
		}
	})
}

// parse reads a whole request with net/http.
func parse(t *testing.T, raw []byte) (*http.Request, []byte) {
	t.Helper()
	rest := bufio.NewReader(bytes.NewReader(raw))
	req, err := http.ReadRequest(rest)
	if err != nil {
		t.Fatalf("net/http refuses %q: %v", raw, err)
	}
	body, err := io.ReadAll(req.Body)
	if err != nil || rest.Buffered() > 0 || int64(len(body)) != req.ContentLength {
		t.Errorf("body: %v, %d bytes of %d, %d left", err, len(body), req.ContentLength, rest.Buffered())
	}
	return req, body
}

// chosen returns the schemes whose bits are set.
func chosen(which uint16) (schemes []postrider.Scheme) {
	for i, s := range postrider.Schemes {
		if which>>i&1 != 0 {
			schemes = append(schemes, s)
		}
	}
	return schemes
}

// ours matches the names of header fields that are sent in every request, in lower case.
var ours = regexp.MustCompile(`^(user-agent|content-type|content-length|webhook-.*|svix-.*|stripe-signature|x-(hub|github|shopify|slack|webhook)-.*|x-event-id|x-idempotency-key)$`)

func checkHeader(t *testing.T, h http.Header, body []byte, signatures []postrider.Signature) {
	t.Helper()
	for name, values := range h {
		if !ours.MatchString(strings.ToLower(name)) || len(values) != 1 {
			t.Errorf("%s: %q", name, values)
		}
	}
	if h.Get("Webhook-Id") != event("").ID.String() || h.Get("Content-Type") != "application/json" || h.Get("Webhook-Hops") != "1" {
		t.Errorf("header %v", h)
	}
	for _, s := range signatures {
		format := signature.Format{Scheme: signature.Scheme(s.Scheme), Header: s.Header, Prefix: s.Prefix}
		v := signature.Verifier{Format: format, Keys: []signature.Key{{Secret: secretOf(1)}}}
		if err := v.Verify(h, body, time.Unix(1760000000, 0)); err != nil {
			t.Errorf("%s: %v", s.Scheme, err)
		}
	}
}

// FuzzHeaders lets the owner of an endpoint choose names and values. A strict parser must find
// exactly these in the request, or nothing may be sent.
func FuzzHeaders(f *testing.F) {
	f.Add("X-Env", "test", "X-Signature", "sha256=", "user", "secret")
	f.Add("X-Env\r\nX-Evil", "a\r\nX-Evil: 1", "X-A: b", " ", "a:b", "\n")
	f.Add("Host", "evil", "Content-Length", "0\r\n", "", "")
	f.Add("x-env", "", "X-Env", "", "\xff", "\x00")
	f.Add("X-A", "1", "WeBhook-Id", "", "u", "p")
	f.Add("X-A", "1", "Transfer-Encoding", "", "u", "p")
	f.Add("X-GitHub-Event", "push", "Webhook-Id", "", "u", "p")
	e := open(f, egress.Options{Reach: egress.Reach{AllowHTTP: true}})
	f.Fuzz(func(t *testing.T, name, value, header, prefix, user, secret string) {
		c := claimed(event(`{}`))
		build := func(secret string) (webhook.Built, error) {
			to := routed("http://receiver.example:8080/?q",
				credentials(postrider.Credentials{Headers: map[string]string{"X-Hidden": secret}, Auth: secret}),
				policy(func(p *postrider.Policy) {
					p.Headers = []postrider.Header{{Name: name, Value: value}, {Name: "X-Hidden", Secret: true}}
					p.Signatures = []postrider.Signature{{Scheme: postrider.SchemeGitHub, Header: header, Prefix: prefix}}
					p.Auth = postrider.Auth{Kind: postrider.AuthBasic, User: user}
				}))
			return e.Build(&c, &to, time.Unix(1760000000, 0))
		}
		built, err := build(secret)
		if err != nil {
			return
		}
		defer built.Release()
		req, body := parse(t, built.Bytes)
		want := map[string]string{name: value, "X-Hidden": secret}
		for n, v := range want {
			if got := req.Header.Values(n); len(got) != 1 || got[0] != v {
				t.Errorf("%q: %q, want %q", n, got, v)
			}
			req.Header.Del(n)
		}
		if u, p, ok := req.BasicAuth(); !ok || u+":"+p != user+":"+secret {
			t.Errorf("basic %q:%q, want %q:%q", u, p, user, secret)
		}
		req.Header.Del("Authorization")
		v := signature.Verifier{
			Format: signature.Format{Scheme: signature.GitHub, Header: header, Prefix: prefix},
			Keys:   []signature.Key{{Secret: secretOf(1)}},
		}
		if err := v.Verify(req.Header, body, time.Unix(1760000000, 0)); err != nil {
			t.Errorf("signature %q %q: %v", header, prefix, err)
		}
		if header != "" {
			req.Header.Del(header)
		}
		checkHeader(t, req.Header, body, nil)
		other, err := build("another secret")
		if err != nil {
			t.Fatal(err)
		}
		defer other.Release()
		if !bytes.Equal(built.Redacted, other.Redacted) {
			t.Errorf("what is kept tells %q from another secret: %q, not %q", secret, built.Redacted, other.Redacted)
		}
	})
}
