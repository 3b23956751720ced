// Package audit shows the audit log.
package audit

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/web/page"
)

//go:embed *.html
var templates embed.FS

// Feature returns the audit log: what people and programs did.
func Feature() page.Feature {
	return page.Feature{Templates: templates, Operators: page.Routes{"GET /audit": listAudit}}
}

// auditRow is an entry of the audit log with the path of its object's page; empty: there is no
// page.
type auditRow struct {
	apitypes.AuditEntry

	Path string
}

// longDetail is the length from which the page folds a detail, in bytes.
const longDetail = 240

// change is the old and the new text of a long detail.
type change struct{ Was, Is string }

// Change returns the texts of a detail that the page folds; nil: it shows the detail as it is.
func (auditRow) Change(detail string) *change {
	var was json.RawMessage
	from := json.NewDecoder(strings.NewReader(detail))
	if len(detail) < longDetail || from.Decode(&was) != nil {
		return nil
	}
	is, ok := strings.CutPrefix(detail[from.InputOffset():], " → ")
	if !ok {
		return nil
	}
	return &change{readable(was), readable([]byte(is))}
}

// readable returns a JSON text without its quotes, and other JSON with line breaks.
func readable(value []byte) (text string) {
	if bytes.HasPrefix(value, []byte{'"'}) && json.Unmarshal(value, &text) == nil {
		return text
	}
	return page.PrettyJSON(value)
}

// listAudit shows the audit log, newest first.
func listAudit(v *page.Visit) error {
	key, keyID, err := page.IDFilter[postrider.KeyID](v, "key")
	session, sessionID, sessionErr := page.IDFilter[postrider.SessionID](v, "session")
	from, fromTime := v.TimeFilter("from")
	to, toTime := v.TimeFilter("to")
	f := page.Filters{actionFilter(v), v.TextFilter("object"), v.TextFilter("account"), key, session, from, to}
	var entries apitypes.Page[apitypes.AuditEntry]
	if err = errors.Join(err, sessionErr); err == nil {
		entries, err = v.API.Audit(v.Context, client.AuditFilter{
			Account: v.Query("account"), Key: keyID, Session: sessionID, Action: v.Query("action"), Object: v.Query("object"),
			From: fromTime, To: toTime, Paging: v.Paging(),
		})
	}
	rows := page.RowsOf(entries, func(e apitypes.AuditEntry) auditRow {
		row := auditRow{AuditEntry: e}
		if e.Object != nil && e.ObjectID != nil && page.Sections[*e.Object] != "" {
			row.Path = v.Path(page.Sections[*e.Object], *e.ObjectID)
		}
		return row
	})
	return page.ShowList(v, page.View{Name: "audit", Filters: f, Commands: []string{"audit"}}, rows, err)
}

// actionFilter returns a filter by an action, with the actions to choose from.
func actionFilter(v *page.Visit) page.Filter {
	f := v.TextFilter("action")
	for action, said := range v.Text.Under("audit.do.") {
		f.Options = append(f.Options, page.Choice{Value: action, Label: said})
	}
	slices.SortFunc(f.Options, func(a, b page.Choice) int { return strings.Compare(a.Label, b.Label) })
	return f
}
