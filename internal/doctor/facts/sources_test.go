package facts_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/config/configtest"
	"github.com/postrider/postrider/internal/doctor"
	"github.com/postrider/postrider/internal/drivers"
	"github.com/postrider/postrider/internal/outbox"
	"github.com/postrider/postrider/internal/secrets"
	"github.com/postrider/postrider/internal/testkit"
)

// storedSource stores a source with a password in the SQLite store of the arguments.
func storedSource(t *testing.T, url string, args ...string) {
	t.Helper()
	settings, _ := configtest.Parse(t, nil, args...)
	s, err := drivers.Open(t.Context(), settings.StoreConfig, drivers.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	vault, err := secrets.Open(t.Context(), settings.Keys(), s, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	source := postrider.Source{ID: postrider.SourceID{1}, Name: "shop", URL: url, Keep: time.Hour, CreatedAt: time.Now()}
	if err := vault.EncryptSource(t.Context(), &source, "hush"); err != nil {
		t.Fatal(err)
	}
	if err := s.PutSource(t.Context(), source); err != nil {
		t.Fatal(err)
	}
}

// outboxOf starts a PostgreSQL server with an outbox, and returns its URL.
func outboxOf(t *testing.T) string {
	t.Helper()
	free, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(free.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	free.Close()
	cluster, err := testkit.StartPostgres("", "listen_addresses=127.0.0.1", "port="+port)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	url := fmt.Sprintf("postgres://postgres@127.0.0.1:%s/postgres?sslmode=disable", port)
	if err := outbox.Install(context.Background(), outbox.Config{URL: url}, false); err != nil {
		t.Fatal(err)
	}
	return url
}

func TestDoctorAsksSources(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	args := []string{"--data-dir", folder, "--source-allow=127.0.0.0/8"}
	url := outboxOf(t)
	storedSource(t, url, args...)
	checks := examined(t, nil, args...)
	wantCheck(t, checks, doctor.SourceConnect, doctor.Okay("", "shop (%s) can be read", url))
	wantCheck(t, checks, doctor.SourceLag, doctor.Okay("", "0 rows waiting"))
	wantCheck(t, checks, doctor.SourceReplicas, doctor.Okay("", "no asynchronous replica"))
	wantCheck(t, checks, doctor.SourceTransaction, doctor.Okay("", "no transaction"))

	refused := examined(t, nil, "--data-dir", folder)[doctor.SourceConnect]
	if refused.Status != doctor.Fail || !strings.Contains(refused.Found, "the rules for egress refuse 127.0.0.1:") {
		t.Errorf("without --source-allow: %+v", refused)
	}

	storedSource(t, "postgres://reader@127.0.0.1:1/shop?sslmode=disable", args...)
	checks = examined(t, nil, args...)
	wantCheck(t, checks, doctor.SourceConnect, doctor.Failure("", "shop (postgres://reader@127.0.0.1:1/shop?sslmode=disable): "))
	if _, there := checks[doctor.SourceLag]; there {
		t.Error("the lag of a source that cannot be reached is judged")
	}
}
