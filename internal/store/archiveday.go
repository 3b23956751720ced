package store

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/postrider/postrider"
)

// ArchiveDay is a day of a kind in the archive: its parts with their counts. It is the only one
// that changes these counts. A store reads it, calls one of its methods, and stores the parts that
// have changed, all in the transaction that deletes the rows.
//
//   - [ArchiveDay].Record counts the rows of a part that was made.
//   - [ArchiveDay].Deleted and DeletedAll are called by retention for the rows that it deletes.
//   - [ArchiveDay].Expunged is called by an expunge for a row that it deletes, before, while or
//     after the day is archived.
//   - [ArchiveDay].Replace is called by an expunge that has rewritten the object of a part.
//   - [ArchiveDay].Redo gives the rows that are left to the parts of another round.
//
// So at any time Left, the rows of all parts without those that were deleted, is the number of
// the day's stored rows that have been archived. If it is the number of all stored rows, no row
// was added behind a part, and retention may delete the day. A row has one owner: the part that
// counts it, or, if it is archived and deleted by its name, the caller of DeleteRows.
type ArchiveDay struct {
	Day   time.Time
	Rows  int64         // that are stored; set by Archive.ArchiveDay and by retention, which count them
	Parts []ArchivePart // by number, those of which nothing is left too
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

// Left returns how many of the stored rows are archived.
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

// After returns the position of the next part: the end of the last one of which rows are left.
func (d ArchiveDay) After() RowID {
	for _, p := range slices.Backward(d.Parts) {
		if p.Left > 0 {
			return p.Last
		}
	}
	return RowID{}
}

// Record adds a part, unless it is not the next one or does not begin where the last one ends:
// postrider.ErrConflict.
//
// A part of single rows has some of the rows of its ids. DeleteRows deletes them by their names, so
// the day does not count them: nothing is Left, and After may be any. It is ErrConflict while rows
// of another part are left, which may be the same rows.
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

// Redo has the rows that are left archived again. It removes and returns the parts of which nothing
// was deleted. The others keep the rows that were.
func (d *ArchiveDay) Redo() (forgotten []ArchivePart) {
	d.Parts = slices.DeleteFunc(d.Parts, func(p ArchivePart) bool {
		if forget := p.Left == p.Rows; forget {
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

// Deleted counts rows of a part that retention has deleted, in of too. It returns false, and counts
// nothing, unless the part is as the caller has read it: it may have been made again or expunged since.
func (d *ArchiveDay) Deleted(of *ArchivePart, rows int64) bool {
	i := slices.Index(d.Parts, *of)
	if i < 0 {
		return false
	}
	of.Left -= rows
	d.Parts[i] = *of
	return true
}

// DeletedAll counts all rows as deleted by retention.
func (d *ArchiveDay) DeletedAll() {
	for i := range d.Parts {
		d.Parts[i].Left = 0
	}
}

// Expunged counts a row that an expunge has deleted, if a part has it: otherwise a row that is added
// later could stand for it, and be deleted without a copy. At most one part with rows left has it.
func (d *ArchiveDay) Expunged(id RowID) {
	i := slices.IndexFunc(d.Parts, func(p ArchivePart) bool { return p.Left > 0 && p.Has(id) })
	if i >= 0 {
		d.Parts[i].Left--
	}
}

// Replace records an object in place of a part's, or removes the part if there is none. The records
// that the new object lacks were expunged, so they are not left. It is postrider.ErrConflict if the
// part has another object.
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
