package filter

import (
	"slices"
	"sync"
)

// Index compares an event with many patterns at once. Each pattern has a key. Several goroutines may
// use an Index.
//
// Patterns of the same JSON are compared once. Each pattern has an anchor: one condition without which
// the pattern cannot hold. If possible, the condition lists values and prefixes only, and the index
// finds the pattern by each of them. Of several such conditions the index takes the one whose values
// anchor the fewest patterns. Otherwise the anchor is another condition, which is compared once for all
// patterns that it anchors. A pattern that can hold for events that lack its fields may have no anchor.
// The index compares the event with the patterns whose anchors hold, and with those that have none.
type Index[K comparable] struct {
	mu      sync.RWMutex
	slots   map[K]int32 // of entries
	byJSON  map[string]int32
	entries []entry[K]
	free    []int32 // entries that are not in use
	root    node
	always  []int32 // entries without an anchor
}

// An entry is a pattern with its keys.
type entry[K comparable] struct {
	keys    []K
	pattern *Pattern
	anchors []anchor // one of them holds if the pattern does; none: always
}

// An anchor is a condition for a field. It is one value or prefix, or else the whole leaf.
type anchor struct {
	path  []string
	value scalar
	leaf  *leaf // nil: the value
}

// kindPrefix is the kind of an anchor that is a prefix.
const kindPrefix = kindObject + 1

// A node has the anchors of one field. Its children are the fields of that field.
type node struct {
	children map[string]*node
	values   map[scalar][]int32 // the slots of entries
	prefixes map[int]int        // the number of anchors with a prefix, by its length
	leaves   []gate
}

// A gate is a condition that anchors entries.
type gate struct {
	leaf    *leaf
	entries []int32
}

// Set adds the pattern, or replaces the pattern of the key.
func (x *Index[K]) Set(key K, pattern *Pattern) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.remove(key)
	if x.slots == nil {
		x.slots, x.byJSON = map[K]int32{}, map[string]int32{}
	}
	slot, ok := x.byJSON[pattern.json]
	if !ok {
		slot = x.insert(pattern)
		x.byJSON[pattern.json] = slot
	}
	x.slots[key] = slot
	x.entries[slot].keys = append(x.entries[slot].keys, key)
}

// insert makes an entry without keys.
func (x *Index[K]) insert(pattern *Pattern) (slot int32) {
	if last := len(x.free) - 1; last >= 0 {
		slot, x.free = x.free[last], x.free[:last]
	} else {
		slot = int32(len(x.entries))
		x.entries = append(x.entries, entry[K]{})
	}
	anchors, _ := x.root.anchors(pattern.root[0], nil)
	x.entries[slot] = entry[K]{pattern: pattern, anchors: anchors}
	if len(anchors) == 0 {
		x.always = append(x.always, slot)
	}
	for _, a := range anchors {
		x.root.add(a, slot)
	}
	return slot
}

// Remove removes the pattern of the key, if there is one.
func (x *Index[K]) Remove(key K) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.remove(key)
}

func (x *Index[K]) remove(key K) {
	slot, ok := x.slots[key]
	if !ok {
		return
	}
	delete(x.slots, key)
	e := &x.entries[slot]
	if e.keys = without(e.keys, key); len(e.keys) > 0 {
		return
	}
	if len(e.anchors) == 0 {
		x.always = without(x.always, slot)
	}
	for _, a := range e.anchors {
		x.root.remove(a, slot)
	}
	delete(x.byJSON, e.pattern.json)
	*e = entry[K]{}
	x.free = append(x.free, slot)
}

// Match returns the keys of the patterns that hold for the event, in any order.
func (x *Index[K]) Match(e *Event) []K {
	x.mu.RLock()
	defer x.mu.RUnlock()
	m := match[K]{index: x, event: e, compared: make([]uint64, (len(x.entries)+63)/64)}
	m.compare(x.always)
	m.visit(&x.root, e.value())
	return m.keys
}

// A match is the comparison of one event with an index.
type match[K comparable] struct {
	index    *Index[K]
	event    *Event
	compared []uint64 // a bit for each entry
	keys     []K
}

// compare compares the event with the patterns of the entries, each once.
func (m *match[K]) compare(slots []int32) {
	for _, slot := range slots {
		word, bit := &m.compared[slot/64], uint64(1)<<(slot%64)
		if *word&bit != 0 {
			continue
		}
		*word |= bit
		if e := &m.index.entries[slot]; e.pattern.Matches(m.event) {
			m.keys = append(m.keys, e.keys...)
		}
	}
}

