package jsonx

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"reflect"
	"sync"
	"unicode/utf8"
)

// plain decodes the bodies of correct clients, several times as fast as decoder. It gives up at
// anything else, and decoder starts again: at a fault, at an escape in a name or in a string field,
// at a number or a boolean for a field. It accepts nothing that decoder would refuse; a fuzz test
// checks this.
//
// It is fast because it has no error texts and no state to resume from. A fault costs a second
// pass, which only clients with faulty bodies pay for; decoder then names all faults at once. plain
// can decode nearly every publish: the fields are plain strings, and the data is checked and copied
// without being decoded.
//
// Its methods return false to give up. Then the value may be partly filled.
type plain struct {
	// text is the body. Strings and raw values are copied from it.
	text []byte
	// at is the offset of the next byte.
	at int
	// names are the names in the open objects of a raw value, innermost object last. They are used
	// to find duplicates.
	names []name
}

// name is the position of a member's name in the text, with a checksum that
// distinguishes most names without a comparison of bytes.
type name struct {
	start, end int
	sum        uint64
}

// maxNames is the greatest number of names in one object. Each name is compared with all names
// before it, so the time is quadratic. The general decoder has no such limit.
const maxNames = 128

// plains is the pool of plain decoders. It reuses the memory of names.
var plains = sync.Pool{New: func() any { return new(plain) }}

// decodePlain decodes body into v, and reports whether it could. If not, v may
// be partly filled.
func decodePlain(body []byte, v reflect.Value) bool {
	p := plains.Get().(*plain) //nolint:errcheck // nothing else is in the pool
	p.text, p.at = body, 0
	done := p.object(v)
	if p.peek(); p.at < len(p.text) {
		done = false
	}
	p.text, p.names = nil, p.names[:0]
	plains.Put(p)
	return done
}

// value decodes the next value into v. Types without a case are left to
// decoder.
func (p *plain) value(v reflect.Value) bool {
	if v.Type() == rawType {
		return p.raw(v)
	}
	switch v.Kind() {
	case reflect.String:
		text, ok := p.quoted(false)
		if ok {
			v.SetString(string(text))
		}
		return ok
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return p.value(v.Elem())
	case reflect.Struct:
		if o := optionalOf(v); o != nil {
			return p.optional(o)
		}
		return p.object(v)
	case reflect.Slice:
		return p.list(v)
	case reflect.Map:
		return p.texts(v)
	default:
		return false
	}
}

// optional decodes null or a value into o.
func (p *plain) optional(o Optional) bool {
	if p.peek() != 'n' {
		return p.value(reflect.ValueOf(o.SetValue()).Elem())
	}
	o.SetNull()
	return p.word("null")
}

// object decodes an object into a struct. It gives up at an unknown, repeated
// or missing name.
func (p *plain) object(v reflect.Value) bool {
	plan := planOf(v.Type())
	var seen uint64
	for first := true; ; first = false {
		ended, ok := p.next(first, '{', '}')
		if ended || !ok {
			return ok && plan.required&^seen == 0
		}
		i, known := p.member(plan)
		if !known || seen&(1<<i) != 0 {
			return false
		}
		field := v.FieldByIndex(plan.fields[i].index)
		if !p.value(field) || plan.fields[i].notEmpty && field.Len() == 0 {
			return false
		}
		seen |= 1 << i
	}
}

// member reads the name of a member and its colon. It returns the index of the
// field in the plan.
func (p *plain) member(plan *plan) (i int, known bool) {
	text, ok := p.quoted(false)
	if !ok || !p.expect(':') {
		return 0, false
	}
	i, known = plan.byName[string(text)]
	return i, known
}

// list decodes a list into a slice.
func (p *plain) list(v reflect.Value) bool {
	v.Set(reflect.MakeSlice(v.Type(), 0, 4))
	for first := true; ; first = false {
		ended, ok := p.next(first, '[', ']')
		if ended || !ok {
			return ok
		}
		if v.Len() == v.Cap() {
			v.Grow(1)
		}
		v.SetLen(v.Len() + 1)
		item := v.Index(v.Len() - 1)
		item.SetZero()
		if !p.value(item) {
			return false
		}
	}
}

