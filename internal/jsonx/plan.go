package jsonx

import (
	"bytes"
	"reflect"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// plan says which fields a struct has.
type plan struct {
	fields   []field // at most 64, for the bits of seen
	byName   map[string]int
	required uint64 // a bit for each field that is
}

type field struct {
	name     string
	index    []int
	required bool
	notEmpty bool // a string that may be left out, but not be empty
}

var plans sync.Map // reflect.Type to *plan

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

// unquote returns the text of a JSON string that is known to be one.
func unquote(quoted jsontext.Value) string {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1])
	}
	text, _ := jsontext.AppendUnquote(nil, quoted) // the decoder has checked it
	return string(text)
}

// depth returns how many levels a valid JSON value nests.
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

// stringLength returns the length of the JSON string at the start of text, its
// quotes included.
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

// path writes a JSON pointer as [place.String] writes places. A member whose
// name is a number looks like an index.
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

func isIndex(token string) bool {
	return token != "" && strings.Trim(token, "0123456789") == ""
}
