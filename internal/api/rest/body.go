package rest

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

	"github.com/postrider/postrider/internal/jsonx"
)

const (
	// bodyRate is the slowest rate at which a body may arrive, in bytes per
	// second.
	bodyRate = 64 << 10
	// bodySlack is the time for which a body may stay below bodyRate. After
	// that its request is refused.
	bodySlack = RequestTime
	// restTime is the time that net/http may spend on the unread rest of a
	// body. If the rest arrives within this time, the connection can be used
	// again. Otherwise net/http closes the connection.
	restTime = time.Second
	// smallBuffer is the size of every request's first buffer, in bytes. A body
	// that fits into it counts with its own length. A body that needs a larger
	// buffer counts with the capacity of that buffer.
	smallBuffer = 4 << 10
	// keptBuffer is the largest buffer that a request keeps until its response,
	// in bytes. A larger buffer is released as soon as its body is decoded.
	keptBuffer = 64 << 10
	// largeBuffer is the largest buffer that is pooled, in bytes. The garbage
	// collector frees every larger buffer.
	largeBuffer = 1 << 20
)

// buffers is the pool of the memory that bodies are read into, one pool for
// each size, smallest first. Decoding copies the values that it keeps, so a
// buffer can be used again after it.
var buffers = [...]buffersOf{{size: smallBuffer}, {size: 16 << 10}, {size: keptBuffer}, {size: 256 << 10}, {size: largeBuffer}}

// buffersOf is the pool of the free buffers of one size.
type buffersOf struct {
	// size is the capacity of each buffer in free, in bytes.
	size int
	free sync.Pool // of *bytes.Buffer
}

// bufferOf returns an empty buffer with a capacity of at least size bytes. It
// takes the smallest pooled size that fits, and allocates if that pool is
// empty.
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

// recycle puts a buffer back into the pool of its size. It drops a buffer of
// any other size. The caller must not use the buffer afterwards.
func recycle(buf *bytes.Buffer) {
	for i := range buffers {
		if kept := &buffers[i]; buf.Cap() == kept.size {
			buf.Reset()
			kept.free.Put(buf)
			return // another request may own the buffer now
		}
	}
}

// body says how the body of a request is read, and into which buffer.
type body struct {
	// route is the operation of the request. It has the scope and the limit.
	route Route
	// buf receives the body; nil: the operation has no body.
	buf *bytes.Buffer
}

// intake is the state of one body while it is read, and of its share of the
// budget until the request is answered. The request's goroutine owns it. Only
// cut is also written by another goroutine: the one that stops the server.
type intake struct {
	// writer is the response writer of the request. Its connection has the read
	// deadline. Set by readBody.
	writer http.ResponseWriter
	// payer has the share of the budget that the body uses. Set by readBody.
	payer Payer
	// held counts the bytes that the body has taken from the budget. Only the
	// request's goroutine writes it. 0 again after release.
	held int64
	// deadline is the time at which reading fails. Each read that brings bytes
	// moves it on.
	deadline time.Time
	// cut is set when the server stops while the body is being read. It is
	// never reset.
	cut atomic.Bool
	// over is true after the whole body was read, or after its deadline passed.
	// In both cases net/http has nothing left to read.
	over bool
}

// readBody reads the body into b.buf, within the limits of size, rate and
// memory. It checks the headers first, so that a request that is refused for
// them costs no memory. A Content-Length above the limit is refused before a
// byte is read. The caller must release a.intake after the response.
func (s *server) readBody(a *responseWriter, b body) error {
	r := a.request
	limit := cmp.Or(b.route.Limit, manageBody)
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
	// A chunked body has no announced length, so a reader enforces the limit.
	var from io.Reader = r.Body
	if r.ContentLength < 0 {
		from = http.MaxBytesReader(a.ResponseWriter, r.Body, limit)
	} else {
		limit = r.ContentLength // net/http reads no more than this
	}
	in := &a.intake
	in.writer, in.payer = a.ResponseWriter, PayerOf(a.info.Caller)
	if err := s.bodies.begin(in); err != nil {
		return err
	}
	// The server has already set this deadline on the connection, as
	// ReadTimeout.
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

// readFault maps an error of reading to the error that decides the response:
// too large, too slow, over the budget, server stopping, malformed chunks, or a broken
// connection.
func readFault(err error, limit int64) error {
	switch {
	case errors.Is(err, errOverBudget), errors.Is(err, errDraining):
		return err
	case errors.As(err, new(*http.MaxBytesError)):
		return tooLarge(limit)
	case isTimeout(err):
		return errSlowBody
	case !isCut(err):
		return fmt.Errorf("read body: %w: %w", errBadChunks, err)
	}
	return fmt.Errorf("read body: %w: %w", errBroken, err)
}

// isTimeout reports whether a read failed because its deadline passed.
func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// isCut reports whether a read failed because the connection ended. net/http has no type for
// its other errors: they say that a chunked body breaks the rules of RFC 9112, 7.1.
func isCut(err error) bool {
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, io.ErrClosedPipe) || errors.As(err, new(net.Error))
}

