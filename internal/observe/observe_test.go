package observe_test

import (
	"log/slog"
	"reflect"
	"testing"

	"github.com/postrider/postrider/internal/observe"
)

// every calls each hook of an observer once, with a zero value.
func every(o *observe.Observer) {
	for _, hook := range reflect.ValueOf(o.Hooks).Fields() {
		hook.MethodByName("Call").Call([]reflect.Value{reflect.Zero(hook.Type().In(0))})
	}
}

// hooksThat returns hooks that all call do with the name of the hook.
func hooksThat(do func(name string)) (hooks observe.Hooks) {
	v := reflect.ValueOf(&hooks).Elem()
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		v.Field(i).Set(reflect.MakeFunc(v.Field(i).Type(), func([]reflect.Value) []reflect.Value {
			do(name)
			return nil
		}))
	}
	return hooks
}

func TestEachHookIsCalled(t *testing.T) {
	t.Parallel()
	called := map[string]int{}
	every(observe.New(hooksThat(func(name string) { called[name]++ }), slog.New(slog.DiscardHandler)))
	for field := range reflect.TypeFor[observe.Hooks]().Fields() {
		if called[field.Name] == 0 {
			t.Errorf("hook %s is never called", field.Name)
		}
	}
}

func TestEachHookOfSeveralIsCalledInTurn(t *testing.T) {
	t.Parallel()
	called := map[string]string{}
	note := func(who string) observe.Hooks { return hooksThat(func(name string) { called[name] += who }) }
	every(observe.New(observe.Join(note("a"), observe.Hooks{}, note("b")), slog.New(slog.DiscardHandler)))
	for field := range reflect.TypeFor[observe.Hooks]().Fields() {
		if called[field.Name] != "ab" {
			t.Errorf("hook %s was called by %q, want ab", field.Name, called[field.Name])
		}
	}
	if hooks := observe.Join(observe.Hooks{}, observe.Hooks{}); !reflect.ValueOf(hooks).IsZero() {
		t.Errorf("hooks that nobody has are joined to %v", hooks)
	}
}

func TestAPanicOfAHookIsCountedAndGoesNoFurther(t *testing.T) {
	t.Parallel()
	calls := 0
	o := observe.New(hooksThat(func(string) { calls++; panic("hook") }), slog.New(slog.DiscardHandler))
	every(o)
	if o.Panics() != int64(calls) || calls == 0 {
		t.Errorf("%d panics counted of %d", o.Panics(), calls)
	}
}

func TestWithoutHooksNothingHappens(t *testing.T) {
	t.Parallel()
	every(&observe.Observer{})
	every(observe.New(observe.Hooks{}, nil))
}
