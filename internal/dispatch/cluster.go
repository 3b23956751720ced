package dispatch

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// cluster is what the rim knows of the other nodes.
type cluster struct {
	instance [16]byte
	lock     nodeLock
	others   atomic.Bool              // there are some
	dead     chan []uint32            // to be reclaimed
	owned    atomic.Pointer[shardSet] // as of the last beat
	beatNow  chan struct{}            // the roster has changed
	gained   chan struct{}            // this node has new shards
	woken    chan struct{}            // another node published more for this one than it named, or messages were missed
	say      chan struct{}            // there is something to say

	mu   sync.Mutex
	news map[store.DueLane]struct{} // whose nodes are to hear of it
	look []postrider.EndpointID

	deadBefore []uint32 // at the last beat; of belong alone
}

func newCluster() *cluster {
	signal := func() chan struct{} { return make(chan struct{}, 1) }
	c := &cluster{
		beatNow: signal(), gained: signal(), woken: signal(), say: signal(), dead: make(chan []uint32, 1),
		news: map[store.DueLane]struct{}{},
	}
	c.lock.tried, c.lock.since = make(chan struct{}), time.Now()
	_, _ = rand.Read(c.instance[:]) // never fails
	return c
}

// nodeLock is whether this node has its lock.
type nodeLock struct {
	tried chan struct{} // closed when the lock was taken, or could not be, for the first time

	mu     sync.Mutex
	once   bool      // tried is closed
	held   bool      // the lock is held
	since  time.Time // when that changed, or the node started
	losses int       // how often it was lost
}

// set notes that the lock is held, or is not.
func (l *nodeLock) set(held bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.once {
		l.once = true
		close(l.tried)
	}
	if l.held == held {
		return
	}
	l.held, l.since = held, time.Now()
	if !held {
		l.losses++
	}
}

// state returns how often the lock was lost, and since when it has not been
// held; zero: it is.
func (l *nodeLock) state() (losses int, without time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.held {
		without = l.since
	}
	return l.losses, without
}

// The messages between nodes: the sender's incarnation, a verb, and what it is
// about. They are hints, so what cannot be read is ignored.
const (
	verbRoster = "roster" // somebody joined, left or freed shards
	verbNew    = "new"    // lanes, as endpoint/lane: something was published for them
	verbPoll   = "poll"   // something was published for more lanes than can be named
	verbLook   = "look"   // endpoints: something of them is due that is not new
)

// join makes this node known before it starts anything; with its lock, so that
// its death is seen from then on.
func (d *Dispatcher) join(ctx context.Context) error {
	if d.opts.Cluster.Nodes == nil {
		return nil
	}
	patience := time.NewTimer(d.opts.Cluster.TTL)
	defer patience.Stop()
	select {
	case <-d.cluster.lock.tried:
	case <-patience.C:
	case <-ctx.Done():
	}
	_, err := d.sayAlive(ctx, store.Beat{})
	if errors.Is(err, postrider.ErrConflict) {
		return fmt.Errorf("join: incarnation %d is another node's: %w", d.opts.Cluster.Incarnation, err)
	}
	return nil // a store that is away is waited for
}

func (d *Dispatcher) sayAlive(ctx context.Context, b store.Beat) (store.Roster, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, d.opts.Cluster.TTL, errCallTimeout)
	defer cancel()
	b.Incarnation, b.Instance, b.TTL = d.opts.Cluster.Incarnation, d.cluster.instance, d.opts.Cluster.TTL
	return d.opts.Cluster.Nodes.Beat(ctx, b)
}

// belong sends heartbeats, takes the shards that it is given, gives up those that
// it is to, and has dead nodes reclaimed; until the loop has ended. Then it
// leaves, so that nobody waits for it.
func (d *Dispatcher) belong(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	steady := time.Now() // since when every beat came in time
	last := steady
	for {
		select {
		case <-timer.C:
		case <-d.cluster.beatNow:
		case <-d.done:
			d.leave(ctx)
			return
		}
		again := d.opts.Cluster.Beat
		if d.ending.Load() {
			again /= 10 // each shard goes as soon as it can
		}
		asked := time.Now()
		if asked.Sub(last) > d.opts.Cluster.TTL {
			steady = asked
		}
		roster, err := d.beat(ctx, asked)
		switch {
		case err != nil && ctx.Err() == nil:
			d.opts.Log.WarnContext(ctx, "heartbeat not stored", "error", err)
			d.health.failed(err)
		case err == nil:
			last = asked
			dead := roster.Gone
			// After the store was away for all, the others get the time to come back.
			if asked.Sub(steady) > d.opts.Cluster.TTL {
				dead = append(dead, roster.Silent...)
			}
			if len(dead) > 0 {
				select {
				case d.cluster.dead <- dead:
				default: // it is at work on them
				}
			}
		}
		timer.Reset(again)
	}
}

// beat sends one heartbeat and takes up the roster that it returns. A node that
// has lost its lock owns nothing until a beat after it has the lock again.
func (d *Dispatcher) beat(ctx context.Context, asked time.Time) (store.Roster, error) {
	answer := make(chan []uint8, 1)
	var drained []uint8
	if d.post(beating{answer}) {
		select {
		case drained = <-answer:
		case <-d.done:
		}
	}
	losses, without := d.cluster.lock.state()
	r, err := d.sayAlive(ctx, store.Beat{
		Release: drained, Leaving: d.ending.Load(),
		Unlocked: !without.IsZero() && asked.Sub(without) > d.opts.Cluster.TTL,
	})
	if err != nil {
		return r, err
	}
	until := asked.Add(d.opts.Cluster.TTL)
	if now, _ := d.cluster.lock.state(); r.Unlocked || now != losses {
		until = time.Time{}
	}
	had, has := d.cluster.owned.Load(), new(shardSet)
	gained := false
	for _, shard := range r.Shards {
		has[shard] = true
		gained = gained || had == nil || !had[shard]
	}
	var known []postrider.Circuit
	if gained {
		if known, err = d.loadCircuits(ctx, has); err != nil {
			return r, err
		}
	}
	d.cluster.owned.Store(has)
	d.cluster.others.Store(r.Nodes > 1)
	d.post(roster{r, until, known})
	if gained || d.cluster.reclaimed(r) {
		signal(d.cluster.gained)
	}
	if len(drained) > 0 || gained {
		d.tell(ctx, verbRoster)
	}
	return r, nil
}

// reclaimed reports whether nodes that were dead at the last beat are no longer:
// what they had leased is due then, at whatever node.
func (c *cluster) reclaimed(r store.Roster) bool {
	dead := slices.Concat(r.Gone, r.Silent)
	some := slices.ContainsFunc(c.deadBefore, func(incarnation uint32) bool { return !slices.Contains(dead, incarnation) })
	c.deadBefore = dead
	return some
}

// loadCircuits returns the circuits that ever changed, of some shards or, with
// nil, of all.
func (d *Dispatcher) loadCircuits(ctx context.Context, of *shardSet) (known []postrider.Circuit, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, errCallTimeout)
	defer cancel()
	q := store.CircuitQuery{Limit: 1000}
	for {
		page, err := d.queue.Circuits(ctx, q)
		if err != nil {
			return nil, fmt.Errorf("load circuits: %w", err)
		}
		for _, c := range page {
			if of == nil || of[store.Shard(c.Endpoint)] {
				known = append(known, c)
			}
		}
		if len(page) < q.Limit {
			return known, nil
		}
		q.After = page[len(page)-1].Endpoint
	}
}

// reclaimWhoDied takes over from dead nodes, while this one goes on to say that
// it lives.
func (d *Dispatcher) reclaimWhoDied(ctx context.Context) {
	for {
		select {
		case dead := <-d.cluster.dead:
			if d.reclaim(ctx, dead) {
				signal(d.cluster.beatNow)
			}
		case <-d.done:
			return
		}
	}
}

// reclaim takes over what dead nodes held, and reports whether that is all.
func (d *Dispatcher) reclaim(ctx context.Context, dead []uint32) bool {
	const most = 5000
	all := true
	for _, incarnation := range dead {
		for {
			n, err := d.reclaimSome(ctx, incarnation, most)
			if err != nil {
				d.opts.Log.WarnContext(ctx, "dead node not reclaimed", "incarnation", incarnation, "error", err)
				all = false
				break
			}
			d.opts.Log.WarnContext(ctx, "dead node reclaimed", "incarnation", incarnation, "deliveries", n)
			if n < most {
				break
			}
		}
	}
	if all {
		d.tell(ctx, verbRoster)
	}
	return all
}

func (d *Dispatcher) reclaimSome(ctx context.Context, incarnation uint32, most int) (int, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, errCallTimeout)
	defer cancel()
	return d.opts.Cluster.Nodes.Reclaim(ctx, incarnation, most)
}

// leave ends this node's place. One that leaves attempts to their leases is
// left to be reclaimed instead.
func (d *Dispatcher) leave(ctx context.Context) {
	if d.left.Load() > 0 {
		return
	}
	bounded, cancel := context.WithTimeoutCause(ctx, callTimeout, errCallTimeout)
	defer cancel()
	if err := d.opts.Cluster.Nodes.Forget(bounded, d.opts.Cluster.Incarnation); err != nil {
		d.opts.Log.WarnContext(ctx, "shards not given up", "error", err)
		return
	}
	d.tell(ctx, verbRoster)
}

// A message names newsNamed lanes at most, in 4.6 KB of the 8 KB that PostgreSQL
// carries, and a turn maxNews lanes and maxLooks endpoints. For more lanes the
// others poll, and a scan finds the other endpoints.
const (
	newsNamed = 128
	maxNews   = 4 * newsNamed
	maxLooks  = 50
)

