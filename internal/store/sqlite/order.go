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

// never is the due_at of an ordered row whose turn has not come.
const (
	never    = math.MaxInt64
	neverSQL = `9223372036854775807`
)

// orderedKey is what is kept in order: the deliveries of an ordering key to an
// endpoint.
type orderedKey struct {
	endpoint postrider.EndpointID
	key      string
}

// turn is a row's place in the order of its key; the zero turn is that of a row
// without order.
type turn struct {
	orderedKey
	pauses bool // its dead letter pauses the key
	waits  bool // it has not come
}

// Both by their keys: queue_order_key and that of paused_keys.
const keyBusySQL = `
	select exists (select 1 from queue where endpoint = ?1 and ordering_key = ?2)
		or exists (select 1 from paused_keys where endpoint = ?1 and ordering_key = ?2)`

// keyBusy reports whether a new row of an ordering key has to wait.
func keyBusy(ctx context.Context, tx *tx, k orderedKey) (busy bool, err error) {
	err = tx.row(ctx, keyBusySQL, blob(k.endpoint), k.key).Scan(&busy)
	return busy, err
}

// By queue_order_key, then the key of queue.
const nextTurnSQL = `
	update queue set due_at = ?
	where id = (
		select id from queue where endpoint = ? and ordering_key = ?
		order by sequence limit 1)
	returning lane`

// nextTurn makes the lowest row of an ordering key due and returns its lane;
// none when there is no row.
func nextTurn(ctx context.Context, tx *tx, k orderedKey) (lane postrider.Lane, err error) {
	err = tx.row(ctx, nextTurnSQL, micros(tx.now), blob(k.endpoint), k.key).Scan(toLane(&lane))
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return lane, err
}

// By the keys of paused_keys.
const (
	pauseSQL = `
	insert into paused_keys (endpoint, ordering_key, delivery, since) values (?, ?, ?, ?)`
	unpauseSQL = `
	delete from paused_keys where delivery = ? returning endpoint, ordering_key`
)

// over lets an ordering key go on after a row of it has left the queue, and
// returns the lane of what is due now. dead is that row's dead letter; the zero
// id says that it has none. A row whose turn had not come holds nobody up.
func (t turn) over(ctx context.Context, tx *tx, dead postrider.DeliveryID) (postrider.Lane, error) {
	switch {
	case t.key == "", t.waits:
		return "", nil
	case t.pauses && !dead.IsZero():
		return "", tx.exec(ctx, pauseSQL, blob(t.endpoint), t.key, blob(dead), micros(tx.wall))
	}
	return nextTurn(ctx, tx, t.orderedKey)
}

// unpause ends the pause that a dead letter means to its ordering key, and
// returns that key; the zero one when there is no pause.
func unpause(ctx context.Context, tx *tx, dead postrider.DeliveryID) (k orderedKey, err error) {
	err = tx.row(ctx, unpauseSQL, blob(dead)).Scan(toID(&k.endpoint), &k.key)
	if errors.Is(err, sql.ErrNoRows) {
		return orderedKey{}, nil
	}
	return k, err
}

// A skip scan of queue_order_key: it is entered once for each key. Paused keys
// and heads by their keys, what waits by queue_order_key.
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
func (s *Store) OrderedKeys(ctx context.Context, q store.OrderedKeyQuery) (store.Page[store.OrderedKey], error) {
	after, err := q.Key()
	if err != nil {
		return store.Page[store.OrderedKey]{}, err
	}
	keys, err := list(ctx, s, query{orderedKeysSQL, []any{
		sql.Named("account", blobOrNull(q.Account)), sql.Named("endpoint", blob(q.Endpoint)),
		sql.Named("after", after), sql.Named("limit", q.Size()+1),
	}}, scanOrderedKey)
	return store.Cut(keys, q.Paging, func(k store.OrderedKey) string { return k.Key }), s.explain("list ordering keys", err)
}

func scanOrderedKey(rows *sql.Rows, k *store.OrderedKey) error {
	var paused time.Time
	err := rows.Scan(&k.Key, &k.Waiting, toID(&k.Head), &k.Sequence, toTime(&paused), toID(&k.PausedBy))
	k.Since = paused
	if k.PausedBy.IsZero() {
		k.Since = k.Head.Time()
	}
	return err
}
