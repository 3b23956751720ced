package store_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/postrider/postrider/internal/store"
)

func read(t *testing.T, files map[string]string) store.Migrations {
	t.Helper()
	all := fstest.MapFS{}
	for name, text := range files {
		all["migrations/"+name] = &fstest.MapFile{Data: []byte(text)}
	}
	m, err := store.ReadMigrations(all)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

const firstTables = "-- Things.\ncreate table things (\n    id integer\n);\n"

func TestTheFingerprintIsOfStatements(t *testing.T) {
	t.Parallel()
	own := read(t, map[string]string{"0001_tables.sql": firstTables}).Newest()
	for text, same := range map[string]bool{
		"-- Other words.\ncreate table things (\n  id   integer -- its number\n);\n":    true,
		firstTables + "comment on table things is 'All of them.';\n":                    true,
		strings.Replace(firstTables, "integer", "bigint", 1):                            false,
		firstTables + "create table others (\n    id integer\n);\n":                     false,
		strings.Replace(firstTables, "id integer", "id integer check (id > 0)", 1):      false,
		strings.Replace(firstTables, "id integer", "id integer, note text not null", 1): false,
	} {
		if got := read(t, map[string]string{"0001_tables.sql": text}).Newest(); (got.Fingerprint == own.Fingerprint) != same {
			t.Errorf("same fingerprint = %v, want %v:\n%s", !same, same, text)
		}
	}
}

func TestTablesThatAServerMayGoOnWith(t *testing.T) {
	t.Parallel()
	own := read(t, map[string]string{"0001_tables.sql": firstTables})
	other := strings.Replace(firstTables, "integer", "bigint", 1)
	for name, tt := range map[string]struct {
		made map[string]string
		why  string
	}{
		"its own":         {map[string]string{"0001_tables.sql": firstTables}, ""},
		"another build's": {map[string]string{"0001_tables.sql": other}, "other content"},
		"a later version's that it may run beside": {
			map[string]string{
				"0001_tables.sql": firstTables,
				"0002_more.sql":   "-- oldest program beside: 1\nalter table things add column note text;\n",
			}, "",
		},
		"a later version's": {
			map[string]string{"0001_tables.sql": firstTables, "0002_more.sql": "alter table things drop column id;\n"}, "replace the server",
		},
	} {
		switch err := own.Beside(read(t, tt.made).Newest()); {
		case tt.why == "" && err != nil:
			t.Errorf("%s: %v, want none", name, err)
		case tt.why != "" && (err == nil || !strings.Contains(err.Error(), tt.why)):
			t.Errorf("%s: %v, want %q", name, err, tt.why)
		}
	}
}
