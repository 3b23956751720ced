package sources

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/api/render"
	"github.com/postrider/postrider/internal/api/rest"
	"github.com/postrider/postrider/internal/outbox"
)

const (
	// maxRows is the greatest number of rejected rows of a page. Each has its data.
	maxRows = 50
	// maxIDs is the greatest number of rows that a request may name.
	maxIDs = 1000
	// findTime is the time for which GET /events asks one source for a row.
	findTime = 3 * time.Second
)

// registerRows registers the routes that read and change the outbox of a source.
func (s *Routes) registerRows(rt *rest.Router) {
	const one = "/sources/{source}"
	unavailable := []string{"source_unavailable"}
	admin := postrider.ScopeAdmin
	rest.Handle(rt, rest.Route{
		Name: "get-source-state", Path: "GET " + one + "/state",
		Summary: "Ask the database of a source how its outbox is",
		Codes:   unavailable, ReceiverTime: connectTime, Scope: admin,
	}, s.state)
	rest.Handle(rt, rest.Route{
		Name: "list-rejected-rows", Path: "GET " + one + "/rejected",
		Summary:     "List the rejected rows of a source with their data, newest rejection first",
		Description: "A page has at most 50 rows. Of a table of the producer's own there is one page: the rows among the first 500 of the table that cannot be published as they are now.",
		Codes:       unavailable, ReceiverTime: connectTime, Scope: admin,
	}, s.rejected)
	rest.HandleBody(rt, rest.Route{
		Name: "retry-rejected-rows", Path: "POST " + one + "/rejected/retry",
		Summary:     "Put rejected rows back to the waiting ones",
		Description: "Not of a table of the producer's own, whose rejected rows are tried again each minute. They get new numbers, in their old order, so they are published after the rows that wait now. A row that is still wrong is rejected again.",
		Codes:       unavailable, ReceiverTime: connectTime, Scope: admin,
	}, s.retry)
	rest.HandleBody(rt, rest.Route{
		Name: "discard-rejected-rows", Path: "POST " + one + "/rejected/discard",
		Summary:     "Delete rejected rows",
		Description: "Their events are never published, and it cannot be undone.",
		Codes:       unavailable, ReceiverTime: connectTime, Scope: admin,
	}, s.discard)
}

// ask calls do with the outbox of the source that the path names. If the database cannot be used, the
// error is a 503 with the reason.
func (s *Routes) ask(ctx context.Context, name string, do func(*outbox.DB) error) error {
	source, err := s.find(ctx, name)
	if err != nil {
		return err
	}
	if err = s.with(ctx, source, do); err != nil && !errors.Is(err, postrider.ErrInvalid) {
		return &rest.Error{Class: postrider.ErrBusy, Code: "source_unavailable", Detail: err.Error()}
	}
	return err
}

// state asks the database of the source.
func (s *Routes) state(ctx context.Context, in *SourcePath) (*rest.Reply[apitypes.SourceDatabase], error) {
	var found outbox.Stats
	err := s.ask(ctx, in.Source, func(db *outbox.DB) (err error) {
		if found, err = db.Stats(ctx); err == nil && db.Own() {
			var rows []outbox.RejectedRow
			rows, err = s.refused(ctx, db, outbox.RejectedRows{})
			found.Rejected = int64(len(rows))
			if found.Waiting = max(found.Waiting-found.Rejected, 0); found.Waiting == 0 {
				found.Oldest = time.Time{}
			}
		}
		return err
	})
	return rest.RespondWith(func(f outbox.Stats) apitypes.SourceDatabase {
		return apitypes.SourceDatabase{
			Version: f.Version, Waiting: f.Waiting, OldestAt: render.TimeOrNull(f.Oldest), OpenSince: render.TimeOrNull(f.OpenSince),
			Rejected: f.Rejected, AsyncReplicas: f.AsyncReplicas,
		}
	})(found, err)
}

// rejected lists rejected rows.
func (s *Routes) rejected(ctx context.Context, in *struct {
	SourcePath
	rest.Paging

	Account string `query:"account" maxLength:"256" doc:"Only rows of this account, as their producer wrote it."`
	Code    string `query:"code" maxLength:"64" doc:"Only rows that were rejected with this code."`
},
) (*rest.Reply[apitypes.Page[apitypes.RejectedRow]], error) {
	page := apitypes.Page[apitypes.RejectedRow]{Data: []apitypes.RejectedRow{}}
	err := s.ask(ctx, in.Source, func(db *outbox.DB) error {
		limit := min(in.Limit, maxRows)
		var rows []outbox.RejectedRow
		var next string
		var err error
		if db.Own() {
			rows, err = s.refused(ctx, db, outbox.RejectedRows{Account: in.Account, Code: in.Code})
			rows = rows[:min(limit, len(rows))]
		} else {
			rows, next, err = db.Rejected(ctx, outbox.RejectedQuery{Account: in.Account, Code: in.Code, Limit: limit, Cursor: in.Cursor})
		}
		for _, row := range rows {
			page.Data = append(page.Data, viewRow(row))
		}
		page.NextCursor = render.OrNull(next)
		return err
	})
	return rest.RespondWith(func(p apitypes.Page[apitypes.RejectedRow]) apitypes.Page[apitypes.RejectedRow] { return p })(page, err)
}

