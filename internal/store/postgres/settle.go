package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// settleSQL settles a group of attempts in one statement, in five steps that see one snapshot:
//
// found joins each settlement with its row of the queue by id and token. The token is the fence:
// a row has it from the claim until the lease is settled, released or taken over. A settlement
// whose lease was taken over finds no row, and can change nothing.
//
// ended and moved change the rows. Deliveries that are delivered or dead leave the queue; those
// that are pending get their next time. Both steps test the token again. Between the snapshot and
// the row's lock another node may have taken the lease over; then the second test, which
// PostgreSQL makes on the newest version of the row, fails.
//
// checked marks every settlement as stale whose row neither ended nor moved.
//
// recorded writes one row of attempts for each settlement, stale or not: a request that left is
// always in the history.
//
// whole, counted and counted_late insert one delta of the rollups (see countSettledSQL).
//
// A delivery that succeeds at once costs this statement two row writes: one delete from queue and
// one insert into attempts. The statement walks queue_pkey, one probe for each settlement, and
// updates by ctid (see claimSQL for the reason).
const settleSQL = fenceSQL + recordSQL

// settleDeadSQL is settleSQL for groups in which a delivery becomes a dead letter.
const settleDeadSQL = fenceSQL + insertDeadLetterSQL + recordSQL

// fenceSQL decides which settlements count. The part moved keeps bulk deliveries in their lane
// and sends others to the retry lane. It sets losses to 0, because the node lived to settle. The
// arrays of checked are in the same order as those of found; place joins the two.
const fenceSQL = `
	with found as materialized (
		select s.place, s.token, s.status, s.step, s.after, q.at
		from unnest(@ids::uuid[], @tokens::bigint[], @statuses::text[], @steps::int[], @afters::bigint[])
			with ordinality as s (id, token, status, step, after, place)
		cross join lateral (
			select q.ctid as at
			from queue q
			where q.id = s.id and q.token = s.token
			limit 1
		) q
	), ended as (
		delete from queue q
		using found s
		where q.ctid = s.at and q.token = s.token and s.status <> 'pending'
		returning s.place
	), moved as (
		update queue q
		set token = null, due_at = @now::timestamptz + s.after * interval '1 microsecond', step = s.step, losses = 0, deaths_alone = 0,
			lane = case q.lane when 2 then 2 else 1 end
		from found s
		where q.ctid = s.at and q.token = s.token and s.status = 'pending'
		returning s.place
	), checked as materialized (
		select s.*, s.place not in (select place from ended union all select place from moved) as stale
		from unnest(@ids::uuid[], @numbers::int[], @named_events::uuid[], @endpoints::uuid[], @accounts::uuid[], @types::text[],
			@outcomes::text[], @status_codes::smallint[], @errors::text[], @retry_afters::bigint[],
			@started_at::timestamptz[], @durations::bigint[], @statuses::text[], @reasons::text[], @afters::bigint[],
			@replayed_from::uuid[], @replay_jobs::uuid[], @response_starts::bytea[], @final_urls::text[], @timings::bytea[],
			@response_heads::bytea[])
			with ordinality as s (id, number, named_event, endpoint, account, type, outcome, status_code, error,
				retry_after, started_at, duration, status, reason, after, replayed_from, replay_job, response_start, final_url, timing,
				response_head, place)
	)`

// These expressions return the last status code and the last error of the attempts of a delivery
// d that becomes a dead letter. The table attempts has a partition for each day of the delivery's
// id. The id comes from another table, so the plan has every partition, but only the partition of
// the id is probed. The conditions name account and endpoint although the delivery is enough:
// without them another index would look as cheap on an empty partition. Both walk attempts_pkey
// backwards.
const (
	lastStatusCodeSQL = `coalesce((
				select a.status_code
				from attempts a
				where a.delivery = d.id and a.account = d.account and a.endpoint = d.endpoint and a.status_code <> 0
				order by a.number desc
				limit 1), 0)`
	lastErrorSQL = `coalesce((
				select a.error
				from attempts a
				where a.delivery = d.id and a.account = d.account and a.endpoint = d.endpoint and a.outcome <> 'none'
				order by a.number desc
				limit 1), '')`
)

