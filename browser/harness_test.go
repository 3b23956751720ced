package browser_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestChecksCanFail opens pages that each have one fault, and checks that it is
// found: a check that finds nothing anywhere checks nothing.
func TestChecksCanFail(t *testing.T) {
	t.Parallel()
	faulty := map[string]string{
		"policy":  `<script>document.title = "x"</script>`,
		"handler": `<img src="data:," onerror="alert(1)">`,
		"dialog":  `<script src="/alert.js"></script>`,
		"console": `<script src="/console.js"></script>`,
		"thrown":  `<script src="/throw.js"></script>`,
		"missing": `<img src="/nothing">`,
		"foreign": `<script src="/fetch.js"></script>`,
	}
	scripts := map[string]string{
		"alert": "alert(1)", "console": "console.error('oh')", "throw": "throw new Error('oh')",
		"fetch": "fetch('http://localhost:' + location.port, {mode: 'no-cors'})",
		"shift": "setTimeout(() => { document.querySelector('main').style.marginTop = '200px'; document.title = 'moved' }, 300)",
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/")
		if script, ok := strings.CutSuffix(name, ".js"); ok {
			w.Header().Set("Content-Type", "text/javascript")
			_, _ = io.WriteString(w, scripts[script])
			return
		}
		if name == "nothing" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		if name == "policy" || name == "handler" {
			w.Header().Set("Content-Security-Policy", "script-src 'self'")
		}
		_, _ = io.WriteString(w, `<!doctype html><html lang="en"><link rel="icon" href="data:,"><title>t</title><main>`+faulty[name]+`</main>`)
	}))
	t.Cleanup(server.Close)
	v := newVisitor(t, server.URL)
	for name := range faulty {
		tb := v.newTab(t)
		tb.open("/" + name)
		eventually(t, func() string {
			if faults := tb.seen.take(); len(faults) == 0 {
				return "nothing is found on the page " + name
			}
			return ""
		})
	}
	tb := v.newTab(t)
	tb.open("/good")
	eval[any](tb,
		`document.querySelector('main').append('some text'), document.head.append(Object.assign(document.createElement('script'), {src: '/shift.js'}))`)
	eventually(t, func() string {
		if eval[string](tb, "document.title") != "moved" {
			return "nothing moves"
		}
		return ""
	})
	if len(tb.shifts()) == 0 {
		t.Error("a page that moves does not shift")
	}
	eval[any](tb, `document.querySelector('main').innerHTML = '<div style="width: 400px">x</div><button></button>'`)
	tb.resize(320, 600)
	if len(tb.overflow(320)) == 0 {
		t.Error("a div of 400 pixels fits into 320")
	}
	if serious, _ := tb.barriers(); len(serious) == 0 {
		t.Error("axe-core finds nothing about a button without a name")
	}
}
