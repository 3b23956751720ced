package ingest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/schedule"
	"github.com/postrider/postrider/internal/store"
)

const (
	// groupRows is the greatest number of deliveries of a commit, unless its first publish has more by
	// itself. The dispatcher leases 1,024 ahead: so all of them can be admitted while others start.
	groupRows = 400
	// batchRows is the number of deliveries of a batch after which its next events get fan-out jobs,
	// and the greatest number of deliveries of one event that an endpoint wants in order.
	batchRows = 2000
	// orderedRows is the greatest number of deliveries of a batch in which an endpoint wants its
	// events in order. Such events get no fan-out job, because the next event of the key would
	// overtake the job.
	orderedRows = 10 * batchRows
	// rematches limits how often one group is matched. A group is matched again if subscriptions
	// changed between its match and its commit.
	rematches = 20
	// commitTimeout limits a commit, so that producers get a response when the database hangs.
	commitTimeout = 10 * time.Second
)

// flush commits a group of publishes, in as many commits as necessary, and wakes their callers.
func (in *Ingest) flush(ctx context.Context, group []*publish) {
	for len(group) > 0 {
		n, committed, err := in.commit(ctx, group)
		if err != nil && n > 1 && !errors.Is(err, postrider.ErrBusy) {
			// The store may have refused the group because of one publish, such as one that it
			// cannot store. So each publish gets a commit of its own.
			for _, p := range group[:n] {
				in.flush(ctx, []*publish{p})
			}
			group = group[n:]
			continue
		}
		committed.Err = err
		for _, p := range group[:n] {
			if _, locked := errors.AsType[*postrider.LockedError](p.err); locked && in.setAside(p) {
				continue
			}
			p.commit = committed
			if err != nil {
				p.err = fmt.Errorf("publish: %w", err)
			}
			p.done <- struct{}{}
		}
		in.opts.Hooks.Committed.Call(committed)
		group = group[n:]
	}
}

const (
	// lockedFor is how long a publish waits, from its call on, for a key that another transaction
	// has locked. With the try after that, it takes less than a second.
	lockedFor = 700 * time.Millisecond
	// lockedPause is the time between two tries.
	lockedPause = 25 * time.Millisecond
)

// setAside gives a publish to runLocked, unless the publish has waited for its key for longer than
// lockedFor.
func (in *Ingest) setAside(p *publish) bool {
	if time.Since(p.begun) > lockedFor {
		return false
	}
	refused := p.err
	if p.err = nil; in.locked.Add(p) {
		return true
	}
	p.err = refused
	return false
}

// runLocked commits publishes that were set aside because another transaction has locked one of
// their keys, until the queue is closed and empty. It has its own goroutine, so that no other
// publish waits for the lock.
func (in *Ingest) runLocked(ctx context.Context) {
	for open := true; open; {
		_, open = <-in.locked.Ready()
		group := in.locked.Take(0)
		if open && len(group) > 0 {
			batch.Sleep(ctx, lockedPause)
		}
		in.flush(ctx, group)
	}
}

// commit matches and stores the first publishes of a group. Deliveries that may start at once get
// leases of the dispatcher. It returns how many publishes it committed, and the commit in the form
// for observers.
//
// The steps: match makes the deliveries from the routing table at one version. The dispatcher
// grants leases. The store commits events and deliveries together, if its subscriptions still have
// that version. If they do not, the table is refreshed and the group is matched again, so an
// endpoint that was created before the publish is never missed. If a commit fails, Admit frees the
// leases.
func (in *Ingest) commit(ctx context.Context, group []*publish) (n int, committed observe.Committed, err error) {
	for range rematches {
		batches, version, err := in.match(group)
		if n = len(batches); err != nil && n == 0 {
			// A refused publish that is not the first of the group is refused when it becomes the
			// first.
			return 1, committed, err
		}
		err = in.dispatch.Admit(admissions(batches), func(g schedule.Grant) (schedule.DeliveriesCommitted, error) {
			c := schedule.DeliveriesCommitted{Started: make([]postrider.Claimed, 0, lease(batches, g))}
			begun := time.Now()
			published, err := in.store(ctx, store.Publish{Version: version, Batches: batches})
			committed = committedOf(batches, begun)
			if err != nil {
				return schedule.DeliveriesCommitted{}, err
			}
			in.respond(&c, group[:n], batches, published)
			return c, nil
		})
		if !errors.Is(err, store.ErrMoved) {
			return n, committed, err
		}
		if err := in.table.Refresh(ctx); err != nil {
			return n, committed, err
		}
	}
	return n, committed, fmt.Errorf("subscriptions moved %d times: %w", rematches, postrider.ErrBusy)
}

// committedOf returns a commit in the form for observers.
func committedOf(batches []store.Batch, begun time.Time) observe.Committed {
	c := observe.Committed{Begun: begun, Took: time.Since(begun)}
	for _, batch := range batches {
		c.Events += len(batch)
		for i := range batch {
			c.Deliveries += len(batch[i].Deliveries)
			countSkipped(&c.Skipped, batch[i].Deliveries)
		}
	}
	return c
}

