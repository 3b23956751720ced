package schedule

import (
	"container/heap"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/memory"
	"github.com/postrider/postrider/internal/testkit"
)

// The simulator runs the very core and the model store from one goroutine, in
// virtual time, by seed: nodes that crash, claims and settlements whose reply
// is lost, a database that is away for longer than a lease, receivers that
// refuse, hang and ask for time, endpoints that are paused and get another
// timeout. In half of the seeds the nodes share the endpoints out, come, go and
// stand still for a while (sim_cluster_test.go). They hand new deliveries to each
// other, and lose connections (sim_publish_test.go). Then it heals and demands
// that every delivery has come to its end, and ordered ones in their order.

func TestPromise8NodesMayDieAtAnyTime(t *testing.T) {
	t.Parallel()
	if testkit.Plain(t) {
		return
	}
	seeds := 200
	if testing.Short() {
		seeds = 30
	}
	var total tally
	for seed := range seeds {
		w := newSimulation(t, uint64(seed))
		w.run()
		w.check()
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
		total.add(w.links.tally)
	}
	t.Logf("between nodes: %+v", total)
	if total.taken == 0 || total.refused == 0 || total.cut == 0 || total.unnamed == 0 || total.late == 0 {
		t.Error("not everything happened between nodes: that tests little")
	}
}

type simulation struct {
	t        *testing.T
	rng      *rand.Rand
	now      time.Time
	callHeap callHeap
	store    *memory.Store
	ids      *store.IDs
	nodes    []*simNode
	routed   map[postrider.EndpointID]store.EndpointSnapshot
	order    []postrider.EndpointID // order of the endpoints in routed, so that a seed always draws the same
	healed   bool
	shared   bool      // several nodes share the endpoints
	locks    bool      // nodes hold locks, and a freed lock shows at once that its node is dead
	keyed    bool      // every event has an ordering key
	hangs    int       // of 16 requests, how many hang
	away     time.Time // the database is away until this time
	lucky    bool      // no reply is lost
	steps    int
	onSend   func(*simNode, *Delivery, *postrider.Attempt) // called after a request; nil: nothing more happens
	book     orderChecker
	links    links

	published int
	sending   map[postrider.DeliveryID]uint32       // by incarnation of the sending node
	sent      map[postrider.DeliveryID]map[int]bool // by number of the attempt
	accepted  map[postrider.DeliveryID]bool         // deliveries that were accepted and whose response was read
	crashes   int
	deadly    bool // nodes crash
	cuts      int  // number of lost replies
	thefts    int  // leases that were taken over, from the records at the end
}

type simNode struct {
	core     *core
	alive    bool
	frozen   time.Time // the node stands still until this time
	inFlight map[postrider.EndpointID]int
	groups   [][]store.Settlement // settlements to commit, one group after the other
	member   member
}

func newSimulation(t *testing.T, seed uint64) *simulation {
	w := &simulation{
		t: t, rng: rand.New(rand.NewPCG(seed, 7)), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		routed: map[postrider.EndpointID]store.EndpointSnapshot{}, sending: map[postrider.DeliveryID]uint32{},
		sent: map[postrider.DeliveryID]map[int]bool{}, accepted: map[postrider.DeliveryID]bool{}, links: newLinks(),
	}
	w.hangs = w.rng.IntN(10)
	w.shared = seed%2 == 1
	w.locks = w.shared && seed%4 == 1
	clock := func() time.Time { return w.now }
	w.store = memory.New(memory.Options{Now: clock})
	w.ids = store.NewIDs(clock, &[32]byte{byte(seed)})
	account := store.NewID[postrider.AccountID](w.ids)
	for range 1 + w.rng.IntN(6) {
		w.addEndpoint(account, func(p *postrider.Policy) {
			p.Concurrency = 1 + w.rng.IntN(4)
			if w.rng.IntN(3) == 0 {
				p.Order = postrider.OrderByKey
			}
			p.Retry = postrider.RetryPolicy{Delays: []time.Duration{0, time.Second, 5 * time.Second, time.Minute}, Jitter: "equal"}
		})
	}
	return w
}

func (w *simulation) addEndpoint(account postrider.AccountID, change func(*postrider.Policy)) {
	e := postrider.Endpoint{
		ID: store.NewID[postrider.EndpointID](w.ids), Account: account, URL: w.url(),
		EventTypes: []postrider.Pattern{"*"}, Status: postrider.EndpointEnabled, Policy: postrider.DefaultPolicy(),
	}
	change(&e.Policy)
	if _, err := w.store.PutEndpoint(w.t.Context(), store.PutEndpoint{Endpoint: e}); err != nil {
		w.t.Fatal(err)
	}
	w.routed[e.ID] = store.EndpointSnapshot{Endpoint: e}
	w.order = append(w.order, e.ID)
}

