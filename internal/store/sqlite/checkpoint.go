package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/postrider/postrider"
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

// scrubTries is how often Scrub asks for the log, a tenth of a second apart.
const scrubTries = 50

// Scrub removes what deleted rows have left in the files; see [store.Expunges]. In the database
// itself secure_delete has written zeros over them. The log has them until it begins anew: it is
// written back whole and cut to nothing, which no reader may hold up.
func (s *Store) Scrub(ctx context.Context) (err error) {
	defer s.calls.Begin("Scrub").End(&err, "scrub")
	for range scrubTries {
		var busy, frames, written int
		err := s.reads.QueryRowContext(ctx, "pragma wal_checkpoint(truncate)").Scan(&busy, &frames, &written)
		if err != nil {
			return s.fault(err)
		}
		if busy == 0 {
			return nil
		}
		if !batch.Sleep(ctx, 100*time.Millisecond) {
			break
		}
	}
	return fmt.Errorf("a reader or a backup holds the log of the database: %w", postrider.ErrBusy)
}