// countSkipped counts the deliveries that are recorded as skipped.
func countSkipped(counts *observe.Skipped, deliveries []store.NewDelivery) {
	for i := range deliveries {
		switch deliveries[i].Skipped {
		case postrider.ReasonEndpointDisabled:
			counts.Disabled++
		case postrider.ReasonEndpointDeleted:
			counts.Deleted++
		case postrider.ReasonBacklogFull:
			counts.Full++
		}
	}
}

// store commits within commitTimeout. If a commit gets no response, it may have happened. Then the
// error is ErrBusy, and only an idempotency key makes it safe to try again.
func (in *Ingest) store(ctx context.Context, p store.Publish) ([]store.Published, error) {
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	published, err := in.inbox.Publish(ctx, p)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: no response for %v: %w", postrider.ErrBusy, commitTimeout, err)
	}
	return published, err
}

// match makes the deliveries of a group's events, until there are enough for one commit: a commit
// with 100,000 rows would delay all other publishes for seconds. The error is for the publish after
// the last batch, which is refused. The version is read before the endpoints. If the table changes
// in between, the store finds the version outdated and refuses the group. If the version were read
// afterwards, it could be newer than the endpoints, and a new endpoint would be missed.
func (in *Ingest) match(group []*publish) ([]store.Batch, int64, error) {
	version := in.table.Version()
	batches := make([]store.Batch, 0, len(group))
	all := 0
	for _, p := range group {
		batch, rows, err := in.matchBatch(p)
		if err != nil {
			return batches, version, err
		}
		if all += rows; all > groupRows && len(batches) > 0 {
			break
		}
		batches = append(batches, batch)
	}
	return batches, version, nil
}

// matchBatch makes the deliveries of a publish's events, and returns their number.
func (in *Ingest) matchBatch(p *publish) (batch store.Batch, rows int, err error) {
	batch = make(store.Batch, len(p.events))
	for j := range p.events {
		if batch[j], err = in.matchOne(p, j, rows); err != nil {
			return nil, rows, err
		}
		batch[j].Terms = in.index(p, j)
		rows += len(batch[j].Deliveries)
	}
	return batch, rows, nil
}

// matchOne makes the deliveries of one event, after the rows that its batch already has.
func (in *Ingest) matchOne(p *publish, j, rows int) (store.NewEvent, error) {
	e := &p.events[j]
	in.identify(e)
	if !p.only.IsZero() {
		to, ok := in.table.Lookup(p.only)
		if !ok {
			return store.NewEvent{Event: *e}, nil
		}
		// A person sends this event to see an attempt, so it is sent even if the backlog is full.
		asked := *to
		asked.Endpoint.FullSince = time.Time{}
		return store.NewEvent{Event: *e, Deliveries: in.deliveries(e, []*store.EndpointSnapshot{&asked})}, nil
	}
	c, ok := p.ahead[j]
	if !ok || c.edition != in.table.Edition(e.Account) || len(c.matched) > batchRows-rows {
		c = in.choose(e, rows)
	}
	if c.tooMany {
		return store.NewEvent{}, tooManyInOrder(p, j)
	}
	return store.NewEvent{Event: *e, Deliveries: in.deliveries(e, c.matched), FanOutUpTo: c.fanOutUpTo}, nil
}

// tooManyInOrder returns the error of an event that would need a fan-out job but must not have one.
func tooManyInOrder(p *publish, j int) error {
	field := "ordering_key"
	if len(p.events) > 1 {
		field = fmt.Sprintf("events[%d].ordering_key", j)
	}
	return &postrider.InvalidError{Field: field, Code: postrider.FaultNotAllowed, Reason: fmt.Sprintf(
		"must not be there: an endpoint wants order. It needs fast filters, at most %d endpoints an event and %d deliveries a batch",
		batchRows, orderedRows,
	)}
}

// deliveries makes an event's deliveries to the endpoints that it matched. An endpoint with `order:
// by_key` gets a delivery that waits for earlier ones with the same ordering key. So does an
// endpoint whose Order cannot be read. If it wants no order, it is only slower; if it wants order
// and did not get it, the order could not be restored later.
func (in *Ingest) deliveries(e *postrider.Event, matched []*store.EndpointSnapshot) []store.NewDelivery {
	deliveries := make([]store.NewDelivery, len(matched))
	next := store.NewDeliveryIDs(in.opts.IDs, e.ID)
	for i, to := range matched {
		d := delivery(next(), to, postrider.LaneFirst)
		if e.OrderingKey != "" && d.Skipped == "" && to.Endpoint.Policy.Order != postrider.OrderNone {
			d.Ordered = to.Endpoint.Policy.OnDead
		}
		deliveries[i] = d
	}
	return deliveries
}

