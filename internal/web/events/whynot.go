package events

import (
	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/web/page"
)

// whyNotPage is the data of the page that explains why an endpoint got the event or not.
type whyNotPage struct {
	Event apitypes.Event
	page.WhyNot
}

// showWhyNot asks for an endpoint, with those of the account as choices, and explains the event for it.
func showWhyNot(v *page.Visit, id postrider.EventID) error {
	e, err := v.API.Event(v.Context, id)
	if err != nil {
		return err
	}
	endpoints, err := v.API.Endpoints(v.Context, client.EndpointFilter{Account: e.Account.String(), Paging: client.Paging{Limit: 250}})
	if err != nil {
		return err
	}
	p := whyNotPage{Event: e, WhyNot: page.WhyNot{Field: v.TextFilter("endpoint")}}
	for _, to := range endpoints.Data {
		p.Field.Options = append(p.Field.Options, page.Choice{Value: to.ID.String(), Label: v.NameOf(to).Title})
	}
	if p.Field.Value != "" {
		if err := p.Ask(v, id, p.Field.Value); err != nil {
			return err
		}
	}
	return v.Show(page.View{Name: "events-why_not", Title: e.Type, Data: p, Refused: p.Fault != "", Commands: []string{
		"events explain " + id.String() + " --endpoint ENDPOINT",
	}})
}
