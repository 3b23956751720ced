package egress

import (
	"fmt"
	"net"
	"syscall"
	"time"
)

// conn is a connection to a peer, which one exchange at a time has.
type conn struct {
	net.Conn // above TLS
	peer     peer

	used      bool      // an exchange on it came to its end
	idleSince time.Time // while it is kept
	interrupt func()    // ends whatever waits for the connection, now and later

	tcp   net.Conn // below TLS
	tls   *records // between the two; nil without TLS
	raw   syscall.RawConn
	look  func(fd uintptr) bool
	peek  [1]byte
	quiet bool // what look found
}

// newConn returns a connection without TLS.
func newConn(to peer, tcp net.Conn) (*conn, error) {
	socket, ok := tcp.(syscall.Conn)
	if !ok {
		return nil, fmt.Errorf("%T has no socket", tcp)
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("reach socket: %w", err)
	}
	c := &conn{Conn: tcp, peer: to, tcp: tcp, raw: raw}
	c.interrupt = func() { c.SetDeadline(time.Unix(1, 0)) }
	c.look = c.lookAt
	return c, nil
}

// alive reports whether the peer has neither closed the connection nor said
// anything unasked, be it that this came with the last answer. It does not
// wait. A deadline that has passed counts as dead.
func (c *conn) alive() bool {
	c.quiet = false
	return c.raw.Read(c.look) == nil && c.quiet && (c.tls == nil || c.tls.drained(c.Conn))
}

// abort closes the connection without a word: TLS would first say goodbye, for
// which a peer that does not read would let it wait.
func (c *conn) abort() { c.tcp.Close() }
