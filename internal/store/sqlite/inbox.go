package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// The table has one row.
const versionSQL = `select version from subscriptions`

// Publish stores batches; see [store.Inbox]. It is one job, so nothing can change between the
// check of the version, the check of the keys and the inserts. Keys and sequences need no lock.
func (s *Store) Publish(ctx context.Context, p store.Publish) (_ []store.Published, err error) {
	defer s.calls.Begin("Publish").End(&err, "publish events")
	return write(ctx, s, func(ctx context.Context, tx *tx) ([]store.Published, error) {
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

// publish stores the events that are new. It is safe to repeat: the caller makes the ids, and
// publish skips an event that is stored already and returns it as the first time.
//
//   - findOwners, findRows and Dedupe decide which events are new, which are duplicates, and which batches
//     are refused.
//   - storedSequences finds the events that an earlier run has stored.
//   - Each event gets the next sequence of its ordering key, and its rows are collected.
//   - insert writes all rows by a few bulk statements.
func publish(ctx context.Context, tx *tx, batches []store.Batch) ([]store.Published, error) {
	keys := store.Keys(batches)
	stored, err := findOwners(ctx, tx, keys)
	if err != nil {
		return nil, err
	}
	recorded, err := findRows(ctx, tx, batches)
	if err != nil {
		return nil, err
	}
	deduped := store.Dedupe(batches, stored, recorded)
	sequences, err := storedSequences(ctx, tx, deduped.New)
	if err != nil {
		return nil, err
	}
	var rows newRows
	for _, e := range deduped.New {
		if _, stored := sequences[e.Event.ID]; stored {
			continue // an earlier run has stored the event, and its reply was lost
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
	// A repeat already owns its keys. Only the other keys are inserted.
	for _, key := range keys {
		if owner, ok := deduped.NewKeys[key]; ok && stored[key] != owner {
			rows.keys = append(rows.keys, blob(key.Account), key.Key, blob(owner.Event), owner.Hash[:], micros(tx.wall))
		}
	}
	for id, event := range deduped.NewRows {
		rows.outbox = append(rows.outbox, blob(id), blob(event), micros(tx.wall))
	}
	if err := rows.insert(ctx, tx); err != nil {
		return nil, err
	}
	return deduped.Published, publishedBatches{batches, sequences}.fillSequences(ctx, tx, deduped.Published)
}

// The statement walks the primary key of idempotency_keys.
const keyOwnerSQL = `select event, hash from idempotency_keys where account = ? and key = ?`

// findOwners returns the stored owners of the idempotency keys.
func findOwners(ctx context.Context, tx *tx, keys []store.Key) (map[store.Key]store.KeyOwner, error) {
	owners := map[store.Key]store.KeyOwner{}
	for _, key := range keys {
		var owner store.KeyOwner
		var hash []byte
		err := tx.row(ctx, keyOwnerSQL, blob(key.Account), key.Key).Scan(toID(&owner.Event), &hash)
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err != nil {
			return nil, err
		}
		owner.Hash = [32]byte(hash)
		owners[key] = owner
	}
	return owners, nil
}

// The statement walks the primary key of outbox_rows.
const recordedRowsSQL = `select id, event from outbox_rows where id in (values `

// findRows returns the stored records of the rows of the batches; nil without rows.
func findRows(ctx context.Context, tx *tx, batches []store.Batch) (store.Recorded, error) {
	rows := store.ReadRows(batches)
	if len(rows) == 0 {
		return nil, nil
	}
	var ids []any
	for _, r := range rows {
		ids = append(ids, blob(r.ID))
	}
	found, err := queryAll(ctx, tx, bulkQuery[store.ReadRow]{
		bulk: bulk{recordedRowsSQL, ")", 1}, args: ids,
		scan: func(rows *sql.Rows, r *store.ReadRow) error { return rows.Scan(toID(&r.ID), toID(&r.Event)) },
	})
	recorded := store.Recorded{}
	for _, r := range found {
		recorded[r.ID] = r.Event
	}
	return recorded, err
}

// newestEventSQL reads the last entry of the primary key of events. sequencesSQL walks that key.
const (
	newestEventSQL = `select max(id) from events`
	sequencesSQL   = `select id, sequence from events where id in (values `
)

// storedEvent is an event that an earlier run has stored.
type storedEvent struct {
	id       postrider.EventID
	sequence int64
}

// storedSequences returns the sequences of the events that are stored already.
//
// Nearly every publish is a first run, and should not pay for a lookup of each event. Ids grow
// with time. So storedSequences reads the newest stored event, and looks up only ids that are not
// greater.
func storedSequences(ctx context.Context, tx *tx, events []*store.NewEvent) (map[postrider.EventID]int64, error) {
	sequences := make(map[postrider.EventID]int64, len(events))
	var newest postrider.EventID
	if err := tx.row(ctx, newestEventSQL).Scan(toID(&newest)); err != nil { // null without events: the zero id
		return nil, err
	}
	var ids []any
	for _, e := range events {
		if e.Event.ID.Compare(newest) <= 0 {
			ids = append(ids, blob(e.Event.ID))
		}
	}
	found, err := queryAll(ctx, tx, bulkQuery[storedEvent]{
		bulk: bulk{sequencesSQL, ")", 1}, args: ids,
		scan: func(rows *sql.Rows, one *storedEvent) error { return rows.Scan(toID(&one.id), &one.sequence) },
	})
	for _, one := range found {
		sequences[one.id] = one.sequence
	}
	return sequences, err
}

// nextSequenceSQL returns the next sequence of an ordering key: from 1, without gaps, because a
// job that fails is undone with its count. After a restore, sequences are above hold.sequences.
// The statement walks the primary key of ordering_keys, and reads the one row of hold.
const nextSequenceSQL = `
	insert into ordering_keys (account, ordering_key, last) values (?, ?, (select sequences from hold) + 1)
	on conflict (account, ordering_key) do update set last = max(excluded.last, last + 1)
	returning last`

// nextSequence returns the sequence of a new event, or 0 if the event has no ordering key.
func nextSequence(ctx context.Context, tx *tx, e postrider.Event) (next int64, err error) {
	if e.OrderingKey == "" {
		return 0, nil
	}
	err = tx.row(ctx, nextSequenceSQL, blob(e.Account), e.OrderingKey).Scan(&next)
	return next, err
}

// The statement walks the primary key of events.
const sequenceSQL = `select sequence from events where id = ?`

// publishedBatches are the batches of a publish, with the sequences of the events that are new or
// were stored by an earlier run.
type publishedBatches struct {
	batches   []store.Batch
	sequences map[postrider.EventID]int64 // 0 for an event without an ordering key
}

// fillSequences writes the sequences of the events into the result. A duplicate gets the sequence
// of the first event.
func (p publishedBatches) fillSequences(ctx context.Context, tx *tx, published []store.Published) error {
	for i := range published {
		for j := range published[i].Events {
			e := &published[i].Events[j]
			if p.batches[i][j].Event.OrderingKey == "" {
				continue
			}
			if sequence, ok := p.sequences[e.ID]; ok {
				e.Sequence = sequence
				continue
			}
			err := tx.row(ctx, sequenceSQL, blob(e.ID)).Scan(&e.Sequence)
			if err != nil && !errors.Is(err, sql.ErrNoRows) { // the event may be deleted before its key
				return err
			}
		}
	}
	return nil
}

// newRows collects the rows of a publish, or of a chunk of a fan-out, as the arguments of bulk
// inserts. Each table has one slice, with one row after the other.
type newRows struct {
	events, terms, queue, skipped, fanOuts []any // added by event and by deliveries
	keys                                   []any // idempotency keys, added by publish
	outbox                                 []any // rows of outboxes, added by publish
	failed                                 []any // ids of deliveries that get no attempt, added by deliveries

	blocked map[orderedKey]bool // the keys that already have a row, stored or in queue
}

// event adds an event with its deliveries, or with its fan-out job. The cursor of the job is the
// zero id, which is before every endpoint.
func (r *newRows) event(ctx context.Context, tx *tx, event postrider.Event, e *store.NewEvent) error {
	r.events = append(r.events, blob(event.ID), blob(event.Account), event.Type, someBytes(event.Data),
		event.APIVersion, event.OrderingKey, event.Sequence, event.Hops, event.MaxAttempts, textOrNull(event.IdempotencyKey),
		bytesOrNull(store.EncodeAbout(&event)), micros(event.ID.Time()))
	for _, term := range e.Terms {
		r.terms = append(r.terms, int64(term), blob(event.ID))
	}
	if !e.FanOutUpTo.IsZero() {
		r.fanOuts = append(r.fanOuts, blob(event.ID), blob(event.Account), event.Type, blob(e.FanOutUpTo),
			blob(postrider.EndpointID{}), micros(tx.now), micros(tx.wall))
	}
	return r.deliveries(ctx, tx, event, e.Deliveries)
}

// deliveries adds the deliveries of an event. There are four kinds:
//
//   - A skipped delivery is only a record.
//   - A delivery with a token is leased as attempt 1, until the end of its lease.
//   - An ordered delivery is due if it becomes the head of its key; otherwise it has due_at =
//     never.
//   - Any other delivery is due after its wait.
func (r *newRows) deliveries(ctx context.Context, tx *tx, event postrider.Event, deliveries []store.NewDelivery) error {
	for _, d := range deliveries {
		if d.Skipped != "" {
			decision := record{
				Attempt: postrider.Attempt{
					Delivery: d.ID, Event: event.ID, Endpoint: d.Endpoint, Outcome: postrider.OutcomeNone,
					Error: d.Skipped, StartedAt: tx.wall, StatusAfter: postrider.Skipped,
				},
				account: event.Account, eventType: event.Type,
			}
			tx.tally(decision)
			r.skipped = appendAttempt(r.skipped, decision)
			continue
		}
		due, claims := micros(tx.now.Add(d.Wait)), 0
		if d.Token != 0 { // admitted: due is the end of the lease, and attempt 1 is under way
			due, claims = micros(tx.now.Add(d.Lease)), 1
		}
		var key, sequence, pauses any
		if d.Ordered != "" {
			blocked, err := r.addPosition(ctx, tx, orderedKey{d.Endpoint, event.OrderingKey})
			if err != nil {
				return err
			}
			if blocked {
				due = never
			}
			key, sequence, pauses = event.OrderingKey, event.Sequence, d.Ordered == postrider.PauseOnDead
		}
		r.queue = append(r.queue, blob(d.ID), blobOrNull(store.NamedEvent(d.ID, event.ID)), blob(d.Endpoint),
			blob(event.Account), event.Type, laneNumber(d.Lane), due, claims, tokenOrNull(d.Token), key, sequence, pauses,
			micros(tx.now.Add(d.Expiry)))
		if d.Step != 0 {
			r.failed = append(r.failed, blob(d.ID))
		}
	}
	return nil
}

// addPosition reports whether a new row of the key must not be due yet. The rows of this publish
// are inserted later, so the table does not have them; r.blocked has the keys of these rows.
func (r *newRows) addPosition(ctx context.Context, tx *tx, k orderedKey) (blocked bool, err error) {
	if r.blocked[k] {
		return true, nil
	}
	if r.blocked == nil {
		r.blocked = map[orderedKey]bool{}
	}
	r.blocked[k] = true
	return keyBlocked(ctx, tx, k)
}

// The columns are in the order in which event, deliveries and publish append the arguments.
// insert has the number of columns.
const (
	insertEventsSQL = `
	insert into events (id, account, type, data, api_version, ordering_key, sequence, hops, max_attempts, idempotency_key, about, created_at) values `
	insertTermsSQL = `
	insert into event_terms (term, id) values `
	insertQueueSQL = `
	insert into queue (id, named_event, endpoint, account, type, lane, due_at, claims, token, ordering_key, sequence, pauses,
		expires_at) values `
	insertFanOutsSQL = `
	insert into fanouts (event, account, type, up_to, cursor, due_at, created_at) values `
	insertKeysSQL = `
	insert into idempotency_keys (account, key, event, hash, created_at) values `
	insertRowsSQL = `
	insert into outbox_rows (id, event, recorded_at) values `
)

// setFailedSQL marks a delivery that gets no attempt (postrider.StepFilterFailed). These are few, so the
// rows of all others are inserted without a step. It walks the primary key of queue.
const setFailedSQL = `update queue set step = -1 where id = ?`

// insert runs the bulk inserts of the tables that get rows.
func (r *newRows) insert(ctx context.Context, tx *tx) error {
	err := errors.Join(
		tx.execAll(ctx, bulk{insertEventsSQL, "", 12}, r.events),
		tx.execAll(ctx, bulk{insertTermsSQL, "", 2}, r.terms),
		tx.execAll(ctx, bulk{insertQueueSQL, "", 13}, r.queue),
		tx.execAll(ctx, bulk{putAttemptsSQL, "", attemptColumns}, r.skipped),
		tx.execAll(ctx, bulk{insertFanOutsSQL, "", 7}, r.fanOuts),
		tx.execAll(ctx, bulk{insertKeysSQL, "", 5}, r.keys),
		tx.execAll(ctx, bulk{insertRowsSQL, "", 3}, r.outbox),
	)
	for _, id := range r.failed {
		err = errors.Join(err, tx.exec(ctx, setFailedSQL, id))
	}
	return err
}

// claimFanOutsSQL leases the jobs that are due, oldest first. A leased job has the end of its
// lease in due_at, so it is due again then. Jobs are few, so the statement walks the primary key
// of fanouts, which has the order of their age.
const claimFanOutsSQL = `
	update fanouts
	set token = @token, due_at = @until
	where event in (
		select event from fanouts where due_at <= @now and instr(@except, account) = 0 order by event limit @max)
	returning event, up_to, cursor, token, created_at`

// The statement walks the primary key of events.
const fanOutEventSQL = `
	select account, type, data, api_version, ordering_key, sequence, hops, max_attempts, idempotency_key, about, created_at from events where id = @id`

// ClaimFanOuts leases fan-out jobs; see [store.Inbox].
func (s *Store) ClaimFanOuts(ctx context.Context, c store.ClaimFanOuts) (_ []store.FanOut, err error) {
	defer s.calls.Begin("ClaimFanOuts").End(&err, "claim fan-outs")
	return write(ctx, s, func(ctx context.Context, tx *tx) ([]store.FanOut, error) {
		except := make([]byte, 0, len(c.Except)*len(postrider.AccountID{})) // one account after the other
		for _, account := range c.Except {
			except = append(except, account[:]...)
		}
		rows, err := tx.query(ctx, claimFanOutsSQL, sql.Named("now", micros(tx.now)), sql.Named("max", c.Max), sql.Named("except", except),
			sql.Named("token", int64(c.Token)), sql.Named("until", micros(tx.now.Add(c.Lease))))
		if err != nil {
			return nil, err
		}
		jobs, err := collect(rows, func(rows *sql.Rows, job *store.FanOut) error {
			return rows.Scan(toID(&job.Event.ID), toID(&job.UpTo), toID(&job.Cursor), toToken(&job.Token), toTime(&job.AcceptedAt))
		})
		if err != nil {
			return nil, err
		}
		for i := range jobs {
			e := &jobs[i].Event
			err := tx.row(ctx, fanOutEventSQL, sql.Named("id", blob(e.ID))).Scan(toID(&e.Account), &e.Type,
				&e.Data, &e.APIVersion, &e.OrderingKey, &e.Sequence, &e.Hops, &e.MaxAttempts,
				toString(&e.IdempotencyKey), toAbout(e), toTime(&e.CreatedAt))
			if err != nil {
				return nil, err
			}
		}
		// The clause "returning" has no order.
		slices.SortFunc(jobs, func(a, b store.FanOut) int { return a.Event.ID.Compare(b.Event.ID) })
		return jobs, nil
	})
}

// The last chunk ends the job. A chunk with another token or cursor finds no row. Both statements
// walk the primary key of fanouts.
const (
	moveFanOutSQL = `
	update fanouts set cursor = @to, due_at = @until
	where event = @event and token = @token and cursor = @from`
	endFanOutSQL = `
	delete from fanouts where event = @event and token = @token and cursor = @from`
)

// The statement walks the primary key of events. It does not read the data, which may be large,
// because no chunk needs it.
const fanOutChunkSQL = `
	select account, type, ordering_key, sequence from events where id = @id`

// FanOut stores a chunk of a fan-out job; see [store.Inbox]. One statement compares and changes
// the token and the cursor. So a chunk is stored once, even if it comes late or twice.
func (s *Store) FanOut(ctx context.Context, c store.FanOutChunk) (err error) {
	defer s.calls.Begin("FanOut").End(&err, "fan out")
	return changeInBulk(ctx, s, func(ctx context.Context, tx *tx) error {
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
		var rows newRows
		if err := rows.deliveries(ctx, tx, e, c.Deliveries); err != nil {
			return err
		}
		return rows.insert(ctx, tx)
	})
}
