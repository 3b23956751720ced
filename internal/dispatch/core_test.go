package dispatch

import (
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// fixture is a core with endpoints that are all alike.
func fixture(change func(*postrider.Policy)) (*core, time.Time) {
	policy := postrider.DefaultPolicy()
	if change != nil {
		change(&policy)
	}
	c := newCore(Options{Incarnation: 1}.withDefaults(), func(id postrider.EndpointID) (store.Routed, bool) {
		return store.Routed{Endpoint: postrider.Endpoint{ID: id, Status: postrider.EndpointEnabled, Policy: policy}}, true
	})
	return c, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
}

// take steps, and returns what is to be done.
func take(c *core, now time.Time, inputs ...any) actions {
	for _, in := range inputs {
		c.step(now, in)
	}
	do := *c.act(now)
	c.taken()
	return do
}

func TestNewsDuringAClaimIsNotForgotten(t *testing.T) {
	t.Parallel()
	c, now := fixture(nil)
	id := postrider.EndpointID{1}
	found := due{[]store.DueLane{{Endpoint: id, Lane: postrider.LaneFirst}}}

	first := take(c, now, found)
	if first.claim == nil {
		t.Fatal("a lane is due and nothing was claimed")
	}
	if do := take(c, now, found); do.claim != nil {
		t.Error("two claims are under way")
	}
	nothing := claimed{claim: first.claim, got: store.Claims{Lanes: make([]store.LaneState, len(first.claim.Wants))}, asked: now}
	if do := take(c, now, nothing); do.claim == nil {
		t.Error("what was found during the claim was forgotten when it came back empty")
	}
}

func TestNothingIsAdmittedPastOlderDeliveries(t *testing.T) {
	t.Parallel()
	c, now := fixture(nil)
	id := postrider.EndpointID{1}
	admits := func() bool {
		d := &store.NewDelivery{Endpoint: id, Lane: postrider.LaneFirst}
		take(c, now, admit{[]*store.NewDelivery{d}, make(chan struct{})})
		return d.Token != 0
	}
	if !admits() {
		t.Error("an idle endpoint does not admit")
	}
	take(c, now, due{[]store.DueLane{{Endpoint: id, Lane: postrider.LaneFirst}}})
	if do := c.endpoints[id]; do.asked[0] == 0 {
		t.Fatal("the due lane is not being claimed")
	}
	take(c, now, due{[]store.DueLane{{Endpoint: id, Lane: postrider.LaneFirst}}})
	if admits() {
		t.Error("a delivery was admitted although older ones wait")
	}
	take(c, now, changed{id}, due{[]store.DueLane{{Endpoint: postrider.EndpointID{2}, Lane: postrider.LaneRetry}}})
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
	take(c, now, admit{ask, make(chan struct{})})
	admitted := deliveries[:0:0]
	for _, d := range deliveries {
		if d.Token != 0 {
			admitted = append(admitted, d)
		}
	}
	if len(admitted) != 6 {
		t.Fatalf("%d deliveries admitted, want twice the limit of 3", len(admitted))
	}
	take(c, now, stored{dropped: admitted})
	if len(c.endpoints) != 0 || c.inHand != 0 || len(c.admitted) != 0 {
		t.Errorf("after the commit failed, %d endpoints, %d credit and %d admissions are left", len(c.endpoints), c.inHand, len(c.admitted))
	}
}

func TestLanesShareStarts(t *testing.T) {
	t.Parallel()
	ep := &endpoint{}
	for range 100 {
		for l := range ep.held {
			ep.held[l] = append(ep.held[l], item{Claimed: postrider.Claimed{Lane: postrider.Lanes[l]}})
		}
	}
	started := map[postrider.Lane]int{}
	for range 100 {
		started[ep.take().Lane]++
	}
	if started[postrider.LaneFirst] != 60 || started[postrider.LaneRetry] != 20 || started[postrider.LaneBulk] != 20 {
		t.Errorf("of 100 starts with all lanes full, %v; want 60 first, 20 retry, 20 bulk", started)
	}
}

func TestEndpointsTakeTurns(t *testing.T) {
	t.Parallel()
	c, now := fixture(func(p *postrider.Policy) { p.Concurrency = 100 })
	c.opts.Concurrency = 10
	var in stored
	for i := range 100 {
		id := postrider.EndpointID{1}
		if i >= 95 {
			id = postrider.EndpointID{byte(i)}
		}
		in.started = append(in.started, postrider.Claimed{
			ID: postrider.DeliveryID{byte(i)}, Endpoint: id, Event: &postrider.Event{Data: []byte("1")}, Lane: postrider.LaneFirst,
			Token: 7, ExpiresAt: now.Add(time.Hour),
		})
	}
	c.admitted[7] = now
	do := take(c, now, in)
	sent := map[postrider.EndpointID]int{}
	for _, it := range do.send {
		sent[it.Endpoint]++
	}
	if len(do.send) != 10 || len(sent) != 6 || sent[postrider.EndpointID{1}] != 5 {
		t.Errorf("10 slots went to %v; want one for each of five small endpoints, and five for the large one", sent)
	}
}

func BenchmarkStep(b *testing.B) {
	c, now := fixture(func(p *postrider.Policy) { p.Concurrency = 64 })
	event := &postrider.Event{Data: []byte("1")}
	cl := postrider.Claimed{Endpoint: postrider.EndpointID{1}, Event: event, Lane: postrider.LaneFirst, ExpiresAt: now.Add(time.Hour)}
	b.ReportAllocs()
	for b.Loop() {
		d := store.NewDelivery{Endpoint: cl.Endpoint, Lane: cl.Lane}
		c.step(now, admit{[]*store.NewDelivery{&d}, make(chan struct{})})
		cl.Token = d.Token
		c.step(now, stored{started: []postrider.Claimed{cl}})
		do := c.act(now)
		it := do.send[0]
		c.taken()
		c.step(now, attempted{it, postrider.Attempt{Outcome: postrider.OutcomeAccepted}})
		do = c.act(now)
		settlements := do.settle
		c.taken()
		c.step(now, settled{settlements, []store.Settled{{}}})
		c.act(now)
	}
}

func TestPublishersWaitWhileTheNodeIsBehind(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		latency time.Duration
		backlog int
		want    bool
	}{
		{"a backlog of a fast endpoint is the node's own fault", time.Millisecond, 10_000, true},
		{"a backlog of a slow endpoint is not", time.Second, 10_000, false},
		{"less than a second's work is no backlog", time.Millisecond, 90, false},
	} {
		c, now := fixture(nil)
		take(c, now) // the first look
		ep := c.endpoint(postrider.EndpointID{1})
		ep.latency, ep.backlog = tt.latency, tt.backlog
		c.settles = 25
		now = now.Add(time.Second / 4)
		if do := take(c, now); do.hold > 0 != tt.want || do.hold > 100*time.Millisecond {
			t.Errorf("%s: publishers wait %v", tt.name, do.hold)
		}
		ep.backlog = 0
		if do := take(c, now.Add(time.Second)); do.hold != 0 {
			t.Errorf("%s: publishers wait %v after it is over", tt.name, do.hold)
		}
	}
}
