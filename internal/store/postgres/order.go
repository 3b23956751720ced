package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// Of the ordered rows of an endpoint and ordering key, only the one whose turn
// it is is due; the others are due at infinity, where no claim looks. Whether
// there is another row, and which is next, is decided under the lock of the
// key's row in order_heads: publishes hold it to their commit, and whoever ends
// an ordered delivery takes it first, before any row of the queue. Deliveries
// without an order pay for none of this.

// Locks the keys of those deliveries that are ordered, or that pause a key, in
// the order in which publishes lock them. The lock is the row: where there is
// none, nothing is locked and nobody is told. Whoever deletes idle keys from
// order_heads must leave those that have rows in queue or paused_keys. Walks
// queue_pkey, paused_keys_delivery, order_heads_pkey.
const lockHeadsSQL = `
	select
	from (
		select q.account, q.ordering_key
		from unnest(@ids::uuid[]) as d (id)
		cross join lateral (
			(
				select q.account, q.ordering_key
				from queue q
				where q.id = d.id and q.ordering_key is not null
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
		from order_heads h
		where h.account = k.account and h.ordering_key = k.ordering_key
		for update
	) h`

// What is ordered among the deliveries, which nobody takes away before the
// transaction ends. A null token stands for any. Walks queue_pkey.
const orderedSQL = `
	select d.place - 1, q.id, q.endpoint, q.account, q.ordering_key, q.sequence, q.pauses
	from unnest(@ids::uuid[], @tokens::bigint[]) with ordinality as d (id, token, place)
	cross join lateral (
		select q.*
		from queue q
		where q.id = d.id and q.ordering_key is not null and (d.token is null or q.token = d.token)
		limit 1
		for update
	) q
	order by q.sequence, q.id`

// turn is an ordered delivery that is about to end.
type turn struct {
	place    int // among the deliveries that were asked for
	delivery postrider.DeliveryID
	endpoint postrider.EndpointID
	account  postrider.AccountID
	key      string
	sequence int64
	pauses   bool // if it ends as a dead letter
}

func collectTurns(into *[]turn) func(pgx.Rows) error {
	return func(rows pgx.Rows) (err error) {
		*into, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (t turn, err error) {
			err = row.Scan(&t.place, toID(&t.delivery), toID(&t.endpoint), toID(&t.account), &t.key, &t.sequence, &t.pauses)
			return t, err
		})
		return err
	}
}

// lockTurns begins a transaction and returns those of the deliveries that are
// ordered, their keys locked. tokens are the leases that they must have; nil:
// none in particular.
func lockTurns(ctx context.Context, conn *pgxpool.Conn, ids uuids, tokens []int64) ([]turn, error) {
	var turns []turn
	leases := make([]*int64, len(ids))
	for i := range tokens {
		leases[i] = &tokens[i]
	}
	args := pgx.NamedArgs{"ids": ids, "tokens": leases}
	b := &pgx.Batch{}
	b.Queue(beginSQL)
	b.Queue(lockHeadsSQL, args)
	b.Queue(orderedSQL, args).Query(collectTurns(&turns)) // its snapshot sees what the lock waited for
	if err := conn.SendBatch(ctx, b).Close(); err != nil {
		return nil, fmt.Errorf("lock ordering keys: %w", err)
	}
	return turns, nil
}

// A dead letter pauses its key if it was its turn: nothing before it is left.
// Where several ended at once, that is the first of them. Walks queue_order_key
// and paused_keys_pkey.
const pauseKeysSQL = `
	insert into paused_keys (endpoint, ordering_key, account, delivery, sequence, since)
	select d.endpoint, d.key, d.account, d.delivery, d.sequence, now()
	from unnest(@endpoints::uuid[], @keys::text[], @accounts::uuid[], @deliveries::uuid[], @sequences::bigint[])
		with ordinality as d (endpoint, key, account, delivery, sequence, place)
	where not exists (
		select
		from queue q
		where q.endpoint = d.endpoint and q.ordering_key = d.key and q.sequence < d.sequence)
	order by d.place
	on conflict (endpoint, ordering_key) do nothing`

