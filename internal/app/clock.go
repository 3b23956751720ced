package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/postrider/postrider/internal/store"
)

const (
	// clockEvery is how often the store is asked for the time.
	clockEvery = 10 * time.Second
	// clockLimit is how far this machine's clock may be off. Ids carry the time,
	// and decide in which partition a row lands.
	clockLimit = time.Hour
)

// clock is the store's clock as this node knows it: its own, moved by the
// offset that was measured last.
type clock struct {
	store  store.Upkeep
	log    *slog.Logger
	offset atomic.Int64 // nanoseconds
}

// now returns the time by the store's clock.
func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.offset.Load())) }

// measure asks the store for the time. A clock that is off by over an hour is
// an error: somebody must set it.
func (c *clock) measure(ctx context.Context) error {
	asked := time.Now()
	at, err := c.store.Now(ctx)
	if err != nil {
		return fmt.Errorf("ask the store for the time: %w", err)
	}
	here := asked.Add(time.Since(asked) / 2)
	offset := at.Sub(here)
	if offset.Abs() > clockLimit {
		return fmt.Errorf("the clock of this machine says %s and that of the store %s: %w",
			here.UTC().Format(time.RFC3339), at.UTC().Format(time.RFC3339), errClock)
	}
	c.offset.Store(int64(offset))
	return nil
}

// errClock ends a server whose clock is too far off.
var errClock = fmt.Errorf("they are more than %v apart", clockLimit)

// Run measures until ctx ends, or the clock is too far off.
func (c *clock) Run(ctx context.Context) error {
	tick := time.NewTicker(clockEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		switch err := c.measure(ctx); {
		case errors.Is(err, errClock):
			return err
		case err != nil && ctx.Err() == nil:
			c.log.WarnContext(ctx, "time not measured", "error", err)
		}
	}
}
