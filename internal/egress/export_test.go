package egress

import (
	"context"
	"io"
	"net"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// Answer is what a connection that says src would be taken to answer.
type Answer struct {
	Status                     int
	Date, Location, RetryAfter string
	Body                       []byte
	Again                      bool // another request may follow
}

// ReadAnswer reads one answer.
func ReadAnswer(src io.Reader) (Answer, error) { return NewAnswerReader()(src) }

// NewAnswerReader returns what reads answers with the same memory.
func NewAnswerReader() func(io.Reader) (Answer, error) {
	var in inbound
	return func(src io.Reader) (Answer, error) { return readAnswer(&in, src) }
}

func readAnswer(in *inbound, src io.Reader) (Answer, error) {
	in.reset(src)
	h, err := in.readHead()
	if err != nil {
		return Answer{}, err
	}
	body, whole := in.readBody(h)
	return Answer{
		Status: h.status, Date: string(h.date), Location: string(h.location), RetryAfter: string(h.retryAfter),
		Body: body, Again: whole && !h.close && in.r == in.w,
	}, nil
}

// Built is a request as it is written, and its head as it is kept.
type Built struct {
	Bytes, Redacted []byte
	release         func()
}

// Release gives the memory of the request back.
func (b Built) Release() { b.release() }

// Build makes the request of an attempt.
func (e *Egress) Build(c *postrider.Claimed, to *store.EndpointSnapshot, at time.Time) (Built, error) {
	x := newExchange()
	if err := e.build(x, draft{claimed: c, to: to, at: at}); err != nil {
		x.release()
		return Built{}, err
	}
	return Built{x.request.bytes, redact(x.head, x.route.shown), x.release}, nil
}

// SignAndBuild is the part of Send before anything is sent.
func (e *Egress) SignAndBuild(c *postrider.Claimed, to *store.EndpointSnapshot, at time.Time) error {
	x := newExchange()
	defer x.release()
	return e.build(x, draft{claimed: c, to: to, at: at})
}

func (e *Egress) build(x *exchange, d draft) (err error) {
	if x.route, err = e.routes.find(context.Background(), d.to, d.at); err == nil {
		x.request, x.head, err = d.build(x.route, x.head[:0])
	}
	return err
}

// Pool keeps connections.
type Pool struct{ pool *pool }

// NewPool returns an empty pool.
func NewPool() Pool { return Pool{newPool()} }

// Keep keeps a connection to the address, whose peer does not read: closing it
// with a goodbye does not end.
func (p Pool) Keep(address string, c net.Conn) {
	p.pool.keep(&conn{Conn: unread{c}, tcp: c, peer: peer{address: address}})
}

// unread is what TLS would be above a connection that is not read. Its Close
// does nothing, which here is as bad as taking for ever.
type unread struct{ net.Conn }

func (unread) Close() error { return nil }

// Take returns the connection that was kept last, or nil.
func (p Pool) Take(address string) net.Conn {
	if c := p.pool.take(peer{address: address}); c != nil {
		return c.tcp
	}
	return nil
}

// Close closes the pool.
func (p Pool) Close() { p.pool.close() }
