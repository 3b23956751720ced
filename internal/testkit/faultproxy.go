package testkit

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// FaultProxy stands between a client and a server, and breaks the connection where a test says so.
// It listens on a unix socket that is named like PostgreSQL's, so a DSN needs only another host.
type FaultProxy struct {
	Dir string // folder of the socket: the host of a DSN

	network, target string
	listener        net.Listener
	running         sync.WaitGroup

	mu    sync.Mutex
	delay time.Duration
	away  bool
	cut   func(sent []byte) bool
	cuts  int
	conns map[net.Conn]bool
}

// NewFaultProxy starts a proxy to the server at the address of the network, "unix" or "tcp". The
// end of the test closes the proxy and its connections.
func NewFaultProxy(tb testing.TB, network, target string) *FaultProxy {
	tb.Helper()
	dir := tempSocketDir(tb)
	listener, err := net.Listen("unix", filepath.Join(dir, ".s.PGSQL.5432"))
	if err != nil {
		tb.Fatal(err)
	}
	p := &FaultProxy{Dir: dir, network: network, target: target, listener: listener, conns: map[net.Conn]bool{}}
	p.running.Go(p.accept)
	tb.Cleanup(func() {
		listener.Close()
		p.closeAll()
		p.running.Wait()
	})
	return p
}

// Delay delays each piece of data by d, in both directions.
func (p *FaultProxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Away cuts every connection and refuses new ones if away is true. False ends that.
func (p *FaultProxy) Away(away bool) {
	p.mu.Lock()
	p.away = away
	p.mu.Unlock()
	if away {
		p.closeAll()
	}
}

// CutOnce cuts one connection when match returns true for all bytes that its client has sent. The
// server gets these bytes and executes the request, but its answer is dropped.
func (p *FaultProxy) CutOnce(match func(sent []byte) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = match
}

// Cuts returns how many connections CutOnce has cut.
func (p *FaultProxy) Cuts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cuts
}

func (p *FaultProxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		away := p.away
		p.mu.Unlock()
		server, err := net.Dial(p.network, p.target)
		if err == nil && away {
			err = errors.Join(net.ErrClosed, server.Close())
		}
		if err != nil {
			client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = true, true
		p.mu.Unlock()
		cut := new(atomic.Bool)
		p.running.Go(func() { p.forward(client, server, cut) })
		p.running.Go(func() { p.answer(client, server, cut) })
	}
}

// forward passes the client's bytes to the server. When matches returns true for all bytes so
// far, forward still passes these on, and then ends its side of the connection to the server.
func (p *FaultProxy) forward(client, server net.Conn, cut *atomic.Bool) {
	var sent []byte
	piece := make([]byte, 64<<10)
	for {
		n, err := client.Read(piece)
		sent = append(sent, piece[:n]...)
		if n > 0 && p.matches(sent) {
			cut.Store(true)
		}
		p.pause()
		_, failed := server.Write(piece[:n])
		if half, ok := server.(interface{ CloseWrite() error }); ok && cut.Load() && failed == nil {
			// The server answers in vain and closes its side; then answer closes both.
			_ = half.CloseWrite()
			return
		}
		if failed != nil || err != nil {
			p.close(client, server)
			return
		}
	}
}

// answer passes the server's bytes to the client. After the cut it drops them. The client's
// connection then ends only when the server has executed all requests. So if the client repeats its
// request at once, the first one no longer runs.
func (p *FaultProxy) answer(client, server net.Conn, cut *atomic.Bool) {
	defer p.close(client, server)
	piece := make([]byte, 64<<10)
	for {
		n, err := server.Read(piece)
		p.pause()
		if !cut.Load() {
			if _, failed := client.Write(piece[:n]); failed != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// matches reports whether to cut now. It returns true once for each CutOnce.
func (p *FaultProxy) matches(sent []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut == nil || !p.cut(sent) {
		return false
	}
	p.cut = nil
	p.cuts++
	return true
}

func (p *FaultProxy) pause() {
	p.mu.Lock()
	delay := p.delay
	p.mu.Unlock()
	if delay > 0 {
		<-time.After(delay)
	}
}

func (p *FaultProxy) close(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		c.Close()
		delete(p.conns, c)
	}
}

func (p *FaultProxy) closeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}

// tempSocketDir returns a folder with a short path, which leaves room for a socket's name. The path
// of tb.TempDir is too long.
func tempSocketDir(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("", "px")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
