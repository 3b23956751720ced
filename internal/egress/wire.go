package egress

import (
	"bytes"
	"context"
	"net"
	"net/http/httptrace"
	"sync"
	"time"
)

// flight follows one attempt over whatever connection it gets.
type flight struct {
	deadline time.Time
	wire     *wire
	reused   bool
	trace    httptrace.ClientTrace
}

type deadlineKey struct{}

func newFlight(ctx context.Context) *flight {
	f := &flight{}
	f.deadline, _ = ctx.Deadline()
	f.trace.GotConn = f.gotConn
	return f
}

// follow returns the context for the request. The deadline goes along as a
// value too, because net/http dials in a context that has lost its own.
func (f *flight) follow(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(context.WithValue(ctx, deadlineKey{}, f), &f.trace)
}

// boundDial gives a context of net/http's dialling its deadline back.
func boundDial(ctx context.Context) (context.Context, context.CancelFunc) {
	if f, ok := ctx.Value(deadlineKey{}).(*flight); ok && !f.deadline.IsZero() {
		return context.WithDeadline(ctx, f.deadline)
	}
	return context.WithCancel(ctx)
}

// gotConn is called by RoundTrip, in its goroutine, before it writes.
func (f *flight) gotConn(c httptrace.GotConnInfo) {
	f.reused = c.Reused
	if w, ok := c.Conn.(*wire); ok {
		f.wire = w
		w.begin()
	}
}

// sent reports whether any byte of the request was written.
func (f *flight) sent() bool { return f.wire != nil && f.wire.state().sent }

// cut reports whether the connection failed, rather than what came over it.
func (f *flight) cut() bool { return f.wire != nil && f.wire.state().failed }

// head returns what came back up to the end of the final head, or, when that
// did not end, all that was kept of it.
func (f *flight) head() []byte {
	if f.wire == nil {
		return nil
	}
	return cutHead(f.wire.take())
}

// wire is a connection, above TLS, that remembers of the exchange under way
// whether anything was written and how the answer began.
type wire struct {
	net.Conn

	mu      sync.Mutex
	current exchange
	keeping bool
	kept    []byte
}

type exchange struct{ sent, failed bool }

func (w *wire) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.current, w.keeping, w.kept = exchange{}, true, nil
}

func (w *wire) state() exchange {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.current
}

// take ends the keeping and returns what was kept.
func (w *wire) take() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keeping = false
	return w.kept
}

// Read reads from the connection and keeps a copy of an answer's beginning.
func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.keeping && n > 0 {
		w.kept = append(w.kept, p[:min(n, maxHead-len(w.kept))]...)
	}
	w.current.failed = w.current.failed || err != nil
	return n, err
}

// Write writes to the connection and notes whether anything left.
func (w *wire) Write(p []byte) (int, error) {
	n, err := w.Conn.Write(p)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.current.sent = w.current.sent || n > 0
	w.current.failed = w.current.failed || err != nil
	return n, err
}

// cutHead returns b up to the empty line that ends the final head: interim
// answers (1xx) have heads of their own.
func cutHead(b []byte) []byte {
	for end := 0; ; {
		line, ok := blankLine(b[end:])
		if !ok {
			return b
		}
		interim := bytes.HasPrefix(b[end:], []byte("HTTP/1.1 1")) && !bytes.HasPrefix(b[end:], []byte("HTTP/1.1 101"))
		end += line
		if !interim {
			return b[:end:end]
		}
	}
}

// blankLine returns the index after the first empty line.
func blankLine(b []byte) (int, bool) {
	if i := bytes.Index(b, []byte("\n\r\n")); i >= 0 {
		return i + 3, true
	}
	if i := bytes.Index(b, []byte("\n\n")); i >= 0 {
		return i + 2, true
	}
	return 0, false
}
