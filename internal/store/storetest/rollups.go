package storetest

import (
	"fmt"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// The contract tests of the role [store.Rollups].
var rollups = []verb{
	{"FoldRollups", []sentence{
		{"every attempt and every delivery that ended is counted once", foldCounts},
		{"a settlement that is repeated is not counted again", foldRepeated},
		{"a lost attempt stays counted as lost when its settlement comes late", foldLate},
		{"a stale attempt that was never recorded is counted by its outcome", foldStale},
		{"what ends without a worker is counted", foldDecisions},
		{"it adds up to f.Deltas deltas and returns how many", foldLimit},
		{"what several nodes fold at once beside settlements is added once", foldInParallel},
		{"of an endpoint at most MaxTypes event types are kept apart", foldTypes},
	}},
	{"RollUp", []sentence{
		{"it does not change what Rollups returns", rollUpChangesNothing},
		{"what is folded late is in every step", rollUpLate},
	}},
	{"ForgetRollups", []sentence{{"it deletes what is older than the Kept of its step, at most limit", forgetRollups}}},
	{"Rollups", []sentence{
		{"those of the scope, type and range are returned, oldest first", rollupsSelects},
		{"where nothing happened there are none", rollupsNone},
	}},
	{"Backlog", []sentence{
		{"it counts what is pending and what is dead", backlogCounts},
		{"an endpoint's waiting deliveries say since when the first is due", backlogDue},
		{"of everything it is the same as of the only account", backlogOfAll},
		{"both counts stop at the query's Most", backlogStops},
		{"more than MaxLooked endpoints make it Partial", backlogPartial},
	}},
	{"EndpointStates", []sentence{
		{"there is one state for each id, in their order", statesOf},
		{"it counts what is pending, and what ended within a day", statesCount},
		{"Pending stops at MaxPending", statesStop},
		{"DueFor is the age of the oldest delivery that is due", statesDue},
	}},
	{"LastFailures", lastFailuresSentences},
}

// fold folds all deltas.
func (w *world) fold() {
	w.Helper()
	for n := 100; n == 100; {
		var err error
		n, err = w.FoldRollups(w.Context(), store.Fold{Deltas: 100})
		w.ok(err)
	}
}

// see folds durations of a node.
func (w *world) see(seen ...store.Seen) {
	w.Helper()
	_, err := w.FoldRollups(w.Context(), store.Fold{Seen: seen})
	w.ok(err)
}

func (w *world) rollupsOf(q store.RollupQuery) []store.Rollup {
	w.Helper()
	found, err := w.Rollups(w.Context(), q)
	w.ok(err)
	return found
}

// counts folds the deltas, and returns the sum of the endpoint's counts. It fails the test unless
// the account and the whole store have the same counts, for all types and, if there is a rollup
// for it, for the type.
func (w *world) counts(e postrider.Endpoint) (sum postrider.Counts) {
	w.Helper()
	w.fold()
	for i, q := range []store.RollupQuery{{Endpoint: e.ID}, {Account: e.Account}, {}, {Endpoint: e.ID, Type: "order.created"}} {
		q.From, q.To = w.now().Add(-time.Hour), w.now().Add(time.Hour)
		var of postrider.Counts
		for _, r := range w.rollupsOf(q) {
			of.Add(r.Counts)
		}
		if i > 0 {
			w.same(fmt.Sprintf("the counts of %+v", q), of, sum)
		}
		sum = of
	}
	return sum
}

// record is an attempt or the end of a delivery, to be counted.
type record struct {
	outcome postrider.Outcome
	number  int
	after   postrider.Status
}

// counted fails the test unless exactly these records are counted.
func (w *world) counted(e postrider.Endpoint, records ...record) {
	w.Helper()
	var want postrider.Counts
	for _, r := range records {
		want.Record(r.outcome, r.number, r.after)
	}
	w.same("the counts", w.counts(e), want)
}

const (
	accepted = postrider.OutcomeAccepted
	lost     = postrider.OutcomeLost
	none     = postrider.OutcomeNone
	pending  = postrider.Pending
)

func foldCounts(w *world) {
	e := w.endpoint()
	w.pending(e, 3)
	items := w.claim(e, postrider.LaneFirst, 3)
	w.settle(delivered(items[0]), retry(items[1], 0), dead(items[2]))
	w.settle(delivered(w.claimOne(e, postrider.LaneRetry)))
	w.counted(e,
		record{accepted, 1, postrider.Delivered}, record{postrider.OutcomeThrottled, 1, pending},
		record{postrider.OutcomeRejected, 1, postrider.Dead}, record{accepted, 2, postrider.Delivered})
}

func foldRepeated(w *world) {
	e := w.endpoint()
	w.pending(e, 3)
	items := w.claim(e, postrider.LaneFirst, 3)
	first := []store.Settlement{delivered(items[0]), dead(items[1])}
	w.settle(first...)
	w.settle(first...)
	w.fold()
	w.settle(append(first, delivered(items[2]))...)
	w.counted(e, record{accepted, 1, postrider.Delivered}, record{accepted, 1, postrider.Delivered},
		record{postrider.OutcomeRejected, 1, postrider.Dead})
}

func foldLate(w *world) {
	old, taken := w.lost()
	e := w.found(old.Endpoint)
	w.settle(delivered(old))
	w.settle(delivered(old), delivered(taken))
	w.counted(e, record{lost, 1, pending}, record{accepted, 2, postrider.Delivered})
}

func foldStale(w *world) {
	e, c := w.claimed()
	w.cancel(c.ID)
	other := w.pending(e, 1)
	w.settle(delivered(c), delivered(w.claimExactly(e, other...)[0]))
	w.settle(delivered(c))
	w.counted(e, record{none, 2, postrider.Cancelled}, record{accepted, 1, pending}, record{accepted, 1, postrider.Delivered})
}

func foldDecisions(w *world) {
	e := w.endpoint()
	skipped := w.to(e)
	skipped.Skipped = postrider.ReasonEndpointDisabled
	w.publish(store.Batch{w.event(e.Account, skipped)})
	w.cancel(w.pending(e, 1)[0])
	w.expiring(e, 2, brief)
	w.take(store.Want{Endpoint: e.ID, Lane: postrider.LaneFirst, N: 1, Lease: brief})
	expired := 0
	w.eventually("they expire", func() bool {
		expired += w.expire(10)
		return expired == 2
	})
	deleted := w.pending(e, 2)
	w.become(e, postrider.EndpointDeleted)
	w.cancelDeleted(10)
	w.same("a deleted endpoint's delivery", w.delivery(deleted[0]).Status, postrider.Cancelled)
	w.counted(e, record{none, 0, postrider.Skipped}, record{none, 1, postrider.Cancelled}, record{lost, 1, pending},
		record{none, 1, postrider.Dead}, record{none, 1, postrider.Dead},
		record{none, 1, postrider.Cancelled}, record{none, 1, postrider.Cancelled})
}

func foldLimit(w *world) {
	var endpoints []postrider.Endpoint
	for range 3 {
		endpoints = append(endpoints, w.endpoint())
		w.settleAll(endpoints[len(endpoints)-1], 1)
	}
	for i, want := range []int{2, 1, 0} {
		n, err := w.FoldRollups(w.Context(), store.Fold{Deltas: 2})
		w.ok(err)
		w.same(fmt.Sprintf("deltas of fold %d", i), n, want)
	}
	var all postrider.Counts
	for _, r := range w.rollupsOf(store.RollupQuery{From: w.now().Add(-time.Hour), To: w.now().Add(time.Hour)}) {
		all.Add(r.Counts)
	}
	w.same("delivered", all.Status(postrider.Delivered), int64(3))
}

func foldInParallel(w *world) {
	const workers, rounds = 4, 15
	e := w.endpoint()
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for range rounds {
				w.settleSome(e)
				if _, err := w.FoldRollups(w.Context(), store.Fold{Deltas: 3}); err != nil {
					w.Errorf("fold: %v", err)
				}
			}
		})
	}
	all.Wait()
	got := w.counts(e)
	w.same("attempts", got.AllAttempts(), int64(workers*rounds))
	w.same("delivered", got.Status(postrider.Delivered), int64(workers*rounds))
}

