package access

import (
	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/web/page"
)

// sessionRow is a session with its state.
type sessionRow struct {
	apitypes.Session

	State string // active, unopened, expired or revoked
	Own   bool   // it is the session of the person
}

// listSessions shows the sessions, newest first.
func listSessions(v *page.Visit) error {
	f := page.Filters{
		v.Choice("kind", "session.kind", "operator", "portal"), v.Choice("ended", "sessions.ended", "true"), v.TextFilter("account"),
	}
	sessions, err := v.API.Sessions(v.Context, client.SessionFilter{
		Kind: postrider.SessionKind(v.Query("kind")), Account: v.Query("account"), Ended: v.Query("ended") == "true", Paging: v.Paging(),
	})
	rows := page.RowsOf(sessions, func(s apitypes.Session) sessionRow {
		row := sessionRow{s, "active", s.ID == v.Caller.Session}
		switch {
		case s.RevokedAt != nil:
			row.State = "revoked"
		case !v.Now.Before(s.ExpiresAt.Time):
			row.State = "expired"
		case !s.Opened:
			row.State = "unopened"
		}
		return row
	})
	return page.ShowList(v, page.View{Name: "sessions", Filters: f, Commands: []string{"sessions list"}}, rows, err)
}

// revokeSession ends a session.
func revokeSession(v *page.Visit, id postrider.SessionID) error {
	if err := v.API.RevokeSession(v.Context, id); err != nil {
		return err
	}
	return v.Done(v.Path("sessions"), page.Flash{Text: v.T("session.done.revoke")})
}

// Live reports whether the session can be revoked.
func (s sessionRow) Live() bool { return s.State == "active" || s.State == "unopened" }
