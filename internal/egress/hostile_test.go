package egress_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/testkit"
)

// slow is the deadline of attempts against receivers that never come to an
// end; grace is what an attempt may take longer, on a machine under load.
const (
	slow  = 750 * time.Millisecond
	grace = time.Second
)

func TestPromise6NoAttemptOutlivesItsDeadline(t *testing.T) {
	t.Parallel()
	if n := len(testkit.Hostiles()); n < 60 {
		t.Errorf("%d hostile receivers, want at least 60", n)
	}
	for _, h := range testkit.Hostiles() {
		t.Run(h.Name, func(t *testing.T) {
			t.Parallel()
			a := send(t, open(t, laptop()), routed(testkit.NewHostile(t, h)), slow)
			if a.Outcome != h.Outcome || !strings.HasPrefix(a.Error, h.Error) || (h.Error == "") != (a.Error == "") {
				t.Errorf("outcome %s, error %q; want %s, %q", a.Outcome, a.Error, h.Outcome, h.Error)
			}
			if a.Duration > slow+grace {
				t.Errorf("took %v, with a deadline of %v", a.Duration, slow)
			}
			if len(a.ResponseBody) > 16<<10 || len(a.ResponseHead) > 16<<10 {
				t.Errorf("kept %d bytes of head, %d of body", len(a.ResponseHead), len(a.ResponseBody))
			}
			if (a.StatusCode == 0) != (a.Outcome == postrider.OutcomeBroken || a.Outcome == postrider.OutcomeTimedOut) {
				t.Errorf("outcome %s with status %d", a.Outcome, a.StatusCode)
			}
		})
	}
}

// TestFloodsCostNoMemory does not run in parallel: it counts what is
// allocated, floods by the rig included, whose blocks are small.
func TestFloodsCostNoMemory(t *testing.T) {
	e := open(t, laptop())
	for _, h := range testkit.Hostiles() {
		if !h.Flood {
			continue
		}
		to := routed(testkit.NewHostile(t, h))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		send(t, e, to, slow)
		runtime.ReadMemStats(&after)
		if cost := after.TotalAlloc - before.TotalAlloc; cost > 1<<20 {
			t.Errorf("%s: allocated %d KiB", h.Name, cost>>10)
		}
	}
}

func TestRefusedConnection(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	a := send(t, open(t, laptop()), routed("http://"+listener.Addr().String()), testkit.Patience)
	if a.Outcome != postrider.OutcomeUnreachable || a.Error != "connect_error" || a.RequestHead != nil {
		t.Errorf("outcome %s, error %q, head %q; want unreachable, connect_error, nothing sent", a.Outcome, a.Error, a.RequestHead)
	}
}

// flaky answers requests with 200 and closes connections whenever it likes,
// mostly between requests.
func flaky(t *testing.T, conn net.Conn, served *atomic.Int64) {
	t.Helper()
	defer conn.Close()
	in := bufio.NewReader(conn)
	for rand.IntN(3) > 0 {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return
		}
		served.Add(1)
		if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"); err != nil {
			return
		}
	}
}

// TestNothingIsSentTwice has kept connections turn out to be closed: whatever
// the receiver read belongs to one attempt.
func TestNothingIsSentTwice(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var served atomic.Int64
	done := serveConns(listener, func(conn net.Conn) { flaky(t, conn, &served) })
	e := open(t, laptop())
	to := routed("http://"+listener.Addr().String(), signedBy(postrider.Schemes...))
	var accepted, ambiguous int64
	for range 3000 {
		switch a := send(t, e, to, testkit.Patience); a.Outcome {
		case postrider.OutcomeAccepted:
			accepted++
		case postrider.OutcomeBroken:
			ambiguous++
		case postrider.OutcomeUnreachable:
		default:
			t.Fatalf("outcome %s, error %q", a.Outcome, a.Error)
		}
	}
	listener.Close()
	e.Close()
	done()
	if n := served.Load(); n < accepted || n > accepted+ambiguous {
		t.Errorf("received %d requests; %d attempts were accepted, %d are ambiguous", n, accepted, ambiguous)
	}
	if accepted == 0 {
		t.Error("no attempt was accepted")
	}
}

func TestConnectionsAreKept(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var conns atomic.Int64
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
			if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"); err != nil {
				return
			}
		}
	})
	e := open(t, laptop())
	to := routed("http://" + listener.Addr().String())
	for range 20 {
		if a := send(t, e, to, testkit.Patience); a.Outcome != postrider.OutcomeAccepted {
			t.Fatalf("outcome %s, error %q", a.Outcome, a.Error)
		}
	}
	listener.Close()
	e.Close()
	done()
	if n := conns.Load(); n != 1 {
		t.Errorf("20 attempts in a row took %d connections", n)
	}
}

// refuse answers as soon as a request begins, and hangs up on the rest of it.
func refuse(conn net.Conn) {
	defer conn.Close()
	if _, err := conn.Read(make([]byte, 512)); err != nil {
		return
	}
	// What the sender makes of it is what is tested.
	_, _ = io.WriteString(conn, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n")
}

// stuck returns an event that no socket takes whole.
func stuck() postrider.Claimed { return claimed(event(`"` + strings.Repeat("x", 16<<20) + `"`)) }

func TestEarlyRefusalIsHeard(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := serveConns(listener, refuse)
	e := open(t, laptop())
	for range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
		a := e.Send(ctx, stuck(), routed("http://"+listener.Addr().String()))
		cancel()
		if a.StatusCode != 413 || a.Outcome != postrider.OutcomeRejected {
			t.Errorf("outcome %s, status %d, error %q; want rejected, 413", a.Outcome, a.StatusCode, a.Error)
		}
	}
	listener.Close()
	done()
}

// TestStuckRequestEnds has a receiver that reads nothing, over TLS, whose
// connections like to say goodbye before they close.
func TestStuckRequestEnds(t *testing.T) {
	t.Parallel()
	ca := testkit.NewCA(t)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{ca.Certificate(t, time.Now().Add(time.Hour), "127.0.0.1")},
	})
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan bool)
	done := serveConns(listener, func(conn net.Conn) {
		defer conn.Close()
		if secure, ok := conn.(*tls.Conn); !ok || secure.HandshakeContext(t.Context()) != nil {
			return
		}
		<-over
	})
	opts := laptop()
	opts.RootCAs = ca.Pool
	ctx, cancel := context.WithTimeout(t.Context(), slow)
	defer cancel()
	a := open(t, opts).Send(ctx, stuck(), routed("https://"+listener.Addr().String()))
	if a.Outcome != postrider.OutcomeTimedOut || a.Duration > slow+grace {
		t.Errorf("outcome %s, error %q after %v; want timed_out by %v", a.Outcome, a.Error, a.Duration, slow+grace)
	}
	close(over)
	listener.Close()
	done()
}
