package filter

import "slices"

// An anchor is a condition that holds if a pattern does: one value or prefix of a leaf, or else the
// whole leaf.
type anchor struct {
	path  []string
	leaf  *leaf
	value scalar // kindLeaf: the whole leaf
	more  []anchor
}

// The kinds of anchors that are no values.
const (
	kindPrefix = kindObject + 1 + iota
	kindLeaf
)

// A node has the anchors of one field, with the slots of the entries that they anchor. Its children are
// the fields of that field.
type node struct {
	children map[string]*node
	values   map[scalar]*bucket // by the value or prefix
	prefixes map[int]int        // the number of prefixes, by their length
	leaves   []gate
}

// A gate is an anchor that is a whole leaf.
type gate struct {
	leaf   *leaf
	bucket *bucket
}

// A bucket has the slots of one anchor. If they are many, the further ones are anchored again, by their
// other conditions, in a tree of nodes.
type bucket struct {
	entries []int32
	more    *node
	count   int // of slots, in both
}

// manyEntries is the number of entries from which a bucket has second anchors.
const manyEntries = 16

// insert anchors the slot of a pattern, but not by the leaves in used. It returns the anchors.
func (n *node) insert(slot int32, c *clause, used []*leaf) []anchor {
	anchors, _ := n.anchors(c, nil, used)
	for i := range anchors {
		a := &anchors[i]
		b := n.bucket(a)
		if b.count++; len(b.entries) >= manyEntries {
			if b.more == nil {
				b.more = &node{}
			}
			a.more = b.more.insert(slot, c, append(slices.Clip(used), a.leaf))
		}
		if len(a.more) == 0 {
			b.entries = append(b.entries, slot)
		}
	}
	return anchors
}

// The costs of an anchor that is a whole leaf. They are greater than the cost of values.
const (
	costOfLeaf int64 = 1 << 40
	costOfWeak int64 = 1 << 41 // of a leaf that probably holds for most events
	noAnchor   int64 = 1 << 62
)

// anchors returns the cheapest anchors of a clause for the field of the node, of which one holds if the
// clause does; nil: there are none. A node may be nil.
func (n *node) anchors(c *clause, path []string, used []*leaf) (best []anchor, cost int64) {
	cost = noAnchor
	for _, f := range c.fields {
		var found []anchor
		price := noAnchor
		child := append(slices.Clip(path), f.name)
		switch {
		case f.leaf != nil && !slices.Contains(used, f.leaf):
			found, price = n.child(f.name).leafAnchors(f.leaf, child)
		case f.inner != nil:
			found, price = n.child(f.name).anchors(f.inner[0], child, used)
		case f.or != nil:
			found, price = n.orAnchors(f.or, path, used)
		}
		if price < cost {
			best, cost = found, price
		}
	}
	return best, cost
}

func (n *node) leafAnchors(l *leaf, path []string) (anchors []anchor, cost int64) {
	switch {
	case l.missing:
		return nil, noAnchor
	case l.weak:
		return []anchor{{path: path, leaf: l, value: scalar{kind: kindLeaf}}}, costOfWeak
	case len(l.tests) > len(l.prefixes):
		return []anchor{{path: path, leaf: l, value: scalar{kind: kindLeaf}}}, costOfLeaf
	}
	for _, s := range l.equals {
		anchors = append(anchors, anchor{path: path, leaf: l, value: s})
	}
	for _, prefix := range l.prefixes {
		anchors = append(anchors, anchor{path: path, leaf: l, value: scalar{kind: kindPrefix, text: prefix}})
	}
	for i := range anchors {
		if cost++; n != nil && n.values[anchors[i].value] != nil {
			cost += int64(n.values[anchors[i].value].count)
		}
	}
	return anchors, cost
}

// orAnchors returns the anchors of all branches: one of the branches must hold.
func (n *node) orAnchors(branches []*clause, path []string, used []*leaf) (anchors []anchor, cost int64) {
	for _, branch := range branches {
		found, price := n.anchors(branch, path, used)
		if price == noAnchor {
			return nil, noAnchor
		}
		anchors, cost = append(anchors, found...), cost+price
	}
	return anchors, cost
}

func (n *node) child(name string) *node {
	if n == nil {
		return nil
	}
	return n.children[name]
}

// bucket returns the bucket of the anchor, which it makes if there is none. It counts the anchors with a
// prefix.
func (n *node) bucket(a *anchor) *bucket {
	for _, name := range a.path {
		if n.children == nil {
			n.children = map[string]*node{}
		}
		child := n.children[name]
		if child == nil {
			child = &node{}
			n.children[name] = child
		}
		n = child
	}
	if a.value.kind == kindLeaf {
		i := n.gate(a.leaf)
		if i < 0 {
			i, n.leaves = len(n.leaves), append(n.leaves, gate{a.leaf, &bucket{}})
		}
		return n.leaves[i].bucket
	}
	if n.values == nil {
		n.values, n.prefixes = map[scalar]*bucket{}, map[int]int{}
	}
	if n.values[a.value] == nil {
		n.values[a.value] = &bucket{}
		if a.value.kind == kindPrefix {
			n.prefixes[len(a.value.text)]++
		}
	}
	return n.values[a.value]
}

// gate returns the index of the leaf among the gates; -1: there is none.
func (n *node) gate(l *leaf) int {
	return slices.IndexFunc(n.leaves, func(g gate) bool { return g.leaf.json == l.json })
}

// remove removes the slot from the anchor, which is at the path, and whatever is empty then.
func (n *node) remove(slot int32, a anchor, path []string) {
	if len(path) > 0 {
		child := n.children[path[0]]
		if child.remove(slot, a, path[1:]); len(child.children)+len(child.values)+len(child.leaves) == 0 {
			delete(n.children, path[0])
		}
		return
	}
	if a.value.kind == kindLeaf {
		if i := n.gate(a.leaf); n.leaves[i].bucket.remove(slot, a) {
			n.leaves = slices.Delete(n.leaves, i, i+1)
		}
		return
	}
	if !n.values[a.value].remove(slot, a) {
		return
	}
	delete(n.values, a.value)
	if length := len(a.value.text); a.value.kind == kindPrefix {
		if n.prefixes[length]--; n.prefixes[length] == 0 {
			delete(n.prefixes, length)
		}
	}
}

// remove removes the slot, and reports whether the bucket is empty then.
func (b *bucket) remove(slot int32, a anchor) bool {
	for _, second := range a.more {
		b.more.remove(slot, second, second.path)
	}
	if len(a.more) == 0 {
		b.entries = without(b.entries, slot)
	}
	b.count--
	return b.count == 0
}

// without returns the list but for the first such element, in another order.
func without[T comparable](list []T, element T) []T {
	i, last := slices.Index(list, element), len(list)-1
	list[i] = list[last]
	return list[:last]
}
