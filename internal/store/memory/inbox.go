package memory

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

type event struct {
	*postrider.Event // not written after it is stored, because claims share it
	terms            []store.Term
	deliveries       table[postrider.DeliveryID, *delivery]
}

type ownedKey struct {
	store.KeyOwner
	at time.Time
}

type orderingKey struct {
	account postrider.AccountID
	key     string
}

type fanOut struct {
	store.FanOut
	of  *event
	due time.Time // when the job is due; if it is leased, the end of the lease
}

// Publish implements [store.Inbox].
func (s *Store) Publish(_ context.Context, p store.Publish) ([]store.Published, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.Version != s.version {
		return nil, fmt.Errorf("publish: %w", store.ErrMoved)
	}
	owners := map[store.Key]store.KeyOwner{}
	for _, key := range store.Keys(p.Batches) {
		if owner, ok := s.keyOwners[key]; ok {
			owners[key] = owner.KeyOwner
		}
	}
	recorded := store.Recorded{}
	for _, r := range store.ReadRows(p.Batches) {
		if row, ok := s.outboxRows[r.ID]; ok {
			recorded[r.ID] = row.event
		}
	}
	deduped := store.Dedupe(p.Batches, owners, recorded)
	now := s.now()
	for id, event := range deduped.NewRows {
		s.outboxRows[id] = recordedRow{event, stored(s.wall())}
	}
	for key, owner := range deduped.NewKeys {
		if _, repeated := s.keyOwners[key]; !repeated {
			s.keyOwners[key] = ownedKey{owner, now}
		}
	}
	for _, e := range deduped.New {
		if _, repeated := s.events.get(e.Event.ID); !repeated {
			s.storeLocked(*e, now)
		}
	}
	for _, published := range deduped.Published {
		for i, e := range published.Events {
			if first, ok := s.events.get(e.ID); ok {
				published.Events[i].Sequence = first.Sequence
			}
		}
	}
	return deduped.Published, nil
}

func (s *Store) storeLocked(e store.NewEvent, now time.Time) {
	occurred := stored(e.Event.OccurredAt)
	stored := e.Event
	stored.Data, stored.About.Previous = slices.Clone(stored.Data), slices.Clone(stored.About.Previous)
	stored.OccurredAt = occurred
	stored.CreatedAt = stored.ID.Time()
	if stored.OrderingKey != "" {
		order := orderingKey{stored.Account, stored.OrderingKey}
		s.sequences[order] = max(s.sequences[order], s.lowest) + 1
		stored.Sequence = s.sequences[order]
	}
	row := &event{Event: &stored, terms: slices.Clone(e.Terms)}
	s.events.put(stored.ID, row)
	if !e.FanOutUpTo.IsZero() {
		job := &fanOut{store.FanOut{Event: stored, UpTo: e.FanOutUpTo, AcceptedAt: s.wall()}, row, now}
		s.fanOuts.put(stored.ID, job)
		return
	}
	for _, d := range e.Deliveries {
		s.enqueueLocked(row, d, now)
	}
}

func (s *Store) enqueueLocked(e *event, n store.NewDelivery, now time.Time) {
	d := &delivery{
		id: n.ID, event: e, endpoint: n.Endpoint, lane: n.Lane, status: postrider.Pending,
		due: now.Add(n.Wait), expires: now.Add(n.Expiry), at: -1, ordered: n.Ordered, step: n.Step,
	}
	s.addLocked(d)
	switch {
	case n.Skipped != "":
		d.decide(postrider.Skipped, n.Skipped, now)
		return
	case n.Token != 0:
		d.claims, d.token, d.due = 1, n.Token, now.Add(n.Lease)
	}
	if s.mayBeDueLocked(d) {
		s.laneOf(d).push(d)
	}
}

func (s *Store) addLocked(d *delivery) {
	d.count = func(outcome postrider.Outcome, number int, after postrider.Status) {
		s.rollups.record(d, outcome, number, after)
	}
	s.deliveries.put(d.id, d)
	d.event.deliveries.put(d.id, d)
}

// ClaimFanOuts implements [store.Inbox].
func (s *Store) ClaimFanOuts(_ context.Context, c store.ClaimFanOuts) ([]store.FanOut, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	var jobs []store.FanOut
	for _, job := range s.fanOuts.rows {
		if len(jobs) == c.Max {
			break
		}
		if job.due.After(now) || slices.Contains(c.Except, job.Event.Account) {
			continue
		}
		job.Token, job.due = c.Token, now.Add(c.Lease)
		jobs = append(jobs, job.FanOut)
	}
	return jobs, nil
}

// FanOut implements [store.Inbox].
func (s *Store) FanOut(_ context.Context, c store.FanOutChunk) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	job, ok := s.fanOuts.get(c.Event)
	if !ok || job.Token != c.Token || job.Cursor != c.From {
		return fmt.Errorf("fan out %s: %w", c.Event, postrider.ErrFenced)
	}
	now := s.now()
	for _, d := range c.Deliveries {
		s.enqueueLocked(job.of, d, now)
	}
	job.Cursor, job.due = c.To, now.Add(c.Lease)
	if c.Done {
		s.fanOuts.remove(c.Event)
	}
	return nil
}
