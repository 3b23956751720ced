package routing

import (
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/filter"
	"github.com/postrider/postrider/internal/store"
)

// subscriptions has the endpoints of one account, by subscription. The endpoints that want an event
// of type "order.item.added" are in four lists: exact "order.item.added", and the prefixes
// "order.item.", "order." and "" (the pattern *, which selects no operational event).
type subscriptions struct {
	exact  map[string]subscribers // by event type
	prefix map[string]subscribers // by the part before the *, as in "order."

	ordered    map[postrider.EndpointID]*store.EndpointSnapshot // endpoints with order by_key
	conditions map[postrider.EndpointID]*conditioned            // of the endpoints that have one; nil: none has

	filtered int   // endpoints that have a filter
	edition  int64 // how often endpoints have changed

	deleted []*store.EndpointSnapshot // endpoints that were deleted within the last hour, with any subscription

	changed   map[postrider.EndpointID]*store.EndpointSnapshot // endpoints whose subscription ever changed
	changedAt time.Time                                        // of the last change of a subscription

	evaluation evaluation
}

// subscribers are the endpoints that subscribed with one pattern of types: all of them, those that
// have no filter, and the filters of the others by their endpoints. An endpoint with channels, changed
// paths or a condition has a filter, if only of these or an empty one.
//
// The lists are ordered by id, so they are merged without sorting. A list is never changed: a change
// makes a new one. So a returned match may be read without a lock.
type subscribers struct {
	all     []*store.EndpointSnapshot
	plain   []*store.EndpointSnapshot
	filters *filter.Index[postrider.EndpointID] // nil: none
}

// deletedFor is how late a fan-out job may be and still find an endpoint that was deleted after the
// job's event was accepted.
const deletedFor = time.Hour

