package storetest

import (
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// The contract tests of backfills, which belong to the role [store.Replays].
var backfills = []verb{
	{"PutReplayJob of a backfill", []sentence{
		{"an endpoint has at most one that has not ended; a second one is ErrConflict", backfillsExclude},
	}},
	{"Undelivered", []sentence{
		{"it returns the events of the account without a delivery to the endpoint, oldest first, with their data", undeliveredEvents},
		{"deliveries of every status count, whatever their ids carry", undeliveredStatuses},
		{"deliveries of other backfills count, also of events that are older than the endpoint", undeliveredBackfilled},
		{"it looks at up to Limit events between From and Before", undeliveredPages},
		{"a page ends before an event whose fan-out job has not ended", undeliveredFanOut},
	}},
	{"ReplayChunk of a backfill", []sentence{
		{"each event gets a delivery in the bulk lane that replays nothing", backfillMakes},
		{"what cannot be delivered is counted by its reason", backfillSkips},
		{"a new delivery takes the turn of its key from one with a higher sequence that is not leased", backfillTakesTurn},
		{"a leased one keeps its turn", backfillBelowLeased},
	}},
}

// newBackfill returns a backfill of an endpoint that is not stored yet.
func (w *world) newBackfill(e postrider.Endpoint) postrider.ReplayJob {
	job := w.newJob(e)
	job.Action = postrider.ActionBackfill
	return job
}

// backfill stores a backfill and its chunk for the events, and returns the job and the new deliveries.
func (w *world) backfill(
	e postrider.Endpoint, onDead postrider.OnDead, events ...postrider.EventID,
) (job postrider.ReplayJob, made []postrider.DeliveryID) {
	w.Helper()
	job, token := w.runningJob(w.newBackfill(e))
	c := store.ReplayChunk{Job: job.ID, Token: token, Lease: long}
	for _, id := range events {
		item := store.ReplayItem{Event: id, Endpoint: e.ID, ID: newID[postrider.DeliveryID](w), Expiry: long, Ordered: onDead}
		c.To.Cursor = item.Position()
		c.Items = append(c.Items, item)
	}
	return job, w.replayed(c)
}

// undelivered returns the first page of the events without a delivery to the endpoint.
func (w *world) undelivered(e postrider.Endpoint, limit int) store.Undelivered {
	w.Helper()
	page, err := w.Undelivered(w.Context(), store.UndeliveredQuery{
		Account: e.Account, Endpoint: e.ID, Job: newID[postrider.ReplayID](w), Before: store.NewEventID(w.ids), Limit: limit,
	})
	w.ok(err)
	return page
}

// published publishes events without deliveries.
func (w *world) published(account postrider.AccountID, n int) (ids []postrider.EventID) {
	w.Helper()
	var batch store.Batch
	for range n {
		event := w.event(account)
		ids = append(ids, event.Event.ID)
		batch = append(batch, event)
	}
	w.publish(batch)
	return ids
}

func undeliveredIDs(page store.Undelivered) (ids []postrider.EventID) {
	for _, e := range page.Events {
		ids = append(ids, e.ID)
	}
	return ids
}

func backfillsExclude(w *world) {
	e, other := w.endpoint(), w.endpoint()
	first := w.newBackfill(e)
	w.ok(w.PutReplayJob(w.Context(), first))
	w.ok(w.PutReplayJob(w.Context(), first))
	w.same("the job", w.readJob(first.ID).Action, postrider.ActionBackfill)
	w.refuses(w.PutReplayJob(w.Context(), w.newBackfill(e)), postrider.ErrConflict)
	w.setJob(first.ID, postrider.ReplayPaused)
	w.refuses(w.PutReplayJob(w.Context(), w.newBackfill(e)), postrider.ErrConflict)
	w.ok(w.PutReplayJob(w.Context(), w.newBackfill(other)))
	w.ok(w.PutReplayJob(w.Context(), w.newJob(e, postrider.Dead)))
	page, err := w.ReplayJobs(w.Context(), store.ReplayJobQuery{Account: e.Account, Backfills: e.ID})
	w.ok(err)
	w.same("the backfill that has not ended", page.Items, []postrider.ReplayJob{w.readJob(first.ID)})
	w.setJob(first.ID, postrider.ReplayCancelled)
	page, err = w.ReplayJobs(w.Context(), store.ReplayJobQuery{Account: e.Account, Backfills: e.ID})
	w.ok(err)
	w.same("when it has", page.Items, []postrider.ReplayJob(nil))
	w.ok(w.PutReplayJob(w.Context(), w.newBackfill(e)))
}

func undeliveredEvents(w *world) {
	e := w.endpoint()
	other := w.put(w.draft(e.Account))
	w.published(w.endpoint().Account, 1)
	first := w.event(e.Account)
	first.Event.About = said
	w.publish(store.Batch{first})
	elsewhere := w.pending(other, 1)
	w.pending(e, 1)
	last := w.published(e.Account, 1)[0]
	page := w.undelivered(e, 100)
	w.same("the events", undeliveredIDs(page), []postrider.EventID{first.Event.ID, postrider.EventOf(elsewhere[0]), last})
	w.same("an event", page.Events[0], first.Event)
	w.same("To and Done", []any{page.To, page.Done}, []any{last, true})
}

func undeliveredStatuses(w *world) {
	e := w.endpoint()
	ids := w.pending(e, 4)
	for i, c := range w.claim(e, postrider.LaneFirst, 3) {
		w.settle([]func(postrider.Claimed) store.Settlement{delivered, dead, delivered}[i](c))
	}
	w.cancel(ids[3])
	skipped := w.to(e)
	skipped.Skipped = postrider.ReasonEndpointDisabled
	named := w.to(e)
	named.ID = newID[postrider.DeliveryID](w)
	event, delivers := w.event(e.Account), w.event(e.Account)
	event.Deliveries, delivers.Deliveries = []store.NewDelivery{named}, []store.NewDelivery{w.to(e)}
	delivers.Deliveries[0].ID = newID[postrider.DeliveryID](w)
	w.publish(store.Batch{w.event(e.Account, skipped), delivers})
	for _, c := range w.claim(e, postrider.LaneFirst, 1) {
		w.settle(delivered(c))
	}
	w.publish(store.Batch{event})
	w.same("the events", undeliveredIDs(w.undelivered(e, 100)), []postrider.EventID(nil))
}

func undeliveredBackfilled(w *world) {
	young := w.draft(w.account())
	young.ID = postrider.MakeID[postrider.EndpointID](w.now().Add(5*time.Minute), [10]byte{9})
	e := w.put(young)
	events := w.published(e.Account, 3)
	w.same("before", undeliveredIDs(w.undelivered(e, 100)), events)
	_, made := w.backfill(e, "", events[:2]...)
	w.settle(delivered(w.claim(e, postrider.LaneBulk, 1)[0]))
	w.same("the event of the pending one", w.delivery(made[1]).Event, events[1])
	w.same("after", undeliveredIDs(w.undelivered(e, 100)), events[2:])
}

func undeliveredPages(w *world) {
	e := w.endpoint()
	events := w.published(e.Account, 2)
	sent := postrider.EventOf(w.pending(e, 1)[0])
	events = append(events, w.published(e.Account, 2)...)
	page := w.undelivered(e, 3)
	w.same("the first page", undeliveredIDs(page), events[:2])
	w.same("To and Done", []any{page.To, page.Done}, []any{sent, false})
	page, err := w.Undelivered(w.Context(), store.UndeliveredQuery{
		Account: e.Account, Endpoint: e.ID, From: store.NextID(page.To), Before: events[3], Limit: 3,
	})
	w.ok(err)
	w.same("the next page", undeliveredIDs(page), events[2:3])
	w.same("Done", page.Done, true)
	page, err = w.Undelivered(w.Context(), store.UndeliveredQuery{
		Account: e.Account, Endpoint: e.ID, From: store.NextID(events[3]), Before: store.NewEventID(w.ids), Limit: 3,
	})
	w.ok(err)
	w.same("behind the last", page, store.Undelivered{Done: true})
}

func undeliveredFanOut(w *world) {
	e := w.endpoint()
	last := w.put(w.draft(e.Account))
	before := w.published(e.Account, 1)
	fanned := w.job(last).Event.ID
	after := w.published(e.Account, 1)
	page := w.undelivered(e, 100)
	w.same("the events", undeliveredIDs(page), before)
	w.same("To and Done", []any{page.To, page.Done}, []any{before[0], false})
	job := w.claimFanOuts(1, long)[0]
	w.ok(w.FanOut(w.Context(), w.chunk(job, e)))
	w.same("when it has a delivery", undeliveredIDs(w.undelivered(e, 100)), append(before, after...))
	w.same("of the other endpoint", undeliveredIDs(w.undelivered(last, 100)), before)
	w.ok(w.FanOut(w.Context(), store.FanOutChunk{Event: fanned, Token: job.Token, From: e.ID, To: last.ID, Done: true}))
	w.same("when the job has ended", undeliveredIDs(w.undelivered(last, 100)), append([]postrider.EventID{before[0], fanned}, after...))
}

func backfillMakes(w *world) {
	e := w.endpoint()
	events := w.published(e.Account, 2)
	job, made := w.backfill(e, "", events...)
	claimed := w.claim(e, postrider.LaneBulk, 10)
	w.same("the claimed deliveries", deliveryIDs(claimed, claimedID), made)
	for i, c := range claimed {
		if !c.ReplayedFrom.IsZero() || c.ReplayJob != job.ID || c.Event.ID != events[i] || c.Event.Data == nil {
			w.Errorf("claimed %+v, want the first delivery of %s, by %s", c, events[i], job.ID)
		}
		w.near("the expiry", c.ExpiresAt.Sub(w.now()), long)
	}
	w.settle(delivered(claimed[0]), dead(claimed[1]))
	got := w.readJob(job.ID)
	w.same("the cursor", got.Cursor, postrider.DeliveryID(events[1]))
	w.same("Made", got.Made, postrider.ReplayTally{Delivered: 1, Dead: 1})
}

func backfillSkips(w *world) {
	e := w.endpoint()
	event := w.published(e.Account, 1)[0]
	job, _ := w.backfill(e, "", newID[postrider.EventID](w), event)
	got := w.readJob(job.ID)
	w.same("Handled and Skipped", []any{got.Handled, got.Skipped}, []any{1, postrider.ReplaySkips{BytesGone: 1}})
	w.setJob(job.ID, postrider.ReplayCancelled)
	w.become(e, postrider.EndpointDeleted)
	job, _ = w.backfill(e, "", event)
	w.same("of a deleted endpoint", w.readJob(job.ID).Skipped, postrider.ReplaySkips{EndpointDeleted: 1})
}

// unsent publishes n events of the ordering key o without deliveries.
func (w *world) unsent(account postrider.AccountID, n int) (ids []postrider.EventID) {
	w.Helper()
	var batch store.Batch
	for range n {
		event := w.event(account)
		event.Event.OrderingKey = "o"
		ids = append(ids, event.Event.ID)
		batch = append(batch, event)
	}
	w.publish(batch)
	return ids
}

func backfillTakesTurn(w *world) {
	e := w.endpoint()
	old := w.unsent(e.Account, 3)
	live := w.publishOrdered(e, "o", postrider.PauseOnDead, 2)
	free := w.publishOrdered(e, "p", postrider.PauseOnDead, 1)
	_, made := w.backfill(e, postrider.PauseOnDead, old...)
	w.settle(delivered(w.claimExactly(e, free[0], made[0])[1]))
	w.deliverInOrder(e, made[1], made[2], live[0], live[1])
}

func backfillBelowLeased(w *world) {
	e := w.endpoint()
	old := w.unsent(e.Account, 2)
	live := w.publishOrdered(e, "o", postrider.PauseOnDead, 2)
	leased := w.claimExactly(e, live[0])[0]
	_, made := w.backfill(e, postrider.PauseOnDead, old...)
	w.claimExactly(e)
	w.settle(delivered(leased))
	w.deliverInOrder(e, made[0], made[1], live[1])
}
