package dispatch

import (
	"context"
	"errors"
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
func (d *Dispatcher) loop(ctx, commit context.Context, send func(*item)) int {
	c := newCore(d.opts, d.endpoints.Lookup)
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
			signal(d.cluster.beatNow)
			in = drain{}
		case <-commit.Done():
			return c.inFlight + c.unsettled
		}
		now := time.Now()
		d.setClock(c, now)
		if in != nil {
			c.step(now, in)
			for range min(len(d.inputs), 256) { // decide once for all inputs that wait
				now = time.Now()
				c.step(now, <-d.inputs)
			}
		}
		do := c.act(now)
		d.carryOut(do, send)
		d.health.note(c, now)
		timer.Reset(untilWake(do.wakeAt, now))
		c.taken()
		if c.drained() && len(d.inputs) == 0 {
			return 0
		}
	}
}

// setClock tells the core how far the store's two clocks are ahead of this
// node's, which shows now.
func (d *Dispatcher) setClock(c *core, now time.Time) {
	due, wall := d.queue.Clock().At(now)
	c.ahead, c.wall = due.Sub(now), wall.Sub(now)
}

// untilWake is at most a second, so that the pressure is felt when it ends.
func untilWake(at, now time.Time) time.Duration {
	if at.IsZero() {
		return time.Second
	}
	return min(max(at.Sub(now), 0), time.Second)
}

// carryOut starts what the core decided. It never waits.
func (d *Dispatcher) carryOut(do *actions, send func(*item)) {
	for _, it := range do.send {
		send(it)
	}
	d.settles.add(do.settle, do.release)
	d.circuits.add(do.circuits)
	d.cluster.add(do.news, do.look)
	d.gone.add(do.disable)
	if do.claim != nil {
		d.claims <- do.claim // one is under way at most, and there is room for it
	}
	d.behind.Store(int64(do.behind))
	d.bulk.Store(int64(do.bulk))
}

// attemptAll makes an attempt, and then those that come while this goroutine
// would have nothing to do: its stack has grown to what they need.
func (d *Dispatcher) attemptAll(ctx context.Context, it *item) {
	for {
		d.attempt(ctx, it)
		select {
		case it = <-d.work:
		case <-d.done:
			return
		}
	}
}

// attempt makes one attempt and brings back what it showed. A panic costs the
// attempt and not the node.
func (d *Dispatcher) attempt(ctx context.Context, it *item) {
	started := time.Now()
	defer func() {
		if p := recover(); p != nil {
			d.opts.Log.ErrorContext(ctx, "attempt panicked", "delivery", it.Claimed, "panic", p, "stack", string(debug.Stack()))
			it.attempt = postrider.Attempt{
				Outcome: postrider.OutcomeBroken, Error: "internal", StartedAt: d.queue.Clock().Wall(), Duration: time.Since(started),
			}
		}
		d.post(attempted{it})
	}()
	it.attempt = d.sender.Send(bounded{ctx, started.Add(it.timeout)}, it.Claimed, *it.to)
}

// bounded is a context that says when an attempt has to be over. It ends only
// when the attempts are cut: a [Sender] has timers of its own.
type bounded struct {
	context.Context //nolint:containedctx // it is one

	at time.Time
}

// Deadline returns when the attempt has to be over.
func (b bounded) Deadline() (time.Time, bool) { return b.at, true }

// callTimeout bounds a call of the store; it is less than the lease margin, so
// that a call that hangs is noticed before its leases end.
const callTimeout = 10 * time.Second

var errCallTimeout = fmt.Errorf("the store has not answered for %v", callTimeout)

// claimWhenAsked makes the claims that the core asks for, one at a time.
func (d *Dispatcher) claimWhenAsked(ctx context.Context) {
	// A claim under way when ctx ends is finished, so that its leases are known.
	work := context.WithoutCancel(ctx)
	claim := func(c *store.Claim) (store.Claims, error) {
		bounded, cancel := context.WithTimeoutCause(work, callTimeout, errCallTimeout)
		defer cancel()
		return d.queue.Claim(bounded, *c)
	}
	for {
		select {
		case c := <-d.claims:
			asked := time.Now()
			got, err := claim(c)
			if err != nil {
				d.opts.Log.WarnContext(ctx, "deliveries not claimed", "error", err)
				d.health.failed(err)
			}
			d.post(claimed{c, got, err, asked})
		case <-d.done:
			return
		}
	}
}

