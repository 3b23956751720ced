package sqlite

import (
	"context"
	"database/sql"
	"testing"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// Rows of one account and endpoint; the oldest is of the type "rare".
const (
	fillFrom      = `with recursive n (i) as (select 1 union all select i + 1 from n where i < @n) insert into `
	fillEventsSQL = fillFrom + `events (id, account, type, data, api_version, ordering_key, sequence, hops, created_at)
		select unhex(format('%032x', i)), @account, iif(i = 1, 'rare', 'common'), x'', '', '', 0, 0, 0 from n`
	fillQueueSQL = fillFrom + `queue (id, event, endpoint, account, type, lane, due_at, claims, expires_at)
		select unhex(format('%032x', 4 * i)), @account, @account, @account, iif(i = 1, 'rare', 'common'), 0, 0, 0, 0 from n`
	fillAttemptsSQL = fillFrom + `attempts (delivery, number, event, endpoint, account, type, outcome, status_code, error, retry_after,
			started_at, duration, stale, status_after)
		select unhex(format('%032x', 4 * i + 1)), 1, @account, @account, @account, iif(i = 1, 'rare', 'common'), 'accepted', 200, '', 0,
			0, 0, 0, 'delivered' from n`
	fillDeadSQL = fillFrom + `dead_letters (delivery, event, endpoint, account, type, reason, attempts, last_status_code, last_error, died_at)
		select unhex(format('%032x', 4 * i + 2)), @account, @account, @account, iif(i = 1, 'rare', 'common'), 'exhausted', 1, 500, '', 0 from n`
)

// pagesOf reads a list to its end, and returns how many items and pages it has.
func pagesOf[T any](t *testing.T, p store.Paging, list func(store.Paging) (store.Page[T], error)) (items, pages int) {
	t.Helper()
	for {
		page, err := list(p)
		if err != nil {
			t.Fatal(err)
		}
		items, pages = items+len(page.Items), pages+1
		if page.Next == "" {
			return items, pages
		}
		p.Cursor = page.Next
	}
}

func TestPagesThatFindLittleStopAfterTenThousandRows(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	const rows = 25_000
	account := postrider.AccountID{1}
	err = change(t.Context(), s, "fill", func(ctx context.Context, tx *tx) error {
		for _, fill := range []string{fillEventsSQL, fillQueueSQL, fillAttemptsSQL, fillDeadSQL} {
			if err := tx.exec(ctx, fill, sql.Named("n", rows), sql.Named("account", blob(account))); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, oldestFirst := range []bool{false, true} {
		p := store.Paging{OldestFirst: oldestFirst}
		for _, of := range []postrider.AccountID{{}, account} {
			for eventType, want := range map[string]int{"none": 0, "rare": 1} {
				items, pages := pagesOf(t, p, func(p store.Paging) (store.Page[postrider.Event], error) {
					return s.Events(t.Context(), store.EventQuery{Account: of, Type: eventType, Paging: p})
				})
				if items != want || pages != 3 {
					t.Errorf("%d events of type %s on %d pages, want %d on 3", items, eventType, pages, want)
				}
				items, pages = pagesOf(t, p, func(p store.Paging) (store.Page[postrider.Delivery], error) {
					return s.Deliveries(t.Context(), store.DeliveryQuery{Account: of, EventType: eventType, Paging: p})
				})
				if items != 3*want || pages != 3 {
					t.Errorf("%d deliveries of type %s on %d pages, want %d on 3", items, eventType, pages, 3*want)
				}
				items, pages = pagesOf(t, p, func(p store.Paging) (store.Page[postrider.DeadLetter], error) {
					return s.DeadLetters(t.Context(), store.DeadLetterQuery{Account: of, EventType: eventType, Paging: p})
				})
				if items != want || pages != 3 {
					t.Errorf("%d dead letters of type %s on %d pages, want %d on 3", items, eventType, pages, want)
				}
			}
		}
	}
	page, err := s.Events(t.Context(), store.EventQuery{Type: "common", Paging: store.Paging{Limit: 20}})
	if err != nil || len(page.Items) != 20 {
		t.Errorf("a page of a common type has %d items, %v", len(page.Items), err)
	}
}
