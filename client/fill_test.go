package client_test

import (
	"encoding/json"
	"reflect"
	"time"
)

// optional is implemented by a pointer to an [apitypes.Optional].
type optional interface{ SetValue() any }

// full returns a value with all fields set.
func full[T any]() (v T) {
	fill(reflect.ValueOf(&v).Elem())
	return v
}

func fill(v reflect.Value) {
	switch v.Interface().(type) {
	case json.RawMessage:
		v.SetBytes([]byte(`{}`))
		return
	case time.Time:
		v.Set(reflect.ValueOf(time.Date(2026, 11, 21, 5, 0, 0, 0, time.UTC)))
		return
	}
	if o, ok := reflect.TypeAssert[optional](v.Addr()); ok {
		fill(reflect.ValueOf(o.SetValue()).Elem())
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Float64:
		v.SetFloat(1)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{"KEY": "x"}))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Array:
		v.Index(0).SetUint(1)
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(field)
		}
	default:
		panic("cannot fill " + v.Type().String())
	}
}
