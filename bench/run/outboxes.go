package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/apitypes"
)

const (
	// outboxClass is the class of the events that come from the outbox of a producer.
	outboxClass = "outbox"
	// sourceName is the name of the source.
	sourceName = "shop"
	// steadyRate is the rate at which the outbox must not grow, in rows a second.
	steadyRate = 5000
	// outboxTick is the time between two transactions of the producer. A transaction has the rows of one tick.
	outboxTick = 10 * time.Millisecond
)

// anOutbox reads events from the outbox of a producer whose PostgreSQL is on the same machine: at 200/s, after an
// idle time, at 5,000/s beside a transaction that stays open for half of the phase, and after an outage that
// left a backlog of rows. The events of the API are those of B4.
func anOutbox(e extent, rows int) scenario {
	lasts, steady := e.lasting(20*time.Second), 12*e.full
	ignored := []string{outboxClass}
	return scenario{
		name: "B21 an outbox",
		setups: []setup{{
			groups: []group{{class: good, endpoints: 1}, {class: outboxClass, endpoints: 100}},
			phases: []phase{
				{name: "without", lasts: lasts, loads: []load{ofB4}, before: startProducer, ignored: ignored},
				{
					name: "200/s", lasts: lasts, loads: []load{ofB4}, before: produce(200, warmUp, 0), // an idle reader asks once a second
					during: produce(200, lasts, 0), ignored: ignored,
				},
				{name: "first after idle", lasts: lasts, loads: []load{ofB4}, during: produceOneAfter(lasts * 3 / 4), ignored: ignored},
				{name: "steady", lasts: steady, loads: []load{ofB4}, during: produce(steadyRate, steady, steady/2), ignored: ignored},
				{
					name: "backlog", lasts: e.lasting(60 * time.Second), loads: []load{ofB4}, before: unreadRows(rows), during: resumeSource,
					ignored: ignored,
				},
			},
		}},
		figures: outboxFigures,
		goals:   outboxGoals(),
		goalsOn: outboxGoals(),
	}
}

func outboxGoals() goals {
	return goals{
		"200/s: commit→received p50": atMost(8), "200/s: commit→received p99": atMost(30), "first after idle: commit→received": atMost(1100),
		"backlog: delivered/s": atLeast(0.8 * steadyRate), "backlog: p99 ÷ without": atMost(1.25),
	}
}

func outboxFigures(s shown) []figure {
	figures := isolation(good, pair{"without", "200/s"}, pair{"without", "steady"}, pair{"without", "backlog"})(s)
	rate, idle := s.readings["200/s"].sinks[outboxClass], s.readings["first after idle"].sinks[outboxClass]
	figures = append(figures, millis("200/s: commit→received p50", rate.P50), millis("200/s: commit→received p99", rate.P99),
		millis("first after idle: commit→received", idle.Longest))
	for _, phase := range []string{"200/s", "steady", "backlog"} {
		r := s.readings[phase]
		each := float64(max(1, r.sinks[outboxClass].Count+r.sinks[good].Count))
		figures = append(figures, figure{phase + ": delivered/s", "%.0f", s.drainRate(phase, outboxClass)},
			figure{phase + ": CPU/delivery, server", "%.0f µs", float64(r.used.server.CPU.Microseconds()) / each},
			figure{phase + ": CPU/delivery, postgres of the store", "%.0f µs", float64(r.used.postgres.CPU.Microseconds()) / each},
			figure{phase + ": CPU/delivery, postgres of the producer", "%.0f µs", float64(r.used.producer.CPU.Microseconds()) / each})
	}
	return figures
}

