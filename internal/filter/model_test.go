package filter_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/big"
	"math/rand/v2"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/filter"
)

// The model is a second implementation, for small inputs: it writes out every combination of branches,
// merges the conditions of each by their paths, and compares them by the simplest means.

// modelMatches reports whether one combination holds for the event.
func modelMatches(all []*merged, event any) bool {
	return slices.ContainsFunc(all, func(m *merged) bool { return modelHolds(m, event) })
}

// A merged object has by name a []any of conditions (each a []any), and a merged object, or nil.
type merged struct {
	conditions map[string][][]any
	objects    map[string]*merged
}

// combinations returns the merged objects of all combinations of branches.
func combinations(pattern map[string]any) []*merged {
	all := []*merged{{}}
	for _, name := range slices.Sorted(maps.Keys(pattern)) {
		var options []*merged
		switch v := pattern[name].(type) {
		case map[string]any:
			for _, inner := range combinations(v) {
				options = append(options, &merged{objects: map[string]*merged{name: inner}})
			}
		case []any:
			if name != "$or" {
				options = []*merged{{conditions: map[string][][]any{name: {v}}}}
				break
			}
			for _, branch := range v {
				options = append(options, combinations(branch.(map[string]any))...)
			}
		}
		var next []*merged
		for _, a := range all {
			for _, b := range options {
				next = append(next, merge(a, b))
			}
		}
		all = next
	}
	return all
}

func merge(a, b *merged) *merged {
	m := &merged{conditions: map[string][][]any{}, objects: map[string]*merged{}}
	for _, from := range []*merged{a, b} {
		for name, conditions := range from.conditions {
			m.conditions[name] = append(slices.Clone(m.conditions[name]), conditions...)
		}
		for name, object := range from.objects {
			if m.objects[name] != nil {
				object = merge(m.objects[name], object)
			}
			m.objects[name] = object
		}
	}
	return m
}

// elements returns what is in a value and in arrays in it: objects, or what is no object.
func elements(v any, objects bool) (found []any) {
	if list, ok := v.([]any); ok {
		for _, element := range list {
			found = append(found, elements(element, objects)...)
		}
		return found
	}
	if _, ok := v.(map[string]any); ok == objects {
		found = append(found, v)
	}
	return found
}

func modelHolds(m *merged, v any) bool {
	object, _ := v.(map[string]any)
	for name, conditions := range m.conditions {
		var values []any
		if field, ok := object[name]; ok {
			values = elements(field, false)
		}
		for _, condition := range conditions {
			if !modelCondition(condition, values) {
				return false
			}
		}
	}
	for name, inner := range m.objects {
		candidates := elements(object[name], true)
		if len(candidates) == 0 {
			candidates = []any{nil}
		}
		if !slices.ContainsFunc(candidates, func(v any) bool { return modelHolds(inner, v) }) {
			return false
		}
	}
	return true
}

func modelCondition(condition, values []any) bool {
	return slices.ContainsFunc(condition, func(want any) bool {
		if operator, ok := want.(map[string]any); ok && operator["exists"] == false {
			return len(values) == 0
		}
		return slices.ContainsFunc(values, func(v any) bool { return modelValue(want, v) })
	})
}

// modelValue reports whether a value or an operator of a pattern holds for a value of an event.
func modelValue(want, v any) bool {
	operator, ok := want.(map[string]any)
	if !ok {
		a, isNumber := want.(json.Number)
		b, isAlso := v.(json.Number)
		return isNumber && isAlso && rational(a).Cmp(rational(b)) == 0 || !isNumber && want == v
	}
	for name, operand := range operator {
		text, isString := v.(string)
		switch name {
		case "exists":
			return true
		case "numeric":
			return modelNumeric(operand.([]any), v)
		case "anything-but":
			return !slices.ContainsFunc(refusals(operand), func(refused any) bool { return modelValue(refused, v) })
		case "cidr":
			_, block, err := net.ParseCIDR(operand.(string))
			ip := net.ParseIP(text)
			return isString && err == nil && ip != nil && block.Contains(ip)
		}
		return isString && modelRegexp(name, operand).MatchString(text)
	}
	return false
}

