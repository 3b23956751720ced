package egress

import (
	"encoding/binary"
	"errors"
	"net"
	"os"
)

// records is a connection below TLS that knows where records end. TLS reads
// as much as has come, which may be more than it was asked for: what was said
// unasked is then no longer in the socket, but nobody has seen it either.
type records struct {
	net.Conn
	socket net.Conn // below all

	head [5]byte // of the record that begins next: its type, version and length
	have int     // bytes of head that were read
	left int     // bytes of a record's payload that were not
	shut bool    // nothing more is read; it looks as if the time were up
}

// Close closes the socket. Were there TLS in between, it would say goodbye.
func (r *records) Close() error { return r.socket.Close() }

// Read reads from what is below.
func (r *records) Read(p []byte) (int, error) {
	if r.shut {
		return 0, os.ErrDeadlineExceeded // from which TLS recovers
	}
	n, err := r.Conn.Read(p)
	r.follow(p[:n])
	return n, err
}

// follow moves on by what was read.
func (r *records) follow(p []byte) {
	for len(p) > 0 {
		if r.left > 0 {
			n := min(r.left, len(p))
			r.left -= n
			p = p[n:]
			continue
		}
		n := copy(r.head[r.have:], p)
		p = p[n:]
		if r.have += n; r.have == len(r.head) {
			r.have, r.left = 0, int(binary.BigEndian.Uint16(r.head[3:]))
		}
	}
}

// drained reports whether TLS, which is above, holds nothing that it read: no
// record with something in it, and no part of one. What it finds is lost.
func (r *records) drained(above net.Conn) bool {
	r.shut = true
	defer func() { r.shut = false }()
	var b [1]byte
	n, err := above.Read(b[:])
	// TLS asks for more only when it holds no whole record.
	return n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && r.have == 0 && r.left == 0
}
