package browser_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// who opens a page.
type who int

const (
	nobody who = iota // without a session
	operator
	customer
)

// A listed page is one that a person can open.
type listed struct {
	name string // of its pictures
	who  who
	path string // with the names of what newWorld made in braces
}

// status is what the page answers.
func (p listed) status() int {
	if p.name == "link-expired" || p.name == "reader-gone" {
		return http.StatusGone
	}
	return http.StatusOK
}

// pages lists every page.
var pages = []listed{
	{"login", nobody, "/login"},
	{"link-expired", nobody, "/portal/enter/unknown"},
	{"reader-confirm", nobody, "/notices/confirm/{confirm}"},
	{"reader-unsubscribe", nobody, "/notices/unsubscribe/{unsubscribe}"},
	{"reader-gone", nobody, "/notices/confirm/unknown"},

	{"overview", operator, "/dashboard"},
	{"endpoints", operator, "/dashboard/endpoints"},
	{"endpoint", operator, "/dashboard/endpoints/{failing}"},
	{"endpoint-open", operator, "/dashboard/endpoints/{open}"},
	{"endpoint-new", operator, "/dashboard/endpoints/new"},
	{"endpoint-options", operator, "/dashboard/endpoints/{healthy}/options"},
	{"endpoint-secrets", operator, "/dashboard/endpoints/{healthy}/secrets"},
	{"endpoint-delete", operator, "/dashboard/endpoints/{paused}/delete"},
	{"inspector", operator, "/dashboard/endpoints/{inspector}/requests"},
	{"inspector-request", operator, "/dashboard/endpoints/{inspector}/requests/{request}"},
	{"events", operator, "/dashboard/events"},
	{"event", operator, "/dashboard/events/{event}"},
	{"deliveries", operator, "/dashboard/deliveries"},
	{"delivery-dead", operator, "/dashboard/deliveries/{dead}"},
	{"delivery-waiting", operator, "/dashboard/deliveries/{waiting}"},
	{"delivery-delivered", operator, "/dashboard/deliveries/{delivered}"},
	{"dead-letters", operator, "/dashboard/dead-letters"},
	{"dead-letters-all", operator, "/dashboard/dead-letters/all"},
	{"replays", operator, "/dashboard/replays"},
	{"replay", operator, "/dashboard/replays/{replay}"},
	{"replay-new", operator, "/dashboard/replays/new?endpoint={failing}"},
	{"endpoint-try", operator, "/dashboard/endpoints/{failing}/try"},
	{"endpoint-missed", operator, "/dashboard/endpoints/{failing}/missed"},
	{"endpoint-why-not", operator, "/dashboard/endpoints/{failing}/why-not?event={event}"},
	{"event-why-not", operator, "/dashboard/events/{event}/why-not?endpoint={failing}"},
	{"tail", operator, "/dashboard/tail"},
	{"search", operator, "/dashboard/search?q=o"},
	{"accounts", operator, "/dashboard/accounts"},
	{"account", operator, "/dashboard/accounts/{account}"},
	{"account-new", operator, "/dashboard/accounts/new"},
	{"account-delete", operator, "/dashboard/accounts/{account}/delete"},
	{"event-types", operator, "/dashboard/event-types"},
	{"event-type", operator, "/dashboard/event-types/order.paid"},
	{"event-type-new", operator, "/dashboard/event-types/new"},
	{"api-keys", operator, "/dashboard/api-keys"},
	{"api-key", operator, "/dashboard/api-keys/{key}"},
	{"api-key-new", operator, "/dashboard/api-keys/new"},
	{"notices", operator, "/dashboard/notices"},
	{"destinations", operator, "/dashboard/notice-destinations"},
	{"destination", operator, "/dashboard/notice-destinations/{destination}"},
	{"destination-new", operator, "/dashboard/notice-destinations/new?account=globex"},
	{"audit", operator, "/dashboard/audit"},
	{"archive", operator, "/dashboard/archive"},
	{"archive-records", operator, "/dashboard/archive/records"},
	{"sessions", operator, "/dashboard/sessions"},
	{"sources", operator, "/dashboard/sources"},
	{"source", operator, "/dashboard/sources/{source}"},
	{"source-rows", operator, "/dashboard/sources/{source}?account={typo}"},

	{"portal", customer, "/portal"},
	{"portal-endpoints", customer, "/portal/endpoints"},
	{"portal-endpoint", customer, "/portal/endpoints/{failing}"},
	{"portal-endpoint-new", customer, "/portal/endpoints/new"},
	{"portal-endpoint-options", customer, "/portal/endpoints/{failing}/options"},
	{"portal-endpoint-secrets", customer, "/portal/endpoints/{failing}/secrets"},
	{"portal-start", customer, "/portal/endpoints/{failing}/start"},
	{"portal-snippets", customer, "/portal/endpoints/{failing}/snippets"},
	{"portal-try", customer, "/portal/endpoints/{failing}/try"},
	{"portal-tests", customer, "/portal/endpoints/{failing}/tests"},
	{"portal-inspector", customer, "/portal/endpoints/{inspector}/requests"},
	{"portal-events", customer, "/portal/events"},
	{"portal-event", customer, "/portal/events/{event}"},
	{"portal-deliveries", customer, "/portal/deliveries"},
	{"portal-delivery", customer, "/portal/deliveries/{dead}"},
	{"portal-dead-letters", customer, "/portal/dead-letters"},
	{"portal-missed", customer, "/portal/endpoints/{failing}/missed"},
	{"portal-why-not", customer, "/portal/events/{event}/why-not?endpoint={failing}"},
	{"portal-replays", customer, "/portal/replays"},
	{"portal-notices", customer, "/portal/notices"},
	{"portal-destinations", customer, "/portal/notice-destinations"},
	{"portal-destination", customer, "/portal/notice-destinations/{destination}"},
	{"portal-destination-new", customer, "/portal/notice-destinations/new"},
	{"portal-tail", customer, "/portal/tail"},
	{"portal-search", customer, "/portal/search?q=o"},
	{"portal-event-types", customer, "/portal/event-types"},
}

