package dispatch

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/store"
)

const (
	// queueEvery is how often the queue is measured.
	queueEvery = 15 * time.Second
	// queuePage is how many endpoints one call of the store reads.
	queuePage = 250
	// maxQueueLanes bounds a measurement. It takes about 0.3 s of a processor of PostgreSQL.
	maxQueueLanes = 20_000
	// Circuits that opened within this time opened together.
	togetherWithin = time.Hour
	// A lane is counted up to mostCounted deliveries, and up to leastCounted where so many
	// lanes have work that all of them together would be more than countedRows.
	mostCounted, leastCounted, countedRows = 1000, 10, 100_000
)

// watchQueue measures every 15 s what waits for this node's endpoints, for observers. It is
// a goroutine of its own because a slow measurement must delay no scan.
func (d *Dispatcher) watchQueue(ctx context.Context) {
	if d.opts.Hooks.Queue == nil {
		return
	}
	lanes := 0
	for batch.Sleep(ctx, queueEvery) {
		q, err := d.measureQueue(ctx, min(max(countedRows/max(lanes, 1), leastCounted), mostCounted))
		if err != nil {
			if ctx.Err() == nil {
				d.opts.Log.WarnContext(ctx, "queue not measured", "error", err)
			}
			continue
		}
		lanes = len(q.Lanes)
		d.opts.Hooks.Queue.Call(q)
	}
}

// measureQueue reads the lanes with work, a page at a time, and asks the loop what holds
// each. It reads the lanes of other nodes' endpoints too, as a scan does, and leaves them
// out. A lane whose endpoint is deleted is left out as well: its deliveries are cancelled.
func (d *Dispatcher) measureQueue(ctx context.Context, count int) (q observe.Queue, err error) {
	page := store.Due{Max: queuePage, Count: count}
	for {
		lanes, err := callWith(ctx, d.queue.Due, page)
		if err != nil {
			return q, fmt.Errorf("measure queue: %w", err)
		}
		held, ok := d.askHolds(ctx, holdsAsked{lanes: lanes, circuits: page.After == postrider.EndpointID{}})
		if !ok {
			return q, fmt.Errorf("measure queue: the loop has ended")
		}
		q.OpenCircuits += len(held.open)
		q.OpenedTogether += openedTogether(held.open)
		for i, lane := range lanes {
			if held.by[i] != "" {
				q.Lanes = append(q.Lanes, laneOf(lane, held.by[i]))
			}
		}
		if len(lanes) == 0 {
			return q, nil
		}
		if q.Partial = len(q.Lanes) >= maxQueueLanes; q.Partial {
			return q, nil
		}
		page.After = lanes[len(lanes)-1].Endpoint
	}
}

// askHolds asks the loop what holds the lanes' endpoints; false: it has ended.
func (d *Dispatcher) askHolds(ctx context.Context, ask holdsAsked) (holds, bool) {
	response := make(chan holds, 1)
	ask.response = response
	if !d.postOwn(ask) {
		return holds{}, false
	}
	select {
	case h := <-response:
		return h, true
	case <-d.done:
	case <-ctx.Done():
	}
	return holds{}, false
}

// openedTogether returns the most circuits that opened within one hour. Those that a person
// opened, whose time is zero, do not count.
func openedTogether(since []time.Time) (most int) {
	slices.SortFunc(since, time.Time.Compare)
	first := 0
	for i, at := range since {
		if at.IsZero() {
			continue
		}
		for at.Sub(since[first]) > togetherWithin {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// laneOf returns a lane as observers get it.
func laneOf(l store.DueLane, heldBy postrider.HeldBy) observe.QueueLane {
	lane := observe.QueueLane{Endpoint: l.Endpoint, Lane: l.Lane, HeldBy: heldBy, Waiting: l.Waiting, Due: l.Due}
	if l.Due > 0 {
		lane.Oldest, lane.Newest = max(-l.In, 0), max(-l.LastIn, 0)
	}
	return lane
}
