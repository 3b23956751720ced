package app_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/testkit"
)

// TestADatabaseThatIsAwayOrReadOnlyComesBack takes PostgreSQL away from a
// server, and then lets it only read: publishes answer 503, never 2xx, and all
// goes on by itself once it is over.
func TestADatabaseThatIsAwayOrReadOnlyComesBack(t *testing.T) {
	t.Parallel()
	cluster := testkit.SharedCluster(t)
	dsn := testkit.Postgres(t, func(context.Context, string) error { return nil })
	proxy := testkit.NewFaultProxy(t, "unix", cluster.Socket())
	receiver := testkit.NewReceiver(t, testkit.Status(http.StatusOK))
	r := startWith(t, t.TempDir(), map[string]string{
		"POSTRIDER_DATABASE_URL": strings.Replace(dsn, filepath.Dir(cluster.Socket()), proxy.Dir, 1),
	})
	r.subscribe(t, receiver.URL)
	arrive := func() {
		t.Helper()
		var event postrider.EventID
		eventually(t, "a publish is accepted", func() bool {
			receipt, err := r.api.Publish(t.Context(), client.NewEvent{Account: "acme", Type: "order.created", Data: json.RawMessage(`{}`)})
			event = receipt.ID
			return err == nil
		})
		eventually(t, "it is delivered", func() bool {
			page, err := r.api.EventDeliveries(t.Context(), event, client.Paging{})
			return err == nil && len(page.Items) == 1 && page.Items[0].Status == postrider.Delivered
		})
		eventually(t, "readyz says so", func() bool {
			status, _ := r.ready(t)
			return status == http.StatusOK
		})
	}
	refused := func(why string) {
		t.Helper()
		_, err := r.api.Publish(t.Context(), client.NewEvent{Account: "acme", Type: "order.created", Data: json.RawMessage(`{}`)})
		if problem, ok := errors.AsType[*client.Error](err); !ok || problem.Status != http.StatusServiceUnavailable || problem.RetryAfter <= 0 {
			t.Errorf("a publish while the database is %s: %v, want 503 with Retry-After", why, err)
		}
	}
	arrive()

	proxy.Away(true)
	refused("away")
	if status, text := r.ready(t); status != http.StatusServiceUnavailable || !strings.Contains(text, "store") {
		t.Errorf("readyz = %d %s while the database is away", status, text)
	}
	proxy.Away(false)
	arrive()

	_, name, _ := strings.Cut(dsn[:strings.Index(dsn, "?")], "@/")
	ask := func(statement string) {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), cluster.Bin("psql"), cluster.DSN("postgres"), "-c", statement).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", statement, err, out)
		}
	}
	reconnect := "select pg_terminate_backend(pid) from pg_stat_activity where datname = '" + name + "'"
	ask("alter database " + name + " set default_transaction_read_only = on")
	ask(reconnect)
	refused("read-only")
	ask("alter database " + name + " reset default_transaction_read_only")
	ask(reconnect)
	arrive()
}
