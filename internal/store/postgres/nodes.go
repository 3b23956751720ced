package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// lockSelfSQL lets a node that is being reclaimed wait at its own row, before it takes the lock
// of the membership. Otherwise the node would wait while it has that lock, and all heartbeats of
// the cluster would wait behind it. Reclaim and Forget lock the row of the node and never take
// the lock of the membership, so there is no deadlock. It walks nodes_pkey.
const lockSelfSQL = `select from nodes where incarnation = @incarnation for update`

// lockMembershipSQL allows one heartbeat at a time in the whole cluster. While a heartbeat reads
// the nodes and distributes shards, nobody else changes them. So no shard ever gets two owners,
// and each node counts the same nodes. The lock ends with the transaction, even if the node dies.
const lockMembershipSQL = `select pg_advisory_xact_lock(hashtext('postrider_nodes'))`

// hurrySQL shortens the time after which the server ends a node that stands still. The lock of
// the membership stops the heartbeats of all nodes, so the node must be ended long before the
// others' TTL is over. It also lets a heartbeat wait for its turn, because the server serves those
// that wait in order: by trying again after lockWait, a node far from the server might never get the lock.
const hurrySQL = `
	select set_config('idle_in_transaction_session_timeout', '1s', true), set_config('lock_timeout', '3s', true)`

// heartbeatSQL stores the heartbeat. The caller reads @now after the wait for both locks.
// Otherwise a heartbeat that waited for long would look older than it is, and the node would seem
// dead.
//
// The column locked_on is the start time of the server on which the node has its lock. It is set
// while the node has its lock, stays after the node has lost it, and is null if the node
// has no lock and only sends heartbeats (@unlocked). The statement returns whether the node had its lock and has
// lost it. It returns no row if another instance has the incarnation. It walks nodes_pkey.
const heartbeatSQL = `
	insert into nodes as n (incarnation, instance, host, address, public_key, seen_at, ttl, leaving, started_at, locked_on)
	values (@incarnation, @instance, @host, @address, @public_key, @now, @ttl, @leaving, @now,
		case when @locked then pg_postmaster_start_time() end)
	on conflict (incarnation) do update
	set seen_at = excluded.seen_at, ttl = excluded.ttl, leaving = excluded.leaving, free_since = null,
		locked_on = case when @locked then excluded.locked_on when not @unlocked then n.locked_on end
	where n.instance = excluded.instance
	returning locked_on is not null and not @locked`

// watchLocksSQL stores, for every other node, since when its lock has been free, or that it is
// held again. A free lock means death only as long as the server runs on which the node took the
// lock. After a restart or a failover all locks are free, and living nodes would look dead. A row
// is written only if its state changes. The statement reads the whole table, which has a few
// rows.
const watchLocksSQL = `
	update nodes n
	set free_since = case when n.free_since is null then @now::timestamptz end
	where n.incarnation <> @incarnation
		and (n.free_since is not null)
			<> coalesce(n.locked_on = pg_postmaster_start_time() and n.incarnation <> all (@held::bigint[]), false)`

// freeShardsSQL removes the owner of the shards of nodes whose locks are free, at once. Their
// leased deliveries stay leased until Reclaim, after store.LockGrace: a node whose connection was
// cut may still be alive, with requests under way. The statement reads the whole table of 256
// rows.
const freeShardsSQL = `
	update shards
	set owner = null
	where owner in (select n.incarnation from nodes n where n.free_since is not null)`

// releaseShardsSQL removes the owner of @shards, or, if that is null, of all shards of the node. It
// does nothing if another instance has the incarnation. It reads the whole table of 256 rows.
const releaseShardsSQL = `
	update shards
	set owner = null
	where owner = @incarnation and (@shards::smallint[] is null or shard = any (@shards::smallint[]))
		and not exists (select from nodes n where n.incarnation = @incarnation and n.instance <> @instance)`

