package storetest

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

func (w *world) claimFanOuts(n int, lease time.Duration) []store.FanOut {
	w.Helper()
	jobs, err := w.ClaimFanOuts(w.Context(), store.ClaimFanOuts{Max: n, Token: w.token(), Lease: lease})
	w.ok(err)
	return jobs
}

// job publishes one event that gets a fan-out job.
func (w *world) job(e postrider.Endpoint) store.NewEvent {
	w.Helper()
	event := w.event(e.Account)
	event.FanOutUpTo = e.ID
	w.publish(store.Batch{event})
	return event
}

func eventIDs(jobs []store.FanOut) (ids []postrider.EventID) {
	for _, job := range jobs {
		ids = append(ids, job.Event.ID)
	}
	return ids
}

func claimFanOutsOldestFirst(w *world) {
	e := w.endpoint()
	a, b, c := w.job(e), w.job(e), w.job(e)
	w.same("the first claim", eventIDs(w.claimFanOuts(2, long)), []postrider.EventID{a.Event.ID, b.Event.ID})
	w.same("the second claim", eventIDs(w.claimFanOuts(2, long)), []postrider.EventID{c.Event.ID})
}

func claimFanOutsExcept(w *world) {
	one, two, three := w.endpoint(), w.endpoint(), w.endpoint()
	w.job(one)
	w.job(two)
	third := w.job(three)
	claim := store.ClaimFanOuts{Max: 3, Except: []postrider.AccountID{two.Account, one.Account}, Token: w.token(), Lease: long}
	jobs, err := w.ClaimFanOuts(w.Context(), claim)
	w.ok(err)
	w.same("the claim", eventIDs(jobs), []postrider.EventID{third.Event.ID})
	if jobs := w.claimFanOuts(3, long); len(jobs) != 2 {
		w.Errorf("claimed %d jobs without exceptions, want 2", len(jobs))
	}
}

func claimFanOutsEvent(w *world) {
	e := w.endpoint()
	event := w.event(e.Account)
	event.FanOutUpTo = e.ID
	event.Event.APIVersion, event.Event.OrderingKey, event.Event.Hops, event.Event.TraceParent, event.Event.TraceState,
		event.Event.MaxAttempts = "2026-01-01", "o", 4, traced, "a=b", 5
	event.Event.About, event.Event.Endpoints = said, []postrider.EndpointID{{1}, e.ID}
	event.Event.OccurredAt, event.Event.Row = e.CreatedAt, newID[postrider.OutboxID](w)
	w.publish(store.Batch{event})
	jobs := w.claimFanOuts(1, long)
	want := event.Event
	want.Sequence = 1
	w.same("the job", jobs, []store.FanOut{{Event: want, UpTo: e.ID, Token: jobs[0].Token, AcceptedAt: jobs[0].AcceptedAt}})

	d := w.to(e)
	d.Lane = postrider.LaneBulk
	w.ok(w.FanOut(w.Context(), store.FanOutChunk{
		Event: event.Event.ID, Token: jobs[0].Token, To: e.ID, Deliveries: []store.NewDelivery{d}, Done: true,
	}))
	w.same("the event of its delivery", w.claimOne(e, postrider.LaneBulk).Event, &want)
}

// Stores compare the time with those of changes, so it does not depend on the clock of the id.
func claimFanOutsAcceptedAt(w *world) {
	e := w.resubscribe(w.endpoint(), "order.*")
	event := w.event(e.Account)
	event.Event.ID = postrider.MakeEventID(w.now().Add(10*time.Second), 0, 1)
	event.FanOutUpTo = e.ID
	w.passed(0)
	w.publish(store.Batch{event})
	later := w.resubscribe(e, "user.*")
	at := w.claimFanOuts(1, brief)[0].AcceptedAt
	if !at.After(e.UpdatedAt) || !at.Before(later.UpdatedAt) {
		w.Errorf("accepted at %v, want a time between %v and %v", at, e.UpdatedAt, later.UpdatedAt)
	}
	var again []store.FanOut
	w.eventually("the lease ends", func() bool {
		again = w.claimFanOuts(1, long)
		return len(again) == 1
	})
	w.same("the time in another claim", again[0].AcceptedAt, at)
}

func claimFanOutsLeased(w *world) {
	w.job(w.endpoint())
	w.claimFanOuts(1, long)
	if jobs := w.claimFanOuts(1, long); len(jobs) != 0 {
		w.Errorf("claimed a leased job again")
	}
}

func claimFanOutsAgain(w *world) {
	e := w.endpoint()
	w.job(e)
	old := w.claimFanOuts(1, brief)
	var again []store.FanOut
	w.eventually("the lease ends", func() bool {
		again = w.claimFanOuts(1, long)
		return len(again) == 1
	})
	if old[0].Token == again[0].Token {
		w.Errorf("the new lease has the old token")
	}
}

func claimFanOutsInParallel(w *world) {
	e := w.endpoint()
	for range 20 {
		w.job(e)
	}
	got := make([][]store.FanOut, 8)
	var claimers sync.WaitGroup
	for i := range got {
		claimers.Go(func() {
			for range 5 {
				jobs, err := w.ClaimFanOuts(w.Context(), store.ClaimFanOuts{Max: 3, Token: w.token(), Lease: long})
				if err != nil {
					w.Errorf("claim fan-outs: %v", err)
				}
				got[i] = append(got[i], jobs...)
			}
		})
	}
	claimers.Wait()
	all := eventIDs(slices.Concat(got...))
	slices.SortFunc(all, postrider.EventID.Compare)
	if distinct := slices.Compact(slices.Clone(all)); len(all) != 20 || len(distinct) != 20 {
		w.Errorf("claimed %d jobs, %d distinct; want 20", len(all), len(distinct))
	}
}

