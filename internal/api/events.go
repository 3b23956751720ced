package api

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/store"
)

// The limits of one request to replay an event. The client repeats the request
// for the rest.
const (
	maxReplays    = 5000
	replaysAtOnce = 8               // concurrent replays, which the store commits as one group
	replayTime    = 3 * time.Second // no replay starts after this time
)

// viewEvent returns an event in the form of a response. The data is copied
// verbatim.
func viewEvent(e postrider.Event) apitypes.Event {
	return apitypes.Event{
		ID: e.ID, Account: e.Account, Type: e.Type, APIVersion: orNull(e.APIVersion),
		OrderingKey: orNull(e.OrderingKey), Sequence: orNull(e.Sequence), IdempotencyKey: orNull(e.IdempotencyKey),
		Hops: e.Hops, CreatedAt: instant(e.CreatedAt), Data: e.Data,
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
		description: "The last delivery to each endpoint is replayed as a new delivery, unless it is pending or a discarded dead letter. One request replays for 3 s and at most 5,000 deliveries. If some are left, the response has a made_before; repeat the request with it. A request with a made_before can be repeated after an error: it replays no delivery a second time.",
		codes:       []string{"conflict", "replay_pending", "gone"},
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
	account, err := s.resolveAccount(ctx, "account", in.Account)
	if err := errors.Join(err, checkTypeFilter("type", in.Type)); err != nil {
		return nil, err
	}
	if in.IdempotencyKey != "" && account.IsZero() {
		return nil, invalid("account", "is required with idempotency_key")
	}
	if in.OrderingKey != "" && account.IsZero() {
		return nil, invalid("account", "is required with ordering_key")
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

// findEvent returns the event if the key may see it.
func (s *server) findEvent(ctx context.Context, text string) (postrider.Event, error) {
	id, err := parseID[postrider.EventID](text)
	if err != nil {
		return postrider.Event{}, err
	}
	c := infoOf(ctx)
	e, err := first(s.Store.Events(ctx, store.EventQuery{Account: c.caller.Account, ID: id}))
	c.account = cmp.Or(c.account, e.Account)
	return e, err
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

// replayEvent replays the last delivery to each endpoint. It omits a delivery
// that cannot be replayed, because another replay was faster or its endpoint
// was deleted. If none can be replayed, the response is the error of one of
// them. MadeBefore is set if deliveries are left for another request.
//
// An event may have a delivery for each of a hundred thousand endpoints, more than
// one request can replay in time. So a request replays some of them and returns a
// time, and the client repeats the request with that time. A replay makes a delivery
// that is younger than the time, and an endpoint with a younger delivery is left out.
// The time thus separates what is done from what is left, without any state in the
// server, and a request that was repeated after an error replays nothing twice.
func (s *server) replayEvent(ctx context.Context, in *EventPath) (*reply[apitypes.EventReplays], error) {
	var body apitypes.EventReplay
	if err := decodeIfAny(ctx, &body); err != nil {
		return nil, err
	}
	e, err := s.findEvent(ctx, in.Event)
	if err != nil {
		return nil, err
	}
	// The time must be taken before the deliveries are read.
	before, err := s.nextMillisecond(ctx)
	if err != nil {
		return nil, err
	}
	last, err := s.lastDeliveries(ctx, e, body, &before)
	if err != nil {
		return nil, err
	}
	result := apitypes.EventReplays{Data: []apitypes.Delivery{}}
	if len(last) > maxReplays {
		last, result.MadeBefore = last[:maxReplays], timeOrNull(before)
	}
	var refused error
	for _, made := range s.replayAll(ctx, last) {
		switch {
		// A delivery that cannot be replayed does not fail the others.
		case made.begun && errors.Is(made.err, postrider.ErrConflict):
			refused = made.err
		case made.err != nil:
			return nil, made.err
		case made.begun:
			result.Data = append(result.Data, viewDelivery(made.replay))
		default:
			result.MadeBefore = timeOrNull(before)
		}
	}
	if len(result.Data) == 0 && refused != nil && result.MadeBefore == nil {
		return nil, refused
	}
	return respond(result), nil
}

// nextMillisecond returns a time that is after every id made before the call
// and not after any id made later. Ids have a resolution of 1 ms, so it waits
// for the next one. The time separates the deliveries that a replay found from
// those that it makes.
func (s *server) nextMillisecond(ctx context.Context) (time.Time, error) {
	tick := time.NewTicker(100 * time.Microsecond)
	defer tick.Stop()
	next := store.NewID[postrider.DeliveryID](s.IDs).Time().Add(time.Millisecond)
	for store.NewID[postrider.DeliveryID](s.IDs).Time().Before(next) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return next, ctx.Err()
		}
	}
	return next, nil
}

// replayed is the result for one of many deliveries to replay.
type replayed struct {
	// begun is false if the time limit or an error came first: the delivery was
	// not replayed.
	begun bool
	// replay is the new delivery; zero with an error.
	replay postrider.Delivery
	err    error
}

// replayAll replays deliveries, replaysAtOnce at a time, and starts none after
// replayTime. It returns the results in the order of the deliveries. After an
// error that is no conflict it starts no further replay. It returns when all
// that were started have ended.
func (s *server) replayAll(ctx context.Context, deliveries []postrider.Delivery) []replayed {
	all, start := make([]replayed, len(deliveries)), time.Now()
	var next atomic.Int64
	var broken atomic.Bool
	var workers sync.WaitGroup
	for range min(replaysAtOnce, len(deliveries)) {
		workers.Go(func() {
			for time.Since(start) < replayTime && !broken.Load() {
				i := int(next.Add(1)) - 1
				if i >= len(deliveries) {
					return
				}
				all[i].begun = true
				all[i].replay, all[i].err = s.replay(ctx, deliveries[i])
				if all[i].err != nil && !errors.Is(all[i].err, postrider.ErrConflict) {
					broken.Store(true)
				}
			}
		})
	}
	workers.Wait()
	return all
}

// lastDeliveries returns the newest delivery to each endpoint that the body
// selects, unless that delivery is pending. It returns at most one page more
// than maxReplays; more than maxReplays mean that some are left. If the body
// has MadeBefore, *before becomes that time. A delivery made at or after
// *before excludes its endpoint, so a repeated request does not replay again
// what an earlier one replayed.
func (s *server) lastDeliveries(
	ctx context.Context, e postrider.Event, b apitypes.EventReplay, before *time.Time,
) ([]postrider.Delivery, error) {
	endpoint, err := filtered[postrider.EndpointID]("endpoint", b.Endpoint)
	if b.MadeBefore != nil {
		*before = b.MadeBefore.Time
	}
	if err := errors.Join(err, checkEnded("status", b.Status)); err != nil {
		return nil, err
	}
	query := store.DeliveryQuery{Account: e.Account, Event: e.ID, Endpoint: endpoint, Paging: store.Paging{Limit: store.MaxLimit}}
	seen := map[postrider.EndpointID]bool{}
	var last []postrider.Delivery
	for len(last) <= maxReplays {
		deliveries, err := s.Store.Deliveries(ctx, query)
		if err != nil {
			return nil, err
		}
		// Newest first, so the first one of an endpoint decides.
		for _, d := range deliveries.Items {
			wanted := d.Status != postrider.Pending && (b.Status == "" || d.Status == b.Status)
			if !seen[d.Endpoint] && wanted && d.ID.Time().Before(*before) {
				last = append(last, d)
			}
			seen[d.Endpoint] = true
		}
		if query.Cursor = deliveries.Next; query.Cursor == "" {
			break
		}
	}
	return last, nil
}

// checkEnded refuses a status filter that selects pending or unknown
// deliveries. Empty selects all that have ended.
func checkEnded(field string, status postrider.Status) error {
	switch status {
	case "", postrider.Delivered, postrider.Dead, postrider.Cancelled, postrider.Skipped:
		return nil
	case postrider.Pending:
	}
	return invalid(field, "must be delivered, dead, cancelled or skipped")
}
