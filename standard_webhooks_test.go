package postrider_test

import (
	"go/ast"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

var (
	namedTests   = regexp.MustCompile("`([a-z]+)(?:`, `[a-z]+`)*(?:`, `([a-z]+))?: ((?:Test|Fuzz)[A-Za-z0-9]+)`")
	namedScripts = regexp.MustCompile("`(cmd/postrider/testdata/script/[a-z0-9-]+\\.txtar)`")
)

// TestHouseDocumentsNameTestsThatExist looks up every test that is named in the pages about
// Standard Webhooks and about threats.
func TestHouseDocumentsNameTestsThatExist(t *testing.T) {
	t.Parallel()
	there := map[string]bool{}
	for _, f := range openHouse(t).files {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && f.test {
				there[testPackage(f)+": "+fn.Name.Name] = true
			}
		}
	}
	for _, page := range []string{"docs/standard-webhooks.md", "docs/threats.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		tests := namedTests.FindAllStringSubmatch(string(text), -1)
		if len(tests) < 40 {
			t.Errorf("%s names %d tests; is the pattern right?", page, len(tests))
		}
		for _, named := range tests {
			for _, label := range named[1:3] {
				if label != "" && !there[label+": "+named[3]] {
					t.Errorf("%s names %s: %s, which is not there", page, label, named[3])
				}
			}
		}
		for _, script := range namedScripts.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(script[1]); err != nil {
				t.Errorf("%s names %s: %v", page, script[1], err)
			}
		}
	}
}

// testPackage returns the name that the pages use for the package of a file.
func testPackage(f *houseFile) string {
	if f.folder == "" {
		return "postrider"
	}
	return path.Base(strings.TrimSuffix(f.folder, "/"))
}

// TestHouseStandardWebhooksRowsAreShown requires that each row of the page names a test, unless the
// platform has to follow the rule itself.
func TestHouseStandardWebhooksRowsAreShown(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("docs/standard-webhooks.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| section |") {
			continue
		}
		rows++
		if len(cells) < 3 || !strings.HasPrefix(cells[2], "**Yours**") && !namedTests.MatchString(line) && !namedScripts.MatchString(line) {
			t.Errorf("no test shows: %s", line)
		}
	}
	if rows < 40 {
		t.Errorf("the page has %d rows", rows)
	}
}
