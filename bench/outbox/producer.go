package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// schema is the producer's own. place publishes the event of an order and then notes the order's position. While the
// transaction has the lock of the key, nobody else draws a position for the key, so positions rise in the order of the
// commits.
const schema = `
	create table orders (n bigint primary key, key text not null, position bigint not null);
	create sequence positions;
	create function place(n bigint, key text) returns void language plpgsql as $$ begin
		perform postrider.publish('` + account + `', 'order.created', json_build_object('n', n), ordering_key => key);
		insert into orders values (n, key, nextval('positions'));
	end $$`

// clients write orders.
type clients struct {
	url  string
	keys int
	rest time.Duration
	next atomic.Int64 // number of the last order

	committed, rolledBack, savepoints, prepared, cut, failed atomic.Int64 // transactions
}

// run writes orders until ctx ends. After an error it connects again, and ends the transactions that it has prepared.
func (c *clients) run(ctx context.Context, id int, random *rand.Rand) {
	for ctx.Err() == nil {
		if err := c.connected(ctx, id, random); err != nil && ctx.Err() == nil {
			c.failed.Add(1)
			pause(ctx, 50*time.Millisecond)
		}
	}
}

func (c *clients) connected(ctx context.Context, id int, random *rand.Rand) error {
	conn, err := pgx.Connect(ctx, c.url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := endPrepared(ctx, conn, fmt.Sprintf("of %d %%", id)); err != nil {
		return err
	}
	for ctx.Err() == nil {
		// A transaction that has begun is ended, so that the ledger knows all.
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
		err := c.transaction(limited, conn, id, random)
		cancel()
		if err != nil {
			return err
		}
		pause(ctx, c.rest)
	}
	return nil
}

// endPrepared commits the prepared transactions with such names.
func endPrepared(ctx context.Context, conn *pgx.Conn, like string) error {
	rows, err := conn.Query(ctx, "select gid from pg_prepared_xacts where gid like $1", like)
	if err != nil {
		return err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, err := conn.Exec(ctx, "commit prepared '"+name+"'"); err != nil {
			return err
		}
	}
	return nil
}

// transaction runs one transaction of a random kind.
func (c *clients) transaction(ctx context.Context, conn *pgx.Conn, id int, random *rand.Rand) error {
	key := fmt.Sprint("key", random.IntN(c.keys))
	kind := random.IntN(12)
	steps := []string{"begin", c.place(key)}
	switch {
	case kind < 4:
		steps = append(steps, "rollback")
		c.rolledBack.Add(1)
	case kind < 6:
		steps = append(steps, "savepoint s", c.place(key), "rollback to s", c.place(key), "commit")
		c.savepoints.Add(1)
	case kind < 8:
		name := fmt.Sprintf("of %d %d", id, c.next.Load())
		steps = append(steps, "prepare transaction '"+name+"'", []string{"commit", "rollback"}[random.IntN(2)]+" prepared '"+name+"'")
		c.prepared.Add(1)
	default:
		steps = append(steps, "commit")
		c.committed.Add(1)
	}
	for _, step := range steps[:len(steps)-1] {
		if _, err := conn.Exec(ctx, step); err != nil {
			return err
		}
	}
	if random.IntN(20) == 0 { // cut the connection while the last statement runs
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(random.Int64N(int64(2*time.Millisecond))))
		defer cancel()
		c.cut.Add(1)
	}
	_, err := conn.Exec(ctx, steps[len(steps)-1])
	return err
}

func (c *clients) place(key string) string {
	return fmt.Sprintf("select place(%d, '%s')", c.next.Add(1), key)
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
