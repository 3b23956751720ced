package storetest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

var sources = []verb{
	{"Publish of a row", []sentence{
		{"it records the row with the event", publishRow},
		{"an event whose row is recorded is a duplicate, whatever its content and key are", publishRowAgain},
		{"an event whose key has an owner is a duplicate, and its row is recorded with the owner", publishRowOfKey},
		{"rows inside one call answer with the first", publishRowsInOneCall},
		{"rows of a refused batch are not recorded", publishRowsRefused},
		{"repeated with the same ids it answers as the first time", publishRowRepeated},
		{"of parallel publishes of one row exactly one is stored", publishRowsInParallel},
		{"parallel calls whose rows and keys overlap in other orders all succeed", publishRowsCrossed},
		{"a duplicate has the sequence of the first event, and takes none", publishRowSequence},
	}},
	{"PutSource", []sentence{
		{"the source comes back as it was", putSource},
		{"put again it is replaced, but for its state, its creation and Paused", putSourceAgain},
		{"a second one with the name is ErrConflict", putSourceTwice},
		{"a source more than MaxSources is ErrTooMany, and others can be changed", putSourceTooMany},
	}},
	{"Sources", []sentence{
		{"they are listed by name", sourcesByName},
	}},
	{"PauseSource", []sentence{
		{"it sets Paused and nothing else, and a source that does not exist is ErrNotFound", pauseSource},
	}},
	{"DeleteSource", []sentence{
		{"it is gone, the records of rows stay, and one that does not exist is ErrNotFound", deleteSource},
	}},
	{"AdvanceSource", []sentence{
		{"it moves the source to Next and sets MovedUntil", advanceSource},
		{"of a source that is gone or has another cycle it is ErrFenced and changes nothing", advanceSourceFenced},
		{"if a row is not recorded it is ErrFenced and changes nothing", advanceSourceLost},
		{"of the same cycle in parallel exactly one moves", advanceSourceParallel},
	}},
	{"NoteSource", []sentence{
		{"it sets the state, but for Cycle and MovedUntil", noteSource},
		{"a source that does not exist is ErrNotFound", noteSourceMissing},
	}},
	{"OutboxRows", []sentence{
		{"it returns the events of the rows that are recorded", outboxRows},
	}},
	{"ForgetRows", []sentence{
		{"it deletes up to n records from before the time", forgetRows},
		{"it deletes none while a source has no later MovedUntil", forgetRowsOfSources},
		{"a row that was forgotten is published again", forgetRowsAgain},
	}},
	{"ExpungeRows of outbox rows", []sentence{
		{"of an account the records go with its events", expungeRowsOfAccount},
		{"of an event the record stays", expungeRowsOfEvent},
	}},
}

// read returns an event of the endpoint that was read from a row of an outbox, with one delivery.
func (w *world) read(e postrider.Endpoint, row postrider.OutboxID) store.NewEvent {
	event := w.event(e.Account, w.to(e))
	event.Event.Row, event.Event.OccurredAt = row, event.Event.CreatedAt.Add(-time.Hour)
	return event
}

// recorded returns the event of each row that is recorded.
func (w *world) recorded(rows ...postrider.OutboxID) map[postrider.OutboxID]postrider.EventID {
	w.Helper()
	events, err := w.OutboxRows(w.Context(), rows)
	w.ok(err)
	return events
}

// first and again are the results of an event that is stored, and of a duplicate.
func first(of ...store.NewEvent) (p store.Published) {
	p.Conflict = -1
	for _, e := range of {
		p.Events = append(p.Events, store.PublishedEvent{ID: e.Event.ID})
	}
	return p
}

func again(of ...store.NewEvent) store.Published {
	p := first(of...)
	for i := range p.Events {
		p.Events[i].Duplicate = true
	}
	return p
}

func publishRow(w *world) {
	e := w.endpoint()
	row, other := newID[postrider.OutboxID](w), newID[postrider.OutboxID](w)
	event := w.read(e, row)
	w.same("Publish", w.publish(store.Batch{event}), []store.Published{first(event)})
	w.same("the stored event", w.stored(event.Event.ID), event.Event)
	w.same("the record", w.recorded(row, other), map[postrider.OutboxID]postrider.EventID{row: event.Event.ID})
}

