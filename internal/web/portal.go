package web

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

// portalRoutes lists the pages that only customers have.
func portalRoutes() []route {
	return []route{
		{"GET ", customers, showHome},
		{"GET /endpoints/new", customers, showGuide},
		{"POST /endpoints/new", customers, createGuided},
	}
}

// homePage is the data of the first page of a customer.
type homePage struct {
	Endpoints []apitypes.Endpoint
	More      bool                // there are endpoints that the page does not list
	Failed    []apitypes.Delivery // the newest dead letters that nobody has resolved
	Waiting   []apitypes.Delivery // the newest that failed and are tried again
	Pending   bool                // something is on its way
	Delivered bool                // something was delivered
	Lost      bool                // something ended otherwise: cancelled, skipped, or as a dead letter
}

// Stopped reports whether nothing is sent because no endpoint is enabled.
func (p homePage) Stopped() bool {
	enabled := func(e apitypes.Endpoint) bool { return e.Status == postrider.EndpointEnabled }
	return !p.More && !slices.ContainsFunc(p.Endpoints, enabled)
}

// Notice returns the key of the texts at the top of the page; empty: there is nothing to
// say.
func (p homePage) Notice() string {
	switch {
	case p.Stopped():
		return "home.stopped"
	case p.Delivered:
		return ""
	case p.Pending:
		return "home.first_pending"
	}
	return "home.untested"
}

// Ended returns the key of the text about the deliveries that have ended, where no dead
// letter waits for a person.
func (p homePage) Ended() string {
	switch {
	case p.Lost:
		return "home.failed.resolved"
	case p.Delivered:
		return "home.failed.none"
	}
	return "home.failed.nothing"
}

// homeEndpoints is how many endpoints the first page lists.
const homeEndpoints = 10

// showHome shows how the endpoints of the customer are, and what failed lately. For
// those who have none yet, it says what to do.
func showHome(v *visit) error {
	found, err := v.api.Endpoints(v.ctx, client.EndpointFilter{Paging: client.Paging{Limit: homeEndpoints}})
	if err != nil {
		return err
	}
	p := homePage{Endpoints: found.Data, More: found.Next() != ""}
	if len(p.Endpoints) > 0 {
		if err := p.fill(v); err != nil {
			return err
		}
	}
	return v.show(page{Name: "home", Data: p, Commands: []string{"endpoints list", "deliveries list --status dead"}})
}

// fill adds the latest deliveries of each kind.
func (p *homePage) fill(v *visit) error {
	newest := func(status postrider.Status, n int) ([]apitypes.Delivery, error) {
		found, err := v.api.Deliveries(v.ctx, client.DeliveryFilter{Status: status, Paging: client.Paging{Limit: n}})
		return found.Data, err
	}
	dead, err := v.api.DeadLetters(v.ctx, client.DeadLetterFilter{Paging: client.Paging{Limit: 5}})
	if err != nil {
		return err
	}
	for _, d := range dead.Data {
		p.Failed = append(p.Failed, apitypes.Delivery{
			ID: d.Delivery, Endpoint: d.Endpoint, EventType: d.EventType, Test: d.Test, Attempts: d.Attempts, LastStatusCode: d.LastStatusCode, LastError: d.LastError, FinishedAt: &d.DiedAt,
		})
	}
	pending, err := newest(postrider.Pending, pageSize)
	if err != nil {
		return err
	}
	for _, d := range pending {
		if d.Attempts > 0 && len(p.Waiting) < 5 {
			p.Waiting = append(p.Waiting, d)
		}
	}
	p.Pending = len(pending) > 0
	if err := nameItems(v, slices.Concat(p.Failed, p.Waiting)); err != nil {
		return err
	}
	for _, status := range []postrider.Status{postrider.Delivered, postrider.Cancelled, postrider.Skipped, postrider.Dead} {
		found, err := newest(status, 1)
		if err != nil {
			return err
		}
		p.Delivered = p.Delivered || status == postrider.Delivered && len(found) > 0
		p.Lost = p.Lost || status != postrider.Delivered && len(found) > 0
	}
	return nil
}

