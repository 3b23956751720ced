package dispatch

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/routing"
	"github.com/postrider/postrider/internal/schedule"
	"github.com/postrider/postrider/internal/store"
)

// The verbs of messages between nodes. A message has the sender's incarnation, a verb, and
// arguments, for example
//
//	0000002a new ep_01jd…/first ep_01je…/bulk
//
// Messages are wake-ups and may be lost, so a message that cannot be read is ignored.
const (
	verbMembership = "membership" // a node joined, left or freed shards
	verbNew        = "new"        // endpoint/lane: lanes that have new deliveries
	verbPoll       = "poll"       // too many lanes have new deliveries to name them
	// Nonce, name: a change is stored, or the named delivery or event must not be sent; answered by
	// verbDone.
	verbEffect = "effect"
	verbDone   = "done" // nonces: the questions with these nonces are done
	// Endpoint: due deliveries that are not new, for example of a replay or a resumed endpoint.
	verbLook = "look"
)

// verbs are the verbs of the dispatcher.
var verbs = []string{verbMembership, verbNew, verbPoll, verbLook, verbEffect, verbDone}

// A message names at most lanesNamed lanes, which take 4.6 KB of the 8 KB that a notification of
// PostgreSQL may have. At most maxLanes lanes and maxLooks endpoints wait to be named. If there are
// more lanes, the other nodes are told to poll. A scan finds further endpoints.
const (
	lanesNamed = 128
	maxLanes   = 4 * lanesNamed
	maxLooks   = 50
)

// wakeUps are the pending wake-ups for other nodes. They are sets: a lane that gets a thousand
// deliveries between two messages is named once. A [batch.Queue] would keep each of them.
type wakeUps struct {
	pending batch.Signal // set if there are pending wake-ups

	mu    sync.Mutex
	lanes map[store.DueLane]struct{} // lanes for verbNew; if there are more than maxLanes, verbPoll is sent instead
	looks []postrider.EndpointID     // endpoints for verbLook
}

func newWakeUps() *wakeUps {
	return &wakeUps{pending: batch.NewSignal(), lanes: map[store.DueLane]struct{}{}}
}

// add adds lanes with new deliveries, and endpoints for verbLook.
func (w *wakeUps) add(lanes []store.DueLane, looks []postrider.EndpointID) {
	if len(lanes)+len(looks) == 0 {
		return
	}
	w.mu.Lock()
	for _, l := range lanes {
		if len(w.lanes) <= maxLanes {
			l.In = 0 // In is not sent: the other node asks the store
			w.lanes[l] = struct{}{}
		}
	}
	for _, id := range looks {
		if !slices.Contains(w.looks, id) && len(w.looks) < maxLooks {
			w.looks = append(w.looks, id)
		}
	}
	w.mu.Unlock()
	w.pending.Set()
}

// popMessages removes all pending wake-ups and returns their messages.
func (w *wakeUps) popMessages() (messages []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.lanes) > maxLanes {
		messages = append(messages, verbPoll)
	} else {
		for some := range slices.Chunk(slices.Collect(maps.Keys(w.lanes)), lanesNamed) {
			text := []byte(verbNew)
			for _, l := range some {
				text = fmt.Appendf(text, " %s/%s", l.Endpoint, l.Lane)
			}
			messages = append(messages, string(text))
		}
	}
	if len(w.looks) > 0 {
		text := []byte(verbLook)
		for _, id := range w.looks {
			text = fmt.Appendf(text, " %s", id)
		}
		messages = append(messages, string(text))
	}
	clear(w.lanes)
	w.looks = nil
	return messages
}

// runNotifier sends pending wake-ups to the other nodes, at most twenty messages a second.
func (c *cluster) runNotifier(ctx context.Context, done <-chan struct{}) {
	const interval = 50 * time.Millisecond
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-pause.C:
		case <-done:
			return
		}
		select {
		case <-c.wakeUps.pending:
		case <-done:
			return
		}
		messages := c.wakeUps.popMessages()
		for _, message := range messages {
			c.notify(ctx, message)
		}
		pause.Reset(time.Duration(len(messages)) * interval)
	}
}

