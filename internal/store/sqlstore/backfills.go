package sqlstore

import (
	"context"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// undeliveredSQL looks at the next events of an account. The ids of most deliveries carry their event.
// The others name it: those of fan-out jobs, of replays and of backfills. A fan-out may have made a
// hundred thousand of them for one event, so they are looked at only if the endpoint can be among them:
// if it is no younger than the event, or if another backfill has made deliveries to it.
//
// The statement walks events_account, fanouts_pkey, queue_pkey, queue_event, attempts_endpoint,
// attempts_event, dead_letters_event and replay_jobs_account. The inner limit keeps both databases from
// merging the two selects, so each subquery runs once for each event.
const undeliveredSQL = `
	select d.id, d.type, case when d.sent then null else d.data end, case when d.sent then null else d.about end, d.fanning, d.sent
	from (
		select e.id, e.type, e.data, e.about, exists (select 1 from fanouts f where f.event = e.id) as fanning,
			exists (
				select 1
				from queue q
				where q.id >= e.id and q.id <= postrider_last_delivery(e.id) and q.endpoint = @endpoint)
			or exists (
				select 1
				from attempts a
				where a.endpoint = @endpoint and a.delivery >= e.id and a.delivery <= postrider_last_delivery(e.id))
			or (e.id >= @since or exists (
					select 1
					from replay_jobs j
					where j.account = @account and j.backfills = @endpoint and j.handled > 0 and j.id <> @job))
				and (exists (select 1 from queue q where q.named_event = e.id and q.endpoint = @endpoint)
					or exists (select 1 from attempts a where a.named_event = e.id and a.endpoint = @endpoint))
			or exists (select 1 from dead_letters l where l.event = e.id and l.endpoint = @endpoint) as sent
		from events e
		where e.account = @account and e.id >= @from and e.id < @before
		order by e.id
		limit @limit
	) d
	order by d.id`

// looked is an event that undeliveredSQL has looked at.
type looked struct {
	postrider.Event
	fanning bool // whether a fan-out job may still make a delivery of it
	sent    bool // whether it has a delivery to the endpoint
}

// Undelivered returns the next events without a delivery to an endpoint; see [store.Replays].
func (v Verbs) Undelivered(ctx context.Context, q store.UndeliveredQuery) (page store.Undelivered, err error) {
	defer v.calls.Begin("Undelivered").End(&err, "find events without a delivery to %s", q.Endpoint)
	// An endpoint is stored a moment after its id was made.
	since := postrider.MakeID[postrider.EventID](q.Endpoint.Time().Add(-time.Minute), [10]byte{})
	var events []looked
	err = v.db.Count(ctx, Query{undeliveredSQL, Args{
		"account": q.Account, "endpoint": q.Endpoint, "job": q.Job, "since": since, "from": q.From, "before": q.Before, "limit": q.Limit,
	}}, func(rows Rows) error {
		events = nil
		return collect(rows, &events, func(row Row, e *looked) error {
			var about []byte
			if err := row.Scan(&e.ID, &e.Type, &e.Data, &about, &e.fanning, &e.sent); err != nil {
				return err
			}
			e.Account, e.CreatedAt = q.Account, e.ID.Time()
			return store.DecodeAbout(&e.Event, about)
		})
	})
	page.Done = err == nil && len(events) < q.Limit
	for _, e := range events {
		if e.fanning && !e.sent {
			page.Done = false
			break
		}
		if page.To = e.ID; !e.sent {
			page.Events = append(page.Events, e.Event)
		}
	}
	return page, err
}