// settleSome publishes a delivery that is leased by admission, and settles it. Goroutines may
// call it.
func (w *world) settleSome(e postrider.Endpoint) {
	d := w.to(e)
	d.Token, d.Lease = w.token(), long
	event := w.event(e.Account, d)
	_, err := w.Publish(w.Context(), store.Publish{Version: 1, Batches: []store.Batch{{event}}})
	if err == nil {
		_, err = w.Settle(w.Context(), []store.Settlement{delivered(postrider.Claimed{
			ID: d.ID, Endpoint: e.ID, Event: &event.Event, Lane: d.Lane, Attempt: 1, Token: d.Token,
		})})
	}
	if err != nil {
		w.Errorf("settle a delivery: %v", err)
	}
}

// seen returns the durations and the count of one successful delivery of the type.
func seen(e postrider.Endpoint, eventType string, at time.Time) store.Seen {
	s := store.Seen{DeltaKey: store.DeltaKey{Account: e.Account, Endpoint: e.ID, Type: eventType}, At: at}
	s.Record(accepted, 1, postrider.Delivered)
	s.Responses.Add(30 * time.Millisecond)
	s.Latencies.Add(2 * time.Second)
	return s
}

func foldTypes(w *world) {
	e, now := w.endpoint(), w.now()
	var all []store.Seen
	for i := range store.MaxTypes + 20 {
		all = append(all, seen(e, fmt.Sprintf("type.%04d", i), now))
	}
	for range 2 { // the second time their types are known
		w.see(all...)
	}
	span := store.RollupQuery{From: now.Add(-time.Hour), To: now.Add(time.Hour)}
	for _, tt := range []struct {
		eventType string
		want      int64
	}{{"type.0000", 2}, {"type.0099", 2}, {"type.0100", 0}, {store.OtherTypes, 40}, {"", 240}} {
		q := span
		q.Endpoint, q.Type = e.ID, tt.eventType
		var got postrider.Counts
		for _, r := range w.rollupsOf(q) {
			got.Add(r.Counts)
		}
		w.same("deliveries of "+tt.eventType, got.Status(postrider.Delivered), tt.want)
	}
	span.Type = "type.0100"
	w.same("rollups of all endpoints keep more", len(w.rollupsOf(span)), 1)
}

