package store_test

import (
	"testing"
	"time"

	"github.com/postrider/postrider/internal/store"
)

// clockRig is a node's clock, and a machine and a database whose clocks the test sets.
type clockRig struct {
	*testing.T

	machine  time.Time     // stands for the monotonic clock
	database time.Duration // the database's clock minus the machine's
	ahead    time.Duration // the stored adjustment
	version  int64
	clock    *store.Clock
	start    time.Time // the clock's Now when the test began
	began    time.Time // the machine's time when the test began
}

func newClockRig(t *testing.T) *clockRig {
	t.Helper()
	r := &clockRig{T: t, machine: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), database: 4 * time.Minute, version: 1}
	r.clock = store.NewClock(func() time.Time { return r.machine })
	r.follow(0)
	r.start, r.began = r.clock.Now(), r.machine
	return r
}

func (r *clockRig) reading(took time.Duration) store.Reading {
	asked := r.machine
	r.machine = r.machine.Add(took)
	return store.Reading{
		Asked: asked, Answered: r.machine, Wall: asked.Add(took/2 + r.database), Ahead: r.ahead, Version: r.version,
	}
}

// follow takes readings as a store does, and stores an adjustment after each step. It returns the
// steps.
func (r *clockRig) follow(took time.Duration) (steps []time.Duration) {
	r.Helper()
	for {
		step := r.clock.Follow(r.reading(took))
		if step == 0 {
			return steps
		}
		r.ahead, r.version = r.ahead-step, r.version+1
		if steps = append(steps, step); len(steps) > 1 {
			r.Fatalf("the clock is stepped again and again: %v", steps)
		}
	}
}

// wants fails the test unless Now has moved on as the machine's clock did, plus off, and Wall is
// the database's time.
func (r *clockRig) wants(off time.Duration) {
	r.Helper()
	if got, want := r.clock.Now(), r.start.Add(r.machine.Sub(r.began)+off); !got.Equal(want) {
		r.Errorf("Now = %v, want %v: it is off by %v", got, want, got.Sub(want))
	}
	if got, want := r.clock.Wall(), r.machine.Add(r.database); got.Sub(want).Abs() > time.Millisecond {
		r.Errorf("Wall = %v, want %v", got, want)
	}
	if got := r.clock.Offset(); (got - r.database).Abs() > time.Millisecond {
		r.Errorf("Offset = %v, want %v", got, r.database)
	}
}

func TestClockGoesOnWhenTheDatabaseIsStepped(t *testing.T) {
	t.Parallel()
	for _, by := range []time.Duration{
		10 * time.Minute, -10 * time.Minute, 24 * time.Hour, -24 * time.Hour, 1001 * time.Millisecond, -1500 * time.Millisecond,
	} {
		r := newClockRig(t)
		r.machine = r.machine.Add(time.Second)
		r.database += by
		if before := r.clock.Now(); !before.Equal(r.start.Add(time.Second)) {
			t.Errorf("by %v: Now = %v before it was noticed, want %v", by, before, r.start.Add(time.Second))
		}
		if steps := r.follow(0); len(steps) != 1 || steps[0] != by {
			t.Errorf("the steps were %v, want %v", steps, by)
		}
		r.wants(0)
		if due := r.clock.Now().Add(time.Hour); !r.clock.Shown(due).Equal(r.clock.Wall().Add(time.Hour)) {
			t.Errorf("what is due in an hour is shown as %v at %v", r.clock.Shown(due), r.clock.Wall())
		}
		r.machine = r.machine.Add(time.Hour)
		r.database -= by // the database's clock is set right
		r.follow(0)
		r.wants(0)
		if r.ahead != 0 || !r.clock.SteppedWithin(time.Second) {
			t.Errorf("the adjustment is %v after the clock was set right, want 0", r.ahead)
		}
	}
}

