package api

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// maxReplays is how many endpoints one replay of an event may reach.
const maxReplays = 256

type eventView struct {
	ID             string          `json:"id"`
	Account        string          `json:"account"`
	Type           string          `json:"type"`
	APIVersion     *string         `json:"api_version"`
	OrderingKey    *string         `json:"ordering_key"`
	Sequence       *int64          `json:"sequence" doc:"Position among the account's events with the same ordering key, from 1. Null: it has no ordering key."`
	IdempotencyKey *string         `json:"idempotency_key" doc:"Idempotency key of its publish. Null: it had none."`
	Hops           int             `json:"hops" doc:"Number of webhook senders that the event had passed before, from the header Webhook-Hops of its publish."`
	CreatedAt      string          `json:"created_at" format:"date-time"`
	Data           json.RawMessage `json:"data,omitempty" doc:"Data of the event. Lists leave it out, and so does every answer after the data was deleted."`
}

func viewEvent(e postrider.Event) eventView {
	return eventView{
		ID: e.ID.String(), Account: e.Account.String(), Type: e.Type, APIVersion: orNull(e.APIVersion),
		OrderingKey: orNull(e.OrderingKey), Sequence: orNull(e.Sequence), IdempotencyKey: orNull(e.IdempotencyKey),
		Hops: e.Hops, CreatedAt: instant(e.CreatedAt), Data: e.Data,
	}
}

// EventPath names an event.
type EventPath struct {
	Event string `path:"event"`
}

type eventReplay struct {
	Endpoint *string `json:"endpoint,omitempty" minLength:"1" doc:"Replay to this endpoint alone."`
	Status   *string `json:"status,omitempty" enum:"delivered,dead,cancelled,skipped" doc:"Replay only where the last delivery to an endpoint has this status."`
}

func (rt *router) events() {
	read, write := postrider.ScopeWebhooksRead, postrider.ScopeWebhooksWrite
	handle(rt, route{
		name: "list-events", path: "GET /events",
		about: "List events",
		codes: []string{"not_found"},
		scope: read,
	}, rt.listEvents)
	handle(rt, route{
		name: "get-event", path: "GET /events/{event}",
		about: "Get an event with its data",
		scope: read,
	}, rt.getEvent)
	handle(rt, route{
		name: "list-event-deliveries", path: "GET /events/{event}/deliveries",
		about: "List an event's deliveries",
		scope: read,
	}, rt.listEventDeliveries)
	handle(rt, route{
		name: "list-event-attempts", path: "GET /events/{event}/attempts",
		about: "List the attempts of all of an event's deliveries",
		scope: read,
	}, rt.listEventAttempts)
	handle(rt, route{
		name: "replay-event", path: "POST /events/{event}/replay",
		about: "Replay an event's deliveries that have ended",
		tells: "The last delivery to each endpoint is replayed as a new delivery, unless it is pending.",
		codes: []string{"conflict", "replay_pending", "gone"},
		scope: write, status: 202, body: eventReplay{}, empty: true,
	}, rt.replayEvent)
}

func (s *server) listEvents(ctx context.Context, in *struct {
	Account        string `query:"account" doc:"Id or uid of the account."`
	Type           string `query:"type"`
	IdempotencyKey string `query:"idempotency_key" maxLength:"256" doc:"Only the event that was published with this idempotency key, while the key is remembered. It needs the account."`
	Span
	Order
	Paging
},
) (*reply[page[eventView]], error) {
	account, err := s.reach(ctx, "account", in.Account)
	if err != nil {
		return nil, err
	}
	if in.IdempotencyKey != "" && account.IsZero() {
		return nil, invalid("account", "is required with idempotency_key")
	}
	events, err := s.Store.Events(ctx, store.EventQuery{
		Account: account, Type: in.Type, IdempotencyKey: in.IdempotencyKey, Span: in.Span.of(), Paging: in.page(in.Paging),
	})
	if err != nil {
		return nil, err
	}
	return pageOf(events, viewEvent), nil
}

func (s *server) getEvent(ctx context.Context, in *EventPath) (*reply[eventView], error) {
	e, err := s.findEvent(ctx, in.Event)
	if err != nil {
		return nil, err
	}
	return answered(viewEvent(e)), nil
}

