package options

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/web/page"
)

// guide is the form with which a customer adds an endpoint in three steps: the URL, the event
// types, and the options that the operator lets customers set.
type guide struct {
	newPlace

	Description string
	All         bool // every event type, also later ones
	Types       []guideType
	Patterns    string // more types, and prefixes like order.*
	Options     []optionGroup
	Past        past
	Faults      map[string]string
}

// newPlace says where a new endpoint is, in the values that the person typed. The partial
// "endpoint-where" shows it.
type newPlace struct {
	Where string // url, or inspector for those who have no receiver
	URL   string
}

// newPlaceOf returns the place from the form, or from the URL of the page. It is url, unless the
// form or the URL asks for an inspector.
func newPlaceOf(v *page.Visit) newPlace {
	p := newPlace{"url", v.Form("url")}
	if v.Param("where") == "inspector" {
		p.Where = "inspector"
	}
	return p
}

// apply sets the kind and the URL of the endpoint.
func (p newPlace) apply(e *apitypes.EndpointCreate) {
	if e.URL = p.URL; p.Where == "inspector" {
		e.Kind, e.URL = postrider.KindInspector, ""
	}
}

// guideType is an event type to choose.
type guideType struct {
	Name, Description string
	Example           string            // JSON of the catalogue; empty: it has none
	Latest            postrider.EventID // of the type; zero: none is known
	Checked           bool
}

// showGuide shows the form for a new endpoint.
func showGuide(v *page.Visit) error {
	g, err := guideOf(v)
	if err != nil {
		return err
	}
	g.All = len(g.Types) == 0
	return g.show(v)
}

func (g guide) show(v *page.Visit) error {
	return v.Show(page.View{Name: "endpoints-guide", Data: g, Refused: g.Faults != nil, Commands: []string{"endpoints create --help"}})
}

// guideOf returns the form without values, or with what the person typed.
func guideOf(v *page.Visit) (guide, error) {
	types, err := subscribable(v)
	if err != nil {
		return guide{}, err
	}
	form := optionsOf(v, apitypes.Endpoint{})
	g := guide{newPlace: newPlaceOf(v), Types: types, Options: form.allowed(), Past: form.Past}
	if v.Request.Method == http.MethodPost {
		g.Description = v.Form("description")
		g.All, g.Patterns = v.Form("all") == "yes", v.Form("patterns")
		for i := range g.Types {
			g.Types[i].Checked = slices.Contains(v.Posted["type"], g.Types[i].Name)
		}
	}
	return g, nil
}

// subscribable returns the types of the catalogue, and the types of the customer's latest
// events. Example comes from the catalogue. Latest is the newest of these events that has the
// type.
func subscribable(v *page.Visit) ([]guideType, error) {
	catalogue, err := v.API.EventTypes(v.Context, client.Paging{Limit: 250})
	if err != nil {
		return nil, err
	}
	events, err := v.API.Events(v.Context, client.EventFilter{Paging: client.Paging{Limit: 100}})
	if err != nil {
		return nil, err
	}
	var all []guideType
	for _, t := range catalogue.Data {
		all = append(all, guideType{Name: t.Name, Description: t.Description, Example: exampleText(t.Example)})
	}
	for _, e := range events.Data { // newest first
		i := slices.IndexFunc(all, func(t guideType) bool { return t.Name == e.Type })
		switch {
		case i < 0 && !strings.HasPrefix(e.Type, "postrider."):
			all = append(all, guideType{Name: e.Type, Latest: e.ID})
		case i >= 0 && all[i].Latest.IsZero():
			all[i].Latest = e.ID
		}
	}
	slices.SortFunc(all, func(a, b guideType) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// exampleText returns JSON with line breaks. It returns nothing for a large event, because
// examples are short.
func exampleText(data json.RawMessage) string {
	if len(data) == 0 || len(data) > 8<<10 || string(data) == "null" {
		return ""
	}
	return page.PrettyJSON(data)
}

// createGuided returns the handler that creates the endpoint and then calls created.
func createGuided(created func(*page.Visit, apitypes.Endpoint, page.Flash) error) func(*page.Visit) error {
	return func(v *page.Visit) error {
		g, err := guideOf(v)
		if err != nil {
			return err
		}
		f := optionsOf(v, apitypes.Endpoint{})
		change := f.update(v)
		if f.refusePast() {
			g.Faults, g.Options = f.Faults, f.allowed()
			return g.show(v)
		}
		create := apitypes.EndpointCreate{Description: g.Description, EventTypes: g.eventTypes(), Policy: change.Policy}
		g.apply(&create)
		e, err := v.API.CreateEndpoint(v.Context, create)
		if faults := v.Faulty(err); faults != nil {
			f.refuse(v, faults)
			g.Faults, g.Options = f.Faults, f.allowed()
			return g.show(v)
		}
		if err != nil {
			return err
		}
		var said page.Flash
		if unknown := g.unknown(); len(unknown) > 0 {
			said = page.Flash{Text: v.T("guide.unknown", "types", strings.Join(unknown, ", ")), Warn: true}
		}
		return created(v, e, g.Past.start(v, e.ID, said))
	}
}

// unknown returns the typed event types that neither the catalogue nor the latest events have.
// Such types may come later, so they are not a fault.
func (g guide) unknown() (types []string) {
	for _, name := range g.eventTypes() {
		known := strings.Contains(name, "*") || slices.ContainsFunc(g.Types, func(t guideType) bool { return t.Name == name })
		if !known {
			types = append(types, name)
		}
	}
	return types
}

// allowed returns the groups of the options that the person may set, without the first
// group, which describes the endpoint.
func (f *form) allowed() []optionGroup {
	var groups []optionGroup
	for _, group := range f.Groups[1:] {
		options := slices.DeleteFunc(slices.Clone(group.Options), func(o shownOption) bool { return !o.MaySet })
		if len(options) > 0 {
			groups = append(groups, optionGroup{group.Name, options})
		}
	}
	return groups
}

// eventTypes returns the chosen event types. It is never nil, so that the API refuses an empty
// list.
func (g guide) eventTypes() []string {
	if g.All {
		return []string{"*"}
	}
	types := strings.Fields(strings.ReplaceAll(g.Patterns, ",", " "))
	for _, t := range g.Types {
		if t.Checked && !slices.Contains(types, t.Name) {
			types = append(types, t.Name)
		}
	}
	return append([]string{}, types...)
}
