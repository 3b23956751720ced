package dispatch

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// How a change takes effect. A person who deletes an endpoint expects that it gets nothing after
// the response. So the response waits until every node that may send to it has the change:
//
//	API, node A               the owner of the endpoint, node B
//	stores the change
//	Refresh, on its own table
//	Members: B owns it
//	"effect 7 …" ───────────► Refresh; the change is in B's routing table
//	         ◄─────────────── "done 7"
//	responds                  an attempt that has started and not sent yet looks at the
//	                          table again (Current), finds the change and sends nothing
//
// What a new owner sends is right without a message: it reads the endpoints before it owns a
// shard. A node that does not respond is waited for until awaitTimeout. It may send as before
// until its ownership ends: TTL after its last heartbeat, and after its table was last read.

// awaitTimeout is how long a response waits for other nodes. A message that was lost is sent
// again after askAgain.
const (
	awaitTimeout = 2 * time.Second
	askAgain     = 250 * time.Millisecond
)

// effects is what makes changes take effect. The dispatcher has its methods.
type effects struct {
	endpoints Endpoints
	clock     *store.Clock
	cluster   *cluster
	withdrawn withdrawn
}

// Current reports whether an attempt that began with these settings may still send: this node
// serves the endpoint, its settings are the same, and the delivery is not cancelled. It is asked
// just before each request is written.
func (x *effects) Current(c *postrider.Claimed, to *store.EndpointSnapshot) bool {
	if x.cluster.opts.Nodes != nil {
		if until := x.cluster.until.Load(); until == nil || !time.Now().Before(*until) {
			return false
		}
	}
	now, ok := x.endpoints.Lookup(c.Endpoint)
	return ok && now == to && !x.withdrawn.has(c)
}

// withdrawn are deliveries and events of which nothing may be sent any more. Their rows have left
// the queue, so each is kept for as long as a lease can last.
type withdrawn struct {
	n atomic.Int64 // how many there are: nearly always none

	mu  sync.Mutex
	ids map[[16]byte]time.Time // until when
}

// withdrawnFor is longer than any lease.
const withdrawnFor = 2 * time.Minute

func (w *withdrawn) add(id [16]byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	for old, until := range w.ids {
		if now.After(until) {
			delete(w.ids, old)
		}
	}
	if w.ids == nil {
		w.ids = map[[16]byte]time.Time{}
	}
	w.ids[id] = now.Add(withdrawnFor)
	w.n.Store(int64(len(w.ids)))
}

