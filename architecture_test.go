package postrider_test

import (
	"flag"
	"fmt"
	"os"
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

// The state machine that ARCHITECTURE.md shows is the table that the code is
// tested with. After a change: go test . -run ArchitectureTable -update.
func TestArchitectureTableIsTheTestedOne(t *testing.T) {
	t.Parallel()
	const file = "ARCHITECTURE.md"
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
