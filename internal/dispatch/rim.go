package dispatch

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// loop owns the core: it takes inputs, asks for actions and carries them out,
// until it has drained after ctx ended or commits are given up. It returns how
// many attempts it left.
func (d *Dispatcher) loop(ctx, commit context.Context, send func(item)) int {
	c := newCore(d.opts, d.endpoints.Lookup)
	timer := time.NewTimer(0)
	defer timer.Stop()
	end := ctx.Done()
	for {
		select {
		case in := <-d.inputs:
			c.step(time.Now(), in)
			for range min(len(d.inputs), 256) { // decide once for all that is at hand
				c.step(time.Now(), <-d.inputs)
			}
		case <-timer.C:
		case <-end:
			end = nil
			c.step(time.Now(), drain{})
		case <-commit.Done():
			return c.inFlight + c.unsettled
		}
		now := time.Now()
		do := c.act(now)
		d.carryOut(do, send)
		d.health.note(c, now)
		timer.Reset(untilWake(do.wakeAt, now))
		c.taken()
		if c.draining && c.inFlight+c.unsettled == 0 && !c.claiming {
			return 0
		}
	}
}

// untilWake is at most a second, so that the pressure is felt when it ends.
func untilWake(at, now time.Time) time.Duration {
	if at.IsZero() {
		return time.Second
	}
	return min(max(at.Sub(now), 0), time.Second)
}

// carryOut starts what the core decided. It never waits.
func (d *Dispatcher) carryOut(do *actions, send func(item)) {
	for _, it := range do.send {
		send(it)
	}
	d.settles.add(do.settle, do.release, do.disable)
	if do.claim != nil {
		d.claims <- do.claim // one is under way at most, and there is room for it
	}
	d.hold.Store(int64(do.hold))
}

// attempt makes one attempt and brings back what it showed. A panic costs the
// attempt and not the node.
func (d *Dispatcher) attempt(ctx context.Context, it item) {
	started := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, it.timeout, fmt.Errorf("the endpoint's timeout of %v is over", it.timeout))
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			d.opts.Log.ErrorContext(ctx, "attempt panicked", "job", it.Claimed, "panic", p, "stack", string(debug.Stack()))
			d.post(attempted{it, postrider.Attempt{
				Outcome: postrider.OutcomeBroken, Error: "internal", StartedAt: started, Duration: time.Since(started),
			}})
		}
	}()
	d.post(attempted{it, d.sender.Send(ctx, it.Claimed, it.to)})
}

// claimWhenAsked makes the claims that the core asks for, one at a time.
func (d *Dispatcher) claimWhenAsked(ctx context.Context) {
	// A claim under way when ctx ends is finished, so that its leases are known.
	work := context.WithoutCancel(ctx)
	for {
		select {
		case claim := <-d.claims:
			asked := time.Now()
			got, err := d.queue.Claim(work, *claim)
			if err != nil {
				d.opts.Log.WarnContext(ctx, "deliveries not claimed", "error", err)
				d.health.failed(err)
			}
			d.post(claimed{claim, got, err, asked})
		case <-d.done:
			return
		}
	}
}

// scan looks at the whole queue now and then: what no input named is found
// here, after a start above all.
func (d *Dispatcher) scan(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		wait := d.opts.Scan
		if err := d.scanOnce(ctx); err != nil && ctx.Err() == nil {
			d.opts.Log.WarnContext(ctx, "queue not scanned", "error", err)
			d.health.failed(err)
			wait = min(wait, 5*time.Second)
		}
		timer.Reset(wait)
	}
}

func (d *Dispatcher) scanOnce(ctx context.Context) error {
	const page = 1000 // endpoints
	q := store.Due{Max: page}
	for {
		lanes, err := d.queue.Due(ctx, q)
		if err != nil {
			return fmt.Errorf("scan queue: %w", err)
		}
		if len(lanes) == 0 {
			return nil
		}
		d.post(due{lanes})
		q.After = lanes[len(lanes)-1].Endpoint
	}
}

// settleQueue gathers what is to be committed while a commit is under way.
type settleQueue struct {
	signal chan struct{}

	mu      sync.Mutex
	pending settleGroup
	closed  bool
}

// settleGroup is what one round of commits is about.
type settleGroup struct {
	settle  []store.Settlement
	release []store.Lease
	disable []postrider.EndpointID
}

func (q *settleQueue) add(settle []store.Settlement, release []store.Lease, disable []postrider.EndpointID) {
	if len(settle)+len(release)+len(disable) == 0 {
		return
	}
	q.mu.Lock()
	q.pending.settle = append(q.pending.settle, settle...)
	q.pending.release = append(q.pending.release, release...)
	q.pending.disable = append(q.pending.disable, disable...)
	q.mu.Unlock()
	q.wake()
}

