package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/sqlstore"
)

// moveReplayJobSQL finds no row for a chunk with another token or position, or of a job that is
// not running. It walks the primary key of replay_jobs.
const moveReplayJobSQL = `
	update replay_jobs
	set cursor = @to, held = @hold, due_at = @until, status = coalesce(@end, status), error = @error, ended_at = iif(@end is null, null, @wall)
	where id = @id and token = @token and cursor = @from and held = @held and status = 'running'
	returning action, made_by, note`

// The statement walks the primary key of replay_jobs.
const countReplaysSQL = `
	update replay_jobs
	set handled = handled + @handled, bytes_gone = bytes_gone + @bytes_gone, replay_pending = replay_pending + @replay_pending,
		endpoint_deleted = endpoint_deleted + @endpoint_deleted, resolved = resolved + @resolved
	where id = @id`

// ReplayChunk replays or discards the next matches of a job; see [store.Replays]. One statement
// compares and changes the token, the position and the status. So a chunk is stored once, even if
// it comes late or twice.
func (s *Store) ReplayChunk(ctx context.Context, c store.ReplayChunk) (err error) {
	defer s.calls.Begin("ReplayChunk").End(&err, "replay")
	from, err := store.EncodeHeld(c.From.Held)
	to, heldErr := store.EncodeHeld(c.To.Held)
	if err != nil || heldErr != nil {
		return errors.Join(err, heldErr)
	}
	return changeInBulk(ctx, s, func(ctx context.Context, tx *tx) error {
		r := replaying{tx: tx, job: postrider.ReplayJob{ID: c.Job}}
		err := tx.row(ctx, moveReplayJobSQL, sql.Named("id", blob(c.Job)), sql.Named("token", int64(c.Token)),
			sql.Named("from", blob(c.From.Cursor)), sql.Named("held", from), sql.Named("to", blob(c.To.Cursor)), sql.Named("hold", to),
			sql.Named("until", micros(tx.now.Add(c.Lease))),
			sql.Named("end", textOrNull(string(c.End))), sql.Named("error", c.Error), sql.Named("wall", micros(tx.wall)),
		).Scan(toString(&r.job.Action), &r.job.By, &r.job.Note)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return postrider.ErrFenced
		case err != nil:
			return err
		}
		for _, item := range c.Items {
			if err := r.handle(ctx, item); err != nil {
				return fmt.Errorf("delivery %s: %w", item.Match, err)
			}
		}
		for _, k := range r.touched {
			if r.job.Action == postrider.ActionBackfill {
				if err := tx.exec(ctx, deferHeadSQL, blob(k.endpoint), k.key); err != nil {
					return err
				}
			}
			if err := releaseLowest(ctx, tx, k); err != nil {
				return err
			}
		}
		if _, err := sqlstore.PutNotices(ctx, coldTx{tx, &s.texts}, c.Notices); err != nil {
			return err
		}
		return tx.exec(ctx, countReplaysSQL, sql.Named("id", blob(c.Job)), sql.Named("handled", r.job.Handled),
			sql.Named("bytes_gone", r.job.Skipped.BytesGone), sql.Named("replay_pending", r.job.Skipped.ReplayPending),
			sql.Named("endpoint_deleted", r.job.Skipped.EndpointDeleted), sql.Named("resolved", r.job.Skipped.Resolved))
	})
}

// replaying is one chunk of a job.
type replaying struct {
	tx      *tx
	job     postrider.ReplayJob // its Handled and Skipped count the matches of this chunk
	touched []orderedKey        // the keys that got a row that is not due
}

// handle replays or discards one match, or counts the reason why it cannot.
func (r *replaying) handle(ctx context.Context, item store.ReplayItem) error {
	letter, skipped, err := r.skip(ctx, item)
	if err != nil || skipped != nil {
		if skipped != nil {
			*skipped++
		}
		return err
	}
	r.job.Handled++
	resolution, replay := postrider.Replayed, any(blob(item.ID))
	note := any(nil)
	if r.job.Action == postrider.ActionDiscard {
		resolution, replay, note = postrider.Discarded, nil, r.job.Note
		err = resumeKey(ctx, r.tx, item.Match)
	} else {
		err = r.insert(ctx, item, letter)
	}
	if err != nil || !letter {
		return err
	}
	return r.tx.exec(ctx, resolveSQL, sql.Named("delivery", blob(item.Match)), sql.Named("now", micros(r.tx.wall)),
		sql.Named("resolution", string(resolution)), sql.Named("by", r.job.By), sql.Named("note", note), sql.Named("replay", replay))
}

