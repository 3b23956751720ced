package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// continueSQL records an attempt, and raises the number of the lease's attempt. It does so only
// if the row has the token and the number. If the row has the token and the next number, the call
// is a repeat. A record with this number may exist: a stale one, from when the number was
// released unused and given again. The statement walks queue_pkey.
const continueSQL = `
	with continued as (
		update queue q
		set claims = q.claims + 1
		where q.id = @id and q.token = @token and q.claims = @number
		returning q.id
	), recorded as (
		insert into attempts (delivery, number, named_event, endpoint, account, type, outcome, status_code, error, retry_after, started_at,
			duration, stale, status_after, next_at, replayed_from, replay_job, final_url, timing)
		select c.id, @number, @named_event, @endpoint, @account, @type, @outcome, @status_code, @error, @retry_after, @started_at,
			@duration, false, 'pending', now(), @replayed_from, @replay_job, @final_url, @timing
		from continued c
		` + replaceRecordSQL + `
	), kept as (
		insert into attempt_bodies (delivery, number, request_head, response_head, response_body)
		select c.id, @number, @request_head, @response_head, @response_body
		from continued c
		on conflict (delivery, number) do nothing
	), counted as (
		insert into rollup_deltas (at, counted)
		select now(), @counted
		from continued
	)
	select exists (select from continued) or exists (
		select
		from queue q
		where q.id = @id and q.token = @token and q.claims = @number + 1)`

// Continue records an attempt that is followed by another one under the same lease; see
// [store.Queue].
func (s *Store) Continue(ctx context.Context, c postrider.Claimed, a postrider.Attempt) (err error) {
	defer s.calls.Begin("Continue").End(&err, "continue delivery")
	args := continueArgs(&c, &a)
	var continued bool
	err = s.repeat(ctx, func(bool) error { return s.pool.QueryRow(ctx, continueSQL, args).Scan(&continued) })
	if err == nil && !continued {
		err = postrider.ErrFenced
	}
	return err
}

func continueArgs(c *postrider.Claimed, a *postrider.Attempt) pgx.NamedArgs {
	var counted store.Deltas
	counted.Record(store.DeltaKey{Account: c.Event.Account, Endpoint: c.Endpoint, Type: c.Event.Type}, a.Outcome, c.Attempt, postrider.Pending)
	return pgx.NamedArgs{
		"id": someUUID(c.ID), "token": int64(c.Token), "number": c.Attempt, "named_event": uuid(store.NamedEvent(c.ID, c.Event.ID)),
		"endpoint": someUUID(c.Endpoint), "account": someUUID(c.Event.Account), "type": c.Event.Type,
		"outcome": string(a.Outcome), "status_code": a.StatusCode, "error": a.Error, "retry_after": micros(a.RetryAfter),
		"started_at": pgtype.Timestamptz{Time: a.StartedAt, Valid: true}, "duration": micros(a.Duration),
		"replayed_from": uuid(c.ReplayedFrom), "replay_job": uuid(c.ReplayJob),
		"final_url": text(a.FinalURL), "timing": store.EncodeTiming(a.Timing), "counted": counted.Bytes(),
		"request_head": bytesOrNull(a.RequestHead), "response_head": bytesOrNull(a.ResponseHead),
		"response_body": bytesOrNull(a.ResponseBody),
	}
}
