package postgres

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// Publish stores the batches in one transaction. Without idempotency keys and ordering keys it
// needs one round trip; idempotency keys and rows of outboxes need a second one, and ordering keys a third.
//
// A repeat is safe. The caller makes the ids of events, so a repeat has the same ids. If the
// first run was stored, events_pkey refuses them (codeUnique). If the first run is still
// committing, the insert waits for it. Then the publish runs once more as a repeat: it skips the
// rows that are stored, and returns what the first run would have returned.
//
// Batches with a key that is stuck (see locks.go) are left out of the transaction.
func (s *Store) Publish(ctx context.Context, p store.Publish) (published []store.Published, err error) {
	defer s.calls.Begin("Publish").End(&err, "publish")
	locks := func() []lockKey { return publishLocks(p.Batches) }
	err = s.pastLocks(ctx, locks, func(without map[lockKey]bool) (err error) {
		published, err = s.publishWithout(ctx, p, without)
		return err
	})
	switch {
	case isCode(err, codeMoved):
		return nil, store.ErrMoved
	case err != nil:
		return nil, err
	}
	return published, nil
}

// publishWithout stores the batches that need none of the stuck keys in without. The result of every
// other batch has Locked set. If it does not get a lock, it returns the error of the server.
func (s *Store) publishWithout(ctx context.Context, p store.Publish, without map[lockKey]bool) ([]store.Published, error) {
	all := make([]store.Published, len(p.Batches))
	part := store.Publish{Version: p.Version}
	var places []int
	for i, batch := range p.Batches {
		if all[i] = (store.Published{Conflict: -1, Locked: refusal(batch, without)}); all[i].Locked == nil {
			part.Batches, places = append(part.Batches, batch), append(places, i)
		}
	}
	if len(places) == 0 {
		return all, nil
	}
	var published []store.Published
	err := s.retry(ctx, true, 0, func(again bool) (err error) {
		published, err = s.publish(ctx, part, again)
		if isCode(err, codeUnique) {
			// An event with this id is stored, so the reply to an earlier run was lost.
			published, err = s.publish(ctx, part, true)
		}
		return err
	})
	for i := range published {
		all[places[i]] = published[i]
	}
	return all, err
}

// publish runs the transaction once. The parameter again says that an earlier run may have been
// stored; then events that are stored already are skipped.
//
// The first branch is for a publish that must read before it writes. The second branch is for all
// others, and sends everything at once.
func (s *Store) publish(ctx context.Context, p store.Publish, again bool) ([]store.Published, error) {
	if again || readsFirst(p.Batches) {
		t := publishing{Publish: p, again: again}
		err := s.withConn(ctx, func(conn *pgxpool.Conn) error { return t.run(ctx, conn, s.clock) })
		return t.deduped.Published, err
	}
	deduped := store.Dedupe(p.Batches, nil, nil)
	rows := rowsOf(deduped.New, nil)
	b := &pgx.Batch{}
	rows.queue(b, s.clock.Now())
	b.Queue(checkVersionSQL, pgx.NamedArgs{"version": p.Version})
	return deduped.Published, s.pool.SendBatch(ctx, b).Close()
}

// checkVersionSQL fails with codeMoved unless the subscriptions still have the version that
// matched the deliveries. The caller then matches again.
//
// The check must come after the inserts. If a first run was stored and its reply was lost, the
// inserts wait for it and fail by their ids, which is the right answer. With the check first, the
// repeat could see a newer version and answer that nothing was stored, although the first run
// was.
//
// The statement reads the version without a lock, and begins after Publish was called. So it
// always sees a change of an endpoint that was acknowledged before the publish began.
const checkVersionSQL = `select postrider_check_version(@version)`

// readsFirst reports whether the publish must read before it writes. It must if an event has an
// idempotency key, an ordering key or a row of an outbox.
func readsFirst(batches []store.Batch) bool {
	for _, batch := range batches {
		for i := range batch {
			if e := &batch[i].Event; e.IdempotencyKey != "" || e.OrderingKey != "" || !e.Row.IsZero() {
				return true
			}
		}
	}
	return false
}

