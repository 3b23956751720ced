package schedule

import (
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// fixture returns a core with several equal endpoints.
func fixture(change func(*postrider.Policy)) (*core, time.Time) {
	policy := postrider.DefaultPolicy()
	if change != nil {
		change(&policy)
	}
	c := newCore(Options{Incarnation: 1}, func(id postrider.EndpointID) (*store.EndpointSnapshot, bool) {
		return &store.EndpointSnapshot{Endpoint: postrider.Endpoint{
			ID: id, URL: "https://a.example", Status: postrider.EndpointEnabled,
			Policy: policy,
		}}, true
	})
	return c, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
}

// decide applies the inputs, and returns the actions.
func decide(c *core, now time.Time, inputs ...any) Actions {
	for _, in := range inputs {
		c.step(now, in)
	}
	do := c.Decide(now)
	return do
}

// over returns the input that says that an attempt has ended.
func over(it *Delivery, a postrider.Attempt) Attempted {
	it.Result = a
	return Attempted{it}
}

// idle lets enough time pass for the core to forget idle endpoints.
func idle(c *core, now time.Time) {
	for range 3 {
		now = now.Add(time.Second)
		decide(c, now)
	}
}

// admitted returns claimed deliveries that were admitted, one for each of ids.
func admitted(c *core, now time.Time, ids ...postrider.EndpointID) []postrider.Claimed {
	deliveries := make([]store.NewDelivery, len(ids))
	ask := make([]*store.NewDelivery, len(ids))
	for i, id := range ids {
		deliveries[i] = store.NewDelivery{ID: postrider.DeliveryID{byte(i)}, Endpoint: id, Lane: postrider.LaneFirst}
		ask[i] = &deliveries[i]
	}
	decide(c, now, admit{ask})
	claimed := make([]postrider.Claimed, len(ids))
	for i, d := range deliveries {
		claimed[i] = postrider.Claimed{
			ID: d.ID, Endpoint: d.Endpoint, Event: &postrider.Event{Data: []byte("1")}, Lane: d.Lane, Attempt: 1,
			Token: d.Token, ExpiresAt: now.Add(time.Hour),
		}
	}
	return claimed
}

func TestWorkFoundDuringAClaimIsNotForgotten(t *testing.T) {
	t.Parallel()
	c, now := fixture(nil)
	id := postrider.EndpointID{1}
	found := LanesDue{Lanes: []store.DueLane{{Endpoint: id, Lane: postrider.LaneFirst}}}

	first := decide(c, now, found)
	if first.Claim == nil {
		t.Fatal("a lane is due and nothing was claimed")
	}
	if do := decide(c, now, found); do.Claim != nil {
		t.Error("two claims are under way")
	}
	nothing := ClaimReturned{Claim: first.Claim, Got: store.Claims{Lanes: make([]store.LaneState, len(first.Claim.Wants))}, AskedAt: now}
	if do := decide(c, now, nothing); do.Claim == nil {
		t.Error("what was found during the claim was forgotten when it came back empty")
	}
}

func TestNothingIsAdmittedPastOlderDeliveries(t *testing.T) {
	t.Parallel()
	c, now := fixture(nil)
	id := postrider.EndpointID{1}
	admits := func() bool {
		d := &store.NewDelivery{Endpoint: id, Lane: postrider.LaneFirst}
		decide(c, now, admit{[]*store.NewDelivery{d}})
		return d.Token != 0
	}
	if !admits() {
		t.Error("an idle endpoint does not admit")
	}
	decide(c, now, LanesDue{Lanes: []store.DueLane{{Endpoint: id, Lane: postrider.LaneFirst}}})
	if do := c.endpoints[id]; do.asked[0] == 0 {
		t.Fatal("the due lane is not being claimed")
	}
	decide(c, now, LanesDue{Lanes: []store.DueLane{{Endpoint: id, Lane: postrider.LaneFirst}}})
	if admits() {
		t.Error("a delivery was admitted although older ones wait")
	}
	decide(c, now, changed{id}, LanesDue{Lanes: []store.DueLane{{Endpoint: postrider.EndpointID{2}, Lane: postrider.LaneRetry}}})
	id = postrider.EndpointID{2}
	if !admits() {
		t.Error("a waiting retry keeps first attempts out")
	}
}

func TestCreditIsBoundedAndComesBack(t *testing.T) {
	t.Parallel()
	c, now := fixture(func(p *postrider.Policy) { p.Concurrency = 3 })
	id := postrider.EndpointID{1}
	deliveries := make([]store.NewDelivery, 10)
	var ask []*store.NewDelivery
	for i := range deliveries {
		deliveries[i] = store.NewDelivery{Endpoint: id, Lane: postrider.LaneFirst}
		ask = append(ask, &deliveries[i])
	}
	decide(c, now, admit{ask})
	admitted := deliveries[:0:0]
	for _, d := range deliveries {
		if d.Token != 0 {
			admitted = append(admitted, d)
		}
	}
	if len(admitted) != 6 {
		t.Fatalf("%d deliveries admitted, want twice the limit of 3", len(admitted))
	}
	decide(c, now, stored{dropped: admitted})
	idle(c, now)
	if len(c.endpoints) != 0 || c.slots.credit != 0 || len(c.admissions.underWay) != 0 {
		t.Errorf("after the commit failed, %d endpoints, %d credit and %d admissions are left", len(c.endpoints), c.slots.credit,
			len(c.admissions.underWay))
	}
}

func TestLanesShareStarts(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c, ep := newCore(Options{}, nil), &endpoint{}
	c.bulk = bulkLimiter{slots: &c.slots, rate: maxBulkRate, tokens: 100, refilled: now}
	for range 100 {
		for l, lane := range postrider.Lanes[:suspectLane] {
			ep.prefetched[l] = append(ep.prefetched[l], &Delivery{Claimed: postrider.Claimed{Lane: lane}})
		}
	}
	started := map[postrider.Lane]int{}
	for range 100 {
		started[ep.pop(ep.nextLane(now, &c.bulk)).Lane]++
	}
	if started[postrider.LaneFirst] != 60 || started[postrider.LaneRetry] != 20 || started[postrider.LaneBulk] != 20 {
		t.Errorf("of 100 starts with all lanes full, %v; want 60 first, 20 retry, 20 bulk", started)
	}
}

func TestEndpointsTakeTurns(t *testing.T) {
	t.Parallel()
	c, now := fixture(func(p *postrider.Policy) { p.Concurrency = 100 })
	c.slots.limit = 10
	var ids []postrider.EndpointID
	for i := range 55 {
		id := postrider.EndpointID{1}
		if i >= 50 {
			id = postrider.EndpointID{byte(i)}
		}
		ids = append(ids, id)
	}
	for _, id := range ids {
		c.endpoint(id).respondedAt = now
	}
	in := stored{started: admitted(c, now, ids...)}
	do := decide(c, now, in)
	sent := map[postrider.EndpointID]int{}
	for _, it := range do.Send {
		sent[it.Endpoint]++
	}
	if len(do.Send) != 10 || len(sent) != 6 || sent[postrider.EndpointID{1}] != 5 {
		t.Errorf("10 slots went to %v; want one for each of five small endpoints, and five for the large one", sent)
	}
}

func TestADecisionWithoutAClaimUsesUpNoToken(t *testing.T) {
	t.Parallel()
	c, now := fixture(nil)
	was := c.admissions.token
	idle(c, now)
	if is := c.admissions.token; is != was {
		t.Errorf("%d tokens are used up, want none: a node has 32 bits of them", is-was)
	}
}

func TestTokensKeepTheirIncarnation(t *testing.T) {
	t.Parallel()
	a := admissions{token: 7<<32 + (1<<32 - 2)}
	for _, want := range []postrider.Token{8<<32 - 1, 7 << 32, 7<<32 + 1} {
		if got := a.nextToken(); got != want {
			t.Errorf("the next token is %x, want %x", got, want)
		}
	}
}

func BenchmarkStep(b *testing.B) {
	c, now := fixture(func(p *postrider.Policy) { p.Concurrency = 64 })
	event := &postrider.Event{Data: []byte("1")}
	cl := postrider.Claimed{Endpoint: postrider.EndpointID{1}, Event: event, Lane: postrider.LaneFirst, ExpiresAt: now.Add(time.Hour)}
	b.ReportAllocs()
	for b.Loop() {
		d := store.NewDelivery{Endpoint: cl.Endpoint, Lane: cl.Lane}
		c.step(now, admit{[]*store.NewDelivery{&d}})
		cl.Token = d.Token
		c.step(now, stored{started: []postrider.Claimed{cl}})
		do := c.Decide(now)
		it := do.Send[0]
		c.step(now, over(it, postrider.Attempt{Outcome: postrider.OutcomeAccepted}))
		do = c.Decide(now)
		settlements := do.Settle
		c.step(now, SettlementsCommitted{settlements, []store.Settled{{}}})
		c.Decide(now)
	}
}

func TestPromise5TheNodeIsBehindOnlyByItsOwnFault(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		saturated bool
		change    func(ep *endpoint, now time.Time)
		want      time.Duration
	}{
		{"a due backlog while the processors are taken", true, func(*endpoint, time.Time) {}, 100 * time.Second},
		{"not while processors are free", false, func(*endpoint, time.Time) {}, 0},
		{"not at an endpoint that has all it may have at once", true, func(ep *endpoint, _ time.Time) { ep.inFlight = ep.limit }, 0},
		{"not at an endpoint that asked to wait", true, func(ep *endpoint, now time.Time) { ep.breaker.PacedUntil = now.Add(time.Hour) }, 0},
		{"not at an endpoint whose rate is used up", true, func(ep *endpoint, now time.Time) { ep.rateBlockedUntil = now.Add(time.Hour) }, 0},
		{"not at an endpoint that failed last", true, func(ep *endpoint, _ time.Time) { ep.breaker.Failures = 1 }, 0},
		{
			"not at an endpoint that shares its slots with others that do not answer", true,
			func(ep *endpoint, _ time.Time) { ep.class = unreliable }, 0,
		},
		{"not at an endpoint that has to answer first", true, func(ep *endpoint, _ time.Time) { ep.inFlight, ep.host.inFlight = 1, 200 }, 0},
		{"not at an endpoint whose host has all it may have at once", true, func(ep *endpoint, _ time.Time) { ep.host.inFlight = 1 << 20 }, 0},
	} {
		c, now := fixture(nil)
		decide(c, now, Load{Saturated: tt.saturated}) // the first inspection
		ep := c.endpoint(postrider.EndpointID{1})
		ep.backlog = 10_000
		tt.change(ep, now)
		c.pressure.settled = 25
		if do := decide(c, now.Add(time.Second/4)); do.Lag != tt.want {
			t.Errorf("%s: %v behind, want %v", tt.name, do.Lag, tt.want)
		}
	}
}

