package storetest

import (
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// backlogs returns all backlogs. Accounts without a limit of their own have a limit of 100.
func (w *world) backlogs() []postrider.EndpointBacklog {
	w.Helper()
	return w.someBacklogs(store.BacklogsQuery{Max: 100, Count: 1000, Default: 100})
}

func (w *world) someBacklogs(q store.BacklogsQuery) []postrider.EndpointBacklog {
	w.Helper()
	backlogs, err := w.EndpointBacklogs(w.Context(), q)
	w.ok(err)
	return backlogs
}

// backlogOf returns the backlog of an endpoint that is not marked as full.
func backlogOf(e postrider.Endpoint, limit, waiting int64) postrider.EndpointBacklog {
	return postrider.EndpointBacklog{Endpoint: e.ID, Account: e.Account, Limit: limit, Waiting: waiting}
}

func (w *world) mark(m store.MarkFull) []postrider.Notice {
	w.Helper()
	put, err := w.MarkFull(w.Context(), m)
	w.ok(err)
	return put
}

func backlogsCount(w *world) {
	first, second, idle := w.endpoint(), w.endpoint(), w.endpoint()
	w.pending(first, 3)
	w.pending(second, 2)
	w.pending(idle, 1)
	w.claim(second, postrider.LaneFirst, 1)
	w.settle(retry(w.claim(first, postrider.LaneFirst, 1)[0], time.Hour))
	w.settle(delivered(w.claimOne(idle, postrider.LaneFirst)))
	w.same("the backlogs", w.backlogs(), []postrider.EndpointBacklog{backlogOf(first, 100, 3), backlogOf(second, 100, 2)})
}

func backlogsOrdered(w *world) {
	waits, paused := w.endpoint(), w.endpoint()
	w.publishOrdered(waits, "a", postrider.SkipDead, 4)
	w.publishOrdered(paused, "a", postrider.PauseOnDead, 3)
	w.settle(dead(w.claimOne(paused, postrider.LaneFirst)))
	w.pending(waits, 2)
	w.same("the backlogs", w.backlogs(), []postrider.EndpointBacklog{backlogOf(waits, 100, 6), backlogOf(paused, 100, 2)})
}

func backlogsLimits(w *world) {
	own, none, usual := w.endpoint(), w.endpoint(), w.endpoint()
	w.putQuotas(own.Account, postrider.Quotas{Backlog: 2})
	w.putQuotas(none.Account, postrider.Quotas{Backlog: postrider.NoQuota})
	w.putQuotas(usual.Account, postrider.Quotas{Endpoints: 5})
	for _, e := range []postrider.Endpoint{own, none, usual} {
		w.pending(e, 3)
	}
	w.same("the backlogs", w.backlogs(), []postrider.EndpointBacklog{backlogOf(own, 2, 2), backlogOf(none, 0, 0), backlogOf(usual, 100, 3)})
	w.same("without a default", w.someBacklogs(store.BacklogsQuery{Max: 100, Count: 1000}),
		[]postrider.EndpointBacklog{backlogOf(own, 2, 2), backlogOf(none, 0, 0), backlogOf(usual, 0, 0)})
}

func backlogsUnlimited(w *world) {
	plain, marked, empty := w.endpoint(), w.endpoint(), w.endpoint()
	w.pending(plain, 3)
	w.pending(marked, 3)
	w.putQuotas(plain.Account, postrider.Quotas{Backlog: postrider.NoQuota})
	w.mark(store.MarkFull{Full: []postrider.EndpointID{marked.ID, empty.ID}})
	var listed []postrider.EndpointID
	for _, b := range w.someBacklogs(store.BacklogsQuery{Max: 100, Count: 1000}) {
		listed = append(listed, b.Endpoint)
		if b.Full.IsZero() || b.Limit != 0 || b.Waiting != 0 {
			w.Errorf("the backlog is %+v, want the mark and no limit", b)
		}
	}
	w.same("the endpoints", listed, []postrider.EndpointID{marked.ID, empty.ID})
}

func backlogsPages(w *world) {
	var want []postrider.EndpointBacklog
	for range 5 {
		e := w.endpoint()
		w.pending(e, 1)
		want = append(want, backlogOf(e, 100, 1))
	}
	q := store.BacklogsQuery{Max: 2, Count: 1000, Default: 100}
	var got []postrider.EndpointBacklog
	for _, n := range []int{2, 2, 1, 0} {
		page := w.someBacklogs(q)
		if len(page) != n {
			w.Fatalf("a page has %d backlogs, want %d", len(page), n)
		}
		if got = append(got, page...); n > 0 {
			q.After = page[n-1].Endpoint
		}
	}
	w.same("the backlogs", got, want)
}

func backlogsBounded(w *world) {
	var want []postrider.EndpointBacklog
	for range 4 {
		e := w.endpoint()
		w.pending(e, 3)
		want = append(want, backlogOf(e, 100, 3))
	}
	w.same("up to 4", w.someBacklogs(store.BacklogsQuery{Max: 100, Count: 4, Default: 100}), want[:2])
	w.same("up to 6", w.someBacklogs(store.BacklogsQuery{Max: 100, Count: 6, Default: 100}), want[:2])
	w.same("up to 7", w.someBacklogs(store.BacklogsQuery{Max: 100, Count: 7, Default: 100}), want[:3])
}

func backlogsDeleted(w *world) {
	waiting, empty := w.endpoint(), w.endpoint()
	w.pending(waiting, 1)
	w.mark(store.MarkFull{Full: []postrider.EndpointID{waiting.ID, empty.ID}})
	w.become(waiting, postrider.EndpointDeleted)
	w.become(empty, postrider.EndpointDeleted)
	w.same("the backlogs", w.backlogs(), []postrider.EndpointBacklog{{Endpoint: waiting.ID}})
}

func markFull(w *world) {
	first, second := w.endpoint(), w.endpoint()
	w.mark(store.MarkFull{Full: []postrider.EndpointID{first.ID}})
	w.near("since when it is full", w.found(first.ID).FullSince.Sub(w.now()), 0)
	w.same("the other one", w.found(second.ID).FullSince, time.Time{})
	w.same("the backlog", w.backlogs(), []postrider.EndpointBacklog{{
		Endpoint: first.ID, Account: first.Account, Limit: 100, Full: w.found(first.ID).FullSince,
	}})
	w.mark(store.MarkFull{Full: []postrider.EndpointID{second.ID}, Free: []postrider.EndpointID{first.ID}})
	w.same("the first one", w.found(first.ID).FullSince, time.Time{})
	w.near("since when the other one is full", w.found(second.ID).FullSince.Sub(w.now()), 0)
}

func markFullVersions(w *world) {
	first, second := w.endpoint(), w.endpoint()
	before := w.version()
	w.mark(store.MarkFull{Full: []postrider.EndpointID{second.ID}, Free: []postrider.EndpointID{first.ID}})
	c := w.changes(before, 10)
	w.same("the version", c.Version, before+2)
	w.same("the changes", routedIDs(c.Endpoints), []postrider.EndpointID{second.ID, first.ID})
	w.same("what they carry", c.Endpoints[0].Endpoint, w.found(second.ID))
	w.same("the first of them", routedIDs(w.changes(before, 1).Endpoints), []postrider.EndpointID{second.ID})
}

func markFullKeeps(w *world) {
	e := w.endpoint()
	w.mark(store.MarkFull{Full: []postrider.EndpointID{e.ID}})
	since := w.found(e.ID).FullSince
	w.passed(5 * time.Millisecond)
	w.mark(store.MarkFull{Full: []postrider.EndpointID{e.ID}})
	w.same("since when it is full", w.found(e.ID).FullSince, since)
}

func markFullDeleted(w *world) {
	e := w.become(w.endpoint(), postrider.EndpointDeleted)
	w.mark(store.MarkFull{Full: []postrider.EndpointID{e.ID, newID[postrider.EndpointID](w)}})
	w.same("the deleted one", w.found(e.ID), e)
}

func markFullTells(w *world) {
	e, known, fresh := w.endpoint(), w.newNotice(), w.newNotice()
	w.told(known)
	again := known
	again.ID = newID[postrider.NoticeID](w)
	w.same("what was stored", w.mark(store.MarkFull{Full: []postrider.EndpointID{e.ID}, Notices: []postrider.Notice{again, fresh}}),
		[]postrider.Notice{fresh})
	w.same("the notices", w.notices(store.NoticeQuery{}), []postrider.Notice{fresh, known})
}

func markFullStays(w *world) {
	e := w.endpoint()
	w.mark(store.MarkFull{Full: []postrider.EndpointID{e.ID}})
	since := w.found(e.ID).FullSince
	changed := w.become(e, postrider.EndpointPaused)
	w.same("what the change returns", changed.FullSince, since)
	changed.FullSince = time.Time{}
	w.same("what another one returns", w.become(changed, postrider.EndpointEnabled).FullSince, since)
	w.same("what is stored", w.found(e.ID).FullSince, since)
}
