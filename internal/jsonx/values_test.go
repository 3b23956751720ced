package jsonx_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/jsonx"
)

func parsePaths(t testing.TB, texts ...string) (paths []postrider.Path) {
	t.Helper()
	for _, text := range texts {
		path, err := postrider.ParsePath("path", text)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	return paths
}

func TestValues(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", jsonx.MaxValue)
	for _, tt := range []struct {
		data, path string
		want       []string
	}{
		{`{"order":{"number":42}}`, "$.order.number", []string{"42"}},
		{`{"order":{"number":42}}`, "$.order", nil},
		{`{"order":{"number":42}}`, "$.order.number.x", nil},
		{`{"order":42}`, "$", nil},
		{`"text"`, "$", []string{"text"}},
		{`{"a":"4\u00322","b":1}`, "$.a", []string{"422"}},
		{`{"\u0061":true}`, "$.a", []string{"true"}},
		{`{"a":[1,"two",false,null,{"b":3},[4]]}`, "$.a", []string{"1", "two", "false", "4"}},
		{`{"a":[{"sku":"x"},{"sku":["y","z"]},7]}`, "$.a.sku", []string{"x", "y", "z"}},
		{`{"a":[{"sku":"x"},{"sku":"y"}]}`, "$.a[1].sku", []string{"y"}},
		{`{"a":[[1,2],[3]]}`, "$.a[0]", []string{"1", "2"}},
		{`{"a":[[1,2],[3]]}`, "$.a[0][1]", []string{"2"}},
		{`{"a":{"0":1}}`, "$.a[0]", nil},
		{`{"a":null,"b":""}`, "$.a", nil},
		{`{"a":null,"b":""}`, "$.b", nil},
		{`{"a":"` + long + `"}`, "$.a", []string{long}},
		{`{"a":"` + long + `x"}`, "$.a", nil},
		{`{"a":1,"b":`, "$.a", []string{"1"}},
		{`{"b":]}`, "$.a", nil},
		{``, "$", nil},
	} {
		var got []string
		for _, value := range jsonx.Values([]byte(tt.data), parsePaths(t, tt.path)) {
			got = append(got, value)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s of %s: %q, want %q", tt.path, tt.data, got, tt.want)
		}
	}
}

func TestValuesOfSeveralPathsAndAnEarlyEnd(t *testing.T) {
	t.Parallel()
	data, paths := []byte(`{"b":2,"a":{"c":[1,3]},"d":4}`), parsePaths(t, "$.a.c", "$.b", "$.a.c[1]")
	var got []string
	for path, value := range jsonx.Values(data, paths) {
		if got = append(got, fmt.Sprint(path, "=", value)); len(got) == 4 {
			break
		}
	}
	if want := []string{"1=2", "0=1", "0=3", "2=3"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestDecimal(t *testing.T) {
	t.Parallel()
	for number, want := range map[string]string{
		"42": "42", "42.0": "42", "4.2e1": "42", "420E-1": "42", "-0": "0", "0.00": "0", "-0.50": "-0.5", "1e3": "1000", "12.5e-3": "0.0125",
		"9007199254740993": "9007199254740993", "100.001e2": "10000.1", "0e999999999999999999": "0",
		"1e256": "", "1e-256": "", "1e999999999999999999": "", "1e-999999999999999999": "", "01": "",
		"+1": "", "x": "", "": "", " 1": "", "true": "",
	} {
		if got, ok := jsonx.Decimal(number); got != want && ok || ok != (want != "") {
			t.Errorf("%q: %q, %v, want %q", number, got, ok, want)
		}
	}
}

// Two numbers have the same decimal if and only if they are equal.
func TestDecimalsAreExact(t *testing.T) {
	t.Parallel()
	number := rapid.StringMatching(`-?(0|[1-9][0-9]{0,4})(\.[0-9]{1,4})?([eE][-+]?[0-9]{1,2})?`)
	rapid.Check(t, func(t *rapid.T) {
		text := number.Draw(t, "number")
		decimal, ok := jsonx.Decimal(text)
		if !ok {
			t.Fatalf("%s is refused", text)
		}
		want, _ := new(big.Rat).SetString(text)
		got, _ := new(big.Rat).SetString(decimal)
		again, _ := jsonx.Decimal(decimal)
		if want.Cmp(got) != 0 || again != decimal || !json.Valid([]byte(decimal)) {
			t.Fatalf("%s became %s, then %s", text, decimal, again)
		}
	})
}

func BenchmarkValues(b *testing.B) {
	data := []byte(`{"order":{"number":42,"customer":"cus_1","lines":[{"sku":"a"},{"sku":"b"}],"total":12.5},"text":"` +
		strings.Repeat("lorem ipsum ", 70) + `"}`)
	paths := parsePaths(b, "$.order.number", "$.order.customer", "$.order.total", "$.order.lines.sku", "$.missing")
	b.ReportAllocs()
	for b.Loop() {
		for range jsonx.Values(data, paths) {
		}
	}
}
