package postrider

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The limits of paths.
const (
	MaxIndexedPaths = 5   // by whose values the events of a type are found
	MaxPathBytes    = 256 // of one path
)

// Path is a place in JSON data, such as $.items[0].id; $ is the whole.
type Path struct {
	Text  string
	Steps []PathStep // from the whole value on
}

// PathStep leads from a value to one of its parts: to the member with the Name or, if that is empty,
// to the element at the Index.
type PathStep struct {
	Name  string
	Index int
}

// IndexedPath is a path by whose values the events of a type are found.
type IndexedPath struct {
	Path  string
	Since time.Time // events that were published before are not found by the path
}

// ParsePath returns the path that the text names: $, followed by names and indexes such as .name or
// [0]. A name has any characters but dots, brackets, quotes, *, =, spaces and control characters. For a
// field with such a name, use the path of the object that it is in. The error is an [InvalidError] for
// the field.
func ParsePath(field, text string) (Path, error) {
	rest, ok := strings.CutPrefix(text, "$")
	ok = ok && len(text) <= MaxPathBytes && IsText(text)
	path := Path{Text: text}
	for ok && rest != "" {
		end := len(rest)
		if i := strings.IndexAny(rest[1:], ".["); i >= 0 {
			end = 1 + i
		}
		var step PathStep
		step, ok = parseStep(rest[:end])
		path.Steps, rest = append(path.Steps, step), rest[end:]
	}
	if !ok {
		return Path{}, &InvalidError{Field: field, Code: FaultMalformed, Reason: fmt.Sprintf(
			"must be a path such as $.order.number or $.items[0].id, of at most %d bytes", MaxPathBytes)}
	}
	return path, nil
}

// parseStep parses .name or [0].
func parseStep(text string) (PathStep, bool) {
	if name, isName := strings.CutPrefix(text, "."); isName {
		return PathStep{Name: name}, name != "" && !strings.ContainsFunc(name, func(c rune) bool {
			return c <= ' ' || c == 0x7f || strings.ContainsRune(`]*='"`, c)
		})
	}
	digits := strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")
	index, err := strconv.ParseUint(digits, 10, 31)
	return PathStep{Index: int(index)}, err == nil && text == "["+strconv.FormatUint(index, 10)+"]"
}

// CheckIndexedPaths returns all faults of the paths of an event type, joined.
func CheckIndexedPaths(field string, paths []string) error {
	var f faults
	f.paths(field, paths, MaxIndexedPaths)
	return f.joined()
}
