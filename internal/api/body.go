package api

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/jsonx"
)

// RequestTime is the ReadTimeout that the [http.Server] of a [Handler] must have:
// how long a request may take until some of its body arrives. Setting it once for
// the connection is cheaper than for each body.
const RequestTime = 10 * time.Second

const (
	// bodyRate is the least rate at which a body must arrive, in bytes a second.
	bodyRate = 64 << 10
	// bodySlack is how long a body may stay below bodyRate before it is given up.
	bodySlack = RequestTime
	// restTime is how long net/http may wait for the rest of a body that is not
	// wanted, so that the connection can be used again. After that it is closed.
	restTime = time.Second
	// smallBuffer is the size of the buffer that every body starts with, in bytes.
	// A body that needs a larger one counts with its whole buffer.
	smallBuffer = 4 << 10
	// keptBuffer is the largest buffer that a request keeps until its answer, in
	// bytes. A larger one is given back once its body is decoded.
	keptBuffer = 64 << 10
	// largeBuffer is the largest buffer that is kept for other bodies, in bytes.
	largeBuffer = 1 << 20
)

// buffers holds the memory that bodies are read into, by its size. Decoding
// copies what it keeps, so that it can be used again.
var buffers = [...]buffersOf{{size: smallBuffer}, {size: 16 << 10}, {size: keptBuffer}, {size: 256 << 10}, {size: largeBuffer}}

// buffersOf are the free buffers of one size.
type buffersOf struct {
	size int
	free sync.Pool // of *bytes.Buffer
}

// bufferOf returns an empty buffer for at least size bytes.
func bufferOf(size int) *bytes.Buffer {
	for i := range buffers {
		if kept := &buffers[i]; size <= kept.size {
			if buf, ok := kept.free.Get().(*bytes.Buffer); ok {
				return buf
			}
			size = kept.size
			break
		}
	}
	return bytes.NewBuffer(make([]byte, 0, size))
}

// recycle keeps a buffer for other bodies, if it is of one of the sizes.
func recycle(buf *bytes.Buffer) {
	for i := range buffers {
		if kept := &buffers[i]; buf.Cap() == kept.size {
			buf.Reset()
			kept.free.Put(buf)
			return // it is another body's by now
		}
	}
}

type body struct {
	route route
	buf   *bytes.Buffer
}

// intake is one body on its way into memory.
type intake struct {
	writer   http.ResponseWriter // of its request; it sets the deadlines
	key      postrider.KeyID
	held     int64 // bytes that count
	deadline time.Time
	cut      atomic.Bool // by end: the server ends
	over     bool        // all of it was read, or its deadline has passed
}

// readBody reads the body within its bounds of size and time.
func (s *server) readBody(a *responseWriter, b body) error {
	r := a.request
	limit := cmp.Or(b.route.limit, manageBody)
	if r.ContentLength > limit {
		return tooLarge(limit)
	}
	if r.ContentLength != 0 {
		if !isJSON(r.Header.Get("Content-Type")) {
			return errMediaType
		}
		if !isPlain(r.Header["Content-Encoding"]) {
			return errEncoding
		}
	}
	var from io.Reader = r.Body
	if r.ContentLength < 0 {
		from = http.MaxBytesReader(a.ResponseWriter, r.Body, limit)
	} else {
		limit = r.ContentLength // there cannot be more than was announced
	}
	in := &a.intake
	in.writer, in.key = a.ResponseWriter, a.info.key.ID
	if err := s.bodies.begin(in); err != nil {
		return err
	}
	in.deadline = a.info.start.Add(bodySlack)
	err := s.bodies.fill(in, b.buf, from, limit)
	s.bodies.finish(in)
	a.info.reading = time.Since(a.info.start)
	if err == nil {
		in.over = true
		return nil
	}
	in.over = isTimeout(err)
	return readFault(err, limit)
}

// readFault says whose fault it is that a body was not read.
func readFault(err error, limit int64) error {
	switch {
	case errors.Is(err, errNoRoom), errors.Is(err, errDraining):
		return err
	case errors.As(err, new(*http.MaxBytesError)):
		return tooLarge(limit)
	case isTimeout(err):
		return errSlowBody
	}
	return fmt.Errorf("read body: %w: %w", errBroken, err)
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

func tooLarge(limit int64) error {
	return &apiError{class: errTooLarge, detail: fmt.Sprintf("the body may have at most %d bytes", limit)}
}

// expire sets when reading ends. A writer without deadlines is that of a test.
func (in *intake) expire(at time.Time) {
	_ = http.NewResponseController(in.writer).SetReadDeadline(at)
}

// end gives the body up: its deadline has passed, and stays so.
func (in *intake) end() {
	in.cut.Store(true)
	in.expire(time.Unix(1, 0))
}

// arrived moves the deadline on for n bytes that arrived: by the time that they
// may take, and to at most bodySlack from now.
func (in *intake) arrived(now time.Time, n int) {
	in.deadline = in.deadline.Add(time.Duration(n) * time.Second / bodyRate)
	if latest := now.Add(bodySlack); in.deadline.After(latest) {
		in.deadline = latest
	}
	in.expire(in.deadline)
}

// fill reads a body of at most limit bytes into buf.
func (b *bodies) fill(in *intake, buf *bytes.Buffer, from io.Reader, limit int64) error {
	for !in.cut.Load() { // looked at after a deadline was set, which else could undo that of the cut
		if buf.Available() == 0 {
			if err := b.grow(in, buf, limit); err != nil {
				return err
			}
		}
		room := buf.AvailableBuffer()
		n, err := from.Read(room[:cap(room)])
		buf.Write(room[:n]) // which is there already
		if more := int64(buf.Len()) - in.held; more > 0 {
			if full := b.take(in, more); full != nil {
				return full
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			if in.cut.Load() {
				break
			}
			return err
		}
		in.arrived(time.Now(), n)
	}
	return errDraining
}

// grow puts the body into a buffer of four times the size, at the end twice. It
// has room for a byte after the limit, in which the end of the body, or one byte
// too many, is found.
func (b *bodies) grow(in *intake, buf *bytes.Buffer, limit int64) error {
	factor := 4
	if buf.Cap() >= largeBuffer {
		factor = 2
	}
	larger := bufferOf(int(min(int64(factor*buf.Cap()), limit+1)))
	if err := b.take(in, int64(larger.Cap())-in.held); err != nil {
		recycle(larger)
		return err
	}
	larger.Write(buf.Bytes())
	*buf, *larger = *larger, *buf
	recycle(larger)
	return nil
}

// unpack decodes a body that the handler needs no more, and drops a large one
// before the caller waits for the commit of what was made of it. Large bodies
// are decoded by as many goroutines as there are processors: while one is
// decoded, its bytes are in memory twice.
func (s *server) unpack(buf *bytes.Buffer, v any) error {
	if buf.Cap() <= keptBuffer {
		return jsonx.Decode(buf.Bytes(), v)
	}
	s.decoding <- struct{}{}
	err := jsonx.Decode(buf.Bytes(), v)
	<-s.decoding
	small := bufferOf(0)
	*buf, *small = *small, *buf
	recycle(small) // which is the large one now
	return err
}

func isJSON(contentType string) bool {
	if contentType == "application/json" {
		return true
	}
	mediaType, _, err := mime.ParseMediaType(contentType)
	return err == nil && mediaType == "application/json"
}

// isPlain reports whether a body with these content codings is not coded.
func isPlain(codings []string) bool {
	return !slices.ContainsFunc(codings, func(coding string) bool { return !strings.EqualFold(coding, "identity") })
}
