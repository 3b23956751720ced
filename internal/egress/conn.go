package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"
)

// conn is a connection to a server. One round trip at a time uses it.
type conn struct {
	net.Conn // the uppermost layer of TLS, or the socket
	server   Server

	idleSince time.Time // set by the pool
	// closed is called once, when the connection is closed. Nil: it was closed already, or the room
	// does not count it.
	closed    func()
	interrupt func() // ends all reads and writes, until the deadline is set again

	socket net.Conn
	layers []tlsLayer // lowest first: TLS to an https proxy, if there is one, then TLS to the server
	raw    syscall.RawConn
	peek   func(fd uintptr) bool // peekSocket, bound once to avoid an allocation per use
	peeked [1]byte
	quiet  bool // result of peek
}

// past is a deadline that has passed.
var past = time.Unix(1, 0)

// newConn returns a connection without TLS. It closes a socket that it cannot use.
func newConn(socket net.Conn) (*conn, error) {
	system, ok := socket.(syscall.Conn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("%T has no socket", socket), socket.Close())
	}
	raw, err := system.SyscallConn()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("reach socket: %w", err), socket.Close())
	}
	c := &conn{Conn: socket, socket: socket, raw: raw}
	// interrupt sets the deadline of the socket and not of c, because secure may add a layer of TLS
	// to c at the same time.
	c.interrupt = func() { socket.SetDeadline(past) }
	c.peek = c.peekSocket
	return c, nil
}

// secure adds a layer of TLS. A connection through an https proxy gets two layers: TLS to the
// proxy, and inside it TLS to the server.
func (c *conn) secure(ctx context.Context, config *tls.Config) error {
	below := &recordTracker{Conn: c.Conn, socket: c.socket}
	above := tls.Client(below, config)
	c.Conn, c.layers = above, append(c.layers, tlsLayer{above, below})
	return above.HandshakeContext(ctx)
}

// usable reports whether an idle connection can carry another request: the server has not closed
// it, and has sent nothing since the last response. usable does not wait. If it returns true, the
// connection has the given deadline instead of the deadline of the last round trip.
//
// The check has two reasons. First, a server may close an idle connection at any time. A request
// that is written then fails, and nobody knows whether the server has read it. Second, a malicious
// server may send a second response in advance, which would be read as the response to the next
// request. A planted 200 would mark an event as delivered that no receiver has accepted.
//
// usable first reads from the socket without blocking. Bytes that have left the socket can only be
// in a layer of TLS. So it then reads from each layer, lowest first, with a deadline that has
// passed; see [tlsLayer.empty]. One call sets the deadline for all layers, because it sets it on
// the socket below them.
func (c *conn) usable(deadline time.Time) bool {
	if c.socket.SetDeadline(deadline) != nil {
		return false
	}
	c.quiet = false
	if c.raw.Read(c.peek) != nil || !c.quiet {
		return false
	}
	if len(c.layers) == 0 {
		return true
	}
	if c.socket.SetReadDeadline(past) != nil {
		return false
	}
	for _, l := range c.layers {
		if !l.empty() {
			return false
		}
	}
	return c.socket.SetReadDeadline(deadline) == nil
}

// abort closes the socket directly. Closing TLS would first send an alert, and would wait for a
// server that does not read.
func (c *conn) abort() {
	c.socket.Close()
	if c.closed != nil {
		c.closed()
		c.closed = nil
	}
}

// isAlert reports whether the other side ended TLS with an alert. In TLS 1.3, the alert that
// refuses a client certificate can arrive after the request was written.
func isAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}