// sameRollup compares sketches by their counts and quantiles.
var sameRollup = cmp.Comparer(func(a, b postrider.Sketch) bool {
	return a.Count() == b.Count() && a.Quantile(0.5) == b.Quantile(0.5) && a.Quantile(0.99) == b.Quantile(0.99)
})

// simulatedDay folds a delivery every seven minutes of yesterday, and returns how many rollups
// each step must have.
func (w *world) simulatedDay(e postrider.Endpoint) (start time.Time, want map[store.Step]int) {
	w.Helper()
	start = w.now().Truncate(24 * time.Hour).Add(-24 * time.Hour)
	var all []store.Seen
	minutes, hours := map[time.Time]bool{}, map[time.Time]bool{}
	for at := start; at.Before(start.Add(24 * time.Hour)); at = at.Add(7 * time.Minute) {
		all = append(all, seen(e, "order.created", at.Add(30*time.Second)))
		minutes[at], hours[at.Truncate(time.Hour)] = true, true
	}
	w.see(all...)
	return start, map[store.Step]int{store.Minutes: len(minutes), store.Hours: len(hours), store.Days: 1}
}

// steps returns the rollups of an endpoint for one day, by step.
func (w *world) steps(e postrider.Endpoint, day time.Time) map[store.Step][]store.Rollup {
	w.Helper()
	all := map[store.Step][]store.Rollup{}
	for _, step := range []store.Step{store.Minutes, store.Hours, store.Days} {
		all[step] = w.rollupsOf(store.RollupQuery{Endpoint: e.ID, Type: "order.created", Step: step, From: day, To: day.Add(24 * time.Hour)})
	}
	return all
}

