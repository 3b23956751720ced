package browser_test

import (
	"context"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
)

// chromium is Debian's.
const chromium = "/usr/bin/chromium"

// browser starts the one browser of this binary and returns its context. The
// first action gets no deadline: it would be the browser's.
var browser = sync.OnceValues(func() (context.Context, error) {
	options := append(slices.Clip(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(chromium),
		chromedp.Flag("hide-scrollbars", true),
		chromedp.Flag("lang", "en-US"),
		chromedp.Flag("ignore-certificate-errors", true), // those of tests have no authority that it knows
		chromedp.Env("TZ=UTC"),
	)
	if os.Getuid() == 0 { // Chromium's sandbox refuses root
		options = append(options, chromedp.NoSandbox)
	}
	ctx, end := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(ctx)
	endBrowser = func() { cancel(); end() }
	return ctx, chromedp.Do(ctx)
})

// endBrowser ends the browser. browser sets it; nil: none was started.
var endBrowser context.CancelFunc

func endChromium() {
	if endBrowser != nil {
		endBrowser()
	}
}

// A visitor is a person with a browser profile of their own: cookies and tabs
// that no other visitor has.
type visitor struct {
	base    string // the server's URL
	profile context.Context
}

// newVisitor returns a visitor of the server without any cookie. The test's end
// closes its tabs.
func newVisitor(t *testing.T, base string) *visitor {
	t.Helper()
	parent, err := browser()
	if err != nil {
		t.Fatalf("start %s, which make setup installs: %v", chromium, err)
	}
	profile, end := chromedp.NewContext(parent, chromedp.WithNewBrowserContext())
	t.Cleanup(end)
	if err := chromedp.Do(profile); err != nil {
		t.Fatalf("make a browser profile: %v", err)
	}
	return &visitor{base: base, profile: profile}
}
