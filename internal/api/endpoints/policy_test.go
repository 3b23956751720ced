package endpoints

import (
	"reflect"
	"testing"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
)

// TestEveryOptionOfAnEndpointIsMappedBothWays changes each option of a policy in turn. The response
// must show another value, a request with that value must set the option, and null must reset it.
func TestEveryOptionOfAnEndpointIsMappedBothWays(t *testing.T) {
	t.Parallel()
	standard := viewPolicy(postrider.DefaultPolicy())
	for field, value := range reflect.ValueOf(standard).Fields() {
		if value.IsZero() {
			t.Errorf("%s: viewPolicy leaves it out", field.Name)
		}
	}
	for option := range reflect.TypeFor[postrider.Policy]().Fields() {
		changed := postrider.DefaultPolicy()
		alter(reflect.ValueOf(&changed).Elem().FieldByIndex(option.Index))
		switch option.Name {
		case "Filter":
			changed.Filter = `{ "type": [1.0, "<é>"]}`
		case "Condition":
			changed.Condition = `data.a == "<é>"`
		}
		view := viewPolicy(changed)
		if reflect.DeepEqual(view, standard) {
			t.Errorf("%s: viewPolicy does not show it", option.Name)
			continue
		}
		if option.Name == "Circuit" { // a preset's name would contradict the number
			view.Circuit = apitypes.Of(apitypes.CircuitPolicy{
				Failures: &changed.Circuit.Failures, Percent: &changed.Circuit.Percent, Attempts: &changed.Circuit.Attempts,
			})
		}
		set := postrider.DefaultPolicy()
		if err := applyPolicy(&postrider.Caller{}, &set, &postrider.Credentials{}, view); err != nil || !reflect.DeepEqual(set, changed) {
			t.Errorf("%s: applyPolicy does not set it: %v\n got %+v\nwant %+v", option.Name, err, set, changed)
		}
		err := applyPolicy(&postrider.Caller{}, &set, &postrider.Credentials{}, nulls())
		if err != nil || !reflect.DeepEqual(set, postrider.DefaultPolicy()) {
			t.Errorf("%s: null does not set it back: %v", option.Name, err)
		}
	}
}

// nulls returns a policy with null for every option.
func nulls() (p apitypes.Policy) {
	for field := range reflect.TypeFor[apitypes.Policy]().Fields() {
		reflect.ValueOf(&p).Elem().FieldByIndex(field.Index).Addr().Interface().(interface{ SetNull() }).SetNull()
	}
	return p
}

// alter gives v another value.
func alter(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int:
		v.SetInt(v.Int() + 1)
	case reflect.Int64: // a duration
		v.SetInt(v.Int() + 1e6)
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Struct:
		alter(v.Field(0))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		alter(v.Index(0))
	default:
		panic("cannot alter " + v.Type().String())
	}
}