// widths are those that pages must fit into, and heights of a window of such a
// width.
var widths = []struct{ width, height int64 }{{320, 640}, {390, 844}, {1280, 800}, {2560, 1440}}

// firstLoad is how many bytes a page may take that nothing of is cached.
const firstLoad = 100_000

// TestPages looks at every page: at each width, in both colour schemes, with
// the eyes of axe-core.
func TestPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.destinations(t, "globex", "ann@globex.example")
	w.call(t, "POST /endpoints/"+w.names["failing"]+"/what-if/archive", object{})
	w.rows(t)
	for _, p := range pages {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			tb := w.visitors[p.who].newTab(t)
			path := w.path(t, p.path)
			tb.seen.restart()
			if status := tb.open(path); status != p.status() {
				t.Fatalf("%s answers %d: %s", path, status, tb.text())
			}
			tb.rest()
			if size := tb.seen.transferred(); size > firstLoad {
				t.Errorf("the first load takes %d bytes, more than %d", size, firstLoad)
			}
			if shifts := tb.shifts(); len(shifts) > 0 {
				t.Errorf("the layout shifts %s", strings.Join(shifts, "\n  "))
			}
			for _, size := range widths {
				tb.resize(size.width, size.height)
				if wide := tb.overflow(size.width); len(wide) > 0 {
					t.Errorf("at %d pixels %s", size.width, strings.Join(wide, "\n  "))
				}
			}
			tb.look(p.name)
			if p.status() != http.StatusOK { // Chromium tells of it
				tb.seen.expect(strconv.Itoa(p.status()))
			}
		})
	}
}

