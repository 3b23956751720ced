package egress_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/egress"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/testkit"
)

var overHTTP2 = policy(func(p *postrider.Policy) { p.HTTP2 = true })

// http2Options returns options that trust the certificate, and TLS for a
// receiver that offers those protocols.
func http2Options(t *testing.T, protocols ...string) (egress.Options, *tls.Config) {
	t.Helper()
	ca := testkit.NewCA(t)
	opts := laptop()
	opts.RootCAs = ca.Pool
	return opts, &tls.Config{
		Certificates: []tls.Certificate{ca.Certificate(t, time.Now().Add(time.Hour), "127.0.0.1", "receiver.example")},
		NextProtos:   protocols,
	}
}

// TestHTTP2SendsTheSameRequest compares what a receiver gets over both.
func TestHTTP2SendsTheSameRequest(t *testing.T) {
	t.Parallel()
	type seen struct {
		Method, Target, Host string
		Names                []string
		Own, Agent           string
		Length               int64
		Body                 string
	}
	var got seen
	var proto string
	opts, config := http2Options(t)
	url, _ := serveTLS(t, config, func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got = seen{
			Method: r.Method, Target: r.RequestURI, Host: r.Host, Own: r.Header.Get("X-Own"),
			Agent: r.UserAgent(), Length: r.ContentLength, Body: string(body),
		}
		for name := range r.Header {
			got.Names = append(got.Names, name)
		}
		slices.Sort(got.Names)
		proto = r.Proto
	})
	own := policy(func(p *postrider.Policy) { p.Headers = []postrider.Header{{Name: "x-OWN", Value: "a: b,  c"}} })
	for _, target := range []string{"", "/", "/a%2Fb//c?d=%20e&f", "//double", "/?"} {
		e := open(t, opts)
		send(t, e, routed(url+target, own), testkit.Patience)
		want, was := got, proto
		send(t, e, routed(url+target, endpoint(2), own, overHTTP2), testkit.Patience)
		if was != "HTTP/1.1" || proto != "HTTP/2.0" {
			t.Errorf("%q came over %s and %s", target, was, proto)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-over HTTP/1.1 +over HTTP/2):\n%s", target, diff)
		}
		e.Close()
	}
}

func TestHTTP2Attempt(t *testing.T) {
	t.Parallel()
	opts, config := http2Options(t)
	url, _ := serveTLS(t, config, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.Header().Set("X-Receiver", "yes")
		w.WriteHeader(http.StatusServiceUnavailable)
		io.WriteString(w, strings.Repeat("x", 100<<10))
	})
	a := send(t, open(t, opts), routed(url, overHTTP2), testkit.Patience)
	if a.Outcome != postrider.OutcomeThrottled || a.StatusCode != 503 || a.RetryAfter != 7*time.Second || len(a.ResponseBody) != 16<<10 {
		t.Errorf("outcome %s, status %d, Retry-After %v, %d bytes", a.Outcome, a.StatusCode, a.RetryAfter, len(a.ResponseBody))
	}
	if head := string(a.ResponseHead); !strings.HasPrefix(head, "HTTP/2.0 503\r\n") || !strings.Contains(head, "X-Receiver: yes\r\n") ||
		!strings.HasSuffix(head, "\r\n\r\n") {
		t.Errorf("response head = %q", head)
	}
	if !strings.HasPrefix(string(a.RequestHead), "POST / HTTP/1.1\r\n") {
		t.Errorf("request head = %q", a.RequestHead)
	}
}

func TestHTTP2SharesConnections(t *testing.T) {
	t.Parallel()
	opts, config := http2Options(t)
	url, conns := serveTLS(t, config, func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			w.WriteHeader(http.StatusUpgradeRequired)
		}
	})
	e := open(t, opts)
	for range 20 {
		if a := send(t, e, routed(url, overHTTP2), testkit.Patience); a.Outcome != postrider.OutcomeAccepted {
			t.Fatalf("outcome %s, error %q", a.Outcome, a.Error)
		}
	}
	var all sync.WaitGroup
	for range 40 {
		all.Go(func() {
			if a := send(t, e, routed(url, overHTTP2), testkit.Patience); a.Outcome != postrider.OutcomeAccepted {
				t.Errorf("outcome %s, error %q", a.Outcome, a.Error)
			}
		})
	}
	all.Wait()
	if n := conns.Load(); n != 1 {
		t.Errorf("%d connections for 60 attempts, want 1", n)
	}
}