func (w *simulation) run() {
	for range 1 + w.rng.IntN(3) {
		w.boot()
	}
	for range 100 + w.rng.IntN(200) {
		w.at(time.Duration(w.rng.Int64N(int64(time.Minute))), w.publish)
	}
	for range w.rng.IntN(2) * w.rng.IntN(6) {
		w.deadly = true
		w.at(time.Duration(w.rng.Int64N(int64(2*time.Minute))), w.crash)
	}
	for range w.rng.IntN(8) {
		w.at(time.Duration(w.rng.Int64N(int64(2*time.Minute))), w.alter)
	}
	if w.rng.IntN(2) == 0 {
		w.at(time.Duration(w.rng.Int64N(int64(time.Minute))), func() { w.away = w.now.Add(time.Minute) })
	}
	for range w.rng.IntN(4) {
		w.at(time.Duration(w.rng.Int64N(int64(2*time.Minute))), w.freeze)
		w.at(time.Duration(w.rng.Int64N(int64(2*time.Minute))), w.leave)
		w.at(time.Duration(w.rng.Int64N(int64(2*time.Minute))), w.cut)
	}
	w.at(3*time.Minute, w.heal)
	w.runFor(time.Hour)
}

func (w *simulation) runFor(span time.Duration) {
	end := w.now.Add(span)
	for len(w.callHeap) > 0 && w.callHeap[0].at.Before(end) {
		next := heap.Pop(&w.callHeap).(scheduledCall)
		w.now = next.at
		next.do()
	}
}

// boot starts a node. The node scans the queue at once and every 30 seconds.
func (w *simulation) boot() {
	w.bootWith(Options{Concurrency: 1 + w.rng.IntN(8), HostConcurrency: 1 + w.rng.IntN(4), Incarnation: 1 + w.rng.Uint32N(1<<31-1)})
}

func (w *simulation) bootWith(opts Options) {
	n := &simNode{alive: true, inFlight: map[postrider.EndpointID]int{}}
	if w.shared {
		opts.Shared = true
	}
	n.core = newCore(opts, func(id postrider.EndpointID) (*store.EndpointSnapshot, bool) {
		to, ok := w.routed[id]
		return &to, ok
	})
	w.nodes = append(w.nodes, n)
	w.scan(n)
	if w.shared {
		w.lock(n)
		w.beat(n)
	}
}

func (w *simulation) scan(n *simNode) {
	lanes, err := w.store.Due(w.t.Context(), store.Due{Max: 1000})
	if err != nil {
		w.t.Fatal(err)
	}
	w.step(n, LanesDue{Lanes: lanes})
	w.later(n, 30*time.Second, func() { w.scan(n) })
}

func (w *simulation) crash() {
	if n := w.nodes[w.rng.IntN(len(w.nodes))]; n.alive && !w.healed {
		w.crashNode(n)
	}
}

func (w *simulation) crashNode(n *simNode) {
	n.alive = false
	w.unlock(n)
	w.endSessions(n)
	clear(w.sending) // its requests end with it; this also forgets the requests of another node
	w.crashes++
	w.at(time.Duration(w.rng.Int64N(int64(10*time.Second))), w.boot)
}

// url returns a URL at one of a few hosts.
func (w *simulation) url() string { return "https://" + string(rune('a'+w.rng.IntN(3))) + ".example" }

// alter pauses an endpoint, resumes it, moves it or changes its timeout. When nodes look the
// endpoint up, they see the change at once; they are told of it a little later.
func (w *simulation) alter() {
	id := w.order[w.rng.IntN(len(w.order))]
	to := w.routed[id]
	switch w.rng.IntN(5) {
	case 0:
		to.Endpoint.Status = postrider.EndpointPaused
	case 1:
		to.Endpoint.PolicyError = "a row that cannot be read"
	case 2:
		to.Endpoint.Status, to.Endpoint.PolicyError = postrider.EndpointEnabled, ""
	case 3:
		to.Endpoint.URL = w.url()
	default:
		to.Endpoint.Policy.Timeout = time.Duration(1+w.rng.IntN(30)) * time.Second
	}
	w.routed[id] = to
	for _, n := range w.nodes {
		w.later(n, w.randomDelay(), func() { w.step(n, changed{id}) })
	}
}