func publishRowAgain(w *world) {
	e := w.endpoint()
	row := newID[postrider.OutboxID](w)
	event, changed, keyed := w.read(e, row), w.read(e, row), w.read(e, row)
	changed.Event.Data, changed.Event.Type = []byte("2"), "order.paid"
	w.publish(store.Batch{event}, store.Batch{w.keyed(e, "k", "1")})
	keyed.Event.IdempotencyKey = "k"
	another := w.event(e.Account, w.to(e))
	got := w.publish(store.Batch{changed, another}, store.Batch{keyed})
	want := again(event)
	want.Events = append(want.Events, first(another).Events...)
	w.same("Publish", got, []store.Published{want, again(event)})
	w.absent(changed, keyed)
	w.same("the record", w.recorded(row), map[postrider.OutboxID]postrider.EventID{row: event.Event.ID})
}

func publishRowOfKey(w *world) {
	e := w.endpoint()
	row := newID[postrider.OutboxID](w)
	owner, event := w.keyed(e, "k", "1"), w.keyed(e, "k", "1")
	event.Event.Row, event.Event.OccurredAt = row, event.Event.CreatedAt // are no content
	w.publish(store.Batch{owner})
	w.same("Publish", w.publish(store.Batch{event}), []store.Published{again(owner)})
	w.same("the record", w.recorded(row), map[postrider.OutboxID]postrider.EventID{row: owner.Event.ID})
	w.same("Publish again", w.publish(store.Batch{w.read(e, row)}), []store.Published{again(owner)})
}

func publishRowsInOneCall(w *world) {
	e := w.endpoint()
	row, second := newID[postrider.OutboxID](w), newID[postrider.OutboxID](w)
	a, b, c := w.read(e, row), w.read(e, row), w.read(e, row)
	d, f := w.keyed(e, "k", "1"), w.keyed(e, "k", "1")
	f.Event.Row = second
	want := first(a)
	want.Events = append(want.Events, again(a).Events...)
	w.same("Publish", w.publish(store.Batch{a, b}, store.Batch{c}, store.Batch{d}, store.Batch{f}),
		[]store.Published{want, again(a), first(d), again(d)})
	w.absent(b, c, f)
	w.same("the records", w.recorded(row, second), map[postrider.OutboxID]postrider.EventID{row: a.Event.ID, second: d.Event.ID})
}

func publishRowsRefused(w *world) {
	e := w.endpoint()
	row := newID[postrider.OutboxID](w)
	w.publish(store.Batch{w.keyed(e, "k", "1")})
	event, later := w.read(e, row), w.read(e, row)
	refused := store.Batch{event, w.keyed(e, "k", "2")}
	w.same("Publish", w.publish(refused, store.Batch{later}), []store.Published{{Conflict: 1}, first(later)})
	w.same("the record", w.recorded(row), map[postrider.OutboxID]postrider.EventID{row: later.Event.ID})
	other := w.read(e, newID[postrider.OutboxID](w))
	w.publish(store.Batch{other, w.keyed(e, "k", "2")})
	w.same("the record of a refused batch", len(w.recorded(other.Event.Row)), 0)
}

func publishRowRepeated(w *world) {
	e := w.endpoint()
	batch := store.Batch{w.read(e, newID[postrider.OutboxID](w)), w.keyed(e, "k", "1"), w.keyed(e, "k", "1")}
	batch[0].Event.OrderingKey, batch[2].Event.Row = "o", newID[postrider.OutboxID](w)
	want := w.publish(batch)
	w.same("Publish again", w.publish(batch), want)
	w.same("what is queued", len(w.claim(e, postrider.LaneFirst, 10)), 2)
}

// inParallel publishes each group of batches in a goroutine of its own.
func (w *world) inParallel(groups ...[]store.Batch) [][]store.Published {
	version := w.version()
	got := make([][]store.Published, len(groups))
	var publishers sync.WaitGroup
	for i, batches := range groups {
		publishers.Go(func() {
			var err error
			if got[i], err = w.Publish(w.Context(), store.Publish{Version: version, Batches: batches}); err != nil {
				w.Errorf("Publish = %v", err)
			}
		})
	}
	publishers.Wait()
	return got
}

func publishRowsInParallel(w *world) {
	e := w.endpoint()
	row := newID[postrider.OutboxID](w)
	var groups [][]store.Batch
	for range 16 {
		groups = append(groups, []store.Batch{{w.read(e, row), w.event(e.Account)}})
	}
	got := w.inParallel(groups...)
	if w.Failed() {
		return
	}
	of := w.recorded(row)[row]
	for i, published := range got {
		a := published[0].Events[0]
		if own := groups[i][0][0].Event.ID == of; a.ID != of || a.Duplicate == own {
			w.Errorf("publish %d = %+v, want one first event %s and duplicates of it", i, a, of)
		}
	}
	w.same("what is queued", len(w.claim(e, postrider.LaneFirst, 100)), 1)
}

