package apitypes

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Optional is a field that is left out, is null, or has a value. The zero Optional is left out; the
// json tag of such a field needs omitzero. [Null] and [Of] return the other two.
//
// A pointer could not distinguish a field that is left out from null. In a change the two mean
// different things: {} keeps the rate of an endpoint, {"rate": null} removes it.
type Optional[T any] struct {
	state optionalState
	value T // zero unless the state is hasValue
}

type optionalState uint8

const (
	leftOut optionalState = iota
	isNull
	hasValue
)

// Of returns a field with the value.
func Of[T any](value T) Optional[T] { return Optional[T]{hasValue, value} }

// Null returns a field that is null.
func Null[T any]() Optional[T] { return Optional[T]{state: isNull} }

// OfPointer returns a field with the value that p points to. If p is nil, the
// field is left out.
func OfPointer[T any](p *T) Optional[T] {
	if p == nil {
		return Optional[T]{}
	}
	return Of(*p)
}

// NullUnless returns a field with the value if there is true, and otherwise null.
func NullUnless[T any](there bool, value T) Optional[T] {
	if !there {
		return Null[T]()
	}
	return Of(value)
}

// Get returns the value, and whether the field has one.
func (o Optional[T]) Get() (T, bool) { return o.value, o.state == hasValue }

// Value returns the value, or the zero value if the field has none.
func (o Optional[T]) Value() T { return o.value }

// IsNull reports whether the field is null.
func (o Optional[T]) IsNull() bool { return o.state == isNull }

// IsZero reports whether the field was left out.
func (o Optional[T]) IsZero() bool { return o.state == leftOut }

// SetNull makes the field null. Decoders call it.
func (o *Optional[T]) SetNull() { *o = Null[T]() }

// SetValue marks the field as having a value. It returns a pointer to the value, which the caller
// must fill. Decoders call it.
func (o *Optional[T]) SetValue() any {
	o.state = hasValue
	return &o.value
}

// MarshalJSON writes the value, or null if the field has none. It leaves it to the caller's encoder to
// escape < and > in texts.
func (o Optional[T]) MarshalJSON() ([]byte, error) {
	if o.state != hasValue {
		return []byte("null"), nil
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	err := e.Encode(o.value)
	return text.Bytes(), err
}

// UnmarshalJSON reads a value or null.
func (o *Optional[T]) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		o.SetNull()
		return nil
	}
	return json.Unmarshal(text, o.SetValue())
}

// String returns the text of the value. It uses the value's own String method, which keeps secrets
// out of the text.
func (o Optional[T]) String() string {
	switch {
	case o.IsNull():
		return "null"
	case o.IsZero():
		return ""
	}
	return fmt.Sprint(o.value)
}

// GoString does what String does, for %#v.
func (o Optional[T]) GoString() string { return o.String() }
