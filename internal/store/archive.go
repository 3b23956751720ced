package store

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/postrider/postrider"
)

// Archive keeps the records of the parts that are copied to the archive before
// [Retention.DeleteOld] deletes their rows. Package archive makes the copies; [ArchiveDay] counts
// their rows. See docs/operate/archive.md.
//
// Three kinds are archived: OldEvents, OldAttempts and OldBodies. A day of a kind is copied in
// parts. Each part has the rows of a range of ids, or single rows of it. Day is the UTC day on which
// the ids were made.
type Archive interface {
	// LeaseArchive gives a node the right to archive for the next d. If the node has the lease
	// already, it lasts until then. While the lease of another node lasts, LeaseArchive returns
	// false.
	LeaseArchive(ctx context.Context, node uint64, d time.Duration) (bool, error)

	// ArchiveDay returns the oldest day that ended by before and is not complete: some of its
	// stored rows are not archived. A zero Day: there is no such day.
	ArchiveDay(ctx context.Context, kind Kind, before time.Time) (ArchiveDay, error)

	// ArchiveRows calls yield with rows of a kind in the order of their ids, and rows of one
	// delivery in the order of their numbers. It ends when yield returns false or there are no
	// more rows. yield must not call the store.
	ArchiveRows(ctx context.Context, q ArchiveRows, yield func(ArchivedRow) bool) error

	// PutArchivePart announces a part before its rows are read, or records a part that was written
	// and read back; see [ArchiveDay].Put.
	PutArchivePart(ctx context.Context, p ArchivePart) error

	// ReplaceArchivePart records a new object in place of an object that has more records. In the
	// same step it adds the number of missing records to the count of an expunge; see
	// [ArchiveDay].Replace.
	ReplaceArchivePart(ctx context.Context, r ReplaceArchivePart) error

	// RedoArchiveDay makes the remaining rows of a day be archived again. It forgets parts, and
	// returns them; see [ArchiveDay].Redo.
	RedoArchiveDay(ctx context.Context, kind Kind, day time.Time) ([]ArchivePart, error)

	// ArchiveParts lists parts by kind, day and number, from the one after q.After. It lists
	// announced parts only if q.Announced is set.
	ArchiveParts(ctx context.Context, q ArchiveParts) ([]ArchivePart, error)
}

// ArchiveKeys keeps the keys with which archives are encrypted.
type ArchiveKeys interface {
	// ArchiveKey returns the encrypted key of an account's archives, or postrider.ErrNotFound.
	// EncryptedValues lists these keys too.
	ArchiveKey(ctx context.Context, account postrider.AccountID) ([]byte, error)

	// PutArchiveKey stores the encrypted key of an account, unless the account has a key. It
	// returns the key that is stored afterwards.
	PutArchiveKey(ctx context.Context, account postrider.AccountID, encrypted []byte) ([]byte, error)

	// DeleteArchiveKey deletes the key of an account, and reports whether there was one. After
	// that, nobody can read the account's archives.
	DeleteArchiveKey(ctx context.Context, account postrider.AccountID) (bool, error)
}

// RowID is the id of an archived row: the id of an event, or of an attempt's delivery.
type RowID [16]byte

// Time returns when the id was made.
func (id RowID) Time() time.Time { return postrider.EventID(id).Time() }

// DayOf returns the day of UTC of a time.
func DayOf(t time.Time) time.Time { return t.UTC().Truncate(24 * time.Hour) }

// ArchiveRows asks for the rows of a kind and day whose id is greater than After.
type ArchiveRows struct {
	Kind  Kind
	Day   time.Time
	After RowID
	Only  []OldRow // these of the day's rows, in the order of CompareRows; nil: all
}

// ArchivedRow is a row to archive. Either Event or Attempt is set.
type ArchivedRow struct {
	Account postrider.AccountID // zero: unknown, because the attempt of the body no longer exists
	Event   *postrider.Event    // with its data
	// Attempt is an attempt without its heads and its body but for the beginning of an accepted
	// response, or, of OldBodies, an attempt with nothing but them and its names.
	Attempt      *postrider.Attempt
	EventType    string // of the Attempt's event
	ReplayedFrom postrider.DeliveryID
	ReplayJob    postrider.ReplayID
}

