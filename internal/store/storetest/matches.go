package storetest

import (
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// matches returns all matches of a job, read page by page.
func (w *world) matches(job postrider.ReplayJob) (ids []postrider.DeliveryID) {
	w.Helper()
	for {
		m, err := store.FindReplayMatches(w.Context(), w.Store, job)
		w.ok(err)
		for _, item := range m.Items {
			ids = append(ids, item.Match)
		}
		if m.Done {
			return ids
		}
		job.Cursor = m.To
	}
}

// mixed makes n deliveries of an endpoint. In turn they are dead, skipped, delivered and
// cancelled.
func (w *world) mixed(e postrider.Endpoint, n int) (ids []postrider.DeliveryID) {
	w.Helper()
	var batch store.Batch
	for i := range n {
		d := w.to(e)
		if i%4 == 1 {
			d.Skipped = postrider.ReasonEndpointDisabled
		}
		ids = append(ids, d.ID)
		batch = append(batch, w.event(e.Account, d))
	}
	w.publish(batch)
	end := map[postrider.DeliveryID]func(postrider.Claimed) store.Settlement{}
	for i, id := range ids {
		switch i % 4 {
		case 0:
			end[id] = dead
		case 2:
			end[id] = delivered
		case 3:
			w.cancel(id)
		}
	}
	var settlements []store.Settlement
	for _, c := range w.claim(e, postrider.LaneFirst, n) {
		settlements = append(settlements, end[c.ID](c))
	}
	w.settle(settlements...)
	return ids
}

func matchesMerged(w *world) {
	e := w.endpoint()
	w.mixed(w.endpoint(), 4) // deliveries of another endpoint
	ids := append(w.deadLetters(e, store.MaxLimit+5), w.mixed(e, 80)...)
	ids = append(ids, w.deadLetters(e, 5)...)
	w.pending(e, 2)
	w.same("of every status", w.matches(w.newJob(e, postrider.ReplayStatuses...)), ids)
	var missed []postrider.DeliveryID
	for i, id := range ids {
		if i -= store.MaxLimit + 5; i < 0 || i >= 80 || i%4 == 0 || i%4 == 1 {
			missed = append(missed, id)
		}
	}
	w.same("what was missed", w.matches(w.newJob(e, postrider.Skipped, postrider.Dead)), missed)
}

func matchesFixed(w *world) {
	e := w.endpoint()
	before := w.deadLetters(e, 2)
	job, token := w.runningJob(w.newJob(e, postrider.ReplayStatuses...))
	w.deadLetters(e, 2)
	w.same("the set", w.matches(job), before)
	made := w.chunkOf(job, token, before...)
	made.Items[0].ID = before[1] // an id lower than the job's, as from a clock that is behind
	made.Items[0].ID[15]++
	w.replayed(made)
	w.settle(delivered(w.claim(e, postrider.LaneBulk, 1)[0]))
	w.same("what is left of it", w.matches(w.readJob(job.ID)), []postrider.DeliveryID(nil))
}

func matchesFiltered(w *world) {
	e := w.endpoint()
	ids := w.deadLetters(e, 3)
	item := w.event(e.Account, w.to(e))
	item.Event.Type = "order.item.added"
	w.publish(store.Batch{item})
	c := w.claimOne(e, postrider.LaneFirst)
	w.settle(settlement(c, 410, postrider.Transition{To: postrider.Dead, Reason: postrider.ReasonGone}))
	for name, f := range map[string]struct {
		set  func(*postrider.ReplayFilter)
		want []postrider.DeliveryID
	}{
		"a type": {
			func(f *postrider.ReplayFilter) { f.EventTypes = []postrider.Pattern{"order.item.added"} },
			[]postrider.DeliveryID{c.ID},
		},
		"a prefix": {
			func(f *postrider.ReplayFilter) { f.EventTypes = []postrider.Pattern{"order.item.*"} },
			[]postrider.DeliveryID{c.ID},
		},
		"two types":         {func(f *postrider.ReplayFilter) { f.EventTypes = []postrider.Pattern{"order.created", "user.*"} }, ids},
		"a reason":          {func(f *postrider.ReplayFilter) { f.Reason = postrider.ReasonGone }, []postrider.DeliveryID{c.ID}},
		"an event":          {func(f *postrider.ReplayFilter) { f.Event = item.Event.ID }, []postrider.DeliveryID{c.ID}},
		"before all":        {func(f *postrider.ReplayFilter) { f.To = ids[0].Time() }, nil},
		"from the first on": {func(f *postrider.ReplayFilter) { f.From = ids[0].Time() }, append(slices.Clone(ids), c.ID)},
		"another account":   {func(f *postrider.ReplayFilter) { f.Account, f.Endpoint = w.account(), postrider.EndpointID{} }, nil},
		"an account":        {func(f *postrider.ReplayFilter) { f.Endpoint = postrider.EndpointID{} }, append(slices.Clone(ids), c.ID)},
		"an account's reason": {
			func(f *postrider.ReplayFilter) { f.Endpoint, f.Reason = postrider.EndpointID{}, postrider.ReasonGone },
			[]postrider.DeliveryID{c.ID},
		},
	} {
		job := w.newJob(e, postrider.Dead)
		f.set(&job.Filter)
		w.same(name, w.matches(job), f.want)
	}
}

func matchesLast(w *world) {
	e := w.endpoint()
	ids := w.mixed(e, 4)
	delivery, cancelled := ids[2], ids[3]
	pending := w.replay(delivery)
	w.same("while the replay is pending", w.matches(w.newJob(e, postrider.Delivered, postrider.Cancelled)), []postrider.DeliveryID{cancelled})
	w.settle(delivered(w.claimOne(e, postrider.LaneBulk)))
	w.same("when it is delivered", w.matches(w.newJob(e, postrider.Delivered)), []postrider.DeliveryID{pending.ID})
	w.settle(dead(func() postrider.Claimed { w.replay(pending.ID); return w.claimOne(e, postrider.LaneBulk) }()))
	w.same("when the last one died", w.matches(w.newJob(e, postrider.Delivered)), []postrider.DeliveryID(nil))
}

func matchesResolved(w *world) {
	e := w.endpoint()
	ids := w.deadLetters(e, 3)
	w.replay(ids[0])
	w.passed(2 * time.Millisecond)
	job := w.newJob(e, postrider.Dead)
	w.ok(w.PutReplayJob(w.Context(), job))
	w.passed(2 * time.Millisecond)
	w.replay(ids[1])
	w.same("the matches", w.matches(w.readJob(job.ID)), ids[1:])
}

func matchesEnded(w *world) {
	e := w.endpoint()
	ids := w.deadLetters(e, 2)
	pending := w.pending(e, 4)
	job := w.newJob(e, postrider.ReplayStatuses...)
	w.passed(2 * time.Millisecond)
	w.cancel(pending[0])
	for i, c := range w.claim(e, postrider.LaneFirst, 3) {
		s := []func(postrider.Claimed) store.Settlement{dead, delivered, dead}[i](c)
		s.Attempt.StartedAt = w.stamp()
		w.settle(s)
	}
	w.same("what a dry run counts", w.matches(job), ids)
	w.ok(w.PutReplayJob(w.Context(), job))
	w.same("of the job", w.matches(w.readJob(job.ID)), ids)
}
