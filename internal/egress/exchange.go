package egress

import (
	"cmp"
	"context"
	"sync"
	"time"
)

// exchange is one request and its answer, over whatever connection it gets. Its
// memory is used again; while it waits for an answer that is about 5 KiB.
type exchange struct {
	request request
	head    []byte // of the request, which is released when it was written
	in      inbound
	sent    bool // some of the request was written
}

var exchanges = sync.Pool{New: func() any { return new(exchange) }}

func newExchange() *exchange {
	x, ok := exchanges.Get().(*exchange)
	if !ok {
		x = new(exchange)
	}
	return x
}

func (x *exchange) release() {
	x.request.release()
	x.head, x.sent = x.head[:0], false
	x.in.reset(nil)
	exchanges.Put(x)
}

// answer is what came back.
type answer struct {
	answerHead
	body []byte
}

// exchange sends what the draft becomes to the endpoint's peer. It does so
// again, on a new connection, only when a kept one turned out to be closed
// before any byte of the request was written.
func (e *Egress) exchange(ctx context.Context, x *exchange, d draft) (answer, error) {
	r, err := e.routes.find(d.to, d.at)
	if err != nil {
		return answer{}, err
	}
	if x.request, x.head, err = d.build(r, x.head[:0]); err != nil {
		return answer{}, err
	}
	if ended(ctx) {
		return answer{}, cmp.Or(ctx.Err(), context.DeadlineExceeded)
	}
	deadline, _ := ctx.Deadline()
	if c := e.kept(r.peer, deadline); c != nil {
		ans, err := e.over(ctx, c, x)
		if err == nil || x.sent || ended(ctx) {
			return ans, err
		}
	}
	c, err := e.dialer.dial(ctx, r.peer)
	if err != nil {
		return answer{}, err
	}
	c.SetDeadline(deadline)
	return e.over(ctx, c, x)
}

// kept returns a kept connection that still lives, with the deadline set, or
// nil.
func (e *Egress) kept(to peer, deadline time.Time) *conn {
	for {
		c := e.pool.take(to)
		if c == nil {
			return nil
		}
		c.SetDeadline(deadline)
		if c.alive() {
			return c
		}
		c.abort()
	}
}

// over makes the exchange on the connection, and keeps or closes it.
func (e *Egress) over(ctx context.Context, c *conn, x *exchange) (answer, error) {
	stop := context.AfterFunc(ctx, c.interrupt)
	ans, again, err := x.run(c)
	if stop() && again {
		e.pool.keep(c)
	} else {
		c.abort()
	}
	return ans, err
}

// run writes the request and reads the answer. It reports whether another
// request may follow.
func (x *exchange) run(c *conn) (ans answer, again bool, err error) {
	n, failed := c.Write(x.request.bytes)
	x.sent = n > 0
	if !x.sent {
		return answer{}, false, failed
	}
	x.request.release()
	x.in.reset(c)
	// A receiver may refuse before it has read everything and close: then
	// writing fails, but its answer is there.
	ans.answerHead, err = x.in.readHead()
	if err != nil {
		if failed != nil {
			err = failed
		}
		return answer{}, false, err
	}
	whole := false
	ans.body, whole = x.in.readBody(ans.answerHead)
	return ans, failed == nil && whole && !ans.close && x.in.r == x.in.w && x.in.err == nil, nil
}
