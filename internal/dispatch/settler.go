package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/schedule"
	"github.com/postrider/postrider/internal/store"
)

// maxGroup is how many settlements one commit has at most.
const maxGroup = 500

// runSettler commits settlements and releases in groups: what is at hand is
// committed at once, and what is added meanwhile is the next group. A group that
// is not large waits for more after the last commit ([schedule.BatchDelay]). It
// ends when ctx does, or when settlements is closed and nothing is left.
func (d *Dispatcher) runSettler(ctx context.Context) {
	var next time.Time // no group that is not large is committed before
	for open := true; open; {
		select {
		case _, open = <-d.settlements.Ready():
		case <-d.releases.Ready():
		case <-ctx.Done():
			return
		}
		if d.settlements.Len()+d.releases.Len() < maxGroup/2 {
			batch.SleepOr(ctx, time.Until(next), d.done)
		}
		begun := time.Now()
		settlements := d.settlements.Take(0)
		for len(settlements) > 0 {
			n := min(len(settlements), maxGroup)
			d.settleGroup(ctx, settlements[:n])
			settlements = settlements[n:]
		}
		d.release(ctx, d.releases.Take(0))
		next = time.Now().Add(schedule.BatchDelay(time.Since(begun)))
	}
}

// settleGroup commits a group. A commit whose reply was lost is made again:
// Settle is idempotent by the deliveries' tokens, so nothing is recorded twice.
// If the store refuses one of its settlements, the others must not pay for it:
// the group is halved until that one is alone, and its lease ends.
func (d *Dispatcher) settleGroup(ctx context.Context, group []store.Settlement) {
	var results []store.Settled
	err := d.retryWhileBusy(ctx, func(ctx context.Context) (err error) {
		results, err = d.queue.Settle(ctx, group)
		return err
	})
	switch {
	case err == nil:
		d.post(schedule.SettlementsCommitted{Settlements: group, Results: results})
		for i := range group {
			logAttempt(ctx, d.opts.Log, &group[i], results[i].Stale)
			d.reportSettled(&group[i], results[i].Stale)
		}
	case ctx.Err() != nil:
	case len(group) > 1:
		d.settleGroup(ctx, group[:len(group)/2])
		d.settleGroup(ctx, group[len(group)/2:])
	default:
		d.opts.Log.ErrorContext(ctx, "attempt not settled", "delivery", group[0].Claimed, "error", err)
		d.post(schedule.SettlementsCommitted{Settlements: group, Results: []store.Settled{{Stale: true}}})
	}
}

// reportSettled calls the hooks of a settlement that is committed. Most servers have
// none of them, and then nothing is copied.
func (d *Dispatcher) reportSettled(s *store.Settlement, stale bool) {
	hooks, dead := &d.opts.Hooks, s.Transition.To == postrider.Dead && !stale
	if hooks.Settled == nil && (hooks.DeadLetter == nil || !dead) {
		return
	}
	settled := observe.Settled{Delivery: s.Claimed, Attempt: s.Attempt, Transition: s.Transition, Stale: stale}
	hooks.Settled.Call(settled)
	if dead {
		hooks.DeadLetter.Call(settled)
	}
}

func (d *Dispatcher) release(ctx context.Context, releases []schedule.Release) {
	if len(releases) == 0 {
		return
	}
	leases := make([]store.Lease, 0, len(releases))
	for _, r := range releases {
		leases = append(leases, r.Lease)
	}
	err := d.retryWhileBusy(ctx, func(ctx context.Context) error { return d.queue.Release(ctx, leases) })
	if err != nil { // the leases will end
		d.opts.Log.ErrorContext(ctx, "leases not released", "leases", len(leases), "error", err)
	}
	d.post(schedule.LeasesReleased{Releases: releases})
}

// storeCircuit stores a circuit that changed, by compare-and-swap. The core decides
// what follows if somebody else was faster ([schedule.CircuitStored]).
func (d *Dispatcher) storeCircuit(ctx context.Context, change schedule.CircuitChange) {
	stored, circuit := postrider.Circuit{}, change.Circuit
	err := d.retryWhileBusy(ctx, func(ctx context.Context) (err error) {
		stored, err = d.queue.PutCircuit(ctx, store.PutCircuit{Circuit: circuit})
		return err
	})
	switch {
	case err == nil && change.Notable:
		logCircuit(ctx, d.opts.Log, stored)
		d.opts.Hooks.CircuitChanged.Call(stored)
	case err == nil:
	case !errors.Is(err, postrider.ErrConflict) && !errors.Is(err, postrider.ErrNotFound):
		d.opts.Log.ErrorContext(ctx, "circuit not stored", "endpoint", circuit.Endpoint.String(), "error", err)
	}
	if stored.Endpoint.IsZero() {
		stored = circuit
	}
	d.post(schedule.CircuitStored{Circuit: stored, Err: err})
}

// logCircuit logs what an operator wants to know of a circuit that changed.
func logCircuit(ctx context.Context, log *slog.Logger, c postrider.Circuit) {
	level := slog.LevelInfo
	if c.Status == postrider.CircuitOpen {
		level = slog.LevelWarn
	}
	log.LogAttrs(ctx, level, "circuit changed",
		slog.String("endpoint", c.Endpoint.String()),
		slog.String("status", string(c.Status)),
		slog.String("reason", c.Reason),
		slog.Int64("cooldown_ms", c.Cooldown.Milliseconds()))
}

// disable disables an endpoint that answered 410. The core has stopped sending to it
// already; it learns by an [schedule.EndpointChanged] that the endpoint is disabled.
func (d *Dispatcher) disable(ctx context.Context, id postrider.EndpointID) {
	err := d.retryWhileBusy(ctx, func(ctx context.Context) error {
		return d.endpoints.Disable(ctx, id, postrider.ReasonGone)
	})
	if err != nil {
		d.opts.Log.ErrorContext(ctx, "endpoint not disabled", "endpoint", id.String(), "error", err)
		d.post(schedule.NotDisabled{Endpoint: id}) // its next 410 disables it
	}
}
