package dispatch

import (
	"context"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/schedule"
	"github.com/postrider/postrider/internal/store"
)

// handover hands new deliveries to the nodes of their endpoints, and takes those that other nodes hand
// to this one. The dispatcher embeds it.
type handover struct{ own *Dispatcher }

// reservations are the leases of other nodes that one commit may use.
type reservations struct {
	from    time.Time                              // before the commit, by the clock of the store
	of      map[postrider.Token]int                // how many, by the session
	lengths map[postrider.EndpointID]time.Duration // of the leases
}

// reserve adds leases of other nodes to the grant, for deliveries of their endpoints.
func (h *handover) reserve(ask []schedule.Admission, g *schedule.Grant) (r reservations) {
	peers := h.own.opts.Cluster.Peers
	if peers == nil || !h.own.cluster.others.Load() || h.own.endpoints.Held() {
		return r
	}
	r.from, _ = h.own.queue.Clock().At(time.Now())
	for i, a := range ask {
		if g.Lease(i).Token != 0 {
			continue
		}
		to, ok := h.own.endpoints.Lookup(a.Endpoint)
		if !ok || to.Endpoint.Status != postrider.EndpointEnabled {
			continue
		}
		token := peers.Reserve(a.Endpoint)
		if token == 0 {
			continue
		}
		if r.of == nil {
			r.of, r.lengths = map[postrider.Token]int{}, map[postrider.EndpointID]time.Duration{}
		}
		r.of[token]++
		length := to.Endpoint.Policy.Timeout + schedule.LeaseMargin
		if known := r.lengths[a.Endpoint]; known == 0 || length < known { // the timeout may change in between
			r.lengths[a.Endpoint] = length
		}
		if g.Leases == nil {
			g.Leases = make([]schedule.Lease, len(ask))
		}
		g.Leases[i] = schedule.Lease{Token: token, For: r.lengths[a.Endpoint]}
	}
	return r
}

// hand gives the reservations back. It names the committed deliveries that have a lease of another
// node to that node, and returns the others. If the connection was lost during the commit, it gives
// their leases back.
func (h *handover) hand(r reservations, started []postrider.Claimed) (own []postrider.Claimed) {
	if len(r.of) == 0 {
		return started
	}
	handed := map[postrider.Token][]schedule.Handed{}
	for _, cl := range started {
		if r.of[cl.Token] == 0 {
			own = append(own, cl)
			continue
		}
		handed[cl.Token] = append(handed[cl.Token], schedule.Handed{Claimed: cl, Until: r.from.Add(r.lengths[cl.Endpoint])})
	}
	for token, n := range r.of {
		if h.own.opts.Cluster.Peers.Hand(token, n, handed[token]) {
			continue
		}
		var unsent []store.SessionLease
		for _, d := range handed[token] {
			unsent = append(unsent, store.SessionLease{Lease: store.Lease{Delivery: d.ID, Token: token}, Endpoint: d.Endpoint, Lane: d.Lane})
		}
		h.own.post(schedule.SessionEnded{Leases: unsent})
	}
	return own
}

type (
	sessionAsked struct {
		nodes    int
		response chan<- schedule.Session
	}
	deliveriesGiven struct {
		deliveries []schedule.Handed
		response   chan<- []postrider.EndpointID
	}
)

func (in sessionAsked) apply(l *loop, _ time.Time) { in.response <- l.core.NextSession(in.nodes) }

func (in deliveriesGiven) apply(l *loop, now time.Time) {
	for i := range in.deliveries {
		l.introduce(in.deliveries[i].Endpoint)
	}
	in.response <- l.core.TakeHanded(now, in.deliveries)
}

// OpenSession returns a session for a node that has connected; zero: the dispatcher is not running.
// nodes is the number of other nodes.
func (h *handover) OpenSession(nodes int) (s schedule.Session) {
	response := make(chan schedule.Session, 1)
	if h.own.postOwn(sessionAsked{nodes, response}) {
		select {
		case s = <-response:
		case <-h.own.done:
		}
	}
	return s
}

// Take takes deliveries that another node has committed for this one and named. It gives back those
// that cannot start soon, and returns their endpoints; see [schedule.Core.TakeHanded].
func (h *handover) Take(deliveries []schedule.Handed) (refused []postrider.EndpointID) {
	response := make(chan []postrider.EndpointID, 1)
	if h.own.postOwn(deliveriesGiven{deliveries, response}) {
		select {
		case refused = <-response:
		case <-h.own.done:
		}
	}
	h.own.opts.Hooks.Handed.Call(observe.Handed{Deliveries: len(deliveries), Refused: len(refused)})
	return refused
}

// CloseSession gives back what another node has leased under the token of a session and has not named,
// because its connection was lost or it died. The other node may still be committing when the session
// ends, so CloseSession looks three times, the last time after 12 s. The end of ctx is the end of this
// node: it then looks once more, after 0.3 s and for 2 s at most.
func (h *handover) CloseSession(ctx context.Context, token postrider.Token) {
	begun := time.Now()
	for _, at := range []time.Duration{0, time.Second, commitTakes} {
		if batch.Sleep(ctx, at-time.Since(begun)) {
			h.giveBackUnnamed(ctx, token, callTimeout)
		}
	}
	if ctx.Err() != nil {
		work := context.WithoutCancel(ctx)
		batch.Sleep(work, 300*time.Millisecond)
		h.giveBackUnnamed(work, token, 2*time.Second)
	}
}

// commitTakes is how long a commit may take that began before the end of a session: ingest gives up
// after 10 s.
const commitTakes = 12 * time.Second

// giveBackUnnamed gives back what the store has under the token. What was committed a minute ago was
// named, because the end of a connection is noticed within seconds.
func (h *handover) giveBackUnnamed(ctx context.Context, token postrider.Token, limit time.Duration) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errCallTimeout)
	defer cancel()
	since := h.own.queue.Clock().Wall().Add(-time.Minute - store.OldestID)
	leases, err := h.own.opts.Cluster.Nodes.Leased(ctx, token, postrider.MakeID[postrider.DeliveryID](since, [10]byte{}))
	if err != nil {
		h.own.opts.Log.WarnContext(ctx, "leases of another node not given back", "error", err)
	} else if len(leases) > 0 {
		h.own.post(schedule.SessionEnded{Leases: leases})
	}
}
