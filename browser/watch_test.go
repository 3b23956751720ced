package browser_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/inspector"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// watch notes what happens in a tab and should not: scripts that fail, reports
// of the content security policy, dialogs, requests to other hosts. The test's
// end tells them, except those that the test took.
type watch struct {
	tab *tab

	mu        sync.Mutex
	faults    []string
	kinds     map[network.RequestID]network.ResourceType
	bytes     float64   // that came, of all answers that ended
	last      time.Time // when a request began or ended
	open      map[network.RequestID]string
	answering sync.WaitGroup // of dialogs
}

func newWatch(tb *tab) *watch {
	tb.Helper()
	w := &watch{tab: tb, kinds: map[network.RequestID]network.ResourceType{}, open: map[network.RequestID]string{}}
	for _, err := range []error{
		chromedp.Listen(tb.ctx, w.note),
		enable(tb, network.Enable, network.EnableParams{}),
		enable(tb, network.SetCacheDisabled, network.SetCacheDisabledParams{CacheDisabled: true}),
		enable(tb, inspector.Enable, cdp.Empty{}),
		enable(tb, log.Enable, cdp.Empty{}),
		enable(tb, runtime.Enable, cdp.Empty{}),
		enable(tb, page.Enable, page.EnableParams{}),
		enable(tb, audits.Enable, cdp.Empty{}),
	} {
		if err != nil {
			tb.Fatalf("watch a tab: %v", err)
		}
	}
	tb.Cleanup(func() {
		for _, fault := range w.take() {
			tb.Errorf("in the browser: %s", fault)
		}
	})
	return w
}

func enable[P any](tb *tab, command cdp.Command[P, cdp.Empty], params P) error {
	_, err := chromedp.Call(tb.ctx, command, params)
	return err
}

// note is called with each event, in the goroutine that reads them.
func (w *watch) note(event any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		w.fault("a script failed: %s %s", e.ExceptionDetails.Text, described(e.ExceptionDetails.Exception))
	case *runtime.EventConsoleAPICalled:
		if e.Type == "error" || e.Type == "warning" || e.Type == "assert" {
			w.fault("console.%s: %s", e.Type, described(e.Args...))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == "error" || e.Entry.Level == "warning" {
			w.fault("%s %s: %s %s", e.Entry.Source, e.Entry.Level, e.Entry.Text, e.Entry.URL)
		}
	case *audits.EventIssueAdded:
		if csp := e.Issue.Details.ContentSecurityPolicyIssueDetails; csp != nil {
			w.fault("the content security policy (%s) refused %s %s", csp.ViolatedDirective, csp.ContentSecurityPolicyViolationType, csp.BlockedURL)
		}
	case *page.EventJavascriptDialogOpening:
		w.fault("a dialog %s: %s", e.Type, e.Message)
		w.answering.Go(func() {
			_, _ = chromedp.Call(w.tab.ctx, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{}) // the tab may be closed
		})
	case *inspector.EventTargetCrashed:
		w.fault("Chromium's process of the page crashed")
	case *network.EventRequestWillBeSent:
		w.began(e)
	case *network.EventLoadingFinished:
		w.bytes += e.EncodedDataLength
		w.ended(e.RequestID)
	case *network.EventLoadingFailed:
		w.ended(e.RequestID)
	}
}

func (w *watch) fault(format string, args ...any) {
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
}

func described(objects ...*runtime.RemoteObject) string {
	var texts []string
	for _, o := range objects {
		if o != nil {
			texts = append(texts, string(o.Value)+o.Description)
		}
	}
	return strings.Join(texts, " ")
}

func (w *watch) began(e *network.EventRequestWillBeSent) {
	w.kinds[e.RequestID] = e.Type
	w.open[e.RequestID] = e.Request.URL
	w.last = time.Now()
	to, err := url.Parse(e.Request.URL)
	if err != nil || (to.Scheme == "http" || to.Scheme == "https") && !strings.HasPrefix(e.Request.URL, w.tab.base+"/") {
		w.fault("a request to another host: %.200s", e.Request.URL)
	}
}

func (w *watch) ended(id network.RequestID) {
	delete(w.open, id)
	w.last = time.Now()
}

// idle returns for how long the tab has loaded nothing. A stream of events is
// no load.
func (w *watch) idle() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id := range w.open {
		if w.kinds[id] != network.ResourceTypeEventSource {
			return 0
		}
	}
	return time.Since(w.last)
}

// streams returns the URLs of the event streams that the tab has open.
func (w *watch) streams() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var urls []string
	for id, url := range w.open {
		if w.kinds[id] == network.ResourceTypeEventSource {
			urls = append(urls, url)
		}
	}
	return urls
}

// restart forgets how many bytes came.
func (w *watch) restart() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bytes = 0
}

func (w *watch) transferred() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return int(w.bytes)
}

// take returns the faults so far, and forgets them.
func (w *watch) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	faults := slices.Clone(w.faults)
	w.faults = nil
	return faults
}

// expect takes the faults and fails unless each contains one of the texts.
func (w *watch) expect(texts ...string) {
	w.tab.Helper()
	for _, fault := range w.take() {
		if !slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(fault, text) }) {
			w.tab.Errorf("in the browser: %s", fault)
		}
	}
}

func (w *watch) wait() { w.answering.Wait() }
