package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// This file keeps the order of an ordering key.
//
// The ordered rows of one endpoint and ordering key are sorted by sequence. The row with the
// lowest sequence is the head. Only the head is ever due; the others have due_at = infinity.
// Deliveries are claimed by the index queue_due, which does not have such rows. So no claim ever
// tests the order, and deliveries without an order do not pay for it.
//
// A replay job adds rows with lower sequences. If the head is due then, it stays the head until
// it ends, and the lowest row follows. In a backfill only a leased head stays; see deferHeadsSQL.
//
// Example: a key has the sequences 4, 5 and 6. Row 4 is the head; it is due or leased. When it is
// delivered, 5 gets due_at = now in the same transaction. If instead it becomes a dead letter and
// its endpoint pauses the key, no row becomes due: paused_keys gets a row, and 5 waits until a
// person replays or discards 4.
//
// Two questions must have one answer. Is a new row the head (the key has no rows and is not
// paused)? Which row is the next head? Two transactions that ask at the same time could both see
// a row that the other is about to delete, and then no row would ever become due. So both
// questions are asked under a lock, on the key's row in ordering_keys:
//
//   - A publish locks the row by the upsert that assigns its sequences, and holds the lock until
//     its commit. A chunk of a fan-out locks the row too.
//   - Everything that ends an ordered delivery (Settle, Cancel, Expire, CancelDeleted, Replay,
//     Discard) locks the row before it locks or changes a row of the queue. All transactions lock
//     keys first, sorted, and rows second, which excludes deadlocks.
//
// The lock belongs to a transaction. If a node dies while it has the lock, the server rolls the
// transaction back, and the key is as it was before. If a node dies while it has the lease of a
// head, the row stays the head: the lease ends and is taken over like any other.

// lockOrderingKeysSQL locks the ordering keys of the deliveries, in the order in which publishes
// lock them. A delivery has a key if it is ordered in the queue, or if it is the dead letter that
// pauses the key. The inner select sorts the keys, and the outer one locks row by row, so the
// rows are locked in that order.
//
// The lock is on a row. A key without a row would not be locked, and nobody would notice. So a
// program that deletes idle keys from ordering_keys must keep those that have rows in queue or
// paused_keys.
//
// Ordered rows are found by their sequence. With a condition on the ordering key, the planner
// could walk all of queue_order_key: that seems free while the statistics say that no row is
// ordered.
//
// The statement walks queue_pkey, paused_keys_delivery and ordering_keys_pkey.
const lockOrderingKeysSQL = `
	select
	from (
		select q.account, q.ordering_key
		from unnest(@ids::uuid[]) as d (id)
		cross join lateral (
			(
				select q.account, q.ordering_key
				from queue q
				where q.id = d.id and q.sequence is not null
				limit 1
			)
			union all
			(
				select p.account, p.ordering_key
				from paused_keys p
				where p.delivery = d.id
				limit 1
			)
		) q
		group by q.account, q.ordering_key
		order by q.account, q.ordering_key
	) k
	cross join lateral (
		select
		from ordering_keys h
		where h.account = k.account and h.ordering_key = k.ordering_key
		for update
	) h`

// orderedSQL selects the deliveries that are ordered, and locks their rows until the transaction
// ends. A null token accepts any lease, or none. A settlement has a token. If its lease was taken
// over, it is stale: its row is not selected, and the key does not advance.
//
// It is a separate statement after lockOrderingKeysSQL. Each statement has a new snapshot, so
// this one sees what was committed while the first one waited. It walks queue_pkey.
const orderedSQL = `
	select d.place - 1, q.id, q.endpoint, q.account, q.ordering_key, q.sequence, q.pauses,
		q.due_at = 'infinity' and not q.parked
	from unnest(@ids::uuid[], @tokens::bigint[]) with ordinality as d (id, token, place)
	cross join lateral (
		select q.*
		from queue q
		where q.id = d.id and q.sequence is not null and (d.token is null or q.token = d.token)
		limit 1
		for update
	) q
	order by q.sequence, q.id`

// position is an ordered delivery that is about to end.
type position struct {
	place    int // index of the delivery in the argument @ids
	delivery postrider.DeliveryID
	endpoint postrider.EndpointID
	account  postrider.AccountID
	key      string
	sequence int64
	pauses   bool // whether it pauses its key if it becomes a dead letter
	blocked  bool // whether another row is the head or the key is paused, so that no row becomes due when this one ends
}