// texts decodes an object into a map of strings to strings. It gives up at a repeated name.
func (p *plain) texts(v reflect.Value) bool {
	texts := map[string]string{}
	for first := true; ; first = false {
		ended, ok := p.next(first, '{', '}')
		if ended {
			v.Set(reflect.ValueOf(texts))
		}
		if ended || !ok {
			return ok
		}
		name, ok := p.quoted(false)
		if _, repeated := texts[string(name)]; !ok || repeated || !p.expect(':') {
			return false
		}
		text, ok := p.quoted(false)
		if !ok {
			return false
		}
		texts[string(name)] = string(text)
	}
}

// raw checks the next value and copies its bytes. The copy is necessary because the next request
// reuses the buffer of the text, while the value is stored and delivered later.
func (p *plain) raw(v reflect.Value) bool {
	p.peek()
	start := p.at
	if !p.skip(0) {
		return false
	}
	v.SetBytes(bytes.Clone(p.text[start:p.at]))
	return true
}

// next moves to the next item of a list or object, or over its end. The
// argument first is true for the first call, which also reads the opening
// bracket. It returns ended true at the closing bracket, and ok false at a
// syntax error.
func (p *plain) next(first bool, begin, end byte) (ended, ok bool) {
	if first && !p.expect(begin) {
		return false, false
	}
	b := p.peek()
	if b == end {
		p.at++
		return true, true
	}
	if !first && b == ',' {
		p.at++ // the caller requires an item now
		return false, true
	}
	return false, first
}

// expect skips white space and then the byte b, and reports whether b was next.
func (p *plain) expect(b byte) bool {
	if p.peek() != b {
		return false
	}
	p.at++
	return true
}

// peek skips white space and returns the next byte without consuming it; 0: the
// text ends. It is small enough to be inlined; peekFar does the rest.
func (p *plain) peek() byte {
	if p.at < len(p.text) && p.text[p.at] > ' ' {
		return p.text[p.at]
	}
	return p.peekFar()
}

// peekFar does what peek does if the next byte may be white space or a control character.
func (p *plain) peekFar() byte {
	for ; p.at < len(p.text); p.at++ {
		switch b := p.text[p.at]; b {
		case ' ', '\t', '\n', '\r':
		default:
			return b
		}
	}
	return 0
}

// skip checks and skips any value. depth is the number of objects and lists of the raw value that
// contain this value.
func (p *plain) skip(depth int) bool {
	switch b := p.peek(); {
	case b == '"':
		_, ok := p.quoted(true)
		return ok
	case b == '{' && depth < MaxDepth:
		return p.skipObject(depth + 1)
	case b == '[' && depth < MaxDepth:
		return p.skipList(depth + 1)
	case b == '-' || '0' <= b && b <= '9':
		return p.number()
	case b == 't':
		return p.word("true")
	case b == 'f':
		return p.word("false")
	case b == 'n':
		return p.word("null")
	}
	return false
}

// skipList checks and skips a list. The argument depth includes this list.
func (p *plain) skipList(depth int) bool {
	for first := true; ; first = false {
		ended, ok := p.next(first, '[', ']')
		if ended || !ok {
			return ok
		}
		if !p.skip(depth) {
			return false
		}
	}
}

// skipObject checks and skips an object, and refuses duplicate names. Two readers of
// an object with a duplicate name may see different values, for example the receiver
// of an event and a filter in front of it. The argument depth includes this object.
//
// The names of all open objects share one list: the names of this object start at
// index mine and are removed at its end, so that nested objects need no memory of
// their own.
func (p *plain) skipObject(depth int) bool {
	mine := len(p.names)
	for first := true; ; first = false {
		ended, ok := p.next(first, '{', '}')
		if ended || !ok {
			p.names = p.names[:mine]
			return ok
		}
		text, ok := p.quoted(false)
		if !ok || !p.unique(mine, text) || !p.expect(':') || !p.skip(depth) {
			return false
		}
	}
}

// unique records a name of the innermost object, whose names start at index mine. It reports
// whether the name is new there. It compares bytes. A name with an escape could be another spelling
// of the same name, but plain gives up before such a name comes here.
func (p *plain) unique(mine int, text []byte) bool {
	if len(p.names)-mine == maxNames {
		return false
	}
	n := name{p.at - 1 - len(text), p.at - 1, sum(text)}
	for _, other := range p.names[mine:] {
		if other.sum == n.sum && bytes.Equal(p.text[other.start:other.end], text) {
			return false
		}
	}
	p.names = append(p.names, n)
	return true
}

