package web

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

// eventRoutes lists the pages and forms of events.
func eventRoutes() []route {
	return []route{
		{"GET /events", everyone, listEvents},
		{"GET /events/{event}", everyone, showEvent},
		{"GET /events/{event}/data", everyone, downloadEvent},
		{"POST /events/{event}/replay", everyone, replayEvent},
	}
}

// listEvents shows events, newest first.
func listEvents(v *visit) error {
	span, fromTime, toTime := v.spanFilter()
	f := filters{v.textFilter("type")}
	if v.who == operators {
		f = append(f, v.accountFilter())
	}
	f = append(append(f, v.textFilter("idempotency_key"), v.textFilter("ordering_key")), span...)
	events, err := v.api.Events(v.ctx, client.EventFilter{
		Account: v.query("account"), Type: v.query("type"), IdempotencyKey: v.query("idempotency_key"), OrderingKey: v.query("ordering_key"),
		From: fromTime, To: toTime, Paging: v.paging(),
	})
	return showList(v, page{Name: "events", Commands: []string{v.command("events list")}}, listed[apitypes.Event]{events, f, err})
}

// eventPage is the data of the page of one event.
type eventPage struct {
	Event      apitypes.Event
	Payload    *payload // nil: the bytes are gone
	Raw        bool
	Deliveries list[apitypes.Delivery]
	Replayable bool // the bytes are there, and one of the deliveries of this page has ended
	// Resolved has the delivered replay of each dead letter of this page that has one.
	Resolved map[postrider.DeliveryID]postrider.DeliveryID
}

// event returns the event in the path of the request.
func (v *visit) event() (apitypes.Event, error) {
	id, err := pathID(v, "event", postrider.ParseID[postrider.EventID])
	if err != nil {
		return apitypes.Event{}, err
	}
	return v.api.Event(v.ctx, id)
}

// showEvent shows one event: its payload, in which the parameter find is looked for, and
// its deliveries.
func showEvent(v *visit) error {
	e, err := v.event()
	if err != nil {
		return err
	}
	deliveries, err := v.api.EventDeliveries(v.ctx, e.ID, v.paging())
	if err != nil {
		return err
	}
	if err := nameItems(v, deliveries.Data); err != nil {
		return err
	}
	p := eventPage{Event: e, Raw: v.query("raw") != "", Deliveries: listOf(v, deliveries, nil)}
	for _, d := range deliveries.Data {
		p.Replayable = p.Replayable || e.Data != nil && d.Status != postrider.Pending
	}
	p.Resolved = deliveredBy(deliveries.Data)
	if e.Data != nil {
		shown := newPayload(e.Data, v.query("find"), p.Raw)
		p.Payload = &shown
	}
	return v.show(page{Name: "events-one", Title: e.Type, Data: p, Commands: []string{
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
func downloadEvent(v *visit) error {
	e, err := v.event()
	if err != nil {
		return err
	}
	if e.Data == nil {
		return fmt.Errorf("data of %s: %w", e.ID, postrider.ErrNotFound)
	}
	v.policy(v.w.Header())
	header := v.w.Header()
	header.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	header.Set("Content-Type", "application/octet-stream")
	header.Set("Content-Disposition", `attachment; filename="`+e.ID.String()+`.json"`)
	header.Set("Content-Length", strconv.Itoa(len(e.Data)))
	v.w.WriteHeader(http.StatusOK)
	if v.r.Method != http.MethodHead {
		_, _ = v.w.Write(e.Data) // an error means that the browser is gone
	}
	return nil
}

// replayEvent replays the deliveries of an event that have ended, and leads to the progress.
func replayEvent(v *visit) error {
	id, err := pathID(v, "event", postrider.ParseID[postrider.EventID])
	if err != nil {
		return err
	}
	made, err := v.api.ReplayEvent(v.ctx, id, apitypes.EventReplay{Status: postrider.Status(v.form("status"))})
	if faults, refused := v.faulty(err); refused {
		return v.done(v.path("events", id), flash{Text: v.t("event.not_replayed", "why", anyFault(faults)), Warn: true})
	}
	if err != nil {
		return err
	}
	if made.Expected.Matches == 0 {
		return v.done(v.path("events", id), flash{Text: v.t("event.nothing_to_replay"), Warn: true})
	}
	return v.done(v.path("replays", made.ID), flash{
		Text: v.t("event.replayed", "n", made.Expected.Matches), Link: v.path("events", id), LinkText: v.t("event"),
	})
}