// collectPositions reads the rows of orderedSQL.
func collectPositions(into *[]position) func(pgx.Rows) error {
	return func(rows pgx.Rows) (err error) {
		*into, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (p position, err error) {
			err = row.Scan(&p.place, toID(&p.delivery), toID(&p.endpoint), toID(&p.account), &p.key, &p.sequence, &p.pauses, &p.blocked)
			return p, err
		})
		return err
	}
}

// lockPositions begins a transaction and locks the ordering keys of the deliveries. It returns
// the positions of the ordered ones, by sequence. With tokens, a delivery must have the token of
// the same index; nil accepts any lease.
func lockPositions(ctx context.Context, conn *pgxpool.Conn, ids uuids, tokens []int64) ([]position, error) {
	var positions []position
	leases := make([]*int64, len(ids))
	for i := range tokens {
		leases[i] = &tokens[i]
	}
	args := pgx.NamedArgs{"ids": ids, "tokens": leases}
	b := &pgx.Batch{}
	b.Queue(beginSQL)
	b.Queue(lockOrderingKeysSQL, args)
	b.Queue(orderedSQL, args).Query(collectPositions(&positions))
	if err := conn.SendBatch(ctx, b).Close(); err != nil {
		return nil, fmt.Errorf("lock ordering keys: %w", err)
	}
	return positions, nil
}

// pauseKeysSQL pauses the keys of dead letters. The caller leaves out dead letters that were not
// the head, which Expire can make; they pause nothing. The statement walks paused_keys_pkey.
const pauseKeysSQL = `
	insert into paused_keys (endpoint, ordering_key, account, delivery, sequence, since)
	select d.endpoint, d.key, d.account, d.delivery, d.sequence, now()
	from unnest(@endpoints::uuid[], @keys::text[], @accounts::uuid[], @deliveries::uuid[], @sequences::bigint[])
		as d (endpoint, key, account, delivery, sequence)
	on conflict (endpoint, ordering_key) do nothing`

// releaseHeadsSQL makes the head of each key due, unless the head is due already or parked, or
// the key is paused.
//
// The caller must read @now after the wait for the key's lock. Suppose that it read @now before a
// long wait. Then the row would become due in the past, below the low watermark of its lane (see
// claimSlack), and claims would miss the row until the next full scan.
//
// The statement walks queue_order_key and paused_keys_pkey.
const releaseHeadsSQL = `
	with next as materialized (
		select k.place, q.at
		from unnest(@endpoints::uuid[], @keys::text[]) with ordinality as k (endpoint, key, place)
		cross join lateral (
			select q.ctid as at, q.due_at, q.parked
			from queue q
			where q.endpoint = k.endpoint and q.ordering_key = k.key
			order by q.sequence
			limit 1
		) q
		where q.due_at = 'infinity' and not q.parked
			and not exists (select from paused_keys p where p.endpoint = k.endpoint and p.ordering_key = k.key)
	)
	update queue q
	set due_at = @now::timestamptz
	from next
	where q.ctid = next.at
	returning next.place - 1, q.lane`

// orderedKey names an ordering key at one endpoint.
type orderedKey struct {
	endpoint postrider.EndpointID
	key      string
}

// queueAdvance queues the statements that advance the keys of ended deliveries: pauseKeysSQL for
// the dead letters that pause their key, and then releaseHeadsSQL once for each key. The
// positions in dead are also in ended, sorted by sequence. It returns a map that gets the lanes
// of the new heads when the batch is sent; a key without a new head has an empty lane.
func (s *Store) queueAdvance(b *pgx.Batch, ended, dead []position) map[orderedKey]postrider.Lane {
	queuePauses(b, dead)
	lanes := map[orderedKey]postrider.Lane{}
	var distinct []orderedKey
	var endpoints uuids
	var keys []string
	for _, p := range ended {
		k := orderedKey{p.endpoint, p.key}
		if _, known := lanes[k]; known || p.blocked {
			continue
		}
		lanes[k] = ""
		distinct, endpoints, keys = append(distinct, k), append(endpoints, someUUID(p.endpoint)), append(keys, p.key)
	}
	if len(distinct) == 0 {
		return lanes
	}
	b.Queue(releaseHeadsSQL, pgx.NamedArgs{"endpoints": endpoints, "keys": keys, "now": s.clock.Now()}).Query(func(rows pgx.Rows) error {
		var place int
		var lane postrider.Lane
		_, err := pgx.ForEachRow(rows, []any{&place, toLane(&lane)}, func() error {
			lanes[distinct[place]] = lane
			return nil
		})
		return err
	})
	return lanes
}

