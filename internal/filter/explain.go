package filter

import (
	"bytes"
	"cmp"
	"encoding/json"
	"unicode/utf8"
)

// MaxFound is the greatest number of bytes of a value in a [Condition].
const MaxFound = 256

// Explanation says why a pattern holds for an event, or does not.
type Explanation struct {
	Matches bool // what [Pattern.Matches] reports, without changed paths
	// True: enough conditions hold, but only in different elements of an array: some of them are in
	// a branch of an $or, and some are not. So the pattern does not hold.
	Apart      bool
	Conditions []Condition // in the order of the pattern
}

// Condition is one array of a pattern, compared with an event. If it is for a field of objects in an
// array, it is compared with the one in which all conditions of the object hold, or else with the one
// in which most of them hold.
type Condition struct {
	Path  string // in the pattern: data.$or[0].status
	Root  string // the field of the event that the condition is about: data
	JSON  string // the array
	Holds bool
	Found string // the field of the event, as JSON, cut after MaxFound bytes; empty: it is missing
}

// Explain compares the event with each condition of the pattern. It leaves out that of
// [Pattern.WithChanged].
func (p *Pattern) Explain(e *Event) Explanation {
	explained := Explanation{Matches: holds(p.root, e.value())}
	explained.Conditions = p.root[0].explain(nil, e.value(), place{})
	explained.Apart = !explained.Matches && p.root[0].score(e.value()).holds
	return explained
}

// A place is where a clause is in a pattern, and the field of the event that it is about. Both are empty
// for the pattern itself.
type place struct{ path, root string }

// of returns the path of a field of the clause at the place, and the field of the event that it is about.
func (at place) of(f field) (path, root string) {
	path, root = f.name, cmp.Or(at.root, f.name)
	if at.path != "" {
		path = join(at.path, f.name)
	}
	return path, root
}

// explain appends the conditions of the clause, which is at the place.
func (c *clause) explain(to []Condition, v *value, at place) []Condition {
	for _, f := range c.fields {
		path, root := at.of(f)
		found := v.field(f.name)
		switch {
		case f.leaf != nil:
			to = append(to, Condition{Path: path, Root: root, JSON: compact(f.leaf.json), Holds: f.leaf.holds(found), Found: cut(found)})
		case f.inner != nil:
			best, _ := f.inner[0].best(found)
			to = f.inner[0].explain(to, best, place{path, root})
		}
		for i, branch := range f.or {
			to = branch.explain(to, v, place{element(path, i), at.root})
		}
	}
	return to
}

// A score says how well a clause fits an object.
type score struct {
	holds bool // it holds if an $or is compared with each object by itself
	count int  // of conditions that hold
}

// better reports whether s fits better than t.
func (s score) better(t score) bool {
	return s.holds && !t.holds || s.holds == t.holds && s.count > t.count
}

// score compares the clause with an object.
func (c *clause) score(v *value) score {
	all := score{holds: true}
	for _, f := range c.fields {
		var one score
		switch {
		case f.leaf != nil:
			if one.holds = f.leaf.holds(v.field(f.name)); one.holds {
				one.count = 1
			}
		case f.inner != nil:
			_, one = f.inner[0].best(v.field(f.name))
		}
		for _, branch := range f.or {
			s := branch.score(v)
			one.holds, one.count = one.holds || s.holds, one.count+s.count
		}
		all.holds, all.count = all.holds && one.holds, all.count+one.count
	}
	return all
}

// best returns the object in v that fits best, with its score; nil: there is no object.
func (c *clause) best(v *value) (*value, score) {
	var best *value
	var most score
	v.each(func(v *value) bool {
		if v.kind == kindObject {
			if s := c.score(v); best == nil || s.better(most) {
				best, most = v, s
			}
		}
		return false
	})
	if best == nil {
		return nil, c.score(nil)
	}
	return best, most
}

// compact returns the JSON without spaces.
func compact(text string) string {
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(text)); err != nil {
		return text
	}
	return b.String()
}

// cut returns the value as JSON of at most MaxFound bytes.
func cut(v *value) string {
	if v == nil {
		return ""
	}
	text := v.text()
	if len(text) <= MaxFound {
		return text
	}
	end := MaxFound - len("…")
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}