// insertDeadLetterSQL writes the dead letters of the group, with the last status code and the
// last error. Often the last attempt has no status code (a timeout), or there was no last attempt
// (the delivery expired); then earlier attempts are read.
//
// That costs 3 µs of planning for each settlement of a group, even without a dead letter. So this
// part is in the statement only if the group has a dead letter.
const insertDeadLetterSQL = `, dead_letter as (
		insert into dead_letters (delivery, event, endpoint, account, type, reason, attempts, last_status_code,
			last_error, replayed_from, replay_job, died_at)
		select d.id, postrider_event(d.id, d.named_event), d.endpoint, d.account, d.type, d.reason, d.number - (d.outcome = 'none')::int,
			case when d.status_code <> 0 then d.status_code else ` + lastStatusCodeSQL + ` end,
			case when d.outcome <> 'none' then d.error else ` + lastErrorSQL + ` end,
			d.replayed_from, d.replay_job, now()
		from checked d
		where d.status = 'dead' and not d.stale
		on conflict (delivery) do nothing
	)`

// replaceRecordSQL replaces the record with the same number.
const replaceRecordSQL = `on conflict (delivery, number) do update
		set outcome = excluded.outcome, status_code = excluded.status_code, error = excluded.error,
			retry_after = excluded.retry_after, started_at = excluded.started_at, duration = excluded.duration,
			stale = excluded.stale, status_after = excluded.status_after, next_at = excluded.next_at,
			response_start = excluded.response_start, final_url = excluded.final_url, timing = excluded.timing,
			response_head = excluded.response_head`

// recordSQL writes the records. (delivery, number) is unique, and an existing record is replaced
// in two cases only:
//
//   - The existing record is lost and the new one is not. The node was believed dead when its
//     lease was taken over, and now reports what happened: a response, an error, or that no
//     request left (outcome none).
//   - The existing record is stale and the new one is not. The number was released unused and
//     given again, and the record of the holder of the lease is the right one.
//
// In every other case the statement is a repeat after a lost reply, and the first record stays.
// That makes Settle safe to repeat.
//
// A stale attempt changed no delivery, so its status_after is pending and its next_at is null,
// whatever its transition was.
const recordSQL = `, recorded as (
		insert into attempts as a (delivery, number, named_event, endpoint, account, type, outcome, status_code, error,
			retry_after, started_at, duration, stale, status_after, next_at, replayed_from, replay_job, response_start,
			final_url, timing, response_head)
		select c.id, c.number, c.named_event, c.endpoint, c.account, c.type, c.outcome, c.status_code, c.error,
			c.retry_after, c.started_at, c.duration, c.stale, case when c.stale then 'pending' else c.status end,
			case when c.status = 'pending' and not c.stale then now() + c.after * interval '1 microsecond' end,
			c.replayed_from, c.replay_job, c.response_start, c.final_url, c.timing, c.response_head
		from checked c
		` + replaceRecordSQL + `,
			was_lost = case when a.outcome = 'lost' then true end
		where (a.outcome = 'lost' and excluded.outcome <> 'lost') or (a.stale and not excluded.stale)
		returning a.delivery, a.number, a.was_lost
	)` + countSettledSQL + `
	select c.stale
	from checked c
	order by c.place`

// countSettledSQL counts the group for the rollups. Nearly always every settlement counts; then
// the delta is @counted, which the caller has computed from the group. If some settlements are
// stale, the statement computes the delta: from the settlements that are not stale, and from the
// stale ones with a new record. A stale settlement that replaced a lost record was counted as
// lost before, and one that changed no record is a repeat.
const countSettledSQL = `, whole as materialized (
		select not exists (select from checked where stale) as whole
	), counted as (
		insert into rollup_deltas (at, counted)
		select now(), @counted::bytea
		from whole w
		where w.whole and @counted::bytea is not null
	), counted_late as (
		` + insertDeltaSQL + `
		select c.endpoint, c.account, c.type, c.outcome, c.number, case when c.stale then 'pending' else c.status end as status
		from whole w
		cross join checked c
		left join recorded r on r.delivery = c.id and r.number = c.number and r.was_lost is null
		where not w.whole and (not c.stale or r.delivery is not null)
		` + insertDeltaEnd + `
	)`

// settledSQL finds the settlements that look stale although an earlier run has stored them: their
// record exists and is neither stale nor lost. This happens when the reply to Settle was lost.
// The first run has removed the row of the queue, so the repeat finds no token.
//
// It is a separate statement, with a new snapshot. If the first run was still committing,
// settleSQL waited for it, but saw the snapshot from before. It walks attempts_pkey.
const settledSQL = `
	select s.place - 1
	from unnest(@ids::uuid[], @numbers::int[], @accounts::uuid[], @endpoints::uuid[])
		with ordinality as s (id, number, account, endpoint, place)
	cross join lateral (
		select
		from attempts a
		where a.delivery = s.id and a.number = s.number and a.account = s.account and a.endpoint = s.endpoint
			and not a.stale and a.outcome <> 'lost'
		limit 1
	) a`

