package postrider_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/postrider/postrider"
)

func TestParsePath(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]postrider.PathStep{
		"$":               nil,
		"$.order.number":  {{Name: "order"}, {Name: "number"}},
		"$.items[0].id":   {{Name: "items"}, {Index: 0}, {Name: "id"}},
		"$[3][10]":        {{Index: 3}, {Index: 10}},
		"$.größe.x-y_z/1": {{Name: "größe"}, {Name: "x-y_z/1"}},
	} {
		if got, err := postrider.ParsePath("path", text); err != nil || got.Text != text || !slices.Equal(got.Steps, want) {
			t.Errorf("%s: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "order", "$order", "$.", "$..a", "$.a[", "$.a[]", "$.a[-1]", "$.a[01]", "$.a[*]", "$.*", "$.a b", "$.a=b", "$.a\x00",
		"$['a']", "$.a.", "$[+1]", "$[1", "$.a]", "$.a\n", "$.\xff", "$.\u0085", "$.a[99999999999]", "$." + strings.Repeat("a", postrider.MaxPathBytes),
	} {
		if _, err := postrider.ParsePath("path", text); !errors.Is(err, postrider.ErrInvalid) {
			t.Errorf("%q is accepted: %v", text, err)
		}
	}
}

func TestIndexedPathsAreChecked(t *testing.T) {
	t.Parallel()
	if err := postrider.CheckIndexedPaths("paths", []string{"$.a", "$.b"}); err != nil {
		t.Error(err)
	}
	var fields []string
	for _, f := range postrider.Faults(postrider.CheckIndexedPaths("paths", []string{"$.a", "b", "$.a"})) {
		fields = append(fields, f.Field)
	}
	if !slices.Equal(fields, []string{"paths[1]", "paths[2]"}) {
		t.Errorf("the faults are %v", fields)
	}
	many := postrider.Faults(postrider.CheckIndexedPaths("paths", []string{"$.a", "$.b", "$.c", "$.d", "$.e", "$.f"}))
	if len(many) != 1 || many[0].Code != postrider.FaultWrongCount || many[0].Max != postrider.MaxIndexedPaths {
		t.Errorf("six paths: %v", many)
	}
}
