package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// The first is refused by notices_once, or, when a caller repeats it, by the key.
const (
	insertNoticeSQL = `
	insert into notices (id, account, kind, object, occurrence, details)
	values (@id, @account, @kind, @object, @occurrence, @details)
	on conflict do nothing`
	noticeStoredSQL = `select exists (select 1 from notices where id = @id)`
)

// PutNotices stores the notices that are new; see [store.Notices].
func (s *Store) PutNotices(ctx context.Context, notices []postrider.Notice) ([]postrider.Notice, error) {
	return write(ctx, s, "put notices", func(ctx context.Context, tx *tx) ([]postrider.Notice, error) {
		return putNotices(ctx, tx, notices)
	})
}

// putNotices stores the notices that are new, and returns those that are stored.
func putNotices(ctx context.Context, tx *tx, notices []postrider.Notice) (put []postrider.Notice, err error) {
	for _, n := range notices {
		if n.Details == nil {
			n.Details = map[string]string{}
		}
		details, err := json.Marshal(n.Details)
		if err != nil {
			return nil, fmt.Errorf("encode details of notice %s: %w", n.ID, err)
		}
		id := sql.Named("id", blob(n.ID))
		err = tx.exec(ctx, insertNoticeSQL, id, sql.Named("account", blobOrNull(n.Account)), sql.Named("kind", string(n.Kind)),
			sql.Named("object", n.Object), sql.Named("occurrence", n.Occurrence), sql.Named("details", string(details)))
		if err != nil {
			return nil, err
		}
		var stored bool
		if err := tx.row(ctx, noticeStoredSQL, id).Scan(&stored); err != nil {
			return nil, err
		}
		if stored {
			n.CreatedAt = n.ID.Time()
			put = append(put, n)
		}
	}
	return put, nil
}

// The columns of a notice, as Notices reads them.
const noticeColumns = `id, account, kind, object, occurrence, details`

// Each filter alone has an index that ends in the id: notices_object, notices_account and
// notices_kind. The statement for several filters walks the index of one, which
// noticeStatement chooses, and checks the others row by row.
const (
	noticesSQL = `
	select ` + noticeColumns + ` from notices
	where id >= @from and id < @below
	order by id desc limit @limit`
	noticesOfObjectSQL = `
	select ` + noticeColumns + ` from notices
	where object = @object and id >= @from and id < @below
		and (@account is null or account = @account) and (@kind is null or kind = @kind)
	order by id desc limit @limit`
	noticesOfAccountSQL = `
	select ` + noticeColumns + ` from notices
	where account = @account and id >= @from and id < @below and (@kind is null or kind = @kind)
	order by id desc limit @limit`
	noticesOfKindSQL = `
	select ` + noticeColumns + ` from notices
	where kind = @kind and id >= @from and id < @below
	order by id desc limit @limit`
)

// noticeStatement returns the statement whose index selects most, for the filters of q.
func noticeStatement(q store.NoticeQuery) string {
	switch {
	case q.Object != "":
		return noticesOfObjectSQL
	case !q.Account.IsZero():
		return noticesOfAccountSQL
	case q.Kind != "":
		return noticesOfKindSQL
	}
	return noticesSQL
}

// Notices lists notices; see [store.Notices].
func (s *Store) Notices(ctx context.Context, q store.NoticeQuery) (store.Page[postrider.Notice], error) {
	args, err := window[postrider.NoticeID](q.Span, q.Paging)
	if err != nil {
		return store.Page[postrider.Notice]{}, err
	}
	args = append(args, sql.Named("object", textOrNull(q.Object)), sql.Named("account", blobOrNull(q.Account)), sql.Named("kind", textOrNull(string(q.Kind))))
	notices, err := list(ctx, s, inOrder(query{noticeStatement(q), args}, q.Paging), func(rows *sql.Rows, n *postrider.Notice) error {
		var details string
		if err := rows.Scan(toID(&n.ID), toID(&n.Account), toString(&n.Kind), &n.Object, &n.Occurrence, &details); err != nil {
			return err
		}
		n.CreatedAt = n.ID.Time()
		if err := json.Unmarshal([]byte(details), &n.Details); err != nil {
			return fmt.Errorf("decode details of notice %s: %w", n.ID, err)
		}
		return nil
	})
	return store.Cut(notices, q.Paging, func(n postrider.Notice) string { return key(n.ID) }), s.explain("list notices", err)
}

// The one row of notices_published.
const (
	noticesPublishedSQL    = `select last from notices_published`
	setNoticesPublishedSQL = `update notices_published set last = max(last, @last)`
)

// NoticesPublished returns how far operational events are published; see [store.Notices].
func (s *Store) NoticesPublished(ctx context.Context) (last postrider.NoticeID, err error) {
	found, err := list(ctx, s, query{noticesPublishedSQL, nil}, func(rows *sql.Rows, id *postrider.NoticeID) error { return rows.Scan(toID(id)) })
	if err == nil && len(found) == 0 { // somebody deleted the row
		err = postrider.ErrNotFound
	}
	if err != nil {
		return last, s.explain("read the last published notice", err)
	}
	return found[0], nil
}

// SetNoticesPublished moves it; see [store.Notices].
func (s *Store) SetNoticesPublished(ctx context.Context, last postrider.NoticeID) error {
	return change(ctx, s, "set the last published notice", func(ctx context.Context, tx *tx) error {
		return found(tx.count(ctx, setNoticesPublishedSQL, sql.Named("last", blob(last))))
	})
}
