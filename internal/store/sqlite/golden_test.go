package sqlite_test

import (
	"database/sql"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
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

func TestQueryPlans(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open(t, dir, sqlite.Options{})
	db := raw(t, dir)
	var names []string
	for _, name := range slices.Sorted(maps.Keys(sqlite.Statements())) {
		names = append(names, name+".txt")
		golden(t, filepath.Join("testdata", "plans", name+".txt"), plan(t, db, sqlite.Statements()[name]))
	}
	files, err := os.ReadDir(filepath.Join("testdata", "plans"))
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	for _, file := range files {
		kept = append(kept, file.Name())
	}
	if diff := cmp.Diff(names, kept); diff != "" {
		t.Errorf("files of plans (-want +got):\n%s", diff)
	}
}

var parameter = regexp.MustCompile(`[@]\w+|\?`)

// plan returns the statement's query plan as a tree.
func plan(t *testing.T, db *sql.DB, statement string) string {
	t.Helper()
	args := []any{}
	for _, name := range parameter.FindAllString(statement, -1) {
		if name == "?" {
			args = append(args, nil)
			continue
		}
		args = append(args, sql.Named(name[1:], nil))
	}
	rows, err := db.QueryContext(t.Context(), "explain query plan "+statement, args...)
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	defer rows.Close()
	var tree strings.Builder
	depths := map[int]int{0: -1}
	for rows.Next() {
		var id, parent, unused int
		var detail string
		if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
			t.Fatal(err)
		}
		depths[id] = depths[parent] + 1
		fmt.Fprintf(&tree, "%s%s\n", strings.Repeat("  ", depths[id]), detail)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return tree.String()
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