// Settle records attempts and carries out their transitions, in one round trip; see
// [store.Queue]. If deliveries of events with an ordering key end, it needs two, because it locks
// the keys first.
//
// PostgreSQL refuses a statement that would write one row of attempts twice. That happens if a
// caller settles one attempt twice in a group, after a retry of its own. Then each settlement
// gets a transaction of its own, and the second one finds the record of the first.
//
// Settlements that need a stuck lock (see locks.go) are left out of the transaction.
func (s *Store) Settle(ctx context.Context, settlements []store.Settlement) (settled []store.Settled, err error) {
	defer s.calls.Begin("Settle").End(&err, "settle")
	locks := func() (keys []lockKey) {
		for i := range settlements {
			keys = append(keys, settleLocks(&settlements[i])...)
		}
		return keys
	}
	err = s.pastLocks(ctx, locks, func(without map[lockKey]bool) (err error) {
		settled, err = s.settleWithout(ctx, settlements, without)
		return err
	})
	if isCode(err, codeTwice) && len(settlements) > 1 { // the group has one attempt twice
		return s.settleEach(ctx, settlements)
	}
	return settled, err
}

// settleWithout settles the settlements of the group that need no stuck lock.
func (s *Store) settleWithout(ctx context.Context, settlements []store.Settlement, without map[lockKey]bool) ([]store.Settled, error) {
	if len(without) == 0 {
		return s.settle(ctx, settlements)
	}
	all := make([]store.Settled, len(settlements))
	var part []store.Settlement
	var places []int
	for i := range settlements {
		if all[i].Locked = isStuck(&settlements[i], without); !all[i].Locked {
			part, places = append(part, settlements[i]), append(places, i)
		}
	}
	if len(part) == 0 {
		return all, nil
	}
	settled, err := s.settle(ctx, part)
	for i := range settled {
		all[places[i]] = settled[i]
	}
	return all, err
}

// settle settles a group in one transaction. The transaction may run again: each run reads the
// time again, and findSettled finds what an earlier run has stored.
func (s *Store) settle(ctx context.Context, settlements []store.Settlement) ([]store.Settled, error) {
	columns, bodies := settleColumns(settlements)
	var stored func()
	columns.responseHeads, stored = s.heads.Encode(settlements)
	var settled []store.Settled
	queue := func(b *pgx.Batch) {
		statement := settleSQL
		if slices.Contains(columns.statuses, someText(postrider.Dead)) {
			statement = settleDeadSQL
		}
		b.Queue(statement, at(s.clock.Now(), columns.args())).Query(func(rows pgx.Rows) error {
			settled = make([]store.Settled, 0, len(settlements))
			var stale bool
			_, err := pgx.ForEachRow(rows, []any{&stale}, func() error {
				settled = append(settled, store.Settled{Stale: stale})
				return nil
			})
			return err
		})
		if len(bodies.deliveries) > 0 {
			b.Queue(insertBodiesSQL, bodies.args())
		}
	}
	keyed := columns.endedKeys(settlements)
	err := s.retry(ctx, true, 0, func(bool) error {
		var err error
		if len(keyed.ids) == 0 {
			b := &pgx.Batch{}
			queue(b)
			err = s.pool.SendBatch(ctx, b).Close()
		} else {
			err = s.settleOrdered(ctx, keyed, queue, func(place int, next postrider.Lane) { settled[place].Next = next })
		}
		if err != nil || !slices.ContainsFunc(settled, func(s store.Settled) bool { return s.Stale }) {
			return err
		}
		return s.findSettled(ctx, columns, settled)
	})
	if err == nil {
		stored()
	}
	return settled, err
}

// endedKeys are the settlements of a group that end a delivery of an event with an ordering key.
// Such an event can also have deliveries without an order, to endpoints that did not ask for it.
// Only the rows of the queue say which deliveries are ordered (orderedSQL).
type endedKeys struct {
	ids    uuids
	tokens []int64
	places []int  // index of the settlement in its group
	dead   []bool // whether the delivery becomes a dead letter
}

