package apitypes

import (
	"encoding/json"
	"fmt"
)

// Optional is a field that is left out, null, or has a value. Its zero value is
// left out, if its json tag has omitzero. [Of] and [Null] make the other two.
//
// A pointer could not tell "left out" from null, which mean different things in a
// change: {} keeps the rate of an endpoint, {"rate": null} removes it.
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

// NullUnless returns a field with the value if there is one, else null.
func NullUnless[T any](there bool, value T) Optional[T] {
	if !there {
		return Null[T]()
	}
	return Of(value)
}

// Get returns the value, and whether the field has one.
func (o Optional[T]) Get() (T, bool) { return o.value, o.state == hasValue }

// Value returns the value, or the zero value where the field has none.
func (o Optional[T]) Value() T { return o.value }

// IsNull reports whether the field is null.
func (o Optional[T]) IsNull() bool { return o.state == isNull }

// IsZero reports whether the field was left out.
func (o Optional[T]) IsZero() bool { return o.state == leftOut }

// SetNull makes the field null. Decoders call it.
func (o *Optional[T]) SetNull() { *o = Null[T]() }

// SetValue gives the field a value, and returns a pointer to the variable that
// the caller must fill with it. Decoders call it.
func (o *Optional[T]) SetValue() any {
	o.state = hasValue
	return &o.value
}

// MarshalJSON writes the value, or null where the field has none.
func (o Optional[T]) MarshalJSON() ([]byte, error) {
	if o.state != hasValue {
		return []byte("null"), nil
	}
	return json.Marshal(o.value)
}

// UnmarshalJSON reads a value or null.
func (o *Optional[T]) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		o.SetNull()
		return nil
	}
	return json.Unmarshal(text, o.SetValue())
}

// String returns the text of the value. It goes through the value's own String,
// which keeps secrets out of texts.
func (o Optional[T]) String() string {
	switch {
	case o.IsNull():
		return "null"
	case o.IsZero():
		return ""
	}
	return fmt.Sprint(o.value)
}

// GoString is String, for %#v.
func (o Optional[T]) GoString() string { return o.String() }