// TestFolderOfANoticeFits gives the page of notices the row of a full disk, which a test cannot fill.
func TestFolderOfANoticeFits(t *testing.T) {
	t.Parallel()
	w := &world{server: newServer(t)}
	w.visitors[operator] = newVisitor(t, w.url)
	tb := w.logIn(t, w.visitors[operator])
	tb.open("/dashboard/notices")
	tb.rest()
	eval[any](tb, `document.querySelector('main').insertAdjacentHTML('beforeend', '<div class="table"><table id="notices-table"><tbody><tr>' +
		'<td class="place" data-label="Object"><code>/srv/postrider/'+'folder'.repeat(20)+'</code></td></tr></tbody></table></div>')`)
	for _, size := range widths {
		tb.resize(size.width, size.height)
		if wide := tb.overflow(size.width); len(wide) > 0 {
			t.Errorf("at %d pixels %s", size.width, strings.Join(wide, "\n  "))
		}
	}
}

// shifts returns what has moved since the page was opened, without a person's
// doing.
func (tb *tab) shifts() []string {
	tb.Helper()
	return eval[[]string](tb, `new Promise(done => {
		const shifts = []
		new PerformanceObserver(list => {
			for (const e of list.getEntries()) {
				shifts.push('by ' + e.value, ...e.sources.map(s => (s.node?.outerHTML ?? s.node?.textContent ?? '').slice(0, 160) +
					' from ' + JSON.stringify(s.previousRect) + ' to ' + JSON.stringify(s.currentRect)))
			}
		}).observe({type: 'layout-shift', buffered: true})
		requestAnimationFrame(() => setTimeout(() => done(shifts), 20))
	})`)
}

// overflow returns what is wider than the window, or nothing. What scrolls
// inside of its own box is not.
func (tb *tab) overflow(width int64) []string {
	tb.Helper()
	return eval[[]string](tb, fmt.Sprintf(`(() => {
		const width = %d, page = document.documentElement
		if (page.scrollWidth <= width) return []
		const scrolls = e => e && e != document.body && e != page && (getComputedStyle(e).overflowX != 'visible' || scrolls(e.parentElement))
		const wide = [...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > width + 0.5 && !scrolls(e.parentElement))
		return ['the page is ' + page.scrollWidth + ' wide', ...wide.slice(0, 8).map(e => e.outerHTML.slice(0, 160))]
	})()`, width))
}

// look takes pictures of a page and lets axe-core look at it, on a desk in light colours and on a
// phone in dark ones. With -update it takes the pictures in the other colours, too.
func (tb *tab) look(name string) {
	tb.Helper()
	for _, screen := range []struct{ width, height, limit int64 }{{1280, 800, 1300}, {390, 844, 1500}} {
		tb.resize(screen.width, screen.height)
		for _, scheme := range []string{"light", "dark"} {
			judged := (screen.width == 1280) == (scheme == "light") // either width and either scheme once
			if !judged && !update {
				continue
			}
			tb.scheme(scheme)
			state := fmt.Sprintf("%d-%s", screen.width, scheme)
			tb.keep(name+"-"+state, tb.picture(screen.width, screen.limit))
			if !judged {
				continue
			}
			serious, minor := tb.barriers()
			for _, finding := range serious {
				tb.Errorf("axe, %s: %s", state, finding)
			}
			for _, finding := range minor {
				tb.Logf("axe, %s: %s", state, finding)
			}
		}
	}
}

// TestScreenshotsAreFew keeps the folder small and free of pictures of pages
// that are gone.
func TestScreenshotsAreFew(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, p := range pages {
		known[p.name] = true
	}
	files, err := filepath.Glob(filepath.Join(screenshots, "*.png"))
	if err != nil {
		t.Fatal(err)
	}
	var total int64
	for _, file := range files {
		name, _, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".png"), "-1280-")
		name, _, _ = strings.Cut(name, "-390-")
		if !known[name] {
			t.Errorf("%s shows no page of the list", file)
		}
		about, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		total += about.Size()
	}
	if total > 9<<20 {
		t.Errorf("the pictures have %d bytes, more than 9 MiB", total)
	}
}