func publishRowsCrossed(w *world) {
	e := w.endpoint()
	var rows []postrider.OutboxID
	for range 20 {
		rows = append(rows, newID[postrider.OutboxID](w))
	}
	var groups [][]store.Batch
	for i := range 8 {
		var batches []store.Batch
		for j, row := range rows {
			event := w.read(e, row)
			event.Event.IdempotencyKey, event.Event.Data = fmt.Sprintf("k%d", (j+i)%len(rows)), []byte("1")
			event.Event.OrderingKey = "o"
			batches = append(batches, store.Batch{event})
		}
		if i%2 == 1 {
			slices.Reverse(batches)
		}
		groups = append(groups, batches)
	}
	w.inParallel(groups...)
	w.same("rows that are recorded", len(w.recorded(rows...)), len(rows))
}

func publishRowSequence(w *world) {
	e := w.endpoint()
	row := newID[postrider.OutboxID](w)
	sequences := func(row postrider.OutboxID) int64 {
		event := w.read(e, row)
		event.Event.OrderingKey = "o"
		return w.publish(store.Batch{event})[0].Events[0].Sequence
	}
	w.same("the first", sequences(row), int64(1))
	w.same("its row again", sequences(row), int64(1))
	w.same("the next", sequences(newID[postrider.OutboxID](w)), int64(2))
}

// draftSource returns a source that is not stored.
func (w *world) draftSource(name string) postrider.Source {
	id := newID[postrider.SourceID](w)
	return postrider.Source{
		ID: id, Name: name, URL: "postgres://reader@shop.example/shop", Password: []byte("sealed"), CA: "PEM", Keep: 36 * time.Hour, Paused: true,
		Table:     &postrider.SourceTable{Name: "public.outbox", ID: "id", Account: "aggregateid", Type: "type", Data: "payload"},
		CreatedAt: id.Time(),
	}
}

// source stores a source.
func (w *world) source(name string) postrider.Source {
	w.Helper()
	s := w.draftSource(name)
	w.ok(w.PutSource(w.Context(), s))
	return s
}

// theSource returns the stored source.
func (w *world) theSource(id postrider.SourceID) postrider.Source {
	w.Helper()
	all, err := w.Sources(w.Context())
	w.ok(err)
	i := slices.IndexFunc(all, func(s postrider.Source) bool { return s.ID == id })
	if i < 0 {
		w.Fatalf("source %s is not listed", id)
	}
	return all[i]
}

func putSource(w *world) {
	s := w.source("shop")
	w.same("the source", w.theSource(s.ID), s)
	bare := postrider.Source{ID: newID[postrider.SourceID](w), Name: "bare", URL: "postgres://h/d", Keep: time.Hour, CreatedAt: s.CreatedAt}
	w.ok(w.PutSource(w.Context(), bare))
	w.same("a source without the rest", w.theSource(bare.ID), bare)
}

func putSourceAgain(w *world) {
	s := w.source("shop")
	w.ok(w.AdvanceSource(w.Context(), store.AdvanceSource{ID: s.ID, Next: 3, MovedUntil: s.CreatedAt}))
	w.ok(w.NoteSource(w.Context(), s.ID, postrider.SourceState{At: s.CreatedAt, Node: "a"}))
	state := w.theSource(s.ID).State
	s.Name, s.URL, s.Password, s.CA, s.Keep, s.Table = "other", "postgres://b/c", nil, "", time.Hour, nil
	changed := s
	changed.CreatedAt, changed.State.Cycle, changed.Paused = s.CreatedAt.Add(time.Hour), 9, !s.Paused
	w.ok(w.PutSource(w.Context(), changed))
	s.State = state
	w.same("the source", w.theSource(s.ID), s)
}

func pauseSource(w *world) {
	s := w.source("shop")
	for range 2 {
		s.Paused = !s.Paused
		w.ok(w.PauseSource(w.Context(), s.ID, s.Paused))
		w.same("the source", w.theSource(s.ID), s)
	}
	w.refuses(w.PauseSource(w.Context(), newID[postrider.SourceID](w), true), postrider.ErrNotFound)
}

func putSourceTwice(w *world) {
	w.source("shop")
	other := w.source("other")
	w.refuses(w.PutSource(w.Context(), w.draftSource("shop")), postrider.ErrConflict)
	other.Name = "shop"
	w.refuses(w.PutSource(w.Context(), other), postrider.ErrConflict)
	w.same("the other", w.theSource(other.ID).Name, "other")
}

