package store_test

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// archived is a model of one day: which rows are stored, and which the objects of its parts have.
type archived struct {
	store.ArchiveDay

	stored   map[store.RowID]bool
	objects  map[string]map[store.RowID]bool
	expunged map[store.RowID]bool
}

var aDay = time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)

// row returns the id of a row of the day.
func row(n int) store.RowID {
	return postrider.MakeID[store.RowID](aDay.Add(time.Duration(n)*time.Minute), [10]byte{})
}

// copied reports whether an object has the row.
func (a *archived) copied(id store.RowID) bool {
	for _, rows := range a.objects {
		if rows[id] {
			return true
		}
	}
	return false
}

// after returns the first stored rows after an id.
func (a *archived) after(id store.RowID, limit int) (rows []store.RowID) {
	for _, r := range slices.SortedFunc(maps.Keys(a.stored), compare) {
		if compare(r, id) > 0 && len(rows) < limit {
			rows = append(rows, r)
		}
	}
	return rows
}

func compare(a, b store.RowID) int { return slices.Compare(a[:], b[:]) }

// object makes an object of rows.
func (a *archived) object(t *rapid.T, rows []store.RowID) string {
	name := rapid.StringN(12, 12, 12).Draw(t, "object")
	a.objects[name] = map[store.RowID]bool{}
	for _, r := range rows {
		a.objects[name][r] = true
	}
	return name
}

// retain deletes rows as retention does, and fails the test if one of them is in no object.
func (a *archived) retain(t *rapid.T, rows []store.RowID) {
	for _, r := range rows {
		if !a.copied(r) {
			t.Errorf("retention deletes %x, which no object has", r)
		}
		delete(a.stored, r)
	}
}

// archiveAll archives what is stored as the archive does, until the day is complete. The expunge of
// a row may come while a part is made: after it was read, and before it is recorded.
func (a *archived) archiveAll(t *rapid.T) {
	limit := rapid.IntRange(1, 5).Draw(t, "rows of a part")
	for a.Rows = int64(len(a.stored)); !a.Complete(); a.Rows = int64(len(a.stored)) {
		rows := a.after(a.After(), limit)
		if len(rows) == 0 {
			for _, p := range a.Redo() {
				delete(a.objects, p.Object)
			}
			continue
		}
		p := store.ArchivePart{
			Day: aDay, Number: a.Next(), Object: a.object(t, rows), After: a.After(), Last: rows[len(rows)-1],
			Rows: int64(len(rows)), Left: int64(len(rows)),
		}
		if rapid.IntRange(0, 3).Draw(t, "meanwhile") == 0 {
			a.expunge(t)
		}
		if err := a.Record(p); err != nil {
			delete(a.objects, p.Object) // the rows of the part before were expunged: it is made again
		}
	}
}

func (a *archived) expunge(t *rapid.T) {
	id := row(rapid.IntRange(0, 20).Draw(t, "row"))
	if a.expunged[id] = true; a.stored[id] {
		delete(a.stored, id)
		a.Expunged(id)
	}
}

// single archives some rows apart, and deletes those that nothing needs by their names.
func (a *archived) single(t *rapid.T) {
	rows := slices.DeleteFunc(a.after(store.RowID{}, 20), func(store.RowID) bool { return rapid.Bool().Draw(t, "is young") })
	if len(rows) == 0 {
		return
	}
	left := a.Left()
	err := a.Record(store.ArchivePart{
		Day: aDay, Number: a.Next(), Object: a.object(t, rows), After: rows[0], Last: rows[len(rows)-1], Rows: int64(len(rows)),
	})
	if errors.Is(err, postrider.ErrConflict) != (left > 0) {
		t.Errorf("record a part of single rows while %d rows are left: %v", left, err)
	}
	if err == nil {
		a.retain(t, slices.DeleteFunc(rows, func(store.RowID) bool { return rapid.Bool().Draw(t, "is needed") }))
	}
}

// part deletes some of the rows of a part, if as many are stored as are left.
func (a *archived) part(t *rapid.T) {
	for _, p := range a.Parts {
		rows := slices.DeleteFunc(a.after(p.After, 1000), func(r store.RowID) bool { return !p.Has(r) })
		if p.Left == 0 || int64(len(rows)) != p.Left {
			continue
		}
		rows = slices.DeleteFunc(rows, func(store.RowID) bool { return rapid.Bool().Draw(t, "is needed") })
		a.retain(t, rows)
		before := p
		if !a.Deleted(&p, int64(len(rows))) || p.Left != before.Left-int64(len(rows)) || len(rows) > 0 && a.Deleted(&before, 1) {
			t.Errorf("of the part %+v %d rows were deleted, and it is %+v", before, len(rows), p)
		}
		return
	}
}

