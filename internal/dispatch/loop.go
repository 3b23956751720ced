package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/routing"
	"github.com/postrider/postrider/internal/schedule"
	"github.com/postrider/postrider/internal/store"
)

// Besides what a core takes as input, the loop takes questions, each with a
// channel of one place for the response, and changes of endpoints, whose settings
// it looks up.
type (
	admissionAsked struct {
		ask      []schedule.Admission
		response chan<- schedule.Grant
	}
	surplusAsked    struct{ response chan<- []uint8 }
	endpointChanged struct{ routing.Change }
)

// loop owns the core: it applies inputs, asks for actions and carries them out,
// until it has drained after ctx ended or commits are given up. It returns how
// many attempts it left to their leases.
func (d *Dispatcher) loop(ctx, commit context.Context, start func(*schedule.Delivery)) int {
	c := schedule.New(d.opts.core())
	timer := time.NewTimer(0)
	defer timer.Stop()
	end := ctx.Done()
	for {
		var in any
		select {
		case in = <-d.inputs:
		case <-timer.C:
		case <-end:
			end = nil
			d.ending.Store(true)
			d.cluster.heartbeatNow.Set()
			in = schedule.Drain{}
		case <-commit.Done():
			return c.Unfinished()
		}
		now := time.Now()
		d.setClock(c, now)
		if in != nil {
			d.apply(c, now, in)
			for range min(len(d.inputs), 256) { // decide once for all inputs that wait
				now = time.Now()
				d.apply(c, now, <-d.inputs)
			}
		}
		do := c.Decide(now)
		d.carryOut(do, start)
		if do.Progress {
			d.progress.made(now)
		}
		timer.Reset(untilWake(do.WakeAt, now))
		if c.Drained() && len(d.inputs) == 0 {
			return 0
		}
	}
}

// setClock tells the core how far the store's two clocks are ahead of this
// node's, which shows now.
func (d *Dispatcher) setClock(c *schedule.Core, now time.Time) {
	due, wall := d.queue.Clock().At(now)
	c.SetClock(due.Sub(now), wall.Sub(now))
}

// apply applies one input. Endpoints that it names and the core does not know are
// looked up here, in the loop. That misses no change: the routing table has a change
// before it reports it, so either this look-up finds the change, or its report is
// applied after this input and finds the endpoint in the core.
func (d *Dispatcher) apply(c *schedule.Core, now time.Time, in any) {
	switch in := in.(type) {
	case admissionAsked:
		for _, a := range in.ask {
			d.introduce(c, a.Endpoint)
		}
		in.response <- c.Admit(now, in.ask)
	case surplusAsked:
		in.response <- c.SurplusShards()
	case endpointChanged:
		settings, _ := d.endpoints.Lookup(in.Endpoint)
		c.Apply(now, schedule.EndpointChanged{Endpoint: in.Endpoint, Settings: settings, Due: in.Due})
	case schedule.Due:
		d.introduceLanes(c, in.Lanes)
		c.Apply(now, in)
	case schedule.Committed:
		d.introduceLanes(c, in.Waiting)
		c.Apply(now, in)
	case schedule.Input:
		c.Apply(now, in)
	}
}

func (d *Dispatcher) introduceLanes(c *schedule.Core, lanes []store.DueLane) {
	for _, l := range lanes {
		d.introduce(c, l.Endpoint)
	}
}

func (d *Dispatcher) introduce(c *schedule.Core, id postrider.EndpointID) {
	if c.Needs(id) {
		settings, _ := d.endpoints.Lookup(id)
		c.Introduce(id, settings)
	}
}

// untilWake is at most a second, so that the end of back-pressure is noticed.
func untilWake(at, now time.Time) time.Duration {
	if at.IsZero() {
		return time.Second
	}
	return min(max(at.Sub(now), 0), time.Second)
}

// carryOut hands the actions to the goroutines that carry them out. It never
// waits: a queue takes any number of items, an attempt that finds no idle goroutine
// starts one, and claims has a place for the one claim that can be under way. If
// the loop waited for a goroutine that posts an input, both would wait forever.
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
		d.claims <- do.Claim // one is under way at most, and the channel has a place for it
	}
	d.lag.Store(int64(do.Lag))
	d.bulk.Store(int64(do.BulkWaiting))
}

// post hands an input to the loop and reports whether it could. It waits while the
// loop has more inputs than its channel holds, and not once the loop has ended.
func (d *Dispatcher) post(input any) bool {
	if !d.running.Load() {
		return false
	}
	select {
	case d.inputs <- input:
		return true
	case <-d.done:
		return false
	}
}

// callTimeout bounds a call of the store. It is less than the lease margin, so
// that a call that hangs is noticed before its leases end.
const callTimeout = 10 * time.Second

var errCallTimeout = fmt.Errorf("the store has not answered for %v", callTimeout)

// retryWhileBusy makes a call of the store, each time with callTimeout, until the
// store is not too busy for it: what is to be committed must not be lost because a
// database was away.
func (d *Dispatcher) retryWhileBusy(ctx context.Context, call func(context.Context) error) error {
	wait := 100 * time.Millisecond
	for {
		limited, cancel := context.WithTimeoutCause(ctx, callTimeout, errCallTimeout)
		err := call(limited)
		late := limited.Err() != nil
		cancel()
		if err == nil || !late && !errors.Is(err, postrider.ErrBusy) {
			return err
		}
		d.opts.Log.WarnContext(ctx, "outcomes not committed, trying again", "error", err)
		d.progress.failed(err)
		if !batch.Sleep(ctx, wait) {
			return err
		}
		wait = min(2*wait, 5*time.Second)
	}
}
