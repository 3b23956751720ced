package web

import (
	"bytes"
	"embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"time"
	// Zones work on machines without a time zone database, too.
	_ "time/tzdata"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
)

//go:embed templates/*.html
var templateFiles embed.FS

// renderers has the parsed templates, once for each processor: rendering needs a
// processor anyway.
type renderers struct{ idle chan *renderer }

// renderer renders one page at a time. The functions of its templates read visit, so
// that every template and partial can use them with any dot.
type renderer struct {
	templates *template.Template
	assets    assets
	visit     *visit // of the page that is being rendered; else nil
	page      page
}

// newRenderers parses the templates that the program was built with.
func newRenderers(a assets) *renderers {
	n := runtime.GOMAXPROCS(0)
	all := &renderers{idle: make(chan *renderer, n)}
	for range n {
		r := &renderer{assets: a}
		r.templates = template.Must(template.New("").Option("missingkey=error").Funcs(r.functions()).ParseFS(templateFiles, "templates/*.html"))
		all.idle <- r
	}
	return all
}

// render writes the whole page. It waits for an idle renderer. The brand and the hold are read
// before: while the store does not respond, no page may keep the others from a renderer.
func (all *renderers) render(to io.Writer, v *visit, p page) error {
	brand, hold := v.brand(), v.hold()
	r := <-all.idle
	defer func() {
		r.visit, r.page = nil, page{}
		all.idle <- r
	}()
	r.visit, r.page = v, p
	if r.page.Title == "" {
		r.page.Title = v.t(p.Name + ".title")
	}
	shown := r.layout(brand)
	shown.Hold = hold
	return r.templates.ExecuteTemplate(to, "layout", shown)
}

// renderPart writes one template, without the layout.
func (all *renderers) renderPart(to io.Writer, v *visit, name string, data any) error {
	r := <-all.idle
	defer func() {
		r.visit = nil
		all.idle <- r
	}()
	r.visit = v
	return r.templates.ExecuteTemplate(to, name, data)
}

// layout is the data of the layout, which surrounds every page.
type layout struct {
	Title    string
	Section  string // of the navigation
	Portal   bool
	Brand    brand
	Session  Session
	LoggedIn bool
	Flash    flash
	Hold     apitypes.Hold // zero: the store is not held
	Calls    []apiCall
	Commands []string
	Version  string
	Language string
	Zone     string
	Origin   string // of this server, for commands to copy
	Nav      []navItem

	Preferences preferences
}

// navItem is a section of the navigation.
type navItem struct {
	Name string // the text nav.NAME, the icon and the first part of the path
	Path string
	Key  string // pressed after g it opens the section
}

// navigation lists the sections. Those of another audience, or that need a scope that
// the person lacks, are left out.
var navigation = []struct {
	name, path, key string
	who             audience
	scope           postrider.Scope
}{
	{"home", "", "h", customers, postrider.ScopeWebhooksRead},
	{"overview", "", "o", operators, postrider.ScopeWebhooksRead},
	{"endpoints", "endpoints", "e", everyone, postrider.ScopeWebhooksRead},
	{"events", "events", "v", everyone, postrider.ScopeWebhooksRead},
	{"deliveries", "deliveries", "d", everyone, postrider.ScopeWebhooksRead},
	{"live", "tail", "w", everyone, postrider.ScopeWebhooksRead},
	{"dead_letters", "dead-letters", "l", everyone, postrider.ScopeWebhooksRead},
	{"replays", "replays", "r", everyone, postrider.ScopeWebhooksRead},
	{"notices", "notices", "n", everyone, postrider.ScopeWebhooksRead},
	{"destinations", "notice-destinations", "m", everyone, postrider.ScopeWebhooksRead},
	{"accounts", "accounts", "a", operators, postrider.ScopeWebhooksRead},
	{"event_types", "event-types", "t", everyone, postrider.ScopeWebhooksRead},
	{"api_keys", "api-keys", "k", operators, postrider.ScopeAdmin},
	{"sessions", "sessions", "s", operators, postrider.ScopeAdmin},
	{"audit", "audit", "u", operators, postrider.ScopeAdmin},
	{"archive", "archive", "c", operators, postrider.ScopeAdmin},
}

// layout returns the data of the layout for the page.
func (r *renderer) layout(look brand) layout {
	v := r.visit
	section, _, _ := strings.Cut(r.page.Name, "-")
	l := layout{
		Title: r.page.Title, Section: section, Portal: v.portal, Brand: look, Session: v.session, LoggedIn: v.api != nil, Flash: v.flash,
		Commands: r.page.Commands, Version: v.h.opts.Version, Language: v.text.Language,
		Zone: v.zone.String(), Origin: v.origin(), Preferences: v.preferences(),
	}
	if v.api == nil {
		return l
	}
	for _, c := range v.calls.made {
		if c.Method == http.MethodGet { // without its body, another call would do something else
			l.Calls = append(l.Calls, c)
		}
	}
	for _, n := range navigation {
		if n.who&v.who != 0 && v.can(n.scope) {
			l.Nav = append(l.Nav, navItem{n.name, strings.TrimSuffix(v.base+"/"+n.path, "/"), n.key})
		}
	}
	return l
}

