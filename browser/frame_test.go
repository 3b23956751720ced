package browser_test

import (
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
)

// TestCustomerUsesThePortalInAFrame goes the way of a customer in a page of the
// platform, which is of another site than the portal: over HTTPS, which a proxy
// ends, with cookies of a third party. In a page of another origin the portal does
// not show, and its link stays unused.
func TestCustomerUsesThePortalInAFrame(t *testing.T) {
	t.Parallel()
	var portal, link string
	proxy := httptest.NewUnstartedServer(nil)
	frame := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, `<!doctype html><html lang="en"><link rel="icon" href="data:,"><title>Shop</title>
			<style>body { margin: 0 } iframe { border: 0; width: 100vw; height: 100vh }</style>
			<iframe title="Webhooks" src="`+html.EscapeString(link)+`"></iframe>`)
	})
	shop, stranger := httptest.NewTLSServer(frame), httptest.NewTLSServer(frame)
	t.Cleanup(func() { proxy.Close(); shop.Close(); stranger.Close() })
	portal = "https://" + proxy.Listener.Addr().String()
	w := &world{server: newServer(t, "--public-url", portal), receiver: newReceiver(t), names: map[string]string{}}
	to, err := url.Parse(w.url)
	if err != nil {
		t.Fatal(err)
	}
	proxy.Config.Handler = httputil.NewSingleHostReverseProxy(to)
	proxy.StartTLS()
	shopAt := strings.Replace(shop.URL, "127.0.0.1", "localhost", 1) // another site than the portal's
	w.call(t, "PUT /portal", object{"name": "Shop", "frame_origins": []string{shopAt}})
	w.call(t, "POST /accounts", object{"uid": "acme", "name": "Acme Corporation"})
	w.call(t, "POST /endpoints", object{"account": "acme", "url": w.receiver.url + "/framed", "event_types": []string{"*"}})
	link = w.call(t, "POST /portal-sessions", object{"account": "acme", "embedded": true}).id("url")

	strange := newVisitor(t, portal).newTab(t)
	strange.open(strings.Replace(stranger.URL, "127.0.0.1", "localhost", 1))
	eventually(t, func() string {
		faults := strange.seen.take()
		if !slices.ContainsFunc(faults, func(fault string) bool { return strings.Contains(fault, "frame-ancestors") }) {
			return "a page of another origin is not refused"
		}
		return ""
	})
	strange.seen.take()

	tb := newVisitor(t, shopAt).newTab(t)
	tb.open(shopAt)
	tb.frame(link).click("Continue")
	customer := tb.frame(portal + "/portal")
	customer.click("Endpoints")
	customer.click(strings.TrimPrefix(w.receiver.url, "http://") + "/framed")
	customer.click("Test")
	customer.click("Send")
	customer.sees("Accepted", "200")
	if came := w.receiver.requests("/framed"); len(came) != 1 {
		t.Errorf("%d test events came", len(came))
	}
	cookies := call(customer, network.GetCookies, network.GetCookiesParams{URLs: []string{portal + "/"}}).Cookies
	if len(cookies) == 0 {
		t.Error("the frame has no cookie")
	}
	for _, c := range cookies {
		if !strings.HasPrefix(c.Name, "__Host-") || !c.Secure || !c.HTTPOnly || c.SameSite != network.CookieSameSiteNone ||
			c.PartitionKey == nil {
			t.Errorf("the frame has the cookie %+v", c)
		}
	}
	tb.seen.expect("a request to another host: " + portal)
}

// frame waits until a frame in the page shows the URL, of another site, and returns
// the frame, which fills the window. A load may give the frame another process, which
// the tab that was returned before does not follow.
func (tb *tab) frame(shown string) *tab {
	tb.Helper()
	at, err := url.Parse(shown)
	if err != nil {
		tb.Fatal(err)
	}
	var id target.ID
	eventually(tb.T, func() string {
		all, err := chromedp.Targets(tb.ctx)
		for _, info := range all {
			if info.Type == "iframe" && info.BrowserContextID == chromedp.FromContext(tb.ctx).BrowserContextID && info.URL == shown {
				id = info.TargetID
				return ""
			}
		}
		return fmt.Sprintf("%s has no such frame (%v), but %v", tb.path(), err, all)
	})
	ctx, end := chromedp.NewContext(tb.ctx, chromedp.WithTargetID(id))
	frame := &tab{T: tb.T, base: at.Scheme + "://" + at.Host, ctx: ctx}
	frame.do("attach to a frame", chromedp.Steps())
	frame.seen = newWatch(frame)
	tb.Cleanup(func() {
		frame.seen.expect("Blocked autofocusing") // the page around has the focus
		end()
		frame.seen.wait()
	})
	return frame
}
