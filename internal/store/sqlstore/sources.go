package sqlstore

import (
	"context"
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// putSourceSQL creates a source if there are fewer than @most others, or changes the one with the id. The
// table is small. The unique index sources_name refuses a second source with the name.
const putSourceSQL = `
	insert into sources (id, name, url, password, ca, keep, paused, mapping, created_at)
	select @id, @name, @url, @password, @ca, @keep, @paused, @mapping, @created_at
	where @most > (select count(*) from sources where id <> @id::uuid)
	on conflict (id) do update set name = excluded.name, url = excluded.url, password = excluded.password, ca = excluded.ca,
		keep = excluded.keep, mapping = excluded.mapping`

// PutSource creates or changes a source; see [store.Sources]. The lock lets only one transaction at a
// time count the others.
func (v Verbs) PutSource(ctx context.Context, s postrider.Source) (err error) {
	defer v.calls.Begin("PutSource").End(&err, "put source %s", s.ID)
	return v.db.Change(ctx, Repeatable, func(ctx context.Context, tx Tx) error {
		if err := tx.Lock(ctx, "sources", [16]byte{}); err != nil {
			return err
		}
		n, err := tx.Exec(ctx, Query{putSourceSQL, Args{
			"id": s.ID, "name": s.Name, "url": s.URL, "password": bytesOrNull(s.Password), "ca": s.CA, "keep": s.Keep, "paused": s.Paused,
			"mapping": OrNull(store.EncodeSourceTable(s.Table)), "created_at": s.CreatedAt, "most": store.MaxSources,
		}})
		if err == nil && n == 0 {
			err = store.ErrTooMany
		}
		return err
	})
}

// The table is small.
const sourcesSQL = `
	select id, name, url, password, ca, keep, paused, mapping, created_at, cycle, moved_until,
		state_at, node, error, error_since, waiting, oldest, open_since, rejected, missing
	from sources
	order by name`

// Sources lists all sources; see [store.Sources].
func (v Verbs) Sources(ctx context.Context) (_ []postrider.Source, err error) {
	defer v.calls.Begin("Sources").End(&err, "list sources")
	return all(ctx, v.db, Query{SQL: sourcesSQL}, func(row Row, s *postrider.Source) error {
		var mapping string
		state := &s.State
		err := row.Scan(&s.ID, &s.Name, &s.URL, &s.Password, &s.CA, &s.Keep, &s.Paused, &mapping, &s.CreatedAt, &state.Cycle,
			&state.MovedUntil, &state.At, &state.Node, &state.Error, &state.ErrorSince, &state.Waiting, &state.Oldest, &state.OpenSince,
			&state.Rejected, &state.Missing)
		if err == nil {
			s.Table, err = store.DecodeSourceTable(mapping)
		}
		return err
	})
}

// Both walk the primary key of sources. advanceSourceSQL walks that of outbox_rows too.
const (
	deleteSourceSQL = `delete from sources where id = @id`
	pauseSourceSQL  = `update sources set paused = @paused where id = @id`
	noteSourceSQL   = `
	update sources
	set state_at = @at, node = @node, error = @error, error_since = @error_since, waiting = @waiting, oldest = @oldest,
		open_since = @open_since, rejected = @rejected, missing = @missing
	where id = @id`
	advanceSourceSQL = `
	update sources
	set cycle = @next, moved_until = @until
	where id = @id and cycle = @cycle and @rows = (select count(*) from outbox_rows r where r.id = any(@ids::uuid[]))`
)

// DeleteSource deletes a source; see [store.Sources].
func (v Verbs) DeleteSource(ctx context.Context, id postrider.SourceID) (err error) {
	defer v.calls.Begin("DeleteSource").End(&err, "delete source %s", id)
	return found(v.db.Exec(ctx, Once, Query{deleteSourceSQL, Args{"id": id}}))
}

// PauseSource pauses or resumes a source; see [store.Sources].
func (v Verbs) PauseSource(ctx context.Context, id postrider.SourceID, paused bool) (err error) {
	defer v.calls.Begin("PauseSource").End(&err, "pause source %s", id)
	return found(v.db.Exec(ctx, Repeatable, Query{pauseSourceSQL, Args{"id": id, "paused": paused}}))
}

// AdvanceSource moves a source to another cycle; see [store.Sources]. It is not repeated when its fate is
// unknown: the reader reads the source again.
func (v Verbs) AdvanceSource(ctx context.Context, a store.AdvanceSource) (err error) {
	defer v.calls.Begin("AdvanceSource").End(&err, "advance source %s", a.ID)
	rows := slices.Clone(a.Rows)
	slices.SortFunc(rows, postrider.OutboxID.Compare)
	rows = slices.Compact(rows)
	n, err := v.db.Exec(ctx, Once, Query{advanceSourceSQL, Args{
		"id": a.ID, "cycle": a.Cycle, "next": a.Next, "until": a.MovedUntil, "ids": rows, "rows": len(rows),
	}})
	if err == nil && n == 0 {
		err = postrider.ErrFenced
	}
	return err
}

// NoteSource sets the state of a source; see [store.Sources].
func (v Verbs) NoteSource(ctx context.Context, id postrider.SourceID, s postrider.SourceState) (err error) {
	defer v.calls.Begin("NoteSource").End(&err, "note source %s", id)
	return found(v.db.Exec(ctx, Repeatable, Query{noteSourceSQL, Args{
		"id": id, "at": s.At, "node": s.Node, "error": s.Error, "error_since": s.ErrorSince, "waiting": s.Waiting, "oldest": s.Oldest,
		"open_since": s.OpenSince, "rejected": s.Rejected, "missing": s.Missing,
	}}))
}

// The statement walks the primary key.
const outboxRowsSQL = `select id, event from outbox_rows where id = any(@ids::uuid[])`

// OutboxRows returns the events of recorded rows; see [store.Sources].
func (v Verbs) OutboxRows(ctx context.Context, ids []postrider.OutboxID) (events map[postrider.OutboxID]postrider.EventID, err error) {
	defer v.calls.Begin("OutboxRows").End(&err, "read rows of outboxes")
	rows, err := all(ctx, v.db, Query{outboxRowsSQL, Args{"ids": ids}}, func(row Row, r *store.ReadRow) error {
		return row.Scan(&r.ID, &r.Event)
	})
	events = make(map[postrider.OutboxID]postrider.EventID, len(rows))
	for _, r := range rows {
		events[r.ID] = r.Event
	}
	return events, err
}

// forgetRowsSQL walks outbox_rows_recorded_at. The table sources is small.
var forgetRowsSQL = deleteRowsSQL("outbox_rows", "id", `recorded_at < @before
			and not exists (select 1 from sources where moved_until is null or moved_until <= @before)
		order by recorded_at`)

// ForgetRows deletes old records of rows; see [store.Sources].
func (v Verbs) ForgetRows(ctx context.Context, before time.Time, n int) (_ int, err error) {
	defer v.calls.Begin("ForgetRows").End(&err, "forget rows of outboxes")
	return deleteRows(ctx, v.db, n, Query{forgetRowsSQL, Args{"before": before}})
}
