package jsonx_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/jsonx"
)

type event struct {
	Account string            `json:"account"`
	Data    json.RawMessage   `json:"data"`
	Key     string            `json:"key,omitempty"`
	Limit   *int              `json:"limit,omitempty"`
	Factor  float64           `json:"factor,omitempty"`
	On      *bool             `json:"on,omitempty"`
	Retry   *retry            `json:"retry,omitempty"`
	Tags    []string          `json:"tags,omitempty"`
	Words   map[string]string `json:"words,omitempty"`
	Events  []retry           `json:"events,omitempty"`
	Note    note              `json:"note,omitzero"`
	Policy  policy            `json:"policy,omitzero"`
}

// note is an optional text.
type note struct {
	Given, Null bool
	Text        string
}

func (n *note) SetNull()                   { n.Given, n.Null = true, true }
func (n *note) SetValue() any              { n.Given = true; return &n.Text }
func (n *note) UnmarshalJSON([]byte) error { return nil } // encoding/json does not know Optional

// policy is an optional object.
type policy struct {
	Given, Null bool
	Retry       retry
}

func (p *policy) SetNull()                   { p.Given, p.Null = true, true }
func (p *policy) SetValue() any              { p.Given = true; return &p.Retry }
func (p *policy) UnmarshalJSON([]byte) error { return nil }

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
		"limit": 7, "factor": 1.5, "on": true, "retry": {"delays_ms": []},
		"tags": ["x", "y"], "words": {"a": "\u0031", "": "2"}, "events": [{"delays_ms": [1, -2]}]}`), &got)
	if err != nil {
		t.Fatal(err)
	}
	limit, on := 7, true
	want := event{
		Account: "a\"b\né", Data: json.RawMessage(`{"b": 1e400,  "a":"\u0041"}`), Limit: &limit, Factor: 1.5, On: &on,
		Retry: &retry{Delays: []int64{}}, Tags: []string{"x", "y"},
		Words: map[string]string{"a": "1", "": "2"}, Events: []retry{{Delays: []int64{1, -2}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Decode (-want +got):\n%s", diff)
	}
}

// TestNullIsAFault sets each field to null that must not be null, before the other fields and after
// them, so that both decoders are tested.
func TestNullIsAFault(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"key", "limit", "factor", "on", "retry", "tags", "words", "events"} {
		for _, body := range []string{
			`{"account":"a","data":1,"` + name + `":null}`, `{"` + name + `":null,"account":"a","data":1}`,
		} {
			got := faults(jsonx.Decode([]byte(body), new(event)))
			if want := []string{name + " must not be null"}; !cmp.Equal(got, want) {
				t.Errorf("Decode(%s) = %q, want %q", body, got, want)
			}
		}
	}
}

func TestAnOptionalTellsNullFromAbsence(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		members string
		want    event
		faults  []string
	}{
		{members: ``},
		{members: `,"note":null`, want: event{Note: note{Given: true, Null: true}}},
		{members: `,"note":"n"`, want: event{Note: note{Given: true, Text: "n"}}},
		{members: `,"note":""`, want: event{Note: note{Given: true}}},
		{members: `,"policy":null`, want: event{Policy: policy{Given: true, Null: true}}},
		{members: `,"policy":{"delays_ms":[1]}`, want: event{Policy: policy{Given: true, Retry: retry{Delays: []int64{1}}}}},
		{members: `,"note":1`, faults: []string{"note must be a string"}},
		{members: `,"note":nul`, faults: []string{"note must be JSON"}},
		{members: `,"policy":{"delays_ms":[1,"x"]}`, faults: []string{"policy.delays_ms[1] must be a whole number"}},
		{members: `,"policy":{}`, faults: []string{"policy.delays_ms is required"}},
	} {
		for _, way := range []string{`"data":1`, `"d\u0061ta":1`} { // decodePlain gives up at an escape in a name
			var got event
			body := `{"account":"a",` + way + tt.members + `}`
			texts := faults(jsonx.Decode([]byte(body), &got))
			for i := range min(len(texts), len(tt.faults)) {
				texts[i] = texts[i][:min(len(texts[i]), len(tt.faults[i]))]
			}
			if !cmp.Equal(texts, tt.faults) {
				t.Errorf("Decode(%s): %q, want %q", body, texts, tt.faults)
			}
			if tt.want.Account, tt.want.Data = "a", json.RawMessage("1"); texts == nil && !cmp.Equal(got, tt.want) {
				t.Errorf("Decode(%s) = %+v, want %+v", body, got, tt.want)
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
		want       []string // prefixes of the faults
	}{
		{"missing fields", `{}`, []string{"account is required", "data is required"}},
		{"null for what is required", `{"account": null, "data": 1}`, []string{"account must not be null"}},
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
		{"a word that is no text", `{"account": "a", "data": 1, "words": {"a": 1, "b": null, "c": "\u0000", "d": ""}}`, []string{
			"words.a must be a string", "words.b must not be null", "words.c must not contain control",
		}},
		{"no words", `{"account": "a", "data": 1, "words": ["a"]}`, []string{"words must be an object"}},
		{"a word twice", `{"account": "a", "data": 1, "words": {"a": "1", "a": "1"}}`, []string{"words.a must be JSON by RFC 7493: duplicate"}},
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

// slowly is an event whose first field decodePlain cannot decode.
type slowly struct {
	Slowly bool `json:"slowly,omitempty"`
	event
}

// FuzzEvent: a body that is accepted is JSON, and encoding/json reads the same values from it. Its
// data is a part of the body. decodePlain accepts nothing that the general decoder refuses.
func FuzzEvent(f *testing.F) {
	for _, seed := range []string{
		`{"account":"a","data":{"x":[1,2,{"y":"\u0041"}]},"key":"k"}`, `{"account":"a","data":1e9}`,
		`{"account":"\ud83d\ude00","data":"\\\"{["}`, `{"acc\u006funt":"a","data":null}`, `{"data":[[[]]]}`, `nul`, `{`,
		`{"account":"a","data":{"x":-0.5E+10,"y":[true,false,null,"\/\u00e9\ud83d\ude00\n\u007f"],"\u0079":{"z":{},"z":0}}}`,
		`{"account":"é","data":[01,1.,1e,-,+1,.5,tru,"\x","\u00g0",{"a":1,},[1,],[,],{,}]}`,
		`{"account":"a","data":1,"events":[{"delays_ms":[]}]}`, `{"account":"a","data":1,"words":{"a":"1","é":"2","":""}}`,
		`{"account":"a","data":1,"words":{}}`, `{"account":"a","data":1,"words":{"a":"1","a":"1"}}`, `{"account":"a","data":1,"words":{"a":1}}`,
		`{"account":"a","data":1,"limit":null}`, `{"account":"a","data":1,"retry":null}`, `{"account":"a","data":1,"tags":null}`,
		`{"account":"a","data":1,"note":null,"policy":null}`, `{"account":"a","data":1,"note":"n","policy":{"delays_ms":[]}}`,
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
		if got.Account != want.Account || got.Key != want.Key || !maps.Equal(got.Words, want.Words) || !utf8.Valid(got.Data) ||
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
	body := []byte(`{"account":"acc_1","key":"order-42","data":{"lines":[` +
		strings.TrimSuffix(strings.Repeat(`{"sku":"abc","quantity":1},`, 34), ",") + `]}}`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if err := jsonx.Decode(body, new(event)); err != nil {
			b.Fatal(err)
		}
	}
}
