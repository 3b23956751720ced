package egress

import (
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// The bounds of connections over which HTTP/2 is spoken.
const (
	maxShared     = 256
	maxSharedHost = 4
	pingAfter     = 10 * time.Second // of silence; a peer that does not answer is dead
	pingTimeout   = 5 * time.Second
)

// shared is a connection over which HTTP/2 is spoken: many exchanges have it
// at a time, and net/http reads from it in a goroutine of its own, which ends
// with the connection.
type shared struct {
	peer   peer
	client *http.ClientConn
	frames *frames

	// Of the pool, under its mutex.
	users     int
	retired   bool // takes no more
	idleSince time.Time
}

func (s *shared) end() { s.client.Close() }

// sharedPool keeps connections that are shared: at most maxSharedHost to a peer
// and maxShared in all. One that finds no room serves the attempt that it was
// made for, so there are never more than those and the attempts under way. A
// connection without a user is closed after idleTimeout.
type sharedPool struct {
	transport *http.Transport

	mu     sync.Mutex
	open   map[peer][]*shared
	total  int
	timer  *time.Timer // of the next sweep; nil: none is due
	closed bool
}

// connKey is where the transport finds the connection that it is to use.
type connKey struct{}

// newSharedPool returns an empty pool. Its transport knows HTTP/2 and nothing
// else: it neither dials, nor redirects, nor repeats a request, since it is
// only given single connections.
func newSharedPool() *sharedPool {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true) // TLS is there already, below
	return &sharedPool{
		open: map[peer][]*shared{},
		transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				c, ok := ctx.Value(connKey{}).(*frames)
				if !ok {
					return nil, net.ErrClosed
				}
				return c, nil
			},
			Protocols:              &protocols,
			DisableCompression:     true,
			MaxResponseHeaderBytes: maxHead,
			HTTP2: &http.HTTP2Config{
				MaxReadFrameSize:              maxFrame,
				MaxReceiveBufferPerStream:     streamWindow,
				MaxReceiveBufferPerConnection: connectionWindow,
				MaxDecoderHeaderTableSize:     4 << 10,
				MaxEncoderHeaderTableSize:     4 << 10,
				SendPingTimeout:               pingAfter,
				PingTimeout:                   pingTimeout,
				WriteByteTimeout:              pingAfter,
			},
		},
	}
}

// take returns a connection to the peer that has room for one more exchange,
// or nil. Whoever gets one gives it back.
func (p *sharedPool) take(to peer) *shared {
	for _, s := range p.candidates(to) {
		if s.client.Reserve() != nil { // full, or the other side closes it
			p.spurn(s)
			continue
		}
		if p.use(s) {
			return s
		}
		s.client.Release()
	}
	return nil
}

func (p *sharedPool) candidates(to peer) []*shared {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.open[to])
}

func (p *sharedPool) use(s *shared) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.retired {
		return false
	}
	s.users++
	return true
}

// spurn closes a connection that takes nothing although nobody uses it.
func (p *sharedPool) spurn(s *shared) {
	if p.unused(s) {
		s.end()
	}
}

func (p *sharedPool) unused(s *shared) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.retired || s.users > 0 {
		return false
	}
	p.dropLocked(s)
	return true
}

// add begins HTTP/2 on a connection and returns it with its first user. It
// closes what it cannot use.
func (p *sharedPool) add(ctx context.Context, c *conn) (*shared, error) {
	f := &frames{conn: c}
	f.allowance.Store(connAllowance)
	client, err := p.transport.NewClientConn(context.WithValue(ctx, connKey{}, f), "http", c.peer.address)
	if err != nil {
		c.abort()
		return nil, err
	}
	c.SetDeadline(time.Time{}) // an exchange has its own
	s := &shared{peer: c.peer, client: client, frames: f, users: 1, retired: true}
	if err := client.Reserve(); err != nil {
		s.end()
		return nil, err
	}
	p.keep(s)
	return s, nil
}

// keep lets others find the connection, if there is room.
func (p *sharedPool) keep(s *shared) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.total >= maxShared || len(p.open[s.peer]) >= maxSharedHost {
		return
	}
	s.retired = false
	p.open[s.peer] = append(p.open[s.peer], s)
	p.total++
	if p.timer == nil {
		p.timer = time.AfterFunc(idleTimeout, p.sweep)
	}
}

// give ends a use. A connection that failed somebody is for nobody else.
func (p *sharedPool) give(s *shared, again bool) {
	if p.done(s, again) {
		s.end()
	}
}

// done reports whether the connection is to be closed.
func (p *sharedPool) done(s *shared, again bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.users--
	s.idleSince = time.Now()
	if !again {
		p.dropLocked(s)
	}
	return s.retired && s.users == 0
}

func (p *sharedPool) dropLocked(s *shared) {
	if s.retired {
		return
	}
	s.retired = true
	rest := slices.DeleteFunc(p.open[s.peer], func(other *shared) bool { return other == s })
	if p.open[s.peer] = rest; len(rest) == 0 {
		delete(p.open, s.peer)
	}
	p.total--
}

// sweep closes what has been idle for too long, or is closed by the other
// side, and comes back for the rest.
func (p *sharedPool) sweep() {
	now := time.Now()
	for _, s := range p.drop(func(s *shared) bool {
		return s.users == 0 && (now.Sub(s.idleSince) >= idleTimeout || s.client.Err() != nil)
	}) {
		s.end()
	}
}

// close closes what nobody uses now, and later what somebody does.
func (p *sharedPool) close() {
	p.shut()
	for _, s := range p.drop(func(*shared) bool { return true }) {
		s.end()
	}
}

func (p *sharedPool) shut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
}

// drop removes the connections that are meant, and returns those of them that
// have no user.
func (p *sharedPool) drop(meant func(*shared) bool) []*shared {
	p.mu.Lock()
	defer p.mu.Unlock()
	var idle []*shared
	for _, list := range p.open {
		for _, s := range slices.Clone(list) {
			if !meant(s) {
				continue
			}
			p.dropLocked(s)
			if s.users == 0 {
				idle = append(idle, s)
			}
		}
	}
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
	if p.total > 0 {
		p.timer = time.AfterFunc(idleTimeout/2, p.sweep)
	}
	return idle
}
