package sqlstore

import (
	"context"
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// expungeStep names rows that an expunge removes.
type expungeStep struct {
	table string
	key   string // its columns, with commas
	where string // with the parameters @object, @name and @account: the id of what is removed, its text, and its account
	count func(*postrider.ExpungeCounts) *int
}

func letters(c *postrider.ExpungeCounts) *int { return &c.DeadLetters }

func subscriptions(c *postrider.ExpungeCounts) *int { return &c.Subscriptions }

func others(c *postrider.ExpungeCounts) *int { return &c.Other }

// expungePlan says in which order the rows of an expunge are removed: the attempts, the steps, the
// events, and then the texts of rows that stay. A step ends when it finds no more rows.
type expungePlan struct {
	object   [16]byte // the value of @object
	name     string   // its text: the value of @name
	attempts []string // conditions of the attempts, whose heads and bodies go with them
	events   string   // condition of the events, whose keys go with them; empty: none
	steps    []expungeStep
	blank    []string // statements that remove texts of rows that stay; each changes only rows that have some
	waits    string   // condition for exists: the caller has something to end before
}

// blankEndpointsSQL removes the texts of deleted endpoints. Their policy becomes
// the policy of a new endpoint.
const blankEndpointsSQL = `
	update endpoints
	set url = case kind when 'http' then '` + postrider.ExpungedURL + `' else '' end,
		uid = null, description = '', metadata = null, status_reason = '', event_types = @no_types, policy = @policy, credentials = null
	where status = 'deleted' and (url not in ('', '` + postrider.ExpungedURL +
	`') or uid is not null or metadata is not null or description <> '' or event_types <> @no_types) and `

// planExpunge returns the plan of an expunge.
func planExpunge(e postrider.Expunge) expungePlan {
	switch {
	case !e.Event.IsZero():
		return expungePlan{
			object: e.Event, name: e.Event.String(),
			attempts: []string{"delivery >= @object and delivery <= postrider_last_delivery(@object)", "named_event = @object"},
			events:   "id = @object",
			steps: []expungeStep{
				{"dead_letters", "delivery", "event = @object and resolved_at is not null", letters},
				{"inspections", "id", "event = @object", others},
				{"fanouts", "event", "event = @object", others},
				{"restored_records", "id, number, kind", "event = @object", others},
				{"what_ifs", "account", "account = @account", others}, // its examples may have values of the event
			},
			waits: `select 1 from queue where id >= @object and id <= postrider_last_delivery(@object)
				union all select 1 from queue where named_event = @object
				union all select 1 from dead_letters where event = @object and resolved_at is null`,
		}
	case !e.Endpoint.IsZero():
		return expungePlan{
			object: e.Endpoint, name: e.Endpoint.String(), attempts: []string{"endpoint = @object"},
			steps: append(
				ofEndpoints("= @object"), expungeStep{"dead_letters", "delivery", "endpoint = @object", letters},
				expungeStep{"notices", "id", "object = @name", others},
				expungeStep{"restored_records", "id, number, kind", "endpoint = @object", others},
				expungeStep{"what_ifs", "account", "account = @account and endpoint = @object", others},
			),
			blank: []string{blankEndpointsSQL + "id = @object"},
			waits: `select 1 from queue where endpoint = @object union all select 1 from endpoints where id = @object and status <> 'deleted'`,
		}
	}
	return expungePlan{
		object: e.Account, name: e.Account.String(), attempts: []string{"account = @object"}, events: "account = @object",
		steps: append([]expungeStep{
			{"dead_letters", "delivery", "account = @object", letters},
			{"fanouts", "event", "account = @object", others},
			{"notices", "id", "account = @object", others},
			{"notice_destinations", "id", "account = @object", others},
			{"quotas", "account", "account = @object", others},
			{"quota_use", "account", "account = @object", others},
			{"restored_records", "id, number, kind", "account = @object", others},
			{"what_ifs", "account", "account = @object", others},
			{"sessions", "id", "account = @object", others},
			{"replay_jobs", "id", "account = @object", others},
			{"search_terms", "term, id", "account = @object", others},
			{"rollups", "scope, type, step, at", "scope = @object", others},
		}, ofEndpoints("in (select id from endpoints where account = @object)")...),
		blank: []string{
			blankEndpointsSQL + "account = @object",
			`update api_keys set name = '' where account = @object and name <> ''`,
			`update accounts set name = '', uid = null, metadata = null
				where id = @object and deleted_at is not null and (name <> '' or uid is not null or metadata is not null)`,
		},
		waits: `select 1 from queue where endpoint in (select id from endpoints where account = @object)
			union all select 1 from endpoints where account = @object and status <> 'deleted'
			union all select 1 from accounts where id = @object and deleted_at is null`,
	}
}

// ofEndpoints returns the steps of the tables that have rows of endpoints.
func ofEndpoints(are string) []expungeStep {
	return []expungeStep{
		{"inspections", "id", "endpoint " + are, others},
		{"endpoint_health", "endpoint, number", "endpoint " + are, others},
		{"past_subscriptions", "endpoint, until", "endpoint " + are, subscriptions},
		{"endpoint_secrets", "id", "endpoint " + are, others},
		{"circuits", "endpoint", "endpoint " + are, others},
		{"paused_keys", "endpoint, ordering_key", "endpoint " + are, others},
		{"search_terms", "term, id", "id " + are, others},
		{"rollups", "scope, type, step, at", "scope " + are, others},
	}
}

// expunging is one chunk of an expunge.
type expunging struct {
	expungePlan

	tx          Tx
	eventTables []string
	expunge     *postrider.Expunge
	removed     postrider.ExpungeCounts
	left        int // rows that the chunk may still remove
}

// args are the arguments of the plan's statements.
func (x *expunging) args() Args {
	return Args{"object": x.object, "name": x.name, "account": x.expunge.Account, "limit": x.left}
}

// first returns a condition for the first @limit rows of a table for which where is true.
func first(table, key, where string) string {
	return ` where (` + key + `) in (select ` + key + ` from ` + table + ` where ` + where + ` limit @limit)`
}

// count counts rows that were removed.
func (x *expunging) count(counter *int, n int) {
	*counter += n
	x.left -= n
}

// run removes rows until the chunk is full.
func (x *expunging) run(ctx context.Context) error {
	policy, err := store.EncodePolicy(postrider.DefaultPolicy())
	if err != nil {
		return err
	}
	var steps []func() error
	for _, where := range x.attempts {
		steps = append(steps, func() error { return x.deleteAttempts(ctx, where) })
	}
	for _, s := range x.steps {
		steps = append(steps, func() error {
			n, err := x.tx.Exec(ctx, Query{`delete from ` + s.table + first(s.table, s.key, s.where), x.args()})
			x.count(s.count(&x.removed), int(n))
			return err
		})
	}
	if x.events != "" {
		for _, table := range x.eventTables {
			steps = append(steps, func() error { return x.deleteEvents(ctx, table) })
		}
	}
	for _, statement := range x.blank {
		steps = append(steps, func() error {
			n, err := x.tx.Exec(ctx, Query{statement, Args{"object": x.object, "policy": string(policy), "no_types": []string{}}})
			x.count(&x.removed.Other, int(n))
			return err
		})
	}
	for _, step := range steps {
		if err := step(); err != nil || x.left <= 0 {
			return err
		}
	}
	return nil
}

// The statement walks the primary key. All attempts of a delivery are removed in the end, so their
// heads and bodies may be removed together, before some of the attempts.
const expungeBodiesSQL = `delete from attempt_bodies where delivery = any(@deliveries::uuid[]) returning delivery`

// deleteAttempts removes attempts for which where is true, with their heads and bodies.
func (x *expunging) deleteAttempts(ctx context.Context, where string) error {
	id := func(row Row, id *store.RowID) error { return row.Scan(id) }
	statement := `delete from attempts` + first("attempts", "delivery, number", where) + ` returning delivery`
	deliveries, err := all(ctx, x.tx, Query{statement, x.args()}, id)
	if err != nil || len(deliveries) == 0 {
		return err
	}
	x.count(&x.removed.Attempts, len(deliveries))
	bodies, err := all(ctx, x.tx, Query{expungeBodiesSQL, Args{"deliveries": deliveries}}, id)
	if err == nil {
		err = CountRemoved(ctx, x.tx, store.OldAttempts, deliveries)
	}
	if err == nil {
		err = CountRemoved(ctx, x.tx, store.OldBodies, bodies)
	}
	return err
}

// The statements walk the primary keys.
const (
	expungeKeysSQL = `
	delete from idempotency_keys
	where key = any(@keys::text[]) and account = @account and event = any(@events::uuid[])`
	expungeSequencesSQL = `delete from ordering_keys where ordering_key = any(@sequences::text[]) and account = @account`
	expungeRowsSQL      = `delete from outbox_rows where id = any(@rows::uuid[])`
)

// deleteEvents removes events with their terms and their idempotency keys. If the expunge is of an account, it also
// removes their ordering keys and the records of their outbox rows. (The record of a single event stays, or its row
// could be read, and the event be sent, again.) It adds the events to the digest in the order of their ids. An event of
// a day that retention is about to drop has a copy among the kept events. The copy is removed with the
// event, and is not counted.
func (x *expunging) deleteEvents(ctx context.Context, table string) error {
	statement := `delete from ` + table + first(table, "id", x.events+` order by id`) + `
	returning id, data, coalesce(idempotency_key, ''), ordering_key, about`
	found, err := all(ctx, x.tx, Query{statement, x.args()}, func(row Row, e *postrider.Event) error {
		var about []byte
		err := row.Scan(&e.ID, &e.Data, &e.IdempotencyKey, &e.OrderingKey, &about)
		_ = store.DecodeAbout(e, about) // an event that cannot be read is removed too
		return err
	})
	if err != nil || len(found) == 0 {
		return err
	}
	x.count(&x.removed.Events, len(found))
	slices.SortFunc(found, func(a, b postrider.Event) int { return a.ID.Compare(b.ID) })
	var ids []store.RowID
	var rows []postrider.OutboxID
	var keys, sequences []string
	for _, e := range found {
		x.expunge.Digest.Add(e.ID, e.Data)
		ids, keys = append(ids, store.RowID(e.ID)), append(keys, e.IdempotencyKey)
		if e.OrderingKey != "" && x.expunge.Event.IsZero() {
			sequences = append(sequences, e.OrderingKey)
		}
		if !e.Row.IsZero() && x.expunge.Event.IsZero() {
			rows = append(rows, e.Row)
		}
	}
	args := Args{"keys": keys, "events": ids, "account": x.expunge.Account, "sequences": sequences, "rows": rows}
	terms, err := RemoveTerms(ctx, x.tx, ids)
	x.count(&x.removed.Terms, int(terms))
	if err == nil {
		_, err = x.tx.Exec(ctx, Query{expungeKeysSQL, args})
	}
	if err == nil && len(sequences) > 0 {
		_, err = x.tx.Exec(ctx, Query{expungeSequencesSQL, args})
	}
	if err == nil && len(rows) > 0 {
		_, err = x.tx.Exec(ctx, Query{expungeRowsSQL, args})
	}
	if err != nil || table != "events" { // kept events were counted when their day was deleted
		return err
	}
	for _, copies := range x.eventTables[1:] {
		if _, err := x.tx.Exec(ctx, Query{`delete from ` + copies + ` where id = any(@events::uuid[])`, args}); err != nil {
			return err
		}
	}
	return CountRemoved(ctx, x.tx, store.OldEvents, ids)
}

// The statements walk idempotency_keys_created_at, and the primary key of idempotency_keys.
const (
	timesOfKeysSQL = `
	select (select min(created_at) from idempotency_keys), (select max(created_at) from idempotency_keys)`
	keysOfTimeSQL = `
	select key
	from idempotency_keys
	where created_at >= @from and created_at < @to and account = @account and (@event::uuid is null or event = @event::uuid)`
	expungeLeftKeysSQL = `delete from idempotency_keys where key = any(@keys::text[]) and account = @account`
)

// expungeKeys removes the idempotency keys of events that retention has deleted, since a key may be kept for longer
// than its event. Keys have no index by account: every publish would write it. So expungeKeys reads the
// keys of all accounts, a minute of them at a time, in no transaction; for an event, those that were made when its
// id was.
func (v Verbs) expungeKeys(ctx context.Context, e postrider.Expunge, limit int) (removed int, err error) {
	span := store.Span{From: e.Event.Time().Add(-10 * time.Minute), To: e.Event.Time().Add(10 * time.Minute)}
	if e.Event.IsZero() {
		span, err = one(ctx, v.db, Query{timesOfKeysSQL, nil}, func(row Row, s *store.Span) error { return row.Scan(&s.From, &s.To) })
	}
	if err != nil || span.From.IsZero() { // there are no keys
		return 0, err
	}
	for from := span.From; !from.After(span.To); from = from.Add(time.Minute) {
		args := Args{"from": from, "to": from.Add(time.Minute), "account": e.Account, "event": OrNull(e.Event)}
		found, err := all(ctx, v.db, Query{keysOfTimeSQL, args}, func(row Row, key *string) error { return row.Scan(key) })
		if err != nil {
			return removed, err
		}
		for keys := range slices.Chunk(found, limit) {
			n, err := v.db.Exec(ctx, Bulk, Query{expungeLeftKeysSQL, Args{"keys": keys, "account": e.Account}})
			if err != nil {
				return removed, err
			}
			removed += int(n)
		}
	}
	return removed, nil
}
