package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/schedule"
	"github.com/postrider/postrider/internal/store"
)

// maxGroup is the greatest number of settlements in one commit.
const maxGroup = 500

// runSettler commits settlements and releases in groups. It commits all that wait at once; those
// that are added in the meantime are the next group. A group of less than half of maxGroup waits
// for more, for a time that grows with the duration of the last commit ([schedule.BatchDelay]). So
// a busy store gets fewer and larger commits. After a group with bulk deliveries the wait is the
// longest one, so that a replay together with few publishes makes few commits, because each commit
// can delay a publish. runSettler ends when ctx ends, or when settlements is closed and nothing is
// left. After the loop has ended (done), no group waits.
func (d *Dispatcher) runSettler(ctx context.Context) {
	var next time.Time // a small group is not committed before this time
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
		hasBulk := slices.ContainsFunc(settlements, isBulk)
		for len(settlements) > 0 {
			n := min(len(settlements), maxGroup)
			d.settleGroup(ctx, settlements[:n])
			settlements = settlements[n:]
		}
		d.release(ctx, d.releases.Take(0))
		rest := schedule.BatchDelay(time.Since(begun))
		if hasBulk {
			rest = schedule.MaxBatchDelay
		}
		next = time.Now().Add(rest)
	}
}

func isBulk(s store.Settlement) bool { return s.Claimed.Lane == postrider.LaneBulk }

// settleGroup commits a group. If the reply of a commit was lost, the commit is repeated: Settle is
// idempotent because of the deliveries' tokens, so nothing is recorded twice. If the store refuses
// the group for another reason, one settlement may be the cause, and the others must not be lost
// with it. So settleGroup halves a refused group until it has one settlement: of 500 settlements
// with one that cannot be stored, 499 are committed in about 20 calls. The core treats that one as
// stale. Its lease ends, and the delivery is attempted again.
func (d *Dispatcher) settleGroup(ctx context.Context, group []store.Settlement) {
	var results []store.Settled
	err := d.retryWhileBusy(ctx, "settle", func(ctx context.Context) (err error) {
		results, err = d.queue.Settle(ctx, group)
		return err
	})
	switch {
	case err == nil:
		group, results = putAside(d.locked, group, results)
		d.post(schedule.SettlementsCommitted{Settlements: group, Results: results})
		for i := range group {
			logAttempt(ctx, d.opts.Log, &group[i], results[i].Stale)
			reportSettled(&d.opts.Hooks, &group[i], results[i].Stale)
		}
	case ctx.Err() != nil:
	case len(group) > 1:
		d.settleGroup(ctx, group[:len(group)/2])
		d.settleGroup(ctx, group[len(group)/2:])
	default:
		d.opts.Hooks.Violated.Call("attempt_not_settled")
		d.opts.Log.ErrorContext(ctx, "attempt not settled", "delivery", group[0].Claimed, "error", err)
		d.post(schedule.SettlementsCommitted{Settlements: group, Results: []store.Settled{{Stale: true}}})
	}
}

// putAside gives the settlements that are locked to eachLocked, and returns the others.
func putAside(
	locked *batch.Queue[store.Settlement], group []store.Settlement, results []store.Settled,
) ([]store.Settlement, []store.Settled) {
	if !slices.ContainsFunc(results, func(r store.Settled) bool { return r.Locked }) {
		return group, results
	}
	var settled []store.Settlement
	var of []store.Settled
	for i := range group {
		if results[i].Locked {
			locked.Add(group[i])
		} else {
			settled, of = append(settled, group[i]), append(of, results[i])
		}
	}
	return settled, of
}

// lockedPause is the time between two tries of settlements that are locked.
const lockedPause = 100 * time.Millisecond

// eachLocked settles the deliveries that another transaction has locked, until that transaction
// ends. It has its own goroutine, so that no other settlement waits for the lock. In the meantime
// the deliveries stay leased. If a lease ends, another claim takes it over, and the settlement is
// stale. eachLocked ends when ctx ends, or when the loop has ended (done) and nothing is left.
func eachLocked(ctx context.Context, locked *batch.Queue[store.Settlement], done <-chan struct{}, settle func([]store.Settlement)) {
	for {
		select {
		case <-locked.Ready():
		case <-done:
			if locked.Len() == 0 {
				return
			}
		case <-ctx.Done():
			return
		}
		if !batch.Sleep(ctx, lockedPause) {
			return
		}
		for group := range slices.Chunk(locked.Take(0), maxGroup) {
			settle(group)
		}
	}
}

// reportSettled calls the hooks for a committed settlement. Most servers have no such hooks; then
// nothing is copied.
func reportSettled(hooks *observe.Hooks, s *store.Settlement, stale bool) {
	dead := s.Transition.To == postrider.Dead && !stale
	if hooks.Settled == nil && (hooks.DeadLetter == nil || !dead) {
		return
	}
	settled := observe.Settled{Delivery: s.Claimed, Attempt: s.Attempt, Transition: s.Transition, Stale: stale}
	hooks.Settled.Call(settled)
	if dead {
		hooks.DeadLetter.Call(settled)
	}
}

// release gives leases back, so that this node or another one can claim their deliveries at once.
// If that fails, the leases end by themselves. The core gets LeasesReleased in both cases, because
// it counts releases under way.
func (d *Dispatcher) release(ctx context.Context, releases []schedule.Release) {
	if len(releases) == 0 {
		return
	}
	leases := make([]store.Lease, 0, len(releases))
	for _, r := range releases {
		leases = append(leases, r.Lease)
	}
	err := d.retryWhileBusy(ctx, "release", func(ctx context.Context) error { return d.queue.Release(ctx, leases) })
	if err != nil {
		d.opts.Log.ErrorContext(ctx, "leases not released", "leases", len(leases), "error", err)
	}
	d.post(schedule.LeasesReleased{Releases: releases})
}

// storeCircuit stores a circuit that changed, by compare-and-swap of its version. If another node
// or a person changed the circuit first, the store returns the stored one with a conflict, and the
// core decides which of the two wins ([schedule.CircuitStored]). Only a notable change is logged,
// not each failed probe that leaves the circuit's status and cooldown unchanged.
func (d *Dispatcher) storeCircuit(ctx context.Context, change schedule.CircuitChange) {
	stored, circuit := postrider.Circuit{}, change.Circuit
	err := d.retryWhileBusy(ctx, "put circuit", func(ctx context.Context) (err error) {
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

// logCircuit logs a circuit that changed. If it opened, that is a warning.
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

// disable disables an endpoint whose receiver asked for it. The core stopped sending to it when it got the
// response, and starts again only after DisableEnded. Disable refreshes the routing table, which
// reports the disabled endpoint like any other change. So the core has the change before
// DisableEnded.
func (d *Dispatcher) disable(ctx context.Context, it schedule.Disable) {
	err := d.retryWhileBusy(ctx, "disable", func(ctx context.Context) error {
		return d.endpoints.Disable(ctx, it.Endpoint, it.Reason)
	})
	if err != nil {
		d.opts.Log.ErrorContext(ctx, "endpoint not disabled", "endpoint", it.Endpoint.String(), "error", err)
	}
	d.post(schedule.DisableEnded{Endpoint: it.Endpoint})
}
