package api

import (
	"cmp"
	"context"
	"errors"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/store"
)

// eventReplayRate is how many deliveries of an event are replayed in a second, unless the
// request says otherwise: faster than other replays, since few events have many.
const eventReplayRate = 500

// viewEvent returns an event in the form of a response. The data is copied
// verbatim.
func viewEvent(e postrider.Event) apitypes.Event {
	return apitypes.Event{
		ID: e.ID, Account: e.Account, Type: e.Type, APIVersion: orNull(e.APIVersion),
		OrderingKey: orNull(e.OrderingKey), Sequence: orNull(e.Sequence), IdempotencyKey: orNull(e.IdempotencyKey),
		Hops: e.Hops, MaxAttempts: orNull(e.MaxAttempts), TraceID: e.Trace().String(), Test: postrider.IsTest(e.ID), CreatedAt: instant(e.CreatedAt), Data: e.Data,
	}
}

// EventPath names an event.
type EventPath struct {
	Event string `path:"event"`
}

// events registers the routes that read and replay events.
func (rt *router) events() {
	read, operate := postrider.ScopeWebhooksRead, postrider.ScopeWebhooksOperate
	handle(rt, route{
		name: "list-events", path: "GET /events",
		summary: "List events",
		scope:   read,
	}, rt.listEvents)
	handle(rt, route{
		name: "get-event", path: "GET /events/{event}",
		summary: "Get an event with its data",
		scope:   read,
	}, rt.getEvent)
	handle(rt, route{
		name: "list-event-deliveries", path: "GET /events/{event}/deliveries",
		summary: "List an event's deliveries",
		scope:   read,
	}, rt.listEventDeliveries)
	handle(rt, route{
		name: "list-event-attempts", path: "GET /events/{event}/attempts",
		summary: "List the attempts of all deliveries of an event",
		scope:   read,
	}, rt.listEventAttempts)
	handle(rt, route{
		name: "replay-event", path: "POST /events/{event}/replay",
		summary:     "Replay an event's deliveries that have ended",
		description: "The last delivery to each endpoint is replayed as a new delivery, unless it is pending or a resolved dead letter. A replay job does it, so that it makes no difference how many endpoints there are; see its progress, and list its deliveries by replay_job.",
		codes:       []string{"too_many_replays", "gone"},
		scope:       operate, status: 202, body: apitypes.EventReplay{}, empty: true,
	}, rt.replayEvent)
}

// listEvents lists the events that all given filters select. Idempotency keys
// are unique only within an account, so the filter for them needs one.
func (s *server) listEvents(ctx context.Context, in *struct {
	Account        string `query:"account" doc:"Id or uid of the account."`
	Type           string `query:"type"`
	IdempotencyKey string `query:"idempotency_key" maxLength:"256" doc:"Only the event that was published with this idempotency key, while the key is remembered. It needs the account."`
	OrderingKey    string `query:"ordering_key" maxLength:"256" doc:"Only events with this ordering key. It needs the account."`
	Span
	Order
	Paging
},
) (*reply[apitypes.Page[apitypes.Event]], error) {
	account, err := s.resolveAccount(ctx, in.Account)
	if err := errors.Join(err, checkTypeFilter("type", in.Type)); err != nil {
		return nil, err
	}
	if in.IdempotencyKey != "" && account.IsZero() {
		return nil, invalid("account", postrider.FaultRequired, "is required with idempotency_key")
	}
	if in.OrderingKey != "" && account.IsZero() {
		return nil, invalid("account", postrider.FaultRequired, "is required with ordering_key")
	}
	return respondPage(viewEvent)(s.Store.Events(ctx, store.EventQuery{
		Account: account, Type: in.Type, IdempotencyKey: in.IdempotencyKey, OrderingKey: in.OrderingKey,
		Span: in.Span.of(), Paging: in.page(in.Paging),
	}))
}

// getEvent returns one event and its data.
func (s *server) getEvent(ctx context.Context, in *EventPath) (*reply[apitypes.Event], error) {
	return respondWith(viewEvent)(s.findEvent(ctx, in.Event))
}

