package browser_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// A tab shows one page at a time. Its methods do what a person does, find
// things by the role and the name that assistive technology is told, and wait
// for what must come. They fail the test that opened the tab.
type tab struct {
	*testing.T
	base string
	ctx  context.Context
	seen *watch
}

// newTab opens an empty tab, 1280 pixels wide. The test's end closes it.
func (v *visitor) newTab(t *testing.T) *tab {
	t.Helper()
	ctx, end := chromedp.NewContext(v.profile)
	tb := &tab{T: t, base: v.base, ctx: ctx}
	tb.do("open a tab", chromedp.Steps())
	tb.seen = newWatch(tb)
	t.Cleanup(func() {
		end()
		tb.seen.wait()
	})
	tb.resize(1280, 800)
	return tb
}

// call runs a command of the DevTools protocol in the tab.
func call[P, R any](tb *tab, command cdp.Command[P, R], params P) R {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.ctx, patience)
	defer cancel()
	result, err := chromedp.Call(ctx, command, params)
	if err != nil {
		tb.Fatalf("%s: %v", command.Method, err)
	}
	return result
}

// try is call, where the command may find the page gone and is repeated. Chromium
// never answers a command about a page that it has just replaced.
func try[P, R any](tb *tab, command cdp.Command[P, R], params P) (R, error) {
	ctx, cancel := context.WithTimeout(tb.ctx, 3*time.Second)
	defer cancel()
	return chromedp.Call(ctx, command, params)
}

func (tb *tab) do(what string, action chromedp.Action[chromedp.Void]) {
	tb.Helper()
	ctx := tb.ctx
	if tb.seen != nil { // the first action starts the tab, and would end it with its deadline
		timed, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		ctx = timed
	}
	if err := chromedp.Do(ctx, action); err != nil {
		tb.Fatalf("%s: %v", what, err)
	}
}

// eval returns the value of a JavaScript expression in the page.
func eval[T any](tb *tab, expression string) T {
	tb.Helper()
	value, err := evalWithin[T](tb, patience, expression)
	if err != nil {
		tb.Fatalf("evaluate %.200s: %v", expression, err)
	}
	return value
}

// tryEval is eval, where the page may be gone.
func tryEval[T any](tb *tab, expression string) (T, error) {
	return evalWithin[T](tb, 10*time.Second, expression)
}

func evalWithin[T any](tb *tab, limit time.Duration, expression string) (T, error) {
	ctx, cancel := context.WithTimeout(tb.ctx, limit)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// open goes to a path of the server, or to a URL, and returns the status of the
// answer.
func (tb *tab) open(path string) int {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.ctx, patience)
	defer cancel()
	if strings.HasPrefix(path, "/") {
		path = tb.base + path
	}
	response, err := chromedp.Run(ctx, chromedp.NavigateResponse(path))
	if err != nil {
		tb.Fatalf("open %s: %v", path, err)
	}
	return int(response.Status)
}

// path returns the path and the query of the page.
func (tb *tab) path() string {
	return tb.read("location.pathname + location.search")
}

// text returns what the page shows.
func (tb *tab) text() string {
	return tb.read("document.body ? document.body.innerText : ''")
}

// read returns a text of the page, or nothing while the page is being replaced.
func (tb *tab) read(expression string) string {
	ctx, cancel := context.WithTimeout(tb.ctx, 3*time.Second)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string](expression))
	if err != nil {
		return ""
	}
	return text
}

// sees waits until the page shows each of the texts.
func (tb *tab) sees(texts ...string) {
	tb.Helper()
	eventually(tb.T, func() string {
		shown := tb.text()
		for _, text := range texts {
			if !strings.Contains(strings.ToLower(shown), strings.ToLower(text)) {
				return fmt.Sprintf("%s does not show %q, but:\n%s", tb.path(), text, shown)
			}
		}
		return ""
	})
}

// seesNo waits until the page shows none of the texts.
func (tb *tab) seesNo(texts ...string) {
	tb.Helper()
	eventually(tb.T, func() string {
		shown := tb.text()
		for _, text := range texts {
			if strings.Contains(shown, text) {
				return fmt.Sprintf("%s still shows %q", tb.path(), text)
			}
		}
		return ""
	})
}

