package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/routing"
	"github.com/postrider/postrider/internal/schedule"
	"github.com/postrider/postrider/internal/store"
)

// input is one input of the loop. Exactly one of the two fields is set. So the compiler knows every
// type of input and who applies it. input is a struct and not a third interface, because putting a
// value into an interface allocates memory.
type input struct {
	core schedule.Input // input of the core
	own  ownInput       // input that needs more than the core
}

// ownInput is an input that the loop applies itself. A question has a channel with room for the
// response, so the loop never waits for the goroutine that asks.
type ownInput interface {
	apply(l *loop, now time.Time)
}

type (
	admissionAsked struct {
		ask      []schedule.Admission
		response chan<- schedule.Grant
		until    time.Time // the response comes at this time at the latest; set by apply
	}
	surplusAsked struct{ response chan<- []uint8 }
	paceAsked    struct {
		endpoint postrider.EndpointID
		response chan<- paceKnown
	}
	endpointChanged struct{ routing.Change }
	loopAsked       struct{ response chan<- struct{} }
	holdsAsked      struct {
		lanes    []store.DueLane
		circuits bool // true: also return the open circuits
		response chan<- holds
	}
)

func (in admissionAsked) apply(l *loop, now time.Time) {
	in.until = now.Add(admitWithin)
	l.admissions = append(l.admissions, in)
}

func (in surplusAsked) apply(l *loop, _ time.Time) { in.response <- l.core.SurplusShards() }

// paceKnown is the answer to paceAsked.
type paceKnown struct {
	pace  postrider.Pace
	known bool
}

func (in paceAsked) apply(l *loop, now time.Time) {
	l.introduce(in.endpoint)
	pace, known := l.core.Pace(now, in.endpoint)
	in.response <- paceKnown{pace, known}
}

func (in loopAsked) apply(*loop, time.Time) { in.response <- struct{}{} }

// holds is the answer to holdsAsked.
type holds struct {
	by   []postrider.HeldBy // for each lane; empty: another node owns the endpoint, or it is deleted
	open []time.Time        // for each open circuit, when it opened; see [schedule.Core.OpenCircuits]
}

func (in holdsAsked) apply(l *loop, now time.Time) {
	h := holds{by: make([]postrider.HeldBy, len(in.lanes))}
	if in.circuits {
		h.open = l.core.OpenCircuits(now)
	}
	for i, lane := range in.lanes {
		l.introduce(lane.Endpoint)
		h.by[i], _ = l.core.HeldBy(now, lane.Endpoint)
	}
	in.response <- h
}

func (in endpointChanged) apply(l *loop, now time.Time) {
	settings, _ := l.endpoints.Lookup(in.Endpoint)
	l.core.Apply(now, schedule.EndpointChanged{Endpoint: in.Endpoint, Settings: settings, Due: in.Due})
}

// loop is the core, together with the things that a pure core must not read: the settings of
// endpoints and the clocks. It belongs to the goroutine of [Dispatcher.runLoop].
type loop struct {
	core      *schedule.Core
	endpoints Endpoints
	clock     *store.Clock
	held      bool // the hold that the core was told last

	admissions []admissionAsked // questions without a response, oldest first
}

// admitWithin limits how long an admission waits for room. A delivery that is not admitted must be
// claimed, which costs the store twice as much. So a saturated node slows its publishers down a
// little, instead of storing deliveries that it must claim.
const admitWithin = 4 * schedule.MaxBatchDelay

// admit responds to the admissions for which the node has room, and to those that have waited for
// admitWithin. A small one may pass a large one. It returns when the next one has waited for that
// long; zero: none waits.
func (l *loop) admit(now time.Time) (at time.Time) {
	l.admissions = slices.DeleteFunc(l.admissions, func(in admissionAsked) bool {
		if now.Before(in.until) && !l.core.HasRoom(now, len(in.ask)) {
			if at.IsZero() {
				at = in.until
			}
			return false
		}
		for _, a := range in.ask { // not before, because a Decide in between may forget them
			l.introduce(a.Endpoint)
		}
		in.response <- l.core.Admit(now, in.ask)
		return true
	})
	return at
}

// runLoop applies inputs, asks the core for actions and passes them on. It ends when the core has
// drained after ctx ended, or when commit ends. It returns how many attempts it left to their
// leases.
func (d *Dispatcher) runLoop(ctx, commit context.Context, start func(*schedule.Delivery)) int {
	l := &loop{core: schedule.New(d.opts.core()), endpoints: d.endpoints, clock: d.queue.Clock()}
	timer := time.NewTimer(0)
	defer timer.Stop()
	end := ctx.Done()
	for {
		var in input
		select {
		case in = <-d.inputs:
		case <-timer.C:
		case <-end:
			end = nil
			d.ending.Store(true)
			d.cluster.heartbeatNow.Set()
			in.core = schedule.Drain{}
		case <-commit.Done():
			return l.core.Unfinished()
		}
		now := time.Now()
		l.setClock(now)
		l.noteHold(now)
		if in != (input{}) {
			l.apply(now, in)
			for range min(len(d.inputs), 256) { // decide once for all waiting inputs
				now = time.Now()
				l.apply(now, <-d.inputs)
			}
		}
		do := l.core.Decide(now)
		d.carryOut(do, start)
		admitAt := l.admit(now)
		if do.Progress {
			d.progress.made(now)
		}
		timer.Reset(min(untilWake(do.WakeAt, now), untilWake(admitAt, now)))
		if l.core.Drained() && len(d.inputs) == 0 {
			return 0
		}
	}
}

