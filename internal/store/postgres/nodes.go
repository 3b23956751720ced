package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// A node that is being reclaimed waits here, before it holds the membership up for
// all others. Whoever reclaims or forgets a node has this lock and never takes
// that of the membership, so nobody waits in a circle. Walks nodes_pkey.
const lockSelfSQL = `select from nodes where incarnation = @incarnation for update`

// Beats are serial in the whole cluster: what one sees, no other changes. The
// lock is let go by the commit.
const lockMembershipSQL = `select pg_advisory_xact_lock(hashtext('postrider_nodes'))`

// @now is from after the wait for the locks. Walks nodes_pkey.
const heartbeatSQL = `
	insert into nodes as n (incarnation, instance, seen_at, ttl, leaving, started_at, locked_on)
	values (@incarnation, @instance, @now, @ttl, @leaving, now(), case when @locked then pg_postmaster_start_time() end)
	on conflict (incarnation) do update
	set seen_at = excluded.seen_at, ttl = excluded.ttl, leaving = excluded.leaving, free_since = null,
		locked_on = case when @locked then excluded.locked_on when not @unlocked then n.locked_on end
	where n.instance = excluded.instance
	returning locked_on is not null and not @locked`

// A free lock says that a node is dead while the server runs on which the node
// took it; after a restart or a failover all locks are free. Changes what has
// changed alone. Reads all of a table of a few rows.
const watchLocksSQL = `
	update nodes n
	set free_since = case when n.free_since is null then @now::timestamptz end
	where n.incarnation <> @incarnation
		and (n.free_since is not null)
			<> coalesce(n.locked_on = pg_postmaster_start_time() and n.incarnation <> all (@held::bigint[]), false)`

// Reads all of a table of 256 rows.
const freeShardsSQL = `
	update shards
	set owner = null
	where owner in (select n.incarnation from nodes n where n.free_since is not null)`

// Reads all of a table of 256 rows.
const releaseShardsSQL = `
	update shards
	set owner = null
	where owner = @incarnation and (@shards::smallint[] is null or shard = any (@shards::smallint[]))`

// Reads all of a table of a few rows, the node itself among them.
const membershipSQL = `
	select n.incarnation, n.leaving, n.seen_at + n.ttl * interval '1 microsecond' <= @now, n.free_since is not null,
		coalesce(n.free_since + @grace * interval '1 microsecond' <= @now, false)
	from nodes n
	order by n.incarnation`

// Takes what nobody owns until the node has its share. Reads all of a table of
// 256 rows.
const acquireShardsSQL = `
	with free as materialized (
		select s.shard
		from shards s
		where s.owner is null and @acquires
		order by s.shard
		limit greatest(0, @share - (select count(*) from shards where owner = @incarnation))
	), acquired as (
		update shards s
		set owner = @incarnation
		from free f
		where s.shard = f.shard
		returning s.shard
	)
	select shard
	from acquired
	union all
	select shard
	from shards
	where owner = @incarnation
	order by shard`

// Heartbeat is a node's heartbeat.
func (s *Store) Heartbeat(ctx context.Context, b store.Heartbeat) (store.Membership, error) {
	var membership store.Membership
	err := s.repeat(ctx, func(bool) error {
		return s.tx(ctx, func(tx pgx.Tx) (err error) {
			membership, err = s.heartbeat(ctx, tx, b)
			return err
		})
	})
	if err != nil {
		return store.Membership{}, fmt.Errorf("heartbeat of incarnation %d: %w", b.Incarnation, err)
	}
	return membership, nil
}

