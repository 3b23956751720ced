package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// One row.
const versionSQL = `select version from subscriptions`

// Publish stores batches; see [store.Inbox].
func (s *Store) Publish(ctx context.Context, p store.Publish) ([]store.Published, error) {
	return write(ctx, s, "publish events", func(ctx context.Context, tx *tx) ([]store.Published, error) {
		var version int64
		if err := tx.row(ctx, versionSQL).Scan(&version); err != nil {
			return nil, err
		}
		if version != p.Version {
			return nil, store.ErrMoved
		}
		return publish(ctx, tx, p.Batches)
	})
}

func publish(ctx context.Context, tx *tx, batches []store.Batch) ([]store.Published, error) {
	keys := store.Keys(batches)
	held, err := holders(ctx, tx, keys)
	if err != nil {
		return nil, err
	}
	accepted := store.Accept(batches, held)
	sequences, err := storedSequences(ctx, tx, accepted.Fresh)
	if err != nil {
		return nil, err
	}
	var rows intake
	for _, e := range accepted.Fresh {
		if _, stored := sequences[e.Event.ID]; stored {
			continue // by this publish, whose reply was lost
		}
		event := e.Event
		if event.Sequence, err = nextSequence(ctx, tx, event); err != nil {
			return nil, err
		}
		sequences[event.ID] = event.Sequence
		if err := rows.event(ctx, tx, event, e); err != nil {
			return nil, err
		}
	}
	for _, key := range keys {
		if holder, ok := accepted.Taken[key]; ok && held[key] != holder {
			rows.keys = append(rows.keys, blob(key.Account), key.Key, blob(holder.Event), holder.Hash[:], micros(tx.wall))
		}
	}
	if err := rows.insert(ctx, tx); err != nil {
		return nil, err
	}
	return accepted.Published, given{batches, sequences}.fillSequences(ctx, tx, accepted.Published)
}

// By the key of idempotency_keys.
const holderSQL = `select event, hash from idempotency_keys where account = ? and key = ?`

func holders(ctx context.Context, tx *tx, keys []store.Key) (map[store.Key]store.KeyHolder, error) {
	held := map[store.Key]store.KeyHolder{}
	for _, key := range keys {
		var holder store.KeyHolder
		var hash []byte
		err := tx.row(ctx, holderSQL, blob(key.Account), key.Key).Scan(toID(&holder.Event), &hash)
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err != nil {
			return nil, err
		}
		holder.Hash = [32]byte(hash)
		held[key] = holder
	}
	return held, nil
}

// The last entry of the events' key; each by that key.
const (
	newestEventSQL = `select id from events order by id desc limit 1`
	sequencesSQL   = `select id, sequence from events where id in (values `
)

type stored struct {
	id       postrider.EventID
	sequence int64
}

// storedSequences returns the sequences of those events that are stored
// already. Ids grow, so nearly always one look at the newest event shows that
// none is.
func storedSequences(ctx context.Context, tx *tx, events []*store.NewEvent) (map[postrider.EventID]int64, error) {
	sequences := make(map[postrider.EventID]int64, len(events))
	var newest postrider.EventID
	err := tx.row(ctx, newestEventSQL).Scan(toID(&newest))
	if errors.Is(err, sql.ErrNoRows) {
		return sequences, nil
	}
	if err != nil {
		return nil, err
	}
	var ids []any
	for _, e := range events {
		if e.Event.ID.Compare(newest) <= 0 {
			ids = append(ids, blob(e.Event.ID))
		}
	}
	found, err := queryAll(ctx, tx, bulkQuery[stored]{
		bulk: bulk{sequencesSQL, ")", 1}, args: ids,
		scan: func(rows *sql.Rows, one *stored) error { return rows.Scan(toID(&one.id), &one.sequence) },
	})
	for _, one := range found {
		sequences[one.id] = one.sequence
	}
	return sequences, err
}

// By the key of order_heads.
const nextSequenceSQL = `
	insert into order_heads (account, ordering_key, last) values (?, ?, 1)
	on conflict (account, ordering_key) do update set last = last + 1
	returning last`

func nextSequence(ctx context.Context, tx *tx, e postrider.Event) (next int64, err error) {
	if e.OrderingKey == "" {
		return 0, nil
	}
	err = tx.row(ctx, nextSequenceSQL, blob(e.Account), e.OrderingKey).Scan(&next)
	return next, err
}

