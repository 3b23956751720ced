package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// resolutionSQL returns what refuses the replay of a dead letter: its resolution, and its last
// replay while that is pending. It walks the primary keys of dead_letters and queue.
const resolutionSQL = `
	select coalesce(d.resolution, ''), (select q.id from queue q where q.id = d.replay)
	from dead_letters d
	where d.delivery = @delivery`

// The statement walks the primary keys of endpoints and events.
const replayableSQL = `
	select
		exists (select 1 from endpoints where id = @endpoint and status <> 'deleted'),
		exists (select 1 from events where id = @event)`

// insertReplaySQL inserts a replay, due at once in the bulk lane. With @ordered the replay gets
// the sequence of its event and becomes the head of its key, in place of the dead letter that
// paused the key. Any other replay has no order, because the deliveries behind it were sent long
// ago. The statement walks the primary key of events.
const insertReplaySQL = `
	insert into queue (id, named_event, endpoint, account, type, lane, due_at, claims, ordering_key, sequence, pauses, expires_at,
		replayed_from)
	select @id, id, @endpoint, account, type, 2, @now, 0, iif(@ordered, ordering_key, null), iif(@ordered, sequence, null),
		iif(@ordered, 1, null), @expires_at, @delivery
	from events where id = @event`

// resolveSQL changes nothing for a delivery that is no dead letter. It walks the primary key of
// dead_letters.
const resolveSQL = `
	update dead_letters
	set resolved_at = @now, resolution = @resolution, resolved_by = @by, note = coalesce(@note, note), replay = coalesce(@replay, replay)
	where delivery = @delivery`

// Replay makes a new delivery of an ended one; see [store.Ledger]. If a dead letter pauses its
// ordering key, the pause ends and the replay gets its position: the replay has the lowest
// sequence and is due at once.
func (s *Store) Replay(ctx context.Context, r store.Replay) (_ postrider.Delivery, err error) {
	defer s.calls.Begin("Replay").End(&err, "replay delivery")
	return write(ctx, s, func(ctx context.Context, tx *tx) (postrider.Delivery, error) {
		d, err := delivery(ctx, tx, r.Account, r.Delivery)
		if err != nil {
			return postrider.Delivery{}, err
		}
		if err := refuseReplay(ctx, tx, d); err != nil {
			return postrider.Delivery{}, err
		}
		paused, err := unpause(ctx, tx, d.ID)
		if err != nil {
			return postrider.Delivery{}, err
		}
		err = tx.exec(ctx, insertReplaySQL, sql.Named("ordered", paused.key != ""), sql.Named("id", blob(r.ID)),
			sql.Named("event", blob(d.Event)),
			sql.Named("endpoint", blob(d.Endpoint)), sql.Named("now", micros(tx.now)),
			sql.Named("expires_at", micros(tx.now.Add(r.Expiry))), sql.Named("delivery", blob(d.ID)))
		if err != nil {
			return postrider.Delivery{}, err
		}
		err = tx.exec(ctx, resolveSQL, sql.Named("delivery", blob(d.ID)), sql.Named("now", micros(tx.wall)),
			sql.Named("resolution", string(postrider.Replayed)), sql.Named("by", r.By), sql.Named("note", nil),
			sql.Named("replay", blob(r.ID)))
		if err != nil {
			return postrider.Delivery{}, err
		}
		return delivery(ctx, tx, d.Account, r.ID)
	})
}

// refuseReplay returns the reason why the delivery must not be replayed now, or nil.
func refuseReplay(ctx context.Context, tx *tx, d postrider.Delivery) error {
	if d.Status == postrider.Pending {
		return fmt.Errorf("it is pending: %w", postrider.ErrConflict)
	}
	var endpoint, event bool
	err := tx.row(ctx, replayableSQL, sql.Named("endpoint", blob(d.Endpoint)), sql.Named("event", blob(d.Event))).Scan(&endpoint, &event)
	switch {
	case err != nil:
		return err
	case !endpoint:
		return fmt.Errorf("endpoint %s is deleted: %w", d.Endpoint, postrider.ErrConflict)
	case !event:
		return postrider.ErrGone
	}
	var resolution postrider.Resolution
	var replay postrider.DeliveryID
	err = tx.row(ctx, resolutionSQL, sql.Named("delivery", blob(d.ID))).Scan(&resolution, toID(&replay))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return err
	case resolution == postrider.Discarded:
		return store.ErrDiscarded
	case !replay.IsZero():
		return &store.ReplayPendingError{Replay: replay}
	}
	return nil
}

// A person's cancel removes the row even if it is leased. The janitor's cancel removes it only if
// it is not. Both statements walk the primary key of queue.
const (
	cancelSQL = `
	delete from queue where id = @id
	returning ` + removedColumns
	cancelFreeSQL = `
	delete from queue where id = @id and (token is null or due_at <= @now)
	returning ` + removedColumns
)

