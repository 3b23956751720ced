// Package archives is the part of the API that lists, verifies, searches and restores the archive
// of retention. Restored records are only for reading: they are never sent.
package archives

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/api/render"
	"github.com/postrider/postrider/internal/api/rest"
	"github.com/postrider/postrider/internal/store"
)

// Archive reads the archive of retention. An error that is neither an error of package postrider
// nor store.ErrArchiveDamaged means that the archive cannot be read now.
type Archive interface {
	// AccountOf returns the account of an archived event, or postrider.ErrNotFound.
	AccountOf(ctx context.Context, event postrider.EventID) (postrider.AccountID, error)
	// Parts lists parts by kind, day and number.
	Parts(ctx context.Context, q store.ArchiveParts) ([]store.ArchivePart, error)
	// Verify reads a part, and compares it with the checksum and the number of rows that were
	// recorded.
	Verify(ctx context.Context, p store.ArchivePart) (store.ArchiveVerified, error)
	// Search reads for about five seconds. The cursor of its result continues the search.
	Search(ctx context.Context, q store.ArchiveQuery) (store.ArchiveFound, error)
	// Restore copies the records that Search finds into the store.
	Restore(ctx context.Context, q store.ArchiveQuery) (store.ArchiveFound, error)
}

// Store is the part of the store that this package reads and changes.
type Store interface {
	// RestoredRecords is the method of store.Restored.
	RestoredRecords(ctx context.Context, q store.RestoredQuery) (store.Page[store.RestoredRecord], error)
}

// Routes serves the archive.
type Routes struct {
	*rest.Shared

	Store   Store
	Archive Archive // nil: the server has no archive
}

// Register registers the routes of the archive.
func (s *Routes) Register(rt *rest.Router) {
	const steps = "A step reads for about five seconds and returns what it has found; next_cursor is the cursor of the next step. "
	codes := []string{"no_archive", "archive_unavailable", "archive_damaged"}
	rest.Handle(rt, rest.Route{
		Name: "list-archive-parts", Path: "GET /archive/parts",
		Summary: "List the parts of the archive, by kind, day and number",
		Codes:   codes[:1],
		Scope:   postrider.ScopeAdmin,
	}, s.listArchiveParts)
	rest.Handle(rt, rest.Route{
		Name: "verify-archive-part", Path: "GET /archive/parts/{part}",
		Summary:     "Read a part of the archive and verify it",
		Description: "The object is compared with its checksum, decrypted, and its records are counted. A damaged part is no error.",
		Codes:       codes[:2],
		Scope:       postrider.ScopeAdmin,
	}, s.verifyArchivePart)
	rest.Handle(rt, rest.Route{
		Name: "search-archive", Path: "GET /archive/records",
		Summary:     "Search the archive",
		Description: steps + "Without an event or days, the whole archive is read.",
		Codes:       codes,
		Scope:       postrider.ScopeAdmin,
	}, s.searchArchive)
	rest.HandleBody(rt, rest.Route{
		Name: "restore-archive", Path: "POST /archive/restores",
		Summary: "Copy records of the archive back into the database, to look at",
		Description: steps +
			"Nothing sends the records, and they are in no list of events or deliveries. They are deleted after --keep-restored. " +
			"A step may be repeated.",
		Codes: codes, ReceiverTime: rest.ArchiveTime,
		Scope: postrider.ScopeAdmin,
	}, s.restoreArchive)
	rest.Handle(rt, rest.Route{
		Name: "list-restored-records", Path: "GET /archive/restored",
		Summary: "List the records that were restored, by id",
		Scope:   postrider.ScopeAdmin,
	}, s.listRestored)
}

// archiveFailed returns the response to an error of the archive. The log gets the original error.
func archiveFailed(err error) error {
	switch {
	case errors.Is(err, store.ErrArchiveDamaged):
		return rest.Conflict("archive_damaged", err.Error())
	// These are errors of the store.
	case err == nil, errors.Is(err, postrider.ErrNotFound), errors.Is(err, postrider.ErrInvalid), errors.Is(err, postrider.ErrBusy):
		return err
	}
	return errors.Join(&rest.Error{
		Class: postrider.ErrBusy, Code: "archive_unavailable", Detail: "the archive cannot be read now; the log has the cause",
	}, err)
}

// errNoArchive is the response of a server that has no archive.
var errNoArchive = rest.Conflict("no_archive", "the server has no archive: --archive names one")

// Days has the query parameters that filter by the day of an id.
type Days struct {
	From string `query:"from" format:"date" doc:"First day (UTC) of the events, or of the deliveries of attempts and bodies."`
	To   string `query:"to" format:"date" doc:"Day before which to stop."`
}