// TestHTTP2IsNotForced has receivers that know HTTP/1.1 alone, or say nothing
// of what they know.
func TestHTTP2IsNotForced(t *testing.T) {
	t.Parallel()
	for name, protocols := range map[string][]string{"HTTP/1.1 alone": {"http/1.1"}, "nothing": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts, config := http2Options(t, protocols...)
			address, conns := scripted(t, config, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", nothing)
			e := open(t, opts)
			for range 3 {
				if a := send(t, e, routed("https://"+address, overHTTP2), testkit.Patience); a.Outcome != postrider.OutcomeAccepted {
					t.Errorf("outcome %s, error %q", a.Outcome, a.Error)
				}
			}
			if n := conns.Load(); n != 1 {
				t.Errorf("%d connections for 3 attempts, want 1", n)
			}
		})
	}
}

// TestHTTP2IsNotOffered to receivers of endpoints that did not opt in, nor in
// the clear.
func TestHTTP2IsNotOffered(t *testing.T) {
	t.Parallel()
	opts, config := http2Options(t)
	url, _ := serveTLS(t, config, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Proto) })
	if a := send(t, open(t, opts), routed(url), testkit.Patience); string(a.ResponseBody) != "HTTP/1.1" {
		t.Errorf("without the policy: %q", a.ResponseBody)
	}
	plain := testkit.NewReceiver(t, testkit.Status(200))
	if a := send(t, open(t, opts), routed(plain.URL, overHTTP2), testkit.Patience); a.Outcome != postrider.OutcomeAccepted {
		t.Errorf("in the clear: outcome %s, error %q", a.Outcome, a.Error)
	}
}

func TestHTTP2GoesThroughProxies(t *testing.T) {
	t.Parallel()
	opts, config := http2Options(t)
	url, conns := serveTLS(t, config, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Proto) })
	p := newProxy(t, "http", nil, tunnels(""))
	roots := opts.RootCAs
	opts = through(t, p, nil)
	opts.RootCAs = roots
	e := open(t, opts)
	for range 3 {
		if a := send(t, e, routed(named(url), overHTTP2), testkit.Patience); string(a.ResponseBody) != "HTTP/2.0" {
			t.Errorf("outcome %s, error %q, body %q", a.Outcome, a.Error, a.ResponseBody)
		}
	}
	if targets, n := p.met(); !onlyTo(targets, "CONNECT", url) || n != 1 || conns.Load() != 1 {
		t.Errorf("proxy was asked for %q on %d connections", targets, n)
	}
	e.Close() // the proxy waits for it
}

// The types of frames, and what flags mean.
const (
	dataFrame, headersFrame, resetFrame, settingsFrame, pingFrame, goAwayFrame, continuationFrame = 0, 1, 3, 4, 6, 7, 9

	endStream, endHeaders = 1, 4
)

// frame returns an HTTP/2 frame.
func frame(kind, flags byte, stream uint32, payload string) string {
	size := len(payload)
	head := []byte{byte(size >> 16), byte(size >> 8), byte(size), kind, flags}
	return string(binary.BigEndian.AppendUint32(head, stream)) + payload
}

// field returns a header field as HPACK has it, without indexing.
func field(name, value string) string {
	return "\x00" + string(rune(len(name))) + name + string(rune(len(value))) + value
}

const status200 = "\x88"

// rawHTTP2 starts a receiver that speaks HTTP/2 by hand. It reads each request
// to its end, and has answer do the rest, until that returns false.
func rawHTTP2(t *testing.T, config *tls.Config, answer func(c net.Conn, stream uint32) bool) (url string, conns *atomic.Int64) {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	conns = new(atomic.Int64)
	done := serveConns(listener, func(c net.Conn) {
		defer c.Close()
		conns.Add(1)
		c.SetDeadline(time.Now().Add(testkit.Patience))
		if _, err := io.ReadFull(c, make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))); err != nil {
			return
		}
		io.WriteString(c, frame(settingsFrame, 0, 0, ""))
		for {
			stream := readRequest(c)
			if stream == 0 || !answer(c, stream) {
				return
			}
		}
	})
	t.Cleanup(func() {
		listener.Close()
		done()
	})
	return "https://" + listener.Addr().String(), conns
}

