package browser_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	cdp "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/chromedp"
)

// TestTailShowsADelivery publishes an event while the live tail is open.
func TestTailShowsADelivery(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tb := w.visitors[operator].newTab(t)
	tb.open("/dashboard/tail")
	tb.sees("Waiting for the next attempt")
	tb.live()
	w.publish(t, "acme", "order.created", nil)
	tb.sees("order.created", "Delivered")
}

// TestTabsShareOneStream opens the same page twice: one stream serves both, the
// other tab takes over when the first is hidden, and no stream is open while
// both are.
func TestTabsShareOneStream(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, second := w.visitors[operator].newTab(t), w.visitors[operator].newTab(t)
	first.open("/dashboard/tail")
	first.streaming(1)
	second.open("/dashboard/tail")
	second.rest()
	second.streaming(0)
	w.publish(t, "acme", "order.created", nil)
	first.sees("order.created")
	second.sees("order.created") // through the stream of the first

	first.window("minimized")
	first.streaming(0)
	second.streaming(1)
	second.window("minimized")
	second.streaming(0)
	first.window("normal")
	first.streaming(1)
}

// TestAChangeDuringALoadIsNotMissed lets something change while a page is being loaded:
// the page that is shown then is renewed, and not the one before.
func TestAChangeDuringALoadIsNotMissed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tb := w.visitors[operator].newTab(t)
	tb.open("/dashboard/endpoints")
	tb.rest()
	eval[any](tb, `(() => {
		const real = window.fetch
		window.asked = []
		window.fetch = async (url, options) => {
			const path = new URL(url, location).pathname
			if (window.asked.length === 0 && path !== "/dashboard/deliveries") { // a change of before the click
				return real(url, options)
			}
			const first = window.asked.push(path) === 1
			const response = await real(url, options)
			if (first) { // another tab has the stream, and hands its messages to this one
				new BroadcastChannel("/dashboard/live").postMessage({ name: "changed" })
				await new Promise((resolve) => setTimeout(resolve, 500))
			}
			return response
		}
	})()`)
	tb.click("Deliveries")
	eventually(tb.T, func() string {
		asked := eval[[]string](tb, "window.asked")
		if len(asked) < 2 {
			return fmt.Sprintf("the page is not renewed; it asked for %v", asked)
		}
		if asked[1] != "/dashboard/deliveries" {
			t.Fatalf("the change renews %s, want the page that is shown after it", asked[1])
		}
		return ""
	})
}

// TestASecondTabRenewsItsPageOnce opens a page while another tab, in which the operator
// logged in, has the stream: the messages during the load reach that tab alone.
func TestASecondTabRenewsItsPageOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tb := w.visitors[operator].newTab(t)
	tb.open("/dashboard/deliveries")
	eventually(t, func() string {
		fetched := eval[[]string](tb,
			"performance.getEntriesByType('resource').filter((e) => e.initiatorType === 'fetch').map((e) => new URL(e.name).pathname)")
		if !slices.Contains(fetched, "/dashboard/deliveries") {
			return fmt.Sprintf("the second tab has fetched %v, and not its page", fetched)
		}
		return ""
	})
	tb.streaming(0)
}

// TestARenewalLeavesTheMessageOfAForm submits a form and lets its page renew itself before
// the browser follows the redirect of the form.
func TestARenewalLeavesTheMessageOfAForm(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tb := w.visitors[operator].newTab(t)
	path := "/dashboard/endpoints/" + w.names["healthy"]
	tb.open(path)
	tb.rest()
	const renewals = "performance.getEntriesByType('resource').filter((e) => e.initiatorType === 'fetch' && new URL(e.name).pathname === location.pathname).length"
	eval[any](tb, "fetch(location.pathname + '/pause', { method: 'POST', redirect: 'manual' }).then(() => null)")
	tb.rest()
	before := eval[int](tb, renewals)
	eval[any](tb, "new BroadcastChannel('/dashboard/live').postMessage({ name: 'changed' })")
	eventually(t, func() string {
		if eval[int](tb, renewals) == before {
			return "the page does not renew itself"
		}
		return ""
	})
	tb.open(path)
	tb.find("button", "Undo")
}

