package postrider_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/postrider/postrider"
)

// TestAboutCheck has the fields that each fault names. An About without faults has none.
func TestAboutCheck(t *testing.T) {
	t.Parallel()
	long := func(n int) string { return strings.Repeat("a", n) }
	many := func(n int) (list []string) {
		for i := range n {
			list = append(list, fmt.Sprintf("$.a%d", i))
		}
		return list
	}
	metadata := func(n, size int) map[string]string {
		m := map[string]string{}
		for i := range n {
			m[fmt.Sprintf("%02d", i)] = long(size)
		}
		return m
	}
	for _, tt := range []struct {
		name  string
		about postrider.About
		want  []string
	}{
		{"nothing", postrider.About{}, nil},
		{"the most", postrider.About{
			Subject: long(256), Channels: append(many(9), long(128)), Metadata: metadata(20, 100), Internal: map[string]string{"a": long(2047)},
			ChangedPaths: append(many(99), "$."+long(254)),
		}, nil},
		{"an object before", postrider.About{Previous: []byte("{ }")}, nil},
		{"a long subject", postrider.About{Subject: long(257)}, []string{"subject"}},
		{"NUL", postrider.About{
			Subject: "a\x00", Channels: []string{"a\x00"}, Metadata: map[string]string{"b": "\x00", "a": "\x00"},
			Internal: map[string]string{"\x00": ""}, ChangedPaths: []string{"$.\x00"},
		}, []string{"subject", "channels[0]", "metadata.a", "metadata.b", "internal", "changed_paths[0]"}},
		{"no UTF-8", postrider.About{
			Subject: "\xff", Channels: []string{"\xff"}, Metadata: map[string]string{"a": "\xff"}, ChangedPaths: []string{"$.\xff"},
		}, []string{"subject", "channels[0]", "metadata.a", "changed_paths[0]"}},
		{"too many", postrider.About{
			Channels: many(11), Metadata: metadata(21, 0), Internal: metadata(21, 0), ChangedPaths: many(101),
		}, []string{"channels", "metadata", "internal", "changed_paths"}},
		{"too long", postrider.About{
			Channels: []string{long(129)}, Metadata: metadata(1, 2047), Internal: metadata(20, 101), ChangedPaths: []string{"$." + long(255)},
		}, []string{"channels[0]", "metadata", "internal", "changed_paths[0]"}},
		{"empty", postrider.About{
			Channels: []string{""}, Metadata: map[string]string{"": "a"}, ChangedPaths: []string{""},
		}, []string{"channels[0]", "metadata", "changed_paths[0]"}},
		{"repeated", postrider.About{
			Channels: []string{"a", "b", "a"}, ChangedPaths: []string{"$", "$"},
		}, []string{"channels[2]", "changed_paths[1]"}},
		{"a long media type", postrider.About{ContentType: `text/csv; charset="utf-8"; ` + "a=" + long(100)}, []string{"content_type"}},
		{"another media type", postrider.About{ContentType: `application/vnd.acme+json; charset="utf-8"`, ChangedPaths: []string{"$"}}, nil},
		{"a media type of JSON", postrider.About{ContentType: "Application/JSON; charset=utf-8"}, []string{"content_type"}},
		{"half a media type", postrider.About{ContentType: "text"}, []string{"content_type"}},
		{"a media type of two lines", postrider.About{ContentType: "text/csv;\r\n a=b"}, []string{"content_type"}},
		{"a media type with a space", postrider.About{ContentType: "text/csv "}, []string{"content_type"}},
		{"a media type in German", postrider.About{ContentType: `text/csv; a="ü"`}, []string{"content_type"}},
		{"a text and an object before", postrider.About{ContentType: "text/csv", Previous: []byte("{}")}, []string{"previous"}},
		{"no object before", postrider.About{Previous: []byte("[]")}, []string{"previous"}},
		{"both", postrider.About{Previous: []byte("{}"), ChangedPaths: []string{"$"}}, []string{"changed_paths"}},
	} {
		var got []string
		for _, fault := range postrider.Faults(tt.about.Check()) {
			got = append(got, fault.Field)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: faults of %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestAboutSize(t *testing.T) {
	t.Parallel()
	e := postrider.Event{Data: []byte("1"), About: postrider.About{
		Subject: "12", Channels: []string{"123", "1"}, Metadata: map[string]string{"1": "12345", "2": ""},
		Internal: map[string]string{"a": "1234567"}, Previous: []byte("{       }"), ChangedPaths: []string{"$", "$.12345678"},
	}}
	if got, want := e.Size(), 1+2+4+7+8+9+11; got != want {
		t.Errorf("Size() = %d, want %d", got, want)
	}
}
