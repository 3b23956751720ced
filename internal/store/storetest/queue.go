package storetest

import (
	"slices"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

var queue = []verb{
	{"Claim", []sentence{
		{"of each want's endpoint and lane up to N are leased", claimUpToN},
		{"the longest due come first", claimLongestDueFirst},
		{"each want has its answer in the order of the wants", claimAnswersInOrder},
		{"a lane that is left something says so and when it is due", claimWaiting},
		{"an endpoint without deliveries has an empty answer", claimNothing},
		{"256 wants are served at once", claimManyWants},
		{"nothing due before After is looked at", claimAfter},
		{"Low as the next After misses nothing", claimLow},
		{"16 claimers never get the same delivery", claimInParallel},
		{"a leased delivery is not claimed again", claimLeased},
		{"a lease that ended is taken over as the next attempt", claimTakesOver},
		{"a lease that ended at publish is taken over", claimTakesOverPublished},
		{"an attempt that is taken over is recorded as lost, with the error server_died", claimRecordsLost},
		{"StartedAt of a lost attempt is when the loss was noticed", claimNoticesLoss},
		{"losses in a row are counted", claimCountsLosses},
		{"Lost of a lane is how many attempts the claim recorded as lost", claimReportsLost},
		{"a delivery whose Losses reach SuspectedAfter is not returned, and due in the suspect lane", claimSuspects},
		{"a lease that ended in the suspect lane is taken over like any other", claimTakesOverSuspect},
		{"of parallel claimers exactly one takes a lease over", claimTakesOverOnce},
		{"rows are claimed whatever the endpoint's status", claimAnyStatus},
		{"items carry all that a worker needs", claimItems},
		{"a lane of blocked deliveries has nothing waiting", claimBlocked},
	}},
	{"Settle", slices.Concat([]sentence{
		{"it answers for each settlement in their order", settleAnswersInOrder},
		{"the attempt is recorded as it was", settleRecords},
		{"where redirects led to is recorded, of whatever became of the attempt", settleFinalURL},
		{"what the time was spent on is recorded, of whatever became of the attempt", settleTiming},
		{"delivered ends the row", settleDelivered},
		{"dead ends the row and leaves a dead letter", settleDead},
		{"dead without a request counts no attempt", settleRefused},
		{"pending frees the lease and moves the delivery to the retry lane and its step", settlePending},
		{"pending waits as long as the transition says", settleWaits},
		{"bulk stays bulk", settleBulk},
		{"pending sets Losses to 0", settleForgetsLosses},
		{"a lease that ended counts while nobody took it over", settleAfterLease},
		{"a settlement whose lease was taken over is stale and changes no delivery", settleStale},
		{"a stale attempt takes the place of the lost one", settleStaleReplacesLost},
		{"a stale settlement is recorded once", settleStaleOnce},
		{"a stale delivered does not deliver", settleStaleDelivered},
		{"settled again it changes nothing and is not stale", settleAgain},
		{"settled again while the next attempt is under way it changes nothing", settleAgainLater},
		{"of parallel settlements of one delivery all count as the same", settleInParallel},
		{"parallel groups of settlements all count", settleGroupsInParallel},
		{"bytes of any kind come back", settleBytes},
		{"the heads of accepted responses come back", settleAcceptedHeads},
	}, settleOrderSentences)},
	{"Continue", continueSentences},
	{"Release", []sentence{
		{"the delivery is due at once", releaseDue},
		{"the attempt's number is taken back", releaseNumber},
		{"a delivery stays in its lane and at its step", releaseLane},
		{"a lease that is no longer held is left alone", releaseNotHeld},
		{"what is repeated or unknown is left alone", releaseRepeated},
		{"the first of a key is due again and the others stay blocked", releaseOrdered},
	}},
	{"MakeDue", makeDueSentences},
	{"Due", []sentence{
		{"it says which lanes have something waiting and when the first is due", dueLanes},
		{"leases that end are included", dueLeases},
		{"what has ended is not", dueNothing},
		{"at most Max endpoints after After, ordered", duePages},
		{"with Count it counts a lane's deliveries up to that many, those that are due first", dueCounts},
		{"only deliveries newer than NewerThan are looked at", dueNewer},
		{"ordered deliveries behind the head of their key are not looked at", dueBlocked},
	}},
	{"PutCircuit", putCircuitSentences},
	{"Circuits", circuitsSentences},
}

func claimUpToN(w *world) {
	e := w.endpoint()
	ids := w.pending(e, 5)
	w.same("the first claim", deliveryIDs(w.claim(e, postrider.LaneFirst, 3), claimedID), ids[:3])
	if items := w.claim(e, postrider.LaneRetry, 3); len(items) != 0 {
		w.Errorf("claimed %d deliveries of another lane", len(items))
	}
	w.same("the second claim", deliveryIDs(w.claim(e, postrider.LaneFirst, 3), claimedID), ids[3:])
}

func claimLongestDueFirst(w *world) {
	e := w.endpoint()
	late := w.to(e)
	late.Wait = brief
	want := append(w.pending(e, 2), late.ID) // the two are due first, although late has an older id
	w.publish(store.Batch{w.event(e.Account, late)})
	w.passed(late.Wait)
	w.same("what was claimed", deliveryIDs(w.claim(e, postrider.LaneFirst, 10), claimedID), want)
}

func claimAnswersInOrder(w *world) {
	a, b := w.endpoint(), w.endpoint()
	ofA, ofB := w.pending(a, 3), w.pending(b, 2)
	claims, err := w.Claim(w.Context(), store.Claim{Token: w.token(), Wants: []store.Want{
		{Endpoint: b.ID, Lane: postrider.LaneFirst, N: 5, Lease: long},
		{Endpoint: a.ID, Lane: postrider.LaneBulk, N: 5, Lease: long},
		{Endpoint: a.ID, Lane: postrider.LaneFirst, N: 2, Lease: long},
	}})
	w.ok(err)
	got := deliveryIDs(claims.Items, claimedID)
	slices.SortFunc(got, postrider.DeliveryID.Compare)
	w.same("the items", got, slices.Concat(ofA[:2], ofB))
	w.same("the lanes", claims.Lanes, []store.LaneState{{Claimed: 2}, {}, {Claimed: 2, Waiting: true}},
		cmpopts.IgnoreFields(store.LaneState{}, "In", "Low"))
	if in := claims.Lanes[2].In; in > 0 {
		w.Errorf("the rest of the lane is due in %v, want now", in)
	}
}

func claimWaiting(w *world) {
	e := w.endpoint()
	now, later := w.to(e), w.to(e)
	later.Wait = long
	w.publish(store.Batch{w.event(e.Account, now, later)})
	claims, err := w.Claim(w.Context(), store.Claim{Token: w.token(), Wants: []store.Want{
		{Endpoint: e.ID, Lane: postrider.LaneFirst, N: 5, Lease: long},
	}})
	w.ok(err)
	lane := claims.Lanes[0]
	if lane.Claimed != 1 || !lane.Waiting {
		w.Fatalf("the lane is %+v, want one claimed and one waiting", lane)
	}
	w.near("the wait", lane.In, long)
}

func claimNothing(w *world) {
	claims, err := w.Claim(w.Context(), store.Claim{Token: w.token(), Wants: []store.Want{
		{Endpoint: newID[postrider.EndpointID](w), Lane: postrider.LaneFirst, N: 5, Lease: long},
	}})
	w.ok(err)
	w.same("Claim", claims, store.Claims{Lanes: []store.LaneState{{}}}, cmpopts.IgnoreFields(store.LaneState{}, "Low", "In"))
	claims, err = w.Claim(w.Context(), store.Claim{Token: w.token()})
	w.ok(err)
	w.same("Claim of nothing", claims, store.Claims{})
}

func claimManyWants(w *world) {
	account := w.account()
	var batch store.Batch
	var wants []store.Want
	for range 86 {
		e := w.put(w.draft(account))
		event := w.event(account)
		for _, lane := range postrider.Lanes {
			d := w.to(e)
			d.Lane = lane
			event.Deliveries = append(event.Deliveries, d)
			wants = append(wants, store.Want{Endpoint: e.ID, Lane: lane, N: 1, Lease: long})
		}
		batch = append(batch, event)
	}
	w.publish(batch)
	claims, err := w.Claim(w.Context(), store.Claim{Token: w.token(), Wants: wants[:256]})
	w.ok(err)
	if len(claims.Items) != 256 || len(claims.Lanes) != 256 {
		w.Errorf("claimed %d items of %d lanes, want 256 of 256", len(claims.Items), len(claims.Lanes))
	}
}

func claimAfter(w *world) {
	e := w.endpoint()
	w.pending(e, 1)
	want := store.Want{Endpoint: e.ID, Lane: postrider.LaneFirst, N: 1, Lease: long, After: w.now().Add(long)}
	if items := w.take(want); len(items) != 0 {
		w.Errorf("claimed a delivery due before After")
	}
	want.After = time.Time{}
	if items := w.take(want); len(items) != 1 {
		w.Errorf("claimed %d deliveries without After, want 1", len(items))
	}
}

func claimLow(w *world) {
	e := w.endpoint()
	w.pending(e, 6)
	want := store.Want{Endpoint: e.ID, Lane: postrider.LaneFirst, N: 2, Lease: long}
	ended := map[postrider.DeliveryID]bool{}
	w.eventually("all twelve are delivered", func() bool {
		token := w.token()
		claims, err := w.Claim(w.Context(), store.Claim{Wants: []store.Want{want}, Token: token})
		w.ok(err)
		want.After = claims.Lanes[0].Low
		for i, c := range claims.Items {
			if i == 0 && len(ended)%2 == 1 {
				w.ok(w.Release(w.Context(), []store.Lease{{Delivery: c.ID, Token: token}}))
				continue
			}
			w.settle(delivered(c))
			if ended[c.ID] = true; len(ended) <= 6 {
				w.pending(e, 1)
			}
		}
		return len(ended) == 12
	})
}

func claimInParallel(w *world) {
	e := w.endpoint()
	ids := w.pending(e, 400)
	got := make([][]postrider.Claimed, 16)
	var claimers sync.WaitGroup
	for i := range got {
		claimers.Go(func() {
			for empty := 0; empty < 3; {
				claims, err := w.Claim(w.Context(), store.Claim{Token: w.token(), Wants: []store.Want{
					{Endpoint: e.ID, Lane: postrider.LaneFirst, N: 7, Lease: long},
				}})
				if err != nil {
					w.Errorf("Claim: %v", err)
					return
				}
				if len(claims.Items) == 0 {
					empty++
				}
				got[i] = append(got[i], claims.Items...)
			}
		})
	}
	claimers.Wait()
	all := slices.Concat(got...)
	all = append(all, w.claim(e, postrider.LaneFirst, 400)...) // the deliveries that all claimers skipped
	claimed := deliveryIDs(all, claimedID)
	slices.SortFunc(claimed, postrider.DeliveryID.Compare)
	w.same("what was claimed", claimed, ids)
}

func claimLeased(w *world) {
	e, held := w.claimed()
	if items := w.claim(e, postrider.LaneFirst, 10); len(items) != 0 {
		w.Errorf("claimed a leased delivery again")
	}
	if got := w.delivery(held.ID); !got.NextAttemptAt.IsZero() || got.Attempts != 0 {
		w.Errorf("while an attempt is under way, delivery = %+v; want no attempt counted and none due", got)
	}
}

func claimTakesOver(w *world) {
	old, taken := w.lost()
	if taken.ID != old.ID || taken.Attempt != 2 || taken.Losses != 1 || taken.Step != old.Step || taken.Token == old.Token {
		w.Errorf("took over %+v, want attempt 2 with one loss at the same step under a new token", taken)
	}
}

func claimTakesOverPublished(w *world) {
	e := w.endpoint()
	d := w.to(e)
	d.Token, d.Lease = w.token(), brief
	w.publish(store.Batch{w.event(e.Account, d)})
	taken := w.takeOver(postrider.Claimed{ID: d.ID, Endpoint: e.ID, Lane: d.Lane}, long)
	if taken.ID != d.ID || taken.Attempt != 2 || taken.Losses != 1 {
		w.Errorf("took over %+v, want attempt 2 with one loss", taken)
	}
}

func claimRecordsLost(w *world) {
	_, taken := w.lost()
	attempts := w.attempts(w.delivery(taken.ID))
	if len(attempts) != 1 {
		w.Fatalf("recorded %d attempts, want the lost one", len(attempts))
	}
	got := attempts[0]
	if got.Number != 1 || got.Outcome != postrider.OutcomeLost || got.Error != "server_died" || !got.NextAt.IsZero() || got.Stale ||
		got.Delivery != taken.ID || got.Event != taken.Event.ID || got.Endpoint != taken.Endpoint {
		w.Errorf("recorded %+v, want attempt 1 as lost", got)
	}
}

// claimNoticesLoss claims long after the lease began, and some time after it ended.
func claimNoticesLoss(w *world) {
	e := w.endpoint()
	w.pending(e, 1)
	old := w.take(store.Want{Endpoint: e.ID, Lane: postrider.LaneFirst, N: 1, Lease: brief})[0]
	w.noticesLoss(old.ID, func() { w.claimOne(e, postrider.LaneFirst) })
}

// noticesLoss waits until long after the end of a brief lease, and calls do, which notices the
// loss. It checks that the lost attempt has the time of that call.
func (w *world) noticesLoss(id postrider.DeliveryID, do func()) {
	w.Helper()
	w.passed(brief)
	w.passed(brief)
	from := w.stamp()
	do()
	to := w.stamp()
	lost := 0
	for _, a := range w.attempts(w.delivery(id)) {
		if a.Outcome != postrider.OutcomeLost {
			continue
		}
		lost++
		if a.StartedAt.Before(from) || a.StartedAt.After(to) || a.Duration != 0 || a.StatusAfter != postrider.Pending {
			w.Errorf("recorded %+v, want a pending attempt whose loss was noticed between %s and %s", a, from, to)
		}
	}
	w.same("how many attempts were lost", lost, 1)
}

func claimCountsLosses(w *world) {
	e := w.endpoint()
	w.pending(e, 1)
	c := w.take(store.Want{Endpoint: e.ID, Lane: postrider.LaneFirst, N: 1, Lease: brief})[0]
	for losses := 1; losses < postrider.SuspectedAfter; losses++ {
		c = w.takeOver(c, brief)
		if c.Losses != losses || c.Attempt != losses+1 {
			w.Errorf("after %d losses the claim has %d and is attempt %d", losses, c.Losses, c.Attempt)
		}
	}
	if n := len(w.attempts(w.delivery(c.ID))); n != postrider.SuspectedAfter-1 {
		w.Errorf("recorded %d lost attempts, want %d", n, postrider.SuspectedAfter-1)
	}
}

// claimReportsLost lets two of three leases end. Then it claims these together with a delivery
// that was never leased, and from another lane.
func claimReportsLost(w *world) {
	e, other := w.endpoint(), w.endpoint()
	w.pending(e, 3)
	w.pending(other, 1)
	w.take(store.Want{Endpoint: e.ID, Lane: postrider.LaneFirst, N: 1, Lease: long})
	w.take(store.Want{Endpoint: e.ID, Lane: postrider.LaneFirst, N: 2, Lease: brief})
	w.pending(e, 1)
	w.passed(brief)
	claims, err := w.Claim(w.Context(), store.Claim{Token: w.token(), Wants: []store.Want{
		{Endpoint: e.ID, Lane: postrider.LaneFirst, N: 10, Lease: long}, {Endpoint: other.ID, Lane: postrider.LaneFirst, N: 10, Lease: long},
	}})
	w.ok(err)
	if len(claims.Items) != 4 || claims.Lanes[0].Lost != 2 || claims.Lanes[1].Lost != 0 {
		w.Errorf("claimed %d, lanes %+v; want 4, and 2 lost attempts in the first lane", len(claims.Items), claims.Lanes)
	}
}

// suspected publishes a delivery, and lets its leases end until a claim moves the delivery to the
// suspect lane.
func (w *world) suspected() (e postrider.Endpoint, id postrider.DeliveryID) {
	w.Helper()
	e = w.endpoint()
	id = w.pending(e, 1)[0]
	want := store.Want{Endpoint: e.ID, Lane: postrider.LaneFirst, N: 2, Lease: brief}
	c := w.take(want)[0]
	for range postrider.SuspectedAfter - 1 {
		c = w.takeOver(c, brief)
	}
	w.passed(brief)
	claims, err := w.Claim(w.Context(), store.Claim{Wants: []store.Want{want}, Token: w.token()})
	w.ok(err)
	if len(claims.Items) != 0 || claims.Lanes[0].Claimed != 0 || claims.Lanes[0].Suspects != 1 || claims.Lanes[0].Lost != 1 {
		w.Fatalf("claimed %+v, want one that became a suspect", claims)
	}
	return e, id
}

func claimSuspects(w *world) {
	e, id := w.suspected()
	d := w.delivery(id)
	if !d.Suspected || d.NextAttemptAt.IsZero() || d.Attempts != postrider.SuspectedAfter {
		w.Errorf("the delivery is %+v, want a suspect that is due", d)
	}
	attempts := w.attempts(d)
	if len(attempts) != postrider.SuspectedAfter || attempts[postrider.SuspectedAfter-1].Outcome != postrider.OutcomeLost {
		w.Errorf("recorded %+v, want %d lost attempts", attempts, postrider.SuspectedAfter)
	}
	c := w.claimOne(e, postrider.LaneSuspect)
	if c.ID != id || c.Losses != postrider.SuspectedAfter || c.Attempt != postrider.SuspectedAfter+1 {
		w.Errorf("claimed %+v", c)
	}
}

func claimTakesOverSuspect(w *world) {
	e, id := w.suspected()
	c := w.take(store.Want{Endpoint: e.ID, Lane: postrider.LaneSuspect, N: 1, Lease: brief})[0]
	c = w.takeOver(c, long)
	if c.ID != id || c.Losses != postrider.SuspectedAfter+1 || c.Attempt != postrider.SuspectedAfter+2 {
		w.Errorf("claimed %+v", c)
	}
	if d := w.delivery(id); d.Parked {
		w.Errorf("the delivery is parked, and no node died: %+v", d)
	}
}

func claimTakesOverOnce(w *world) {
	e := w.endpoint()
	w.pending(e, 8)
	w.take(store.Want{Endpoint: e.ID, Lane: postrider.LaneFirst, N: 8, Lease: brief})
	w.passed(brief)
	got := make([][]postrider.Claimed, 8)
	var claimers sync.WaitGroup
	for i := range got {
		claimers.Go(func() {
			claims, err := w.Claim(w.Context(), store.Claim{Token: w.token(), Wants: []store.Want{
				{Endpoint: e.ID, Lane: postrider.LaneFirst, N: 8, Lease: long},
			}})
			if err != nil {
				w.Errorf("Claim: %v", err)
			}
			got[i] = claims.Items
		})
	}
	claimers.Wait()
	all := append(slices.Concat(got...), w.claim(e, postrider.LaneFirst, 8)...)
	if len(all) != 8 {
		w.Errorf("%d deliveries were taken over, want 8", len(all))
	}
	for _, c := range all {
		if n := len(w.attempts(w.delivery(c.ID))); c.Attempt != 2 || n != 1 {
			w.Errorf("took over attempt %d with %d recorded, want 2 with 1", c.Attempt, n)
		}
	}
}

func claimAnyStatus(w *world) {
	for _, status := range []postrider.EndpointStatus{
		postrider.EndpointPaused, postrider.EndpointDisabled, postrider.EndpointDeleted,
	} {
		e := w.endpoint()
		w.pending(e, 1)
		w.become(e, status)
		if n := len(w.claim(e, postrider.LaneFirst, 1)); n != 1 {
			w.Errorf("claimed %d deliveries of an endpoint that is %s, want 1", n, status)
		}
	}
}

func claimItems(w *world) {
	e := w.endpoint()
	d := w.to(e)
	event := w.event(e.Account, d)
	event.Event.APIVersion, event.Event.OrderingKey, event.Event.IdempotencyKey = "2026-01-01", "o", "k"
	event.Event.Hops, event.Event.TraceParent, event.Event.TraceState, event.Event.MaxAttempts = 3, traced, "a=b", 100
	event.Event.About, event.Event.OccurredAt, event.Event.Row = said, e.CreatedAt, newID[postrider.OutboxID](w)
	w.publish(store.Batch{event})
	token := w.token()
	claims, err := w.Claim(w.Context(), store.Claim{Token: token, Wants: []store.Want{
		{Endpoint: e.ID, Lane: postrider.LaneFirst, N: 5, Lease: long},
	}})
	w.ok(err)
	want := event.Event
	want.Sequence = 1
	w.same("the items", claims.Items, []postrider.Claimed{{
		ID: d.ID, Endpoint: e.ID, Event: &want, Lane: postrider.LaneFirst, Attempt: 1, Token: token,
	}}, cmpopts.IgnoreFields(postrider.Claimed{}, "ExpiresAt"))
	w.near("the expiry", claims.Items[0].ExpiresAt.Sub(w.now()), d.Expiry)
}
