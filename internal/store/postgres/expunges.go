package postgres

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/sqlstore"
)

// Scrub does nothing: deleted rows stay in the files of the database until it is vacuumed, in
// its log, and on its standbys. The API says so.
func (s *Store) Scrub(context.Context) error { return nil }

// ExpungeRows removes rows of what an expunge is about. It is not repeated when its fate is
// unknown: the next call goes on from what is stored.
func (s *Store) ExpungeRows(ctx context.Context, r store.ExpungeRows) (e postrider.Expunge, err error) {
	defer s.calls.Begin("ExpungeRows").End(&err, "expunge %s", r.ID)
	err = s.once(ctx, func() error {
		return s.tx(ctx, func(tx pgx.Tx) error {
			e, err = sqlstore.ExpungeChunk(ctx, coldTx{tx: tx, clock: s.clock}, r,
				func(ctx context.Context, plan store.ExpungePlan, e *postrider.Expunge) (postrider.ExpungeCounts, error) {
					x := expunging{tx: tx, ExpungePlan: plan, expunge: e, left: r.Limit}
					return x.run(ctx)
				})
			return err
		})
	})
	return e, err
}

// expunging is one chunk of an expunge.
type expunging struct {
	store.ExpungePlan

	tx      pgx.Tx
	expunge *postrider.Expunge
	left    int // rows that the chunk may still remove
}

// args returns the parameters of the plan's statements.
func (x *expunging) args() pgx.NamedArgs {
	return pgx.NamedArgs{"object": someUUID(x.Object), "name": x.Name, "limit": x.left}
}

// run removes rows until the chunk is full.
func (x *expunging) run(ctx context.Context) (removed postrider.ExpungeCounts, err error) {
	steps := []func() error{func() error { return x.attempts(ctx, &removed.Attempts) }}
	for _, step := range x.Steps {
		steps = append(steps, func() error { return x.count(ctx, step.Count(&removed), expungeStepSQL(step), x.args()) })
	}
	if x.Events != "" {
		steps = append(steps, func() error { return x.events(ctx, &removed.Events) })
	}
	for _, statement := range x.Blank {
		steps = append(steps, func() error { return x.blank(ctx, &removed.Other, statement) })
	}
	for _, step := range steps {
		if err := step(); err != nil || x.left <= 0 {
			return removed, err
		}
	}
	return removed, nil
}

// count runs a statement that returns how many rows it has removed.
func (x *expunging) count(ctx context.Context, counter *int, statement string, args pgx.NamedArgs) error {
	var n int
	err := x.tx.QueryRow(ctx, statement, args).Scan(&n)
	*counter += n
	x.left -= n
	return err
}

// attempts removes attempts with their heads and bodies.
func (x *expunging) attempts(ctx context.Context, counter *int) error {
	rows, _ := x.tx.Query(ctx, expungeAttemptsSQL(x.Attempts), x.args())
	var deliveries, bodies []store.RowID
	var of store.RowID
	var body bool
	_, err := pgx.ForEachRow(rows, []any{toID(&of), &body}, func() error {
		if deliveries = append(deliveries, of); body {
			bodies = append(bodies, of)
		}
		return nil
	})
	*counter += len(deliveries)
	x.left -= len(deliveries)
	if err != nil {
		return err
	}
	return errors.Join(
		sqlstore.CountExpunged(ctx, coldTx{tx: x.tx}, store.OldAttempts, deliveries),
		sqlstore.CountExpunged(ctx, coldTx{tx: x.tx}, store.OldBodies, bodies),
	)
}

// expungeAttemptsSQL deletes attempts with their heads and bodies, each by its key. It returns
// their deliveries, and which had a body.
func expungeAttemptsSQL(where string) string {
	return `
	with gone as materialized (
		select delivery, number from attempts where ` + where + ` limit @limit
	), bodies as (
		delete from attempt_bodies b using gone where b.delivery = gone.delivery and b.number = gone.number
		returning b.delivery, b.number
	), rows as (
		delete from attempts a using gone where a.delivery = gone.delivery and a.number = gone.number
	)
	select gone.delivery, bodies.number is not null
	from gone
	left join bodies on bodies.delivery = gone.delivery and bodies.number = gone.number`
}

