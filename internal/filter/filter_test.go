package filter_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/filter"
)

// matches reports whether the pattern holds for the data.
func matches(t *testing.T, pattern, data string) bool {
	t.Helper()
	return parse(t, pattern).Matches(&filter.Event{Data: []byte(data)})
}

// The patterns have the form of those in the documentation of Amazon EventBridge, with data instead of
// detail.
func TestPatternsOfEventBridge(t *testing.T) {
	t.Parallel()
	const data = `{"state": "running", "c-count": 5, "d-count": 3, "x-limit": 301.8, "source-ip": "10.0.0.33", "ip6": "2001:db8::17",
		"service": "EventBridge", "FileName": "dir/picture.PNG", "FilePath": "src/lib/main.c", "empty": "", "nothing": null, "flag": true,
		"time": "2017-10-02T18:43:48Z", "resources": ["arn:1", "arn:2"], "Location": "New York", "Day": "Monday", "a*b": "a*b\\c"}`
	for _, tt := range []struct {
		pattern string // the object for data
		want    bool
	}{
		{`{"Location": ["New York"], "Day": ["Monday"]}`, true},
		{`{"Location": ["New York"], "Day": ["Tuesday"]}`, false},
		{`{"state": ["initializing", "running"]}`, true},
		{`{"time": [{"prefix": "2017-10-02"}]}`, true},
		{`{"time": [{"prefix": "2018"}]}`, false},
		{`{"service": [{"prefix": {"equals-ignore-case": "eventB"}}]}`, true},
		{`{"FileName": [{"suffix": ".PNG"}]}`, true},
		{`{"FileName": [{"suffix": ".png"}]}`, false},
		{`{"FileName": [{"suffix": {"equals-ignore-case": ".png"}}]}`, true},
		{`{"service": [{"equals-ignore-case": "eventbridge"}]}`, true},
		{`{"state": [{"anything-but": "initializing"}]}`, true},
		{`{"state": [{"anything-but": "running"}]}`, false},
		{`{"x-limit": [{"anything-but": 123}]}`, true},
		{`{"x-limit": [{"anything-but": 301.80}]}`, false},
		{`{"state": [{"anything-but": ["stopped", "overloaded"]}]}`, true},
		{`{"x-limit": [{"anything-but": [100, 200, 300]}]}`, true},
		{`{"state": [{"anything-but": {"equals-ignore-case": "RUNNING"}}]}`, false},
		{`{"state": [{"anything-but": {"equals-ignore-case": ["initializing", "Stopped"]}}]}`, true},
		{`{"state": [{"anything-but": {"prefix": "init"}}]}`, true},
		{`{"state": [{"anything-but": {"prefix": ["init", "run"]}}]}`, false},
		{`{"FileName": [{"anything-but": {"suffix": ".txt"}}]}`, true},
		{`{"FileName": [{"anything-but": {"suffix": [".txt", ".PNG"]}}]}`, false},
		{`{"FilePath": [{"anything-but": {"wildcard": "*/lib/*"}}]}`, false},
		{`{"FilePath": [{"anything-but": {"wildcard": ["*/bin/*", "*/doc/*"]}}]}`, true},
		{`{"c-count": [{"numeric": [">", 0, "<=", 5]}], "d-count": [{"numeric": ["<", 10]}], "x-limit": [{"numeric": ["=", 3.018e2]}]}`, true},
		{`{"c-count": [{"numeric": [">", 5]}]}`, false},
		{`{"source-ip": [{"cidr": "10.0.0.0/24"}]}`, true},
		{`{"source-ip": [{"cidr": "10.0.1.0/24"}]}`, false},
		{`{"ip6": [{"cidr": "2001:db8::/32"}]}`, true},
		{`{"state": [{"exists": true}]}`, true},
		{`{"absent": [{"exists": true}]}`, false},
		{`{"absent": [{"exists": false}]}`, true},
		{`{"empty": [""]}`, true},
		{`{"nothing": [null]}`, true},
		{`{"empty": [null]}`, false},
		{`{"flag": [true]}`, true},
		{`{"resources": ["arn:2", "arn:3"]}`, true},
		{`{"FileName": [{"wildcard": "dir/*.PNG"}]}`, true},
		{`{"a*b": [{"wildcard": "a\\*b\\\\*"}]}`, true},
		{`{"a*b": [{"wildcard": "a\\*c*"}]}`, false},
		{`{"$or": [{"c-count": [{"numeric": [">", 9]}]}, {"d-count": [{"numeric": ["<", 10]}]}, {"x-limit": [1]}]}`, true},
		{`{"$or": [{"c-count": [{"numeric": [">", 9]}]}, {"d-count": [{"numeric": ["<", 1]}]}]}`, false},
		{`{"state": ["running"], "$or": [{"Day": ["Sunday"]}, {"Day": ["Monday"], "$or": [{"flag": [false]}, {"c-count": [5]}]}]}`, true},
	} {
		t.Run(tt.pattern, func(t *testing.T) {
			t.Parallel()
			if got := matches(t, `{"data": `+tt.pattern+`}`, data); got != tt.want {
				t.Errorf("matches %v, want %v", got, tt.want)
			}
		})
	}
}

