package options

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/web/page"
)

// tryPage is the data of the page on which a person changes which events an endpoint gets, and sees
// which of the stored events it would have got.
type tryPage struct {
	*form

	Group  optionGroup // of the form: the options that say which events the endpoint gets
	Last   string      // how many events are compared
	Lasts  []string
	Type   string                 // of the compared events; empty: all
	Result *apitypes.WhatIfResult // nil: the form is refused
	State  apitypes.EndpointState // has the deliveries that wait
}

// showTry compares stored events with the values of the form, or, before the person has typed any, with
// the present ones. It saves nothing: the form is saved as that of all options is.
func showTry(v *page.Visit, e apitypes.Endpoint) error {
	p := tryPage{form: optionsOf(v, e), Lasts: []string{"20", "1000", "100000"}, Type: v.Form("type")}
	p.Tab, p.Last = "try", cmp.Or(v.Form("last"), p.Lasts[0])
	update := p.update(v)
	if p.Faults == nil {
		if err := p.compare(v, update); err != nil {
			return err
		}
	}
	for _, name := range subscription {
		p.Group.Options = append(p.Group.Options, *p.option(name))
	}
	found, err := v.API.Endpoints(v.Context, client.EndpointFilter{IDs: []postrider.EndpointID{e.ID}})
	if err != nil {
		return err
	}
	if len(found.Data) > 0 && found.Data[0].State != nil {
		p.State = *found.Data[0].State
	}
	return v.Show(page.View{
		Name: "endpoints-try", Title: page.Where(v, e), Data: p, Refused: p.Faults != nil,
		Commands: []string{"endpoints what-if " + e.ID.String() + " --filter @filter.json --last " + p.Last},
	})
}

// compare compares stored events with the change of the form, or records why the API refuses that.
func (p *tryPage) compare(v *page.Visit, u apitypes.EndpointUpdate) error {
	last, err := strconv.Atoi(p.Last)
	if err != nil || !slices.Contains(p.Lasts, p.Last) {
		return page.ErrBadForm
	}
	result, err := v.API.WhatIf(v.Context, p.Endpoint.ID, apitypes.WhatIf{
		Subscription: apitypes.Subscription{
			EventTypes: u.EventTypes, Filter: u.Filter, Channels: u.Channels, Changed: u.Changed, Condition: u.Condition,
		},
		Last: &last, Type: p.Type,
	})
	if faults := v.Faulty(err); faults != nil {
		p.refuse(v, faults)
		return nil
	}
	p.Result = &result
	return err
}
