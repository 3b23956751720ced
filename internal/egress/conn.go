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
	closed    func()    // called once when it is closed; nil: it was, or nothing counts it
	interrupt func()    // ends every current and later read and write, until the deadline is set again

	socket net.Conn
	layers []tlsLayer // lowest first: TLS to a proxy on the way, and TLS to the server
	raw    syscall.RawConn
	peek   func(fd uintptr) bool // peekSocket, bound once so that it is not allocated at each use
	peeked [1]byte
	quiet  bool // result of peek
}

// past is a deadline that has passed.
var past = time.Unix(1, 0)

// newConn returns a connection without TLS. It closes a socket that it cannot
// use.
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
	// The deadline of the socket and not of c: a layer of TLS may be added to
	// c at the same time.
	c.interrupt = func() { socket.SetDeadline(past) }
	c.peek = c.peekSocket
	return c, nil
}

// secure adds a layer of TLS. A connection through an https proxy has two: TLS to
// the proxy, and inside it TLS to the server.
func (c *conn) secure(ctx context.Context, config *tls.Config) error {
	below := &recordTracker{Conn: c.Conn, socket: c.socket}
	above := tls.Client(below, config)
	c.Conn, c.layers = above, append(c.layers, tlsLayer{above, below})
	return above.HandshakeContext(ctx)
}

// usable reports whether an idle connection can carry another request: the
// server has not closed it, and has sent nothing since the last response. It does
// not wait. Afterwards the connection has the given deadline, in place of the
// deadline of the last round trip.
//
// There are two reasons for the check. A server may close an idle connection at any
// time; a request that is written then fails, and nobody knows whether the server
// has read it. And a malicious server may send a second response in advance, which
// would be read as the response to the next request: a planted 200 would mark an
// event as delivered that no receiver has accepted.
//
// The socket is asked first, by a read that does not block. Bytes that have already
// left the socket can only be in a layer of TLS. Each layer is asked by a read with
// a deadline that has passed, lowest first; see [tlsLayer.empty]. The deadline is
// set on the socket, below all layers, so that one call covers them.
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

// abort closes the socket. Closing TLS would first send an alert and wait for a
// server that does not read.
func (c *conn) abort() {
	c.socket.Close()
	if c.closed != nil {
		c.closed()
		c.closed = nil
	}
}

// isAlert reports whether the other side ended TLS with an alert. In TLS 1.3 a
// client certificate is refused like this when the request was already written.
func isAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}