// notify sends a message to the other nodes, if there are any. If it is lost, their next poll or
// scan finds the same deliveries.
func (c *cluster) notify(ctx context.Context, message string) {
	if c.others.Load() {
		c.wake(ctx, message)
	}
}

// wake sends a message without asking whether there are other nodes.
func (c *cluster) wake(ctx context.Context, message string) {
	if c.opts.PollOnly {
		return
	}
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, errCallTimeout)
	defer cancel()
	err := c.opts.Nodes.Wake(ctx, fmt.Sprintf("%08x %s", c.opts.Incarnation, message))
	c.report(message, true, err)
	if err != nil {
		c.log.DebugContext(ctx, "other nodes not woken", "error", err)
	}
}

// report reports a message to observers.
func (c *cluster) report(message string, sent bool, err error) {
	if c.wokenUp == nil {
		return
	}
	verb, _, _ := strings.Cut(message, " ")
	if !slices.Contains(verbs, verb) {
		verb = "other"
	}
	c.wokenUp(observe.WakeUp{Verb: verb, Sent: sent, Err: err})
}

// onWakeUp acts on a message. An empty message comes from the store: the connection is new, so
// messages may have been missed. It ignores this node's own messages.
func (d *Dispatcher) onWakeUp(message string) {
	if message == "" {
		d.cluster.missed.Set()
		d.cluster.heartbeatNow.Set()
		return
	}
	from, text, _ := strings.Cut(message, " ")
	if d.opts.Cluster.PollOnly || from == fmt.Sprintf("%08x", d.opts.Cluster.Incarnation) {
		return
	}
	d.cluster.report(text, false, nil)
	verb, arguments, _ := strings.Cut(text, " ")
	switch verb {
	case verbMembership:
		d.cluster.heartbeatNow.Set()
	case verbNew:
		d.post(schedule.LanesDue{Lanes: parseLanes(arguments), New: true})
	case verbPoll:
		d.cluster.missed.Set()
	case verbEffect:
		nonce, name, _ := strings.Cut(arguments, " ")
		d.cluster.effects.Add(effectAsked{nonce, name})
	case verbDone:
		d.cluster.awaited.done(strings.Fields(arguments), from)
	case verbLook:
		owned := d.cluster.owned.Load()
		for name := range strings.FieldsSeq(arguments) {
			id, err := postrider.ParseID[postrider.EndpointID](name)
			if err == nil && owned != nil && owned[store.Shard(id)] {
				d.postOwn(endpointChanged{routing.Change{Endpoint: id, Due: true}})
			}
		}
	default:
		if d.opts.Cluster.OnMessage != nil {
			d.opts.Cluster.OnMessage(from, verb, arguments)
		}
	}
}

// Tell sends a message of another part of the program to all other nodes, where Cluster.OnMessage
// gets it. The message is a verb that the dispatcher does not use, a space, and arguments, at most
// 7 KB. It may be lost. It is sent only if there are other nodes.
func (d *Dispatcher) Tell(ctx context.Context, message string) {
	if d.opts.Cluster.Nodes != nil {
		d.cluster.notify(ctx, message)
	}
}

// parseLanes reads the arguments of [verbNew].
func parseLanes(text string) (lanes []store.DueLane) {
	for name := range strings.FieldsSeq(text) {
		id, lane, _ := strings.Cut(name, "/")
		endpoint, err := postrider.ParseID[postrider.EndpointID](id)
		if err == nil && slices.Contains(postrider.Lanes, postrider.Lane(lane)) {
			lanes = append(lanes, store.DueLane{Endpoint: endpoint, Lane: postrider.Lane(lane)})
		}
	}
	return lanes
}