func TestOnlyWhatIsDueIsBacklog(t *testing.T) {
	t.Parallel()
	c, now := fixture(nil)
	id := postrider.EndpointID{1}
	decide(c, now, stored{waiting: []store.DueLane{
		{Endpoint: id, Lane: postrider.LaneFirst, In: time.Hour},
		{Endpoint: id, Lane: postrider.LaneFirst},
		{Endpoint: id, Lane: postrider.LaneBulk},
	}})
	if n := c.endpoints[id].backlog; n != 1 {
		t.Errorf("a backlog of %d, want the one that is due and no bulk", n)
	}
}

func TestAClaimThatFindsNothingMoreEndsTheBacklog(t *testing.T) {
	t.Parallel()
	due := store.DueLane{Endpoint: postrider.EndpointID{1}, Lane: postrider.LaneFirst}
	for _, tt := range []struct {
		name  string
		lane  postrider.Lane
		since []store.DueLane // lanes published while the claim was under way
		state store.LaneState
		want  int
	}{
		{"none is left", postrider.LaneFirst, nil, store.LaneState{Claimed: 1}, 0},
		{"none is due", postrider.LaneFirst, nil, store.LaneState{Waiting: true, In: time.Hour}, 0},
		{"some are left", postrider.LaneFirst, nil, store.LaneState{Claimed: 1, Waiting: true}, 4},
		{"some came since", postrider.LaneFirst, []store.DueLane{due}, store.LaneState{Claimed: 1}, 5},
		{"retries were claimed", postrider.LaneRetry, nil, store.LaneState{Claimed: 1}, 5},
	} {
		c, now := fixture(nil)
		decide(c, now, stored{waiting: []store.DueLane{due, due, due, due, due}})
		if tt.since != nil {
			decide(c, now, stored{waiting: tt.since})
		}
		ep := c.endpoint(due.Endpoint)
		claim := &store.Claim{Wants: []store.Want{{Endpoint: ep.id, Lane: tt.lane, N: 1}}}
		ep.lanes[0].occupied = tt.since != nil
		decide(c, now, ClaimReturned{Claim: claim, Got: store.Claims{Lanes: []store.LaneState{tt.state}}, AskedAt: now})
		if ep.backlog != tt.want {
			t.Errorf("%s: a backlog of %d, want %d", tt.name, ep.backlog, tt.want)
		}
	}
}