func (s *server) findEvent(ctx context.Context, text string) (postrider.Event, error) {
	id, err := named[postrider.EventID](text)
	if err != nil {
		return postrider.Event{}, err
	}
	return only(s.Store.Events(ctx, store.EventQuery{Account: callOf(ctx).key.Account, ID: id}))
}

func (s *server) listEventDeliveries(ctx context.Context, in *struct {
	EventPath
	Order
	Paging
},
) (*reply[page[deliveryView]], error) {
	e, err := s.findEvent(ctx, in.Event)
	if err != nil {
		return nil, err
	}
	deliveries, err := s.Store.Deliveries(ctx, store.DeliveryQuery{Account: e.Account, Event: e.ID, Paging: in.page(in.Paging)})
	if err != nil {
		return nil, err
	}
	return pageOf(deliveries, viewDelivery), nil
}

func (s *server) listEventAttempts(ctx context.Context, in *struct {
	EventPath
	Paging
},
) (*reply[page[attemptView]], error) {
	e, err := s.findEvent(ctx, in.Event)
	if err != nil {
		return nil, err
	}
	attempts, err := s.Store.Attempts(ctx, store.AttemptQuery{Account: e.Account, Event: e.ID, Paging: in.Paging.of()})
	if err != nil {
		return nil, err
	}
	return pageOf(attempts, viewAttempt), nil
}

// replayEvent replays the last delivery to each endpoint. Those that cannot be
// replayed, because another replay was faster or the endpoint was deleted, are
// left out of the answer; when none can, the answer is why.
func (s *server) replayEvent(ctx context.Context, in *EventPath) (*reply[list[deliveryView]], error) {
	var body eventReplay
	if err := decodeIfAny(ctx, &body); err != nil {
		return nil, err
	}
	e, err := s.findEvent(ctx, in.Event)
	if err != nil {
		return nil, err
	}
	last, err := s.lastDeliveries(ctx, e, body)
	if err != nil {
		return nil, err
	}
	answer := list[deliveryView]{Data: []deliveryView{}}
	var refused error
	for _, d := range last {
		replay, err := s.replay(ctx, d)
		switch {
		case errors.Is(err, postrider.ErrConflict):
			refused = err
		case err != nil:
			return nil, err
		default:
			answer.Data = append(answer.Data, viewDelivery(replay))
		}
	}
	if len(answer.Data) == 0 && refused != nil {
		return nil, refused
	}
	return answered(answer), nil
}

// lastDeliveries returns the event's last delivery to each endpoint that the
// body selects, without those that are pending.
func (s *server) lastDeliveries(ctx context.Context, e postrider.Event, b eventReplay) ([]postrider.Delivery, error) {
	endpoint, err := filtered[postrider.EndpointID]("endpoint", value(b.Endpoint))
	if err := errors.Join(notEmpty("endpoint", b.Endpoint), err, checkEnded("status", b.Status)); err != nil {
		return nil, err
	}
	query := store.DeliveryQuery{Account: e.Account, Event: e.ID, Endpoint: endpoint, Paging: store.Paging{Limit: store.MaxLimit}}
	seen := map[postrider.EndpointID]bool{}
	var last []postrider.Delivery
	for {
		deliveries, err := s.Store.Deliveries(ctx, query)
		if err != nil {
			return nil, err
		}
		for _, d := range deliveries.Items { // newest first
			if !seen[d.Endpoint] && d.Status != postrider.Pending && (b.Status == nil || string(d.Status) == *b.Status) {
				last = append(last, d)
			}
			seen[d.Endpoint] = true
		}
		if len(last) > maxReplays {
			return nil, conflict("the event has more deliveries than one request may replay; name an endpoint or a status")
		}
		if query.Cursor = deliveries.Next; query.Cursor == "" {
			return last, nil
		}
	}
}

func checkEnded(field string, status *string) error {
	if status == nil {
		return nil
	}
	switch postrider.Status(*status) {
	case postrider.Delivered, postrider.Dead, postrider.Cancelled, postrider.Skipped:
		return nil
	case postrider.Pending:
	}
	return invalid(field, "must be delivered, dead, cancelled or skipped")
}
