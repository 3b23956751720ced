package webhook_test

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/testkit"
)

// scripted starts a receiver that responds to each request with the text and calls then before it
// waits for the next request. It counts connections.
func scripted(t *testing.T, config *tls.Config, text string, then func(net.Conn)) (address string, conns *atomic.Int64) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = listener.Addr().String()
	if config != nil {
		listener = tls.NewListener(corkable{listener}, config)
	}
	conns = new(atomic.Int64)
	done := serveConns(listener, func(conn net.Conn) {
		defer conn.Close()
		conns.Add(1)
		in := bufio.NewReader(conn)
		for {
			req, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			if _, err := io.Copy(io.Discard, req.Body); err != nil {
				return
			}
			if _, err := io.WriteString(conn, text); err != nil {
				return
			}
			then(conn)
		}
	})
	t.Cleanup(func() {
		listener.Close()
		done()
	})
	return address, conns
}

func nothing(net.Conn) {}

// corkable accepts corked connections.
type corkable struct{ net.Listener }

func (l corkable) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return &corked{Conn: c}, err
}

// corked holds back written bytes from the call of hold until flush.
type corked struct {
	net.Conn
	holds bool
	held  []byte
}

func (c *corked) Write(p []byte) (int, error) {
	if !c.holds {
		return c.Conn.Write(p)
	}
	c.held = append(c.held, p...)
	return len(p), nil
}

func (c *corked) hold() { c.holds = true }

// flush writes the held bytes at once, except the last keep bytes.
func (c *corked) flush(keep int) error {
	now := len(c.held) - min(keep, len(c.held))
	_, err := c.Conn.Write(c.held[:now])
	c.held = c.held[now:]
	return err
}

