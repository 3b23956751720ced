package storetest

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

var notices = []verb{
	{"PutNotices", []sentence{
		{"the notices come back as they were", putNotices},
		{"a notice whose kind, object and occurrence another one has is not stored", putNoticesOnce},
		{"of parallel calls with one kind, object and occurrence one stores its notice", putNoticesInParallel},
		{"repeated with the same ids, it stores nothing more and returns the same", putNoticesAgain},
	}},
	{"Notices", []sentence{
		{"they are listed newest first, page by page, or oldest first", noticesPages},
		{"each filter selects", noticesFilters},
		{"a cursor that no page gave is an InvalidError", noticesCursor},
		{"NextNotices returns those after the last one that are old enough, oldest first", nextNotices},
	}},
	{"NoticesPublished", []sentence{
		{"it is zero at first, and never moves back", noticesPublished},
	}},
}

// newNotice returns a notice whose object no other notice has.
func (w *world) newNotice() postrider.Notice {
	id := newID[postrider.NoticeID](w)
	return postrider.Notice{
		ID: id, Kind: postrider.NoticeFailing, Object: newID[postrider.EndpointID](w).String(), Occurrence: "1",
		Details: map[string]string{}, CreatedAt: id.Time(),
	}
}

// told stores the notices, and returns those that were stored.
func (w *world) told(all ...postrider.Notice) []postrider.Notice {
	w.Helper()
	put, err := w.PutNotices(w.Context(), all)
	w.ok(err)
	return put
}

func (w *world) notices(q store.NoticeQuery) []postrider.Notice {
	w.Helper()
	page, err := w.Notices(w.Context(), q)
	w.ok(err)
	return page.Items
}

func putNotices(w *world) {
	plain, full := w.newNotice(), w.newNotice()
	full.Account, full.Kind, full.Occurrence = w.account(), postrider.NoticeChore, "é"
	full.Object, full.Details = "forget events", map[string]string{"error": `"quoted" é`, "failing_since": "x"}
	w.same("what was stored", w.told(plain, full), []postrider.Notice{plain, full})
	w.same("the notices", w.notices(store.NoticeQuery{}), []postrider.Notice{full, plain})
	w.same("of none", w.told(), []postrider.Notice{})
}

func putNoticesOnce(w *world) {
	first := w.newNotice()
	again, kind, object, occurrence := w.newNotice(), w.newNotice(), w.newNotice(), w.newNotice()
	again.Object, kind.Object, occurrence.Object = first.Object, first.Object, first.Object
	kind.Kind, occurrence.Occurrence = postrider.NoticeRecovered, "2"
	twice := again
	twice.ID = newID[postrider.NoticeID](w)
	w.told(first)
	w.same("what was stored", w.told(again, kind, object, occurrence, twice), []postrider.Notice{kind, object, occurrence})
	w.same("the notices", w.notices(store.NoticeQuery{}), []postrider.Notice{occurrence, object, kind, first})
}

func putNoticesInParallel(w *world) {
	n := w.newNotice()
	var stored atomic.Int32
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			mine := n
			mine.ID = newID[postrider.NoticeID](w)
			if put, err := w.PutNotices(w.Context(), []postrider.Notice{mine}); err == nil {
				stored.Add(int32(len(put)))
			}
		})
	}
	callers.Wait()
	w.same("how many were stored", stored.Load(), int32(1))
	w.same("how many there are", len(w.notices(store.NoticeQuery{})), 1)
}

func putNoticesAgain(w *world) {
	n := w.newNotice()
	w.same("first", w.told(n), []postrider.Notice{n})
	w.same("again", w.told(n), []postrider.Notice{n})
	w.same("the notices", w.notices(store.NoticeQuery{}), []postrider.Notice{n})
}

func noticeID(n postrider.Notice) postrider.NoticeID { return n.ID }

func noticesPages(w *world) {
	var want []postrider.NoticeID
	for range 5 {
		n := w.newNotice()
		w.told(n)
		want = append(want, n.ID)
	}
	list := func(oldest bool) []postrider.NoticeID {
		return pages(w, noticeID, func(p store.Paging) (store.Page[postrider.Notice], error) {
			p.OldestFirst = oldest
			return w.Notices(w.Context(), store.NoticeQuery{Paging: p})
		})
	}
	w.same("oldest first", list(true), want)
	slices.Reverse(want)
	w.same("newest first", list(false), want)
}

