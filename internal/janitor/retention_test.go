package janitor_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/archive"
	"github.com/postrider/postrider/internal/janitor"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/secrets"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/memory"
	"github.com/postrider/postrider/internal/store/postgres"
	"github.com/postrider/postrider/internal/store/sqlite"
	"github.com/postrider/postrider/internal/testkit"
)

const aDay = 24 * time.Hour

// month is a store over a month of made-up days: its ids carry the time of the day, and the
// janitor gets it for the time of day. Every day has publishes of which some are delivered
// at once, one dies, and one waits for ten days, which is longer than events are kept.
type month struct {
	*testing.T
	store.Store

	today     time.Time
	ids       *store.IDs
	fast      postrider.Endpoint
	slow      postrider.Endpoint
	brief     postrider.Endpoint // of an account that keeps events for 2 days, attempts for 6, bodies for 1
	published int
	tokens    postrider.Token
	waiting   []store.NewEvent // of the endpoint slow, oldest first
	dead      []store.NewEvent // each died on its day
	kept      []store.NewEvent // of the endpoint brief
	retried   []store.NewEvent // of brief, after their first attempt, oldest first
	attempts  int              // that were made
	archive   *archive.Archive // nil: there is none
}

// Now is the time of day of the made-up day.
func (m *month) Now(context.Context) (time.Time, error) { return m.today, nil }

