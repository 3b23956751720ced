package facts_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/config/configtest"
	"github.com/postrider/postrider/internal/doctor"
	"github.com/postrider/postrider/internal/doctor/facts"
	"github.com/postrider/postrider/internal/store/postgres"
	"github.com/postrider/postrider/internal/testkit"
)

// examined checks a set-up, and returns its checks by name. No report has the password of
// a test.
func examined(t *testing.T, env map[string]string, args ...string) map[doctor.Name]doctor.Check {
	t.Helper()
	settings, sources := configtest.Parse(t, env, args...)
	report := facts.Examine(t.Context(), settings, sources.Check(settings.Validate), facts.Checkup{Within: time.Minute, Resolve: "localhost"})
	checks := map[doctor.Name]doctor.Check{}
	for _, c := range report.Checks {
		if _, twice := checks[c.Name]; twice {
			t.Errorf("%s is there twice", c.Name)
		}
		if strings.Contains(c.Found+c.Remedy, "hush") {
			t.Errorf("%s tells the password: %q %q", c.Name, c.Found, c.Remedy)
		}
		checks[c.Name] = c
	}
	return checks
}

// wantCheck expects the status of a check, and a part of its text.
func wantCheck(t *testing.T, checks map[doctor.Name]doctor.Check, name doctor.Name, want doctor.Check) {
	t.Helper()
	if c := checks[name]; c.Status != want.Status || !strings.Contains(c.Found, want.Found) {
		t.Errorf("%s is %+v, want %s: %q", name, c, want.Status, want.Found)
	}
}

