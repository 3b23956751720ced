package shape_test

import (
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/shape"
)

type name string

type (
	domain struct {
		On     bool
		Name   name
		Wait   time.Duration
		Waits  []time.Duration
		Inner  inner
		Pairs  []inner
		Number int
		Mine   string
	}
	inner struct {
		Cap  time.Duration
		Text string
	}

	document struct {
		On      bool
		Name    string
		WaitMS  int64
		WaitsMS []int64
		Inner   innerDocument
		Pairs   []innerDocument
		Number  *int
		Others  string
	}
	innerDocument struct {
		CapMS int64
		Text  string
		More  string
	}
)

func TestCopy(t *testing.T) {
	t.Parallel()
	d := domain{
		On: true, Name: "x", Wait: 1500 * time.Millisecond, Waits: []time.Duration{0, time.Hour},
		Inner: inner{time.Second, "in"}, Pairs: []inner{{time.Minute, "a"}}, Number: 3, Mine: "mine",
	}
	three := 3
	want := document{
		On: true, Name: "x", WaitMS: 1500, WaitsMS: []int64{0, 3_600_000},
		Inner: innerDocument{CapMS: 1000, Text: "in"}, Pairs: []innerDocument{{CapMS: 60_000, Text: "a"}}, Number: &three, Others: "others",
	}
	got := document{Others: "others", Inner: innerDocument{More: "gone: structs are replaced"}}
	if err := shape.Copy(&got, d); err != nil || !cmp.Equal(got, want) {
		t.Errorf("to the document: %v\n%s", err, cmp.Diff(want, got))
	}
	back := domain{Mine: "mine"}
	if err := shape.Copy(&back, got); err != nil || !cmp.Equal(back, d) {
		t.Errorf("and back: %v\n%s", err, cmp.Diff(d, back))
	}
}

func TestCopyKeepsNilAndEmptyApart(t *testing.T) {
	t.Parallel()
	for _, waits := range [][]time.Duration{nil, {}} {
		got := document{WaitsMS: []int64{7}}
		if err := shape.Copy(&got, domain{Waits: waits}); err != nil || (got.WaitsMS == nil) != (waits == nil) || len(got.WaitsMS) != 0 {
			t.Errorf("%#v became %#v: %v", waits, got.WaitsMS, err)
		}
	}
	back := domain{Number: 5}
	if err := shape.Copy(&back, document{}); err != nil || back.Number != 5 {
		t.Errorf("a pointer that is nil set the number to %d: %v", back.Number, err)
	}
}

func TestCopyRoundsNothing(t *testing.T) {
	t.Parallel()
	var got document
	err := shape.Copy(&got, domain{Wait: time.Microsecond, Pairs: []inner{{}, {Cap: 1}}})
	const want = "WaitMS: 1µs is no whole number of milliseconds\nPairs: [1]: CapMS: 1ns is no whole number of milliseconds"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	var back domain
	if err := shape.Copy(&back, document{WaitMS: math.MaxInt64}); err != nil || back.Wait < 290*365*24*time.Hour {
		t.Errorf("the largest number became %v: %v; want the longest duration", back.Wait, err)
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	options := struct {
		On     apitypes.Optional[bool]   `json:"on,omitzero"`
		WaitMS apitypes.Optional[int64]  `json:"wait_ms,omitzero"`
		Name   apitypes.Optional[string] `json:"name"`
		Inner  apitypes.Optional[inner]  `json:"inner"`
		Beside int                       `json:"beside"`
	}{Name: apitypes.Of("x"), On: apitypes.Null[bool]()}
	flags := struct {
		On    *bool
		Wait  *time.Duration
		Name  name
		Inner string
	}{}
	var got []string
	for o := range shape.Options(&options, reflect.TypeOf(flags)) {
		state := "given"
		if o.IsZero() {
			state = "left out"
		} else if o.IsNull() {
			state = "null"
		}
		got = append(got, o.Name+" "+o.Like+" "+state)
		if o.Name == "wait_ms" {
			o.Value().SetInt(5)
		}
	}
	want := []string{"on On null", "wait_ms Wait left out", "name Name given", "inner  left out"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if options.WaitMS.Value() != 5 {
		t.Errorf("wait_ms has %d, want the value that was set", options.WaitMS.Value())
	}
}