func putSourceTooMany(w *world) {
	var last postrider.Source
	for i := range store.MaxSources {
		last = w.source(fmt.Sprint("s", i))
	}
	w.refuses(w.PutSource(w.Context(), w.draftSource("more")), store.ErrTooMany)
	last.URL = "postgres://b/c"
	w.ok(w.PutSource(w.Context(), last))
	w.same("the changed one", w.theSource(last.ID).URL, last.URL)
}

func sourcesByName(w *world) {
	for _, name := range []string{"b", "a", "C"} {
		w.source(name)
	}
	all, err := w.Sources(w.Context())
	w.ok(err)
	var names []string
	for _, s := range all {
		names = append(names, s.Name)
	}
	w.same("the names", names, []string{"C", "a", "b"})
}

func deleteSource(w *world) {
	s, row := w.source("shop"), newID[postrider.OutboxID](w)
	w.publish(store.Batch{w.read(w.endpoint(), row)})
	w.ok(w.DeleteSource(w.Context(), s.ID))
	all, err := w.Sources(w.Context())
	w.ok(err)
	w.same("the sources", len(all), 0)
	w.same("the records", len(w.recorded(row)), 1)
	w.refuses(w.DeleteSource(w.Context(), s.ID), postrider.ErrNotFound)
	w.source("shop")
}

func advanceSource(w *world) {
	s, other := w.source("shop"), w.source("other")
	row := newID[postrider.OutboxID](w)
	w.publish(store.Batch{w.read(w.endpoint(), row)})
	w.ok(w.AdvanceSource(w.Context(), store.AdvanceSource{
		ID: s.ID, Next: 1, MovedUntil: s.CreatedAt, Rows: []postrider.OutboxID{row, row},
	}))
	w.same("its state", w.theSource(s.ID).State, postrider.SourceState{Cycle: 1, MovedUntil: s.CreatedAt})
	w.ok(w.AdvanceSource(w.Context(), store.AdvanceSource{ID: s.ID, Cycle: 1, Next: 1, MovedUntil: s.CreatedAt.Add(time.Hour)}))
	w.same("its state", w.theSource(s.ID).State, postrider.SourceState{Cycle: 1, MovedUntil: s.CreatedAt.Add(time.Hour)})
	w.same("the state of another", w.theSource(other.ID).State, postrider.SourceState{})
}

func advanceSourceFenced(w *world) {
	s := w.source("shop")
	a := store.AdvanceSource{ID: s.ID, Next: 1, MovedUntil: s.CreatedAt}
	w.ok(w.AdvanceSource(w.Context(), a))
	for _, cycle := range []int64{0, 2} {
		a.Cycle, a.Next = cycle, 5
		w.refuses(w.AdvanceSource(w.Context(), a), postrider.ErrFenced)
	}
	w.same("its cycle", w.theSource(s.ID).State.Cycle, int64(1))
	a.ID = newID[postrider.SourceID](w)
	w.refuses(w.AdvanceSource(w.Context(), a), postrider.ErrFenced)
}

func advanceSourceLost(w *world) {
	s, e := w.source("shop"), w.endpoint()
	known, lost := newID[postrider.OutboxID](w), newID[postrider.OutboxID](w)
	w.publish(store.Batch{w.read(e, known)})
	w.refuses(w.AdvanceSource(w.Context(), store.AdvanceSource{
		ID: s.ID, Next: 1, MovedUntil: s.CreatedAt, Rows: []postrider.OutboxID{known, lost},
	}), postrider.ErrFenced)
	w.same("its state", w.theSource(s.ID).State, postrider.SourceState{})
}

func advanceSourceParallel(w *world) {
	s := w.source("shop")
	errs := make([]error, 8)
	var readers sync.WaitGroup
	for i := range errs {
		readers.Go(func() {
			errs[i] = w.AdvanceSource(w.Context(), store.AdvanceSource{ID: s.ID, Next: 1, MovedUntil: s.CreatedAt})
		})
	}
	readers.Wait()
	moved := 0
	for _, err := range errs {
		if err == nil {
			moved++
			continue
		}
		w.refuses(err, postrider.ErrFenced)
	}
	w.same("calls that moved it", moved, 1)
}

func noteSource(w *world) {
	s := w.source("shop")
	at := s.CreatedAt.Add(123456 * time.Microsecond)
	w.ok(w.AdvanceSource(w.Context(), store.AdvanceSource{ID: s.ID, Next: 1, MovedUntil: at}))
	state := postrider.SourceState{
		Cycle: 7, MovedUntil: at.Add(time.Hour), At: at, Node: "a", Error: "connect: refused", ErrorSince: at.Add(-time.Hour), Waiting: 10,
		Oldest: at.Add(-time.Minute), OpenSince: at.Add(-time.Second), Rejected: 3, Missing: 2,
	}
	w.ok(w.NoteSource(w.Context(), s.ID, state))
	state.Cycle, state.MovedUntil = 1, at
	w.same("its state", w.theSource(s.ID).State, state)
	w.ok(w.NoteSource(w.Context(), s.ID, postrider.SourceState{At: at}))
	w.same("its state", w.theSource(s.ID).State, postrider.SourceState{Cycle: 1, MovedUntil: at, At: at})
}

