package browser_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestFieldsAppearWithTheirChoice chooses a retry schedule and an authentication in the
// options of an endpoint, with and without scripts: the fields of a choice are there at once,
// and those of others are not. The schedule is read from a list, and a bad entry is named.
func TestFieldsAppearWithTheirChoice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, scripts := range []bool{true, false} {
		tb := w.visitors[operator].newTab(t)
		if !scripts {
			tb.withoutScripts()
		}
		tb.open("/dashboard/endpoints/" + w.names["busy"] + "/options")
		fields := func(want ...string) {
			t.Helper()
			eventually(t, func() string {
				for _, name := range []string{
					"Delays before the attempts", "Longest delay", "Random part of the delays", "User name", "Token URL",
					"Failures in a row",
				} {
					there := slices.ContainsFunc(tb.elements("textbox"), func(e element) bool { return strings.HasSuffix(e.name, name) })
					if there != slices.Contains(want, name) {
						return fmt.Sprintf("the field %q is there: %t; want %q alone", name, there, want)
					}
				}
				return ""
			})
		}
		fields("Delays before the attempts", "Random part of the delays") // as it is stored
		tb.choose("Retries retry Schedule", "Growing")
		fields("Longest delay", "Random part of the delays")
		tb.choose("Authentication auth Type", "User")
		fields("Longest delay", "Random part of the delays", "User name")
		tb.open("/dashboard/endpoints/" + w.names["busy"] + "/options") // nothing was saved
		tb.choose("Retries retry Schedule", "Own")
		fields("Delays before the attempts", "Random part of the delays")
		tb.fill("Retries retry Delays before the attempts", "10s, 1 m, later")
		tb.click("Review the changes")
		tb.sees("Entry 3, “later”, is no length of time")
		tb.fill("Retries retry Delays before the attempts", "10s, 1 m, 1 h")
		tb.click("Review the changes")
		tb.sees("3 attempts: after 10 s, after 1 min, after 1 h")
		tb.seen.expect("422")
	}
}

// TestTimesAreRoundedAlike lets the script of a page write times, and wants the texts of the
// server; see TestTextOfRelativeTimes of internal/web.
func TestTimesAreRoundedAlike(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tb := w.visitors[operator].newTab(t)
	tb.open("/dashboard/accounts")
	tb.find("heading", "Accounts")
	want := []string{"in 2 h", "in 119 min", "3 d ago", "47 h ago", "30 s ago", "in 14 d"}
	eval[any](tb, `(() => {
		const at = seconds => Object.assign(document.createElement('time'), {dateTime: new Date(Date.now() + seconds * 1000).toISOString(), className: 'probe'})
		document.querySelector('main').append(...[7199, 7130, -2.6 * 86400, -47 * 3600, -30, 14 * 86400 - 2].map(at))
		return null
	})()`)
	eventually(t, func() string {
		got := eval[[]string](tb, `[...document.querySelectorAll('time.probe')].map(e => e.textContent)`)
		for i, text := range want {
			if got[i] != text && !strings.HasSuffix(text, "s ago") {
				return fmt.Sprintf("the script writes %q, want %q", got, want)
			}
		}
		return ""
	})
}
