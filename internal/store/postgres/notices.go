package postgres

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// notices_once refuses what another notice says already, and notices_pkey a repeat.
const insertNoticesSQL = `
	insert into notices (id, account, kind, object, occurrence, details)
	select n.id, n.account, n.kind, n.object, n.occurrence, n.details::jsonb
	from unnest(@ids::uuid[], @accounts::uuid[], @kinds::text[], @objects::text[], @occurrences::text[], @details::text[])
		as n (id, account, kind, object, occurrence, details)
	on conflict do nothing`

// Which of the notices are stored, by this try or by one before it. Walks notices_pkey.
const noticesStoredSQL = `
	select n.id
	from unnest(@ids::uuid[]) as d (id)
	cross join lateral (
		select n.id
		from notices n
		where n.id = d.id
		limit 1
	) n`

// noticeArgs returns the arguments of both statements.
func noticeArgs(notices []postrider.Notice) (pgx.NamedArgs, error) {
	var ids, accounts uuids
	var kinds, objects, occurrences, documents texts
	for _, n := range notices {
		if n.Details == nil {
			n.Details = map[string]string{}
		}
		document, err := json.Marshal(n.Details)
		if err != nil {
			return nil, fmt.Errorf("encode details of notice %s: %w", n.ID, err)
		}
		ids, accounts = append(ids, someUUID(n.ID)), append(accounts, uuid(n.Account))
		kinds, objects = append(kinds, someText(n.Kind)), append(objects, someText(n.Object))
		occurrences, documents = append(occurrences, someText(n.Occurrence)), append(documents, someText(string(document)))
	}
	return pgx.NamedArgs{
		"ids": ids, "accounts": accounts, "kinds": kinds, "objects": objects, "occurrences": occurrences, "details": documents,
	}, nil
}

// PutNotices stores the notices that are new.
func (s *Store) PutNotices(ctx context.Context, notices []postrider.Notice) (put []postrider.Notice, err error) {
	err = s.repeat(ctx, func(bool) (err error) {
		put, err = putNotices(ctx, s.pool, notices)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("put notices: %w", err)
	}
	return put, nil
}

// putNotices stores the notices that are new, and returns those that are stored. db is the
// pool, or a transaction that does more.
func putNotices(ctx context.Context, db interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}, notices []postrider.Notice,
) (put []postrider.Notice, err error) {
	args, err := noticeArgs(notices)
	if err != nil || len(notices) == 0 {
		return nil, err
	}
	stored := map[postrider.NoticeID]bool{}
	b := &pgx.Batch{} // one transaction
	b.Queue(insertNoticesSQL, args)
	b.Queue(noticesStoredSQL, args).Query(func(rows pgx.Rows) error {
		var id postrider.NoticeID
		_, err := pgx.ForEachRow(rows, []any{toID(&id)}, func() error {
			stored[id] = true
			return nil
		})
		return err
	})
	if err := db.SendBatch(ctx, b).Close(); err != nil {
		return nil, err
	}
	for _, n := range notices {
		if stored[n.ID] {
			n.CreatedAt = n.ID.Time()
			put = append(put, n)
		}
	}
	return put, nil
}

// Walks notices_pkey, or the index of the one filter that is given: notices_account,
// notices_kind or notices_object. All end in the id. Of several filters the planner takes the
// most selective one.
const noticesSQL = `
	select n.id, n.account, n.kind, n.object, n.occurrence, n.details
	from notices n
	where n.id >= @from and n.id < @before
		and (@account::uuid is null or n.account = @account)
		and (@kind::text is null or n.kind = @kind)
		and (@object::text is null or n.object = @object)
	order by n.id desc
	limit @limit`

// Notices lists notices.
func (s *Store) Notices(ctx context.Context, q store.NoticeQuery) (store.Page[postrider.Notice], error) {
	from, before, err := within[postrider.NoticeID](q.Span, q.Paging)
	if err != nil {
		return store.Page[postrider.Notice]{}, err
	}
	notices, err := list(ctx, s, inOrder(query{noticesSQL, pgx.NamedArgs{
		"from": from, "before": before, "account": uuid(q.Account), "kind": text(string(q.Kind)), "object": text(q.Object), "limit": q.Size() + 1,
	}}, q.Paging), func(row pgx.CollectableRow) (n postrider.Notice, err error) {
		err = row.Scan(toID(&n.ID), toID(&n.Account), &n.Kind, &n.Object, &n.Occurrence, &n.Details)
		n.CreatedAt = n.ID.Time()
		return n, err
	})
	if err != nil {
		return store.Page[postrider.Notice]{}, fmt.Errorf("list notices: %w", err)
	}
	return store.Cut(notices, q.Paging, func(n postrider.Notice) string { return string(n.ID[:]) }), nil
}

// The one row of notices_published.
const (
	noticesPublishedSQL    = `select last from notices_published`
	setNoticesPublishedSQL = `update notices_published set last = greatest(last, @last)`
)

// NoticesPublished returns how far operational events are published.
func (s *Store) NoticesPublished(ctx context.Context) (last postrider.NoticeID, err error) {
	err = s.repeat(ctx, func(bool) error { return s.pool.QueryRow(ctx, noticesPublishedSQL).Scan(toID(&last)) })
	if err != nil {
		return last, fmt.Errorf("read the last published notice: %w", err)
	}
	return last, nil
}

// SetNoticesPublished moves it, and never back.
func (s *Store) SetNoticesPublished(ctx context.Context, last postrider.NoticeID) error {
	if err := s.write(ctx, setNoticesPublishedSQL, pgx.NamedArgs{"last": someUUID(last)}); err != nil {
		return fmt.Errorf("set the last published notice: %w", err)
	}
	return nil
}
