package storetest

import (
	"bytes"
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

var archive = []verb{
	{"LeaseArchive", []sentence{
		{"one node has the lease until it ends, and may make it longer", leaseArchive},
	}},
	{"ArchiveDay", []sentence{
		{"a day has its rows and its parts; one whose parts have as many rows is not returned", archiveDay},
		{"a day that has not ended is not returned", archiveDayNotOver},
	}},
	{"ArchiveRows", []sentence{
		{"events come in the order of their ids, with their data, after the given one", archiveEvents},
		{"attempts come by delivery and number; what is in their bodies comes as bodies", archiveAttempts},
		{"it ends when yield returns false", archiveRowsEnd},
		{"single rows come alone, and one that is gone does not come", archiveRowsOnly},
		{"single rows that OldRows has returned come once each, however large they are", archiveRowsLarge},
	}},
	{"PutArchivePart", []sentence{
		{"another number or position than ArchiveDay says is ErrConflict", putPartConflict},
		{"a part that is not announced, or no longer, is ErrConflict; ArchiveParts lists announced parts only if asked", putPartAnnounced},
		{"of several at once, one is recorded", putPartInParallel},
		{"a part of which a row was removed since it was announced is ErrConflict", putPartRemoved},
		{"a part of single rows is not counted", putSingles},
		{"a part of single rows is ErrConflict while rows of another part of its day are left", putSinglesConflict},
	}},
	{"RedoArchiveDay", []sentence{
		{"the parts of which nothing is deleted are forgotten and returned", redoArchiveDay},
	}},
	{"ArchiveParts", []sentence{
		{"parts are listed by kind, day and number, after the given one, and filtered", archiveParts},
	}},
	{"ArchiveKey", []sentence{
		{"it is ErrNotFound until one is stored, and EncryptedValues lists it first", archiveKey},
		{"PutArchiveKey returns the first one", putArchiveKey},
		{"DeleteArchiveKey says whether there was one", deleteArchiveKey},
	}},
	{"DeleteOld archived", []sentence{
		{"what no part has stays, and what a part has goes", deleteArchived},
		{"an event that is needed stays, and goes later", deleteArchivedNeeded},
		{"an attempt that was recorded after the part was made stays with its day, until it is archived", deleteArchivedLate},
		{"attempts go after the bodies of their day", deleteArchivedBodiesFirst},
		{"a day that is to be archived again stays, though some of it went before", deleteArchivedRedone},
		{"a row that was added later does not stand in for one that was removed", deleteArchivedRemoved},
		{"rows that went while no archive was set are counted, and keep their copies", deleteUnarchived},
	}},
	{"RestoredRecords", []sentence{
		{"records are listed by id and number, a page at a time, and filtered", restoredRecords},
		{"a record that is put again gets the new time", restoredAgain},
		{"ForgetRestored deletes those that were restored before a time", forgetRestored},
	}},
}

// soon is a time at which today is over.
func (w *world) soon() time.Time { return w.now().Add(48 * time.Hour) }

func (w *world) archiveDay(kind store.Kind) store.ArchiveDay {
	w.Helper()
	day, err := w.ArchiveDay(w.Context(), kind, w.soon())
	w.ok(err)
	return day
}

func (w *world) rows(kind store.Kind, day time.Time, after store.RowID) (rows []store.ArchivedRow) {
	w.Helper()
	w.ok(w.ArchiveRows(w.Context(), store.ArchiveRows{Kind: kind, Day: day, After: after}, func(r store.ArchivedRow) bool {
		rows = append(rows, r)
		return true
	}))
	return rows
}

// nextPart returns the next part of a day with up to limit of its rows.
func (w *world) nextPart(kind store.Kind, day store.ArchiveDay, limit int) store.ArchivePart {
	w.Helper()
	p := store.ArchivePart{
		Kind: kind, Day: day.Day, Number: day.Next(), Object: "object", Bytes: 100, SHA256: [32]byte{1}, After: day.After(), MadeAt: w.now(),
	}
	for _, row := range w.rows(kind, day.Day, day.After()) {
		if p.Rows < int64(limit) || row.ID() == p.Last {
			p.Rows, p.Left, p.Last = p.Rows+1, p.Left+1, row.ID()
		}
	}
	return p
}

// announced returns the announcement of a part.
func announced(p store.ArchivePart) store.ArchivePart {
	p.Rows, p.Left, p.Bytes, p.SHA256 = 0, 0, 0, [32]byte{}
	return p
}

// putPart announces and records a part, and returns the error of the record.
func (w *world) putPart(p store.ArchivePart) error {
	w.Helper()
	first := announced(p)
	if p.Left == 0 {
		first.After = store.RowID{}
	}
	w.ok(w.PutArchivePart(w.Context(), first))
	return w.PutArchivePart(w.Context(), p)
}

// archiveAll archives all that is stored of a kind, as parts with limit rows, and returns them.
func (w *world) archiveAll(kind store.Kind, limit int) (parts []store.ArchivePart) {
	w.Helper()
	for {
		day := w.archiveDay(kind)
		if day.Day.IsZero() {
			return parts
		}
		p := w.nextPart(kind, day, limit)
		if p.Rows == 0 {
			_, err := w.RedoArchiveDay(w.Context(), kind, day.Day)
			w.ok(err)
			continue
		}
		w.ok(w.putPart(p))
		parts = append(parts, p)
	}
}

// forgetArchived forgets all that is archived of a kind, whatever its age.
func (w *world) forgetArchived(kind store.Kind) {
	w.Helper()
	for {
		n, err := w.DeleteOld(w.Context(), store.DeleteOld{Kind: kind, Before: w.soon(), Limit: forgetLimit, Archived: true})
		w.ok(err)
		if n < forgetLimit {
			w.ok(w.MakePartitions(w.Context()))
			return
		}
	}
}

func leaseArchive(w *world) {
	lease := func(node uint64, d time.Duration) bool {
		w.Helper()
		leased, err := w.LeaseArchive(w.Context(), node, d)
		w.ok(err)
		return leased
	}
	w.same("the first", lease(1, brief), true)
	w.same("the same again", lease(1, long), true)
	w.same("another one", lease(2, long), false)
	w.same("the first, for a short time", lease(1, brief), true)
	w.eventually("another one gets it", func() bool { return lease(2, long) })
	w.same("the first, after that", lease(1, long), false)
}

func archiveDay(w *world) {
	w.same("of an empty store", w.archiveDay(store.OldEvents).Day.IsZero(), true)
	e := w.endpoint()
	w.pending(e, 3)
	day := w.archiveDay(store.OldEvents)
	w.same("the day", day.Day, store.DayOf(w.now()))
	w.same("its rows", day.Rows, int64(3))
	w.same("its next part", day.Next(), 1)
	part := w.nextPart(store.OldEvents, day, 2)
	w.ok(w.putPart(part))
	day = w.archiveDay(store.OldEvents)
	w.same("its parts", day.Parts, []store.ArchivePart{part})
	w.same("its next part", day.Next(), 2)
	w.same("archived rows", day.Left(), int64(2))
	w.same("where the next one begins", day.After(), part.Last)
	w.ok(w.putPart(w.nextPart(store.OldEvents, day, 2)))
	w.same("all rows are archived", w.archiveDay(store.OldEvents).Day.IsZero(), true)
	w.pending(e, 1)
	w.same("rows after one more is published", w.archiveDay(store.OldEvents).Rows, int64(4))
}

func archiveDayNotOver(w *world) {
	w.pending(w.endpoint(), 1)
	day, err := w.ArchiveDay(w.Context(), store.OldEvents, w.now())
	w.ok(err)
	w.same("the day is returned", !day.Day.IsZero(), false)
}

func archiveEvents(w *world) {
	var want []store.ArchivedRow
	e := w.endpoint()
	talker := w.event(e.Account, w.to(e))
	talker.Event.About, talker.Event.Endpoints = said, []postrider.EndpointID{{1}}
	talker.Event.OccurredAt, talker.Event.Row = e.CreatedAt, newID[postrider.OutboxID](w)
	w.publish(store.Batch{talker})
	for _, id := range append(w.pending(e, 2), talker.Deliveries[0].ID) {
		event := w.stored(w.delivery(id).Event)
		want = append(want, store.ArchivedRow{Account: event.Account, Event: &event})
	}
	slices.SortFunc(want, func(a, b store.ArchivedRow) int { return a.Event.ID.Compare(b.Event.ID) })
	today := store.DayOf(w.now())
	w.same("the rows", w.rows(store.OldEvents, today, store.RowID{}), want)
	w.same("the rows after the first", w.rows(store.OldEvents, today, want[0].ID()), want[1:])
	w.same("the rows of tomorrow", len(w.rows(store.OldEvents, today.AddDate(0, 0, 1), store.RowID{})), 0)
}

func archiveAttempts(w *world) {
	e := w.endpoint()
	id := w.pending(e, 1)[0]
	w.settle(retry(w.claimOne(e, postrider.LaneFirst), 0))
	s := delivered(w.claimOne(e, postrider.LaneRetry))
	s.Attempt.RequestHead, s.Attempt.ResponseHead, s.Attempt.ResponseBody = []byte("request"), []byte("head"), make([]byte, 1000)
	w.settle(s)
	d := w.delivery(id)
	today := store.DayOf(w.now())
	attempts, bodies := w.rows(store.OldAttempts, today, store.RowID{}), w.rows(store.OldBodies, today, store.RowID{})
	want := w.attempts(d)
	want[1].RequestHead, want[1].ResponseHead, want[1].ResponseBody = nil, nil, want[1].ResponseBody[:store.MaxAcceptedBody]
	for i := range want {
		want[i].RequestHead, want[i].ResponseHead = nil, nil
		w.same("an attempt", attempts[i], store.ArchivedRow{Account: d.Account, Attempt: &want[i], EventType: d.EventType})
	}
	last := bodies[len(bodies)-1]
	w.same("the last body", last, store.ArchivedRow{Account: d.Account, EventType: d.EventType, Attempt: &postrider.Attempt{
		Delivery: id, Number: 2, Event: d.Event, Endpoint: d.Endpoint,
		RequestHead: []byte("request"), ResponseHead: []byte("head"), ResponseBody: make([]byte, 1000),
	}})
}

func archiveRowsEnd(w *world) {
	w.pending(w.endpoint(), 3)
	n := 0
	w.ok(w.ArchiveRows(w.Context(), store.ArchiveRows{Kind: store.OldEvents, Day: store.DayOf(w.now())}, func(store.ArchivedRow) bool {
		n++
		return n < 2
	}))
	w.same("rows", n, 2)
}

func archiveRowsOnly(w *world) {
	e := w.endpoint()
	for range 2 {
		w.pending(e, 1)
		w.settle(retry(w.claimOne(e, postrider.LaneFirst), 0))
		s := delivered(w.claimOne(e, postrider.LaneRetry))
		s.Attempt.RequestHead, s.Attempt.ResponseHead, s.Attempt.ResponseBody = []byte("request"), []byte("head"), make([]byte, 1000)
		w.settle(s)
	}
	today := store.DayOf(w.now())
	for _, kind := range []store.Kind{store.OldEvents, store.OldAttempts, store.OldBodies} {
		all := w.rows(kind, today, store.RowID{})
		only := []store.OldRow{{ID: all[0].ID()}}
		if a := all[0].Attempt; a != nil {
			only[0].Number = a.Number
		}
		only = append(only, store.OldRow{ID: newID[store.RowID](w), Number: 1})
		var got []store.ArchivedRow
		w.ok(w.ArchiveRows(w.Context(), store.ArchiveRows{Kind: kind, Day: today, Only: only}, func(r store.ArchivedRow) bool {
			got = append(got, r)
			return true
		}))
		w.same("single "+string(kind), got, all[:1])
	}
}

// archiveRowsLarge reads more than a store may hold in memory at once.
func archiveRowsLarge(w *world) {
	account := w.account()
	var batch store.Batch
	for range 4 {
		event := w.event(account)
		event.Event.Data = make([]byte, 3<<20)
		batch = append(batch, event)
	}
	w.publish(batch)
	only, _ := w.old(account, store.OldEvents, all)
	var got []store.OldRow
	q := store.ArchiveRows{Kind: store.OldEvents, Day: store.DayOf(w.now()), Only: only}
	w.ok(w.ArchiveRows(w.Context(), q, func(r store.ArchivedRow) bool {
		got = append(got, store.OldRow{ID: r.ID(), Key: store.Key{Account: r.Account}})
		return len(got) < 10
	}))
	w.same("the rows", got, only)
}

func deleteArchivedRedone(w *world) {
	e := w.endpoint()
	for range 5 {
		w.ended(e)
	}
	today := store.DayOf(w.now())
	w.archiveAll(store.OldEvents, 10)
	_, err := w.DeleteOld(w.Context(), store.DeleteOld{Kind: store.OldEvents, Before: w.soon(), Limit: 2, Archived: true})
	w.ok(err)
	w.ok(w.MakePartitions(w.Context()))
	left := len(w.rows(store.OldEvents, today, store.RowID{})) // none, if a day goes as a whole
	_, err = w.RedoArchiveDay(w.Context(), store.OldEvents, today)
	w.ok(err)
	w.forgetArchived(store.OldEvents)
	w.same("events", len(w.rows(store.OldEvents, today, store.RowID{})), left)
	w.archiveAll(store.OldEvents, 10)
	w.forgetArchived(store.OldEvents)
	w.same("events after the day was archived again", len(w.rows(store.OldEvents, today, store.RowID{})), 0)
}

func redoArchiveDay(w *world) {
	e := w.endpoint()
	for range 4 {
		w.ended(e)
	}
	parts := w.archiveAll(store.OldEvents, 2)
	forgotten, err := w.RedoArchiveDay(w.Context(), store.OldEvents, parts[0].Day)
	w.ok(err)
	w.same("the forgotten parts", forgotten, parts)
	day := w.archiveDay(store.OldEvents)
	w.same("the next part", day.Next(), 1)
	w.same("the rows", day.Rows, int64(4))
	w.archiveAll(store.OldEvents, 10)
	w.forgetArchived(store.OldEvents)
	forgotten, err = w.RedoArchiveDay(w.Context(), store.OldEvents, parts[0].Day)
	w.ok(err)
	w.same("forgotten parts that are deleted", len(forgotten), 0)
}

func archiveParts(w *world) {
	e := w.endpoint()
	for range 3 {
		w.ended(e)
	}
	events, attempts := w.archiveAll(store.OldEvents, 2), w.archiveAll(store.OldAttempts, 2)
	list := func(q store.ArchiveParts) []store.ArchivePart {
		w.Helper()
		if q.Limit == 0 {
			q.Limit = 10
		}
		parts, err := w.ArchiveParts(w.Context(), q)
		w.ok(err)
		return parts
	}
	all := slices.Concat(attempts, events)
	w.same("all", list(store.ArchiveParts{}), all)
	w.same("a page", list(store.ArchiveParts{Limit: 2}), all[:2])
	w.same("after a part", list(store.ArchiveParts{After: all[1]}), all[2:])
	w.same("a kind", list(store.ArchiveParts{Kind: store.OldEvents}), events)
	today := store.DayOf(w.now())
	w.same("from today on", list(store.ArchiveParts{From: today}), all)
	w.same("before today", len(list(store.ArchiveParts{To: today})), 0)
}

func archiveKey(w *world) {
	account, other := w.account(), w.account()
	_, err := w.ArchiveKey(w.Context(), account)
	w.refuses(err, postrider.ErrNotFound)
	for _, a := range []postrider.AccountID{other, account} {
		_, err := w.PutArchiveKey(w.Context(), a, a[:])
		w.ok(err)
	}
	stored, err := w.ArchiveKey(w.Context(), account)
	w.ok(err)
	w.same("the key", stored, account[:])
	_, secrets := w.encryptedEndpoints()
	keys := []store.EncryptedValue{
		{ID: store.EncryptedID{Archive: account}, Bytes: account[:]},
		{ID: store.EncryptedID{Archive: other}, Bytes: other[:]},
	}
	w.same("the encrypted values", w.encrypted(store.EncryptedID{}, 10), append(keys, secrets...))
	w.same("after the first key", w.encrypted(keys[0].ID, 1), keys[1:])
	w.same("after the last key", w.encrypted(keys[1].ID, 10), secrets)
	w.same("the last key alone", w.encrypted(keys[1].ID.Before(), 1), keys[1:])
	w.same("reencrypted", w.reencrypt(reencryptions(keys)...), 2)
	stored, err = w.ArchiveKey(w.Context(), other)
	w.ok(err)
	w.same("the reencrypted key", bytes.HasPrefix(stored, []byte("again ")), true)
}

func putArchiveKey(w *world) {
	account := w.account()
	for _, key := range []string{"first", "second"} {
		stored, err := w.PutArchiveKey(w.Context(), account, []byte(key))
		w.ok(err)
		w.same("the key", string(stored), "first")
	}
}

func deleteArchiveKey(w *world) {
	account := w.account()
	_, err := w.PutArchiveKey(w.Context(), account, []byte("key"))
	w.ok(err)
	for _, want := range []bool{true, false} {
		there, err := w.DeleteArchiveKey(w.Context(), account)
		w.ok(err)
		w.same("there was one", there, want)
	}
	_, err = w.ArchiveKey(w.Context(), account)
	w.refuses(err, postrider.ErrNotFound)
}

func deleteArchived(w *world) {
	e := w.endpoint()
	d := w.ended(e)
	kinds := []store.Kind{store.OldBodies, store.OldAttempts, store.OldEvents}
	for _, kind := range kinds {
		w.forgetArchived(kind)
	}
	w.same("an event that is not archived is stored", w.isStored(d.Event), true)
	w.same("its attempt has its body", len(w.attempts(d)[0].ResponseBody), 1000)
	for _, kind := range kinds {
		w.archiveAll(kind, 10)
		w.forgetArchived(kind)
	}
	w.same("the event is stored", w.isStored(d.Event), false)
	w.same("its attempts", len(w.attempts(d)), 0)
	for _, kind := range kinds {
		w.same("there is more to archive", !w.archiveDay(kind).Day.IsZero(), false)
	}
}

func deleteArchivedNeeded(w *world) {
	e := w.endpoint()
	id, gone := w.pending(e, 1)[0], w.ended(w.endpoint())
	w.archiveAll(store.OldEvents, 10)
	w.forgetArchived(store.OldEvents)
	w.same("the event of one that has ended is stored", w.isStored(gone.Event), false)
	item := w.claimOne(e, postrider.LaneFirst)
	w.same("the event of the pending one", item.Event.Data != nil, true)
	w.settle(delivered(item))
	w.forgetArchived(store.OldEvents)
	w.same("the event is stored when nothing needs it", w.isStored(w.delivery(id).Event), false)
}

func deleteArchivedLate(w *world) {
	e := w.endpoint()
	id := w.pending(e, 1)[0]
	w.settle(retry(w.claimOne(e, postrider.LaneFirst), 0))
	w.archiveAll(store.OldBodies, 10)
	w.forgetArchived(store.OldBodies)
	w.archiveAll(store.OldAttempts, 10)
	w.settle(retry(w.claimOne(e, postrider.LaneRetry), 0))
	w.archiveAll(store.OldBodies, 10)
	w.forgetArchived(store.OldBodies)
	w.forgetArchived(store.OldAttempts)
	w.same("attempts when the second is not archived", len(w.attempts(w.delivery(id))), 2)
	w.archiveAll(store.OldAttempts, 10)
	w.forgetArchived(store.OldAttempts)
	w.same("attempts when both are", len(w.attempts(w.delivery(id))), 0)
}

func deleteArchivedBodiesFirst(w *world) {
	d := w.ended(w.endpoint())
	w.archiveAll(store.OldAttempts, 10)
	w.forgetArchived(store.OldAttempts)
	w.same("attempts, with bodies", len(w.attempts(d)), 1)
	w.archiveAll(store.OldBodies, 10)
	w.forgetArchived(store.OldBodies)
	w.forgetArchived(store.OldAttempts)
	w.same("attempts, without bodies", len(w.attempts(d)), 0)
}

// newRestored returns n records of an event, the first of them the event.
func (w *world) newRestored(n int) (records []store.RestoredRecord) {
	event, account, endpoint, delivery := newID[postrider.EventID](w), newID[postrider.AccountID](w), newID[postrider.EndpointID](w),
		newID[store.RowID](w)
	records = []store.RestoredRecord{{
		Kind: store.OldEvents, ID: store.RowID(event), Account: account, Event: event, Type: "order.created", Record: []byte(`{"id":1}`),
		At: w.now(),
	}}
	for number := range n - 1 {
		records = append(records, store.RestoredRecord{
			Kind: store.OldAttempts, ID: delivery, Number: number + 1, Account: account, Event: event, Endpoint: endpoint, Type: "order.created",
			Record: []byte(`{}`), At: w.now(),
		})
	}
	return records
}

func (w *world) restored(q store.RestoredQuery) store.Page[store.RestoredRecord] {
	w.Helper()
	page, err := w.RestoredRecords(w.Context(), q)
	w.ok(err)
	return page
}

func restoredRecords(w *world) {
	first, second := w.newRestored(3), w.newRestored(2)
	w.ok(w.PutRestored(w.Context(), slices.Concat(second, first)))
	all := slices.Concat(first, second)
	slices.SortStableFunc(all, func(a, b store.RestoredRecord) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	var got []store.RestoredRecord
	for q := (store.RestoredQuery{Paging: store.Paging{Limit: 2}}); ; {
		page := w.restored(q)
		got = append(got, page.Items...)
		if q.Cursor = page.Next; q.Cursor == "" {
			break
		}
	}
	w.same("all", got, all)
	w.same("of an event", w.restored(store.RestoredQuery{Event: first[0].Event}).Items, first)
	w.same("of an account", w.restored(store.RestoredQuery{Account: second[0].Account}).Items, second)
	w.same("of an endpoint", w.restored(store.RestoredQuery{Endpoint: first[1].Endpoint}).Items, first[1:])
}

func restoredAgain(w *world) {
	records := w.newRestored(1)
	w.ok(w.PutRestored(w.Context(), records))
	records[0].At = records[0].At.Add(time.Hour)
	w.ok(w.PutRestored(w.Context(), records))
	w.same("the record", w.restored(store.RestoredQuery{}).Items, records)
}

func forgetRestored(w *world) {
	records := w.newRestored(3)
	records[0].At = records[0].At.Add(-time.Hour)
	w.ok(w.PutRestored(w.Context(), records))
	n, err := w.ForgetRestored(w.Context(), w.now().Add(-time.Minute), 10)
	w.ok(err)
	w.same("forgotten", n, 1)
	w.same("records", w.restored(store.RestoredQuery{}).Items, records[1:])
	n, err = w.ForgetRestored(w.Context(), w.now().Add(time.Minute), 1)
	w.ok(err)
	w.same("forgotten with a limit", n, 1)
}
