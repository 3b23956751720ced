package app_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/app"
	"github.com/postrider/postrider/internal/config"
	"github.com/postrider/postrider/internal/config/configtest"
	"github.com/postrider/postrider/internal/testkit"
)

// opening runs a server on SQLite in dir, whose store may not be open yet.
func opening(t *testing.T, dir string) *running {
	t.Helper()
	settings, sources := configtest.Parse(t, nil, "--dev", "--data-dir", dir, "--listen=127.0.0.1:0", "--ops-listen=127.0.0.1:0")
	if err := sources.Check(settings.Validate); err != nil {
		t.Fatal(err)
	}
	r := &running{log: &bytes.Buffer{}, keyFile: filepath.Join(dir, "admin.key")}
	server, err := app.New(t.Context(), settings, config.Logger(settings, r.log))
	if err != nil {
		t.Fatal(err)
	}
	r.app = server
	ctx, cancel := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	var ended error
	serving.Go(func() { ended = server.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		serving.Wait()
		if ended != nil {
			t.Errorf("Run = %v, want nil", ended)
		}
	})
	return r
}

// opened waits until the store is open, and the server is ready and accepts publishes. It gives
// r a client with the key that is in the data folder.
func (r *running) opened(t *testing.T) {
	t.Helper()
	eventually(t, "the server is ready", func() bool {
		status, text := r.ready(t)
		return status == http.StatusOK && !strings.Contains(text, "publishes are refused")
	})
	key, err := os.ReadFile(r.keyFile)
	if err != nil {
		t.Fatal(err)
	}
	r.api = client.New("http://"+r.app.Addr().String(), strings.TrimSpace(string(key)), client.Options{Attempts: 1})
	t.Cleanup(r.api.Close)
}

// notReady waits until /readyz is 503 for a reason.
func (r *running) notReady(t *testing.T, reason string) {
	t.Helper()
	eventually(t, "readyz says: "+reason, func() bool {
		status, text := r.ready(t)
		return status == http.StatusServiceUnavailable && strings.Contains(text, reason)
	})
}

// refuses waits until a publish is answered 503 with Retry-After.
func (r *running) refuses(t *testing.T) {
	t.Helper()
	eventually(t, "a publish is refused", func() bool {
		_, err := r.api.Publish(t.Context(), apitypes.EventCreate{Account: "acme", Type: "order.created", Data: json.RawMessage(`{}`)})
		if err == nil {
			return false
		}
		if problem, ok := errors.AsType[*client.Error](err); !ok || problem.Status != http.StatusServiceUnavailable || problem.RetryAfter <= 0 {
			t.Fatalf("a publish: %v, want 503 with Retry-After", err)
		}
		return true
	})
}

// delivers publishes, and waits until the event is delivered.
func (r *running) delivers(t *testing.T) {
	t.Helper()
	event := r.publish(t)
	eventually(t, "it is delivered", func() bool {
		page, err := r.api.EventDeliveries(t.Context(), event, client.Paging{})
		return err == nil && len(page.Data) == 1 && page.Data[0].Status == postrider.Delivered
	})
}

// TestALockedDatabaseIsWaitedFor lets another connection hold the write lock of the SQLite file
// while a server starts, and while it runs. The server lives, is not ready and says why, refuses
// publishes, and recovers by itself.
func TestALockedDatabaseIsWaitedFor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := start(t, dir).stop(); err != nil { // it makes the database
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "postrider.db")+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	other, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ask := func(statement string) {
		t.Helper()
		if _, err := other.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	receiver := testkit.NewReceiver(t, testkit.Status(http.StatusOK))

	ask("begin immediate")
	r := opening(t, dir)
	r.notReady(t, "the store cannot be opened")
	ask("rollback")
	r.opened(t)
	r.subscribe(t, receiver.URL)
	r.delivers(t)

	ask("begin immediate")
	r.notReady(t, "the store cannot be written")
	r.refuses(t)
	ask("rollback")
	r.opened(t)
	r.delivers(t)
}
