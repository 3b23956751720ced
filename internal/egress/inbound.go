package egress

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// errAnswer says that what came is not an answer in HTTP/1.
var errAnswer = errors.New("malformed answer")

func malformed(what string) error { return fmt.Errorf("%w: %s", errAnswer, what) }

var (
	errHeadTooLong = malformed("the head is too long")
	errLineTooLong = malformed("a line of the body is too long")
)

const (
	smallRoom = 4 << 10             // enough for almost every answer
	largeRoom = maxHead + smallRoom // a head, and room for what follows it
)

// inbound is what comes over a connection. A head stays where it is until the
// end; the body passes through the room behind it.
type inbound struct {
	src  io.Reader
	room []byte
	r, w int   // room[r:w] is still to be read
	head int   // the size of the head; 0: it is not complete
	err  error // of src, once it had one
}

// reset prepares for the next answer. Room that grew is given up.
func (in *inbound) reset(src io.Reader) {
	room := in.room
	if len(room) != smallRoom {
		room = make([]byte, smallRoom)
	}
	*in = inbound{src: src, room: room}
}

// began returns a copy of the answer's beginning: its head, with those of
// interim answers, or what came instead of it.
func (in *inbound) began() []byte {
	size := in.head
	if size == 0 {
		size = min(in.w, maxHead)
	}
	return append([]byte(nil), in.room[:size]...) // nil when nothing came
}

// fill reads more, and fails when nothing comes or nothing more fits.
func (in *inbound) fill() error {
	if in.err != nil {
		return in.err
	}
	in.makeRoom()
	if in.w == len(in.room) {
		if in.head == 0 {
			return errHeadTooLong
		}
		return errLineTooLong
	}
	n, err := in.src.Read(in.room[in.w:])
	in.w += n
	in.err = err
	if n > 0 {
		return nil // the error is for the next
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

// makeRoom moves what was read of the body out of the way, and grows once.
func (in *inbound) makeRoom() {
	if in.head > 0 && in.r > in.head {
		in.w = in.head + copy(in.room[in.head:], in.room[in.r:in.w])
		in.r = in.head
	}
	if len(in.room)-in.w < smallRoom/4 && len(in.room) < largeRoom {
		grown := make([]byte, largeRoom)
		copy(grown, in.room[:in.w])
		in.room = grown
	}
}

// line returns the next line without the line feed, as long as nothing more is
// read.
func (in *inbound) line() ([]byte, error) {
	for seen := 0; ; {
		unread := in.room[in.r:in.w]
		if end := bytes.IndexByte(unread[seen:], '\n'); end >= 0 {
			in.r += seen + end + 1
			return unread[:seen+end], nil
		}
		seen = len(unread)
		if err := in.fill(); err != nil {
			return nil, err
		}
	}
}

// read is io.Reader for a body: what is here already, else straight from the
// source.
func (in *inbound) read(p []byte) (int, error) {
	if in.r < in.w {
		n := copy(p, in.room[in.r:in.w])
		in.r += n
		return n, nil
	}
	if in.err != nil {
		return 0, in.err
	}
	n, err := in.src.Read(p)
	in.err = err
	return n, err
}

// readFull fills p, and returns how much of it when that is not all.
func (in *inbound) readFull(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var some int
		some, err = in.read(p[n:])
		n += some
	}
	if n == len(p) {
		err = nil
	}
	return n, err
}