func (s *Store) heartbeat(ctx context.Context, tx pgx.Tx, b store.Heartbeat) (store.Membership, error) {
	args := pgx.NamedArgs{
		"incarnation": int64(b.Incarnation), "instance": b.Instance[:], "ttl": b.TTL.Microseconds(),
		"leaving": b.Leaving, "shards": shardNumbers(b.Release),
	}
	s.self.Store(b.Incarnation)
	var held heldLocks
	locks := &pgx.Batch{}
	locks.Queue(lockSelfSQL, args)
	locks.Queue(lockMembershipSQL)
	locks.Queue(heldLocksSQL, lockArgs(b.Incarnation)).Query(held.collect)
	if err := tx.SendBatch(ctx, locks).Close(); err != nil {
		return store.Membership{}, fmt.Errorf("lock the membership: %w", err)
	}
	locked, shared := s.sessions.state(b.Incarnation, held)
	args["now"], args["locked"], args["unlocked"] = s.clock.Now(), locked, b.Unlocked || shared
	args["held"], args["grace"] = held.incarnations, store.LockGrace.Microseconds()
	var r store.Membership
	switch err := tx.QueryRow(ctx, heartbeatSQL, args).Scan(&r.Unlocked); {
	case errors.Is(err, pgx.ErrNoRows):
		return store.Membership{}, fmt.Errorf("another instance has it: %w", postrider.ErrConflict)
	case err != nil:
		return store.Membership{}, err
	}
	if err := readMembership(ctx, tx, args, &r); err != nil {
		return store.Membership{}, fmt.Errorf("read the membership: %w", err)
	}
	share := 0
	if !b.Leaving {
		share = (store.Shards + r.Nodes - 1) / max(r.Nodes, 1)
	}
	args["share"] = share
	if len(b.Release) > 0 {
		if _, err := tx.Exec(ctx, releaseShardsSQL, args); err != nil {
			return store.Membership{}, fmt.Errorf("release shards: %w", err)
		}
	}
	args["acquires"] = !r.Unlocked
	rows, _ := tx.Query(ctx, acquireShardsSQL, args)
	owned, err := pgx.CollectRows(rows, pgx.RowTo[int16])
	if err != nil {
		return store.Membership{}, fmt.Errorf("acquire shards: %w", err)
	}
	for _, shard := range owned {
		r.Shards = append(r.Shards, uint8(shard))
	}
	r.Surplus = max(0, len(r.Shards)-share)
	return r, nil
}

// readMembership notes which locks are free, and reads who is alive.
func readMembership(ctx context.Context, tx pgx.Tx, args pgx.NamedArgs, r *store.Membership) error {
	b := &pgx.Batch{}
	b.Queue(watchLocksSQL, args)
	b.Queue(freeShardsSQL)
	b.Queue(membershipSQL, args).Query(func(rows pgx.Rows) error {
		var incarnation uint32
		var leaving, silent, free, gone bool
		_, err := pgx.ForEachRow(rows, []any{&incarnation, &leaving, &silent, &free, &gone}, func() error {
			switch {
			case gone:
				r.Gone = append(r.Gone, incarnation)
			case silent:
				r.Silent = append(r.Silent, incarnation)
			case !leaving && !free:
				r.Nodes++
			}
			return nil
		})
		return err
	})
	return tx.SendBatch(ctx, b).Close()
}

func shardNumbers(shards []uint8) []int16 {
	numbers := make([]int16, len(shards))
	for i, shard := range shards {
		numbers[i] = int16(shard)
	}
	return numbers
}

// Whether the node is dead, under a lock that keeps it from beating until the
// transaction ends. All survivors hear of a death at once: one reclaims, and
// the others do not wait for it. Walks nodes_pkey.
const lockNodeSQL = `
	select n.seen_at + n.ttl * interval '1 microsecond' <= @now
		or coalesce(n.free_since + @grace * interval '1 microsecond' <= @now and n.locked_on = pg_postmaster_start_time(), false)
			and not exists (` + heldLocksSQL + ` and l.objid = @objid)
	from nodes n
	where n.incarnation = @incarnation
	for update skip locked`

