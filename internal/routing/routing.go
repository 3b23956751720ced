// Package routing keeps the endpoints of the store in memory: who subscribed to what, and how each
// endpoint is configured now.
//
// A [Table] is the node's snapshot of all endpoints that are not deleted. Ingest asks it which
// endpoints want an event ([Table.Match], [Table.MatchNext]). The dispatcher asks it for an
// endpoint's settings ([Table.Lookup]) and subscribes to changes ([Table.Subscribe]). The API
// reports changes with [Table.Notify].
//
// It also has the paths by whose values events are found ([Table.Paths]), which have the same version.
//
// These promises always hold:
//
//   - Every change of an endpoint takes one way: the store has it, [Table.Refresh]
//     applies it, the subscriber is called. It makes no difference who made the
//     change: the API, another node, or the dispatcher after a 410.
//   - The version says which changes the table has. The store refuses a commit with
//     an outdated version.
//   - A table that has the version of a hold of the store also has the hold.
//   - The cost of a match depends on the number of endpoints that match, not on the
//     number of all endpoints: the table is compiled by event type and filter, and only
//     changes are loaded.
//   - The data of an event is decoded only if an endpoint of its account that subscribes
//     to its type has a filter, channels or changed paths. Each is decoded once, and the object
//     before the change only for changed paths. Both are decoded once more for conditions.
//   - A condition is evaluated only for events of its endpoint's types for which the filter
//     holds. If the evaluation fails, the endpoint is returned with FilterFailed.
//   - A fan-out job selects its endpoints by the subscriptions that were in force when its event
//     was accepted. Earlier ones are read from the store only if some have changed since.
//   - A returned slice or snapshot never changes.
//
// The package does not write to the store and does not decide what may be sent.
package routing

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/filter"
	"github.com/postrider/postrider/internal/store"
)

// Table has every endpoint that is not deleted, compiled for matching. Its methods may be called
// from any goroutine.
type Table struct {
	directory store.Directory
	opts      Options
	refresh   sync.Mutex                            // held by the Refresh that is running
	refreshed atomic.Pointer[time.Time]             // when the last successful Refresh began
	notified  *batch.Queue[postrider.EndpointID]    // endpoints that Notify named, for Run
	failing   *batch.Queue[*store.EndpointSnapshot] // endpoints whose condition keeps failing, for Run
	setAside  map[postrider.EndpointID]struct{}     // endpoints whose policy cannot be read; guarded by refresh

	mu        sync.RWMutex
	onChange  func(Change)
	version   int64
	hold      postrider.Hold
	endpoints map[postrider.EndpointID]*store.EndpointSnapshot // a snapshot never changes
	filters   map[postrider.EndpointID]*filter.Pattern         // of those of the endpoints that have one
	accounts  map[postrider.AccountID]*subscriptions
	paths     map[string][]postrider.Path // of event types; it never changes
}

// Options tunes a [Table]. The zero value is the production default.
type Options struct {
	Poll time.Duration // interval between two looks for changes of other nodes; default 1 s
	// Sets an endpoint aside in the store, because its condition keeps failing. Default: nothing is done.
	SetAside func(ctx context.Context, e postrider.Endpoint) error
	Log      *slog.Logger // default: discard
}

// Change says that an endpoint changed. The table already has the change.
type Change struct {
	Endpoint postrider.EndpointID
	Due      bool // Notify was called: deliveries may be due for the endpoint
}

// New returns an empty table for the endpoints of the directory. [Table.Refresh] fills it.
func New(directory store.Directory, opts Options) *Table {
	opts.Poll = cmp.Or(opts.Poll, time.Second)
	opts.Log = cmp.Or(opts.Log, slog.New(slog.DiscardHandler))
	if opts.SetAside == nil {
		opts.SetAside = func(context.Context, postrider.Endpoint) error { return nil }
	}
	return &Table{
		directory: directory,
		setAside:  map[postrider.EndpointID]struct{}{},
		opts:      opts,
		notified:  batch.NewQueue[postrider.EndpointID](),
		failing:   batch.NewQueue[*store.EndpointSnapshot](),
		onChange:  func(Change) {},
		endpoints: map[postrider.EndpointID]*store.EndpointSnapshot{},
		filters:   map[postrider.EndpointID]*filter.Pattern{},
		accounts:  map[postrider.AccountID]*subscriptions{},
	}
}