// Cancel ends a pending delivery; see [store.Ledger].
func (s *Store) Cancel(ctx context.Context, c store.Cancel) (_ postrider.Delivery, err error) {
	defer s.calls.Begin("Cancel").End(&err, "cancel delivery")
	return write(ctx, s, func(ctx context.Context, tx *tx) (postrider.Delivery, error) {
		d, err := delivery(ctx, tx, c.Account, c.Delivery)
		if err != nil {
			return postrider.Delivery{}, err
		}
		if d.Status != postrider.Pending {
			return postrider.Delivery{}, fmt.Errorf("it is %s: %w", d.Status, postrider.ErrConflict)
		}
		rows, err := tx.query(ctx, cancelSQL, sql.Named("id", blob(c.Delivery)))
		if err != nil {
			return postrider.Delivery{}, err
		}
		if _, err := cancelled(ctx, tx, rows, postrider.ReasonCancelled); err != nil {
			return postrider.Delivery{}, err
		}
		return delivery(ctx, tx, d.Account, d.ID)
	})
}

// cancelOrphan cancels a delivery of a deleted endpoint, unless the delivery is leased: its
// request may be accepted. If the lease has ended, the attempt is recorded as lost.
func cancelOrphan(ctx context.Context, tx *tx, id postrider.DeliveryID, lost *int) (bool, error) {
	rows, err := tx.query(ctx, cancelFreeSQL, sql.Named("id", blob(id)), sql.Named("now", micros(tx.now)))
	if err != nil {
		return false, err
	}
	gone, err := cancelled(ctx, tx, rows, postrider.ReasonEndpointDeleted)
	if err != nil || gone.id.IsZero() || gone.token == 0 {
		return !gone.id.IsZero(), err
	}
	*lost++
	return true, recordLost(ctx, tx, gone.pending)
}

// cancelled records the decision about a row that was removed from the queue, and advances its
// ordering key. The record gets the number after the last attempt's. cancelled returns the
// removed row, or the zero row if there was none. An attempt under way continues; its settlement
// finds no row and is recorded as stale.
func cancelled(ctx context.Context, tx *tx, rows *sql.Rows, reason string) (removed, error) {
	gone, err := collect(rows, scanRemoved)
	if err != nil || len(gone) == 0 {
		return removed{}, err
	}
	p := gone[0]
	decision := record{
		Attempt: postrider.Attempt{
			Delivery: p.id, Event: p.event, Endpoint: p.endpoint, Number: p.claims + 1, Outcome: postrider.OutcomeNone,
			Error: reason, StartedAt: tx.wall, StatusAfter: postrider.Cancelled,
		},
		account: p.account, eventType: p.eventType, replayedFrom: p.replayedFrom, replayJob: p.replayJob,
	}
	tx.tally(decision)
	err = tx.execAll(ctx, bulk{putAttemptsSQL, "", attemptColumns}, appendAttempt(nil, decision))
	if err != nil {
		return removed{}, err
	}
	_, err = p.position.advance(ctx, tx, postrider.DeliveryID{})
	return p, err
}

// Discard resolves a dead letter without a replay; see [store.Ledger]. If the dead letter pauses
// its ordering key, the head of the key is due at once.
func (s *Store) Discard(ctx context.Context, d store.Discard) (_ postrider.DeadLetter, err error) {
	defer s.calls.Begin("Discard").End(&err, "discard dead letter")
	return write(ctx, s, func(ctx context.Context, tx *tx) (postrider.DeadLetter, error) {
		ask := sql.Named("delivery", blob(d.Delivery))
		deadLetter, err := findDeadLetter(ctx, tx, d.Delivery)
		switch {
		case err != nil:
			return postrider.DeadLetter{}, err
		case !d.Account.IsZero() && deadLetter.Account != d.Account:
			return postrider.DeadLetter{}, postrider.ErrNotFound
		case !deadLetter.ResolvedAt.IsZero():
			return postrider.DeadLetter{}, fmt.Errorf("it is %s: %w", deadLetter.Resolution, postrider.ErrConflict)
		}
		err = tx.exec(ctx, resolveSQL, ask, sql.Named("now", micros(tx.wall)),
			sql.Named("resolution", string(postrider.Discarded)), sql.Named("by", d.By), sql.Named("note", d.Note),
			sql.Named("replay", nil))
		if err != nil {
			return postrider.DeadLetter{}, err
		}
		if err := resumeKey(ctx, tx, d.Delivery); err != nil {
			return postrider.DeadLetter{}, err
		}
		return findDeadLetter(ctx, tx, d.Delivery)
	})
}

// resumeKey ends the pause by a dead letter, if there is one, and makes the head of the ordering
// key due.
func resumeKey(ctx context.Context, tx *tx, dead postrider.DeliveryID) error {
	paused, err := unpause(ctx, tx, dead)
	if err != nil || paused.key == "" {
		return err
	}
	_, err = releaseHead(ctx, tx, paused)
	return err
}

// The statement walks the primary key of dead_letters.
const findDeadLetterSQL = deadLettersSelect + `delivery = @delivery`

// findDeadLetter reads a dead letter inside the job that changes it.
func findDeadLetter(ctx context.Context, tx *tx, id postrider.DeliveryID) (postrider.DeadLetter, error) {
	rows, err := tx.query(ctx, findDeadLetterSQL, sql.Named("delivery", blob(id)))
	if err != nil {
		return postrider.DeadLetter{}, err
	}
	found, err := collect(rows, scanDeadLetter)
	if err == nil && len(found) == 0 {
		err = postrider.ErrNotFound
	}
	if err != nil {
		return postrider.DeadLetter{}, err
	}
	return found[0], nil
}
