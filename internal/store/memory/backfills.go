package memory

import (
	"context"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// backfills reports whether the job is a backfill of the endpoint that has not ended.
func (j *replayJob) backfills(endpoint postrider.EndpointID) bool {
	return j.Action == postrider.ActionBackfill && j.Filter.Endpoint == endpoint && !j.Status.Ended()
}

// backfillLocked makes the first delivery of an event to the endpoint of the job, or counts the reason
// why it cannot. An ordered delivery takes the turn of its key from one with a higher sequence.
func (s *Store) backfillLocked(job *replayJob, item store.ReplayItem, now time.Time) {
	e, known := s.endpoints.get(item.Endpoint)
	of, kept := s.events.get(item.Event)
	switch {
	case !known || e.deleted():
		job.Skipped.EndpointDeleted++
		return
	case !kept || of.Data == nil:
		job.Skipped.BytesGone++
		return
	}
	job.Handled++
	d := &delivery{
		id: item.ID, event: of, endpoint: item.Endpoint, lane: postrider.LaneBulk, status: postrider.Pending,
		due: now, expires: now.Add(item.Expiry), at: -1, replayJob: job.ID,
	}
	job.made = append(job.made, d)
	s.addLocked(d)
	if item.Ordered == "" || of.OrderingKey == "" {
		s.laneOf(d).push(d)
		return
	}
	d.ordered = item.Ordered
	k := s.keyQueueOf(d)
	k.insert(d)
	for _, waiting := range k.positions[1:] {
		if waiting.at >= 0 && waiting.token == 0 {
			s.laneOf(waiting).remove(waiting)
		}
	}
}

// Undelivered implements [store.Replays].
func (s *Store) Undelivered(_ context.Context, q store.UndeliveredQuery) (page store.Undelivered, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	looked := 0
	for i, e := range s.events.rows {
		if e.Account != q.Account || s.events.ids[i].Compare(q.From) < 0 || s.events.ids[i].Compare(q.Before) >= 0 {
			continue
		}
		if looked == q.Limit {
			return page, nil
		}
		looked++
		sent := false
		for _, d := range e.deliveries.rows {
			sent = sent || d.endpoint == q.Endpoint
		}
		if _, fanning := s.fanOuts.get(e.ID); fanning && !sent {
			return page, nil
		}
		if page.To = e.ID; !sent {
			page.Events = append(page.Events, postrider.Event{
				ID: e.ID, Account: e.Account, Type: e.Type, Data: e.Data, About: e.About, CreatedAt: e.CreatedAt,
			})
		}
	}
	page.Done = looked < q.Limit
	return page, nil
}
