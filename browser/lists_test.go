package browser_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestTheListOfDeadLettersFits opens the list of dead letters at many widths, and selects
// all of a page with the one box for that.
func TestTheListOfDeadLettersFits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for person, path := range map[who]string{operator: "/dashboard/dead-letters/all", customer: "/portal/dead-letters/all"} {
		tb := w.visitors[person].newTab(t)
		tb.open(path)
		for _, width := range []int64{320, 390, 600, 768, 832, 950, 1024, 1150, 1280} {
			tb.resize(width, 900)
			faults := append(tb.overflow(width), eval[[]string](tb, `(() => {
				const box = document.getElementById('dead-letters-table').parentElement
				return box.scrollWidth > box.clientWidth ? ['the table is ' + box.scrollWidth + ' wide in ' + box.clientWidth] : []
			})()`)...)
			if len(faults) > 0 {
				t.Errorf("%s at %d pixels: %s", path, width, strings.Join(faults, "\n  "))
			}
		}
	}
	tb := w.visitors[operator].newTab(t)
	tb.open("/dashboard/dead-letters/all")
	const counts = `[...document.querySelectorAll('[name=delivery]')].filter(e => e.checked).length + ' of ' + document.querySelectorAll('[name=delivery]').length +
		(document.querySelector('[data-select-all]').indeterminate ? ', some' : '')`
	all := eval[int](tb, `document.querySelectorAll('[name=delivery]').length`)
	if all < 2 {
		t.Fatalf("the list has %d dead letters", all)
	}
	selected := func(n int, more string) {
		t.Helper()
		if got, want := eval[string](tb, counts), fmt.Sprintf("%d of %d%s", n, all, more); got != want {
			t.Errorf("selected are %s, want %s", got, want)
		}
	}
	tb.click("Select all on this page")
	selected(all, "")
	tb.click("Select " + w.names["dead"])
	selected(all-1, ", some")
	tb.click("Select all on this page")
	selected(all, "")
	w.receiver.tell("/globex/hooks", nil)
	tb.click("Replay selected")
	tb.sees("are replayed, as new deliveries")
	tb.click("Undo")
	tb.sees("count as replayed")
}

// TestTheListOfEndpointsFits opens the lists of endpoints at the widths of a phone, a tablet
// and a desk: nothing is scrolled sideways, and how each endpoint fares is in view.
func TestTheListOfEndpointsFits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, p := range []struct {
		who  who
		path string
	}{
		{operator, "/dashboard/endpoints"}, {operator, "/dashboard/accounts/{account}"}, {customer, "/portal/endpoints"}, {customer, "/portal"},
	} {
		tb := w.visitors[p.who].newTab(t)
		tb.open(w.path(t, p.path))
		for _, size := range []struct{ width, height int64 }{
			{320, 640},
			{390, 844},
			{768, 1024},
			{832, 900},
			{880, 900},
			{950, 900},
			{1000, 900},
			{1024, 768},
			{1280, 800},
		} {
			tb.resize(size.width, size.height)
			faults := append(tb.overflow(size.width), eval[[]string](tb, `(() => {
				const box = document.querySelector('table.endpoints').parentElement
				const faults = box.scrollWidth > box.clientWidth ? ['the table is ' + box.scrollWidth + ' wide in ' + box.clientWidth] : []
				for (const name of ['Status', 'Health', 'Circuit']) {
					for (const cell of box.querySelectorAll('td[data-label="' + name + '"]')) {
						const at = cell.getBoundingClientRect(), badge = cell.querySelector('.badge').getBoundingClientRect()
						if (badge.width < 40 || badge.right > at.right + 0.5) faults.push(name + ' is cut: ' + cell.outerHTML.slice(0, 160))
					}
				}
				return faults
			})()`)...)
			if len(faults) > 0 {
				t.Errorf("%s at %d pixels: %s", p.path, size.width, strings.Join(faults, "\n  "))
			}
		}
	}
}

// TestAPhoneShowsLowRowsAndOneLineOfTabs opens lists and the tabs of an endpoint on a phone: a row
// takes a quarter of the screen on average at most, and the current tab is in view.
func TestAPhoneShowsLowRowsAndOneLineOfTabs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tb := w.visitors[operator].newTab(t)
	for _, list := range []string{"endpoints", "deliveries", "events", "accounts", "dead-letters", "notices"} {
		tb.resize(390, 844)
		tb.open("/dashboard/" + list)
		high := eval[float64](tb, `(() => {
			const rows = [...document.querySelectorAll('.table tbody tr')]
			return rows.reduce((sum, e) => sum + e.getBoundingClientRect().height, 0) / Math.max(1, rows.length)
		})()`)
		if high == 0 || high > 844/4 {
			t.Errorf("a row of %s is %v pixels high on average", list, high)
		}
	}
	for _, width := range []int64{320, 390} {
		tb.resize(width, 844)
		for _, page := range []string{"", "/secrets", "/missed"} {
			tb.open(w.path(t, "/dashboard/endpoints/{failing}"+page))
			faults := append(tb.overflow(width), eval[[]string](tb, `(() => {
				const tabs = document.querySelector('.tabs'), box = tabs.getBoundingClientRect(), now = tabs.querySelector('[aria-current]').getBoundingClientRect()
				const faults = new Set([...tabs.children].map(e => e.getBoundingClientRect().top)).size > 1 ? ['the tabs have two lines'] : []
				if (now.left < box.left - 0.5 || now.right > box.right + 0.5) faults.push('the current tab is out of view')
				return faults
			})()`)...)
			if len(faults) > 0 {
				t.Errorf("%s at %d pixels: %s", page, width, strings.Join(faults, "\n  "))
			}
		}
	}
}
