package testkit

import (
	"bufio"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/postrider/postrider"
)

// Hostile is one way in which a receiver misbehaves, and what a sender must
// make of it.
type Hostile struct {
	Name    string
	Outcome postrider.Outcome
	Error   string // how the attempt's error begins
	Flood   bool   // sends until it is stopped

	acts []act
}

// NewHostile starts a receiver that misbehaves in that way on every connection,
// and returns its URL.
func NewHostile(tb testing.TB, h Hostile) string {
	tb.Helper()
	listener := listen(tb)
	g := &rig{listener: listener, acts: h.acts, stop: make(chan struct{})}
	g.running.Go(g.accept)
	tb.Cleanup(g.close)
	return "http://" + listener.Addr().String()
}

// rig is a TCP server that plays acts.
type rig struct {
	listener net.Listener
	acts     []act
	stop     chan struct{}
	running  sync.WaitGroup
}

func (g *rig) accept() {
	for {
		conn, err := g.listener.Accept()
		if err != nil {
			return
		}
		g.running.Go(func() { g.play(conn) })
	}
}

func (g *rig) close() {
	close(g.stop)
	g.listener.Close()
	g.running.Wait()
}

// play runs the acts until one fails, as every act does once the peer or the
// test has gone.
func (g *rig) play(conn net.Conn) {
	defer conn.Close()
	done := make(chan struct{})
	defer close(done)
	g.running.Go(func() {
		select {
		case <-g.stop:
			conn.Close()
		case <-done:
		}
	})
	p := &peer{Conn: conn, in: bufio.NewReader(conn), stop: g.stop}
	for _, a := range g.acts {
		if a(p) != nil {
			return
		}
	}
}

// peer is the hostile end of one connection.
type peer struct {
	net.Conn
	in   *bufio.Reader
	stop <-chan struct{}
}

// act is a step of a misbehaviour.
type act func(*peer) error

var errStopped = errors.New("stopped")

// request reads one whole request.
func request(p *peer) error {
	length := 0
	for {
		line, err := p.in.ReadString('\n')
		if err != nil {
			return err
		}
		if value, ok := strings.CutPrefix(strings.ToLower(line), "content-length: "); ok {
			if length, err = strconv.Atoi(strings.TrimSpace(value)); err != nil {
				return err
			}
		}
		if line == "\r\n" {
			_, err := io.CopyN(io.Discard, p.in, int64(length))
			return err
		}
	}
}

// some reads the first byte of a request.
func some(p *peer) error {
	_, err := p.in.ReadByte()
	return err
}

// reset closes the connection with a RST.
func reset(p *peer) error {
	tcp, ok := p.Conn.(*net.TCPConn)
	if !ok {
		return errStopped
	}
	return errors.Join(tcp.SetLinger(0), tcp.Close())
}

// halfClose ends the answer and goes on reading.
func halfClose(p *peer) error {
	tcp, ok := p.Conn.(*net.TCPConn)
	if !ok {
		return errStopped
	}
	return errors.Join(tcp.CloseWrite(), hold(p))
}

// hold does nothing until the peer goes.
func hold(p *peer) error {
	_, err := io.Copy(io.Discard, p.in)
	return err
}

// stall does nothing, and reads nothing, until the test ends.
func stall(p *peer) error {
	<-p.stop
	return errStopped
}

// say writes the text.
func say(text string) act {
	return func(p *peer) error {
		_, err := io.WriteString(p, text)
		return err
	}
}

// drip writes the text a byte at a time.
func drip(text string) act {
	return func(p *peer) error {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for i := range len(text) {
			if _, err := io.WriteString(p, text[i:i+1]); err != nil {
				return err
			}
			select {
			case <-tick.C:
			case <-p.stop:
				return errStopped
			}
		}
		return hold(p)
	}
}

// flood writes the text again and again, up to n times.
func flood(text string, n int) act {
	return func(p *peer) error {
		block := []byte(strings.Repeat(text, max(1, 32<<10/len(text))))
		for written := 0; written < n*len(text); written += len(block) {
			if _, err := p.Write(block); err != nil {
				return err
			}
		}
		return nil
	}
}