// resize gives the page a width and a height; narrow ones are phones'.
func (tb *tab) resize(width, height int64) {
	tb.Helper()
	call(tb, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 500,
	})
}

// scheme shows the page in the colours for "light" or "dark".
func (tb *tab) scheme(name string) {
	tb.Helper()
	call(tb, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: name}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}})
}

// withoutScripts turns JavaScript off in this tab.
func (tb *tab) withoutScripts() {
	tb.Helper()
	call(tb, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
}

// An element is what assistive technology knows of a part of the page.
type element struct {
	role, name string
	node       cdp.BackendNodeID
}

func (e element) String() string { return fmt.Sprintf("%s %q", e.role, e.name) }

// elements returns what has one of the roles, in the order of the page. Hidden
// parts are left out. It returns nothing until the page has loaded: Chromium 156
// crashes when it is asked for the accessibility tree of a document that has no
// layout yet.
func (tb *tab) elements(roles ...string) []element {
	loaded, err := try(tb, runtime.Evaluate, runtime.EvaluateParams{Expression: "document.readyState === 'complete' ? document : null"})
	if err != nil || loaded.Result.ObjectID == "" {
		return nil
	}
	found, err := try(tb, accessibility.QueryAXTree, accessibility.QueryAXTreeParams{ObjectID: loaded.Result.ObjectID})
	if err != nil {
		return nil // the page is being replaced
	}
	var elements []element
	for _, node := range found.Nodes {
		e := element{plain(node.Role), plain(node.Name), node.BackendDOMNodeID}
		if !node.Ignored && slices.Contains(roles, e.role) {
			elements = append(elements, e)
		}
	}
	return elements
}

func plain(value *accessibility.Value) string {
	var text string
	if value == nil || json.Unmarshal(value.Value, &text) != nil {
		return ""
	}
	return strings.Join(strings.Fields(text), " ")
}

// find waits for the first element with one of the roles, which commas
// separate, and the name. A name that ends with … is the beginning of one.
func (tb *tab) find(roles, name string) element {
	tb.Helper()
	var found element
	eventually(tb.T, func() string {
		all := tb.elements(strings.Split(roles, ",")...)
		for _, e := range all {
			beginning, isBeginning := strings.CutSuffix(name, "…")
			if e.name == name || isBeginning && strings.HasPrefix(e.name, beginning) {
				found = e
				return ""
			}
		}
		return fmt.Sprintf("%s has no %s %q, but %v", tb.path(), roles, name, all)
	})
	return found
}

// has reports whether the page has such an element now.
func (tb *tab) has(role, name string) bool {
	return slices.ContainsFunc(tb.elements(role), func(e element) bool { return e.name == name })
}

const (
	pressable = "button,link,menuitem,tab,DisclosureTriangle,checkbox,radio,switch"
	fillable  = "textbox,searchbox,combobox,spinbutton"
)

// click clicks with the mouse, at the middle of what has the name.
func (tb *tab) click(name string) {
	tb.Helper()
	eventually(tb.T, func() string { return tb.tryClick(tb.find(pressable, name)) })
}

// inDialog clicks a button of the dialog that asks for a confirmation.
func (tb *tab) inDialog(name string) {
	tb.Helper()
	eventually(tb.T, func() string {
		if len(tb.elements("dialog")) == 0 {
			return "no dialog opens"
		}
		return ""
	})
	all := slices.DeleteFunc(tb.elements("button"), func(e element) bool { return e.name != name })
	if len(all) == 0 {
		tb.Fatalf("the dialog has no button %q", name)
	}
	if fault := tb.tryClick(all[len(all)-1]); fault != "" {
		tb.Fatal(fault)
	}
}

// tryClick returns why the element cannot be clicked, or nothing.
func (tb *tab) tryClick(e element) string {
	if _, err := try(tb, dom.ScrollIntoViewIfNeeded, dom.ScrollIntoViewIfNeededParams{BackendNodeID: e.node}); err != nil {
		return fmt.Sprintf("scroll to %q: %v", e.name, err)
	}
	quads, err := try(tb, dom.GetContentQuads, dom.GetContentQuadsParams{BackendNodeID: e.node})
	if err != nil || len(quads.Quads) == 0 {
		return fmt.Sprintf("%q is nowhere: %v", e.name, err)
	}
	q := quads.Quads[0]
	x, y := (q[0]+q[4])/2, (q[1]+q[5])/2
	ctx, cancel := context.WithTimeout(tb.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.MouseClickXY(x, y)); err != nil {
		return fmt.Sprintf("click %q: %v", e.name, err)
	}
	return ""
}

// fill replaces what a field has by a text, which it types.
func (tb *tab) fill(name, text string) {
	tb.Helper()
	e := tb.find(fillable, name)
	call(tb, dom.Focus, dom.FocusParams{BackendNodeID: e.node})
	tb.do("select all", chromedp.KeyEvent("a", chromedp.KeyModifiers(2)))
	tb.press("\b")
	tb.press(text)
}

// press presses keys: each rune is one, and kb has those that have no letter.
func (tb *tab) press(keys ...string) {
	tb.Helper()
	for _, key := range keys {
		tb.do("press "+key, chromedp.KeyEvent(key))
	}
}

// choose chooses the option with the text in a select.
func (tb *tab) choose(name, option string) {
	tb.Helper()
	e := tb.find("combobox,listbox", name)
	call(tb, dom.Focus, dom.FocusParams{BackendNodeID: e.node})
	tb.press(option)                                                                 // typing selects the option that begins so
	got := tb.read("document.activeElement.selectedOptions?.[0]?.text.trim() ?? ''") // nothing: the page has followed
	if got != "" && !strings.HasPrefix(got, option) {
		tb.Fatalf("%q has %q selected, want %q", name, got, option)
	}
}

// focused returns what has the focus.
func (tb *tab) focused() element {
	tb.Helper()
	object := eval[*runtime.RemoteObject](tb, "document.activeElement")
	found := call(tb, accessibility.GetPartialAXTree, accessibility.GetPartialAXTreeParams{
		ObjectID:       object.ObjectID,
		FetchRelatives: new(bool),
	})
	if len(found.Nodes) == 0 {
		return element{}
	}
	node := found.Nodes[0]
	return element{plain(node.Role), plain(node.Name), node.BackendDOMNodeID}
}

// tabTo presses Tab until what has the name has the focus. A person must see
// all the way where the focus is.
func (tb *tab) tabTo(name string) {
	tb.Helper()
	const steps = 150
	for range steps {
		tb.press(kb.Tab)
		if fault := eval[string](tb, unseenFocus); fault != "" {
			tb.Errorf("%s: %v %s", tb.path(), tb.focused(), fault)
		}
		if tb.focused().name == name {
			return
		}
	}
	tb.Fatalf("%s: %d times Tab do not lead to %q", tb.path(), steps, name)
}

// unseenFocus says why nobody sees where the focus is, or nothing.
const unseenFocus = `(() => {
	const e = document.activeElement
	if (!e || e == document.body || e.id == 'main') return '' // which is the whole page
	const style = getComputedStyle(e), box = e.getBoundingClientRect()
	const label = e.labels?.[0] && getComputedStyle(e.labels[0])
	const ring = style => style && (style.outlineStyle != 'none' && parseFloat(style.outlineWidth) >= 1 || style.boxShadow != 'none')
	if (!ring(style) && !ring(label)) return 'shows no focus'
	if (box.bottom < 0 || box.top > innerHeight) return 'has the focus outside of the window'
	return ''
})()`

// rest waits until the page has loaded and its network has been idle for a
// moment.
func (tb *tab) rest() {
	tb.Helper()
	eventually(tb.T, func() string {
		if ready, err := tryEval[bool](tb, "document.readyState == 'complete'"); err != nil || !ready {
			return "the page is not loaded"
		}
		if idle, loading := tb.seen.idle(); len(loading) > 0 || idle < 100*time.Millisecond {
			return fmt.Sprint("the network is busy with ", loading)
		}
		return ""
	})
}
