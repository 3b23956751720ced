package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/sqlstore"
)

// ExpungeRows removes rows of what an expunge is about; see [store.Expunges].
func (s *Store) ExpungeRows(ctx context.Context, r store.ExpungeRows) (e postrider.Expunge, err error) {
	defer s.calls.Begin("ExpungeRows").End(&err, "expunge")
	err = changeInBulk(ctx, s, func(ctx context.Context, tx *tx) error {
		e, err = sqlstore.ExpungeChunk(ctx, coldTx{tx, &s.texts}, r,
			func(ctx context.Context, plan store.ExpungePlan, e *postrider.Expunge) (postrider.ExpungeCounts, error) {
				x := expunging{tx: tx, ExpungePlan: plan, expunge: e, left: r.Limit}
				return x.run(ctx)
			})
		return err
	})
	return e, err
}

// expunging is one chunk of an expunge.
type expunging struct {
	store.ExpungePlan

	tx      *tx
	expunge *postrider.Expunge
	left    int // rows that the chunk may still remove
}

func (x *expunging) object() any { return sql.Named("object", blob(x.Object)) }

// run removes rows until the chunk is full.
func (x *expunging) run(ctx context.Context) (removed postrider.ExpungeCounts, err error) {
	took := func(counter *int, n int, err error) bool {
		*counter += n
		x.left -= n
		return err == nil && x.left > 0
	}
	n, err := x.attempts(ctx)
	if !took(&removed.Attempts, n, err) {
		return removed, err
	}
	for _, step := range x.Steps {
		n, err := x.tx.count(ctx, `delete from `+step.Table+` where (`+step.Key+`) in (select `+step.Key+` from `+step.Table+
			` where `+step.Where+` limit @limit)`, x.object(), sql.Named("name", x.Name), sql.Named("limit", x.left))
		if !took(step.Count(&removed), int(n), err) {
			return removed, err
		}
	}
	if x.Events != "" {
		n, err = x.events(ctx)
		if !took(&removed.Events, n, err) {
			return removed, err
		}
	}
	policy, err := store.EncodePolicy(postrider.DefaultPolicy())
	if err != nil {
		return removed, err
	}
	for _, statement := range x.Blank {
		n, err := x.tx.count(ctx, statement, x.object(), sql.Named("policy", string(policy)), sql.Named("no_types", "[]"))
		if !took(&removed.Other, int(n), err) {
			return removed, err
		}
	}
	return removed, nil
}

// expungeBodySQL deletes by the key of attempt_bodies.
const expungeBodySQL = `delete from attempt_bodies where delivery = @delivery and number = @number`

// attempts removes attempts with their heads and bodies.
func (x *expunging) attempts(ctx context.Context) (int, error) {
	type attempt struct {
		delivery postrider.DeliveryID
		number   int
	}
	rows, err := x.tx.query(ctx, `delete from attempts where (delivery, number) in (select delivery, number from attempts where `+
		x.Attempts+` limit @limit) returning delivery, number`, x.object(), sql.Named("limit", x.left))
	if err != nil {
		return 0, err
	}
	removed, err := collect(rows, func(rows *sql.Rows, a *attempt) error { return rows.Scan(toID(&a.delivery), &a.number) })
	if err != nil {
		return 0, err
	}
	for _, a := range removed {
		bodies, err := x.tx.count(ctx, expungeBodySQL, sql.Named("delivery", blob(a.delivery)), sql.Named("number", a.number))
		if err == nil && bodies > 0 {
			err = x.countInPart(ctx, store.OldBodies, store.RowID(a.delivery))
		}
		if err == nil {
			err = x.countInPart(ctx, store.OldAttempts, store.RowID(a.delivery))
		}
		if err != nil {
			return 0, err
		}
	}
	return len(removed), nil
}

// By the key of archive_parts. Of the parts of a day, at most one that is not deleted has an id.
const countExpungedSQL = `
	update archive_parts set deleted = deleted + 1
	where kind = @kind and day = @day and after < @id and last >= @id and deleted < row_count`

// countInPart counts a row that was removed as deleted, if a part of the archive has it:
// otherwise rows that are added later could stand for it, and be deleted without a copy.
func (x *expunging) countInPart(ctx context.Context, kind store.Kind, id store.RowID) error {
	return x.tx.exec(ctx, countExpungedSQL, sql.Named("kind", string(kind)), sql.Named("day", micros(store.DayOf(id.Time()))), sql.Named("id", blob(id)))
}

// By the keys of idempotency_keys and ordering_keys.
const (
	expungeKeySQL      = `delete from idempotency_keys where key = @key and account = @account and event = @event`
	expungeSequenceSQL = `delete from ordering_keys where ordering_key = @key and account = @account`
)

// events removes events with their idempotency keys, and with those of an account their
// ordering keys. The digest has them in the order of their ids.
func (x *expunging) events(ctx context.Context) (int, error) {
	rows, err := x.tx.query(ctx, `select id, data, coalesce(idempotency_key, ''), ordering_key from events where `+x.Events+
		` order by id limit @limit`, x.object(), sql.Named("limit", x.left))
	if err != nil {
		return 0, err
	}
	found, err := collect(rows, func(rows *sql.Rows, e *postrider.Event) error {
		return rows.Scan(toID(&e.ID), &e.Data, &e.IdempotencyKey, &e.OrderingKey)
	})
	if err != nil {
		return 0, err
	}
	account := sql.Named("account", blob(x.expunge.Account))
	for _, e := range found {
		err := x.tx.exec(ctx, `delete from events where id = @id`, sql.Named("id", blob(e.ID)))
		if err == nil {
			err = x.countInPart(ctx, store.OldEvents, store.RowID(e.ID))
		}
		if err == nil && e.IdempotencyKey != "" {
			err = x.tx.exec(ctx, expungeKeySQL, sql.Named("key", e.IdempotencyKey), account, sql.Named("event", blob(e.ID)))
		}
		if err == nil && e.OrderingKey != "" && x.expunge.Event.IsZero() {
			err = x.tx.exec(ctx, expungeSequenceSQL, sql.Named("key", e.OrderingKey), account)
		}
		if err != nil {
			return 0, fmt.Errorf("event %s: %w", e.ID, err)
		}
		x.expunge.Digest.Add(e.ID, e.Data)
	}
	return len(found), nil
}