// chunk returns the next chunk of a claimed job, with one delivery.
func (w *world) chunk(job store.FanOut, e postrider.Endpoint) store.FanOutChunk {
	d := w.to(e)
	d.Lane = postrider.LaneBulk
	return store.FanOutChunk{
		Event: job.Event.ID, Token: job.Token, From: job.Cursor, To: e.ID, Deliveries: []store.NewDelivery{d}, Lease: long,
	}
}

// fanOutJob publishes a job for two endpoints of an account, and claims it.
func (w *world) fanOutJob(lease time.Duration) (job store.FanOut, endpoints [2]postrider.Endpoint) {
	w.Helper()
	endpoints[0] = w.endpoint()
	endpoints[1] = w.put(w.draft(endpoints[0].Account))
	w.job(endpoints[1])
	return w.claimFanOuts(1, lease)[0], endpoints
}

func fanOutNothing(w *world) {
	job, to := w.fanOutJob(brief)
	chunk := w.chunk(job, to[0])
	chunk.Deliveries, chunk.Lease = nil, brief
	w.ok(w.FanOut(w.Context(), chunk))
	w.eventually("the lease ends", func() bool {
		again := w.claimFanOuts(1, long)
		return len(again) == 1 && again[0].Cursor == to[0].ID
	})
}

func fanOutChunk(w *world) {
	job, to := w.fanOutJob(brief)
	first, second := to[0], to[1]
	chunk := w.chunk(job, first)
	skipped := w.to(first)
	skipped.Skipped = postrider.ReasonEndpointDisabled
	chunk.Deliveries, chunk.Lease = append(chunk.Deliveries, skipped), brief
	w.ok(w.FanOut(w.Context(), chunk))

	c := w.claimOne(first, postrider.LaneBulk)
	if c.ID != chunk.Deliveries[0].ID || c.Event.ID != job.Event.ID || c.Event.Data == nil {
		w.Errorf("claimed %+v, want the chunk's delivery with its event", c)
	}
	if got := w.delivery(skipped.ID); got.Status != postrider.Skipped || got.Account != first.Account || got.EventType != job.Event.Type {
		w.Errorf("the skipped delivery is %+v", got)
	}
	w.eventually("the job is claimed again", func() bool {
		again := w.claimFanOuts(1, long)
		if len(again) == 1 && (again[0].Cursor != first.ID || again[0].UpTo != second.ID) {
			w.Errorf("the job goes on after %s up to %s, want after %s up to %s", again[0].Cursor, again[0].UpTo, first.ID, second.ID)
		}
		return len(again) == 1
	})
}

// fenced fails the test unless the chunk is refused and nothing of it is stored.
func (w *world) fenced(chunk store.FanOutChunk) {
	w.Helper()
	w.refuses(w.FanOut(w.Context(), chunk), postrider.ErrFenced)
	page, err := w.Deliveries(w.Context(), store.DeliveryQuery{ID: chunk.Deliveries[0].ID})
	w.ok(err)
	if len(page.Items) != 0 {
		w.Errorf("a delivery of the fenced chunk is stored")
	}
}

func fanOutFencedByToken(w *world) {
	job, to := w.fanOutJob(long)
	first := to[0]
	chunk := w.chunk(job, first)
	chunk.Token = w.token()
	w.fenced(chunk)
	chunk.Token = job.Token
	w.ok(w.FanOut(w.Context(), chunk))
}

func fanOutFencedByCursor(w *world) {
	job, to := w.fanOutJob(long)
	first, second := to[0], to[1]
	w.ok(w.FanOut(w.Context(), w.chunk(job, first)))
	w.fenced(w.chunk(job, second))
	ahead := w.chunk(job, second)
	ahead.From = second.ID
	w.fenced(ahead)
}

func fanOutRenewsLease(w *world) {
	job, to := w.fanOutJob(brief)
	first := to[0]
	w.ok(w.FanOut(w.Context(), w.chunk(job, first)))
	w.passed(2 * brief)
	if again := w.claimFanOuts(1, long); len(again) != 0 {
		w.Errorf("the job was claimed by another while its lease lasts")
	}
}

func fanOutDone(w *world) {
	job, to := w.fanOutJob(brief)
	first, second := to[0], to[1]
	w.ok(w.FanOut(w.Context(), w.chunk(job, first)))
	job.Cursor = first.ID
	last := w.chunk(job, second)
	last.Done, last.Lease = true, 0
	w.ok(w.FanOut(w.Context(), last))
	if jobs := w.claimFanOuts(10, long); len(jobs) != 0 {
		w.Errorf("%d jobs are left after the last chunk", len(jobs))
	}
	job.Cursor = second.ID
	w.fenced(w.chunk(job, second))
}

func fanOutUnknown(w *world) {
	e := w.endpoint()
	w.fenced(w.chunk(store.FanOut{Event: w.event(e.Account).Event, Token: w.token()}, e))
}

func fanOutInParallel(w *world) {
	job, to := w.fanOutJob(long)
	first := to[0]
	var stored atomic.Int32
	var workers sync.WaitGroup
	for range 8 {
		chunk := w.chunk(job, first)
		workers.Go(func() {
			switch err := w.FanOut(w.Context(), chunk); {
			case err == nil:
				stored.Add(1)
			case !errors.Is(err, postrider.ErrFenced):
				w.Errorf("FanOut = %v, want nil or ErrFenced", err)
			}
		})
	}
	workers.Wait()
	if n := len(w.claim(first, postrider.LaneBulk, 100)); n != 1 || stored.Load() != 1 {
		w.Errorf("%d chunks were stored and %d deliveries queued, want 1 of each", stored.Load(), n)
	}
}
