package browser_test

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestAccountsAreApart collects every link and every form that the portal offers
// a customer, and asks for each with the ids of another customer: each answer is
// 404, or 422 where the id is a filter or the form is empty, and none names what is the other's.
// A filter by a replay job answers with an empty list, whether the job exists or not.
func TestAccountsAreApart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.destinations(t, "globex", "ann@globex.example")
	theirs := w.owned(t, "acme")
	w.call(t, "POST /replays", object{"endpoint": w.names["failing"], "per_second": 1})
	routes := w.offered(t)
	session := w.visitors[customer].session(t)
	for _, kind := range []string{"ep", "dlv", "evt", "rpl", "ins", "dst"} {
		if !strings.Contains(strings.Join(routes, " "), kind+"_") {
			t.Errorf("no page of the portal names a %s: %v", kind, routes)
		}
	}
	for _, route := range routes {
		method, path, _ := strings.Cut(route, " ")
		foreign := anyID.ReplaceAllStringFunc(path, func(id string) string { return theirs[kind(id)] })
		if foreign == path {
			continue // it names nothing
		}
		status, text := session.fetch(t, method, foreign)
		inQuery := !anyID.MatchString(strings.Split(foreign, "?")[0])
		refused := status == http.StatusUnprocessableEntity && (inQuery || method == http.MethodPost) // as a filter, or for its empty form
		empty := status == http.StatusOK && strings.Contains(foreign, "?replay_job=")
		if status != http.StatusNotFound && !refused && !empty {
			t.Errorf("%s %s answers %d", method, foreign, status)
		}
		if empty && strings.Contains(text, "/dlv_") {
			t.Errorf("%s %s lists deliveries", method, foreign)
		}
		for _, secret := range []string{"acme", "Acme", "warehouse", "Order service"} {
			if strings.Contains(text, secret) {
				t.Errorf("%s %s names %q", method, foreign, secret)
			}
		}
		if own, _ := session.fetch(t, http.MethodGet, path); method == http.MethodGet && own != http.StatusOK {
			t.Errorf("GET %s answers %d to its owner", path, own)
		}
	}
}

var anyID = regexp.MustCompile(`\b(acc|evt|ep|dlv|sec|key|rpl|ses|aud|ins|dst)_[0-9a-z]{26}\b`)

// kind returns the kind of an id: what is before its underscore.
func kind(id string) string {
	kind, _, _ := strings.Cut(id, "_")
	return kind
}

// owned returns one id of each kind that the account has.
func (w *world) owned(t *testing.T, account string) map[string]string {
	t.Helper()
	owned := map[string]string{"acc": w.names[account]}
	endpoint := w.call(t, "GET /endpoints?limit=1&account="+account, nil).items()[0]["id"].(string)
	delivery := w.call(t, "GET /deliveries?limit=1&endpoint="+endpoint, nil).items()[0]
	owned["ep"], owned["dlv"], owned["evt"] = endpoint, delivery["id"].(string), delivery["event"].(string)
	owned["sec"] = w.call(t, "GET /endpoints/"+endpoint+"/secrets", nil).items()[0]["id"].(string)
	owned["rpl"] = w.call(t, "POST /replays", object{"endpoint": endpoint, "note": "Acme"}).id("id")
	_, owned["ins"] = w.inspected(t, account, "Acme")
	owned["dst"] = w.call(t, "POST /notice-destinations",
		object{"account": account, "channel": "slack", "address": w.receiver.url + "/chat/acme"}).id("id")
	return owned
}

// parsed is JavaScript whose value is the document at a path. The page is not opened, since to draw
// it takes twenty times as long.
func parsed(path string) string {
	return `fetch(` + strconv.Quote(path) + `).then(response => {
		if (!response.ok) throw new Error(response.url + ' answers ' + response.status)
		return response.text()
	}).then(text => new DOMParser().parseFromString(text, 'text/html'))`
}

// anyTime is a time in a query: the bars of a chart link to theirs.
var anyTime = regexp.MustCompile(`\d{4}-\d\d-\d\dT[^&]*`)

// offered walks through the portal and returns each link and form once for each
// kind of object, as METHOD and path.
func (w *world) offered(t *testing.T) []string {
	t.Helper()
	tb := w.visitors[customer].newTab(t)
	tb.open("/portal")
	// Of each kind of page one is opened, and the first endpoint in a list is no inspector.
	seen, queue, routes := map[string]bool{}, []string{"GET /portal", "GET " + w.path(t, "/portal/endpoints/{inspector}/requests")}, []string{}
	for len(queue) > 0 {
		route := queue[0]
		queue = queue[1:]
		shape := anyTime.ReplaceAllString(anyID.ReplaceAllStringFunc(route, kind), "time")
		if seen[shape] {
			continue
		}
		seen[shape] = true
		routes = append(routes, route)
		path, isPage := strings.CutPrefix(route, "GET ")
		if !isPage || strings.Contains(path, "?cursor=") {
			continue
		}
		queue = append(queue, eval[[]string](tb, parsed(path)+`.then(document => {
			const at = text => new URL(text ?? '', location.origin + `+strconv.Quote(path)+`)
			const links = [...document.links].filter(a => !a.hasAttribute('download')).map(a => at(a.getAttribute('href')))
			return [
				...links.filter(to => to.origin == location.origin && to.pathname.startsWith('/portal')).map(to => 'GET ' + to.pathname + to.search),
				...[...document.forms].map(f => (f.getAttribute('method') ?? 'get').toUpperCase() + ' ' + at(f.getAttribute('action')).pathname),
				...[...document.querySelectorAll('[formaction]')].map(b => 'POST ' + at(b.getAttribute('formaction')).pathname),
			]
		})`)...)
	}
	if len(routes) > 300 {
		t.Fatalf("the portal offers %d links and forms: which differ only by a value?", len(routes))
	}
	slices.Sort(routes)
	return routes
}