// readRequest reads frames up to one that ends a request, and returns its
// stream; 0: none came.
func readRequest(c net.Conn) uint32 {
	head := make([]byte, 9)
	for {
		if _, err := io.ReadFull(c, head); err != nil {
			return 0
		}
		size := int64(head[0])<<16 | int64(head[1])<<8 | int64(head[2])
		if _, err := io.CopyN(io.Discard, c, size); err != nil {
			return 0
		}
		if ends := head[4]&endStream != 0; ends && (head[3] == dataFrame || head[3] == headersFrame) {
			return binary.BigEndian.Uint32(head[5:])
		}
	}
}

// tell answers with the text and goes on.
func tell(text func(stream uint32) string) func(net.Conn, uint32) bool {
	return func(c net.Conn, stream uint32) bool {
		_, err := io.WriteString(c, text(stream))
		return err == nil
	}
}

// flood answers with the text again and again, after a beginning.
func flood(begin, again func(stream uint32) string) func(net.Conn, uint32) bool {
	return func(c net.Conn, stream uint32) bool {
		io.WriteString(c, begin(stream))
		text := strings.Repeat(again(stream), 100)
		for {
			if _, err := io.WriteString(c, text); err != nil {
				return false
			}
		}
	}
}

func none(uint32) string { return "" }

func fine(stream uint32) string { return frame(headersFrame, endHeaders|endStream, stream, status200) }