// Subscribe makes f the one subscriber: f is called for every later change, after the change was
// applied. f must not call Refresh.
func (x *Table) Subscribe(f func(Change)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.onChange = f
}

// Notify says that an endpoint changed, or that deliveries may be due for it. It never blocks:
// [Table.Run] refreshes the table and calls the subscriber. Many calls before that cause one
// refresh.
func (x *Table) Notify(endpoint postrider.EndpointID) { x.notified.Add(endpoint) }

// Run applies changes until ctx is cancelled. It applies changes that Notify reports at once, and
// changes of other nodes every Options.Poll. The subscriber is called for a notified endpoint after
// the refresh, once, even if Notify named the endpoint several times.
func (x *Table) Run(ctx context.Context) error {
	tick := time.NewTicker(x.opts.Poll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-x.notified.Ready():
		case <-x.failing.Ready():
		}
		if err := x.setFailingAside(ctx); err != nil && ctx.Err() == nil {
			x.opts.Log.WarnContext(ctx, "endpoint with a failing condition not set aside", "error", err)
		}
		notified := x.notified.Take(0) // taken before the refresh, which then has all of their changes
		err := x.Refresh(ctx)
		if err == nil {
			err = x.rereadOne(ctx)
		}
		if err != nil && ctx.Err() == nil {
			// The next round finds the changes. The subscriber hears of the notified endpoints all the
			// same, because their deliveries are due.
			x.opts.Log.WarnContext(ctx, "endpoints not refreshed", "error", err)
		}
		slices.SortFunc(notified, postrider.EndpointID.Compare)
		for _, endpoint := range slices.Compact(notified) {
			x.changed(Change{Endpoint: endpoint, Due: true})
		}
	}
}

// Refresh applies every change that was committed before the call, in pages. Only one call runs at
// a time. A call that waits has nothing to do if a whole Refresh ran while it waited; otherwise it
// applies the changes that came in the meantime. The subscriber is called for each change after its
// page was applied. It does no harm to report a change twice, because the subscriber looks the
// endpoint up.
func (x *Table) Refresh(ctx context.Context) error {
	called := time.Now()
	x.refresh.Lock()
	defer x.refresh.Unlock()
	if x.RefreshedAt().After(called) {
		return nil
	}
	begun := time.Now()
	const page = 1000
	for {
		changes, err := x.directory.Changes(ctx, x.Version(), page)
		if err != nil {
			return fmt.Errorf("refresh endpoints: %w", err)
		}
		was := x.Hold()
		x.apply(changes)
		x.logHold(ctx, was, changes.Hold)
		x.noteSetAside(ctx, changes.Endpoints)
		for i := range changes.Endpoints {
			x.changed(Change{Endpoint: changes.Endpoints[i].Endpoint.ID})
		}
		if len(changes.Endpoints) < page {
			x.refreshed.Store(&begun)
			return nil
		}
	}
}

