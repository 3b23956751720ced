package webhook_test

import (
	"bufio"
	"context"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/testkit"
)

// slow is the deadline of attempts to receivers that never finish. grace is how much longer an
// attempt may take on a busy machine. It is less than the 5 s for which crypto/tls tries to send
// its closing message.
const (
	slow  = 750 * time.Millisecond
	grace = 4 * time.Second
)

// hostileCase is two attempts to a hostile receiver.
type hostileCase struct {
	hostile  testkit.Hostile
	scheme   string
	receiver *testkit.HostileReceiver
	within   time.Duration
	attempts []postrider.Attempt
	took     []time.Duration // duration of each attempt, from before its deadline was set
}

// TestPromise6NoAttemptOutlivesItsDeadline does not run in parallel with other tests, because it
// counts sockets. It makes its own attempts in parallel, because most of them wait.
func TestPromise6NoAttemptOutlivesItsDeadline(t *testing.T) {
	if n := len(testkit.Hostiles()); n < 60 {
		t.Errorf("%d hostile receivers, want at least 60", n)
	}
	before := sockets(t)
	t.Run("ordeals", func(t *testing.T) {
		rig := testkit.NewHostileRig(t)
		opts := laptop()
		opts.Resolver, opts.RootCAs = rig.Resolver(), rig.CA.Pool
		e := open(t, opts)
		ordeals := prepare(t, rig)
		quick, waiting := parted(ordeals)
		undergo(t, e, quick, 8)
		undergo(t, e, waiting, 16)
		for _, o := range ordeals {
			t.Run(o.scheme+" "+o.hostile.Name, o.check)
		}
	})
	testkit.Eventually(t, "every socket is closed", func() bool { return sockets(t) <= before })
}

func prepare(t *testing.T, rig *testkit.HostileRig) []*hostileCase {
	t.Helper()
	var all []*hostileCase
	for _, h := range testkit.Hostiles() {
		for _, scheme := range h.Schemes {
			r, err := rig.Start(h, scheme)
			if err != nil {
				t.Fatal(err)
			}
			o := &hostileCase{hostile: h, scheme: scheme, receiver: r, within: testkit.Patience}
			if h.Slow {
				o.within = 2 * slow
			}
			all = append(all, o)
		}
	}
	return all
}

// parted divides the cases into those that end by themselves, which take CPU, and those that wait
// for a time.
func parted(all []*hostileCase) (quick, waiting []*hostileCase) {
	for _, o := range all {
		if o.hostile.Slow {
			waiting = append(waiting, o)
		} else {
			quick = append(quick, o)
		}
	}
	return quick, waiting
}

// undergo makes the attempts of the cases, atOnce cases at a time. The second attempt of each could
// reuse the connection of the first.
func undergo(t *testing.T, e *door, all []*hostileCase, atOnce int) {
	t.Helper()
	var running sync.WaitGroup
	defer running.Wait()
	slots := make(chan bool, atOnce)
	for _, o := range all {
		slots <- true
		running.Go(func() {
			defer func() { <-slots }()
			for range 2 {
				begun := time.Now()
				o.attempts = append(o.attempts, send(t, e, routed(o.receiver.URL), o.within))
				o.took = append(o.took, time.Since(begun))
			}
		})
	}
}

func (o *hostileCase) check(t *testing.T) {
	for i, a := range o.attempts {
		if err := o.hostile.Check(a); err != nil {
			t.Error(err)
		}
		if a.Duration > o.within+grace {
			t.Errorf("took %v, with a deadline of %v", a.Duration, o.within)
		}
		if o.hostile.Slow && o.took[i] < o.within/2 {
			t.Errorf("took %v, far less than the deadline of %v", o.took[i], o.within)
		}
	}
	if n := o.receiver.Again(); n > 0 {
		t.Errorf("%d requests came over a connection that was no longer fit for one", n)
	}
}