// publishing is one run of a publish that must read before it writes.
type publishing struct {
	store.Publish
	again bool

	deduped   store.Deduped                // set by run, after the owners of all keys are known
	rows      []store.ReadRow              // of the batches; set by insertRows
	recorded  store.Recorded               // the rows that earlier transactions recorded; set by insertRows
	recording store.Recorded               // the rows that this transaction recorded provisionally; set by insertRows
	stored    map[store.Key]store.KeyOwner // keys that earlier transactions stored; set by insertKeys
	mine      map[store.Key]store.KeyOwner // keys that this transaction inserted provisionally; set by insertKeys
	sequences map[postrider.EventID]int64  // of stored events, set by notStored; of new events, set by assignSequences
}

// run stores the publish on the connection. Each step needs the result of the step before:
//
//   - insertKeys records the rows of outboxes and inserts the idempotency keys, which locks them
//     against other publishes. It also reads the owner of each row and key that another publish has.
//   - Dedupe decides which events are new.
//   - notStored skips the events that an earlier run has stored.
//   - assignSequences locks the ordering keys and assigns the next sequences.
//   - The last batch corrects the rows and the idempotency keys, inserts all rows, checks the version of the
//     subscriptions and commits.
//
// Rows of outboxes are always locked first, then idempotency keys, then ordering keys, and each kind in
// sorted order, so publishes cannot deadlock.
func (t *publishing) run(ctx context.Context, conn *pgxpool.Conn, clock *store.Clock) error {
	if err := t.insertKeys(ctx, conn); err != nil {
		return err
	}
	t.deduped = store.Dedupe(t.Batches, t.stored, t.recorded)
	events, err := t.notStored(ctx, conn)
	if err != nil {
		return err
	}
	if err := t.assignSequences(ctx, conn, events); err != nil {
		return err
	}
	t.fillSequences()

	b := &pgx.Batch{}
	t.storeRows(b)
	t.storeKeys(b)
	rows := rowsOf(events, t.sequences)
	rows.queue(b, clock.Now())
	// Otherwise an earlier run has stored everything, with a version that was right then.
	if len(events) > 0 || len(t.deduped.New) == 0 {
		b.Queue(checkVersionSQL, pgx.NamedArgs{"version": t.Version})
	}
	b.Queue(commitSQL)
	return conn.SendBatch(ctx, b).Close()
}

// insertKeysSQL inserts the idempotency keys, and returns those that had no owner. If another
// transaction has inserted a key and not yet committed, the statement waits. If that transaction
// commits, the key has an owner; otherwise this transaction becomes the owner. So exactly one of
// parallel publishes with the same key owns it, on any number of nodes.
//
// The keys are sorted (see store.Keys), so two publishes never wait for each other. The statement
// walks idempotency_keys_pkey.
const insertKeysSQL = `
	insert into idempotency_keys (account, key, event, hash, created_at)
	select k.account, k.key, k.event, k.hash, now()
	from unnest(@accounts::uuid[], @keys::text[], @events::uuid[], @hashes::bytea[]) as k (account, key, event, hash)
	on conflict (account, key) do nothing
	returning account, key, event, hash`

// keyOwnersSQL reads the owners of the keys. It runs after insertKeysSQL, as a separate
// statement, so that its snapshot has the keys for which insertKeysSQL waited. It walks
// idempotency_keys_pkey.
const keyOwnersSQL = `
	select h.account, h.key, h.event, h.hash
	from unnest(@accounts::uuid[], @keys::text[]) as k (account, key)
	cross join lateral (
		select h.*
		from idempotency_keys h
		where h.account = k.account and h.key = k.key
		limit 1
	) h`

