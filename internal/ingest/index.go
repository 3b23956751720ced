package ingest

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
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// Index is every endpoint that is not deleted, in memory, compiled so that
// matching an event costs what matches and not what there is. It is never
// reloaded: [Index.Refresh] applies what changed since the version it has. Its
// methods may be called from any goroutine.
type Index struct {
	directory store.Directory
	opts      IndexOptions
	refresh   sync.Mutex // held by the one Refresh at work

	mu        sync.RWMutex
	version   int64
	endpoints map[postrider.EndpointID]*store.Routed // the values are never changed
	accounts  map[postrider.AccountID]*subscriptions
}

// IndexOptions tunes an [Index]. The zero value is the production default.
type IndexOptions struct {
	Poll     time.Duration         // between two looks for changes; default 1 s
	OnChange func(to store.Routed) // hears of every change after it was applied; default: nobody does
	Log      *slog.Logger          // default: discard
}

// subscriptions are the endpoints of one account by what they subscribed to,
// each list ordered by id. A list only grows at its end; any other change makes
// a new one, so that who has it may read on.
type subscriptions struct {
	exact  map[string][]*store.Routed // by event type
	prefix map[string][]*store.Routed // by what stands before the *, as in "order."

	ordered map[postrider.EndpointID]*store.Routed // those with order by_key

	deleted []*store.Routed // within the last hour, whatever they subscribed to
}

// deletedFor is how long a fan-out job can be late and still find an endpoint
// that was deleted after its event was accepted.
const deletedFor = time.Hour

// NewIndex returns an empty index of the directory's endpoints.
func NewIndex(directory store.Directory, opts IndexOptions) *Index {
	opts.Poll = cmp.Or(opts.Poll, time.Second)
	opts.Log = cmp.Or(opts.Log, slog.New(slog.DiscardHandler))
	if opts.OnChange == nil {
		opts.OnChange = func(store.Routed) {}
	}
	return &Index{
		directory: directory,
		opts:      opts,
		endpoints: map[postrider.EndpointID]*store.Routed{},
		accounts:  map[postrider.AccountID]*subscriptions{},
	}
}

// Run applies changes that other nodes made, until ctx is cancelled.
func (x *Index) Run(ctx context.Context) error {
	tick := time.NewTicker(x.opts.Poll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := x.Refresh(ctx); err != nil && ctx.Err() == nil {
			x.opts.Log.WarnContext(ctx, "subscriptions not refreshed", "error", err)
		}
	}
}

// Refresh applies every change that was committed before it was called.
func (x *Index) Refresh(ctx context.Context) error {
	x.refresh.Lock()
	defer x.refresh.Unlock()
	const page = 1000
	for {
		changes, err := x.directory.Changes(ctx, x.Version(), page)
		if err != nil {
			return fmt.Errorf("refresh subscriptions: %w", err)
		}
		x.apply(changes)
		for _, to := range changes.Endpoints {
			x.opts.OnChange(to)
		}
		if len(changes.Endpoints) < page {
			return nil
		}
	}
}

// Version returns the version of the subscriptions that the index has.
func (x *Index) Version() int64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.version
}

// Lookup returns an endpoint as it is now, which must not be changed; false: it
// is unknown or deleted.
func (x *Index) Lookup(id postrider.EndpointID) (*store.Routed, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	to := x.endpoints[id]
	return to, to != nil
}

// match returns the endpoints that want the event type, ordered by id, and the
// last of them. When there are more than most, it returns the last one alone,
// without looking at the others: so a match costs the same however many there
// are. What it returns is not to be written to.
func (x *Index) match(account postrider.AccountID, eventType string, most int) (matched []*store.Routed, last postrider.EndpointID) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var few [4][]*store.Routed // which is enough for most types, and stays on the stack
	lists := x.accounts[account].lists(few[:0], eventType)
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

// orders reports whether an endpoint that wants the event type wants it in the
// order of its ordering key.
func (x *Index) orders(account postrider.AccountID, eventType string) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	s := x.accounts[account]
	if s == nil {
		return false
	}
	for _, to := range s.ordered {
		if to.Endpoint.Subscribes(eventType) {
			return true
		}
	}
	return false
}

