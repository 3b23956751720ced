package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/postrider/postrider"
)

// Replays keeps replay jobs. The API creates and changes them; internal/replay runs
// them.
type Replays interface {
	// PutReplayJob stores a new job with its CreatedAt. The job is running and due at once.
	// Repeated, it changes nothing.
	// An endpoint has at most one backfill that has not ended. A second one is postrider.ErrConflict.
	PutReplayJob(ctx context.Context, job postrider.ReplayJob) error

	// ReplayJobs lists replay jobs, newest first. Only a job found by ID has its Made, whose numbers
	// are exact and of one moment.
	ReplayJobs(ctx context.Context, q ReplayJobQuery) (Page[postrider.ReplayJob], error)

	// SetReplayJob pauses, resumes or cancels a job, and ends its lease. Repeated, it changes
	// nothing.
	// If the job has ended, the error is postrider.ErrConflict.
	SetReplayJob(ctx context.Context, r SetReplayJob) error

	// ClaimReplayJobs leases up to c.Max running jobs: those that have been due for longest. It
	// returns them by id. A leased job is due again when its lease has ended. Paused and ended jobs
	// are not claimed.
	ClaimReplayJobs(ctx context.Context, c ClaimReplayJobs) ([]postrider.ReplayJob, error)

	// ReplaysPending returns, for each endpoint, how many deliveries that the job made are still
	// pending.
	ReplaysPending(ctx context.Context, id postrider.ReplayID) (map[postrider.EndpointID]int, error)

	// ReplayChunk replays or discards the next matches of a job and moves its position, in one
	// transaction.
	//
	// If the job is not running, has another token than the chunk, or has another position than
	// c.From, it stores nothing and returns postrider.ErrFenced.
	// Each match gets a new delivery in the bulk lane, with its ReplayedFrom and ReplayJob set. A
	// match that is a dead letter is resolved as replayed.
	// In a job that discards, each dead letter is resolved as discarded, with the job's By and Note.
	// A match that cannot be replayed is counted by its reason; the other matches are still
	// replayed.
	// New deliveries with Ordered get the positions of their events in the ordering key, so they are
	// attempted in sequence. The replay of a dead letter that pauses its key ends the pause.
	// A chunk repeated after its reply was lost stores nothing twice.
	// In a backfill, a new delivery takes the turn of its key from a delivery with a higher sequence
	// that is due and not leased.
	// The notices of the chunk are stored in the same transaction, as PutNotices does.
	ReplayChunk(ctx context.Context, c ReplayChunk) error

	// Undelivered returns the next events of an account that have no delivery to an endpoint, oldest
	// first, with their data.
	// Deliveries of every status count, also those that other jobs made.
	// It looks at up to q.Limit events, so a page can be short or empty and still not be the last.
	// A page ends before an event whose fan-out job has not ended.
	Undelivered(ctx context.Context, q UndeliveredQuery) (Undelivered, error)
}

// ReplayJobQuery filters replay jobs; a zero field does not filter.
type ReplayJobQuery struct {
	Account   postrider.AccountID
	ID        postrider.ReplayID
	Status    postrider.ReplayStatus
	Backfills postrider.EndpointID // the backfill of the endpoint that has not ended
	Paging
}

// SetReplayJob changes the status of a job to running, paused or cancelled.
type SetReplayJob struct {
	Account postrider.AccountID // zero: any
	ID      postrider.ReplayID
	Status  postrider.ReplayStatus
}

// ClaimReplayJobs asks for replay jobs.
type ClaimReplayJobs struct {
	Max   int
	Token postrider.Token
	Lease time.Duration
}

// ReplayChunk has the matches of a job between two positions.
type ReplayChunk struct {
	Job      postrider.ReplayID
	Token    postrider.Token
	From, To postrider.ReplayPosition // if they are equal, no match is handled and only the lease is renewed
	Items    []ReplayItem
	End      postrider.ReplayStatus // done or failed: the last chunk of the job; empty: not the last
	Error    string                 // set only if End is failed
	Notices  []postrider.Notice     // notices about the end of the job
	Lease    time.Duration          // the job's new lease under the same token; zero gives the job back
}