// Each row has the values of data.f for which a condition holds. It holds for no other of the list.
func TestOperatorsAtTheirEdges(t *testing.T) {
	t.Parallel()
	values := []string{
		`-`, `null`, `true`, `false`, `0`, `-0.0`, `1`, `1.0`, `10e-1`, `2`, `"1"`, `""`, `"a"`, `"A"`, `"ab"`, `"ba"`, `"É"`, `"\u00e9"`,
		`"10.0.0.1"`, `"::ffff:10.0.0.1"`, `"2001:db8::1"`, `{}`, `{"a": 1}`, `[]`, `[[], {}]`, `["a", 1]`, `[[["a"]]]`, `["b", null]`,
	}
	one := []string{`1`, `1.0`, `10e-1`, `["a", 1]`}
	texts := []string{
		`"1"`, `""`, `"a"`, `"A"`, `"ab"`, `"ba"`, `"É"`, `"\u00e9"`, `"10.0.0.1"`, `"::ffff:10.0.0.1"`, `"2001:db8::1"`,
		`["a", 1]`, `[[["a"]]]`, `["b", null]`,
	}
	missing := []string{`-`, `{}`, `{"a": 1}`, `[]`, `[[], {}]`}
	but := func(all []string, some ...string) (rest []string) {
		for _, v := range all {
			if !slices.Contains(some, v) {
				rest = append(rest, v)
			}
		}
		return rest
	}
	there := but(values, missing...)
	for _, tt := range []struct {
		condition string
		want      []string
	}{
		{`null`, []string{`null`, `["b", null]`}},
		{`true`, []string{`true`}},
		{`false`, []string{`false`}},
		{`0`, []string{`0`, `-0.0`}},
		{`1.00`, one},
		{`"1"`, []string{`"1"`}},
		{`"a"`, []string{`"a"`, `["a", 1]`, `[[["a"]]]`}},
		{`""`, []string{`""`}},
		{`{"exists": true}`, there},
		{`{"exists": false}`, missing},
		{`{"prefix": ""}`, texts},
		{`{"prefix": "a"}`, []string{`"a"`, `"ab"`, `["a", 1]`, `[[["a"]]]`}},
		{`{"suffix": "a"}`, []string{`"a"`, `"ba"`, `["a", 1]`, `[[["a"]]]`}},
		{`{"prefix": {"equals-ignore-case": "a"}}`, []string{`"a"`, `"A"`, `"ab"`, `["a", 1]`, `[[["a"]]]`}},
		{`{"suffix": {"equals-ignore-case": "É"}}`, []string{`"É"`, `"\u00e9"`}},
		{`{"equals-ignore-case": "é"}`, []string{`"É"`, `"\u00e9"`}},
		{`{"wildcard": "*"}`, texts},
		{`{"wildcard": "a*"}`, []string{`"a"`, `"ab"`, `["a", 1]`, `[[["a"]]]`}},
		{`{"wildcard": "*a*b*"}`, []string{`"ab"`}},
		{`{"numeric": ["=", 1]}`, one},
		{`{"numeric": [">", 0]}`, append([]string{`2`}, one...)},
		{`{"numeric": ["<", 1]}`, []string{`0`, `-0.0`}},
		{`{"numeric": [">=", 1, "<", 2]}`, one},
		{`{"cidr": "10.0.0.9/8"}`, []string{`"10.0.0.1"`, `"::ffff:10.0.0.1"`}},
		{`{"cidr": "2001:db8::/127"}`, []string{`"2001:db8::1"`}},
		{`{"cidr": "::/0"}`, []string{`"2001:db8::1"`}},
		{`{"anything-but": "a"}`, but(there, `"a"`, `[[["a"]]]`)},
		{`{"anything-but": 1}`, but(there, `1`, `1.0`, `10e-1`)},
		{`{"anything-but": ["a", "ab"]}`, but(there, `"a"`, `"ab"`, `[[["a"]]]`)},
		{`{"anything-but": {"prefix": "a"}}`, but(there, `"a"`, `"ab"`, `[[["a"]]]`)},
		{`{"anything-but": {"suffix": "a"}}`, but(there, `"a"`, `"ba"`, `[[["a"]]]`)},
		{`{"anything-but": {"equals-ignore-case": "A"}}`, but(there, `"a"`, `"A"`, `[[["a"]]]`)},
		{`{"anything-but": {"wildcard": "*b"}}`, but(there, `"ab"`)},
		{`"a", {"exists": false}`, append([]string{`"a"`, `["a", 1]`, `[[["a"]]]`}, missing...)},
	} {
		t.Run(tt.condition, func(t *testing.T) {
			t.Parallel()
			for _, v := range values {
				data := `{"f": ` + v + `}`
				if v == "-" {
					data = `{}`
				}
				if got, want := matches(t, `{"data": {"f": [`+tt.condition+`]}}`, data), slices.Contains(tt.want, v); got != want {
					t.Errorf("%s: holds %v, want %v", v, got, want)
				}
			}
		})
	}
}

