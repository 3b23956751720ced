package main

import (
	"strings"
	"time"

	"github.com/postrider/postrider/bench/internal/lab"
)

// The stores.
const (
	sqlite   = "sqlite"
	postgres = "postgres"
)

// scenario is a kind of load and its figures and goals.
type scenario struct {
	name     string
	also     string // another name by which -only finds it
	onSQLite string // its name on SQLite, if it differs
	only     string // the store that it runs on; empty: any
	setups   []setup
	figures  func(shown) []figure
	goals    goals // on PostgreSQL
	goalsOn  goals // on SQLite
	cross    cross // a further table of the figures; empty: none
}

// goals are the goals by the names of their figures.
type goals map[string]goal

// names returns the full and the short names of the scenario on a store.
func (s scenario) names(store string) []string {
	names := []string{s.name}
	if s.also != "" {
		names = append(names, s.also)
	}
	if store == sqlite && s.onSQLite != "" {
		names = append(names, s.onSQLite)
	}
	for _, name := range names {
		short, _, _ := strings.Cut(name, " ")
		names = append(names, short)
	}
	return names
}

// extent says how long and how large the scenarios are.
type extent struct {
	full    time.Duration // length of a phase at the highest rate
	quick   bool
	history extentOfHistory
}

func (o options) extent() extent {
	if o.quick {
		return extent{2 * time.Second, true, extentOfHistory{days: 6, rows: 200, full: 3_000}}
	}
	return extent{time.Duration(o.seconds) * time.Second, false, o.history}
}

// lasting returns the length of a phase: d, or less with -quick.
func (e extent) lasting(d time.Duration) time.Duration {
	if e.quick {
		return max(2*time.Second, d/15)
	}
	return d
}

// many returns n, or fewer with -quick, but at least manyEndpoints.
func (e extent) many(n int) int {
	if e.quick {
		return max(manyEndpoints, n/25)
	}
	return n
}

// The names of figures that have goals.
const (
	perSecond  = "deliveries/s"
	ofStd      = "deliveries/s ÷ raw (net/http)"
	oldestLeft = "oldest undelivered at the end of the load"
	publishP50 = "publish p50"
	costCPU    = "CPU/delivery, server and postgres"
	costDisk   = "disk/delivery"
	costWAL    = "WAL/delivery"
	costRSS    = "server RSS, peak"
	latencyP50 = "created→received p50"
	latencyP95 = "created→received p95"
	latencyP99 = "created→received p99"
)

func scenarios(e extent) []scenario {
	return []scenario{
		{
			name: "B1 one endpoint", onSQLite: "B9 one endpoint",
			setups: atFull(e, group{class: good, endpoints: 1, concurrency: 64}, load{connections: 64}), figures: throughput,
			goals:   goals{perSecond: atLeast(12_000).orElse(ofStd), ofStd: atLeast(0.21).orElse(perSecond), oldestLeft: atMost(2000)},
			goalsOn: goals{perSecond: atLeast(6_000)},
		},
		{
			name: "B1 with five indexed paths",
			setups: []setup{{
				groups: []group{{class: good, endpoints: 1, concurrency: 64}},
				phases: []phase{{name: "load", lasts: e.full, loads: []load{{class: good, connections: 64}}, before: indexPaths}},
			}},
			figures: throughput,
		},
		{
			name: "B2 100 endpoints, one each", also: "B10",
			setups: atFull(e, group{class: good, endpoints: 100}, load{connections: 64}), figures: throughput,
			goals: goals{
				perSecond: atLeast(12_000).orElse(ofStd), ofStd: atLeast(0.21).orElse(perSecond), oldestLeft: atMost(2000),
				costCPU: atMost(130), costDisk: atMost(2200), costWAL: atMost(4000), costRSS: atMost(150),
			},
		},
		{
			name: "B3 one event to 100 endpoints",
			setups: []setup{{
				groups: []group{{class: good, endpoints: 100, fanOut: true}},
				phases: []phase{{name: "load", lasts: e.full, loads: []load{{class: good, connections: 1}}}},
			}},
			figures: throughput, goals: goals{perSecond: atLeast(16_000), publishP50: atMost(5)},
		},
		{
			name:   "B3 over 64 connections",
			setups: atFull(e, group{class: good, endpoints: 100, fanOut: true}, load{connections: 64}), figures: throughput,
		},
		{
			name:   "B1 over 256 connections",
			setups: atFull(e, group{class: good, endpoints: 1, concurrency: 64}, load{connections: 256}), figures: throughput,
		},
		{
			name:   "B2 over 256 connections",
			setups: atFull(e, group{class: good, endpoints: 100}, load{connections: 256}), figures: throughput,
		},
		{
			name:   "B2 in batches of 100",
			setups: atFull(e, group{class: good, endpoints: 100}, load{connections: 8, batch: 100}), figures: throughput,
		},
		{
			name: "B4 50 events/s", onSQLite: "B9 50 events/s",
			setups: []setup{{
				groups: []group{{class: good, endpoints: 1}},
				phases: []phase{{name: "load", lasts: e.full, loads: []load{ofB4}}},
			}},
			figures: throughput,
			goals:   goals{latencyP50: atMost(3), latencyP95: atMost(5), latencyP99: atMost(10)},
			goalsOn: goals{latencyP50: atMost(3)},
		},
		oneHangs(e), blackHoles(e), fanOutToMany(e), longBacklog(e), threeNodes(e), growth(e), openDashboards(e),
		replayOf(e, e.many(100_000)), besideBadInputs(e), retentionAtFullLoad(e), greedyReaders(e),
		afterBurst(e), noisyNeighbours(e), anOutbox(e, e.many(5_000_000)),
	}
}

