// Package peers connects the nodes of a store, so that a node can hand new deliveries to the nodes of
// their endpoints.
//
// A node starts the deliveries that it commits for its own endpoints at once. A delivery for an
// endpoint of another node would wait in the queue until that node has heard of it and has claimed it:
// one write more, and some tens of milliseconds. So the node that commits it leases it for the other
// one, and then sends it there, with its event:
//
//	node A                                        node B, which owns the endpoint
//	connects                                    ►
//	                                            ◄ greeting: a session with a token and a budget
//	Reserve: one of the budget
//	commits the delivery, leased under the token
//	Hand: the delivery and its event            ► starts it, or gives its lease back
//	one more of the budget                      ◄ acknowledgement, with the endpoints that refused
//
// Each node listens at an address. Its heartbeats tell the others the address and the hash of its
// public key, through the store. The nodes connect by TLS 1.3, and both sides check the key of the
// other. So only nodes of this store are connected, and no certificate has to be set up.
//
// These promises always hold:
//
//   - The store is the truth. What is lost on a connection is a lease that nobody uses. The node whose
//     lease it is gives it back when the connection has ended, or the lease ends by itself.
//   - Nothing waits for another node: what cannot be handed waits in the queue.
//
// Read peers.go (the nodes), then link.go (this node hands) and serve.go (this node takes).
package peers

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/schedule"
	"github.com/postrider/postrider/internal/store"
)

// Taker takes deliveries that other nodes hand to this one.
type Taker interface {
	// OpenSession returns a session for a node that has connected; zero: this node takes nothing. nodes
	// is the number of other nodes.
	OpenSession(nodes int) schedule.Session
	// Take takes deliveries of a session. It gives some back, and returns their endpoints.
	Take(deliveries []schedule.Handed) (refused []postrider.EndpointID)
	// CloseSession gives back what is leased under the token and was not taken. It takes some seconds,
	// and less when ctx has ended.
	CloseSession(ctx context.Context, token postrider.Token)
}

// Peers are the connections to the other nodes. Its methods may be called from any goroutine. A nil
// Peers does nothing in Run and Close.
type Peers struct {
	identity identity
	listener net.Listener
	address  string // where other nodes reach the listener
	log      *slog.Logger

	changed batch.Signal                 // Set was called
	peers   atomic.Pointer[[]store.Peer] // of the last Set
	links   atomic.Pointer[links]
	// The connections that other nodes have made end with it. It ends when nodes come or go, because
	// they divide the budget.
	inbound atomic.Pointer[inbound]
}

// inbound is the context of connections that other nodes have made.
type inbound struct {
	ctx context.Context //nolint:containedctx // it is replaced while connections are accepted
	end context.CancelFunc
}

// links are the links to the other nodes.
type links struct {
	all     []*link
	byShard [store.Shards]*link // the link to the owner of each shard; nil: there is none
}

// New listens at the address, host:port. An empty host means local, which is also the address for
// other nodes where the host means all addresses of this machine.
func New(ctx context.Context, address string, local netip.Addr, log *slog.Logger) (*Peers, error) {
	own, err := newIdentity()
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("listen for other nodes: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(cmp.Or(host, local.String()), port))
	if err != nil {
		return nil, fmt.Errorf("listen for other nodes: %w", err)
	}
	p := &Peers{identity: own, listener: listener, address: listener.Addr().String(), log: log, changed: batch.NewSignal()}
	if at, err := netip.ParseAddrPort(p.address); err == nil && at.Addr().IsUnspecified() {
		p.address = netip.AddrPortFrom(local, at.Port()).String()
	}
	p.peers.Store(&[]store.Peer{})
	p.links.Store(&links{})
	return p, nil
}

// Address returns where other nodes reach this one, host:port.
func (p *Peers) Address() string { return p.address }

// Close ends the listening, if Run was not called.
func (p *Peers) Close() {
	if p != nil {
		_ = p.listener.Close()
	}
}

// PublicKey returns the SHA-256 of the public key of this node.
func (p *Peers) PublicKey() [32]byte { return p.identity.hash }

// Set names the other nodes. Nodes that are no longer named are disconnected.
func (p *Peers) Set(peers []store.Peer) {
	p.peers.Store(&peers)
	p.changed.Set()
}

// Reserve returns the token of the session with the endpoint's node, under which one new delivery may
// be leased; zero: it must wait in the queue. Each reservation must be given back by Hand.
func (p *Peers) Reserve(endpoint postrider.EndpointID) postrider.Token {
	l := p.links.Load().byShard[store.Shard(endpoint)]
	if l == nil {
		return 0
	}
	return l.reserve(endpoint)
}

// Hand gives back reservations of a session, and sends the deliveries that were committed under its
// token; false: the session has ended, and nothing is sent.
func (p *Peers) Hand(token postrider.Token, reserved int, committed []schedule.Handed) bool {
	return slices.ContainsFunc(p.links.Load().all, func(l *link) bool { return l.hand(token, reserved, committed) })
}

// Run connects to the nodes of Set, and passes what other nodes hand to this one to taker, until ctx
// ends. It is called once and returns nil.
func (p *Peers) Run(ctx context.Context, taker Taker) error {
	if p == nil {
		<-ctx.Done()
		return nil
	}
	var parts sync.WaitGroup
	p.admit(ctx)
	parts.Go(func() { p.serve(ctx, taker) })
	connected := map[uint32]*link{}
	for ctx.Err() == nil {
		select {
		case <-p.changed:
		case <-ctx.Done():
		}
		if p.connect(ctx, &parts, connected) {
			p.admit(ctx)
		}
	}
	p.inbound.Load().end()
	parts.Wait()
	return nil
}

// admit ends the connections that other nodes have made. They connect again.
func (p *Peers) admit(ctx context.Context) {
	ctx, end := context.WithCancel(ctx)
	if before := p.inbound.Swap(&inbound{ctx, end}); before != nil {
		before.end()
	}
}

// connect makes links to new nodes, ends the links to nodes that are gone, and notes which link leads
// to the owner of each shard. It reports whether nodes came or went.
func (p *Peers) connect(ctx context.Context, parts *sync.WaitGroup, connected map[uint32]*link) (changed bool) {
	peers := *p.peers.Load()
	for incarnation, l := range connected {
		if ctx.Err() != nil || !slices.ContainsFunc(peers, func(n store.Peer) bool { return n.Incarnation == incarnation }) {
			l.end()
			delete(connected, incarnation)
			changed = true
		}
	}
	var now links
	for _, peer := range peers {
		if ctx.Err() != nil {
			break
		}
		l := connected[peer.Incarnation]
		if l == nil {
			l = newLink(p.identity, peer, p.log)
			connected[peer.Incarnation] = l
			linked, end := context.WithCancel(ctx)
			l.end = end
			changed = true
			parts.Go(func() { l.run(linked) })
		}
		now.all = append(now.all, l)
		for _, shard := range peer.Shards {
			now.byShard[shard] = l
		}
	}
	p.links.Store(&now)
	return changed
}
