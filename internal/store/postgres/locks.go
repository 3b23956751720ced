package postgres

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// This file keeps one transaction that stands still from stopping the others.
//
// A node that is frozen, or cut off from the database, keeps the locks of its transaction until
// the server ends its session (idleInTransaction). Publishes and settlements of all accounts are
// committed in groups. So a group must not wait for one lock for long:
//
//	  0 ms  A group asks for the lock of a key, and waits behind the transaction that has it.
//	 75 ms  (lockWait) The group gives up, and nothing is stored. It asks which transactions
//	        have the locks of its keys, and tries again.
//	150 ms  The group gives up again. A key that one transaction had all the time is stuck.
//	        The group tries without the stuck keys, and its caller learns which publishes and
//	        settlements were left out.
//
// A key that many transactions want in turn is never stuck, however many there are, because each
// time another transaction has it. A transaction that was found to stand still is remembered
// while it runs. From then on its keys are left out at once.
const (
	lockWait = 75 * time.Millisecond
	// lockPatience is how long other calls try to get a lock.
	lockPatience = time.Second
	// idleInTransaction is how long the server waits for the next statement of a transaction. It is
	// shorter than the time after which a silent node counts as dead.
	idleInTransaction = 3 * time.Second
)

// lockKey names an object that a transaction locks: an ordering key, an idempotency key, a row of an
// outbox or a delivery.
type lockKey struct {
	kind     lockKind
	account  postrider.AccountID // of lockRow: the id of the row
	key      string
	delivery postrider.DeliveryID
}

type lockKind byte

const (
	lockOrdering lockKind = iota
	lockIdempotency
	lockRow // has no key
	lockDelivery
)

// holder is the number of the transaction that has a lock. A transaction is unseen if other
// transactions cannot see its row yet, so its number is unknown.
type holder int64

const unseen holder = -1

// stuck has the transactions that stand still, with the time when each was found, and the keys of
// those that are unseen. The method add writes the maps; the method among removes the entries
// that have ended.
type stuck struct {
	mu      sync.Mutex
	holders map[holder]time.Time
	keys    map[lockKey]time.Time
	logged  map[holder]bool // the holders that were logged
}

func (s *stuck) some() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.holders)+len(s.keys) > 0
}

// add records that the holder of a key stands still.
func (s *stuck) add(key lockKey, by holder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holders == nil {
		s.holders, s.keys, s.logged = map[holder]time.Time{}, map[lockKey]time.Time{}, map[holder]bool{}
	}
	if _, known := s.holders[by]; !known && by != unseen {
		s.holders[by] = time.Now()
	}
	if by == unseen {
		s.keys[key] = time.Now()
	}
}

// among returns the held keys whose holder is known to stand still. It forgets the transactions
// that are not in running, and the keys in asked that are free. The result tell has the
// transactions to log now.
func (s *stuck) among(asked []lockKey, held map[lockKey]holder, running []int64) (found map[lockKey]bool, tell []holder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ended := func(h holder) bool { return !slices.Contains(running, int64(h)) }
	maps.DeleteFunc(s.holders, func(h holder, _ time.Time) bool { return ended(h) })
	maps.DeleteFunc(s.logged, func(h holder, _ bool) bool { return ended(h) })
	found = map[lockKey]bool{}
	for _, key := range asked {
		by, ok := held[key]
		if !ok || by != unseen {
			delete(s.keys, key)
		}
		_, isKey := s.keys[key]
		since, isHolder := s.holders[by]
		if !ok || !isKey && !isHolder {
			continue
		}
		found[key] = true
		if isHolder && !s.logged[by] && time.Since(since) > tellAfter {
			s.logged[by] = true
			tell = append(tell, by)
		}
	}
	return found, tell
}

// pastLocks calls do until it gets its locks. The function keys returns the keys for which do may
// wait, each once. The parameter without has the keys that a stuck transaction holds; do must
// leave them out. If no key is stuck, for example because somebody has locked a table, pastLocks
// calls do until ctx ends.
func (s *Store) pastLocks(ctx context.Context, keys func() []lockKey, do func(without map[lockKey]bool) error) error {
	without := map[lockKey]bool{}
	if s.stuck.some() {
		asked := keys()
		held, running, err := s.holders(ctx, asked)
		if err != nil {
			return err
		}
		var tell []holder
		without, tell = s.stuck.among(asked, held, running)
		for _, by := range tell {
			s.logSessions(ctx, sessionOfSQL, pgx.NamedArgs{"xid": strconv.FormatInt(int64(by), 10)})
		}
	}
	var before map[lockKey]holder
	for {
		err := do(without)
		if !isCode(err, codeLocked) || ctx.Err() != nil {
			return err
		}
		held, _, err := s.holders(ctx, keys())
		if err != nil {
			return err
		}
		for key, by := range held {
			if before[key] == by {
				without[key] = true
				s.stuck.add(key, by)
			}
		}
		before = held
	}
}

