package events

import (
	"encoding/json"
	"strings"

	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/web/page"
	"github.com/postrider/postrider/internal/web/payload"
)

// listEventTypes shows the catalogue, by name.
func listEventTypes(v *page.Visit) error {
	types, err := v.API.EventTypes(v.Context, v.Paging())
	return page.ShowList(v, page.View{Name: "event_types", Commands: []string{"event-types list"}}, types, err)
}

// eventTypePage is the data of the pages of one event type. Its texts are what the person
// typed.
type eventTypePage struct {
	Type                       apitypes.EventType
	Name, Description, Example string
	Paths                      string           // with spaces between them
	Payload                    *payload.Payload // the example; nil: there is none
	Faults                     map[string]string
}

// newEventType shows the form of a new event type.
func newEventType(v *page.Visit) error {
	return v.Show(page.View{Name: "event_types-new", Data: eventTypePage{Name: v.Query("name")}, Commands: []string{"event-types put"}})
}

// typedType returns the form, and its example as JSON.
func typedType(v *page.Visit) (eventTypePage, json.RawMessage) {
	p := eventTypePage{Name: v.Form("name"), Description: v.Form("description"), Example: v.Form("example"), Paths: v.Form("paths")}
	if p.Example == "" {
		return p, nil
	}
	if !json.Valid([]byte(p.Example)) {
		p.Faults = map[string]string{"example": v.T("form.no_json_value")}
		return p, nil
	}
	return p, json.RawMessage(p.Example)
}

// createEventType adds an event type to the catalogue.
func createEventType(v *page.Visit) error {
	p, example := typedType(v)
	shown := page.View{Name: "event_types-new", Refused: true, Commands: []string{"event-types put"}}
	if p.Faults == nil {
		_, err := v.API.CreateEventType(v.Context, apitypes.EventTypeCreate{
			Name: p.Name, Description: p.Description, Example: example, Paths: strings.Fields(p.Paths),
		})
		p.Faults = v.Faulty(err)
		if err != nil && p.Faults == nil {
			return err
		}
		shown.Status = page.StatusOf(err)
	}
	if p.Faults != nil {
		shown.Data = p
		return v.Show(shown)
	}
	return v.Done(v.Path("event-types", p.Name), page.Flash{Text: v.T("event_type.done.create", "name", p.Name)})
}

// showEventType shows one event type with its example.
func showEventType(v *page.Visit) error {
	t, err := v.API.EventType(v.Context, v.Request.PathValue("name"))
	if err != nil {
		return err
	}
	var paths []string
	for _, p := range t.Paths {
		paths = append(paths, p.Path)
	}
	return showType(v, t, eventTypePage{
		Name: t.Name, Description: t.Description, Example: page.PrettyJSON(t.Example), Paths: strings.Join(paths, " "),
	})
}

// showType shows the page of an event type, with what the person typed.
func showType(v *page.Visit, t apitypes.EventType, p eventTypePage) error {
	p.Type = t
	if len(t.Example) > 0 && string(t.Example) != "null" {
		example := payload.New(t.Example, "", false)
		p.Payload = &example
	} else if p.Example == "null" {
		p.Example = ""
	}
	return v.Show(page.View{Name: "event_types-one", Title: t.Name, Data: p, Refused: p.Faults != nil, Commands: []string{
		"event-types get " + t.Name,
	}})
}

// changeEventType changes the description, the example and the paths of an event type.
func changeEventType(v *page.Visit) error {
	t, err := v.API.EventType(v.Context, v.Request.PathValue("name"))
	if err != nil {
		return err
	}
	p, example := typedType(v)
	if p.Faults == nil {
		change := apitypes.EventTypeUpdate{
			Description: apitypes.Of(p.Description), Example: apitypes.Null[json.RawMessage](), Paths: apitypes.Of(strings.Fields(p.Paths)),
		}
		if example != nil {
			change.Example = apitypes.Of(example)
		}
		_, err := v.API.ChangeEventType(v.Context, t.Name, change)
		if p.Faults = v.Faulty(err); err != nil && p.Faults == nil {
			return err
		}
	}
	if p.Faults != nil {
		return showType(v, t, p)
	}
	return v.Done(v.Path("event-types", t.Name), page.Flash{Text: v.T("event_type.done.change", "name", t.Name)})
}

// deleteEventType takes an event type out of the catalogue.
func deleteEventType(v *page.Visit) error {
	name := v.Request.PathValue("name")
	if err := v.API.DeleteEventType(v.Context, name); err != nil {
		return err
	}
	return v.Done(v.Path("event-types"), page.Flash{Text: v.T("event_type.done.delete", "name", name)})
}