// rollUpAll rolls up, at most limit rows at a time, until nothing is left. It calls each after
// every call.
func (w *world) rollUpAll(limit int, each func()) {
	w.Helper()
	for {
		n, err := w.RollUp(w.Context(), limit)
		w.ok(err)
		each()
		if n == 0 {
			return
		}
	}
}

func rollUpChangesNothing(w *world) {
	e := w.endpoint()
	day, want := w.simulatedDay(e)
	before := w.steps(e, day)
	for step, n := range want {
		w.same(fmt.Sprintf("rollups of step %d", step), len(before[step]), n)
		var all store.RollupValue
		for _, r := range before[step] {
			w.ok(all.Merge(&r.RollupValue))
		}
		w.same("deliveries of the day", all.Status(postrider.Delivered), int64(want[store.Minutes]))
		w.same("durations of the day", all.Latencies.Count(), uint64(want[store.Minutes]))
	}
	w.rollUpAll(97, func() { w.same("after a part", w.steps(e, day), before, sameRollup) })
}

func rollUpLate(w *world) {
	e := w.endpoint()
	day, want := w.simulatedDay(e)
	w.rollUpAll(1000, func() {})
	w.see(seen(e, "order.created", day.Add(7*time.Minute)), seen(e, "order.created", day.Add(8*time.Minute)))
	w.rollUpAll(1000, func() {})
	for step, rollups := range w.steps(e, day) {
		var all postrider.Counts
		for _, r := range rollups {
			all.Add(r.Counts)
		}
		w.same(fmt.Sprintf("deliveries of step %d", step), all.Status(postrider.Delivered), int64(want[store.Minutes]+2))
	}
}

func forgetRollups(w *world) {
	e, now := w.endpoint(), w.now().Truncate(time.Minute)
	const day = 24 * time.Hour
	for _, days := range []int{0, 1, 3, 89, 91, 729, 731} {
		w.see(seen(e, "order.created", now.AddDate(0, 0, -days)))
	}
	w.rollUpAll(1000, func() {})
	for {
		n, err := w.ForgetRollups(w.Context(), 5)
		w.ok(err)
		if n > 5 {
			w.Fatalf("%d were forgotten, want 5 at most", n)
		}
		if n == 0 {
			break
		}
	}
	for step, want := range map[store.Step]int{store.Minutes: 2, store.Hours: 4, store.Days: 6} {
		for _, q := range []store.RollupQuery{{Endpoint: e.ID}, {}} {
			q.Step, q.From, q.To = step, now.Add(-1000*day), now.Add(day)
			if got := len(w.rollupsOf(q)); got != want {
				w.Errorf("%d rollups of step %d are left, want %d", got, step, want)
			}
		}
	}
}

func rollupsSelects(w *world) {
	e, other := w.endpoint(), w.endpoint()
	start := w.now().Truncate(24 * time.Hour)
	w.see(seen(e, "a", start), seen(e, "b", start.Add(time.Minute)), seen(e, "a", start.Add(2*time.Minute)), seen(other, "a", start))
	for _, tt := range []struct {
		what  string
		query store.RollupQuery
		want  []int // the minute of each delivery
	}{
		{"an endpoint", store.RollupQuery{Endpoint: e.ID}, []int{0, 1, 2}},
		{"its account", store.RollupQuery{Account: e.Account}, []int{0, 1, 2}},
		{"everything", store.RollupQuery{}, []int{0, 0, 1, 2}},
		{"a type", store.RollupQuery{Type: "a"}, []int{0, 0, 2}},
		{"a type of an endpoint", store.RollupQuery{Endpoint: other.ID, Type: "a"}, []int{0}},
		{"from", store.RollupQuery{Endpoint: e.ID, From: start.Add(time.Minute)}, []int{1, 2}},
		{"to", store.RollupQuery{Endpoint: e.ID, To: start.Add(2 * time.Minute)}, []int{0, 1}},
	} {
		if tt.query.From.IsZero() {
			tt.query.From = start
		}
		if tt.query.To.IsZero() {
			tt.query.To = start.Add(time.Hour)
		}
		var got []int
		for _, r := range w.rollupsOf(tt.query) {
			for range r.Status(postrider.Delivered) {
				got = append(got, int(r.At.Sub(start)/time.Minute))
			}
		}
		w.same(tt.what, got, tt.want)
	}
}

