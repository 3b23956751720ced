package app_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/testkit"
)

// fillDisk writes to a file system until it is full. The result makes space again.
func fillDisk(t *testing.T, disk string) (free func()) {
	t.Helper()
	ballast, err := os.Create(filepath.Join(disk, "ballast"))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(ballast, zeros{}); err == nil {
		t.Fatalf("the disk took %d bytes", n)
	}
	return func() {
		if err := errors.Join(ballast.Close(), os.Remove(ballast.Name())); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFullDisksLoseNoRow fills the disk of the store while a source is read, and then that of the producer. Both are told. Afterwards
// each row whose transaction has committed is one event.
func TestFullDisksLoseNoRow(t *testing.T) {
	t.Parallel()
	if _, outside := testkit.Alone(t); outside {
		return
	}
	testkit.NewInternet(t, testkit.Zone{}, nil, nil)
	ours, theirs := mounted(t, "64m"), mounted(t, "160m")
	if err := os.Chmod(filepath.Dir(theirs), 0o755); err != nil { // PostgreSQL runs as another user
		t.Fatal(err)
	}
	s := newShopIn(t, theirs, "max_wal_size=64MB", "min_wal_size=32MB")
	receiver := testkit.NewReceiver(t, testkit.Status(http.StatusOK))
	r := opening(t, filepath.Join(ours, "data"))
	r.opened(t)
	r.subscribe(t, receiver.URL)
	_, err := r.api.PutSource(t.Context(), "shop", apitypes.SourcePut{DatabaseURL: s.url}, false)
	s.ok(err)
	committed := 0
	write := func(n int) error {
		conn, err := pgx.Connect(t.Context(), s.url)
		s.ok(err)
		defer conn.Close(t.Context())
		for range n {
			_, err := conn.Exec(t.Context(), fmt.Sprintf(`select postrider.publish(account => 'acme', type => 'order.created',
				data => '{"n": %d, "text": "%s"}')`, committed+1, strings.Repeat("x", 1000)))
			if err != nil {
				return err
			}
			committed++
		}
		return nil
	}
	all := func() bool { return len(eventsOfRows(t, receiver)) == committed }
	s.ok(write(10))
	eventually(t, "the rows are sent", all)

	free := fillDisk(t, ours)
	eventually(t, "readyz says that publishes are refused", func() bool {
		s.ok(write(5))
		_, text := r.ready(t)
		return strings.Contains(text, "publishes are refused")
	})
	s.ok(write(10))
	if all() {
		t.Error("all rows were sent, so the disk was not full")
	}
	free()
	eventually(t, "the rows are sent when there is space", all)

	_, err = r.api.PauseSource(t.Context(), "shop")
	s.ok(err)
	s.ok(write(200))
	free = fillDisk(t, theirs)
	refused, ok := errors.AsType[*pgconn.PgError](write(10_000))
	if !ok || refused.Code != "53100" {
		t.Errorf("a transaction of the producer: %v, want the error of a full disk", refused)
	}
	_, err = r.api.ResumeSource(t.Context(), "shop")
	s.ok(err)
	eventually(t, "the state says that the producer's disk is full", func() bool {
		source, err := r.api.Source(t.Context(), "shop")
		return err == nil && source.State.Error != nil && strings.Contains(*source.State.Error, "No space left on device")
	})
	free()
	s.ok(write(10))
	eventually(t, "the rows are sent and moved, and the error is over", func() bool {
		source, err := r.api.Source(t.Context(), "shop")
		return err == nil && source.State.Error == nil && all() && s.waiting() == 0
	})
	for n, events := range eventsOfRows(t, receiver) {
		if len(events) != 1 {
			t.Errorf("row %d is %d events", n, len(events))
		}
	}
	testkit.Report(t, nil)
}

// waiting returns how many rows wait in the outbox.
func (s *shop) waiting() (n int) {
	s.Helper()
	s.with(func(conn *pgx.Conn) error {
		return conn.QueryRow(s.Context(), "select count(*) from postrider.outbox").Scan(&n)
	})
	return n
}

// eventsOfRows returns the ids of the webhooks that a receiver has got, by the number in the data.
func eventsOfRows(t *testing.T, receiver *testkit.Receiver) map[int]map[string]bool {
	t.Helper()
	all := map[int]map[string]bool{}
	for _, request := range receiver.Requests() {
		var body struct{ Data struct{ N int } }
		if err := json.Unmarshal(request.Body, &body); err != nil {
			t.Fatal(err)
		}
		if all[body.Data.N] == nil {
			all[body.Data.N] = map[string]bool{}
		}
		all[body.Data.N][request.Header.Get("Webhook-Id")] = true
	}
	return all
}
