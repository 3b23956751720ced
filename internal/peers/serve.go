package peers

import (
	"context"
	"crypto/tls"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/store"
)

// maxConnections limits the connections of other nodes, and of everybody else until the handshake
// has failed.
const maxConnections = 256

// serve takes what other nodes hand to this one, until ctx ends.
func (p *Peers) serve(ctx context.Context, taker Taker) {
	var open sync.WaitGroup
	defer open.Wait()
	defer context.AfterFunc(ctx, func() { p.listener.Close() })()
	slots := make(chan struct{}, maxConnections)
	for {
		conn, err := p.listener.Accept()
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			p.log.WarnContext(ctx, "connection of another node not accepted", "error", err)
			batch.Sleep(ctx, reconnectPause)
			continue
		}
		select {
		case slots <- struct{}{}:
		default:
			conn.Close()
			continue
		}
		admitted := p.inbound.Load().ctx
		open.Go(func() {
			defer func() { <-slots }()
			defer conn.Close()
			defer context.AfterFunc(admitted, func() { conn.Close() })()
			err := p.take(ctx, tls.Server(conn, p.identity.config(p.knows)), taker)
			p.log.DebugContext(ctx, "connection of another node has ended", "remote", conn.RemoteAddr().String(), "error", err)
		})
	}
}

// knows reports whether the key is that of another living node.
func (p *Peers) knows(hash [32]byte) bool {
	return slices.ContainsFunc(*p.peers.Load(), func(n store.Peer) bool { return n.PublicKey == hash })
}

// take takes what one node hands to this one, until the connection ends.
func (p *Peers) take(ctx context.Context, conn *tls.Conn, taker Taker) error {
	_ = conn.SetDeadline(time.Now().Add(ioTimeout))
	if err := conn.HandshakeContext(ctx); err != nil {
		return fmt.Errorf("check the key: %w", err)
	}
	session := taker.OpenSession(len(*p.peers.Load()))
	if session.Token == 0 {
		return nil
	}
	defer taker.CloseSession(ctx, session.Token)
	defer conn.Close()
	s := newStream(conn)
	if err := s.send(greeting{session}); err != nil {
		return err
	}
	taken := 0 // not yet acknowledged
	for {
		var h handover
		if err := s.receive(&h); err != nil {
			return err
		}
		deliveries, err := h.deliveries()
		if err != nil {
			return err
		}
		refused := taker.Take(deliveries)
		taken += len(deliveries)
		if len(deliveries) > 0 && taken < session.Budget/4 && len(refused) == 0 {
			continue // the other node has enough of its budget left
		}
		if err := s.send(acknowledgement{taken, refused}); err != nil {
			return err
		}
		taken = 0
	}
}
