package app_test

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider/internal/app"
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

// TestThePackagesOfTheLevelsAreThoseThatLog compares the packages that the setting knows with
// those that app gives a log, and with the help.
func TestThePackagesOfTheLevelsAreThoseThatLog(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := []string{"app"}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range regexp.MustCompile(`logOf\([a-z.]+, "(\w+)"\)`).FindAllSubmatch(text, -1) {
			found = append(found, string(call[1]))
		}
	}
	slices.Sort(found)
	found = slices.Compact(found)
	if diff := cmp.Diff(app.Logged, found); diff != "" {
		t.Errorf("the setting's packages (-) and those that log (+) differ:\n%s", diff)
	}
	field, _ := reflect.TypeFor[app.Config]().FieldByName("LogLevel")
	for _, name := range found {
		if !regexp.MustCompile(`\b` + name + `\b`).MatchString(field.Tag.Get("help")) {
			t.Errorf("the help of --log-level does not name %s", name)
		}
	}
}

func TestALogOfAnotherMakerHasOneLevel(t *testing.T) {
	t.Parallel()
	config, _ := parse(t, map[string]string{"POSTRIDER_LOG_LEVEL": "error,dispatch=debug"})
	var text bytes.Buffer
	log := app.Logger(config, &text)
	log.Warn("unwanted")
	app.LogOf(log, "dispatch").With("with", "attr").WithGroup("group").Debug("wanted", "key", 1)
	app.LogOf(log, "ingest").With("with", "attr").WithGroup("group").Warn("unwanted")
	if got := text.String(); strings.Contains(got, "unwanted") || !strings.Contains(got, `"with":"attr","group":{"key":1}`) {
		t.Errorf("logged %s", got)
	}
}
