package browser_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// axe returns the source of axe-core, which npm installs into a folder of this
// run alone.
var axe = sync.OnceValues(func() (string, error) {
	folder, err := shared()
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
	npm := exec.Command("npm", "ci", "--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund")
	npm.Dir = folder
	if out, err := npm.CombinedOutput(); err != nil {
		return "", fmt.Errorf("install axe-core: %w\n%s", err, out)
	}
	source, err := os.ReadFile(filepath.Join(folder, "node_modules", "axe-core", "axe.min.js"))
	return string(source), err
})

// finding is what axe-core says about one rule.
type finding struct {
	ID, Impact, Help string
	Nodes            []struct {
		HTML           string
		FailureSummary string
	}
}

// barriers returns what axe-core finds on the page: what is serious or critical,
// and what is less.
func (tb *tab) barriers() (serious, minor []string) {
	tb.Helper()
	source, err := axe()
	if err != nil {
		tb.Fatal(err)
	}
	if !eval[bool](tb, "typeof axe == 'object'") {
		eval[any](tb, source+";0")
	}
	// axe-core would judge the colours of a transition, which lasts for 120 ms.
	eval[any](tb, "document.getAnimations().forEach((running) => running.finish())")
	found := eval[[]finding](tb, `axe.run(document, {resultTypes: ['violations']}).then(r => r.violations.map(v => ({
		ID: v.id, Impact: v.impact, Help: v.help,
		Nodes: v.nodes.slice(0, 5).map(n => ({HTML: n.html.slice(0, 300), FailureSummary: n.failureSummary}))})))`)
	for _, f := range found {
		text := f.Impact + " " + f.ID + ": " + f.Help
		for _, n := range f.Nodes {
			text += "\n  " + n.HTML + "\n    " + strings.ReplaceAll(n.FailureSummary, "\n", "\n    ")
		}
		if f.Impact == "serious" || f.Impact == "critical" {
			serious = append(serious, text)
		} else {
			minor = append(minor, text)
		}
	}
	return serious, minor
}
