package dispatch_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/dispatch"
	"github.com/postrider/postrider/internal/schedule"
	"github.com/postrider/postrider/internal/store"
)

// wire are the connections of one node to the others. What is handed takes a millisecond, or is lost.
type wire struct {
	others func(postrider.EndpointID) *node // the owner of an endpoint

	mu       sync.Mutex
	cut      bool // what is handed from now on is lost
	ended    bool // the sessions have ended
	sessions map[*node]postrider.Token
	given    map[postrider.Token]int // reservations that were not given back
	first    []store.Peer            // of the first Set that named a node
	sending  sync.WaitGroup
}

func (w *wire) Set(peers []store.Peer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.first) == 0 {
		w.first = peers
	}
}

func (w *wire) Reserve(endpoint postrider.EndpointID) postrider.Token {
	owner := w.others(endpoint)
	if owner == nil {
		return 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sessions[owner] == 0 {
		w.sessions[owner] = owner.d.OpenSession(1).Token
	}
	w.given[w.sessions[owner]]++
	return w.sessions[owner]
}

func (w *wire) Hand(token postrider.Token, reserved int, committed []schedule.Handed) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.given[token] -= reserved
	for owner, of := range w.sessions {
		if of == token && !w.cut && len(committed) > 0 {
			w.sending.Go(func() {
				<-time.After(time.Millisecond)
				owner.d.Take(committed)
			})
		}
	}
	return !w.ended
}

// lose lets all that is handed from now on be lost.
func (w *wire) lose() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = true
}

// session returns the token of the session with a node.
func (w *wire) session(n *node) postrider.Token {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sessions[n]
}

// linked returns two nodes. The first one hands deliveries to the second one, over the wire.
func (r *harness) linked() (a, b *node, w *wire) {
	w = &wire{sessions: map[*node]postrider.Token{}, given: map[postrider.Token]int{}}
	w.others = func(id postrider.EndpointID) *node {
		if members, _ := r.store.Members(r.t.Context(), id); len(members) == 1 && members[0].Incarnation == 2 {
			return b
		}
		return nil
	}
	a = r.node(1, dispatch.Options{Cluster: dispatch.Cluster{Peers: w}})
	b = r.node(2, dispatch.Options{Cluster: dispatch.Cluster{Address: "b:1"}})
	time.Sleep(5 * time.Second)
	return a, b, w
}

// of returns an endpoint of the node with the incarnation.
func (r *harness) of(incarnation uint32) postrider.EndpointID {
	for {
		id := r.endpoint(nil)
		if members, _ := r.store.Members(r.t.Context(), id); len(members) == 1 && members[0].Incarnation == incarnation {
			return id
		}
	}
}

// publishes commits n events for the endpoint through a node, as ingest does. before is called with the
// commit.
func (r *harness) publishes(n *node, id postrider.EndpointID, count int, before func() error) (leased int, err error) {
	r.t.Helper()
	ask := make([]schedule.Admission, count)
	for i := range ask {
		ask[i] = schedule.Admission{Endpoint: id, Lane: postrider.LaneFirst}
	}
	err = n.d.Admit(ask, func(g schedule.Grant) (c schedule.DeliveriesCommitted, err error) {
		batch := make(store.Batch, count)
		for i := range batch {
			l := g.Lease(i)
			batch[i] = store.NewEvent{
				Event: postrider.Event{ID: store.NewID[postrider.EventID](r.ids), Type: "a.b", Data: []byte(`{}`)},
				Deliveries: []store.NewDelivery{{
					ID: store.NewID[postrider.DeliveryID](r.ids), Endpoint: id, Lane: postrider.LaneFirst, Expiry: 24 * time.Hour,
					Token: l.Token, Lease: l.For,
				}},
			}
			if l.Token != 0 {
				leased++
			}
		}
		if err := before(); err != nil {
			return c, err
		}
		changes, err := r.store.Changes(r.t.Context(), 0, 10_000)
		if err == nil {
			_, err = r.store.Publish(r.t.Context(), store.Publish{Version: changes.Version, Batches: []store.Batch{batch}})
		}
		for i := range batch {
			d := batch[i].Deliveries[0]
			if d.Token == 0 {
				c.Waiting = append(c.Waiting, store.DueLane{Endpoint: id, Lane: d.Lane})
				continue
			}
			c.Started = append(c.Started, postrider.Claimed{
				ID: d.ID, Endpoint: id, Event: &batch[i].Event, Lane: d.Lane, Attempt: 1, Token: d.Token, ExpiresAt: time.Now().Add(d.Expiry),
			})
		}
		return c, err
	})
	return leased, err
}

func nothing() error { return nil }