// membershipSQL returns the state of every node, this node included: whether it leaves, whether
// it is silent (no heartbeat for its TTL), whether its lock is free, and whether it is gone (its
// lock has been free for longer than the grace); its address, its key and its shards. It reads both
// tables, which have a few rows and 256.
const membershipSQL = `
	select n.incarnation, n.leaving, n.seen_at + n.ttl * interval '1 microsecond' <= @now, n.free_since is not null,
		coalesce(n.free_since + @grace * interval '1 microsecond' <= @now, false), n.address, n.public_key,
		array(select s.shard from shards s where s.owner = n.incarnation order by s.shard)
	from nodes n
	order by n.incarnation`

// acquireShardsSQL gives the node free shards until it has its share, unless it has lost its lock. It
// returns all shards that it owns, and the share, which is 0 for a node that leaves. No shard is ever
// taken from a living node: a node with more than its share learns its Surplus, and releases shards
// that have nothing in flight. The statement reads both tables, which have a few rows and 256.
const acquireShardsSQL = `
	with share as materialized (
		select case when @leaving then 0 else (@all + count(*) - 1) / greatest(1, count(*)) end as size
		from nodes n
		where not n.leaving and n.free_since is null and n.seen_at + n.ttl * interval '1 microsecond' > @now
	), free as materialized (
		select s.shard
		from shards s
		where s.owner is null
			and exists (
				select from nodes n
				where n.incarnation = @incarnation and n.instance = @instance and (n.locked_on is null or @locked)
			)
		order by s.shard
		limit (select greatest(0, size - (select count(*) from shards where owner = @incarnation)) from share)
	), acquired as (
		update shards s
		set owner = @incarnation
		from free f
		where s.shard = f.shard
		returning s.shard
	)
	select a.shard, share.size
	from (select shard from acquired union all select shard from shards where owner = @incarnation) a, share
	order by a.shard`

// membersSQL counts a node as dead as soon as its lock is free, before another node's heartbeat
// notices that. It reads all rows of nodes and of shards, which are few.
const membersSQL = `
	with held as materialized (` + heldLocksSQL + `)
	select n.incarnation, n.host, (select count(*) from shards s where s.owner = n.incarnation), n.started_at, n.seen_at, n.leaving,
		n.seen_at + n.ttl * interval '1 microsecond' <= @now or n.free_since is not null
			or coalesce(n.locked_on = pg_postmaster_start_time() and n.incarnation not in (select h.objid from held h), false)
	from nodes n
	where @shard::smallint is null or exists (select from shards s where s.shard = @shard and s.owner = n.incarnation)
	order by n.incarnation`

// Members lists the nodes; see [store.Nodes].
func (s *Store) Members(ctx context.Context, owns postrider.EndpointID) (_ []store.Member, err error) {
	defer s.calls.Begin("Members").End(&err, "list nodes")
	args := at(s.clock.Now(), lockArgs(0))
	if args["shard"] = nil; !owns.IsZero() {
		args["shard"] = int16(store.Shard(owns))
	}
	return list(ctx, s, query{membersSQL, args}, func(row pgx.CollectableRow) (m store.Member, err error) {
		err = row.Scan(&m.Incarnation, &m.Host, &m.Shards, toTime(&m.StartedAt), toTime(&m.SeenAt), &m.Leaving, &m.Dead)
		m.StartedAt, m.SeenAt = s.clock.Shown(m.StartedAt), s.clock.Shown(m.SeenAt)
		return m, err
	})
}

// Heartbeat stores a node's heartbeat and returns the membership; see [store.Nodes].
func (s *Store) Heartbeat(ctx context.Context, b store.Heartbeat) (membership store.Membership, err error) {
	defer s.calls.Begin("Heartbeat").End(&err, "heartbeat of incarnation %d", b.Incarnation)
	err = s.repeat(ctx, func(bool) error {
		return s.withConn(ctx, func(conn *pgxpool.Conn) (err error) {
			membership, err = s.heartbeat(ctx, conn, b)
			return err
		})
	})
	return membership, err
}