func TestNumbersAreDecimals(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ condition, value, want string }{
		{`9007199254740993`, `9007199254740992`, "no"},
		{`9007199254740993`, `9007199254740993.0`, "yes"},
		{`{"numeric": [">", 9007199254740992]}`, `9007199254740993`, "yes"},
		{`{"anything-but": 0.1}`, `0.1000000000000000055`, "yes"},
		{`100`, `1E2`, "yes"},
		{`0.05`, `5e-2`, "yes"},
		{`-1.5`, `-15e-1`, "yes"},
		{`-1.5`, `1.5`, "no"},
		{`{"numeric": ["<", -1]}`, `-1.0001`, "yes"},
		{`{"numeric": ["<", -1]}`, `-0.9`, "no"},
		{`{"numeric": [">", -1, "<", 0]}`, `-1e-400`, "yes"},
		{`{"numeric": [">", 1e400]}`, `2e400`, "yes"},
		{`{"numeric": ["<", 12]}`, `2`, "yes"},
		{`{"numeric": [">", 1.25]}`, `1.3`, "yes"},
		{`0`, `0e99999999999999999999`, "yes"},
		{`{"numeric": [">", 1]}`, `1e99999999999999999999`, "yes"},
	} {
		got := matches(t, `{"data": {"f": [`+tt.condition+`]}}`, `{"f": `+tt.value+` }`)
		if got != (tt.want == "yes") {
			t.Errorf("[%s] holds for %s: %v, want %s", tt.condition, tt.value, got, tt.want)
		}
	}
}

func TestCaseIsFoldedAsUnicodeSays(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ operand, value, want string }{
		{"straße", "STRASSE", "no"},
		{"straße", "STRAẞE", "yes"},
		{"kelvin", "\u212aELVIN", "yes"}, // the sign for kelvin has three bytes
		{"\u212a", "k", "yes"},
		{"ΣΑΣ", "σας", "yes"},
		{"i", "İ", "no"},
	} {
		for _, form := range []string{
			`{"equals-ignore-case": %q}`, `{"prefix": {"equals-ignore-case": %q}}`, `{"suffix": {"equals-ignore-case": %q}}`,
		} {
			condition := fmt.Sprintf(form, tt.operand)
			if got := matches(t, `{"data": {"f": [`+condition+`]}}`, fmt.Sprintf(`{"f": %q}`, tt.value)); got != (tt.want == "yes") {
				t.Errorf("[%s] holds for %s: %v, want %s", condition, tt.value, got, tt.want)
			}
		}
	}
}