// endedKeys returns the settlements that may need the lock of an ordering key. A retry needs no
// lock, because its row stays the head.
func (c *settlementColumns) endedKeys(settlements []store.Settlement) (ended endedKeys) {
	for i := range settlements {
		s := &settlements[i]
		if s.Claimed.Event.OrderingKey == "" || s.Transition.To == postrider.Pending {
			continue
		}
		ended.ids, ended.tokens = append(ended.ids, c.ids[i]), append(ended.tokens, int64(s.Claimed.Token))
		ended.places, ended.dead = append(ended.places, i), append(ended.dead, s.Transition.To == postrider.Dead)
	}
	return ended
}

// settleOrdered runs the statements of queue, and advances the ordering keys of ended deliveries.
// The first round trip locks the keys and reads the positions; the second one settles, pauses the
// keys or makes the next heads due, and commits. It calls next with the lane of each new head.
func (s *Store) settleOrdered(
	ctx context.Context, keyed endedKeys, queue func(*pgx.Batch), next func(place int, lane postrider.Lane),
) error {
	return s.withConn(ctx, func(conn *pgxpool.Conn) error {
		positions, err := lockPositions(ctx, conn, keyed.ids, keyed.tokens)
		if err != nil {
			return err
		}
		var dead []position
		for _, p := range positions {
			if keyed.dead[p.place] {
				dead = append(dead, p)
			}
		}
		b := &pgx.Batch{}
		queue(b)
		lanes := s.queueAdvance(b, positions, dead)
		b.Queue(commitSQL)
		if err := conn.SendBatch(ctx, b).Close(); err != nil {
			return err
		}
		for _, p := range positions {
			next(keyed.places[p.place], lanes[orderedKey{p.endpoint, p.key}])
		}
		return nil
	})
}

// findSettled clears Stale for settlements that an earlier run has stored.
func (s *Store) findSettled(ctx context.Context, columns *settlementColumns, settled []store.Settled) error {
	rows, _ := s.pool.Query(ctx, settledSQL, columns.args())
	var place int
	_, err := pgx.ForEachRow(rows, []any{&place}, func() error {
		settled[place].Stale = false
		return nil
	})
	return err
}

// settleEach settles one settlement after the other, each in a transaction. After an error the
// first ones stay settled; the caller repeats the group, and the repeat finds them.
func (s *Store) settleEach(ctx context.Context, settlements []store.Settlement) ([]store.Settled, error) {
	all := make([]store.Settled, 0, len(settlements))
	for i := range settlements {
		settled, err := s.settle(ctx, settlements[i:i+1])
		if err != nil {
			return nil, fmt.Errorf("settle: %w", err)
		}
		all = append(all, settled...)
	}
	return all, nil
}

// settlementColumns are the columns of settleSQL, one array for each column. The statement is the
// same for one settlement and for a thousand, so it is planned once, and its text is constant.
type settlementColumns struct {
	ids, named, endpoints, accounts, replayedFrom, replayJobs uuids
	numbers, steps, tokens, statusCodes                       numbers
	retryAfters, durations, afters                            numbers
	types, outcomes, errors, statuses, reasons                texts
	finalURLs                                                 texts
	startedAt                                                 times
	responseStarts, timings                                   [][]byte
	responseHeads                                             [][]byte // set by settle; see store.Heads
	counted                                                   store.Deltas
}

func settleColumns(settlements []store.Settlement) (*settlementColumns, *bodyColumns) {
	columns, bodies := &settlementColumns{}, &bodyColumns{}
	for i := range settlements {
		columns.add(&settlements[i])
		bodies.add(settlements[i].Claimed.ID, &settlements[i].Attempt)
	}
	return columns, bodies
}