func (m *month) ok(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

func newMonth(t *testing.T, opened store.Store, days int) *month {
	t.Helper()
	m := &month{T: t, Store: opened, today: time.Now().UTC().Truncate(aDay).AddDate(0, 0, -days).Add(12 * time.Hour), tokens: 1 << 32}
	m.ids = store.NewIDs(func() time.Time { return m.today }, &[32]byte{1})
	account := postrider.Account{ID: store.NewID[postrider.AccountID](m.ids), Name: "Acme"}
	brief := postrider.Account{
		ID: store.NewID[postrider.AccountID](m.ids), Name: "Brief", Retention: postrider.AccountRetention{Events: 2, Attempts: 6, Bodies: 1},
	}
	m.ok(m.PutAccount(t.Context(), account))
	m.ok(m.PutAccount(t.Context(), brief))
	for e, of := range map[*postrider.Endpoint]postrider.AccountID{&m.fast: account.ID, &m.slow: account.ID, &m.brief: brief.ID} {
		var err error
		*e, err = m.PutEndpoint(t.Context(), store.PutEndpoint{Endpoint: postrider.Endpoint{
			ID: store.NewID[postrider.EndpointID](m.ids), Account: of, URL: "https://receiver.example/",
			Status: postrider.EndpointEnabled, Policy: postrider.DefaultPolicy(),
		}})
		m.ok(err)
	}
	return m
}

// publish stores an event with a delivery to the endpoint.
func (m *month) publish(e postrider.Endpoint) store.NewEvent {
	m.Helper()
	m.published++
	changes, err := m.Changes(m.Context(), 0, 100)
	m.ok(err)
	n := store.NewEvent{
		Event: postrider.Event{
			ID: store.NewID[postrider.EventID](m.ids), Account: e.Account, Type: "order.created", Data: fmt.Appendf(nil, `{"n":%d}`, m.published),
		},
		Deliveries: []store.NewDelivery{{
			ID: store.NewID[postrider.DeliveryID](m.ids), Endpoint: e.ID, Lane: postrider.LaneFirst, Expiry: 90 * aDay,
		}},
	}
	_, err = m.Publish(m.Context(), store.Publish{Version: changes.Version, Batches: []store.Batch{{n}}})
	m.ok(err)
	return n
}

// attempt claims the oldest delivery of the lane, checks that it is the event's and has its
// data, and settles it.
func (m *month) attempt(e postrider.Endpoint, lane postrider.Lane, n store.NewEvent, t postrider.Transition) {
	m.Helper()
	m.tokens++
	claims, err := m.Claim(m.Context(), store.Claim{
		Token: m.tokens, Wants: []store.Want{{Endpoint: e.ID, Lane: lane, N: 1, Lease: time.Minute}},
	})
	m.ok(err)
	if len(claims.Items) != 1 || claims.Items[0].Event.ID != n.Event.ID || !bytes.Equal(claims.Items[0].Event.Data, n.Event.Data) {
		m.Fatalf("on %s: claimed %+v, want the event %s of %s with its data", m.today, claims.Items, n.Event.ID, n.Event.ID.Time())
	}
	c := claims.Items[0]
	code := 200
	if t.To != postrider.Delivered {
		code = 500
	}
	_, err = m.Settle(m.Context(), []store.Settlement{{Claimed: c, Transition: t, Attempt: postrider.Attempt{
		Delivery: c.ID, Event: c.Event.ID, Endpoint: c.Endpoint, Number: c.Attempt, Outcome: postrider.Classify(code, 0),
		StatusCode: code, StartedAt: m.today, ResponseHead: []byte("head"), ResponseBody: make([]byte, 300),
	}}})
	m.ok(err)
	m.attempts++
}

// live is one day: publishes, attempts, and what waited for ten days.
func (m *month) live() {
	m.Helper()
	done := postrider.Transition{To: postrider.Delivered}
	for range 8 {
		m.attempt(m.fast, postrider.LaneFirst, m.publish(m.fast), done)
	}
	dies := m.publish(m.fast)
	m.attempt(m.fast, postrider.LaneFirst, dies, postrider.Transition{To: postrider.Dead, Reason: postrider.ReasonExhausted})
	m.dead, m.waiting = append(m.dead, dies), append(m.waiting, m.publish(m.slow))
	if len(m.waiting) > 10 {
		m.attempt(m.slow, postrider.LaneFirst, m.waiting[0], done)
		m.waiting = m.waiting[1:]
		if len(m.dead)%2 == 0 { // a person replays every other dead letter, ten days later
			old := m.dead[len(m.dead)-11]
			_, err := m.Replay(m.Context(), store.Replay{
				Delivery: old.Deliveries[0].ID, ID: store.NewID[postrider.DeliveryID](m.ids), Expiry: aDay, By: "person",
			})
			m.ok(err)
			m.attempt(m.fast, postrider.LaneBulk, old, done)
		}
	}
	m.liveBriefly()
}

// liveBriefly is a day of the account that keeps less: deliveries that end at once, one that dies,
// and one of which the second attempt is made when the first one is forgotten.
func (m *month) liveBriefly() {
	m.Helper()
	for _, next := range []postrider.Transition{
		{To: postrider.Delivered},
		{To: postrider.Delivered},
		{To: postrider.Dead, Reason: postrider.ReasonExhausted},
		{To: postrider.Pending, Step: 1},
	} {
		n := m.publish(m.brief)
		m.attempt(m.brief, postrider.LaneFirst, n, next)
		if m.kept = append(m.kept, n); next.To == postrider.Pending {
			m.retried = append(m.retried, n)
		}
	}
	if len(m.retried) > 8 {
		m.attempt(m.brief, postrider.LaneRetry, m.retried[0], postrider.Transition{To: postrider.Delivered})
		m.retried = m.retried[1:]
	}
}

// keepsLess checks what is left of the account that keeps less: what is young, and events that are
// needed.
func (m *month) keepsLess(now time.Time) {
	m.Helper()
	letters, err := m.DeadLetters(m.Context(), store.DeadLetterQuery{Account: m.brief.Account, Paging: store.Paging{Limit: 250}})
	m.ok(err)
	needed := map[postrider.EventID]bool{}
	for _, l := range letters.Items {
		needed[l.Event] = true
	}
	for _, n := range m.retried {
		needed[n.Event.ID] = true
	}
	for _, n := range m.kept {
		age := now.Sub(n.Event.ID.Time())
		events, err := m.Events(m.Context(), store.EventQuery{ID: n.Event.ID})
		m.ok(err)
		if stored := len(events.Items) == 1 && events.Items[0].Data != nil; stored != (age <= 2*aDay || needed[n.Event.ID]) {
			m.Errorf("an event is %v old, needed: %v, stored: %v", age, needed[n.Event.ID], stored)
		}
		attempts, err := m.Attempts(m.Context(), store.AttemptQuery{Account: m.brief.Account, Delivery: n.Deliveries[0].ID})
		m.ok(err)
		if stored := len(attempts.Items) > 0; stored != (age <= 6*aDay) {
			m.Errorf("the attempts of a delivery are %v old, stored: %v", age, stored)
		}
		for _, a := range attempts.Items {
			if hasBody := a.ResponseHead != nil; hasBody != (age <= aDay) {
				m.Errorf("an attempt is %v old, has its body: %v", age, hasBody)
			}
		}
	}
}

// clean runs a janitor until each of its chores has had a round.
func (m *month) clean(chores int) {
	m.Helper()
	ctx, cancel := context.WithCancel(m.Context())
	defer cancel()
	var mu sync.Mutex
	done := map[string]bool{}
	var to janitor.Archive
	if m.archive != nil {
		to = m.archive
	}
	j := janitor.New(of(m), janitor.Options{
		Archive: to,
		Keep:    janitor.Keep{Events: 5 * aDay, Attempts: 10 * aDay, Bodies: 5 * aDay, DeadLetters: 12 * aDay},
		Hooks: observe.Hooks{ChoreDone: func(c observe.ChoreDone) {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case errors.Is(c.Err, postrider.ErrBusy): // it waited 50 ms for a lock that another chore had, and tries again
			case c.Err != nil:
				m.Errorf("on %s: %s: %v", m.today, c.Name, c.Err)
				cancel()
			default:
				if done[c.Name] = true; len(done) == chores {
					cancel()
				}
			}
		}},
	})
	m.ok(j.Run(ctx))
}

