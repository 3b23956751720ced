package egress

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"net"
	"os"
)

// tlsLayer is one layer of TLS on a connection, and the tracker that it reads from.
type tlsLayer struct {
	tls   *tls.Conn
	below *recordTracker
}

// empty reports whether TLS holds no received bytes that nobody has read. The caller must first put
// the read deadline of the socket into the past.
//
// A server that sends more than one response to a request could plant the second one. TLS reads
// ahead, so the planted bytes are not in the socket, where [conn.usable] looks. They are in a
// buffer of crypto/tls that has no method for its size. That buffer can hold two things:
//
//   - Data of a whole record. A read returns it without touching the socket. If
//     there is none, the read needs the socket and fails with the deadline. That
//     is documented for [tls.Conn.SetReadDeadline] and can be repeated.
//   - The beginning of a record. A read does not show it, but recordTracker knows
//     that the last byte that TLS read did not end a record.
//
// A byte that this read returns is lost, but the connection is closed then anyway.
func (l tlsLayer) empty() bool {
	var b [1]byte
	n, err := l.tls.Read(b[:])
	return n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && l.below.atBoundary()
}

// recordTracker is the connection below TLS. It tracks where TLS records end. A record has a type,
// a version and a length, in 5 bytes, and then that many bytes of payload (RFC 8446, 5.1).
type recordTracker struct {
	net.Conn
	socket net.Conn // below all layers

	header [5]byte // of the record that is being read
	have   int     // how many bytes of header were read
	left   int     // how many bytes of the payload are still to come
}

// Close closes the socket directly. If another layer of TLS is in between, its Close would wait for
// a server that does not read.
func (r *recordTracker) Close() error { return r.socket.Close() }

// Read reads from the connection below.
func (r *recordTracker) Read(p []byte) (int, error) {
	n, err := r.Conn.Read(p)
	r.follow(p[:n])
	return n, err
}

// follow updates header, have and left by the bytes that were read.
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
