// Package events has the pages of events, and of the catalogue of their types.
package events

import (
	"embed"
	"fmt"
	"net/http"
	"strconv"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/web/page"
	"github.com/postrider/postrider/internal/web/payload"
)

//go:embed *.html
var templates embed.FS

// Feature returns the pages of events, and of the catalogue of their types, which customers read.
func Feature() page.Feature {
	return page.Feature{
		Templates: templates,
		Operators: page.Routes{
			"GET /event-types/new":            newEventType,
			"POST /event-types":               createEventType,
			"POST /event-types/{name}":        changeEventType,
			"POST /event-types/{name}/delete": deleteEventType,
		},
		Everyone: page.Routes{
			"GET /events":                 listEvents,
			"GET /events/{event}":         showEventOrRow,
			"GET /events/{event}/data":    page.OfID("event", downloadEvent),
			"GET /events/{event}/why-not": page.OfID("event", showWhyNot),
			"POST /events/{event}/replay": page.OfID("event", replayEvent),
			"GET /event-types":            listEventTypes,
			"GET /event-types/{name}":     showEventType,
		},
	}
}

// listEvents shows events, newest first.
func listEvents(v *page.Visit) error {
	span, fromTime, toTime := v.SpanFilter()
	f := append(page.Filters{v.TextFilter("type")}, v.AccountFilter()...)
	f = append(append(f, v.TextFilter("where"), v.TextFilter("idempotency_key"), v.TextFilter("ordering_key")), span...)
	events, err := v.API.Events(v.Context, client.EventFilter{
		Account: v.Query("account"), Type: v.Query("type"), IdempotencyKey: v.Query("idempotency_key"), OrderingKey: v.Query("ordering_key"),
		Where: v.Query("where"), From: fromTime, To: toTime, Paging: v.Paging(),
	})
	return page.ShowList(v, page.View{Name: "events", Filters: f, Commands: []string{v.Command("events list")}}, events, err)
}

// eventPage is the data of the page of one event.
type eventPage struct {
	Event      apitypes.Event
	Payload    *payload.Payload // nil: the bytes are gone
	Previous   *payload.Payload // the object before the change; nil: the event has none
	Raw        bool
	Deliveries page.List[apitypes.Delivery]
	Replayable bool // the bytes are there, and one of the deliveries of this page has ended
	// Resolved has the delivered replay of each dead letter of this page that has one.
	Resolved map[postrider.DeliveryID]postrider.DeliveryID
}

// showEventOrRow shows one event. The id of a row of an outbox leads to the search, which finds its event or says
// where the row is.
func showEventOrRow(v *page.Visit) error {
	if row, err := page.PathID[postrider.OutboxID](v, "event"); err == nil {
		return v.Redirect(v.Path("search") + "?q=" + row.String())
	}
	return page.OfID("event", showEvent)(v)
}

// showEvent shows one event: its payload, in which the parameter find is looked for, and
// its deliveries.
func showEvent(v *page.Visit, id postrider.EventID) error {
	e, err := v.API.Event(v.Context, id)
	if err != nil {
		return err
	}
	deliveries, err := v.API.EventDeliveries(v.Context, e.ID, v.Paging())
	if err != nil {
		return err
	}
	if err := page.NameItems(v, deliveries.Data); err != nil {
		return err
	}
	p := eventPage{Event: e, Raw: v.Query("raw") != "" || e.ContentType != "", Deliveries: page.ListOf(v, deliveries, nil)}
	for _, d := range deliveries.Data {
		p.Replayable = p.Replayable || e.Data != nil && d.Status != postrider.Pending
	}
	p.Resolved = deliveredBy(deliveries.Data)
	if e.Data != nil {
		data, err := postrider.ParseData(e.ContentType, e.Data, e.DataEncoding)
		if err != nil {
			return err
		}
		shown := payload.New(data, v.Query("find"), p.Raw)
		p.Payload = &shown
	}
	if e.Previous != nil {
		shown := payload.New(e.Previous, "", true)
		p.Previous = &shown
	}
	return v.Show(page.View{Name: "events-one", Title: e.Type, Data: p, Commands: []string{
		"events get " + e.ID.String(), "events deliveries " + e.ID.String(), "events replay " + e.ID.String(),
	}})
}

// deliveredBy returns, for each dead delivery of an event, the delivered replay to the same
// endpoint that is among the deliveries.
func deliveredBy(deliveries []apitypes.Delivery) map[postrider.DeliveryID]postrider.DeliveryID {
	by := map[postrider.DeliveryID]postrider.DeliveryID{}
	for _, dead := range deliveries {
		for _, replay := range deliveries {
			if dead.Status == postrider.Dead && replay.Status == postrider.Delivered && replay.ReplayedFrom != nil &&
				replay.Endpoint == dead.Endpoint && replay.ID.Compare(dead.ID) > 0 {
				by[dead.ID] = replay.ID
			}
		}
	}
	return by
}

// downloadEvent sends the bytes of an event as a file. No browser shows or runs it: a
// tenant wrote it.
func downloadEvent(v *page.Visit, id postrider.EventID) error {
	e, err := v.API.Event(v.Context, id)
	if err != nil {
		return err
	}
	if e.Data == nil {
		return fmt.Errorf("data of %s: %w", e.ID, postrider.ErrNotFound)
	}
	data, err := postrider.ParseData(e.ContentType, e.Data, e.DataEncoding)
	if err != nil {
		return err
	}
	ending := ".json"
	if e.ContentType != "" {
		ending = ".bin"
	}
	v.Policy(v.Writer.Header())
	header := v.Writer.Header()
	header.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	header.Set("Content-Type", "application/octet-stream")
	header.Set("Content-Disposition", `attachment; filename="`+e.ID.String()+ending+`"`)
	header.Set("Content-Length", strconv.Itoa(len(data)))
	v.Writer.WriteHeader(http.StatusOK)
	if v.Request.Method != http.MethodHead {
		_, _ = v.Writer.Write(data) // an error means that the browser is gone
	}
	return nil
}

// replayEvent replays the deliveries of an event that have ended, and leads to the progress.
func replayEvent(v *page.Visit, id postrider.EventID) error {
	made, err := v.API.ReplayEvent(v.Context, id, apitypes.EventReplay{Status: postrider.Status(v.Form("status"))})
	if faults := v.Faulty(err); faults != nil {
		return v.Done(v.Path("events", id), page.Flash{Text: v.T("event.not_replayed", "why", page.AnyFault(faults)), Warn: true})
	}
	if err != nil {
		return err
	}
	if made.Expected.Matches == 0 {
		return v.Done(v.Path("events", id), page.Flash{Text: v.T("event.nothing_to_replay"), Warn: true})
	}
	return v.Done(v.Path("replays", made.ID), page.Flash{
		Text: v.T("event.replayed", "n", made.Expected.Matches), Link: v.Path("events", id), LinkText: v.T("event"),
	})
}