func TestClockOfAnotherNodeAdoptsTheAdjustment(t *testing.T) {
	t.Parallel()
	r := newClockRig(t)
	other := store.NewClock(func() time.Time { return r.machine })
	other.Follow(r.reading(0))
	r.database += 10 * time.Minute
	stale := r.reading(0)
	if step := other.Follow(stale); step != 10*time.Minute {
		t.Errorf("the other node sees a step of %v, want 10m0s", step)
	}
	r.follow(0) // the other node reads second
	if step := other.Follow(r.reading(0)); step != 0 {
		t.Errorf("the other node sees a step of %v after the adjustment", step)
	}
	if !other.Now().Equal(r.clock.Now()) || !other.Wall().Equal(r.clock.Wall()) {
		t.Errorf("the nodes' clocks show %v and %v, %v and %v", other.Now(), r.clock.Now(), other.Wall(), r.clock.Wall())
	}
	young := store.NewClock(func() time.Time { return r.machine })
	young.Follow(r.reading(0))
	if !young.Now().Equal(r.clock.Now()) {
		t.Errorf("a node that joins has the time %v, want %v", young.Now(), r.clock.Now())
	}
}

func TestClockThatStoodStillAdoptsTheOthersTime(t *testing.T) {
	t.Parallel()
	r := newClockRig(t)
	r.database += time.Hour // what a machine that was suspended sees
	reading := r.reading(0)
	reading.Witness = reading.Wall.Add(-time.Second)
	if step := r.clock.Follow(reading); step != 0 {
		t.Errorf("a step of %v, though another node agrees with the database", step)
	}
	r.wants(time.Hour)

	r = newClockRig(t)
	r.database += time.Hour
	reading = r.reading(0)
	reading.Witness = reading.Wall.Add(-time.Hour - time.Second) // the other node does not know of the step either
	if step := r.clock.Follow(reading); step != time.Hour {
		t.Errorf("a step of %v, want 1h0m0s", step)
	}
}

func TestClockFollowsDriftSlowlyAndNeverBack(t *testing.T) {
	t.Parallel()
	r := newClockRig(t)
	r.database -= 400 * time.Millisecond
	last := r.clock.Now()
	for range 60 {
		r.machine = r.machine.Add(time.Second)
		if steps := r.follow(2 * time.Millisecond); steps != nil {
			t.Fatalf("a drift is taken for the steps %v", steps)
		}
		now := r.clock.Now()
		if moved := now.Sub(last); moved < 950*time.Millisecond || moved > 1100*time.Millisecond {
			t.Errorf("Now moved by %v in a second", moved)
		}
		last = now
	}
	if off := r.clock.Wall().Sub(r.machine.Add(r.database)); off.Abs() > 1100*time.Microsecond { // half of a reading, and its correction
		t.Errorf("Wall is off by %v after a minute", off)
	}
}

// TestASlowReadingDoesNotMoveAClockThatIsRight has a database that reads its clock at once, and
// answers 200 ms later.
func TestASlowReadingDoesNotMoveAClockThatIsRight(t *testing.T) {
	t.Parallel()
	r := newClockRig(t)
	for range 10 {
		reading := r.reading(200 * time.Millisecond)
		reading.Wall = reading.Asked.Add(r.database)
		if step := r.clock.Follow(reading); step != 0 {
			t.Fatalf("a step of %v", step)
		}
		r.wants(0)
	}
}

func TestClockIgnoresAnAnswerThatTookLong(t *testing.T) {
	t.Parallel()
	r := newClockRig(t)
	r.database += 10 * time.Minute
	if steps := r.follow(1100 * time.Millisecond); steps != nil {
		t.Errorf("the steps %v are read from an answer that took 1.1 s", steps)
	}
	if got, want := r.clock.Now(), r.start.Add(r.machine.Sub(r.began)); !got.Equal(want) {
		t.Errorf("Now = %v, want %v", got, want)
	}
}

func TestClockOfAMachineAloneGoesOnWhenItIsStepped(t *testing.T) {
	t.Parallel()
	machine := time.Now() // with a monotonic reading
	clock := store.NewClock(func() time.Time { return machine })
	clock.FollowMachine()
	start := clock.Now()
	machine = machine.Add(time.Minute)
	if step := clock.FollowMachine(); step != 0 || !clock.Now().Equal(start.Add(time.Minute)) {
		t.Errorf("a step of %v, and Now went on by %v in a minute", step, clock.Now().Sub(start))
	}
}
