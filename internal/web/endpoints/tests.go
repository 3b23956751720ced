package endpoints

import (
	"cmp"
	"slices"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/web/page"
	"github.com/postrider/postrider/internal/web/text"
)

// testsPage is the data of the page that sends test events of each type.
type testsPage struct {
	Endpoint apitypes.Endpoint
	Tab      string
	Types    []string
	Type     string             // type of the last test event; preselected
	Delivery *apitypes.Delivery // of the test event; nil: none was sent yet
	Attempts []apitypes.Attempt // of the delivery, newest first
	Why      text.Explained     // of the delivery, while it is pending
	Probe    bool               // the circuit holds the delivery, and a probe can be sent earlier
	Fault    string
}

// showTests shows the types of test events, and the delivery of the last test event.
func showTests(v *page.Visit, e apitypes.Endpoint) error {
	p := testsPage{Endpoint: e}
	if v.Query("event") != "" {
		event, err := postrider.ParseID[postrider.EventID](v.Query("event"))
		if err != nil {
			return page.ErrNoPage
		}
		if err := p.fill(v, event); err != nil {
			return err
		}
	}
	return p.show(v)
}

// fill adds the delivery of a test event.
func (p *testsPage) fill(v *page.Visit, event postrider.EventID) error {
	found, err := v.API.Deliveries(v.Context, client.DeliveryFilter{Event: event, Endpoint: p.Endpoint.ID, Paging: client.Paging{Limit: 1}})
	if err != nil || len(found.Data) == 0 {
		return cmp.Or(err, page.ErrNoPage)
	}
	p.Delivery, p.Type = &found.Data[0], found.Data[0].EventType
	if p.Delivery.Status == postrider.Pending {
		if err := p.explain(v); err != nil {
			return err
		}
	}
	attempts, err := v.API.Attempts(v.Context, p.Delivery.ID, client.Paging{Limit: 20})
	p.Attempts = attempts.Data
	slices.SortFunc(p.Attempts, func(a, b apitypes.Attempt) int { return b.Attempt - a.Attempt })
	return err
}

// explain says why the test event was not delivered yet.
func (p *testsPage) explain(v *page.Visit) error {
	d, err := v.API.Delivery(v.Context, p.Delivery.ID)
	if err != nil {
		return err
	}
	if d.Waiting == nil || d.Waiting.Reason == postrider.WaitInFlight || d.Waiting.Reason == postrider.WaitDue { // it is on its way
		return nil
	}
	p.Why = v.Text.Explain(d, p.Endpoint)
	if d.Waiting.Reason != postrider.WaitCircuitOpen {
		return nil
	}
	of := endpointPage{Endpoint: p.Endpoint}
	of.Circuit, err = v.API.Circuit(v.Context, p.Endpoint.ID)
	p.Probe = probeStageOf(v, &of) == probeLater
	return err
}

func (p testsPage) show(v *page.Visit) error {
	var err error
	if p.Types, err = page.TestTypes(v, p.Endpoint); err != nil {
		return err
	}
	p.Tab = "tests"
	return v.Show(page.View{Name: "endpoints-tests", Title: page.Where(v, p.Endpoint), Data: p, Refused: p.Fault != "", Commands: []string{
		"endpoints test " + p.Endpoint.ID.String() + " --type TYPE",
	}})
}

// sendTest sends a test event of the chosen type, and redirects to the page with its delivery.
func sendTest(v *page.Visit, e apitypes.Endpoint) error {
	receipt, err := v.API.TestEndpoint(v.Context, e.ID, apitypes.EndpointTest{Type: v.Form("type")})
	if faults := v.Faulty(err); faults != nil {
		return testsPage{Endpoint: e, Type: v.Form("type"), Fault: page.AnyFault(faults)}.show(v)
	}
	if err != nil {
		return err
	}
	return v.Redirect(v.Path("endpoints", e.ID, "tests") + "?event=" + receipt.ID.String())
}
