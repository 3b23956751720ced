package memory

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

type node struct {
	instance [16]byte
	host     string
	peer     store.Peer // without its shards
	started  time.Time  // time of the first heartbeat
	seen     time.Time  // time of the last heartbeat
	until    time.Time  // the end of the last heartbeat's TTL
	leaving  bool
	locked   bool      // whether the node had its lock at a heartbeat; false again after a heartbeat with Unlocked
	free     time.Time // when the lock was first seen free, if the node has sent no heartbeat since; zero otherwise
}

func (n *node) silent(now time.Time) bool { return !now.Before(n.until) }

func (n *node) gone(now time.Time) bool {
	return !n.free.IsZero() && now.Sub(n.free) >= store.LockGrace
}

// Lock takes a node's lock, as its process does at its start. A simulator without a goroutine for
// [Store.Hold] calls it.
func (s *Store) Lock(incarnation uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.locks[incarnation]++
}

// Unlock frees a node's lock, as the end of its process does.
func (s *Store) Unlock(incarnation uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.locks[incarnation]--; s.locks[incarnation] == 0 {
		delete(s.locks, incarnation)
	}
}

// Heartbeat implements [store.Nodes].
func (s *Store) Heartbeat(_ context.Context, b store.Heartbeat) (store.Membership, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nodes[b.Incarnation]
	switch {
	case n == nil:
		n = &node{
			instance: b.Instance, host: b.Host, started: s.now(),
			peer: store.Peer{Incarnation: b.Incarnation, Address: b.Address, PublicKey: b.PublicKey},
		}
		s.nodes[b.Incarnation] = n
	case n.instance != b.Instance:
		return store.Membership{}, fmt.Errorf("heartbeat of incarnation %d: another instance has it: %w", b.Incarnation, postrider.ErrConflict)
	}
	now := s.now()
	n.seen, n.until, n.leaving, n.free = now, now.Add(b.TTL), b.Leaving, time.Time{}
	n.locked = s.locks[b.Incarnation] > 0 || n.locked && !b.Unlocked
	for _, shard := range b.Release {
		if s.owners[shard] == n {
			s.owners[shard] = nil
		}
	}
	s.watchLocksLocked(n, now)
	unlocked := n.locked && s.locks[b.Incarnation] == 0
	return s.membershipLocked(n, unlocked, now), nil
}

// LocalAddr implements [store.Nodes].
func (*Store) LocalAddr(context.Context) (netip.Addr, error) { return netip.IPv6Loopback(), nil }

// Members implements [store.Nodes].
func (s *Store) Members(_ context.Context, owns postrider.EndpointID) (members []store.Member, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for _, incarnation := range slices.Sorted(maps.Keys(s.nodes)) {
		n := s.nodes[incarnation]
		if !owns.IsZero() && s.owners[store.Shard(owns)] != n {
			continue
		}
		m := store.Member{
			Incarnation: incarnation, Host: n.host, StartedAt: s.clock.Shown(n.started), SeenAt: s.clock.Shown(n.seen),
			Leaving: n.leaving, Dead: n.silent(now) || !n.free.IsZero() || n.locked && s.locks[incarnation] == 0,
		}
		for _, owner := range s.owners {
			if owner == n {
				m.Shards++
			}
		}
		members = append(members, m)
	}
	return members, nil
}

// watchLocksLocked records which nodes have lost their locks, without the node but, and removes
// the owner of their shards.
func (s *Store) watchLocksLocked(but *node, now time.Time) {
	for incarnation, n := range s.nodes {
		switch lost := n.locked && s.locks[incarnation] == 0; {
		case n == but:
		case !lost:
			n.free = time.Time{}
		case n.free.IsZero():
			n.free = now
		}
	}
	for shard, owner := range s.owners {
		if owner != nil && !owner.free.IsZero() {
			s.owners[shard] = nil
		}
	}
}

