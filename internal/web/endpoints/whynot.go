package endpoints

import (
	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/web/page"
)

// whyNotPage is the data of the page that explains why the endpoint got an event or not.
type whyNotPage struct {
	Endpoint apitypes.Endpoint
	Tab      string
	page.WhyNot
}

// showWhyNot asks for an event, and explains it for the endpoint.
func showWhyNot(v *page.Visit, e apitypes.Endpoint) error {
	p := whyNotPage{Endpoint: e, Tab: "why_not", WhyNot: page.WhyNot{Field: v.TextFilter("event")}}
	if p.Field.Value != "" {
		event, err := postrider.ParseID[postrider.EventID](p.Field.Value)
		if err != nil {
			p.Fault = v.T("filter.no_id")
		} else if err := p.Ask(v, event, e.ID.String()); err != nil {
			return err
		}
	}
	return v.Show(page.View{Name: "endpoints-why_not", Title: page.Where(v, e), Data: p, Refused: p.Fault != "", Commands: []string{
		"events explain EVENT --endpoint " + e.ID.String(),
	}})
}
