package filter_test

import (
	"slices"
	"testing"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/filter"
)

func TestChanged(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, path, previous, data string
		want                       bool
	}{
		{"another value", "$.status", `{"status": "open"}`, `{"status": "paid"}`, true},
		{"the same value", "$.status", `{"status": "open", "x": 1}`, `{"x": 2, "status": "\u006fpen"}`, false},
		{"another form of a number", "$.n", `{"n": 1.0}`, `{"n": 10e-1}`, false},
		{"a number beyond 2^53", "$.n", `{"n": 9007199254740993}`, `{"n": 9007199254740992}`, true},
		{"another type", "$.n", `{"n": 1}`, `{"n": "1"}`, true},
		{"true and false", "$.n", `{"n": true}`, `{"n": false}`, true},
		{"null and missing", "$.n", `{"n": null}`, `{}`, true},
		{"missing twice", "$.n", `{}`, `{"x": 1}`, false},
		{"the order of members", "$.o", `{"o": {"a": 1, "b": [null]}}`, `{"o": {"b": [null], "a": 1}}`, false},
		{"a member more", "$.o", `{"o": {"a": 1}}`, `{"o": {"b": null, "a": 1}}`, true},
		{"a member less", "$.o", `{"o": {"a": 1, "b": null}}`, `{"o": {"a": 1}}`, true},
		{"the order of elements", "$.l", `{"l": [1, 2]}`, `{"l": [2, 1]}`, true},
		{"an element more", "$.l", `{"l": [1]}`, `{"l": [1, 1]}`, true},
		{"an element", "$.l[1].id", `{"l": [{"id": 1}, {"id": 2}]}`, `{"l": [{"id": 0}, {"id": 2}]}`, false},
		{"an element that is new", "$.l[1].id", `{"l": [{"id": 1}]}`, `{"l": [{"id": 1}, {"id": 2}]}`, true},
		{"an index of an object", "$.l[0]", `{"l": {"0": 1}}`, `{"l": 5}`, false},
		{"a name of an array", "$.l.a", `{"l": [{"a": 1}]}`, `{"l": [{"a": 2}]}`, false},
		{"everything", "$", `{"a": 1}`, `{"a": 1, "b": 2}`, true},
		{"a value with spaces around", "$", ` [1] `, `[1]`, false},
		{"previous is not JSON", "$.a", `{"a"`, `{"a": 1}`, true},
		{"neither is JSON", "$", `{"a"`, `{"b"`, false},
		{"the last of two names", "$.o", `{"o": {"a": 1, "a": 2}}`, `{"o": {"a": 2}}`, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			there := filter.Event{Previous: []byte(tt.previous), Data: []byte(tt.data)}
			back := filter.Event{Previous: []byte(tt.data), Data: []byte(tt.previous)}
			for range 2 {
				if got := there.Changed(tt.path); got != tt.want {
					t.Errorf("Changed reports %v, want %v", got, tt.want)
				}
				if got := back.Changed(tt.path); got != tt.want {
					t.Errorf("Changed reports %v the other way round, want %v", got, tt.want)
				}
			}
		})
	}
}

func TestChangedPaths(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		path, changed string
		want          bool
	}{
		{"$.a.b", "$.a.b", true},
		{"$.a.b", "$.a", true},
		{"$.a.b", "$.a.b[0].c", true},
		{"$.a.b", "$", true},
		{"$.a.b", "$.a.c", false},
		{"$.a", "$.ab", false},
		{"$.a[0]", "$.a[1]", false},
		{"$.a[1]", "$.a[10]", false},
		{"$.a[0]", "$.a.x", false},
	} {
		one, other := filter.Event{ChangedPaths: []string{"$.else", tt.changed}}, filter.Event{ChangedPaths: []string{tt.path}}
		if got := one.Changed(tt.path); got != tt.want {
			t.Errorf("%s, when %s changed: %v, want %v", tt.path, tt.changed, got, tt.want)
		}
		if got := other.Changed(tt.changed); got != tt.want {
			t.Errorf("%s, when %s changed: %v, want %v", tt.changed, tt.path, got, tt.want)
		}
	}
	silent := filter.Event{Data: []byte(`{"a": 1}`)}
	if silent.SaysChanges() || silent.Changed("$") {
		t.Error("something changed in an event that does not say so")
	}
}