// insertKeys begins the transaction, records the rows of outboxes, and inserts every idempotency key for the first event that
// has it. This is provisional: Dedupe decides which events are stored, and needs the stored
// owners for that. storeKeys corrects the keys.
func (t *publishing) insertKeys(ctx context.Context, conn *pgxpool.Conn) error {
	b := &pgx.Batch{}
	b.Queue(beginSQL)
	t.insertRows(b)
	t.stored, t.mine = map[store.Key]store.KeyOwner{}, map[store.Key]store.KeyOwner{}
	if keys := store.Keys(t.Batches); len(keys) > 0 {
		columns := keyColumns(keys, firstOwners(t.Batches))
		b.Queue(insertKeysSQL, columns).Query(collectOwners(t.mine))
		b.Queue(keyOwnersSQL, columns).Query(collectOwners(t.stored))
	}
	if err := conn.SendBatch(ctx, b).Close(); err != nil {
		return err
	}
	for key := range t.mine {
		delete(t.stored, key)
	}
	for row := range t.recording {
		delete(t.recorded, row)
	}
	return nil
}

// firstOwners returns, for each idempotency key, the first event of the batches that has it.
func firstOwners(batches []store.Batch) map[store.Key]store.KeyOwner {
	owners := map[store.Key]store.KeyOwner{}
	for _, batch := range batches {
		for _, e := range batch {
			key := store.Key{Account: e.Event.Account, Key: e.Event.IdempotencyKey}
			if _, known := owners[key]; key.Key != "" && !known {
				owners[key] = store.KeyOwner{Event: e.Event.ID, Hash: store.ContentHash(e.Event)}
			}
		}
	}
	return owners
}

// keyColumns returns the keys with their owners as the columns of insertKeysSQL.
func keyColumns(keys []store.Key, owners map[store.Key]store.KeyOwner) pgx.NamedArgs {
	var accounts, events uuids
	var names []string
	var hashes [][]byte
	for _, key := range keys {
		owner := owners[key]
		accounts, events = append(accounts, someUUID(key.Account)), append(events, someUUID(owner.Event))
		names, hashes = append(names, key.Key), append(hashes, owner.Hash[:])
	}
	return pgx.NamedArgs{"accounts": accounts, "keys": names, "events": events, "hashes": hashes}
}

// collectOwners returns a function that reads rows of keys and their owners into the map.
func collectOwners(into map[store.Key]store.KeyOwner) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		var key store.Key
		var owner store.KeyOwner
		var hash []byte
		_, err := pgx.ForEachRow(rows, []any{toID(&key.Account), &key.Key, toID(&owner.Event), &hash}, func() error {
			owner.Hash = [32]byte(hash)
			into[key] = owner
			return nil
		})
		return err
	}
}

// notStored returns the new events that no earlier run has stored. It notes the sequences of all
// stored events of the publish, with the duplicates.
//
// In a first run without stored keys and recorded rows nothing can be stored, so no query is needed.
func (t *publishing) notStored(ctx context.Context, conn *pgxpool.Conn) ([]*store.NewEvent, error) {
	t.sequences = map[postrider.EventID]int64{}
	if !t.again && len(t.stored)+len(t.recorded) == 0 {
		return t.deduped.New, nil
	}
	var ids, accounts uuids
	for i, p := range t.deduped.Published {
		for j, e := range p.Events {
			ids, accounts = append(ids, someUUID(e.ID)), append(accounts, someUUID(t.Batches[i][j].Event.Account))
		}
	}
	rows, _ := conn.Query(ctx, storedSQL, pgx.NamedArgs{"ids": ids, "accounts": accounts})
	var id postrider.EventID
	var sequence int64
	_, err := pgx.ForEachRow(rows, []any{toID(&id), &sequence}, func() error {
		t.sequences[id] = sequence
		return nil
	})
	events := slices.DeleteFunc(slices.Clone(t.deduped.New), func(e *store.NewEvent) bool {
		_, stored := t.sequences[e.Event.ID]
		return stored
	})
	return events, err
}

// storedSQL returns which of the events are stored. It compares account too, so that the planner
// does not choose another index for an empty partition. It walks events_pkey.
const storedSQL = `
	select p.id, e.sequence
	from unnest(@ids::uuid[], @accounts::uuid[]) as p (id, account)
	cross join lateral (
		select e.sequence
		from events e
		where e.id = p.id and e.account = p.account
		limit 1
	) e`

