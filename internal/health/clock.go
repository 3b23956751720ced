package health

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/doctor"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/store"
)

const (
	// clockEvery is the pause between two readings of the store's clock. When that clock is set to
	// another time, signatures follow within this pause.
	clockEvery = time.Second
	// clockPatience is the time limit of one reading.
	clockPatience = 5 * time.Second
	// offsetWarned is the offset of this machine's clock above which the log has a warning.
	offsetWarned = doctor.ClockWarned
	// offsetLimit is the offset of this machine's clock above which the server is not ready.
	offsetLimit = doctor.ClockLimit
)

// Clock keeps the store's clock correct and watches the offset of this machine's clock. The server
// decides and signs only by the store's clock. The offset is measured only to warn operators.
type Clock struct {
	store    Timed
	log      *slog.Logger
	observed observe.Hook[time.Duration] // the offset, after each reading
	// offset is the time in nanoseconds by which the store's clock is ahead of this machine's;
	// negative: behind. watch writes it. Shown and Check read it.
	offset atomic.Int64 // zero until the first reading
	// warned is true if the last log line about the offset was a warning. Only watch uses it.
	warned bool
}

// Timed is a store with a clock.
type Timed interface {
	// Now is [store.Upkeep]'s.
	Now(ctx context.Context) (time.Time, error)
	// Clock is [store.Store]'s.
	Clock() *store.Clock
}

// NewClock returns a clock that has not been measured. observed is called with the offset of each
// reading.
func NewClock(of Timed, observed observe.Hook[time.Duration], log *slog.Logger) *Clock {
	return &Clock{store: of, observed: observed, log: log}
}

// Measure reads the store's time. This corrects the clock that the store hands out. Measure then
// notes the offset of this machine's clock.
func (c *Clock) Measure(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, clockPatience)
	defer cancel()
	if _, err := c.store.Now(ctx); err != nil {
		return fmt.Errorf("read the clock of the store: %w", err)
	}
	c.watch(ctx, c.store.Clock().Offset())
	return nil
}

// watch notes the offset. It logs once when the offset exceeds offsetWarned, and once when the
// offset is below again.
func (c *Clock) watch(ctx context.Context, offset time.Duration) {
	c.offset.Store(int64(offset))
	c.observed.Call(offset)
	far := offset.Abs() > offsetWarned
	if far == c.warned {
		return
	}
	c.warned = far
	if far {
		c.log.WarnContext(ctx, "the clock of this machine is off", "offset", c.Shown(), "limit", offsetLimit.String())
		return
	}
	c.log.InfoContext(ctx, "the clock of this machine is right again", "offset", c.Shown())
}

// Shown returns the offset for logs and /readyz, rounded to milliseconds. The offset is positive if
// the store's clock is ahead of this machine's.
func (c *Clock) Shown() string {
	return time.Duration(c.offset.Load()).Round(time.Millisecond).String()
}

// Check returns an error if the offset makes the server not ready.
func (c *Clock) Check(context.Context) error {
	if time.Duration(c.offset.Load()).Abs() <= offsetLimit {
		return nil
	}
	return fmt.Errorf("the clock of this machine is %s off the store's: set it", time.Duration(c.offset.Load()).Abs().Round(time.Second))
}

// Run measures every second until ctx ends. It logs only the first of several failures in a row,
// because the readiness checks of the store report the failure too.
func (c *Clock) Run(ctx context.Context) error {
	for failing := false; batch.Sleep(ctx, clockEvery); {
		err := c.Measure(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			c.log.WarnContext(ctx, "the clock of the store could not be read", "error", err)
		}
		failing = err != nil
	}
	return nil
}
