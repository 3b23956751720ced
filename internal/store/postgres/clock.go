package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/store"
)

// Clock returns the database's time, as this process knows it.
func (s *Store) Clock() *store.Clock { return s.clock }

// Now returns the database's time of day, and corrects the Clock by it.
func (s *Store) Now(ctx context.Context) (_ time.Time, err error) {
	defer s.calls.Begin("Now").End(&err, "read the time")
	if err := s.followClock(ctx); err != nil {
		return time.Time{}, err
	}
	return s.clock.Wall(), nil
}

// readClockSQL reads the database's time of day, the stored adjustment, and the time of the last
// heartbeat of another node. The heartbeat is a witness: it shows whether the database's clock
// was stepped or this machine's clock stood still. The statement walks clock_pkey, and reads all
// of nodes, which has only a few rows.
const readClockSQL = `
	select clock_timestamp(), c.ahead, c.version, (select max(n.seen_at) from nodes n where n.incarnation <> @self)
	from clock c
	where c.single`

// adjustClockSQL stores an adjustment, unless another node has stored one since the reading. So
// only one of the nodes that notice a step stores an adjustment. It walks clock_pkey.
const adjustClockSQL = `
	update clock
	set ahead = @ahead, version = version + 1
	where single and version = @version`

// followClock reads the database's time and corrects the Clock by it.
//
// If the database's clock was stepped, the time that decides which work is due must continue
// without a step: a step forwards would end all leases, and a step back would make nothing due.
// So the node stores an adjustment, and reads the time again. If another node stored its
// adjustment first, the second reading has that one.
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

// readClock reads the database's time, and measures how long the answer took. The measured time
// does not include the wait for a connection of the pool, because a long wait would make the
// reading useless.
func (s *Store) readClock(ctx context.Context) (r store.Reading, err error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return r, err
	}
	defer conn.Release()
	var ahead int64
	r.Asked = s.now()
	row := conn.QueryRow(ctx, readClockSQL, pgx.NamedArgs{"self": int64(s.self.Load())})
	err = row.Scan(toTime(&r.Wall), &ahead, &r.Version, toTime(&r.Witness))
	r.Answered = s.now()
	r.Ahead = time.Duration(ahead) * time.Microsecond
	return r, err
}
