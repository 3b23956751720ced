// Package audit is the part of the API that lists the audit log. Package rest writes the entries.
package audit

import (
	"context"
	"errors"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/api/render"
	"github.com/postrider/postrider/internal/api/rest"
	"github.com/postrider/postrider/internal/store"
)

// Store is the part of the store that this package reads and changes.
type Store interface {
	// AuditEntries is the method of store.Audit.
	AuditEntries(ctx context.Context, q store.AuditQuery) (store.Page[postrider.AuditEntry], error)
}

// Routes serves the audit log.
type Routes struct {
	*rest.Shared

	Store Store
}

// Register registers the route of the audit log.
func (s *Routes) Register(rt *rest.Router) {
	rest.Handle(rt, rest.Route{
		Name: "list-audit-entries", Path: "GET /audit",
		Summary:     "List the audit log, newest first",
		Description: "It has every change, replay, test and look at secrets, every login, and every request that was refused for its scopes.",
		Scope:       postrider.ScopeAdmin,
	}, s.listAudit)
}

// viewAudit returns an audit entry in the form of a response.
func viewAudit(e postrider.AuditEntry) apitypes.AuditEntry {
	details := e.Details
	if details == nil {
		details = map[string]string{}
	}
	return apitypes.AuditEntry{
		ID: e.ID, At: render.Instant(e.At), Action: e.Action, Outcome: e.Outcome, Key: render.OrNull(e.Key),
		Session: render.OrNull(e.Session), Name: e.Name, Account: render.OrNull(e.Account), Object: render.OrNull(e.Object),
		ObjectID: render.OrNull(e.ObjectID), Request: e.Request, Details: details,
	}
}

// listAudit lists the entries that all given filters select.
func (s *Routes) listAudit(ctx context.Context, in *struct {
	Account string `query:"account" doc:"Id or uid of the account."`
	Key     string `query:"key" doc:"Id of the API key."`
	Session string `query:"session" doc:"Id of the session."`
	Action  string `query:"action" maxLength:"64" doc:"Operation of the API, such as update-endpoint; or login, logout, open-portal."`
	Object  string `query:"object" maxLength:"256" doc:"Id or name of the object."`
	rest.Span
	rest.Paging
},
) (*rest.Reply[apitypes.Page[apitypes.AuditEntry]], error) {
	account, err := s.Names.ResolveAccount(ctx, in.Account)
	key, keyErr := rest.Filtered[postrider.KeyID]("key", in.Key)
	session, sessionErr := rest.Filtered[postrider.SessionID]("session", in.Session)
	if err := errors.Join(err, keyErr, sessionErr); err != nil {
		return nil, err
	}
	return rest.RespondPage(viewAudit)(s.Store.AuditEntries(ctx, store.AuditQuery{
		Account: account, Key: key, Session: session, Action: in.Action, ObjectID: in.Object, Span: in.Span.Of(), Paging: in.Paging.Of(),
	}))
}