// delivery makes a delivery to an endpoint. If the endpoint is disabled or deleted, or its backlog
// is full, it makes a skipped delivery. If the endpoint's condition failed, the delivery gets no attempt.
func delivery(id postrider.DeliveryID, to *store.EndpointSnapshot, lane postrider.Lane) store.NewDelivery {
	d := store.NewDelivery{
		ID:       id,
		Endpoint: to.Endpoint.ID,
		Lane:     lane,
		Expiry:   to.Endpoint.Policy.Expiry,
	}
	if to.FilterFailed { // it becomes a dead letter at once
		d.Step = postrider.StepFilterFailed
	} else {
		d.Wait = to.Endpoint.Policy.Retry.Delay(d.ID, 0)
	}
	switch to.Endpoint.Status {
	case postrider.EndpointDisabled:
		d.Skipped = postrider.ReasonEndpointDisabled
	case postrider.EndpointDeleted:
		d.Skipped = postrider.ReasonEndpointDeleted
	case postrider.EndpointEnabled, postrider.EndpointPaused:
		if !to.Endpoint.FullSince.IsZero() {
			d.Skipped = postrider.ReasonBacklogFull
		}
	}
	return d
}

// admissible yields the deliveries that may start as soon as they are committed: all except those
// that are skipped, get no attempt, are delayed by the retry policy, or have an ordering key.
func admissible(batches []store.Batch) iter.Seq[*store.NewDelivery] {
	return func(yield func(*store.NewDelivery) bool) {
		for _, batch := range batches {
			for i := range batch {
				for j := range batch[i].Deliveries {
					d := &batch[i].Deliveries[j]
					if d.Skipped == "" && d.Step == 0 && d.Wait == 0 && d.Ordered == "" && !yield(d) {
						return
					}
				}
			}
		}
	}
}

// admissions returns the questions for the dispatcher, one for each admissible delivery.
func admissions(batches []store.Batch) []schedule.Admission {
	n := 0
	for range admissible(batches) {
		n++
	}
	ask := make([]schedule.Admission, 0, n)
	for d := range admissible(batches) {
		ask = append(ask, schedule.Admission{Endpoint: d.Endpoint, Lane: d.Lane})
	}
	return ask
}

// lease sets the leases that the dispatcher granted, which are in the order of the questions. It
// returns how many deliveries got one.
func lease(batches []store.Batch, g schedule.Grant) (leased int) {
	i := 0
	for d := range admissible(batches) {
		l := g.Lease(i)
		d.Lease, d.Token = l.For, l.Token
		if d.Token != 0 {
			leased++
		}
		i++
	}
	return leased
}

// respond sets the results of a group's publishes, and adds their deliveries to Started or Waiting.
// A duplicate made no deliveries: its receipt has the id of the first event. Leases that were
// granted for it are free again, because its deliveries are not in Started.
func (in *Ingest) respond(c *schedule.DeliveriesCommitted, group []*publish, batches []store.Batch, published []store.Published) {
	for i, p := range group {
		stored := published[i]
		if stored.Locked != nil {
			p.err = stored.Locked
			continue
		}
		if stored.Events == nil {
			p.err = &postrider.KeyTakenError{Index: stored.Conflict}
			continue
		}
		p.receipts = append(p.one[:0], make([]postrider.Receipt, len(p.events))...)
		for j := range batches[i] {
			e := &batches[i][j]
			if stored.Events[j].Duplicate {
				p.receipts[j] = postrider.Receipt{ID: stored.Events[j].ID, Duplicate: true}
				continue
			}
			e.Event.Sequence = stored.Events[j].Sequence
			p.receipts[j] = in.receipt(e)
			in.addDeliveries(c, e)
		}
	}
}

// receipt returns the receipt of a stored event. If the event has a fan-out job, it wakes
// runFanOuts.
func (in *Ingest) receipt(e *store.NewEvent) postrider.Receipt {
	r := postrider.Receipt{ID: e.Event.ID}
	for _, d := range e.Deliveries {
		if d.Skipped == "" {
			r.Deliveries++
		}
	}
	if !e.FanOutUpTo.IsZero() {
		r.FanOut = true
		in.fanOuts.Set()
	}
	return r
}

// addDeliveries adds an event's deliveries to Started if they have a lease, and to Waiting
// otherwise.
func (in *Ingest) addDeliveries(c *schedule.DeliveriesCommitted, e *store.NewEvent) {
	now := in.opts.Clock.Now()
	for k := range e.Deliveries {
		d := &e.Deliveries[k]
		switch {
		case d.Skipped != "":
		case d.Token == 0:
			c.Waiting = append(c.Waiting, store.DueLane{Endpoint: d.Endpoint, Lane: d.Lane, In: d.Wait})
		default:
			c.Started = append(c.Started, postrider.Claimed{
				ID: d.ID, Endpoint: d.Endpoint, Event: &e.Event, Lane: d.Lane,
				Attempt: 1, Token: d.Token, ExpiresAt: now.Add(d.Expiry),
			})
		}
	}
}
