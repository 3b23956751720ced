package egress_test

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/egress"
	"github.com/postrider/postrider/signature"
)

// stricter matches answers that we may refuse although net/http takes them:
// folded lines, other versions, statuses that are not three digits from 100
// after one space, and lengths that fill a disk.
var stricter = regexp.MustCompile(`(?m)\n[ \t]|^HTTP/[^1]|^HTTP/1\.\d ([^1-9]|.\D|..\D)|\d{19}`)

// oracle reads a head with net/http, after the interim ones.
func oracle(in *bufio.Reader) (*http.Response, error) {
	for {
		resp, err := http.ReadResponse(in, &http.Request{Method: http.MethodPost})
		if err != nil || resp.StatusCode >= 200 || resp.StatusCode == http.StatusSwitchingProtocols {
			return resp, err
		}
	}
}

// FuzzAnswer holds our reading of answers against net/http's. Ours may take
// less, and reuse a connection less often, but never the other way round.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\nok\r\n0\r\nX: y\r\n\r\n",
		"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: Chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
		"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.0 200\nTransfer-Encoding: chunked\n\nuntil the end",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 204 No\r\nContent-Length: 1\r\n\r\nx",
		"HTTP/1.1 429 Slow\r\nRetry-After: 5\r\nRetry-After: 6\r\nDate: Mon, 04 May 2026 12:01:00 GMT\r\nConnection: x, Close\r\n\r\n",
		"HTTP/1.1 302 Found\r\nLocation: /\r\nX-Policy: a\r\n  b\r\nContent-Length : 7\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 02\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n \x00: c\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\nok\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) > 3<<10 { // below all bounds, which net/http has elsewhere
			return
		}
		ours, err := egress.ReadAnswer(bytes.NewReader(raw))
		slow, slowErr := egress.ReadAnswer(iotest.OneByteReader(bytes.NewReader(raw)))
		if (err == nil) != (slowErr == nil) || slow.Status != ours.Status || !bytes.Equal(slow.Body, ours.Body) {
			t.Errorf("at once: %+v, %v; byte by byte: %+v, %v", ours, err, slow, slowErr)
		}
		in := bufio.NewReader(bytes.NewReader(raw))
		theirs, theirErr := oracle(in)
		switch {
		case err != nil && theirErr == nil && !stricter.Match(raw):
			t.Fatalf("we refuse (%v) what net/http takes", err)
		case err != nil, theirErr != nil && strings.Contains(theirErr.Error(), "bad trailer key"):
			return // the names of trailers mean nothing here
		case theirErr != nil:
			t.Fatalf("we take as %+v what net/http refuses: %v", ours, theirErr)
		}
		body, bodyErr := io.ReadAll(theirs.Body)
		checkAnswer(t, ours, theirs, body)
		if left := in.Buffered(); ours.Again && (theirs.Close || bodyErr != nil || left > 0 || !bytes.Equal(ours.Body, body)) {
			t.Errorf("we go on after %q; net/http: close %t, body %q, %v, %d bytes left", ours.Body, theirs.Close, body, bodyErr, left)
		}
	})
}

func checkAnswer(t *testing.T, ours egress.Answer, theirs *http.Response, body []byte) {
	t.Helper()
	if ours.Status != theirs.StatusCode {
		t.Errorf("status %d, net/http says %d", ours.Status, theirs.StatusCode)
	}
	for name, got := range map[string]string{"Date": ours.Date, "Location": ours.Location, "Retry-After": ours.RetryAfter} {
		if want := theirs.Header.Get(name); got != want {
			t.Errorf("%s = %q, net/http says %q", name, got, want)
		}
	}
	if !bytes.HasPrefix(body, ours.Body) && !bytes.HasPrefix(ours.Body, body) {
		t.Errorf("body %q, net/http says %q", ours.Body, body)
	}
}

// FuzzRequest parses what is written with net/http and expects what was meant.
func FuzzRequest(f *testing.F) {
	f.Add("/hooks?a=b", "order.created", "2026-01", []byte(`{"a":1}`), int64(0), uint16(1))
	f.Add("", "a", "\r\nX: y", []byte(`"\r\n"`), int64(7), uint16(0x100))
	f.Add("/%0d%0a{}?x y", "a b", "", []byte("\r\n\r\n"), int64(-1), uint16(0x3ff))
	e := open(f, egress.Options{Reach: egress.Reach{AllowHTTP: true}, UserAgent: "Postrider\r\nX-Evil: 1"})
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
			return // a type that cannot be a header's value
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

// parse reads a request with net/http, and all of it.
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

// ours are the names of what is sent without being asked for, in lower case.
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

// FuzzHeaders has the owner of an endpoint choose names and values. What gets
// to the wire is what a strict reader says was meant, or nothing is sent.
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
		build := func(secret string) (egress.Built, error) {
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
