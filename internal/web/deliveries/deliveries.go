// Package deliveries has the pages of deliveries and of dead letters: the state of a delivery
// with its reason, its attempts, and the forms that replay, cancel, retry or discard the
// delivery.
package deliveries

import (
	"embed"
	"errors"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/web/page"
	"github.com/postrider/postrider/internal/web/text"
)

//go:embed *.html
var templates embed.FS

// Feature returns the pages of deliveries and of dead letters. The page of a delivery also shows
// its dead letter.
func Feature() page.Feature {
	return page.Feature{
		Templates: templates,
		Functions: template.FuncMap{"timing": timingParts},
		Everyone: page.Routes{
			"GET /deliveries":                     listDeliveries,
			"GET /deliveries/{delivery}":          page.OfID("delivery", showDelivery),
			"POST /deliveries/{delivery}/replay":  page.OfID("delivery", replayDelivery),
			"POST /deliveries/{delivery}/cancel":  page.OfID("delivery", changeDelivery("cancel")),
			"POST /deliveries/{delivery}/release": page.OfID("delivery", changeDelivery("release")),
			"POST /deliveries/{delivery}/retry":   page.OfID("delivery", changeDelivery("retry")),
			"POST /deliveries/{delivery}/discard": page.OfID("delivery", discardDelivery),
			"GET /dead-letters":                   listDeadLetterGroups,
			"GET /dead-letters/all":               listDeadLetters,
			"POST /dead-letters/replay":           resolveSelected("replay"),
			"POST /dead-letters/discard":          resolveSelected("discard"),
			"POST /dead-letters/undo":             cancelReplays,
		},
	}
}

// listDeliveries shows deliveries, newest first.
func listDeliveries(v *page.Visit) error {
	endpoint, endpointID, err := v.EndpointFilter()
	job, jobID, jobErr := page.IDFilter[postrider.ReplayID](v, "replay_job")
	event, eventID, eventErr := page.IDFilter[postrider.EventID](v, "event")
	span, fromTime, toTime := v.SpanFilter()
	f := page.Filters{
		v.Choice("status", "delivery.status", "pending", "delivered", "dead", "cancelled", "skipped"),
		v.TextFilter("event_type"), endpoint,
	}
	if f = slices.Concat(f, v.AccountFilter(), page.Filters{event}, span); job.Value != "" {
		f = append(f, job)
	}
	var found apitypes.Page[apitypes.Delivery]
	command := "deliveries list"
	if err = errors.Join(err, eventErr, jobErr); err == nil {
		found, err = v.API.Deliveries(v.Context, client.DeliveryFilter{
			Account: v.Query("account"), Endpoint: endpointID, Event: eventID, EventType: v.Query("event_type"),
			Status: postrider.Status(v.Query("status")), ReplayJob: jobID, From: fromTime, To: toTime, Paging: v.Paging(),
		})
		command = v.Command(command)
	}
	if err == nil {
		err = page.NameItems(v, found.Data)
	}
	return page.ShowList(v, page.View{Name: "deliveries", Filters: f, Commands: []string{command}}, found, err)
}

// deliveryPage is the data of the page of one delivery.
type deliveryPage struct {
	Delivery   apitypes.Delivery
	Endpoint   apitypes.Endpoint
	Attempts   page.List[apitypes.Attempt]
	Selected   int                      // number of the attempt that is shown whole; 0: none
	Request    *apitypes.AttemptRequest // of the selected attempt; nil: it made none
	DeadLetter *apitypes.DeadLetter
	Why        text.Explained
}

// showDelivery shows the state of one delivery with its reason, and its attempts. One attempt is
// shown whole: the attempt in the parameter attempt, otherwise the last one of the page.
func showDelivery(v *page.Visit, id postrider.DeliveryID) error {
	d, err := v.API.Delivery(v.Context, id)
	if err != nil {
		return err
	}
	p := deliveryPage{Delivery: d}
	if p.Endpoint, err = v.API.Endpoint(v.Context, d.Endpoint); err != nil {
		return err
	}
	v.NameAccount(d.Account)
	p.Why = v.Text.Explain(d, p.Endpoint)
	attempts, err := v.API.Attempts(v.Context, d.ID, v.Paging())
	if err != nil {
		return err
	}
	p.Attempts = page.ListOf(v, attempts, nil)
	for _, a := range attempts.Data {
		if a.Outcome != postrider.OutcomeNone {
			p.Selected = a.Attempt
		}
	}
	if n, err := strconv.Atoi(v.Query("attempt")); err == nil {
		p.Selected = n
	}
	if p.Selected > 0 {
		request, err := v.API.AttemptRequest(v.Context, d.ID, p.Selected)
		switch status := page.StatusOf(err); {
		case err == nil:
			p.Request = &request
		case status != http.StatusNotFound && status != http.StatusConflict: // no such attempt, or one without a request
			return err
		}
	}
	if d.Status == postrider.Dead {
		letter, err := v.API.DeadLetter(v.Context, d.ID)
		if err != nil {
			return err
		}
		p.DeadLetter = &letter
	}
	commands := []string{"deliveries get " + d.ID.String(), "deliveries attempts " + d.ID.String(), "replay " + d.ID.String()}
	if p.Held() {
		commands = append(commands, page.ResumeCommand)
	}
	return v.Show(page.View{Name: "deliveries-one", Title: v.T("delivery.title", "type", d.EventType), Data: p, Commands: commands})
}

// Held reports whether the delivery waits because the store is held after a restore.
func (p deliveryPage) Held() bool {
	return p.Delivery.Waiting != nil && p.Delivery.Waiting.Reason == postrider.WaitHeld
}

// Unresolved reports whether the delivery is a dead letter that waits for a person.
func (p deliveryPage) Unresolved() bool { return p.DeadLetter != nil && p.DeadLetter.Resolution == nil }

// Replayable reports whether the delivery can be replayed, as far as the page knows.
func (p deliveryPage) Replayable() bool {
	discarded := p.DeadLetter != nil && p.DeadLetter.Resolution != nil && *p.DeadLetter.Resolution == postrider.Discarded
	return p.Delivery.Status != postrider.Pending && !discarded && p.Endpoint.Status != postrider.EndpointDeleted
}

// replayDelivery makes a new delivery from the old one, and leads to it.
func replayDelivery(v *page.Visit, id postrider.DeliveryID) error {
	made, err := v.API.ReplayDelivery(v.Context, id)
	if problem, ok := errors.AsType[*client.Error](err); ok && problem.Replay != "" {
		return v.Done(v.Path("deliveries", problem.Replay), page.Flash{Text: v.T("delivery.done.replay_pending"), Warn: true})
	}
	if faults := v.Faulty(err); faults != nil {
		return v.Done(v.Path("deliveries", id), page.Flash{Text: v.T("delivery.refused", "why", page.AnyFault(faults)), Warn: true})
	}
	if err != nil {
		return err
	}
	return v.Done(v.Path("deliveries", made.ID), page.Flash{
		Text: v.T("delivery.done.replay"), Link: v.Path("deliveries", id), LinkText: v.T("delivery.original"),
		Undo: v.Path("deliveries", made.ID, "cancel"),
	})
}

// changeDelivery returns the handler of a form that cancels, retries or releases a delivery. If
// the delivery has changed since the page was loaded, the page shows its current state.
func changeDelivery(verb string) func(*page.Visit, postrider.DeliveryID) error {
	return func(v *page.Visit, id postrider.DeliveryID) error {
		var err error
		switch verb {
		case "cancel":
			_, err = v.API.CancelDelivery(v.Context, id)
		case "retry":
			_, err = v.API.RetryDelivery(v.Context, id)
		default:
			_, err = v.API.ReleaseDelivery(v.Context, id)
		}
		return v.DoneUnless(err, v.Path("deliveries", id), page.Flash{
			Text: v.T("delivery.done."+verb, "at", v.Now.In(v.Zone).Format(time.TimeOnly)), Refusal: "delivery.refused",
		})
	}
}

// discardDelivery resolves a dead letter without a replay.
func discardDelivery(v *page.Visit, id postrider.DeliveryID) error {
	_, err := v.API.DiscardDeadLetter(v.Context, id, v.Form("reason"))
	return v.DoneUnless(err, v.Path("deliveries", id), page.Flash{Text: v.T("delivery.done.discard"), Refusal: "delivery.refused"})
}

// timingPart is one part of the time of an attempt, as a bar of 1,000 units.
type timingPart struct {
	Name        string // the text timing.NAME
	Took        time.Duration
	From, Width int64
	Series      int // of the colours of charts
}

// timingParts returns the parts of the time of an attempt, in their order.
func timingParts(t *apitypes.Timing) []timingPart {
	total := max(t.DNSUS+t.ConnectUS+t.TLSUS+t.FirstByteUS+t.RestUS, 1)
	var parts []timingPart
	var before int64
	for i, p := range []struct {
		name string
		us   int64
	}{{"dns", t.DNSUS}, {"connect", t.ConnectUS}, {"tls", t.TLSUS}, {"first_byte", t.FirstByteUS}, {"rest", t.RestUS}} {
		from, end := before*1000/total, (before+p.us)*1000/total
		parts = append(parts, timingPart{p.name, time.Duration(p.us) * time.Microsecond, from, end - from, i})
		before += p.us
	}
	return parts
}
