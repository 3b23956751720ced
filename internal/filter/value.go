package filter

import (
	"encoding/json"
	"strings"
)

type kind uint8

const (
	kindNull kind = iota
	kindFalse
	kindTrue
	kindNumber
	kindString
	kindArray
	kindObject
)

// A value is a JSON value that is decoded one level at a time, when somebody asks. So what no pattern
// asks for is only skipped. A nil value is missing.
type value struct {
	name   string // of a member of an object
	json   string // valid JSON
	kind   kind
	opened bool    // the fields below are filled
	plain  scalar  // of null, a boolean, a number or a string
	items  []value // elements or members
	// byName has the index in items; nil if there are few.
	byName map[string]int
	meter  *meter // of the event; nil: none
}

// manyMembers is the number of members from which a map finds one faster than a loop.
const manyMembers = 16

// newValue returns the value of the JSON text, which must be valid and begin with the value.
func newValue(name, text string) value {
	v := value{name: name, json: text, kind: kindNumber}
	switch text[0] {
	case '{':
		v.kind = kindObject
	case '[':
		v.kind = kindArray
	case '"':
		v.kind = kindString
	case 't':
		v.kind = kindTrue
	case 'f':
		v.kind = kindFalse
	case 'n':
		v.kind = kindNull
	}
	return v
}

// newString returns the value of a string that was never JSON.
func newString(name, text string) value {
	return value{name: name, kind: kindString, opened: true, plain: scalar{kind: kindString, text: text}}
}

// newList returns an array or an object that was never JSON.
func newList(name string, k kind, items []value) value {
	v := value{name: name, kind: k, opened: true, items: items}
	v.indexNames()
	return v
}

// text returns the value as JSON.
func (v *value) text() string {
	switch {
	case v.json != "":
		return v.json
	case v.kind == kindString:
		return quote(v.plain.text)
	}
	var b strings.Builder
	b.WriteByte("[{"[v.kind-kindArray])
	for i := range v.items {
		if i > 0 {
			b.WriteByte(',')
		}
		if v.kind == kindObject {
			b.WriteString(quote(v.items[i].name) + ":")
		}
		b.WriteString(v.items[i].text())
	}
	b.WriteByte("]}"[v.kind-kindArray])
	return b.String()
}

// field returns a member of an object; nil: v is no object, or has no such member.
func (v *value) field(name string) *value {
	if v == nil || v.kind != kindObject {
		return nil
	}
	v.open()
	if v.byName != nil {
		if i, ok := v.byName[name]; ok {
			return &v.items[i]
		}
		return nil
	}
	for i := len(v.items) - 1; i >= 0; i-- {
		if v.items[i].name == name {
			return &v.items[i]
		}
	}
	return nil
}

// each calls f for the value or, if it is an array, for all that is in it and in the arrays in it,
// until f returns true or the meter is empty. It reports whether f returned true.
func (v *value) each(f func(*value) bool) bool {
	if v == nil {
		return false
	}
	if v.kind != kindArray {
		return f(v)
	}
	v.open()
	for i := range v.items {
		if v.meter.empty() {
			return false
		}
		v.meter.spend(1) // also for an element that lacks the field
		if v.items[i].each(f) {
			return true
		}
	}
	return false
}

// scalar returns null, a boolean, a number or a string.
func (v *value) scalar() scalar {
	v.open()
	return v.plain
}

// open decodes one level.
func (v *value) open() {
	if v.opened {
		return
	}
	v.opened = true
	switch v.kind {
	case kindArray, kindObject:
		v.openItems()
		v.indexNames()
	case kindNumber:
		v.plain = parseNumber(v.json)
	case kindString:
		v.plain = scalar{kind: kindString, text: unquote(v.json)}
	default:
		v.plain = scalar{kind: v.kind}
	}
}

func (v *value) openItems() {
	const usual = 4 // members of an object
	v.items = make([]value, 0, usual)
	i := skipSpace(v.json, 1)
	for v.json[i] != ']' && v.json[i] != '}' {
		name := ""
		if v.kind == kindObject {
			end := skipValue(v.json, i)
			name = unquote(v.json[i:end])
			i = skipSpace(v.json, skipSpace(v.json, end)+len(":"))
		}
		end := skipValue(v.json, i)
		item := newValue(name, v.json[i:end])
		item.meter = v.meter
		v.items = append(v.items, item)
		i = skipSpace(v.json, end)
		if v.json[i] == ',' {
			i = skipSpace(v.json, i+1)
		}
	}
}

func (v *value) indexNames() {
	if v.kind != kindObject || len(v.items) < manyMembers {
		return
	}
	v.byName = make(map[string]int, len(v.items))
	for i := range v.items {
		v.byName[v.items[i].name] = i
	}
}

func skipSpace(text string, i int) int {
	for text[i] == ' ' || text[i] == '\n' || text[i] == '\t' || text[i] == '\r' {
		i++
	}
	return i
}

// skipValue returns the end of the value that begins at i.
func skipValue(text string, i int) int {
	for depth := 0; ; {
		switch text[i] {
		case '"':
			i = skipString(text, i)
		case '{', '[':
			depth++
			i++
		case '}', ']':
			depth--
			i++
		case ',', ':', ' ', '\n', '\t', '\r':
			i++
			continue
		default:
			i = skipLiteral(text, i)
		}
		if depth == 0 {
			return i
		}
	}
}

// skipLiteral returns the end of the number, the boolean or the null that begins at i.
func skipLiteral(text string, i int) int {
	for i < len(text) {
		switch text[i] {
		case ',', ']', '}', ' ', '\n', '\t', '\r':
			return i
		}
		i++
	}
	return i
}

func skipString(text string, i int) int {
	for i++; text[i] != '"'; i++ {
		if text[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// unquote decodes a valid JSON string.
func unquote(text string) string {
	if strings.IndexByte(text, '\\') < 0 {
		return text[1 : len(text)-1]
	}
	var s string
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return ""
	}
	return s
}

// quote encodes a JSON string.
func quote(text string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(text); err != nil {
		return `""`
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// equal reports whether two values are the same, whatever the order of members and the form of
// numbers. nil equals only nil.
func equal(a, b *value) bool {
	if a == nil || b == nil || a.kind != b.kind {
		return a == b
	}
	a.open()
	b.open()
	switch a.kind {
	case kindArray:
		same := len(a.items) == len(b.items)
		for i := 0; same && i < len(a.items); i++ {
			same = equal(&a.items[i], &b.items[i])
		}
		return same
	case kindObject:
		return within(a, b) && within(b, a)
	default:
		return a.plain == b.plain
	}
}

// within reports whether b has all members of a, with the same values.
func within(a, b *value) bool {
	for i := range a.items {
		name := a.items[i].name
		if other := b.field(name); other == nil || !equal(a.field(name), other) {
			return false
		}
	}
	return true
}
