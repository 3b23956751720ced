package page

import (
	"bytes"
	"embed"
	"html/template"
	"io"
	"net/http"
	"runtime"
	"strings"
	_ "time/tzdata"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
)

//go:embed templates/*.html
var templateFiles embed.FS

// renderers has one renderer for each processor. More would not help, because rendering needs a
// processor.
type renderers struct{ idle chan *renderer }

// renderer renders one page at a time. The functions of its templates read the field visit, so
// every template and partial can call them with any dot.
type renderer struct {
	templates *template.Template
	assets    assets
	visit     *Visit // of the page that is being rendered; nil: the renderer is idle
	page      View
}

// newRenderers parses the templates that the program was built with.
func newRenderers(a assets, features []Feature) *renderers {
	n := runtime.GOMAXPROCS(0)
	all := &renderers{idle: make(chan *renderer, n)}
	for range n {
		r := &renderer{assets: a}
		r.templates = template.New("").Option("missingkey=error").Funcs(r.functions())
		for _, f := range features {
			r.templates.Funcs(f.Functions)
		}
		template.Must(r.templates.ParseFS(templateFiles, "templates/*.html"))
		for _, f := range features {
			if f.Templates != nil {
				template.Must(r.templates.ParseFS(f.Templates, "*.html"))
			}
		}
		all.idle <- r
	}
	return all
}

// render writes the whole page. It waits for an idle renderer. It reads the brand and the hold
// before that, so that a page that waits for the store does not keep a renderer from other pages.
func (all *renderers) render(to io.Writer, v *Visit, p View) error {
	brand, hold := brandOf(v), holdOf(v)
	r := <-all.idle
	defer func() {
		r.visit, r.page = nil, View{}
		all.idle <- r
	}()
	r.visit, r.page = v, p
	if r.page.Title == "" {
		r.page.Title = v.T(p.Name + ".title")
	}
	shown := r.layout(brand)
	shown.Hold = hold
	return r.templates.ExecuteTemplate(to, "layout", shown)
}

// renderPart writes one template, without the layout.
func (all *renderers) renderPart(to io.Writer, v *Visit, name string, data any) error {
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
	Person   string // empty: unknown
	LoggedIn bool
	Flash    Flash
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
	Name string // in the text nav.NAME, the icon and the first part of the path
	Path string
	Key  string // opens the section if it is pressed after g
}

// navigation lists the sections of the audience. It leaves out a section that needs a scope which
// the person lacks.
var navigation = []struct {
	name, path, key string
	who             Audience
	scope           postrider.Scope
}{
	{"home", "", "h", Customers, postrider.ScopeWebhooksRead},
	{"overview", "", "o", Operators, postrider.ScopeWebhooksRead},
	{"endpoints", "endpoints", "e", Operators | Customers, postrider.ScopeWebhooksRead},
	{"events", "events", "v", Operators | Customers, postrider.ScopeWebhooksRead},
	{"deliveries", "deliveries", "d", Operators | Customers, postrider.ScopeWebhooksRead},
	{"live", "tail", "w", Operators | Customers, postrider.ScopeWebhooksRead},
	{"dead_letters", "dead-letters", "l", Operators | Customers, postrider.ScopeWebhooksRead},
	{"replays", "replays", "r", Operators | Customers, postrider.ScopeWebhooksRead},
	{"notices", "notices", "n", Operators | Customers, postrider.ScopeWebhooksRead},
	{"destinations", "notice-destinations", "m", Operators | Customers, postrider.ScopeWebhooksRead},
	{"accounts", "accounts", "a", Operators, postrider.ScopeWebhooksRead},
	{"event_types", "event-types", "t", Operators | Customers, postrider.ScopeWebhooksRead},
	{"sources", "sources", "b", Operators, postrider.ScopeAdmin},
	{"api_keys", "api-keys", "k", Operators, postrider.ScopeAdmin},
	{"sessions", "sessions", "s", Operators, postrider.ScopeAdmin},
	{"audit", "audit", "u", Operators, postrider.ScopeAdmin},
	{"archive", "archive", "c", Operators, postrider.ScopeAdmin},
}

// layout returns the data of the layout for the page.
func (r *renderer) layout(look brand) layout {
	v := r.visit
	section, _, _ := strings.Cut(r.page.Name, "-")
	l := layout{
		Title: r.page.Title, Section: section, Portal: v.Portal, Brand: look, Person: v.Caller.Name, LoggedIn: v.API != nil, Flash: v.flash,
		Commands: r.page.Commands, Version: v.Site.Options.Version, Language: v.Text.Language,
		Zone: v.Zone.String(), Origin: v.Site.origin(), Preferences: PreferencesOf(v),
	}
	if v.API == nil {
		return l
	}
	for _, c := range v.calls.made {
		if c.Method == http.MethodGet { // a POST cannot be repeated without its body
			l.Calls = append(l.Calls, c)
		}
	}
	for _, n := range navigation {
		if n.who&v.Who != 0 && v.Can(n.scope) {
			l.Nav = append(l.Nav, navItem{n.name, strings.TrimSuffix(v.Base+"/"+n.path, "/"), n.key})
		}
	}
	return l
}

// content renders the page itself, inside the layout.
func (r *renderer) content() (template.HTML, error) {
	var out bytes.Buffer
	err := r.templates.ExecuteTemplate(&out, r.page.Name, r.page.Data)
	return template.HTML(out.String()), err //nolint:gosec // rendered by html/template, for the same place
}
