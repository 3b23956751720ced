package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/postrider/postrider/bench/internal/lab"
	"github.com/postrider/postrider/client"
)

const (
	account  = "bench"
	warmUp   = 2 * time.Second
	patience = 3 * time.Minute // for what was accepted to arrive
)

// measurement is what one scenario showed.
type measurement struct {
	scenario scenario
	store    string
	load     lab.LoadStats
	sink     lab.SinkStats
	used     usages
	bytes    int64 // the store grew by
	missing  int64 // deliveries that did not arrive in time
}

// usages is what the processes used.
type usages struct{ server, postgres, load, sink lab.Usage }

// measureRaw measures load and sink without a server between.
func measureRaw(ctx context.Context, l *lab.Lab) (lab.LoadStats, error) {
	sink, err := l.StartSink(ctx)
	if err != nil {
		return lab.LoadStats{}, err
	}
	stats, err := l.RunLoad(ctx, lab.Load{
		Target: sink.Address(), Raw: "/ok", Connections: 32, Duration: 3 * time.Second, Size: 1024,
	})
	return stats, errors.Join(err, sink.Kill())
}

// measure runs a scenario on a server with an empty store.
func measure(ctx context.Context, l *lab.Lab, store string, s scenario) (m measurement, err error) {
	m = measurement{scenario: s, store: store}
	sink, err := l.StartSink(ctx)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, sink.Kill()) }()
	server, err := l.StartServer(ctx, lab.ServerOptions{Store: store})
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, server.Process().Terminate(time.Minute)) }()
	if err := subscribe(ctx, server.Client(), s, sink.Address()); err != nil {
		return m, err
	}
	key, err := server.Key()
	if err != nil {
		return m, err
	}
	load := lab.Load{
		Target: server.Address(), Key: key, Account: account, Types: s.types(),
		Connections: s.connections, Rate: s.rate, Duration: warmUp, Size: s.size,
	}
	warm, err := l.RunLoad(ctx, load)
	if err != nil {
		return m, fmt.Errorf("warm up: %w", err)
	}
	if _, missing, err := arrivals(ctx, sink, warm.Accepted*s.matches()); err != nil || missing > 0 {
		return m, errors.Join(err, fmt.Errorf("warm up: %d deliveries did not arrive", missing))
	}
	if err := sink.Reset(ctx); err != nil {
		return m, err
	}
	load.Duration = s.duration
	return m, m.run(ctx, bench{l, server, sink}, load)
}

// bench is what a measurement runs on.
type bench struct {
	lab    *lab.Lab
	server *lab.Server
	sink   *lab.Sink
}

func (m *measurement) run(ctx context.Context, b bench, load lab.Load) error {
	before, err := b.usage()
	if err != nil {
		return err
	}
	bytesBefore, err := b.lab.StoreBytes(b.server)
	if err != nil {
		return err
	}
	if m.load, err = b.lab.RunLoad(ctx, load); err != nil {
		return err
	}
	if m.sink, m.missing, err = arrivals(ctx, b.sink, m.load.Accepted*m.scenario.matches()); err != nil {
		return err
	}
	after, err := b.usage()
	if err != nil {
		return err
	}
	bytesAfter, err := b.lab.StoreBytes(b.server)
	m.bytes = bytesAfter - bytesBefore
	m.used = after.since(before)
	m.used.load = m.load.Usage
	return err
}

func (b bench) usage() (u usages, err error) {
	var errs [3]error
	u.server, errs[0] = b.server.Process().Usage()
	u.sink, errs[1] = b.sink.Usage()
	u.postgres, errs[2] = b.lab.PostgresUsage()
	return u, errors.Join(errs[:]...)
}

// since returns the CPU between two readings; peaks stay.
func (u usages) since(before usages) usages {
	u.server.CPU -= before.server.CPU
	u.postgres.CPU -= before.postgres.CPU
	u.sink.CPU -= before.sink.CPU
	return u
}

// subscribe makes the account and the scenario's endpoints.
func subscribe(ctx context.Context, c *client.Client, s scenario, sink string) error {
	if _, err := c.CreateAccount(ctx, client.NewAccount{UID: account, Name: "Benchmark"}); err != nil {
		return fmt.Errorf("create account: %w", err)
	}
	for i := range s.endpoints {
		pattern := fmt.Sprintf("bench.t%d", i)
		if s.fanOut {
			pattern = "bench.*"
		}
		_, err := c.CreateEndpoint(ctx, client.NewEndpoint{
			Account: account, URL: "http://" + sink + s.path, EventTypes: []string{pattern}, Concurrency: s.concurrency,
		})
		if err != nil {
			return fmt.Errorf("create endpoint %d: %w", i, err)
		}
	}
	return nil
}

// arrivals waits until the sink has what was accepted, and reports how much it
// does not have when patience ends.
func arrivals(ctx context.Context, sink *lab.Sink, want int64) (lab.SinkStats, int64, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	var last lab.SinkStats
	for {
		stats, err := sink.Stats(ctx)
		switch {
		case ctx.Err() != nil:
			return last, want - last.Count, nil
		case err != nil:
			return last, 0, err
		case stats.Count >= want:
			return stats, 0, nil
		}
		last = stats
		select {
		case <-again.C:
		case <-ctx.Done():
		}
	}
}
