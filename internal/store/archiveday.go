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
// parts, all in one transaction. For Deleted, DeletedAll and Removed it is the transaction that
// deletes the rows.
//
//   - PutArchivePart calls [ArchiveDay].Put, which announces or records a part.
//   - DeleteOld calls [ArchiveDay].Deleted or DeletedAll for the rows that it deletes. Without an archive
//     it calls Removed for each row, or DeletedAll.
//   - ExpungeRows and DeleteRows call [ArchiveDay].Removed for each row that they delete.
//   - ReplaceArchivePart calls [ArchiveDay].Replace after an expunge has rewritten an object.
//   - RedoArchiveDay calls [ArchiveDay].Redo. It forgets the parts of which no row was deleted, and
//     no longer counts the remaining rows of the others. Later parts get these rows.
//
// Left is the number of stored rows that a part counts. The counts keep this promise: if as many
// rows of the part's ids are stored as are Left, the object has a copy of each. A part is announced
// before its rows are read, and recorded after its object is written. When it is recorded, its
// object has all rows that were read, and all of them are still stored: if one of them was removed
// meanwhile, the part is not recorded. From then on, each deletion of a row reduces Left by one. A
// row that is added reduces nothing, so more rows are stored than are Left until Redo.
type ArchiveDay struct {
	Day   time.Time
	Rows  int64         // that are stored; set by Archive.ArchiveDay and by retention, which count them; 0 in all other calls
	Parts []ArchivePart // by number, including announced parts and parts without remaining rows
}

// ArchivePart is the record of a part of a day: an object of the archive.
//
// A part without Bytes is announced: its node is making its object, or has died. Its After and
// Last include all rows that the node may read. Its Rows are those of them that were removed since.
type ArchivePart struct {
	Kind   Kind
	Day    time.Time
	Number int    // from 1, in the order in which the parts of the day were made
	Object string // name in the archive
	Rows   int64  // that it counts: those of its object, but for rows that Redo has given to later parts
	Left   int64  // of these, the rows that are still stored; of a part of single rows 0, see Put
	Bytes  int64  // size of the object; 0: the part is announced
	SHA256 [32]byte
	After  RowID // the part has rows after this id,
	Last   RowID // up to this one
	MadeAt time.Time
}

// IsAnnounced reports whether the part is announced and not recorded.
func (p ArchivePart) IsAnnounced() bool { return p.Bytes == 0 }

// Has reports whether the id is one of the day's ids after p.After and up to p.Last.
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

// Put announces a part, if it has no Bytes, or records it.
//
// A part is announced as the next part, after the last part with remaining rows. A day has at most one
// announced part: an announcement takes the place of another one, whose node can no longer record its
// part. An announced part is recorded with the same Object, unless a row that its node may have read
// was removed since.
//
// A part of single rows has only some of the rows of its ids. DeleteRows deletes these rows by
// their names, so the day does not count them: Left is 0, and rows may be removed meanwhile. While
// another part has remaining rows, such a part is not recorded, because both might have the same
// rows.
//
// If Put may not announce or record the part, the error is postrider.ErrConflict.
func (d *ArchiveDay) Put(p ArchivePart) error {
	announced := slices.IndexFunc(d.Parts, ArchivePart.IsAnnounced)
	switch {
	case p.IsAnnounced() && (p.Number != d.Next() || p.After != d.After()), !p.IsAnnounced() && p.Left == 0 && d.Left() > 0:
		return fmt.Errorf("%w: another part is recorded", postrider.ErrConflict)
	case p.IsAnnounced():
		p.Last = RowID(bytes.Repeat([]byte{0xff}, len(p.Last)))
		d.Parts = append(slices.DeleteFunc(d.Parts, ArchivePart.IsAnnounced), p)
	case announced < 0 || d.Parts[announced].Object != p.Object:
		return fmt.Errorf("%w: another node makes the part", postrider.ErrConflict)
	case p.Left > 0 && d.Parts[announced].Rows > 0:
		return fmt.Errorf("%w: rows were removed while the part was made", postrider.ErrConflict)
	default:
		d.Parts[announced] = p
	}
	return nil
}

// Redo makes the remaining rows be archived again. It removes and returns the parts of which no
// row was deleted: all rows of their objects are still stored. Put records none of
// these objects again, so they may be deleted at any time. The other parts count only their deleted rows from then on. If an
// expunge has removed all of these, the part counts no row, and stays: its object can have the only
// copies of rows that a later part counts.
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

// DeletedAll counts all rows of the day as deleted by retention. It checks nothing. The caller has
// locked the day since it found the day complete, or no archive is set.
func (d *ArchiveDay) DeletedAll() {
	for i := range d.Parts {
		d.Parts[i].Left = 0
	}
}

// Removed counts a row that an expunge, DeleteRows or a DeleteOld without an archive has deleted. The
// part that counts the row has one less left; otherwise a row that is added later could take its place, and be deleted without a
// copy. An announced part that may have the row can no longer be recorded.
func (d *ArchiveDay) Removed(id RowID) {
	for i := range d.Parts {
		switch p := &d.Parts[i]; {
		case !p.Has(id):
		case p.IsAnnounced():
			p.Rows++
		case p.Left > 0:
			p.Left--
		}
	}
}

// Replace records an object in place of a part's object; without an object, it removes the part. So it
// also withdraws an announced part.
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
