package egress

import (
	"context"
	"time"
)

// trip sends the request that x holds to the peer, and returns the answer. It
// does so again, on a new connection, only when a kept one turned out to be
// closed before any byte of the request was written.
func (e *Egress) trip(ctx context.Context, to peer, x *exchange) (answer, error) {
	deadline, _ := ctx.Deadline()
	if c := e.kept(to, deadline); c != nil {
		ans, err := e.over(ctx, c, x)
		if err == nil || x.written || ended(ctx) {
			return ans, err
		}
	}
	c, err := e.dialer.dial(ctx, to)
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
