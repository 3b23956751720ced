package postgres

// Inside the package: the steps of one transaction are looked at.

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/testkit"
)

// Retention looks at a day, and deletes its rows later in the transaction. In between, another node
// must not forget the parts of the day, whose objects would be deleted: the rows would have no copy.
func TestPromise2TheCopiesOfADayStayWhileItIsDeleted(t *testing.T) {
	t.Parallel()
	s, ctx := openedAt(t, testkit.Postgres(t, Migrate)), t.Context()
	today := store.DayOf(time.Now())
	announced := store.ArchivePart{Kind: store.OldEvents, Day: today, Number: 1, Object: "o", MadeAt: time.Now()}
	part := announced
	part.Rows, part.Left, part.Bytes = 1, 1, 1
	if err := errors.Join(s.PutArchivePart(ctx, announced), s.PutArchivePart(ctx, part)); err != nil {
		t.Fatal(err)
	}
	err := s.tx(ctx, func(tx pgx.Tx) error {
		days, err := daysBefore(ctx, tx, "events", time.Now().Add(24*time.Hour))
		if err != nil {
			return err
		}
		for _, d := range days {
			if d.from.Equal(today) {
				_, err = s.isArchived(ctx, tx, store.DeleteOld{Kind: store.OldEvents, Archived: true}, d)
			}
		}
		if err != nil {
			return err
		}
		if forgotten, err := s.RedoArchiveDay(ctx, store.OldEvents, today); !errors.Is(err, postrider.ErrBusy) {
			t.Errorf("RedoArchiveDay = %v, %v while retention is at the day, want ErrBusy", forgotten, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if forgotten, err := s.RedoArchiveDay(ctx, store.OldEvents, today); err != nil || len(forgotten) != 1 {
		t.Errorf("RedoArchiveDay = %v, %v afterwards, want the part", forgotten, err)
	}
}

// While a day cannot be dropped yet, an event that is needed is in the day and among the kept ones.
func TestAnExpungeCountsAnEventOnce(t *testing.T) {
	t.Parallel()
	s, ctx := openedAt(t, testkit.Postgres(t, Migrate)), t.Context()
	id := postrider.MakeID[postrider.EventID](time.Now(), [10]byte{})
	account := postrider.AccountID{1}
	for _, table := range []string{"events", "kept_events"} {
		_, err := s.pool.Exec(ctx, `
			insert into `+table+` (id, account, type, data, api_version, ordering_key, hops, sequence, max_attempts, created_at)
			values ($1, $2, 'order.created', '{}', '', '', 0, 0, 0, now())`, uuid(id), uuid(account))
		if err != nil {
			t.Fatal(err)
		}
	}
	e := postrider.Expunge{ID: postrider.ExpungeID{2}, Account: account, Event: id, CreatedAt: time.Now()}
	if err := s.PutExpunge(ctx, e); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		got, err := s.ExpungeRows(ctx, store.ExpungeRows{ID: e.ID, Limit: 100, Settled: postrider.ExpungeSettled})
		if err != nil {
			t.Fatal(err)
		}
		if got.Removed.Events != 1 {
			t.Errorf("%d events are removed, want 1", got.Removed.Events)
		}
	}
	var left int
	if err := s.pool.QueryRow(ctx, `select count(*) from all_events`).Scan(&left); err != nil || left > 0 {
		t.Errorf("%d rows of the event are left (%v), want none", left, err)
	}
}
