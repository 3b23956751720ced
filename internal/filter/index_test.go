package filter_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/postrider/postrider/internal/filter"
)

func found(x *filter.Index[string], data string) []string {
	keys := x.Match(&filter.Event{Type: "t", Data: []byte(data)}, math.MaxInt)
	slices.Sort(keys)
	return keys
}

func TestIndexFindsEachKindOfAnchor(t *testing.T) {
	t.Parallel()
	var x filter.Index[string]
	for key, pattern := range map[string]string{
		"value":         `{"data": {"a": ["x", "y"]}}`,
		"same pattern":  `{"data": {"a": ["x", "y"]}}`,
		"prefix":        `{"data": {"a": [{"prefix": "x"}, {"prefix": ""}, 5]}}`,
		"mixed":         `{"data": {"a": ["y", {"suffix": "x"}]}}`,
		"weak":          `{"data": {"b": [{"anything-but": "x"}]}}`,
		"deep":          `{"data": {"list": {"n": [1], "absent": [{"exists": false}]}}}`,
		"or":            `{"$or": [{"data": {"a": ["x"]}}, {"data": {"b": ["x"]}}]}`,
		"or without":    `{"$or": [{"data": {"a": ["q"]}}, {"data": {"b": [{"exists": false}]}}]}`,
		"never missing": `{"data": {"c": [{"exists": false}]}}`,
	} {
		x.Set(key, parse(t, pattern))
	}
	for _, tt := range []struct {
		data string
		want []string
	}{
		{`{"a": "x"}`, []string{"mixed", "never missing", "or", "or without", "prefix", "same pattern", "value"}},
		{`{"a": ["x", "y", "xx"], "b": "y", "c": 1}`, []string{"mixed", "or", "prefix", "same pattern", "value", "weak"}},
		{`{"a": 5, "b": "x", "c": 1}`, []string{"or", "prefix"}},
		{`{"b": 1, "c": 1, "list": [{"n": 2}, {"n": 1, "absent": 1}]}`, []string{"weak"}},
		{`{"b": "x", "c": 1, "list": [{"n": 2}, [{"n": 1.0}]]}`, []string{"deep", "or"}},
		{`no JSON`, []string{"never missing", "or without"}},
	} {
		if got := found(&x, tt.data); !slices.Equal(got, tt.want) {
			t.Errorf("%s: found %v, want %v", tt.data, got, tt.want)
		}
	}
}

func TestIndexReplacesAndRemoves(t *testing.T) {
	t.Parallel()
	var x filter.Index[string]
	x.Remove("nothing")
	patterns := []string{
		`{"data": {"a": ["x"]}}`, `{"data": {"a": [{"prefix": "x"}]}}`, `{"data": {"a": [{"suffix": "x"}]}}`,
		`{"data": {"z": [{"exists": false}]}}`,
	}
	for i, p := range patterns {
		x.Set(fmt.Sprint(i), parse(t, p))
		x.Set("moving", parse(t, p))
		if got := found(&x, `{"a": "x"}`); len(got) != i+2 {
			t.Errorf("found %v after %d patterns", got, i+1)
		}
	}
	x.Set("moving", parse(t, `{"data": {"a": ["y"]}}`))
	for i := range patterns {
		if got := found(&x, `{"a": "x"}`); len(got) != len(patterns)-i {
			t.Errorf("found %v after %d were removed", got, i)
		}
		x.Remove(fmt.Sprint(i))
	}
	if got := found(&x, `{"a": "y"}`); !slices.Equal(got, []string{"moving"}) {
		t.Errorf("found %v, want the one that is left", got)
	}
}

// The race detector checks this test.
func TestIndexIsForManyGoroutines(t *testing.T) {
	t.Parallel()
	var x filter.Index[string]
	x.Set("always", parse(t, `{"data": {"a": ["x"]}}`))
	p := parse(t, `{"data": {"a": ["x"], "b": [{"numeric": [">", 1]}]}}`)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for range 200 {
				x.Set(fmt.Sprint(i), p)
				if !slices.Contains(found(&x, `{"a": "x"}`), "always") {
					t.Error("does not find the pattern that is there")
				}
				x.Remove(fmt.Sprint(i))
			}
		})
	}
	all.Wait()
}

// hostile returns a pattern and data whose comparison takes long: 299 wildcards, and texts that none of
// them fits.
func hostile(t testing.TB, texts int) (*filter.Pattern, []byte) {
	t.Helper()
	var wildcards []string
	for i := range 299 {
		wildcards = append(wildcards, fmt.Sprintf(`{"wildcard": "a*b*%d"}`, i))
	}
	return parse(t, `{"data": {"a": [`+strings.Join(wildcards, ", ")+`]}}`),
		[]byte(`{"a": [` + strings.Repeat(`"aab", `, texts-1) + `"aab"]}`)
}

func TestComparisonsAreLimited(t *testing.T) {
	t.Parallel()
	p, data := hostile(t, 1000)
	var x filter.Index[int]
	x.Set(1, p)
	for _, tt := range []struct {
		units    int
		exceeded bool
	}{{300 * 1000, true}, {1 << 30, false}} {
		whole, indexed := filter.Event{Data: data}, filter.Event{Data: data}
		whole.Limit(tt.units)
		indexed.Limit(tt.units)
		if p.Matches(&whole) || whole.Exceeded() != tt.exceeded {
			t.Errorf("%d units: exceeded %v, want %v", tt.units, whole.Exceeded(), tt.exceeded)
		}
		if x.Match(&indexed, 1); indexed.Exceeded() != tt.exceeded {
			t.Errorf("%d units, with an index: exceeded %v, want %v", tt.units, indexed.Exceeded(), tt.exceeded)
		}
	}
}

// Elements that lack the field of a condition, and values that are compared with many prefixes, take units, too.
func TestPromise5ElementsAndPrefixesTakeUnits(t *testing.T) {
	t.Parallel()
	branches, prefixes := make([]string, 16), make([]string, 100)
	for i := range branches {
		branches[i] = fmt.Sprintf(`{"data": {"a": {"b%d": [1]}}}`, i)
	}
	for i := range prefixes {
		prefixes[i] = `{"prefix": "` + strings.Repeat("x", i+1) + `"}`
	}
	for name, tt := range map[string]struct{ pattern, data string }{
		"elements": {
			`{"$or": [` + strings.Join(branches, ", ") + `], "data": {"go": [1]}}`,
			`{"go": 1, "a": [{}` + strings.Repeat(`, {}`, 999) + `]}`,
		},
		"prefixes": {`{"data": {"a": [` + strings.Join(prefixes, ", ") + `]}}`, `{"a": ["y"` + strings.Repeat(`, "y"`, 999) + `]}`},
	} {
		var x filter.Index[int]
		x.Set(1, parse(t, tt.pattern))
		for units, exceeded := range map[int]bool{10_000: true, 1_000_000: false} {
			e := filter.Event{Data: []byte(tt.data)}
			e.Limit(units)
			if x.Match(&e, 1); e.Exceeded() != exceeded {
				t.Errorf("%s, %d units: exceeded %v, want %v", name, units, e.Exceeded(), exceeded)
			}
		}
	}
}

// BenchmarkUnits makes the comparisons of 1,000,000 units.
func BenchmarkUnits(b *testing.B) {
	p, data := hostile(b, 60_000)
	for b.Loop() {
		e := filter.Event{Data: data}
		e.Limit(1_000_000)
		p.Matches(&e)
	}
}