// nextSequencesSQL adds the number of new events to the last sequence of each ordering key, and
// returns the new last sequence. The upsert locks the row of the key until the commit, so another
// publish with the same key waits. So sequences have the order of commits, without gaps. (A
// database sequence would assign numbers before the commit, and leave gaps after a rollback.)
//
// After a restore, new sequences are above hold.sequences; it is 0 if the store was never held.
//
// The lock also decides which row of a key is the head; see order.go. The keys are sorted. The
// statement walks ordering_keys_pkey and hold_pkey.
const nextSequencesSQL = `
	insert into ordering_keys as k (account, ordering_key, last)
	select n.account, n.key, h.sequences + n.events
	from unnest(@accounts::uuid[], @keys::text[], @events::bigint[]) as n (account, key, events)
	cross join hold h
	on conflict (account, ordering_key) do update
	set last = excluded.last + greatest(k.last - (select h.sequences from hold h where h.single), 0)
	returning account, ordering_key, last`

// assignSequences assigns sequences to the new events. Events of one key in one publish get
// consecutive sequences, in the order of the batches. Example: 7 is the last sequence of a key
// and three events are new; the statement returns 10, and the events get 8, 9 and 10.
func (t *publishing) assignSequences(ctx context.Context, conn *pgxpool.Conn, added []*store.NewEvent) error {
	counts := map[store.Key]int64{}
	for _, e := range added {
		if e.Event.OrderingKey != "" {
			counts[orderingKeyOf(e)]++
		}
	}
	if len(counts) == 0 {
		return nil
	}
	var accounts uuids
	var names []string
	var events []int64
	for _, key := range sortedKeys(counts) {
		accounts, names, events = append(accounts, someUUID(key.Account)), append(names, key.Key), append(events, counts[key])
	}
	rows, _ := conn.Query(ctx, nextSequencesSQL, pgx.NamedArgs{"accounts": accounts, "keys": names, "events": events})
	var key store.Key
	var head int64
	last := map[store.Key]int64{} // the last assigned sequence of each key
	_, err := pgx.ForEachRow(rows, []any{toID(&key.Account), &key.Key, &head}, func() error {
		last[key] = head - counts[key]
		return nil
	})
	for _, e := range added {
		if e.Event.OrderingKey != "" {
			last[orderingKeyOf(e)]++
			t.sequences[e.Event.ID] = last[orderingKeyOf(e)]
		}
	}
	return err
}

func orderingKeyOf(e *store.NewEvent) store.Key {
	return store.Key{Account: e.Event.Account, Key: e.Event.OrderingKey}
}

// sortedKeys returns the ordering keys in the order in which every transaction locks them.
func sortedKeys(counts map[store.Key]int64) []store.Key {
	keys := make([]store.Key, 0, len(counts))
	for key := range counts {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b store.Key) int {
		return cmp.Or(a.Account.Compare(b.Account), cmp.Compare(a.Key, b.Key))
	})
	return keys
}

// fillSequences writes the sequences of the events into the result.
func (t *publishing) fillSequences() {
	for _, p := range t.deduped.Published {
		for i := range p.Events {
			p.Events[i].Sequence = t.sequences[p.Events[i].ID]
		}
	}
}

// The statement walks idempotency_keys_pkey.
const dropKeysSQL = `
	delete from idempotency_keys k
	using unnest(@accounts::uuid[], @keys::text[]) as d (account, key)
	where k.account = d.account and k.key = d.key`