// The conditions of one object of the pattern hold for one object of the event.
func TestArraysOfObjects(t *testing.T) {
	t.Parallel()
	const people = `{"people": [{"first": "Ann", "last": "Lee"}, [{"first": "Bob", "last": "Ray", "tags": ["x", "y"]}], 7],
		"list": [1, [2, 3]], "rooms": [{"beds": [{"size": 1}, {"size": 2, "soft": true}]}, {"beds": [{"size": 3}], "floor": 4}]}`
	for _, tt := range []struct {
		name, pattern string
		want          bool
	}{
		{"one element has both", `{"people": {"first": ["Ann"], "last": ["Lee"]}}`, true},
		{"an element of a nested array has both", `{"people": {"first": ["Bob"], "last": ["Ray"], "tags": ["y"]}}`, true},
		{"two elements have one each", `{"people": {"first": ["Ann"], "last": ["Ray"]}}`, false},
		{"a field is missing in one element", `{"people": {"tags": [{"exists": false}], "first": ["Ann"]}}`, true},
		{"a field is missing in another element", `{"people": {"tags": [{"exists": false}], "first": ["Bob"]}}`, false},
		{"inner and outer array", `{"rooms": {"beds": {"size": [2], "soft": [true]}}}`, true},
		{"outer element differs", `{"rooms": {"beds": {"size": [2]}, "floor": [4]}}`, false},
		{"inner element differs", `{"rooms": {"beds": {"size": [1], "soft": [true]}}}`, false},
		{"no object in the array", `{"list": {"a": [{"exists": false}]}}`, true},
		{"a value where an object should be", `{"list": {"a": [1]}}`, false},
		{"no object at all", `{"nobody": {"a": {"b": [{"exists": false}]}}}`, true},
		{"a branch adds to the same element", `{"people": {"first": ["Ann"]}, "$or": [{"people": {"last": ["Ray"]}}, {"list": [9]}]}`, false},
		{"a branch holds in the same element", `{"people": {"first": ["Ann"]}, "$or": [{"people": {"last": ["Lee"]}}, {"list": [9]}]}`, true},
		{"another branch holds", `{"people": {"first": ["Ann"]}, "$or": [{"people": {"last": ["Ray"]}}, {"list": [3]}]}`, true},
		{
			"two $ors choose the same element",
			`{"$or": [{"people": {"first": ["Ann"]}}, {"people": {"first": ["Bob"]}}], "people": {"$or": [{"last": ["Ray"]}, {"last": ["No"]}]}}`, true,
		},
		{
			"two $ors need different elements",
			`{"$or": [{"people": {"first": ["Ann"]}}, {"people": {"first": ["Eve"]}}], "people": {"$or": [{"last": ["Ray"]}, {"last": ["No"]}]}}`, false,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := matches(t, `{"data": `+tt.pattern+`}`, people); got != tt.want {
				t.Errorf("matches %v, want %v", got, tt.want)
			}
		})
	}
}

func TestFieldsOfAnEvent(t *testing.T) {
	t.Parallel()
	whole := filter.Event{
		Data: []byte(" \"text\" "), Type: "order.paid", Subject: "42", Channels: []string{"eu", "shop"},
		Metadata: map[string]string{"a.b": "1"}, Internal: map[string]string{"plan": "gold"},
	}
	for _, tt := range []struct {
		name, pattern string
		event         filter.Event
		want          bool
	}{
		{"data that is a string", `{"data": ["text"]}`, whole, true},
		{"type", `{"type": [{"prefix": "order."}]}`, whole, true},
		{"subject is a string", `{"subject": [42]}`, whole, false},
		{"channels", `{"channels": ["shop"]}`, whole, true},
		{"a name with a dot", `{"metadata": {"a.b": ["1"]}}`, whole, true},
		{"internal", `{"internal": {"plan": ["gold"]}, "$or": [{"type": ["x"]}, {"metadata": {"c": [{"exists": false}]}}]}`, whole, true},
		{"what is zero is missing", `{"type": [{"exists": false}], "subject": [{"exists": false}], "channels": [{"exists": false}],
			"data": [{"exists": false}], "metadata": {"a": [{"exists": false}]}}`, filter.Event{}, true},
		{"data that is not JSON", `{"data": {"a": [{"exists": false}]}}`, filter.Event{Data: []byte(`{"a": 1`)}, true},
		{"the last one of two names", `{"data": {"a": [2]}}`, filter.Event{Data: []byte(`{"a": 1, "a": 2}`)}, true},
		{"the first one of two names", `{"data": {"a": [1]}}`, filter.Event{Data: []byte(`{"a": 1, "\u0061": 2}`)}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := parse(t, tt.pattern).Matches(&tt.event); got != tt.want {
				t.Errorf("matches %v, want %v", got, tt.want)
			}
		})
	}
}

// Objects with many members and conditions with many values are searched in another way.
func TestLargeObjectsAndConditions(t *testing.T) {
	t.Parallel()
	var members []string
	for i := range 100 {
		members = append(members, fmt.Sprintf(`"f%d": %d`, i, i))
	}
	data := `{` + strings.Join(append(members, `"f7": "last"`), ", ") + `}`
	for pattern, want := range map[string]bool{
		`{"f99": [99]}`:    true,
		`{"f100": [100]}`:  false,
		`{"f7": ["last"]}`: true,
		`{"f7": [7]}`:      false,
		`{"f8": [1, 2, 3, 4, 5, 6, 7, 80e-1, 9, 10]}`:                 true,
		`{"f8": [1, 2, 3, 4, 5, 6, 7, "8", 9, 10]}`:                   false,
		`{"f8": [1, 2, 3, 4, 5, 6, 7, 9, 10, {"numeric": [">", 7]}]}`: true,
	} {
		if got := matches(t, `{"data": `+pattern+`}`, data); got != want {
			t.Errorf("%s matches %v, want %v", pattern, got, want)
		}
	}
}
