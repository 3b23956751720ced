package store

import (
	"context"
	"time"

	"github.com/postrider/postrider"
)

// Expunges removes events, endpoints and accounts, with all that is stored about them. The API
// begins an expunge; package expunge carries it out.
type Expunges interface {
	// PutExpunge stores a new expunge. Repeated with the same id, it changes nothing.
	PutExpunge(ctx context.Context, e postrider.Expunge) error

	// Expunges lists expunges, newest first.
	Expunges(ctx context.Context, q ExpungeQuery) (Page[postrider.Expunge], error)

	// ExpungeRows removes up to r.Limit rows of what an expunge is about, adds them to its
	// counts, and returns it.
	//
	// Of an event it removes the event, its idempotency key, its attempts with their heads
	// and bodies, its requests at inspectors, its fan-out job and its resolved dead letters.
	// Of an endpoint it removes the attempts, dead letters, requests, health, secrets,
	// circuit, pauses and statistics. Its row stays, deleted, without URL, texts and policy.
	// Of an account it removes all that of its events and endpoints, and its sessions,
	// replay jobs, ordering keys and statistics. Its row and its API keys stay, without names.
	// Records that were restored from the archive go as well. The archive itself stays; [ArchiveDay]
	// counts the rows that a part has.
	// Audit entries stay, and so does what belongs to others.
	//
	// Pending deliveries stay, and the unresolved dead letters of an event: the caller ends
	// them before, so that their ordering keys go on. An endpoint or account must be deleted
	// before.
	// When nothing was found for as long as r.Settled, it ends the expunge of an account. That of
	// an event or endpoint goes on in the archive, and ends when NoteExpunge has said that it is
	// done there. Of an expunge that has ended it removes nothing.
	ExpungeRows(ctx context.Context, r ExpungeRows) (postrider.Expunge, error)

	// Scrub removes what deleted rows have left in the store's own files, before an expunge ends.
	// It is postrider.ErrBusy while a reader holds them. A store whose files are another
	// program's does nothing.
	Scrub(ctx context.Context) error

	// NoteExpunge stores e.Archive: how far an expunge has got in the archive. It changes nothing
	// if the expunge has found rows since e.EmptySince, or has ended.
	NoteExpunge(ctx context.Context, e postrider.Expunge) error
}

// ExpungeQuery filters expunges; a zero field does not filter.
type ExpungeQuery struct {
	ID      postrider.ExpungeID
	Running bool // only those that have not ended
	Paging
}

// ExpungeRows asks for the removal of rows.
type ExpungeRows struct {
	ID      postrider.ExpungeID
	Limit   int
	Settled time.Duration // see [postrider.ExpungeSettled]
}
