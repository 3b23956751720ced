package egress

import (
	"cmp"
	"context"
	"net/http"
	"sync"
	"time"
)

// exchange is what an attempt sends and gets, over whatever connections it
// gets. Its memory is used again; while it waits for an answer that is about
// 5 KiB.
type exchange struct {
	route   *route // where the last request went
	request request
	head    []byte // of the request, which is released when it was written
	in      inbound
	sent    bool // some of a request was written
	written bool // some of the last request was
	led     bool // a redirect was followed
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
	x.in.reset(nil)
	*x = exchange{head: x.head[:0], in: x.in}
	exchanges.Put(x)
}

// answer is what came back.
type answer struct {
	answerHead
	body []byte
}

// exchange sends what the draft becomes to the endpoint's peer, and on to where
// that points, as far as the endpoint wants it.
func (e *Egress) exchange(ctx context.Context, x *exchange, d draft) (ans answer, err error) {
	if x.route, err = e.routes.find(ctx, d.to, d.at); err != nil {
		return answer{}, err
	}
	grant := x.route.grant
	if d.token, err = grant.bearer(ctx); err != nil {
		return answer{}, err
	}
	if x.request, x.head, err = d.build(x.route, x.head[:0]); err != nil {
		return answer{}, err
	}
	ans, err = e.ask(ctx, x)
	for hop := 0; err == nil && hop < x.route.hops && ans.repeats(); hop++ {
		ans, err = e.follow(ctx, x, &d, ans)
	}
	if err == nil && ans.status == http.StatusUnauthorized && x.route.grant != nil {
		grant.reject(d.token, time.Now())
	}
	return ans, err
}

// ask sends the request to the peer of its route.
func (e *Egress) ask(ctx context.Context, x *exchange) (answer, error) {
	x.written = false
	if ended(ctx) {
		return answer{}, cmp.Or(ctx.Err(), context.DeadlineExceeded)
	}
	ans, err := e.trip(ctx, x.route.peer, x)
	x.sent = x.sent || x.written
	return ans, err
}

// run writes the request and reads the answer. It reports whether another
// request may follow.
func (x *exchange) run(c *conn) (ans answer, again bool, err error) {
	n, failed := c.Write(x.request.bytes)
	x.written = n > 0
	if !x.written {
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