func (w *simulation) heal() {
	w.healed = true
	for _, id := range w.order {
		to := w.routed[id]
		to.Endpoint.Status, to.Endpoint.PolicyError = postrider.EndpointEnabled, ""
		w.routed[id] = to
		for _, n := range w.nodes {
			w.later(n, w.randomDelay(), func() { w.step(n, changed{id}) })
		}
	}
}

func (w *simulation) step(n *simNode, input any) {
	if w.now.Before(n.frozen) {
		w.at(n.frozen.Sub(w.now), func() { w.step(n, input) })
		return
	}
	n.core.step(w.now, input)
	do := n.core.Decide(w.now)
	if w.steps++; len(n.core.endpoints) < 50 || w.steps%64 == 0 {
		w.checkAccounts(n.core)
		w.checkReviewed(n.core)
	}
	for _, it := range do.Send {
		w.send(n, it)
	}
	if len(do.Settle) > 0 {
		if n.groups = append(n.groups, do.Settle); len(n.groups) == 1 {
			w.later(n, w.randomDelay(), func() { w.settle(n) })
		}
	}
	if len(do.Release) > 0 {
		w.later(n, w.randomDelay(), func() {
			var leases []store.Lease
			for _, r := range do.Release {
				leases = append(leases, r.Lease)
			}
			if err := w.store.Release(w.t.Context(), leases); err != nil {
				w.t.Error(err)
			}
			w.step(n, LeasesReleased{do.Release})
		})
	}
	for _, circuit := range do.Circuits {
		w.later(n, w.randomDelay(), func() { w.storeCircuit(n, circuit.Circuit) })
	}
	if len(do.Notify) > 0 && w.rng.IntN(2) == 0 { // half of the wake-ups are lost
		for _, other := range w.nodes {
			w.later(other, w.randomDelay(), func() { w.step(other, LanesDue{do.Notify, true}) })
		}
	}
	if do.Claim != nil {
		w.later(n, w.randomDelay(), func() { w.claim(n, do.Claim, w.now) })
	}
	if !do.WakeAt.IsZero() {
		w.later(n, max(do.WakeAt.Sub(w.now), time.Millisecond), func() { w.step(n, nil) })
	}
}

func (w *simulation) storeCircuit(n *simNode, c postrider.Circuit) {
	if w.now.Before(w.away) {
		w.later(n, time.Second, func() { w.storeCircuit(n, c) })
		return
	}
	is, err := w.store.PutCircuit(w.t.Context(), store.PutCircuit{Circuit: c})
	if err != nil && !errors.Is(err, postrider.ErrConflict) {
		w.t.Fatal(err)
	}
	w.later(n, w.randomDelay(), func() { w.step(n, CircuitStored{is, err}) })
}

var errCut = errors.New("the reply was lost")

func (w *simulation) claim(n *simNode, c *store.Claim, asked time.Time) {
	if w.now.Before(w.away) || w.unlucky() && w.rng.IntN(2) == 0 {
		w.step(n, ClaimReturned{Claim: c, Err: errCut, AskedAt: asked})
		return
	}
	got, err := w.store.Claim(w.t.Context(), *c)
	if err != nil {
		w.t.Fatal(err)
	}
	w.links.tally.claimed += len(got.Items)
	if w.unlucky() {
		w.cuts++
		got, err = store.Claims{}, errCut
	}
	w.later(n, w.randomDelay(), func() { w.step(n, ClaimReturned{c, got, err, asked}) })
}

func (w *simulation) settle(n *simNode) {
	if w.now.Before(w.away) {
		w.later(n, time.Duration(1+w.rng.IntN(5))*time.Second, func() { w.settle(n) })
		return
	}
	group := n.groups[0]
	results, err := w.store.Settle(w.t.Context(), group)
	if err != nil {
		w.t.Fatal(err)
	}
	if w.unlucky() { // the call is made twice
		w.cuts++
		w.later(n, time.Second, func() { w.settle(n) })
		return
	}
	w.later(n, w.randomDelay(), func() {
		if n.groups = n.groups[1:]; len(n.groups) > 0 {
			w.later(n, w.randomDelay(), func() { w.settle(n) })
		}
		w.step(n, SettlementsCommitted{group, results})
	})
}

