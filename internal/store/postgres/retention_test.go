package postgres_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// days returns the partitions of a table.
func days(t *testing.T, conn *pgx.Conn, parent string) []string {
	t.Helper()
	rows, _ := conn.Query(t.Context(), `
		select c.relname::text
		from pg_inherits i
		join pg_class c on c.oid = i.inhrelid
		where i.inhparent = $1::text::regclass
		order by 1`, parent)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// forgetAll forgets all days of a kind that are over at a time.
func forgetAll(ctx context.Context, s store.Store, kind store.Kind, before time.Time) error {
	for n := 1; n > 0; {
		var err error
		if n, err = s.DeleteOld(ctx, store.DeleteOld{Kind: kind, Before: before, Limit: 1}); err != nil {
			return err
		}
	}
	return nil
}

func TestADayThatIsInUseStaysAndIsDroppedLater(t *testing.T) {
	t.Parallel()
	dsn := freshDSN(t)
	s, conn, reader := openAt(t, dsn), connect(t, dsn), connect(t, dsn)
	all := days(t, conn, "events")
	tx, err := reader.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `select id from events`); err != nil {
		t.Fatal(err)
	}
	tomorrow := time.Now().Add(24 * time.Hour)
	if err := forgetAll(t.Context(), s, store.OldEvents, tomorrow); !errors.Is(err, postrider.ErrBusy) {
		t.Errorf("DeleteOld = %v while somebody reads, want ErrBusy", err)
	}
	if now := days(t, conn, "events"); !slices.Equal(now, all) {
		t.Errorf("the days are %v, want %v", now, all)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := forgetAll(t.Context(), s, store.OldEvents, tomorrow); err != nil {
		t.Fatal(err)
	}
	if now := days(t, conn, "events"); !slices.Equal(now, all[2:]) {
		t.Errorf("the days are %v, want all but yesterday and today: %v", now, all[2:])
	}
}

// An event that was kept must not go between the look of a replay at it and the commit of its new
// delivery, which would have no event.
func TestAKeptEventStaysWhileAReplayLooksAtIt(t *testing.T) {
	t.Parallel()
	dsn := freshDSN(t)
	s, replay := openAt(t, dsn), connect(t, dsn)
	long := time.Now().Add(-1000 * 24 * time.Hour) // no day is that old
	tx, err := replay.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `select pg_advisory_xact_lock_shared(hashtext('postrider_replays'))`); err != nil {
		t.Fatal(err)
	}
	if err := forgetAll(t.Context(), s, store.OldEvents, long); !errors.Is(err, postrider.ErrBusy) {
		t.Errorf("DeleteOld = %v while a replay looks at events, want ErrBusy", err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := forgetAll(t.Context(), s, store.OldEvents, long); err != nil {
		t.Errorf("DeleteOld = %v after the replay, want nil", err)
	}
}

func TestOneNodeDropsDaysAtATime(t *testing.T) {
	t.Parallel()
	dsn := freshDSN(t)
	s, conn, other := openAt(t, dsn), connect(t, dsn), connect(t, dsn)
	all := days(t, conn, "events")
	if _, err := other.Exec(t.Context(), `select pg_advisory_lock(hashtext('postrider_forget_events'))`); err != nil {
		t.Fatal(err)
	}
	if err := forgetAll(t.Context(), s, store.OldEvents, time.Now().Add(24*time.Hour)); err != nil {
		t.Errorf("DeleteOld = %v while another node is at it, want nil", err)
	}
	if now := days(t, conn, "events"); !slices.Equal(now, all) {
		t.Errorf("the days are %v, want %v", now, all)
	}
}

// A day of attempts stays, emptied, while a delivery of it may be pending.
func TestADayOfAttemptsIsEmptiedAndDroppedWhenNothingOfItCanBePending(t *testing.T) {
	t.Parallel()
	dsn := freshDSN(t)
	s, conn := openAt(t, dsn), connect(t, dsn)
	_, err := conn.Exec(t.Context(), `
		select postrider_make_partitions(current_date - 100, current_date - 95);
		insert into attempts (delivery, number, named_event, endpoint, account, type, outcome, status_code, error, retry_after,
			started_at, duration, stale, status_after)
		select postrider_id_floor(now() - i * interval '1 day'), 1, e, e, e, '', 'accepted', 200, '', 0, now(), 0, false, 'delivered'
		from generate_series(95, 100) i, gen_random_uuid() e;
		insert into queue (id, named_event, endpoint, account, type, lane, due_at, claims, step, losses, expires_at)
		select postrider_id_floor(now() - interval '98 days'), e, e, e, '', 0, now(), 1, 0, 0, now() + interval '1 day'
		from gen_random_uuid() e`)
	if err != nil {
		t.Fatal(err)
	}
	before := days(t, conn, "attempts")
	if err := forgetAll(t.Context(), s, store.OldAttempts, time.Now().AddDate(0, 0, -30)); err != nil {
		t.Fatal(err)
	}
	after := days(t, conn, "attempts")
	if want := before[2:]; !slices.Equal(after, want) {
		t.Errorf("the days are %v, want all but those before the pending delivery: %v", after, want)
	}
	var rows int
	if err := conn.QueryRow(t.Context(), `select count(*) from attempts`).Scan(&rows); err != nil || rows != 0 {
		t.Errorf("%d attempts are left (%v), want none", rows, err)
	}
	_, err = conn.Exec(t.Context(), `
		delete from queue;
		insert into attempts (delivery, number, named_event, endpoint, account, type, outcome, status_code, error, retry_after,
			started_at, duration, stale, status_after)
		select q, 2, q, q, q, '', 'accepted', 200, '', 0, now(), 0, true, 'pending'
		from postrider_id_floor(now() - interval '95 days') q`)
	if err != nil {
		t.Errorf("a late record: %v, want a partition that takes it", err)
	}
	if err := forgetAll(t.Context(), s, store.OldAttempts, time.Now().AddDate(0, 0, -30)); err != nil {
		t.Fatal(err)
	}
	if after = days(t, conn, "attempts"); !slices.Equal(after, before[4:]) {
		t.Errorf("the days are %v, want those of which a delivery may be pending: %v", after, before[4:])
	}
	if err := conn.QueryRow(t.Context(), `select count(*) from attempts`).Scan(&rows); err != nil || rows != 1 {
		t.Errorf("%d late records are left (%v), want 1", rows, err)
	}
}
