// Package archive shows what retention has archived, and copies records back.
package archive

import (
	"embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/web/page"
	"github.com/postrider/postrider/internal/web/payload"
)

//go:embed *.html
var templates embed.FS

// Feature returns the pages of what retention has archived.
func Feature() page.Feature {
	return page.Feature{
		Templates: templates,
		Operators: page.Routes{
			"GET /archive":              listParts,
			"GET /archive/parts/{part}": showPart,
			"GET /archive/records":      listRestored,
			"POST /archive/restores":    restore,
		},
	}
}

// dayFilter returns a filter by a day, and the day. Zero: the field is empty or cannot be read,
// so there is no filter.
func dayFilter(v *page.Visit, name string) (page.Filter, time.Time) {
	f := page.Filter{Name: name, Kind: "date"}
	day, err := time.Parse(time.DateOnly, v.Query(name))
	if err != nil {
		return f, time.Time{}
	}
	f.Value = v.Query(name)
	return f, day
}

// partsPage is the data of the page of the archive's parts.
type partsPage struct {
	page.Listed[apitypes.ArchivePart]

	None bool // the server has no archive
}

// listParts shows the parts of the archive, by kind, day and number.
func listParts(v *page.Visit) error {
	from, fromDay := dayFilter(v, "from")
	to, toDay := dayFilter(v, "to")
	f := page.Filters{v.Choice("kind", "archive.kind", "events", "attempts", "bodies"), from, to}
	parts, err := v.API.ArchiveParts(v.Context, client.ArchivePartFilter{Kind: v.Query("kind"), From: fromDay, To: toDay, Paging: v.Paging()})
	p := partsPage{}
	p.None = isProblem(err, "no_archive")
	faults := v.Faulty(err)
	if err != nil && faults == nil {
		return err
	}
	shown := page.View{Name: "archive", Commands: []string{"archive list", "archive verify"}}
	if p.Listed = (page.Listed[apitypes.ArchivePart]{List: page.ListOf(v, parts, f), Faults: faults}); p.None {
		p.Faults = nil
	}
	shown.Refused = p.Faults != nil
	shown.Data = p
	return v.Show(shown)
}

// isProblem reports whether err is a response of the API with the code.
func isProblem(err error, code string) bool {
	problem, ok := errors.AsType[*client.Error](err)
	return ok && problem.Code == code
}

// showPart reads a part, and shows whether it is whole.
func showPart(v *page.Visit) error {
	part, err := v.API.VerifyArchivePart(v.Context, v.Request.PathValue("part"))
	if err != nil {
		return err
	}
	return v.Show(page.View{Name: "archive-part", Title: part.ID, Data: part, Commands: []string{
		"archive verify --kind " + part.Kind + " --from " + part.Day,
	}})
}

// restoreForm is the form that copies records back, with the values that the person typed.
type restoreForm struct {
	Event, Account, From, To string
	Faults                   map[string]string
}

// restoredPage is the data of the page of restored records.
type restoredPage struct {
	page.Listed[recordRow]

	Form restoreForm
}

// recordRow is a record with its fields as texts.
type recordRow struct {
	apitypes.ArchiveRecord

	Fields []recordField
}

// recordField is a field of a record.
type recordField struct {
	Name, Text string
	Long       bool // the field has bytes
	Cut        bool // the text is only the beginning
}

// listRestored shows the records that were restored, by id.
func listRestored(v *page.Visit) error { return showRestored(v, restoreForm{}) }

func showRestored(v *page.Visit, form restoreForm) error {
	event, eventID, err := page.IDFilter[postrider.EventID](v, "event")
	endpoint, endpointID, endpointErr := page.IDFilter[postrider.EndpointID](v, "endpoint")
	f := slices.Concat(page.Filters{event}, v.AccountFilter(), page.Filters{endpoint})
	var records apitypes.Page[apitypes.ArchiveRecord]
	if err = errors.Join(err, endpointErr); err == nil {
		records, err = v.API.RestoredRecords(v.Context, client.RestoredFilter{
			Event: eventID, Account: v.Query("account"), Endpoint: endpointID, Paging: v.Paging(),
		})
	}
	faults := v.Faulty(err)
	if err != nil && faults == nil {
		return err
	}
	rows := page.RowsOf(records, func(r apitypes.ArchiveRecord) recordRow { return recordRow{r, fieldsOf(r.Record)} })
	if form.Event == "" && form.Faults == nil {
		form.Event, form.Account = v.Query("event"), v.Query("account")
	}
	p := page.View{Name: "archive-records", Commands: []string{"archive restore", "archive restored"}}
	p.Data = restoredPage{page.Listed[recordRow]{List: page.ListOf(v, rows, f), Faults: faults}, form}
	p.Refused = faults != nil || form.Faults != nil
	return v.Show(p)
}

// bytesFields are the fields of records that hold bytes, as base64.
var bytesFields = []string{"data", "request_head", "response_head", "response_body"}

// fieldsOf returns the fields of a record as texts. Fields that hold bytes come last.
func fieldsOf(record json.RawMessage) (fields []recordField) {
	var parsed map[string]json.RawMessage
	if err := json.Unmarshal(record, &parsed); err != nil {
		return []recordField{{Text: string(record)}}
	}
	names := slices.SortedFunc(maps.Keys(parsed), func(a, b string) int {
		if long := slices.Contains(bytesFields, a); long != slices.Contains(bytesFields, b) {
			if long {
				return 1
			}
			return -1
		}
		return strings.Compare(a, b)
	})
	for _, name := range names {
		f := recordField{Name: name, Text: strings.Trim(string(parsed[name]), `"`)}
		var text string
		if json.Unmarshal(parsed[name], &text) == nil {
			f.Text = text
		}
		if slices.Contains(bytesFields, name) {
			f.Long = true
			if content, err := base64.StdEncoding.DecodeString(text); err == nil && utf8.Valid(content) {
				f.Text = string(content)
			}
		}
		f.Text, f.Cut = payload.Clip(f.Text, payload.MaxRaw)
		fields = append(fields, f)
	}
	return fields
}

// restore copies the records back that one step of a restore finds.
func restore(v *page.Visit) error {
	form := restoreForm{Event: v.Form("event"), Account: v.Form("account"), From: v.Form("from"), To: v.Form("to")}
	did, err := v.API.RestoreArchive(v.Context,
		apitypes.ArchiveRestore{Event: form.Event, Account: form.Account, From: form.From, To: form.To})
	if form.Faults = v.Faulty(err); form.Faults != nil {
		return showRestored(v, form)
	}
	if err != nil {
		return err
	}
	f := page.Flash{Text: v.T("archive.restored", "n", did.Records)}
	if did.NextCursor != nil {
		f = page.Flash{Text: v.T("archive.restored_some", "n", did.Records), Warn: true}
	}
	path := v.Path("archive", "records")
	if form.Event != "" {
		path += "?" + url.Values{"event": {form.Event}}.Encode()
	}
	return v.Done(path, f)
}
