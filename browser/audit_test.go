package browser_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestTheAuditLogShowsALongFilterOnAPhone changes a filter of the largest size. On a phone the audit log
// is no wider than the window, also while the old and the new text are unfolded.
func TestTheAuditLogShowsALongFilterOnAPhone(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.call(t, "POST /accounts", object{"uid": "acme"})
	filter := func(first string) object {
		names := []string{first}
		for i := range 100 {
			names = append(names, fmt.Sprintf("%d%s", i, strings.Repeat("w", 140)))
		}
		return object{"data": object{"name": names}}
	}
	endpoint := s.call(t, "POST /endpoints", object{
		"account": "acme", "kind": "inspector", "event_types": []string{"*"}, "filter": filter("the old one"),
	}).id("id")
	s.call(t, "PATCH /endpoints/"+endpoint, object{"filter": filter("the new one")})
	tb := (&world{server: s}).logIn(t, newVisitor(t, s.url))
	tb.open("/dashboard/audit")
	for _, width := range []int64{320, 390, 1280} {
		tb.resize(width, 844)
		tb.seesNo("the old one", "the new one")
		tb.click("filter: old and new text")
		tb.sees("Before", "the old one", "After", "the new one", "99www")
		if wide := tb.overflow(width); len(wide) > 0 {
			t.Errorf("at %d pixels %s", width, strings.Join(wide, "\n  "))
		}
		tb.click("filter: old and new text")
	}
	serious, _ := tb.barriers()
	for _, finding := range serious {
		t.Error(finding)
	}
}
