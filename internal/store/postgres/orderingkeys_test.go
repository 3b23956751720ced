package postgres

// Inside the package: the test acts between two statements.

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/testkit"
)

// between calls do before the second of the statements that look for the events of ordering keys.
type between struct {
	looks int
	do    func()
}

func (b *between) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	if d.SQL == orderingKeysSQL || d.SQL == keptKeysSQL {
		if b.looks++; b.looks == 2 {
			b.do()
		}
	}
	return ctx
}

func (b *between) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// The day of an event that is still needed is dropped while ordering keys are forgotten. The key of the
// event must stay; otherwise its next event would have the sequence of an earlier one.
func TestAKeyStaysWhoseEventBecomesAKeptOne(t *testing.T) {
	t.Parallel()
	dsn := testkit.Postgres(t, Migrate)
	retention := openedAt(t, dsn).pool
	exec := func(statement string, args ...any) {
		t.Helper()
		if _, err := retention.Exec(t.Context(), statement, args...); err != nil {
			t.Error(err)
		}
	}
	exec(`
		with key as (insert into ordering_keys (account, ordering_key, last) values ($2, 'order-1', 58) returning account, ordering_key, last)
		insert into events (id, account, type, data, api_version, ordering_key, hops, sequence, max_attempts, created_at)
		select $1::uuid, account, 'order.created', '{}', '', ordering_key, 0, last, 0, now()
		from key`, uuid(postrider.MakeID[postrider.EventID](time.Now(), [10]byte{})), uuid(postrider.AccountID{1}))
	config, err := parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	moves := &between{do: func() {
		exec(`with gone as (delete from events returning *) insert into kept_events table gone`)
	}}
	config.ConnConfig.Tracer = moves
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := (&Store{pool: pool}).ForgetOrderingKeys(t.Context(), store.OrderingKey{}, 10); err != nil {
		t.Fatal(err)
	}
	var keys int
	if err := retention.QueryRow(t.Context(), `select count(*) from ordering_keys`).Scan(&keys); err != nil || keys != 1 || moves.looks != 2 {
		t.Errorf("%d keys are stored after %d looks (%v), want 1 after 2", keys, moves.looks, err)
	}
}
