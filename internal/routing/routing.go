// Package routing keeps the endpoints of the store in memory: who subscribed to what, and how each
// endpoint is configured now.
//
// A [Table] is the node's snapshot of all endpoints that are not deleted. Ingest asks it which
// endpoints want an event ([Table.Match], [Table.MatchNext]). The dispatcher asks it for an
// endpoint's settings ([Table.Lookup]) and subscribes to changes ([Table.Subscribe]). The API
// reports changes with [Table.Notify].
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
//     number of all endpoints: the table is compiled by event type, and only changes
//     are loaded.
//   - A returned slice or snapshot never changes.
//
// The package does not write to the store and does not decide what may be sent.
package routing

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/store"
)

// Table has every endpoint that is not deleted, compiled for matching. Its methods may be called
// from any goroutine.
type Table struct {
	directory store.Directory
	opts      Options
	refresh   sync.Mutex                         // held by the Refresh that is running
	refreshed atomic.Pointer[time.Time]          // when the last successful Refresh began
	notified  *batch.Queue[postrider.EndpointID] // endpoints that Notify named, for Run
	setAside  map[postrider.EndpointID]struct{}  // endpoints whose policy cannot be read; guarded by refresh

	mu        sync.RWMutex
	onChange  func(Change)
	version   int64
	hold      postrider.Hold
	endpoints map[postrider.EndpointID]*store.EndpointSnapshot // a snapshot never changes
	accounts  map[postrider.AccountID]*subscriptions
}

// Options tunes a [Table]. The zero value is the production default.
type Options struct {
	Poll time.Duration // interval between two looks for changes of other nodes; default 1 s
	Log  *slog.Logger  // default: discard
}

// Change says that an endpoint changed. The table already has the change.
type Change struct {
	Endpoint postrider.EndpointID
	Due      bool // Notify was called: deliveries may be due for the endpoint
}

// subscriptions has the endpoints of one account, by subscription. The endpoints that want an event
// of type "order.item.added" are in four lists: exact "order.item.added", and the prefixes
// "order.item.", "order." and "" (the pattern *, which selects no operational event).
//
// Each list is ordered by id, so lists are merged without sorting. A list is never changed: a
// change makes a new one. So a returned match may be read without a lock.
type subscriptions struct {
	exact  map[string][]*store.EndpointSnapshot // by event type
	prefix map[string][]*store.EndpointSnapshot // by the part before the *, as in "order."

	ordered map[postrider.EndpointID]*store.EndpointSnapshot // endpoints with order by_key

	deleted []*store.EndpointSnapshot // endpoints that were deleted within the last hour, with any subscription
}

// deletedFor is how late a fan-out job may be and still find an endpoint that was deleted after the
// job's event was accepted.
const deletedFor = time.Hour

// New returns an empty table for the endpoints of the directory. [Table.Refresh] fills it.
func New(directory store.Directory, opts Options) *Table {
	opts.Poll = cmp.Or(opts.Poll, time.Second)
	opts.Log = cmp.Or(opts.Log, slog.New(slog.DiscardHandler))
	return &Table{
		directory: directory,
		setAside:  map[postrider.EndpointID]struct{}{},
		opts:      opts,
		notified:  batch.NewQueue[postrider.EndpointID](),
		onChange:  func(Change) {},
		endpoints: map[postrider.EndpointID]*store.EndpointSnapshot{},
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
		if !known || len(page.Items) == 0 || page.Items[0].PolicyError != "" {
			return nil
		}
		// Its secrets and its circuit change only with a new version.
		mended := []store.EndpointSnapshot{{Endpoint: page.Items[0], Secrets: was.Secrets, Circuit: was.Circuit}}
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

// Match returns the endpoints that want the event, ordered by id, and the id of the last one. If
// there are more than most, it returns only that id and does not look at the others, so the cost of
// a match is limited. The caller must not change the slice. Today only the account and the type of
// the event decide.
func (x *Table) Match(e *postrider.Event, most int) (matched []*store.EndpointSnapshot, last postrider.EndpointID) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var few [4][]*store.EndpointSnapshot // enough for most types, and allocated on the stack
	lists := x.accounts[e.Account].lists(few[:0], e.Type)
	for _, list := range lists {
		if end := list[len(list)-1].Endpoint.ID; end.Compare(last) > 0 {
			last = end
		}
	}
	if len(lists) == 1 && len(lists[0]) <= most {
		return lists[0], last
	}
	if len(lists) == 0 {
		return nil, last
	}
	for to := range merge(slices.Clone(lists)) {
		if len(matched) == most {
			return nil, last
		}
		matched = append(matched, to)
	}
	return matched, last
}

// WantsOrder reports whether at least one of the endpoints that want the event wants it in the order
// of its ordering key.
func (x *Table) WantsOrder(e *postrider.Event) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	s := x.accounts[e.Account]
	if s == nil {
		return false
	}
	for _, to := range s.ordered {
		if to.Endpoint.Subscribes(e.Type) {
			return true
		}
	}
	return false
}