// membershipLocked gives the node the shards that it lacks of its share, and returns the
// membership.
func (s *Store) membershipLocked(n *node, unlocked bool, now time.Time) (r store.Membership) {
	r.Unlocked = unlocked
	for incarnation, other := range s.nodes {
		switch {
		case other.gone(now):
			r.Gone = append(r.Gone, incarnation)
		case other.silent(now):
			r.Silent = append(r.Silent, incarnation)
		case !other.leaving && other.free.IsZero():
			r.Nodes++
			if other != n && other.peer.Address != "" {
				r.Peers = append(r.Peers, s.peerLocked(other))
			}
		}
	}
	slices.SortFunc(r.Peers, func(a, b store.Peer) int { return cmp.Compare(a.Incarnation, b.Incarnation) })
	slices.Sort(r.Gone)
	slices.Sort(r.Silent)
	share := 0
	if !n.leaving {
		share = (store.Shards + r.Nodes - 1) / max(r.Nodes, 1)
	}
	lacks := share - s.ownedLocked(n)
	if unlocked {
		lacks = 0
	}
	for shard, owner := range s.owners {
		if owner == nil && lacks > 0 {
			s.owners[shard], owner = n, n
			lacks--
		}
		if owner == n {
			r.Shards = append(r.Shards, uint8(shard))
		}
	}
	r.Surplus = max(0, len(r.Shards)-share)
	return r
}

func (s *Store) peerLocked(n *node) store.Peer {
	peer := n.peer
	for shard, owner := range s.owners {
		if owner == n {
			peer.Shards = append(peer.Shards, uint8(shard))
		}
	}
	return peer
}

func (s *Store) ownedLocked(n *node) (owned int) {
	for _, owner := range s.owners {
		if owner == n {
			owned++
		}
	}
	return owned
}

// Reclaim implements [store.Nodes].
func (s *Store) Reclaim(_ context.Context, incarnation uint32, limit int) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	n := s.nodes[incarnation]
	if n == nil || !n.silent(now) && (!n.gone(now) || s.locks[incarnation] > 0) {
		return 0, nil
	}
	var suspects, others []*delivery
	for _, d := range s.queuedLocked(len(s.deliveries.rows), func(d *delivery) bool {
		return d.token != 0 && uint32(d.token>>32) == incarnation
	}) {
		if d.lane == postrider.LaneSuspect {
			suspects = append(suspects, d)
		} else {
			others = append(others, d)
		}
	}
	if len(suspects) == 1 {
		suspects[0].alone++
	}
	leased := slices.Concat(suspects, others[:min(len(others), limit)])
	for _, d := range leased {
		d.lose(now)
		s.reclaimLocked(d, now)
	}
	if len(leased) < limit {
		s.forgetLocked(incarnation)
	}
	return len(leased), nil
}

// Leased implements [store.Nodes].
func (s *Store) Leased(
	_ context.Context, token postrider.Token, newerThan postrider.DeliveryID,
) (leases []store.SessionLease, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.queuedLocked(len(s.deliveries.rows), func(d *delivery) bool {
		return d.token == token && d.id.Compare(newerThan) > 0
	}) {
		leases = append(leases, store.SessionLease{Lease: store.Lease{Delivery: d.id, Token: token}, Endpoint: d.endpoint, Lane: d.lane})
	}
	return leases, nil
}

// reclaimLocked parks a delivery whose node died, or makes it due: in the suspect lane if it has
// lost too many nodes, otherwise in its own lane.
func (s *Store) reclaimLocked(d *delivery, now time.Time) {
	if d.alone >= postrider.ParkedAfter {
		s.endLocked(d)
		d.parked = true
		s.parked[d] = struct{}{}
		return
	}
	s.requeueLocked(d, func() {
		d.token, d.due = 0, now
		if d.losses >= postrider.SuspectedAfter {
			d.lane = postrider.LaneSuspect
		}
	})
}

// Forget implements [store.Nodes].
func (s *Store) Forget(_ context.Context, incarnation uint32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetLocked(incarnation)
	return nil
}

func (s *Store) forgetLocked(incarnation uint32) {
	n := s.nodes[incarnation]
	for shard, owner := range s.owners {
		if owner == n {
			s.owners[shard] = nil
		}
	}
	delete(s.nodes, incarnation)
}

// Wake implements [store.Nodes]. A listener with a full channel misses the message.
func (s *Store) Wake(_ context.Context, message string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for listener := range s.listeners {
		select {
		case listener <- message:
		default:
		}
	}
	return nil
}

// Hold implements [store.Nodes]. It returns when ctx ends.
func (s *Store) Hold(ctx context.Context, incarnation uint32, onMessage func(message string)) error {
	s.Lock(incarnation)
	defer s.Unlock(incarnation)
	messages := make(chan string, 256)
	s.mu.Lock()
	s.listeners[messages] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.listeners, messages)
	}()
	onMessage("")
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case message := <-messages:
			onMessage(message)
		}
	}
}
