package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/bench/internal/lab"
	"github.com/postrider/postrider/client"
)

// study writes orders while something is killed, and then compares the orders with the webhooks.
type study struct {
	options

	lab      *lab.Lab
	producer *lab.Producer
	servers  []*lab.Server
	receiver *receiver
	kills    map[string][]time.Time // by what was killed
}

func (s *study) run(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.producer.URL)
	if err != nil {
		return fmt.Errorf("connect to the producer: %w", err)
	}
	_, err = conn.Exec(ctx, schema)
	if err := errors.Join(err, conn.Close(ctx)); err != nil {
		return fmt.Errorf("make the producer's tables: %w", err)
	}
	c := &clients{url: s.producer.URL, keys: s.keys, rest: s.rest}
	s.receiver.misbehave.Store(true)
	writing, stop := context.WithCancel(ctx)
	defer stop()
	var writers sync.WaitGroup
	for i := range s.producers {
		writers.Go(func() { c.run(writing, i, rand.New(rand.NewPCG(s.seed, uint64(i+1)))) })
	}
	begun := time.Now()
	err = s.killAll(ctx, rand.New(rand.NewPCG(s.seed, 0)))
	stop()
	writers.Wait()
	s.receiver.misbehave.Store(false)
	if err != nil {
		return err
	}
	wrote := time.Since(begun)
	if err := s.untilEmpty(ctx); err != nil {
		return err
	}
	fmt.Printf("%d transactions in %.0f s: %d committed, %d rolled back, %d with a savepoint, %d prepared; %d of them cut, %d failed\n",
		c.committed.Load()+c.rolledBack.Load()+c.savepoints.Load()+c.prepared.Load(), wrote.Seconds(),
		c.committed.Load(), c.rolledBack.Load(), c.savepoints.Load(), c.prepared.Load(), c.cut.Load(), c.failed.Load())
	fmt.Printf("killed:")
	for what, times := range s.kills {
		fmt.Printf(" %s %d", what, len(times))
	}
	fmt.Printf("; all was delivered %.0f s after the last\n", (time.Since(begun) - wrote).Seconds())
	return s.check(ctx)
}

// killAll kills something at random times.
func (s *study) killAll(ctx context.Context, random *rand.Rand) error {
	s.kills = map[string][]time.Time{}
	what := []string{"server", "producer", "connections"}
	if s.store == "postgres" {
		what = append(what, "store")
	}
	for i := range s.options.kills {
		pause(ctx, s.min+time.Duration(random.Int64N(int64(s.max-s.min)+1)))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		of := what[random.IntN(len(what))]
		if i < len(what) { // a few kills have each kind
			of = what[i]
		}
		s.kills[of] = append(s.kills[of], time.Now())
		if err := s.kill(ctx, of, random); err != nil {
			return fmt.Errorf("kill %d, %s: %w", i+1, of, err)
		}
		if done := i + 1; done%25 == 0 {
			fmt.Printf("%d of %d kills, %d webhooks received\n", done, s.options.kills, s.receiver.received())
		}
	}
	return nil
}

func (s *study) kill(ctx context.Context, what string, random *rand.Rand) error {
	switch what {
	case "server":
		server := s.servers[random.IntN(len(s.servers))]
		return errors.Join(server.Process().Kill(), server.Restart(ctx))
	case "producer":
		return s.producer.Crash()
	case "store":
		return s.lab.CrashPostgres()
	}
	return s.sql(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `select pg_terminate_backend(pid) from pg_stat_activity
			where pid <> pg_backend_pid() and backend_type = 'client backend'`)
		return err
	})
}

// sql connects to the producer's database.
func (s *study) sql(ctx context.Context, do func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, s.producer.URL)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return do(conn)
}

