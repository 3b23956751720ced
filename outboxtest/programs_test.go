package outboxtest_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// programs are the programs that docs/outbox shows, by the name of their folder and page.
var programs = []struct {
	name, file string
	shown      []string // the other files that the page shows
	// migration are the words that make the outbox, and those that run tests, as programs with arguments; nil: none
	// are shown. The SQL is in the file script.
	migration [][]string
	script    string
	// command returns the words that start the program. Those of a language install what the
	// programs of that language need.
	command func(t *testing.T, source string) []string
}{
	{"pgx", "main.go", nil, nil, "", goProgram},
	{"database-sql", "main.go", nil, nil, "", goProgram},
	{
		"django", "place.py",
		[]string{"shop/models.py", "shop/migrations/0002_outbox.py", "shop/tests.py"},
		[][]string{{"manage.py", "migrate", "--fake-initial"}, {"manage.py", "test"}},
		"shop/migrations/0002_outbox.sql", python,
	},
	{"sqlalchemy", "shop.py", []string{"migrate.py"}, [][]string{{"migrate.py"}}, "outbox.sql", python},
	{"node-pg", "shop.mjs", nil, nil, "", node},
	{"drizzle", "shop.mjs", nil, nil, "", node},
	{"activerecord", "shop.rb", []string{"migrate.rb"}, [][]string{{"migrate.rb"}}, "outbox.sql", ruby},
}

func ruby(_ *testing.T, source string) []string { return []string{"ruby", source} }

func goProgram(_ *testing.T, source string) []string {
	return []string{"go", "run", "./" + filepath.Dir(source)}
}

func python(t *testing.T, source string) []string {
	t.Helper()
	folder, err := venv()
	if err != nil {
		t.Fatal(err)
	}
	return []string{filepath.Join(folder, "venv/bin/python"), source}
}

// venv returns a folder with the packages of requirements.txt in a virtual environment.
var venv = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp(scratch, "python")
	if err != nil {
		return "", err
	}
	if _, err := output(exec.Command("python3", "-m", "venv", filepath.Join(folder, "venv"))); err != nil {
		return "", err
	}
	_, err = output(exec.Command(filepath.Join(folder, "venv/bin/pip"), "install", "--quiet", "--disable-pip-version-check",
		"--no-deps", "--requirement", "requirements.txt"))
	return folder, err
})

// node returns the command of a copy of the program. Node.js looks for packages in the folders above
// a program.
func node(t *testing.T, source string) []string {
	t.Helper()
	folder, err := npm()
	if err != nil {
		t.Fatal(err)
	}
	placed := filepath.Join(folder, source)
	if err := os.CopyFS(filepath.Dir(placed), os.DirFS(filepath.Dir(source))); err != nil {
		t.Fatal(err)
	}
	return []string{"node", placed}
}

// npm returns a folder with the packages of package-lock.json.
var npm = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp(scratch, "node")
	if err != nil {
		return "", err
	}
	for _, name := range []string{"package.json", "package-lock.json"} {
		text, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
			return "", err
		}
	}
	install := exec.Command("npm", "ci", "--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund")
	install.Dir = folder
	_, err = output(install)
	return folder, err
})

// TestProgramsPublishInTheirTransaction runs each program. It must leave the order and the event
// of the transaction that it commits, and nothing of the one that it rolls back.
func TestProgramsPublishInTheirTransaction(t *testing.T) {
	t.Parallel()
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			words := p.command(t, filepath.Join(p.name, p.file))
			command := exec.CommandContext(t.Context(), words[0], words[1:]...)
			command.Env = append(os.Environ(), s.env("shop_app")...)
			printed, err := output(command)
			if err != nil {
				t.Fatal(err)
			}
			if !regexp.MustCompile(`^obx_[0-9a-z]{26}\n$`).MatchString(printed) {
				t.Errorf("the program printed %q, want the id of one event", printed)
			}
			if got := s.column(t, "select number from orders order by number"); strings.Join(got, " ") != "A-1" {
				t.Errorf("orders: %v, want A-1 alone", got)
			}
			rows := s.column(t, "select concat_ws(' ', account, type, producer, convert_from(data, 'UTF8')) from postrider.outbox")
			if len(rows) != 1 {
				t.Fatalf("rows of the outbox: %q, want one", rows)
			}
			data, ok := strings.CutPrefix(rows[0], "acme order.created shop_app ")
			var order struct {
				Number string
				Total  int
			}
			if err := json.Unmarshal([]byte(data), &order); err != nil || !ok || order.Number != "A-1" || order.Total != 4200 {
				t.Errorf("the row of the outbox is %q (%v)", rows[0], err)
			}
		})
	}
}

// TestMigrationsMakeTheOutbox runs the migrations in databases that have no outbox, from another folder
// than theirs, and then the tests that the page shows.
func TestMigrationsMakeTheOutbox(t *testing.T) {
	t.Parallel()
	script, err := output(exec.CommandContext(t.Context(), postrider, "outbox", "sql"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range programs {
		if p.migration == nil {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			s := newShop(t)
			s.run(t, "drop schema postrider cascade")
			folder := t.TempDir()
			if err := os.CopyFS(folder, os.DirFS(p.name)); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(folder, p.script), []byte(script), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, words := range p.migration {
				words := append(p.command(t, filepath.Join(folder, words[0])), words[1:]...)
				command := exec.CommandContext(t.Context(), words[0], words[1:]...)
				command.Env = append(os.Environ(), s.env("postgres")...)
				if _, err := output(command); err != nil {
					t.Fatal(err)
				}
			}
			do(t, s.connect(t), publish, 1, 1)
		})
	}
}
