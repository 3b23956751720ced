package replay_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/memory"
)

// jobAt makes n dead letters of a new endpoint, and stores a job for them.
func (w *world) jobAt(n, perSecond int) (postrider.Endpoint, postrider.ReplayID) {
	w.Helper()
	e := w.newEndpoint(w.endpoint.Account)
	w.deadAt(e, n, "")
	job := postrider.ReplayJob{
		ID: store.NewID[postrider.ReplayID](w.ids), CreatedAt: w.Clock().Wall(), Action: postrider.ActionReplay, PerSecond: perSecond,
		Filter: postrider.ReplayFilter{Account: e.Account, Endpoint: e.ID, Statuses: []postrider.Status{postrider.Dead}}, By: "support",
	}
	w.ok(w.PutReplayJob(w.Context(), job))
	return e, job.ID
}

// The endpoints of 20 jobs accept nothing, which is more jobs than a node has places.
func TestPromise5JobsThatWaitDoNotDelayOthers(t *testing.T) {
	bubble(t, func(w *world) {
		w.full = 10
		waiting := map[postrider.ReplayID]postrider.Endpoint{}
		for range 20 {
			e, id := w.jobAt(15, 50)
			waiting[id] = e
		}
		defer w.node(w)()
		time.Sleep(time.Minute)
		_, other := w.jobAt(10, 50)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := w.read(other); got.Status != postrider.ReplayDone || got.Handled != 10 {
			t.Errorf("beside jobs that wait a job is %s with %d, want done with 10", got.Status, got.Handled)
		}
		for id, e := range waiting {
			if got := w.read(id); got.Handled != 10 || got.Made.Pending != 10 {
				t.Errorf("a job that waits has %+v, want 10 pending", got)
			}
			w.settleAt(e, postrider.LaneBulk, 10, postrider.Transition{To: postrider.Delivered})
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		for id := range waiting {
			if got := w.read(id); got.Status != postrider.ReplayDone || got.Handled != 15 {
				t.Errorf("after its endpoint has room a job is %s with %d, want done with 15", got.Status, got.Handled)
			}
		}
	})
}

// Eight jobs with a low pace have all places of the node.
func TestPromise5SlowJobsDoNotDelayOthers(t *testing.T) {
	bubble(t, func(w *world) {
		var slow []postrider.ReplayID
		for range 8 {
			_, id := w.jobAt(200, 1)
			slow = append(slow, id)
		}
		defer w.node(w)()
		time.Sleep(5 * time.Second)
		_, other := w.jobAt(10, 50)
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if got := w.read(other); got.Status != postrider.ReplayDone || got.Handled != 10 {
			t.Errorf("beside slow jobs a job is %s with %d, want done with 10", got.Status, got.Handled)
		}
		time.Sleep(65 * time.Second)
		synctest.Wait()
		for _, id := range slow {
			if got := w.read(id).Handled; got < 95 || got > 100 {
				t.Errorf("a slow job has replayed %d after 100 s, want nearly 100", got)
			}
		}
	})
}

// counting counts the pages of dead letters that are read.
type counting struct {
	*memory.Store
	pages atomic.Int64
}

func (c *counting) DeadLetters(ctx context.Context, q store.DeadLetterQuery) (store.Page[postrider.DeadLetter], error) {
	c.pages.Add(1)
	return c.Store.DeadLetters(ctx, q)
}

// Of 20 endpoints that the job holds, half get all of their deliveries, and half get no more.
func TestAJobThatRestsReadsLittle(t *testing.T) {
	bubble(t, func(w *world) {
		w.full = 5
		var endpoints []postrider.Endpoint
		for range 20 {
			e := w.newEndpoint(w.endpoint.Account)
			w.deadAt(e, 15, "")
			endpoints = append(endpoints, e)
		}
		id := w.job(50)
		s := &counting{Store: w.Store}
		defer w.node(s)()
		for range 20 {
			time.Sleep(2 * time.Second)
			for _, e := range endpoints[:10] {
				w.settleAt(e, postrider.LaneBulk, 15, postrider.Transition{To: postrider.Delivered})
			}
		}
		if got := w.read(id); got.Status != postrider.ReplayRunning || got.Made.Delivered != 150 || got.Made.Pending != 50 {
			t.Fatalf("the job is %+v, want running with 150 delivered and 50 pending", got)
		}
		before := s.pages.Load()
		time.Sleep(time.Minute)
		if read := s.pages.Load() - before; read < 10 || read > 25 {
			t.Errorf("the job has read %d pages in a minute, want one each 3 s", read)
		}
	})
}
