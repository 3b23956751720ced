package filter

import "sync"

// Index compares an event with many patterns at once. Each pattern has a key. Several goroutines may
// use an Index.
//
// Patterns of the same JSON, channels and changed paths are compared once. Each pattern has an anchor: one
// condition without which the pattern cannot hold. If possible, the condition lists values and prefixes only, and the index
// finds the pattern by each of them. Of several such conditions the index takes the one whose values
// anchor the fewest patterns. Otherwise the anchor is another condition, which is compared once for all
// patterns that it anchors. If many patterns have one anchor, the further ones have a second one, and so
// on. A pattern that can hold for events that lack its fields may have no anchor. The index compares the
// event with the patterns whose anchors hold, and with those that have none.
type Index[K comparable] struct {
	mu      sync.RWMutex
	slots   map[K]int32 // of entries
	byKey   map[string]int32
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

// Set adds the pattern, or replaces the pattern of the key.
func (x *Index[K]) Set(key K, pattern *Pattern) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.remove(key)
	if x.slots == nil {
		x.slots, x.byKey = map[K]int32{}, map[string]int32{}
	}
	slot, ok := x.byKey[pattern.key]
	if !ok {
		slot = x.insert(pattern)
		x.byKey[pattern.key] = slot
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
	anchors := x.root.insert(slot, pattern.root[0], nil)
	if len(anchors) == 0 {
		x.always = append(x.always, slot)
	}
	x.entries[slot] = entry[K]{pattern: pattern, anchors: anchors}
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
		x.root.remove(slot, a, a.path)
	}
	delete(x.byKey, e.pattern.key)
	*e = entry[K]{}
	x.free = append(x.free, slot)
}

// Len returns the number of patterns.
func (x *Index[K]) Len() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.slots)
}

// Match returns the keys of the patterns that hold for the event, in any order. If there are more
// than most, it returns only some of them, but more than most. It also ends when [Event.Exceeded].
func (x *Index[K]) Match(e *Event, most int) []K {
	x.mu.RLock()
	defer x.mu.RUnlock()
	m := match[K]{index: x, event: e, most: most, compared: make([]uint64, (len(x.entries)+63)/64), visited: map[*node]bool{}}
	m.compare(x.always)
	m.visit(&x.root, e.value())
	return m.keys
}

// A match is the comparison of one event with an index.
type match[K comparable] struct {
	index    *Index[K]
	event    *Event
	most     int
	compared []uint64       // a bit for each entry
	visited  map[*node]bool // trees of second anchors
	keys     []K
}

// compare compares the event with the patterns of the entries, each once.
func (m *match[K]) compare(slots []int32) {
	for _, slot := range slots {
		if len(m.keys) > m.most || m.event.Exceeded() {
			return
		}
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

// open compares the event with the patterns of a bucket, whose anchor holds; nil: there are none.
func (m *match[K]) open(b *bucket) {
	if b == nil {
		return
	}
	m.compare(b.entries)
	if b.more != nil && !m.visited[b.more] {
		m.visited[b.more] = true
		m.visit(b.more, m.event.value())
	}
}

// visit finds the anchors of the node, and of the fields in it, that hold for the value.
func (m *match[K]) visit(n *node, v *value) {
	switch v.kind {
	case kindArray:
		v.open()
		for i := range v.items {
			if m.event.Exceeded() {
				return
			}
			m.event.meter.spend(1)
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
		m.find(n, v.scalar())
	}
}

// find finds the anchors of the node that hold for the scalar.
func (m *match[K]) find(n *node, s scalar) {
	m.open(n.values[s])
	if s.kind == kindString {
		m.event.meter.spend(len(n.prefixes))
		for length := range n.prefixes {
			if length <= len(s.text) {
				m.open(n.values[scalar{kind: kindPrefix, text: s.text[:length]}])
			}
		}
	}
	for i := range n.leaves {
		m.event.meter.spend(costOf(n.leaves[i].leaf, s))
		if n.leaves[i].leaf.accepts(s) {
			m.open(n.leaves[i].bucket)
		}
	}
}
