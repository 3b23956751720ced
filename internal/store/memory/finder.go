package memory

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// Find implements [store.Finder].
func (s *Store) Find(_ context.Context, q store.FindQuery) ([]store.Found, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := append(s.namedLocked(store.SearchText(q.Text)), s.keyedLocked(q.Text)...)
	for _, e := range s.endpoints.rows {
		if slices.ContainsFunc(e.secrets, func(secret postrider.Secret) bool { return secret.ID == q.Secret }) {
			found = append(found, store.Found{By: store.FoundBySecret, Account: e.Account, Endpoint: e.ID})
		}
	}
	found = slices.DeleteFunc(found, func(f store.Found) bool { return !selects(q.Account, f.Account) })
	slices.SortFunc(found, func(a, b store.Found) int {
		return cmp.Or(cmp.Compare(a.By, b.By), idOf(b).Compare(idOf(a)))
	})
	return found[:min(len(found), q.Limit)], nil
}

// idOf returns the id of the object that was found, as an AccountID whatever its type.
func idOf(f store.Found) postrider.AccountID {
	return cmp.Or(postrider.AccountID(f.Event), postrider.AccountID(f.Endpoint), f.Account)
}

// namedLocked finds the accounts and endpoints with a search term that begins with the prefix.
func (s *Store) namedLocked(prefix string) (found []store.Found) {
	begins := func(term string) bool { return prefix != "" && strings.HasPrefix(term, prefix) }
	for _, a := range s.accounts.rows {
		if slices.ContainsFunc(store.AccountTerms(a), begins) {
			found = append(found, store.Found{By: store.FoundByName, Account: a.ID})
		}
	}
	for _, e := range s.endpoints.rows {
		if slices.ContainsFunc(store.EndpointTerms(e.Endpoint), begins) {
			found = append(found, store.Found{By: store.FoundByName, Account: e.Account, Endpoint: e.ID})
		}
	}
	return found
}

// keyedLocked finds the events whose idempotency key or ordering key is the text.
func (s *Store) keyedLocked(text string) (found []store.Found) {
	if text == "" {
		return nil
	}
	for key, owner := range s.keyOwners {
		if key.Key == text {
			found = append(found, store.Found{By: store.FoundByIdempotencyKey, Account: key.Account, Event: owner.Event})
		}
	}
	newest := map[postrider.AccountID]postrider.EventID{}
	for _, e := range s.events.rows { // oldest first
		if e.OrderingKey == text {
			newest[e.Account] = e.ID
		}
	}
	for account, event := range newest {
		found = append(found, store.Found{By: store.FoundByOrderingKey, Account: account, Event: event})
	}
	return found
}

// FindEvents implements [store.Finder].
func (s *Store) FindEvents(_ context.Context, q store.TermQuery) (store.Page[postrider.EventID], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return list(&s.events, q.Paging, postrider.EventID{}, func(e *event) (postrider.EventID, bool) {
		has := slices.ContainsFunc(e.terms, func(t store.Term) bool { return slices.Contains(q.Terms, t) })
		return e.ID, has && within(q.Span, e.ID.Time())
	})
}

// DeadLetterGroups implements [store.Finder].
func (s *Store) DeadLetterGroups(_ context.Context, q store.DeadLetterGroupQuery) (store.Page[store.DeadLetterGroup], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	cursor, paged, err := store.IDKey[postrider.DeliveryID](q.Paging)
	if err != nil {
		return store.Page[store.DeadLetterGroup]{}, err
	}
	selected := func(l *postrider.DeadLetter) bool {
		return l != nil && selects(q.Account, l.Account) && selects(q.Endpoint, l.Endpoint)
	}
	last, ok := s.deliveries.get(cursor)
	if paged && (!ok || !selected(last.deadLetter)) {
		return store.Page[store.DeadLetterGroup]{}, nil
	}
	groups := map[store.DeadLetterGroup]store.DeadLetterGroup{} // the key has only the cause
	for _, d := range s.deliveries.rows {                       // oldest first
		l := d.deadLetter
		if !selected(l) || l.Resolution != "" {
			continue
		}
		cause := causeOf(l)
		g, known := groups[cause]
		if !known {
			g, g.Oldest = cause, l.Delivery
		}
		g.Count, g.Newest = min(g.Count+1, 1000), l.Delivery
		groups[cause] = g
	}
	var page []store.DeadLetterGroup
	for cause, g := range groups {
		if !paged || byCause(cause, causeOf(last.deadLetter)) > 0 {
			page = append(page, g)
		}
	}
	slices.SortFunc(page, byCause)
	return store.Cut(page, q.Paging, func(g store.DeadLetterGroup) string { return string(g.Newest[:]) }), nil
}

// causeOf returns a group with only the cause of the dead letter.
func causeOf(l *postrider.DeadLetter) store.DeadLetterGroup {
	return store.DeadLetterGroup{
		Account: l.Account, Endpoint: l.Endpoint, Reason: l.Reason, LastStatusCode: l.LastStatusCode, LastError: l.LastError,
	}
}

// byCause compares groups in the order of the list.
func byCause(a, b store.DeadLetterGroup) int {
	return cmp.Or(b.Account.Compare(a.Account), b.Endpoint.Compare(a.Endpoint), cmp.Compare(b.Reason, a.Reason),
		cmp.Compare(b.LastStatusCode, a.LastStatusCode), cmp.Compare(b.LastError, a.LastError))
}
