package store

import (
	"sync"
	"time"

	"github.com/postrider/postrider"
)

// Clock is the time of a store, as this process knows it.
//
// It has two times. Now decides what is due, leased or expired. While a process lives,
// Now follows the machine's monotonic clock, whatever happens to the clocks of the
// machine and of the database. Wall is the database's time of
// day, for ids, signatures and everything that people see; it follows the
// database's clock when that is stepped.
//
// Nodes of one database agree on Now: they keep one adjustment in the database,
// by which Now is ahead of Wall. The node that first sees the database's clock
// stepped stores another adjustment, so that Now does not jump; the others adopt it.
//
// Example: Now and Wall are 12:00:00, and the database's clock is set back by an hour. The
// next reading says 11:00:01. Wall follows; the stored adjustment becomes +1h, so Now is
// 12:00:01, and leases that end at 12:00:30 still last 29 s.
//
// Its methods may be called from any goroutine.
type Clock struct {
	machine func() time.Time // this machine's clock, with its monotonic reading

	mu      sync.Mutex
	known   bool          // whether Follow had a reading
	asOf    time.Time     // when at was set, by the machine's clock
	at      time.Time     // Now at asOf
	shown   time.Time     // the last Now that was returned: it does not move back
	ahead   time.Duration // the adjustment: Now is ahead of Wall by it
	version int64         // of the adjustment
	steps   time.Time     // when Wall was last stepped, by the machine's clock; zero: never
}

// Reading is what a store answered when it was asked for the time.
type Reading struct {
	Asked, Answered time.Time     // by the machine's clock
	Wall            time.Time     // the store's time of day, between the two
	Ahead           time.Duration // the adjustment: Now is ahead of Wall by it
	Version         int64         // of the adjustment
	Witness         time.Time     // the Now of another node's last heartbeat; zero: there is none
}

const (
	// clockStep is the difference between two readings from which on a clock was
	// stepped. Smaller ones are drift, or the network.
	clockStep = time.Second
	// clockSlew bounds how far one reading moves Now where there was no step.
	clockSlew = 50 * time.Millisecond
	// clockWitness is how old the last heartbeat of another node may be.
	clockWitness = 2 * time.Second
)

// NewClock returns a clock that shows the machine's time until it follows a
// [Reading]. The machine's clock is time.Now; nil means that.
func NewClock(machine func() time.Time) *Clock {
	if machine == nil {
		machine = time.Now
	}
	c := &Clock{machine: machine, asOf: machine()}
	c.at = c.asOf.Round(0)
	return c
}

// Now returns the time that decides what is due. It never moves back, but for
// the rare adjustment that another node made before this one knew it.
func (c *Clock) Now() time.Time {
	now, _ := c.At(c.machine())
	return now
}

// Wall returns the store's time of day.
func (c *Clock) Wall() time.Time {
	_, wall := c.At(c.machine())
	return wall
}

// At returns Now and Wall as they are when the machine's clock shows an instant,
// which must be the present one.
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

// Shown returns when something that is due at an instant of Now is due by Wall.
// The zero time stays zero.
func (c *Clock) Shown(due time.Time) time.Time {
	if due.IsZero() {
		return due
	}
	return due.Add(-c.Ahead())
}

// ShownCircuit returns a circuit with the times of day at which its times of Now are due or
// were, for people. A circuit that is decided by or stored stays as it is.
func (c *Clock) ShownCircuit(of postrider.Circuit) postrider.Circuit { return of.Shift(-c.Ahead()) }

// Offset returns how far the store's time of day is ahead of this machine's.
func (c *Clock) Offset() time.Duration { return c.Wall().Sub(c.machine().Round(0)) }

// SteppedWithin reports whether Wall was stepped in the last span of time.
func (c *Clock) SteppedWithin(span time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.steps.IsZero() && c.machine().Sub(c.steps) < span
}

// Follow corrects the clock by a reading. It returns by how much the store's time of
// day was stepped; 0: it was not. After a step the caller stores the
// adjustment Ahead less the step under the next version, unless the version has
// changed meanwhile, and reads again: Now stays as it is until then.
//
// A reading that took over a second is ignored. A difference of up to a second is drift, and
// followed slowly. A difference of up to half the time that the reading took is no drift. An
// adjustment that another node made is adopted. If a heartbeat of another node agrees with the
// store and not with this clock, this machine's monotonic clock stood still, and the store's time
// is adopted.
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

// drifted returns by how much a reading contradicts the clock: what is left of the difference
// without the error that the reading may have. Otherwise slow readings would move a clock that
// is right, and Wall back with it.
func drifted(off, mayErr time.Duration) time.Duration {
	if off < 0 {
		return min(off+mayErr, 0)
	}
	return max(off-mayErr, 0)
}

// FollowMachine follows the machine's own time of day, for a store that is this
// process's alone. It returns by how much that was stepped.
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

// adoptLocked sets Now, back too.
func (c *Clock) adoptLocked(asOf, at time.Time) {
	c.asOf, c.at, c.shown = asOf, at, time.Time{}
}

func (c *Clock) atLocked(machine time.Time) time.Time { return c.at.Add(machine.Sub(c.asOf)) }

// stored returns a time as stores keep it.
func stored(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }
