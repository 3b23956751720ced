package endpoints

import (
	"context"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/web/page"
	"github.com/postrider/postrider/internal/web/traffic"
)

// endpointPage is the data of the pages of one endpoint.
type endpointPage struct {
	Endpoint   apitypes.Endpoint
	Tab        string // overview, options or secrets
	Circuit    apitypes.Circuit
	Sending    sending
	Forms      circuitForms // of the circuit
	Notices    []notice
	Deliveries []apitypes.Delivery       // the newest
	Health     []apitypes.EndpointHealth // the newest changes
	Keys       []apitypes.OrderedKey     // with the order by_key; else none
	Ordered    bool
	Traffic    *traffic.Traffic  // nil: the page has no charts
	Skipped    int64             // deliveries of the last hour
	LeftOut    *apitypes.LeftOut // of the last day; nil: the endpoint gets all events of its types
}

// showEndpoint shows the state of one endpoint and its newest deliveries. For a deleted endpoint
// it shows only its fields and its history.
func showEndpoint(v *page.Visit) error {
	e, err := v.Endpoint()
	if err != nil {
		return err
	}
	v.NameAccount(e.Account)
	p := endpointPage{Endpoint: e, Tab: "overview", Ordered: e.Order.Value() == postrider.OrderByKey}
	deliveries, err := v.API.EndpointDeliveries(v.Context, e.ID, client.EndpointDeliveryFilter{Paging: client.Paging{Limit: 10}})
	if err != nil {
		return err
	}
	p.Deliveries = deliveries.Data
	if e.Status != postrider.EndpointDeleted {
		if err := p.fill(v); err != nil {
			return err
		}
	}
	return v.Show(page.View{Name: "endpoints-one", Title: page.Where(v, e), Data: p, Commands: []string{
		"endpoints get " + e.ID.String(), "stats --endpoint " + e.ID.String(), "endpoints circuit " + e.ID.String(),
		"deliveries list --endpoint " + e.ID.String(),
	}})
}

// fill adds the data that only endpoints have which are not deleted.
func (p *endpointPage) fill(v *page.Visit) (err error) {
	if p.Circuit, err = v.API.Circuit(v.Context, p.Endpoint.ID); err != nil {
		return err
	}
	p.Traffic, err = traffic.Read(v, "?endpoint="+p.Endpoint.ID.String(),
		func(ctx context.Context, q client.StatsQuery) (apitypes.Stats, error) {
			return v.API.EndpointStats(ctx, p.Endpoint.ID, q)
		})
	if err != nil {
		return err
	}
	if p.Skipped, err = skippedLately(v, p); err != nil {
		return err
	}
	if p.Endpoint.Filter.Value() != nil || p.Endpoint.Changed.Value() != nil {
		stats, err := v.API.EndpointStats(v.Context, p.Endpoint.ID, client.StatsQuery{LeftOut: true})
		if err != nil {
			return err
		}
		p.LeftOut = stats.LeftOut
	}
	health, err := v.API.EndpointHealth(v.Context, p.Endpoint.ID, client.Paging{Limit: 10})
	if err != nil {
		return err
	}
	p.Health = health.Data
	p.Sending = sendingOf(v, p)
	p.Forms = circuitFormsOf(v, p)
	p.Notices = noticesOf(v, p)
	if p.Ordered {
		keys, err := v.API.OrderingKeys(v.Context, p.Endpoint.ID, client.Paging{Limit: 20})
		if err != nil {
			return err
		}
		p.Keys = keys.Data
	}
	return nil
}

// skippedLately returns how many deliveries of the last hour were skipped. It asks the API only
// if deliveries were skipped in the longer range of the charts.
func skippedLately(v *page.Visit, p *endpointPage) (int64, error) {
	all := p.Traffic.Stats.Total.Deliveries.Skipped
	if all == 0 || p.Traffic.Range == traffic.TrafficRanges[0].Name {
		return all, nil
	}
	stats, err := v.API.EndpointStats(v.Context, p.Endpoint.ID, client.StatsQuery{Step: "minute"})
	return stats.Total.Deliveries.Skipped, err
}

// statusForms has the forms that change the status of an endpoint, each with the form that undoes
// it.
var statusForms = map[string]struct {
	undo   string
	change func(*page.Visit, postrider.EndpointID) (apitypes.Endpoint, error)
}{
	"pause": {"resume", func(v *page.Visit, id postrider.EndpointID) (apitypes.Endpoint, error) {
		return v.API.PauseEndpoint(v.Context, id, v.Form("reason"))
	}},
	"resume": {"pause", func(v *page.Visit, id postrider.EndpointID) (apitypes.Endpoint, error) {
		return v.API.ResumeEndpoint(v.Context, id)
	}},
	"disable": {"enable", func(v *page.Visit, id postrider.EndpointID) (apitypes.Endpoint, error) {
		return v.API.DisableEndpoint(v.Context, id, v.Form("reason"))
	}},
	"enable": {"disable", func(v *page.Visit, id postrider.EndpointID) (apitypes.Endpoint, error) {
		return v.API.EnableEndpoint(v.Context, id)
	}},
}

// changeStatus returns the handler of one of statusForms.
func changeStatus(verb string) func(*page.Visit, postrider.EndpointID) error {
	form := statusForms[verb]
	return func(v *page.Visit, id postrider.EndpointID) error {
		if _, err := form.change(v, id); err != nil {
			return err
		}
		return v.Done(v.Path("endpoints", id), page.Flash{Text: v.T("endpoint.done." + verb), Undo: v.Path("endpoints", id, form.undo)})
	}
}

// setCircuit sets the circuit of an endpoint by hand. Opening and closing undo each other; a
// probe cannot be undone. setCircuit asks for a probe only while the circuit is open. Otherwise
// the API would open a circuit that has closed since the person saw it.
func setCircuit(v *page.Visit, id postrider.EndpointID) error {
	to, next := postrider.CircuitStatus(v.Form("value")), v.Path("endpoints", id)
	if v.Form("back") != "" {
		next = v.Back()
	}
	if to == postrider.CircuitHalfOpen {
		c, err := v.API.Circuit(v.Context, id)
		if err != nil {
			return err
		}
		if c.Status != postrider.CircuitOpen {
			return v.Done(next, page.Flash{Text: v.T("circuit.undone." + string(c.Status)), Warn: true})
		}
	}
	if _, err := v.API.SetCircuit(v.Context, id, to); err != nil {
		return err
	}
	f := page.Flash{Text: v.T("circuit.done." + string(to)), Undo: v.Path("endpoints", id, "circuit")}
	switch to {
	case postrider.CircuitOpen:
		f.Value = string(postrider.CircuitClosed)
	case postrider.CircuitClosed:
		f.Value = string(postrider.CircuitOpen)
	default:
		f.Undo = ""
	}
	return v.Done(next, f)
}

// testEndpoint sends a test event to an endpoint.
func testEndpoint(v *page.Visit, id postrider.EndpointID) error {
	receipt, err := v.API.TestEndpoint(v.Context, id, apitypes.EndpointTest{Type: v.Form("type")})
	return v.DoneUnless(err, v.Path("endpoints", id), page.Flash{
		Text: v.T("endpoint.done.test"), Link: v.Path("events", receipt.ID), LinkText: v.T("endpoint.done.test_link"),
	})
}

// verifyEndpoint asks the receiver whether it wants events.
func verifyEndpoint(v *page.Visit, id postrider.EndpointID) error {
	_, err := v.API.VerifyEndpoint(v.Context, id, "")
	return v.DoneUnless(err, v.Path("endpoints", id), page.Flash{Text: v.T("endpoint.done.verify")})
}

// confirmDelete asks whether to delete the endpoint, and says what follows.
func confirmDelete(v *page.Visit, e apitypes.Endpoint) error {
	return v.Show(page.View{Name: "endpoints-delete", Data: e, Commands: []string{"endpoints delete " + e.ID.String()}})
}

// deleteEndpoint deletes an endpoint.
func deleteEndpoint(v *page.Visit, e apitypes.Endpoint) error {
	if err := v.API.DeleteEndpoint(v.Context, e.ID); err != nil {
		return err
	}
	return v.Done(v.Path("endpoints"), page.Flash{Text: v.T("endpoint.done.delete", "url", page.Where(v, e))})
}
