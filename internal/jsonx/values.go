package jsonx

import (
	"bytes"
	"iter"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/postrider/postrider"
)

// MaxValue is the longest text that [Values] yields, in bytes.
const MaxValue = 256

// Values yields the scalars that data has at the paths, each with the index of its path, in the order
// of the data. If a value on a path is a list and the path names no index there, the path goes on in
// each element.
//
// A scalar is yielded as text: a string as it is, a number as [Decimal] returns it, and true and
// false. Null, objects, the empty string, and texts of more than MaxValue bytes are not yielded. If
// data is no JSON, the values before the fault are yielded.
func Values(data []byte, paths []postrider.Path) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		f := finder{json: decoders.Get().(*jsontext.Decoder), paths: paths, yield: yield} //nolint:errcheck // nothing else is in the pool
		// The request's decoder has refused duplicate names already, and need not pay again.
		f.json.Reset(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(true))
		for i := range paths {
			f.open = append(f.open, position{path: i})
		}
		f.value(f.open)
		f.json.Reset(nothing{})
		decoders.Put(f.json)
	}
}

// Forms returns the texts that [Values] yields for what a person calls the value: the text itself and,
// if it is a number, its decimal.
func Forms(text string) []string {
	if decimal, ok := Decimal(text); ok && decimal != text {
		return []string{text, decimal}
	}
	return []string{text}
}

// position is a place on a path: the number of steps that were taken.
type position struct{ path, steps int }

// finder walks JSON data along several paths.
type finder struct {
	json  *jsontext.Decoder
	paths []postrider.Path
	yield func(int, string) bool
	open  []position // a stack: the positions of the value that is read, after those of the values that enclose it
}

// next returns the next step of a path; false: the path ends here.
func (f *finder) next(p position) (step postrider.PathStep, ok bool) {
	if steps := f.paths[p.path].Steps; p.steps < len(steps) {
		return steps[p.steps], true
	}
	return step, false
}

// value reads the next value, which is at the positions. It returns false to end the walk.
func (f *finder) value(at []position) bool {
	if len(at) == 0 {
		return f.json.SkipValue() == nil
	}
	switch kind := f.json.PeekKind(); kind {
	case '{', '[':
		return f.parts(kind, at)
	default:
		return f.scalar(at)
	}
}

// parts reads an object or a list.
func (f *finder) parts(kind jsontext.Kind, at []position) bool {
	if _, err := f.json.ReadToken(); err != nil {
		return false
	}
	top := len(f.open)
	for i := 0; f.json.PeekKind() != kind+2; i++ { // } is { + 2, and ] is [ + 2
		if f.json.PeekKind() == 0 {
			return false
		}
		f.open = f.open[:top]
		if kind == '[' {
			f.element(i, at)
		} else if !f.member(at) {
			return false
		}
		if !f.value(f.open[top:]) {
			return false
		}
	}
	f.open = f.open[:top]
	_, err := f.json.ReadToken()
	return err == nil
}

// element pushes the positions of the element i of a list.
func (f *finder) element(i int, at []position) {
	for _, p := range at {
		switch step, ok := f.next(p); {
		case !ok || step.Name != "":
			f.open = append(f.open, p)
		case step.Index == i:
			f.open = append(f.open, position{p.path, p.steps + 1})
		}
	}
}

// member reads the name of a member, and pushes the positions of its value.
func (f *finder) member(at []position) bool {
	quoted, err := f.json.ReadValue()
	if err != nil {
		return false
	}
	name := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(name, '\\') >= 0 {
		name = []byte(unquote(quoted))
	}
	for _, p := range at {
		if step, ok := f.next(p); ok && step.Name == string(name) {
			f.open = append(f.open, position{p.path, p.steps + 1})
		}
	}
	return true
}

// scalar reads a scalar, and yields it for each path that ends here.
func (f *finder) scalar(at []position) bool {
	value, err := f.json.ReadValue()
	if err != nil {
		return false
	}
	text, ok := string(value), value.Kind() != 'n'
	if value.Kind() == '"' {
		text = unquote(value)
	} else if value.Kind() == '0' {
		text, ok = Decimal(text)
	}
	if !ok || text == "" || len(text) > MaxValue {
		return true
	}
	for _, p := range at {
		if _, more := f.next(p); !more && !f.yield(p.path, text) {
			return false
		}
	}
	return true
}

// Decimal returns a JSON number as a decimal without an exponent, without zeros that change nothing and
// without the sign of zero: 1.50e2 is 150. So two numbers are equal if and only if their texts are. It
// returns false if the text is no number, or the decimal has more than MaxValue bytes.
func Decimal(number string) (string, bool) {
	if !isNumber(number) {
		return "", false
	}
	text, negative := strings.CutPrefix(number, "-")
	exponent := 0
	if e := strings.IndexAny(text, "eE"); e >= 0 {
		var err error
		exponent, err = strconv.Atoi(text[e+1:])
		if err != nil { // only zero has a short decimal then
			exponent = 1 << 30
		}
		text = text[:e]
	}
	whole, fraction, _ := strings.Cut(text, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return "0", true
	}
	point := len(digits) - len(fraction) + exponent // the place of the decimal point among the digits
	digits = strings.TrimRight(digits, "0")
	if point > MaxValue || point < -MaxValue {
		return "", false
	}
	switch {
	case point <= 0:
		text = "0." + strings.Repeat("0", -point) + digits
	case point >= len(digits):
		text = digits + strings.Repeat("0", point-len(digits))
	default:
		text = digits[:point] + "." + digits[point:]
	}
	if negative {
		text = "-" + text
	}
	return text, len(text) <= MaxValue
}

func isNumber(text string) bool {
	value := jsontext.Value(text)
	return value.Kind() == '0' && value.IsValid() && strings.TrimSpace(text) == text
}