func rollupsNone(w *world) {
	w.same("rollups", w.rollupsOf(store.RollupQuery{Endpoint: w.endpoint().ID, From: w.now().Add(-time.Hour), To: w.now()}), []store.Rollup{})
}

func (w *world) backlog(account postrider.AccountID, e postrider.EndpointID) store.Backlog {
	w.Helper()
	b, err := w.Backlog(w.Context(), store.BacklogQuery{Account: account, Endpoint: e})
	w.ok(err)
	return b
}

func backlogCounts(w *world) {
	e := w.endpoint()
	second := w.put(w.draft(e.Account))
	w.deadLetters(e, 3)
	w.deadLetters(second, 1)
	w.deadLetters(w.endpoint(), 1)
	discarded := w.deadLetters(e, 1)[0]
	_, err := w.Discard(w.Context(), store.Discard{Delivery: discarded})
	w.ok(err)
	later := w.to(second)
	later.Wait = long
	w.publish(store.Batch{w.event(e.Account, later)})
	w.pending(e, 2)
	w.claim(e, postrider.LaneFirst, 1)
	for _, tt := range []struct {
		what          string
		got           store.Backlog
		pending, dead int
		isDue         bool
	}{
		{"the endpoint", w.backlog(e.Account, e.ID), 2, 3, true},
		{"the second endpoint", w.backlog(e.Account, second.ID), 1, 1, false},
		{"the account", w.backlog(e.Account, postrider.EndpointID{}), 3, 4, true},
		{"everything", w.backlog(postrider.AccountID{}, postrider.EndpointID{}), 3, 5, true},
	} {
		tt.got.DueFor = 0
		w.same(tt.what, tt.got, store.Backlog{Pending: tt.pending, DeadLetters: tt.dead, IsDue: tt.isDue})
	}
}

func backlogDue(w *world) {
	e := w.endpoint()
	w.pending(e, 1)
	w.passed(brief)
	w.pending(e, 1)
	first := w.backlog(e.Account, e.ID)
	if !first.IsDue || first.DueFor < brief || first.DueFor > 30*time.Second {
		w.Errorf("backlog = %+v, want one that is due for a little more than %v", first, brief)
	}
	w.claim(e, postrider.LaneFirst, 2)
	w.same("while they are leased", w.backlog(e.Account, e.ID), store.Backlog{Pending: 2})
}

func backlogOfAll(w *world) {
	e := w.endpoint()
	w.pending(e, 2)
	w.deadLetters(e, 1)
	all, account := w.backlog(postrider.AccountID{}, postrider.EndpointID{}), w.backlog(e.Account, postrider.EndpointID{})
	w.near("due for", all.DueFor, account.DueFor)
	all.DueFor = account.DueFor
	w.same("the backlog of all", all, account)
}

// batches publishes n deliveries, 500 at a time, to the endpoints in turn.
func (w *world) batches(n int, endpoints ...postrider.Endpoint) {
	w.Helper()
	for n > 0 {
		var batch store.Batch
		for range min(n, 500) {
			e := endpoints[n%len(endpoints)]
			batch = append(batch, w.event(e.Account, w.to(e)))
			n--
		}
		w.publish(batch)
	}
}

