package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// quotaUse is how much of its quotas an account has used.
type quotaUse struct {
	rate, burst int64
	events      float64 // number of events that the account could publish at the time at
	at          time.Time
	asked       int64
	day         time.Time
	bytes       int64 // bytes of the day
}

// eventsAt returns how many events the account may publish at the time now.
func (u quotaUse) eventsAt(now time.Time) float64 {
	return min(float64(u.burst), u.events+float64(u.rate)*max(0, now.Sub(u.at).Seconds()))
}

// PutQuotas implements [store.Quotas].
func (s *Store) PutQuotas(_ context.Context, account postrider.AccountID, q postrider.Quotas) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a, ok := s.accounts.get(account); !ok || !a.DeletedAt.IsZero() {
		return fmt.Errorf("put quotas of account %s: %w", account, postrider.ErrNotFound)
	}
	s.version++
	s.quotas[account] = store.AccountQuotas{Account: account, Quotas: q, Version: s.version}
	return nil
}

// Quotas implements [store.Quotas].
func (s *Store) Quotas(_ context.Context, q store.QuotaQuery) (found []store.AccountQuotas, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.quotas {
		if selects(q.Account, a.Account) && a.Version > q.After {
			found = append(found, a)
		}
	}
	slices.SortFunc(found, func(a, b store.AccountQuotas) int { return cmp.Compare(a.Version, b.Version) })
	if q.Limit > 0 && len(found) > q.Limit {
		found = found[:q.Limit]
	}
	return found, nil
}

// SpendQuotas implements [store.Quotas].
func (s *Store) SpendQuotas(_ context.Context, spends []store.QuotaSpend) (states []store.QuotaState, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	day, _ := store.QuotaDay(s.wall())
	for _, p := range spends {
		u, known := s.quotaUse[p.Account]
		if !known {
			u = quotaUse{events: float64(p.Burst), at: now}
		}
		if u.day.Before(day) {
			u.day, u.bytes = day, 0
		}
		u.rate, u.burst = p.Rate, p.Burst
		u.events, u.at = u.eventsAt(now)-float64(p.Events), now
		u.asked += p.Asked
		u.bytes += p.Bytes
		s.quotaUse[p.Account] = u
		states = append(states, store.QuotaState{Account: p.Account, Events: u.events, Asked: u.asked, Bytes: u.bytes})
	}
	return states, nil
}

// QuotaUse implements [store.Quotas].
func (s *Store) QuotaUse(_ context.Context, account postrider.AccountID) (use postrider.QuotaUse, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	day, ends := store.QuotaDay(s.wall())
	use.DayEnds, use.Endpoints = ends, s.endpointsOfLocked(account)
	u := s.quotaUse[account]
	use.Missing = float64(u.burst) - u.eventsAt(s.now())
	if !u.day.Before(day) {
		use.Bytes = u.bytes
	}
	return use, nil
}

// endpointsOfLocked counts the endpoints of an account.
func (s *Store) endpointsOfLocked(account postrider.AccountID) (n int64) {
	for _, e := range s.endpoints.rows {
		if e.Account == account && !e.deleted() {
			n++
		}
	}
	return n
}

// EndpointBacklogs implements [store.Quotas].
func (s *Store) EndpointBacklogs(_ context.Context, q store.BacklogsQuery) (backlogs []postrider.EndpointBacklog, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	limited := q.Default > 0
	for _, a := range s.quotas {
		limited = limited || a.Quotas.Backlog > 0
	}
	waiting := map[postrider.EndpointID]int64{}
	for _, d := range s.deliveries.rows {
		if limited && d.status == postrider.Pending {
			waiting[d.endpoint]++
		}
	}
	counted := int64(0)
	for _, e := range s.endpoints.after(q.After) {
		if len(backlogs) == q.Max || counted >= q.Count {
			break
		}
		if waiting[e.ID] == 0 && (e.FullSince.IsZero() || e.deleted()) {
			continue
		}
		b := postrider.EndpointBacklog{Endpoint: e.ID}
		if !e.deleted() {
			b.Account, b.Full, b.Limit = e.Account, e.FullSince, s.quotas[e.Account].Quotas.Or(postrider.Quotas{Backlog: q.Default}).Backlog
			b.Waiting = min(waiting[e.ID], b.Limit)
		}
		counted += b.Waiting
		backlogs = append(backlogs, b)
	}
	return backlogs, nil
}

// MarkFull implements [store.Quotas].
func (s *Store) MarkFull(_ context.Context, m store.MarkFull) ([]postrider.Notice, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	mark := func(ids []postrider.EndpointID, since time.Time) {
		for _, id := range ids {
			e, ok := s.endpoints.get(id)
			if !ok || e.deleted() {
				continue
			}
			if since.IsZero() || e.FullSince.IsZero() {
				e.FullSince = since
			}
			s.changeLocked(e)
		}
	}
	mark(m.Full, s.wall())
	mark(m.Free, time.Time{})
	return s.putNoticesLocked(m.Notices), nil
}