// rowHoldersSQL returns which transactions have the locks of rows that everybody can see. The
// column xmax of a row names the transaction that locked it last, and pg_locks shows whether that
// transaction still runs. The statement walks ordering_keys_pkey and queue_pkey.
const rowHoldersSQL = `
	with running as materialized (
		select l.transactionid::text::bigint as xid
		from pg_locks l
		where l.locktype = 'transactionid' and l.mode = 'ExclusiveLock' and l.granted and l.pid <> pg_backend_pid()
	), held as (
		select k.place - 1 as place, h.xmax::text::bigint as xid
		from unnest(@accounts::uuid[], @keys::text[]) with ordinality as k (account, key, place)
		cross join lateral (
			select h.xmax
			from ordering_keys h
			where h.account = k.account and h.ordering_key = k.key
			limit 1
		) h
		union all
		select -d.place, q.xmax::text::bigint
		from unnest(@deliveries::uuid[]) with ordinality as d (id, place)
		cross join lateral (
			select q.xmax
			from queue q
			where q.id = d.id
			limit 1
		) q
	)
	select null::bigint as place, r.xid
	from running r
	union all
	select h.place, h.xid
	from held h
	where h.xid in (select r.xid from running r)`

// unseenHoldersSQL returns the keys and rows that other transactions are inserting. Their rows cannot be
// seen, so the function tries to insert each key, and undoes that.
const unseenHoldersSQL = `select postrider_keys_being_inserted(@accounts::uuid[], @keys::text[], @idempotency::boolean[])`

// holders returns the keys that other transactions have locked, with their holders. It also
// returns the numbers of all running transactions.
func (s *Store) holders(ctx context.Context, keys []lockKey) (map[lockKey]holder, []int64, error) {
	var ordering, deliveries, inserted []lockKey
	for _, key := range keys {
		switch key.kind {
		case lockOrdering:
			ordering, inserted = append(ordering, key), append(inserted, key)
		case lockIdempotency, lockRow:
			inserted = append(inserted, key)
		case lockDelivery:
			deliveries = append(deliveries, key)
		}
	}
	args := lockColumns(ordering)
	var ids uuids
	for _, key := range deliveries {
		ids = append(ids, someUUID(key.delivery))
	}
	args["deliveries"] = ids
	held, running := map[lockKey]holder{}, []int64{}
	var place pgtype.Int8
	var xid int64
	b := &pgx.Batch{}
	b.Queue(rowHoldersSQL, args).Query(func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, []any{&place, &xid}, func() error {
			switch {
			case !place.Valid:
				running = append(running, xid)
			case place.Int64 < 0:
				held[deliveries[-place.Int64-1]] = holder(xid)
			default:
				held[ordering[place.Int64]] = holder(xid)
			}
			return nil
		})
		return err
	})
	if len(inserted) > 0 {
		b.Queue(unseenHoldersSQL, lockColumns(inserted)).Query(func(rows pgx.Rows) error {
			_, err := pgx.ForEachRow(rows, []any{&xid}, func() error {
				held[inserted[xid-1]] = unseen
				return nil
			})
			return err
		})
	}
	if err := s.pool.SendBatch(ctx, b).Close(); err != nil {
		return nil, nil, fmt.Errorf("find who has locked keys: %w", fault(err))
	}
	return held, running, nil
}

func lockColumns(keys []lockKey) pgx.NamedArgs {
	var accounts uuids
	var names []string
	var idempotency []bool
	for _, key := range keys {
		accounts, names = append(accounts, someUUID(key.account)), append(names, key.key)
		idempotency = append(idempotency, key.kind == lockIdempotency)
	}
	return pgx.NamedArgs{"accounts": accounts, "keys": names, "idempotency": idempotency}
}

// blockerColumns describe the session of a transaction. PostgreSQL shows only the pid for
// sessions of other roles. The text of the query is not read, because it may contain data.
const blockerColumns = `b.pid, coalesce(b.application_name, ''), coalesce(host(b.client_addr), ''), coalesce(b.state, ''),
		coalesce(extract(epoch from clock_timestamp() - b.xact_start), 0)::float8`