// By the events' key.
const sequenceSQL = `select sequence from events where id = ?`

// given is what a publish stored: its batches, and the sequences of the events
// that were new.
type given struct {
	batches   []store.Batch
	sequences map[postrider.EventID]int64
}

// fillSequences gives each answer the sequence of its event; a duplicate has
// that of the event that it repeats.
func (g given) fillSequences(ctx context.Context, tx *tx, answers []store.Published) error {
	for i, answer := range answers {
		for j := range answer.Events {
			e := &answer.Events[j]
			if g.batches[i][j].Event.OrderingKey == "" {
				continue
			}
			if sequence, ok := g.sequences[e.ID]; ok {
				e.Sequence = sequence
				continue
			}
			err := tx.row(ctx, sequenceSQL, blob(e.ID)).Scan(&e.Sequence)
			if err != nil && !errors.Is(err, sql.ErrNoRows) { // the event may be gone before its key is
				return err
			}
		}
	}
	return nil
}

// intake gathers the rows of a publish, as the arguments of bulk inserts.
type intake struct {
	events, queue, skipped, fanOuts, keys []any

	busy map[orderedKey]bool // where a new ordered row has to wait
}

func (in *intake) event(ctx context.Context, tx *tx, event postrider.Event, e *store.NewEvent) error {
	in.events = append(in.events, blob(event.ID), blob(event.Account), event.Type, someBytes(event.Data),
		event.APIVersion, event.OrderingKey, event.Sequence, event.Hops, textOrNull(event.IdempotencyKey),
		micros(event.ID.Time()))
	if !e.FanOutUpTo.IsZero() {
		in.fanOuts = append(in.fanOuts, blob(event.ID), blob(event.Account), event.Type, blob(e.FanOutUpTo),
			blob(postrider.EndpointID{}), micros(tx.now), micros(event.ID.Time()))
	}
	return in.deliveries(ctx, tx, event, e.Deliveries)
}

func (in *intake) deliveries(ctx context.Context, tx *tx, event postrider.Event, deliveries []store.NewDelivery) error {
	for _, d := range deliveries {
		if d.Skipped != "" {
			in.skipped = appendAttempt(in.skipped, record{
				Attempt: postrider.Attempt{
					Delivery: d.ID, Event: event.ID, Endpoint: d.Endpoint, Outcome: postrider.OutcomeNone,
					Error: d.Skipped, StartedAt: tx.wall, StatusAfter: postrider.Skipped,
				},
				account: event.Account, eventType: event.Type,
			})
			continue
		}
		due, claims := micros(tx.now.Add(d.Wait)), 0
		if d.Token != 0 {
			due, claims = micros(tx.now.Add(d.Lease)), 1
		}
		var key, sequence, pauses any
		if d.Ordered != "" {
			busy, err := in.takeTurn(ctx, tx, orderedKey{d.Endpoint, event.OrderingKey})
			if err != nil {
				return err
			}
			if busy {
				due = never
			}
			key, sequence, pauses = event.OrderingKey, event.Sequence, d.Ordered == postrider.PauseOnDead
		}
		in.queue = append(in.queue, blob(d.ID), blob(event.ID), blob(d.Endpoint), blob(event.Account), event.Type,
			laneNumber(d.Lane), due, claims, tokenOrNull(d.Token), key, sequence, pauses, micros(tx.now.Add(d.Expiry)))
	}
	return nil
}

// takeTurn reports whether a new row of the key has to wait. The one that need
// not makes those after it wait.
func (in *intake) takeTurn(ctx context.Context, tx *tx, k orderedKey) (busy bool, err error) {
	if in.busy[k] {
		return true, nil
	}
	if in.busy == nil {
		in.busy = map[orderedKey]bool{}
	}
	in.busy[k] = true
	return keyBusy(ctx, tx, k)
}

const (
	insertEventsSQL = `
	insert into events (id, account, type, data, api_version, ordering_key, sequence, hops, idempotency_key, created_at) values `
	insertQueueSQL = `
	insert into queue (id, event, endpoint, account, type, lane, due_at, claims, token, ordering_key, sequence, pauses, expires_at) values `
	insertFanOutsSQL = `
	insert into fanouts (event, account, type, up_to, cursor, due_at, created_at) values `
	insertKeysSQL = `
	insert into idempotency_keys (account, key, event, hash, created_at) values `
)

