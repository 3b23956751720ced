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
	// maxQueueLanes limits one measurement. So many lanes take about 0.3 s of a processor of
	// PostgreSQL.
	maxQueueLanes = 20_000
	// togetherWithin is the time within which circuits must open to count as opened together.
	togetherWithin = time.Hour
	// At most mostCounted deliveries of a lane are counted. With many lanes the limit is lower: it is
	// countedRows divided by the number of lanes, but at least leastCounted.
	mostCounted, leastCounted, countedRows = 1000, 10, 100_000
)

// watchQueue measures every 15 s which deliveries wait for this node's endpoints, for observers. It
// has its own goroutine, because a slow measurement must delay no scan.
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

// measureQueue reads the lanes with work, page by page, and asks the loop what holds each lane. It
// also reads the lanes of other nodes' endpoints, as a scan does, and leaves them out of the
// result. It leaves out lanes of deleted endpoints, too, because their deliveries will be
// cancelled.
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

// askHolds asks the loop for the HeldBy of each lane's endpoint; false: the loop has ended.
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

// openedTogether returns the greatest number of circuits that opened within one hour. Circuits that
// a person opened have the zero time and do not count.
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

// laneOf returns a lane in the form for observers.
func laneOf(l store.DueLane, heldBy postrider.HeldBy) observe.QueueLane {
	lane := observe.QueueLane{Endpoint: l.Endpoint, Lane: l.Lane, HeldBy: heldBy, Waiting: l.Waiting, Due: l.Due}
	if l.Due > 0 {
		lane.Oldest, lane.Newest = max(-l.In, 0), max(-l.LastIn, 0)
	}
	return lane
}