func TestPromise5TheBacklogOfASlowEndpointSlowsNoPublisher(t *testing.T) {
	t.Parallel()
	c, now := fixture(nil)
	ep := c.endpoint(postrider.EndpointID{1})
	ep.breaker.PacedUntil = now.Add(time.Second)
	hour := make([]store.DueLane, 10_000)
	for i := range hour {
		hour[i] = store.DueLane{Endpoint: ep.id, Lane: postrider.LaneFirst}
	}
	decide(c, now, Load{Saturated: true}, stored{waiting: hour})
	now = now.Add(time.Second)
	if do := decide(c, now); do.Claim == nil || do.Lag != 0 {
		t.Errorf("the node is %v behind when the endpoint may be sent to again, and claims %t; want 0, and that it does", do.Lag, do.Claim != nil)
	}
	decide(c, now, stored{waiting: hour})
	if do := decide(c, now.Add(time.Second)); do.Lag < 10*time.Second {
		t.Errorf("%v behind with what was published since, want more than 10 s", do.Lag)
	}
}

func TestNothingIsAdmittedPastDeliveriesThatWaitedLongerThanAClaimTakes(t *testing.T) {
	t.Parallel()
	c, now := fixture(nil)
	id := postrider.EndpointID{1}
	// The claim is under way and hangs.
	decide(c, now, stored{waiting: []store.DueLane{{Endpoint: id, Lane: postrider.LaneFirst}}})
	ep := c.endpoints[id]
	c.slots.addCredit(ep, -ep.credit)
	for _, tt := range []struct {
		after time.Duration
		want  bool
	}{{0, true}, {100 * time.Millisecond, true}, {101 * time.Millisecond, false}, {time.Minute, false}} {
		if got := c.mayAdmit(now.Add(tt.after), ep, 0); got != tt.want {
			t.Errorf("another is admitted %v after one had to wait: %t, want %t", tt.after, got, tt.want)
		}
	}
}

