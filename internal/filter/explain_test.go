package filter_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider/internal/filter"
)

func TestExplain(t *testing.T) {
	t.Parallel()
	got := parse(t, `{
		"type": [{"prefix": "order."}],
		"channels": [ "eu", "us" ],
		"metadata": {"a.b": ["1"], "none": [{"exists": false}]},
		"data": {
			"customer": ["c1"], "total": [{"numeric": [">", 5]}],
			"items": {"sku": ["A"], "count": [2]},
			"$or": [{"x": [1]}, {"y": ["<&>"]}]
		}
	}`).Explain(&filter.Event{
		Type: "order.paid", Channels: []string{"eu", "sh<op"}, Metadata: map[string]string{"a.b": "2"},
		Data: []byte(`{"customer": {"id": 1}, "total": 7.50, "y": "<&>", "items": [7, {"sku": "B", "count": 1}, [{"sku": "A", "count": 1}]]}`),
	})
	want := filter.Explanation{Conditions: []filter.Condition{
		{Path: "type", Root: "type", JSON: `[{"prefix":"order."}]`, Holds: true, Found: `"order.paid"`},
		{Path: "channels", Root: "channels", JSON: `["eu","us"]`, Holds: true, Found: `["eu","sh<op"]`},
		{Path: `metadata["a.b"]`, Root: "metadata", JSON: `["1"]`, Found: `"2"`},
		{Path: "metadata.none", Root: "metadata", JSON: `[{"exists":false}]`, Holds: true},
		{Path: "data.customer", Root: "data", JSON: `["c1"]`, Found: `{"id": 1}`},
		{Path: "data.total", Root: "data", JSON: `[{"numeric":[">",5]}]`, Holds: true, Found: `7.50`},
		{Path: "data.items.sku", Root: "data", JSON: `["A"]`, Holds: true, Found: `"A"`},
		{Path: "data.items.count", Root: "data", JSON: `[2]`, Found: `1`},
		{Path: "data.$or[0].x", Root: "data", JSON: `[1]`},
		{Path: "data.$or[1].y", Root: "data", JSON: `["<&>"]`, Holds: true, Found: `"<&>"`},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestExplainSaysIfConditionsHoldApart(t *testing.T) {
	t.Parallel()
	p := parse(t, `{"data": {"list": {"a": [1]}, "$or": [{"list": {"b": [1]}}, {"c": [1]}]}}`)
	for data, want := range map[string][2]bool{
		`{"list": [{"a": 1}, {"b": 1}]}`:         {false, true},
		`{"list": [{"a": 1}, {"b": 2}]}`:         {false, false},
		`{"list": [{"a": 1}, {"a": 1, "b": 1}]}`: {true, false},
	} {
		e := p.Explain(&filter.Event{Data: []byte(data)})
		if got := [2]bool{e.Matches, e.Apart}; got != want {
			t.Errorf("%s: matches and apart are %v, want %v", data, got, want)
		}
	}
}

func TestExplainCutsWhatItFound(t *testing.T) {
	t.Parallel()
	whole := `"` + strings.Repeat("é", 127) + `"` // 256 bytes
	for found, want := range map[string]string{
		whole:                                  whole,
		`"x` + strings.Repeat("é", 127) + `"`:  `"x` + strings.Repeat("é", 125) + "…",
		`"xy` + strings.Repeat("é", 127) + `"`: `"xy` + strings.Repeat("é", 125) + "…",
	} {
		e := parse(t, `{"data": ["a"]}`).Explain(&filter.Event{Data: []byte(found)})
		if got := e.Conditions[0].Found; got != want || len(got) > filter.MaxFound {
			t.Errorf("found %d bytes: %s, want %s", len(got), got, want)
		}
	}
}