// apply applies a page of changes. First it stores the new snapshot of each endpoint, and records
// the endpoint in the edits of every list that it leaves or joins. Then it makes each of those
// lists again and sets the version, all under one lock. So a match sees either the whole page or
// nothing of it. Each list is made only once for a page, because an account may have 100,000
// endpoints in one list.
func (x *Table) apply(changes store.Changes) {
	filters, conditions := make([]*filter.Pattern, len(changes.Endpoints)), make([]*conditioned, len(changes.Endpoints))
	for i := range changes.Endpoints {
		filters[i], conditions[i] = parsed(&changes.Endpoints[i]), compiled(&changes.Endpoints[i])
		if filters[i] == nil && conditions[i] != nil {
			filters[i] = filters[i].WithChanged(nil) // holds for all events
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	edits := map[pattern]edit{}
	for i, to := range changes.Endpoints {
		id := to.Endpoint.ID
		if old := x.endpoints[id]; old != nil {
			account := x.account(old.Endpoint.Account)
			delete(x.endpoints, id)
			if account.edition++; x.filters[id] != nil {
				account.filtered--
			}
			delete(x.filters, id)
			delete(account.ordered, id)
			delete(account.conditions, id)
			delete(account.changed, id)
			addEdits(edits, account, old, becomes{})
			if to.Endpoint.Status == postrider.EndpointDeleted {
				account.keepDeleted(&to)
				account.keepChanged(&to)
			}
		}
		if to.Endpoint.Status == postrider.EndpointDeleted {
			continue
		}
		account := x.account(to.Endpoint.Account)
		x.endpoints[id] = &to
		if account.edition++; filters[i] != nil {
			account.filtered++
			x.filters[id] = filters[i]
		}
		if to.Endpoint.Policy.Order == postrider.OrderByKey {
			account.ordered[id] = &to
		}
		if conditions[i] != nil {
			if account.conditions == nil {
				account.conditions = map[postrider.EndpointID]*conditioned{}
			}
			account.conditions[id] = conditions[i]
		}
		account.keepChanged(&to)
		addEdits(edits, account, &to, becomes{&to, filters[i]})
	}
	for of, e := range edits {
		of.account.edit(of.types, e)
	}
	x.version, x.hold = changes.Version, changes.Hold
	if changes.Paths != nil {
		x.paths = parsePaths(changes.Paths)
	}
}

// parsePaths parses the paths of event types. It leaves out a path that this version cannot parse.
func parsePaths(texts map[string][]string) map[string][]postrider.Path {
	paths := map[string][]postrider.Path{}
	for name, list := range texts {
		for _, text := range list {
			if p, err := postrider.ParsePath("paths", text); err == nil {
				paths[name] = append(paths[name], p)
			}
		}
	}
	return paths
}

// parsed returns the filter of an endpoint together with its channels and changed paths; nil: it has none.
// There is no error, because the store sets an endpoint aside whose filter cannot be parsed: such an
// endpoint has no filter, and its events create deliveries, which wait.
func parsed(to *store.EndpointSnapshot) (p *filter.Pattern) {
	policy := &to.Endpoint.Policy
	if policy.Filter != "" {
		p, _ = filter.Parse([]byte(policy.Filter))
	}
	if len(policy.Channels) > 0 {
		p = p.WithChannels(policy.Channels)
	}
	if len(policy.Changed) > 0 {
		p = p.WithChanged(policy.Changed)
	}
	return p
}

func (x *Table) account(id postrider.AccountID) *subscriptions {
	s := x.accounts[id]
	if s == nil {
		s = &subscriptions{
			exact: map[string]subscribers{}, prefix: map[string]subscribers{},
			ordered: map[postrider.EndpointID]*store.EndpointSnapshot{}, changed: map[postrider.EndpointID]*store.EndpointSnapshot{},
		}
		x.accounts[id] = s
	}
	return s
}

// pattern names the subscribers of one pattern of types of an account.
type pattern struct {
	account *subscriptions
	types   postrider.Pattern
}

// edit is a change of subscribers: what becomes of each endpoint.
type edit map[postrider.EndpointID]becomes

// becomes is the new snapshot of an endpoint with its filter. If the snapshot is nil, the endpoint
// leaves; if the filter is nil, it has none.
type becomes struct {
	to     *store.EndpointSnapshot
	filter *filter.Pattern
}

// addEdits records what becomes of an endpoint in the edits of all its patterns of types.
func addEdits(edits map[pattern]edit, account *subscriptions, to *store.EndpointSnapshot, b becomes) {
	for _, p := range to.Endpoint.EventTypes {
		of := pattern{account, p}
		if edits[of] == nil {
			edits[of] = edit{}
		}
		edits[of][to.Endpoint.ID] = b
	}
}

// edit changes the subscribers of one pattern of types.
func (s *subscriptions) edit(p postrider.Pattern, e edit) {
	of, key := s.exact, string(p)
	if prefix, ok := strings.CutSuffix(key, "*"); ok {
		of, key = s.prefix, prefix
	}
	edited := of[key]
	edited.all = e.of(edited.all, false)
	for id, b := range e {
		switch {
		case b.filter != nil && edited.filters == nil:
			edited.filters = new(filter.Index[postrider.EndpointID])
			edited.filters.Set(id, b.filter)
		case b.filter != nil:
			edited.filters.Set(id, b.filter)
		case edited.filters != nil:
			edited.filters.Remove(id)
		}
	}
	if edited.filters == nil || edited.filters.Len() == 0 {
		edited.plain, edited.filters = edited.all, nil
	} else {
		edited.plain = e.of(edited.plain, true)
	}
	if len(edited.all) > 0 {
		of[key] = edited
	} else {
		delete(of, key)
	}
}

// of returns a new list with the edit. If plain is true, endpoints with a filter leave it.
func (e edit) of(rest []*store.EndpointSnapshot, plain bool) []*store.EndpointSnapshot {
	list := make([]*store.EndpointSnapshot, 0, len(rest)+len(e))
	for _, id := range slices.SortedFunc(maps.Keys(e), postrider.EndpointID.Compare) {
		at, found := slices.BinarySearchFunc(rest, id, byID)
		list = append(list, rest[:at]...)
		if rest = rest[at:]; found {
			rest = rest[1:]
		}
		if b := e[id]; b.to != nil && !(plain && b.filter != nil) {
			list = append(list, b.to)
		}
	}
	return append(list, rest...)
}

// keepDeleted keeps a deleted endpoint for fan-out jobs that are under way.
func (s *subscriptions) keepDeleted(to *store.EndpointSnapshot) {
	s.deleted = slices.DeleteFunc(s.deleted, func(other *store.EndpointSnapshot) bool {
		return to.Endpoint.UpdatedAt.Sub(other.Endpoint.UpdatedAt) > deletedFor
	})
	at, _ := slices.BinarySearchFunc(s.deleted, to.Endpoint.ID, byID)
	s.deleted = slices.Insert(s.deleted, at, to)
}

// deletedSince returns the endpoints that the event was for and that were deleted
// after it was accepted, ordered by id.
func (s *subscriptions) deletedSince(e postrider.Event) []*store.EndpointSnapshot {
	if s == nil {
		return nil
	}
	var deleted []*store.EndpointSnapshot
	for _, to := range s.deleted {
		if !to.Endpoint.UpdatedAt.Before(e.CreatedAt) && e.IsFor(&to.Endpoint) {
			deleted = append(deleted, to)
		}
	}
	return deleted
}

// subscribers appends the subscribers to the event type: one element for the type itself, and one for
// each of its prefixes that ends in a dot. The prefix "" is also used, unless the event is
// operational.
func (s *subscriptions) subscribers(of []subscribers, eventType string) []subscribers {
	if s == nil {
		return of
	}
	add := func(found subscribers) {
		if len(found.all) > 0 {
			of = append(of, found)
		}
	}
	add(s.exact[eventType])
	if !postrider.IsOperational(eventType) {
		add(s.prefix[""])
	}
	for i := range len(eventType) {
		if eventType[i] == '.' {
			add(s.prefix[eventType[:i+1]])
		}
	}
	return of
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

func byIDs(a, b *store.EndpointSnapshot) int { return a.Endpoint.ID.Compare(b.Endpoint.ID) }