// RefreshedAt returns when the last successful Refresh began; zero: there was none.
func (x *Table) RefreshedAt() time.Time {
	if at := x.refreshed.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// logHold logs for the person on call that nothing is sent, and later that deliveries are sent
// again.
func (x *Table) logHold(ctx context.Context, was, is postrider.Hold) {
	switch {
	case is.Held() && !was.Held():
		x.opts.Log.WarnContext(ctx, "held after a restore: nothing is sent until somebody runs postrider resume --after-restore",
			"since", is.Since, "reason", is.Reason)
	case was.Held() && !is.Held():
		x.opts.Log.InfoContext(ctx, "resumed after a restore: deliveries are sent again")
	}
}

// noteSetAside updates the map setAside. It logs for the person on call when an endpoint is set
// aside, with the fields that cannot be read, and when it no longer is. The dispatcher sends
// nothing to an endpoint that is set aside; its events still create deliveries, which wait.
func (x *Table) noteSetAside(ctx context.Context, changed []store.EndpointSnapshot) {
	for i := range changed {
		e := &changed[i].Endpoint
		_, was := x.setAside[e.ID]
		unreadable := e.PolicyError != "" && e.Status != postrider.EndpointDeleted
		switch {
		case unreadable && !was:
			x.setAside[e.ID] = struct{}{}
			x.opts.Log.ErrorContext(ctx, "endpoint set aside", "endpoint", e.ID.String(), "error", e.PolicyError)
		case !unreadable && was:
			delete(x.setAside, e.ID)
			x.opts.Log.InfoContext(ctx, "endpoint no longer set aside", "endpoint", e.ID.String())
		}
	}
}

// rereadOne reads one of the endpoints that are set aside again. A change through the API is in the
// [store.Changes], but a person who repairs a row in the database raises no version. Each round of
// Run reads one endpoint, chosen at random by the map's order, so many endpoints cost no more than
// one.
func (x *Table) rereadOne(ctx context.Context) error {
	x.refresh.Lock()
	defer x.refresh.Unlock()
	for id := range x.setAside {
		page, err := x.directory.Endpoints(ctx, store.EndpointQuery{ID: id})
		if err != nil {
			return fmt.Errorf("read endpoint %s again: %w", id, err)
		}
		was, known := x.Lookup(id)
		if !known || len(page.Items) == 0 || page.Items[0].PolicyError != "" ||
			page.Items[0].Revision != was.Endpoint.Revision { // a change through the API comes with its time
			return nil
		}
		// The rest changes only with a new version.
		mended := []store.EndpointSnapshot{{Endpoint: page.Items[0], Secrets: was.Secrets, Circuit: was.Circuit, SubscribedAt: was.SubscribedAt}}
		x.apply(store.Changes{Version: x.Version(), Hold: x.Hold(), Endpoints: mended})
		x.noteSetAside(ctx, mended)
		x.changed(Change{Endpoint: id})
		return nil
	}
	return nil
}

// changed calls the subscriber. It holds no lock during the call.
func (x *Table) changed(c Change) {
	x.mu.RLock()
	onChange := x.onChange
	x.mu.RUnlock()
	onChange(c)
}

// Version returns the version of the endpoints in the table.
func (x *Table) Version() int64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.version
}

// Hold returns the hold of the store as the table knows it. It is at least as new as Version.
func (x *Table) Hold() postrider.Hold {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.hold
}

// Held reports whether the store is held.
func (x *Table) Held() bool { return x.Hold().Held() }

// Len returns the number of endpoints in the table.
func (x *Table) Len() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.endpoints)
}

// Lookup returns an endpoint from the table, which the caller must not change; false: it is unknown
// or deleted.
func (x *Table) Lookup(id postrider.EndpointID) (*store.EndpointSnapshot, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	to := x.endpoints[id]
	return to, to != nil
}

// Wants reports whether an endpoint of the table wants an event of its account: whether Match would
// return the endpoint for it.
func (x *Table) Wants(id postrider.EndpointID, e *postrider.Event) bool {
	to, known := x.Lookup(id)
	if !known || len(e.Endpoints) > 0 {
		return known && e.IsFor(&to.Endpoint)
	}
	m := &matching{event: e, filter: filter.Of(e)}
	return to.Endpoint.Subscribes(e.Type) && holds(x.filterOf(to), m.filter) && m.wants(x.conditionOf(to), to) != nil
}