// findEvent returns the event if the key may see it. An event that retention has deleted,
// while deliveries of it are still listed, has no data, and only what they know of it.
func (s *server) findEvent(ctx context.Context, text string) (postrider.Event, error) {
	id, err := parseID[postrider.EventID](text)
	if err != nil {
		return postrider.Event{}, err
	}
	c := infoOf(ctx)
	e, err := store.First(s.Store.Events(ctx, store.EventQuery{Account: c.caller.Account, ID: id}))
	if errors.Is(err, postrider.ErrNotFound) {
		d, err := store.First(s.Store.Deliveries(ctx, store.DeliveryQuery{Account: c.caller.Account, Event: id, Paging: store.Paging{Limit: 1}}))
		c.account = cmp.Or(c.account, d.Account)
		return goneEvent(d), err
	}
	c.account = cmp.Or(c.account, e.Account)
	return e, err
}

// goneEvent returns what a delivery knows of its event.
func goneEvent(d postrider.Delivery) postrider.Event {
	return postrider.Event{ID: d.Event, Account: d.Account, Type: d.EventType, CreatedAt: d.Event.Time()}
}

// listEventDeliveries lists the deliveries of one event. It reads the event
// first, so that an unknown event is a 404 and not an empty list.
func (s *server) listEventDeliveries(ctx context.Context, in *struct {
	EventPath
	Order
	Paging
},
) (*reply[apitypes.Page[apitypes.Delivery]], error) {
	e, err := s.findEvent(ctx, in.Event)
	if err != nil {
		return nil, err
	}
	return respondPage(viewDelivery)(s.Store.Deliveries(ctx, store.DeliveryQuery{Account: e.Account, Event: e.ID, Paging: in.page(in.Paging)}))
}

// listEventAttempts lists the attempts of all deliveries of one event.
func (s *server) listEventAttempts(ctx context.Context, in *struct {
	EventPath
	Paging
},
) (*reply[apitypes.Page[apitypes.Attempt]], error) {
	e, err := s.findEvent(ctx, in.Event)
	if err != nil {
		return nil, err
	}
	return respondPage(viewAttempt)(s.Store.Attempts(ctx, store.AttemptQuery{Account: e.Account, Event: e.ID, Paging: in.Paging.of()}))
}

// replayEvent creates a replay job for the last delivery of the event to each endpoint. An event
// may have a hundred thousand of them, more than one request can replay in time.
func (s *server) replayEvent(ctx context.Context, in *EventPath) (*reply[apitypes.Replay], error) {
	var body apitypes.EventReplay
	if err := decodeIfAny(ctx, &body); err != nil {
		return nil, err
	}
	e, err := s.findEvent(ctx, in.Event)
	if err != nil {
		return nil, err
	}
	endpoint, err := filtered[postrider.EndpointID]("endpoint", body.Endpoint)
	job := s.newReplay(ctx, apitypes.ReplayCreate{PerSecond: cmp.Or(body.PerSecond, new(eventReplayRate))})
	job.Filter = postrider.ReplayFilter{Account: e.Account, Endpoint: endpoint, Event: e.ID, Statuses: postrider.ReplayStatuses}
	if body.Status != "" {
		job.Filter.Statuses = []postrider.Status{body.Status}
	}
	if err := errors.Join(err, checkEnded("status", body.Status), checkReplayRate(job.PerSecond)); err != nil {
		return nil, err
	}
	if e.Data == nil {
		return nil, postrider.ErrGone
	}
	return respondWith(viewReplayAlone(nil))(s.startReplay(ctx, job))
}

// checkEnded refuses a status filter that selects pending or unknown
// deliveries. Empty selects all that have ended.
func checkEnded(field string, status postrider.Status) error {
	switch status {
	case "", postrider.Delivered, postrider.Dead, postrider.Cancelled, postrider.Skipped:
		return nil
	case postrider.Pending:
	}
	return invalid(field, postrider.FaultNotAChoice, "must be delivered, dead, cancelled or skipped")
}