// ReplayItem is one match of a [ReplayChunk]. A discard needs only Match.
type ReplayItem struct {
	Match    postrider.DeliveryID // zero in a backfill: the match is the event
	Event    postrider.EventID    // the event of the match
	Endpoint postrider.EndpointID // the endpoint of the match
	ID       postrider.DeliveryID // the id of the new delivery, made by the caller
	Expiry   time.Duration        // the time until the new delivery expires
	Ordered  postrider.OnDead     // see [NewDelivery.Ordered]; ignored if the event has no ordering key
}

// Position returns the position of a job that has handled the matches up to this one.
func (i ReplayItem) Position() postrider.DeliveryID {
	if i.Match.IsZero() {
		return postrider.DeliveryID(i.Event)
	}
	return i.Match
}

// ReplayMatches is one page of the matches of a job.
type ReplayMatches struct {
	Items []ReplayItem         // oldest first; only Match, Event and Endpoint are set
	To    postrider.DeliveryID // Items has all matches up to this id
	Done  bool                 // whether there is no match after To
}

// Lists has the two methods of [Ledger] that find matches.
type Lists interface {
	// Deliveries is the method of [Ledger].
	Deliveries(ctx context.Context, q DeliveryQuery) (Page[postrider.Delivery], error)
	// DeadLetters is the method of [Ledger].
	DeadLetters(ctx context.Context, q DeadLetterQuery) (Page[postrider.DeadLetter], error)
}

// FindReplayMatches finds the next matches of a job, after its cursor. It reads one page for each
// status of the filter, because a page of one status can walk an index. It merges the pages by
// id, and stops at the end of the page that ends first, so that no match of another status is
// skipped.
//
// Example: the dead letters reach from id 10 to 90, the skipped deliveries from 20 to 400. The
// result has the matches up to 90, and the next call begins there.
func FindReplayMatches(ctx context.Context, lists Lists, job postrider.ReplayJob) (ReplayMatches, error) {
	m := ReplayMatches{To: postrider.DeliveryID(job.ID), Done: true}
	for _, status := range job.Filter.Statuses {
		items, next, err := replayPage(ctx, lists, job, status)
		if err != nil {
			return m, fmt.Errorf("find %s matches of %s: %w", status, job.ID, err)
		}
		if end, more, err := IDKey[postrider.DeliveryID](Paging{Cursor: next}); err != nil {
			return m, err
		} else if more && end.Compare(m.To) < 0 {
			m.To, m.Done = end, false
		}
		m.Items = append(m.Items, items...)
	}
	m.Items = slices.DeleteFunc(m.Items, func(i ReplayItem) bool { return i.Match.Compare(m.To) > 0 })
	slices.SortFunc(m.Items, func(a, b ReplayItem) int { return a.Match.Compare(b.Match) })
	return m, nil
}

// fixedAt returns the time that fixes the set of a job's matches: only deliveries that ended by
// this time are matches. A delivery that was pending then is no match, even if it ends later and
// its id is lower than the job's. The count that a person saw before creating the job leaves it
// out too.
//
// The compared times can come from two clocks. The store's statements write DiedAt, and the
// FinishedAt of skipped and cancelled deliveries. A node's [Clock.Wall] gives CreatedAt, and the
// FinishedAt of successful deliveries; it follows the store's clock to within milliseconds. A
// delivery that ends at the very moment of the job's creation may or may not be a match, but the
// count and the job always agree. If the store's clock was set back, new ids still have later
// times. Then the time of the job's id counts, so that no delivery from before the step is
// missed.
func fixedAt(job postrider.ReplayJob) time.Time {
	if at := job.ID.Time(); at.After(job.CreatedAt) {
		return at
	}
	return job.CreatedAt
}

