package peers

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/schedule"
	"github.com/postrider/postrider/internal/store"
)

const (
	// ioTimeout limits the making of a connection, and the sending of one message.
	ioTimeout = 2 * time.Second
	// keepalive is how often a node without deliveries sends an empty message, which is acknowledged.
	keepalive = time.Second
	// silence is how long a connection may bring nothing before it is taken for lost.
	silence = 5 * time.Second
	// reconnectPause is the pause before a new connection to the same node.
	reconnectPause = time.Second
	// refusalPause is how long nothing is handed to an endpoint, or to a full node, after it refused.
	refusalPause = 100 * time.Millisecond
	// warnAfter is how many connections fail in a row, or end within seconds, before that is logged. A
	// node that joins is refused until the heartbeats of the others have named it to them.
	warnAfter = 5
	// messageBytes is the data of events after which a message ends.
	messageBytes = 1 << 20
)

// link hands deliveries to one node.
type link struct {
	peer    store.Peer
	config  *tls.Config
	log     *slog.Logger
	end     context.CancelFunc // ends the context of run
	waiting *batch.Queue[schedule.Handed]

	mu      sync.Mutex
	session schedule.Session // its Budget is what is left; zero: there is no connection
	// When an endpoint refused last; a zero one: when the node was full. Forgotten with the session.
	refused map[postrider.EndpointID]time.Time
}

func newLink(own identity, peer store.Peer, log *slog.Logger) *link {
	return &link{
		peer: peer, config: own.config(func(hash [32]byte) bool { return hash == peer.PublicKey }),
		log: log.With("incarnation", peer.Incarnation, "address", peer.Address), waiting: batch.NewQueue[schedule.Handed](),
	}
}

// reserve takes one of the budget; zero: there is no connection, the budget is spent, or the endpoint or
// its node has refused just now.
func (l *link) reserve(endpoint postrider.EndpointID) postrider.Token {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.session.Budget <= 0 || l.pausesLocked(endpoint) || l.pausesLocked(postrider.EndpointID{}) {
		return 0
	}
	l.session.Budget--
	return l.session.Token
}

func (l *link) pausesLocked(endpoint postrider.EndpointID) bool {
	at, ok := l.refused[endpoint]
	return ok && time.Since(at) < refusalPause
}

// hand gives back what was reserved and not committed, and enqueues what was committed; false: the
// session of the token has ended.
func (l *link) hand(token postrider.Token, reserved int, committed []schedule.Handed) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.session.Token != token {
		return false
	}
	l.session.Budget += reserved - len(committed)
	l.waiting.Add(committed...)
	return true
}

// acknowledged gives back the budget of deliveries that the other node has taken or given back.
func (l *link) acknowledged(a acknowledgement) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.session.Budget += a.Deliveries
	if len(a.Refused) > 0 {
		maps.DeleteFunc(l.refused, func(_ postrider.EndpointID, at time.Time) bool { return time.Since(at) >= refusalPause })
	}
	for _, endpoint := range a.Refused {
		l.refused[endpoint] = time.Now()
	}
}

// begin begins a session. It drops what the last session has left in the queue: the other node gives
// that back.
func (l *link) begin(s schedule.Session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.session, l.refused = s, map[postrider.EndpointID]time.Time{}
	l.waiting.Take(0)
}

// run keeps a connection until ctx ends.
func (l *link) run(ctx context.Context) {
	for failures := 1; ; failures++ {
		begun := time.Now()
		err := l.connect(ctx)
		if time.Since(begun) > silence {
			failures = 1
		}
		l.log.DebugContext(ctx, "connection to another node has ended", "error", err)
		if failures == warnAfter && ctx.Err() == nil {
			l.log.WarnContext(ctx, "deliveries are not handed to another node", "error", err)
		}
		if !batch.Sleep(ctx, reconnectPause) {
			return
		}
	}
}

// connect makes a connection and hands deliveries until it is lost.
func (l *link) connect(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, ioTimeout)
	defer cancel()
	conn, err := (&tls.Dialer{Config: l.config}).DialContext(limited, "tcp", l.peer.Address)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	s := newStream(conn.(*tls.Conn)) //nolint:errcheck // a dialer of package tls makes no other
	var hello greeting
	if err := s.receive(&hello); err != nil {
		return err
	}
	l.begin(hello.Session)
	defer l.begin(schedule.Session{})
	return l.exchange(ctx, s)
}

// exchange sends deliveries and receives acknowledgements, until either fails.
func (l *link) exchange(ctx context.Context, s *stream) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var reading sync.WaitGroup
	defer reading.Wait()
	defer s.conn.Close()
	reading.Go(func() {
		for {
			var a acknowledgement
			if err := s.receive(&a); err != nil {
				cancel(err)
				return
			}
			l.acknowledged(a)
		}
	})
	idle := time.NewTicker(keepalive)
	defer idle.Stop()
	for {
		select {
		case <-l.waiting.Ready():
		case <-idle.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		deliveries := l.waiting.Take(0)
		for once := true; once || len(deliveries) > 0; once = false {
			var next handover
			next, deliveries = handoverOf(deliveries)
			if err := s.send(next); err != nil {
				return err
			}
		}
	}
}