// Match returns the endpoints that want the event, ordered by id: those that subscribe to its type,
// and whose filter, channels, changed paths and condition, if they have them, hold for it. If there are more
// than most, or the filters and conditions take more than matchUnits, it returns nil and does not look at
// the others, so the cost of a match is limited. last is the last endpoint that subscribes to the type,
// whatever its filter says; zero: there is none. An event that names endpoints matches these alone, and
// no types and filters are asked. The caller must not change the slice.
func (x *Table) Match(e *postrider.Event, most int) (matched []*store.EndpointSnapshot, last postrider.EndpointID) {
	x.mu.RLock()
	if len(e.Endpoints) > 0 {
		defer x.mu.RUnlock()
		if matched = x.named(e); len(matched) > 0 {
			last = matched[len(matched)-1].Endpoint.ID
		}
		if len(matched) > most {
			matched = nil
		}
		return matched, last
	}
	var few [4]subscribers // enough for most types, and allocated on the stack
	account := x.accounts[e.Account]
	all := account.subscribers(few[:0], e.Type)
	for i := range all {
		if end := all[i].all[len(all[i].all)-1].Endpoint.ID; end.Compare(last) > 0 {
			last = end
		}
	}
	simple := len(all) == 1 && all[0].filters == nil
	if len(all) == 0 || simple || slices.ContainsFunc(all, func(s subscribers) bool { return len(s.plain) > most }) {
		x.mu.RUnlock()
		if simple && len(all[0].plain) <= most {
			matched = all[0].plain
		}
		return matched, last
	}
	lists := make([][]*store.EndpointSnapshot, 0, len(few)+1)
	for i := range all {
		lists = append(lists, all[i].plain)
	}
	m, begun := x.matching(e), time.Now()
	held, conditions := x.filtered(all, m, most)
	x.mu.RUnlock() // conditions may take milliseconds, and a change of the table waits for the lock
	lists = append(lists, m.decide(conditions, held))
	account.evaluation.add(begun)
	if m.filter.Exceeded() {
		return nil, last
	}
	matched = []*store.EndpointSnapshot{} // not nil, even if no filter holds
	for to := range merge(lists) {
		if len(matched) == most {
			return nil, last
		}
		matched = append(matched, to)
	}
	return matched, last
}

// named returns the endpoints that the event names and the table has, ordered by id.
func (x *Table) named(e *postrider.Event) (named []*store.EndpointSnapshot) {
	for _, id := range e.Endpoints {
		if to := x.endpoints[id]; to != nil && to.Endpoint.Account == e.Account {
			named = append(named, to)
		}
	}
	return named
}

// filtered returns the subscribers whose filter holds for the event, ordered by id, and their conditions.
// Of more than most it returns some, but more than most, and without conditions. If there are conditions,
// the filters of more may hold.
func (x *Table) filtered(all []subscribers, m *matching, most int) (held []*store.EndpointSnapshot, conditions []*conditioned) {
	of := x.accounts[m.event.Account].conditions
	if len(of) > 0 {
		most = max(most, mostConditions)
	}
	for i := range all {
		if all[i].filters == nil {
			continue
		}
		for _, id := range all[i].filters.Match(m.filter, most) {
			held = append(held, x.endpoints[id])
		}
	}
	slices.SortFunc(held, byIDs)
	held = slices.Compact(held) // an endpoint may subscribe with several patterns
	if len(of) == 0 || len(held) > most {
		return held, nil
	}
	conditions = make([]*conditioned, len(held))
	for i, to := range held {
		conditions[i] = of[to.Endpoint.ID]
	}
	return held, conditions
}

// matchUnits limits the comparisons of one event with filters and conditions, to some 5 ms. If an endpoint
// changes after a match, it is made again between two commits, and all accounts wait for these. An event
// that takes more gets a fan-out job.
const matchUnits = 100_000

func (x *Table) matching(e *postrider.Event) *matching {
	m := &matching{table: x, event: e, filter: filter.Of(e)}
	m.filter.Limit(matchUnits)
	return m
}

// Paths returns the paths by whose values events of the type are found. The caller must not change the
// slice.
func (x *Table) Paths(eventType string) []postrider.Path {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.paths[eventType]
}

// WantsOrder reports whether at least one of the endpoints that want the event wants it in the order
// of its ordering key. If that takes too long to know, it reports true.
func (x *Table) WantsOrder(e *postrider.Event) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	s := x.accounts[e.Account]
	if s == nil {
		return false
	}
	if len(e.Endpoints) > 0 {
		return slices.ContainsFunc(e.Endpoints, func(id postrider.EndpointID) bool { return s.ordered[id] != nil })
	}
	m := x.matching(e)
	defer s.evaluation.add(time.Now())
	for id, to := range s.ordered {
		if !to.Endpoint.Subscribes(e.Type) {
			continue
		}
		if holds(x.filters[id], m.filter) && m.wants(s.conditions[id], to) != nil || m.filter.Exceeded() {
			return true
		}
	}
	return false
}

