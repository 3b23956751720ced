package api

import (
	"encoding/json"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/postrider/postrider/internal/jsonx"
)

// optional is a field that a change may leave out, set to null or set to a
// value. Left out, the field keeps its value. Null sets it back to its default.
// A field of another type refuses null; [jsonx.Decode] names it in a 422.
type optional[T any] struct {
	given bool // in the request; false: left out
	null  bool
	value T // zero unless given and not null
}

var _ jsonx.Optional = (*optional[string])(nil)

// given returns the optional field of an answer that has the value.
func given[T any](v T) optional[T] { return optional[T]{given: true, value: v} }

// nullUnless returns null, or the value where there is one.
func nullUnless[T any](there bool, v T) optional[T] {
	if !there {
		return optional[T]{given: true, null: true}
	}
	return given(v)
}

// SetNull implements [jsonx.Optional].
func (o *optional[T]) SetNull() { o.given, o.null = true, true }

// SetValue implements [jsonx.Optional].
func (o *optional[T]) SetValue() any {
	o.given = true
	return &o.value
}

// IsZero reports whether the field was left out. It lets omitzero leave it out
// of an answer.
func (o optional[T]) IsZero() bool { return !o.given }

// MarshalJSON writes the value, or null.
func (o optional[T]) MarshalJSON() ([]byte, error) {
	if o.null {
		return []byte("null"), nil
	}
	return json.Marshal(o.value)
}

// Schema describes the value, and that null is accepted.
func (optional[T]) Schema(r huma.Registry) *huma.Schema {
	value := r.Schema(reflect.TypeFor[T](), true, "")
	if value.Ref != "" {
		return &huma.Schema{AnyOf: []*huma.Schema{value, {Type: "null"}}}
	}
	value.Nullable = true
	return value
}

// set changes a field as the request says. Standard is its default.
func set[T any](field *T, to optional[T], standard T) {
	switch {
	case to.null:
		*field = standard
	case to.given:
		*field = to.value
	}
}

func setText[T ~string](field *T, to optional[string], standard T) {
	text := string(*field)
	set(&text, to, string(standard))
	*field = T(text)
}

func setMillis(field *time.Duration, to optional[int64], standard time.Duration) {
	switch {
	case to.null:
		*field = standard
	case to.given:
		*field = millis(to.value)
	}
}
