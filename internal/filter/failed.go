package filter

// Failed returns what keeps the pattern from holding for the event: its first condition that does not
// hold, or its first $or of which no branch holds. Holds and Found are not set, and an $or has no JSON.
// If enough conditions hold, but not in one element of an array (see [Explanation.Apart]), the result
// has no Path either. Failed must be called only if the pattern does not hold.
//
// Of the same events of the same pattern there are few results, so events can be grouped by them.
func (p *Pattern) Failed(e *Event) Condition {
	failed, _ := p.root[0].failed(e.value(), place{})
	return failed
}

// failed returns the first condition or $or of the clause that does not hold for an object, and whether
// there is one. The clause is at the place.
func (c *clause) failed(v *value, at place) (Condition, bool) {
	for _, f := range c.fields {
		path, root := at.of(f)
		found := v.field(f.name)
		switch {
		case f.leaf != nil && !f.leaf.holds(found):
			return Condition{Path: path, Root: root, JSON: compact(f.leaf.json)}, true
		case f.inner != nil:
			best, _ := f.inner[0].best(found)
			if failed, ok := f.inner[0].failed(best, place{path, root}); ok {
				return failed, true
			}
		case f.or != nil && !fits(f.or, v):
			return Condition{Path: path, Root: root}, true
		}
	}
	return Condition{}, false
}

// fits reports whether one of the branches of an $or holds for an object, if each array in it is
// compared by itself.
func fits(branches []*clause, v *value) bool {
	for _, branch := range branches {
		if branch.score(v).holds {
			return true
		}
	}
	return false
}
