package store

import (
	"context"
	"time"

	"github.com/postrider/postrider"
)

// UndeliveredQuery asks for events of an account that have no delivery to an endpoint.
type UndeliveredQuery struct {
	Account  postrider.AccountID
	Endpoint postrider.EndpointID
	Job      postrider.ReplayID // the job that asks: it has made no delivery for the events
	From     postrider.EventID  // the first id
	Before   postrider.EventID  // the id after the last one
	Limit    int                // how many events are looked at
}

// Undelivered is one page of the answer to an [UndeliveredQuery].
type Undelivered struct {
	Events []postrider.Event // oldest first; only ID, Account, Type, Data, About and CreatedAt are set
	To     postrider.EventID // Events has all up to this id; zero: the page ends before the first event
	Done   bool              // whether there is no event after To
}

// undeliveredPage is how many events one call of Undelivered looks at. Each may have 256 KiB.
const undeliveredPage = 100

// undeliveredTime is how long FindUndelivered compares events. A job commits its position after that, long before its
// lease ends.
const undeliveredTime = time.Second

// FindUndelivered finds the next matches of a backfill, after its cursor: the events without a
// delivery to the endpoint for which wants is true. Events that were made to test an endpoint are no
// matches.
func FindUndelivered(
	ctx context.Context, s Replays, job postrider.ReplayJob, wants func(*postrider.Event) bool,
) (ReplayMatches, error) {
	q := UndeliveredQuery{
		Account: job.Filter.Account, Endpoint: job.Filter.Endpoint, Job: job.ID, Before: postrider.EventID(job.ID), Limit: undeliveredPage,
		From: postrider.MakeID[postrider.EventID](job.Filter.From.Add(time.Millisecond-1).Truncate(time.Millisecond), [10]byte{}),
	}
	if !job.Cursor.IsZero() {
		q.From = NextID(postrider.EventID(job.Cursor))
	}
	page, err := s.Undelivered(ctx, q)
	m := ReplayMatches{To: postrider.DeliveryID(page.To), Done: page.Done}
	switch {
	case err != nil:
		return m, err
	case page.Done:
		m.To = postrider.DeliveryID(job.ID)
	case page.To.IsZero():
		m.To = job.Cursor
	}
	begun := time.Now()
	for i := range page.Events {
		if i > 0 && time.Since(begun) > undeliveredTime {
			m.To, m.Done = postrider.DeliveryID(page.Events[i-1].ID), false
			break
		}
		if e := &page.Events[i]; !postrider.IsTest(e.ID) && wants(e) {
			m.Items = append(m.Items, ReplayItem{Event: e.ID, Endpoint: job.Filter.Endpoint})
		}
	}
	return m, nil
}