// storeKeys queues the difference between the keys that insertKeys has inserted and the keys that
// Dedupe wants. It deletes a key whose batch was refused. If a later batch has that key too, it
// inserts the key again for the event of the later batch. Example: batch 1 has the keys a and b,
// and b belongs to other content; batch 2 has the key a. Batch 1 is refused, so a must belong to
// the event of batch 2.
func (t *publishing) storeKeys(b *pgx.Batch) {
	var drop, insert []store.Key
	for _, key := range store.Keys(t.Batches) {
		mine, isMine := t.mine[key]
		want, wanted := t.deduped.NewKeys[key]
		_, isStored := t.stored[key]
		right := isMine && wanted && mine == want
		if isMine && !right {
			drop = append(drop, key)
		}
		if wanted && !right && !isStored {
			insert = append(insert, key)
		}
	}
	if len(drop) > 0 {
		b.Queue(dropKeysSQL, keyColumns(drop, t.mine))
	}
	if len(insert) > 0 {
		b.Queue(insertKeysSQL, keyColumns(insert, t.deduped.NewKeys))
	}
}

// claimFanOutsSQL leases the jobs that have been due for longest. A new job is due when its event
// is stored, so the oldest event comes first. A leased job has the end of its lease in due_at, so
// it is due again then. With "skip locked" several nodes can claim at once without waiting for
// each other. The statement walks fanouts_due_at, and updates by ctid as claimSQL does.
const claimFanOutsSQL = `
	with due as materialized (
		select f.ctid as at
		from fanouts f
		where f.due_at <= @now and f.account <> all(@except)
		order by f.due_at
		limit @max
		for update skip locked
	), claimed as (
		update fanouts f
		set token = @token, due_at = @now::timestamptz + @lease * interval '1 microsecond'
		from due
		where f.ctid = due.at
		returning f.event, f.account, f.type, f.up_to, f.cursor, f.created_at
	)
	select c.event, c.account, c.type, c.up_to, c.cursor, c.created_at, e.data,
		coalesce(e.api_version, ''), coalesce(e.ordering_key, ''), coalesce(e.sequence, 0), coalesce(e.hops, 0), coalesce(e.max_attempts, 0),
		coalesce(e.idempotency_key, ''), e.about
	from claimed c
	left join lateral (
		select e.*
		from all_events e
		where e.id = c.event and e.account = c.account
		limit 1
	) e on true
	order by c.event`

// ClaimFanOuts leases fan-out jobs that are due; see [store.Inbox].
func (s *Store) ClaimFanOuts(ctx context.Context, c store.ClaimFanOuts) (jobs []store.FanOut, err error) {
	defer s.calls.Begin("ClaimFanOuts").End(&err, "claim fan-outs")
	except := make(uuids, len(c.Except))
	for i, account := range c.Except {
		except[i] = someUUID(account)
	}
	err = s.once(ctx, func() (err error) {
		rows, _ := s.pool.Query(ctx, claimFanOutsSQL, pgx.NamedArgs{
			"max": c.Max, "except": except, "token": token(c.Token), "lease": c.Lease.Microseconds(), "now": s.clock.Now(),
		})
		jobs, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (store.FanOut, error) {
			f := store.FanOut{Token: c.Token}
			err := row.Scan(toID(&f.Event.ID), toID(&f.Event.Account), &f.Event.Type, toID(&f.UpTo), toID(&f.Cursor), toTime(&f.AcceptedAt),
				&f.Event.Data, &f.Event.APIVersion, &f.Event.OrderingKey, &f.Event.Sequence, &f.Event.Hops,
				&f.Event.MaxAttempts, &f.Event.IdempotencyKey, toAbout(&f.Event))
			f.Event.CreatedAt = f.Event.ID.Time()
			return f, err
		})
		return err
	})
	return jobs, err
}

// moveFanOutSQL moves or ends a fan-out job only if the job has the token and the cursor of the
// chunk. So a chunk is stored once, even if a node stores it after the end of its lease, or
// repeats it. Exactly one of moved and ended finds the row; the last chunk ends the job. The
// statement walks fanouts_pkey.
const moveFanOutSQL = `
	with moved as (
		update fanouts
		set cursor = @to, due_at = @now::timestamptz + @lease * interval '1 microsecond'
		where event = @event and token = @token and cursor = @from and not @done
		returning account, type
	), ended as (
		delete from fanouts
		where event = @event and token = @token and cursor = @from and @done
		returning account, type
	)
	select c.account, c.type, coalesce(e.ordering_key, ''), coalesce(e.sequence, 0)
	from (select account, type from moved union all select account, type from ended) c
	left join lateral (
		select e.ordering_key, e.sequence
		from all_events e
		where e.id = @event and e.account = c.account
		limit 1
	) e on true`

