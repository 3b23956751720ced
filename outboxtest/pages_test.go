package outboxtest_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestPagesShowTheirPrograms compares each page of docs/outbox with its programs: the page contains
// the lines between the marks, and a link to the first program.
func TestPagesShowTheirPrograms(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../docs/outbox/*.md")
	if err != nil || len(pages) != len(programs) {
		t.Errorf("%d pages for %d programs, %v", len(pages), len(programs), err)
	}
	for _, p := range programs {
		page := read(t, "../docs/outbox/"+p.name+".md")
		if link := "(../../outboxtest/" + p.name + "/" + p.file + ")"; !strings.Contains(page, link) {
			t.Errorf("docs/outbox/%s.md has no link %s", p.name, link)
		}
		shown := 0
		for _, file := range append([]string{p.file}, p.shown...) {
			for _, part := range marked(read(t, p.name+"/"+file)) {
				if shown++; !strings.Contains(page, part) {
					t.Errorf("docs/outbox/%s.md lacks these lines of %s:\n%s", p.name, file, part)
				}
			}
		}
		if shown <= len(p.shown) {
			t.Errorf("%d parts of %s and its %d other files are marked, too few", shown, p.file, len(p.shown))
		}
	}
}

var marks = regexp.MustCompile(`(?ms)^[\t ]*(?://|#) docs:begin\n(.*?)^[\t ]*(?://|#) docs:end\n`)

// marked returns the parts of a program between the marks, without the indentation of their first
// line.
func marked(program string) (parts []string) {
	for _, found := range marks.FindAllStringSubmatch(program, -1) {
		part := strings.Trim(found[1], "\n")
		indent := part[:len(part)-len(strings.TrimLeft(part, "\t "))]
		part = strings.ReplaceAll(strings.TrimPrefix(part, indent), "\n"+indent, "\n")
		parts = append(parts, part+"\n")
	}
	return parts
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestStatementsOfThePageRun runs the SQL of docs/outbox.md, block by block, as the superuser.
func TestStatementsOfThePageRun(t *testing.T) {
	t.Parallel()
	blocks := regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(read(t, "../docs/outbox.md"), -1)
	if len(blocks) < 5 {
		t.Fatalf("docs/outbox.md has %d blocks of SQL, too few to be true", len(blocks))
	}
	s := newShop(t)
	t.Cleanup(func() { // a role belongs to all databases
		if err := execute(context.Background(), connectTo(s.name), "drop role if exists postrider_link"); err != nil {
			t.Error(err)
		}
	})
	for _, block := range blocks {
		s.run(t, block[1])
	}
	got := s.column(t, "select type from postrider.outbox order by number")
	if want := []string{"order.created", "order.exported", "order.created", "order.paid", "order.sent"}; !slices.Equal(got, want) {
		t.Errorf("events that were published: %q, want %q", got, want)
	}
	if got := s.column(t, "select message from postrider.outbox_rejected"); len(got) != 1 {
		t.Errorf("events that were rejected: %q, want one", got)
	}
}
