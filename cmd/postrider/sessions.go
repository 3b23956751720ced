package main

import (
	"context"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

// sessionsCmd is the group of commands for the sessions of people who are logged in to the pages.
type sessionsCmd struct {
	List   sessionsListCmd   `cmd:"" help:"List who is logged in, newest first."`
	Revoke sessionsRevokeCmd `cmd:"" help:"End a session at once."`
}

// sessionTable shows sessions.
var sessionTable = tableOf[apitypes.Session]{
	[]string{"ID", "KIND", "NAME", "ACCOUNT", "SCOPES", "CREATED", "EXPIRES", "LAST SEEN", "STATE"},
	func(s apitypes.Session) []string {
		scopes := make([]string, 0, len(s.Scopes))
		for _, scope := range s.Scopes {
			scopes = append(scopes, string(scope))
		}
		account := ""
		if s.Account != nil {
			account = s.Account.String()
		}
		state := "open"
		switch {
		case s.RevokedAt != nil:
			state = "revoked"
		case !time.Now().Before(s.ExpiresAt.Time):
			state = "expired"
		case !s.Opened:
			state = "link not opened"
		}
		return []string{
			s.ID.String(), string(s.Kind), s.Name, account, strings.Join(scopes, ","), moment(&s.CreatedAt), moment(&s.ExpiresAt),
			moment(s.LastSeenAt), state,
		}
	},
}

type sessionsListCmd struct {
	target `embed:""`
	paging `embed:""`

	Kind    postrider.SessionKind `enum:",operator,portal" default:"" placeholder:"KIND" help:"Only of this kind: operator or portal."`
	Account string                `help:"Only of this account, by id or uid. Default: all."`
	Ended   bool                  `help:"Include sessions that have ended, for 30 days."`
}

// Run lists sessions.
func (c *sessionsListCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, sessionTable.page, func(api *client.Client) (apitypes.Page[apitypes.Session], error) {
		return api.Sessions(ctx, client.SessionFilter{Kind: c.Kind, Account: c.Account, Ended: c.Ended, Paging: c.page()})
	})
}

type sessionsRevokeCmd struct {
	target `embed:""`

	ID postrider.SessionID `arg:"" help:"The session's id, ses_…"`
}

// Run ends the session. Other servers of the same database notice within five seconds.
func (c *sessionsRevokeCmd) Run(ctx context.Context, t terminal) error {
	return change(t, c.target, c.ID.String()+" is revoked", func(api *client.Client) error { return api.RevokeSession(ctx, c.ID) })
}

// auditCmd lists the audit log.
type auditCmd struct {
	target `embed:""`
	paging `embed:""`

	Account string              `help:"Only about this account, by id or uid."`
	Key     postrider.KeyID     `placeholder:"ID" help:"Only by this API key, key_…, or by a session that it issued."`
	Session postrider.SessionID `placeholder:"ID" help:"Only by this session, ses_…"`
	Action  string              `help:"Only this operation of the API, for example update-endpoint; or login, logout, open-portal."`
	Object  string              `placeholder:"ID" help:"Only about the object with this id or name."`
	From    instant             `placeholder:"TIME" help:"Only from this time on: RFC 3339, a date in UTC, or a time before now, for example -1h or -7d. Default: no bound."`
	To      instant             `placeholder:"TIME" help:"Only before this time, in the same forms. Default: no bound."`
}

// auditTable shows audit entries.
var auditTable = tableOf[apitypes.AuditEntry]{
	[]string{"AT", "WHO", "ACTION", "OBJECT", "OUTCOME", "FIELDS", "REQUEST"},
	func(e apitypes.AuditEntry) []string {
		return []string{moment(&e.At), e.Name, e.Action, optional(e.ObjectID), e.Outcome, e.Details["fields"], e.Request}
	},
}

// Run lists the entries that match all given flags, newest first.
func (c *auditCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, auditTable.page, func(api *client.Client) (apitypes.Page[apitypes.AuditEntry], error) {
		return api.Audit(ctx, client.AuditFilter{
			Account: c.Account, Key: c.Key, Session: c.Session, Action: c.Action, Object: c.Object,
			From: c.From.Time, To: c.To.Time, Paging: c.page(),
		})
	})
}
