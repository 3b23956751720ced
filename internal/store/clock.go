package store

import (
	"sync"
	"time"

	"github.com/postrider/postrider"
)

// Clock is the store's time, as this process knows it.
//
// A Clock shows two times. Now decides which work is due, leased or expired. Now follows the
// machine's monotonic clock while the process lives, even if somebody sets the clock of the
// machine or of the database. Wall is the database's time of day; ids, signatures and everything
// that people see have it. If the database's clock is set, Wall follows.
//
// All nodes of one database have the same Now. They share one adjustment, stored in the database:
// Now = Wall + adjustment. If the database's clock is stepped, the first node that notices the
// step stores a new adjustment, so that Now does not jump. The other nodes read and adopt the new
// adjustment.
//
// Example: Now and Wall are 12:00:00, and the database's clock is set back by an hour. The next
// reading says 11:00:01. Wall follows; the stored adjustment becomes +1h, so Now is 12:00:01, and
// leases that end at 12:00:30 still last 29 s.
//
// The methods of a Clock may be called from any goroutine.
type Clock struct {
	machine func() time.Time // this machine's clock, with its monotonic reading

	mu      sync.Mutex
	known   bool          // set by the first Follow
	asOf    time.Time     // the time of the machine's clock when at was set
	at      time.Time     // the value of Now at asOf
	shown   time.Time     // the last Now that At returned, so that Now does not move back
	ahead   time.Duration // the adjustment: Now = Wall + ahead
	version int64         // the version of the adjustment
	steps   time.Time     // the time of the machine's clock at the last step of Wall; zero if Wall was never stepped
}

// Reading is the store's answer to a request for its time.
type Reading struct {
	Asked, Answered time.Time     // the machine's clock before the request and after the answer
	Wall            time.Time     // the store's time of day, at some moment between Asked and Answered
	Ahead           time.Duration // the stored adjustment: Now = Wall + Ahead
	Version         int64         // the version of the adjustment
	Witness         time.Time     // the Now of another node's last heartbeat; zero if there is no other node
}

const (
	// clockStep is the smallest difference between two readings that counts as a step of a clock. A
	// smaller difference is drift or the delay of the network.
	clockStep = time.Second
	// clockSlew is how far one reading moves Now at most if no clock was stepped.
	clockSlew = 50 * time.Millisecond
	// clockWitness is the greatest age of another node's heartbeat that Follow trusts as a witness.
	clockWitness = 2 * time.Second
)

// NewClock returns a clock that shows the machine's time until the first call of Follow. The
// parameter machine returns the machine's time; nil stands for time.Now.
func NewClock(machine func() time.Time) *Clock {
	if machine == nil {
		machine = time.Now
	}
	c := &Clock{machine: machine, asOf: machine()}
	c.at = c.asOf.Round(0)
	return c
}

// Now returns the time that decides which work is due. Now never moves back, with one rare
// exception: another node stored a new adjustment, and this node used the old one for a while.
func (c *Clock) Now() time.Time {
	now, _ := c.At(c.machine())
	return now
}

// Wall returns the store's time of day.
func (c *Clock) Wall() time.Time {
	_, wall := c.At(c.machine())
	return wall
}

// At returns Now and Wall for an instant of the machine's clock. The instant must be the present
// one.
func (c *Clock) At(machine time.Time) (now, wall time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.atLocked(machine)
	if at.After(c.shown) {
		c.shown = at
	}
	return stored(c.shown), stored(at.Add(-c.ahead))
}

// Ahead returns the adjustment: how far Now is ahead of Wall.
func (c *Clock) Ahead() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ahead
}

// Shown converts an instant of Now into the time of day that people see. The zero time stays
// zero.
func (c *Clock) Shown(due time.Time) time.Time {
	if due.IsZero() {
		return due
	}
	return due.Add(-c.Ahead())
}

// ShownCircuit returns a circuit as people see it now ([postrider.Circuit.At]), with its times
// converted from Now to the time of day. Use the result only for display: decisions and stored
// circuits need the times of Now.
func (c *Clock) ShownCircuit(of postrider.Circuit) postrider.Circuit {
	return of.At(c.Now()).Shift(-c.Ahead())
}

// Offset returns by how much the store's time of day is ahead of the machine's.
func (c *Clock) Offset() time.Duration { return c.Wall().Sub(c.machine().Round(0)) }

// SteppedWithin reports whether Wall was stepped in the last span of time.
func (c *Clock) SteppedWithin(span time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.steps.IsZero() && c.machine().Sub(c.steps) < span
}

// Follow corrects the clock by a reading. It returns by how much the store's time of day was
// stepped, or 0 if there was no step. After a step, the caller stores a new adjustment (Ahead
// minus the step) under the next version, unless another node has changed the version, and takes
// another reading. Until then Now continues as before.
//
// These rules apply in this order:
//
//   - The first reading is adopted.
//   - A later reading that took more than a second is ignored.
//   - A difference of up to a second is drift, which is corrected slowly. Half of the duration of
//     the reading is subtracted from the difference first, because the reading can be wrong by
//     that much.
//   - An adjustment that another node stored is adopted.
//   - If the heartbeat of another node agrees with the store's time and this clock does not, the
//     monotonic clock of this machine stood still. The store's time is adopted.
//   - Any other difference is a step.
func (c *Clock) Follow(r Reading) (step time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	took := r.Answered.Sub(r.Asked)
	if c.known && took > clockStep {
		return 0
	}
	between := r.Asked.Add(took / 2)
	now := r.Wall.Add(r.Ahead)
	off := now.Sub(c.atLocked(between))
	switch {
	case !c.known:
		c.known, c.ahead, c.version = true, r.Ahead, r.Version
		c.adoptLocked(between, now)
	case off.Abs() <= clockStep:
		drift := min(max(drifted(off, took/2)/4, -clockSlew), clockSlew)
		c.asOf, c.at = between, c.atLocked(between).Add(drift)
	case r.Version != c.version:
		c.adoptLocked(between, now)
	case off > 2*clockWitness && now.Sub(r.Witness).Abs() <= clockWitness:
		c.adoptLocked(between, now)
	default:
		return off
	}
	if r.Version != c.version {
		c.ahead, c.version, c.steps = r.Ahead, r.Version, c.machine()
	}
	return 0
}

// drifted returns the part of the difference off that a reading's own error mayErr cannot
// explain. Without this, slow readings would move a clock that is right.
func drifted(off, mayErr time.Duration) time.Duration {
	if off < 0 {
		return min(off+mayErr, 0)
	}
	return max(off-mayErr, 0)
}

// FollowMachine makes the clock follow the machine's own time of day. It is for a store that only
// this process uses. It returns by how much the machine's time of day was stepped.
func (c *Clock) FollowMachine() (step time.Duration) {
	c.mu.Lock()
	at := c.machine()
	r := Reading{Asked: at, Answered: at, Wall: at.Round(0), Ahead: c.ahead, Version: c.version}
	c.mu.Unlock()
	if step = c.Follow(r); step != 0 {
		r.Ahead, r.Version = r.Ahead-step, r.Version+1
		c.Follow(r)
	}
	return step
}

// adoptLocked sets Now to at, even if at is before the last Now.
func (c *Clock) adoptLocked(asOf, at time.Time) {
	c.asOf, c.at, c.shown = asOf, at, time.Time{}
}

func (c *Clock) atLocked(machine time.Time) time.Time { return c.at.Add(machine.Sub(c.asOf)) }

// stored returns a time in UTC, truncated to microseconds, as stores keep it.
func stored(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }
