package dispatch

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/schedule"
	"github.com/postrider/postrider/internal/store"
)

// cluster is this node's membership: its lock, its heartbeats, its shards, and its messages to
// other nodes. A node takes over a shard like this:
//
//	0 s  node A dies. The database closes its connection, so that its lock is free
//	1 s  until then B has sent its next heartbeat. The reply has some of A's shards. B
//	     loads their circuits, owns them and scans: deliveries that A had not leased
//	     are claimed and sent
//	2 s  the lock has been free for 2 s: replies name A (Membership.Gone). B reclaims the
//	     leases of A: each delivery has a lost attempt, and is due again
//	3 s  until then a reply no longer names A: B scans, and finds these deliveries
//
// If locks do not work, A is dead (Membership.Silent) when it was silent for TTL, 5 s.
type cluster struct {
	opts     Cluster
	log      *slog.Logger
	instance [16]byte // random; distinguishes two nodes with the same incarnation
	lock     nodeLock
	wakeUps  *wakeUps
	lost     observe.Hook[int]            // called for lost attempts of dead nodes; see [observe.Hooks]
	wokenUp  observe.Hook[observe.WakeUp] // see [observe.Hooks]

	others  atomic.Bool                       // whether there are other nodes; set by each heartbeat
	owned   atomic.Pointer[schedule.ShardSet] // shards of the last heartbeat; nil: no heartbeat succeeded yet
	stored  atomic.Pointer[time.Time]         // when the last stored heartbeat was sent; nil: none was stored
	refused atomic.Pointer[error]             // error of the last heartbeat; nil: it was stored
	// The membership has changed, so the next heartbeat is sent at once.
	heartbeatNow batch.Signal
	until        atomic.Pointer[time.Time] // end of the ownership; nil: this node owns nothing
	effects      *batch.Queue[effectAsked] // questions of other nodes, for runEffects
	awaited      awaited                   // questions of this node
	gained       batch.Signal              // this node has new shards, or a dead node was reclaimed
	// Wake-ups for this node were missed, or were too many to name lanes.
	missed batch.Signal
	dead   chan []uint32 // incarnations to reclaim; holds one list at a time

	deadBefore []uint32 // dead nodes of the last heartbeat; only runMembership uses it
}

func newCluster(opts Options) *cluster {
	c := &cluster{
		opts: opts.Cluster, log: opts.Log, wakeUps: newWakeUps(), lost: opts.Hooks.AttemptsLost, wokenUp: opts.Hooks.WokenUp,
		effects: batch.NewQueue[effectAsked](), awaited: awaited{asked: map[string]*question{}},
		heartbeatNow: batch.NewSignal(), gained: batch.NewSignal(), missed: batch.NewSignal(), dead: make(chan []uint32, 1),
	}
	c.lock.tried, c.lock.since = make(chan struct{}), time.Now()
	_, _ = rand.Read(c.instance[:]) // never fails
	return c
}

// nodeLock says whether this node holds its lock in the store. While it does, other nodes know that
// it is alive. A node without the lock may have been reclaimed, and another node may send the
// deliveries that it has leased. So it starts nothing until it has the lock again and has sent a
// heartbeat after that. runLock writes nodeLock; heartbeats read it.
type nodeLock struct {
	tried chan struct{} // closed after the first try to take the lock, whether or not it succeeded

	mu     sync.Mutex
	once   bool      // true: tried is closed
	held   bool      // true: the lock is held
	since  time.Time // when held last changed, or when the node started
	losses int       // how often the lock was lost; the core compares the count, see [schedule.ShardsAssigned]
}

// set records whether the lock is held, and returns how often it was lost.
func (l *nodeLock) set(held bool) (losses int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.once {
		l.once = true
		close(l.tried)
	}
	if l.held != held {
		l.held, l.since = held, time.Now()
		if !held {
			l.losses++
		}
	}
	return l.losses
}

// state returns how often the lock was lost, and when it was lost last, or the node started; zero:
// it is held.
func (l *nodeLock) state() (losses int, without time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.held {
		without = l.since
	}
	return l.losses, without
}

// join makes this node a member before it starts anything. First it waits for the lock, for TTL at
// most, so that the node's death is noticed from then on. It is no error if the database does not
// respond: heartbeats go on until it does.
func (c *cluster) join(ctx context.Context) error {
	if c.opts.Nodes == nil {
		return nil
	}
	limit := time.NewTimer(c.opts.TTL)
	defer limit.Stop()
	select {
	case <-c.lock.tried:
	case <-limit.C:
	case <-ctx.Done():
	}
	c.log.InfoContext(ctx, "node joins", "incarnation", c.opts.Incarnation, "host", c.opts.Host)
	_, err := c.sendHeartbeat(ctx, store.Heartbeat{})
	if errors.Is(err, postrider.ErrConflict) {
		return fmt.Errorf("join: incarnation %d is another node's: %w", c.opts.Incarnation, err)
	}
	return nil
}

// sendHeartbeat sets the fields that are the same in every heartbeat, and sends it. A reply that
// comes later than TTL is useless, because another node may own its shards by then.
func (c *cluster) sendHeartbeat(ctx context.Context, h store.Heartbeat) (store.Membership, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.opts.TTL, errCallTimeout)
	defer cancel()
	h.Incarnation, h.Instance, h.Host, h.TTL = c.opts.Incarnation, c.instance, c.opts.Host, c.opts.TTL
	h.Address, h.PublicKey = c.opts.Address, c.opts.PublicKey
	return c.opts.Nodes.Heartbeat(ctx, h)
}

// runMembership sends heartbeats, takes over the shards that they assign, gives up surplus shards,
// and asks for dead nodes to be reclaimed, until the loop has ended. Then the node leaves, so that
// other nodes get its shards at once instead of after TTL.
func (d *Dispatcher) runMembership(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	steady := time.Now() // since when no heartbeat was late
	last := steady
	for {
		select {
		case <-timer.C:
		case <-d.cluster.heartbeatNow:
		case <-d.done:
			if d.left.Load() == 0 { // otherwise its leases must be reclaimed
				d.cluster.leave(ctx)
			}
			return
		}
		interval := d.opts.Cluster.Heartbeat
		if d.ending.Load() {
			interval /= 10 // so that each shard is given up as soon as possible
		}
		asked := time.Now()
		if asked.Sub(last) > d.opts.Cluster.TTL {
			steady = asked
		}
		membership, err := d.heartbeat(ctx, asked)
		switch {
		case err != nil && ctx.Err() == nil:
			d.opts.Log.WarnContext(ctx, "heartbeat not stored", "error", err)
			d.cluster.refused.Store(&err)
			d.progress.failed(err)
		case err == nil:
			last = asked
			d.cluster.stored.Store(&asked)
			d.cluster.refused.Store(nil)
			dead := membership.Gone
			// If the store was away, all nodes were silent. They get TTL to send a heartbeat before
			// they are taken for dead.
			if asked.Sub(steady) > d.opts.Cluster.TTL {
				dead = append(dead, membership.Silent...)
			}
			if len(dead) > 0 {
				select {
				case d.cluster.dead <- dead:
				default: // runReclaimer is busy with them
				}
			}
		}
		timer.Reset(interval)
	}
}

// heartbeat sends one heartbeat and applies the membership that it returns. Four rules prevent that
// two nodes own one shard:
//
//   - Surplus shards that are no longer busy are given up with the heartbeat. After the loop was
//     asked for them, nothing of them starts.
//   - The ownership lasts for TTL from the sending of the heartbeat, not from its reply. The
//     store's own time-out begins in between, so this node stops before another one starts.
//   - The losses of the lock are counted before the call. If the lock is lost before the core has
//     the reply, other nodes may take this node for dead. Then the core owns nothing until the next
//     heartbeat.
//   - Circuits and settings of new shards are loaded before the shards are owned. If loading fails,
//     the heartbeat has failed, and the next one repeats it. The ownership also lasts no longer
//     than TTL from the last successful Refresh of the endpoints. A
//     response that waits until a change is in effect relies on both (effects.go).
func (d *Dispatcher) heartbeat(ctx context.Context, asked time.Time) (store.Membership, error) {
	response := make(chan []uint8, 1)
	var surplus []uint8
	if d.postOwn(surplusAsked{response}) {
		select {
		case surplus = <-response:
		case <-d.done:
		}
	}
	losses, without := d.cluster.lock.state()
	m, err := d.cluster.sendHeartbeat(ctx, store.Heartbeat{
		Release: surplus, Leaving: d.ending.Load(),
		Unlocked: !without.IsZero() && asked.Sub(without) > d.opts.Cluster.TTL,
	})
	if err != nil {
		return m, err
	}
	had, has, added := d.cluster.owned.Load(), new(schedule.ShardSet), new(schedule.ShardSet)
	for _, shard := range m.Shards {
		has[shard] = true
		added[shard] = had == nil || !had[shard]
	}
	gained := *added != schedule.ShardSet{}
	var known []postrider.Circuit
	if gained {
		if err := d.endpoints.Refresh(ctx); err != nil {
			return m, err
		}
		if known, err = d.loadCircuits(ctx, added); err != nil {
			return m, err
		}
	}
	until := asked.Add(d.opts.Cluster.TTL)
	if stale := d.endpoints.RefreshedAt().Add(d.opts.Cluster.TTL); stale.Before(until) {
		until = stale
	}
	if m.Unlocked {
		until = time.Time{}
	}
	if now, _ := d.cluster.lock.state(); now == losses {
		d.cluster.until.Store(&until)
	}
	d.cluster.owned.Store(has)
	d.cluster.others.Store(m.Nodes > 1)
	if d.opts.Cluster.Peers != nil {
		d.opts.Cluster.Peers.Set(m.Peers)
	}
	d.post(schedule.ShardsAssigned{Shards: m.Shards, Surplus: m.Surplus, Until: until, Losses: losses, Circuits: known})
	d.opts.Hooks.Membership.Call(observe.Membership{Nodes: m.Nodes, Shards: len(m.Shards), Surplus: m.Surplus})
	if gained || d.cluster.reclaimed(m) {
		d.cluster.gained.Set()
	}
	if len(surplus) > 0 || gained {
		d.cluster.notify(ctx, verbMembership)
	}
	return m, nil
}

// Joined returns an error while this node may serve no endpoint, because none of its heartbeats of
// the last TTL was stored. Without other nodes there are no heartbeats, and it returns nil.
func (d *Dispatcher) Joined() error {
	if d.opts.Cluster.Nodes == nil {
		return nil
	}
	stored, refused := d.cluster.stored.Load(), d.cluster.refused.Load()
	var err error
	switch {
	case stored == nil:
		err = errors.New("this server serves no endpoint: no heartbeat of it is stored yet")
	case time.Since(*stored) > d.opts.Cluster.TTL:
		err = fmt.Errorf("this server serves no endpoint: no heartbeat of it has been stored for %v", time.Since(*stored).Round(time.Second))
	}
	if err != nil && refused != nil {
		err = fmt.Errorf("%w: %w", err, *refused)
	}
	return err
}

// Owns reports whether this node owns the shard of an id, as of its last heartbeat. Without other
// nodes it owns all. The node that owns the zero id does the work that one node does for all. For a
// moment two nodes may own a shard, or none.
func (d *Dispatcher) Owns(id [16]byte) bool {
	if d.opts.Cluster.Nodes == nil {
		return true
	}
	owned, until := d.cluster.owned.Load(), d.cluster.until.Load()
	return owned != nil && until != nil && time.Now().Before(*until) && owned[store.Shard(id)]
}

// reclaimed reports whether a node that was dead at the last heartbeat is no longer listed as dead.
// Then some node has reclaimed it, so its deliveries are due again, perhaps on this node.
func (c *cluster) reclaimed(m store.Membership) bool {
	dead := slices.Concat(m.Gone, m.Silent)
	some := slices.ContainsFunc(c.deadBefore, func(incarnation uint32) bool { return !slices.Contains(dead, incarnation) })
	c.deadBefore = dead
	return some
}

// runReclaimer reclaims dead nodes. It has its own goroutine, because reclaiming thousands of
// leases may take longer than TTL, and this node's heartbeats must go on.
func (c *cluster) runReclaimer(ctx context.Context, done <-chan struct{}) {
	for {
		select {
		case dead := <-c.dead:
			if c.reclaim(ctx, dead) {
				c.heartbeatNow.Set()
			}
		case <-done:
			return
		}
	}
}

// reclaim makes the deliveries that dead nodes had leased due again, 5,000 in each call, and
// reports whether all calls succeeded. If one fails, the next heartbeat names the node again.
// Several nodes may reclaim the same one: each finds the leases that the others left.
func (c *cluster) reclaim(ctx context.Context, dead []uint32) bool {
	const limit = 5000
	all := true
	hosts := c.hosts(ctx) // a node that was reclaimed is no longer listed
	for _, incarnation := range dead {
		log := c.log.With("incarnation", incarnation, "host", hosts[incarnation])
		for {
			n, err := c.reclaimSome(ctx, incarnation, limit)
			if err != nil {
				log.WarnContext(ctx, "dead node not reclaimed", "error", err)
				all = false
				break
			}
			log.WarnContext(ctx, "dead node reclaimed", "deliveries", n)
			if n > 0 { // each of them had an attempt, which is lost
				c.lost.Call(n)
			}
			if n < limit {
				break
			}
		}
	}
	if all {
		c.notify(ctx, verbMembership)
	}
	return all
}

// hosts returns the names of the nodes' machines, for the log. If they cannot be read, it returns
// an empty map, because the reclaim is more important.
func (c *cluster) hosts(ctx context.Context) map[uint32]string {
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, errCallTimeout)
	defer cancel()
	members, err := c.opts.Nodes.Members(ctx, postrider.EndpointID{})
	if err != nil {
		c.log.WarnContext(ctx, "names of dead nodes not read", "error", err)
	}
	hosts := make(map[uint32]string, len(members))
	for _, m := range members {
		hosts[m.Incarnation] = m.Host
	}
	return hosts
}

func (c *cluster) reclaimSome(ctx context.Context, incarnation uint32, limit int) (int, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, errCallTimeout)
	defer cancel()
	return c.opts.Nodes.Reclaim(ctx, incarnation, limit)
}

// leave ends this node's membership. Other nodes get its shards at their next heartbeat, and
// reclaim nothing.
func (c *cluster) leave(ctx context.Context) {
	limited, cancel := context.WithTimeoutCause(ctx, callTimeout, errCallTimeout)
	defer cancel()
	if err := c.opts.Nodes.Forget(limited, c.opts.Incarnation); err != nil {
		c.log.WarnContext(ctx, "shards not given up", "error", err)
		return
	}
	c.notify(ctx, verbMembership)
}

// runLock holds this node's lock and receives wake-ups on the same connection, until ctx ends. When
// the connection is lost, the core starts nothing more; a new connection is made after 0 to 1 s. An
// empty message says that the lock is held, and that wake-ups may have been missed before.
func (d *Dispatcher) runLock(ctx context.Context) {
	const minWait, maxWait = 50 * time.Millisecond, time.Second
	var wait time.Duration
	for ctx.Err() == nil {
		err := d.opts.Cluster.Nodes.Hold(ctx, d.opts.Cluster.Incarnation, func(message string) {
			if message == "" {
				wait = 0
				d.cluster.lock.set(true)
			}
			d.onWakeUp(message)
		})
		losses := d.cluster.lock.set(false)
		d.cluster.until.Store(nil)
		d.post(schedule.LockLost{Losses: losses})
		if ctx.Err() != nil {
			return
		}
		d.opts.Log.WarnContext(ctx, "lock of this node not held", "error", err, "again_in", wait.String())
		batch.Sleep(ctx, wait)
		wait = min(max(2*wait, minWait), maxWait)
	}
}