// TestHostileRedirectsLeadNowhere has endpoints whose redirects are followed.
func TestHostileRedirectsLeadNowhere(t *testing.T) {
	t.Parallel()
	rig := testkit.NewHostileRig(t)
	opts := laptop()
	opts.Resolver, opts.RootCAs = rig.Resolver(), rig.CA.Pool
	e := open(t, opts)
	for _, h := range testkit.Hostiles() {
		if !strings.HasPrefix(h.Verdicts[0].Error, "redirect") {
			continue
		}
		r, err := rig.Start(h, "http")
		if err != nil {
			t.Fatal(err)
		}
		a := send(t, e, routed(r.URL, func(to *store.EndpointSnapshot) { to.Endpoint.Policy.MaxRedirects = 3 }), testkit.Patience)
		class, _, _ := strings.Cut(a.Error, ":")
		if a.Outcome == postrider.OutcomeAccepted || !slices.Contains([]string{"redirect", "target_forbidden"}, class) {
			t.Errorf("%s: outcome %s, error %q", h.Name, a.Outcome, a.Error)
		}
		if strings.ContainsFunc(a.Error+a.FinalURL, func(r rune) bool { return r < ' ' || r > '~' || strings.ContainsRune(`<>"`, r) }) {
			t.Errorf("%s: error %q, final URL %q", h.Name, a.Error, a.FinalURL)
		}
	}
}

// sockets counts the open sockets of this process. It ignores other files, because the runtime
// opens some of them when it first needs them.
func sockets(t *testing.T) (n int) {
	t.Helper()
	const all = "/proc/self/fd/"
	list, err := os.ReadDir(all)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range list {
		// An entry that is gone by now, such as the listed folder itself, is no socket.
		if target, err := os.Readlink(all + file.Name()); err == nil && strings.HasPrefix(target, "socket:") {
			n++
		}
	}
	return n
}

// TestFloodsCostNoMemory does not run in parallel, because it counts allocated memory. That
// includes the memory of the receivers that flood, who write in small blocks.
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
	if a.Outcome != postrider.OutcomeUnreachable || a.Error != "connection_refused" || a.RequestHead != nil {
		t.Errorf("outcome %s, error %q, head %q; want unreachable, connection_refused, nothing sent", a.Outcome, a.Error, a.RequestHead)
	}
}

// flaky responds 200 to requests and closes connections at random, mostly between requests.
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

// TestPromise3NothingIsSentTwice has kept connections that turn out to be closed: every request
// that the receiver read belongs to one attempt.
func TestPromise3NothingIsSentTwice(t *testing.T) {
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

// refuse responds as soon as a request begins, and closes the connection before it has read the
// rest.
func refuse(conn net.Conn) {
	defer conn.Close()
	if _, err := conn.Read(make([]byte, 512)); err != nil {
		return
	}
	// The test is about how the sender treats this response.
	_, _ = io.WriteString(conn, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n")
}

// stuck returns an event that is too large for the buffers of a socket.
func stuck() postrider.Claimed { return claimed(event(`"` + strings.Repeat("x", 8<<20) + `"`)) }

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

// TestStuckRequestEnds has receivers that read nothing. With TLS, the closing message of a
// connection must not wait for them either.
func TestStuckRequestEnds(t *testing.T) {
	t.Parallel()
	rig := testkit.NewHostileRig(t)
	opts := laptop()
	opts.RootCAs = rig.CA.Pool
	e, c := open(t, opts), stuck()
	for _, h := range testkit.Hostiles() {
		if !h.Big {
			continue
		}
		for _, scheme := range h.Schemes {
			r, err := rig.Start(h, scheme)
			if err != nil {
				t.Fatal(err)
			}
			const within = 4 * slow // signing that many bytes takes a while
			ctx, cancel := context.WithTimeout(t.Context(), within)
			a := e.Send(ctx, c, routed(r.URL))
			cancel()
			if a.Outcome != postrider.OutcomeTimedOut || a.Duration > within+grace {
				t.Errorf("%s: outcome %s, error %q after %v; want timed_out by %v", scheme, a.Outcome, a.Error, a.Duration, within+grace)
			}
		}
	}
}