// queuePauses queues the pauses by the dead positions that pause their key.
func queuePauses(b *pgx.Batch, dead []position) {
	var endpoints, accounts, deliveries uuids
	var keys []string
	var sequences []int64
	for _, p := range dead {
		if p.pauses && !p.blocked {
			endpoints, accounts = append(endpoints, someUUID(p.endpoint)), append(accounts, someUUID(p.account))
			deliveries, keys = append(deliveries, someUUID(p.delivery)), append(keys, p.key)
			sequences = append(sequences, p.sequence)
		}
	}
	if len(keys) > 0 {
		b.Queue(pauseKeysSQL, pgx.NamedArgs{
			"endpoints": endpoints, "accounts": accounts, "deliveries": deliveries, "keys": keys, "sequences": sequences,
		})
	}
}

// orderedKeysSQL is a skip scan. Each step of the recursion finds the next key in the queue or
// among the paused keys, however many rows a key has. It stops after @limit keys. It counts up to
// 1,000 pending rows of each key, so the cost of a page has a limit.
//
// It reads without the key's lock, so the head can change while the list is read. It walks
// queue_order_key and paused_keys_pkey.
const orderedKeysSQL = `
	with recursive listed (key, n) as (
		select @after::text collate "C", 0
		union all
		select least(
				(
					select q.ordering_key
					from queue q
					where q.endpoint = @endpoint and q.ordering_key > l.key
					order by q.endpoint, q.ordering_key
					limit 1
				), (
					select p.ordering_key
					from paused_keys p
					where p.endpoint = @endpoint and p.ordering_key > l.key
					order by p.ordering_key
					limit 1
				)), l.n + 1
		from listed l
		where l.key is not null and l.n < @limit
			and exists (select from endpoints e where e.id = @endpoint and (@account::uuid is null or e.account = @account))
	)
	select l.key, w.n, h.id, coalesce(h.sequence, 0), p.since, p.delivery
	from listed l
	cross join lateral (
		select count(*) as n
		from (
			select
			from queue q
			where q.endpoint = @endpoint and q.ordering_key = l.key
			limit 1000
		) q
	) w
	left join lateral (
		select q.id, q.sequence
		from queue q
		where q.endpoint = @endpoint and q.ordering_key = l.key
		order by q.sequence
		limit 1
	) h on true
	left join lateral (
		select p.since, p.delivery
		from paused_keys p
		where p.endpoint = @endpoint and p.ordering_key = l.key
		limit 1
	) p on true
	where l.n > 0 and l.key is not null
	order by l.key`

// OrderedKeys lists the ordering keys of an endpoint, sorted by key; see [store.Ledger].
func (s *Store) OrderedKeys(ctx context.Context, q store.OrderedKeyQuery) (page store.Page[store.OrderedKey], err error) {
	defer s.calls.Begin("OrderedKeys").End(&err, "list ordering keys of %s", q.Endpoint)
	after, err := q.Key()
	if err != nil {
		return page, err
	}
	keys, err := list(ctx, s, query{orderedKeysSQL, pgx.NamedArgs{
		"after": after, "endpoint": someUUID(q.Endpoint), "account": uuid(q.Account), "limit": q.Size() + 1,
	}}, scanOrderedKey)
	return store.Cut(keys, q.Paging, func(k store.OrderedKey) string { return k.Key }), err
}

func scanOrderedKey(row pgx.CollectableRow) (k store.OrderedKey, err error) {
	err = row.Scan(&k.Key, &k.Waiting, toID(&k.Head), &k.Sequence, toTime(&k.Since), toID(&k.PausedBy))
	if k.PausedBy.IsZero() {
		k.Since = k.Head.Time()
	}
	return k, err
}
