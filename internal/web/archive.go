package web

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

// archiveRoutes lists the pages of what retention has archived.
func archiveRoutes() []route {
	return []route{
		{"GET /archive", operators, listParts},
		{"GET /archive/parts/{part}", operators, showPart},
		{"GET /archive/records", operators, listRestored},
		{"POST /archive/restores", operators, restore},
	}
}

// dayFilter returns a filter by a day, and the day. Zero: no filter. A day that cannot be read
// is no filter.
func (v *visit) dayFilter(name string) (filter, time.Time) {
	f := filter{Name: name, Kind: "date"}
	day, err := time.Parse(time.DateOnly, v.query(name))
	if err != nil {
		return f, time.Time{}
	}
	f.Value = v.query(name)
	return f, day
}

// partsPage is the data of the page of the archive's parts.
type partsPage struct {
	listPage[apitypes.ArchivePart]

	None bool // the server has no archive
}

// listParts shows the parts of the archive, by kind, day and number.
func listParts(v *visit) error {
	from, fromDay := v.dayFilter("from")
	to, toDay := v.dayFilter("to")
	f := filters{v.choice("kind", "archive.kind", "events", "attempts", "bodies"), from, to}
	parts, err := v.api.ArchiveParts(v.ctx, client.ArchivePartFilter{Kind: v.query("kind"), From: fromDay, To: toDay, Paging: v.paging()})
	p := partsPage{}
	p.None = isProblem(err, "no_archive")
	faults, refused := v.faulty(err)
	if err != nil && !refused {
		return err
	}
	shown := page{Name: "archive", Commands: []string{"archive list", "archive verify"}}
	if p.listPage = (listPage[apitypes.ArchivePart]{listOf(v, parts, f), faults}); p.None {
		p.Faults = nil
	} else if refused {
		shown.Status = http.StatusUnprocessableEntity
	}
	shown.Data = p
	return v.show(shown)
}

// isProblem reports whether the API has answered with the code.
func isProblem(err error, code string) bool {
	problem, ok := errors.AsType[*client.Error](err)
	return ok && problem.Code == code
}

// showPart reads a part, and shows whether it is whole.
func showPart(v *visit) error {
	part, err := v.api.VerifyArchivePart(v.ctx, v.r.PathValue("part"))
	if err != nil {
		return err
	}
	return v.show(page{Name: "archive-part", Title: part.ID, Data: part, Commands: []string{
		"archive verify --kind " + part.Kind + " --from " + part.Day,
	}})
}

// restoreForm is the form that copies records back. Its fields are what the person typed.
type restoreForm struct {
	Event, Account, From, To string
	Faults                   map[string]string
}

// restoredPage is the data of the page of restored records.
type restoredPage struct {
	listPage[recordRow]

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
	Long       bool // it was bytes
	Cut        bool // it is the beginning
}

// listRestored shows the records that were restored, by id.
func listRestored(v *visit) error { return showRestored(v, restoreForm{}) }

func showRestored(v *visit, form restoreForm) error {
	event, eventID, err := idFilter(v, "event", postrider.ParseID[postrider.EventID])
	endpoint, endpointID, endpointErr := idFilter(v, "endpoint", postrider.ParseID[postrider.EndpointID])
	l := listed[recordRow]{filters: filters{event, v.accountFilter(), endpoint}, err: errors.Join(err, endpointErr)}
	if l.err == nil {
		var records apitypes.Page[apitypes.ArchiveRecord]
		records, l.err = v.api.RestoredRecords(v.ctx, client.RestoredFilter{
			Event: eventID, Account: v.query("account"), Endpoint: endpointID, Paging: v.paging(),
		})
		l.items.NextCursor = records.NextCursor
		for _, r := range records.Data {
			l.items.Data = append(l.items.Data, recordRow{r, fieldsOf(r.Record)})
		}
	}
	faults, refused := v.faulty(l.err)
	if l.err != nil && !refused {
		return l.err
	}
	if form.Event == "" && form.Faults == nil {
		form.Event, form.Account = v.query("event"), v.query("account")
	}
	p := page{Name: "archive-records", Commands: []string{"archive restore", "archive restored"}}
	p.Data = restoredPage{listPage[recordRow]{listOf(v, l.items, l.filters), faults}, form}
	if refused || form.Faults != nil {
		p.Status = http.StatusUnprocessableEntity
	}
	return v.show(p)
}

// bytesFields are the fields of records that have bytes, as base64.
var bytesFields = []string{"data", "request_head", "response_head", "response_body"}

// fieldsOf returns the fields of a record as texts, those with bytes at the end.
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
		f.Text, f.Cut = clipText(f.Text, maxRaw)
		fields = append(fields, f)
	}
	return fields
}

// restore copies records back: what one step of a restore finds.
func restore(v *visit) error {
	form := restoreForm{Event: v.form("event"), Account: v.form("account"), From: v.form("from"), To: v.form("to")}
	did, err := v.api.RestoreArchive(v.ctx, apitypes.ArchiveRestore{Event: form.Event, Account: form.Account, From: form.From, To: form.To})
	var refused bool
	if form.Faults, refused = v.faulty(err); refused {
		return showRestored(v, form)
	}
	if err != nil {
		return err
	}
	f := flash{Text: v.t("archive.restored", "n", did.Records)}
	if did.NextCursor != nil {
		f = flash{Text: v.t("archive.restored_some", "n", did.Records), Warn: true}
	}
	path := v.path("archive", "records")
	if form.Event != "" {
		path += "?" + url.Values{"event": {form.Event}}.Encode()
	}
	return v.done(path, f)
}
