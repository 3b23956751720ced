package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/outbox"
	"github.com/postrider/postrider/internal/testkit"
)

func TestRejectedRowsAreListedRetriedAndDiscarded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 6 {
		w.exec(fmt.Sprintf("select postrider.publish('shop%d', 'a b', '%d', hops => %d, on_error => 'reject')", i%2, i, 7+i/4))
	}
	var window outbox.Window
	w.poll(&window, 10)
	var got []string
	for cursor := ""; ; {
		page, next, err := w.db.Rejected(t.Context(), outbox.RejectedQuery{Limit: 4, Cursor: cursor})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page {
			got = append(got, string(r.Create.Data))
		}
		if cursor = next; next == "" {
			break
		}
	}
	if strings.Join(got, "") != "543210" {
		t.Errorf("the pages have %s, want the newest first", got)
	}
	if _, _, err := w.db.Rejected(t.Context(), outbox.RejectedQuery{Cursor: "x"}); !errors.Is(err, postrider.ErrInvalid) {
		t.Errorf("a wrong cursor: %v", err)
	}
	some, _, err := w.db.Rejected(t.Context(), outbox.RejectedQuery{Account: "shop1", Code: "malformed"})
	if err != nil || len(some) != 3 {
		t.Fatalf("%d rows, %v, want 3", len(some), err)
	}
	if p, err := w.db.Row(t.Context(), some[0].ID); p.Where != "rejected" || p.Field != "type" || p.Code != "malformed" || err != nil {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := w.db.Discard(t.Context(), outbox.RejectedRows{}); !errors.Is(err, postrider.ErrInvalid) {
		t.Errorf("discard everything: %v", err)
	}
	n, err := w.db.Discard(t.Context(), outbox.RejectedRows{IDs: []postrider.OutboxID{some[0].ID}, Account: "shop1"})
	if n != 1 || err != nil {
		t.Errorf("%d were discarded, %v", n, err)
	}
	// Another node retries: the reader's window has the rows.
	all := outbox.RejectedRows{Account: "shop1"}
	n, err = w.db.Retry(t.Context(), outbox.RetryRejected{RejectedRows: all, SetAccount: "acme", SetType: "a.b"})
	if n != 2 || err != nil {
		t.Errorf("%d were retried, %v", n, err)
	}
	rows := w.poll(&window, 10)
	if data(rows) != "[1 3]" || rows[0].Create.Account != "acme" || rows[0].Create.Type != "a.b" || rows[1].ID != some[1].ID {
		t.Errorf("the window has %s: %+v", data(rows), rows)
	}
	if p, err := w.db.Row(t.Context(), some[1].ID); p.Where != "waiting" || err != nil {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err := w.db.Row(t.Context(), some[0].ID); p != (outbox.Place{}) || err != nil {
		t.Errorf("%+v, %v", p, err)
	}
	w.exec("select postrider.publish(null, 'a.b', '1', on_error => 'reject')")
	if n, err := w.db.Retry(t.Context(), outbox.RetryRejected{RejectedRows: outbox.RejectedRows{Code: "required"}}); n != 0 || err != nil {
		t.Errorf("without an account: %d were retried, %v", n, err)
	}
}

func TestExpungeRemovesEveryRowOfAnAccount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rows := w.published(3, "")
	w.move(1, noon, rows[:2]...)
	w.exec("select postrider.publish('acc_1', 'a.b', '1')", "select postrider.publish('acme', '', '1', on_error => 'reject')",
		"select postrider.publish('globex', 'a.b', '9')",
		"insert into postrider.outbox (account, type, data) select 'acme', 'a.b', '1' from generate_series(1, 60000)")
	if n, err := w.db.Expunge(t.Context(), "acme", "acc_1"); n != 60005 || err != nil {
		t.Errorf("%d rows were deleted, %v, want 60,005", n, err)
	}
	w.wantData("[9]")
	if n, err := w.db.Expunge(t.Context()); n != 0 || err != nil {
		t.Errorf("without a name: %d, %v", n, err)
	}
	if n := w.number("select (select count(*) from postrider.outbox_read) + (select count(*) from postrider.outbox_rejected)"); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}

// Deleting what was read in an hour may take too long. Then the other hours and the other tables are done all the same.
func TestExpungeGoesOnBehindAnHourThatFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rows := w.published(4, "")
	for i, row := range rows[:3] {
		w.move(int64(i+1), noon.Add(time.Duration(i)*time.Hour), row)
	}
	w.exec("select postrider.publish('acme', '', '1', on_error => 'reject')",
		"alter database "+w.conn.Config().Database+" set lock_timeout = '100ms'")
	w.db = openAt(t, w.dsn)
	held := noon.Add(time.Hour).Truncate(time.Hour)
	w.exec("begin", "lock table postrider.outbox_read_"+held.Format("2006010215")+" in access exclusive mode")
	n, err := w.db.Expunge(t.Context(), "acme")
	if n != 4 || err == nil || !strings.Contains(err.Error(), "that were read in the hour of "+held.Format(time.RFC3339)) {
		t.Errorf("beside a held hour %d rows were deleted, %v, want 4", n, err)
	}
	w.exec("rollback")
	if n, err := w.db.Expunge(t.Context(), "acme"); n != 1 || err != nil {
		t.Errorf("afterwards %d rows were deleted, %v, want 1", n, err)
	}
}