func (w *withdrawn) has(c *postrider.Claimed) bool {
	if w.n.Load() == 0 {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_, delivery := w.ids[c.ID]
	_, event := w.ids[c.Event.ID]
	return delivery || event
}

// Await waits until a change that is stored is in effect: on the node that serves the endpoint, or
// else on all nodes that are alive. It returns those that have not confirmed it in time.
func (x *effects) Await(ctx context.Context, w postrider.Withdrawal) postrider.NotEffective {
	ctx, cancel := context.WithTimeout(ctx, awaitTimeout)
	defer cancel()
	name := nameOf(w)
	if err := x.takeEffect(ctx, name); err != nil {
		return postrider.NotEffective{Nodes: []string{x.cluster.opts.Host}, Until: x.clock.Wall().Add(x.cluster.opts.TTL)}
	}
	if x.cluster.opts.Nodes == nil || x.serves(w.Endpoint) {
		return postrider.NotEffective{}
	}
	return x.awaitOthers(ctx, w.Endpoint, name)
}

// nameOf returns what messages call a withdrawal: the id of a delivery or event, or "table" for what
// the routing table has.
func nameOf(w postrider.Withdrawal) string {
	switch {
	case !w.Delivery.IsZero():
		return w.Delivery.String()
	case !w.Event.IsZero():
		return w.Event.String()
	}
	return "table"
}

// takeEffect has a change take effect on this node.
func (x *effects) takeEffect(ctx context.Context, name string) error {
	if id, err := postrider.ParseID[postrider.DeliveryID](name); err == nil {
		x.withdrawn.add(id)
		return nil
	}
	if id, err := postrider.ParseID[postrider.EventID](name); err == nil {
		x.withdrawn.add(id)
		return nil
	}
	return x.endpoints.Refresh(ctx)
}

// serves reports whether this node owns the endpoint's shard, so that no other node does.
func (x *effects) serves(id postrider.EndpointID) bool {
	owned, until := x.cluster.owned.Load(), x.cluster.until.Load()
	return !id.IsZero() && owned != nil && owned[store.Shard(id)] && until != nil && time.Now().Before(*until)
}

// awaitOthers asks the other nodes until all of those have confirmed that own the endpoint, or are
// alive. Who they are is read after the change was stored, and again before each question: a node
// that has died meanwhile is not waited for.
func (x *effects) awaitOthers(ctx context.Context, owns postrider.EndpointID, name string) postrider.NotEffective {
	self := x.cluster.opts.Incarnation
	nonce, q := x.cluster.awaited.ask(self)
	defer x.cluster.awaited.forget(nonce)
	waiting := []string{"unknown"}
	for ctx.Err() == nil {
		members, err := x.cluster.opts.Nodes.Members(ctx, owns)
		if err == nil {
			if waiting = q.unconfirmed(members, self); len(waiting) == 0 {
				return postrider.NotEffective{}
			}
		}
		if x.cluster.opts.PollOnly {
			break
		}
		x.cluster.wake(ctx, fmt.Sprintf("%s %s %s", verbEffect, nonce, name))
		if q.wait(ctx, func() bool { return err == nil && len(q.unconfirmed(members, self)) == 0 }) {
			return postrider.NotEffective{}
		}
	}
	return postrider.NotEffective{Nodes: waiting, Until: x.clock.Wall().Add(x.cluster.opts.TTL)}
}

// question is what this node asked the others to do.
type question struct {
	answered chan struct{} // holds one element after an answer

	mu   sync.Mutex
	done []string // incarnations, as in messages
}

// wait waits for answers until all have come, for askAgain at most. It reports whether they have.
func (q *question) wait(ctx context.Context, all func() bool) bool {
	again := time.NewTimer(askAgain)
	defer again.Stop()
	for !all() {
		select {
		case <-q.answered:
		case <-again.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// unconfirmed returns the machines of the living nodes that have not answered.
func (q *question) unconfirmed(members []store.Member, self uint32) (hosts []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, m := range members {
		if !m.Dead && m.Incarnation != self && !slices.Contains(q.done, fmt.Sprintf("%08x", m.Incarnation)) {
			hosts = append(hosts, m.Host)
		}
	}
	return hosts
}

// awaited are the questions of this node that are open, by nonce.
type awaited struct {
	mu    sync.Mutex
	last  uint64
	asked map[string]*question
}

func (a *awaited) ask(self uint32) (nonce string, q *question) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last++
	nonce, q = fmt.Sprintf("%x.%s", self, strconv.FormatUint(a.last, 36)), &question{answered: make(chan struct{}, 1)}
	a.asked[nonce] = q
	return nonce, q
}

func (a *awaited) forget(nonce string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.asked, nonce)
}

// done notes that a node has done what was asked.
func (a *awaited) done(nonces []string, by string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, nonce := range nonces {
		q := a.asked[nonce]
		if q == nil {
			continue // another node asked, or nobody waits any more
		}
		q.mu.Lock()
		q.done = append(q.done, by)
		q.mu.Unlock()
		select {
		case q.answered <- struct{}{}:
		default:
		}
	}
}

// effectAsked is a question of another node.
type effectAsked struct{ nonce, name string }

// runEffects has changes of other nodes take effect here, and confirms them: all that wait with one
// refresh of the table and one message. What fails is not confirmed, and asked again.
func (x *effects) runEffects(ctx context.Context, done <-chan struct{}) {
	const most = 200 // nonces in a message
	for {
		select {
		case <-x.cluster.effects.Ready():
		case <-done:
			return
		}
		for asked := x.cluster.effects.Take(most); len(asked) > 0; asked = x.cluster.effects.Take(most) {
			var confirmed []string
			names := map[string]bool{} // whether it took effect
			for _, a := range asked {
				if _, known := names[a.name]; !known {
					names[a.name] = x.takesEffect(ctx, a.name)
				}
				if names[a.name] {
					confirmed = append(confirmed, a.nonce)
				}
			}
			if len(confirmed) > 0 {
				x.cluster.wake(ctx, verbDone+" "+strings.Join(confirmed, " "))
			}
		}
	}
}

// takesEffect is takeEffect with a limit of its own. It reports whether it succeeded.
func (x *effects) takesEffect(ctx context.Context, name string) bool {
	ctx, cancel := context.WithTimeoutCause(ctx, awaitTimeout, errCallTimeout)
	defer cancel()
	err := x.takeEffect(ctx, name)
	if err != nil {
		x.cluster.log.WarnContext(ctx, "change of another server not applied", "error", err)
	}
	return err == nil
}
