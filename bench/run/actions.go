package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/bench/internal/lab"
)

// slots is how many attempts a server has in flight at most, by default.
const slots = 1024

// sampleSlots records, between two times of the phase, which share of the slots is used by requests
// of a class that the sink does not answer.
func sampleSlots(class string, from, to time.Duration) action {
	return func(ctx context.Context, w *environment, r *reading) error {
		began := time.Now()
		pause(ctx, from)
		for time.Since(began) < to && ctx.Err() == nil {
			stats, err := w.sink.Count(ctx, class)
			if err != nil {
				return err
			}
			r.shares = append(r.shares, float64(stats.Open)/slots*100)
			pause(ctx, 250*time.Millisecond)
		}
		return nil
	}
}

// publishAll publishes n events of a class for an account, as fast as the server accepts them.
func (w *environment) publishAll(ctx context.Context, of, class string, n int) error {
	key, err := w.nodes[0].Key()
	if err != nil {
		return err
	}
	stats, err := w.lab.RunLoad(ctx, lab.Load{
		Targets: []string{w.nodes[0].Address()}, Key: key, Account: of, Prefix: class, Types: w.group(class).types(), Size: dataSize,
		Connections: 16, Count: int64(n), Duration: 10 * time.Minute,
	})
	if err == nil && stats.Accepted != int64(n) {
		err = fmt.Errorf("%d of %d events were accepted", stats.Accepted, n)
	}
	return err
}

// indexPaths has the events of the first type found by five values of their data.
func indexPaths(ctx context.Context, w *environment, _ *reading) error {
	paths := []string{"$.n", "$.of[0]", "$.of[1]", "$.of[2]", "$.of[3]"}
	_, err := w.nodes[0].Client().PutEventType(ctx, good+".t0", apitypes.EventTypePut{Paths: apitypes.Of(paths)})
	return err
}

// burst publishes n events of a class and waits until they have arrived.
func burst(class string, n int) action {
	return func(ctx context.Context, w *environment, _ *reading) error {
		if err := w.publishAll(ctx, account, class, n); err != nil {
			return fmt.Errorf("publish the burst: %w", err)
		}
		return w.untilArrived(ctx, class, int64(n))
	}
}

// killAfter kills the last node when the phase has the age.
func killAfter(age time.Duration) action {
	return func(ctx context.Context, w *environment, _ *reading) error {
		pause(ctx, age)
		return w.kill(len(w.nodes) - 1)
	}
}

// profiled does first, unless it is nil. At the same time it writes profiles of the first node to
// prefix.cpu.pprof and prefix.allocs.pprof.
func profiled(prefix string, first action) action {
	return func(ctx context.Context, w *environment, r *reading) error {
		var errs [2]error
		var running sync.WaitGroup
		if first != nil {
			running.Go(func() { errs[0] = first(ctx, w, r) })
		}
		errs[1] = writeProfiles(ctx, w, prefix, r.phase.lasts)
		running.Wait()
		return errors.Join(errs[:]...)
	}
}

func writeProfiles(ctx context.Context, w *environment, prefix string, lasts time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, lasts+30*time.Second)
	defer cancel()
	node := w.nodes[0]
	cpu, err := node.Profile(ctx, fmt.Sprintf("profile?seconds=%d", max(1, int(lasts.Seconds())-1)))
	if err != nil {
		return err
	}
	allocs, err := node.Profile(ctx, "allocs")
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(prefix+".cpu.pprof", cpu, 0o600), os.WriteFile(prefix+".allocs.pprof", allocs, 0o600))
}

// fileName makes a part of a file name from any text.
func fileName(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, text)
}
