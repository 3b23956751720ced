package egress

import (
	"sync"
	"time"
)

// peer is where a connection leads and who comes. Whoever means the same peer
// may use a connection to it, so this names all that makes a difference to the
// other side.
type peer struct {
	secure   bool      // TLS
	address  string    // host:port, as the guard made it canonical
	identity *identity // from [identities]; nil: none of its own
}

// pool keeps connections for later: at most maxIdleHost to a peer and maxIdle
// in all, for idleTimeout. A timer closes them, so that nothing runs meanwhile.
type pool struct {
	mu     sync.Mutex
	idle   map[peer][]*conn // oldest first
	total  int
	timer  *time.Timer // of the next sweep
	armed  bool        // it runs
	closed bool
}

func newPool() *pool { return &pool{idle: map[peer][]*conn{}} }

// take returns the connection to the peer that was used last, or nil. It is
// the caller's, who has to see whether it still lives.
func (p *pool) take(to peer) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	kept := p.idle[to]
	if len(kept) == 0 {
		return nil
	}
	last := len(kept) - 1
	c := kept[last]
	kept[last] = nil
	p.idle[to] = kept[:last]
	p.total--
	return c
}

// keep takes a connection over, or closes it if there is no room.
func (p *pool) keep(c *conn) {
	if drop := p.add(c, time.Now()); drop != nil {
		drop.abort()
	}
}

// add returns the connection that had to make room, if one had.
func (p *pool) add(c *conn, now time.Time) (drop *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return c
	case len(p.idle[c.peer]) >= maxIdleHost:
		drop = p.popLocked(c.peer)
	case p.total >= maxIdle:
		drop = p.popLocked(p.oldestLocked())
	}
	c.idleSince = now
	p.idle[c.peer] = append(p.idle[c.peer], c)
	p.total++
	if !p.armed {
		p.armLocked(idleTimeout)
	}
	return drop
}

func (p *pool) armLocked(wait time.Duration) {
	p.armed = true
	if p.timer == nil {
		p.timer = time.AfterFunc(wait, p.sweep)
		return
	}
	p.timer.Reset(wait)
}

// popLocked removes the oldest connection to the peer.
func (p *pool) popLocked(to peer) *conn {
	kept := p.idle[to]
	c := kept[0]
	copy(kept, kept[1:])
	kept[len(kept)-1] = nil
	p.idle[to] = kept[:len(kept)-1]
	p.total--
	return c
}

// oldestLocked returns the peer of the oldest connection. Looking at all of
// them costs less than the dial that made this one necessary.
func (p *pool) oldestLocked() peer {
	var found peer
	var since time.Time
	for to, kept := range p.idle {
		if len(kept) > 0 && (since.IsZero() || kept[0].idleSince.Before(since)) {
			found, since = to, kept[0].idleSince
		}
	}
	return found
}

// sweep closes what has been idle for too long, and comes back for the rest.
func (p *pool) sweep() {
	for _, c := range p.expired(time.Now()) {
		c.abort()
	}
}

func (p *pool) expired(now time.Time) []*conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	var drop []*conn
	for to, kept := range p.idle {
		for len(kept) > 0 && now.Sub(kept[0].idleSince) >= idleTimeout {
			drop = append(drop, p.popLocked(to))
			kept = p.idle[to]
		}
		if len(kept) == 0 {
			delete(p.idle, to)
		}
	}
	if p.armed = false; p.total > 0 {
		p.armLocked(idleTimeout - now.Sub(p.idle[p.oldestLocked()][0].idleSince))
	}
	return drop
}

// close closes everything that is kept; from now on nothing is.
func (p *pool) close() {
	for _, c := range p.empty() {
		c.abort()
	}
}

func (p *pool) empty() []*conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.armed {
		p.timer.Stop()
	}
	var all []*conn
	for _, kept := range p.idle {
		all = append(all, kept...)
	}
	p.idle, p.total = map[peer][]*conn{}, 0
	return all
}
