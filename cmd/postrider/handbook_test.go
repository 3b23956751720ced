package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider"
)

// TestDocumentedCommandsExist parses every command in a code block of the handbook, and every
// command in a sentence of the runbooks. At night nobody should find out that a flag has another
// name. In sentences of other pages, a command may be only a name.
func TestDocumentedCommandsExist(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../docs/operate/*.md")
	if err != nil || len(pages) < 20 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	stacks, err := filepath.Glob("../../docs/outbox/*.md")
	if err != nil || len(stacks) < 7 {
		t.Fatalf("%d pages of stacks, %v", len(stacks), err)
	}
	for _, page := range append(append(pages, stacks...), "../../docs/portal.md", "../../docs/outbox.md") {
		t.Run(filepath.Base(page), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			parseCommands(t, documentedCommands(string(text), inBlock))
			if filepath.Base(page) == "runbooks.md" {
				parseCommands(t, documentedCommands(string(text), inSentence))
			}
		})
	}
}

func parseCommands(t *testing.T, commands [][]string) {
	t.Helper()
	for _, words := range commands {
		parser, err := newParser(terminal{strings.NewReader(""), io.Discard, io.Discard})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parser.Parse(words); err != nil {
			t.Errorf("postrider %s: %v", strings.Join(words, " "), err)
		}
	}
}

var (
	inBlock     = regexp.MustCompile(`(?m)^(?: {4,}|\$ )(?:[A-Z_]+=\S+ )*(?:runuser -u postrider -- )?(?:[./a-z]*/)?postrider (.+)`)
	inSentence  = regexp.MustCompile("`postrider ([^`\n]+)")
	oneWord     = regexp.MustCompile(`[^\s"']*(?:"[^"]*"|'[^']*')|\S+`)
	redirection = regexp.MustCompile(` > [^"']+$`)
	placeholder = regexp.MustCompile(`\b([a-z]{2,3}_)[0-9a-z]*…`)
)

// documentedCommands returns the words of each command of a page. It replaces placeholders by ids.
func documentedCommands(page string, where *regexp.Regexp) (commands [][]string) {
	endpoint := postrider.MakeID[postrider.EndpointID](time.Now(), [10]byte{1}).String()
	_, random, _ := strings.Cut(endpoint, "_")
	page = strings.NewReplacer("$ENDPOINT", endpoint, "\\\n", "").Replace(page)
	page = placeholder.ReplaceAllString(page, "${1}"+random)
	for _, match := range where.FindAllStringSubmatch(page, -1) {
		line, _, _ := strings.Cut(match[1], " #")
		line, _, _ = strings.Cut(strings.TrimSuffix(line, " …"), " |")
		line = redirection.ReplaceAllString(line, "")
		var words []string
		for _, word := range oneWord.FindAllString(line, -1) {
			words = append(words, strings.NewReplacer(`"`, "", "'", "").Replace(word))
		}
		commands = append(commands, words)
	}
	return commands
}

// TestDocumentedCommandsAreFound tests the two ways to find commands. If they found no command,
// TestDocumentedCommandsExist would check none.
func TestDocumentedCommandsAreFound(t *testing.T) {
	t.Parallel()
	const page = "`postrider ready` and\n\n    runuser -u postrider -- /usr/bin/postrider doctor\n    A=b postrider serve --x \\\n        --from=\"A <a@b.example>\"   # why\n$ postrider nodes | head\n$ postrider version > file\n"
	got := append(documentedCommands(page, inBlock), documentedCommands(page, inSentence)...)
	want := [][]string{{"doctor"}, {"serve", "--x", "--from=A <a@b.example>"}, {"nodes"}, {"version"}, {"ready"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
}

// TestTablesHaveHeads finds tables that an empty line divides. The second part of such a table is
// shown as text.
func TestTablesHaveHeads(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../docs/operate/*.md")
	if err != nil {
		t.Fatal(err)
	}
	tables := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for block := range strings.SplitSeq(string(text), "\n\n") {
			if !strings.HasPrefix(strings.TrimLeft(block, "\n"), "|") {
				continue
			}
			tables++
			if !strings.Contains(block, "\n|---") {
				t.Errorf("%s: rows without a head: %.60s…", filepath.Base(page), block)
			}
		}
	}
	if tables < 30 {
		t.Errorf("the pages have only %d tables", tables)
	}
}