// heartbeat runs the statements of one heartbeat. It has the lock of the membership for one round
// trip, because all nodes wait for it.
//
// The order matters: the node's own row first, then which locks are free, then the shards of dead
// nodes, then the state of the nodes, and then the shards that the node gets. The node's released
// shards are freed after the count of nodes and before the acquisition, so that another node finds
// them at its next heartbeat. The node does not get them back, because it has its share already or
// leaves. If another instance has the incarnation, the statements change none of its rows.
func (s *Store) heartbeat(ctx context.Context, conn *pgxpool.Conn, b store.Heartbeat) (r store.Membership, err error) {
	args := pgx.NamedArgs{
		"incarnation": int64(b.Incarnation), "instance": b.Instance[:], "host": b.Host, "address": b.Address,
		"public_key": b.PublicKey[:], "ttl": b.TTL.Microseconds(), "leaving": b.Leaving, "shards": shardNumbers(b.Release),
		"all": store.Shards,
	}
	s.self.Store(b.Incarnation)
	var held heldLocks
	locks := &pgx.Batch{}
	locks.Queue(beginSQL)
	locks.Queue(hurrySQL)
	locks.Queue(lockSelfSQL, args)
	locks.Queue(lockMembershipSQL)
	locks.Queue(`set local lock_timeout to default`) // all heartbeats wait for the membership, so it is not kept for other locks
	locks.Queue(heldLocksSQL, lockArgs(b.Incarnation)).Query(held.collect)
	if err := conn.SendBatch(ctx, locks).Close(); err != nil {
		return r, fmt.Errorf("lock the membership: %w", err)
	}
	locked, shared := s.sessions.state(b.Incarnation, held)
	args["now"], args["locked"], args["unlocked"] = s.clock.Now(), locked, b.Unlocked || shared
	args["held"], args["grace"] = held.incarnations, store.LockGrace.Microseconds()
	work := &pgx.Batch{}
	work.Queue(heartbeatSQL, args).QueryRow(func(row pgx.Row) error {
		err := row.Scan(&r.Unlocked)
		if errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("another instance has it: %w", postrider.ErrConflict)
		}
		return err
	})
	work.Queue(watchLocksSQL, args)
	work.Queue(freeShardsSQL)
	work.Queue(membershipSQL, args).Query(func(rows pgx.Rows) error { return collectMembers(rows, b.Incarnation, &r) })
	work.Queue(releaseShardsSQL, args)
	work.Queue(acquireShardsSQL, args).Query(func(rows pgx.Rows) error {
		var shard uint8
		var share int
		_, err := pgx.ForEachRow(rows, []any{&shard, &share}, func() error {
			r.Shards = append(r.Shards, shard)
			r.Surplus = max(0, len(r.Shards)-share)
			return nil
		})
		return err
	})
	work.Queue(commitSQL)
	if err := conn.SendBatch(ctx, work).Close(); err != nil {
		return store.Membership{}, err
	}
	return r, nil
}

// collectMembers reads the rows of membershipSQL. A node can be both gone and silent; it is listed as
// gone, because a free lock is the more certain sign of death.
func collectMembers(rows pgx.Rows, own uint32, r *store.Membership) error {
	var n store.Peer
	var key []byte
	var shards []int16
	var leaving, silent, free, gone bool
	_, err := pgx.ForEachRow(rows, []any{&n.Incarnation, &leaving, &silent, &free, &gone, &n.Address, &key, &shards}, func() error {
		switch {
		case gone:
			r.Gone = append(r.Gone, n.Incarnation)
		case silent:
			r.Silent = append(r.Silent, n.Incarnation)
		case !leaving && !free:
			r.Nodes++
			if n.Address != "" && n.Incarnation != own {
				n.PublicKey, n.Shards = [32]byte(key), shardsOf(shards)
				r.Peers = append(r.Peers, n)
			}
		}
		return nil
	})
	return err
}

func shardsOf(numbers []int16) (shards []uint8) {
	for _, shard := range numbers {
		shards = append(shards, uint8(shard))
	}
	return shards
}

func shardNumbers(shards []uint8) []int16 {
	numbers := make([]int16, len(shards))
	for i, shard := range shards {
		numbers[i] = int16(shard)
	}
	return numbers
}

