package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// audit_pkey keeps the first of two entries with one id, so a repeat after a lost reply
// stores nothing more.
const appendAuditSQL = `
	insert into audit (id, action, outcome, key, session, name, account, object, object_id, request, details)
	values (@id, @action, @outcome, @key, @session, @name, @account, @object, @object_id, @request, @details)
	on conflict (id) do nothing`

// AppendAudit stores an entry of the audit log.
func (s *Store) AppendAudit(ctx context.Context, e postrider.AuditEntry) error {
	details := e.Details
	if details == nil {
		details = map[string]string{}
	}
	err := s.repeat(ctx, func(bool) error {
		_, err := s.pool.Exec(ctx, appendAuditSQL, pgx.NamedArgs{
			"id": someUUID(e.ID), "action": e.Action, "outcome": e.Outcome, "key": uuid(e.Key), "session": uuid(e.Session),
			"name": e.Name, "account": uuid(e.Account), "object": e.Object, "object_id": text(e.ObjectID), "request": e.Request,
			"details": details,
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("append audit entry %s: %w", e.ID, err)
	}
	return nil
}

// Walks audit_pkey, or the index of the one filter that is given: audit_account, audit_key,
// audit_session, audit_action or audit_object. All end in the id. Of several filters the
// planner takes the most selective one.
const auditSQL = `
	select a.id, a.action, a.outcome, a.key, a.session, a.name, a.account, a.object, coalesce(a.object_id, ''), a.request, a.details
	from audit a
	where a.id >= @from and a.id < @before
		and (@account::uuid is null or a.account = @account)
		and (@key::uuid is null or a.key = @key)
		and (@session::uuid is null or a.session = @session)
		and (@action::text is null or a.action = @action)
		and (@object_id::text is null or a.object_id = @object_id)
	order by a.id desc
	limit @limit`

// AuditEntries lists the audit log, newest first.
func (s *Store) AuditEntries(ctx context.Context, q store.AuditQuery) (store.Page[postrider.AuditEntry], error) {
	from, before, err := within[postrider.AuditID](q.Span, q.Paging)
	if err != nil {
		return store.Page[postrider.AuditEntry]{}, err
	}
	entries, err := list(ctx, s, query{auditSQL, pgx.NamedArgs{
		"from": from, "before": before, "account": uuid(q.Account), "key": uuid(q.Key), "session": uuid(q.Session),
		"action": text(q.Action), "object_id": text(q.ObjectID), "limit": q.Size() + 1,
	}}, func(row pgx.CollectableRow) (e postrider.AuditEntry, err error) {
		err = row.Scan(toID(&e.ID), &e.Action, &e.Outcome, toID(&e.Key), toID(&e.Session), &e.Name, toID(&e.Account), &e.Object,
			&e.ObjectID, &e.Request, &e.Details)
		e.At = e.ID.Time()
		return e, err
	})
	if err != nil {
		return store.Page[postrider.AuditEntry]{}, fmt.Errorf("list audit entries: %w", err)
	}
	return store.Cut(entries, q.Paging, func(e postrider.AuditEntry) string { return string(e.ID[:]) }), nil
}