// sizes counts what the store lists.
func (m *month) sizes() string {
	m.Helper()
	events, err := m.Events(m.Context(), store.EventQuery{Account: m.fast.Account, Paging: store.Paging{Limit: 500}})
	m.ok(err)
	delivered, err := m.Deliveries(m.Context(), store.DeliveryQuery{
		Account: m.fast.Account, Status: postrider.Delivered, Paging: store.Paging{Limit: 500},
	})
	m.ok(err)
	pending, err := m.Deliveries(m.Context(), store.DeliveryQuery{
		Account: m.fast.Account, Status: postrider.Pending, Paging: store.Paging{Limit: 500},
	})
	m.ok(err)
	letters, err := m.DeadLetters(m.Context(), store.DeadLetterQuery{Account: m.fast.Account, Paging: store.Paging{Limit: 500}})
	m.ok(err)
	return fmt.Sprintf("%d events, %d delivered, %d pending, %d dead letters",
		len(events.Items), len(delivered.Items), len(pending.Items), len(letters.Items))
}

// stores are a store of each kind, with room for the past days.
func stores(days int) map[string]func(*testing.T) store.Store {
	return map[string]func(*testing.T) store.Store{
		"memory": func(*testing.T) store.Store { return memory.New(memory.Options{}) },
		"sqlite": func(t *testing.T) store.Store {
			s, err := sqlite.Open(t.Context(), t.TempDir(), sqlite.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
		"postgres": func(t *testing.T) store.Store {
			dsn := testkit.Postgres(t, postgres.Migrate)
			conn, err := pgx.Connect(t.Context(), dsn)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(t.Context())
			_, err = conn.Exec(t.Context(), fmt.Sprintf("select postrider_make_partitions(current_date - %d, current_date)", days+2))
			if err != nil {
				t.Fatal(err)
			}
			s, err := postgres.Open(t.Context(), dsn, postgres.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
	}
}

// Promise 2, "every event × matching endpoint pair has a recorded fate", holds for as long as
// retention keeps it: what waits or has died outlives its retention with its data.
func TestPromise2OverAMonthNothingNeededIsDeletedAndTheSizeIsFlat(t *testing.T) {
	t.Parallel()
	const days, chores = 30, 29
	for name, open := range stores(days) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMonth(t, open(t), days)
			defer func() { m.ok(m.Close()) }()
			sizes := map[int]string{}
			for day := range days - 2 {
				m.live()
				m.clean(chores)
				if day >= days-9 { // an event may go a round after its dead letter was discarded
					m.clean(chores)
				}
				sizes[day] = m.sizes()
				m.today = m.today.Add(aDay)
			}
			m.keepsLess(m.today.Add(-aDay))
			t.Log(sizes[days-3])
			if sizes[days-3] != sizes[days-5] || sizes[days-3] != sizes[days-9] {
				t.Errorf("two, four and eight days before the end the store has\n%s\n%s\n%s\nand should not grow",
					sizes[days-3], sizes[days-5], sizes[days-9])
			}
		})
	}
}

// A month with an archive, in which deliveries wait for longer than their attempts' bodies are
// kept, and an account keeps less than the server: what is deleted is archived, and what is stored and archived together is all that
// there ever was.
func TestOverAMonthNothingIsDeletedThatIsNotArchived(t *testing.T) {
	t.Parallel()
	const days, chores = 30, 29
	keyring, err := secrets.NewKeyring(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, open := range stores(days) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMonth(t, open(t), days)
			defer func() { m.ok(m.Close()) }()
			roles := archive.Store{Archive: m, ArchiveKeys: m, Restored: m, Time: m, Progress: m}
			m.archive = archive.New(archive.Folder(t.TempDir()), roles, secrets.New(keyring), archive.Options{PartBytes: 4 << 10})
			for range days - 2 {
				m.live()
				m.clean(chores)
				m.today = m.today.Add(aDay)
			}
			for range 3 { // bodies are archived, and deleted; then their attempts
				m.clean(chores)
			}
			m.keepsLess(m.today)
			stored, archived := m.everywhere()
			for kind, made := range map[store.Kind]int{store.OldEvents: m.published, store.OldAttempts: m.attempts, store.OldBodies: m.attempts} {
				all := maps.Clone(stored[kind])
				maps.Copy(all, archived[kind])
				if len(all) != made {
					t.Errorf("%s: %d were made, and %d are stored or archived", kind, made, len(all))
				}
				if len(archived[kind]) < made/2 || len(stored[kind]) > made/2 {
					t.Errorf("%s: %d of %d are stored, %d archived", kind, len(stored[kind]), made, len(archived[kind]))
				}
			}
		})
	}
}