// MatchNext returns the next n endpoints of a fan-out job after its cursor, ordered by id. They
// include endpoints that were deleted after the event was accepted, whose deliveries are recorded
// as skipped.
func (x *Table) MatchNext(job *store.FanOut, n int) []*store.EndpointSnapshot {
	x.mu.RLock()
	defer x.mu.RUnlock()
	account := x.accounts[job.Event.Account]
	lists := append(account.lists(nil, job.Event.Type), account.deletedSince(job.Event))
	for i, list := range lists {
		at, found := slices.BinarySearchFunc(list, job.Cursor, byID)
		if found {
			at++
		}
		lists[i] = list[at:]
	}
	var matched []*store.EndpointSnapshot
	for to := range merge(lists) {
		if len(matched) == n || to.Endpoint.ID.Compare(job.UpTo) > 0 {
			break
		}
		matched = append(matched, to)
	}
	return matched
}

// apply applies a page of changes. First it stores the new snapshot of each endpoint, and records
// the endpoint in the edits of every list that it leaves or joins. Then it makes each of those
// lists again and sets the version, all under one lock. So a match sees either the whole page or
// nothing of it. Each list is made only once for a page, because an account may have 100,000
// endpoints in one list.
func (x *Table) apply(changes store.Changes) {
	x.mu.Lock()
	defer x.mu.Unlock()
	edits := map[subscribers]edit{}
	for _, to := range changes.Endpoints {
		id := to.Endpoint.ID
		if old := x.endpoints[id]; old != nil {
			account := x.account(old.Endpoint.Account)
			delete(x.endpoints, id)
			delete(account.ordered, id)
			addEdits(edits, account, old, nil)
			if to.Endpoint.Status == postrider.EndpointDeleted {
				account.keepDeleted(&to)
			}
		}
		if to.Endpoint.Status == postrider.EndpointDeleted {
			continue
		}
		account := x.account(to.Endpoint.Account)
		x.endpoints[id] = &to
		if to.Endpoint.Policy.Order == postrider.OrderByKey {
			account.ordered[id] = &to
		}
		addEdits(edits, account, &to, &to)
	}
	for of, e := range edits {
		of.account.edit(of.pattern, e)
	}
	x.version, x.hold = changes.Version, changes.Hold
}

func (x *Table) account(id postrider.AccountID) *subscriptions {
	s := x.accounts[id]
	if s == nil {
		s = &subscriptions{
			exact: map[string][]*store.EndpointSnapshot{}, prefix: map[string][]*store.EndpointSnapshot{},
			ordered: map[postrider.EndpointID]*store.EndpointSnapshot{},
		}
		x.accounts[id] = s
	}
	return s
}

// subscribers names one list: the endpoints of an account that subscribed with the pattern.
type subscribers struct {
	account *subscriptions
	pattern postrider.Pattern
}

// edit is a change of a list: the new snapshot of each endpoint, or nil if the endpoint leaves the
// list.
type edit map[postrider.EndpointID]*store.EndpointSnapshot

