package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/app"
	"github.com/postrider/postrider/internal/config"
	"github.com/postrider/postrider/internal/config/configtest"
	"github.com/postrider/postrider/internal/testkit"
)

// TestADatabaseThatIsAwayOrReadOnlyComesBack stops PostgreSQL under a server, and then makes it
// read-only. Publishes get a 503 and never a 2xx, and the server recovers by itself.
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
			receipt, err := r.api.Publish(t.Context(), apitypes.EventCreate{Account: "acme", Type: "order.created", Data: json.RawMessage(`{}`)})
			event = receipt.ID
			return err == nil
		})
		eventually(t, "it is delivered", func() bool {
			page, err := r.api.EventDeliveries(t.Context(), event, client.Paging{})
			return err == nil && len(page.Data) == 1 && page.Data[0].Status == postrider.Delivered
		})
		eventually(t, "readyz says so", func() bool {
			status, _ := r.ready(t)
			return status == http.StatusOK
		})
	}
	refused := func(why string) {
		t.Helper()
		_, err := r.api.Publish(t.Context(), apitypes.EventCreate{Account: "acme", Type: "order.created", Data: json.RawMessage(`{}`)})
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
	eventually(t, "readyz says that writes fail", func() bool {
		status, text := r.ready(t)
		return status == http.StatusServiceUnavailable && strings.Contains(text, "cannot be written")
	})
	ask("alter database " + name + " reset default_transaction_read_only")
	ask(reconnect)
	arrive()
}

// TestAStartWaitsForItsDatabase starts a server while PostgreSQL is stopped, and while it is
// read-only. The server lives, is not ready and says why, responds with 503, and begins to serve by
// itself when the database is back.
func TestAStartWaitsForItsDatabase(t *testing.T) {
	t.Parallel()
	cluster := testkit.SharedCluster(t)
	dsn := testkit.Postgres(t, func(context.Context, string) error { return nil })
	proxy := testkit.NewFaultProxy(t, "unix", cluster.Socket())
	proxy.Away(true)
	dir := filepath.Join(t.TempDir(), "nowhere", "data")
	if err := os.WriteFile(filepath.Dir(filepath.Dir(dir))+"/nowhere", nil, 0o600); err != nil { // no folder can be made there
		t.Fatal(err)
	}
	settings, sources := configtest.Parse(t, map[string]string{
		"POSTRIDER_DATABASE_URL": strings.Replace(dsn, filepath.Dir(cluster.Socket()), proxy.Dir, 1),
	}, "--dev", "--data-dir", dir, "--listen=127.0.0.1:0", "--ops-listen=127.0.0.1:0")
	if err := sources.Check(settings.Validate); err != nil {
		t.Fatal(err)
	}
	r := &running{log: &bytes.Buffer{}}
	var err error
	if r.app, err = app.New(t.Context(), settings, config.Logger(settings, r.log)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	serving.Go(func() { err = r.app.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		serving.Wait()
		if err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
	})
	eventually(t, "readyz says why", func() bool {
		status, text := r.ready(t)
		return status == http.StatusServiceUnavailable && strings.Contains(text, "the store cannot be opened: the database cannot be reached")
	})
	r.api = client.New("http://"+r.app.Addr().String(), "pr_x", client.Options{})
	_, publishErr := r.api.Publish(t.Context(), apitypes.EventCreate{Account: "acme", Type: "order.created", Data: json.RawMessage(`{}`)})
	if problem, ok := errors.AsType[*client.Error](publishErr); !ok || problem.Status != 503 || problem.RetryAfter <= 0 {
		t.Errorf("a publish while the server waits: %v, want 503 with Retry-After", publishErr)
	}
	r.api.Close()
	status, _, text := newBrowser(t, r).open("/dashboard", nil)
	if status != http.StatusServiceUnavailable || !strings.Contains(text, "<h1>The server is starting</h1>") ||
		strings.Contains(text, "database cannot") {
		t.Errorf("a page while the server waits = %d %.300s, want a page that says so, without the cause", status, text)
	}

	proxy.Away(false)
	<-r.app.Opened()
	if key := r.app.FirstKey(); key.Text == "" || key.File != "" {
		t.Errorf("the first key of a server without a folder: %+v; want that it is kept nowhere", key)
	}
	eventually(t, "readyz says so", func() bool {
		status, _ := r.ready(t)
		return status == http.StatusOK
	})
}

// TestAStartThatWaitsEndsAtOnce stops a server whose database was never there.
func TestAStartThatWaitsEndsAtOnce(t *testing.T) {
	t.Parallel()
	settings, _ := configtest.Parse(t, map[string]string{"POSTRIDER_DATABASE_URL": "postgres://u@127.0.0.1:1/db?sslmode=disable"},
		"--data-dir", t.TempDir(), "--listen=127.0.0.1:0", "--ops-listen=127.0.0.1:0")
	server, err := app.New(t.Context(), settings, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := server.Run(ctx); err != nil {
		t.Errorf("Run = %v, want nil", err)
	}
}

// TestAStartThatNeedsAPersonEndsAtOnce starts servers whose database does not exist or refuses
// them.
func TestAStartThatNeedsAPersonEndsAtOnce(t *testing.T) {
	t.Parallel()
	dsn := testkit.SharedCluster(t).DSN("no_such_database")
	settings, _ := configtest.Parse(t, map[string]string{"POSTRIDER_DATABASE_URL": dsn},
		"--data-dir", t.TempDir(), "--listen=127.0.0.1:0", "--ops-listen=127.0.0.1:0")
	if err := refusal(t.Context(), settings, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("Run = %v, want that the database does not exist", err)
	}
}

// TestAStartWithoutAUsableFolderEndsAtOnce starts a server on SQLite whose data
// folder cannot be made.
func TestAStartWithoutAUsableFolderEndsAtOnce(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	settings, _ := configtest.Parse(t, nil, "--data-dir", filepath.Join(file, "data"), "--listen=127.0.0.1:0", "--ops-listen=127.0.0.1:0")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := refusal(ctx, settings, slog.New(slog.DiscardHandler)); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("Run = %v, want that the folder cannot be made", err)
	}
}
