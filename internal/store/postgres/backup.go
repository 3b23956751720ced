package postgres

import (
	"context"
	"fmt"
	"time"
)

// LogArchive says how the archiving of the server's log goes, on which recoveries to a point in
// time depend. PostgreSQL does not know whether base backups are made, nor whether an
// archived file can be read.
type LogArchive struct {
	Enabled    bool      // archive_mode
	ArchivedAt time.Time // when the last file of the log was archived; zero: none since the statistics began
	Failing    bool      // the last try failed; the server repeats it
}

// logArchiveSQL needs no right: every role may read this view.
const logArchiveSQL = `
	select current_setting('archive_mode') <> 'off', last_archived_time, coalesce(last_failed_time > coalesce(last_archived_time, '-infinity'), false)
	from pg_stat_archiver`

// LogArchive asks the server how the archiving of its log goes.
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
