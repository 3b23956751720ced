package filter

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/postrider/postrider"
)

// maxFaults is the greatest number of faults in an error. More faults usually have the same cause.
const maxFaults = 100

// manyValues is the number of values from which a map compares faster than a loop.
const manyValues = 8

// Parse parses a pattern. The error joins all its faults, at most 100, each as a
// [postrider.InvalidError] whose field is the place in the pattern, after "filter":
// filter.data.order.status[2].numeric. A field of the event that is one of without is a fault.
func Parse(pattern []byte, without ...string) (*Pattern, error) {
	if len(pattern) > MaxBytes {
		return nil, &postrider.InvalidError{
			Field: "filter", Code: postrider.FaultTooLong, Reason: fmt.Sprintf("must be at most %d bytes", MaxBytes), Max: MaxBytes,
		}
	}
	if err := json.Unmarshal(pattern, new(json.RawMessage)); err != nil {
		return nil, &postrider.InvalidError{Field: "filter", Reason: "must be JSON: " + err.Error()}
	}
	if !utf8.Valid(pattern) {
		return nil, &postrider.InvalidError{Field: "filter", Reason: "must be UTF-8"}
	}
	p := parser{without: without}
	v := decode("", pattern)
	root := p.clause(v, "filter", 0, true)
	p.within("filter", p.values, MaxValues, "values in conditions")
	p.within("filter", root.combinations(), MaxCombinations, "combinations of branches of $or")
	if len(p.faults) > 0 {
		return nil, errors.Join(p.faults...)
	}
	return &Pattern{key: v.json, root: []*clause{root}}, nil
}

// A parser collects the faults of a pattern. Its methods return something usable after a fault, so
// that they find the next one.
type parser struct {
	without []string
	faults  []error
	values  int
}

func (p *parser) fault(at string, code postrider.FaultCode, reason string) {
	p.add(&postrider.InvalidError{Field: at, Code: code, Reason: reason})
}

func (p *parser) add(fault *postrider.InvalidError) {
	if len(p.faults) < maxFaults {
		p.faults = append(p.faults, fault)
	}
}

// within adds a fault if n is more than most.
func (p *parser) within(at string, n, most int, what string) {
	if n > most {
		p.add(&postrider.InvalidError{
			Field: at, Code: postrider.FaultWrongCount, Reason: fmt.Sprintf("must have at most %d %s", most, what), Max: int64(most),
		})
	}
}

// clause parses an object of the pattern, with depth objects around it. A root has the fields of an
// event: the pattern, and the branches of its $or.
func (p *parser) clause(v *value, at string, depth int, root bool) *clause {
	c := new(clause)
	if v.kind != kindObject {
		p.fault(at, postrider.FaultMalformed, "must be an object")
		return c
	}
	if depth++; depth > MaxDepth {
		p.fault(at, postrider.FaultMalformed, fmt.Sprintf("must not be in more than %d objects", MaxDepth))
		return c
	}
	v.open()
	if len(v.items) == 0 {
		p.fault(at, postrider.FaultRequired, "must have a field")
	}
	seen := map[string]bool{}
	for i := range v.items {
		member := &v.items[i]
		place := join(at, member.name)
		if seen[member.name] {
			p.fault(place, postrider.FaultRepeated, "must not be there twice")
		}
		seen[member.name] = true
		if member.name == "$or" {
			c.fields = append(c.fields, field{name: "$or", or: p.or(member, place, depth, root)})
		} else if !root || p.root(member, place) {
			c.fields = append(c.fields, p.field(member, place, depth))
		}
	}
	return c
}

// join returns the place of a member.
func join(at, name string) string {
	if name == "" || strings.ContainsAny(name, `.[]"`) {
		return at + "[" + quote(name) + "]"
	}
	return at + "." + name
}

// element returns the place of an element.
func element(at string, i int) string { return at + "[" + strconv.Itoa(i) + "]" }

// root reports whether a field of an event has this name and may have such a value in a pattern.
func (p *parser) root(v *value, at string) bool {
	var names []string
	for _, r := range roots {
		names = append(names, r.name)
		if r.name != v.name {
			continue
		}
		if slices.Contains(p.without, r.name) {
			p.fault(at, postrider.FaultNotAllowed, "must not be there: the field is for callers without an account")
			return false
		}
		if v.kind == kindArray && !r.condition {
			p.fault(at, postrider.FaultMalformed, "must be an object of conditions")
			return false
		}
		if v.kind == kindObject && !r.object {
			p.fault(at, postrider.FaultMalformed, "must be an array of values")
			return false
		}
		return true
	}
	p.fault(at, postrider.FaultUnknown, "must be one of $or, "+strings.Join(names, ", "))
	return false
}

// field parses a member that is a condition or an object.
func (p *parser) field(v *value, at string, depth int) field {
	switch v.kind {
	case kindArray:
		return field{name: v.name, leaf: p.leaf(v, at)}
	case kindObject:
		return field{name: v.name, inner: []*clause{p.clause(v, at, depth, false)}}
	default:
		p.fault(at, postrider.FaultMalformed, "must be an array of values, or an object of conditions")
		return field{name: v.name}
	}
}

// or parses the branches of an $or.
func (p *parser) or(v *value, at string, depth int, root bool) []*clause {
	v.open()
	if v.kind != kindArray || len(v.items) < 2 {
		p.fault(at, postrider.FaultMalformed, "must be an array of at least two objects")
		return nil
	}
	branches := make([]*clause, len(v.items))
	for i := range v.items {
		branches[i] = p.clause(&v.items[i], element(at, i), depth, root)
	}
	return branches
}

// leaf parses a condition.
func (p *parser) leaf(v *value, at string) *leaf {
	l := &leaf{json: v.json}
	v.open()
	if len(v.items) == 0 {
		p.fault(at, postrider.FaultRequired, "must have a value")
	}
	p.values += len(v.items)
	for i := range v.items {
		item, place := &v.items[i], element(at, i)
		switch item.kind {
		case kindObject:
			p.operator(l, item, place)
		case kindArray:
			p.fault(place, postrider.FaultMalformed, "must be a string, a number, true, false, null or an operator")
		default:
			l.equals = append(l.equals, item.scalar())
		}
	}
	if len(l.equals) >= manyValues {
		l.set = make(map[scalar]struct{}, len(l.equals))
		for _, s := range l.equals {
			l.set[s] = struct{}{}
		}
	}
	return l
}

// combinations returns the number of ways to choose one branch of each $or, or a number above
// MaxCombinations.
func (c *clause) combinations() int {
	product := 1
	for _, f := range c.fields {
		sum := 0
		for _, branch := range f.or {
			sum += branch.combinations()
		}
		for _, inner := range f.inner {
			sum += inner.combinations()
		}
		if sum > 0 {
			product = min(product*sum, MaxCombinations+1)
		}
	}
	return product
}