// everywhere returns the names of the rows that are stored, and of those that are archived.
func (m *month) everywhere() (stored, archived map[store.Kind]map[string]bool) {
	m.Helper()
	stored, archived = map[store.Kind]map[string]bool{}, map[store.Kind]map[string]bool{}
	for _, kind := range []store.Kind{store.OldEvents, store.OldAttempts, store.OldBodies} {
		stored[kind], archived[kind] = map[string]bool{}, map[string]bool{}
		for day := m.today.AddDate(0, 0, -60).Truncate(aDay); !day.After(m.today); day = day.Add(aDay) {
			m.ok(m.ArchiveRows(m.Context(), store.ArchiveRows{Kind: kind, Day: day}, func(r store.ArchivedRow) bool {
				number := 0
				if r.Attempt != nil {
					number = r.Attempt.Number
				}
				stored[kind][fmt.Sprint(r.ID(), number)] = true
				return true
			}))
		}
	}
	for q := (archive.Query{Limit: 1000}); ; {
		found, err := m.archive.Search(m.Context(), q)
		m.ok(err)
		for _, r := range found.Records {
			archived[r.Kind][fmt.Sprint(r.ID, r.Number)] = true
		}
		if q.Cursor = found.Next; q.Cursor == "" {
			return stored, archived
		}
	}
}

func TestADeadLetterThatNobodyResolvesIsDiscardedInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		e := w.endpoint()
		w.deadLetters(e, 5) // more than two pages
		work := func(d time.Duration) {
			ctx, cancel := context.WithTimeout(w.Context(), d)
			defer cancel()
			j := janitor.New(of(w.Store), janitor.Options{Every: time.Hour, Chunk: 2, Log: slog.New(slog.NewTextHandler(&w.log, nil))})
			w.ok(j.Run(ctx))
		}
		unresolved := func() int {
			page, err := w.DeadLetters(w.Context(), store.DeadLetterQuery{Account: w.account})
			w.ok(err)
			return len(page.Items)
		}
		work(180 * aDay)
		w.same("unresolved dead letters after 180 days", unresolved(), 5)
		work(3 * time.Hour)
		w.same("unresolved dead letters afterwards", unresolved(), 0)
		page, err := w.DeadLetters(w.Context(), store.DeadLetterQuery{Account: w.account, Resolved: true})
		w.ok(err)
		for _, l := range page.Items {
			if l.Resolution != postrider.Discarded || l.ResolvedBy != "retention" || l.Note == "" {
				t.Errorf("the dead letter is %+v, want discarded by retention with a note", l)
			}
		}
		if n := strings.Count(w.log.String(), `msg="dead letters discarded: nobody resolved them in time"`); n != 3 {
			t.Errorf("%d lines in the log, want one for each of three pages:\n%s", n, w.log.String())
		}
	})
}
