package sqlstore

import (
	"context"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// A repeat stores nothing more: if two entries have the same id, the primary key keeps the first.
const appendAuditSQL = `
	insert into audit (id, action, outcome, key, session, name, account, object, object_id, request, details)
	values (@id, @action, @outcome, @key, @session, @name, @account, @object, @object_id, @request, @details)
	on conflict (id) do nothing`

// AppendAudit stores an entry of the audit log; see [store.Audit].
func (v Verbs) AppendAudit(ctx context.Context, e postrider.AuditEntry) (err error) {
	defer v.calls.Begin("AppendAudit").End(&err, "append audit entry %s", e.ID)
	details := e.Details
	if details == nil {
		details = map[string]string{}
	}
	return v.exec(ctx, Repeatable, Query{appendAuditSQL, Args{
		"id": e.ID, "action": e.Action, "outcome": e.Outcome, "key": OrNull(e.Key), "session": OrNull(e.Session), "name": e.Name,
		"account": OrNull(e.Account), "object": e.Object, "object_id": OrNull(e.ObjectID), "request": e.Request, "details": details,
	}})
}

const auditSQL = `
	select id, action, outcome, key, session, name, account, object, object_id, request, details
	from audit`

// AuditEntries lists the audit log, newest first; see [store.Audit].
func (v Verbs) AuditEntries(ctx context.Context, q store.AuditQuery) (page store.Page[postrider.AuditEntry], err error) {
	defer v.calls.Begin("AuditEntries").End(&err, "list audit entries")
	l, err := listOf[postrider.AuditID](v.db, auditSQL, q.Span, q.Paging)
	if err != nil {
		return page, err
	}
	by(l, "object_id", q.ObjectID)
	by(l, "session", q.Session)
	by(l, "key", q.Key)
	by(l, "account", q.Account)
	by(l, "action", q.Action)
	return pageOf(ctx, l, func(row Row, e *postrider.AuditEntry) error {
		err := row.Scan(&e.ID, &e.Action, &e.Outcome, &e.Key, &e.Session, &e.Name, &e.Account, &e.Object, &e.ObjectID, &e.Request, &e.Details)
		e.At = e.ID.Time()
		return err
	}, func(e *postrider.AuditEntry) postrider.AuditID { return e.ID })
}
