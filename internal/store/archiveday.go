package store

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/postrider/postrider"
)

// ArchiveDay is a day of a kind in the archive: its parts with their counts. Only ArchiveDay
// changes these counts. A store reads the day, calls one of its methods, and stores the changed
// parts, all in one transaction. For Deleted, DeletedAll and Expunged it is the transaction that
// deletes the rows.
//
//   - PutArchivePart calls [ArchiveDay].Record, which counts the rows of a new part.
//   - Retention calls [ArchiveDay].Deleted and DeletedAll for the rows that it deletes.
//   - An expunge calls [ArchiveDay].Expunged for a row that it deletes, before, while or after the
//     day is archived.
//   - An expunge that has rewritten the object of a part calls [ArchiveDay].Replace.
//   - RedoArchiveDay calls [ArchiveDay].Redo. It forgets the parts of which no row was deleted, and
//     no longer counts the remaining rows of the others. The next round makes new parts of them.
//
// Left is the number of stored rows that the parts count. If Left equals the number of all stored
// rows, no row was added behind a part, and retention may delete the day. Left is too high after an
// expunge deletes a row while its part is written; then the day is archived again. Each row has one
// owner: the part that counts it, or the caller of DeleteRows for a row that is archived and
// deleted by its name. The janitor keeps the two apart by the age of the day.
type ArchiveDay struct {
	Day   time.Time
	Rows  int64         // that are stored; set by Archive.ArchiveDay and by retention, which count them; 0 in all other calls
	Parts []ArchivePart // by number, including parts without remaining rows
}

// ArchivePart is the record of a part of a day: an object of the archive.
type ArchivePart struct {
	Kind   Kind
	Day    time.Time
	Number int    // from 1, in the order in which the parts of the day were made
	Object string // name in the archive
	Rows   int64  // that it counts: those of its object, but for rows that Redo has given to later parts
	Left   int64  // of these, the rows that are still stored; of a part of single rows 0, see Record
	Bytes  int64  // size of the object
	SHA256 [32]byte
	After  RowID // the part has the rows after this id,
	Last   RowID // up to this one
	MadeAt time.Time
}

// Has reports whether the id is one of those that the part has.
func (p ArchivePart) Has(id RowID) bool {
	return DayOf(id.Time()).Equal(p.Day) && bytes.Compare(id[:], p.After[:]) > 0 && bytes.Compare(id[:], p.Last[:]) <= 0
}

// Left returns the number of stored rows that are archived.
func (d ArchiveDay) Left() (rows int64) {
	for _, p := range d.Parts {
		rows += p.Left
	}
	return rows
}

// Complete reports whether all stored rows are archived, so that retention may delete them.
func (d ArchiveDay) Complete() bool { return d.Rows == d.Left() }

// Next returns the number of the next part.
func (d ArchiveDay) Next() int {
	if len(d.Parts) == 0 {
		return 1
	}
	return d.Parts[len(d.Parts)-1].Number + 1
}

// After returns the position of the next part: the end of the last part that has remaining rows.
func (d ArchiveDay) After() RowID {
	for _, p := range slices.Backward(d.Parts) {
		if p.Left > 0 {
			return p.Last
		}
	}
	return RowID{}
}

// Record adds a part. The part must be the next one, and begin where the last part with remaining
// rows ends; otherwise the error is postrider.ErrConflict.
//
// A part of single rows has only some of the rows of its ids. DeleteRows deletes these rows by
// their names, so the day does not count them: its Left is 0, and its After may be any. While
// another part has remaining rows, Record returns ErrConflict, because both parts might have the
// same rows.
func (d *ArchiveDay) Record(p ArchivePart) error {
	after := p.After
	if p.Left == 0 {
		after = RowID{}
	}
	if p.Number != d.Next() || after != d.After() {
		return fmt.Errorf("%w: another part is recorded", postrider.ErrConflict)
	}
	d.Parts = append(d.Parts, p)
	return nil
}

// Redo makes the remaining rows be archived again. It removes and returns the parts of which no
// row was deleted: their objects have no row that is not stored. The other parts keep only their
// deleted rows. A part that an expunge has left with none of these counts no row, and stays: its
// object can have the only copies of rows that a later part counts.
func (d *ArchiveDay) Redo() (forgotten []ArchivePart) {
	d.Parts = slices.DeleteFunc(d.Parts, func(p ArchivePart) bool {
		if forget := p.Left > 0 && p.Left == p.Rows; forget {
			forgotten = append(forgotten, p)
			return true
		}
		return false
	})
	for i := range d.Parts {
		d.Parts[i].Rows -= d.Parts[i].Left
		d.Parts[i].Left = 0
	}
	return forgotten
}

// Deleted counts rows of a part that retention has deleted, in d and in of. If the part differs
// from of, because it was made again or expunged since, Deleted counts nothing and returns false.
func (d *ArchiveDay) Deleted(of *ArchivePart, rows int64) bool {
	i := slices.Index(d.Parts, *of)
	if i < 0 {
		return false
	}
	of.Left -= rows
	d.Parts[i] = *of
	return true
}

// DeletedAll counts all rows as deleted by retention. The caller has locked the day since it found
// the day complete.
func (d *ArchiveDay) DeletedAll() {
	for i := range d.Parts {
		d.Parts[i].Left = 0
	}
}

// Expunged counts a row that an expunge has deleted, if a part has the row. Without this count, a
// row that is added later could take its place, and be deleted without a copy. At most one part
// with remaining rows has the row.
func (d *ArchiveDay) Expunged(id RowID) {
	i := slices.IndexFunc(d.Parts, func(p ArchivePart) bool { return p.Left > 0 && p.Has(id) })
	if i >= 0 {
		d.Parts[i].Left--
	}
}

// Replace records an object in place of a part's object; without an object, it removes the part.
// The records that the new object lacks were expunged, so they no longer count as left. If the
// part has another object, the error is postrider.ErrConflict.
func (d *ArchiveDay) Replace(r ReplaceArchivePart) error {
	i := slices.IndexFunc(d.Parts, func(p ArchivePart) bool { return p.Number == r.Part.Number && p.Object == r.Part.Object })
	switch {
	case i < 0:
		return fmt.Errorf("%w: another object is recorded", postrider.ErrConflict)
	case r.With.Object == "":
		d.Parts = slices.Delete(d.Parts, i, i+1)
		return nil
	}
	p := &d.Parts[i]
	p.Object, p.Bytes, p.SHA256, p.MadeAt = r.With.Object, r.With.Bytes, r.With.SHA256, r.With.MadeAt
	p.Rows = max(p.Rows-r.Fewer, 0)
	p.Left = min(p.Left, p.Rows)
	return nil
}