// of returns the days as times. A zero time is no limit.
func (d Days) of() (from, to time.Time, err error) {
	if from, err = parseDay("from", d.From); err == nil {
		to, err = parseDay("to", d.To)
	}
	return from, to, err
}

func parseDay(field, text string) (day time.Time, err error) {
	if text == "" {
		return day, nil
	}
	if day, err = time.Parse(time.DateOnly, text); err != nil {
		return day, rest.Invalid(field, postrider.FaultMalformed, "must be a day like 2026-11-23")
	}
	return day, nil
}

// partID returns the id of a part, such as events-2026-11-23-1.
func partID(p store.ArchivePart) string {
	return fmt.Sprintf("%s-%s-%d", p.Kind, p.Day.UTC().Format(time.DateOnly), p.Number)
}

// parsePart returns the kind, day and number from a part's id, or postrider.ErrNotFound.
func parsePart(id string) (p store.ArchivePart, err error) {
	kind, rest, _ := strings.Cut(id, "-")
	at := strings.LastIndexByte(rest, '-')
	if at < 0 {
		return p, postrider.ErrNotFound
	}
	p.Kind = store.Kind(kind)
	var errs [2]error
	p.Day, errs[0] = time.Parse(time.DateOnly, rest[:at])
	p.Number, errs[1] = strconv.Atoi(rest[at+1:])
	if errors.Join(errs[:]...) != nil || p.Number < 1 {
		return p, postrider.ErrNotFound
	}
	return p, nil
}

// ViewPart returns a part in the form of a response.
func ViewPart(p store.ArchivePart) apitypes.ArchivePart {
	return apitypes.ArchivePart{
		ID: partID(p), Kind: string(p.Kind), Day: p.Day.UTC().Format(time.DateOnly), Number: p.Number, Object: p.Object,
		Rows: p.Rows, RowsDeleted: p.Rows - p.Left, Bytes: p.Bytes, SHA256: hex.EncodeToString(p.SHA256[:]), MadeAt: render.Instant(p.MadeAt),
	}
}

// listArchiveParts lists parts. The cursor is the id of the last part of the page.
func (s *Routes) listArchiveParts(ctx context.Context, in *struct {
	Kind string `query:"kind" enum:"events,attempts,bodies"`
	Days
	rest.Paging
},
) (*rest.Reply[apitypes.Page[apitypes.ArchivePart]], error) {
	if s.Archive == nil {
		return nil, errNoArchive
	}
	q := store.ArchiveParts{Kind: store.Kind(in.Kind), Limit: in.Limit + 1}
	var err error
	if q.From, q.To, err = in.Days.of(); err != nil {
		return nil, err
	}
	if in.Cursor != "" {
		if q.After, err = parsePart(in.Cursor); err != nil {
			return nil, rest.Invalid("cursor", postrider.FaultMalformed, "must be a next_cursor of the same list")
		}
	}
	parts, err := s.Archive.Parts(ctx, q)
	page := store.Page[store.ArchivePart]{Items: parts}
	if len(parts) > in.Limit {
		page.Items, page.Next = parts[:in.Limit], partID(parts[in.Limit-1])
	}
	return rest.RespondPage(ViewPart)(page, err)
}

// verifyArchivePart reads a part and returns the result of its verification.
func (s *Routes) verifyArchivePart(ctx context.Context, in *struct {
	Part string `path:"part"`
},
) (*rest.Reply[apitypes.ArchivePart], error) {
	if s.Archive == nil {
		return nil, errNoArchive
	}
	wanted, err := parsePart(in.Part)
	if err != nil {
		return nil, err
	}
	before := wanted
	before.Number--
	found, err := s.Archive.Parts(ctx, store.ArchiveParts{
		Kind: wanted.Kind, From: wanted.Day, To: wanted.Day.AddDate(0, 0, 1), After: before, Limit: 1,
	})
	if err != nil {
		return nil, err
	}
	if len(found) == 0 || found[0].Number != wanted.Number {
		return nil, postrider.ErrNotFound
	}
	verified, err := s.Archive.Verify(ctx, found[0])
	if err != nil && !errors.Is(err, store.ErrArchiveDamaged) {
		return nil, archiveFailed(err)
	}
	view := ViewPart(found[0])
	view.Verification = ViewVerified(verified, err)
	return rest.Respond(view), nil
}

// ViewVerified returns the result of a verification in the form of a response.
func ViewVerified(v store.ArchiveVerified, err error) *apitypes.ArchiveVerification {
	view := &apitypes.ArchiveVerification{Whole: err == nil, RowsRead: v.Rows, RowsExpunged: v.Expunged, AccountsRead: v.Accounts}
	if err != nil {
		fault := err.Error()
		view.Fault = &fault
	}
	return view
}

