package store

import (
	"context"
	"time"

	"github.com/postrider/postrider"
)

// Expunges removes events, endpoints and accounts, with all that is stored about them. The API
// begins an expunge, and package expunge carries it out.
type Expunges interface {
	// PutExpunge stores a new expunge. Repeated with the same id, it changes nothing.
	PutExpunge(ctx context.Context, e postrider.Expunge) error

	// Expunges lists expunges, newest first.
	Expunges(ctx context.Context, q ExpungeQuery) (Page[postrider.Expunge], error)

	// ExpungeRows removes up to r.Limit rows of the event, endpoint or account that an expunge
	// removes. It adds the removed rows to the counts of the expunge, and returns the expunge.
	//
	// For an event it removes the event, its terms, its idempotency key, its attempts with their heads and
	// bodies, its requests at inspectors, its fan-out job and its resolved dead letters.
	// For an endpoint it removes the attempts, dead letters, requests, health, earlier subscriptions,
	// secrets, circuit, pauses, notices and statistics. The row of the endpoint stays, deleted, without URL, texts and
	// policy.
	// For an account it removes all of this for each of its events and endpoints, and its sessions,
	// replay jobs, ordering keys, records of outbox rows, quotas, notices, notice destinations and
	// statistics. The row of the account and its API keys stay, without names.
	// The idempotency keys of events that retention has deleted are removed as well.
	// Of a single event the record of its outbox row stays, so that the row cannot be published again.
	// It also removes the records that were restored from the archive, and the what-if of the account;
	// of an endpoint, if the what-if is about it. It does not change the
	// archive; [ArchiveDay] counts which rows of a part were removed from the store.
	// Audit entries stay, and so do rows of other events, endpoints and accounts.
	//
	// Pending deliveries stay, and so do the unresolved dead letters of an event. The caller must end
	// them before, so that the deliveries of their ordering keys go on. The caller must also delete
	// the endpoint or account before.
	// When no call has found a row for r.Settled, the expunge of an account ends, if NoteOutbox has stored no fault. The expunge of an
	// event or endpoint goes on in the archive, and ends after NoteExpunge has stored that the
	// archive is done. For an expunge that has ended, ExpungeRows removes nothing.
	ExpungeRows(ctx context.Context, r ExpungeRows) (postrider.Expunge, error)

	// Scrub removes the content of deleted rows from the files of the store. It is called before an
	// expunge ends. While a reader uses the files, it returns postrider.ErrBusy. If the files belong
	// to another program, such as PostgreSQL, it does nothing.
	Scrub(ctx context.Context) error

	// NoteOutbox stores what an expunge has done in the outboxes of producers: it adds o.Removed to the
	// stored number, and replaces the rest; an empty o.UID replaces none, since another node may have noted the uid
	// first. If the expunge has ended, it changes nothing.
	NoteOutbox(ctx context.Context, id postrider.ExpungeID, o postrider.ExpungeOutbox) error

	// NoteExpunge stores e.Archive, the progress of an expunge in the archive. If the expunge has
	// found rows after e.EmptySince, or has ended, it changes nothing.
	NoteExpunge(ctx context.Context, e postrider.Expunge) error
}

// ExpungeQuery filters expunges; a zero field does not filter.
type ExpungeQuery struct {
	ID      postrider.ExpungeID
	Running bool // only expunges that have not ended
	Paging
}

// ExpungeRows asks for the removal of rows.
type ExpungeRows struct {
	ID      postrider.ExpungeID
	Limit   int
	Settled time.Duration // see [postrider.ExpungeSettled]
}
