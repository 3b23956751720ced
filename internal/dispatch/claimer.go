package dispatch

import (
	"context"
	"fmt"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/schedule"
	"github.com/postrider/postrider/internal/store"
)

// runClaimer makes the claims that the core asks for, one at a time. A claim whose reply was lost
// may have leased deliveries that this node does not know of. runClaimer does nothing about them:
// their leases end, and the next claim takes them over. The core waits before it asks again, so
// this goroutine does not retry.
func (d *Dispatcher) runClaimer(ctx context.Context) {
	// A claim that is under way when ctx ends is finished, so that its leases are known.
	work := context.WithoutCancel(ctx)
	for {
		select {
		case c := <-d.claims:
			asked := time.Now()
			got, err := callWith(work, d.queue.Claim, *c)
			if err != nil {
				d.opts.Log.WarnContext(ctx, "deliveries not claimed", "error", err)
				d.progress.failed(err)
			}
			d.post(schedule.ClaimReturned{Claim: c, Got: got, Err: err, AskedAt: asked})
			d.opts.Hooks.Claimed.Call(claimOf(c, got, time.Since(asked), err))
			if n := lostIn(got); n > 0 {
				d.opts.Hooks.AttemptsLost.Call(n)
			}
		case <-d.done:
			return
		}
	}
}

// lostIn returns how many attempts of dead nodes a claim recorded as lost.
func lostIn(got store.Claims) (n int) {
	for _, lane := range got.Lanes {
		n += lane.Lost
	}
	return n
}

// claimOf returns a claim in the form for observers: counts, without the deliveries.
func claimOf(c *store.Claim, got store.Claims, took time.Duration, err error) observe.Claimed {
	claimed := observe.Claimed{Got: len(got.Items), Took: took, Err: err}
	for _, w := range c.Wants {
		claimed.Asked += w.N
	}
	return claimed
}

// runScanner finds due lanes that no input names. It scans on four occasions:
//
//   - at the start and every Options.Scan, all lanes: for lost wake-ups and for leases that ended;
//   - when this node has new shards, or a dead node was reclaimed, all lanes;
//   - every Cluster.Poll while there are other nodes, the lanes with new deliveries: another node
//     may have committed them for an endpoint of this node;
//   - when wake-ups were missed, the lanes with new deliveries.
//
// A scan returns lanes and not deliveries, so its cost grows with the number of endpoints with
// work. After an error the whole queue is scanned again within 5 s.
func (d *Dispatcher) runScanner(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	poll := time.NewTicker(d.opts.Cluster.Poll)
	defer poll.Stop()
	loaded := d.opts.Cluster.Nodes != nil // otherwise the circuits come with the shards
	for {
		var err error
		scanned := true
		select {
		case <-timer.C:
			if !loaded {
				err = d.loadOwnCircuits(ctx)
				loaded = err == nil
			}
			if err == nil {
				err = d.scan(ctx, store.Due{})
			}
		case <-d.cluster.gained:
			err = d.scan(ctx, store.Due{})
		case <-poll.C:
			err, scanned = d.pollNew(ctx), false
		case <-d.cluster.missed:
			err, scanned = d.pollNew(ctx), false
		case <-ctx.Done():
			return
		}
		switch {
		case err != nil && ctx.Err() == nil:
			d.opts.Log.WarnContext(ctx, "queue not scanned", "error", err)
			d.progress.failed(err)
			timer.Reset(min(d.opts.Scan, 5*time.Second))
		case scanned:
			timer.Reset(d.opts.Scan)
		}
	}
}

// loadOwnCircuits loads all circuits, on a single node. (A node among others loads circuits with
// its shards.) Nothing is scanned until it succeeds, because the core would take an open circuit
// for closed, and send to an endpoint that is down.
func (d *Dispatcher) loadOwnCircuits(ctx context.Context) error {
	known, err := d.loadCircuits(ctx, nil)
	if err == nil {
		d.post(schedule.CircuitsLoaded{Circuits: known})
	}
	return err
}

// loadCircuits returns the stored circuits of the endpoints in the given shards; nil: of all. An
// endpoint whose circuit never changed has no stored circuit.
func (d *Dispatcher) loadCircuits(ctx context.Context, of *schedule.ShardSet) (known []postrider.Circuit, err error) {
	q := store.CircuitQuery{Limit: 1000}
	for {
		page, err := callWith(ctx, d.queue.Circuits, q)
		if err != nil {
			return nil, fmt.Errorf("load circuits: %w", err)
		}
		for _, c := range page {
			if of == nil || of[store.Shard(c.Endpoint)] {
				known = append(known, c)
			}
		}
		if len(page) < q.Limit {
			return known, nil
		}
		q.After = page[len(page)-1].Endpoint
	}
}

// pollNew scans for new deliveries, if there are other nodes. It relies on ids that begin with the
// time of day: a delivery that is newer than the last poll has a larger id than an id that is made
// from the time of that poll.
func (d *Dispatcher) pollNew(ctx context.Context) error {
	if !d.cluster.others.Load() {
		return nil
	}
	// A commit takes up to 10 s (ingest's time-out), so a delivery may become visible that long
	// after it was made.
	const late = 10*time.Second + store.OldestID
	clock := d.queue.Clock()
	if clock.SteppedWithin(d.opts.Cluster.Poll + late) {
		return d.scan(ctx, store.Due{}) // ids made before the clock step can be larger than ids made now
	}
	since := clock.Wall().Add(-d.opts.Cluster.Poll - late)
	return d.scan(ctx, store.Due{NewerThan: postrider.MakeID[postrider.DeliveryID](since, [10]byte{})})
}

// scan posts the due lanes, in pages of a thousand endpoints.
func (d *Dispatcher) scan(ctx context.Context, q store.Due) error {
	q.Max = 1000
	for {
		lanes, err := callWith(ctx, d.queue.Due, q)
		if err != nil {
			return fmt.Errorf("scan queue: %w", err)
		}
		if len(lanes) == 0 {
			return nil
		}
		d.post(schedule.LanesDue{Lanes: lanes, New: !q.NewerThan.IsZero()})
		q.After = lanes[len(lanes)-1].Endpoint
	}
}