// ofB4 is the load of B4.
var ofB4 = load{class: good, connections: 8, rate: 50}

// atFull is one group that gets events as fast as the server accepts them. It sets the class of the load.
func atFull(e extent, g group, ld load) []setup {
	ld.class = g.class
	return []setup{{groups: []group{g}, phases: []phase{{name: "load", lasts: e.full, loads: []load{ld}}}}}
}

// afterBurst measures B4 alone, and then right after the last of many deliveries has arrived.
func afterBurst(e extent) scenario {
	lasts := e.lasting(20 * time.Second)
	return scenario{
		name: "B4 after a burst",
		setups: []setup{{
			groups: []group{{class: good, endpoints: 1}, {class: "burst", endpoints: 100}},
			phases: []phase{
				{name: "without", lasts: lasts, loads: []load{ofB4}},
				{name: "after the burst", lasts: lasts, loads: []load{ofB4}, before: burst("burst", e.many(100_000))},
			},
		}},
		figures: isolation(good, pair{"without", "after the burst"}),
	}
}

func oneHangs(e extent) scenario {
	hangs := map[string]lab.Answer{"sick": {After: 10 * time.Second}}
	healthy := load{class: "healthy", connections: 8, rate: 90}
	sick := load{class: "sick", connections: 2, rate: 10}
	return scenario{
		name: "B5 one of ten hangs", only: postgres,
		setups: []setup{
			{
				groups: []group{{class: "healthy", endpoints: 9}, {class: "sick", endpoints: 1}},
				phases: []phase{
					{name: "without", lasts: e.lasting(30 * time.Second), loads: []load{healthy, sick}},
					{
						name: "hang", lasts: e.lasting(30 * time.Second), loads: []load{healthy, sick},
						answers: hangs, ignored: []string{"sick"},
					},
				},
			},
			{
				groups: []group{{class: "healthy", endpoints: 9}, {class: "sick", endpoints: 1, paused: true}},
				phases: []phase{
					{name: "without retries", lasts: e.lasting(30 * time.Second), loads: []load{healthy}, before: tidied},
					{
						name: "retries due", lasts: e.lasting(30 * time.Second), loads: []load{healthy, sick},
						answers: hangs, ignored: []string{"sick"}, before: backlog("sick", e.many(10_000), true),
					},
				},
			},
		},
		figures: isolation("healthy", pair{"without", "hang"}, pair{"without retries", "retries due"}),
		goals: goals{
			"hang: p99": atMost(15), "hang: p99 ÷ without": atMost(1.25),
			"retries due: p99": atMost(15), "retries due: p99 ÷ without retries": atMost(1.25),
		},
	}
}