func TestADeliveryIsHandedToTheNodeOfItsEndpoint(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t)
		a, b, w := r.linked()
		theirs, ours := r.of(2), r.of(1)
		claims, begun := b.count("claim"), time.Now()
		for _, id := range []postrider.EndpointID{theirs, ours} {
			if leased, err := r.publishes(a, id, 5, nothing); leased != 5 || err != nil {
				t.Errorf("%d are leased, %v; want all 5", leased, err)
			}
		}
		time.Sleep(time.Second)
		by, last := r.by(begun)
		if by[1] != 5 || by[2] != 5 || last > 5*time.Millisecond || b.count("claim") != claims {
			t.Errorf("requests by node %v, the last after %v, %d claims; want 5 each at once, without a claim", by, last, b.count("claim")-claims)
		}
		w.sending.Wait()
		end(t, a, b)
		if n := len(w.first); n != 1 || w.first[0].Address != "b:1" || w.first[0].Incarnation != 2 {
			t.Errorf("the peers of a are %+v, want b", w.first)
		}
		if n := r.twice(); n > 0 || len(r.requests()) != 10 {
			t.Errorf("%d requests, %d twice", len(r.requests()), n)
		}
	})
}

func TestReservationsAreGivenBackWhateverTheCommitDoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t)
		a, b, w := r.linked()
		id := r.of(2)
		for name, end := range map[string]func() error{
			"fails": func() error { return errAway }, "panics": func() error { panic("commit") }, "succeeds": nothing,
		} {
			func() {
				defer func() { _ = recover() }()
				if _, err := r.publishes(a, id, 3, end); err != nil && !errors.Is(err, errAway) {
					t.Error(err)
				}
			}()
			w.mu.Lock()
			for token, n := range w.given {
				if n != 0 {
					t.Errorf("a commit that %s: %d reservations of %d are not given back", name, n, token)
				}
			}
			w.mu.Unlock()
		}
		r.held.Store(true)
		if leased, err := r.publishes(a, id, 3, nothing); leased > 0 || err != nil {
			t.Errorf("%d are leased while the store is held, %v", leased, err)
		}
		w.sending.Wait()
		end(t, a, b)
	})
}

// TestWhatWasNotNamedIsSentAfterTheSession loses what a node hands over, before and after the session
// is closed.
func TestWhatWasNotNamedIsSentAfterTheSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t)
		a, b, w := r.linked()
		id := r.of(2)
		if _, err := r.publishes(a, id, 2, nothing); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		w.lose()
		var closing sync.WaitGroup
		late := func() error { // the session is closed while this commit is under way
			closing.Go(func() { b.d.CloseSession(t.Context(), w.session(b)) })
			<-time.After(5 * time.Second)
			return nil
		}
		begun := time.Now()
		for _, before := range []func() error{nothing, late} {
			if leased, err := r.publishes(a, id, 3, before); leased != 3 || err != nil {
				t.Fatalf("%d are leased, %v", leased, err)
			}
		}
		closing.Wait()
		time.Sleep(time.Second)
		if at := r.instants(id, begun)[2:]; len(at) != 6 || at[2] > 100*time.Millisecond || at[5] > 13*time.Second {
			t.Errorf("sent after %v, want three at once and three after the last look", at)
		}
		w.sending.Wait()
		end(t, a, b)
		if n := r.twice(); n > 0 {
			t.Errorf("%d deliveries were sent twice", n)
		}
		for _, s := range r.requests() {
			if d := r.delivery(s.ID); d.Status != postrider.Delivered || d.Attempts != 1 {
				t.Errorf("a delivery is %s after %d attempts, want delivered after 1", d.Status, d.Attempts)
			}
		}
	})
}

// TestANodeThatEndsGivesBackWhatWasNotNamed closes a session because its node ends.
func TestANodeThatEndsGivesBackWhatWasNotNamed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t)
		a, b, w := r.linked()
		id := r.of(2)
		w.lose()
		if leased, err := r.publishes(a, id, 3, nothing); leased != 3 || err != nil {
			t.Fatalf("%d are leased, %v", leased, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		begun := time.Now()
		b.d.CloseSession(ctx, w.session(b))
		end(t, b)
		time.Sleep(5 * time.Second)
		if by, last := r.by(begun); by[1]+by[2] != 3 || last > 3*time.Second {
			t.Errorf("requests by node %v, the last after %v; want 3 soon", by, last)
		}
		end(t, a)
	})
}

func TestADispatcherThatDoesNotRunHasNoSessions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t)
		n := r.node(1, dispatch.Options{})
		end(t, n)
		if s := n.d.OpenSession(1); s.Token != 0 {
			t.Errorf("a session %+v", s)
		}
	})
}
