package egress

import (
	"io"
	"net"
)

// ReadResult has the parts of a response that tests compare.
type ReadResult struct {
	Status                     int
	Date, Location, RetryAfter string
	Body                       []byte
	Again                      bool // the connection may be used again
}

// ReadResponse reads one response.
func ReadResponse(src io.Reader) (ReadResult, error) { return NewResponseReader()(src) }

// NewResponseReader returns a function that reads responses with the same memory.
func NewResponseReader() func(io.Reader) (ReadResult, error) {
	var rd responseReader
	return func(src io.Reader) (ReadResult, error) { return readResponse(&rd, src) }
}

func readResponse(rd *responseReader, src io.Reader) (ReadResult, error) {
	rd.reset(src)
	f, err := rd.readHeader()
	if err != nil {
		return ReadResult{}, err
	}
	r := Response{header: rd.finalHeader()}
	body, whole := rd.readBody(f)
	return ReadResult{
		Status: f.status, Date: r.Field("Date"), Location: r.Field("Location"), RetryAfter: r.Field("Retry-After"),
		Body: body, Again: whole && !f.close && rd.r == rd.w,
	}, nil
}

// Pool keeps connections.
type Pool struct{ pool *pool }

// NewPool returns an empty pool.
func NewPool() Pool { return Pool{newPool()} }

// Put adds a connection to the address. Its server does not read, so a TLS Close would wait for
// ever.
func (p Pool) Put(address string, c net.Conn) {
	p.pool.put(&conn{Conn: unread{c}, socket: c, server: Server{Address: address}})
}

// unread stands for TLS on a connection that is not read. Its Close does nothing: a pool that
// relies on it leaves the connection open.
type unread struct{ net.Conn }

func (unread) Close() error { return nil }

// Get returns the connection that was added last, or nil.
func (p Pool) Get(address string) net.Conn {
	if c := p.pool.get(Server{Address: address}); c != nil {
		return c.socket
	}
	return nil
}

// Close closes the pool.
func (p Pool) Close() { p.pool.close() }

// HasRoute exports hasRoute.
var HasRoute = hasRoute

// Room exports room.
type Room struct{ *room }

// NewRoom returns room for most connections, and for mostOf connections to one host and port.
func NewRoom(most, mostOf int) Room { return Room{newRoom(most, mostOf)} }

// Take exports take.
func (r Room) Take(address string) error { return r.take(address) }

// Free exports free.
func (r Room) Free(address string) { r.free(address) }
