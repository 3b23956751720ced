package storetest

import (
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

var expunges = []verb{
	{"PutExpunge", []sentence{
		{"repeated with the same id, it changes nothing", expungeRepeated},
	}},
	{"Expunges", []sentence{
		{"it lists expunges, newest first, by id, and those that go on", expungesListed},
	}},
	{"ExpungeRows", []sentence{
		{"of an event it removes the event with its key, attempts, requests and resolved dead letters", expungeEvent},
		{"pending deliveries stay, and the unresolved dead letters of an event", expungePending},
		{"of an endpoint it removes all but a deleted row without URL, texts and policy", expungeEndpoint},
		{"of an account it removes all of its events and endpoints, its sessions and jobs; its row stays without name", expungeAccount},
		{"of an event or account it removes idempotency keys of events that retention has deleted", expungeLeftKeys},
		{"what belongs to others stays", expungeOthers},
		{"it removes up to r.Limit rows at a time, and adds them to the counts and the digest", expungeChunks},
		{"it ends when nothing was found for as long as r.Settled, and removes nothing then", expungeEnds},
		{"of an event or endpoint it ends when NoteExpunge has said that the archive is done", expungeEndsWithTheArchive},
		{"rows that a part of the archive has are not left", expungeCounted},
		{"what was added behind a part is not deleted before it is archived, whatever was expunged", expungeLate},
		{"an expunge that does not exist is ErrNotFound", expungeMissing},
	}},
	{"NoteOutbox", []sentence{
		{"it adds the rows and replaces the rest, but no uid by none, and a fault keeps the expunge of an account from its end", noteOutbox},
	}},
	{"NoteExpunge", []sentence{
		{"it changes nothing if the expunge has found rows since, or has ended", noteExpunge},
	}},
	{"Scrub", []sentence{
		{"it may be called at any time, and removes no row", func(w *world) {
			e := w.endpoint()
			w.pending(e, 2)
			w.ok(w.Scrub(w.Context()))
			w.same("claimed", len(w.claim(e, postrider.LaneFirst, 3)), 2)
		}},
	}},
	{"ReplaceArchivePart", []sentence{
		{"the part has another object and fewer rows, the expunge counts them, and the rest is deleted as before", replacePart},
		{"without an object, the part is forgotten", replacePartByNone},
		{"a part with another object is ErrConflict, and nothing is counted", replacePartConflict},
	}},
}

// newExpunge returns one that is not stored. What is removed is set by the caller.
func (w *world) newExpunge(account postrider.AccountID) postrider.Expunge {
	e := postrider.Expunge{ID: newID[postrider.ExpungeID](w), Account: account, By: "someone"}
	e.CreatedAt = e.ID.Time()
	return e
}

// expunge stores an expunge and removes rows until nothing is found.
func (w *world) expunge(e postrider.Expunge, limit int) postrider.Expunge {
	w.Helper()
	w.ok(w.PutExpunge(w.Context(), e))
	for range 1000 {
		stored, err := w.ExpungeRows(w.Context(), store.ExpungeRows{ID: e.ID, Limit: limit, Settled: long})
		w.ok(err)
		if !stored.EmptySince.IsZero() {
			return stored
		}
	}
	w.Fatal("an expunge always finds something")
	return e
}

// readExpunge returns what is stored.
func (w *world) readExpunge(id postrider.ExpungeID) postrider.Expunge {
	w.Helper()
	page, err := w.Expunges(w.Context(), store.ExpungeQuery{ID: id})
	w.ok(err)
	if len(page.Items) != 1 {
		w.Fatalf("%d expunges have the id %s", len(page.Items), id)
	}
	return page.Items[0]
}

// deleteEndpoint deletes an endpoint and cancels its deliveries.
func (w *world) deleteEndpoint(e postrider.Endpoint) {
	w.Helper()
	e = w.found(e.ID)
	e.Status = postrider.EndpointDeleted
	w.put(e)
	_, _, err := w.CancelDeleted(w.Context(), 1000)
	w.ok(err)
}

func expungeRepeated(w *world) {
	e := w.newExpunge(w.account())
	e.Event = newID[postrider.EventID](w)
	w.ok(w.PutExpunge(w.Context(), e))
	changed := e
	changed.By = "someone else"
	w.ok(w.PutExpunge(w.Context(), changed))
	w.same("the stored one", w.readExpunge(e.ID), e)
}

func expungesListed(w *world) {
	first, second, third := w.newExpunge(w.account()), w.newExpunge(w.account()), w.newExpunge(w.account())
	second.Endpoint, third.Event = newID[postrider.EndpointID](w), newID[postrider.EventID](w)
	for _, e := range []postrider.Expunge{first, second, third} {
		w.ok(w.PutExpunge(w.Context(), e))
	}
	w.look(third.ID)
	done := w.look(third.ID)
	done.Archive.Done = true
	w.ok(w.NoteExpunge(w.Context(), done))
	w.look(third.ID)
	page, err := w.Expunges(w.Context(), store.ExpungeQuery{Paging: store.Paging{Limit: 2}})
	w.ok(err)
	w.same("the first page", page.Items, []postrider.Expunge{w.readExpunge(third.ID), second})
	page, err = w.Expunges(w.Context(), store.ExpungeQuery{Paging: store.Paging{Limit: 2, Cursor: page.Next}})
	w.ok(err)
	w.same("the second page", page.Items, []postrider.Expunge{first})
	page, err = w.Expunges(w.Context(), store.ExpungeQuery{Running: true})
	w.ok(err)
	w.same("those that go on", page.Items, []postrider.Expunge{second, first})
}

func expungeEvent(w *world) {
	e := w.endpoint()
	event := w.keyed(e, "order 17", `{"name":"Eve"}`)
	w.publish(store.Batch{event})
	item := w.claimOne(e, postrider.LaneFirst)
	s := delivered(item)
	s.Attempt.ResponseBody = make([]byte, 1000)
	w.settle(s)
	request := w.inspection(e.ID, 0)
	request.Event = event.Event.ID
	w.putInspection(request)
	d := w.delivery(item.ID)
	replay := w.replay(d.ID) // has an id of its own
	w.settle(delivered(w.claimOne(e, postrider.LaneBulk)))

	x := w.newExpunge(e.Account)
	x.Event = event.Event.ID
	x = w.expunge(x, 100)
	w.same("the event is stored", w.isStored(d.Event), false)
	w.same("the delivery is listed", w.isListed(d.ID), false)
	w.same("its attempts", len(w.attempts(d)), 0)
	w.same("its replay is listed", w.isListed(replay.ID), false)
	w.same("requests of the inspector", len(w.inspected(e.ID)), 0)
	w.same("events", x.Removed.Events, 1)
	w.same("attempts", x.Removed.Attempts, 2)
	var digest postrider.ExpungeDigest
	digest.Add(d.Event, event.Event.Data)
	w.same("the digest", x.Digest, digest)
	again := w.keyed(e, "order 17", `{"name":"Ann"}`)
	w.same("a publish with its key is a duplicate", w.publish(store.Batch{again})[0].Events[0].Duplicate, false)
}

func expungePending(w *world) {
	e := w.endpoint()
	pending, dead := w.delivery(w.pending(e, 1)[0]), w.letter(w.deadLetters(w.endpoint(), 1)[0])
	replay := w.replay(w.ended(w.endpoint()).ID)
	for event, account := range map[postrider.EventID]postrider.AccountID{
		pending.Event: pending.Account, dead.Event: dead.Account, replay.Event: replay.Account,
	} {
		x := w.newExpunge(account)
		x.Event = event
		w.ok(w.PutExpunge(w.Context(), x))
		for range 3 {
			_, err := w.ExpungeRows(w.Context(), store.ExpungeRows{ID: x.ID, Limit: 100})
			w.ok(err)
		}
		x = w.readExpunge(x.ID)
		w.same("it is empty", x.EmptySince.IsZero() && x.EndedAt.IsZero(), true)
	}
	w.same("the pending delivery is listed", w.isListed(pending.ID), true)
	w.same("the pending replay is listed", w.isListed(replay.ID), true)
	w.cancel(pending.ID)
	w.cancel(replay.ID)
	_, err := w.Discard(w.Context(), store.Discard{Delivery: dead.Delivery, By: "someone"})
	w.ok(err)
	page, err := w.Expunges(w.Context(), store.ExpungeQuery{Running: true})
	w.ok(err)
	for _, x := range page.Items {
		w.expunge(x, 100)
	}
	w.same("the cancelled delivery is listed", w.isListed(pending.ID), false)
	w.same("the discarded one is listed", w.isListed(dead.Delivery), false)
}

func expungeEndpoint(w *world) {
	e := w.draft(w.account())
	e.UID, e.Description, e.Policy.Concurrency, e.Metadata = "till", "Eve's till", 3, postrider.Metadata{"who": "Eve"}
	e = w.resubscribe(w.put(e, w.secret(e.ID)), "order.*")
	d, letter := w.ended(e), w.deadLetters(e, 1)[0]
	w.putHealth(w.health(e, 1))
	w.deleteEndpoint(e)
	x := w.newExpunge(e.Account)
	x.Endpoint = e.ID
	x = w.expunge(x, 100)
	got := w.found(e.ID)
	w.same("the URL", got.URL, postrider.ExpungedURL)
	w.same("texts", got.UID+got.Description, "")
	w.same("metadata", len(got.Metadata), 0)
	w.same("event types", len(got.EventTypes), 0)
	w.same("the policy", got.Policy, postrider.DefaultPolicy())
	w.same("secrets", len(w.secrets(e.ID)), 0)
	w.same("health", len(w.history(e)), 0)
	w.same("the delivery is listed", w.isListed(d.ID), false)
	w.same("the dead letter is listed", w.isListed(letter), false)
	w.same("the event is stored", w.isStored(d.Event), true)
	w.same("dead letters", x.Removed.DeadLetters, 1)
	w.same("earlier subscriptions", x.Removed.Subscriptions, 1)
	w.forgottenSubscription(e)
}

func expungeAccount(w *world) {
	e := w.endpoint()
	d := w.ended(e)
	w.ok(w.PutReplayJob(w.Context(), w.newJob(e, postrider.Delivered)))
	w.ok(w.DeleteAccount(w.Context(), e.Account))
	_, err := w.DeleteEndpoints(w.Context(), 100)
	w.ok(err)
	x := w.expunge(w.newExpunge(e.Account), 100)
	w.same("the event is stored", w.isStored(d.Event), false)
	w.same("the delivery is listed", w.isListed(d.ID), false)
	w.same("the URL of its endpoint", w.found(e.ID).URL, postrider.ExpungedURL)
	accounts := w.accounts(store.AccountQuery{ID: e.Account})
	w.same("its names", accounts[0].Name+accounts[0].UID, "")
	jobs, err := w.ReplayJobs(w.Context(), store.ReplayJobQuery{})
	w.ok(err)
	w.same("replay jobs", len(jobs.Items), 0)
	w.same("events", x.Removed.Events, 1)
}

func expungeLeftKeys(w *world) {
	mine, others := w.account(), w.account()
	keyed := func(account postrider.AccountID) store.NewEvent {
		n := w.event(account)
		n.Event.IdempotencyKey, n.Event.Data = "invoice of Eve", []byte(`{}`)
		return n
	}
	duplicate := func(n store.NewEvent) bool { return w.publish(store.Batch{n})[0].Events[0].Duplicate }
	event := keyed(mine)
	w.publish(store.Batch{event}, store.Batch{keyed(others)})
	w.forget(store.OldEvents, all)
	w.same("a key outlives its event", duplicate(keyed(mine)), true)
	x := w.newExpunge(mine)
	x.Event = event.Event.ID
	x = w.expunge(x, 1)
	w.same("the key is counted", x.Removed, postrider.ExpungeCounts{Other: 1})
	w.same("the key is there after the expunge of the event", duplicate(keyed(mine)), false) // it is now
	w.forget(store.OldEvents, all)
	w.ok(w.DeleteAccount(w.Context(), mine))
	w.expunge(w.newExpunge(mine), 1)
	w.same("the key is there after the expunge of the account", duplicate(keyed(mine)), false)
	w.same("the key of another account", duplicate(keyed(others)), true)
}

func expungeOthers(w *world) {
	mine, others := w.endpoint(), w.endpoint()
	w.ended(mine)
	d, letter := w.ended(others), w.deadLetters(others, 1)[0]
	w.ok(w.DeleteAccount(w.Context(), mine.Account))
	_, err := w.DeleteEndpoints(w.Context(), 100)
	w.ok(err)
	w.expunge(w.newExpunge(mine.Account), 100)
	w.same("the endpoint of another account", w.found(others.ID), others)
	w.same("its delivery", w.delivery(d.ID), d)
	w.same("its event is stored", w.isStored(d.Event), true)
	w.same("its dead letter is listed", w.isListed(letter), true)
}

func expungeChunks(w *world) {
	e := w.endpoint()
	for range 7 {
		w.ended(e)
	}
	w.ok(w.DeleteAccount(w.Context(), e.Account))
	_, err := w.DeleteEndpoints(w.Context(), 100)
	w.ok(err)
	x := w.newExpunge(e.Account)
	w.ok(w.PutExpunge(w.Context(), x))
	first, err := w.ExpungeRows(w.Context(), store.ExpungeRows{ID: x.ID, Limit: 3})
	w.ok(err)
	w.same("rows of the first chunk", first.Removed.Total(), 3)
	last := w.expunge(x, 3)
	w.same("events", last.Removed.Events, 7)
	w.same("attempts", last.Removed.Attempts, 7)
	w.same("the digest is zero", last.Digest == postrider.ExpungeDigest{}, false)
}

func expungeEnds(w *world) {
	d := w.ended(w.endpoint())
	x := w.newExpunge(d.Account)
	w.ok(w.DeleteAccount(w.Context(), d.Account))
	_, err := w.DeleteEndpoints(w.Context(), 100)
	w.ok(err)
	w.expunge(x, 100)
	look := func(settled time.Duration) postrider.Expunge {
		got, err := w.ExpungeRows(w.Context(), store.ExpungeRows{ID: x.ID, Limit: 100, Settled: settled})
		w.ok(err)
		return got
	}
	w.same("it has ended before it settled", look(long).EndedAt.IsZero(), true)
	w.passed(brief)
	ended := look(brief)
	w.same("it has ended after it settled", ended.EndedAt.IsZero(), false)
	w.same("it ends once", look(0), ended)
	w.same("what is stored", w.readExpunge(x.ID), ended)
}

func expungeMissing(w *world) {
	_, err := w.ExpungeRows(w.Context(), store.ExpungeRows{ID: newID[postrider.ExpungeID](w), Limit: 1})
	w.refuses(err, postrider.ErrNotFound)
}

// look removes rows as if what was found before had been long ago.
func (w *world) look(id postrider.ExpungeID) postrider.Expunge {
	w.Helper()
	x, err := w.ExpungeRows(w.Context(), store.ExpungeRows{ID: id, Limit: 100})
	w.ok(err)
	return x
}

func expungeEndsWithTheArchive(w *world) {
	e := w.endpoint()
	d := w.ended(e)
	ofEvent, ofEndpoint := w.newExpunge(d.Account), w.newExpunge(d.Account)
	ofEvent.Event = d.Event
	w.expunge(ofEvent, 100)
	w.deleteEndpoint(e)
	ofEndpoint.Endpoint = e.ID
	w.expunge(ofEndpoint, 100)
	for id, first := range map[postrider.ExpungeID]time.Time{ofEvent.ID: d.Event.Time(), ofEndpoint.ID: e.ID.Time()} {
		x := w.look(id)
		w.same("it is in the archive", x.InArchive(), true)
		w.same("the first day", x.Archive.Day, store.DayOf(first))
		x.Archive = postrider.ExpungeArchive{Day: x.Archive.Day.AddDate(0, 0, 1), Held: true, Fault: "the disk is away"}
		w.ok(w.NoteExpunge(w.Context(), x))
		w.same("what is stored", w.readExpunge(id), x)
		w.same("it has ended before the archive is done", w.look(id), x)
		x.Archive.Done, x.Archive.Fault = true, ""
		w.ok(w.NoteExpunge(w.Context(), x))
		ended := w.look(id)
		w.same("it has ended", ended.EndedAt.IsZero(), false)
		w.same("how far it got", ended.Archive, x.Archive)
	}
}

func noteOutbox(w *world) {
	x := w.newExpunge(w.account())
	w.ok(w.PutExpunge(w.Context(), x))
	w.ok(w.DeleteAccount(w.Context(), x.Account))
	w.ok(w.NoteOutbox(w.Context(), x.ID, postrider.ExpungeOutbox{UID: "eve", Removed: 2, Fault: "away"}))
	w.same("what is stored", w.readExpunge(x.ID).Outbox, postrider.ExpungeOutbox{UID: "eve", Removed: 2, Fault: "away"})
	w.expunge(x, 100)
	w.same("it has not ended", w.look(x.ID).EndedAt.IsZero(), true)
	w.ok(w.NoteOutbox(w.Context(), x.ID, postrider.ExpungeOutbox{Removed: 3}))
	w.same("after a note without the uid", w.readExpunge(x.ID).Outbox, postrider.ExpungeOutbox{UID: "eve", Removed: 5})
	ended := w.look(x.ID)
	w.same("it has ended", ended.EndedAt.IsZero(), false)
	w.same("what is left of it", ended.Outbox, postrider.ExpungeOutbox{Removed: 5})
	w.ok(w.NoteOutbox(w.Context(), x.ID, postrider.ExpungeOutbox{Removed: 1, Fault: "late"}))
	w.same("after a note behind the end", w.readExpunge(x.ID), ended)
}

func noteExpunge(w *world) {
	e := w.endpoint()
	pending := w.delivery(w.pending(e, 1)[0])
	x := w.newExpunge(e.Account)
	x.Event = pending.Event
	w.ok(w.PutExpunge(w.Context(), x))
	noted := x
	noted.EmptySince, noted.Archive = w.now(), postrider.ExpungeArchive{Done: true}
	w.ok(w.NoteExpunge(w.Context(), noted))
	w.same("after a note of a time at which nothing was found", w.readExpunge(x.ID), x)
	w.cancel(pending.ID)
	x = w.expunge(x, 100)
	w.same("in the archive", w.look(x.ID).InArchive(), true)
	x.Archive = postrider.ExpungeArchive{Day: store.DayOf(w.now()), Done: true}
	w.ok(w.NoteExpunge(w.Context(), x))
	ended := w.look(x.ID)
	x.Archive.Fault = "late"
	w.ok(w.NoteExpunge(w.Context(), x))
	w.same("after a note behind the end", w.readExpunge(x.ID), ended)
}

var archivedKinds = []store.Kind{store.OldBodies, store.OldAttempts, store.OldEvents}

func expungeCounted(w *world) {
	e := w.endpoint()
	mine := w.ended(e)
	w.ended(e)
	for _, kind := range archivedKinds {
		w.archiveAll(kind, 10)
	}
	w.ended(e) // no part has it
	x := w.newExpunge(e.Account)
	x.Event = mine.Event
	w.expunge(x, 100)
	for _, kind := range archivedKinds {
		day := w.archiveDay(kind)
		w.same("rows of "+string(kind), day.Rows, int64(2))
		w.same("rows that parts have", day.Left(), int64(1))
		w.same("rows of the part", day.Parts[0].Rows, int64(2))
		w.archiveAll(kind, 10)
		w.forgetArchived(kind)
		w.same("there is more to archive", !w.archiveDay(kind).Day.IsZero(), false)
		w.same("rows that are stored", len(w.rows(kind, day.Day, store.RowID{})), 0)
	}
}

func expungeLate(w *world) {
	e := w.endpoint()
	late := w.pending(e, 1)[0]
	w.settle(retry(w.claimOne(e, postrider.LaneFirst), 0))
	gone := w.ended(w.endpoint())
	w.archiveAll(store.OldBodies, 10)
	w.forgetArchived(store.OldBodies)
	w.archiveAll(store.OldAttempts, 10)
	w.settle(retry(w.claimOne(e, postrider.LaneRetry), 0)) // one attempt more, and the expunge removes one
	x := w.newExpunge(gone.Account)
	x.Event = gone.Event
	w.expunge(x, 100)
	w.archiveAll(store.OldBodies, 10)
	w.forgetArchived(store.OldBodies)
	w.forgetArchived(store.OldAttempts)
	w.same("attempts when the second is not archived", len(w.attempts(w.delivery(late))), 2)
	w.archiveAll(store.OldAttempts, 10)
	w.forgetArchived(store.OldAttempts)
	w.same("attempts when both are", len(w.attempts(w.delivery(late))), 0)
}

// replaced returns another object in place of a part, with so many rows fewer.
func replaced(p store.ArchivePart, fewer int64) store.ReplaceArchivePart {
	with := p
	with.Object, with.Bytes, with.SHA256, with.MadeAt = "object of fewer", 50, [32]byte{2}, p.MadeAt.Add(time.Hour)
	return store.ReplaceArchivePart{Part: p, With: with, Fewer: fewer}
}

// eventsPart returns the only part of the events.
func (w *world) eventsPart() store.ArchivePart {
	w.Helper()
	parts, err := w.ArchiveParts(w.Context(), store.ArchiveParts{Kind: store.OldEvents, Limit: 10})
	w.ok(err)
	if len(parts) != 1 {
		w.Fatalf("there are %d parts, want 1", len(parts))
	}
	return parts[0]
}

func replacePart(w *world) {
	e := w.endpoint()
	mine, other := w.ended(e), w.ended(e)
	w.archiveAll(store.OldEvents, 10)
	x := w.newExpunge(e.Account)
	x.Event = mine.Event
	w.expunge(x, 100)
	r := replaced(w.eventsPart(), 1)
	r.Expunge = x.ID
	w.ok(w.ReplaceArchivePart(w.Context(), r))
	want := r.With
	want.Rows, want.Left = 1, 1
	w.same("the part", w.eventsPart(), want)
	w.same("archived records that were removed", w.readExpunge(x.ID).Removed.Archived, 1)
	w.same("there is more to archive", !w.archiveDay(store.OldEvents).Day.IsZero(), false)
	w.forgetArchived(store.OldEvents)
	w.same("the other event is stored", w.isStored(other.Event), false)
	w.ok(w.ReplaceArchivePart(w.Context(), store.ReplaceArchivePart{Part: want, With: r.Part, Fewer: 2}))
	w.same("the rows of a part that has had fewer than were removed", w.eventsPart().Rows, int64(0))
}

func replacePartByNone(w *world) {
	e := w.endpoint()
	d := w.ended(e)
	w.archiveAll(store.OldEvents, 10)
	x := w.newExpunge(e.Account)
	x.Event = d.Event
	w.expunge(x, 100)
	w.ok(w.ReplaceArchivePart(w.Context(), store.ReplaceArchivePart{Part: w.eventsPart(), Fewer: 1, Expunge: x.ID}))
	parts, err := w.ArchiveParts(w.Context(), store.ArchiveParts{Limit: 10})
	w.ok(err)
	w.same("parts", len(parts), 0)
	w.same("archived records that were removed", w.readExpunge(x.ID).Removed.Archived, 1)
}

func replacePartConflict(w *world) {
	e := w.endpoint()
	w.ended(e)
	w.archiveAll(store.OldEvents, 10)
	x := w.newExpunge(e.Account)
	w.ok(w.PutExpunge(w.Context(), x))
	part := w.eventsPart()
	r := replaced(part, 1)
	r.Part.Object, r.Expunge = "another one", x.ID
	w.refuses(w.ReplaceArchivePart(w.Context(), r), postrider.ErrConflict)
	r.With = store.ArchivePart{}
	w.refuses(w.ReplaceArchivePart(w.Context(), r), postrider.ErrConflict)
	w.same("the part", w.eventsPart(), part)
	w.same("archived records that were removed", w.readExpunge(x.ID).Removed.Archived, 0)
}
