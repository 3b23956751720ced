package browser_test

import (
	"fmt"
	"maps"
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
	bytes     float64   // that came, of all answers that ended
	last      time.Time // when a request began or ended
	open      map[network.RequestID]request
	answering sync.WaitGroup // of dialogs
}

// request is one that has begun and not ended.
type request struct {
	url    string
	kind   network.ResourceType
	loader cdp.LoaderID // of the document that it is for; empty: a worker's
}

func newWatch(tb *tab) *watch {
	tb.Helper()
	w := &watch{tab: tb, open: map[network.RequestID]request{}}
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
	case *page.EventFrameNavigated:
		if e.Frame.ParentID == "" {
			w.left(e.Frame.LoaderID)
		}
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
	w.open[e.RequestID] = request{e.Request.URL, e.Type, e.LoaderID}
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

// left ends the requests of the documents before this one: Chromium does not say of all of
// them that they ended.
func (w *watch) left(loader cdp.LoaderID) {
	maps.DeleteFunc(w.open, func(_ network.RequestID, r request) bool {
		return r.loader != "" && r.loader != loader
	})
}

// idle returns for how long no request has begun or ended, and what is being loaded.
func (w *watch) idle() (since time.Duration, loading []string) {
	loading, _ = w.requests()
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Since(w.last), loading
}

// requests returns the URLs of the open requests: those of pages and their parts, and those
// of event streams.
func (w *watch) requests() (loads, streams []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.open {
		if r.kind == network.ResourceTypeEventSource {
			streams = append(streams, r.url)
		} else {
			loads = append(loads, r.url)
		}
	}
	return loads, streams
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
