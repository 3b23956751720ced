package jsonx_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/jsonx"
)

type event struct {
	Account string          `json:"account"`
	Data    json.RawMessage `json:"data"`
	Key     string          `json:"key,omitempty"`
	Limit   *int            `json:"limit,omitempty"`
	Factor  float64         `json:"factor,omitempty"`
	On      *bool           `json:"on,omitempty"`
	Retry   *retry          `json:"retry,omitempty"`
	Tags    []string        `json:"tags,omitempty"`
	Events  []retry         `json:"events,omitempty"`
}

type retry struct {
	Delays []int64 `json:"delays_ms"`
}

func faults(err error) []string {
	var texts []string
	for _, f := range postrider.Faults(err) {
		texts = append(texts, f.Error())
	}
	return texts
}

func TestDecodeFillsEveryKind(t *testing.T) {
	t.Parallel()
	var got event
	err := jsonx.Decode([]byte(`{"acc\u006funt": "a\"b\né", "data": {"b": 1e400,  "a":"\u0041"} ,
		"key": null, "limit": 7, "factor": 1.5, "on": true, "retry": {"delays_ms": []},
		"tags": ["x", "y"], "events": [{"delays_ms": [1, -2]}]}`), &got)
	if err != nil {
		t.Fatal(err)
	}
	limit, on := 7, true
	want := event{
		Account: "a\"b\né", Data: json.RawMessage(`{"b": 1e400,  "a":"\u0041"}`), Limit: &limit, Factor: 1.5, On: &on,
		Retry: &retry{Delays: []int64{}}, Tags: []string{"x", "y"}, Events: []retry{{Delays: []int64{1, -2}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Decode (-want +got):\n%s", diff)
	}
}

// TestNullIsLeftOut makes each optional field null, alone and with the others,
// before and behind those that are there.
func TestNullIsLeftOut(t *testing.T) {
	t.Parallel()
	const there = `"account":"a","data":1`
	nulls := []string{
		`"key":null`, `"limit":null`, `"factor":null`, `"on":null`, `"retry":null`, `"tags":null`, `"events":null`,
	}
	check := func(members ...string) {
		body := "{" + strings.Join(members, ",") + "}"
		var got event
		if err := jsonx.Decode([]byte(body), &got); err != nil {
			t.Errorf("Decode(%s): %v", body, err)
		}
		if diff := cmp.Diff(event{Account: "a", Data: json.RawMessage("1")}, got); diff != "" {
			t.Errorf("Decode(%s) (-want +got):\n%s", body, diff)
		}
	}
	for i, one := range nulls {
		check(there, one)
		check(one, there)
		all := append(append([]string{}, nulls[i:]...), nulls[:i]...)
		check(append(all, there)...)
		check(append([]string{there}, all...)...)
		for j, other := range nulls {
			if i != j {
				check(one, there, other)
			}
		}
	}
}

func TestDecodeKeepsBytesOfItsOwn(t *testing.T) {
	t.Parallel()
	body := []byte(`{"account": "a", "data":  {"x" : 1} }`)
	var got event
	if err := jsonx.Decode(body, &got); err != nil {
		t.Fatal(err)
	}
	clear(body)
	if string(got.Data) != `{"x" : 1}` || got.Account != "a" {
		t.Errorf("after the body was overwritten: data %q, account %q", got.Data, got.Account)
	}
}

func TestDecodeNamesEveryFault(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", jsonx.MaxDepth+1) + strings.Repeat("]", jsonx.MaxDepth+1)
	for _, tt := range []struct {
		name, body string
		want       []string // prefixes
	}{
		{"missing fields", `{}`, []string{"account is required", "data is required"}},
		{"null is missing", `{"account": null, "data": 1}`, []string{"account is required"}},
		{"null data is data", `{"account": "a", "data": null}`, nil},
		{"unknown field", `{"account": "a", "data": 1, "rate": {}}`, []string{"rate is not a field"}},
		{"another case", `{"Account": "a", "data": 1}`, []string{"Account is not a field", "account is required"}},
		{"wrong types, all of them", `{"account": 1, "data": 1, "limit": 1.5, "on": "x", "factor": "x", "tags": {}, "retry": []}`, []string{
			"account must be a string", "limit must be a whole number", "on must be true or false",
			"factor must be a number", "tags must be a list", "retry must be an object",
		}},
		{"wrong type inside", `{"account": "a", "data": 1, "events": [{"delays_ms": [1, "x"]}, {}, null]}`, []string{
			"events[0].delays_ms[1] must be a whole number", "events[1].delays_ms is required", "events[2] must not be null",
		}},
		{"number too large", `{"account": "a", "data": 1, "limit": 9223372036854775808}`, []string{"limit must be a whole number"}},
		{"control character", `{"account": "a\u0000", "data": 1}`, []string{"account must not contain control"}},
		{"too deep", `{"account": "a", "data": ` + deep + `}`, []string{"data must nest at most 64"}},
		{"name twice", `{"account": "a", "account": "b", "data": 1}`, []string{"account must be JSON by RFC 7493: duplicate"}},
		{"name twice in data", `{"account": "a", "data": {"x": {"y": 1, "y": 2}}}`, []string{"data.x.y must be JSON by RFC 7493: duplicate"}},
		{"invalid UTF-8", "{\"account\": \"a\", \"data\": \"\xff\"}", []string{"data must be JSON by RFC 7493: invalid UTF-8"}},
		{"lone surrogate", `{"account": "a", "data": "\ud800"}`, []string{"data must be JSON by RFC 7493: invalid"}},
		{"trailing value", `{"account": "a", "data": 1} {}`, []string{"body must be JSON by RFC 7493: something follows"}},
		{"trailing junk", `{"account": "a", "data": 1} x`, []string{"body must be JSON"}},
		{"cut short", `{"account": "a", "data": {"x"`, []string{"data.x must be JSON"}},
		{"empty", ``, []string{"body must be JSON: it ends too early"}},
		{"null", `null`, []string{"body must be an object"}},
		{"list", `[]`, []string{"body must be an object"}},
		{"comment", `{"account": "a", /* */ "data": 1}`, []string{"body must be JSON"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := faults(jsonx.Decode([]byte(tt.body), new(event)))
			if len(got) != len(tt.want) {
				t.Fatalf("Decode = %q, want %q", got, tt.want)
			}
			for i := range got {
				if !strings.HasPrefix(got[i], tt.want[i]) {
					t.Errorf("fault %d = %q, want %q", i, got[i], tt.want[i])
				}
			}
		})
	}
}

func TestDecodeBoundsItsFaults(t *testing.T) {
	t.Parallel()
	var body strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&body, `, "x%d": 1`, i)
	}
	got := faults(jsonx.Decode([]byte(`{"account": "a", "data": 1`+body.String()+`}`), new(event)))
	if len(got) != 100 {
		t.Errorf("1000 unknown fields gave %d faults, want 100", len(got))
	}
}

