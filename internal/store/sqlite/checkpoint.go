package sqlite

import (
	"context"
	"time"

	"github.com/postrider/postrider/internal/batch"
)

// checkpointEvery is the interval in which the log is written back while there are commits.
const checkpointEvery = 500 * time.Millisecond

// runCheckpoints writes the log of the database back into its file, beside the writer, until
// ctx ends.
//
// The problem: SQLite lets the commit that makes the log too long write it back, which is
// thousands of pages and an fsync: 4 to 14 ms, in which everything else waited. With 500
// deliveries a second that happened every 1.2 s, and was what publishes waited for longest.
//
// So a connection that only reads does it. It waits for nobody, and nobody waits for it:
// the writer adds to the end of the log meanwhile. If nothing was added, the next commit
// begins the log anew. A writer that never rests adds something each time; the log then
// grows to 16,000 pages, from which on its own commit writes the rest back (wal_autocheckpoint).
//
// What a checkpoint could not write stays in the log, so a full disk loses nothing. An fsync
// that failed ends all writing, as in a commit.
func (s *Store) runCheckpoints(ctx context.Context) {
	failed := false
	for {
		select {
		case <-s.writer.committed:
		case <-ctx.Done():
			return
		}
		if !batch.Sleep(ctx, checkpointEvery) {
			return
		}
		_, err := s.reads.ExecContext(ctx, "pragma wal_checkpoint(passive)")
		if err != nil && !failed && ctx.Err() == nil {
			s.log.WarnContext(ctx, "the log of the database was not written back", "error", explained(err))
		}
		failed = err != nil
		_ = s.writer.distrust(err) // OnFatal is called
	}
}
