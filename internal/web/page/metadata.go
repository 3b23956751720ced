package page

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/postrider/postrider/apitypes"
)

// ErrNoMetadata is the error of [ParseMetadata]: the key of the text that says what is wrong.
var ErrNoMetadata = errors.New("form.no_metadata")

// ParseMetadata is the inverse of MetadataText. It ignores spaces around keys and values.
func ParseMetadata(text string) (apitypes.Metadata, error) {
	m := apitypes.Metadata{}
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		key = strings.TrimSpace(key)
		if _, repeated := m[key]; repeated || !ok && key != "" {
			return nil, ErrNoMetadata
		}
		if ok {
			m[key] = strings.TrimSpace(value)
		}
	}
	return m, nil
}

// MetadataText returns metadata as a form shows it: a line for each key, as KEY=VALUE.
func MetadataText(m apitypes.Metadata) string {
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		lines = append(lines, key+"="+m[key])
	}
	return strings.Join(lines, "\n")
}