func (in *intake) insert(ctx context.Context, tx *tx) error {
	return errors.Join(
		tx.execAll(ctx, bulk{insertEventsSQL, "", 10}, in.events),
		tx.execAll(ctx, bulk{insertQueueSQL, "", 13}, in.queue),
		tx.execAll(ctx, bulk{putAttemptsSQL, "", attemptColumns}, in.skipped),
		tx.execAll(ctx, bulk{insertFanOutsSQL, "", 7}, in.fanOuts),
		tx.execAll(ctx, bulk{insertKeysSQL, "", 5}, in.keys),
	)
}

// Jobs are few: it walks the key of fanouts, which is their age.
const claimFanOutsSQL = `
	update fanouts
	set token = @token, due_at = @until
	where event in (select event from fanouts where due_at <= @now order by event limit @max)
	returning event, up_to, cursor, token`

// By the events' key.
const fanOutEventSQL = `
	select account, type, data, api_version, ordering_key, sequence, hops, idempotency_key, created_at from events where id = @id`

// ClaimFanOuts leases fan-out jobs; see [store.Inbox].
func (s *Store) ClaimFanOuts(ctx context.Context, c store.ClaimFanOuts) ([]store.FanOut, error) {
	return write(ctx, s, "claim fan-outs", func(ctx context.Context, tx *tx) ([]store.FanOut, error) {
		rows, err := tx.query(ctx, claimFanOutsSQL, sql.Named("now", micros(tx.now)), sql.Named("max", c.Max),
			sql.Named("token", int64(c.Token)), sql.Named("until", micros(tx.now.Add(c.Lease))))
		if err != nil {
			return nil, err
		}
		jobs, err := collect(rows, func(rows *sql.Rows, job *store.FanOut) error {
			return rows.Scan(toID(&job.Event.ID), toID(&job.UpTo), toID(&job.Cursor), toToken(&job.Token))
		})
		if err != nil {
			return nil, err
		}
		for i := range jobs {
			e := &jobs[i].Event
			err := tx.row(ctx, fanOutEventSQL, sql.Named("id", blob(e.ID))).Scan(toID(&e.Account), &e.Type,
				&e.Data, &e.APIVersion, &e.OrderingKey, &e.Sequence, &e.Hops, toString(&e.IdempotencyKey), toTime(&e.CreatedAt))
			if err != nil {
				return nil, err
			}
		}
		// Returning has no order.
		slices.SortFunc(jobs, func(a, b store.FanOut) int { return a.Event.ID.Compare(b.Event.ID) })
		return jobs, nil
	})
}

// By the key of fanouts. A chunk with another token or cursor finds no row.
const (
	moveFanOutSQL = `
	update fanouts set cursor = @to, due_at = @until
	where event = @event and token = @token and cursor = @from`
	endFanOutSQL = `
	delete from fanouts where event = @event and token = @token and cursor = @from`
)

// By the events' key. The data may be large, and no chunk needs it.
const fanOutChunkSQL = `
	select account, type, ordering_key, sequence from events where id = @id`

// FanOut stores a chunk of a fan-out job; see [store.Inbox].
func (s *Store) FanOut(ctx context.Context, c store.FanOutChunk) error {
	return change(ctx, s, "fan out", func(ctx context.Context, tx *tx) error {
		statement := moveFanOutSQL
		if c.Done {
			statement = endFanOutSQL
		}
		moved, err := tx.count(ctx, statement, sql.Named("event", blob(c.Event)), sql.Named("token", int64(c.Token)),
			sql.Named("from", blob(c.From)), sql.Named("to", blob(c.To)), sql.Named("until", micros(tx.now.Add(c.Lease))))
		if err != nil {
			return err
		}
		if moved == 0 {
			return postrider.ErrFenced
		}
		e := postrider.Event{ID: c.Event}
		err = tx.row(ctx, fanOutChunkSQL, sql.Named("id", blob(e.ID))).Scan(toID(&e.Account), &e.Type, &e.OrderingKey, &e.Sequence)
		if err != nil {
			return err
		}
		var rows intake
		if err := rows.deliveries(ctx, tx, e, c.Deliveries); err != nil {
			return err
		}
		return rows.insert(ctx, tx)
	})
}