// scan looks at the whole queue now and then: what no input named is found
// here, after a start above all, and what other nodes published by polling.
func (d *Dispatcher) scan(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	poll := time.NewTicker(d.opts.Cluster.Poll)
	defer poll.Stop()
	if d.opts.Cluster.Nodes == nil {
		known, err := d.loadCircuits(ctx, nil)
		if err != nil {
			d.opts.Log.WarnContext(ctx, "circuits not loaded", "error", err)
		}
		d.post(circuits{known})
	}
	for {
		wait := d.opts.Scan
		var err error
		select {
		case <-timer.C:
			err = d.scanOnce(ctx, store.Due{})
		case <-d.cluster.gained:
			err = d.scanOnce(ctx, store.Due{})
		case <-poll.C:
			if err = d.pollOnce(ctx); err == nil {
				continue
			}
		case <-d.cluster.woken:
			if err = d.pollOnce(ctx); err == nil {
				continue
			}
		case <-ctx.Done():
			return
		}
		if err != nil && ctx.Err() == nil {
			d.opts.Log.WarnContext(ctx, "queue not scanned", "error", err)
			d.health.failed(err)
			wait = min(wait, 5*time.Second)
		}
		timer.Reset(wait)
	}
}

// pollOnce looks at what is new in the queue, while there are other nodes.
func (d *Dispatcher) pollOnce(ctx context.Context) error {
	if !d.cluster.others.Load() {
		return nil
	}
	// Commits are seen a little out of the order of their ids.
	const late = 10 * time.Second
	clock := d.queue.Clock()
	if clock.SteppedWithin(d.opts.Cluster.Poll + late) {
		return d.scanOnce(ctx, store.Due{}) // ids of before the step may be older than those of now
	}
	since := clock.Wall().Add(-d.opts.Cluster.Poll - late)
	return d.scanOnce(ctx, store.Due{NewerThan: postrider.MakeID[postrider.DeliveryID](since, [10]byte{})})
}

func (d *Dispatcher) scanOnce(ctx context.Context, q store.Due) error {
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, errCallTimeout)
	defer cancel()
	q.Max = 1000 // endpoints a page
	for {
		lanes, err := d.queue.Due(ctx, q)
		if err != nil {
			return fmt.Errorf("scan queue: %w", err)
		}
		if len(lanes) == 0 {
			return nil
		}
		d.post(due{lanes, !q.NewerThan.IsZero()})
		q.After = lanes[len(lanes)-1].Endpoint
	}
}

// settleQueue gathers what is to be committed while a commit is under way.
type settleQueue struct {
	signal chan struct{}

	mu      sync.Mutex
	pending settleGroup
	usual   int // how many settlements the last group had
	closed  bool
}

// settleGroup is what one round of commits is about.
type settleGroup struct {
	settle  []store.Settlement
	release []release
}

func (q *settleQueue) add(settle []store.Settlement, release []release) {
	if len(settle)+len(release) == 0 {
		return
	}
	q.mu.Lock()
	if q.pending.settle == nil {
		q.pending.settle = make([]store.Settlement, 0, max(len(settle), q.usual))
	}
	q.pending.settle = append(q.pending.settle, settle...)
	q.pending.release = append(q.pending.release, release...)
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

// wait returns when there is something to commit; false: there will be no more.
func (q *settleQueue) wait(ctx context.Context) bool {
	for {
		n, closed := q.size()
		switch {
		case n > 0:
			return true
		case closed:
			return false
		}
		select {
		case <-q.signal:
		case <-ctx.Done():
			return false
		}
	}
}

func (q *settleQueue) size() (n int, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.pending.settle) + len(q.pending.release), q.closed
}

func (q *settleQueue) take() settleGroup {
	q.mu.Lock()
	defer q.mu.Unlock()
	group := q.pending
	q.pending = settleGroup{}
	q.usual = len(group.settle)
	return group
}

// settleWhatComes commits in groups: what is at hand goes at once, and what
// comes meanwhile, and while that commit rested, is the next group.
func (d *Dispatcher) settleWhatComes(ctx context.Context) {
	const most = 500
	var rested time.Time // when the last commit has
	for d.settles.wait(ctx) {
		if n, _ := d.settles.size(); n < most/2 {
			select {
			case <-time.After(time.Until(rested)):
			case <-d.done:
			}
		}
		begun := time.Now()
		group := d.settles.take()
		for len(group.settle) > 0 {
			n := min(len(group.settle), most)
			d.settleGroup(ctx, group.settle[:n])
			group.settle = group.settle[n:]
		}
		if len(group.release) > 0 {
			leases := make([]store.Lease, 0, len(group.release))
			for _, r := range group.release {
				leases = append(leases, r.Lease)
			}
			err := d.insist(ctx, func(ctx context.Context) error { return d.queue.Release(ctx, leases) })
			if err != nil { // the leases will end
				d.opts.Log.ErrorContext(ctx, "leases not released", "leases", len(leases), "error", err)
			}
			d.post(released{group.release})
		}
		rested = time.Now().Add(rest(time.Since(begun)))
	}
}

// rest returns how long a claim or a group of settlements that follows another
// waits for company, given how long that one took: they cost the store much the
// same whatever their size, so a store that is busy gets fewer and larger ones.
func rest(took time.Duration) time.Duration { return min(3*took, mostRest) }

