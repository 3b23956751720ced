package app

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/postrider/postrider/internal/store"
)

const (
	// clockEvery is how often the store is asked for the time. A step of its
	// clock is noticed, and signatures follow it, within that.
	clockEvery = time.Second
	// clockPatience is how long one question may take.
	clockPatience = 5 * time.Second
	// offsetWarned is the offset of this machine's clock from which on operators
	// are warned.
	offsetWarned = 30 * time.Second
	// offsetLimit is the offset above which the server is not ready: receivers
	// tolerate five minutes, and so far off something is wrong with the machine.
	offsetLimit = 5 * time.Minute
)

// clock keeps the store's clock correct and watches how far this machine's
// clock is from it. Nothing is decided or signed by this machine's clock.
type clock struct {
	store  store.Store
	log    *slog.Logger
	offset atomic.Int64 // nanoseconds that the store's time of day is ahead of this machine's
	warned bool         // the offset was over offsetWarned when it was logged last
}

// measure asks the store for the time.
func (c *clock) measure(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, clockPatience)
	defer cancel()
	if _, err := c.store.Now(ctx); err != nil {
		return fmt.Errorf("ask the store for the time: %w", err)
	}
	c.watch(ctx, c.store.Clock().Offset())
	return nil
}

// watch takes up the offset. It is logged when it passes offsetWarned, and when
// it is back.
func (c *clock) watch(ctx context.Context, offset time.Duration) {
	c.offset.Store(int64(offset))
	far := offset.Abs() > offsetWarned
	if far == c.warned {
		return
	}
	c.warned = far
	if far {
		c.log.WarnContext(ctx, "the clock of this machine is off", "offset", c.shown(), "limit", offsetLimit.String())
		return
	}
	c.log.InfoContext(ctx, "the clock of this machine is right again", "offset", c.shown())
}

// shown returns the offset as people read it: positive where the store's clock
// is ahead of this machine's.
func (c *clock) shown() string {
	return time.Duration(c.offset.Load()).Round(time.Millisecond).String()
}

// check returns why the server is not ready, and nil where the clock is no
// reason.
func (c *clock) check(context.Context) error {
	if time.Duration(c.offset.Load()).Abs() <= offsetLimit {
		return nil
	}
	return fmt.Errorf("the clock of this machine is %s off the store's: set it", time.Duration(c.offset.Load()).Abs().Round(time.Second))
}

// Run measures until ctx ends.
func (c *clock) Run(ctx context.Context) error {
	tick := time.NewTicker(clockEvery)
	defer tick.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		err := c.measure(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			c.log.WarnContext(ctx, "time not measured", "error", err)
		}
		failing = err != nil
	}
}
