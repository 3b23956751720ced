package observe_test

import (
	"log/slog"
	"reflect"
	"testing"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/observe"
)

// every calls each method of an observer once, with zero values.
func every(o *observe.Observer) {
	for _, m := range reflect.ValueOf(o).Methods() {
		if m.Type().NumIn() == 1 {
			m.Call([]reflect.Value{reflect.Zero(m.Type().In(0))})
		}
	}
	o.Settled(observe.Settled{Transition: postrider.Transition{To: postrider.Dead}})
}

// hooksThat returns hooks that all do the same, with the name of the hook.
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
	if called["DeadLetter"] != 1 {
		t.Errorf("DeadLetter was called %d times for one dead letter", called["DeadLetter"])
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
	every(nil)
	every(observe.New(observe.Hooks{}, nil))
}

func BenchmarkNoHook(b *testing.B) {
	o := observe.New(observe.Hooks{}, nil)
	b.ReportAllocs()
	for b.Loop() {
		o.Settled(observe.Settled{})
	}
}
