package jsonx

import (
	"bytes"
	"reflect"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// plan has the fields of a struct type, computed once per type.
type plan struct {
	// fields are the fields with a json name, in the order of the struct. There are at most 64,
	// because seen has one bit for each.
	fields []field
	// byName maps a JSON name to the index in fields.
	byName map[string]int
	// required has the bits of the required fields.
	required uint64
}

// field is one field of a plan.
type field struct {
	// name is the JSON name.
	name string
	// index is the path for reflect.Value.FieldByIndex. It leads through embedded structs.
	index []int
	// required is true for a field without omitempty and omitzero.
	required bool
	// notEmpty is true for an optional string with a minLength or an enum: the field may be
	// omitted, but its text may not be empty.
	notEmpty bool
}

// plans caches plans by type: the key is a reflect.Type, the value a *plan. Entries are never
// removed.
var plans sync.Map

// planOf returns the plan of a struct type. Two goroutines may compute the same
// plan, which is harmless.
func planOf(t reflect.Type) *plan {
	if p, ok := plans.Load(t); ok {
		return p.(*plan) //nolint:errcheck // nothing else is stored
	}
	p := &plan{byName: map[string]int{}}
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		required := !strings.Contains(options, "omitempty") && !strings.Contains(options, "omitzero")
		if required {
			p.required |= 1 << len(p.fields)
		}
		p.byName[name] = len(p.fields)
		bound := f.Tag.Get("minLength") != "" || f.Tag.Get("enum") != ""
		p.fields = append(p.fields, field{
			name: name, index: f.Index, required: required,
			notEmpty: !required && bound && f.Type.Kind() == reflect.String,
		})
	}
	plans.Store(t, p)
	return p
}

// unquote returns the text of a valid JSON string.
func unquote(quoted jsontext.Value) string {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1])
	}
	text, _ := jsontext.AppendUnquote(nil, quoted) // cannot fail: the decoder has checked it
	return string(text)
}

// depth returns the number of nested levels of a valid JSON value.
func depth(value []byte) int {
	level, deepest := 0, 0
	for i := 0; i < len(value); i++ {
		switch value[i] {
		case '"':
			i += stringLength(value[i:]) - 1
		case '{', '[':
			level++
			deepest = max(deepest, level)
		case '}', ']':
			level--
		}
	}
	return deepest
}

// stringLength returns the length of the JSON string at the start of text, with
// both quotes.
func stringLength(text []byte) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}

// path converts a JSON pointer to the form of [place.String]. A member whose name is a number looks
// like an index.
func path(pointer jsontext.Pointer) string {
	var path strings.Builder
	for token := range pointer.Tokens() {
		switch {
		case isIndex(token):
			path.WriteString("[" + token + "]")
		case path.Len() > 0:
			path.WriteString("." + token)
		default:
			path.WriteString(token)
		}
	}
	return path.String()
}

// isIndex reports whether a token of a pointer has only digits.
func isIndex(token string) bool {
	return token != "" && strings.Trim(token, "0123456789") == ""
}