// FanOut chooses the head row of a key under this lock, which Publish also takes. The statement
// walks ordering_keys_pkey.
const lockOrderingKeySQL = `
	select
	from ordering_keys
	where account = @account and ordering_key = @key
	for update`

// FanOut stores a chunk of a fan-out job and moves the job's cursor, in one transaction. If a
// repeat finds that the cursor has moved, fannedOut decides whether the first run moved it.
func (s *Store) FanOut(ctx context.Context, c store.FanOutChunk) (err error) {
	defer s.calls.Begin("FanOut").End(&err, "fan out %s", c.Event)
	return s.repeat(ctx, func(again bool) error {
		err := s.withConn(ctx, func(conn *pgxpool.Conn) error { return s.fanOut(ctx, conn, c) })
		if again && errors.Is(err, postrider.ErrFenced) {
			return s.fannedOut(ctx, c)
		}
		return err
	})
}

// fanOut runs the transaction once. The first round trip moves the cursor, which locks the job,
// and reads the columns of the event that the deliveries need. The second one inserts the
// deliveries and commits. If the deliveries have an order, fanOut locks the key between the two
// round trips. It reads the time at which the head is due after that lock.
func (s *Store) fanOut(ctx context.Context, conn *pgxpool.Conn, c store.FanOutChunk) error {
	e := store.NewEvent{Event: postrider.Event{ID: c.Event}, Deliveries: c.Deliveries}
	b := &pgx.Batch{}
	b.Queue(beginSQL)
	b.Queue(moveFanOutSQL, pgx.NamedArgs{
		"event": someUUID(c.Event), "token": token(c.Token), "from": someUUID(c.From), "to": someUUID(c.To),
		"done": c.Done, "lease": c.Lease.Microseconds(), "now": s.clock.Now(),
	}).QueryRow(func(row pgx.Row) error {
		return row.Scan(toID(&e.Event.Account), &e.Event.Type, &e.Event.OrderingKey, &e.Event.Sequence)
	})
	switch err := conn.SendBatch(ctx, b).Close(); {
	case errors.Is(err, pgx.ErrNoRows):
		return postrider.ErrFenced
	case err != nil:
		return err
	}
	var rows newRows
	rows.addDeliveries(&e, e.Event.Sequence)
	if len(rows.ordered.keys) > 0 {
		_, err := conn.Exec(ctx, lockOrderingKeySQL, pgx.NamedArgs{"account": someUUID(e.Event.Account), "key": e.Event.OrderingKey})
		if err != nil {
			return err
		}
	}
	b = &pgx.Batch{}
	rows.queue(b, s.clock.Now())
	b.Queue(commitSQL)
	return conn.SendBatch(ctx, b).Close()
}

// The statement walks queue_pkey and attempts_pkey.
const fannedOutSQL = `
	select exists (select from queue where id = @id)
		or exists (select from attempts where delivery = @id)`

// fannedOut decides whether a run whose reply was lost has stored the chunk. If so, the first
// delivery of the chunk is pending or has an attempt. For a chunk without deliveries it cannot
// decide, and returns ErrFenced. The caller then gives up the job, and the next claim of the job
// continues from its cursor.
func (s *Store) fannedOut(ctx context.Context, c store.FanOutChunk) error {
	if len(c.Deliveries) == 0 {
		return postrider.ErrFenced // nothing is lost, and the job continues without the caller
	}
	var stored bool
	err := s.pool.QueryRow(ctx, fannedOutSQL, pgx.NamedArgs{"id": someUUID(c.Deliveries[0].ID)}).Scan(&stored)
	if err == nil && !stored {
		err = postrider.ErrFenced
	}
	return err
}
