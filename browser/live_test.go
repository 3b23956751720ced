package browser_test

import (
	"fmt"
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
	tb.streaming(1)
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

// streaming waits until the tab has n streams open.
func (tb *tab) streaming(n int) {
	tb.Helper()
	eventually(tb.T, func() string {
		if urls := tb.seen.streams(); len(urls) != n {
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
		_, err = chromedp.CallBrowser(tb.ctx, cdp.SetWindowBounds, cdp.SetWindowBoundsParams{WindowID: found.WindowID, Bounds: &cdp.Bounds{WindowState: state}})
	}
	if err != nil {
		tb.Fatalf("make the window %s: %v", state, err)
	}
}