const mostRest = 25 * time.Millisecond

// settleGroup commits a group. Where one of it is more than the store can take,
// the others must not pay: the group is cut until that one is alone, and its
// lease ends.
func (d *Dispatcher) settleGroup(ctx context.Context, group []store.Settlement) {
	var results []store.Settled
	err := d.insist(ctx, func(ctx context.Context) (err error) {
		results, err = d.queue.Settle(ctx, group)
		return err
	})
	switch {
	case err == nil:
		for i, s := range group {
			d.logAttempt(ctx, s, results[i])
		}
		d.post(settled{group, results})
	case ctx.Err() != nil:
	case len(group) > 1:
		d.settleGroup(ctx, group[:len(group)/2])
		d.settleGroup(ctx, group[len(group)/2:])
	default:
		d.opts.Log.ErrorContext(ctx, "attempt not settled", "delivery", group[0].Claimed, "error", err)
		d.post(settled{group, []store.Settled{{Stale: true}}})
	}
}

// insist does something, in time, until the store is not too busy for it: what
// is to be settled must not be forgotten because a database was away.
func (d *Dispatcher) insist(ctx context.Context, do func(context.Context) error) error {
	wait := 100 * time.Millisecond
	for {
		bounded, cancel := context.WithTimeoutCause(ctx, callTimeout, errCallTimeout)
		err := do(bounded)
		late := bounded.Err() != nil
		cancel()
		if err == nil || !late && !errors.Is(err, postrider.ErrBusy) {
			return err
		}
		d.opts.Log.WarnContext(ctx, "outcomes not committed, trying again", "error", err)
		d.health.failed(err)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return err
		}
		wait = min(2*wait, 5*time.Second)
	}
}

// line gathers what is to be done one after the other.
type line[T any] struct {
	signal chan struct{}

	mu      sync.Mutex
	pending []T
}

func newLine[T any]() *line[T] { return &line[T]{signal: make(chan struct{}, 1)} }

func (q *line[T]) add(more []T) {
	if len(more) == 0 {
		return
	}
	q.mu.Lock()
	q.pending = append(q.pending, more...)
	q.mu.Unlock()
	signal(q.signal)
}

// each does what comes, until done is closed and nothing is left.
func (q *line[T]) each(done <-chan struct{}, do func(T)) {
	for ended := false; !ended; {
		select {
		case <-q.signal:
		case <-done:
			ended = true
		}
		q.mu.Lock()
		pending := q.pending
		q.pending = nil
		q.mu.Unlock()
		for _, one := range pending {
			do(one)
		}
	}
}

// storeCircuit stores a circuit that changed.
func (d *Dispatcher) storeCircuit(ctx context.Context, change circuitChange) {
	is, circuit := postrider.Circuit{}, change.Circuit
	err := d.insist(ctx, func(ctx context.Context) (err error) {
		is, err = d.queue.PutCircuit(ctx, store.PutCircuit{Circuit: circuit})
		return err
	})
	switch {
	case err == nil && change.news:
		d.logCircuit(ctx, is)
	case err == nil:
	case !errors.Is(err, postrider.ErrConflict) && !errors.Is(err, postrider.ErrNotFound):
		d.opts.Log.ErrorContext(ctx, "circuit not stored", "endpoint", circuit.Endpoint.String(), "error", err)
	}
	if is.Endpoint.IsZero() {
		is = circuit
	}
	d.post(circuitStored{is, err})
}

// logCircuit says what an operator wants to know of a circuit that changed.
func (d *Dispatcher) logCircuit(ctx context.Context, c postrider.Circuit) {
	level := slog.LevelInfo
	if c.Status == postrider.CircuitOpen {
		level = slog.LevelWarn
	}
	d.opts.Log.LogAttrs(ctx, level, "circuit changed",
		slog.String("endpoint", c.Endpoint.String()),
		slog.String("status", string(c.Status)),
		slog.String("reason", c.Reason),
		slog.Int64("cooldown_ms", c.Cooldown.Milliseconds()))
}

// disable disables an endpoint that answered 410.
func (d *Dispatcher) disable(ctx context.Context, id postrider.EndpointID) {
	err := d.insist(ctx, func(ctx context.Context) error { return d.endpoints.Disable(ctx, id, postrider.ReasonGone) })
	if err != nil {
		d.opts.Log.ErrorContext(ctx, "endpoint not disabled", "endpoint", id.String(), "error", err)
		d.post(notDisabled{id}) // it will say so again
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
		slog.Any("delivery", s.Claimed),
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
	idle := c.claimable.len()+c.lines[healthy].len()+c.unsettled == 0 && !c.claiming
	if idle || len(c.do.send) > 0 || c.moved {
		h.progressed(now)
	}
	c.moved = false
}

func (h *health) check(now time.Time) error {
	const patience = 45 * time.Second // longer than any attempt
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
