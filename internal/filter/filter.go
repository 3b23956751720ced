// Package filter decides which events an endpoint wants.
//
// A [Pattern] is a JSON object in the language of the event patterns of Amazon EventBridge. It is
// compared with an [Event], whose fields are data, type, subject, channels, metadata and internal:
//
//	{
//	  "type":     [{"prefix": "order."}],
//	  "data":     {"status": ["paid", "refunded"], "total": [{"numeric": [">=", 100]}]},
//	  "metadata": {"region": [{"anything-but": "test"}]}
//	}
//
// [Pattern.Matches] compares one pattern, [Index.Match] compares many at once, and
// [Pattern.Explain] says which condition holds. They never disagree. [Event.Changed] answers another
// question: whether a value has changed. [Pattern.WithChanged] makes it a condition of a pattern, and
// [Pattern.WithChannels] adds one for the channels of the event.
//
// The package is pure: no clock, no I/O, no goroutines.
//
// # Patterns
//
// An object of a pattern holds if all its fields hold. An array is a condition: it holds if one of
// its values does. $or is an array of at least two objects, of which one must hold. A value is a
// string, a number, true, false or null, which the event must equal, or an object with one of these
// operators:
//
//   - {"prefix": "a"}, {"suffix": "a"}: the string begins or ends with the text.
//   - {"equals-ignore-case": "a"}: the string equals the text, but for case. The same is possible in
//     {"prefix": {"equals-ignore-case": "a"}} and in suffix. Two characters that differ only by case
//     are equal by Unicode's simple case folding: É and é are, ß and ss are not.
//   - {"wildcard": "a*b"}: each * stands for any text, also for none; \* and \\ stand for * and \.
//   - {"numeric": [">", 0, "<=", 5]}: the number is in the range. The operators are =, <, <=, > and
//     >=. A range has its lower end first.
//   - {"cidr": "10.0.0.0/8"}: the string is an IP address in the block. 10.0.0.1 and ::ffff:10.0.0.1
//     are the same address.
//   - {"exists": true}, {"exists": false}: the field has a value, or none.
//   - {"anything-but": x}: the field has a value for which x does not hold. x is a string, a number,
//     a list of strings, a list of numbers, or {"prefix": y}, {"suffix": y},
//     {"equals-ignore-case": y} or {"wildcard": y}, where y is a string or a list of strings.
//
// # What a condition is compared with
//
//   - Only strings, numbers, booleans and null are values. A field that is missing, an object or an
//     empty array has no value: only {"exists": false} holds for it.
//   - null is a value: it exists, it equals null, and it is anything but "a".
//   - Strings, numbers and booleans are never equal to each other: "1" is not 1. An operator for
//     strings does not hold for a number, and numeric does not hold for a string. So a number is
//     anything but {"prefix": "a"}.
//   - Numbers are compared as decimals, exactly: 1, 1.0 and 1e0 are equal, and 9007199254740993 is
//     not 9007199254740992. An exponent beyond ±10^9 counts as ±10^9.
//   - An array has the values in it, and in the arrays in it. A condition holds if one of them
//     fulfils it. So ["a", "b"] is anything but "a". {"exists": false} holds if there is none.
//   - An object of a pattern is compared with one object of the event. If the field is an array, that
//     is one of the objects in it, or in the arrays in it: all conditions for it must hold in the same
//     one. This includes conditions that are in different branches or levels of $or. If there is no
//     object, all its fields are missing.
//   - Names are compared exactly. A dot in a name is a part of the name.
//   - If an object of the event has a name twice, the last one counts. Data that is not JSON has no
//     fields.
package filter

import "slices"

// The limits of a pattern.
const (
	MaxBytes        = 16 << 10 // of its JSON
	MaxValues       = 300      // values in conditions, and in lists of anything-but
	MaxCombinations = 1000     // ways to choose one branch of each $or
	MaxDepth        = 32       // objects in each other; a branch of an $or is one
	MaxWildcards    = 16       // of * in one wildcard
)

// Pattern is a parsed pattern. It never changes, so goroutines may share it.
type Pattern struct {
	key     string    // its JSON, channels and changed paths; patterns with the same key hold for the same events
	root    []*clause // exactly one
	changed []string  // one of these paths must have changed; empty: none
}

// A clause is an object of a pattern.
type clause struct{ fields []field }

// A field is a member of a clause: a condition, an object or an $or. The other two are nil.
type field struct {
	name  string
	leaf  *leaf
	inner []*clause // exactly one
	or    []*clause // the branches
}

