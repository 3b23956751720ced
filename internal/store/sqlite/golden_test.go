package sqlite_test

import (
	"database/sql"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider/internal/store/sqlite"
)

var update = flag.Bool("update", false, "rewrite schema.sql and testdata/plans")

// golden fails the test unless the file holds got, or writes it.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs, see -update (-want +got):\n%s", file, diff)
	}
}

// raw opens the database of the directory beside the store.
func raw(t *testing.T, dir string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "postrider.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// texts reads the one column of a query.
func texts(t *testing.T, db *sql.DB, query string) (all []string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			t.Fatal(err)
		}
		all = append(all, text)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestSchema(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open(t, dir, sqlite.Options{})
	statements := texts(t, raw(t, dir), `
		select sql from sqlite_schema
		where sql is not null and tbl_name not in ('postrider_migrations', 'sqlite_sequence')
		order by tbl_name, type desc, name`)
	golden(t, "schema.sql", "-- What the migrations add up to. Made by go test -update; do not edit.\n\n"+
		strings.Join(statements, ";\n\n")+";\n")
}

// SQLite in Go runs on a C library in Go whose version must be the one it was
// translated with; the module graph would quietly take a newer one.
func TestLibc(t *testing.T) {
	t.Parallel()
	list := func(format, module string) string {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", format, module).Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	pins, err := os.ReadFile(list("{{.GoMod}}", "modernc.org/sqlite"))
	if err != nil {
		t.Fatal(err)
	}
	pinned := regexp.MustCompile(`modernc\.org/libc (v\S+)`).FindSubmatch(pins)
	if pinned == nil {
		t.Fatal("the go.mod of modernc.org/sqlite names no modernc.org/libc")
	}
	if got := list("{{.Version}}", "modernc.org/libc"); got != string(pinned[1]) {
		t.Errorf("modernc.org/libc is %s, and modernc.org/sqlite needs exactly %s", got, pinned[1])
	}
}