// holds reports whether a filter holds for the event. If the filter is nil, it does.
func holds(p *filter.Pattern, e *filter.Event) bool { return p == nil || p.Matches(e) }

// MatchNext returns the next n endpoints of a fan-out job after its cursor, ordered by id, and the last
// endpoint that it looked at: job.UpTo, if there is no further one. The endpoints are as they are now, but
// selected by the subscriptions of the time when the event was accepted. They include endpoints that were
// deleted after the event was accepted, whose deliveries are recorded as skipped. It compares the event
// with one filter and condition after the other, not with the index, so the chunks of a job together
// compare it with each once. Comparisons hold no lock, and rest often. They end at the time until, but not
// before the first.
func (x *Table) MatchNext(
	ctx context.Context, job *store.FanOut, n int, until time.Time,
) (matched []*store.EndpointSnapshot, through postrider.EndpointID, err error) {
	lists, changed := x.after(job)
	end := job.UpTo
	if len(changed) > n { // one query reads the subscriptions of at most n
		changed = changed[:n]
		end = changed[n-1].Endpoint.ID
	}
	past, err := x.past(ctx, job, changed)
	if err != nil {
		return nil, through, err
	}
	m, compared := &matching{table: x, event: &job.Event, filter: filter.Of(&job.Event)}, false
	work := slice{x.evaluationOf(job.Event.Account), time.Now()}
	defer func() {
		if compared {
			work.rest(ctx)
		}
	}()
	for to := range merge(lists) {
		if to.Endpoint.ID.Compare(end) > 0 {
			break
		}
		if compared && time.Since(work.begun) > sliceTime {
			work.rest(ctx)
		}
		if len(matched) == n || !through.IsZero() && time.Now().After(until) {
			return matched, through, nil
		}
		if through = to.Endpoint.ID; len(job.Event.Endpoints) == 0 {
			p, c, subscribed := x.selectionOf(to, past, job)
			if compared = compared || p != nil || c != nil; !subscribed || !holds(p, m.filter) {
				continue
			}
			to = m.wants(c, to)
		}
		if to != nil {
			matched = append(matched, to)
		}
	}
	return matched, end, nil
}

// after returns lists of the endpoints after the cursor of a job that its event is for, or was. The last
// list has those up to its last one whose subscription has changed since the event was accepted.
func (x *Table) after(job *store.FanOut) (lists [][]*store.EndpointSnapshot, changed []*store.EndpointSnapshot) {
	x.mu.RLock()
	account := x.accounts[job.Event.Account]
	lists = append(lists, account.deletedSince(job.Event))
	if len(job.Event.Endpoints) > 0 {
		lists = append(lists, x.named(&job.Event))
	} else {
		for _, s := range account.subscribers(nil, job.Event.Type) {
			lists = append(lists, s.all)
		}
		changed = account.changedSince(job)
	}
	x.mu.RUnlock()
	slices.SortFunc(changed, byIDs)
	lists = append(lists, changed)
	for i, list := range lists {
		at, found := slices.BinarySearchFunc(list, job.Cursor, byID)
		if found {
			at++
		}
		lists[i] = list[at:]
	}
	return lists, lists[len(lists)-1]
}

// filterOf returns the filter of an endpoint that is in the table, or was; nil: it has none. A chunk of a job asks for the
// filters that it began with, and the table may have newer ones.
func (x *Table) filterOf(to *store.EndpointSnapshot) *filter.Pattern {
	if policy := &to.Endpoint.Policy; policy.Filter == "" && len(policy.Channels)+len(policy.Changed) == 0 {
		return nil
	}
	x.mu.RLock()
	p, current := x.filters[to.Endpoint.ID], x.endpoints[to.Endpoint.ID] == to
	x.mu.RUnlock()
	if !current {
		p = parsed(to)
	}
	return p
}