func blackHoles(e extent) scenario {
	lasts := e.lasting(75 * time.Second)
	loads := []load{{class: "healthy", connections: 16, rate: 450}, {class: "dead", connections: 4, rate: 50}}
	return scenario{
		name: "B6 1,000 black holes among 10,000 endpoints", only: postgres,
		setups: []setup{{
			// Each black hole is a host of its own, so that the limit of a host has no influence.
			groups: []group{
				{class: "healthy", endpoints: e.many(9_000), hosts: 100},
				{class: "dead", endpoints: e.many(1_000), hosts: e.many(1_000)},
			},
			phases: []phase{
				{name: "without", lasts: e.lasting(30 * time.Second), loads: loads},
				{
					name: "black holes", lasts: lasts, loads: loads, ignored: []string{"dead"},
					answers: map[string]lab.Answer{"dead": {Never: true}}, during: sampleSlots("dead", lasts*4/5, lasts),
				},
			},
		}},
		figures: func(s shown) []figure {
			return append(isolation("healthy", pair{"without", "black holes"})(s), s.slots("black holes")...)
		},
		goals: goals{"black holes: p99 ÷ without": atMost(1.25), "slots on the dead, greatest": atMost(10)},
	}
}

func fanOutToMany(e extent) scenario {
	lasts := e.lasting(30 * time.Second)
	others := load{class: "others", connections: 8, rate: 100}
	return scenario{
		name: "B7 one event to 100,000 endpoints", only: postgres,
		setups: []setup{{
			groups: []group{
				{class: "others", endpoints: 10},
				{class: "many", endpoints: e.many(100_000), hosts: 250, fanOut: true},
			},
			phases: []phase{
				{name: "without", lasts: lasts, loads: []load{others}},
				{name: "fan-out", lasts: lasts, loads: []load{others, {class: "many", connections: 1, count: 1, after: lasts / 10}}},
			},
		}},
		figures: func(s shown) []figure {
			return append(isolation("others", pair{"without", "fan-out"})(s), s.fannedOut("fan-out", "many")...)
		},
		goals: goals{"fan-out: p99 ÷ without": atMost(1.25), "publish of the event": atMost(10), "server RSS, growth": atMost(100)},
	}
}

func longBacklog(e extent) scenario {
	lasts := e.lasting(30 * time.Second)
	others := []load{{class: "others", connections: 8, rate: 100}}
	const slow = 20 * time.Millisecond
	return scenario{
		name: "B8 a backlog of 1,000,000", only: postgres,
		setups: []setup{{
			logged: true,
			groups: []group{{class: "others", endpoints: 10}, {class: "backlog", endpoints: 1, concurrency: 10, paused: true}},
			phases: []phase{
				{name: "without", lasts: lasts, loads: others, before: tidied},
				{
					name: "answers in 20 ms", lasts: lasts, loads: others, ignored: []string{"backlog"},
					answers: map[string]lab.Answer{"backlog": {After: slow}}, before: backlog("backlog", e.many(1_000_000), false),
				},
				{
					name: "answers at once", lasts: lasts, loads: others, ignored: []string{"backlog"},
					answers: map[string]lab.Answer{"backlog": {}},
				},
			},
		}},
		figures: func(s shown) []figure {
			shares := isolation("others", pair{"without", "answers in 20 ms"}, pair{"without", "answers at once"})(s)
			drained := append(s.drained("answers in 20 ms", "backlog"), s.drained("answers at once", "backlog")...)
			return append(append(shares, drained...), figure{
				name: "answers in 20 ms: drained ÷ limit", format: "%.2f",
				value: s.drainRate("answers in 20 ms", "backlog") / (10 / slow.Seconds()),
			})
		},
		goals: goals{
			"answers in 20 ms: p99 ÷ without": atMost(1.25), "answers in 20 ms: claims p99": atMost(25),
			"answers at once: p99 ÷ without": atMost(1.25), "answers at once: claims p99": atMost(25),
			"answers in 20 ms: drained ÷ limit": atLeast(0.9),
		},
	}
}

