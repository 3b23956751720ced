package egress

import (
	"sync"
	"time"
)

// pool keeps idle connections: at most maxIdleHost to one server and maxIdle in total, each for
// idleTimeout. A timer closes them, so no goroutine waits.
type pool struct {
	mu     sync.Mutex
	idle   map[Server][]*conn // oldest first
	total  int
	timer  *time.Timer // calls closeExpired; nil: never started
	armed  bool        // the timer runs
	closed bool
}

// newPool returns an empty pool without a timer.
func newPool() *pool { return &pool{idle: map[Server][]*conn{}} }

// get removes and returns the idle connection to the server that was used last; nil if there is
// none. The caller must check whether it is still usable. The newest connection is the least likely
// to have been closed by the server. Connections that are no longer needed stay idle until they
// expire.
func (p *pool) get(to Server) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	idle := p.idle[to]
	if len(idle) == 0 {
		return nil
	}
	last := len(idle) - 1
	c := idle[last]
	idle[last] = nil
	p.idle[to] = idle[:last]
	p.total--
	return c
}

// put adds a connection. A full pool closes its oldest connection for that; if the server of c has
// too many, the oldest to that server. A closed pool closes c. Connections are closed without the
// lock, because closing a socket is a system call.
func (p *pool) put(c *conn) {
	if drop := p.add(c, time.Now()); drop != nil {
		drop.abort()
	}
}

// add adds c and returns the connection that must be closed, or nil.
func (p *pool) add(c *conn, now time.Time) (drop *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return c
	case len(p.idle[c.server]) >= maxIdleHost:
		drop = p.popLocked(c.server)
	case p.total >= maxIdle:
		drop = p.popLocked(p.oldestLocked())
	}
	c.idleSince = now
	p.idle[c.server] = append(p.idle[c.server], c)
	p.total++
	if !p.armed {
		p.armLocked(idleTimeout)
	}
	return drop
}

// armLocked starts the timer. One timer serves all connections. It runs while the pool has a
// connection, and fires when the oldest one expires.
func (p *pool) armLocked(wait time.Duration) {
	p.armed = true
	if p.timer == nil {
		p.timer = time.AfterFunc(wait, p.closeExpired)
		return
	}
	p.timer.Reset(wait)
}

// evict removes and returns the oldest connection of all; nil if there is none. The caller closes
// it, without the lock.
func (p *pool) evict() *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.total == 0 {
		return nil
	}
	return p.popLocked(p.oldestLocked())
}

// popLocked removes and returns the oldest connection to the server.
func (p *pool) popLocked(to Server) *conn {
	idle := p.idle[to]
	c := idle[0]
	copy(idle, idle[1:])
	idle[len(idle)-1] = nil
	p.idle[to] = idle[:len(idle)-1]
	p.total--
	return c
}

// oldestLocked returns the server of the oldest connection. A scan of all servers costs less than
// the dial that made the scan necessary.
func (p *pool) oldestLocked() Server {
	var found Server
	var since time.Time
	for to, idle := range p.idle {
		if len(idle) > 0 && (since.IsZero() || idle[0].idleSince.Before(since)) {
			found, since = to, idle[0].idleSince
		}
	}
	return found
}

// closeExpired closes the connections that have been idle for idleTimeout, and sets the timer for
// the others.
func (p *pool) closeExpired() {
	for _, c := range p.expired(time.Now()) {
		c.abort()
	}
}

// expired removes and returns the connections that have been idle for idleTimeout. The caller
// closes them, without the lock. The connections to one server are in order of age, so each list is
// read up to the first connection that stays.
func (p *pool) expired(now time.Time) []*conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	var drop []*conn
	for to, idle := range p.idle {
		for len(idle) > 0 && now.Sub(idle[0].idleSince) >= idleTimeout {
			drop = append(drop, p.popLocked(to))
			idle = p.idle[to]
		}
		if len(idle) == 0 {
			delete(p.idle, to)
		}
	}
	if p.armed = false; p.total > 0 {
		p.armLocked(idleTimeout - now.Sub(p.idle[p.oldestLocked()][0].idleSince))
	}
	return drop
}

// close closes all idle connections. From then on put closes every connection.
func (p *pool) close() {
	for _, c := range p.empty() {
		c.abort()
	}
}

// empty removes and returns all connections. The caller closes them, without the lock.
func (p *pool) empty() []*conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.armed {
		p.timer.Stop()
	}
	var all []*conn
	for _, idle := range p.idle {
		all = append(all, idle...)
	}
	p.idle, p.total = map[Server][]*conn{}, 0
	return all
}
