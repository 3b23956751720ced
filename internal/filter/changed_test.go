package filter_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/filter"
)

func paths(t *testing.T, texts ...string) []filter.Path {
	t.Helper()
	p, err := filter.ParsePaths("changed", texts)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestChanged(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, path, previous, data string
		want                       bool
	}{
		{"another value", "$.status", `{"status": "open"}`, `{"status": "paid"}`, true},
		{"the same value", "$.status", `{"status": "open", "x": 1}`, `{"x": 2, "status": "\u006fpen"}`, false},
		{"another form of a number", "$.n", `{"n": 1.0}`, `{"n": 10e-1}`, false},
		{"a number beyond 2^53", "$.n", `{"n": 9007199254740993}`, `{"n": 9007199254740992}`, true},
		{"another type", "$.n", `{"n": 1}`, `{"n": "1"}`, true},
		{"true and false", "$.n", `{"n": true}`, `{"n": false}`, true},
		{"null and missing", "$.n", `{"n": null}`, `{}`, true},
		{"missing twice", "$.n", `{}`, `{"x": 1}`, false},
		{"the order of members", "$.o", `{"o": {"a": 1, "b": [null]}}`, `{"o": {"b": [null], "a": 1}}`, false},
		{"a member more", "$.o", `{"o": {"a": 1}}`, `{"o": {"b": null, "a": 1}}`, true},
		{"a member less", "$.o", `{"o": {"a": 1, "b": null}}`, `{"o": {"a": 1}}`, true},
		{"the order of elements", "$.l", `{"l": [1, 2]}`, `{"l": [2, 1]}`, true},
		{"an element more", "$.l", `{"l": [1]}`, `{"l": [1, 1]}`, true},
		{"an element", "$.l[1].id", `{"l": [{"id": 1}, {"id": 2}]}`, `{"l": [{"id": 0}, {"id": 2}]}`, false},
		{"an element that is new", "$.l[1].id", `{"l": [{"id": 1}]}`, `{"l": [{"id": 1}, {"id": 2}]}`, true},
		{"an index of an object", "$.l[0]", `{"l": {"0": 1}}`, `{"l": 5}`, false},
		{"a name of an array", "$.l.a", `{"l": [{"a": 1}]}`, `{"l": [{"a": 2}]}`, false},
		{"everything", "$", `{"a": 1}`, `{"a": 1, "b": 2}`, true},
		{"a value with spaces around", "$", ` [1] `, `[1]`, false},
		{"previous is not JSON", "$.a", `{"a"`, `{"a": 1}`, true},
		{"neither is JSON", "$", `{"a"`, `{"b"`, false},
		{"the last of two names", "$.o", `{"o": {"a": 1, "a": 2}}`, `{"o": {"a": 2}}`, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := paths(t, "$.nothing", tt.path)
			if got := filter.Changed(p, []byte(tt.previous), []byte(tt.data)); got != tt.want {
				t.Errorf("Changed reports %v, want %v", got, tt.want)
			}
			if got := filter.Changed(p, []byte(tt.data), []byte(tt.previous)); got != tt.want {
				t.Errorf("Changed reports %v the other way round, want %v", got, tt.want)
			}
		})
	}
}

func TestOverlap(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		path, changed string
		want          bool
	}{
		{"$.a.b", "$.a.b", true},
		{"$.a.b", "$.a", true},
		{"$.a.b", "$.a.b[0].c", true},
		{"$.a.b", "$", true},
		{"$.a.b", "$.a.c", false},
		{"$.a", "$.ab", false},
		{"$.a[0]", "$.a[1]", false},
		{"$.a[0]", "$.a.x", false},
	} {
		if got := filter.Overlap(paths(t, "$.other", tt.path), paths(t, "$.else", tt.changed)); got != tt.want {
			t.Errorf("%s and %s overlap: %v, want %v", tt.path, tt.changed, got, tt.want)
		}
	}
}

func TestParsePathsRefuses(t *testing.T) {
	t.Parallel()
	valid := []string{"$", "$.a", "$.$or", "$[0]", "$.a[10][0].b-c", "$.é", "$." + strings.Repeat("a", filter.MaxPathBytes-2)}
	if _, err := filter.ParsePaths("changed", valid); err != nil {
		t.Error(err)
	}
	invalid := []string{
		"", "a", ".a", "$a", "$.", "$..a", "$.a.", "$.a b", "$.*", "$[*]", "$[-1]", "$[01]", "$[+1]", "$[1", "$[]", "$.a]", "$['a']",
		"$[99999999999]", "$." + strings.Repeat("a", filter.MaxPathBytes-1),
	}
	_, err := filter.ParsePaths("changed", append(invalid, "$.fine"))
	var fields, want []string
	for _, fault := range postrider.Faults(err) {
		fields = append(fields, fault.Field)
	}
	for i := range invalid {
		want = append(want, fmt.Sprintf("changed[%d]", i))
	}
	if !slices.Equal(fields, want) {
		t.Errorf("faults of %v, want %v", fields, want)
	}
	if _, err = filter.ParsePaths("changed", slices.Repeat([]string{"$.a"}, filter.MaxPaths+1)); err == nil {
		t.Errorf("more than %d paths are valid", filter.MaxPaths)
	}
}
