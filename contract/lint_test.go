package contract_test

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestLintersFindNothing runs Spectral with its ruleset for OpenAPI and Redocly
// with its recommended one. Not even a hint may remain.
func TestLintersFindNothing(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for _, name := range []string{"package.json", "package-lock.json", "spectral.yaml"} {
		place(t, name, filepath.Join(folder, name))
	}
	place(t, documentFile, filepath.Join(folder, "openapi.json"))
	output(t, command(t, folder, "npm", "ci", "--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund"))
	bin := filepath.Join(folder, "node_modules", ".bin")
	t.Logf("Spectral: %s", output(t, command(t, folder, filepath.Join(bin, "spectral"), "lint", "--ruleset", "spectral.yaml",
		"--fail-severity", "hint", "openapi.json")))
	said := output(t, command(t, folder, filepath.Join(bin, "redocly"), "lint", "--extends", "recommended",
		"--max-problems", "100", "openapi.json"))
	t.Logf("Redocly: %s", said)
	if strings.Contains(said, "warning") { // for which Redocly does not fail
		t.Error("Redocly warns")
	}
}
