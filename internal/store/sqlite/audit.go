package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// By the key of audit, which keeps the first of two entries with one id.
const appendAuditSQL = `
	insert into audit (id, action, outcome, key, session, name, account, object, object_id, request, details)
	values (@id, @action, @outcome, @key, @session, @name, @account, @object, @object_id, @request, @details)
	on conflict (id) do nothing`

// AppendAudit stores an entry of the audit log; see [store.Audit].
func (s *Store) AppendAudit(ctx context.Context, e postrider.AuditEntry) error {
	if e.Details == nil {
		e.Details = map[string]string{}
	}
	details, err := json.Marshal(e.Details)
	if err != nil {
		return s.explain("append audit entry", err)
	}
	return change(ctx, s, "append audit entry", func(ctx context.Context, tx *tx) error {
		return tx.exec(ctx, appendAuditSQL, sql.Named("id", blob(e.ID)), sql.Named("action", e.Action), sql.Named("outcome", e.Outcome),
			sql.Named("key", blobOrNull(e.Key)), sql.Named("session", blobOrNull(e.Session)), sql.Named("name", e.Name),
			sql.Named("account", blobOrNull(e.Account)), sql.Named("object", e.Object), sql.Named("object_id", textOrNull(e.ObjectID)),
			sql.Named("request", e.Request), sql.Named("details", string(details)))
	})
}

// The columns of an entry, as AuditEntries reads them.
const auditColumns = `id, action, outcome, key, session, name, account, object, object_id, request, details`

// Each filter alone has an index that ends in the id: audit_account, audit_key,
// audit_session, audit_action and audit_object. The statement for several filters walks
// the index of one, which auditStatement chooses, and checks the others row by row.
const (
	auditSQL = `
	select ` + auditColumns + ` from audit
	where id >= @from and id < @below
	order by id desc limit @limit`
	auditOfObjectSQL = `
	select ` + auditColumns + ` from audit
	where object_id = @object_id and id >= @from and id < @below and (@action = '' or action = @action)
		and (@account is null or account = @account) and (@key is null or key = @key) and (@session is null or session = @session)
	order by id desc limit @limit`
	auditOfSessionSQL = `
	select ` + auditColumns + ` from audit
	where session = @session and id >= @from and id < @below and (@action = '' or action = @action)
		and (@account is null or account = @account) and (@key is null or key = @key)
	order by id desc limit @limit`
	auditOfKeySQL = `
	select ` + auditColumns + ` from audit
	where key = @key and id >= @from and id < @below and (@action = '' or action = @action) and (@account is null or account = @account)
	order by id desc limit @limit`
	auditOfAccountSQL = `
	select ` + auditColumns + ` from audit
	where account = @account and id >= @from and id < @below and (@action = '' or action = @action)
	order by id desc limit @limit`
	auditOfActionSQL = `
	select ` + auditColumns + ` from audit
	where action = @action and id >= @from and id < @below
	order by id desc limit @limit`
)

// auditStatement returns the statement whose index selects most, for the filters of q.
func auditStatement(q store.AuditQuery) string {
	switch {
	case q.ObjectID != "":
		return auditOfObjectSQL
	case !q.Session.IsZero():
		return auditOfSessionSQL
	case !q.Key.IsZero():
		return auditOfKeySQL
	case !q.Account.IsZero():
		return auditOfAccountSQL
	case q.Action != "":
		return auditOfActionSQL
	}
	return auditSQL
}

// AuditEntries lists the audit log; see [store.Audit].
func (s *Store) AuditEntries(ctx context.Context, q store.AuditQuery) (store.Page[postrider.AuditEntry], error) {
	args, err := window[postrider.AuditID](q.Span, q.Paging)
	if err != nil {
		return store.Page[postrider.AuditEntry]{}, err
	}
	args = append(args, sql.Named("action", q.Action), sql.Named("object_id", q.ObjectID), sql.Named("account", blobOrNull(q.Account)),
		sql.Named("key", blobOrNull(q.Key)), sql.Named("session", blobOrNull(q.Session)))
	entries, err := list(ctx, s, query{auditStatement(q), args}, func(rows *sql.Rows, e *postrider.AuditEntry) error {
		var details string
		err := rows.Scan(toID(&e.ID), &e.Action, &e.Outcome, toID(&e.Key), toID(&e.Session), &e.Name, toID(&e.Account), &e.Object,
			toString(&e.ObjectID), &e.Request, &details)
		if err != nil {
			return err
		}
		e.At = e.ID.Time()
		if err := json.Unmarshal([]byte(details), &e.Details); err != nil {
			return fmt.Errorf("decode details of %s: %w", e.ID, err)
		}
		return nil
	})
	return store.Cut(entries, q.Paging, func(e postrider.AuditEntry) string { return key(e.ID) }), s.explain("list audit entries", err)
}