// balances checks that an object has what the counts allow retention to delete, of the day and of each part.
func (a *archived) balances(t *rapid.T) {
	check := func(of string, left int64, rows []store.RowID) {
		lost := slices.DeleteFunc(slices.Clone(rows), a.copied)
		if int64(len(rows)) == left && len(lost) > 0 {
			t.Errorf("%s: %d rows are left and stored, and no object has %d of them", of, left, len(lost))
		}
	}
	check("the day", a.Left(), a.after(store.RowID{}, 1000))
	for _, p := range a.Parts {
		if p.Left < 0 || p.Left > p.Rows {
			t.Errorf("%d of %d rows are left", p.Left, p.Rows)
		}
		check(p.Object, p.Left, slices.DeleteFunc(a.after(p.After, 1000), func(r store.RowID) bool { return !p.Has(r) }))
	}
}

// rewrite replaces an object by one without what was expunged.
func (a *archived) rewrite(t *rapid.T) {
	for _, p := range a.Parts {
		left := maps.Clone(a.objects[p.Object])
		maps.DeleteFunc(left, func(r store.RowID, _ bool) bool { return a.expunged[r] })
		fewer := len(a.objects[p.Object]) - len(left)
		if fewer == 0 {
			continue
		}
		r := store.ReplaceArchivePart{Part: p, Fewer: int64(fewer)}
		if len(left) > 0 {
			r.With.Object = a.object(t, slices.Collect(maps.Keys(left)))
		}
		if err := a.Replace(r); err != nil {
			t.Errorf("replace: %v", err)
		}
		if err := a.Replace(r); !errors.Is(err, postrider.ErrConflict) {
			t.Errorf("replace an object that is not recorded: %v", err)
		}
		delete(a.objects, p.Object)
		return
	}
}

// TestNothingIsDeletedThatIsNotArchived mixes what retention, the archive and expunges do with a day.
// Whenever the counts allow retention to delete rows, an object has each of them.
func TestNothingIsDeletedThatIsNotArchived(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := &archived{
			ArchiveDay: store.ArchiveDay{Day: aDay}, stored: map[store.RowID]bool{},
			objects: map[string]map[store.RowID]bool{}, expunged: map[store.RowID]bool{},
		}
		for range 5 {
			t.Repeat(map[string]func(*rapid.T){
				"a row is added": func(t *rapid.T) {
					if id := row(rapid.IntRange(0, 20).Draw(t, "row")); !a.expunged[id] && !a.copied(id) {
						a.stored[id] = true
					}
				},
				"the day is archived":      a.archiveAll,
				"single rows are archived": a.single,
				"a row is expunged":        a.expunge,
				"an object is rewritten":   a.rewrite,
				"some rows of a part go":   a.part,
				"a complete day goes as whole": func(t *rapid.T) {
					if a.Rows = int64(len(a.stored)); a.Complete() {
						a.retain(t, a.after(store.RowID{}, 1000))
						a.DeletedAll()
					}
				},
				"": func(t *rapid.T) {
					a.balances(t)
				},
			})
		}
	})
}

// TestTheCountsHaveOneOwner finds the table of the parts in one file, where ArchiveDay decides.
func TestTheCountsHaveOneOwner(t *testing.T) {
	t.Parallel()
	var names []string
	err := filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), "archive_parts") {
			names = append(names, path)
		}
		return err
	})
	if want := []string{"../store/sqlstore/archiveday.go"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("%v, %v have the table archive_parts, want %v", names, err, want)
	}
}

// An expunge counts the records that it removes from an object, also those that a later part
// counts. So a part can count no row although its object has the only copies of deleted ones. Redo
// must not take it for a part of which nothing was deleted.
func TestRedoKeepsAPartThatCountsNothing(t *testing.T) {
	t.Parallel()
	first := store.ArchivePart{Day: aDay, Number: 1, Object: "first", Rows: 10, Left: 10, Last: row(10)}
	d := store.ArchiveDay{Day: aDay}
	if err := d.Record(first); err != nil {
		t.Fatal(err)
	}
	if !d.Deleted(&first, 3) {
		t.Fatal("the part is not the one that was recorded")
	}
	if forgotten := d.Redo(); len(forgotten) > 0 { // a row was added late
		t.Fatalf("a part of which rows were deleted is forgotten: %v", forgotten)
	}
	second := store.ArchivePart{Day: aDay, Number: 2, Object: "second", Rows: 8, Left: 8, Last: row(11)}
	if err := d.Record(second); err != nil {
		t.Fatal(err)
	}
	expunged := store.ReplaceArchivePart{Part: d.Parts[0], Fewer: 3, With: store.ArchivePart{Object: "first again"}}
	if err := d.Replace(expunged); err != nil {
		t.Fatal(err)
	}
	if forgotten := d.Redo(); len(forgotten) != 1 || forgotten[0].Object != "second" { // another row was added late
		t.Errorf("forgotten are %v, want the second part only", forgotten)
	}
}
