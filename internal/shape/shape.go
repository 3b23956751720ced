// Package shape copies the settings of one struct into another struct that has them in another
// form. So a new setting needs no code that only copies it.
//
// An option of an endpoint has four forms: [postrider.Policy], the document in the stores, the JSON
// of the API, and the flags of a command. Two fields are the same setting if they have the same
// name. They also are if one is a [time.Duration] X and the other is XMS, an int64 of whole
// milliseconds.
package shape

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"reflect"
	"strings"
	"sync"
	"time"
)

var duration = reflect.TypeFor[time.Duration]()

// Copy sets fields of the struct *to. Each field gets the value of the field of the struct from
// that is the same setting. Fields that only one of the structs has are not changed. Structs and
// slices in them are replaced as a whole, by the same rules. A pointer is the same setting as the
// value that it points to; a nil pointer leaves the other field unchanged. A duration that is no
// whole number of milliseconds is an error, so that nothing is rounded without notice. If the types
// do not fit, which is a programming error, Copy panics.
func Copy(to, from any) error {
	return copyStruct(reflect.ValueOf(to).Elem(), reflect.ValueOf(from))
}

func copyStruct(to, from reflect.Value) error {
	var errs []error
	for _, p := range pairsOf(to.Type(), from.Type()) {
		if err := Set(to.Field(p.to), from.Field(p.from)); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", to.Type().Field(p.to).Name, err))
		}
	}
	return errors.Join(errs...)
}

// pair has the indexes of one setting in two structs.
type pair struct{ to, from int }

// pairs caches the pairs of two types, because finding them by name takes longer than copying the
// fields.
var pairs sync.Map // key: [2]reflect.Type; value: []pair

func pairsOf(to, from reflect.Type) []pair {
	key := [2]reflect.Type{to, from}
	if found, ok := pairs.Load(key); ok {
		return found.([]pair) //nolint:errcheck // there is nothing else in it
	}
	var found []pair
	for i := range to.NumField() {
		if f, ok := same(from, to.Field(i).Name); ok {
			found = append(found, pair{i, f.Index[0]})
		}
	}
	pairs.Store(key, found)
	return found
}

// same finds the field of a struct that is the same setting as a field with the name.
func same(of reflect.Type, name string) (reflect.StructField, bool) {
	for _, alike := range []string{name, name + "MS", strings.TrimSuffix(name, "MS")} {
		if f, ok := of.FieldByName(alike); ok {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

// Set sets a setting from another form of the same setting; see [Copy].
func Set(to, from reflect.Value) error {
	switch {
	case from.Kind() == reflect.Pointer && from.IsNil():
	case from.Kind() == reflect.Pointer:
		return Set(to, from.Elem())
	case to.Kind() == reflect.Pointer:
		to.Set(reflect.New(to.Type().Elem()))
		return Set(to.Elem(), from)
	case to.Type() == from.Type():
		to.Set(from)
	case from.Type() == duration:
		d := time.Duration(from.Int())
		if d%time.Millisecond != 0 {
			return fmt.Errorf("%s is no whole number of milliseconds", d)
		}
		to.SetInt(d.Milliseconds())
	// A client may send any number; a number that is too large is cut here, and refused later.
	case to.Type() == duration:
		const most = math.MaxInt64 / int64(time.Millisecond)
		to.SetInt(min(max(from.Int(), -most), most) * int64(time.Millisecond))
	case to.Kind() == reflect.Struct:
		to.SetZero()
		return copyStruct(to, from)
	case to.Kind() == reflect.Slice:
		return copySlice(to, from)
	default:
		to.Set(from.Convert(to.Type()))
	}
	return nil
}

// copySlice keeps the difference between nil and an empty slice.
func copySlice(to, from reflect.Value) error {
	if from.IsNil() {
		to.SetZero()
		return nil
	}
	to.Set(reflect.MakeSlice(to.Type(), from.Len(), from.Len()))
	for i := range from.Len() {
		if err := Set(to.Index(i), from.Index(i)); err != nil {
			return fmt.Errorf("[%d]: %w", i, err)
		}
	}
	return nil
}

// Optional is an apitypes.Optional of any type.
type Optional interface {
	// IsNull reports whether the field is null.
	IsNull() bool

	// IsZero reports whether the field was left out.
	IsZero() bool

	// SetNull makes the field null.
	SetNull()

	// SetValue gives the field a value if it has none, and returns a pointer to its value.
	SetValue() any
}

// Option is an Optional field of a struct.
type Option struct {
	Optional

	Name string // name in JSON
	// Name of the field of the other struct that is the same setting and has a fitting type; empty:
	// there is none.
	Like string
}

// Value returns the value of the field. The caller may set it.
func (o Option) Value() reflect.Value { return reflect.ValueOf(o.SetValue()).Elem() }

// Options yields the Optional fields of the struct *of. For each it also finds the same setting in
// the other struct, which may be a struct of flags. The type of a flag fits if it is the type of
// the value, a pointer to it, or if both are texts.
func Options(of any, other reflect.Type) iter.Seq[Option] {
	return func(yield func(Option) bool) {
		for field, value := range reflect.ValueOf(of).Elem().Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			o := Option{Name: name}
			var is bool
			if o.Optional, is = reflect.TypeAssert[Optional](value.Addr()); !is {
				continue
			}
			empty, _ := reflect.TypeAssert[Optional](reflect.New(field.Type))
			if f, found := same(other, field.Name); found && fits(reflect.TypeOf(empty.SetValue()).Elem(), f.Type) {
				o.Like = f.Name
			}
			if !yield(o) {
				return
			}
		}
	}
}

func fits(value, other reflect.Type) bool {
	if other.Kind() == reflect.Pointer {
		other = other.Elem()
	}
	bothTexts := value.Kind() == reflect.String && other.Kind() == reflect.String
	return value == other || bothTexts || other == duration && value.Kind() == reflect.Int64
}