// skip returns whether the match is a dead letter, and a pointer to the counter of the reason for
// which it is skipped. The pointer is nil if it is not skipped.
func (r *replaying) skip(ctx context.Context, item store.ReplayItem) (letter bool, skipped *int, err error) {
	var resolution postrider.Resolution
	var pending postrider.DeliveryID
	err = r.tx.row(ctx, resolutionSQL, sql.Named("delivery", blob(item.Match))).Scan(&resolution, toID(&pending))
	discard := r.job.Action == postrider.ActionDiscard
	switch {
	case errors.Is(err, sql.ErrNoRows) && discard:
		return false, &r.job.Skipped.Resolved, nil
	case err != nil && !errors.Is(err, sql.ErrNoRows):
		return false, nil, err
	case !pending.IsZero():
		return true, &r.job.Skipped.ReplayPending, nil
	case resolution != "":
		return true, &r.job.Skipped.Resolved, nil
	case discard:
		return true, nil, nil
	}
	letter = err == nil
	var endpoint, event bool
	err = r.tx.row(ctx, replayableSQL, sql.Named("endpoint", blob(item.Endpoint)), sql.Named("event", blob(item.Event))).Scan(&endpoint,
		&event)
	switch {
	case err != nil:
		return letter, nil, err
	case !endpoint:
		return letter, &r.job.Skipped.EndpointDeleted, nil
	case !event:
		return letter, &r.job.Skipped.BytesGone, nil
	}
	return letter, nil, nil
}

// insertReplayOfJobSQL inserts a replay of a job. With @ordered the replay gets the sequence of
// its event, and is not due: releaseLowest makes a row due after all replays of the chunk are
// inserted. The statement walks the primary key of events.
const insertReplayOfJobSQL = `
	insert into queue (id, named_event, endpoint, account, type, lane, due_at, claims, ordering_key, sequence, pauses, expires_at,
		replayed_from, replay_job)
	select @id, id, @endpoint, account, type, 2, iif(@ordered and ordering_key <> '', ` + neverSQL + `, @now), 0,
		iif(@ordered, nullif(ordering_key, ''), null), iif(@ordered, nullif(sequence, 0), null),
		iif(@ordered and ordering_key <> '', @pauses, null), @expires_at, @match, @job
	from events where id = @event
	returning ordering_key`

// insert makes the new delivery of a match. If the match is a dead letter that pauses its
// ordering key, the pause ends, and the new delivery pauses the key again if it becomes a dead
// letter too.
func (r *replaying) insert(ctx context.Context, item store.ReplayItem, letter bool) (err error) {
	var paused orderedKey
	if letter {
		if paused, err = unpause(ctx, r.tx, item.Match); err != nil {
			return err
		}
	}
	k := orderedKey{endpoint: item.Endpoint}
	err = r.tx.row(ctx, insertReplayOfJobSQL, sql.Named("id", blob(item.ID)), sql.Named("endpoint", blob(item.Endpoint)),
		sql.Named("event", blob(item.Event)), sql.Named("ordered", item.Ordered != "" || paused.key != ""),
		sql.Named("pauses", item.Ordered == postrider.PauseOnDead || paused.key != ""), sql.Named("now", micros(r.tx.now)),
		sql.Named("expires_at", micros(r.tx.now.Add(item.Expiry))), sql.Named("match", blobOrNull(item.Match)),
		sql.Named("job", blob(r.job.ID))).Scan(toString(&k.key))
	if err == nil && k.key != "" {
		r.touched = append(r.touched, k)
	}
	return err
}

// deferHeadSQL takes the turn from the head of an ordering key that got rows with lower sequences, unless
// it is leased. It walks queue_order_key.
const deferHeadSQL = `
	update queue set due_at = ` + neverSQL + `
	where endpoint = ?1 and ordering_key = ?2 and due_at < ` + neverSQL + ` and token is null
		and sequence > (select min(sequence) from queue where endpoint = ?1 and ordering_key = ?2)`

// The statement walks queue_order_key up to the first row that is due, and the primary key of
// paused_keys.
const keyReleasedSQL = `
	select exists (select 1 from queue where endpoint = ?1 and ordering_key = ?2 and (due_at < ` + neverSQL + ` or parked))
		or exists (select 1 from paused_keys where endpoint = ?1 and ordering_key = ?2)`

// releaseLowest makes the lowest row of a key due, unless another row of the key is due or the
// key is paused.
func releaseLowest(ctx context.Context, tx *tx, k orderedKey) error {
	var released bool
	err := tx.row(ctx, keyReleasedSQL, blob(k.endpoint), k.key).Scan(&released)
	if err != nil || released {
		return err
	}
	_, err = releaseHead(ctx, tx, k)
	return err
}