// functions returns the functions of the templates.
func (r *renderer) functions() template.FuncMap {
	functions := template.FuncMap{
		// Texts and numbers, as the language writes them.
		"t": func(key string, args ...any) string { return r.visit.t(key, args...) },
		// worded returns the text of a word that the API has; the word itself, if there is none.
		"worded": func(prefix string, word any) string {
			if key := fmt.Sprint(prefix, word); r.visit.text.has(key) {
				return r.visit.t(key)
			}
			return fmt.Sprint(word)
		},
		"has":        func(key string) bool { return r.visit.text.has(key) },
		"label":      func(field string) string { return r.visit.label(field) },
		"number":     func(n any) string { return r.visit.text.show(n) },
		"percent":    func(share float64) string { return r.visit.percent(share) },
		"success_of": successOf, "success_in": successIn,
		"add":      func(a, b int64) int64 { return a + b },
		"spans":    func() string { return compactJSON(spanUnits) },
		"duration": func(d time.Duration) string { return r.visit.text.duration(d) },
		"ms":       func(ms int64) string { return r.visit.text.measured(ms) },
		"bytes":    func(n int) string { return r.visit.text.bytes(n) },
		"size":     func(n int64) int { return int(n) },
		// Times, in the zone of the person.
		"time":  r.time,
		"clock": func(at any) string { return instant(at).In(r.visit.zone).Format("15:04:05") },
		// Paths and links.
		"path":     func(parts ...any) string { return r.visit.path(parts...) },
		"filtered": r.filtered,
		"asset":    r.assets.path,
		"href":     href,
		// What the person may do.
		"can":    func(scope string) bool { return r.visit.can(postrider.Scope(scope)) },
		"http":   func() bool { return r.visit.h.opts.AllowHTTP },
		"emails": func() bool { return r.visit.h.opts.Emails },
		"portal": func() bool { return r.visit.who == customers },
		// Parts.
		"content":  r.content,
		"here":     func() string { return r.visit.r.URL.RequestURI() },
		"list":     func(items ...any) []any { return items },
		"dict":     dict,
		"icon":     func(name string) template.HTML { return template.HTML(icons[name]) }, //nolint:gosec // constants
		"json":     prettyJSON,
		"join":     func(items []string) string { return strings.Join(items, ", ") },
		"more":     func(items []string, shown int) int { return len(items) - shown },
		"has_word": func(words, word string) bool { return slices.Contains(strings.Fields(words), word) },
		"deref":    deref,
		"failure":  func(text *string) string { return r.visit.cause(*text) },
		"timing":   timingParts,
		"normal":   normal,
		"plus":     plus,
		"base64":   base64.StdEncoding.EncodeToString,
		"at":       func(name, value string) string { return r.visit.at(name, value) },
		"tone":     tone,
		"low":      func(rate float64) bool { return rate < lowRate },
		"ended":    func(n apitypes.StatsNumbers) int64 { return n.Deliveries.Delivered + n.Deliveries.Dead },
	}
	maps.Copy(functions, r.nameFunctions())
	return functions
}

// nameFunctions returns the functions about endpoints, accounts and deliveries.
func (r *renderer) nameFunctions() template.FuncMap {
	return template.FuncMap{
		"place": func(e apitypes.Endpoint) string { return place(r.visit, e) },
		"portal_call": func(account postrider.AccountID) string {
			return "curl -H \"Authorization: Bearer $POSTRIDER_API_KEY\" -d '{\"account\": \"" + account.String() + "\"}' '" + r.visit.origin() + "/v1/webhooks/portal-sessions'"
		},
		"endpoint_name": func(id postrider.EndpointID) shownName { return nameOr(r.visit.names.endpoints, id) },
		"endpoint_id_name": func(text string) (shownName, error) {
			id, err := postrider.ParseID[postrider.EndpointID](text)
			return nameOr(r.visit.names.endpoints, id), err
		},
		"name_of":      func(e apitypes.Endpoint) shownName { return r.visit.nameOf(e) },
		"reason_of":    func(f *apitypes.LastFailure) string { return r.visit.reasonOf(f) },
		"account_name": func(id postrider.AccountID) shownName { return nameOr(r.visit.names.accounts, id) },
		// answered reports whether the error of an attempt says no more than its status code.
		"answered": func(err *string) bool { return strings.HasPrefix(*err, string(postrider.FailureStatus)+": ") },
		"scheduled": func(d apitypes.Delivery) bool {
			return d.Waiting != nil && d.Waiting.Reason == postrider.WaitScheduled
		},
	}
}

