package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/batch"
)

// checkpointEvery is the time between two checkpoints while there are commits.
const checkpointEvery = 500 * time.Millisecond

// runCheckpoints writes the log of the database back into its file, beside the writer, until ctx
// ends.
//
// The problem is that SQLite lets the commit that makes the log too long write it back. That is
// thousands of pages and an fsync: 4 to 14 ms in which everything else waited. With 500
// deliveries a second that happened every 1.2 s, and was the longest wait of publishes.
//
// So a connection that only reads writes the log back. It waits for nobody, and nobody waits for
// it: the writer continues to add to the end of the log. If nothing was added, the next commit
// starts the log from its beginning. A writer that never pauses adds something each time. The log
// then grows to 16,000 pages; from there on a commit of the writer writes the rest back
// (wal_autocheckpoint).
//
// Pages that a checkpoint could not write stay in the log, so a full disk loses nothing. A failed
// fsync ends all writing, as in a commit.
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
		_ = s.writer.distrust(err) // distrust calls OnFatal
	}
}

// scrubTries is how often Scrub tries to truncate the log, with a tenth of a second between two
// tries.
const scrubTries = 50

// Scrub removes the content of deleted rows from the files; see [store.Expunges]. In the database
// file, secure_delete has overwritten the rows with zeros. The log still has them. So Scrub
// writes the whole log back and truncates it, which fails while a reader uses the log.
//
// The truncating checkpoint has the lock of the writer, and waits for readers with it. So Scrub first
// writes the log back without a lock, and truncates the log only if no reader kept a part of it.
func (s *Store) Scrub(ctx context.Context) (err error) {
	defer s.calls.Begin("Scrub").End(&err, "scrub")
	for range scrubTries {
		var busy, frames, written int
		err := s.reads.QueryRowContext(ctx, "pragma wal_checkpoint(passive)").Scan(&busy, &frames, &written)
		whole := busy == 0 && written == frames
		if err == nil && whole {
			err = s.reads.QueryRowContext(ctx, "pragma wal_checkpoint(truncate)").Scan(&busy, &frames, &written)
		}
		if err != nil {
			return s.fault(err)
		}
		if whole && busy == 0 {
			return nil
		}
		if !batch.Sleep(ctx, 100*time.Millisecond) {
			break
		}
	}
	return fmt.Errorf("a reader or a backup holds the log of the database: %w", postrider.ErrBusy)
}
