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

// ExpungeRows removes rows of what an expunge is about; see [store.Expunges].
func (s *Store) ExpungeRows(ctx context.Context, r store.ExpungeRows) (e postrider.Expunge, err error) {
	defer s.calls.Begin("ExpungeRows").End(&err, "expunge")
	err = changeInBulk(ctx, s, func(ctx context.Context, tx *tx) error {
		cold := coldTx{tx, &s.texts}
		e, err = sqlstore.ExpungeChunk(ctx, cold, r,
			func(ctx context.Context, plan store.ExpungePlan, e *postrider.Expunge) (postrider.ExpungeCounts, error) {
				x := expunging{tx: tx, cold: cold, ExpungePlan: plan, expunge: e, left: r.Limit}
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
	cold    coldTx // the same
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
	var deliveries, bodies []store.RowID
	for _, a := range removed {
		n, err := x.tx.count(ctx, expungeBodySQL, sql.Named("delivery", blob(a.delivery)), sql.Named("number", a.number))
		if err != nil {
			return 0, err
		}
		if deliveries = append(deliveries, store.RowID(a.delivery)); n > 0 {
			bodies = append(bodies, store.RowID(a.delivery))
		}
	}
	return len(removed), errors.Join(
		sqlstore.CountExpunged(ctx, x.cold, store.OldAttempts, deliveries), sqlstore.CountExpunged(ctx, x.cold, store.OldBodies, bodies),
	)
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
	ids := make([]store.RowID, len(found))
	for i, e := range found {
		ids[i] = store.RowID(e.ID)
		err := x.tx.exec(ctx, `delete from events where id = @id`, sql.Named("id", blob(e.ID)))
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
	return len(found), sqlstore.CountExpunged(ctx, x.cold, store.OldEvents, ids)
}
