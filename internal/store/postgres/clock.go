package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/store"
)

// Clock returns the database's time as this process knows it.
func (s *Store) Clock() *store.Clock { return s.clock }

// Now returns the database's time of day, and corrects the Clock by it.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	if err := s.followClock(ctx); err != nil {
		return time.Time{}, err
	}
	return s.clock.Wall(), nil
}

// Walks clock_pkey, and reads all of a table of a few rows for the last
// heartbeat of another node.
const readClockSQL = `
	select clock_timestamp(), c.ahead, c.version, (select max(n.seen_at) from nodes n where n.incarnation <> @self)
	from clock c
	where c.single`

// The adjustment is a compare-and-set: of the nodes that notice a step, one
// stores it. Walks clock_pkey.
const adjustClockSQL = `
	update clock
	set ahead = @ahead, version = version + 1
	where single and version = @version`

// followClock takes the database's time. When its clock was stepped, it stores
// the adjustment with which the time that decides what is due goes on, unless
// another node was first.
func (s *Store) followClock(ctx context.Context) error {
	for {
		r, err := s.readClock(ctx)
		if err != nil {
			return fmt.Errorf("read the clock: %w", fault(err))
		}
		step := s.clock.Follow(r)
		if step == 0 {
			return nil
		}
		ahead := r.Ahead - step
		tag, err := s.pool.Exec(ctx, adjustClockSQL, pgx.NamedArgs{"ahead": ahead.Microseconds(), "version": r.Version})
		if err != nil {
			return fmt.Errorf("adjust the clock: %w", fault(err))
		}
		if tag.RowsAffected() > 0 {
			s.log.WarnContext(ctx, "the clock of the database was stepped", "by", step.String(), "adjustment", ahead.String())
		}
	}
}

// readClock measures the way of the question without the wait for a connection.
func (s *Store) readClock(ctx context.Context) (r store.Reading, err error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return r, err
	}
	defer conn.Release()
	var ahead int64
	r.Asked = time.Now()
	row := conn.QueryRow(ctx, readClockSQL, pgx.NamedArgs{"self": int64(s.self.Load())})
	err = row.Scan(toTime(&r.Wall), &ahead, &r.Version, toTime(&r.Witness))
	r.Answered = time.Now()
	r.Ahead = time.Duration(ahead) * time.Microsecond
	return r, err
}