func TestHTTP2Hostile(t *testing.T) {
	t.Parallel()
	head := func(payload string) func(uint32) string {
		return func(s uint32) string { return frame(headersFrame, endHeaders|endStream, s, payload) }
	}
	connection := func(kind, flags byte, payload string) func(uint32) string {
		return func(uint32) string { return frame(kind, flags, 0, payload) }
	}
	long := field("x", strings.Repeat("y", 100))
	for _, tt := range []struct {
		name    string
		answer  func(net.Conn, uint32) bool
		outcome postrider.Outcome
		err     string
	}{
		{"an answer", tell(fine), postrider.OutcomeAccepted, ""},
		{"unknown frames, and an answer", tell(func(s uint32) string { return strings.Repeat(frame(0xa, 0, 0, "x"), 50) + fine(s) }), postrider.OutcomeAccepted, ""},
		{"no answer", tell(none), postrider.OutcomeTimedOut, "timeout"},
		{"a body that does not end", tell(func(s uint32) string {
			return frame(headersFrame, endHeaders, s, status200) + frame(dataFrame, 0, s, "x")
		}), postrider.OutcomeAccepted, ""},
		{"a reset", tell(func(s uint32) string { return frame(resetFrame, 0, s, "\x00\x00\x00\x07") }), postrider.OutcomeBroken, "connection_cut"},
		{"a reset in the body", tell(func(s uint32) string {
			return frame(headersFrame, endHeaders, s, status200) + frame(dataFrame, 0, s, "x") + frame(resetFrame, 0, s, "\x00\x00\x00\x02")
		}), postrider.OutcomeAccepted, ""},
		{"the end", func(net.Conn, uint32) bool { return false }, postrider.OutcomeBroken, "connection_cut"},
		{"going away", func(c net.Conn, _ uint32) bool {
			io.WriteString(c, frame(goAwayFrame, 0, 0, "\x00\x00\x00\x00\x00\x00\x00\x00"))
			return false
		}, postrider.OutcomeBroken, "connection_cut"},
		{"HTTP/1.1", tell(func(uint32) string { return "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" }), postrider.OutcomeBroken, "bad_response"},
		{"no status", tell(head(field("x", "y"))), postrider.OutcomeBroken, "bad_response"},
		{"status 99", tell(head(field(":status", "99"))), postrider.OutcomeBroken, "bad_response"},
		{"status 1000", tell(head(field(":status", "1000"))), postrider.OutcomeBroken, "bad_response"},
		{"a line feed in a value", tell(head(status200 + field("x", "a\nb"))), postrider.OutcomeBroken, "bad_response"},
		{"a head that is too long", tell(head(status200 + strings.Repeat(long, 155))), postrider.OutcomeBroken, "bad_response"},
		{"a frame that is too long", tell(head(strings.Repeat(long, 200))), postrider.OutcomeBroken, "bad_response"},
		{"a push", tell(func(s uint32) string { return frame(5, endHeaders, s, "\x00\x00\x00\x02"+status200) }), postrider.OutcomeBroken, "bad_response"},
		{"endless continuations", flood(
			func(s uint32) string { return frame(headersFrame, 0, s, status200) },
			func(s uint32) string { return frame(continuationFrame, 0, s, long) },
		), postrider.OutcomeBroken, "bad_response"},
		{"empty continuations", flood(
			func(s uint32) string { return frame(headersFrame, 0, s, status200) },
			func(s uint32) string { return frame(continuationFrame, 0, s, "") },
		), postrider.OutcomeBroken, "bad_response"},
		{"interim answers", flood(none, func(s uint32) string { return frame(headersFrame, endHeaders, s, field(":status", "103")) }), postrider.OutcomeBroken, "bad_response"},
		{"pings", flood(none, connection(pingFrame, 0, "12345678")), postrider.OutcomeBroken, "bad_response"},
		{"settings", flood(none, connection(settingsFrame, 0, "\x00\x04\x00\x00\xff\xff")), postrider.OutcomeBroken, "bad_response"},
		{"unknown frames", flood(none, connection(0xbe, 0, "x")), postrider.OutcomeBroken, "bad_response"},
		{"resets of others", flood(none, connection(resetFrame, 0, "\x00\x00\x00\x07")), postrider.OutcomeBroken, "bad_response"},
		{"a body beyond the window", flood(
			func(s uint32) string { return frame(headersFrame, endHeaders, s, status200) },
			func(s uint32) string { return frame(dataFrame, 0, s, strings.Repeat("x", 16<<10)) },
		), postrider.OutcomeAccepted, ""},
		{"a body of nothing", flood(
			func(s uint32) string { return frame(headersFrame, endHeaders, s, status200) },
			func(s uint32) string { return frame(dataFrame, 0, s, "") },
		), postrider.OutcomeAccepted, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			opts, config := http2Options(t, "h2")
			url, _ := rawHTTP2(t, config, tt.answer)
			e := open(t, opts)
			within := slow
			if tt.err == "bad_response" { // it ends by itself, after many frames
				within = testkit.Patience
			}
			for range 2 {
				a := send(t, e, routed(url, overHTTP2), within)
				if a.Outcome != tt.outcome || a.Error != tt.err || a.Duration > within+grace {
					t.Errorf("outcome %s, error %q after %v; want %s, %q", a.Outcome, a.Error, a.Duration, tt.outcome, tt.err)
				}
			}
			e.Close()
		})
	}
}

// TestHTTP2FloodsBetweenAttempts has a receiver that answers as it should, and
// then goes on talking to the connection that is kept.
func TestHTTP2FloodsBetweenAttempts(t *testing.T) {
	t.Parallel()
	opts, config := http2Options(t, "h2")
	ended := make(chan bool, 10)
	url, conns := rawHTTP2(t, config, func(c net.Conn, stream uint32) bool {
		io.WriteString(c, fine(stream))
		ping := strings.Repeat(frame(pingFrame, 1, 0, "12345678"), 100) // as acknowledgement: nothing is written back
		for {
			if _, err := io.WriteString(c, ping); err != nil {
				ended <- true
				return false
			}
		}
	})
	e := open(t, opts)
	for range 3 {
		if a := send(t, e, routed(url, overHTTP2), testkit.Patience); a.Outcome != postrider.OutcomeAccepted {
			t.Errorf("outcome %s, error %q", a.Outcome, a.Error)
		}
		<-ended
	}
	if n := conns.Load(); n != 3 {
		t.Errorf("%d connections, want 3", n)
	}
}