// setClock tells the core how far the store's two clocks are ahead of this node's clock, whose time
// is now.
func (l *loop) setClock(now time.Time) {
	due, wall := l.clock.At(now)
	l.core.SetClock(due.Sub(now), wall.Sub(now))
}

// noteHold tells the core when the store is held or resumed. It is called before each input,
// because an admission that was matched after a hold must also be decided after it. Without inputs
// the loop wakes once a second.
func (l *loop) noteHold(now time.Time) {
	if held := l.endpoints.Held(); held != l.held {
		l.held = held
		l.core.Apply(now, schedule.HoldChanged{Held: held})
	}
}

// apply applies one input. If the input names endpoints that the core does not know, the loop looks
// them up here. That misses no change, because the routing table has a change before it reports it.
// Either this look-up finds the change, or its report is applied after this input and finds the
// endpoint in the core.
func (l *loop) apply(now time.Time, in input) {
	l.noteHold(now)
	if in.own != nil {
		in.own.apply(l, now)
		return
	}
	switch in := in.core.(type) {
	case schedule.LanesDue:
		l.introduceAll(in.Lanes)
	case schedule.DeliveriesCommitted:
		l.introduceAll(in.Waiting)
	case schedule.SessionEnded:
		for _, lease := range in.Leases {
			l.introduce(lease.Endpoint)
		}
	}
	l.core.Apply(now, in.core)
}

func (l *loop) introduceAll(lanes []store.DueLane) {
	for _, lane := range lanes {
		l.introduce(lane.Endpoint)
	}
}

func (l *loop) introduce(id postrider.EndpointID) {
	if l.core.Needs(id) {
		settings, _ := l.endpoints.Lookup(id)
		l.core.Introduce(id, settings)
	}
}

// untilWake returns how long the loop sleeps if no input comes. It is at most a second, so that the
// core measures its lag again and back-pressure ends on a node without inputs.
func untilWake(at, now time.Time) time.Duration {
	if at.IsZero() {
		return time.Second
	}
	return min(max(at.Sub(now), 0), time.Second)
}

// carryOut passes the actions to the goroutines that carry them out. It never waits: a queue
// accepts any number of items, start makes a new goroutine if none is idle, and the channel claims
// has room for the only claim under way. If the loop waited for a goroutine that posts an input,
// both would wait forever.
func (d *Dispatcher) carryOut(do schedule.Actions, start func(*schedule.Delivery)) {
	for _, delivery := range do.Send {
		start(delivery)
	}
	d.settlements.Add(do.Settle...)
	d.releases.Add(do.Release...)
	d.circuits.Add(do.Circuits...)
	d.cluster.wakeUps.add(do.Notify, do.LookAt)
	d.gone.Add(do.Disable...)
	if do.Claim != nil {
		d.claims <- do.Claim
	}
	d.lag.Store(int64(do.Lag))
	d.bulk.Store(int64(do.BulkWaiting))
}

// post gives the loop an input of the core. It waits while the loop's channel of inputs is full,
// and drops the input if the loop is not running.
func (d *Dispatcher) post(in schedule.Input) { d.send(input{core: in}) }

// postOwn does what post does, for an input of the loop itself. It reports whether the loop got the
// input.
func (d *Dispatcher) postOwn(in ownInput) bool { return d.send(input{own: in}) }

func (d *Dispatcher) send(in input) bool {
	if !d.running.Load() {
		return false
	}
	select {
	case d.inputs <- in:
		return true
	case <-d.done:
		return false
	}
}

// callTimeout limits a call of the store. It is less than the lease margin of 15 s, so a call that
// hangs is given up before the leases that it is about end.
const callTimeout = 10 * time.Second

var errCallTimeout = fmt.Errorf("the store has not responded for %v", callTimeout)

// callWith makes one call of the store with callTimeout. To read a list, it is called once for each
// page. With one time-out for all pages, a scan of a long queue would never reach its last page.
func callWith[Q, R any](ctx context.Context, call func(context.Context, Q) (R, error), q Q) (R, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, errCallTimeout)
	defer cancel()
	return call(ctx, q)
}

// retryWhileBusy repeats the named call of the store, each time with callTimeout. It stops when the
// call succeeds, fails for another reason than a busy or unreachable store, or ctx ends. A result
// that must be committed must not be lost because the database was away, because its request would
// be sent again. The wait between two calls is 0.1 s at first, and grows to 5 s.
func (d *Dispatcher) retryWhileBusy(ctx context.Context, name string, call func(context.Context) error) error {
	wait := 100 * time.Millisecond
	for {
		limited, cancel := context.WithTimeoutCause(ctx, callTimeout, errCallTimeout)
		err := call(limited)
		late := limited.Err() != nil
		cancel()
		if err == nil || !late && !errors.Is(err, postrider.ErrBusy) {
			return err
		}
		d.opts.Log.WarnContext(ctx, "call of the store failed, trying again", "call", name, "error", err)
		d.progress.failed(err)
		if !batch.Sleep(ctx, wait) {
			return err
		}
		wait = min(2*wait, 5*time.Second)
	}
}
