package storetest

import (
	"slices"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

var upkeep = []verb{
	{"Expire", slices.Concat([]sentence{
		{"pending deliveries whose time is over become dead letters with the reason expired", expireBuries},
		{"at most limit of them, and it returns how many", expireLimit},
		{"one that a worker holds is left alone until its lease has ended", expireHeld},
		{"the settlement of one that has expired is stale", expireStale},
		{"it returns how many attempts it recorded as lost", expireReportsLost},
	}, expireOrderSentences)},
	{"DeleteEndpoints", []sentence{
		{"endpoints of deleted accounts are deleted, up to limit, and no others", deleteEndpointsDeletes},
		{"each raises the version by one", deleteEndpointsAnnounces},
	}},
	{"CancelDeleted", []sentence{
		{"pending deliveries of deleted endpoints are cancelled with a record each", cancelDeletedEnds},
		{"at most limit of them, and it returns how many", cancelDeletedLimit},
		{"those of other endpoints are left alone", cancelDeletedOthers},
		{"the pauses of their ordering keys go with them", cancelDeletedPauses},
		{"one that a worker holds is left to the result of its attempt", cancelDeletedLeased},
		{"one whose lease has ended is cancelled after a lost attempt", cancelDeletedLost},
		{"beside workers each delivery gets one result, which every list and count has", cancelDeletedLedger},
	}},
	{"ForgetKeys", []sentence{
		{"keys older than age are deleted and may be used again", forgetKeysOld},
		{"at most limit of them, and it returns how many", forgetKeysLimit},
		{"younger keys are kept", forgetKeysYoung},
	}},
	{"MakePartitions", []sentence{
		{"it may be called at any time", makePartitions},
	}},
	{"CheckTables", []sentence{
		{"it accepts the tables of the program that opened the store", func(w *world) { w.ok(w.CheckTables(w.Context())) }},
	}},
	{"ProbeWrite", []sentence{
		{"it commits a write that no other method reads, whatever room it asks for", probeWrite},
	}},
	{"HealthInputs", healthInputsSentences},
	{"PutHealth", putHealthSentences},
	{"Now", []sentence{
		{"it is UTC microseconds and goes on", nowGoesOn},
	}},
}

// expiring publishes n deliveries that expire after the given time.
func (w *world) expiring(e postrider.Endpoint, n int, after time.Duration) (ids []postrider.DeliveryID) {
	w.Helper()
	var batch store.Batch
	for range n {
		d := w.to(e)
		d.Expiry = after
		ids = append(ids, d.ID)
		batch = append(batch, w.event(e.Account, d))
	}
	w.publish(batch)
	return ids
}

func (w *world) expire(limit int) int {
	w.Helper()
	n, _, err := w.Expire(w.Context(), limit)
	w.ok(err)
	return n
}

func expireBuries(w *world) {
	e := w.endpoint()
	kept := w.pending(e, 1)[0]
	tried := w.expiring(e, 1, time.Second)[0]
	w.settle(retry(w.claim(e, postrider.LaneFirst, 2)[1], long))
	untried := w.expiring(e, 1, 0)[0]
	expired := 0
	w.eventually("two expire", func() bool {
		expired += w.expire(10)
		return expired >= 2
	})
	w.same("how many expired", expired, 2)
	for id, attempts := range map[postrider.DeliveryID]int{tried: 1, untried: 0} {
		got, letter := w.delivery(id), w.letter(id)
		if got.Status != postrider.Dead || got.Reason != postrider.ReasonExpired || got.Attempts != attempts {
			w.Errorf("the delivery is %+v, want dead as expired after %d attempts", got, attempts)
		}
		if letter.Reason != postrider.ReasonExpired || letter.Attempts != attempts || letter.DiedAt.IsZero() {
			w.Errorf("the dead letter is %+v, want expired after %d attempts", letter, attempts)
		}
	}
	if got := w.letter(tried); got.LastStatusCode != 503 || got.LastError == "" {
		w.Errorf("the dead letter is %+v, want the last attempt's code and error", got)
	}
	if got := w.delivery(kept).Status; got != postrider.Pending {
		w.Errorf("a delivery with time left is %s, want pending", got)
	}
}

func expireLimit(w *world) {
	e := w.endpoint()
	w.expiring(e, 5, 0)
	w.passed(0)
	for _, want := range []int{2, 2, 1, 0} {
		w.same("how many expired", w.expire(2), want)
	}
	w.nothingQueued(e)
}

func expireHeld(w *world) {
	held, e := w.endpoint(), w.endpoint()
	holds := w.expiring(held, 1, 0)[0]
	w.claimOne(held, postrider.LaneFirst)
	w.passed(brief)
	w.same("how many expired under a lease", w.expire(10), 0)
	id := w.expiring(e, 1, 0)[0]
	w.take(store.Want{Endpoint: e.ID, Lane: postrider.LaneFirst, N: 1, Lease: brief})
	w.passed(brief)
	w.same("how many expired after their lease", w.expire(10), 1)
	if got := w.delivery(id); got.Status != postrider.Dead || got.Reason != postrider.ReasonExpired {
		w.Errorf("the delivery is %+v, want dead as expired", got)
	}
	w.same("one whose lease lasts", w.delivery(holds).Status, postrider.Pending)
}

func expireStale(w *world) {
	e := w.endpoint()
	w.expiring(e, 1, 0)
	c := w.take(store.Want{Endpoint: e.ID, Lane: postrider.LaneFirst, N: 1, Lease: brief})[0]
	w.eventually("it expires after its lease", func() bool { return w.expire(10) == 1 })
	w.same("Settle", w.settle(delivered(c)), []store.Settled{{Stale: true}})
	if got := w.delivery(c.ID).Status; got != postrider.Dead {
		w.Errorf("the delivery is %s, want dead", got)
	}
}

// expireReportsLost expires two deliveries whose leases have ended, one of them ordered, and two
// that were never leased.
func expireReportsLost(w *world) {
	e := w.endpoint()
	w.expiring(e, 1, 0)
	ordered := w.orderedEvent(e, "k", postrider.SkipDead)
	ordered.Deliveries[0].Expiry = 0
	w.publish(store.Batch{ordered})
	leased := w.take(store.Want{Endpoint: e.ID, Lane: postrider.LaneFirst, N: 2, Lease: brief})
	w.expiring(e, 2, 0)
	expired, lost := 0, 0
	w.noticesLoss(leased[0].ID, func() {
		w.eventually("all expire", func() bool {
			n, l, err := w.Expire(w.Context(), 10)
			w.ok(err)
			expired, lost = expired+n, lost+l
			return expired >= 4
		})
	})
	if expired != 4 || lost != 2 {
		w.Errorf("%d expired, and %d attempts were lost; want 4 and 2", expired, lost)
	}
}

func (w *world) deleteEndpoints(limit int) int {
	w.Helper()
	n, err := w.DeleteEndpoints(w.Context(), limit)
	w.ok(err)
	return n
}

func deleteEndpointsDeletes(w *world) {
	account := w.account()
	var gone []postrider.Endpoint
	for _, status := range []postrider.EndpointStatus{postrider.EndpointEnabled, postrider.EndpointPaused, postrider.EndpointDisabled} {
		e := w.draft(account)
		e.Status, e.StatusReason = status, "a reason"
		gone = append(gone, w.put(e))
	}
	deleted := w.become(w.put(w.draft(account)), postrider.EndpointDeleted)
	other := w.endpoint()
	w.same("how many of a live account", w.deleteEndpoints(10), 0)
	w.ok(w.DeleteAccount(w.Context(), account))
	w.same("how many at first", w.deleteEndpoints(2), 2)
	w.same("how many then", w.deleteEndpoints(2), 1)
	w.same("how many at last", w.deleteEndpoints(2), 0)
	for _, e := range gone {
		want := e
		want.Status, want.StatusReason, want.Revision = postrider.EndpointDeleted, "", e.Revision+1
		w.same("the endpoint", w.found(e.ID), want, ignoreUpdated)
	}
	w.same("one that was deleted", w.found(deleted.ID), deleted)
	w.same("another account's", w.found(other.ID), other)
}

func deleteEndpointsAnnounces(w *world) {
	account := w.account()
	want := []postrider.EndpointID{w.put(w.draft(account)).ID, w.put(w.draft(account)).ID, w.put(w.draft(account)).ID}
	w.ok(w.DeleteAccount(w.Context(), account))
	version := w.version()
	w.same("how many", w.deleteEndpoints(10), 3)
	got := w.changes(version, 10)
	w.same("the version", got.Version, version+3)
	w.same("what changed", routedIDs(got.Endpoints), want,
		cmpopts.SortSlices(func(a, b postrider.EndpointID) bool { return a.Compare(b) < 0 }))
	w.same("what changed, page by page", len(w.changes(version, 2).Endpoints), 2)
	w.same("how often again", w.deleteEndpoints(10), 0)
	w.same("the version after nothing", w.version(), version+3)
}

func (w *world) cancelDeleted(limit int) int {
	w.Helper()
	n, lost, err := w.CancelDeleted(w.Context(), limit)
	w.ok(err)
	w.same("attempts recorded as lost", lost, 0)
	return n
}

func cancelDeletedEnds(w *world) {
	e := w.endpoint()
	ids := w.pending(e, 2)
	w.settle(retry(w.claim(e, postrider.LaneFirst, 1)[0], long))
	w.become(e, postrider.EndpointDeleted)
	w.same("how many were cancelled", w.cancelDeleted(10), 2)
	for i, id := range ids {
		got := w.delivery(id)
		if got.Status != postrider.Cancelled || got.Reason != postrider.ReasonEndpointDeleted || got.Attempts != 1-i {
			w.Errorf("the delivery is %+v, want cancelled after %d attempts", got, 1-i)
		}
		attempts := w.attempts(got)
		if len(attempts) != 2-i || attempts[1-i].Outcome != postrider.OutcomeNone || attempts[1-i].StatusAfter != postrider.Cancelled {
			w.Errorf("recorded %+v, want a decision without a request at the end", attempts)
		}
	}
	w.same("how many were cancelled again", w.cancelDeleted(10), 0)
	w.nothingQueued(e)
}

func cancelDeletedLimit(w *world) {
	account := w.account()
	for _, n := range []int{3, 2} {
		e := w.put(w.draft(account))
		w.pending(e, n)
		w.become(e, postrider.EndpointDeleted)
	}
	for _, want := range []int{2, 2, 1, 0} {
		w.same("how many were cancelled", w.cancelDeleted(2), want)
	}
}

func cancelDeletedOthers(w *world) {
	for _, status := range []postrider.EndpointStatus{
		postrider.EndpointEnabled, postrider.EndpointPaused, postrider.EndpointDisabled,
	} {
		e := w.endpoint()
		w.pending(e, 1)
		w.become(e, status)
	}
	w.same("how many were cancelled", w.cancelDeleted(10), 0)
}

func (w *world) forgetKeys(age time.Duration, limit int) int {
	w.Helper()
	n, err := w.ForgetKeys(w.Context(), age, limit)
	w.ok(err)
	return n
}

func forgetKeysOld(w *world) {
	e := w.endpoint()
	first, again := w.keyed(e, "k", "1"), w.keyed(e, "k", "2")
	w.publish(store.Batch{first})
	w.eventually("the key is forgotten", func() bool { return w.forgetKeys(0, 10) == 1 })
	w.same("Publish", w.publish(store.Batch{again}), []store.Published{
		{Conflict: -1, Events: []store.PublishedEvent{{ID: again.Event.ID}}},
	})
	w.stored(first.Event.ID)
}

func forgetKeysLimit(w *world) {
	e := w.endpoint()
	w.publish(store.Batch{w.keyed(e, "a", "1"), w.keyed(e, "b", "1"), w.keyed(e, "c", "1")})
	w.passed(0)
	for _, want := range []int{2, 1, 0} {
		w.same("how many were forgotten", w.forgetKeys(0, 2), want)
	}
}

func forgetKeysYoung(w *world) {
	e := w.endpoint()
	w.publish(store.Batch{w.keyed(e, "k", "1")})
	w.passed(time.Millisecond)
	w.same("how many were forgotten", w.forgetKeys(long, 10), 0)
	w.same("Publish", w.publish(store.Batch{w.keyed(e, "k", "2")}), []store.Published{{Conflict: 0}})
}

func makePartitions(w *world) {
	for range 2 {
		w.ok(w.MakePartitions(w.Context()))
	}
	w.pending(w.endpoint(), 1)
	w.ok(w.MakePartitions(w.Context()))
}

func probeWrite(w *world) {
	e := w.endpoint()
	w.pending(e, 2)
	for _, space := range []int{0, 0, 1 << 20} {
		w.ok(w.ProbeWrite(w.Context(), space))
	}
	w.same("claimed", len(w.claim(e, postrider.LaneFirst, 3)), 2)
}

func nowGoesOn(w *world) {
	now := w.now()
	if now.Location() != time.UTC || now.Nanosecond()%1000 != 0 {
		w.Errorf("Now = %v, want UTC microseconds", now)
	}
	w.near("Now", time.Until(now), 0)
	w.passed(0)
}
