package storetest

import (
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// waits fails the test unless the delivery waits for the reason, both in a list and when it is
// found by its id. It returns the end of the wait.
func (w *world) waits(id postrider.DeliveryID, want postrider.Waiting) time.Time {
	w.Helper()
	d := w.delivery(id)
	got := d.Waiting
	page, err := w.Deliveries(w.Context(), store.DeliveryQuery{Account: d.Account, Endpoint: d.Endpoint, Status: postrider.Pending})
	w.ok(err)
	for _, listed := range page.Items {
		if listed.ID == id {
			w.same("why the listed delivery waits", listed.Waiting.Reason, got.Reason)
		}
	}
	until := got.Until
	got.Until = time.Time{}
	w.same("why the delivery waits", got, want)
	return until
}

// step sets the store's time of day, as this process knows it, ahead by the given duration, until
// the clock is next read from the store.
func (w *world) step(by time.Duration) {
	c, at := w.Clock(), time.Now()
	if w.machine != nil {
		at = w.machine.now()
	}
	c.Follow(store.Reading{Asked: at, Answered: at, Wall: c.Wall().Add(by), Ahead: c.Ahead() - by, Version: 1<<60 + int64(by)})
}

func because(reason postrider.WaitReason) postrider.Waiting { return postrider.Waiting{Reason: reason} }

func deliveriesWaiting(w *world) {
	e := w.draft(w.account())
	e = w.put(e, w.secret(e.ID))
	id := w.pending(e, 1)[0]
	w.waits(id, because(postrider.WaitDue))
	w.putHold()
	w.waits(id, because(postrider.WaitHeld))
	w.resume()
	c := w.claimOne(e, postrider.LaneFirst)
	w.waits(id, because(postrider.WaitInFlight))
	w.settle(retry(c, long))
	w.near("until the retry", w.waits(id, because(postrider.WaitScheduled)).Sub(w.now()), long)

	circuit := w.circuit(e)
	circuit.ProbeAt = w.now().Add(2 * long)
	circuit = w.putCircuit(circuit)
	w.near("until the probe", w.waits(id, because(postrider.WaitCircuitOpen)).Sub(w.now()), 2*long)
	circuit.PacedUntil = w.now().Add(3 * long)
	circuit = w.putCircuit(circuit)
	w.near("until the receiver asked for", w.waits(id, because(postrider.WaitAskedToWait)).Sub(w.now()), 3*long)
	w.step(-time.Hour) // steps the time of day; due times stay at the same moment
	w.near("until the receiver asked for, after a step back", w.waits(id, because(postrider.WaitAskedToWait)).Sub(w.Clock().Wall()), 3*long)
	circuit.PacedUntil = time.Time{}
	circuit = w.putCircuit(circuit)
	w.near("until the probe, after a step back", w.waits(id, because(postrider.WaitCircuitOpen)).Sub(w.Clock().Wall()), 2*long)
	w.step(2 * time.Hour)
	w.near("until the probe, after a step forward", w.waits(id, because(postrider.WaitCircuitOpen)).Sub(w.Clock().Wall()), 2*long)
	circuit.Status, circuit.ProbeAt, circuit.PacedUntil = postrider.CircuitClosed, time.Time{}, time.Time{}
	w.putCircuit(circuit)

	e = w.become(e, postrider.EndpointPaused)
	w.waits(id, because(postrider.WaitEndpointPaused))
	e = w.become(e, postrider.EndpointDisabled)
	w.waits(id, because(postrider.WaitEndpointDisabled))
	e = w.become(e, postrider.EndpointEnabled)
	w.waits(id, because(postrider.WaitScheduled))
	w.become(e, postrider.EndpointDeleted)
	w.waits(id, because(postrider.WaitEndpointDeleted))
	w.same("why a cancelled one waits", w.cancel(id).Waiting, postrider.Waiting{})

	bare := w.endpoint()
	w.waits(w.pending(bare, 1)[0], because(postrider.WaitNoSecret))
	expired := w.draft(w.account())
	old := w.secret(expired.ID)
	old.ExpiresAt = w.now().Add(-time.Second)
	w.waits(w.pending(w.put(expired, old), 1)[0], because(postrider.WaitNoSecret))
}

func deliveriesWaitingInOrder(w *world) {
	e := w.draft(w.account())
	e = w.put(e, w.secret(e.ID))
	var ids []postrider.DeliveryID
	for range 2 {
		event := w.event(e.Account, w.to(e))
		event.Event.OrderingKey, event.Deliveries[0].Ordered = "order-42", postrider.PauseOnDead
		ids = append(ids, event.Deliveries[0].ID)
		w.publish(store.Batch{event})
	}
	w.waits(ids[0], because(postrider.WaitDue))
	w.waits(ids[1], postrider.Waiting{Reason: postrider.WaitOrdering, For: ids[0]})
	w.settle(dead(w.claimOne(e, postrider.LaneFirst)))
	w.waits(ids[1], postrider.Waiting{Reason: postrider.WaitOrdering, For: ids[0]})
	w.same("why a dead one waits", w.delivery(ids[0]).Waiting, postrider.Waiting{})
	replay := w.replay(ids[0])
	w.waits(replay.ID, because(postrider.WaitDue))
	w.waits(ids[1], postrider.Waiting{Reason: postrider.WaitOrdering, For: replay.ID})
}

func deliveriesReplayedWaiting(w *world) {
	e := w.draft(w.account())
	e = w.put(e, w.secret(e.ID))
	id := w.deadLetters(e, 1)[0]
	w.become(e, postrider.EndpointDisabled)
	replay := w.replay(id)
	w.same("what the replay says", replay.Waiting, because(postrider.WaitEndpointDisabled))
	w.waits(replay.ID, because(postrider.WaitEndpointDisabled))
}