// ID returns the row's id.
func (r ArchivedRow) ID() RowID {
	if r.Event != nil {
		return RowID(r.Event.ID)
	}
	return RowID(r.Attempt.Delivery)
}

// Name returns the name of the row.
func (r ArchivedRow) Name() OldRow {
	if r.Attempt != nil {
		return OldRow{ID: r.ID(), Number: r.Attempt.Number}
	}
	return OldRow{ID: r.ID()}
}

// ReplaceArchivePart asks for another record of a part. Both have the same Kind, Day, Number,
// After and Last.
type ReplaceArchivePart struct {
	Part    ArchivePart         // as it is recorded
	With    ArchivePart         // in its place; without an Object: no record is left, and the part is forgotten
	Fewer   int64               // number of records of Part that With lacks
	Expunge postrider.ExpungeID // its count grows by Fewer; zero: none
}

// ArchiveParts asks for parts. A zero Kind or time does not filter.
type ArchiveParts struct {
	Kind      Kind
	From, To  time.Time   // days from From on and before To
	Announced bool        // list announced parts too
	After     ArchivePart // only its Kind, Day and Number; the zero one: from the first
	Limit     int
}

// ArchiveQuery selects records of the archive; a zero field does not filter. If it has neither
// the id of an event nor days, all days are read.
type ArchiveQuery struct {
	Kind     Kind
	Account  postrider.AccountID
	Event    postrider.EventID
	Endpoint postrider.EndpointID
	Type     string    // of the event
	From, To time.Time // days of the ids from From on and before To: of an event's, or of a delivery's

	Cursor string // an [ArchiveFound.Next]; empty: from the start
	Limit  int    // records; 0: 50
}

// ArchiveFound is the result of one step of a search in the archive.
type ArchiveFound struct {
	Records  []RestoredRecord
	Parts    int    // that were read
	Expunged int64  // records of these parts that nobody can read
	Next     string // the cursor of the next step; empty: this was the last
}

// ArchiveVerified is the result of verifying a part of the archive.
type ArchiveVerified struct {
	Rows      int64 // that were read
	Expunged  int64 // that nobody can read: the key of their account was destroyed
	Accounts  int   // whose records were read
	Destroyed int   // accounts whose key was destroyed
}

// ErrArchiveDamaged means that a part of the archive differs from what was written: it is gone,
// cut or changed.
var ErrArchiveDamaged = errors.New("the archive is damaged")

// Restored are records that people have copied back from the archive. Nothing sends them.
type Restored interface {
	// PutRestored stores records. If a record is stored already, it gets the new time.
	PutRestored(ctx context.Context, records []RestoredRecord) error

	// RestoredRecords lists restored records by id and then by number, oldest first.
	RestoredRecords(ctx context.Context, q RestoredQuery) (Page[RestoredRecord], error)
}

// RestoredRecord is a record that was read from the archive.
type RestoredRecord struct {
	Kind     Kind
	ID       RowID
	Number   int // of the attempt; 0: an event
	Account  postrider.AccountID
	Event    postrider.EventID
	Endpoint postrider.EndpointID // zero: an event
	Type     string               // of the event
	Record   []byte               // JSON, as in the archive
	At       time.Time            // when it was restored
}

// RestoredQuery filters restored records; a zero field does not filter.
type RestoredQuery struct {
	Account  postrider.AccountID
	Event    postrider.EventID
	Endpoint postrider.EndpointID
	Paging
}

// RestoredKey returns the key of a record for [Cut]: its id, its number and its kind.
func RestoredKey(r RestoredRecord) string {
	return string(binary.BigEndian.AppendUint32(r.ID[:], uint32(r.Number))) + string(r.Kind)
}

// RestoredAfter returns the record after which a page begins: its ID, Number and Kind. Without
// a cursor they are zero.
func RestoredAfter(p Paging) (r RestoredRecord, err error) {
	key, err := p.Key()
	switch {
	case err != nil || key == "":
		return r, err
	case len(key) < len(r.ID)+4:
		return r, errCursor
	}
	copy(r.ID[:], key)
	r.Number, r.Kind = int(binary.BigEndian.Uint32([]byte(key[len(r.ID):]))), Kind(key[len(r.ID)+4:])
	return r, nil
}
