package browser_test

import (
	"strings"
	"testing"
)

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
		for _, size := range []struct{ width, height int64 }{{320, 640}, {390, 844}, {768, 1024}, {1024, 768}, {1280, 800}} {
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