// visit finds the anchors of the node, and of the fields in it, that hold for the value.
func (m *match[K]) visit(n *node, v *value) {
	switch v.kind {
	case kindArray:
		v.open()
		for i := range v.items {
			m.visit(n, &v.items[i])
		}
	case kindObject:
		v.open()
		if len(v.items) < len(n.children) {
			for i := range v.items {
				if child := n.children[v.items[i].name]; child != nil {
					m.visit(child, &v.items[i])
				}
			}
			return
		}
		for name, child := range n.children {
			if member := v.field(name); member != nil {
				m.visit(child, member)
			}
		}
	default:
		s := v.scalar()
		m.compare(n.values[s])
		for length := range n.prefixes {
			if s.kind == kindString && length <= len(s.text) {
				m.compare(n.values[scalar{kind: kindPrefix, text: s.text[:length]}])
			}
		}
		for i := range n.leaves {
			if n.leaves[i].leaf.accepts(s) {
				m.compare(n.leaves[i].entries)
			}
		}
	}
}

// The costs of an anchor that is a whole condition. They are greater than the cost of values.
const (
	costOfLeaf int64 = 1 << 40
	costOfWeak int64 = 1 << 41 // of a condition that probably holds for most events
	noAnchor   int64 = 1 << 62
)

// anchors returns the cheapest anchors of a clause for the field of the node; nil: there are none. A
// node may be nil.
func (n *node) anchors(c *clause, path []string) (best []anchor, cost int64) {
	cost = noAnchor
	for _, f := range c.fields {
		var found []anchor
		price := noAnchor
		child := append(slices.Clip(path), f.name)
		switch {
		case f.leaf != nil:
			found, price = n.child(f.name).leafAnchors(f.leaf, child)
		case f.inner != nil:
			found, price = n.child(f.name).anchors(f.inner[0], child)
		case f.or != nil:
			found, price = n.orAnchors(f.or, path)
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
		return []anchor{{path: path, leaf: l}}, costOfWeak
	case len(l.tests) > len(l.prefixes):
		return []anchor{{path: path, leaf: l}}, costOfLeaf
	}
	for _, s := range l.equals {
		anchors = append(anchors, anchor{path: path, value: s})
	}
	for _, prefix := range l.prefixes {
		anchors = append(anchors, anchor{path: path, value: scalar{kind: kindPrefix, text: prefix}})
	}
	for i := range anchors {
		if cost++; n != nil {
			cost += int64(len(n.values[anchors[i].value]))
		}
	}
	return anchors, cost
}

// orAnchors returns the anchors of all branches: one of the branches must hold.
func (n *node) orAnchors(branches []*clause, path []string) (anchors []anchor, cost int64) {
	for _, branch := range branches {
		found, price := n.anchors(branch, path)
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

func (n *node) add(a anchor, slot int32) {
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
	if a.leaf != nil {
		i := n.gate(a.leaf)
		if i < 0 {
			i, n.leaves = len(n.leaves), append(n.leaves, gate{leaf: a.leaf})
		}
		n.leaves[i].entries = append(n.leaves[i].entries, slot)
		return
	}
	if n.values == nil {
		n.values, n.prefixes = map[scalar][]int32{}, map[int]int{}
	}
	n.values[a.value] = append(n.values[a.value], slot)
	if a.value.kind == kindPrefix {
		n.prefixes[len(a.value.text)]++
	}
}

// gate returns the index of the leaf among the gates; -1: there is none.
func (n *node) gate(l *leaf) int {
	return slices.IndexFunc(n.leaves, func(g gate) bool { return g.leaf.json == l.json })
}

// remove removes the slot from the anchor, and what is empty then.
func (n *node) remove(a anchor, slot int32) {
	if len(a.path) > 0 {
		name := a.path[0]
		child := n.children[name]
		a.path = a.path[1:]
		if child.remove(a, slot); len(child.children)+len(child.values)+len(child.leaves) == 0 {
			delete(n.children, name)
		}
		return
	}
	if a.leaf != nil {
		i := n.gate(a.leaf)
		if g := &n.leaves[i]; len(g.entries) > 1 {
			g.entries = without(g.entries, slot)
		} else {
			n.leaves = slices.Delete(n.leaves, i, i+1)
		}
		return
	}
	if n.values[a.value] = without(n.values[a.value], slot); len(n.values[a.value]) == 0 {
		delete(n.values, a.value)
	}
	if length := len(a.value.text); a.value.kind == kindPrefix {
		if n.prefixes[length]--; n.prefixes[length] == 0 {
			delete(n.prefixes, length)
		}
	}
}

// without returns the list but for the first such element, in another order.
func without[T comparable](list []T, element T) []T {
	i, last := slices.Index(list, element), len(list)-1
	list[i] = list[last]
	return list[:last]
}