// startProducer starts a producer with an outbox, and has the server read it.
func startProducer(ctx context.Context, w *environment, _ *reading) (err error) {
	if w.producer, err = w.lab.StartProducer(ctx); err != nil {
		return err
	}
	w.closers = append(w.closers, w.producer.Stop)
	install := exec.CommandContext(ctx, w.lab.Program("postrider"), "outbox", "install", "--database-url", w.producer.URL)
	if out, err := install.CombinedOutput(); err != nil {
		return fmt.Errorf("install the outbox: %w: %s", err, out)
	}
	_, err = w.nodes[0].Client().PutSource(ctx, sourceName, apitypes.SourcePut{DatabaseURL: w.producer.URL}, false)
	return err
}

// publishRows publishes n events in one transaction.
var publishRows = `select count(postrider.publish('` + account + `', '` + outboxClass + `.t' || n % 100, '{"data": "` +
	strings.Repeat("x", dataSize) + `"}')) from generate_series(1, $1::int) n`

// produce publishes at a rate. For the last part of the phase, of the length open, another transaction is open.
func produce(rate int, lasts, open time.Duration) action {
	return func(ctx context.Context, w *environment, r *reading) error {
		return w.inProducer(ctx, func(conn *pgx.Conn) error {
			var most, size, dead int64
			begun, opened := time.Now(), error(nil)
			holding, release := context.WithCancel(ctx)
			defer release()
			var other sync.WaitGroup
			other.Go(func() {
				pause(holding, lasts-open)
				if open > 0 && holding.Err() == nil {
					opened = w.inProducer(ctx, func(conn *pgx.Conn) error {
						_, err := conn.Exec(ctx, "begin isolation level repeatable read; select pg_current_xact_id()")
						pause(holding, open)
						return err
					})
				}
			})
			for n := 0; time.Since(begun) < lasts && ctx.Err() == nil; n++ {
				pause(ctx, time.Until(begun.Add(time.Duration(n)*outboxTick)))
				if _, err := conn.Exec(ctx, publishRows, max(1, rate*int(outboxTick)/int(time.Second))); err != nil {
					return fmt.Errorf("publish into the outbox: %w", err)
				}
				if n%100 != 0 {
					continue
				}
				err := conn.QueryRow(ctx, `select pg_total_relation_size('postrider.outbox'), n_dead_tup from pg_stat_all_tables
					where relid = 'postrider.outbox'::regclass`).Scan(&size, &dead)
				if err != nil {
					return fmt.Errorf("measure the outbox: %w", err)
				}
				if time.Since(begun) < lasts-open {
					most = max(most, size)
				}
			}
			release()
			other.Wait()
			r.said = append(r.said, fmt.Sprintf("the outbox had at most %d KiB; beside a transaction that was open for %v, %d KiB and %d dead rows",
				most>>10, open, size>>10, dead))
			return opened
		})
	}
}

// produceOneAfter publishes one event after a time in which nothing was published.
func produceOneAfter(idle time.Duration) action {
	return func(ctx context.Context, w *environment, _ *reading) error {
		pause(ctx, idle)
		return w.inProducer(ctx, func(conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, publishRows, 1)
			return err
		})
	}
}

// unreadRows publishes rows while the source is paused.
func unreadRows(rows int) action {
	return func(ctx context.Context, w *environment, _ *reading) error {
		if _, err := w.nodes[0].Client().PauseSource(ctx, sourceName); err != nil {
			return fmt.Errorf("pause the source: %w", err)
		}
		return w.inProducer(ctx, func(conn *pgx.Conn) error {
			const each = 100_000
			for left := rows; left > 0; left -= each {
				if _, err := conn.Exec(ctx, publishRows, min(each, left)); err != nil {
					return fmt.Errorf("publish a backlog: %w", err)
				}
			}
			return nil
		})
	}
}

func resumeSource(ctx context.Context, w *environment, _ *reading) error {
	_, err := w.nodes[0].Client().ResumeSource(ctx, sourceName)
	return err
}

// inProducer connects to the producer's database.
func (w *environment) inProducer(ctx context.Context, do func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, w.producer.URL)
	if err != nil {
		return fmt.Errorf("connect to the producer: %w", err)
	}
	err = do(conn)
	return errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
}
