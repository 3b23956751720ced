package postrider_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	adrStatus     = regexp.MustCompile(`(?m)^Status: .*$`)
	adrSupersedes = regexp.MustCompile(`Supersedes [^.]*?\[?(?:ADR )?(\d+)\b`)
)

// The reader of a decision must learn if it no longer holds. The later decision names the earlier
// one in its status, and the earlier one names the later one.
func TestSupersededDecisionsSaySo(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("docs/adr/[0-9]*.md")
	if err != nil || len(files) == 0 {
		t.Fatalf("docs/adr: %d decisions, %v", len(files), err)
	}
	statuses := map[string]string{} // by number, such as "7"
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		statuses[adrNumber(file)] = adrStatus.FindString(string(text))
	}
	found := 0
	for later, status := range statuses {
		if status == "" {
			t.Errorf("decision %s has no status", later)
		}
		for _, m := range adrSupersedes.FindAllStringSubmatch(status, -1) {
			found++
			says := regexp.MustCompile(fmt.Sprintf(`(?i)superseded .*\b%s\b`, later))
			if !says.MatchString(statuses[m[1]]) {
				t.Errorf("decision %s supersedes %s, whose status does not say so: %q", later, m[1], statuses[m[1]])
			}
		}
	}
	if found == 0 {
		t.Error("no decision supersedes another")
	}
}

// adrNumber returns the number in the file name of a decision, without leading zeros.
func adrNumber(file string) string {
	return strings.TrimLeft(strings.SplitN(filepath.Base(file), "-", 2)[0], "0")
}
