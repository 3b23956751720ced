package config_test

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

	"github.com/postrider/postrider/internal/config"
	"github.com/postrider/postrider/internal/config/configtest"
)

// TestThePackagesOfTheLevelsAreThoseThatLog compares the packages that the setting accepts with the
// packages to which app gives a logger, and with the help text.
func TestThePackagesOfTheLevelsAreThoseThatLog(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../app/*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := []string{"app"}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range regexp.MustCompile(`[lL]ogOf\((?:log, )?"(\w+)"\)`).FindAllSubmatch(text, -1) {
			found = append(found, string(call[1]))
		}
	}
	slices.Sort(found)
	found = slices.Compact(found)
	if diff := cmp.Diff(config.Logged, found); diff != "" {
		t.Errorf("the setting's packages (-) and those that log (+) differ:\n%s", diff)
	}
	field, _ := reflect.TypeFor[config.Config]().FieldByName("LogLevel")
	for _, name := range found {
		if !regexp.MustCompile(`\b` + name + `\b`).MatchString(field.Tag.Get("help")) {
			t.Errorf("the help of --log-level does not name %s", name)
		}
	}
}

func TestALogOfAnotherMakerHasOneLevel(t *testing.T) {
	t.Parallel()
	c, _ := configtest.Parse(t, map[string]string{"POSTRIDER_LOG_LEVEL": "error,dispatch=debug"})
	var text bytes.Buffer
	log := config.Logger(c, &text)
	log.Warn("unwanted")
	config.LogOf(log, "dispatch").With("with", "attr").WithGroup("group").Debug("wanted", "key", 1)
	config.LogOf(log, "ingest").With("with", "attr").WithGroup("group").Warn("unwanted")
	if got := text.String(); strings.Contains(got, "unwanted") || !strings.Contains(got, `"with":"attr","group":{"key":1}`) {
		t.Errorf("logged %s", got)
	}
}