// A pattern with changed paths holds if both hold. In an index it is not taken for the pattern without
// them.
func TestWithChanged(t *testing.T) {
	t.Parallel()
	open, err := filter.Parse([]byte(`{"data": {"status": ["open"]}}`))
	if err != nil {
		t.Fatal(err)
	}
	var none *filter.Pattern
	var x filter.Index[string]
	for name, p := range map[string]*filter.Pattern{
		"open": open, "open, a": open.WithChanged([]string{"$.a"}), "open, b or a": open.WithChanged([]string{"$.b", "$.a"}),
		"a": none.WithChanged([]string{"$.a"}), "b": none.WithChanged([]string{"$.b"}), "also b": none.WithChanged([]string{"$.b"}),
	} {
		x.Set(name, p)
	}
	for _, tt := range []struct {
		previous, data string
		want           []string
	}{
		{"", `{"status": "open", "a": 2}`, []string{"open"}},
		{`{"a": 1}`, `{"status": "open", "a": 1}`, []string{"open"}},
		{`{"a": 1}`, `{"status": "open", "a": 2}`, []string{"a", "open", "open, a", "open, b or a"}},
		{`{"a": 1}`, `{"status": "paid", "a": 2}`, []string{"a"}},
		{`{"b": 1}`, `{"status": "open", "b": 2}`, []string{"also b", "b", "open", "open, b or a"}},
	} {
		e := filter.Event{Data: []byte(tt.data), Previous: []byte(tt.previous)}
		got := x.Match(&e, 10)
		if slices.Sort(got); !slices.Equal(got, tt.want) {
			t.Errorf("%s, then %s: %q hold, want %q", tt.previous, tt.data, got, tt.want)
		}
	}
	x.Remove("b")
	if got := x.Match(&filter.Event{Data: []byte("{}"), ChangedPaths: []string{"$.b"}}, 10); !slices.Equal(got, []string{"also b"}) {
		t.Errorf("%q hold after another is removed", got)
	}
}

// A pattern with channels holds if both hold, also if it has a condition for channels itself. Neither
// channels nor changed paths are taken for the other.
func TestWithChannels(t *testing.T) {
	t.Parallel()
	both, err := filter.Parse([]byte(`{"channels": ["b"]}`))
	if err != nil {
		t.Fatal(err)
	}
	var none *filter.Pattern
	var x filter.Index[string]
	for name, p := range map[string]*filter.Pattern{
		"b": both, "b and a": both.WithChannels([]string{"a"}), "a or c": none.WithChannels([]string{"a", "c"}),
		"channel $.a": none.WithChannels([]string{"$.a"}), "changed $.a": none.WithChanged([]string{"$.a"}),
		"a, changed $.a": none.WithChannels([]string{"a"}).WithChanged([]string{"$.a"}),
	} {
		x.Set(name, p)
	}
	for _, tt := range []struct{ channels, changed, want []string }{
		{nil, nil, nil},
		{[]string{"a"}, nil, []string{"a or c"}},
		{[]string{"b"}, nil, []string{"b"}},
		{[]string{"b", "a"}, nil, []string{"a or c", "b", "b and a"}},
		{[]string{"$.a"}, nil, []string{"channel $.a"}},
		{[]string{"c"}, []string{"$.a"}, []string{"a or c", "changed $.a"}},
		{[]string{"a"}, []string{"$.a"}, []string{"a or c", "a, changed $.a", "changed $.a"}},
	} {
		e := filter.Event{Data: []byte("{}"), Channels: tt.channels, ChangedPaths: tt.changed}
		got := x.Match(&e, 10)
		if slices.Sort(got); !slices.Equal(got, tt.want) {
			t.Errorf("%q, changed %q: %q hold, want %q", tt.channels, tt.changed, got, tt.want)
		}
	}
	if got := both.Explain(&filter.Event{}); len(got.Conditions) != 1 {
		t.Errorf("WithChannels has changed the pattern: %+v", got)
	}
}

// A text may look like JSON. If the event says that it is none, it has no fields.
func TestOtherDataHasNoFields(t *testing.T) {
	t.Parallel()
	p, err := filter.Parse([]byte(`{"data": {"a": [1]}, "subject": ["s"]}`))
	if err != nil {
		t.Fatal(err)
	}
	e := postrider.Event{Data: []byte(`{"a": 1}`), About: postrider.About{Subject: "s"}}
	if !p.Matches(filter.Of(&e)) {
		t.Error("the pattern does not hold for JSON")
	}
	e.About.ContentType = "text/plain"
	if p.Matches(filter.Of(&e)) {
		t.Error("the pattern holds for a text")
	}
}
