package ingest

import (
	"context"
	"fmt"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/routing"
	"github.com/postrider/postrider/internal/store"
)

// choice says who gets an event: the endpoints that matched, those of a fan-out job, or nobody, because
// too many want it in order.
type choice struct {
	edition    int64 // of the account's endpoints, as it was before they were matched
	matched    []*store.EndpointSnapshot
	fanOutUpTo postrider.EndpointID // zero: no fan-out job
	tooMany    bool
}

// choose matches an event. There is a fan-out job if more than FanOutAbove match, or more than its batch
// may still have after the rows that it already has. The job ends with the last endpoint that matches now,
// so endpoints that are created later do not get the event. An event that some endpoint wants in order
// gets no job: it is matched again with a larger limit, or refused.
func (in *Ingest) choose(e *postrider.Event, rows int) choice {
	matched, last := in.table.Match(e, max(0, min(in.opts.FanOutAbove, batchRows-rows)))
	if matched != nil || last.IsZero() {
		return choice{matched: matched}
	}
	if e.OrderingKey == "" || !in.table.WantsOrder(e) {
		return choice{fanOutUpTo: last}
	}
	matched, _ = in.table.Match(e, max(0, min(batchRows, orderedRows-rows)))
	return choice{matched: matched, tooMany: matched == nil}
}

// chooseAhead chooses for the events of accounts with filters, in the goroutine of the caller. Filters and
// conditions may take milliseconds. Between two commits all accounts would wait for them. The error says
// that those of an account took more than their share of time, or that ctx has ended.
func (in *Ingest) chooseAhead(ctx context.Context, p *publish) error {
	if !p.only.IsZero() {
		return nil
	}
	plain := postrider.AccountID{} // the last account without filters
	for i := range p.events {
		if p.events[i].Account == plain {
			continue
		}
		filtered, err := in.chooseOne(ctx, p, i)
		if err != nil {
			return err
		}
		if filtered && ctx.Err() != nil {
			return fmt.Errorf("publish: not stored: %w", context.Cause(ctx))
		}
		if !filtered {
			plain = p.events[i].Account
		}
	}
	return nil
}

// restAfter is how long an event of a batch is compared before the comparisons rest for as long.
const restAfter = 500 * time.Microsecond

// chooseOne chooses for event i, unless its account has no filters.
func (in *Ingest) chooseOne(ctx context.Context, p *publish, i int) (filtered bool, err error) {
	e := &p.events[i]
	end, filtered := in.table.Turn(e.Account)
	if !filtered {
		return false, nil
	}
	defer end()
	// A batch that has begun goes on. The server's own events are never refused: package notify publishes
	// those of many accounts together, and one account would stop them all.
	if (i == 0 || p.events[i-1].Account != e.Account) && !postrider.IsOperational(e.Type) {
		if wait := in.table.EvaluationWait(e.Account); wait > 0 {
			return true, &postrider.QuotaError{
				Account: e.Account, Quota: postrider.QuotaFilters, Limit: routing.EvaluationPercent, RetryAfter: wait,
			}
		}
	}
	in.identify(e)
	edition, begun := in.table.Edition(e.Account), time.Now()
	c := in.choose(e, 0)
	if worked := time.Since(begun); worked > restAfter && i+1 < len(p.events) {
		batch.Sleep(ctx, worked)
	}
	if c.edition = edition; p.ahead == nil {
		p.ahead = map[int]choice{}
	}
	p.ahead[i] = c
	return true, nil
}

// identify gives an event its id and time, unless it has them.
func (in *Ingest) identify(e *postrider.Event) {
	if e.ID.IsZero() {
		e.ID = store.NewEventID(in.opts.IDs)
		e.CreatedAt = e.ID.Time()
	}
}