// add appends one settlement. The head and the first bytes of an accepted response are stored in
// the row itself; all other bodies are in attempt_bodies (see bodyColumns).
func (c *settlementColumns) add(s *store.Settlement) {
	claimed, attempt, transition := &s.Claimed, &s.Attempt, &s.Transition
	c.ids, c.named = append(c.ids, someUUID(claimed.ID)), append(c.named, uuid(store.NamedEvent(claimed.ID, claimed.Event.ID)))
	c.endpoints = append(c.endpoints, someUUID(claimed.Endpoint))
	c.accounts = append(c.accounts, someUUID(claimed.Event.Account))
	c.replayedFrom = append(c.replayedFrom, uuid(claimed.ReplayedFrom))
	c.replayJobs = append(c.replayJobs, uuid(claimed.ReplayJob))
	c.numbers, c.steps = append(c.numbers, number(claimed.Attempt)), append(c.steps, number(transition.Step))
	c.tokens, c.types = append(c.tokens, number(claimed.Token)), append(c.types, someText(claimed.Event.Type))
	c.outcomes, c.errors = append(c.outcomes, someText(attempt.Outcome)), append(c.errors, someText(errorOf(s)))
	c.statusCodes = append(c.statusCodes, number(attempt.StatusCode))
	c.retryAfters = append(c.retryAfters, micros(attempt.RetryAfter))
	started := pgtype.Timestamptz{Time: attempt.StartedAt, Valid: true}
	c.startedAt, c.durations = append(c.startedAt, started), append(c.durations, micros(attempt.Duration))
	c.statuses, c.reasons = append(c.statuses, someText(transition.To)), append(c.reasons, someText(transition.Reason))
	c.afters = append(c.afters, micros(transition.After))
	c.counted.Record(store.DeltaKey{Account: claimed.Event.Account, Endpoint: claimed.Endpoint, Type: claimed.Event.Type},
		attempt.Outcome, claimed.Attempt, transition.To)
	var start []byte
	if attempt.Outcome == postrider.OutcomeAccepted {
		start = bytesOrNull(attempt.ResponseBody[:min(len(attempt.ResponseBody), store.MaxAcceptedBody)])
	}
	c.responseStarts, c.finalURLs = append(c.responseStarts, start), append(c.finalURLs, text(attempt.FinalURL))
	c.timings = append(c.timings, store.EncodeTiming(attempt.Timing))
}

// errorOf returns the error of the record. A decision without a request (the delivery expired, or
// its bytes were deleted) has its reason as the error.
func errorOf(s *store.Settlement) string {
	if s.Attempt.Outcome == postrider.OutcomeNone && s.Attempt.Error == "" {
		return s.Transition.Reason
	}
	return s.Attempt.Error
}

func (c *settlementColumns) args() pgx.NamedArgs {
	return pgx.NamedArgs{
		"ids": c.ids, "numbers": c.numbers, "tokens": c.tokens, "named_events": c.named, "endpoints": c.endpoints,
		"accounts": c.accounts, "types": c.types, "outcomes": c.outcomes, "status_codes": c.statusCodes,
		"errors": c.errors, "retry_afters": c.retryAfters, "started_at": c.startedAt, "durations": c.durations,
		"statuses": c.statuses, "reasons": c.reasons, "steps": c.steps, "afters": c.afters,
		"replayed_from": c.replayedFrom, "response_starts": c.responseStarts, "final_urls": c.finalURLs,
		"replay_jobs": c.replayJobs, "timings": c.timings, "response_heads": c.responseHeads, "counted": c.counted.Bytes(),
	}
}

// On a repeat the bodies are already stored and stay. The bodies of stale settlements are stored
// too, because they belong to a request that left. The statement walks attempt_bodies_pkey.
const insertBodiesSQL = `
	insert into attempt_bodies (delivery, number, request_head, response_head, response_body)
	select *
	from unnest(@deliveries::uuid[], @numbers::int[], @request_heads::bytea[], @response_heads::bytea[],
		@response_bodies::bytea[])
	on conflict (delivery, number) do nothing`

// bodyColumns are the heads and bodies that get a row of attempt_bodies. An accepted attempt with
// a short body has no such row. That is nearly every attempt, and a second row would double the
// cost of a delivery.
type bodyColumns struct {
	deliveries                                  uuids
	numbers                                     []int32
	requestHeads, responseHeads, responseBodies [][]byte
}

func (c *bodyColumns) add(id postrider.DeliveryID, a *postrider.Attempt) {
	if store.InOneRow(a) {
		return
	}
	if len(a.RequestHead)+len(a.ResponseHead)+len(a.ResponseBody) == 0 {
		return
	}
	c.deliveries, c.numbers = append(c.deliveries, someUUID(id)), append(c.numbers, int32(a.Number))
	c.requestHeads = append(c.requestHeads, bytesOrNull(a.RequestHead))
	c.responseHeads = append(c.responseHeads, bytesOrNull(a.ResponseHead))
	c.responseBodies = append(c.responseBodies, bytesOrNull(a.ResponseBody))
}

func (c *bodyColumns) args() pgx.NamedArgs {
	return pgx.NamedArgs{
		"deliveries": c.deliveries, "numbers": c.numbers, "request_heads": c.requestHeads,
		"response_heads": c.responseHeads, "response_bodies": c.responseBodies,
	}
}