func TestDoctorOnPostgreSQL(t *testing.T) {
	t.Parallel()
	// The tests of this package share one template, which is empty.
	dsn := testkit.Postgres(t, func(context.Context, string) error { return nil })
	if err := postgres.Migrate(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	dsn = strings.Replace(dsn, "postgres@", "postgres:hush@", 1)
	checks := examined(t, map[string]string{"POSTRIDER_DATABASE_URL": dsn}, "--listen=127.0.0.1:0", "--ops-listen=127.0.0.1:0")
	wantCheck(t, checks, doctor.Connect, doctor.Okay("", "postgres:xxxxx@"))
	wantCheck(t, checks, doctor.DatabaseTables, doctor.Okay("", "which this program has, too"))
	wantCheck(t, checks, doctor.Keys, doctor.Okay("", "no keys in the database yet"))
	wantCheck(t, checks, doctor.PoolerMode, doctor.Okay("", "direct"))
	wantCheck(t, checks, doctor.ConnectionLimit, doctor.Okay("", "1 server needs 18"))
	wantCheck(t, checks, doctor.Memory, doctor.Okay("", "0 endpoints"))
	if found := checks[doctor.DatabaseDisk].Found; !strings.Contains(found, "of the disk of /") {
		t.Errorf("the disk of a database on this machine: %q", found)
	}
	if _, there := checks[doctor.Folder]; there {
		t.Error("the data folder is checked, which the store is not in")
	}
}

func TestDoctorWithoutADatabase(t *testing.T) {
	t.Parallel()
	for dsn, found := range map[string]string{
		"postgres://u:hush@127.0.0.1:1/db": "the database cannot be reached: postgres://u:xxxxx@127.0.0.1:1/db: ",

		"postgres://u:hush@/db?host=/nowhere&password=hush":                  "postgres://u:xxxxx@/db?host=%2Fnowhere&password=xxxxx: ",
		"postgres://u:hush@127.0.0.1:1/db?sslmode=nonsense&sslpassword=hush": "",
	} {
		checks := examined(t, map[string]string{"POSTRIDER_DATABASE_URL": dsn})
		wantCheck(t, checks, doctor.Connect, doctor.Failure("", "%s", found))
		if _, there := checks[doctor.Keys]; there {
			t.Error("keys in a database are judged without it")
		}
	}
}

// TestDoctorIsBounded checks that doctor ends within its time limit if a database accepts
// connections and sends nothing, or if anything else hangs.
func TestDoctorIsBounded(t *testing.T) {
	t.Parallel()
	silent, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	address := silent.Addr().String()
	settings, sources := configtest.Parse(t, map[string]string{"POSTRIDER_DATABASE_URL": "postgres://u@" + address + "/db?connect_timeout=60"},
		"--listen="+address, "--oidc-issuer=http://"+address, "--oidc-client-id=me", "--oidc-admins=us", "--public-url=https://hooks.example.com",
		"--smtp-url=smtp+plain://"+address, "--smtp-from=hooks@acme.example",
		"--archive=s3://archive", "--archive-endpoint=http://"+address, "--archive-access-key=key", "--archive-secret-key-file="+secretFile(t))
	if err := sources.Check(settings.Validate); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	report := facts.Examine(t.Context(), settings, nil, facts.Checkup{Within: 3 * time.Second, Resolve: "localhost"})
	if took := time.Since(begun); took > 30*time.Second { // without the bound a minute, the connect_timeout
		t.Errorf("it took %s", took)
	}
	failed := map[doctor.Name]bool{}
	for _, c := range report.Checks {
		failed[c.Name] = c.Status != doctor.OK
	}
	for _, name := range []doctor.Name{doctor.Connect, doctor.OIDCIssuer, doctor.ListenAPI, doctor.MailServer, doctor.ArchiveAccess} {
		if !failed[name] {
			t.Errorf("%s is fine, says the report %+v", name, report)
		}
	}
}

func TestDoctorAsksTheIdentityProvider(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	provider := httptest.NewServer(mux)
	t.Cleanup(provider.Close)
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"issuer": "` + provider.URL + `", "authorization_endpoint": "/a", "token_endpoint": "/t", "jwks_uri": "/k"}`))
	})
	ask := func(issuer string) map[doctor.Name]doctor.Check {
		return examined(t, map[string]string{"POSTRIDER_OIDC_CLIENT_SECRET": "hush"}, "--data-dir", t.TempDir(),
			"--oidc-issuer", issuer, "--oidc-client-id=me", "--oidc-admins=us", "--public-url=https://hooks.example.com")
	}
	wantCheck(t, ask(provider.URL), doctor.OIDCIssuer, doctor.Okay("", "answers"))
	wantCheck(t, ask(provider.URL+"/elsewhere"), doctor.OIDCIssuer, doctor.Failure("", "404"))
}

// TestDoctorEndsWithItsContext checks that doctor does not wait for a resolver that does not
// respond, once its context has ended.
func TestDoctorEndsWithItsContext(t *testing.T) {
	t.Parallel()
	settings, sources := configtest.Parse(t, nil, "--data-dir", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	begun := time.Now()
	report := facts.Examine(ctx, settings, sources.Check(settings.Validate), facts.Checkup{Within: time.Minute, Resolve: "example.com"})
	if took := time.Since(begun); took > 30*time.Second || len(report.Checks) == 0 {
		t.Errorf("it took %s: %+v", took, report)
	}
}

// TestDoctorAsksTheCollectorOfTraces uses a collector that responds, one that refuses, and one that
// cannot be reached.
func TestDoctorAsksTheCollectorOfTraces(t *testing.T) {
	t.Parallel()
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Token") != "hush" || r.URL.Path != "/v1/traces" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(collector.Close)
	ask := func(url, token string) map[doctor.Name]doctor.Check {
		return examined(t, map[string]string{"POSTRIDER_OTLP_HEADERS": "x-token=" + token}, "--data-dir", t.TempDir(), "--otlp-url", url)
	}
	wantCheck(t, ask(collector.URL, "hush"), doctor.Collector, doctor.Okay("", "accepts traces; 0.01 of the events"))
	wantCheck(t, ask(collector.URL, "other"), doctor.Collector, doctor.Warning("", "401"))
	collector.Close()
	wantCheck(t, ask(collector.URL, "hush"), doctor.Collector, doctor.Warning("", "connection refused"))
}
