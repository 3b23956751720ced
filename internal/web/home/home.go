// Package home has the first page of a customer: the states of the endpoints, and the latest
// failures.
package home

import (
	"embed"
	"slices"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/web/page"
)

//go:embed *.html
var templates embed.FS

// Feature returns the first page of a customer.
func Feature() page.Feature {
	return page.Feature{Templates: templates, Customers: page.Routes{"GET ": showHome}}
}

// homePage is the data of the first page of a customer.
type homePage struct {
	Endpoints []apitypes.Endpoint
	More      bool                // there are endpoints that the page does not list
	Failed    []apitypes.Delivery // the newest dead letters that nobody has resolved
	Waiting   []apitypes.Delivery // the newest that failed and will be attempted again
	Pending   bool                // something is on its way
	Delivered bool                // something was delivered
	Lost      bool                // something ended otherwise: cancelled, skipped, or as a dead letter
}

// Stopped reports whether nothing is sent because no endpoint is enabled.
func (p homePage) Stopped() bool {
	enabled := func(e apitypes.Endpoint) bool { return e.Status == postrider.EndpointEnabled }
	return !p.More && !slices.ContainsFunc(p.Endpoints, enabled)
}

// Notice returns the key of the texts at the top of the page; empty: there is none.
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

// Ended returns the key of the text about deliveries that have ended, if no dead letter waits for
// a person.
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

// showHome shows the states of the customer's endpoints, and the latest failures. A customer
// without endpoints sees what to do first.
func showHome(v *page.Visit) error {
	found, err := v.API.Endpoints(v.Context, client.EndpointFilter{Paging: client.Paging{Limit: homeEndpoints}})
	if err != nil {
		return err
	}
	p := homePage{Endpoints: found.Data, More: found.Next() != ""}
	if len(p.Endpoints) > 0 {
		if err := p.fill(v); err != nil {
			return err
		}
	}
	return v.Show(page.View{Name: "home", Data: p, Commands: []string{"endpoints list", "deliveries list --status dead"}})
}

// fill adds the latest deliveries of each kind.
func (p *homePage) fill(v *page.Visit) error {
	newest := func(status postrider.Status, n int) ([]apitypes.Delivery, error) {
		found, err := v.API.Deliveries(v.Context, client.DeliveryFilter{Status: status, Paging: client.Paging{Limit: n}})
		return found.Data, err
	}
	dead, err := v.API.DeadLetters(v.Context, client.DeadLetterFilter{Paging: client.Paging{Limit: 5}})
	if err != nil {
		return err
	}
	for _, d := range dead.Data {
		p.Failed = append(p.Failed, apitypes.Delivery{
			ID: d.Delivery, Endpoint: d.Endpoint, EventType: d.EventType, Test: d.Test, Attempts: d.Attempts, LastStatusCode: d.LastStatusCode,
			LastError: d.LastError, FinishedAt: &d.DiedAt,
		})
	}
	pending, err := newest(postrider.Pending, page.Size)
	if err != nil {
		return err
	}
	for _, d := range pending {
		if d.Attempts > 0 && len(p.Waiting) < 5 {
			p.Waiting = append(p.Waiting, d)
		}
	}
	p.Pending = len(pending) > 0
	if err := page.NameItems(v, slices.Concat(p.Failed, p.Waiting)); err != nil {
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
