package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	gocmp "github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write docs/operate/settings.md anew")

// settingsPage is the page that lists every setting. It is generated from the flags of the program:
//
//	go test ./cmd/postrider -run SettingsPage -update
const settingsPage = "../../docs/operate/settings.md"

const settingsIntro = `# Settings

This page is for operators. It is generated from the program: each row is a setting of ` + "`postrider serve`" + `.

A setting has one name in four places; the first one that has it counts:

| place | example |
|---|---|
| flag | ` + "`--drain-timeout 20s`" + ` |
| environment | ` + "`POSTRIDER_DRAIN_TIMEOUT=20s`" + `; an empty variable counts as not set |
| file of ` + "`--config`" + `, YAML | ` + "`drain-timeout: 20s`" + `, or nested: ` + "`drain: {timeout: 20s}`" + ` |
| default | |

A server reads its settings, and the files that they name, once at its start: **every change needs a restart**. ` +
	"`postrider config check`" + `
prints each setting, where it comes from, and every fault, with secrets masked; with a fault its exit status is 2. Run it with the
` + "`--config`" + ` and the variables of the server. What ` + "`--dev`" +
	` changes is in the server's first line of the log. Lists have commas between their
values, or are lists of YAML. Durations are like ` + "`90s`, `15m`, `24h` or `7d`" + `.

`

func TestSettingsPageIsGolden(t *testing.T) {
	t.Parallel()
	parser, err := newParser(terminal{strings.NewReader(""), io.Discard, io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	var page strings.Builder
	page.WriteString(settingsIntro)
	serve := childOf(parser.Model.Node, "serve")
	var groups []string
	rows := map[string][]string{}
	for _, f := range serve.Flags {
		if f.Tag.Has("setting") {
			if !slices.Contains(groups, f.Group.Key) {
				groups = append(groups, f.Group.Key)
			}
			rows[f.Group.Key] = append(rows[f.Group.Key], settingRow(f, "POSTRIDER_"+strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))))
		}
	}
	for _, group := range groups {
		fmt.Fprintf(&page, "## %s\n\n| setting | variable | unit | default | meaning |\n|---|---|---|---|---|\n%s\n", group,
			strings.Join(rows[group], ""))
		if group == "Store" {
			fmt.Fprintf(&page, "%s read the settings of this group too, and %s read all settings of a server.\n\n",
				commandsWith(parser.Model.Node, "data-dir", "listen"), commandsWith(parser.Model.Node, "listen", ""))
		}
	}
	page.WriteString("## Commands that call a server\n\nThey read these variables, and no file:\n\n| flag | variable | unit | default | meaning |\n|---|---|---|---|---|\n")
	for _, f := range childOf(childOf(parser.Model.Node, "events"), "list").Flags {
		if len(f.Envs) > 0 {
			page.WriteString(settingRow(f, f.Envs[0]))
		}
	}
	page.WriteString("| | `POSTRIDER_API_KEY` | text | | The API key itself. There is no flag for it, because every user of the machine can read a command line. |\n")
	if *update {
		if err := os.WriteFile(settingsPage, []byte(page.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(settingsPage)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(string(want), page.String()); diff != "" {
		t.Errorf("%s differs from the program; run: go test ./cmd/postrider -run SettingsPage -update (-want +got):\n%s", settingsPage, diff)
	}
}

// settingRow returns the row of a flag.
func settingRow(f *kong.Flag, variable string) string {
	help := strings.ReplaceAll(strings.TrimSpace(f.Help), "|", "\\|")
	standard := ""
	if f.HasDefault && f.Default != "" {
		standard = "`" + f.Default + "`"
	} else if f.Target.Kind() == reflect.Bool {
		standard = "`false`"
	}
	return fmt.Sprintf("| `--%s` | `%s` | %s | %s | %s |\n", f.Name, variable, unitOf(f), standard, help)
}

// unitOf returns the kind of a flag's value.
func unitOf(f *kong.Flag) string {
	switch kind := f.Target.Type(); {
	case kind == reflect.TypeFor[time.Duration]():
		return "duration"
	case kind.Kind() == reflect.Bool:
		return "true or false"
	case kind.Kind() == reflect.Slice:
		return "list"
	case kind.Kind() == reflect.String && strings.ToUpper(f.PlaceHolder) == f.PlaceHolder:
		return strings.ToLower(cmp.Or(f.PlaceHolder, "text"))
	case kind.Kind() == reflect.String:
		return "text"
	case strings.Contains(strings.ToLower(f.Help), "bytes"):
		return "bytes"
	case strings.HasPrefix(f.Help, "Percentage"):
		return "percent"
	}
	return "number"
}

// commandsWith returns the commands besides serve that have the setting, but not the setting
// without.
func commandsWith(node *kong.Node, setting, without string) string {
	var names []string
	for _, leaf := range node.Leaves(true) {
		has := func(name string) bool {
			return slices.ContainsFunc(leaf.Flags, func(f *kong.Flag) bool { return f.Name == name && f.Tag.Has("setting") })
		}
		if has(setting) && !has(without) && leaf.Name != "serve" {
			names = append(names, "`postrider "+strings.TrimPrefix(leaf.FullPath(), "postrider ")+"`")
		}
	}
	if n := len(names) - 1; n > 0 {
		return strings.Join(names[:n], ", ") + " and " + names[n]
	}
	return strings.Join(names, "")
}
