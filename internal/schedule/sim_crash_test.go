package schedule

import (
	"flag"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/memory"
	"github.com/postrider/postrider/internal/testkit"
)

var simKills = flag.Int("kills", 200, "how many nodes TestPromise8CrashLoops kills")

// crashLoop is a simulation whose nodes are killed every 0.2 to 12 seconds, while large fan-outs
// are under way, with one node or three. One payload kills every node that sends it. In the end
// everything is delivered except that payload, which is parked, and no delivery is dead.
type crashLoop struct {
	*simulation
	size     int // number of nodes
	slots    int
	kills    int // kills that are still to come
	died     int
	killers  map[postrider.DeliveryID]bool
	arrivals map[postrider.DeliveryID]int // number of requests that a receiver accepted
	left     int                          // number of requests that left
	suspects int                          // number of these for suspects that kill no node
	lost     int                          // recorded attempts that never left
	twice    int                          // deliveries that were accepted again
	open     int                          // attempts in flight or not committed when nodes died
}

// TestPromise8CrashLoops is a short version; make sim kills 100,000 nodes.
func TestPromise8CrashLoops(t *testing.T) {
	t.Parallel()
	if testkit.Plain(t) {
		return
	}
	const each = 60
	died, killers, suspects := 0, 0, 0
	for seed := uint64(0); died < *simKills; seed++ {
		l := newCrashLoop(t, seed, each)
		l.run()
		l.check()
		died, killers, suspects = died+l.died, killers+len(l.killers), suspects+l.suspects
		t.Logf("seed %d: %d nodes, %d slots, %d endpoints, %d deaths, %d requests, %d of suspects, %d lost besides, %d duplicates, %d open",
			seed, l.size, l.slots, len(l.order), l.died, l.left, l.suspects, l.lost, l.twice, l.open)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if killers == 0 || suspects == 0 {
		t.Errorf("%d payloads killed their nodes, and %d requests were of other suspects: that tests little", killers, suspects)
	}
}

func newCrashLoop(t *testing.T, seed uint64, kills int) *crashLoop {
	l := &crashLoop{
		simulation: &simulation{
			t: t, rng: rand.New(rand.NewPCG(seed, 11)), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
			routed: map[postrider.EndpointID]store.EndpointSnapshot{}, sending: map[postrider.DeliveryID]uint32{},
			sent: map[postrider.DeliveryID]map[int]bool{}, accepted: map[postrider.DeliveryID]bool{},
			lucky: true, links: newLinks(),
		},
		kills: kills, killers: map[postrider.DeliveryID]bool{}, arrivals: map[postrider.DeliveryID]int{},
	}
	l.size = []int{1, 3}[l.rng.IntN(2)]
	l.shared = l.size > 1 || l.rng.IntN(2) == 0
	l.slots = []int{8, 64, 256}[l.rng.IntN(3)]
	clock := func() time.Time { return l.now }
	l.store = memory.New(memory.Options{Now: clock})
	l.ids = store.NewIDs(clock, &[32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16)})
	endpoints := []int{20, 200, 1000}[l.rng.IntN(3)]
	if seed%16 == 3 {
		endpoints = 5000
	}
	account := store.NewID[postrider.AccountID](l.ids)
	for range endpoints {
		e := postrider.Endpoint{
			ID: store.NewID[postrider.EndpointID](l.ids), Account: account, URL: l.url(),
			EventTypes: []postrider.Pattern{"*"}, Status: postrider.EndpointEnabled, Policy: postrider.DefaultPolicy(),
		}
		e.Policy.Concurrency = 1 + l.rng.IntN(8)
		e.Policy.Retry = postrider.RetryPolicy{Base: time.Second, Factor: 2, Cap: 30 * time.Second, MaxAttempts: 1000, Jitter: "equal"}
		if _, err := l.store.PutEndpoint(t.Context(), store.PutEndpoint{Endpoint: e}); err != nil {
			t.Fatal(err)
		}
		l.routed[e.ID] = store.EndpointSnapshot{Endpoint: e}
		l.order = append(l.order, e.ID)
	}
	l.onSend = l.sends
	return l
}

func (l *crashLoop) run() {
	for range l.size {
		l.start()
	}
	for range 1 + l.rng.IntN(3) {
		l.at(time.Duration(l.rng.Int64N(int64(time.Minute))), l.fanOut)
	}
	for range 50 {
		l.at(time.Duration(l.rng.Int64N(int64(3*time.Minute))), l.publish)
	}
	for range l.rng.IntN(3) {
		l.at(time.Duration(l.rng.Int64N(int64(time.Minute))), l.publishKiller)
	}
	l.at(l.pause(), l.killOne)
	l.runFor(4 * time.Hour)
}

// pause returns how long a node lives: 0.2 to 12 seconds, mostly short.
func (l *crashLoop) pause() time.Duration {
	return 200*time.Millisecond + time.Duration(l.rng.Int64N(1+l.rng.Int64N(int64(11800*time.Millisecond))))
}

// start starts a node. A single node finds no leases of other nodes at its start.
func (l *crashLoop) start() {
	l.bootWith(Options{Concurrency: l.slots, HostConcurrency: l.slots, Incarnation: 1 + l.rng.Uint32N(1<<31-1)})
}

// killOne kills a node from time to time until enough were killed. After that, receivers and nodes
// do no more harm.
func (l *crashLoop) killOne() {
	if l.kills == 0 {
		l.heal()
		return
	}
	l.kills--
	if alive := l.alive(); len(alive) > 0 {
		l.kill(alive[l.rng.IntN(len(alive))])
	}
	l.at(l.pause(), l.killOne)
}