// TestHTTP2GoingAway has a receiver that closes its connection after each
// answer, as it may: no attempt suffers.
func TestHTTP2GoingAway(t *testing.T) {
	t.Parallel()
	opts, config := http2Options(t, "h2")
	gone := make(chan bool, 1)
	url, conns := rawHTTP2(t, config, func(c net.Conn, stream uint32) bool {
		io.WriteString(c, frame(goAwayFrame, 0, 0, string(binary.BigEndian.AppendUint32(nil, stream))+"\x00\x00\x00\x00")+fine(stream))
		gone <- true
		return false
	})
	e := open(t, opts)
	for range 5 {
		if a := send(t, e, routed(url, overHTTP2), testkit.Patience); a.Outcome != postrider.OutcomeAccepted {
			t.Errorf("outcome %s, error %q", a.Outcome, a.Error)
		}
		<-gone
	}
	if n := conns.Load(); n != 5 {
		t.Errorf("%d connections, want 5", n)
	}
}

// TestHTTP2CancelledAttempt ends one of two attempts on a connection; the other
// goes on.
func TestHTTP2CancelledAttempt(t *testing.T) {
	t.Parallel()
	opts, config := http2Options(t)
	arrived, release := make(chan bool, 2), make(chan bool)
	url, conns := serveTLS(t, config, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			arrived <- true
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}
	})
	e := open(t, opts)
	send(t, e, routed(url, overHTTP2), testkit.Patience)
	cancelled, cancel := context.WithCancel(t.Context())
	defer cancel()
	attempt := func(ctx context.Context, want postrider.Outcome) {
		if a := e.Send(ctx, claimed(event(`{}`)), routed(url+"/wait", overHTTP2)); a.Outcome != want {
			t.Errorf("outcome %s, error %q, want %s", a.Outcome, a.Error, want)
		}
	}
	var first, second sync.WaitGroup
	first.Go(func() { attempt(cancelled, postrider.OutcomeBroken) })
	second.Go(func() { attempt(t.Context(), postrider.OutcomeAccepted) })
	<-arrived
	<-arrived
	cancel()
	first.Wait()
	close(release)
	second.Wait()
	if n := conns.Load(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

// TestHTTP2BodiesAreWholeAfterTheirTime sends large bodies that the receiver
// does not read: their memory is used again for other requests, which must not
// show in what leaves late.
func TestHTTP2BodiesAreWholeAfterTheirTime(t *testing.T) {
	t.Parallel()
	opts, config := http2Options(t)
	url, _ := serveTLS(t, config, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusAccepted)
		http.NewResponseController(w).Flush()
		body, err := io.ReadAll(r.Body)
		if err == nil && bytes.ContainsFunc(body, func(r rune) bool { return r != rune(body[0]) }) {
			t.Error("a body is mixed")
		}
	})
	e := open(t, opts)
	raw := func(r *store.Routed) { r.Endpoint.Policy.Payload = postrider.PayloadRaw }
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			data := strings.Repeat(string(rune('0'+i%10)), 60<<10)
			ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
			defer cancel()
			if a := e.Send(ctx, claimed(event(data)), routed(url, raw, overHTTP2)); a.Outcome != postrider.OutcomeAccepted {
				t.Errorf("outcome %s, error %q", a.Outcome, a.Error)
			}
		})
	}
	all.Wait()
}

// TestHTTP2RedirectThatFails leads to where no answer comes from: that of the
// redirect is none to the request that followed.
func TestHTTP2RedirectThatFails(t *testing.T) {
	t.Parallel()
	opts, config := http2Options(t, "h2")
	url, _ := rawHTTP2(t, config, func(c net.Conn, stream uint32) bool {
		text := frame(resetFrame, 0, stream, "\x00\x00\x00\x02")
		if stream == 1 {
			text = frame(headersFrame, endHeaders|endStream, stream, field(":status", "307")+field("location", "/there"))
		}
		_, err := io.WriteString(c, text)
		return err == nil
	})
	following := policy(func(p *postrider.Policy) { p.MaxRedirects = 1 })
	a := send(t, open(t, opts), routed(url, overHTTP2, following), testkit.Patience)
	if a.Outcome != postrider.OutcomeBroken || a.FinalURL != url+"/there" || a.ResponseHead != nil {
		t.Errorf("outcome %s, error %q, final URL %q, response head %q", a.Outcome, a.Error, a.FinalURL, a.ResponseHead)
	}
}
