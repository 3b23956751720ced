package sqlstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// A repeat stores nothing more: it finds the row of the first run.
const putReplayJobSQL = `
	insert into replay_jobs (id, account, action, backfills, filter, per_second, made_by, note, expected, expected_exact, status, error,
		cursor, held, handled, bytes_gone, replay_pending, endpoint_deleted, resolved, due_at, created_at)
	values (@id, @account, @action, @backfills, @filter, @per_second, @by, @note, @expected, @exact, 'running', '',
		@cursor, '', 0, 0, 0, 0, 0, @now, @created_at)
	on conflict (id) do nothing`

// PutReplayJob stores a new job; see [store.Replays].
func (v Verbs) PutReplayJob(ctx context.Context, job postrider.ReplayJob) (err error) {
	defer v.calls.Begin("PutReplayJob").End(&err, "put replay job %s", job.ID)
	filter, err := store.EncodeReplayFilter(job.Filter)
	if err != nil {
		return err
	}
	var backfills postrider.EndpointID
	if job.Action == postrider.ActionBackfill {
		backfills = job.Filter.Endpoint
	}
	return v.db.Change(ctx, Repeatable, func(ctx context.Context, tx Tx) error {
		_, err := tx.Exec(ctx, Query{putReplayJobSQL, Args{
			"id": job.ID, "account": OrNull(job.Filter.Account), "action": job.Action, "backfills": OrNull(backfills), "filter": filter,
			"per_second": job.PerSecond, "by": job.By, "note": job.Note, "expected": job.Expected.Matches, "exact": job.Expected.Exact,
			"cursor": postrider.DeliveryID{}, "now": tx.Now(), "created_at": job.CreatedAt,
		}})
		return err
	})
}

const (
	// replayJobColumns are the columns of a job, in the order of scanReplayJob.
	replayJobColumns = `id, action, filter, per_second, made_by, note, expected, expected_exact, status, error, cursor,
		held, handled, bytes_gone, replay_pending, endpoint_deleted, resolved, created_at, ended_at`

	replayJobsSQL = `
	select ` + replayJobColumns + `, 0, 0, 0
	from replay_jobs`

	// replayJobSQL returns one job, with the numbers of its pending, dead and cancelled deliveries
	// from one snapshot. All its other deliveries are delivered. A job has a few thousand rows in
	// the queue for each endpoint; the other two counts read the job's dead and cancelled
	// deliveries. The statement walks queue_replay_job, dead_letters_replay_job and
	// attempts_replay_job_decided.
	replayJobSQL = `
	select ` + replayJobColumns + `,
		(select count(*) from queue where replay_job = @id),
		(select count(*) from dead_letters where replay_job = @id),
		(select count(*) from attempts where replay_job = @id and outcome = 'none' and status_after = 'cancelled')
	from replay_jobs`
)

// scanReplayJob reads the columns of a job, and then the columns for more.
func scanReplayJob(row Row, job *postrider.ReplayJob, more ...any) error {
	var filter, held string
	skipped := &job.Skipped
	err := row.Scan(append([]any{
		&job.ID, &job.Action, &filter, &job.PerSecond, &job.By, &job.Note, &job.Expected.Matches, &job.Expected.Exact, &job.Status,
		&job.Error, &job.Cursor, &held, &job.Handled, &skipped.BytesGone, &skipped.ReplayPending, &skipped.EndpointDeleted,
		&skipped.Resolved, &job.CreatedAt, &job.EndedAt,
	}, more...)...)
	if err != nil {
		return err
	}
	job.Filter, err = store.DecodeReplayFilter(filter)
	if err == nil {
		job.Held, err = store.DecodeHeld(held)
	}
	return err
}

// ReplayJobs lists replay jobs, newest first; see [store.Replays].
func (v Verbs) ReplayJobs(ctx context.Context, q store.ReplayJobQuery) (page store.Page[postrider.ReplayJob], err error) {
	defer v.calls.Begin("ReplayJobs").End(&err, "list replay jobs")
	rows := replayJobsSQL
	if !q.ID.IsZero() {
		rows = replayJobSQL
	}
	l, err := listOf[postrider.ReplayID](v.db, rows, store.Span{}, q.Paging)
	if err != nil {
		return page, err
	}
	by(l, "id", q.ID)
	by(l, "account", q.Account)
	if !q.Backfills.IsZero() {
		l.and("backfills = @backfills and ended_at is null", Args{"backfills": q.Backfills})
	}
	if q.Status != "" {
		l.and("status = @status", Args{"status": q.Status})
	}
	return pageOf(ctx, l, func(row Row, job *postrider.ReplayJob) error {
		made := &job.Made
		err := scanReplayJob(row, job, &made.Pending, &made.Dead, &made.Cancelled)
		if !q.ID.IsZero() && job.Action != postrider.ActionDiscard {
			made.Delivered = job.Handled - made.Pending - made.Dead - made.Cancelled
		}
		return err
	}, func(job *postrider.ReplayJob) postrider.ReplayID { return job.ID })
}

