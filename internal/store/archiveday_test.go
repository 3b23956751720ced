package store_test

import (
	"errors"
	"fmt"
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
	names    int           // of objects, so far
	singles  []store.RowID // archived as single rows, and to be deleted by their names
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
func (a *archived) object(rows []store.RowID) string {
	a.names++
	name := fmt.Sprint("object ", a.names)
	a.objects[name] = map[store.RowID]bool{}
	a.fill(store.ArchivePart{Object: name}, rows)
	return name
}

// fill writes rows to the object of a part.
func (a *archived) fill(p store.ArchivePart, rows []store.RowID) {
	for _, r := range rows {
		a.objects[p.Object][r] = true
	}
}

// retain deletes rows, and fails the test if one of them is in no object.
func (a *archived) retain(t *rapid.T, rows []store.RowID) {
	for _, r := range rows {
		if !a.copied(r) {
			t.Errorf("retention deletes %x, which no object has", r)
		}
		delete(a.stored, r)
	}
}

// announce announces the next part, as a node does.
func (a *archived) announce(t *rapid.T) store.ArchivePart {
	p := store.ArchivePart{Day: aDay, Number: a.Next(), Object: a.object(nil), After: a.After()}
	if err := a.Put(p); err != nil {
		t.Errorf("announce a part: %v", err)
	}
	return p
}

// archiveAll archives what is stored as the archive does, until the day is complete. While a part is
// made, rows may be removed and added, and another node may take over.
func (a *archived) archiveAll(t *rapid.T) {
	limit := rapid.IntRange(1, 5).Draw(t, "rows of a part")
	for a.Rows = int64(len(a.stored)); !a.Complete(); a.Rows = int64(len(a.stored)) {
		p := a.announce(t)
		for range rapid.IntRange(0, 2).Draw(t, "before the rows are read") {
			a.meanwhile(t)
		}
		rows := a.after(p.After, limit)
		if len(rows) == 0 {
			for _, p := range a.Redo() {
				delete(a.objects, p.Object)
			}
			continue
		}
		a.fill(p, rows)
		p.Last, p.Rows, p.Left, p.Bytes = rows[len(rows)-1], int64(len(rows)), int64(len(rows)), 1
		for range rapid.IntRange(0, 3).Draw(t, "after the rows were read") {
			a.meanwhile(t)
		}
		if rapid.IntRange(0, 9).Draw(t, "takes over") == 0 {
			a.announce(t)
			if err := a.Put(p); !errors.Is(err, postrider.ErrConflict) {
				t.Errorf("record a part after another node took over: %v", err)
			}
		}
		if err := a.Put(p); err != nil {
			delete(a.objects, p.Object)
		}
	}
}

// meanwhile is what may happen to rows while a part is made.
func (a *archived) meanwhile(t *rapid.T) {
	[]func(*rapid.T){func(*rapid.T) {}, a.add, a.expunge, a.deleteSingles}[rapid.IntRange(0, 3).Draw(t, "meanwhile")](t)
}

// add stores some rows that were neither expunged nor archived.
func (a *archived) add(t *rapid.T) {
	for _, n := range rapid.SliceOfN(rapid.IntRange(0, 100), 1, 3).Draw(t, "added") {
		if id := row(n); !a.expunged[id] && !a.copied(id) {
			a.stored[id] = true
		}
	}
}

// expunge expunges a stored row.
func (a *archived) expunge(t *rapid.T) {
	stored := a.after(store.RowID{}, 1000)
	if len(stored) == 0 {
		return
	}
	id := rapid.SampledFrom(stored).Draw(t, "expunged")
	a.expunged[id] = true
	delete(a.stored, id)
	a.Removed(id)
}

// single archives some rows apart.
func (a *archived) single(t *rapid.T) {
	rows := slices.DeleteFunc(a.after(store.RowID{}, 20), func(store.RowID) bool { return rapid.Bool().Draw(t, "is young") })
	if len(rows) == 0 {
		return
	}
	p := a.announce(t)
	a.fill(p, rows)
	p.After, p.Last, p.Rows, p.Bytes = rows[0], rows[len(rows)-1], int64(len(rows)), 1
	a.meanwhile(t)
	left, err := a.Left(), a.Put(p)
	if errors.Is(err, postrider.ErrConflict) != (left > 0) {
		t.Errorf("record a part of single rows while %d rows are left: %v", left, err)
	}
	if err != nil {
		delete(a.objects, p.Object)
		return
	}
	a.singles = append(a.singles, rows...)
}

// deleteSingles deletes archived single rows by their names, unless something needs them. The day can
// have been archived since.
func (a *archived) deleteSingles(t *rapid.T) {
	for _, r := range a.singles {
		if a.stored[r] && rapid.Bool().Draw(t, "is not needed") {
			a.retain(t, []store.RowID{r})
			a.Removed(r)
		}
	}
	a.singles = nil
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
		if p.IsAnnounced() {
			continue
		}
		r := store.ReplaceArchivePart{Part: p, Fewer: int64(fewer)}
		if len(left) > 0 {
			r.With.Object, r.With.Bytes = a.object(slices.Collect(maps.Keys(left))), 1
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
				"a row is added":           a.add,
				"the day is archived":      a.archiveAll,
				"single rows are archived": a.single,
				"single rows are deleted":  a.deleteSingles,
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
	d := store.ArchiveDay{Day: aDay}
	record := func(p store.ArchivePart) {
		t.Helper()
		announced := p
		announced.Rows, announced.Left, announced.Bytes = 0, 0, 0
		if err := errors.Join(d.Put(announced), d.Put(p)); err != nil {
			t.Fatal(err)
		}
	}
	first := store.ArchivePart{Day: aDay, Number: 1, Object: "first", Rows: 10, Left: 10, Bytes: 1, Last: row(10)}
	record(first)
	if !d.Deleted(&first, 3) {
		t.Fatal("the part is not the one that was recorded")
	}
	if forgotten := d.Redo(); len(forgotten) > 0 { // a row was added late
		t.Fatalf("a part of which rows were deleted is forgotten: %v", forgotten)
	}
	record(store.ArchivePart{Day: aDay, Number: 2, Object: "second", Rows: 8, Left: 8, Bytes: 1, Last: row(11)})
	expunged := store.ReplaceArchivePart{Part: d.Parts[0], Fewer: 3, With: store.ArchivePart{Object: "first again", Bytes: 1}}
	if err := d.Replace(expunged); err != nil {
		t.Fatal(err)
	}
	if forgotten := d.Redo(); len(forgotten) != 1 || forgotten[0].Object != "second" { // another row was added late
		t.Errorf("forgotten are %v, want the second part only", forgotten)
	}
}