// tooLarge returns the 413 that states the limit of the route, in bytes.
func tooLarge(limit int64) error {
	return &Error{Class: ErrTooLarge, Detail: fmt.Sprintf("the body may have at most %d bytes", limit)}
}

// expire sets the read deadline of the connection. It ignores the error of a
// response writer without deadlines; only tests have one.
func (in *intake) expire(at time.Time) {
	_ = http.NewResponseController(in.writer).SetReadDeadline(at)
}

// end aborts the read. It sets a deadline in the past, which makes a blocked
// read return at once, and cut, which tells [bodies.fill] that the server is
// the cause.
func (in *intake) end() {
	in.cut.Store(true)
	in.expire(time.Unix(1, 0))
}

// arrived moves the deadline on for n bytes that arrived. The n bytes earn the
// time that they take at bodyRate. The deadline is never more than bodySlack
// from now, so a fast start does not pay for a later stall.
func (in *intake) arrived(now time.Time, n int) {
	in.deadline = in.deadline.Add(time.Duration(n) * time.Second / bodyRate)
	if latest := now.Add(bodySlack); in.deadline.After(latest) {
		in.deadline = latest
	}
	in.expire(in.deadline)
}

// fill reads a body of at most limit bytes into buf. Each byte is taken from
// the budget when it arrives. It returns errOverBudget if the budget is used up,
// and errDraining if the server stops.
//
// It reads into the free end of buf and grows buf when that is used up. So the memory
// follows the bytes that have arrived and not the announced length: a client cannot
// reserve 8 MiB with one header. The deadline moves with each read, so a slow client
// keeps its connection as long as it sends bodyRate on average.
func (b *bodies) fill(in *intake, buf *bytes.Buffer, from io.Reader, limit int64) error {
	// The check must follow the last expire of this goroutine: expire may
	// replace the past deadline that end has set, but it cannot reset cut.
	for !in.cut.Load() {
		if buf.Available() == 0 {
			if err := b.grow(in, buf, limit); err != nil {
				return err
			}
		}
		free := buf.AvailableBuffer()
		n, err := from.Read(free[:cap(free)])
		buf.Write(free[:n]) // copies nothing: the bytes are already in place
		// While the buffer is small, the body is charged for each byte.
		// Afterwards grow has charged the whole capacity, and more is not
		// positive.
		if more := int64(buf.Len()) - in.held; more > 0 {
			if full := b.charge(in, more); full != nil {
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

// grow moves the body to a buffer of four times the size, from largeBuffer on
// of twice the size. The buffer never has more than limit+1 bytes, unless the
// pooled size is larger. The extra byte lets the next read find the end of the
// body, or one byte too many. The budget is charged with the new capacity
// before the copy.
func (b *bodies) grow(in *intake, buf *bytes.Buffer, limit int64) error {
	factor := 4
	if buf.Cap() >= largeBuffer {
		factor = 2
	}
	larger := bufferOf(int(min(int64(factor*buf.Cap()), limit+1)))
	if err := b.charge(in, int64(larger.Cap())-in.held); err != nil {
		recycle(larger)
		return err
	}
	larger.Write(buf.Bytes())
	*buf, *larger = *larger, *buf
	recycle(larger)
	return nil
}

// Decode decodes a body that the handler does not need afterwards. It replaces
// a large buffer by a small one, so that a request does not hold its body in
// memory during the commit. While a body is decoded its bytes are in memory
// twice, which the budget does not count. So at most one large body for each
// processor is decoded at a time; more would not be faster.
func (b Raw) Decode(v any) error {
	if b.Cap() <= keptBuffer {
		return jsonx.Decode(b.Bytes(), v)
	}
	b.server.decoding <- struct{}{}
	err := jsonx.Decode(b.Bytes(), v)
	<-b.server.decoding
	small := bufferOf(0)
	*b.Buffer, *small = *small, *b.Buffer
	recycle(small) // after the exchange, small is the large buffer
	return err
}

// isJSON reports whether the media type is application/json. Of its parameters only
// the charset counts: JSON is UTF-8, and text in another one would be stored as
// other characters. The first comparison spares common requests the parser.
func isJSON(contentType string) bool {
	if contentType == "application/json" {
		return true
	}
	mediaType, params, err := mime.ParseMediaType(contentType)
	charset, given := params["charset"]
	return err == nil && mediaType == "application/json" && (!given || strings.EqualFold(charset, "utf-8"))
}

// isPlain reports whether the Content-Encoding headers name no coding other
// than identity. Compressed bodies are refused: their size in memory is unknown
// in advance.
func isPlain(codings []string) bool {
	return !slices.ContainsFunc(codings, func(coding string) bool { return !strings.EqualFold(coding, "identity") })
}