func TestAnEndpointThatVanishesDoesNotHoldTheLoop(t *testing.T) {
	t.Parallel()
	c, now := fixture(func(p *postrider.Policy) { p.Concurrency = 1 })
	id := postrider.EndpointID{1}
	do := decide(c, now, stored{started: admitted(c, now, id, id)})
	if len(do.Send) != 1 {
		t.Fatalf("%d sent, want 1", len(do.Send))
	}
	sent := do.Send[0]

	// The endpoint is deleted when a response frees its slot.
	c.lookup = func(postrider.EndpointID) (*store.EndpointSnapshot, bool) { return nil, false }
	do = decide(c, now, changed{id}, over(sent, postrider.Attempt{Outcome: postrider.OutcomeAccepted}))
	if len(do.Send) != 0 || len(do.Release) != 1 {
		t.Errorf("%d sent and %d released, want what was held to be given back", len(do.Send), len(do.Release))
	}
	decide(c, now, changed{id}, SettlementsCommitted{do.Settle, make([]store.Settled, len(do.Settle))},
		LanesDue{Lanes: []store.DueLane{{Endpoint: id, Lane: postrider.LaneFirst}}})
	idle(c, now)
	if len(c.endpoints) != 0 {
		t.Errorf("%d endpoints are remembered", len(c.endpoints))
	}
}

func TestNothingIsSentAfter410UntilItIsDisabled(t *testing.T) {
	t.Parallel()
	c, now := fixture(nil)
	id := postrider.EndpointID{1}
	do := decide(c, now, stored{started: admitted(c, now, id)})
	do = decide(c, now, over(do.Send[0], postrider.Attempt{Outcome: postrider.OutcomeGone}))
	if len(do.Disable) != 1 {
		t.Fatal("the endpoint is not disabled")
	}
	d := &store.NewDelivery{Endpoint: id, Lane: postrider.LaneFirst}
	decide(c, now, changed{id}, admit{[]*store.NewDelivery{d}})
	if d.Token != 0 {
		t.Error("a delivery was admitted to an endpoint that said 410")
	}
}