// lockNodeSQL decides again whether the node is dead. It locks the row of the node until the
// transaction ends, so that the node cannot send a heartbeat in the meantime. The second decision
// is needed because the node may have come back since the caller's heartbeat. It reads pg_locks
// too, because the node may have its lock again without having sent a heartbeat.
//
// All surviving nodes learn of a death at the same moment. With "skip locked" one of them
// reclaims, and the others continue. The statement walks nodes_pkey.
const lockNodeSQL = `
	select n.seen_at + n.ttl * interval '1 microsecond' <= @now
		or coalesce(n.free_since + @grace * interval '1 microsecond' <= @now and n.locked_on = pg_postmaster_start_time(), false)
			and not exists (` + heldLocksSQL + ` and l.objid = @objid)
	from nodes n
	where n.incarnation = @incarnation
	for update skip locked`

// reclaimSQL ends the leases of a dead node. The tokens of the node are the numbers from @first
// to @last: the upper 32 bits of a token are the incarnation of its node. The statement reads the
// whole queue, because deaths are rare and an index on tokens would cost every delivery
// (sequential scans are allowed only for this transaction).
//
// Each row becomes due at once, without a token, and its attempt under way is recorded as lost,
// as claimSQL does when it takes a lease over. There are two differences: nobody gets a new
// lease, and deaths in the suspect lane are counted.
//
// The parts suspects and others: leases in lane 3 are taken in one call without a limit, because
// the statement must know whether there was exactly one. If so, that delivery was the only
// suspect in flight when the node died, and deaths_alone grows. After @parked such deaths in a
// row the delivery is parked: due at infinity, until a person decides. With a limit, two calls
// could each see one row, and park an innocent delivery.
const reclaimSQL = `
	with suspects as materialized (
		select q.ctid as at, q.id, q.claims, q.named_event, q.endpoint, q.account, q.type, q.replayed_from, q.replay_job,
			q.deaths_alone
		from queue q
		where q.lane = 3 and q.token between @first and @last
		for update
	), others as materialized (
		select q.ctid as at, q.id, q.claims, q.named_event, q.endpoint, q.account, q.type, q.replayed_from, q.replay_job,
			q.deaths_alone
		from queue q
		where q.lane <> 3 and q.token between @first and @last
		limit @limit
		for update
	), leased as materialized (
		select s.at, s.id, s.claims, s.named_event, s.endpoint, s.account, s.type, s.replayed_from, s.replay_job,
			s.deaths_alone + ((select count(*) from suspects) = 1)::int as deaths
		from suspects s
		union all
		select o.at, o.id, o.claims, o.named_event, o.endpoint, o.account, o.type, o.replayed_from, o.replay_job, o.deaths_alone
		from others o
	), lost as (
		insert into attempts (delivery, number, named_event, endpoint, account, type, outcome, status_code, error,
			retry_after, started_at, duration, stale, status_after, replayed_from, replay_job)
		select id, claims, named_event, endpoint, account, type, 'lost', 0, 'server_died', 0, now(), 0, false, 'pending',
			replayed_from, replay_job
		from leased
		on conflict (delivery, number) do nothing
	), counted as (
		` + insertDeltaSQL + `
		select endpoint, account, type, 'lost' as outcome, claims as number, 'pending' as status
		from leased
		` + insertDeltaEnd + `
	), freed as (
		update queue q
		set token = null, losses = q.losses + 1, deaths_alone = leased.deaths, parked = leased.deaths >= @parked,
			lane = case when q.losses + 1 >= @suspected then 3 else q.lane end,
			due_at = case when leased.deaths >= @parked then 'infinity' else @now::timestamptz end
		from leased
		where q.ctid = leased.at
	)
	select count(*) from leased`

// The statement walks nodes_pkey.
const deleteNodeSQL = `delete from nodes where incarnation = @incarnation`

