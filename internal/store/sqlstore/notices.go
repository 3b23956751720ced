package sqlstore

import (
	"context"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

const (
	// InsertNoticeSQL stores a notice, with arguments from [NoticeRows]. The unique index
	// notices_once refuses a notice with the same kind, object and occurrence as another, and the
	// primary key refuses a repeat.
	InsertNoticeSQL = `
	insert into notices (id, account, kind, object, occurrence, details)
	values (@id, @account, @kind, @object, @occurrence, @details)
	on conflict do nothing`

	// noticesStoredSQL returns which of the notices are stored, by this run or an earlier one. It
	// walks the primary key.
	noticesStoredSQL = `
	select id
	from notices
	where id = any(@ids::uuid[])`
)

// NoticeRows returns the arguments of InsertNoticeSQL, one element for each notice.
func NoticeRows(notices []postrider.Notice) []Args {
	rows := make([]Args, len(notices))
	for i, n := range notices {
		if n.Details == nil {
			n.Details = map[string]string{}
		}
		rows[i] = Args{
			"id": n.ID, "account": OrNull(n.Account), "kind": n.Kind, "object": n.Object, "occurrence": n.Occurrence, "details": n.Details,
		}
	}
	return rows
}

// PutNotices stores the notices that are new; see [store.Notices].
func (v Verbs) PutNotices(ctx context.Context, notices []postrider.Notice) (put []postrider.Notice, err error) {
	defer v.calls.Begin("PutNotices").End(&err, "put notices")
	err = v.db.Change(ctx, Repeatable, func(ctx context.Context, tx Tx) error {
		put, err = PutNotices(ctx, tx, notices)
		return err
	})
	return put, err
}

// PutNotices stores the notices that are new, and returns them.
func PutNotices(ctx context.Context, tx Tx, notices []postrider.Notice) (put []postrider.Notice, err error) {
	if len(notices) == 0 {
		return nil, nil
	}
	if _, err := tx.ExecAll(ctx, InsertNoticeSQL, NoticeRows(notices)); err != nil {
		return nil, err
	}
	ids := make([]postrider.NoticeID, len(notices))
	for i, n := range notices {
		ids[i] = n.ID
	}
	stored := map[postrider.NoticeID]bool{}
	err = tx.Query(ctx, Query{noticesStoredSQL, Args{"ids": ids}}, func(rows Rows) error {
		for rows.Next() {
			var id postrider.NoticeID
			if err := rows.Scan(&id); err != nil {
				return err
			}
			stored[id] = true
		}
		return nil
	})
	for _, n := range notices {
		if stored[n.ID] {
			n.CreatedAt = n.ID.Time()
			put = append(put, n)
		}
	}
	return put, err
}

const noticesSQL = `
	select id, account, kind, object, occurrence, details
	from notices`

// Notices lists notices, newest first; see [store.Notices].
func (v Verbs) Notices(ctx context.Context, q store.NoticeQuery) (page store.Page[postrider.Notice], err error) {
	defer v.calls.Begin("Notices").End(&err, "list notices")
	l, err := listOf[postrider.NoticeID](v.db, noticesSQL, q.Span, q.Paging)
	if err != nil {
		return page, err
	}
	by(l, "object", q.Object)
	by(l, "account", q.Account)
	by(l, "kind", q.Kind)
	return pageOf(ctx, l, func(row Row, n *postrider.Notice) error {
		err := row.Scan(&n.ID, &n.Account, &n.Kind, &n.Object, &n.Occurrence, &n.Details)
		n.CreatedAt = n.ID.Time()
		return err
	}, func(n *postrider.Notice) postrider.NoticeID { return n.ID })
}

// The table notices_published has one row.
const (
	noticesPublishedSQL    = `select last from notices_published`
	setNoticesPublishedSQL = `update notices_published set last = greatest(last, @last::uuid)`
)

// NoticesPublished returns the last notice whose operational event was published; see
// [store.Notices].
func (v Verbs) NoticesPublished(ctx context.Context) (_ postrider.NoticeID, err error) {
	defer v.calls.Begin("NoticesPublished").End(&err, "read the last published notice")
	return one(ctx, v.db, Query{SQL: noticesPublishedSQL}, func(row Row, id *postrider.NoticeID) error { return row.Scan(id) })
}

// SetNoticesPublished sets the last published notice, and never moves it back; see
// [store.Notices].
func (v Verbs) SetNoticesPublished(ctx context.Context, last postrider.NoticeID) (err error) {
	defer v.calls.Begin("SetNoticesPublished").End(&err, "set the last published notice")
	return found(v.db.Exec(ctx, Repeatable, Query{setNoticesPublishedSQL, Args{"last": last}}))
}