func TestLeasesAreTakenToBeAsShortAsTheShortest(t *testing.T) {
	t.Parallel()
	policy := postrider.DefaultPolicy()
	policy.Timeout = time.Second
	c := newCore(Options{Incarnation: 1}, func(id postrider.EndpointID) (*store.EndpointSnapshot, bool) {
		return &store.EndpointSnapshot{Endpoint: postrider.Endpoint{
			ID: id, URL: "https://a.example", Status: postrider.EndpointEnabled,
			Policy: policy,
		}}, true
	})
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	id := postrider.EndpointID{1}
	claimed := admitted(c, now, id)
	policy.Timeout = 30 * time.Second // changed while the delivery is committed under a lease of 16 s
	do := decide(c, now, changed{id}, stored{started: claimed})
	if len(do.Send) != 0 || len(do.Release) != 1 {
		t.Errorf("%d sent under a lease that does not cover them, %d released; want 0 and 1", len(do.Send), len(do.Release))
	}
}

func TestAsManyAttemptsAsTheConcurrencyAreInFlight(t *testing.T) {
	t.Parallel()
	const n = 5000
	h := newHarness(t, Options{Concurrency: n, HostConcurrency: n})
	found := LanesDue{}
	for range n {
		id := h.endpoint("a.example", nil)
		h.rows[id] = []row{{h.now, postrider.Claimed{
			ID: postrider.DeliveryID(id), Endpoint: id, Event: &postrider.Event{Data: []byte("1")},
			Lane: postrider.LaneFirst, ExpiresAt: h.now.Add(expiry),
		}}}
		found.Lanes = append(found.Lanes, store.DueLane{Endpoint: id, Lane: postrider.LaneFirst})
	}
	h.step(found)
	h.wait(time.Second)
	if got := h.inFlight(); got != n {
		t.Errorf("%d attempts in flight, want all %d", got, n)
	}
}

func TestNothingIsClaimedWhileResultsWaitForTheirCommit(t *testing.T) {
	t.Parallel()
	c, now := fixture(nil)
	id := postrider.EndpointID{1}
	found := LanesDue{Lanes: []store.DueLane{{Endpoint: postrider.EndpointID{2}, Lane: postrider.LaneFirst}}}
	do := decide(c, now, stored{started: admitted(c, now, id, id)})
	one := decide(c, now, over(do.Send[0], postrider.Attempt{Outcome: postrider.OutcomeAccepted}))
	two := decide(c, now.Add(time.Second), over(do.Send[1], postrider.Attempt{Outcome: postrider.OutcomeAccepted}))

	now = now.Add(6 * time.Second)
	if do := decide(c, now, found); do.Claim != nil {
		t.Error("claimed while answers wait for their commit")
	}
	if do := decide(c, now.Add(time.Second), SettlementsCommitted{one.Settle, make([]store.Settled, 1)}); do.Claim != nil {
		t.Error("claimed while one of the answers still waits")
	}
	if do := decide(c, now.Add(time.Second), SettlementsCommitted{two.Settle, make([]store.Settled, 1)}); do.Claim == nil {
		t.Error("nothing is claimed after all were committed")
	}
}

func TestPromise5ASlowEndpointTakesNoRoomFromPublishers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name         string
		saturated    bool
		of           class
		unstarted, n int
		want         bool
	}{
		{"a commit of any size, if all have started", true, prompt, 0, 10_000, true},
		{"a large commit, if one has not", true, prompt, 1, 384, false},
		{"a commit that fits", true, prompt, 284, 100, true},
		{"a commit that does not fit", true, prompt, 285, 100, false},
		{"what a slow endpoint has leased does not count", true, slow, 1000, 384, true},
		{"the processors are not the reason", false, prompt, 1000, 384, true},
	} {
		c, now := fixture(nil)
		decide(c, now, Load{Saturated: tt.saturated})
		ep := c.endpoint(postrider.EndpointID{1})
		c.slots.reclass(ep, tt.of)
		c.slots.addCredit(ep, tt.unstarted)
		if got := c.HasRoom(now, tt.n); got != tt.want {
			t.Errorf("%s: HasRoom = %t, want %t", tt.name, got, tt.want)
		}
	}
}