func noteSourceMissing(w *world) {
	w.refuses(w.NoteSource(w.Context(), newID[postrider.SourceID](w), postrider.SourceState{}), postrider.ErrNotFound)
}

func outboxRows(w *world) {
	e := w.endpoint()
	var batch store.Batch
	var rows []postrider.OutboxID
	want := map[postrider.OutboxID]postrider.EventID{}
	for range 300 {
		event := w.read(e, newID[postrider.OutboxID](w))
		batch, rows, want[event.Event.Row] = append(batch, event), append(rows, event.Event.Row), event.Event.ID
	}
	w.publish(batch)
	w.same("the events", w.recorded(append(rows, newID[postrider.OutboxID](w), rows[0])...), want)
	w.same("the events of no rows", len(w.recorded()), 0)
}

// threeRows publishes three rows and returns a time after it.
func (w *world) threeRows() (rows []postrider.OutboxID, after time.Time) {
	w.Helper()
	e := w.endpoint()
	for range 3 {
		row := newID[postrider.OutboxID](w)
		rows = append(rows, row)
		w.publish(store.Batch{w.read(e, row)})
	}
	return rows, w.now().Add(time.Minute)
}

func (w *world) forgotten(before time.Time, n int) int {
	w.Helper()
	n, err := w.ForgetRows(w.Context(), before, n)
	w.ok(err)
	return n
}

func forgetRows(w *world) {
	rows, after := w.threeRows()
	w.same("records from before an hour ago", w.forgotten(after.Add(-time.Hour), 10), 0)
	w.same("records in a first call", w.forgotten(after, 2), 2)
	w.same("the records that are left", len(w.recorded(rows...)), 1)
	w.same("records in a second call", w.forgotten(after, 2), 1)
	w.same("the records that are left", len(w.recorded(rows...)), 0)
}

func forgetRowsOfSources(w *world) {
	rows, after := w.threeRows()
	a, b := w.source("a"), w.source("b")
	move := func(s postrider.Source, until time.Time) {
		w.ok(w.AdvanceSource(w.Context(), store.AdvanceSource{ID: s.ID, MovedUntil: until}))
	}
	move(a, after.Add(time.Hour))
	w.same("records while a source has none", w.forgotten(after, 10), 0)
	move(b, after)
	w.same("records while a source has the same", w.forgotten(after, 10), 0)
	w.same("the records that are left", len(w.recorded(rows...)), 3)
	move(b, after.Add(time.Second))
	w.same("records while both have later ones", w.forgotten(after, 10), 3)
}

func forgetRowsAgain(w *world) {
	rows, after := w.threeRows()
	w.forgotten(after, 10)
	event := w.read(w.endpoint(), rows[0])
	w.same("Publish", w.publish(store.Batch{event}), []store.Published{first(event)})
}

func expungeRowsOfAccount(w *world) {
	a, b := w.endpoint(), w.endpoint()
	ofA, ofB := newID[postrider.OutboxID](w), newID[postrider.OutboxID](w)
	ended := w.read(a, ofA)
	ended.Deliveries = nil
	w.publish(store.Batch{ended}, store.Batch{w.read(b, ofB)})
	w.ok(w.DeleteAccount(w.Context(), a.Account))
	_, err := w.DeleteEndpoints(w.Context(), 100)
	w.ok(err)
	x := w.expunge(w.newExpunge(a.Account), 100)
	w.same("events", x.Removed.Events, 1)
	_, has := w.recorded(ofA, ofB)[ofA]
	w.same("the record of its row is there", has, false)
	w.same("the record of another's row", len(w.recorded(ofB)), 1)
}

func expungeRowsOfEvent(w *world) {
	e, row := w.endpoint(), newID[postrider.OutboxID](w)
	event := w.read(e, row)
	event.Deliveries = nil
	w.publish(store.Batch{event})
	x := w.newExpunge(e.Account)
	x.Event = event.Event.ID
	w.expunge(x, 100)
	w.same("the event is stored", w.isStored(event.Event.ID), false)
	w.same("Publish of its row", w.publish(store.Batch{w.read(e, row)}), []store.Published{again(event)})
}