// untilEmpty ends what is prepared, and waits until no row and no delivery waits.
func (s *study) untilEmpty(ctx context.Context) error {
	for ctx.Err() == nil {
		waiting := -1
		err := s.sql(ctx, func(conn *pgx.Conn) error {
			return errors.Join(endPrepared(ctx, conn, "of %"),
				conn.QueryRow(ctx, "select count(*) from postrider.outbox").Scan(&waiting))
		})
		if err == nil && waiting == 0 {
			page, err := s.servers[0].Client().Deliveries(ctx, client.DeliveryFilter{
				Account: account, Status: postrider.Pending, Paging: client.Paging{Limit: 1},
			})
			if err == nil && len(page.Data) == 0 {
				return nil
			}
		}
		pause(ctx, 200*time.Millisecond)
	}
	source, err := s.servers[0].Client().Source(context.WithoutCancel(ctx), "shop")
	return errors.Join(fmt.Errorf("wait for empty queues: gave up; the source: %+v", source.State), err)
}

// order is a committed order.
type order struct {
	N, Position int64
	Key         string
}

// check compares the orders with the webhooks.
func (s *study) check(ctx context.Context) error {
	var orders []order
	rejected := 0
	err := s.sql(ctx, func(conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, "select n, position, key from orders order by position")
		if err == nil {
			orders, err = pgx.CollectRows(rows, pgx.RowToStructByPos[order])
		}
		return errors.Join(err, conn.QueryRow(ctx, "select count(*) from postrider.outbox_rejected").Scan(&rejected))
	})
	if err != nil {
		return fmt.Errorf("read the orders: %w", err)
	}
	letters, err := s.servers[0].Client().DeadLetters(ctx, client.DeadLetterFilter{Account: account})
	if err != nil {
		return fmt.Errorf("list dead letters: %w", err)
	}
	v := compare(orders, s.receiver.accepted, s.allKills(), s.window)
	fmt.Printf("%d orders, %d webhooks: %d lost, %d of orders that were not committed, %d published twice, %d inversions in %d keys,\n"+
		"%d delivered again, of which no kill explains %d; %d rejected, %d dead letters\n",
		len(orders), len(s.receiver.accepted), v.lost, v.ghosts, v.twice, v.inversions, s.keys, v.again, v.unexplained, rejected,
		len(letters.Data))
	for _, fault := range s.receiver.faults {
		fmt.Println("  !", fault)
	}
	if v.lost+v.ghosts+v.twice+v.inversions+v.unexplained+rejected+len(letters.Data)+len(s.receiver.faults) > 0 {
		return errors.New("the orders and the webhooks do not agree")
	}
	return nil
}

func (s *study) allKills() (all []time.Time) {
	for _, times := range s.kills {
		all = append(all, times...)
	}
	slices.SortFunc(all, time.Time.Compare)
	return all
}

// openTime is how long after a kill the receiver may still accept a request that a server has sent before.
const openTime = time.Second

// verdict counts what differs.
type verdict struct{ lost, ghosts, twice, inversions, again, unexplained int }

// compare compares committed orders, by position, with the webhooks that arrived.
func compare(orders []order, arrivals []arrival, kills []time.Time, window time.Duration) (v verdict) {
	first, last, event := map[int64]int{}, map[int64]time.Time{}, map[int64]postrider.EventID{}
	for i, a := range arrivals {
		if _, known := first[a.order]; !known {
			first[a.order], event[a.order], last[a.order] = i, a.event, a.at
			continue
		}
		if event[a.order] != a.event {
			v.twice++
			continue
		}
		v.again++
		before := last[a.order]
		if !slices.ContainsFunc(kills, func(at time.Time) bool {
			return before.After(at.Add(-window)) && before.Before(at.Add(openTime)) && a.at.After(at)
		}) {
			v.unexplained++
		}
		last[a.order] = a.at
	}
	newest, committed := map[string]int{}, map[int64]bool{}
	for _, o := range orders {
		committed[o.N] = true
		at, arrived := first[o.N]
		switch {
		case !arrived:
			v.lost++
		case at < newest[o.Key]:
			v.inversions++
		default:
			newest[o.Key] = at
		}
	}
	for n := range first {
		if !committed[n] {
			v.ghosts++
		}
	}
	return v
}