// refusals returns the operand of anything-but as a list of values or operators.
func refusals(operand any) (all []any) {
	switch operand := operand.(type) {
	case []any:
		return operand
	case map[string]any:
		for name, inner := range operand {
			for _, text := range refusals(inner) {
				all = append(all, map[string]any{name: text})
			}
		}
		return all
	}
	return []any{operand}
}

func modelNumeric(comparisons []any, v any) bool {
	n, ok := v.(json.Number)
	for i := 0; ok && i < len(comparisons); i += 2 {
		c := rational(n).Cmp(rational(comparisons[i+1].(json.Number)))
		ok = map[string]bool{"=": c == 0, "<": c < 0, "<=": c <= 0, ">": c > 0, ">=": c >= 0}[comparisons[i].(string)]
	}
	return ok
}

func rational(n json.Number) *big.Rat {
	r, ok := new(big.Rat).SetString(string(n))
	if !ok {
		panic(n)
	}
	return r
}

// modelRegexp returns an operator for strings as a regular expression.
func modelRegexp(name string, operand any) *regexp.Regexp {
	text, plain := operand.(string)
	flags := "(?s)"
	if !plain || name == "equals-ignore-case" {
		flags = "(?is)"
	}
	if !plain {
		text = operand.(map[string]any)["equals-ignore-case"].(string)
	}
	quoted := regexp.QuoteMeta(text)
	switch name {
	case "prefix":
		quoted += ".*"
	case "suffix":
		quoted = ".*" + quoted
	case "wildcard":
		quoted = strings.NewReplacer(`\\\*`, `\*`, `\\\\`, `\\`, `\*`, ".*").Replace(quoted)
	}
	return regexp.MustCompile(flags + "^" + quoted + "$")
}

// decoded returns the JSON as a tree.
func decoded(tb testing.TB, text string) (v any) {
	tb.Helper()
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		tb.Fatalf("%s: %v", text, err)
	}
	return v
}

// A generator makes patterns and events of few names and values, so that they often match.
type generator struct{ *rand.Rand }

func (g generator) pick(options ...string) string { return options[g.IntN(len(options))] }

