package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/bench/internal/lab"
	"github.com/postrider/postrider/client"
)

const (
	account = "month"
	daily   = 24 * time.Hour
)

// month is a store that gets the rows of one day after another.
type month struct {
	options

	lab    *lab.Lab
	server *lab.Server
	made   apitypes.Delivery // a delivery that the server made; its rows are copied
}

// startMonth starts a server, makes one delivery through its API, and ends the server.
func startMonth(ctx context.Context, l *lab.Lab, o options, store string) (*month, error) {
	sink, err := l.StartSink(ctx, false)
	if err != nil {
		return nil, err
	}
	server, err := l.StartServer(ctx, lab.ServerOptions{Store: store, Ready: time.Minute})
	if err != nil {
		return nil, err
	}
	m := &month{options: o, lab: l, server: server}
	c := server.Client()
	if _, err := c.CreateAccount(ctx, apitypes.AccountCreate{UID: account, Name: "Month"}); err != nil {
		return nil, fmt.Errorf("create the account: %w", err)
	}
	if _, err := c.CreateEndpoint(ctx, apitypes.EndpointCreate{
		Account: account, URL: "http://127.0.0.1:" + sink.Port() + "/ok",
		EventTypes: []string{"day.*"},
	}); err != nil {
		return nil, fmt.Errorf("create the endpoint: %w", err)
	}
	event, err := c.Publish(ctx, apitypes.EventCreate{
		Account: account, Type: "day.passed",
		Data: json.RawMessage(`{"order_id":42,"items":[{"sku":"A-1","count":2},{"sku":"B-7","count":1}],"note":"one of the events of a day"}`),
	})
	if err != nil {
		return nil, fmt.Errorf("publish: %w", err)
	}
	if m.made, err = delivered(ctx, c, event.ID); err != nil {
		return nil, err
	}
	return m, errors.Join(server.Process().Terminate(time.Minute), sink.Kill())
}

// delivered waits until the event is delivered.
func delivered(ctx context.Context, c *client.Client, event postrider.EventID) (apitypes.Delivery, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		page, err := c.Deliveries(ctx, client.DeliveryFilter{Event: event, Status: postrider.Delivered})
		if err != nil {
			return apitypes.Delivery{}, fmt.Errorf("wait for the delivery: %w", err)
		}
		if len(page.Data) == 1 {
			return page.Data[0], nil
		}
		<-again.C
	}
}

// live makes the rows of a day, numbered from 1. Then it lets the server delete old rows, as at the
// end of that day.
func (m *month) live(ctx context.Context, day int) (took time.Duration, err error) {
	end := time.Now().UTC().Truncate(daily).Add(-time.Duration(m.days-day) * daily)
	if err := m.fill(ctx, end.Add(-daily)); err != nil {
		return 0, err
	}
	ago := time.Since(end).Truncate(time.Second) // the age of the day's end, added to each retention
	keep := func(days int) string { return (ago + time.Duration(days)*daily).String() }
	m.server.Configure("--keep-events", keep(m.events), "--keep-bodies", keep(m.events), "--idempotency-ttl", keep(m.events),
		"--keep-attempts", keep(m.attempts))
	if err := m.server.Restart(ctx); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := m.untilSwept(ctx); err != nil {
		return 0, err
	}
	return time.Since(began), m.server.Process().Terminate(time.Minute)
}

// fill makes the rows of the day that starts at begin.
func (m *month) fill(ctx context.Context, begin time.Time) error {
	f, err := m.lab.FillFurther(ctx, m.server)
	if err != nil {
		return err
	}
	if m.server.OnPostgres() {
		date := begin.Format(time.DateOnly)
		err = f.Do(ctx, fmt.Sprintf("select postrider_make_partitions('%s', '%[1]s')", date))
	}
	ms := fmt.Sprintf("%d + i * %d / %d", begin.UnixMilli(), (daily - time.Second).Milliseconds(), m.rows)
	event, delivery, series := f.ID(ms, "i"), f.ID(ms, "100000000 + i"), f.Series(m.rows, 1)
	const head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 21\r\nX-Request-Id: 0123456789abcdef\r\n"
	return errors.Join(err, f.Copy(ctx, lab.Copies{
		Table: "events", Which: "true", Source: series,
		Overrides: map[string]string{"id": event, "created_at": f.At(ms), "idempotency_key": "null"},
	}), f.Copy(ctx, lab.Copies{
		Table: "attempts", Which: "true", Source: series,
		Overrides: map[string]string{"delivery": delivery, "event": event, "started_at": f.At(ms)},
	}),
		f.Do(ctx,
			fmt.Sprintf("insert into attempt_bodies (delivery, number, request_head, response_head, response_body) select %s, 1, %s, %[2]s, %s from %s",
				delivery, f.Bytes([]byte(head)), f.Bytes([]byte(`{"status":"accepted"}`)), series)),
		f.Do(ctx,
			fmt.Sprintf("insert into idempotency_keys (account, key, event, hash, created_at) select %s, 'order-%d-' || i, %s, %s, %s from %s",
				f.Key(m.made.Account), begin.Unix(), event, f.Bytes(make([]byte, 32)), f.At(ms), series)),
		f.End(ctx))
}

// untilSwept waits until each chore that deletes has done a round. SQLite's file shrinks at the
// same time, so space that is freed today may be given back tomorrow.
func (m *month) untilSwept(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, retentionTime)
	defer cancel()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	chores := []string{"forget_events", "forget_attempts", "forget_bodies", "forget_idempotency_keys", "shrink_the_file"}
	for {
		metrics, err := m.server.Metrics(ctx)
		if err != nil {
			return fmt.Errorf("wait for retention: %w", err)
		}
		done := 0
		for _, chore := range chores {
			done += len(metrics.Lines("postrider_chore_last_success_timestamp_seconds{chore=" + strconv.Quote(chore) + "}"))
		}
		if done == len(chores) {
			return nil
		}
		<-again.C
	}
}

// size returns the size of the store in megabytes. It makes a checkpoint, with which PostgreSQL
// removes the files of dropped tables.
func (m *month) size(ctx context.Context) (float64, error) {
	if m.server.OnPostgres() {
		if _, err := m.lab.SQL(ctx, m.server, "checkpoint"); err != nil {
			return 0, err
		}
	}
	bytes, err := m.lab.StoreBytes(m.server)
	return float64(bytes) / 1e6, err
}