// Both statements walk the primary key. The change removes the token, so the node that had leased
// the job is fenced.
const (
	lockReplayJobSQL = `
	select status
	from replay_jobs
	where id = @id and (@account::uuid is null or account = @account)
	for update`
	setReplayJobSQL = `
	update replay_jobs
	set status = @status, token = null, due_at = @now, ended_at = case when @status = 'cancelled' then now() end
	where id = @id and status in ('running', 'paused') and status <> @status`
)

// SetReplayJob pauses, resumes or cancels a job; see [store.Replays].
func (v Verbs) SetReplayJob(ctx context.Context, r store.SetReplayJob) (err error) {
	defer v.calls.Begin("SetReplayJob").End(&err, "change replay job %s", r.ID)
	return v.db.Change(ctx, Repeatable, func(ctx context.Context, tx Tx) error {
		args := Args{"id": r.ID, "account": OrNull(r.Account), "status": r.Status, "now": tx.Now()}
		was, err := one(ctx, tx, Query{lockReplayJobSQL, args}, func(row Row, s *postrider.ReplayStatus) error { return row.Scan(s) })
		switch {
		case err != nil:
			return err
		case was.Ended() && was != r.Status:
			return fmt.Errorf("it is %s: %w", was, postrider.ErrConflict)
		}
		_, err = tx.Exec(ctx, Query{setReplayJobSQL, args})
		return err
	})
}

// claimReplayJobsSQL leases the running jobs that have been due for longest. With "skip locked"
// several nodes can claim at once. It walks replay_jobs_running and sorts what it finds. No index
// has due_at, because each chunk changes it.
const claimReplayJobsSQL = `
	with due as materialized (
		select id
		from replay_jobs
		where status = 'running' and due_at <= @now
		order by due_at, id
		limit @max
		for update skip locked
	)
	update replay_jobs
	set token = @token, due_at = @until
	where id in (select id from due)
	returning ` + replayJobColumns

// ClaimReplayJobs leases running jobs; see [store.Replays].
func (v Verbs) ClaimReplayJobs(ctx context.Context, c store.ClaimReplayJobs) (jobs []postrider.ReplayJob, err error) {
	defer v.calls.Begin("ClaimReplayJobs").End(&err, "claim replay jobs")
	err = v.db.Change(ctx, Once, func(ctx context.Context, tx Tx) error {
		jobs, err = all(ctx, tx, Query{claimReplayJobsSQL, Args{
			"max": c.Max, "token": c.Token, "now": tx.Now(), "until": tx.Now().Add(c.Lease),
		}}, func(row Row, job *postrider.ReplayJob) error { return scanReplayJob(row, job) })
		return err
	})
	slices.SortFunc(jobs, func(a, b postrider.ReplayJob) int { return a.ID.Compare(b.ID) })
	return jobs, err
}

// The statement walks queue_replay_job.
const replaysPendingSQL = `
	select endpoint, count(*)
	from queue
	where replay_job = @job
	group by endpoint`

// ReplaysPending counts the pending deliveries of a job by endpoint; see [store.Replays].
func (v Verbs) ReplaysPending(ctx context.Context, id postrider.ReplayID) (_ map[postrider.EndpointID]int, err error) {
	defer v.calls.Begin("ReplaysPending").End(&err, "count pending deliveries of replay job %s", id)
	pending := map[postrider.EndpointID]int{}
	err = v.db.Query(ctx, Query{replaysPendingSQL, Args{"job": id}}, func(rows Rows) error {
		for rows.Next() {
			var endpoint postrider.EndpointID
			var n int
			if err := rows.Scan(&endpoint, &n); err != nil {
				return err
			}
			pending[endpoint] = n
		}
		return nil
	})
	return pending, err
}