func (g generator) list(least int, element func() string) string {
	var all []string
	for range least + g.IntN(3) {
		all = append(all, element())
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// object makes an object whose names are different.
func (g generator) object(names []string, value func(name string) string) string {
	var members []string
	for _, i := range g.Perm(len(names))[:1+g.IntN(len(names))] {
		members = append(members, fmt.Sprintf("%q: %s", names[i], value(names[i])))
	}
	return "{" + strings.Join(members, ", ") + "}"
}

func (g generator) text() string {
	return g.pick(`"a"`, `"A"`, `"ab"`, `"ba"`, `"aba"`, `"b*"`, `"\\"`, `"É"`, `"\u00e9"`, `"k"`, `"\u212a"`,
		`"10.0.0.1"`, `"::ffff:10.0.0.2"`, `"2001:db8::1"`)
}

func (g generator) number() string {
	return g.pick("0", "-0", "1", "1.0", "10e-1", "2", "-1.5", "100", "1e2", "99.99", "9007199254740993", "9007199254740992")
}

func (g generator) scalar() string {
	switch g.IntN(4) {
	case 0:
		return g.number()
	case 1:
		return g.pick("true", "false", "null", `""`)
	}
	return g.text()
}

// value makes a value of an event.
func (g generator) value(depth int) string {
	switch n := g.IntN(8); {
	case n == 0 && depth > 0, n == 1 && depth > 0:
		return g.object([]string{"a", "b", "c"}, func(string) string { return g.value(depth - 1) })
	case n == 2 && depth > 0, n == 3 && depth > 0:
		return g.list(0, func() string { return g.value(depth - 1) })
	}
	return g.scalar()
}

// condition makes an element of an array of a pattern.
func (g generator) condition() string {
	texts := func() string { return g.pick(g.text(), g.list(1, g.text)) }
	wildcard := func() string { return g.pick(`"a*"`, `"*b*"`, `"*"`, `"a*b*a"`, `"b\\*"`, `"\\\\"`, `"*\\**"`) }
	switch g.IntN(12) {
	case 0:
		return fmt.Sprintf(`{%q: %s}`, g.pick("prefix", "suffix", "equals-ignore-case"), g.text())
	case 1:
		return fmt.Sprintf(`{%q: {"equals-ignore-case": %s}}`, g.pick("prefix", "suffix"), g.text())
	case 2:
		return fmt.Sprintf(`{"wildcard": %s}`, wildcard())
	case 3:
		return fmt.Sprintf(`{"numeric": [%q, %s]}`, g.pick("=", "<", "<=", ">", ">="), g.number())
	case 4:
		return g.pick(`{"numeric": [">", 0, "<=", 2]}`, `{"numeric": [">=", -2, "<", 1.0]}`)
	case 5:
		return g.pick(`{"exists": true}`, `{"exists": false}`, `{"cidr": "10.0.0.0/31"}`, `{"cidr": "2001:db8::/64"}`)
	case 6:
		return fmt.Sprintf(`{"anything-but": %s}`, g.pick(g.number(), texts(), g.list(1, g.number)))
	case 7:
		return fmt.Sprintf(`{"anything-but": {%q: %s}}`, g.pick("prefix", "suffix", "equals-ignore-case"), texts())
	case 8:
		return fmt.Sprintf(`{"anything-but": {"wildcard": %s}}`, wildcard())
	}
	return g.scalar()
}

// pattern makes an object of a pattern.
func (g generator) pattern(names []string, depth int) string {
	all := names
	if g.IntN(2) == 0 {
		all = append([]string{"$or"}, names...)
	}
	return g.object(all, func(name string) string {
		switch {
		case name == "$or" && depth > 0:
			return g.list(2, func() string { return g.pattern(names, depth-1) })
		case name == "$or":
			return g.list(2, func() string { return fmt.Sprintf(`{%q: {"b": [1]}}`, names[0]) })
		case name == "data", name != "type" && depth > 0 && g.IntN(3) > 0:
			return g.pattern([]string{"a", "b"}, depth-1)
		}
		return g.list(1, g.condition)
	})
}

// agree checks that everything that compares an event with a pattern says the same.
func agree(t *testing.T, p *filter.Pattern, pattern string, e *filter.Event) bool {
	t.Helper()
	matches, explained := p.Matches(e), p.Explain(e)
	var x filter.Index[string]
	x.Set("key", p)
	if found := x.Match(e, math.MaxInt); explained.Matches != matches || (len(found) == 1) != matches {
		t.Fatalf("%s\n%s: Matches %v, Explain %v, Index %v", pattern, e.Data, matches, explained.Matches, found)
	}
	holds := map[string]bool{}
	for _, c := range explained.Conditions {
		holds[c.Path] = c.Holds
	}
	if all := allHold(decoded(t, pattern).(map[string]any), "", holds); all != (matches || explained.Apart) {
		t.Fatalf("%s\n%s: Matches %v, but the conditions say %v: %+v", pattern, e.Data, matches, all, explained)
	}
	if !matches && (p.Failed(e).Path == "") != explained.Apart {
		t.Fatalf("%s\n%s: Failed %+v, Explain %+v", pattern, e.Data, p.Failed(e), explained)
	}
	return matches
}

// allHold reports whether the object of the pattern holds if its conditions hold as explained.
func allHold(object map[string]any, at string, holds map[string]bool) bool {
	for name, v := range object {
		path := name
		if plain := regexp.MustCompile(`^[^.\[\]"]+$`).MatchString(name); at != "" && plain {
			path = at + "." + name
		} else if !plain {
			encoded := new(bytes.Buffer)
			encoder := json.NewEncoder(encoded)
			encoder.SetEscapeHTML(false)
			_ = encoder.Encode(name) // a string always can be
			path = at + "[" + strings.TrimSpace(encoded.String()) + "]"
		}
		branches, _ := v.([]any)
		inner, isObject := v.(map[string]any)
		var ok bool
		switch {
		case isObject:
			ok = allHold(inner, path, holds)
		case name == "$or":
			for i, branch := range branches {
				ok = ok || allHold(branch.(map[string]any), fmt.Sprintf("%s[%d]", path, i), holds)
			}
		default:
			ok = holds[path]
		}
		if !ok {
			return false
		}
	}
	return true
}

// checkSeed compares some patterns with some events, made from the seed, in every way there is. It
// returns the number of matches.
func checkSeed(t *testing.T, seed uint64) (matches int) {
	t.Helper()
	g := generator{rand.New(rand.NewPCG(seed, 0))}
	var patterns []*filter.Pattern
	var texts []string
	var models [][]*merged
	var x filter.Index[int]
	for len(patterns) < 8 {
		text := g.pattern([]string{"data", "type"}, 3)
		p, err := filter.Parse([]byte(text))
		if err != nil { // it has too many combinations
			continue
		}
		model := combinations(decoded(t, text).(map[string]any))
		if len(model) > 30 { // it would take most of the time
			continue
		}
		patterns, texts, models = append(patterns, p), append(texts, text), append(models, model)
		x.Set(g.IntN(8), p)
		x.Remove(g.IntN(8))
	}
	for i, p := range patterns {
		x.Set(i, p)
	}
	for range 8 {
		data, name := g.value(4), g.pick("a", "ab")
		event := map[string]any{"data": decoded(t, data), "type": name}
		var want []int
		for i, p := range patterns {
			e := &filter.Event{Data: []byte(data), Type: name}
			if agree(t, p, texts[i], e) {
				want = append(want, i)
			}
			if model := modelMatches(models[i], event); model != p.Matches(e) {
				t.Fatalf("%s\n%s: matches %v, the model says %v", texts[i], data, p.Matches(e), model)
			}
		}
		got := x.Match(&filter.Event{Data: []byte(data), Type: name}, math.MaxInt)
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Fatalf("the index finds %v, want %v of %s\n%s", got, want, strings.Join(texts, "\n"), data)
		}
		if some := x.Match(&filter.Event{Data: []byte(data), Type: name}, len(want)-1); len(want) > 0 && len(some) < len(want) {
			t.Fatalf("the index finds %v when %d are too many", some, len(want))
		}
		matches += len(want)
	}
	return matches
}

func TestAllWaysAgree(t *testing.T) {
	t.Parallel()
	matches := 0
	for seed := range uint64(60) {
		matches += checkSeed(t, seed)
	}
	if total := 60 * 64; matches < total/20 || matches > total*19/20 {
		t.Errorf("%d of %d match: the patterns show little", matches, total)
	}
}

// Many patterns with few values share their anchors, so they get second ones.
func TestLargeIndexFindsWhatMatchesAlone(t *testing.T) {
	t.Parallel()
	g := generator{rand.New(rand.NewPCG(7, 7))}
	few := func() string {
		return g.pick(`"a"`, `"ab"`, `1`, `{"prefix": "a"}`, `{"numeric": [">", 1]}`, `{"exists": false}`)
	}
	var x filter.Index[int]
	patterns := map[int]*filter.Pattern{}
	for range 3000 {
		key := g.IntN(800)
		if g.IntN(3) == 0 {
			x.Remove(key)
			delete(patterns, key)
			continue
		}
		patterns[key] = parse(t, fmt.Sprintf(`{"data": {"a": %s, "b": {"c": %s}, "$or": [{"d": %s}, {"b": {"d": %s}}], "e": [{"numeric": [">", %d]}]}}`,
			g.list(1, few), g.list(1, few), g.list(1, few), g.list(1, few), g.IntN(5)))
		x.Set(key, patterns[key])
	}
	total := 0
	for range 200 {
		v := func() string { return g.pick(`"a"`, `"ab"`, `1`, `2`, `[1, 1, "a"]`) }
		data := fmt.Sprintf(`{"a": %s, "b": [{"c": %s, "d": %s}, {"c": %s}], "d": %s, "e": [2, 3]}`, v(), v(), v(), v(), v())
		var want []int
		for _, key := range slices.Sorted(maps.Keys(patterns)) {
			if patterns[key].Matches(&filter.Event{Data: []byte(data)}) {
				want = append(want, key)
			}
		}
		got := x.Match(&filter.Event{Data: []byte(data)}, math.MaxInt)
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Fatalf("%s: found %v, want %v", data, got, want)
		}
		total += len(got)
	}
	if total == 0 {
		t.Error("nothing was found")
	}
	for key := range patterns {
		x.Remove(key)
	}
	if got := x.Match(&filter.Event{Data: []byte(`{"a": "a", "e": 3}`)}, math.MaxInt); len(got) > 0 {
		t.Errorf("found %v, but all were removed", got)
	}
}

func FuzzMatchAgreesWithExplain(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) { checkSeed(t, seed) })
}