// The first row of each key is due. @now is from after the wait for the key's
// lock: claims look back over a few seconds only. Walks queue_order_key and paused_keys_pkey.
const nextTurnsSQL = `
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

// line names the ordered deliveries of one endpoint and ordering key.
type line struct {
	endpoint postrider.EndpointID
	key      string
}

// queueTurns queues what lets the lines of ended deliveries go on. dead are
// those that ended as dead letters, in the order of their sequences. The lanes
// of those whose turn has come are in the map when the batch was sent.
func (s *Store) queueTurns(b *pgx.Batch, ended, dead []turn) map[line]postrider.Lane {
	var pauses struct {
		endpoints, accounts, deliveries uuids
		keys                            []string
		sequences                       []int64
	}
	for _, t := range dead {
		if t.pauses {
			pauses.endpoints, pauses.keys = append(pauses.endpoints, someUUID(t.endpoint)), append(pauses.keys, t.key)
			pauses.accounts = append(pauses.accounts, someUUID(t.account))
			pauses.deliveries = append(pauses.deliveries, someUUID(t.delivery))
			pauses.sequences = append(pauses.sequences, t.sequence)
		}
	}
	if len(pauses.keys) > 0 {
		b.Queue(pauseKeysSQL, pgx.NamedArgs{
			"endpoints": pauses.endpoints, "keys": pauses.keys, "accounts": pauses.accounts,
			"deliveries": pauses.deliveries, "sequences": pauses.sequences,
		})
	}
	lanes := map[line]postrider.Lane{}
	var lines []line
	var endpoints uuids
	var keys []string
	for _, t := range ended {
		l := line{t.endpoint, t.key}
		if _, known := lanes[l]; known {
			continue
		}
		lanes[l] = ""
		lines, endpoints, keys = append(lines, l), append(endpoints, someUUID(t.endpoint)), append(keys, t.key)
	}
	if len(lines) == 0 {
		return lanes
	}
	b.Queue(nextTurnsSQL, pgx.NamedArgs{"endpoints": endpoints, "keys": keys, "now": s.clock.Now()}).Query(func(rows pgx.Rows) error {
		var place int
		var lane postrider.Lane
		_, err := pgx.ForEachRow(rows, []any{&place, toLane(&lane)}, func() error {
			lanes[lines[place]] = lane
			return nil
		})
		return err
	})
	return lanes
}

// A skip scan of the keys that have rows in the queue or are paused, by
// queue_order_key and paused_keys_pkey.
const orderedKeysSQL = `
	with recursive line (key, n) as (
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
		from line l
		where l.key is not null and l.n < @limit
			and exists (select from endpoints e where e.id = @endpoint and (@account::uuid is null or e.account = @account))
	)
	select l.key, w.n, h.id, coalesce(h.sequence, 0), p.since, p.delivery
	from line l
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

// OrderedKeys lists the ordering keys of an endpoint, by key.
func (s *Store) OrderedKeys(ctx context.Context, q store.OrderedKeyQuery) (store.Page[store.OrderedKey], error) {
	after, err := q.Key()
	if err != nil {
		return store.Page[store.OrderedKey]{}, err
	}
	keys, err := list(ctx, s, query{orderedKeysSQL, pgx.NamedArgs{
		"after": after, "endpoint": someUUID(q.Endpoint), "account": uuid(q.Account), "limit": q.Size() + 1,
	}}, scanOrderedKey)
	if err != nil {
		return store.Page[store.OrderedKey]{}, fmt.Errorf("list ordering keys of %s: %w", q.Endpoint, err)
	}
	return store.Cut(keys, q.Paging, func(k store.OrderedKey) string { return k.Key }), nil
}

func scanOrderedKey(row pgx.CollectableRow) (k store.OrderedKey, err error) {
	err = row.Scan(&k.Key, &k.Waiting, toID(&k.Head), &k.Sequence, toTime(&k.Since), toID(&k.PausedBy))
	if k.PausedBy.IsZero() {
		k.Since = k.Head.Time()
	}
	return k, err
}
