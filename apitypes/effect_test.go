package apitypes_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider/apitypes"
)

func TestNotEffectiveIsReadFromItsHeader(t *testing.T) {
	t.Parallel()
	until := time.Date(2026, 11, 25, 12, 0, 5, 0, time.UTC)
	for header, want := range map[string]apitypes.NotEffective{
		`until="2026-11-25T12:00:05.000Z", servers="b c"`: {Servers: []string{"b", "c"}, Until: until},
		`until="2026-11-25T12:00:05.000Z", servers=""`:    {Servers: []string{}, Until: until},
	} {
		got, ok := apitypes.ParseNotEffective(header)
		if !ok || !cmp.Equal(got, want) {
			t.Errorf("ParseNotEffective(%s) = %+v, %v, want %+v", header, got, ok, want)
		}
		if again := got.Header(); again != header {
			t.Errorf("Header() = %s, want %s", again, header)
		}
	}
	for _, header := range []string{
		"", "until", `until="2026-11-25T12:00:05.000Z"`, `until="noon", servers="b"`, `servers="b", until="2026-11-25T12:00:05.000Z"`,
	} {
		if got, ok := apitypes.ParseNotEffective(header); ok {
			t.Errorf("ParseNotEffective(%s) = %+v, want that it is not valid", header, got)
		}
	}
}

func TestTheNameOfAServerCannotEndItsHeader(t *testing.T) {
	t.Parallel()
	n := apitypes.NotEffective{Servers: []string{"a\"\r\nX: y", "ü b"}, Until: time.Unix(0, 0)}
	if got, want := n.Header(), `until="1970-01-01T00:00:00.000Z", servers="aX: y  b"`; got != want {
		t.Errorf("Header() = %s, want %s", got, want)
	}
}

func FuzzNotEffective(f *testing.F) {
	f.Add(`until="2026-11-25T12:00:05.000Z", servers="b c"`)
	f.Add(`until="", servers="`)
	f.Fuzz(func(t *testing.T, header string) {
		n, ok := apitypes.ParseNotEffective(header)
		if !ok {
			return
		}
		if _, ok := apitypes.ParseNotEffective(n.Header()); !ok {
			t.Errorf("the header of %+v, which was read from %q, is not valid: %s", n, header, n.Header())
		}
	})
}
