package egress

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"net"
	"os"
)

// tlsLayer is TLS on a connection, and what it reads from.
type tlsLayer struct {
	tls   *tls.Conn
	below *recordTracker
}

// empty reports whether TLS holds nothing that nobody has read. It must be
// called while the read deadline of the socket has passed.
//
// A server that sends more than one response to a request could plant the
// second one: TLS reads ahead, so it would not lie in the socket, where
// [conn.usable] looks, but in a buffer of crypto/tls that has no method to ask
// for its size. It can hold two things:
//
//   - Data of a whole record. A read returns it without touching the socket. If
//     there is none, the read wants the socket and fails with the deadline,
//     which is documented for [tls.Conn.SetReadDeadline] and can be repeated.
//   - The beginning of a record. A read cannot tell, but the tracker below knows
//     that the last byte that TLS read did not end a record.
//
// The byte that a read finds is lost, but then the connection is closed anyway.
func (l tlsLayer) empty() bool {
	var b [1]byte
	n, err := l.tls.Read(b[:])
	return n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && l.below.atBoundary()
}

// recordTracker is a connection below TLS that follows where records end. A
// record is a type, a version and a length, in 5 bytes, and so many bytes of
// payload (RFC 8446, 5.1).
type recordTracker struct {
	net.Conn
	socket net.Conn // below all layers

	header [5]byte // of the record that is read
	have   int     // bytes of header that were read
	left   int     // bytes of the payload that were not read yet
}

// Close closes the socket. If there is TLS in between, its Close would wait for
// a server that does not read.
func (r *recordTracker) Close() error { return r.socket.Close() }

// Read reads from the connection below.
func (r *recordTracker) Read(p []byte) (int, error) {
	n, err := r.Conn.Read(p)
	r.follow(p[:n])
	return n, err
}

// follow counts the bytes that were read.
func (r *recordTracker) follow(p []byte) {
	for len(p) > 0 {
		if r.left > 0 {
			n := min(r.left, len(p))
			r.left -= n
			p = p[n:]
			continue
		}
		n := copy(r.header[r.have:], p)
		p = p[n:]
		if r.have += n; r.have == len(r.header) {
			r.have, r.left = 0, int(binary.BigEndian.Uint16(r.header[3:]))
		}
	}
}

// atBoundary reports whether the last byte that was read ended a record.
func (r *recordTracker) atBoundary() bool { return r.have == 0 && r.left == 0 }