// viewRow returns a rejected row in the form of a response. The data may be no JSON, if somebody wrote the
// row by hand; then it is shown as text.
func viewRow(r outbox.RejectedRow) apitypes.RejectedRow {
	c := r.Create
	if !json.Valid(c.Data) {
		raw := postrider.Event{Data: c.Data, About: postrider.About{ContentType: "application/octet-stream"}}
		c.Data, c.DataEncoding = raw.JSONData()
		c.ContentType = cmp.Or(c.ContentType, raw.About.ContentType)
	}
	return apitypes.RejectedRow{
		ID: r.ID, Account: c.Account, Type: c.Type, OrderingKey: render.OrNull(c.OrderingKey), IdempotencyKey: render.OrNull(c.IdempotencyKey),
		Producer: r.Producer, Code: r.Code, Field: r.Field, Message: r.Message, PublishedAt: render.TimeOrNull(r.PublishedAt),
		RejectedAt: render.Instant(r.RejectedAt), ContentType: c.ContentType, DataEncoding: c.DataEncoding, Data: c.Data,
	}
}

// selected returns the rows that a request selects, and notes the selection for the audit log.
func selected(ctx context.Context, b apitypes.RejectedSelect) (outbox.RejectedRows, error) {
	info := rest.InfoOf(ctx)
	switch {
	case b.IDs != nil && (len(b.IDs) < 1 || len(b.IDs) > maxIDs):
		return outbox.RejectedRows{}, rest.WrongCount("ids", 1, maxIDs, "ids")
	case b.IDs == nil && b.Account == "" && b.Code == "":
		return outbox.RejectedRows{}, rest.Invalid("ids", postrider.FaultRequired, "is required where there is neither an account nor a code")
	}
	rows := outbox.RejectedRows{Account: b.Account, Code: b.Code}
	var faults []error
	for i, text := range b.IDs {
		id, err := rest.ParseID[postrider.OutboxID](text)
		if err != nil {
			faults = append(faults, rest.Invalid(fmt.Sprintf("ids[%d]", i), postrider.FaultMalformed, "must be the id of a row, obx_…"))
		}
		rows.IDs = append(rows.IDs, id)
	}
	for name, value := range map[string]string{"account": b.Account, "code": b.Code} {
		if value != "" {
			info.Note(name, value[:min(len(value), rest.MaxName)])
		}
	}
	return rows, errors.Join(faults...)
}

// changeRows calls do, which changes rows of the source, and notes their number for the audit log.
func (s *Routes) changeRows(
	ctx context.Context, name string, do func(*outbox.DB) (int64, error),
) (*rest.Reply[apitypes.RowCount], error) {
	var count apitypes.RowCount
	err := s.ask(ctx, name, func(db *outbox.DB) (err error) {
		count.Rows, err = do(db)
		return err
	})
	rest.InfoOf(ctx).Note("rows", strconv.FormatInt(count.Rows, 10))
	return rest.RespondWith(func(c apitypes.RowCount) apitypes.RowCount { return c })(count, err)
}

// retry puts rejected rows back.
func (s *Routes) retry(ctx context.Context, in *SourcePath, body apitypes.RejectedRetry) (*rest.Reply[apitypes.RowCount], error) {
	rows, err := selected(ctx, body.RejectedSelect)
	if body.NewType != "" {
		err = errors.Join(err, postrider.CheckType("new_type", body.NewType))
	}
	if body.NewAccount != "" {
		_, unknown := s.Names.ResolveLiveAccount(ctx, "new_account", body.NewAccount)
		err = errors.Join(err, unknown)
	}
	if err != nil {
		return nil, err
	}
	return s.changeRows(ctx, in.Source, func(db *outbox.DB) (int64, error) {
		if db.Own() {
			return 0, rest.Invalid("source", postrider.FaultContradictory, "has a table of the producer's own, whose rejected rows are "+
				"tried again each minute: correct them in the table, or make their account")
		}
		return db.Retry(ctx, outbox.RetryRejected{RejectedRows: rows, SetAccount: body.NewAccount, SetType: body.NewType})
	})
}

// discard deletes rejected rows.
func (s *Routes) discard(ctx context.Context, in *SourcePath, body apitypes.RejectedSelect) (*rest.Reply[apitypes.RowCount], error) {
	rows, err := selected(ctx, body)
	if err != nil {
		return nil, err
	}
	return s.changeRows(ctx, in.Source, func(db *outbox.DB) (int64, error) {
		if db.Own() {
			return s.discardOwn(ctx, db, rows)
		}
		return db.Discard(ctx, rows)
	})
}

// Unpublished returns a 404 that says where a row is whose event the store does not have. It asks every
// source. A caller that is bound to an account learns nothing of rows, because they belong to no account
// before they are published.
func (s *Routes) Unpublished(ctx context.Context, id postrider.OutboxID) error {
	if !rest.InfoOf(ctx).Caller.Account.IsZero() {
		return postrider.ErrNotFound
	}
	sources, err := s.Store.Sources(ctx)
	if err != nil {
		return err
	}
	notFound := func(code, detail string, args ...any) error {
		return &rest.Error{Class: postrider.ErrNotFound, Code: code, Detail: fmt.Sprintf(detail, args...)}
	}
	err = postrider.ErrNotFound
	for _, source := range sources {
		place, asked := s.place(ctx, source, id)
		switch {
		case asked != nil:
			err = notFound("row_unknown", "no event was read from this row; the outbox of the source %s cannot be read now: %s", source.Name, asked)
		case place.Where == "waiting":
			return notFound("row_waiting", "the row waits in the outbox of the source %s; its event is not published yet", source.Name)
		case place.Where == "rejected":
			return notFound("row_rejected", "the row was rejected in the source %s: %s: %s", source.Name, place.Code, place.Message)
		}
	}
	return err
}

// place asks a source where the row is.
func (s *Routes) place(ctx context.Context, source postrider.Source, id postrider.OutboxID) (place outbox.Place, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, findTime, errTooSlow)
	defer cancel()
	err = s.with(ctx, source, func(db *outbox.DB) error {
		place, err = db.Row(ctx, id)
		return err
	})
	return place, err
}
