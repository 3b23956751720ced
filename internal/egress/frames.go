package egress

import (
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"sync/atomic"
)

// What the frames of a peer may cost on one connection. An answer takes at
// most 16 KiB of head and what its window lets through; a frame of any size
// takes work besides.
const (
	frameCost        = 32        // bytes that a frame counts for besides its own
	connAllowance    = 64 << 10  // to begin with
	answerAllowance  = 192 << 10 // more for each answer that is waited for
	maxAllowance     = 4 << 20   // that is left over from other answers
	knownFrames      = 0x9       // CONTINUATION is the last of RFC 9113
	maxFrame         = 16 << 10
	frameHead        = 9
	streamWindow     = 64 << 10
	connectionWindow = 1 << 20
)

var (
	errFrameSize = malformed("a frame is too long, or none")
	// errFrames ends a connection whose peer sends more than anybody waits for:
	// pings, settings, resets, headers without end.
	errFrames = malformed("more frames than an answer needs")
)

// frames is a connection below HTTP/2 that counts what comes, which net/http
// bounds in size but not in number, and leaves out frames of a type that
// nobody knows, for each of which net/http would write a line to stderr.
type frames struct {
	*conn
	allowance atomic.Int64

	head [frameHead]byte
	have int // bytes of head that are still to be given up
	left int // bytes of the frame behind it
}

// grant allows the peer another answer.
func (f *frames) grant() {
	for {
		left := f.allowance.Load()
		if f.allowance.CompareAndSwap(left, min(left, maxAllowance)+answerAllowance) {
			return
		}
	}
}

// Close closes the connection without a word.
func (f *frames) Close() error {
	f.abort()
	return nil
}

// Read gives up frames, never two at once.
func (f *frames) Read(p []byte) (int, error) {
	for f.have == 0 && f.left == 0 {
		if err := f.next(); err != nil {
			return 0, err
		}
	}
	if f.have > 0 {
		n := copy(p, f.head[frameHead-f.have:])
		f.have -= n
		return n, nil
	}
	n, err := f.conn.Read(p[:min(len(p), f.left)])
	f.left -= n
	return n, err
}

// next reads the head of a frame, and all of one that is left out.
func (f *frames) next() error {
	if _, err := io.ReadFull(f.conn, f.head[:]); err != nil {
		return err
	}
	size := int(binary.BigEndian.Uint32(f.head[:]) >> 8)
	if size > maxFrame {
		return errFrameSize
	}
	if f.allowance.Add(-int64(frameCost+size)) < 0 {
		return errFrames
	}
	if f.head[3] > knownFrames {
		_, err := io.CopyN(io.Discard, f.conn, int64(size))
		return err
	}
	f.have, f.left = frameHead, size
	return nil
}

// streamError is what net/http says of one stream, which it lets others copy
// into a struct of this shape.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

// Error says the cause.
func (e streamError) Error() string { return e.Cause.Error() }

// asAnswer returns the error of an exchange over HTTP/2 as an errAnswer, where
// the peer broke the protocol. What it said within the protocol, such as a
// reset, is none; nor is an end of the connection.
func asAnswer(err error) error {
	var s streamError
	ofStream := errors.As(err, &s) && s.Cause != nil && s.Cause.Error() != "received from peer"
	if ofStream || strings.HasPrefix(err.Error(), "connection error: ") {
		return errors.Join(errAnswer, err)
	}
	return err
}
