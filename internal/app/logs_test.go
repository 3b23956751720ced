package app_test

import (
	"strings"
	"testing"
)

// TestEachPackageHasItsLevel runs a server whose API logs more than the rest, and whose store
// logs less.
func TestEachPackageHasItsLevel(t *testing.T) {
	t.Parallel()
	r := startWith(t, t.TempDir(), map[string]string{"POSTRIDER_LOG_LEVEL": "warn,api=info,secrets=error"})
	if _, err := r.api.Nodes(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	log := r.log.String()
	if !strings.Contains(log, "request answered") {
		t.Errorf("the API has no lines:\n%s", log)
	}
	for _, line := range []string{"postrider starts", "encryption keys are loaded", "store is open"} {
		if strings.Contains(log, line) {
			t.Errorf("%q is logged:\n%s", line, log)
		}
	}
}
