package web

import (
	"errors"
	"slices"
	"strings"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

// auditRoutes lists the pages of who may see the pages, and of what they did.
func auditRoutes() []route {
	return []route{
		{"GET /audit", operators, listAudit},
		{"GET /sessions", operators, listSessions},
		{"POST /sessions/{session}/revoke", operators, revokeSession},
	}
}

// auditRow is an entry of the audit log with the path of its object; empty: there is no
// page.
type auditRow struct {
	apitypes.AuditEntry

	Path string
}

// listAudit shows the audit log, newest first.
func listAudit(v *visit) error {
	key, keyID, err := idFilter(v, "key", postrider.ParseID[postrider.KeyID])
	session, sessionID, sessionErr := idFilter(v, "session", postrider.ParseID[postrider.SessionID])
	from, fromTime := v.timeFilter("from")
	to, toTime := v.timeFilter("to")
	l := listed[auditRow]{
		filters: filters{v.actionFilter(), v.textFilter("object"), v.textFilter("account"), key, session, from, to},
		err:     errors.Join(err, sessionErr),
	}
	if l.err == nil {
		var entries apitypes.Page[apitypes.AuditEntry]
		entries, l.err = v.api.Audit(v.ctx, client.AuditFilter{
			Account: v.query("account"), Key: keyID, Session: sessionID, Action: v.query("action"), Object: v.query("object"),
			From: fromTime, To: toTime, Paging: v.paging(),
		})
		l.items.NextCursor = entries.NextCursor
		for _, e := range entries.Data {
			row := auditRow{AuditEntry: e}
			if e.Object != nil && e.ObjectID != nil && sections[*e.Object] != "" {
				row.Path = v.path(sections[*e.Object], *e.ObjectID)
			}
			l.items.Data = append(l.items.Data, row)
		}
	}
	return showList(v, page{Name: "audit", Commands: []string{"audit"}}, l)
}

// actionFilter returns a filter by an action, with the actions to choose from.
func (v *visit) actionFilter() filter {
	f := v.textFilter("action")
	for key, said := range v.text.texts {
		if action, ok := strings.CutPrefix(key, "audit.do."); ok {
			f.Options = append(f.Options, choice{action, said.other})
		}
	}
	slices.SortFunc(f.Options, func(a, b choice) int { return strings.Compare(a.Label, b.Label) })
	return f
}

// sessionRow is a session with its state.
type sessionRow struct {
	apitypes.Session

	State string // active, unopened, expired or revoked
	Own   bool   // it is the session of the person
}

// listSessions shows the sessions, newest first.
func listSessions(v *visit) error {
	f := filters{v.choice("kind", "session.kind", "operator", "portal"), v.choice("ended", "sessions.ended", "true"), v.textFilter("account")}
	sessions, err := v.api.Sessions(v.ctx, client.SessionFilter{
		Kind: postrider.SessionKind(v.query("kind")), Account: v.query("account"), Ended: v.query("ended") == "true", Paging: v.paging(),
	})
	rows := apitypes.Page[sessionRow]{NextCursor: sessions.NextCursor}
	for _, s := range sessions.Data {
		row := sessionRow{s, "active", s.ID == v.session.Caller.Session}
		switch {
		case s.RevokedAt != nil:
			row.State = "revoked"
		case !v.now.Before(s.ExpiresAt.Time):
			row.State = "expired"
		case !s.Opened:
			row.State = "unopened"
		}
		rows.Data = append(rows.Data, row)
	}
	return showList(v, page{Name: "sessions", Commands: []string{"sessions list"}}, listed[sessionRow]{rows, f, err})
}

// revokeSession ends a session.
func revokeSession(v *visit) error {
	id, err := pathID(v, "session", postrider.ParseID[postrider.SessionID])
	if err != nil {
		return err
	}
	if err := v.api.RevokeSession(v.ctx, id); err != nil {
		return err
	}
	return v.done(v.path("sessions"), flash{Text: v.t("session.done.revoke")})
}

// Live reports whether the session can be revoked.
func (s sessionRow) Live() bool { return s.State == "active" || s.State == "unopened" }