// content renders the page itself, inside the layout.
func (r *renderer) content() (template.HTML, error) {
	var out bytes.Buffer
	err := r.templates.ExecuteTemplate(&out, r.page.Name, r.page.Data)
	return template.HTML(out.String()), err //nolint:gosec // rendered by html/template, for the same place
}

// shownTime is a time for the partial of times.
type shownTime struct {
	ISO, Full, Relative string
}

// time returns a time of the domain or of the API for the partial "when". Zero: there
// is no time.
func (r *renderer) time(at any) shownTime {
	t := instant(at)
	if t.IsZero() {
		return shownTime{}
	}
	return shownTime{
		ISO:      t.UTC().Format("2006-01-02T15:04:05.000Z"),
		Full:     t.In(r.visit.zone).Format("2006-01-02 15:04:05 MST"),
		Relative: r.visit.text.relative(t, r.visit.now),
	}
}

// instant returns a time as a [time.Time]. The zero time stands for none.
func instant(at any) time.Time {
	switch at := at.(type) {
	case time.Time:
		return at
	case apitypes.Time:
		return at.Time
	case *apitypes.Time:
		if at != nil {
			return at.Time
		}
	}
	return time.Time{}
}

// filtered returns the URL of this page with another value of a parameter, on its first
// page of items.
func (r *renderer) filtered(name, value string) string {
	query := r.visit.r.URL.Query()
	query.Del("cursor")
	query.Set(name, value)
	if value == "" {
		query.Del(name)
	}
	if len(query) == 0 {
		return r.visit.r.URL.Path
	}
	return r.visit.r.URL.Path + "?" + query.Encode()
}

// href returns the URL if it may be a link: an absolute http or https URL. Empty: it
// is shown as text only.
func href(raw string) string {
	at, err := url.Parse(raw)
	if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" {
		return ""
	}
	return raw
}

// dict returns the arguments of a partial: names and values in turn.
func dict(pairs ...any) (map[string]any, error) {
	if len(pairs)%2 != 0 {
		return nil, errors.New("dict needs pairs")
	}
	args := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		args[fmt.Sprint(pairs[i])] = pairs[i+1]
	}
	return args, nil
}

// prettyJSON returns JSON with line breaks. Another text is returned as it is.
func prettyJSON(text any) string {
	raw := []byte(fmt.Sprint(text))
	switch text := text.(type) {
	case json.RawMessage:
		raw = text
	case []byte:
		raw = text
	}
	var out bytes.Buffer
	if json.Indent(&out, raw, "", "  ") != nil {
		return string(raw)
	}
	return out.String()
}

// deref returns what a pointer points to; empty: it is nil.
func deref(p any) any {
	value := reflect.ValueOf(p)
	if value.Kind() != reflect.Pointer {
		return p
	}
	if value.IsNil() {
		return ""
	}
	return value.Elem().Interface()
}

// lowRate is the success rate below which a figure is marked.
const lowRate = 0.95

// tones are the colours of statuses. A status is never told by its colour alone: the
// badge has its word and a shape.
var tones = map[string]string{
	"enabled": "good", "closed": "good", "healthy": "good", "delivered": "good", "accepted": "good", "active": "good", "done": "good",
	"pending": "busy", "half_open": "busy", "running": "busy", "in_flight": "busy",
	"alive": "good", "leaving": "warn", "circuit_open": "bad", "failing": "warn", "dead_letters": "bad",
	"paused": "warn", "warned": "warn", "throttled": "warn", "waiting": "warn", "unsubscribed": "warn", "refused": "bad", "lost": "warn", "expiring": "warn",
	"open": "bad", "dead": "bad", "disabled": "bad", "rejected": "bad", "gone": "bad", "unreachable": "bad", "timed_out": "bad", "broken": "bad",
	"blocked": "bad", "revoked": "bad", "failed": "bad",
}

// tone returns the colour of a status: good, busy, warn, bad or idle.
func tone(status any) string {
	if tone, ok := tones[fmt.Sprint(status)]; ok {
		return tone
	}
	return "idle"
}

// bytes returns a number of bytes in a readable unit.
func (c *catalogue) bytes(n int) string {
	switch {
	case n < 1<<10:
		return c.number(int64(n)) + " B"
	case n < 1<<20:
		return c.decimal(float64(n*10>>10)/10) + " KiB"
	}
	return c.decimal(float64(n*10>>20)/10) + " MiB"
}

// loadZone returns the time zone with the IANA name.
func loadZone(name string) (*time.Location, error) {
	if name == "" || name == "Local" { // Go's names for UTC and for the zone of the server
		return nil, fmt.Errorf("time zone %q: %w", name, postrider.ErrNotFound)
	}
	return time.LoadLocation(name)
}

// zoneOf returns the time zone with the name; UTC if there is none.
func zoneOf(name string) *time.Location {
	if zone, err := loadZone(name); err == nil {
		return zone
	}
	return time.UTC
}