// sum returns a checksum of a name, from its first eight bytes, its last eight and its length.
// Names with equal sums are then compared byte by byte. An attacker can choose names with equal
// sums; maxNames limits the comparisons that this causes.
func sum(text []byte) uint64 {
	n := len(text)
	switch {
	case n >= 8:
		return binary.LittleEndian.Uint64(text) ^ binary.LittleEndian.Uint64(text[n-8:])<<1 ^ uint64(n)<<56
	case cap(text) >= 8: // reads bytes after a short name, and masks them
		return binary.LittleEndian.Uint64(text[:8])&(1<<(8*n)-1) ^ uint64(n)<<56
	}
	var sum uint64
	for i, b := range text {
		sum |= uint64(b) << (8 * i)
	}
	return sum ^ uint64(n)<<56
}

// quoted skips a string and returns the bytes between its quotes. It accepts
// escapes and the character DEL only if anything is true. In the fields of
// structs, decoder must handle them.
func (p *plain) quoted(anything bool) ([]byte, bool) {
	if !p.expect('"') {
		return nil, false
	}
	text, start := p.text, p.at
	for i := start; ; {
		i += common(text[i:])
		if i == len(text) {
			return nil, false
		}
		switch b := text[i]; {
		case b == '"':
			p.at = i + 1
			return text[start:i], true
		case b >= utf8.RuneSelf:
			r, size := utf8.DecodeRune(text[i:])
			if r == utf8.RuneError && size == 1 {
				return nil, false
			}
			i += size
		case anything && b == '\\':
			size := escape(text[i+1:])
			if size == 0 {
				return nil, false
			}
			i += 1 + size
		case anything && b == 0x7f:
			i++
		default:
			return nil, false
		}
	}
}

// common returns the length of the prefix that needs no special treatment. The prefix ends before a
// quote, a backslash, a control character or a byte of a multi-byte rune. It checks eight bytes at
// a time. Each term of found finds one kind:
//
//	x                    a byte of a multi-byte rune has its high bit set
//	x - each*' '         a control character borrows, which sets the high bit
//	x + each             DEL, 0x7f, carries into the high bit
//	(x ^ each*'"') - each  a quote becomes zero and borrows; likewise a backslash
//
// In found, the lowest byte with its high bit set is the first such byte. A borrow or a carry can
// set bits only in higher bytes.
func common(text []byte) int {
	const each, high = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; len(text)-i >= 8; i += 8 {
		x := binary.LittleEndian.Uint64(text[i:])
		found := x | (x - each*' ') | (x + each) | ((x ^ each*'"') - each) | ((x ^ each*'\\') - each)
		if found &= high; found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for ; i < len(text); i++ {
		if b := text[i]; b < ' ' || b >= 0x7f || b == '"' || b == '\\' {
			return i
		}
	}
	return i
}

// escape returns the length of the escape after a backslash; 0: it is invalid.
// It also returns 0 for surrogates, which decoder must check in pairs.
func escape(text []byte) int {
	switch {
	case len(text) > 0 && bytes.IndexByte([]byte(`"\/bfnrt`), text[0]) >= 0:
		return 1
	case len(text) < 5 || text[0] != 'u' || (text[1]|0x20 == 'd' && text[2] > '7'):
		return 0
	}
	for _, b := range text[1:5] {
		if (b < '0' || b > '9') && (b|0x20 < 'a' || b|0x20 > 'f') {
			return 0
		}
	}
	return 5
}

// word skips the literal true, false or null.
func (p *plain) word(word string) bool {
	if !bytes.HasPrefix(p.text[p.at:], []byte(word)) {
		return false
	}
	p.at += len(word)
	return true
}

// number checks and skips a number by the grammar of RFC 8259, section 6.
func (p *plain) number() bool {
	if p.text[p.at] == '-' {
		p.at++
	}
	start := p.at
	whole := p.digits()
	if whole == 0 || whole > 1 && p.text[start] == '0' {
		return false
	}
	if p.at < len(p.text) && p.text[p.at] == '.' {
		p.at++
		if p.digits() == 0 {
			return false
		}
	}
	if p.at < len(p.text) && p.text[p.at]|0x20 == 'e' {
		p.at++
		if p.at < len(p.text) && (p.text[p.at] == '+' || p.text[p.at] == '-') {
			p.at++
		}
		return p.digits() > 0
	}
	return true
}

// digits skips digits and returns their number.
func (p *plain) digits() int {
	start := p.at
	for p.at < len(p.text) && '0' <= p.text[p.at] && p.text[p.at] <= '9' {
		p.at++
	}
	return p.at - start
}
