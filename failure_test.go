package postrider_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider"
)

// TestFailuresAreDocumented compares Failures with the table that the owners of endpoints read.
func TestFailuresAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("docs/operate/endpoints.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "| `error` | what happened |\n|---|---|\n")
	table, _, ended := strings.Cut(table, "\n\n")
	if !found || !ended {
		t.Fatal("docs/operate/endpoints.md has no table of errors")
	}
	var documented []postrider.Failure
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| .+ \\|$").FindAllStringSubmatch(table, -1) {
		documented = append(documented, postrider.Failure(row[1]))
	}
	if diff := cmp.Diff(postrider.Failures, documented); diff != "" {
		t.Errorf("the table (-in the code +documented):\n%s", diff)
	}
}

// TestMessageFailuresAreDocumented requires a row for each failure that only messages have.
func TestMessageFailuresAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("docs/operate/mail.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, failure := range postrider.MessageFailures {
		if !strings.Contains(string(text), "\n| `"+string(failure)+"` | ") {
			t.Errorf("docs/operate/mail.md has no row for %s", failure)
		}
	}
}
