package filter

import (
	"slices"
	"strings"

	"github.com/postrider/postrider"
)

// SaysChanges reports whether the event says what changed, by Previous or by ChangedPaths.
func (e *Event) SaysChanges() bool { return len(e.Previous) > 0 || len(e.ChangedPaths) > 0 }

// Changed reports whether the value at the path (see [postrider.ParsePath]) has changed. It has if it
// differs between Previous and Data, or if one of ChangedPaths is the path, or is below or above it.
//
// Numbers are compared as decimals, and the order of members does not matter. A missing value differs
// from every other, also from null. In a version that is not JSON every value is missing.
//
// Each path is compared once, so that many patterns with paths in each other cost no more than one.
func (e *Event) Changed(path string) bool {
	if !e.SaysChanges() {
		return false
	}
	if e.changed == nil {
		e.changed, e.before = map[string]bool{}, decode("", e.Previous)
	}
	changed, known := e.changed[path]
	if !known {
		e.meter.spend(e.costOfChanged())
		changed = len(e.Previous) > 0 && e.differs(path) ||
			slices.ContainsFunc(e.ChangedPaths, func(other string) bool { return overlap(path, other) })
		e.changed[path] = changed
	}
	return changed
}

// differs reports whether the value at the path differs between Previous and Data.
func (e *Event) differs(path string) bool {
	at, err := postrider.ParsePath("path", path)
	return err == nil && !equal(e.before.at(at.Steps), e.value().field("data").at(at.Steps))
}

// at returns the value to which the steps lead from v; nil: it is missing.
func (v *value) at(steps []postrider.PathStep) *value {
	for _, s := range steps {
		switch {
		case v == nil:
			return nil
		case s.Name != "":
			v = v.field(s.Name)
		default:
			v = v.element(s.Index)
		}
	}
	return v
}

// element returns an element of an array; nil: v is no array, or is shorter.
func (v *value) element(i int) *value {
	if v.kind != kindArray {
		return nil
	}
	if v.open(); i >= len(v.items) {
		return nil
	}
	return &v.items[i]
}

// overlap reports whether two paths are equal, or one is below the other.
func overlap(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	rest, below := strings.CutPrefix(b, a)
	return below && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// WithChanged returns a pattern that holds if p does and one of the paths has changed; see
// [Event.Changed]. If p is nil, only the paths decide.
func (p *Pattern) WithChanged(paths []string) *Pattern {
	with := p.copied()
	with.key += "\n" + strings.Join(paths, "\n")
	with.changed = paths
	return &with
}

// copied returns a copy of the pattern; nil: one that holds for every event.
func (p *Pattern) copied() Pattern {
	if p == nil {
		return Pattern{root: []*clause{{}}}
	}
	return *p
}

// WithChannels returns a pattern that holds if p does and the event has one of the channels. If p is
// nil, only the channels decide. An index finds the pattern by each of them.
func (p *Pattern) WithChannels(channels []string) *Pattern {
	with, either := p.copied(), new(leaf)
	for _, channel := range channels {
		either.equals = append(either.equals, scalar{kind: kindString, text: channel})
	}
	with.key += "\t" + strings.Join(channels, "\t")
	with.root = []*clause{{fields: append(slices.Clip(with.root[0].fields), field{name: "channels", leaf: either})}}
	return &with
}
