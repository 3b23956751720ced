package sqlite

import (
	"context"
	"database/sql"

	"github.com/postrider/postrider"
)

// Each verb in this file finds its candidates beside the writer, and tests each of them again
// inside a job. So a walk through a long queue does not stop all writing.

// expiredSQL walks the queue by age for deliveries without an order: the expired ones are among
// the oldest, and an index on expires_at would cost every delivery. Ordered deliveries have such
// an index, queue_ordered_expires_at, because behind a paused key many of them can wait for long.
const expiredSQL = `
	select id from (
		select id from queue
		where ordering_key is null and expires_at <= @now and (token is null or due_at <= @now)
		order by id limit @limit)
	union all
	select id from (
		select id from queue
		where ordering_key is not null and expires_at <= @now and (token is null or due_at <= @now)
		order by expires_at limit @limit)
	limit @limit`

// expireSQL tests the delivery again, which may have been settled or leased in the meantime. It
// walks the primary key of queue.
const expireSQL = `
	delete from queue
	where id = @id and expires_at <= @now and (token is null or due_at <= @now)
	returning ` + removedColumns

// Expire turns expired pending deliveries into dead letters; see [store.Upkeep]. If an ordered
// one was the head, its key advances or is paused.
func (s *Store) Expire(ctx context.Context, limit int) (expired, lost int, err error) {
	defer s.calls.Begin("Expire").End(&err, "expire deliveries")
	now := s.now()
	ids, err := list(ctx, s, query{expiredSQL, []any{
		sql.Named("now", micros(now)), sql.Named("limit", limit),
	}}, scanDeliveryID)
	if err != nil || len(ids) == 0 {
		return 0, 0, s.fault(err)
	}
	return endings(expire).each(ctx, s, ids)
}

// endings is a function that ends one delivery without a settlement. It reports whether the
// delivery ended, and adds its lost attempt to lost.
type endings func(ctx context.Context, tx *tx, id postrider.DeliveryID, lost *int) (bool, error)

// each ends the deliveries in pieces. It returns how many deliveries ended, and how many of their
// attempts were recorded as lost.
func (end endings) each(ctx context.Context, s *Store, ids []postrider.DeliveryID) (ended, lost int, err error) {
	_, err = inPieces(ctx, len(ids), func(size int) (int, error) {
		var unfinished int
		each := byRow[postrider.DeliveryID](func(ctx context.Context, tx *tx, id postrider.DeliveryID) (int64, error) {
			return counted(end(ctx, tx, id, &unfinished))
		})
		n, err := writeInBulk(ctx, s, func(ctx context.Context, tx *tx) (int, error) {
			unfinished = 0
			return each.each(ctx, tx, ids[:size])
		})
		if err == nil {
			ended, lost, ids = ended+n, lost+unfinished, ids[size:]
		}
		return size, err
	})
	return ended, lost, err
}

func scanDeliveryID(rows *sql.Rows, id *postrider.DeliveryID) error { return rows.Scan(toID(id)) }

// expire makes one delivery a dead letter, if it is still expired and not leased. If its lease
// ended without a settlement, the attempt is recorded as lost, as when Claim takes a lease over.
func expire(ctx context.Context, tx *tx, id postrider.DeliveryID, lost *int) (bool, error) {
	rows, err := tx.query(ctx, expireSQL, sql.Named("id", blob(id)), sql.Named("now", micros(tx.now)))
	if err != nil {
		return false, err
	}
	gone, err := collect(rows, scanRemoved)
	if err != nil || len(gone) == 0 {
		return false, err
	}
	p := gone[0]
	decision := record{
		Attempt: postrider.Attempt{Delivery: p.id, Event: p.event, Endpoint: p.endpoint, Outcome: postrider.OutcomeNone},
		account: p.account, eventType: p.eventType, replayedFrom: p.replayedFrom, replayJob: p.replayJob,
	}
	if p.token != 0 {
		*lost++
		if err := recordLost(ctx, tx, p.pending); err != nil {
			return false, err
		}
	}
	decision.StatusAfter = postrider.Dead
	tx.tally(decision)
	err = deadLetter{record: decision, reason: postrider.ReasonExpired, attempts: p.claims}.insert(ctx, tx)
	if err != nil {
		return false, err
	}
	_, err = p.position.advance(ctx, tx, p.id)
	return true, err
}

// recordLost records the attempt of a row whose lease ended without a settlement.
func recordLost(ctx context.Context, tx *tx, p pending) error {
	tx.tally(p.lost(tx.wall))
	return tx.execAll(ctx, bulk{putAttemptsSQL, "", attemptColumns}, appendAttempt(nil, p.lost(tx.wall)))
}

// deletedSQL walks endpoints_deleted and queue_due; deletedPausesSQL walks endpoints_deleted and
// the primary key of paused_keys.
const (
	deletedSQL = `
	select q.id
	from endpoints e cross join queue q on q.endpoint = e.id
	where e.status = 'deleted' and (q.token is null or q.due_at <= @now)
	limit @limit`
	deletedPausesSQL = `
	select p.delivery
	from endpoints e cross join paused_keys p on p.endpoint = e.id
	where e.status = 'deleted'
	limit @limit`
)

// CancelDeleted cancels deliveries of deleted endpoints and ends the pauses of their
// ordering keys; see [store.Upkeep].
func (s *Store) CancelDeleted(ctx context.Context, limit int) (n, lost int, err error) {
	defer s.calls.Begin("CancelDeleted").End(&err, "cancel deliveries of deleted endpoints")
	most := sql.Named("limit", limit)
	ids, err := list(ctx, s, query{deletedSQL, []any{most, sql.Named("now", micros(s.now()))}}, scanDeliveryID)
	if err != nil {
		return 0, 0, s.fault(err)
	}
	pauses, err := list(ctx, s, query{deletedPausesSQL, []any{most}}, scanDeliveryID)
	if err != nil || len(ids)+len(pauses) == 0 {
		return 0, 0, s.fault(err)
	}
	// Deleted endpoints stay deleted, so only the leases must be tested again.
	_, err = byRow[postrider.DeliveryID](func(ctx context.Context, tx *tx, dead postrider.DeliveryID) (int64, error) {
		_, err := unpause(ctx, tx, dead)
		return 0, err
	}).pieces(ctx, s, pauses)
	if err != nil {
		return 0, 0, err
	}
	return endings(cancelOrphan).each(ctx, s, ids)
}

// probeWriteSQL writes the same row each time. The row needs a page of its own, so that the write
// fails on a full disk.
const probeWriteSQL = `
	insert into probe (id, at, padding) values (1, @now, zeroblob(4096))
	on conflict (id) do update set at = excluded.at, padding = excluded.padding`

// ProbeWrite commits a write; see [store.Upkeep]. It ignores the space, because the disk belongs
// to this machine and package app measures it.
func (s *Store) ProbeWrite(ctx context.Context, _ int) (err error) {
	defer s.calls.Begin("ProbeWrite").End(&err, "probe write")
	return change(ctx, s, func(ctx context.Context, tx *tx) error {
		_, err := tx.count(ctx, probeWriteSQL, sql.Named("now", micros(tx.wall)))
		return err
	})
}
