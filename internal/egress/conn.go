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

// conn is a connection to a peer, which one exchange at a time has.
type conn struct {
	net.Conn // above TLS
	peer     peer

	idleSince time.Time // while it is kept
	interrupt func()    // ends whatever waits for the connection, now and later

	tcp    net.Conn // below all
	layers []layer  // of TLS between the two: the peer's, and that of a proxy on the way
	raw    syscall.RawConn
	look   func(fd uintptr) bool
	peek   [1]byte
	quiet  bool // what look found
}

// layer is TLS, and what it reads from.
type layer struct {
	above *tls.Conn
	below *records
}

// newConn returns a connection without TLS. It closes what it cannot use.
func newConn(tcp net.Conn) (*conn, error) {
	socket, ok := tcp.(syscall.Conn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("%T has no socket", tcp), tcp.Close())
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("reach socket: %w", err), tcp.Close())
	}
	c := &conn{Conn: tcp, tcp: tcp, raw: raw}
	// Not of what is above, which may just be being put there.
	c.interrupt = func() { tcp.SetDeadline(time.Unix(1, 0)) }
	c.look = c.lookAt
	return c, nil
}

// secure puts TLS on the connection, above what is there.
func (c *conn) secure(ctx context.Context, config *tls.Config) error {
	below := &records{Conn: c.Conn, socket: c.tcp}
	above := tls.Client(below, config)
	c.Conn, c.layers = above, append(c.layers, layer{above, below})
	return above.HandshakeContext(ctx)
}

// alive reports whether the peer has neither closed the connection nor said
// anything unasked, be it that this came with the last answer. It does not
// wait. A deadline that has passed counts as dead.
func (c *conn) alive() bool {
	c.quiet = false
	if c.raw.Read(c.look) != nil || !c.quiet {
		return false
	}
	for _, l := range c.layers {
		if !l.below.drained(l.above) {
			return false
		}
	}
	return true
}

// abort closes the connection without a word: TLS would first say goodbye, for
// which a peer that does not read would let it wait.
func (c *conn) abort() { c.tcp.Close() }

// isAlert reports whether the other side ended TLS with an alert. In TLS 1.3 a
// client certificate that it does not take is refused in this way, when the
// request is already on its way.
func isAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}
