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

// How a change takes effect. A person who deletes an endpoint expects that nothing is sent to it
// after the response. So the response waits until every node that may send to the endpoint has the
// change:
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
// A new owner needs no message: it reads the endpoints before it owns a shard. If a node does not
// respond, the response waits for it until awaitTimeout. Such a node may send as before the change
// until its ownership ends. That is at most TTL after its last heartbeat, and at most TTL after its
// table was last read.

// awaitTimeout is how long a response waits for other nodes. The message is sent again after
// askAgain, in case it was lost.
const (
	awaitTimeout = 2 * time.Second
	askAgain     = 250 * time.Millisecond
)

// effects makes changes take effect. The dispatcher embeds it.
type effects struct {
	endpoints Endpoints
	clock     *store.Clock
	cluster   *cluster
	withdrawn withdrawn
}

// Current reports whether an attempt that began with these settings may still send: this node still
// serves the endpoint, the endpoint's settings are the same, and the delivery is not cancelled. The
// sender calls it just before it writes each request.
func (x *effects) Current(c *postrider.Claimed, to *store.EndpointSnapshot) bool {
	if x.cluster.opts.Nodes != nil {
		if until := x.cluster.until.Load(); until == nil || !time.Now().Before(*until) {
			return false
		}
	}
	now, ok := x.endpoints.Lookup(c.Endpoint)
	return ok && now == to && !x.withdrawn.has(c)
}

// withdrawn are the ids of deliveries and events for which nothing may be sent any more. Their rows
// are no longer in the queue, so each id is kept for as long as a lease can last.
type withdrawn struct {
	n atomic.Int64 // number of ids; nearly always 0

	mu  sync.Mutex
	ids map[[16]byte]time.Time // each id with the time until which it is kept
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

// Await waits until a stored change is in effect: on the node that serves the endpoint, or if the
// change names no endpoint, on all living nodes. It returns the nodes that have not confirmed in
// time.
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

// accountsChanged is the name of the zero withdrawal in messages.
const accountsChanged = "accounts"

// nameOf returns the name of a withdrawal in messages: the id of a delivery or event, accountsChanged,
// or "table" for another change of the routing table.
func nameOf(w postrider.Withdrawal) string {
	switch {
	case w == (postrider.Withdrawal{}):
		return accountsChanged
	case !w.Delivery.IsZero():
		return w.Delivery.String()
	case !w.Event.IsZero():
		return w.Event.String()
	}
	return "table"
}

// takeEffect makes a change take effect on this node.
func (x *effects) takeEffect(ctx context.Context, name string) error {
	if id, err := postrider.ParseID[postrider.DeliveryID](name); err == nil {
		x.withdrawn.add(id)
		return nil
	}
	if id, err := postrider.ParseID[postrider.EventID](name); err == nil {
		x.withdrawn.add(id)
		return nil
	}
	if name == accountsChanged && x.cluster.opts.OnAccounts != nil {
		x.cluster.opts.OnAccounts()
	}
	return x.endpoints.Refresh(ctx)
}

// serves reports whether this node owns the endpoint's shard, so that no other node owns it.
func (x *effects) serves(id postrider.EndpointID) bool {
	owned, until := x.cluster.owned.Load(), x.cluster.until.Load()
	return !id.IsZero() && owned != nil && owned[store.Shard(id)] && until != nil && time.Now().Before(*until)
}

// awaitOthers asks other nodes until all that must confirm have confirmed: the owner of the
// endpoint, or all living nodes. The list of nodes is read after the change was stored, and again
// before each question. So a node that has died in the meantime is not waited for.
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

// question is a request of this node to the others, to make a change take effect.
type question struct {
	answered chan struct{} // holds one element after a confirmation came

	mu   sync.Mutex
	done []string // incarnations of the nodes that have confirmed, as in messages
}

// wait waits until all nodes have confirmed, for askAgain at most. It reports whether they have.
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

// unconfirmed returns the machines of the living nodes that have not confirmed.
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

// awaited are the open questions of this node, by nonce.
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

// done records that a node has confirmed the questions with these nonces.
func (a *awaited) done(nonces []string, by string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, nonce := range nonces {
		q := a.asked[nonce]
		if q == nil {
			continue // another node asked the question, or nobody waits for it any more
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

// effectAsked is a question from another node.
type effectAsked struct{ nonce, name string }

// runEffects makes changes of other nodes take effect here, and confirms them. All questions that
// wait share one refresh of the table and one message. A change that fails is not confirmed, and
// the other node asks again.
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
			names := map[string]bool{} // for each name, whether it took effect
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

// takesEffect calls takeEffect with a time limit of its own. It reports whether that succeeded.
func (x *effects) takesEffect(ctx context.Context, name string) bool {
	ctx, cancel := context.WithTimeoutCause(ctx, awaitTimeout, errCallTimeout)
	defer cancel()
	err := x.takeEffect(ctx, name)
	if err != nil {
		x.cluster.log.WarnContext(ctx, "change of another server not applied", "error", err)
	}
	return err == nil
}