// addEdits records the endpoint's new snapshot, or nil, in the edits of all lists that the endpoint
// is in.
func addEdits(edits map[subscribers]edit, account *subscriptions, to, becomes *store.EndpointSnapshot) {
	for _, p := range to.Endpoint.EventTypes {
		of := subscribers{account, p}
		if edits[of] == nil {
			edits[of] = edit{}
		}
		edits[of][to.Endpoint.ID] = becomes
	}
}

// edit replaces the list of one pattern by a new one. Readers keep the old list.
func (s *subscriptions) edit(p postrider.Pattern, e edit) {
	lists, key := s.exact, string(p)
	if prefix, ok := strings.CutSuffix(key, "*"); ok {
		lists, key = s.prefix, prefix
	}
	rest := lists[key]
	list := make([]*store.EndpointSnapshot, 0, len(rest)+len(e))
	for _, id := range slices.SortedFunc(maps.Keys(e), postrider.EndpointID.Compare) {
		at, found := slices.BinarySearchFunc(rest, id, byID)
		list = append(list, rest[:at]...)
		if rest = rest[at:]; found {
			rest = rest[1:]
		}
		if to := e[id]; to != nil {
			list = append(list, to)
		}
	}
	if list = append(list, rest...); len(list) > 0 {
		lists[key] = list
	} else {
		delete(lists, key)
	}
}

// keepDeleted keeps a deleted endpoint for fan-out jobs that are under way.
func (s *subscriptions) keepDeleted(to *store.EndpointSnapshot) {
	s.deleted = slices.DeleteFunc(s.deleted, func(other *store.EndpointSnapshot) bool {
		return to.Endpoint.UpdatedAt.Sub(other.Endpoint.UpdatedAt) > deletedFor
	})
	at, _ := slices.BinarySearchFunc(s.deleted, to.Endpoint.ID, byID)
	s.deleted = slices.Insert(s.deleted, at, to)
}

// deletedSince returns the endpoints that wanted the event and were deleted
// after it was accepted, ordered by id.
func (s *subscriptions) deletedSince(e postrider.Event) []*store.EndpointSnapshot {
	if s == nil {
		return nil
	}
	var deleted []*store.EndpointSnapshot
	for _, to := range s.deleted {
		if !to.Endpoint.UpdatedAt.Before(e.CreatedAt) && to.Endpoint.Subscribes(e.Type) {
			deleted = append(deleted, to)
		}
	}
	return deleted
}

// lists appends the lists of endpoints that want the event type: one for the type itself, and one
// for each of its prefixes that ends in a dot. The prefix "" is also used, unless the event is
// operational.
func (s *subscriptions) lists(lists [][]*store.EndpointSnapshot, eventType string) [][]*store.EndpointSnapshot {
	if s == nil {
		return lists
	}
	if list := s.exact[eventType]; len(list) > 0 {
		lists = append(lists, list)
	}
	if list := s.prefix[""]; len(list) > 0 && !postrider.IsOperational(eventType) {
		lists = append(lists, list)
	}
	for i := range len(eventType) {
		if eventType[i] != '.' {
			continue
		}
		if list := s.prefix[eventType[:i+1]]; len(list) > 0 {
			lists = append(lists, list)
		}
	}
	return lists
}

// merge yields the endpoints of ordered lists in the order of their ids, each once. It changes the
// slice of lists, but not the lists.
func merge(rest [][]*store.EndpointSnapshot) iter.Seq[*store.EndpointSnapshot] {
	return func(yield func(*store.EndpointSnapshot) bool) {
		for {
			var least *store.EndpointSnapshot
			for _, list := range rest {
				if len(list) > 0 && (least == nil || list[0].Endpoint.ID.Compare(least.Endpoint.ID) < 0) {
					least = list[0]
				}
			}
			if least == nil || !yield(least) {
				return
			}
			for i, list := range rest {
				if len(list) > 0 && list[0] == least {
					rest[i] = list[1:]
				}
			}
		}
	}
}

func byID(to *store.EndpointSnapshot, id postrider.EndpointID) int { return to.Endpoint.ID.Compare(id) }