func threeNodes(e extent) scenario {
	g := group{class: good, endpoints: 100}
	one, three := atFull(e, g, load{connections: 64})[0], atFull(e, g, load{connections: 64})[0]
	one.phases[0].name, three.phases[0].name, three.nodes = "one node", "three nodes", 3
	lasts := e.lasting(30 * time.Second)
	return scenario{
		name: "B11 three nodes", only: postgres,
		setups: []setup{one, three, {
			// Answers take a while, so that the dead node leaves attempts behind.
			nodes: 3, distinct: true, groups: []group{{class: good, endpoints: 30, concurrency: 4}},
			phases: []phase{{
				name: "one killed", lasts: lasts, during: killAfter(lasts / 3),
				answers: map[string]lab.Answer{good: {After: 50 * time.Millisecond}},
				loads:   []load{{class: good, connections: 32, rate: 1000, keyed: true}},
			}},
		}},
		figures: func(s shown) []figure {
			return append(s.compared("one node", "three nodes"), s.afterKill("one killed")...)
		},
		goals: goals{
			"three nodes ÷ one node": atLeast(0.85), "one killed: longest created→received": atMost(10),
			"one killed: longest created→received again": atMost(10),
		},
	}
}

// openDashboards measures B4 beside dashboards, and B5 beside live tails.
func openDashboards(e extent) scenario {
	lasts := e.lasting(30 * time.Second)
	loads := []load{ofB4}
	beside := []load{{class: "healthy", connections: 8, rate: 90}, {class: "sick", connections: 2, rate: 10}}
	return scenario{
		name: "B13 50 open dashboards",
		setups: []setup{
			{
				groups: []group{{class: good, endpoints: 1}},
				phases: []phase{
					{name: "without", lasts: lasts, loads: loads},
					{name: "dashboards", lasts: lasts, loads: loads, before: logIn(50), during: watch(50, "/live")},
				},
			},
			{
				groups: []group{{class: "healthy", endpoints: 9}, {class: "sick", endpoints: 1}},
				phases: []phase{
					{
						name: "one of ten hangs", lasts: lasts, loads: beside, ignored: []string{"sick"},
						answers: map[string]lab.Answer{"sick": {After: 10 * time.Second}},
					},
					{
						name: "tails", lasts: lasts, loads: beside, ignored: []string{"sick"},
						before: logIn(e.many(1000)), during: watch(e.many(1000), "/live/tail"),
					},
				},
			},
		},
		figures: func(s shown) []figure {
			return append(isolation(good, pair{"without", "dashboards"})(s), isolation("healthy", pair{"one of ten hangs", "tails"})(s)...)
		},
		goals: goals{"dashboards: p99 ÷ without": atMost(1.05), "tails: p99 ÷ one of ten hangs": atMost(1.25)},
	}
}

func growth(e extent) scenario {
	s := scenario{name: "B12 growth", only: postgres}
	endpoints, rows := []string{}, []string{}
	add := func(name string, g group, before action) {
		g.class, g.concurrency = good, 64
		st := atFull(e, g, load{connections: 64})[0]
		st.phases[0].name, st.phases[0].before = name, before
		s.setups = append(s.setups, st)
	}
	for _, n := range []int{1, 10, 100, e.many(1_000), e.many(10_000)} {
		name := numbered(n, "endpoints")
		endpoints = append(endpoints, name)
		add(name, group{endpoints: n}, nil)
	}
	many := e.many(1_000) // endpoints of one account, and accounts with one endpoint each
	accounts := []string{numbered(many, "endpoints"), numbered(many, "accounts")}
	add(accounts[1], group{endpoints: many, accounts: many}, nil)
	rows = append(rows, numbered(100, "endpoints"))
	for _, n := range []int{e.many(1_000_000), e.many(10_000_000)} {
		name := numbered(n, "rows of history")
		rows = append(rows, name)
		add(name, group{endpoints: 100}, history(n))
	}
	s.figures = func(s shown) []figure {
		figures := append(s.flat("by endpoints: least ÷ greatest", endpoints), s.flat("by history: least ÷ greatest", rows)...)
		return append(figures, s.flat("by accounts: least ÷ greatest", accounts)...)
	}
	s.goals = goals{"by endpoints: least ÷ greatest": atLeast(0.85), "by history: least ÷ greatest": atLeast(0.85)}
	return s
}
