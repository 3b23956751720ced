package app_test

import (
	"context"
	"errors"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/testkit"
)

// recovery is a PostgreSQL that keeps its log, as docs/operate/backup.md says.
type recovery struct {
	*testing.T

	cluster *testkit.Cluster
	env     map[string]string // of servers on its database
}

func newRecovery(t *testing.T) recovery {
	t.Helper()
	cluster, err := testkit.StartPostgres("", "archive_mode=on", "wal_level=replica",
		`archive_command='mkdir -p ../archive && test ! -f ../archive/%f && cp %p ../archive/%f'`)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	dsn, err := cluster.Database(t.Context(), "recovery", func(context.Context, string) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	return recovery{t, cluster, map[string]string{"POSTRIDER_DATABASE_URL": dsn}}
}

// ask runs a statement and returns its result.
func (r recovery) ask(statement string) string {
	r.Helper()
	out, err := exec.CommandContext(r.Context(), r.cluster.Bin("psql"), r.cluster.DSN("postgres"), "-Atc", statement).CombinedOutput()
	if err != nil {
		r.Fatalf("%s: %v\n%s", statement, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (r recovery) run(program string, args ...string) {
	r.Helper()
	if err := r.cluster.Run(r.Context(), program, args...); err != nil {
		r.Fatal(err)
	}
}

func (r recovery) control(action string) {
	r.Helper()
	if err := r.cluster.Control(action); err != nil {
		r.Fatal(err)
	}
}

// to recovers the server to a restore point, from the base backup in the folder base.
func (r recovery) to(point string) {
	r.Helper()
	file := r.ask("select pg_walfile_name(pg_switch_wal())")
	eventually(r.T, "the last file of the log is archived", func() bool {
		return r.ask("select last_archived_wal >= '"+file+"' from pg_stat_archiver") == "t"
	})
	r.control("stop")
	r.run("/bin/sh", "-c", `rm -r data && cp -r base data && touch data/recovery.signal && cat >> data/postgresql.auto.conf`+
		" <<'END'\nrestore_command = 'cp ../archive/%f %p'\nrecovery_target_name = '"+point+"'\nrecovery_target_action = 'promote'\nEND")
	r.control("start")
	eventually(r.T, "the server is recovered", func() bool { return r.ask("select pg_is_in_recovery()") == "f" })
}

// delivered reports whether the event's one delivery is delivered.
func (r *running) delivered(t *testing.T, event postrider.EventID) bool {
	t.Helper()
	page, err := r.api.EventDeliveries(t.Context(), event, client.Paging{})
	return err == nil && len(page.Data) == 1 && page.Data[0].Status == postrider.Delivered
}

// TestPromise3ARecoveredDatabaseStartsHeld is the drill of docs/operate/backup.md for PostgreSQL: a
// database is recovered to a point before an event was delivered. Nobody tells Postrider.
func TestPromise3ARecoveredDatabaseStartsHeld(t *testing.T) {
	t.Parallel()
	drill := newRecovery(t)
	dir := t.TempDir()
	receiver := testkit.NewReceiver(t, testkit.Statuses(http.StatusInternalServerError, http.StatusOK))
	before := startWith(t, dir, drill.env)
	hourly := apitypes.Policy{Retry: apitypes.Of(apitypes.Retry{DelaysMS: []int64{0, 3600_000}})}
	e := before.subscribe(t, receiver.URL)
	if _, err := before.api.ChangeEndpoint(t.Context(), e.ID, apitypes.EndpointUpdate{Policy: hourly}); err != nil {
		t.Fatal(err)
	}
	drill.run(drill.cluster.Bin("pg_basebackup"), "--host="+filepath.Dir(drill.cluster.Socket()), "--username=postgres", "--pgdata=base",
		"--checkpoint=fast")
	event := before.publish(t)
	eventually(t, "its first attempt failed", func() bool {
		page, err := before.api.EventDeliveries(t.Context(), event, client.Paging{})
		return err == nil && len(page.Data) == 1 && page.Data[0].Attempts == 1 && page.Data[0].Status == postrider.Pending
	})
	drill.ask("select pg_create_restore_point('before_the_mistake')")
	if _, err := before.api.RetryDelivery(t.Context(), deliveryOf(t, before, event)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the retry is delivered", func() bool { return before.delivered(t, event) })
	late := before.publish(t)
	eventually(t, "the late event is delivered", func() bool { return before.delivered(t, late) })
	if err := before.stop(); err != nil {
		t.Fatal(err)
	}
	sent := len(receiver.Requests())

	drill.to("before_the_mistake")
	after := startWith(t, dir, drill.env)
	eventually(t, "readyz says that it is ready and held", func() bool {
		status, text := after.ready(t)
		return status == http.StatusOK && strings.Contains(text, "held after a restore")
	})
	held := after.publish(t)
	if _, err := after.api.RetryDelivery(t.Context(), deliveryOf(t, after, event)); !errors.Is(err, postrider.ErrConflict) {
		t.Errorf("a retry while the store is held = %v, want a conflict", err)
	}
	hold, err := after.api.Hold(t.Context())
	if err != nil || !hold.Held || hold.Reason == nil || *hold.Reason != postrider.HoldRecovered || *hold.Deliveries != 1 {
		t.Fatalf("hold = %+v, %v, want held by the recovery, with one delivery that may repeat", hold, err)
	}
	if n := len(receiver.Requests()); n != sent {
		t.Errorf("%d requests left while the store was held", n-sent)
	}
	if _, err := after.api.ResumeAfterRestore(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := after.api.RetryDelivery(t.Context(), deliveryOf(t, after, event)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "both are delivered", func() bool { return after.delivered(t, event) && after.delivered(t, held) })
	if n := len(receiver.Requests()); n != sent+2 {
		t.Errorf("%d requests left after the resumption, want the repeated one and the new one", n-sent)
	}
	if err := after.stop(); err != nil {
		t.Fatal(err)
	}
	again := startWith(t, dir, drill.env)
	if hold, err := again.api.Hold(t.Context()); err != nil || hold.Held {
		t.Errorf("hold after the next start = %+v, %v, want none: the recovery is known", hold, err)
	}
}

// deliveryOf returns the id of the event's delivery.
func deliveryOf(t *testing.T, r *running, event postrider.EventID) postrider.DeliveryID {
	t.Helper()
	page, err := r.api.EventDeliveries(t.Context(), event, client.Paging{})
	if err != nil || len(page.Data) != 1 {
		t.Fatalf("deliveries of %s = %+v, %v", event, page.Data, err)
	}
	return page.Data[0].ID
}