func noticesFilters(w *world) {
	a, b, c := w.newNotice(), w.newNotice(), w.newNotice()
	a.Account, b.Account = w.account(), w.account()
	b.Object, b.Kind, c.Kind = a.Object, postrider.NoticeDisabled, postrider.NoticeDisabled
	w.told(a, b, c)
	list := by(noticeID, func(q store.NoticeQuery) (store.Page[postrider.Notice], error) { return w.Notices(w.Context(), q) })
	soon := w.now().Add(time.Hour)
	for _, tt := range []struct {
		query store.NoticeQuery
		want  []postrider.NoticeID
	}{
		{store.NoticeQuery{Account: a.Account}, []postrider.NoticeID{a.ID}},
		{store.NoticeQuery{Account: w.account()}, nil},
		{store.NoticeQuery{Kind: postrider.NoticeDisabled}, []postrider.NoticeID{c.ID, b.ID}},
		{store.NoticeQuery{Kind: postrider.NoticeDisabled, Account: b.Account}, []postrider.NoticeID{b.ID}},
		{store.NoticeQuery{Object: a.Object}, []postrider.NoticeID{b.ID, a.ID}},
		{store.NoticeQuery{Object: a.Object, Kind: postrider.NoticeFailing}, []postrider.NoticeID{a.ID}},
		{store.NoticeQuery{Object: a.Object, Account: b.Account}, []postrider.NoticeID{b.ID}},
		{store.NoticeQuery{Object: a.Object[:10]}, nil},
		{store.NoticeQuery{Span: store.Span{From: soon}}, nil},
		{store.NoticeQuery{Span: store.Span{To: soon}}, []postrider.NoticeID{c.ID, b.ID, a.ID}},
	} {
		selects(w, tt.query, list, tt.want)
	}
}

func noticesCursor(w *world) {
	badCursors(w, func(p store.Paging) error {
		_, err := w.Notices(w.Context(), store.NoticeQuery{Paging: p})
		return err
	})
}

func nextNotices(w *world) {
	account := w.account()
	var ids []postrider.NoticeID
	for i, age := range []time.Duration{4 * postrider.NoticeDelay, 3 * postrider.NoticeDelay, 2 * postrider.NoticeDelay, -time.Hour} {
		n := w.newNotice()
		n.ID = postrider.MakeID[postrider.NoticeID](w.now().Add(-age), [10]byte{})
		if i < 2 {
			n.Account = account
		}
		w.told(n)
		ids = append(ids, n.ID)
	}
	next := func(q store.NoticeQuery, last postrider.NoticeID) (next []postrider.NoticeID) {
		found, err := store.NextNotices(w.Context(), w, q, last)
		w.ok(err)
		for _, n := range found {
			next = append(next, n.ID)
		}
		return next
	}
	w.same("from the start", next(store.NoticeQuery{}, postrider.NoticeID{}), ids[:3])
	w.same("a page", next(store.NoticeQuery{Paging: store.Paging{Limit: 1}}, ids[0]), ids[1:2])
	w.same("after the second", next(store.NoticeQuery{}, ids[1]), ids[2:3])
	w.same("after the last", next(store.NoticeQuery{}, ids[2]), []postrider.NoticeID{})
	w.same("of the account", next(store.NoticeQuery{Account: account}, ids[0]), ids[1:2])
}

func noticesPublished(w *world) {
	last := func() postrider.NoticeID {
		last, err := w.NoticesPublished(w.Context())
		w.ok(err)
		return last
	}
	w.same("at first", last(), postrider.NoticeID{})
	earlier, later := newID[postrider.NoticeID](w), newID[postrider.NoticeID](w)
	for _, id := range []postrider.NoticeID{later, earlier} {
		w.ok(w.SetNoticesPublished(w.Context(), id))
		w.same("afterwards", last(), later)
	}
}
