package egress

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/postrider/postrider"
)

// Exchange is the memory of one request and its response, and records whether the request was sent
// and how long it took. The zero value is ready. An Exchange may be used for several round trips,
// one after the other. While a round trip waits for its response, the Exchange holds about 5 KiB.
type Exchange struct {
	Request  Request
	Deadline time.Time // set by the caller: limits round trips besides their context; zero: no limit

	// Look is set by the caller. RoundTrip calls it on the open connection, just before it writes
	// the request. If Look returns false, RoundTrip returns ErrWithdrawn. A nil Look allows the
	// request.
	Look func() bool

	Sent    bool // set by RoundTrip: a byte of any request was written since Reset
	Written bool // set by RoundTrip: a byte of the last request was written
	// Timing is set by RoundTrip. Its times are sums over all calls since Reset. Reused is about the
	// last call only.
	Timing postrider.Timing

	reader responseReader
}

// ErrWithdrawn is the error of a request that [Exchange.Look] has stopped. No byte of the request
// was written.
var ErrWithdrawn = errors.New("the request was withdrawn before it was sent")

// Reset frees the request and forgets the response. It keeps the memory for reading responses.
func (x *Exchange) Reset() {
	x.Request.Free()
	x.reader.reset(nil)
	*x = Exchange{reader: x.reader}
}

// Limit returns ctx with the deadline of x. It is for work that does not wait on an open
// connection, such as a dial.
func (x *Exchange) Limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if x.Deadline.IsZero() {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, x.Deadline)
}

// ended reports whether a round trip must stop because of ctx or x.Deadline.
func (x *Exchange) ended(ctx context.Context) bool {
	return Ended(ctx) || !x.Deadline.IsZero() && !time.Now().Before(x.Deadline)
}

// RawHeader returns the header of the last response as it arrived, with the interim headers before
// it. If the header did not end, it returns the part that arrived; empty if nothing arrived. It lies
// in the memory of x: read it before x is used again.
func (x *Exchange) RawHeader() []byte { return x.reader.rawHeader() }

// Request is a whole HTTP/1.1 request, header and body, in memory that is used again.
// [Egress.RoundTrip] frees it as soon as it is written. So a round trip that waits for its response
// holds no copy of the body.
type Request struct {
	bytes  []byte
	buffer *[]byte // from requestBuffers; nil: none
}

// maxPooledRequest is the largest request buffer that is used again, in bytes.
const maxPooledRequest = 64 << 10

// requestBuffers are buffers for further requests. A buffer has the size of the largest request
// that it held, up to maxPooledRequest.
var requestBuffers = sync.Pool{New: func() any { return new([]byte) }}

// Buffer returns an empty slice in which the caller builds the request.
func (q *Request) Buffer() []byte {
	if q.buffer == nil {
		buffer, ok := requestBuffers.Get().(*[]byte)
		if !ok {
			buffer = new([]byte)
		}
		q.buffer = buffer
	}
	return (*q.buffer)[:0]
}

// Set makes buffer[start:] the request. The buffer comes from Buffer. The bytes before start were
// only needed to build the request.
func (q *Request) Set(buffer []byte, start int) {
	if q.buffer != nil {
		*q.buffer = buffer
	}
	q.bytes = buffer[start:]
}

// Bytes returns the request; nil after Free.
func (q *Request) Bytes() []byte { return q.bytes }

// Free gives the memory back and empties the request.
func (q *Request) Free() {
	if q.buffer != nil && cap(*q.buffer) <= maxPooledRequest {
		requestBuffers.Put(q.buffer)
	}
	*q = Request{}
}

// RoundTrip writes the request of x to the server and reads the response. If the request was not
// written, x keeps its request and the response before it. [FailureOf] classifies the error.
//
// RoundTrip ends with ctx or at x.Deadline, whichever is first. A caller that makes many round
// trips in one context sets x.Deadline instead of making a context for each. On an open connection,
// x.Deadline becomes a deadline of the socket and costs neither a timer nor memory.
func (e *Egress) RoundTrip(ctx context.Context, to Server, x *Exchange) (Response, error) {
	x.Written = false
	if x.ended(ctx) {
		return Response{}, cmp.Or(ctx.Err(), context.DeadlineExceeded)
	}
	response, err := e.roundTrip(ctx, to, x)
	x.Sent = x.Sent || x.Written
	return response, err
}