const sessionOfSQL = `
	select ` + blockerColumns + `
	from pg_locks l
	join pg_stat_activity b on b.pid = l.pid
	where l.locktype = 'transactionid' and l.mode = 'ExclusiveLock' and l.granted and l.transactionid::text = @xid`

// blockersSQL returns the sessions for which the statements of servers wait now.
const blockersSQL = `
	select distinct ` + blockerColumns + `
	from pg_stat_activity w
	cross join lateral unnest(pg_blocking_pids(w.pid)) as by (pid)
	join pg_stat_activity b on b.pid = by.pid
	where w.datname = current_database() and w.usename = current_user and w.wait_event_type = 'Lock'
		and w.application_name = current_setting('application_name')`

// logSessions logs the sessions for which others wait.
func (s *Store) logSessions(ctx context.Context, statement string, args pgx.NamedArgs) {
	rows, _ := s.pool.Query(ctx, statement, args)
	var pid int
	var application, address, state string
	var age float64
	_, _ = pgx.ForEachRow(rows, []any{&pid, &application, &address, &state, &age}, func() error {
		s.log.WarnContext(ctx, "a session of the database has locks that others wait for", "pid", pid, "application", application,
			"address", address, "state", state, "transaction_age", time.Duration(age*float64(time.Second)).Round(time.Millisecond).String())
		return nil
	})
}

// tellAfter is how long a call waits for a lock before the log says who has it.
const tellAfter = 500 * time.Millisecond

// tellBlockers logs the sessions for which statements wait, while its caller continues to wait.
// Only one call of the process does this at a time.
func (s *Store) tellBlockers(ctx context.Context) {
	if !s.telling.TryLock() {
		return
	}
	s.tells.Go(func() {
		defer s.telling.Unlock()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lockPatience)
		defer cancel()
		s.logSessions(ctx, blockersSQL, pgx.NamedArgs{})
	})
}

// publishLocks returns the keys that a publish locks, each once.
func publishLocks(batches []store.Batch) []lockKey {
	found := map[lockKey]bool{}
	for _, batch := range batches {
		for i := range batch {
			for _, key := range eventLocks(&batch[i].Event) {
				found[key] = true
			}
		}
	}
	return slices.Collect(maps.Keys(found))
}

// eventLocks returns the keys that the publish of an event locks.
func eventLocks(e *postrider.Event) (keys []lockKey) {
	if !e.Row.IsZero() {
		keys = append(keys, lockKey{kind: lockRow, account: postrider.AccountID(e.Row)})
	}
	if e.IdempotencyKey != "" {
		keys = append(keys, lockKey{kind: lockIdempotency, account: e.Account, key: e.IdempotencyKey})
	}
	if e.OrderingKey != "" {
		keys = append(keys, lockKey{kind: lockOrdering, account: e.Account, key: e.OrderingKey})
	}
	return keys
}

// lockFields are the fields of an event that its publish locks, by their names in the API.
var lockFields = map[lockKind]string{lockOrdering: "ordering_key", lockIdempotency: "idempotency_key", lockRow: "outbox_id"}

// refusal returns an error that names the first event of the batch that needs a stuck key, or
// nil.
func refusal(batch store.Batch, without map[lockKey]bool) *postrider.LockedError {
	for i := range batch {
		for _, key := range eventLocks(&batch[i].Event) {
			if !without[key] {
				continue
			}
			return &postrider.LockedError{Index: i, Field: lockFields[key.kind], Key: cmp.Or(key.key, batch[i].Event.Row.String())}
		}
	}
	return nil
}

// settleLocks returns the keys that a settlement locks: its delivery, and the ordering key if the
// settlement ends the delivery.
func settleLocks(s *store.Settlement) []lockKey {
	keys := []lockKey{{kind: lockDelivery, delivery: s.Claimed.ID}}
	if s.Claimed.Event.OrderingKey != "" && s.Transition.To != postrider.Pending {
		keys = append(keys, lockKey{kind: lockOrdering, account: s.Claimed.Event.Account, key: s.Claimed.Event.OrderingKey})
	}
	return keys
}

// isStuck reports whether a settlement needs a stuck lock.
func isStuck(s *store.Settlement, without map[lockKey]bool) bool {
	return slices.ContainsFunc(settleLocks(s), func(key lockKey) bool { return without[key] })
}
