package egress

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"time"
)

// errMalformed says that the bytes of the server are not a response in HTTP/1.
var errMalformed = errors.New("malformed response")

// malformed returns an errMalformed that says what is wrong and repeats no part of the response.
func malformed(what string) error { return fmt.Errorf("%w: %s", errMalformed, what) }

var (
	errHeaderTooLong = malformed("the header is too long")
	errLineTooLong   = malformed("a line of the body is too long")
)

const (
	smallBuffer = 4 << 10                 // enough for almost every response
	largeBuffer = maxHeader + smallBuffer // a header, and space for the bytes after it
)

// responseReader reads a response from a connection. The header stays in the buffer until the next
// reset. The body passes through the space behind it.
//
//	buffer:  [ interim headers | final header | body, read | body, unread | free ]
//	          0                 final          header       r              w
type responseReader struct {
	src    io.Reader
	buffer []byte
	r, w   int       // buffer[r:w] is not read yet
	final  int       // where the header that is being read begins, after interim headers
	header int       // where the final header ends; 0: it has not ended yet
	err    error     // the first error of src
	first  time.Time // when the first byte arrived; zero: no byte has arrived
}

// reset prepares for the next response. It drops a buffer that grew.
func (rd *responseReader) reset(src io.Reader) {
	buffer := rd.buffer
	if len(buffer) != smallBuffer {
		buffer = make([]byte, smallBuffer)
	}
	*rd = responseReader{src: src, buffer: buffer}
}

// rawHeader returns all bytes up to the end of the final header, as a part of the buffer. If the
// header did not end, it returns the bytes that arrived, at most maxHeader of them.
func (rd *responseReader) rawHeader() []byte {
	return rd.buffer[:cmp.Or(rd.header, min(rd.w, maxHeader))]
}

// firstByte returns when the first byte arrived; the present time if none has arrived.
func (rd *responseReader) firstByte() time.Time {
	if rd.first.IsZero() {
		return time.Now()
	}
	return rd.first
}

// finalHeader returns the final header as a part of the buffer.
func (rd *responseReader) finalHeader() []byte { return rd.buffer[rd.final:rd.header] }

// drained reports whether all received bytes were read, and the connection gave no error.
func (rd *responseReader) drained() bool { return rd.r == rd.w && rd.err == nil }

// fill reads more bytes into the buffer. It fails if nothing arrives or the buffer is full. So the
// size of the buffer bounds the header, and each line of a chunked body. A read may return bytes
// together with an error, such as the last bytes of a response with the end of the connection. The
// bytes count; fill keeps the error and returns it at the next call.
func (rd *responseReader) fill() error {
	if rd.err != nil {
		return rd.err
	}
	rd.makeSpace()
	if rd.w == len(rd.buffer) {
		if rd.header == 0 {
			return errHeaderTooLong
		}
		return errLineTooLong
	}
	n, err := rd.src.Read(rd.buffer[rd.w:])
	rd.w += n
	rd.err = err
	if n > 0 && rd.first.IsZero() {
		rd.first = time.Now()
	}
	if n > 0 {
		return nil // the error is for the next call
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

// makeSpace drops the part of the body that was read, and grows the buffer at most once. It never
// moves the final header, because [Response.Field] reads it there until the end of the attempt.
func (rd *responseReader) makeSpace() {
	if rd.header > 0 && rd.r > rd.header {
		rd.w = rd.header + copy(rd.buffer[rd.header:], rd.buffer[rd.r:rd.w])
		rd.r = rd.header
	}
	if len(rd.buffer)-rd.w < smallBuffer/4 && len(rd.buffer) < largeBuffer {
		grown := make([]byte, largeBuffer)
		copy(grown, rd.buffer[:rd.w])
		rd.buffer = grown
	}
}

// line returns the next line without its line feed. The line is valid until the next read.
func (rd *responseReader) line() ([]byte, error) {
	for searched := 0; ; {
		unread := rd.buffer[rd.r:rd.w]
		if end := bytes.IndexByte(unread[searched:], '\n'); end >= 0 {
			rd.r += searched + end + 1
			return unread[:searched+end], nil
		}
		searched = len(unread)
		if err := rd.fill(); err != nil {
			return nil, err
		}
	}
}

// read has the contract of io.Reader, for a body. It takes bytes from the buffer first and then
// from the source.
func (rd *responseReader) read(p []byte) (int, error) {
	if rd.r < rd.w {
		n := copy(p, rd.buffer[rd.r:rd.w])
		rd.r += n
		return n, nil
	}
	if rd.err != nil {
		return 0, rd.err
	}
	n, err := rd.src.Read(p)
	rd.err = err
	return n, err
}

// readFull fills p. If it cannot, it returns how many bytes it filled, and the error.
func (rd *responseReader) readFull(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var got int
		got, err = rd.read(p[n:])
		n += got
	}
	if n == len(p) {
		err = nil
	}
	return n, err
}