func (q *settleQueue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.wake()
}

func (q *settleQueue) wake() {
	select {
	case q.signal <- struct{}{}:
	default:
	}
}

// take waits for something to commit; false: there will be no more.
func (q *settleQueue) take(ctx context.Context) (settleGroup, bool) {
	for {
		q.mu.Lock()
		group, closed := q.pending, q.closed
		q.pending = settleGroup{}
		q.mu.Unlock()
		switch {
		case len(group.settle)+len(group.release)+len(group.disable) > 0:
			return group, true
		case closed:
			return settleGroup{}, false
		}
		select {
		case <-q.signal:
		case <-ctx.Done():
			return settleGroup{}, false
		}
	}
}

// settleWhatComes commits in groups: what is at hand goes at once, and what
// comes meanwhile is the next group.
func (d *Dispatcher) settleWhatComes(ctx context.Context) {
	const most = 500
	for {
		group, ok := d.settles.take(ctx)
		if !ok {
			return
		}
		for len(group.settle) > 0 {
			n := min(len(group.settle), most)
			d.settleGroup(ctx, group.settle[:n])
			group.settle = group.settle[n:]
		}
		if len(group.release) > 0 {
			d.insist(ctx, func() error { return d.queue.Release(ctx, group.release) })
		}
		for _, id := range group.disable {
			d.insist(ctx, func() error { return d.endpoints.Disable(ctx, id, postrider.ReasonGone) })
		}
	}
}

func (d *Dispatcher) settleGroup(ctx context.Context, group []store.Settlement) {
	var results []store.Settled
	ok := d.insist(ctx, func() (err error) {
		results, err = d.queue.Settle(ctx, group)
		return err
	})
	if !ok {
		return
	}
	for i, s := range group {
		d.logAttempt(ctx, s, results[i])
	}
	d.post(settled{group, results})
}

// insist does something until it works or ctx ends, and reports whether it
// worked. What is settled must not be forgotten because a database was away.
func (d *Dispatcher) insist(ctx context.Context, do func() error) bool {
	wait := 100 * time.Millisecond
	for {
		err := do()
		if err == nil {
			return true
		}
		d.opts.Log.WarnContext(ctx, "outcomes not committed, trying again", "error", err)
		d.health.failed(err)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return false
		}
		wait = min(2*wait, 5*time.Second)
	}
}

// logAttempt writes the canonical line of an attempt.
func (d *Dispatcher) logAttempt(ctx context.Context, s store.Settlement, r store.Settled) {
	level := slog.LevelInfo
	switch {
	case s.Transition.To == postrider.Dead, r.Stale:
		level = slog.LevelWarn
	case !d.opts.Log.Enabled(ctx, level):
		return
	}
	d.opts.Log.LogAttrs(ctx, level, "delivery attempted",
		slog.Any("job", s.Claimed),
		slog.String("outcome", string(s.Attempt.Outcome)),
		slog.Int("status_code", s.Attempt.StatusCode),
		slog.Int64("duration_ms", s.Attempt.Duration.Milliseconds()),
		slog.String("error", s.Attempt.Error),
		slog.String("status", string(s.Transition.To)),
		slog.String("reason", s.Transition.Reason),
		slog.Int64("retry_in_ms", s.Transition.After.Milliseconds()),
		slog.Bool("stale", r.Stale))
}

// health remembers when due work moved last.
type health struct {
	mu    sync.Mutex
	moved time.Time
	last  error // why it may not move
}

func (h *health) progressed(now time.Time) {
	h.mu.Lock()
	h.moved, h.last = now, nil
	h.mu.Unlock()
}

func (h *health) failed(err error) {
	h.mu.Lock()
	h.last = err
	h.mu.Unlock()
}

// note takes it as progress when something was started, or nothing is due.
func (h *health) note(c *core, now time.Time) {
	idle := c.claimable.len()+c.startable.len()+c.unsettled == 0 && !c.claiming
	if idle || len(c.do.send) > 0 || c.moved {
		h.progressed(now)
	}
	c.moved = false
}

func (h *health) check(now time.Time) error {
	const patience = 30 * time.Second
	h.mu.Lock()
	defer h.mu.Unlock()
	switch since := now.Sub(h.moved); {
	case since < patience:
		return nil
	case h.last != nil:
		return fmt.Errorf("due deliveries have not moved for %v: %w", since.Round(time.Second), h.last)
	default:
		return fmt.Errorf("due deliveries have not moved for %v", since.Round(time.Second))
	}
}
