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
	// smallBuffer is the size of the first buffer of every request, in bytes. The budget counts the
	// length of a body that fits into this buffer. For a longer body it counts the capacity of the
	// larger buffer.
	smallBuffer = 4 << 10
	// keptBuffer is the largest buffer that a request keeps until its response,
	// in bytes. A larger buffer is released as soon as its body is decoded.
	keptBuffer = 64 << 10
	// largeBuffer is the largest buffer that is pooled, in bytes. The garbage
	// collector frees every larger buffer.
	largeBuffer = 1 << 20
)

// buffers has one pool for each buffer size, smallest first. Bodies are read into these buffers.
// Decoding copies the values that it keeps, so the buffer can be used again afterwards.
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
	// route is the operation of the request. Its scope and its limit apply.
	route Route
	// buf receives the body; nil: the operation has no body.
	buf *bytes.Buffer
}

// intake is the state of one body: its progress while it is read, and its bytes in the budget until
// the response. The request's goroutine owns the intake. The goroutine that stops the server writes
// only cut.
type intake struct {
	// writer is the response writer of the request. The read deadline is set on its connection.
	// readBody sets the field.
	writer http.ResponseWriter
	// payer is the caller whose share of the budget the body uses. readBody sets the field.
	payer Payer
	// held counts the bytes that the body has taken from the budget. Only the request's goroutine
	// writes the field. release sets it to 0.
	held int64
	// deadline is the time at which reading fails. Each read that returns bytes extends it.
	deadline time.Time
	// cut is set when the server stops while the body is being read. It is
	// never reset.
	cut atomic.Bool
	// over is true after the whole body was read, or after its deadline passed.
	// In both cases net/http has nothing left to read.
	over bool
}

// readBody reads the body into b.buf, within the limits of size, rate and memory. It checks the
// headers first, so a request with refused headers costs no memory. It refuses a Content-Length
// above the limit before it reads a byte. The caller must release a.intake after the response.
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

// readFault maps an error of reading to the error that decides the response: the body is too large
// or too slow, the budget is used up, the server stops, the chunks are malformed, or the connection
// broke.
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

// isCut reports whether a read failed because the connection ended. The remaining errors of
// net/http have no type. They mean that a chunked body breaks the rules of RFC 9112, 7.1.
func isCut(err error) bool {
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, io.ErrClosedPipe) || errors.As(err, new(net.Error))
}

// tooLarge returns the 413 that states the limit of the route, in bytes.
func tooLarge(limit int64) error {
	return &Error{Class: ErrTooLarge, Detail: fmt.Sprintf("the body may have at most %d bytes", limit)}
}

// expire sets the read deadline of the connection. It ignores the error of a response writer that
// has no deadlines; only tests use such a writer.
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

// arrived extends the deadline for n bytes that arrived, by the time that n bytes take at bodyRate.
// The deadline is never more than bodySlack from now. So a client that starts fast cannot stall for
// longer later.
func (in *intake) arrived(now time.Time, n int) {
	in.deadline = in.deadline.Add(time.Duration(n) * time.Second / bodyRate)
	if latest := now.Add(bodySlack); in.deadline.After(latest) {
		in.deadline = latest
	}
	in.expire(in.deadline)
}

// fill reads a body of at most limit bytes into buf. It takes each byte from the budget when the
// byte arrives. It returns errOverBudget if the budget is used up, and errDraining if the server
// stops.
//
// fill reads into the free end of buf, and grows buf when no space is left. So the memory in use
// follows the bytes that have arrived, not the announced length: a client cannot reserve 8 MiB with
// one header. Each read extends the deadline, so a slow client keeps its connection as long as it
// sends bodyRate on average.
func (b *bodies) fill(in *intake, buf *bytes.Buffer, from io.Reader, limit int64) error {
	// This check must come after this goroutine's last call of expire. That call may overwrite the
	// past deadline that end has set, but it cannot reset cut.
	for !in.cut.Load() {
		if buf.Available() == 0 {
			if err := b.grow(in, buf, limit); err != nil {
				return err
			}
		}
		free := buf.AvailableBuffer()
		n, err := from.Read(free[:cap(free)])
		buf.Write(free[:n]) // copies nothing: the bytes are already in place
		// While the body fits into the small buffer, each byte is charged here. Later, grow has
		// already charged the whole capacity, so more is not positive.
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

// grow moves the body to a larger buffer: four times the size, or twice the size from largeBuffer
// on. The buffer has at most limit+1 bytes, unless the pooled size is larger. The extra byte lets
// the next read find the end of the body, or one byte too many. grow charges the new capacity to
// the budget before it copies.
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

// Decode decodes the body into v, for a handler that does not need the body afterwards. It replaces
// a large buffer by a small one, so that a request does not keep its body in memory during the
// commit. While Decode runs, the bytes of the body are in memory twice, and the budget counts them
// once. So only one large body for each processor is decoded at a time. More at a time would not be
// faster.
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

// isJSON reports whether the media type is application/json in UTF-8. Of the parameters it checks
// only the charset: JSON is UTF-8, and text in another charset would be stored as wrong characters.
// The first comparison makes common requests skip the parser.
func isJSON(contentType string) bool {
	if contentType == "application/json" {
		return true
	}
	mediaType, params, err := mime.ParseMediaType(contentType)
	charset, given := params["charset"]
	return err == nil && mediaType == "application/json" && (!given || strings.EqualFold(charset, "utf-8"))
}

// isPlain reports whether the Content-Encoding headers name only identity. Compressed bodies are
// refused, because their size in memory is unknown in advance.
func isPlain(codings []string) bool {
	return !slices.ContainsFunc(codings, func(coding string) bool { return !strings.EqualFold(coding, "identity") })
}