// guide is the form with which a customer adds an endpoint, in three steps: where,
// what, and the options that the operator lets customers set.
type guide struct {
	newPlace

	Description string
	All         bool // every event type, also later ones
	Types       []guideType
	Patterns    string // more types, and prefixes like order.*
	Options     []optionGroup
	Faults      map[string]string
}

// newPlace says where a new endpoint is, as the person typed it. The partial
// "endpoint-where" shows it.
type newPlace struct {
	Where string // url, or inspector for those who have no receiver
	URL   string
}

// newPlace returns what the form says, or the URL of the page: url, unless it asks for an
// inspector.
func (v *visit) newPlace() newPlace {
	p := newPlace{"url", v.form("url")}
	if v.param("where") == "inspector" {
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
func showGuide(v *visit) error {
	g, err := v.guide()
	if err != nil {
		return err
	}
	g.All = len(g.Types) == 0
	return v.showGuide(g)
}

func (v *visit) showGuide(g guide) error {
	p := page{Name: "endpoints-guide", Data: g, Commands: []string{"endpoints create --help"}}
	if g.Faults != nil {
		p.Status = http.StatusUnprocessableEntity
	}
	return v.show(p)
}

// guide returns the form without values, or with what the person typed.
func (v *visit) guide() (guide, error) {
	types, err := v.subscribable()
	if err != nil {
		return guide{}, err
	}
	form := v.optionsOf(apitypes.Endpoint{})
	g := guide{newPlace: v.newPlace(), Types: types, Options: form.allowed()}
	if v.r.Method == http.MethodPost {
		g.Description = v.form("description")
		g.All, g.Patterns = v.form("all") == "yes", v.form("patterns")
		for i := range g.Types {
			g.Types[i].Checked = slices.Contains(v.posted["type"], g.Types[i].Name)
		}
	}
	return g, nil
}

// subscribable returns the types of the catalogue, and the types of the customer's latest
// events. Example comes from the catalogue. Latest is the newest of these events that has the
// type.
func (v *visit) subscribable() ([]guideType, error) {
	catalogue, err := v.api.EventTypes(v.ctx, client.Paging{Limit: 250})
	if err != nil {
		return nil, err
	}
	events, err := v.api.Events(v.ctx, client.EventFilter{Paging: client.Paging{Limit: 100}})
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

// exampleText returns JSON as people read it. Examples are short; a large event is no
// example.
func exampleText(data json.RawMessage) string {
	if len(data) == 0 || len(data) > 8<<10 || string(data) == "null" {
		return ""
	}
	return prettyJSON(data)
}

// createGuided creates the endpoint and leads to what to do next.
func createGuided(v *visit) error {
	g, err := v.guide()
	if err != nil {
		return err
	}
	f := v.optionsOf(apitypes.Endpoint{})
	change := f.update(v)
	create := apitypes.EndpointCreate{Description: g.Description, EventTypes: g.eventTypes(), Policy: change.Policy}
	g.apply(&create)
	e, err := v.api.CreateEndpoint(v.ctx, create)
	if faults, refused := v.faulty(err); refused {
		f.refuse(v, faults)
		g.Faults, g.Options = f.Faults, f.allowed()
		return v.showGuide(g)
	}
	if err != nil {
		return err
	}
	if unknown := g.unknown(); len(unknown) > 0 && v.can(postrider.ScopeSecretsRead) {
		return v.done(v.startPath(e), flash{Text: v.t("guide.unknown", "types", strings.Join(unknown, ", ")), Warn: true})
	}
	return v.created(e)
}

// unknown returns the types that the person typed and that neither the catalogue nor the
// latest events have. They may come later, so they are no fault.
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
func (f *optionsForm) allowed() []optionGroup {
	var groups []optionGroup
	for _, group := range f.Groups[1:] {
		options := slices.DeleteFunc(slices.Clone(group.Options), func(o shownOption) bool { return !o.MaySet })
		if len(options) > 0 {
			groups = append(groups, optionGroup{group.Name, options})
		}
	}
	return groups
}

// eventTypes returns what the person chose. It is never nil: the API says that there
// must be some.
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
