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
	// PutReplayJob stores a new job with its CreatedAt, running and due at once. Repeated, it
	// changes nothing.
	PutReplayJob(ctx context.Context, job postrider.ReplayJob) error

	// ReplayJobs lists replay jobs, newest first. Only a job found by ID carries its
	// Made: exact numbers of one moment.
	ReplayJobs(ctx context.Context, q ReplayJobQuery) (Page[postrider.ReplayJob], error)

	// SetReplayJob pauses, resumes or cancels a job, and takes it away from the node
	// that has it. Repeated, it changes nothing.
	// A job that has ended is postrider.ErrConflict.
	SetReplayJob(ctx context.Context, r SetReplayJob) error

	// ClaimReplayJobs leases up to c.Max running jobs that are due, oldest first.
	// A job leased before is due again when that lease has ended. Paused and ended jobs
	// are not claimed.
	ClaimReplayJobs(ctx context.Context, c ClaimReplayJobs) ([]postrider.ReplayJob, error)

	// ReplaysPending returns how many deliveries that the job made are pending, by endpoint.
	ReplaysPending(ctx context.Context, id postrider.ReplayID) (map[postrider.EndpointID]int, error)

	// ReplayChunk replays or discards the next matches of a job and moves its position, in
	// one transaction.
	//
	// It stores nothing and returns postrider.ErrFenced unless the job is running, has
	// the chunk's token and its position is c.From.
	// Each match gets a new delivery in the bulk lane, linked by ReplayedFrom and ReplayJob,
	// and a dead letter among them is resolved as replayed.
	// With a discard each dead letter is resolved as discarded, by the job's By and Note.
	// A match that cannot be replayed is counted by its reason, and does not fail the others.
	// New deliveries with Ordered get the positions of their events in the ordering key, so
	// they are attempted in sequence. One that replays the dead letter that pauses its key
	// ends the pause.
	// A chunk repeated after its reply was lost stores nothing twice.
	// The notices of the chunk are stored in the same transaction, as PutNotices does.
	ReplayChunk(ctx context.Context, c ReplayChunk) error
}

// ReplayJobQuery filters replay jobs; a zero field does not filter.
type ReplayJobQuery struct {
	Account postrider.AccountID
	ID      postrider.ReplayID
	Status  postrider.ReplayStatus
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

// ReplayChunk handles the matches of a job between two positions.
type ReplayChunk struct {
	Job      postrider.ReplayID
	Token    postrider.Token
	From, To postrider.ReplayPosition // equal: nothing is handled, and the lease is renewed
	Items    []ReplayItem
	End      postrider.ReplayStatus // done or failed: this was the last chunk; empty: it was not
	Error    string                 // with failed
	Notices  []postrider.Notice     // of the end
	Lease    time.Duration          // the job's new lease, under the same token; zero: it is given back
}

// ReplayItem is one match of a [ReplayChunk]. The fields after Match are for a replay.
type ReplayItem struct {
	Match    postrider.DeliveryID
	Event    postrider.EventID    // the match's
	Endpoint postrider.EndpointID // the match's
	ID       postrider.DeliveryID // of the new delivery, made by the caller
	Expiry   time.Duration        // until the new delivery expires
	Ordered  postrider.OnDead     // as in [NewDelivery]; ignored if the event has no ordering key
}

// ReplayMatches is one page of the matches of a job.
type ReplayMatches struct {
	Items []ReplayItem         // oldest first, without what is for a replay
	To    postrider.DeliveryID // all matches up to this id are Items
	Done  bool                 // there is no match after To
}

// Lists has the two methods of [Ledger] by which matches are found.
type Lists interface {
	// Deliveries is the method of [Ledger].
	Deliveries(ctx context.Context, q DeliveryQuery) (Page[postrider.Delivery], error)
	// DeadLetters is the method of [Ledger].
	DeadLetters(ctx context.Context, q DeadLetterQuery) (Page[postrider.DeadLetter], error)
}

// FindReplayMatches finds the next matches of a job, after its cursor. It reads one page for
// each status of the filter, and merges them by id up to the end of the shortest: each page
// walks an index that fits, and no page of one status passes by all that another one has.
//
// Example: the dead letters reach from id 10 to 90, the skipped deliveries from 20 to 400.
// The matches are those up to 90, and the next call begins there.
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

// fixedAt returns the time by which a delivery must have ended to be in the set of a job. A
// delivery that is pending then and ends later is no match, though its id is lower than the
// job's: the count that a person has seen before does not have it.
//
// The two times that are compared may come from two clocks. The store's statements write
// DiedAt, and FinishedAt of what was skipped or cancelled. CreatedAt, and FinishedAt of what was
// delivered, come from [Clock.Wall] of a node, which follows the store's clock to within
// milliseconds. So what ends in the very moment of the creation may fall either side, but on the
// same one for the count and for the job. After the store's clock was set back, ids still go
// forward: then the id's time decides, so that no delivery of the time before is missed.
func fixedAt(job postrider.ReplayJob) time.Time {
	if at := job.ID.Time(); at.After(job.CreatedAt) {
		return at
	}
	return job.CreatedAt
}

// replayPage reads a page of the deliveries of one status that the job selects. next is the
// cursor of the page after it; empty: there is none.
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
		eventType = string(f.EventTypes[0]) // the store can filter by it
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

// replayFilterDocument is a [postrider.ReplayFilter] as the stores keep it.
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

// EncodeReplayFilter returns the document of a filter.
func EncodeReplayFilter(f postrider.ReplayFilter) (string, error) {
	text, err := json.Marshal(replayFilterDocument{
		idOrNil(f.Account), idOrNil(f.Endpoint), idOrNil(f.Event), f.EventTypes, f.Statuses, f.Reason, f.From, f.To,
	})
	return string(text), err
}

// DecodeReplayFilter reads a document of [EncodeReplayFilter].
func DecodeReplayFilter(text string) (f postrider.ReplayFilter, err error) {
	d := replayFilterDocument{Account: &f.Account, Endpoint: &f.Endpoint, Event: &f.Event}
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		return f, fmt.Errorf("decode filter of a replay job: %w", err)
	}
	f.EventTypes, f.Statuses, f.Reason, f.From, f.To = d.EventTypes, d.Statuses, d.Reason, d.From, d.To
	return f, nil
}

// EncodeHeld returns the Held of a position as the stores keep it: the same text for the same
// position, so that they can compare it. No endpoint is the empty text.
func EncodeHeld(held map[postrider.EndpointID]postrider.DeliveryID) (string, error) {
	if len(held) == 0 {
		return "", nil
	}
	text, err := json.Marshal(held) // in the order of the keys
	return string(text), err
}

// DecodeHeld reads a text of [EncodeHeld].
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