// matchNext returns the first n of the endpoints that the job has still to
// serve, ordered by id, those that were deleted after its event was accepted
// among them: the event must have a fate at them, too.
func (x *Index) matchNext(job *store.FanOut, n int) []*store.Routed {
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
	var matched []*store.Routed
	for to := range merge(lists) {
		if len(matched) == n || to.Endpoint.ID.Compare(job.UpTo) > 0 {
			break
		}
		matched = append(matched, to)
	}
	return matched
}

// apply takes changes over. However many they are, each list of subscribers is
// made anew once: an account may have 100,000 in one.
func (x *Index) apply(changes store.Changes) {
	x.mu.Lock()
	defer x.mu.Unlock()
	edits := map[subscribers]edit{}
	for _, to := range changes.Endpoints {
		id := to.Endpoint.ID
		if old := x.endpoints[id]; old != nil {
			account := x.account(old.Endpoint.Account)
			delete(x.endpoints, id)
			delete(account.ordered, id)
			note(edits, account, old, nil)
			if to.Endpoint.Status == postrider.EndpointDeleted {
				account.bury(&to)
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
		note(edits, account, &to, &to)
	}
	for of, e := range edits {
		of.account.edit(of.pattern, e)
	}
	x.version = changes.Version
}

func (x *Index) account(id postrider.AccountID) *subscriptions {
	s := x.accounts[id]
	if s == nil {
		s = &subscriptions{
			exact: map[string][]*store.Routed{}, prefix: map[string][]*store.Routed{},
			ordered: map[postrider.EndpointID]*store.Routed{},
		}
		x.accounts[id] = s
	}
	return s
}

// subscribers names the list of those of an account that subscribed with a
// pattern.
type subscribers struct {
	account *subscriptions
	pattern postrider.Pattern
}

// edit is how a list changes: who is in it from now on, or with nil is not.
type edit map[postrider.EndpointID]*store.Routed

// note notes what an endpoint becomes in the lists that it belongs in.
func note(edits map[subscribers]edit, account *subscriptions, to, becomes *store.Routed) {
	for _, p := range to.Endpoint.EventTypes {
		of := subscribers{account, p}
		if edits[of] == nil {
			edits[of] = edit{}
		}
		edits[of][to.Endpoint.ID] = becomes
	}
}

// edit changes the list of those that subscribed with the pattern. What
// readers have of it stays as it was.
func (s *subscriptions) edit(p postrider.Pattern, e edit) {
	lists, key := s.exact, string(p)
	if prefix, ok := strings.CutSuffix(key, "*"); ok {
		lists, key = s.prefix, prefix
	}
	rest := lists[key]
	list := make([]*store.Routed, 0, len(rest)+len(e))
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

// bury keeps a deleted endpoint for the fan-out jobs that are under way.
func (s *subscriptions) bury(to *store.Routed) {
	s.deleted = slices.DeleteFunc(s.deleted, func(other *store.Routed) bool {
		return to.Endpoint.UpdatedAt.Sub(other.Endpoint.UpdatedAt) > deletedFor
	})
	at, _ := slices.BinarySearchFunc(s.deleted, to.Endpoint.ID, byID)
	s.deleted = slices.Insert(s.deleted, at, to)
}

// deletedSince returns the endpoints that wanted the event and were deleted
// after it was accepted, ordered by id.
func (s *subscriptions) deletedSince(e postrider.Event) []*store.Routed {
	if s == nil {
		return nil
	}
	var deleted []*store.Routed
	for _, to := range s.deleted {
		if !to.Endpoint.UpdatedAt.Before(e.CreatedAt) && to.Endpoint.Subscribes(e.Type) {
			deleted = append(deleted, to)
		}
	}
	return deleted
}

// lists appends the lists of the endpoints that want the event type: one for
// the type itself and one for each prefix of it that ends in a dot, "" too.
func (s *subscriptions) lists(lists [][]*store.Routed, eventType string) [][]*store.Routed {
	if s == nil {
		return lists
	}
	if list := s.exact[eventType]; len(list) > 0 {
		lists = append(lists, list)
	}
	if list := s.prefix[""]; len(list) > 0 {
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

// merge yields the endpoints of ordered lists in order, each once, and uses the
// lists up.
func merge(rest [][]*store.Routed) iter.Seq[*store.Routed] {
	return func(yield func(*store.Routed) bool) {
		for {
			var least *store.Routed
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

func byID(to *store.Routed, id postrider.EndpointID) int { return to.Endpoint.ID.Compare(id) }