// expungeStepSQL deletes the rows of a step, each by its key.
func expungeStepSQL(step store.ExpungeStep) string {
	same := make([]string, 0, 4)
	for column := range strings.SplitSeq(step.Key, ", ") {
		same = append(same, "t."+column+" = gone."+column)
	}
	return `
	with gone as materialized (
		select ` + step.Key + ` from ` + step.Table + ` where ` + step.Where + ` limit @limit
	), rows as (
		delete from ` + step.Table + ` t using gone where ` + strings.Join(same, " and ") + `
	)
	select count(*) from gone`
}

// blank runs a statement that removes texts of rows that stay.
func (x *expunging) blank(ctx context.Context, counter *int, statement string) error {
	policy, err := store.EncodePolicy(postrider.DefaultPolicy())
	if err != nil {
		return err
	}
	done, err := x.tx.Exec(ctx, statement, pgx.NamedArgs{"object": someUUID(x.Object), "policy": string(policy), "no_types": []string{}})
	*counter += int(done.RowsAffected())
	x.left -= int(done.RowsAffected())
	return err
}

// By idempotency_keys_pkey and ordering_keys_pkey.
const (
	expungeKeysSQL = `
	delete from idempotency_keys k
	using unnest(@keys::text[], @events::uuid[]) as gone (key, event)
	where k.key = gone.key and k.account = @account and k.event = gone.event`
	expungeSequencesSQL = `delete from ordering_keys where ordering_key = any (@keys::text[]) and account = @account`
)

// events removes events with their idempotency keys, and with those of an account their
// ordering keys. The digest has them in the order of their ids; kept events come last.
func (x *expunging) events(ctx context.Context, counter *int) error {
	for _, table := range []string{"events", "kept_events"} {
		if x.left <= 0 {
			return nil
		}
		rows, _ := x.tx.Query(ctx, `
			with gone as materialized (
				select id from `+table+` where `+x.Events+` order by id limit @limit
			)
			delete from `+table+` e using gone where e.id = gone.id
			returning e.id, e.data, coalesce(e.idempotency_key, ''), e.ordering_key`, x.args())
		found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e postrider.Event, err error) {
			return e, row.Scan(toID(&e.ID), &e.Data, &e.IdempotencyKey, &e.OrderingKey)
		})
		if err != nil {
			return err
		}
		slices.SortFunc(found, func(a, b postrider.Event) int { return a.ID.Compare(b.ID) })
		if err := x.forgetKeys(ctx, found); err != nil {
			return err
		}
		if table == "events" { // kept events were counted when their day was deleted
			ids := make([]store.RowID, len(found))
			for i, e := range found {
				ids[i] = store.RowID(e.ID)
			}
			if err := sqlstore.CountExpunged(ctx, coldTx{tx: x.tx}, store.OldEvents, ids); err != nil {
				return err
			}
		}
		*counter += len(found)
		x.left -= len(found)
	}
	return nil
}

// forgetKeys removes the keys of events that were removed.
func (x *expunging) forgetKeys(ctx context.Context, of []postrider.Event) error {
	var keys, sequences []string
	var events []pgtype.UUID
	for _, e := range of {
		x.expunge.Digest.Add(e.ID, e.Data)
		if e.IdempotencyKey != "" {
			keys, events = append(keys, e.IdempotencyKey), append(events, someUUID(e.ID))
		}
		if e.OrderingKey != "" && x.expunge.Event.IsZero() {
			sequences = append(sequences, e.OrderingKey)
		}
	}
	account := someUUID(x.expunge.Account)
	_, err := x.tx.Exec(ctx, expungeKeysSQL, pgx.NamedArgs{"keys": keys, "events": events, "account": account})
	if err == nil && len(sequences) > 0 {
		_, err = x.tx.Exec(ctx, expungeSequencesSQL, pgx.NamedArgs{"keys": sequences, "account": account})
	}
	return err
}
