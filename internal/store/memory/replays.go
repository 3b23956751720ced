package memory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

type replayJob struct {
	postrider.ReplayJob
	token postrider.Token
	due   time.Time // when the job is due; if it is leased, the end of the lease
	made  []*delivery
}

// PutReplayJob implements [store.Replays].
func (s *Store) PutReplayJob(_ context.Context, job postrider.ReplayJob) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, repeated := s.replayJobs.get(job.ID); repeated {
		return nil
	}
	for _, other := range s.replayJobs.rows {
		if job.Action == postrider.ActionBackfill && other.backfills(job.Filter.Endpoint) {
			return fmt.Errorf("put replay job %s: endpoint %s has a backfill: %w", job.ID, job.Filter.Endpoint, postrider.ErrConflict)
		}
	}
	job.Filter.EventTypes, job.Filter.Statuses = slices.Clone(job.Filter.EventTypes), slices.Clone(job.Filter.Statuses)
	job.Status = postrider.ReplayRunning
	s.replayJobs.put(job.ID, &replayJob{ReplayJob: job, due: s.now()})
	return nil
}

// ReplayJobs implements [store.Replays].
func (s *Store) ReplayJobs(_ context.Context, q store.ReplayJobQuery) (store.Page[postrider.ReplayJob], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return list(&s.replayJobs, q.Paging, q.ID, func(job *replayJob) (postrider.ReplayJob, bool) {
		item := job.ReplayJob
		if !q.ID.IsZero() {
			item.Made = job.tally()
		}
		return item, selects(q.Account, job.Filter.Account) && selects(q.Status, job.Status) &&
			(q.Backfills.IsZero() || job.backfills(q.Backfills))
	})
}

// tally counts the deliveries that the job made, by status.
func (j *replayJob) tally() (t postrider.ReplayTally) {
	for _, d := range j.made {
		switch d.status {
		case postrider.Pending:
			t.Pending++
		case postrider.Delivered:
			t.Delivered++
		case postrider.Dead:
			t.Dead++
		case postrider.Cancelled:
			t.Cancelled++
		case postrider.Skipped: // a replay is never skipped
		}
	}
	return t
}

// SetReplayJob implements [store.Replays].
func (s *Store) SetReplayJob(_ context.Context, r store.SetReplayJob) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	job, ok := s.replayJobs.get(r.ID)
	switch {
	case !ok || !selects(r.Account, job.Filter.Account):
		return fmt.Errorf("replay job %s: %w", r.ID, postrider.ErrNotFound)
	case job.Status == r.Status:
		return nil
	case job.Status.Ended():
		return fmt.Errorf("replay job %s is %s: %w", r.ID, job.Status, postrider.ErrConflict)
	}
	job.Status, job.token, job.due = r.Status, 0, s.now()
	if r.Status.Ended() {
		job.EndedAt = stored(s.wall())
	}
	return nil
}

// ClaimReplayJobs implements [store.Replays].
func (s *Store) ClaimReplayJobs(_ context.Context, c store.ClaimReplayJobs) ([]postrider.ReplayJob, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	due := slices.DeleteFunc(slices.Clone(s.replayJobs.rows), func(job *replayJob) bool {
		return job.Status != postrider.ReplayRunning || job.due.After(now)
	})
	slices.SortStableFunc(due, func(a, b *replayJob) int { return a.due.Compare(b.due) })
	var jobs []postrider.ReplayJob
	for _, job := range due[:min(c.Max, len(due))] {
		job.token, job.due = c.Token, now.Add(c.Lease)
		jobs = append(jobs, job.ReplayJob)
	}
	slices.SortFunc(jobs, func(a, b postrider.ReplayJob) int { return a.ID.Compare(b.ID) })
	return jobs, nil
}

