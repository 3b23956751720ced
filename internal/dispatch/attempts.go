package dispatch

import (
	"context"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/schedule"
	"github.com/postrider/postrider/internal/store"
)

// attemptAll makes an attempt. While it is idle, it makes further attempts that the loop starts:
// its goroutine already has a stack of the size that an attempt needs. So there are as many of
// these goroutines as there ever were attempts in flight at once. All of them end when work is
// closed.
//
// Each goroutine has its own context, because attempts register with their context. If thousands of
// them shared one, they would wait for its lock.
func (d *Dispatcher) attemptAll(ctx context.Context, delivery *schedule.Delivery) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for ; delivery != nil; delivery = <-d.work {
		d.attempt(ctx, delivery)
	}
}

// attempt makes one attempt and posts its result. A panic ends only the attempt, not the node. The
// request may have left, so the attempt counts as broken and is retried by its schedule. The
// observer is called after the post, so that a slow observer delays no settlement.
func (d *Dispatcher) attempt(ctx context.Context, delivery *schedule.Delivery) {
	started := time.Now()
	if delivery.Losses > 0 {
		logLost(ctx, d.opts.Log, delivery.Claimed)
	}
	d.opts.Hooks.AttemptStarted.Call(delivery.Claimed)
	defer func() {
		if p := recover(); p != nil {
			d.opts.Hooks.Violated.Call("attempt_panicked")
			d.opts.Log.ErrorContext(ctx, "attempt panicked", "delivery", delivery.Claimed, "panic", p, "stack", string(debug.Stack()))
			delivery.Result = postrider.Attempt{
				Outcome: postrider.OutcomeBroken, Error: "internal", StartedAt: d.queue.Clock().Wall(), Duration: time.Since(started),
			}
		}
		if hook := d.opts.Hooks.AttemptFinished; hook != nil {
			// The hook is called after the post, when the delivery belongs to the loop. So its
			// argument is copied now.
			defer hook(observe.AttemptFinished{Delivery: delivery.Claimed, Attempt: delivery.Result})
		}
		if r := &delivery.Result; r.Outcome == postrider.OutcomePostponed {
			defer d.opts.Hooks.Postponed.Call(postrider.Failure(r.Error))
		}
		d.post(schedule.Attempted{Delivery: delivery})
	}()
	delivery.Result = d.sender.Send(ctx, started.Add(delivery.Timeout), &delivery.Claimed, delivery.To)
}

// Continue records an attempt after which the sender makes another one under the same lease; see
// [store.Queue]. The sender calls it between the two attempts.
func (d *Dispatcher) Continue(ctx context.Context, c postrider.Claimed, a postrider.Attempt) error {
	if err := d.queue.Continue(ctx, c, a); err != nil {
		return err
	}
	s := store.Settlement{Claimed: c, Attempt: a, Transition: postrider.Transition{To: postrider.Pending, Step: c.Step}}
	logAttempt(ctx, d.opts.Log, &s, false)
	reportSettled(&d.opts.Hooks, &s, false)
	return nil
}

// logLost writes the log line of the previous attempt, because its node died before it could write
// that line. The store counts the losses in a row, so the previous attempt is the last that was
// lost. Earlier lost attempts have their lines already. If this node dies now, the next node writes
// the line of this attempt.
func logLost(ctx context.Context, log *slog.Logger, c postrider.Claimed) {
	c.Attempt--
	log.LogAttrs(ctx, slog.LevelWarn, "delivery attempted",
		slog.Any("delivery", c),
		slog.String("outcome", string(postrider.OutcomeLost)),
		slog.String("status", string(postrider.Pending)))
}

// logAttempt writes the one log line of an attempt, when its settlement is committed. It is a
// warning if the delivery is dead now, or if the settlement was stale. A stale settlement means
// that another node took over the delivery, so it may have been sent twice.
func logAttempt(ctx context.Context, log *slog.Logger, s *store.Settlement, stale bool) {
	level := slog.LevelInfo
	switch {
	case s.Transition.To == postrider.Dead, stale:
		level = slog.LevelWarn
	case !log.Enabled(ctx, level):
		return
	}
	log.LogAttrs(ctx, level, "delivery attempted",
		slog.Any("delivery", s.Claimed),
		slog.String("outcome", string(s.Attempt.Outcome)),
		slog.Int("status_code", s.Attempt.StatusCode),
		slog.Int64("duration_ms", s.Attempt.Duration.Milliseconds()),
		slog.String("error", s.Attempt.Error),
		slog.String("status", string(s.Transition.To)),
		slog.String("reason", s.Transition.Reason),
		slog.Int64("retry_in_ms", s.Transition.After.Milliseconds()),
		slog.Bool("stale", stale))
}