// TestPagesSurviveTheDatabase stops PostgreSQL under open pages and starts it
// again: they say that they are out of date, and then show what is there, without
// being opened again.
func TestPagesSurviveTheDatabase(t *testing.T) {
	t.Parallel()
	database := newDatabase(t)
	w := &world{server: newServer(t, "--database-url", database.url), receiver: newReceiver(t), names: map[string]string{}}
	w.call(t, "POST /accounts", object{"uid": "acme", "name": "Acme Corporation"})
	w.call(t, "POST /endpoints", object{"account": "acme", "url": w.receiver.url + "/acme", "event_types": []string{"*"}})
	w.publish(t, "acme", "order.created", nil)
	v := newVisitor(t, w.url)
	overview, list, tail := w.logIn(t, v), v.newTab(t), v.newTab(t)
	tabs := map[*tab]string{overview: "/dashboard", list: "/dashboard/deliveries", tail: "/dashboard/tail"}
	for tb, path := range tabs {
		tb.open(path)
		tb.rest()
		eval[any](tb, "window.opened = true") // gone after a reload
	}
	tail.live() // its first stream is open, and is not counted
	eval[any](tail, `(() => {
		const real = EventSource
		window.streams = 0
		window.EventSource = class extends real { constructor(url) { super(url); window.streams++ } }
	})()`)
	database.stop(t)
	for tb := range tabs {
		// A stream looks every 15 seconds whether its session lives, and may know it
		// from the cache the first time.
		within(t, 2*patience, func() string {
			if shown := tb.text(); !strings.Contains(shown, "This page is out of date") {
				return tb.path() + " says nothing, but shows:\n" + shown
			}
			return ""
		})
	}
	database.start(t)
	for tb := range tabs {
		tb.seesNo("This page is out of date", "Reconnecting")
	}
	tail.live()
	_, delivery := w.publish(t, "acme", "order.paid", nil)
	w.settled(t, delivery, "delivered")
	list.sees("order.paid")
	tail.sees("order.paid")
	if n := eval[int](tail, "window.streams"); n > 0 {
		t.Errorf("the tail opened %d streams anew, which miss what happens meanwhile", n)
	}
	for tb := range tabs {
		if !eval[bool](tb, "window.opened === true") {
			t.Errorf("%s was loaded again", tb.path())
		}
		tb.seen.expect("503", "500", "ERR_INCOMPLETE_CHUNKED_ENCODING")
	}
}

// live waits until the page says that it shows what happens from now on.
func (tb *tab) live() {
	tb.Helper()
	eventually(tb.T, func() string {
		if !eval[bool](tb, "Boolean(document.querySelector('[data-live-mark]:not([hidden], .off)'))") {
			return tb.path() + " is not live"
		}
		return ""
	})
}

// streaming waits until the tab has n streams open.
func (tb *tab) streaming(n int) {
	tb.Helper()
	eventually(tb.T, func() string {
		if _, urls := tb.seen.requests(); len(urls) != n {
			return "the streams are " + tb.path() + fmt.Sprint(" ", urls)
		}
		return ""
	})
}

// window minimizes the window of the tab, which hides its page, or restores it.
func (tb *tab) window(state cdp.WindowState) {
	tb.Helper()
	target := chromedp.FromContext(tb.ctx).Target.TargetID
	found, err := chromedp.CallBrowser(tb.ctx, cdp.GetWindowForTarget, cdp.GetWindowForTargetParams{TargetID: target})
	if err == nil {
		_, err = chromedp.CallBrowser(tb.ctx, cdp.SetWindowBounds,
			cdp.SetWindowBoundsParams{WindowID: found.WindowID, Bounds: &cdp.Bounds{WindowState: state}})
	}
	if err != nil {
		tb.Fatalf("make the window %s: %v", state, err)
	}
}
