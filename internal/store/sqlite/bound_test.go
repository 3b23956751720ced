package sqlite

import (
	"context"
	"database/sql"
	"testing"

	"modernc.org/sqlite"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/testkit"
)

// These statements insert rows of one account and endpoint. The oldest row has the type "rare",
// and its own cause.
const (
	fillFrom      = `with recursive n (i) as (select 1 union all select i + 1 from n where i < @n) insert into `
	fillEventsSQL = fillFrom + `events (id, account, type, data, api_version, ordering_key, sequence, hops, created_at)
		select unhex(format('%032x', i)), @account, iif(i = 1, 'rare', 'common'), x'', '', '', 0, 0, 0 from n`
	fillQueueSQL = fillFrom + `queue (id, named_event, endpoint, account, type, lane, due_at, claims, expires_at)
		select unhex(format('%032x', 4 * i)), @account, @account, @account, iif(i = 1, 'rare', 'common'), 0, 0, 0, 0 from n`
	fillAttemptsSQL = fillFrom + `attempts (delivery, number, named_event, endpoint, account, type, outcome, status_code, error, retry_after,
			started_at, duration, stale, status_after)
		select unhex(format('%032x', 4 * i + 1)), 1, @account, @account, @account, iif(i = 1, 'rare', 'common'), 'accepted', 200, '', 0,
			0, 0, 0, 'delivered' from n`
	fillDeadSQL = fillFrom + `dead_letters (delivery, event, endpoint, account, type, reason, attempts, last_status_code, last_error, died_at)
		select unhex(format('%032x', 4 * i + 2)), @account, @account, @account, iif(i = 1, 'rare', 'common'), iif(i = 1, 'gone', 'exhausted'), 1, 500, '', 0 from n`
)

// filled opens a store with 25,000 rows of each kind, all of the account {1} and the endpoint
// {1}.
func filled(t *testing.T, opts Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), t.TempDir(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	err = change(t.Context(), s, func(ctx context.Context, tx *tx) error {
		for _, fill := range []string{fillEventsSQL, fillQueueSQL, fillAttemptsSQL, fillDeadSQL} {
			if err := tx.exec(ctx, fill, sql.Named("n", 25_000), sql.Named("account", blob(postrider.AccountID{1}))); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// pagesOf reads a list to its end, and returns the number of items and of pages.
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
	if testkit.Plain(t) { // runs without the race detector, because the test counts pages and has no races
		return
	}
	s := filled(t, Options{})
	account := postrider.AccountID{1}
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
				items, pages = pagesOf(t, p, func(p store.Paging) (store.Page[postrider.Delivery], error) {
					return s.Deliveries(t.Context(), store.DeliveryQuery{
						Account: of, Endpoint: postrider.EndpointID(account), EventType: eventType,
						Paging: p,
					})
				})
				if items != 3*want || pages != 3 {
					t.Errorf("%d deliveries of type %s to an endpoint on %d pages, want %d on 3", items, eventType, pages, 3*want)
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

// pagesRead returns the number of the file's pages that a call reads, from the cache or from the
// disk.
func pagesRead(t *testing.T, s *Store, call func() error) int {
	t.Helper()
	read := func() (pages int) {
		s.reads.SetMaxOpenConns(1)
		conn, err := s.reads.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		err = conn.Raw(func(c any) error {
			for _, op := range []sqlite.DBStatusOp{sqlite.DBStatusCacheHit, sqlite.DBStatusCacheMiss} {
				n, _, err := c.(sqlite.DBStatus).Status(op, false)
				if err != nil {
					return err
				}
				pages += n
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return pages
	}
	before := read()
	if err := call(); err != nil {
		t.Fatal(err)
	}
	return read() - before
}

// A walk over 25,000 rows reads 300 pages of an index and 800 of a table. A walk that looks up
// each row reads 75,000 pages.
func TestNoPageReadsAllRows(t *testing.T) {
	t.Parallel()
	if testkit.Plain(t) { // runs without the race detector, because the test counts pages and has no races
		return
	}
	s := filled(t, Options{Readers: 1})
	account, endpoint, first := postrider.AccountID{1}, postrider.EndpointID{1}, store.Paging{Limit: 1}
	const lookups, tenThousand = 100, 700 // in pages
	deliveries := func(q store.DeliveryQuery) func() error {
		return func() error {
			q.Paging = first
			_, err := s.Deliveries(t.Context(), q)
			return err
		}
	}
	backlog := func(q store.BacklogQuery) func() error {
		return func() error {
			_, err := s.Backlog(t.Context(), q)
			return err
		}
	}
	for name, c := range map[string]struct {
		most int
		call func() error
	}{
		"deliveries":                        {lookups, deliveries(store.DeliveryQuery{})},
		"pending deliveries":                {lookups, deliveries(store.DeliveryQuery{Status: postrider.Pending})},
		"dead deliveries":                   {lookups, deliveries(store.DeliveryQuery{Status: postrider.Dead})},
		"skipped deliveries":                {lookups, deliveries(store.DeliveryQuery{Status: postrider.Skipped})},
		"dead deliveries of an endpoint":    {lookups, deliveries(store.DeliveryQuery{Endpoint: endpoint, Status: postrider.Dead})},
		"deliveries of an endpoint":         {tenThousand, deliveries(store.DeliveryQuery{Endpoint: endpoint})},
		"pending deliveries of an endpoint": {tenThousand, deliveries(store.DeliveryQuery{Endpoint: endpoint, Status: postrider.Pending})},
		"deliveries of an event":            {lookups, deliveries(store.DeliveryQuery{Event: postrider.EventID{1}})},
		"deliveries of an account":          {2 * tenThousand, deliveries(store.DeliveryQuery{Account: account})},
		"backlog":                           {tenThousand, backlog(store.BacklogQuery{})},
		"backlog of an account":             {tenThousand, backlog(store.BacklogQuery{Account: account})},
		"backlog of an endpoint":            {tenThousand, backlog(store.BacklogQuery{Account: account, Endpoint: endpoint})},
		"states of endpoints":               {lookups, func() error { _, err := s.EndpointStates(t.Context(), endpoint); return err }},
		"events": {lookups, func() error {
			_, err := s.Events(t.Context(), store.EventQuery{Paging: first})
			return err
		}},
		"dead letters": {tenThousand, func() error {
			_, err := s.DeadLetters(t.Context(), store.DeadLetterQuery{Paging: first})
			return err
		}},
		"groups of dead letters": {lookups, func() error { _, err := s.DeadLetterGroups(t.Context(), store.DeadLetterGroupQuery{}); return err }},
		"groups of dead letters, an account": {lookups, func() error {
			_, err := s.DeadLetterGroups(t.Context(), store.DeadLetterGroupQuery{Account: account})
			return err
		}},
	} {
		pagesRead(t, s, c.call) // prepares the statements
		if pages := pagesRead(t, s, c.call); pages > c.most || pages == 0 {
			t.Errorf("%s: %d pages of the file are read, want 1 to %d", name, pages, c.most)
		}
	}
}