func viewRecord(r store.RestoredRecord) apitypes.ArchiveRecord {
	view := apitypes.ArchiveRecord{
		Kind: string(r.Kind), ID: postrider.DeliveryID(r.ID).String(), Number: render.OrNull(r.Number), Account: render.OrNull(r.Account),
		Event: render.OrNull(r.Event), Endpoint: render.OrNull(r.Endpoint), EventType: r.Type, RestoredAt: render.TimeOrNull(r.At),
		Record: r.Record,
	}
	if r.Kind == store.OldEvents {
		view.ID = r.Event.String()
	}
	return view
}

// searchArchive makes one step of a search.
func (s *Routes) searchArchive(ctx context.Context, in *struct {
	Event     string `query:"event" doc:"Id of the event. Its deliveries are looked for on the day of the event and the next, unless to says more."`
	Account   string `query:"account" doc:"Id or uid of the account."`
	Endpoint  string `query:"endpoint" doc:"Id of the endpoint: only attempts and bodies."`
	EventType string `query:"event_type"`
	Days
	rest.Paging
},
) (*rest.Reply[apitypes.ArchiveFound], error) {
	q, err := s.archiveQuery(ctx, apitypes.ArchiveRestore{
		Event: in.Event, Account: in.Account, Endpoint: in.Endpoint, EventType: in.EventType, From: in.From, To: in.To, Cursor: in.Cursor,
	})
	if err != nil {
		return nil, err
	}
	q.Limit = in.Limit
	found, err := s.Archive.Search(ctx, q)
	if err != nil {
		return nil, archiveFailed(err)
	}
	view := apitypes.ArchiveFound{
		Data: make([]apitypes.ArchiveRecord, 0, len(found.Records)), NextCursor: render.OrNull(found.Next), PartsRead: found.Parts,
		RowsExpunged: found.Expunged,
	}
	for _, r := range found.Records {
		view.Data = append(view.Data, viewRecord(r))
	}
	return rest.Respond(view), nil
}

// archiveQuery returns the query for the records that a request selects.
func (s *Routes) archiveQuery(ctx context.Context, by apitypes.ArchiveRestore) (q store.ArchiveQuery, err error) {
	if s.Archive == nil {
		return q, errNoArchive
	}
	q = store.ArchiveQuery{Type: by.EventType, Cursor: by.Cursor}
	var errs [4]error
	q.Event, errs[0] = rest.Filtered[postrider.EventID]("event", by.Event)
	q.Endpoint, errs[1] = rest.Filtered[postrider.EndpointID]("endpoint", by.Endpoint)
	q.From, q.To, errs[2] = Days{by.From, by.To}.of()
	q.Account, errs[3] = s.Names.ResolveAccount(ctx, by.Account)
	return q, errors.Join(errs[:]...)
}

// restoreArchive makes one step of a restore.
func (s *Routes) restoreArchive(
	ctx context.Context, _ *struct{}, body apitypes.ArchiveRestore,
) (*rest.Reply[apitypes.ArchiveRestored], error) {
	q, err := s.archiveQuery(ctx, body)
	if err != nil {
		return nil, err
	}
	q.Limit = store.MaxLimit
	found, err := s.Archive.Restore(ctx, q)
	if err != nil {
		return nil, archiveFailed(err)
	}
	rest.InfoOf(ctx).Note("records", strconv.Itoa(len(found.Records)))
	return rest.Respond(apitypes.ArchiveRestored{
		Records: len(found.Records), NextCursor: render.OrNull(found.Next), PartsRead: found.Parts, RowsExpunged: found.Expunged,
	}), nil
}

// listRestored lists the restored records.
func (s *Routes) listRestored(ctx context.Context, in *struct {
	Event    string `query:"event"`
	Account  string `query:"account" doc:"Id or uid of the account."`
	Endpoint string `query:"endpoint"`
	rest.Paging
},
) (*rest.Reply[apitypes.Page[apitypes.ArchiveRecord]], error) {
	q := store.RestoredQuery{Paging: in.Paging.Of()}
	var errs [3]error
	q.Event, errs[0] = rest.Filtered[postrider.EventID]("event", in.Event)
	q.Endpoint, errs[1] = rest.Filtered[postrider.EndpointID]("endpoint", in.Endpoint)
	q.Account, errs[2] = s.Names.ResolveAccount(ctx, in.Account)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	return rest.RespondPage(viewRecord)(s.Store.RestoredRecords(ctx, q))
}

// Event finds an event in the archive. The result has only the id and the account.
func (s *Routes) Event(ctx context.Context, text string) (postrider.Event, error) {
	id, err := rest.ParseID[postrider.EventID](text)
	if err != nil || s.Archive == nil {
		return postrider.Event{}, errors.Join(err, postrider.ErrNotFound)
	}
	account, err := s.Archive.AccountOf(ctx, id)
	return postrider.Event{ID: id, Account: account}, archiveFailed(err)
}
