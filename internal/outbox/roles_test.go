package outbox_test

import (
	"context"
	"regexp"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/outbox"
	"github.com/postrider/postrider/internal/testkit"
)

// newCluster returns an empty database of a PostgreSQL server of the test's own, since roles are of the whole server.
func newCluster(t *testing.T) (w *world, another func() *world) {
	t.Helper()
	cluster, err := testkit.StartPostgres("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Stop() })
	another = func() *world {
		dsn, err := cluster.Database(t.Context(), "shop", nil)
		if err != nil {
			t.Fatal(err)
		}
		return &world{T: t, dsn: dsn, conn: connect(t, dsn)}
	}
	return another(), another
}

// as returns how to reach the database as a role, and the warnings that the role gets.
func (w *world) as(name string) (at outbox.Config, warnings *[]string) {
	warnings = new([]string)
	return outbox.Config{
		URL: strings.Replace(w.dsn, "postgres@", name+"@", 1), Local: true, Warn: func(text string) { *warnings = append(*warnings, text) },
	}, warnings
}

// wantNoRights checks that a role cannot touch the rows of the outbox.
func (w *world) wantNoRights(name string) {
	w.Helper()
	at, _ := w.as(name)
	for _, statement := range []string{
		"select from postrider.outbox", "delete from postrider.outbox", "insert into postrider.producers values ('x')",
		"drop schema postrider cascade",
	} {
		wantRefused(w.T, connect(w.T, at.URL), "42501 ", statement)
	}
	if n := w.number("select count(*) from pg_class where relnamespace = 'postrider'::regnamespace and relowner <> 'postrider_outbox'::regrole"); n != 0 {
		w.Errorf("%d tables and indexes belong to another role than postrider_outbox", n)
	}
}

// A role that may make roles keeps no right to the rows of any database of the server, as it would by a migration in
// the database of its tests.
func TestInstallLeavesNoRights(t *testing.T) {
	t.Parallel()
	first, another := newCluster(t)
	second := another()
	first.exec("create role app login createrole")
	install := func(ctx context.Context, c outbox.Config) error { return outbox.Install(ctx, c, false) }
	for _, w := range []*world{first, second} {
		w.exec("grant create on database " + w.conn.Config().Database + " to app")
		at, _ := w.as("app")
		for _, do := range []func(context.Context, outbox.Config) error{install, outbox.Upgrade} {
			if err := do(t.Context(), at); err != nil {
				t.Fatal(err)
			}
			first.wantNoRights("app")
		}
	}
	second.exec("set role app", outbox.Text(true)) // as tools do that run migrations as the owner of a database
	if n := second.number("select count(*) where current_user = 'app'"); n != 1 {
		t.Error("the script does not end as the role that it began as")
	}
	second.wantNoRights("app")
	for i, w := range []*world{first, second} {
		at, _ := w.as("app")
		if err := outbox.Remove(t.Context(), at, false); err != nil {
			t.Fatal(err)
		}
		if n := first.number("select count(*) from pg_roles where rolname like 'postrider_%'"); n != int64(3-3*i) {
			t.Errorf("%d roles are left, want %d", n, 3-3*i)
		}
	}
}

var advice = regexp.MustCompile(`let a superuser run: (.*); and, once this is done: (revoke .*)\.`)

// The error of an owner of a database, who may make no roles, says what a superuser has to run before and after.
func TestInstallByAnOwner(t *testing.T) {
	t.Parallel()
	w, _ := newCluster(t)
	w.exec("create role owner login", "alter database "+w.conn.Config().Database+" owner to owner", "create role guest login")
	guest, _ := w.as("guest")
	err := outbox.Install(t.Context(), guest, false)
	if want := "create role postrider_reader; grant create on database shop_1 to guest; grant postrider_outbox to guest"; err == nil ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
	w.exec("create role postrider_outbox", "create role postrider_producer", "create role postrider_reader")
	at, warnings := w.as("owner")
	for step, do := range []func(context.Context, outbox.Config) error{
		func(ctx context.Context, c outbox.Config) error { return outbox.Install(ctx, c, false) },
		outbox.Upgrade,
		func(ctx context.Context, c outbox.Config) error { return outbox.Remove(ctx, c, true) },
	} {
		err := do(t.Context(), at)
		if err == nil {
			t.Fatal("a role without rights is not refused")
		}
		run := advice.FindStringSubmatch(err.Error())
		if len(run) == 0 || !outbox.Denied(err) || strings.Contains(run[1], "create") {
			t.Fatalf("the error does not say what to run: %v", err)
		}
		w.exec(run[1])
		if err := do(t.Context(), at); err != nil {
			t.Fatal(err)
		}
		w.exec(run[2])
		if step < 2 {
			w.wantNoRights("owner")
		}
	}
	told := strings.Join(*warnings, "\n")
	if !strings.Contains(told, "grant pg_read_all_stats to postrider_outbox") {
		t.Errorf("the owner is warned of %s", told)
	}
	// From PostgreSQL 16 on, a member may have no other right than to become postrider_outbox.
	inherits := w.number("select current_setting('server_version_num')::int") < 160000
	if strings.Contains(told, "these roles may change and delete the rows of the outbox: owner; ") != inherits {
		t.Errorf("the owner is warned of %s", told)
	}
}

func TestInstallRefusesWhatOthersHaveMade(t *testing.T) {
	t.Parallel()
	w, _ := newCluster(t)
	at := outbox.Config{URL: w.dsn, Local: true}
	for _, tt := range []struct{ made, undone, want string }{
		{"create role postrider_outbox login", "alter role postrider_outbox nologin", "the role postrider_outbox may log in"},
		{"create schema postrider", "drop schema postrider", "the schema postrider belongs to another role"},
	} {
		w.exec(tt.made)
		if err := outbox.Install(t.Context(), at, false); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.made, err)
		}
		w.exec(tt.undone)
	}
	if err := outbox.Install(t.Context(), at, false); err != nil {
		t.Error(err)
	}
}