// add notes what other nodes are to be told.
func (c *cluster) add(news []store.DueLane, look []postrider.EndpointID) {
	if len(news)+len(look) == 0 {
		return
	}
	c.mu.Lock()
	for _, n := range news {
		if len(c.news) <= maxNews {
			n.In = 0 // they look
			c.news[n] = struct{}{}
		}
	}
	for _, id := range look {
		if !slices.Contains(c.look, id) && len(c.look) < maxLooks {
			c.look = append(c.look, id)
		}
	}
	c.mu.Unlock()
	signal(c.say)
}

// take returns the messages to send now, and leaves none.
func (c *cluster) take() (messages []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.news) > maxNews {
		messages = append(messages, verbPoll)
	} else {
		for some := range slices.Chunk(slices.Collect(maps.Keys(c.news)), newsNamed) {
			text := []byte(verbNew)
			for _, n := range some {
				text = fmt.Appendf(text, " %s/%s", n.Endpoint, n.Lane)
			}
			messages = append(messages, string(text))
		}
	}
	if len(c.look) > 0 {
		text := []byte(verbLook)
		for _, id := range c.look {
			text = fmt.Appendf(text, " %s", id)
		}
		messages = append(messages, string(text))
	}
	clear(c.news)
	c.look = nil
	return messages
}

// wakeOthers tells other nodes what is due at theirs, in at most twenty messages
// a second.
func (d *Dispatcher) wakeOthers(ctx context.Context) {
	const least = 50 * time.Millisecond
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-pause.C:
		case <-d.done:
			return
		}
		select {
		case <-d.cluster.say:
		case <-d.done:
			return
		}
		messages := d.cluster.take()
		for _, message := range messages {
			d.tell(ctx, message)
		}
		pause.Reset(time.Duration(len(messages)) * least)
	}
}

// tell sends a message. Where it is lost, polling finds what it was about.
func (d *Dispatcher) tell(ctx context.Context, message string) {
	if d.opts.Cluster.PollOnly || !d.cluster.others.Load() {
		return
	}
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, errCallTimeout)
	defer cancel()
	if err := d.opts.Cluster.Nodes.Wake(ctx, fmt.Sprintf("%08x %s", d.opts.Cluster.Incarnation, message)); err != nil {
		d.opts.Log.DebugContext(ctx, "other nodes not woken", "error", err)
	}
}

// hold holds this node's lock and hears the other nodes, until ctx ends. While
// the connection is lost the node starts nothing, and what was missed is polled
// for.
func (d *Dispatcher) hold(ctx context.Context) {
	const least, most = 50 * time.Millisecond, time.Second
	var wait time.Duration
	for ctx.Err() == nil {
		err := d.opts.Cluster.Nodes.Hold(ctx, d.opts.Cluster.Incarnation, func(message string) {
			if message == "" {
				wait = 0
				d.cluster.lock.set(true)
			}
			d.heard(message)
		})
		d.cluster.lock.set(false)
		d.post(unlocked{})
		if ctx.Err() != nil {
			return
		}
		d.opts.Log.WarnContext(ctx, "lock of this node not held", "error", err, "again_in", wait.String())
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
		wait = min(max(2*wait, least), most)
	}
}

// heard takes up a message; "" is sent by nobody: it says that some were missed.
func (d *Dispatcher) heard(message string) {
	if message == "" {
		signal(d.cluster.woken)
		signal(d.cluster.beatNow)
		return
	}
	from, rest, _ := strings.Cut(message, " ")
	if d.opts.Cluster.PollOnly || from == fmt.Sprintf("%08x", d.opts.Cluster.Incarnation) {
		return
	}
	verb, about, _ := strings.Cut(rest, " ")
	switch verb {
	case verbRoster:
		signal(d.cluster.beatNow)
	case verbNew:
		d.post(due{parseNews(about), true})
	case verbPoll:
		signal(d.cluster.woken)
	case verbLook:
		owned := d.cluster.owned.Load()
		for text := range strings.FieldsSeq(about) {
			id, err := postrider.ParseID[postrider.EndpointID](text)
			if err == nil && owned != nil && owned[store.Shard(id)] {
				d.post(woken{id})
			}
		}
	}
}

// parseNews reads what follows [verbNew].
func parseNews(text string) (lanes []store.DueLane) {
	for name := range strings.FieldsSeq(text) {
		id, lane, _ := strings.Cut(name, "/")
		endpoint, err := postrider.ParseID[postrider.EndpointID](id)
		if err == nil && slices.Contains(postrider.Lanes, postrider.Lane(lane)) {
			lanes = append(lanes, store.DueLane{Endpoint: endpoint, Lane: postrider.Lane(lane)})
		}
	}
	return lanes
}

// signal says something that need not be said twice.
func signal(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}
