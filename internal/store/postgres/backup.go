package postgres

import (
	"context"
	"fmt"
	"time"
)

// LogArchive is the state of the archiving of the server's write-ahead log. A recovery to a point
// in time needs the archived log. PostgreSQL does not know whether base backups exist, or whether
// an archived file can be read.
type LogArchive struct {
	Enabled    bool      // whether archive_mode is on
	ArchivedAt time.Time // when the last file was archived; zero if none was since the statistics began
	Failing    bool      // whether the last try failed; the server repeats it
}

// logArchiveSQL needs no special right: every role may read this view.
const logArchiveSQL = `
	select current_setting('archive_mode') <> 'off', last_archived_time, coalesce(last_failed_time > coalesce(last_archived_time, '-infinity'), false)
	from pg_stat_archiver`

// LogArchive reads the state of the archiving of the server's log.
func (s *Store) LogArchive(ctx context.Context) (LogArchive, error) {
	var l LogArchive
	var archived *time.Time
	if err := s.pool.QueryRow(ctx, logArchiveSQL).Scan(&l.Enabled, &archived, &l.Failing); err != nil {
		return LogArchive{}, fmt.Errorf("ask for the archive of the log: %w", fault(err))
	}
	if archived != nil {
		l.ArchivedAt = *archived
	}
	return l, nil
}