// Reclaim ends the leases of a dead node; see [store.Nodes]. It does not run again when its reply
// is lost, because its caller needs the count. The caller calls it again, and the work of the
// first call is done.
func (s *Store) Reclaim(ctx context.Context, incarnation uint32, limit int) (n int, err error) {
	defer s.calls.Begin("Reclaim").End(&err, "reclaim incarnation %d", incarnation)
	first := int64(uint64(incarnation) << 32)
	args := pgx.NamedArgs{
		"incarnation": int64(incarnation), "first": first, "last": first | (1<<32 - 1), "limit": limit, "shards": nil,
		"suspected": postrider.SuspectedAfter, "parked": postrider.ParkedAfter,
		"grace": store.LockGrace.Microseconds(),
	}
	maps.Copy(args, lockArgs(incarnation))
	err = s.once(ctx, func() error {
		n = 0
		args["now"] = s.clock.Now()
		return s.tx(ctx, func(tx pgx.Tx) (err error) {
			n, err = reclaim(ctx, tx, args, limit)
			return err
		})
	})
	return undone(n, err)
}

// reclaim reclaims up to limit deliveries, and forgets the node if nothing is left. The result
// can be more than limit, because it counts all suspects and up to limit other deliveries.
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
	if err := tx.SendBatch(ctx, b).Close(); err != nil || n >= limit {
		return n, err
	}
	return n, forget(ctx, tx, args)
}

// leasedSQL walks queue_pkey from @newer. An index on tokens would cost every delivery.
const leasedSQL = `
	select q.id, q.endpoint, q.lane
	from queue q
	where q.id > @newer and q.token = @token`

// Leased lists deliveries that are leased under a token; see [store.Nodes].
func (s *Store) Leased(
	ctx context.Context, token postrider.Token, newerThan postrider.DeliveryID,
) (_ []store.SessionLease, err error) {
	defer s.calls.Begin("Leased").End(&err, "list leases")
	args := pgx.NamedArgs{"token": int64(token), "newer": someUUID(newerThan)}
	return list(ctx, s, query{leasedSQL, args}, func(row pgx.CollectableRow) (l store.SessionLease, err error) {
		l.Token = token
		return l, row.Scan(toID(&l.Delivery), toID(&l.Endpoint), toLane(&l.Lane))
	})
}

// Forget removes a node that has released everything; see [store.Nodes].
func (s *Store) Forget(ctx context.Context, incarnation uint32) (err error) {
	defer s.calls.Begin("Forget").End(&err, "forget incarnation %d", incarnation)
	args := pgx.NamedArgs{"incarnation": int64(incarnation), "shards": nil}
	return s.repeat(ctx, func(bool) error {
		return s.tx(ctx, func(tx pgx.Tx) error { return forget(ctx, tx, args) })
	})
}

// forget deletes the node and frees its shards.
func forget(ctx context.Context, tx pgx.Tx, args pgx.NamedArgs) error {
	b := &pgx.Batch{}
	b.Queue(deleteNodeSQL, args)
	b.Queue(releaseShardsSQL, args)
	return tx.SendBatch(ctx, b).Close()
}

// LocalAddr returns this machine's end of a connection to the server; see [store.Nodes]. A connection
// by a Unix socket has none, so the server is on this machine.
func (s *Store) LocalAddr(ctx context.Context) (addr netip.Addr, err error) {
	defer s.calls.Begin("LocalAddr").End(&err, "find the address of this machine")
	err = s.withConn(ctx, func(conn *pgxpool.Conn) error {
		addr = netip.MustParseAddr("127.0.0.1")
		if tcp, ok := conn.Conn().PgConn().Conn().LocalAddr().(*net.TCPAddr); ok {
			addr = tcp.AddrPort().Addr().Unmap()
		}
		return nil
	})
	return addr, err
}

// channel is the notification channel of wake-ups. All nodes of a database listen on it.
const channel = "postrider"

// Wake sends a short message to every node that listens. Messages are hints and may be lost, so
// Wake does not try again.
func (s *Store) Wake(ctx context.Context, message string) (err error) {
	defer s.calls.Begin("Wake").End(&err, "wake")
	_, err = s.pool.Exec(ctx, `select pg_notify($1, $2)`, channel, message)
	if err != nil {
		return fault(err)
	}
	return nil
}