// Reads all of the queue: deaths are rare, and an index on tokens would cost
// every delivery. As claimSQL takes a lease over, but for nobody. What the node
// leased of the suspect lane is taken whole, so that it is known whether that
// was one row alone.
const reclaimSQL = `
	with suspects as materialized (
		select q.ctid as at, q.id, q.claims, q.event, q.endpoint, q.account, q.type, q.replayed_from,
			q.deaths_alone
		from queue q
		where q.lane = 3 and q.token between @first and @last
		for update
	), others as materialized (
		select q.ctid as at, q.id, q.claims, q.event, q.endpoint, q.account, q.type, q.replayed_from,
			q.deaths_alone
		from queue q
		where q.lane <> 3 and q.token between @first and @last
		limit @limit
		for update
	), leased as materialized (
		select s.at, s.id, s.claims, s.event, s.endpoint, s.account, s.type, s.replayed_from,
			s.deaths_alone + ((select count(*) from suspects) = 1)::int as deaths
		from suspects s
		union all
		select o.at, o.id, o.claims, o.event, o.endpoint, o.account, o.type, o.replayed_from, o.deaths_alone
		from others o
	), lost as (
		insert into attempts (delivery, number, event, endpoint, account, type, outcome, status_code, error,
			retry_after, started_at, duration, stale, status_after, replayed_from)
		select id, claims, event, endpoint, account, type, 'lost', 0, 'node_died', 0, now(), 0, false, 'pending', replayed_from
		from leased
		on conflict (delivery, number) do nothing
	), freed as (
		update queue q
		set token = null, losses = q.losses + 1, deaths_alone = leased.deaths, parked = leased.deaths >= @parked,
			lane = case when q.losses + 1 >= @suspected then 3 else q.lane end,
			due_at = case when leased.deaths >= @parked then 'infinity' else @now::timestamptz end
		from leased
		where q.ctid = leased.at
	)
	select count(*) from leased`

// Walks nodes_pkey.
const deleteNodeSQL = `delete from nodes where incarnation = @incarnation`

// Reclaim takes what a dead node held.
func (s *Store) Reclaim(ctx context.Context, incarnation uint32, limit int) (int, error) {
	first := int64(uint64(incarnation) << 32)
	args := pgx.NamedArgs{
		"incarnation": int64(incarnation), "first": first, "last": first | (1<<32 - 1), "limit": limit, "shards": nil,
		"suspected": postrider.SuspectedAfter, "parked": postrider.ParkedAfter,
		"grace": store.LockGrace.Microseconds(),
	}
	maps.Copy(args, lockArgs(incarnation))
	var n int
	err := s.once(ctx, func() error {
		n = 0
		args["now"] = s.clock.Now()
		return s.tx(ctx, func(tx pgx.Tx) (err error) {
			n, err = reclaim(ctx, tx, args, limit)
			return err
		})
	})
	if err != nil {
		return 0, fmt.Errorf("reclaim incarnation %d: %w", incarnation, err)
	}
	return n, nil
}

func reclaim(ctx context.Context, tx pgx.Tx, args pgx.NamedArgs, limit int) (int, error) {
	rows, _ := tx.Query(ctx, lockNodeSQL, args)
	dead, err := pgx.CollectRows(rows, pgx.RowTo[bool])
	if err != nil || len(dead) == 0 || !dead[0] {
		return 0, err
	}
	var n int
	b := &pgx.Batch{}
	b.Queue(`set local enable_seqscan = on`)
	b.Queue(reclaimSQL, args).QueryRow(func(row pgx.Row) error { return row.Scan(&n) })
	if err := tx.SendBatch(ctx, b).Close(); err != nil || n == limit {
		return n, err
	}
	return n, forget(ctx, tx, args)
}

// Forget ends a node that has released all it had.
func (s *Store) Forget(ctx context.Context, incarnation uint32) error {
	args := pgx.NamedArgs{"incarnation": int64(incarnation), "shards": nil}
	err := s.repeat(ctx, func(bool) error {
		return s.tx(ctx, func(tx pgx.Tx) error { return forget(ctx, tx, args) })
	})
	if err != nil {
		return fmt.Errorf("forget incarnation %d: %w", incarnation, err)
	}
	return nil
}

func forget(ctx context.Context, tx pgx.Tx, args pgx.NamedArgs) error {
	b := &pgx.Batch{}
	b.Queue(deleteNodeSQL, args)
	b.Queue(releaseShardsSQL, args)
	return tx.SendBatch(ctx, b).Close()
}

// Messages go to all who listen in this database.
const channel = "postrider"

// Wake sends a short message to every node that listens.
func (s *Store) Wake(ctx context.Context, message string) error {
	_, err := s.pool.Exec(ctx, `select pg_notify($1, $2)`, channel, message)
	if err != nil {
		return fmt.Errorf("wake: %w", fault(err))
	}
	return nil
}