func backlogStops(w *world) {
	e := w.endpoint()
	w.deadLetters(e, 5)
	w.pending(e, 5)
	for what, q := range map[string]store.BacklogQuery{
		"the endpoint": {Account: e.Account, Endpoint: e.ID},
		"the account":  {Account: e.Account}, "everything": {},
	} {
		for most, want := range map[int]int{0: 5, 1: 1, 4: 4, 5: 5, 6: 5} {
			q.Most = most
			b, err := w.Backlog(w.Context(), q)
			w.ok(err)
			b.IsDue, b.DueFor = false, 0
			w.same(fmt.Sprintf("%s, up to %d", what, most), b, store.Backlog{Pending: want, DeadLetters: want})
		}
	}
}

func backlogPartial(w *world) {
	account := w.account()
	var endpoints []postrider.Endpoint
	for range store.MaxLooked {
		endpoints = append(endpoints, w.put(w.draft(account)))
	}
	w.batches(store.MaxLooked, endpoints...)
	partial := func() [2]bool {
		return [2]bool{w.backlog(account, postrider.EndpointID{}).Partial, w.backlog(postrider.AccountID{}, postrider.EndpointID{}).Partial}
	}
	w.same("with MaxLooked endpoints", partial(), [2]bool{})
	w.batches(1, w.put(w.draft(account)))
	w.same("with one more", partial(), [2]bool{true, true})
	w.same("of one endpoint", w.backlog(account, endpoints[0].ID).Partial, false)
}

func (w *world) states(ids ...postrider.EndpointID) []store.EndpointState {
	w.Helper()
	states, err := w.EndpointStates(w.Context(), ids...)
	w.ok(err)
	return states
}

func statesOf(w *world) {
	first, second, plain := w.endpoint(), w.endpoint(), w.endpoint()
	unknown := newID[postrider.EndpointID](w)
	w.putHealth(w.health(first, 1))
	health := w.putHealth(w.health(first, 2))
	circuit := w.putCircuit(w.circuit(second))
	w.same("the states", w.states(second.ID, plain.ID, unknown, first.ID), []store.EndpointState{
		{Endpoint: second.ID, Circuit: circuit}, {Endpoint: plain.ID}, {Endpoint: unknown}, {Endpoint: first.ID, Health: health},
	})
	w.same("those of none", len(w.states()), 0)
}

func statesCount(w *world) {
	e, other := w.endpoint(), w.endpoint()
	w.settleAll(e, 3)
	w.deadLetters(e, 2)
	w.settleAll(other, 1)
	w.pending(e, 4)
	w.claim(e, postrider.LaneFirst, 1)
	w.fold()
	want := []store.EndpointState{{Endpoint: e.ID, Pending: 4, Delivered: 3, Dead: 2}, {Endpoint: other.ID, Delivered: 1}}
	got := w.states(e.ID, other.ID)
	got[0].DueFor = 0 // checked in statesDue
	w.same("the states", got, want)
	statesOfDay(w)
}

// statesOfDay has deliveries that ended before and after the beginning of the day.
func statesOfDay(w *world) {
	w.steadily(time.Hour, func() (compare func()) {
		e, other := w.endpoint(), w.endpoint()
		since := store.DayBefore(w.now())
		w.see(ended(e, since.Add(-time.Minute), 1, 1), ended(e, since, 5, 0), ended(e, since.Add(90*time.Minute), 0, 6))
		var found [][]store.EndpointState
		w.rollUpAll(2, func() { found = append(found, w.states(e.ID, other.ID)) })
		return func() {
			for _, states := range found {
				w.same("the states", states, []store.EndpointState{{Endpoint: e.ID, Delivered: 5, Dead: 6}, {Endpoint: other.ID}})
			}
		}
	})
}

func statesStop(w *world) {
	e := w.endpoint()
	w.batches(store.MaxPending, e)
	w.same("pending", w.states(e.ID)[0].Pending, store.MaxPending)
	w.batches(1, e)
	w.same("pending of one more", w.states(e.ID)[0].Pending, store.MaxPending)
}