func (w *simulation) send(n *simNode, it *Delivery) {
	id, limit := it.Endpoint, it.To.Endpoint.Policy.Concurrency
	if n.inFlight[id]++; n.inFlight[id] > limit {
		w.t.Errorf("%d attempts in flight to an endpoint with a limit of %d", n.inFlight[id], limit)
	}
	if most := n.core.opts.MaxInFlight; n.core.slots.inFlight > most {
		w.t.Errorf("%d attempts in flight, limit %d", n.core.slots.inFlight, most)
	}
	if h := n.core.endpoints[id].host; h.inFlight > n.core.opts.HostConcurrency {
		w.t.Errorf("%d attempts in flight to a host, limit %d", h.inFlight, n.core.opts.HostConcurrency)
	}
	if w.sending[it.ID] != 0 {
		w.t.Errorf("delivery %s is being sent twice at once", it.ID)
	}
	if w.sent[it.ID] == nil {
		w.sent[it.ID] = map[int]bool{}
	}
	if w.sent[it.ID][it.Attempt] {
		w.t.Errorf("delivery %s: attempt %d was sent twice", it.ID, it.Attempt)
	}
	if w.accepted[it.ID] && w.crashes == 0 && (len(w.nodes) == 1 || w.shared && w.cuts == 0 && w.away.IsZero()) {
		w.t.Errorf("delivery %s is sent again although its answer was read", it.ID)
	}
	w.sent[it.ID][it.Attempt] = true
	w.checkOwner(n, it)
	w.checkLease(it)
	w.sending[it.ID] = n.core.opts.Incarnation
	a := w.respond(it)
	if w.onSend != nil {
		w.onSend(n, it, &a)
	}
	if a.Outcome == postrider.OutcomeAccepted {
		w.at(a.Duration, func() { w.book.accepted(w.t, it) })
	}
	w.later(n, a.Duration, func() {
		n.inFlight[id]--
		delete(w.sending, it.ID)
		w.accepted[it.ID] = w.accepted[it.ID] || a.Outcome == postrider.OutcomeAccepted
		it.Result = a
		w.step(n, Attempted{it})
	})
}

// checkAccounts requires that every unit of credit belongs to a delivery.
func (w *simulation) checkAccounts(c *core) {
	inHand, inFlight, probes := 0, 0, 0
	underWay, inClass := [classes]int{}, [classes]int{}
	leased := [laneCount]int{}
	hosts := map[*host]int{}
	for _, ep := range c.endpoints {
		known := ep.prefetchedCount() + ep.inFlight + ep.asked[0] + ep.asked[1] + ep.asked[2] + ep.asked[3]
		if ep.credit < known || len(c.admissions.underWay) == 0 && ep.credit != known {
			w.t.Errorf("endpoint %s has spent %d credit, of which %d is known", ep.id, ep.credit, known)
		}
		hosts[ep.host] += ep.inFlight
		underWay[ep.class] += ep.inFlight
		inClass[ep.class] += ep.credit
		if ep.probe != noProbe {
			probes++
		}
		for l := range leased {
			leased[l] += ep.asked[l] + len(ep.prefetched[l])
		}
		inHand += ep.credit
		inFlight += ep.inFlight
	}
	for h, n := range hosts {
		if n != h.inFlight {
			w.t.Errorf("%d attempts in flight to a host, counted as %d", n, h.inFlight)
		}
	}
	if len(c.admissions.underWay) == 0 && leased != c.slots.leased {
		w.t.Errorf("by lane %d leased, counted as %d", leased, c.slots.leased)
	}
	if underWay != c.slots.inFlightOf || inClass != c.slots.creditOf || probes != c.circuits.probes {
		w.t.Errorf("by class %d attempts in flight, %d credit and %d probes, counted as %d, %d and %d", underWay, inClass, probes,
			c.slots.inFlightOf, c.slots.creditOf, c.circuits.probes)
	}
	if c.slots.prefetchFree() < 0 {
		w.t.Errorf("%d deliveries are leased before they start, limit %d", inHand-inFlight, c.opts.Concurrency)
	}
	if inHand != c.slots.credit || inFlight != c.slots.inFlight {
		w.t.Errorf("%d in hand and %d in flight, counted as %d and %d", inHand, inFlight, c.slots.credit, c.slots.inFlight)
	}
	w.checkHanded(c)
}