// replayPage reads one page of the job's matches with one status. The result next is the cursor
// of the following page, or empty if there is none.
func replayPage(
	ctx context.Context, lists Lists, job postrider.ReplayJob, status postrider.Status,
) (items []ReplayItem, next string, err error) {
	f := job.Filter
	paging := Paging{Limit: MaxLimit, OldestFirst: true}
	if !job.Cursor.IsZero() {
		paging.Cursor = EncodeCursor(string(job.Cursor[:]))
	}
	eventType := ""
	if len(f.EventTypes) == 1 && !strings.HasSuffix(string(f.EventTypes[0]), "*") {
		eventType = string(f.EventTypes[0]) // the store can filter by one exact type
	}
	end := fixedAt(job)
	add := func(i ReplayItem, eventType, reason string, ended time.Time, made postrider.ReplayID) {
		if ended.After(end) {
			return
		}
		anyType := len(f.EventTypes) == 0
		right := anyType || slices.ContainsFunc(f.EventTypes, func(p postrider.Pattern) bool { return p.Matches(eventType) })
		if right && (f.Reason == "" || f.Reason == reason) && made != job.ID && i.Match.Compare(postrider.DeliveryID(job.ID)) < 0 {
			items = append(items, i)
		}
	}
	span := Span{From: f.From, To: f.To}
	if last := job.ID.Time().Add(time.Millisecond); span.To.IsZero() || last.Before(span.To) {
		span.To = last
	}
	if status == postrider.Dead {
		page, err := lists.DeadLetters(ctx, DeadLetterQuery{
			Account: f.Account, Endpoint: f.Endpoint, Event: f.Event, EventType: eventType, Reason: f.Reason,
			ResolvedFrom: job.CreatedAt, Span: span, Paging: paging,
		})
		for _, l := range page.Items {
			add(ReplayItem{Match: l.Delivery, Event: l.Event, Endpoint: l.Endpoint}, l.EventType, l.Reason, l.DiedAt, postrider.ReplayID{})
		}
		return items, page.Next, err
	}
	page, err := lists.Deliveries(ctx, DeliveryQuery{
		Account: f.Account, Endpoint: f.Endpoint, Event: f.Event, EventType: eventType, Status: status,
		Last: true, Span: span, Paging: paging,
	})
	for _, d := range page.Items {
		add(ReplayItem{Match: d.ID, Event: d.Event, Endpoint: d.Endpoint}, d.EventType, d.Reason, d.FinishedAt, d.ReplayJob)
	}
	return items, page.Next, err
}

// replayFilterDocument is the stored form of a [postrider.ReplayFilter].
type replayFilterDocument struct {
	Account    *postrider.AccountID  `json:"account,omitempty"`
	Endpoint   *postrider.EndpointID `json:"endpoint,omitempty"`
	Event      *postrider.EventID    `json:"event,omitempty"`
	EventTypes []postrider.Pattern   `json:"event_types,omitempty"`
	Statuses   []postrider.Status    `json:"statuses"`
	Reason     string                `json:"reason,omitempty"`
	From       time.Time             `json:"from,omitzero"`
	To         time.Time             `json:"to,omitzero"`
}

// EncodeReplayFilter returns the stored form of a filter.
func EncodeReplayFilter(f postrider.ReplayFilter) (string, error) {
	text, err := json.Marshal(replayFilterDocument{
		idOrNil(f.Account), idOrNil(f.Endpoint), idOrNil(f.Event), f.EventTypes, f.Statuses, f.Reason, f.From, f.To,
	})
	return string(text), err
}

// DecodeReplayFilter reads the text that [EncodeReplayFilter] wrote.
func DecodeReplayFilter(text string) (f postrider.ReplayFilter, err error) {
	d := replayFilterDocument{Account: &f.Account, Endpoint: &f.Endpoint, Event: &f.Event}
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		return f, fmt.Errorf("decode filter of a replay job: %w", err)
	}
	f.EventTypes, f.Statuses, f.Reason, f.From, f.To = d.EventTypes, d.Statuses, d.Reason, d.From, d.To
	return f, nil
}

// EncodeHeld returns the stored form of the held endpoints of a [postrider.ReplayPosition]. Equal
// positions have equal texts, so stores can compare the texts. The text is empty if no endpoint
// is held.
func EncodeHeld(held map[postrider.EndpointID]postrider.DeliveryID) (string, error) {
	if len(held) == 0 {
		return "", nil
	}
	text, err := json.Marshal(held) // Marshal sorts the keys
	return string(text), err
}

// DecodeHeld reads the text that [EncodeHeld] wrote.
func DecodeHeld(text string) (held map[postrider.EndpointID]postrider.DeliveryID, err error) {
	if text == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(text), &held); err != nil {
		return nil, fmt.Errorf("decode held endpoints of a replay job: %w", err)
	}
	return held, nil
}

func idOrNil[I ~[16]byte](id I) *I {
	if id == (I{}) {
		return nil
	}
	return &id
}