func (l *crashLoop) alive() (alive []*simNode) {
	for _, n := range l.nodes {
		if n.alive {
			alive = append(alive, n)
		}
	}
	return alive
}

// kill ends a node as kill -9 does. The other nodes see at once that its connection to the store is
// gone, and take over its leases. The node is started again soon.
func (l *crashLoop) kill(n *simNode) {
	n.alive = false
	l.crashes++
	l.died++
	l.open += n.core.slots.inFlight + n.core.commits.unsettled
	dead := n.core.opts.Incarnation
	maps.DeleteFunc(l.sending, func(_ postrider.DeliveryID, by uint32) bool { return by == dead })
	l.endSessions(n)
	l.nodes = l.alive()
	l.at(l.randomDelay(), func() {
		if _, err := l.store.Heartbeat(l.t.Context(), store.Heartbeat{Incarnation: dead, TTL: 1}); err != nil {
			l.t.Fatal(err)
		}
		l.at(time.Millisecond, func() {
			for n := 1; n > 0; {
				var err error
				if n, err = l.store.Reclaim(l.t.Context(), dead, 100); err != nil {
					l.t.Fatal(err)
				}
			}
			l.at(l.randomDelay(), l.start)
		})
	})
}

// sends decides what happens to a request: one in a hundred is slow, and the killer's request kills
// its node.
func (l *crashLoop) sends(n *simNode, it *Delivery, a *postrider.Attempt) {
	l.left++
	if it.Lane == postrider.LaneSuspect && !l.killers[it.ID] {
		l.suspects++
	}
	switch {
	case l.killers[it.ID]:
		l.at(l.randomDelay(), func() {
			if n.alive {
				l.kill(n)
			}
		})
		a.Duration = time.Hour
		return
	case l.rng.IntN(100) == 0:
		a.Duration = 300 * time.Millisecond
	}
	if a.Outcome == postrider.OutcomeAccepted {
		l.at(a.Duration, func() { l.arrivals[it.ID]++ })
	}
}

// fanOut publishes an event for every endpoint, in the form in which a fan-out job stores it.
func (l *crashLoop) fanOut() { l.storeOne(l.order, postrider.LaneBulk) }

func (l *crashLoop) publishKiller() {
	lane := postrider.Lanes[l.rng.IntN(3)]
	for _, id := range l.storeOne([]postrider.EndpointID{l.order[l.rng.IntN(len(l.order))]}, lane) {
		l.killers[id] = true
	}
}

// storeOne stores one event for the endpoints, and lets the nodes find its deliveries.
func (l *crashLoop) storeOne(endpoints []postrider.EndpointID, lane postrider.Lane) (ids []postrider.DeliveryID) {
	e := store.NewEvent{Event: postrider.Event{
		ID: store.NewID[postrider.EventID](l.ids), Account: l.routed[l.order[0]].Endpoint.Account, Type: "a.b", Data: []byte(`1`),
	}}
	for _, endpoint := range endpoints {
		id := store.NewID[postrider.DeliveryID](l.ids)
		ids = append(ids, id)
		e.Deliveries = append(e.Deliveries, store.NewDelivery{ID: id, Endpoint: endpoint, Lane: lane, Expiry: 24 * time.Hour})
	}
	changes, err := l.store.Changes(l.t.Context(), 0, 10_000)
	if err != nil {
		l.t.Fatal(err)
	}
	if _, err := l.store.Publish(l.t.Context(), store.Publish{Version: changes.Version, Batches: []store.Batch{{e}}}); err != nil {
		l.t.Fatal(err)
	}
	l.published += len(endpoints)
	for _, n := range l.nodes {
		l.poll(n)
	}
	return ids
}

// check checks the records at the end.
func (l *crashLoop) check() {
	ended := map[postrider.Status]int{}
	parked, recorded := 0, 0
	q := store.DeliveryQuery{Paging: store.Paging{Limit: store.MaxLimit}}
	for more := true; more; more = q.Cursor != "" {
		page, err := l.store.Deliveries(l.t.Context(), q)
		if err != nil {
			l.t.Fatal(err)
		}
		for _, d := range page.Items {
			ended[d.Status]++
			if d.Parked != l.killers[d.ID] || l.killers[d.ID] && d.Status != postrider.Pending {
				l.t.Errorf("delivery %s is %s (%s), parked %t; it kills its node: %t", d.ID, d.Status, d.Reason, d.Parked, l.killers[d.ID])
			}
			if d.Parked {
				parked++
			}
			l.checkLedger(d)
			recorded += d.Attempts
			l.twice += max(0, l.arrivals[d.ID]-1)
		}
		q.Cursor = page.Next
	}
	if got := ended[postrider.Delivered] + parked; got != l.published || ended[postrider.Dead] > 0 {
		l.t.Errorf("published %d, ended as %v, %d parked, after %d deaths", l.published, ended, parked, l.died)
	}
	if l.lost = recorded - l.left; l.lost < 0 || l.lost > l.slots*l.died {
		l.t.Errorf("%d attempts are counted and %d requests left, with %d slots and %d deaths", recorded, l.left, l.slots, l.died)
	}
	if l.twice > l.open {
		l.t.Errorf("%d duplicates, and %d attempts were open at the deaths", l.twice, l.open)
	}
}
