package postrider

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Metadata has what a platform notes of an object, by keys of its own. Empty: nothing.
type Metadata map[string]string

// The limits of metadata. Lengths are in bytes.
const (
	MaxMetadataKeys = 20
	MaxMetadataKey  = 128
	MaxMetadata     = 2048 // of all keys and values together
)

// Check returns all faults, joined: an [InvalidError] for each, by the name of the field in the API.
func (m Metadata) Check(field string) error {
	var f faults
	if n := len(m); n > MaxMetadataKeys {
		f.join(&InvalidError{
			Field: field, Code: FaultWrongCount, Reason: fmt.Sprintf("must have at most %d keys", MaxMetadataKeys), Max: MaxMetadataKeys,
		})
	}
	keys, size := slices.Sorted(maps.Keys(m)), 0
	for _, key := range keys {
		size += len(key) + len(m[key])
	}
	if size > MaxMetadata {
		f.join(&InvalidError{
			Field: field, Code: FaultTooLong, Reason: fmt.Sprintf("must have at most %d bytes of keys and values", MaxMetadata), Max: MaxMetadata,
		})
	}
	for _, key := range keys[:min(len(keys), MaxMetadataKeys)] {
		if key == "" || len(key) > MaxMetadataKey || !IsText(key) {
			f.add(true, field, FaultMalformed, fmt.Sprintf("must have keys of 1 to %d bytes of UTF-8 without control characters, unlike %q",
				MaxMetadataKey, strings.ToValidUTF8(key[:min(len(key), MaxMetadataKey)], "?")))
			continue
		}
		f.add(!IsText(m[key]), field+"."+key, FaultMalformed, "must be UTF-8 without control characters")
	}
	return f.joined()
}

// Has reports whether m has every key of the other, with the same value.
func (m Metadata) Has(other Metadata) bool {
	for key, value := range other {
		if own, ok := m[key]; !ok || own != value {
			return false
		}
	}
	return true
}

// IsText reports whether s is valid UTF-8 without control characters.
func IsText(s string) bool { return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl) }
