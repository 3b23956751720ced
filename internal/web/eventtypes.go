package web

import (
	"encoding/json"

	"github.com/postrider/postrider/apitypes"
)

// eventTypeRoutes lists the pages and forms of the catalogue of event types. Customers
// read it.
func eventTypeRoutes() []route {
	return []route{
		{"GET /event-types", everyone, listEventTypes},
		{"GET /event-types/new", operators, newEventType},
		{"POST /event-types", operators, createEventType},
		{"GET /event-types/{name}", everyone, showEventType},
		{"POST /event-types/{name}", operators, changeEventType},
		{"POST /event-types/{name}/delete", operators, deleteEventType},
	}
}

// listEventTypes shows the catalogue, by name.
func listEventTypes(v *visit) error {
	types, err := v.api.EventTypes(v.ctx, v.paging())
	return showList(v, page{Name: "event_types", Commands: []string{"event-types list"}}, listed[apitypes.EventType]{items: types, err: err})
}

// eventTypePage is the data of the pages of one event type. Its texts are what the person
// typed.
type eventTypePage struct {
	Type                       apitypes.EventType
	Name, Description, Example string
	Payload                    *payload // the example; nil: there is none
	Faults                     map[string]string
}

// newEventType shows the form of a new event type.
func newEventType(v *visit) error {
	return v.show(page{Name: "event_types-new", Data: eventTypePage{Name: v.query("name")}, Commands: []string{"event-types put"}})
}

// typedType returns the form, and its example as JSON.
func (v *visit) typedType() (eventTypePage, json.RawMessage) {
	p := eventTypePage{Name: v.form("name"), Description: v.form("description"), Example: v.form("example")}
	if p.Example == "" {
		return p, nil
	}
	if !json.Valid([]byte(p.Example)) {
		p.Faults = map[string]string{"example": v.t("form.no_json_value")}
		return p, nil
	}
	return p, json.RawMessage(p.Example)
}

// createEventType adds an event type to the catalogue.
func createEventType(v *visit) error {
	p, example := v.typedType()
	shown := page{Name: "event_types-new", Status: 422, Commands: []string{"event-types put"}}
	if p.Faults == nil {
		_, err := v.api.CreateEventType(v.ctx, apitypes.EventTypeCreate{Name: p.Name, Description: p.Description, Example: example})
		var refused bool
		p.Faults, refused = v.faulty(err)
		if err != nil && !refused {
			return err
		}
		shown.Status = statusOf(err)
	}
	if p.Faults != nil {
		shown.Data = p
		return v.show(shown)
	}
	return v.done(v.path("event-types", p.Name), flash{Text: v.t("event_type.done.create", "name", p.Name)})
}

// showEventType shows one event type with its example.
func showEventType(v *visit) error {
	t, err := v.api.EventType(v.ctx, v.r.PathValue("name"))
	if err != nil {
		return err
	}
	return v.showType(t, eventTypePage{Name: t.Name, Description: t.Description, Example: prettyJSON(t.Example)})
}

// showType shows the page of an event type, with what the person typed.
func (v *visit) showType(t apitypes.EventType, p eventTypePage) error {
	p.Type = t
	if len(t.Example) > 0 && string(t.Example) != "null" {
		example := newPayload(t.Example, "", false)
		p.Payload = &example
	} else if p.Example == "null" {
		p.Example = ""
	}
	shown := page{Name: "event_types-one", Title: t.Name, Data: p, Commands: []string{"event-types get " + t.Name}}
	if p.Faults != nil {
		shown.Status = 422
	}
	return v.show(shown)
}

// changeEventType changes the description and the example of an event type.
func changeEventType(v *visit) error {
	t, err := v.api.EventType(v.ctx, v.r.PathValue("name"))
	if err != nil {
		return err
	}
	p, example := v.typedType()
	if p.Faults == nil {
		change := apitypes.EventTypeUpdate{Description: apitypes.Of(p.Description), Example: apitypes.Null[json.RawMessage]()}
		if example != nil {
			change.Example = apitypes.Of(example)
		}
		_, err := v.api.ChangeEventType(v.ctx, t.Name, change)
		var refused bool
		if p.Faults, refused = v.faulty(err); err != nil && !refused {
			return err
		}
	}
	if p.Faults != nil {
		return v.showType(t, p)
	}
	return v.done(v.path("event-types", t.Name), flash{Text: v.t("event_type.done.change", "name", t.Name)})
}

// deleteEventType takes an event type out of the catalogue.
func deleteEventType(v *visit) error {
	name := v.r.PathValue("name")
	if err := v.api.DeleteEventType(v.ctx, name); err != nil {
		return err
	}
	return v.done(v.path("event-types"), flash{Text: v.t("event_type.done.delete", "name", name)})
}
