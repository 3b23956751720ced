package filter

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/postrider/postrider"
)

// The limits of paths.
const (
	MaxPaths     = 100 // in a list
	MaxPathBytes = 256
)

// Path is a place in JSON, such as $.items[0].id. It never changes.
type Path struct{ steps []step }

// A step is the name of a member, or the index of an element.
type step struct {
	name  string
	index int // -1: a name
}

// ParsePaths parses paths. A path is $, which is the whole value, followed by names and indexes:
// .name or [0]. A name has any characters but a dot, brackets, quotes, * and spaces. To watch a field
// with such a name, use the path of the object that it is in. The error joins all faults, each as a
// [postrider.InvalidError] for field[i].
func ParsePaths(field string, texts []string) ([]Path, error) {
	if len(texts) > MaxPaths {
		return nil, &postrider.InvalidError{
			Field: field, Code: postrider.FaultWrongCount, Reason: fmt.Sprintf("must have at most %d paths", MaxPaths), Max: MaxPaths,
		}
	}
	paths := make([]Path, len(texts))
	var faults []error
	for i, text := range texts {
		path, ok := parsePath(text)
		if !ok {
			faults = append(faults, &postrider.InvalidError{
				Field:  element(field, i),
				Reason: fmt.Sprintf("must be a path such as $.status or $.items[0].id, of at most %d bytes", MaxPathBytes),
			})
		}
		paths[i] = path
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return paths, nil
}

func parsePath(text string) (p Path, ok bool) {
	rest, ok := strings.CutPrefix(text, "$")
	if !ok || len(text) > MaxPathBytes {
		return Path{}, false
	}
	for rest != "" {
		end := len(rest)
		if i := strings.IndexAny(rest[1:], ".["); i >= 0 {
			end = 1 + i
		}
		s, ok := parseStep(rest[:end])
		if !ok {
			return Path{}, false
		}
		p.steps, rest = append(p.steps, s), rest[end:]
	}
	return p, true
}

// parseStep parses .name or [0].
func parseStep(text string) (s step, ok bool) {
	if name, isName := strings.CutPrefix(text, "."); isName {
		return step{name: name, index: -1}, name != "" && !strings.ContainsAny(name, "]*'\" \t\r\n")
	}
	digits := strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")
	index, err := strconv.ParseUint(digits, 10, 31)
	return step{index: int(index)}, err == nil && text == "["+strconv.FormatUint(index, 10)+"]"
}

// Changed reports whether the value at one of the paths differs between two versions of an object,
// both JSON. Numbers are compared as decimals, and the order of members does not matter. A missing
// value differs from every other, also from null. In a version that is not JSON every value is
// missing.
func Changed(paths []Path, previous, data []byte) bool {
	before, after := decode("", previous), decode("", data)
	for _, p := range paths {
		if !equal(p.in(before), p.in(after)) {
			return true
		}
	}
	return false
}

// in returns the value at the path; nil: it is missing.
func (p Path) in(v *value) *value {
	for _, s := range p.steps {
		if s.index < 0 {
			v = v.field(s.name)
			continue
		}
		if v == nil || v.kind != kindArray {
			return nil
		}
		v.open()
		if s.index >= len(v.items) {
			return nil
		}
		v = &v.items[s.index]
	}
	return v
}

// Overlap reports whether one of the paths is equal to one of the changed paths, or is below or above
// it. So it tells for a list of what changed whether one of the paths may have changed.
func Overlap(paths, changed []Path) bool {
	for _, p := range paths {
		for _, c := range changed {
			n := min(len(p.steps), len(c.steps))
			if slices.Equal(p.steps[:n], c.steps[:n]) {
				return true
			}
		}
	}
	return false
}
