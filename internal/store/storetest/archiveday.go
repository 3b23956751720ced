package storetest

import (
	"sync"
	"sync/atomic"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

func putSingles(w *world) {
	e := w.endpoint()
	w.pending(e, 3)
	apart := w.nextPart(store.OldEvents, w.archiveDay(store.OldEvents), 2)
	apart.After, apart.Left = newID[store.RowID](w), 0
	w.ok(w.putPart(apart))
	day := w.archiveDay(store.OldEvents)
	w.same("rows that are left", day.Left(), int64(0))
	w.same("the next part", day.Next(), 2)
	w.same("where it begins", day.After(), store.RowID{})
	w.ok(w.putPart(w.nextPart(store.OldEvents, day, 10)))
	w.same("all rows are archived", w.archiveDay(store.OldEvents).Day.IsZero(), true)
	forgotten, err := w.RedoArchiveDay(w.Context(), store.OldEvents, apart.Day)
	w.ok(err)
	w.same("forgotten parts", len(forgotten), 1)
	parts, err := w.ArchiveParts(w.Context(), store.ArchiveParts{Limit: 10})
	w.ok(err)
	w.same("the parts", parts, []store.ArchivePart{apart})
}

func putSinglesConflict(w *world) {
	w.pending(w.endpoint(), 3)
	part := w.nextPart(store.OldEvents, w.archiveDay(store.OldEvents), 1)
	w.ok(w.putPart(part))
	single := part
	single.Number, single.After, single.Object = 2, part.Last, "single"
	w.ok(w.PutArchivePart(w.Context(), announced(single)))
	single.Left = 0
	w.refuses(w.PutArchivePart(w.Context(), single), postrider.ErrConflict)
}

func putPartConflict(w *world) {
	w.pending(w.endpoint(), 3)
	first := w.nextPart(store.OldEvents, w.archiveDay(store.OldEvents), 1)
	second := first
	second.Number = 2
	w.refuses(w.PutArchivePart(w.Context(), announced(second)), postrider.ErrConflict)
	w.ok(w.putPart(first))
	w.refuses(w.PutArchivePart(w.Context(), announced(first)), postrider.ErrConflict)
	w.refuses(w.PutArchivePart(w.Context(), announced(second)), postrider.ErrConflict) // it begins before the end of the first
	w.ok(w.putPart(w.nextPart(store.OldEvents, w.archiveDay(store.OldEvents), 1)))
}

func putPartAnnounced(w *world) {
	w.pending(w.endpoint(), 3)
	day := w.archiveDay(store.OldEvents)
	part := w.nextPart(store.OldEvents, day, 2)
	w.refuses(w.PutArchivePart(w.Context(), part), postrider.ErrConflict)
	w.ok(w.PutArchivePart(w.Context(), announced(part)))
	again := part
	again.Object, again.Number = "of another node", w.archiveDay(store.OldEvents).Next()
	w.ok(w.PutArchivePart(w.Context(), announced(again)))
	w.refuses(w.PutArchivePart(w.Context(), part), postrider.ErrConflict)
	list := func(q store.ArchiveParts) (objects []string) {
		w.Helper()
		parts, err := w.ArchiveParts(w.Context(), q)
		w.ok(err)
		for _, p := range parts {
			objects = append(objects, p.Object)
		}
		return objects
	}
	w.same("the recorded parts", len(list(store.ArchiveParts{Limit: 10})), 0)
	w.same("all parts", list(store.ArchiveParts{Limit: 10, Announced: true}), []string{again.Object})
	w.ok(w.PutArchivePart(w.Context(), again))
	w.same("the recorded parts", list(store.ArchiveParts{Limit: 10}), []string{again.Object})
	w.same("the parts of the day", w.archiveDay(store.OldEvents).Parts, []store.ArchivePart{again})
}

// removals are the ways in which single rows go, apart from the retention of whole days.
func (w *world) removals() map[string]func(postrider.Delivery) {
	return map[string]func(postrider.Delivery){
		"an expunge": func(d postrider.Delivery) {
			x := w.newExpunge(d.Account)
			x.Event = d.Event
			w.expunge(x, 100)
		},
		"DeleteRows": func(d postrider.Delivery) {
			n, err := w.DeleteRows(w.Context(), store.OldEvents, []store.OldRow{{ID: store.RowID(d.Event)}})
			w.ok(err)
			w.same("deleted rows", n, 1)
		},
	}
}

func putPartRemoved(w *world) {
	e := w.endpoint()
	w.ended(e)
	for name, remove := range w.removals() {
		w.Log("after " + name)
		d := w.ended(e)
		part := w.nextPart(store.OldEvents, w.archiveDay(store.OldEvents), 10)
		w.ok(w.PutArchivePart(w.Context(), announced(part)))
		remove(d)
		w.refuses(w.PutArchivePart(w.Context(), part), postrider.ErrConflict)
		part = w.nextPart(store.OldEvents, w.archiveDay(store.OldEvents), 10)
		part.Object = "the part as it is then"
		w.ok(w.putPart(part))
		w.same("all rows are archived", w.archiveDay(store.OldEvents).Day.IsZero(), true)
		_, err := w.RedoArchiveDay(w.Context(), store.OldEvents, part.Day)
		w.ok(err)
	}
}

func putPartInParallel(w *world) {
	w.pending(w.endpoint(), 3)
	part := w.nextPart(store.OldEvents, w.archiveDay(store.OldEvents), 1)
	w.ok(w.PutArchivePart(w.Context(), announced(part)))
	var nodes sync.WaitGroup
	var recorded atomic.Int32
	for range 4 {
		nodes.Go(func() {
			if w.PutArchivePart(w.Context(), part) == nil {
				recorded.Add(1)
			}
		})
	}
	nodes.Wait()
	w.same("recorded", recorded.Load(), int32(1))
	w.same("parts", len(w.archiveDay(store.OldEvents).Parts), 1)
}

func deleteArchivedRemoved(w *world) {
	e := w.endpoint()
	w.ended(e)
	for name, remove := range w.removals() {
		w.Log("after " + name)
		d := w.ended(e)
		w.archiveAll(store.OldEvents, 10)
		remove(d)
		w.same("all rows are archived", w.archiveDay(store.OldEvents).Day.IsZero(), true)
		late := w.ended(e)
		w.forgetArchived(store.OldEvents)
		w.same("an event that was added later is stored", w.isStored(late.Event), true)
		w.archiveAll(store.OldEvents, 10)
	}
}

// deleteUnarchived archives a day, and deletes its rows as if the archive had been turned off. Then the
// archive is turned on again. It must not forget the parts: they have the only copies.
func deleteUnarchived(w *world) {
	e := w.endpoint()
	needed := w.letter(w.deadLetters(e, 1)[0]).Event
	for range 3 {
		w.ended(e)
	}
	kinds := []store.Kind{store.OldBodies, store.OldAttempts, store.OldEvents}
	for _, kind := range kinds {
		w.archiveAll(kind, 2)
	}
	for _, kind := range kinds {
		w.forget(kind, all)
		w.same("there are more "+string(kind)+" to archive", !w.archiveDay(kind).Day.IsZero(), false)
		forgotten, err := w.RedoArchiveDay(w.Context(), kind, store.DayOf(w.now()))
		w.ok(err)
		w.same("forgotten parts of "+string(kind), len(forgotten), 0)
	}
	w.same("the needed event is stored", w.isStored(needed), true)
}