// slowly is an event whose first field no short cut takes.
type slowly struct {
	Slowly bool `json:"slowly,omitempty"`
	event
}

// FuzzEvent: what is taken is JSON that encoding/json reads to the same thing,
// its data is a part of the body, and the short cut takes nothing that the
// longer way would not.
func FuzzEvent(f *testing.F) {
	for _, seed := range []string{
		`{"account":"a","data":{"x":[1,2,{"y":"\u0041"}]},"key":"k"}`, `{"account":"a","data":1e9}`,
		`{"account":"\ud83d\ude00","data":"\\\"{["}`, `{"acc\u006funt":"a","data":null}`, `{"data":[[[]]]}`, `nul`, `{`,
		`{"account":"a","data":{"x":-0.5E+10,"y":[true,false,null,"\/\u00e9\ud83d\ude00\n\u007f"],"\u0079":{"z":{},"z":0}}}`,
		`{"account":"é","data":[01,1.,1e,-,+1,.5,tru,"\x","\u00g0",{"a":1,},[1,],[,],{,}]}`, `{"account":"a","data":1,"events":[{"delays_ms":[]}]}`,
		`{"account":"a","data":1,"limit":null}`, `{"account":"a","data":1,"retry":null}`, `{"account":"a","data":1,"tags":null}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var got event
		if jsonx.Decode(body, &got) != nil {
			return
		}
		var want event
		if err := json.Unmarshal(body, &want); err != nil {
			t.Fatalf("taken, but encoding/json says: %v", err)
		}
		if got.Account != want.Account || got.Key != want.Key || !utf8.Valid(got.Data) ||
			!json.Valid(got.Data) || !bytes.Contains(body, got.Data) {
			t.Errorf("Decode(%q) = %+v, encoding/json says %+v", body, got, want)
		}
		var slow slowly
		_, members, _ := bytes.Cut(body, []byte("{"))
		if err := jsonx.Decode(append([]byte(`{"slowly":true,`), members...), &slow); err != nil {
			t.Errorf("Decode(%q) takes what it refuses when it looks closer: %v", body, err)
		}
		if diff := cmp.Diff(slow.event, got); diff != "" {
			t.Errorf("Decode(%q) is not the same when it looks closer (-closer +got):\n%s", body, diff)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	body := []byte(`{"account":"acc_1","key":"order-42","data":{"lines":[` + strings.TrimSuffix(strings.Repeat(`{"sku":"abc","quantity":1},`, 34), ",") + `]}}`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if err := jsonx.Decode(body, new(event)); err != nil {
			b.Fatal(err)
		}
	}
}
