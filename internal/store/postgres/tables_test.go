package postgres_test

import (
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/store/postgres"
)

func TestTablesOfAnotherContentAreRefused(t *testing.T) {
	t.Parallel()
	dsn := freshDSN(t)
	conn := connect(t, dsn)
	openAt(t, dsn)
	for _, tt := range []struct{ change, undo, why string }{
		{"create index more on accounts (name)", "", ""},
		{"alter table accounts add column note text not null default ''", "", ""},
		{"create table mine (id integer primary key)", "", ""},
		{"drop table events_" + firstDay(t, conn), "", ""},
		{"alter table nodes drop column host", "alter table nodes add column host text not null", "no column nodes.host text"},
		{"alter table accounts add column must text not null", "alter table accounts drop column must", "a new not null accounts.must"},
		{
			"alter table accounts drop constraint accounts_uid_check", "alter table accounts add constraint accounts_uid_check check (uid <> '')",
			"no constraint accounts accounts_uid_check",
		},
		{
			"alter table accounts alter column name type varchar(10)", "alter table accounts alter column name type text",
			"no column accounts.name text",
		},
		{
			"update tables_noted set fingerprint = reverse(fingerprint)", "update tables_noted set fingerprint = reverse(fingerprint)",
			"other content",
		},
		{"alter table tables_noted rename to gone", "alter table gone rename to tables_noted", "do not say of which content"},
	} {
		if _, err := conn.Exec(t.Context(), tt.change); err != nil {
			t.Fatal(err)
		}
		err := postgres.Migrate(t.Context(), dsn)
		list, _ := statuses(t, dsn)
		if refused := err != nil; refused != (tt.why != "") || refused && !strings.Contains(err.Error(), tt.why) {
			t.Errorf("%s: Migrate = %v, want %q", tt.change, err, tt.why)
		}
		if failed := list["database.migrations"] == "fail"; failed != (tt.why != "") {
			t.Errorf("%s: doctor says %q", tt.change, list["database.migrations"])
		}
		if tt.undo != "" {
			if _, err := conn.Exec(t.Context(), tt.undo); err != nil {
				t.Fatal(err)
			}
		}
	}
	openAt(t, dsn)
}