func TestStats(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stats := func() outbox.Stats {
		t.Helper()
		s, err := w.db.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if got := stats(); got.Waiting != 0 || got.Rejected != 0 || !got.Oldest.IsZero() || got.AsyncReplicas != 0 || got.Version != 1 {
		t.Errorf("of an empty outbox: %+v", got)
	}
	w.published(3, "")
	w.exec("select postrider.publish('acme', '', '1', on_error => 'reject')", "begin isolation level repeatable read", "select 1")
	got := stats()
	if got.Waiting != 3 || got.Rejected != 1 || time.Since(got.Oldest).Abs() > time.Minute || time.Since(got.OpenSince).Abs() > time.Minute {
		t.Errorf("got %+v", got)
	}
}

// A role that may only read and move has every method.
func TestEverythingAsTheReader(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec("select postrider.publish('acme', 'a.b', '1') from generate_series(1, 4)",
		"select postrider.publish('acme', '', '1', on_error => 'reject')")
	_, dsn := w.role("postrider_reader")
	w.db = openAt(t, dsn)
	var window outbox.Window
	rows := w.poll(&window, 2)
	w.move(1, noon, rows...)
	_, _, more, err := w.db.OfAccount(t.Context(), &window, "acme", 0, 5)
	read, readErr := w.db.ReadSince(t.Context(), noon, outbox.ReadCursor{}, 9)
	back, backErr := w.db.PutBack(t.Context(), read)
	retried, retryErr := w.db.Retry(t.Context(), outbox.RetryRejected{RejectedRows: outbox.RejectedRows{Account: "acme"}, SetType: "a.b"})
	_, discardErr := w.db.Discard(t.Context(), outbox.RejectedRows{Code: "x"})
	_, place := w.db.Row(t.Context(), rows[0].ID)
	_, _, rejected := w.db.Rejected(t.Context(), outbox.RejectedQuery{})
	_, dropped := w.db.Dropped(t.Context(), noon)
	_, _, cycle := w.db.Cycle(t.Context(), source)
	_, stats := w.db.Stats(t.Context())
	expunged, expungeErr := w.db.Expunge(t.Context(), "acme")
	keep := w.db.Keep(t.Context(), noon, time.Hour)
	err = errors.Join(err, readErr, backErr, retryErr, discardErr, place, rejected, dropped, cycle, stats, expungeErr, keep)
	if err != nil || more || back != 4 || retried != 1 || expunged != 5 {
		t.Errorf("%v; %t, %d, %d, %d", err, more, back, retried, expunged)
	}
}

// The URL of a source says everything; the environment and files of the server's machine say nothing.
func TestOpenChecksTheURL(t *testing.T) {
	dsn := freshDSN(t) // starts a server, which would read these variables, too
	t.Setenv("PGUSER", "postgres")
	t.Setenv("PGPASSWORD", "secret-of-the-machine")
	t.Setenv("PGSSLMODE", "disable")
	t.Setenv("PGPORT", "1")
	_, database, _ := strings.Cut(dsn, "@")
	database, _, _ = strings.Cut(database, "?")
	db, err := outbox.Open(t.Context(), outbox.Config{URL: dsn})
	if err != nil {
		t.Fatalf("without PGPORT: %v", err)
	}
	db.Close()
	socket := func(ctx context.Context, network, address string) (net.Conn, error) { // PostgreSQL has no TLS there
		if network != "tcp" || address != "db.example:5432" {
			return nil, fmt.Errorf("a connection to %s", address)
		}
		return new(net.Dialer).DialContext(ctx, "unix", testkit.SharedCluster(t).Socket())
	}
	db, err = outbox.Open(t.Context(), outbox.Config{URL: "postgres://postgres@db.example" + database + "?sslmode=disable", Dial: socket})
	if err != nil {
		t.Fatal(err)
	}
	db.Close()
	for url, want := range map[string]string{
		"": "must be like postgres://", "mysql://a@b/c": "must be like postgres://", "postgres://u:hidden@[": "must be like postgres://",
		"postgres://h/db": "must have a user", "postgres://u@/db": "must have a user, a host", "postgres://u@h": "and a database",
		"postgres://u@h/db?sslkey=/etc/key":                `must not have the parameter "sslkey"`,
		"postgres://u@h/db?password=hidden":                `must not have the parameter "password"`,
		"postgres://u@h/db?service=x":                      `must not have the parameter "service"`,
		"postgres://postgres:hidden@db.example" + database: "refused TLS",
		"postgres://u:hidden@h/db?sslmode=none":            "sslmode is invalid",
		"postgres://u:hidden@h/db?connect_timeout=abc":     "connect_timeout",
	} {
		_, err := outbox.Open(t.Context(), outbox.Config{URL: url, Dial: socket})
		if err == nil {
			t.Errorf("%s: no error", url)
			continue
		}
		if text := err.Error(); !strings.Contains(text, want) || strings.Contains(text, "hidden") || strings.Contains(text, "secret-of") {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
	for url, want := range map[string]string{dsn: "certificates in PEM", dsn + "&sslmode=require": "must be verify-full or verify-ca"} {
		if _, err := outbox.Open(t.Context(), outbox.Config{URL: url, CA: "no PEM"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a wrong CA: %v, want %q", err, want)
		}
	}
}