// roundTrip tries a pooled connection. It dials a new one if there is none, or if the pooled one
// was closed before a byte of the request was written. The package repeats nothing else. After the
// first byte the server may have the event, so only the caller can decide to send it again, as a
// new attempt.
func (e *Egress) roundTrip(ctx context.Context, to Server, x *Exchange) (Response, error) {
	if c := e.pooled(to, x.Deadline); c != nil {
		x.Timing.Reused = true
		response, err := e.roundTripOn(ctx, c, x)
		if err == nil || x.Written || x.ended(ctx) || errors.Is(err, ErrWithdrawn) {
			return response, err
		}
	}
	x.Timing.Reused = false
	c, err := e.dial(ctx, to, x)
	if err != nil {
		return Response{}, err
	}
	return e.roundTripOn(ctx, c, x)
}

// dial returns a new connection, which has the deadline of x. Dialing needs the deadline as a
// context, which costs a timer; afterwards it is a deadline of the socket. If the room is full,
// dial first closes idle connections.
func (e *Egress) dial(ctx context.Context, to Server, x *Exchange) (*conn, error) {
	ctx, cancel := x.Limit(ctx)
	defer cancel()
	for e.room.full() {
		idle := e.pool.evict()
		if idle == nil {
			break
		}
		idle.abort()
	}
	if err := e.room.take(to.Address); err != nil {
		return nil, err
	}
	c, err := e.dialer.dial(ctx, to, &x.Timing)
	if err != nil {
		e.room.free(to.Address)
		return nil, err
	}
	c.closed = func() { e.room.free(to.Address) }
	c.socket.SetDeadline(x.Deadline)
	return c, nil
}

// pooled returns an idle connection that can carry a request, with its deadline set; nil if there
// is none.
func (e *Egress) pooled(to Server, deadline time.Time) *conn {
	for {
		c := e.pool.get(to)
		if c == nil || c.usable(deadline) {
			return c
		}
		c.abort()
	}
}

// roundTripOn uses the connection, which has the deadline of x. Afterwards it pools or closes the
// connection.
//
// When the context ends, interrupt puts the deadline of the connection into the past, so that a
// blocked read or write returns. stop returns false if interrupt has started. interrupt may still
// be running then and would spoil the next round trip. So the connection is not pooled, even if
// this round trip was complete.
func (e *Egress) roundTripOn(ctx context.Context, c *conn, x *Exchange) (Response, error) {
	stop := context.AfterFunc(ctx, c.interrupt)
	response, reusable, err := x.writeAndRead(c)
	if stop() && reusable {
		e.pool.put(c)
	} else {
		c.abort()
	}
	return response, err
}

// writeAndRead writes the request and reads the response. reusable reports whether the connection
// can carry another request. That needs four things: the request was written, the response was read
// to its end, neither side closes, and no byte is left over.
func (x *Exchange) writeAndRead(c *conn) (response Response, reusable bool, err error) {
	if x.Look != nil && !x.Look() {
		return Response{}, false, ErrWithdrawn
	}
	begun := time.Now()
	n, writeErr := c.Write(x.Request.bytes)
	x.Written = n > 0
	if !x.Written {
		return Response{}, false, writeErr
	}
	x.Request.Free()
	x.reader.reset(c)
	// A server may refuse the request and close before it has read everything. Then writing fails,
	// but a response is there.
	f, err := x.reader.readHeader()
	x.Timing.FirstByte += x.reader.firstByte().Sub(begun)
	if err != nil {
		return Response{}, false, cmp.Or(writeErr, err)
	}
	response.Status, response.header = f.status, x.reader.finalHeader()
	whole := false
	response.Body, whole = x.reader.readBody(f)
	return response, writeErr == nil && whole && !f.close && x.reader.drained(), nil
}

// Ended reports whether a round trip in the context must stop: the context has ended, or its
// deadline has passed and the context has not noticed yet.
func Ended(ctx context.Context) bool { return ctx.Err() != nil || Expired(ctx) }

// Expired reports whether the deadline of the context has passed. It compares the time itself,
// because a dial can end by the deadline a moment before ctx.Err reports it.
func Expired(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return errors.Is(ctx.Err(), context.DeadlineExceeded) || ok && !time.Now().Before(deadline)
}
