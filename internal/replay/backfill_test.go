package replay_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// published publishes n events of a type. With live, the endpoint gets a delivery of each, which is
// ordered if there is a key.
func (w *world) published(n int, eventType, key string, live bool) (ids []postrider.EventID) {
	w.Helper()
	changes, err := w.Changes(w.Context(), 0, 10)
	w.ok(err)
	for range n {
		e := store.NewEvent{Event: postrider.Event{
			ID: store.NewEventID(w.ids), Account: w.endpoint.Account, Type: eventType, Data: []byte(`1`), OrderingKey: key,
		}}
		if live {
			e.Deliveries = []store.NewDelivery{{
				ID: store.NewID[postrider.DeliveryID](w.ids), Endpoint: w.endpoint.ID, Lane: postrider.LaneFirst, Expiry: time.Hour,
			}}
			if key != "" {
				e.Deliveries[0].Ordered = postrider.SkipDead
			}
		}
		_, err := w.Publish(w.Context(), store.Publish{Version: changes.Version, Batches: []store.Batch{{e}}})
		w.ok(err)
		ids = append(ids, e.Event.ID)
	}
	return ids
}

// backfill stores a backfill of the endpoint that starts an hour ago.
func (w *world) backfill(perSecond int) postrider.ReplayID {
	w.Helper()
	job := postrider.ReplayJob{
		ID: store.NewID[postrider.ReplayID](w.ids), CreatedAt: w.Clock().Wall(), Action: postrider.ActionBackfill, PerSecond: perSecond,
		By:     "support",
		Filter: postrider.ReplayFilter{Account: w.endpoint.Account, Endpoint: w.endpoint.ID, From: time.Now().Add(-time.Hour)},
	}
	w.ok(w.PutReplayJob(w.Context(), job))
	return job.ID
}

// A node stops in the middle, and another goes on. Each event that the endpoint wants gets one delivery.
func TestABackfillMakesEachDeliveryOnce(t *testing.T) {
	bubble(t, func(w *world) {
		const n = 300
		for range n / 100 {
			w.published(100, "order.created", "", false)
			w.published(250, "order.ignored", "", false) // more than a page
		}
		w.published(1, "order.created", "", true)
		id := w.backfill(50)
		stop := w.node(w)
		time.Sleep(3 * time.Second)
		stop()
		if got := w.read(id); got.Handled < 100 || got.Handled > 150 {
			t.Errorf("%d are sent after 3 s, want about 150", got.Handled)
		}
		defer w.node(w)()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		got := w.settle(postrider.LaneBulk, 2*n, postrider.Transition{To: postrider.Delivered})
		sent := map[postrider.EventID]bool{}
		for _, c := range got {
			sent[c.Event.ID] = true
		}
		if job := w.read(id); job.Status != postrider.ReplayDone || len(got) != n || len(sent) != n {
			t.Errorf("the job is %s; %d deliveries of %d events, want %d", job.Status, len(got), len(sent), n)
		}
		again := w.backfill(50)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if job := w.read(again); job.Status != postrider.ReplayDone || job.Matched() != 0 {
			t.Errorf("a second job is %s and has matched %d, want done and none", job.Status, job.Matched())
		}
	})
}

// The delivery of an event with a fan-out job may still be made by that job.
func TestABackfillWaitsForAFanOut(t *testing.T) {
	bubble(t, func(w *world) {
		changes, err := w.Changes(t.Context(), 0, 10)
		w.ok(err)
		w.published(1, "order.created", "", false)
		fanned := store.NewEvent{Event: postrider.Event{
			ID: store.NewEventID(w.ids), Account: w.endpoint.Account, Type: "order.created", Data: []byte(`1`),
		}, FanOutUpTo: w.endpoint.ID}
		_, err = w.Publish(t.Context(), store.Publish{Version: changes.Version, Batches: []store.Batch{{fanned}}})
		w.ok(err)
		w.published(1, "order.created", "", false)
		id := w.backfill(50)
		defer w.node(w)()
		time.Sleep(time.Minute)
		synctest.Wait()
		if job := w.read(id); job.Handled != 1 || job.Status != postrider.ReplayRunning {
			t.Errorf("the job is %s with %d, want running with the event before the fan-out", job.Status, job.Handled)
		}
		jobs, err := w.ClaimFanOuts(t.Context(), store.ClaimFanOuts{Max: 1, Token: 7, Lease: time.Minute})
		w.ok(err)
		d := store.NewDelivery{
			ID: store.NewID[postrider.DeliveryID](w.ids), Endpoint: w.endpoint.ID, Lane: postrider.LaneBulk, Expiry: time.Hour,
		}
		w.ok(w.FanOut(t.Context(), store.FanOutChunk{
			Event: jobs[0].Event.ID, Token: 7, To: w.endpoint.ID, Done: true, Deliveries: []store.NewDelivery{d},
		}))
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if job := w.read(id); job.Handled != 2 || job.Status != postrider.ReplayDone {
			t.Errorf("the job is %s with %d, want done with 2", job.Status, job.Handled)
		}
	})
}

// The endpoint is paused while the backfill makes its deliveries, so nothing is claimed. New events of a
// key wait behind its history, though they were published before it was made.
func TestNewEventsOfAKeyWaitBehindItsHistory(t *testing.T) {
	bubble(t, func(w *world) {
		w.full = 10
		w.policy.Order = postrider.OrderByKey
		want := w.published(100, "order.created", "a", false)
		w.published(100, "order.created", "b", false)
		id := w.backfill(50)
		want = append(want, w.published(10, "order.created", "a", true)...)
		defer w.node(w)()
		time.Sleep(2 * time.Second)
		want = append(want, w.published(10, "order.created", "a", true)...)
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if job := w.read(id); job.Status != postrider.ReplayDone || job.Handled != 200 {
			t.Fatalf("the job is %s with %d, want done with 200, though more than %d are pending", job.Status, job.Handled, w.full)
		}
		var got []postrider.EventID
		for range 2 * len(want) {
			for _, lane := range []postrider.Lane{postrider.LaneFirst, postrider.LaneBulk} {
				for _, c := range w.settle(lane, 10, postrider.Transition{To: postrider.Delivered}) {
					if c.Event.OrderingKey == "a" {
						got = append(got, c.Event.ID)
					}
				}
			}
		}
		if len(got) != len(want) {
			t.Fatalf("%d events of the key were sent, want %d", len(got), len(want))
		}
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("event %d of the key is %s, want %s", i, got[i], want[i])
			}
		}
	})
}
