package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// never is the due_at of a row that must not be claimed: an ordered row behind the head of its
// key, a head whose key is paused, or a parked row. It is the greatest integer, so these rows are
// the last ones of their lane in queue_due, and a claim ends before it reaches them.
const (
	never    = math.MaxInt64
	neverSQL = `9223372036854775807`
)

// This file keeps the order of an ordering key.
//
// The ordered rows of one endpoint and ordering key are sorted by sequence. The row with the
// lowest sequence is the head. Only the head is ever due; the others have due_at = never. When
// the head ends, advance makes the next row due in the same transaction. If the head became a
// dead letter and its endpoint asks for that, advance pauses the key instead. A replay job adds
// rows with lower sequences. If the head is due then, it stays the head until it ends, and the
// lowest row follows. In a backfill only a leased head stays; see deferHeadSQL.
//
// This needs no lock. All changes of the queue run in the one writer, one job after the other, so
// nobody can see a key between two states. (In PostgreSQL this needs a lock for each key; see
// order.go there.)

// orderedKey names an ordering key at one endpoint.
type orderedKey struct {
	endpoint postrider.EndpointID
	key      string
}

// position is the place of a row in the order of its key. A row without an order has the zero
// position.
type position struct {
	orderedKey
	pauses  bool // whether the row pauses its key if it becomes a dead letter
	blocked bool // whether another row is the head, or the key is paused
}

// The statement walks queue_order_key and the primary key of paused_keys.
const keyBlockedSQL = `
	select exists (select 1 from queue where endpoint = ?1 and ordering_key = ?2)
		or exists (select 1 from paused_keys where endpoint = ?1 and ordering_key = ?2)`

// keyBlocked reports whether a new row of an ordering key must not be due yet, because the key
// has a row already or is paused.
func keyBlocked(ctx context.Context, tx *tx, k orderedKey) (blocked bool, err error) {
	err = tx.row(ctx, keyBlockedSQL, blob(k.endpoint), k.key).Scan(&blocked)
	return blocked, err
}

// The statement walks queue_order_key and the primary key of queue.
const releaseHeadSQL = `
	update queue set due_at = ?
	where id = (
		select id from queue where endpoint = ? and ordering_key = ?
		order by sequence limit 1)
	returning lane`

// releaseHead makes the head of an ordering key due and returns its lane, or an empty lane if the
// key has no row. The caller must have ended the previous head or the pause. Otherwise
// releaseHead would make a leased or parked head due a second time.
func releaseHead(ctx context.Context, tx *tx, k orderedKey) (lane postrider.Lane, err error) {
	err = tx.row(ctx, releaseHeadSQL, micros(tx.now), blob(k.endpoint), k.key).Scan(toLane(&lane))
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return lane, err
}

// The statements walk the keys of paused_keys.
const (
	pauseSQL = `
	insert into paused_keys (endpoint, ordering_key, delivery, since) values (?, ?, ?, ?)`
	unpauseSQL = `
	delete from paused_keys where delivery = ? returning endpoint, ordering_key`
)

// advance must be called after a row has left the queue. If the row was the head of its key,
// advance pauses the key, or makes the next head due and returns its lane. The parameter dead is
// the dead letter of the row, or zero if it has none. A blocked row was not the head, so advance
// does nothing for it.
func (p position) advance(ctx context.Context, tx *tx, dead postrider.DeliveryID) (postrider.Lane, error) {
	switch {
	case p.key == "", p.blocked:
		return "", nil
	case p.pauses && !dead.IsZero():
		return "", tx.exec(ctx, pauseSQL, blob(p.endpoint), p.key, blob(dead), micros(tx.wall))
	}
	return releaseHead(ctx, tx, p.orderedKey)
}

// unpause ends the pause by a dead letter, and returns the ordering key, or the zero key if the
// dead letter pauses none. The caller then makes the next head due, or inserts a replay that is
// the head.
func unpause(ctx context.Context, tx *tx, dead postrider.DeliveryID) (k orderedKey, err error) {
	err = tx.row(ctx, unpauseSQL, blob(dead)).Scan(toID(&k.endpoint), &k.key)
	if errors.Is(err, sql.ErrNoRows) {
		return orderedKey{}, nil
	}
	return k, err
}

// orderedKeysSQL is a skip scan of queue_order_key. Each step of the recursion enters the index
// once and finds the next key, however many rows a key has. Paused keys are added from
// paused_keys. It counts up to 1,000 pending rows of each key, so the cost of a page has a limit.
const orderedKeysSQL = `
	with recursive waiting (key) as (
		select (
			select min(ordering_key) from queue
			where endpoint = @endpoint and ordering_key > @after)
		union all
		select (
			select min(ordering_key) from queue
			where endpoint = @endpoint and ordering_key > waiting.key)
		from waiting where waiting.key is not null
	), keys (key) as (
		select key from (select key from waiting where key is not null limit @limit)
		union
		select ordering_key from (
			select ordering_key from paused_keys
			where endpoint = @endpoint and ordering_key > @after
			order by ordering_key limit @limit)
		order by 1 limit @limit
	)
	select keys.key,
		(select count(*) from (
			select 1 from queue where endpoint = @endpoint and ordering_key = keys.key limit 1000)),
		head.id, coalesce(head.sequence, 0), paused.since, paused.delivery
	from keys
	left join paused_keys paused on paused.endpoint = @endpoint and paused.ordering_key = keys.key
	left join queue head on head.id = (
		select id from queue where endpoint = @endpoint and ordering_key = keys.key
		order by sequence limit 1)
	where exists (select 1 from endpoints where id = @endpoint and (@account is null or account = @account))
	order by keys.key`

// OrderedKeys lists the ordering keys of an endpoint; see [store.Ledger].
func (s *Store) OrderedKeys(ctx context.Context, q store.OrderedKeyQuery) (_ store.Page[store.OrderedKey], err error) {
	defer s.calls.Begin("OrderedKeys").End(&err, "list ordering keys")
	after, err := q.Key()
	if err != nil {
		return store.Page[store.OrderedKey]{}, err
	}
	keys, err := list(ctx, s, query{orderedKeysSQL, []any{
		sql.Named("account", blobOrNull(q.Account)), sql.Named("endpoint", blob(q.Endpoint)),
		sql.Named("after", after), sql.Named("limit", q.Size()+1),
	}}, scanOrderedKey)
	return store.Cut(keys, q.Paging, func(k store.OrderedKey) string { return k.Key }), s.fault(err)
}

// scanOrderedKey reads a row of orderedKeysSQL. Since is the time of the pause, or the time when
// the head was created.
func scanOrderedKey(rows *sql.Rows, k *store.OrderedKey) error {
	var paused time.Time
	err := rows.Scan(&k.Key, &k.Waiting, toID(&k.Head), &k.Sequence, toTime(&paused), toID(&k.PausedBy))
	k.Since = paused
	if k.PausedBy.IsZero() {
		k.Since = k.Head.Time()
	}
	return err
}
