package outbox_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/outbox"
)

func TestInstallMayBeRepeated(t *testing.T) {
	t.Parallel()
	dsn := emptyDSN(t)
	at := outbox.Config{URL: dsn, Local: true}
	if _, err := outbox.Open(t.Context(), at); !isVersion(err, 0) || !strings.Contains(err.Error(), "postrider outbox install") {
		t.Errorf("without an outbox: %v", err)
	}
	for name, do := range map[string]func(context.Context, outbox.Config) error{
		"upgrade": outbox.Upgrade, "remove": func(ctx context.Context, c outbox.Config) error { return outbox.Remove(ctx, c, true) },
	} {
		if err := do(t.Context(), at); !isVersion(err, 0) {
			t.Errorf("%s without an outbox: %v", name, err)
		}
	}
	for range 2 {
		if err := outbox.Install(t.Context(), at, false); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{t, dsn, openAt(t, dsn), connect(t, dsn)}
	w.exec(`select postrider.publish('acme', 'order.created', '{"n": 1}')`, outbox.Text(false))
	if err := outbox.Upgrade(t.Context(), at); err != nil {
		t.Fatal(err)
	}
	w.wantData(`[{"n": 1}]`)
	if n := w.number("select count(*) from pg_tables where schemaname = 'postrider' and tableowner <> 'postrider_outbox'"); n != 0 {
		t.Errorf("%d tables belong to another role than postrider_outbox", n)
	}
	if n := w.number("select count(*) from pg_proc where pronamespace = 'postrider'::regnamespace and proowner <> 'postrider_outbox'::regrole"); n != 0 {
		t.Errorf("%d functions belong to another role than postrider_outbox", n)
	}
}

func isVersion(err error, have int) bool {
	e, ok := errors.AsType[*outbox.VersionError](err)
	return ok && e.Have == have
}

func TestInstallByARoleThatMayMakeRoles(t *testing.T) {
	t.Parallel()
	dsn := emptyDSN(t)
	w := &world{T: t, dsn: dsn, conn: connect(t, dsn)}
	name, own := w.role()
	w.exec("alter role "+name+" createrole", "grant create on database "+w.conn.Config().Database+" to "+name)
	if n := w.number("select count(*) from pg_roles where rolname = 'postrider_outbox'"); n > 0 {
		w.exec("grant postrider_outbox, postrider_producer, postrider_reader to " + name + " with admin option")
	}
	if err := outbox.Install(t.Context(), outbox.Config{URL: own, Local: true}, false); err != nil {
		t.Fatal(err)
	}
	openAt(t, own)
}

func TestUpgradeByASteps(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at := outbox.Config{URL: w.dsn, Local: true}
	w.exec(`select postrider.publish('acme', 'order.created', '1')`)
	const step = "alter table postrider.outbox_cycle add column note text;"
	for range 2 {
		if err := outbox.InstallSteps(t.Context(), at, step); err != nil {
			t.Fatal(err)
		}
	}
	if n := w.number("select count(*) from postrider.outbox where data = '1'"); n != 1 {
		t.Errorf("%d rows after the upgrade, want 1", n)
	}
	if _, err := outbox.Open(t.Context(), at); !isVersion(err, 2) || !strings.Contains(err.Error(), "use a newer Postrider") {
		t.Errorf("open a newer outbox: %v", err)
	}
	if err := outbox.Install(t.Context(), at, false); err == nil || !strings.Contains(err.Error(), "the outbox has version 2") {
		t.Errorf("install over a newer outbox: %v", err)
	}
	if err := outbox.InstallSteps(t.Context(), at, step, "select 1/0;"); err == nil {
		t.Error("a step that fails is no error")
	}
	if n := w.number("select max(version) from postrider.outbox_version"); n != 2 {
		t.Errorf("after a step that failed the version is %d, want 2", n)
	}
}

// In this test, a function in front of the path stands for the version of an old server.
func TestInstallRefusesAnOldServer(t *testing.T) {
	t.Parallel()
	conn := connect(t, emptyDSN(t))
	_, err := conn.PgConn().Exec(t.Context(), `create schema old;
		create function old.current_setting(text) returns text language sql as $$
			select case $1 when 'server_version_num' then '140011' else '14.11' end $$;
		set search_path = old, pg_catalog;`+outbox.Text(false)).ReadAll()
	if err == nil || !strings.Contains(err.Error(), "PostgreSQL 14.11 is too old for the outbox of Postrider") {
		t.Errorf("got %v", err)
	}
}

func TestInstallWaitsForNoProducer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at := outbox.Config{URL: w.dsn, Local: true}
	w.exec("begin", `select postrider.publish('acme', 'order.created', '1')`)
	if err := outbox.Install(t.Context(), at, false); err != nil {
		t.Errorf("again, beside a transaction that has published: %v", err)
	}
	if err := outbox.Install(t.Context(), at, true); err == nil || !strings.Contains(err.Error(), "lock timeout") {
		t.Errorf("make the trigger, beside a transaction that has published: %v", err)
	}
	w.exec("commit")
	if err := outbox.Install(t.Context(), at, true); err != nil {
		t.Error(err)
	}
}