func TestWhenConnectionsAreUsedAgain(t *testing.T) {
	t.Parallel()
	const ok = "HTTP/1.1 200 OK\r\n"
	ca := testkit.NewCA(t)
	secure := &tls.Config{Certificates: []tls.Certificate{ca.Certificate(t, time.Now().Add(time.Hour), "127.0.0.1")}}
	opts := laptop()
	opts.RootCAs = ca.Pool
	body := func(n int) string {
		return ok + "Content-Length: " + strconv.Itoa(n) + "\r\n\r\n" + strings.Repeat("x", n)
	}
	for _, tt := range []struct {
		name, answer string
		conns        int64 // number of connections for three attempts
	}{
		{"a length", body(2), 1},
		{"no body", ok + "Content-Length: 0\r\n\r\n", 1},
		{"204", "HTTP/1.1 204 No Content\r\n\r\n", 1},
		{"chunks", ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", 1},
		{"chunks and trailers", ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 1\r\n\r\n", 1},
		{"an interim answer", "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + body(2), 1},
		{"a body longer than is kept", body(20 << 10), 1},
		{"HTTP/1.0 with keep-alive", "HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 2\r\n\r\nok", 1},
		{"a folded line", ok + "X-Policy: a;\r\n b\r\nContent-Length: 2\r\n\r\nok", 1},
		{"an error", "HTTP/1.1 500 Oops\r\nContent-Length: 2\r\n\r\nno", 1},
		{"HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", 3},
		{"connection: close", ok + "Connection: close\r\nContent-Length: 2\r\n\r\nok", 3},
		{"connection: close among others", ok + "Connection: keep-alive, CLOSE\r\nContent-Length: 2\r\n\r\nok", 3},
		{"a body too long to read on", body(30 << 10), 3},
		{"more than announced", body(2) + "more", 3},
		{"two answers", body(2) + body(2), 3},
		{"204 with a body", "HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\nok", 3},
		{"a length and chunks", ok + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", 3},
		{"a space in a name", ok + "Content-Length : 9\r\nContent-Length: 2\r\n\r\nok", 3},
	} {
		for scheme, config := range map[string]*tls.Config{"http://": nil, "https://": secure} {
			t.Run(scheme+tt.name, func(t *testing.T) {
				t.Parallel()
				address, conns := scripted(t, config, tt.answer, nothing)
				e := open(t, opts)
				for range 3 {
					if a := send(t, e, routed(scheme+address), testkit.Patience); a.StatusCode == 0 {
						t.Fatalf("outcome %s, error %q", a.Outcome, a.Error)
					}
				}
				if n := conns.Load(); n != tt.conns {
					t.Errorf("%d connections, want %d", n, tt.conns)
				}
			})
		}
	}
}

// TestKeptConnectionsAreLookedAt lets the receiver end or spoil each connection after its first
// response was read. No attempt may fail because of that.
func TestKeptConnectionsAreLookedAt(t *testing.T) {
	t.Parallel()
	ca := testkit.NewCA(t)
	secure := &tls.Config{Certificates: []tls.Certificate{ca.Certificate(t, time.Now().Add(time.Hour), "127.0.0.1")}}
	for _, tt := range []struct {
		name   string
		config *tls.Config
		spoil  func(net.Conn)
	}{
		{"closed", nil, func(c net.Conn) { c.Close() }},
		{"spoken to unasked", nil, func(c net.Conn) { io.WriteString(c, "HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n") }},
		{"closed over TLS", secure, func(c net.Conn) { c.Close() }},
		{"spoken to unasked over TLS", secure, func(c net.Conn) { io.WriteString(c, "HTTP/1.1 500 Oops\r\n\r\n") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			read, spoilt := make(chan bool), make(chan bool)
			address, conns := scripted(t, tt.config, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", func(c net.Conn) {
				<-read
				tt.spoil(c)
				spoilt <- true
			})
			opts, scheme := laptop(), "http://"
			if tt.config != nil {
				opts.RootCAs, scheme = ca.Pool, "https://"
			}
			e := open(t, opts)
			for range 10 {
				if a := send(t, e, routed(scheme+address), testkit.Patience); a.Outcome != postrider.OutcomeAccepted {
					t.Errorf("outcome %s, error %q", a.Outcome, a.Error)
				}
				read <- true
				<-spoilt
			}
			if n := conns.Load(); n != 10 {
				t.Errorf("%d connections for 10 attempts, want 10", n)
			}
		})
	}
}

// TestAnswersAreNotPlanted lets a receiver send an unrequested second response over TLS. It comes
// together with the first one, so a look at the socket does not find it. The next attempt, perhaps
// of another account, must not take it for its own response.
func TestAnswersAreNotPlanted(t *testing.T) {
	t.Parallel()
	const (
		head   = "HTTP/1.1 500 Oops\r\nContent-Length: 2\r\n\r\n"
		forged = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
	)
	ca := testkit.NewCA(t)
	certificate := ca.Certificate(t, time.Now().Add(time.Hour), "127.0.0.1")
	opts := laptop()
	opts.RootCAs = ca.Pool
	for _, tt := range []struct {
		name    string
		records []string
		late    int // bytes of the texts that come only when the next request has come
		conns   int64
	}{
		{"nothing", []string{head, "no"}, 0, 1},
		{"in the record of the body", []string{head, "no" + forged}, 0, 4},
		{"in a record of its own", []string{head, "no", forged}, 0, 4},
		{"in a part of a record", []string{head, "no", forged}, 9, 4},
		{"in a part of a record's head", []string{head, "no", forged}, len(forged) + 16 + 1 + 2, 4},
	} {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			t.Run(tt.name+" over "+tls.VersionName(version), func(t *testing.T) {
				t.Parallel()
				config := &tls.Config{Certificates: []tls.Certificate{certificate}, MaxVersion: version}
				address, conns := scripted(t, config, "", func(c net.Conn) { speak(t, c, tt.records, tt.late) })
				e := open(t, opts)
				for range 4 {
					if a := send(t, e, routed("https://"+address), testkit.Patience); a.StatusCode != 500 || string(a.ResponseBody) != "no" {
						t.Errorf("outcome %s, status %d, body %q, error %q", a.Outcome, a.StatusCode, a.ResponseBody, a.Error)
					}
				}
				if n := conns.Load(); n != tt.conns {
					t.Errorf("%d connections for 4 attempts, want %d", n, tt.conns)
				}
			})
		}
	}
}

// speak writes the texts to a TLS connection, each as one record, but all in one write. It keeps
// the last bytes, late of them, for its next call.
func speak(t *testing.T, conn net.Conn, texts []string, late int) {
	t.Helper()
	secure, ok := conn.(*tls.Conn)
	if !ok {
		t.Errorf("%T is no TLS", conn)
		return
	}
	under, ok := secure.NetConn().(*corked)
	if !ok {
		t.Errorf("%T cannot be corked", secure.NetConn())
		return
	}
	under.hold()
	for _, text := range texts {
		if _, err := io.WriteString(secure, text); err != nil {
			t.Errorf("write: %v", err)
		}
	}
	if err := under.flush(late); err != nil {
		t.Logf("flush: %v", err) // the sender has closed the connection
	}
}
