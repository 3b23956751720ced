package postrider_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider"
)

var update = flag.Bool("update", false, "rewrite the golden files instead of comparing with them")

const (
	settleBegin = "<!-- settle:begin -->\n"
	settleEnd   = "<!-- settle:end -->\n"
)

// docs/state-machine.md shows the table with which settle.go is tested. After a change run: go test
// . -run ArchitectureTable -update.
func TestArchitectureTableIsTheTestedOne(t *testing.T) {
	t.Parallel()
	const file = "docs/state-machine.md"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, begins := strings.Cut(string(text), settleBegin)
	old, tail, ends := strings.Cut(rest, settleEnd)
	if !begins || !ends {
		t.Fatalf("%s has no %q before a %q", file, settleBegin, settleEnd)
	}
	want := architectureTable()
	if *update {
		if err := os.WriteFile(file, []byte(head+settleBegin+want+settleEnd+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, old); diff != "" {
		t.Errorf("%s is not as tested; run go test . -run ArchitectureTable -update (-want +got):\n%s", file, diff)
	}
}

func architectureTable() string {
	var table strings.Builder
	table.WriteString("\nBefore a request (`Refuse`):\n\n| rule | the delivery is |\n|---|---|\n")
	for _, row := range refuseRows {
		becomes := "attempted"
		if row.refused {
			becomes = describe(row.want)
		}
		fmt.Fprintf(&table, "| %s | %s |\n", row.name, becomes)
	}
	table.WriteString("\nAfter an attempt (`Settle`), with a schedule of three steps that wait 0, 1m and 10m:\n\n")
	table.WriteString("| rule | step | outcome | the delivery is |\n|---|---|---|---|\n")
	for _, row := range settleRows {
		fmt.Fprintf(&table, "| %s | %d | %s | %s |\n",
			row.name, row.claimed.Step, row.attempt.Outcome, describe(row.want))
	}
	table.WriteString("\n")
	return table.String()
}

func describe(t postrider.Transition) string {
	var text strings.Builder
	text.WriteString(string(t.To))
	if t.To == postrider.Pending {
		fmt.Fprintf(&text, " at step %d, due in %v", t.Step, t.After)
	}
	if t.Reason != "" {
		fmt.Fprintf(&text, ": `%s`", t.Reason)
	}
	if t.Pace > 0 {
		fmt.Fprintf(&text, "; the endpoint is left alone for %v", t.Pace)
	}
	if t.DisableEndpoint {
		text.WriteString("; the endpoint is disabled")
	}
	return text.String()
}

// Every file that ARCHITECTURE.md names must exist. The page has a budget of words, because a
// newcomer reads it first and completely.
func TestArchitectureNamesFilesThatExist(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`([a-z/]+[a-z]\\.(?:go|md|css|json))`").FindAllStringSubmatch(string(text), -1)
	if len(named) < 50 {
		t.Fatalf("it names %d files, too few to be true", len(named))
	}
	for _, name := range named {
		_, here := os.Stat(name[1])
		_, inside := os.Stat(filepath.Join("internal", name[1]))
		if here != nil && inside != nil {
			t.Errorf("there is no %s, and no internal/%[1]s", name[1])
		}
	}
	if words := len(strings.Fields(string(text))); words > 3000 {
		t.Errorf("it has %d words, 3,000 at most: what concerns one package belongs into its comment", words)
	}
}