func TestRemove(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at := outbox.Config{URL: w.dsn, Local: true}
	w.exec(`select postrider.publish('acme', 'order.created', '1')`, `select postrider.publish('acme', '', '1', on_error => 'reject')`)
	err := outbox.Remove(t.Context(), at, false)
	if err == nil || !strings.Contains(err.Error(), "1 rows wait for Postrider and 1 were rejected") {
		t.Errorf("with rows: %v", err)
	}
	if err := outbox.Remove(t.Context(), at, true); err != nil {
		t.Fatal(err)
	}
	if n := w.number("select count(*) from pg_namespace where nspname = 'postrider'"); n != 0 {
		t.Error("the schema is still there")
	}
	if err := outbox.Install(t.Context(), at, false); err != nil {
		t.Fatal(err)
	}
	if err := outbox.Remove(t.Context(), at, false); err != nil {
		t.Errorf("without rows: %v", err)
	}
}

// Every function runs as its owner, with a path that no caller sets, and only for the roles that need it.
func TestFunctionsAreGuarded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rows, err := w.conn.Query(t.Context(), `
select p.proname, p.prosecdef, coalesce(array_to_string(p.proconfig, ' '), '') like '%search_path=pg_catalog, pg_temp%',
  has_function_privilege('public', p.oid, 'execute'),
  has_function_privilege('postrider_producer', p.oid, 'execute'), has_function_privilege('postrider_reader', p.oid, 'execute')
from pg_proc p
where p.pronamespace = 'postrider'::regnamespace`)
	if err != nil {
		t.Fatal(err)
	}
	type function struct {
		Name                                   string
		Owner, Path, Public, Producer, Readers bool
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[function])
	if err != nil || len(all) < 20 {
		t.Fatalf("%d functions, %v", len(all), err)
	}
	for _, f := range all {
		publishes := f.Name == "publish" || f.Name == "publish_bytes"
		if !f.Owner || !f.Path || f.Public || f.Producer != publishes || publishes && f.Readers {
			t.Errorf("%+v", f)
		}
	}
	if n := w.number(`select count(*) - count(distinct proname) from pg_proc where pronamespace = 'postrider'::regnamespace`); n != 0 {
		t.Errorf("%d functions are overloaded", n)
	}
	_, producer := w.role("postrider_producer")
	_, reader := w.role("postrider_reader")
	const denied = "42501 permission denied"
	wantRefused(t, connect(t, producer), denied, "insert into postrider.outbox (account, type, data) values ('a', 'b', '1')")
	wantRefused(t, connect(t, producer), denied, "select from postrider.outbox")
	wantRefused(t, connect(t, reader), denied, "select postrider.publish('acme', 'a.b', '1')")
	wantRefused(t, connect(t, reader), denied, "delete from postrider.outbox")
	openAt(t, reader)
	_, stranger := w.role()
	_, err = outbox.Open(t.Context(), outbox.Config{URL: stranger, Local: true})
	if !outbox.Denied(err) || !strings.Contains(err.Error(), "grant postrider_reader") {
		t.Errorf("a role without a grant: %v", err)
	}
}