// checkReviewed requires that each endpoint that has something due or prefetched is in a queue, has
// a timer, or waits for an input: see [Core.review].
func (w *simulation) checkReviewed(c *core) {
	for _, ep := range c.endpoints {
		prefetched := ep.prefetchedCount()
		if !ep.isDue(w.now) && prefetched == 0 || !c.shards.mayServe(ep) || c.draining {
			continue
		}
		waits := ep.credit > prefetched || ep.unsettled > 0 || ep.storing
		if ep.queued == 0 && ep.timer == 0 && !waits {
			w.t.Errorf("endpoint %s has %d prefetched and lanes %+v, and waits for nothing", ep.id, prefetched, ep.lanes)
		}
	}
}

// respond returns the response of a receiver. After the simulation has healed, receivers accept
// everything.
func (w *simulation) respond(it *Delivery) postrider.Attempt {
	a := postrider.Attempt{Outcome: postrider.OutcomeAccepted, StatusCode: 200, Duration: w.randomDelay()}
	if w.healed {
		return a
	}
	switch n := w.rng.IntN(16); {
	case n < w.hangs:
		a.Outcome, a.StatusCode, a.Duration = postrider.OutcomeTimedOut, 0, it.Timeout
	case n < w.hangs+2:
		a.Outcome, a.StatusCode = postrider.OutcomeRejected, 500
	case n < w.hangs+4:
		a.Outcome, a.StatusCode, a.RetryAfter = postrider.OutcomeThrottled, 429, time.Duration(w.rng.IntN(20))*time.Second
	case n < w.hangs+6:
		a.Outcome, a.StatusCode = postrider.OutcomeThrottled, 503
	}
	return a
}

// check checks the records when nothing is left to do.
func (w *simulation) check() {
	deliveries := map[postrider.Status]int{}
	q := store.DeliveryQuery{Paging: store.Paging{Limit: store.MaxLimit}}
	for {
		page, err := w.store.Deliveries(w.t.Context(), q)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, d := range page.Items {
			deliveries[d.Status]++
			w.checkLedger(d)
		}
		if page.Next == "" {
			break
		}
		q.Cursor = page.Next
	}
	if got := deliveries[postrider.Delivered] + deliveries[postrider.Dead]; got != w.published || deliveries[postrider.Pending] > 0 {
		w.t.Errorf("published %d, ended as %v after %d crashes and %d lost replies", w.published, deliveries, w.crashes, w.cuts)
	}
}

// checkLedger requires that every request that left has a recorded attempt.
func (w *simulation) checkLedger(d postrider.Delivery) {
	page, err := w.store.Attempts(w.t.Context(), store.AttemptQuery{
		Account: d.Account, Delivery: d.ID, Paging: store.Paging{Limit: store.MaxLimit},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	recorded := map[int]bool{}
	for _, a := range page.Items {
		recorded[a.Number] = true
		if a.Outcome == postrider.OutcomeLost || a.Stale {
			w.thefts++
		}
	}
	for attempt := range w.sent[d.ID] {
		if !recorded[attempt] {
			w.t.Errorf("delivery %s (%s): attempt %d left and is not on record; recorded %v", d.ID, d.Status, attempt, recorded)
		}
	}
	if len(w.sent[d.ID]) > 1 && d.Status == postrider.Delivered && w.crashes+w.cuts == 0 && d.Attempts != len(w.sent[d.ID]) {
		w.t.Errorf("delivery %s: %d attempts counted, %d sent", d.ID, d.Attempts, len(w.sent[d.ID]))
	}
}

func (w *simulation) unlucky() bool { return !w.healed && !w.lucky && w.rng.IntN(20) == 0 }
func (w *simulation) randomDelay() time.Duration {
	return time.Duration(1 + w.rng.Int64N(int64(20*time.Millisecond)))
}

// later calls do on a node after wait, if the node is then alive and not stopped.
func (w *simulation) later(n *simNode, wait time.Duration, do func()) {
	w.at(wait, func() {
		switch {
		case !n.alive:
		case w.now.Before(n.frozen):
			w.later(n, n.frozen.Sub(w.now), do)
		default:
			do()
		}
	})
}

func (w *simulation) at(wait time.Duration, do func()) {
	heap.Push(&w.callHeap, scheduledCall{w.now.Add(wait), len(w.callHeap), do})
}

// callHeap orders the calls that are scheduled.
type callHeap []scheduledCall

type scheduledCall struct {
	at  time.Time
	tie int
	do  func()
}

func (a callHeap) Len() int           { return len(a) }
func (a callHeap) Less(i, j int) bool { return a[i].at.Before(a[j].at) }
func (a callHeap) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }
func (a *callHeap) Push(x any)        { *a = append(*a, x.(scheduledCall)) }
func (a *callHeap) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}