// ReplaysPending implements [store.Replays].
func (s *Store) ReplaysPending(_ context.Context, id postrider.ReplayID) (map[postrider.EndpointID]int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pending := map[postrider.EndpointID]int{}
	if job, ok := s.replayJobs.get(id); ok {
		for _, d := range job.made {
			if d.status == postrider.Pending {
				pending[d.endpoint]++
			}
		}
	}
	return pending, nil
}

// ReplayChunk implements [store.Replays].
func (s *Store) ReplayChunk(_ context.Context, c store.ReplayChunk) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	job, ok := s.replayJobs.get(c.Job)
	if !ok || job.Status != postrider.ReplayRunning || job.token != c.Token ||
		job.Cursor != c.From.Cursor || !maps.Equal(job.Held, c.From.Held) {
		return fmt.Errorf("replay job %s: %w", c.Job, postrider.ErrFenced)
	}
	now := s.now() // the same time for all deliveries of the chunk, so that claims take them by id
	for _, item := range c.Items {
		if job.Action == postrider.ActionBackfill {
			s.backfillLocked(job, item, now)
		} else {
			s.replayMatchLocked(job, item, now)
		}
	}
	for _, item := range c.Items {
		s.releaseLowestLocked(item, now)
	}
	job.ReplayPosition = postrider.ReplayPosition{Cursor: c.To.Cursor, Held: maps.Clone(c.To.Held)}
	job.due = now.Add(c.Lease)
	if c.End != "" {
		job.Status, job.Error, job.EndedAt = c.End, c.Error, stored(s.wall())
	}
	s.putNoticesLocked(c.Notices)
	return nil
}

// replayMatchLocked replays or discards one match, or counts the reason why it cannot. An ordered
// replay is not due yet: releaseLowestLocked makes one due after all replays of the chunk are
// inserted.
func (s *Store) replayMatchLocked(job *replayJob, item store.ReplayItem, now time.Time) {
	old, _ := s.deliveries.get(item.Match)
	if skipped := s.skipLocked(job, old); skipped != nil {
		*skipped++
		return
	}
	job.Handled++
	if job.Action == postrider.ActionDiscard {
		s.discardLocked(old, job.By, job.Note, now)
		return
	}
	d := old.replay(item.ID, now, item.Expiry)
	d.replayJob, job.made = job.ID, append(job.made, d)
	s.addLocked(d)
	switch k := s.pausedLocked(old); {
	case k != nil:
		k.pausedBy, d.ordered = nil, old.ordered
		k.insert(d)
	case item.Ordered != "" && d.event.OrderingKey != "":
		d.ordered = item.Ordered
		s.keyQueueOf(d).insert(d)
	default:
		s.laneOf(d).push(d)
	}
	old.resolveReplayed(job.By, d)
}

// skipLocked returns a pointer to the counter of the reason for which the match is skipped, or
// nil if it is not skipped.
func (s *Store) skipLocked(job *replayJob, d *delivery) *int {
	if d == nil {
		return &job.Skipped.BytesGone
	}
	if l := d.deadLetter; l != nil && l.Resolution != "" {
		if replay, ok := s.deliveries.get(l.Replay); ok && replay.status == postrider.Pending {
			return &job.Skipped.ReplayPending
		}
		return &job.Skipped.Resolved
	}
	e, ok := s.endpoints.get(d.endpoint)
	switch {
	case job.Action == postrider.ActionDiscard:
		return nil
	case !ok || e.deleted():
		return &job.Skipped.EndpointDeleted
	case d.event.Data == nil:
		return &job.Skipped.BytesGone
	}
	return nil
}

// releaseLowestLocked makes the lowest delivery of the item's ordering key due, unless the key is
// paused or another delivery of the key is due.
func (s *Store) releaseLowestLocked(item store.ReplayItem, now time.Time) {
	if d, ok := s.deliveries.get(item.ID); ok && d.ordered != "" {
		if k := s.keyQueueOf(d); k.pausedBy == nil && !k.headReleased() {
			s.releaseHeadLocked(k, now)
		}
	}
}