// A leaf is a condition: an array of a pattern.
type leaf struct {
	json   string              // the array, as in the pattern
	equals []scalar            // values that the event may have
	set    map[scalar]struct{} // the same; nil if they are few
	tests  []test              // operators that may hold instead
	// prefixes has the operands of the tests that are plain prefixes, for Index.
	prefixes []string
	missing  bool // the condition holds for a field without a value
	weak     bool // some test probably holds for most values
}

// A test is an operator with its operand.
type test func(scalar) bool

// Matches reports whether the pattern holds for the event.
func (p *Pattern) Matches(e *Event) bool {
	return holds(p.root, e.value()) && (len(p.changed) == 0 || slices.ContainsFunc(p.changed, e.Changed))
}

// holds reports whether all clauses hold for one object of the event; nil: it is missing.
func holds(clauses []*clause, v *value) bool {
	for _, c := range clauses {
		if !c.leavesHold(v) {
			return false
		}
	}
	return choose(clauses, v, 0, 0)
}

// choose looks for branches of $ors with which all clauses hold. It begins at
// clauses[from].fields[at]; before it, branches have been chosen. A chosen branch is one more clause,
// since its conditions must hold in the same elements of arrays. The leaves of the clauses hold.
//
// A branch without objects and $ors restricts nothing else. So no other branch is tried after it.
func choose(clauses []*clause, v *value, from, at int) bool {
	for ; from < len(clauses); from, at = from+1, 0 {
		for ; at < len(clauses[from].fields); at++ {
			or := clauses[from].fields[at].or
			if or == nil || slices.ContainsFunc(or, func(c *clause) bool { return c.flat() && c.leavesHold(v) }) {
				continue
			}
			return slices.ContainsFunc(or, func(c *clause) bool {
				return !c.flat() && c.leavesHold(v) && choose(append(slices.Clip(clauses), c), v, from, at+1)
			})
		}
	}
	return innersHold(clauses, v)
}

// innersHold reports whether the objects in the clauses hold. Those of one name hold together.
func innersHold(clauses []*clause, v *value) bool {
	for i, c := range clauses {
		for _, f := range c.fields {
			if f.inner == nil || slices.ContainsFunc(clauses[:i], func(c *clause) bool { return c.inner(f.name) != nil }) {
				continue // the earlier clause has checked both
			}
			together := f.inner
			for _, later := range clauses[i+1:] {
				together = append(slices.Clip(together), later.inner(f.name)...)
			}
			if !anyObject(v.field(f.name), func(v *value) bool { return holds(together, v) }) {
				return false
			}
		}
	}
	return true
}

// leavesHold reports whether the conditions of the clause itself hold.
func (c *clause) leavesHold(v *value) bool {
	for i := range c.fields {
		if f := &c.fields[i]; f.leaf != nil && !f.leaf.holds(v.field(f.name)) {
			return false
		}
	}
	return true
}

// flat reports whether the clause has conditions only.
func (c *clause) flat() bool {
	return !slices.ContainsFunc(c.fields, func(f field) bool { return f.leaf == nil })
}

// inner returns the object of the name; nil: there is none.
func (c *clause) inner(name string) []*clause {
	for i := range c.fields {
		if c.fields[i].name == name {
			return c.fields[i].inner
		}
	}
	return nil
}

// anyObject reports whether holds is true for one of the objects that v is or has in arrays. If there
// is none, it is called for nil.
func anyObject(v *value, holds func(*value) bool) bool {
	found := false
	held := v.each(func(v *value) bool {
		if v.kind != kindObject {
			return false
		}
		found = true
		return holds(v)
	})
	return held || !found && holds(nil)
}

// holds reports whether the condition holds for a field of the event; nil: it is missing.
func (l *leaf) holds(v *value) bool {
	found := false
	held := v.each(func(v *value) bool {
		if v.kind == kindObject {
			return false
		}
		found = true
		s := v.scalar()
		v.meter.spend(costOf(l, s))
		return l.accepts(s)
	})
	return held || !found && l.missing
}

// accepts reports whether the condition holds for one value.
func (l *leaf) accepts(s scalar) bool {
	if l.set != nil {
		if _, equal := l.set[s]; equal {
			return true
		}
	} else if slices.Contains(l.equals, s) {
		return true
	}
	for _, holds := range l.tests {
		if holds(s) {
			return true
		}
	}
	return false
}
