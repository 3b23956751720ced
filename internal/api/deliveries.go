package api

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

type deliveryView struct {
	ID             string       `json:"id"`
	Event          string       `json:"event"`
	Endpoint       string       `json:"endpoint"`
	Account        string       `json:"account"`
	EventType      string       `json:"event_type"`
	Status         string       `json:"status" enum:"pending,delivered,dead,cancelled,skipped" doc:"pending: it is attempted until it is accepted. dead: it is a dead letter. skipped: its endpoint was disabled when the event was published. Only pending changes."`
	Reason         *string      `json:"reason" enum:"exhausted,gone,client_error,expired,system,endpoint_disabled,endpoint_deleted,cancelled" doc:"Why the delivery is dead, cancelled or skipped. Null: it is not."`
	Attempts       int          `json:"attempts"`
	NextAttemptAt  *string      `json:"next_attempt_at" format:"date-time" doc:"Time of the next attempt. Null: none is due, or nobody knows when; see waiting."`
	Waiting        *waitingView `json:"waiting" doc:"Why a pending delivery has not been sent yet. Null: it is not pending."`
	CreatedAt      string       `json:"created_at" format:"date-time"`
	FinishedAt     *string      `json:"finished_at" format:"date-time"`
	LastStatusCode *int         `json:"last_status_code"`
	LastError      *string      `json:"last_error"`
	ReplayedFrom   *string      `json:"replayed_from" doc:"Id of the delivery that this one replays. Null: it is no replay."`
}

type waitingView struct {
	Reason   string  `json:"reason" enum:"in_flight,parked,endpoint_deleted,endpoint_disabled,endpoint_paused,no_secret,ordering,suspected,scheduled,circuit_open,asked_to_wait,due" doc:"in_flight: an attempt is under way or about to start. parked: a person has to release or discard it. endpoint_deleted: it is about to be cancelled. endpoint_disabled, endpoint_paused: until the endpoint is enabled or resumed. no_secret: the endpoint has no secret in force. ordering: another delivery of its ordering key goes first. suspected: it waits for its turn among the deliveries that may have ended a server. scheduled: until its retry is due. circuit_open: until the endpoint is probed. asked_to_wait: until the time that the receiver asked for with Retry-After. due: it leaves as soon as the endpoint's window and rate allow."`
	Until    *string `json:"until" format:"date-time" doc:"Time when the reason ends. Null: nobody knows."`
	Delivery *string `json:"delivery" doc:"With ordering: the earlier delivery of the key, or the dead letter that pauses it. Else null."`
}

// TransformSchema lets waiting be null, which a reference alone cannot.
func (deliveryView) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	waiting := s.Properties["waiting"]
	s.Properties["waiting"] = &huma.Schema{
		AnyOf: []*huma.Schema{{Ref: waiting.Ref}, {Type: "null"}}, Description: waiting.Description,
	}
	return s
}

func viewWaiting(w postrider.Waiting) *waitingView {
	if w.Reason == "" {
		return nil
	}
	return &waitingView{Reason: string(w.Reason), Until: instantOrNull(w.Until), Delivery: idOrNull(w.For)}
}

// nextAttempt returns when the delivery is attempted next, as far as that is
// known; it is never past but for a delivery that is due.
func nextAttempt(d postrider.Delivery) time.Time {
	if d.Waiting.Reason == postrider.WaitDue {
		return d.NextAttemptAt
	}
	return d.Waiting.Until
}

func viewDelivery(d postrider.Delivery) deliveryView {
	return deliveryView{
		ID: d.ID.String(), Event: d.Event.String(), Endpoint: d.Endpoint.String(), Account: d.Account.String(),
		EventType: d.EventType, Status: string(d.Status), Reason: orNull(d.Reason), Attempts: d.Attempts,
		NextAttemptAt: instantOrNull(nextAttempt(d)), Waiting: viewWaiting(d.Waiting), CreatedAt: instant(d.ID.Time()), FinishedAt: instantOrNull(d.FinishedAt),
		LastStatusCode: orNull(d.LastStatusCode), LastError: orNull(d.LastError), ReplayedFrom: idOrNull(d.ReplayedFrom),
	}
}

type attemptView struct {
	Delivery      string  `json:"delivery"`
	Event         string  `json:"event"`
	Endpoint      string  `json:"endpoint"`
	Attempt       int     `json:"attempt" doc:"Number of the attempt, from 1."`
	Outcome       string  `json:"outcome" enum:"accepted,rejected,gone,throttled,unreachable,timed_out,broken,blocked,lost,none" doc:"accepted: 2xx. gone: 410. throttled: the answer asked for fewer requests. rejected: any other answer. unreachable: no connection. broken: the connection was cut. blocked: the address is forbidden. lost: the node died, and it is unknown whether the request left. none: no request was made."`
	StatusCode    *int    `json:"status_code" doc:"Status code of the answer. Null: there was no answer."`
	RetryAfter    *int64  `json:"retry_after_ms"`
	StartedAt     string  `json:"started_at" format:"date-time"`
	Duration      int64   `json:"duration_ms"`
	Error         *string `json:"error"`
	FinalURL      *string `json:"final_url" doc:"URL that the redirects led to, without its query. Null: no redirect was followed."`
	RequestHead   *string `json:"request_head" doc:"Head of the request, without signatures and credentials. Heads and bodies come with the attempts of one delivery only. Null: nothing was sent, or it was accepted with an answer of at most 256 bytes, of which the body alone is kept."`
	ResponseHead  *string `json:"response_head" doc:"Head of the answer. Null: there was none, or the request was accepted with an answer of at most 256 bytes."`
	ResponseBody  *string `json:"response_body" doc:"At most the first 16 KiB of the answer's body. Null: there was none, or it is in response_body_base64."`
	ResponseBytes *string `json:"response_body_base64,omitempty" contentEncoding:"base64" doc:"The body in base64 where it is not UTF-8."`
	Stale         bool    `json:"stale" doc:"The attempt ended after another node had taken the delivery over. It did not change the delivery."`
	StatusAfter   string  `json:"status_after"`
	NextAttemptAt *string `json:"next_attempt_at" format:"date-time"`
}

// TransformSchema lists what an error may be.
func (attemptView) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	names := make([]string, len(postrider.Failures))
	for i, f := range postrider.Failures {
		names[i] = string(f)
	}
	s.Properties["error"].Description = "Class of the failure, and after a colon a detail. Null: there was no failure. With the outcome none, the reason of the decision. " +
		"Otherwise one of " + strings.Join(names, ", ") + "."
	return s
}

func viewAttempt(a postrider.Attempt) attemptView {
	view := attemptView{
		Delivery: a.Delivery.String(), Event: a.Event.String(), Endpoint: a.Endpoint.String(), Attempt: a.Number,
		Outcome: string(a.Outcome), StatusCode: orNull(a.StatusCode), RetryAfter: orNull(a.RetryAfter.Milliseconds()),
		StartedAt: instant(a.StartedAt), Duration: a.Duration.Milliseconds(), Error: orNull(a.Error), FinalURL: orNull(a.FinalURL),
		RequestHead: orNull(string(a.RequestHead)), ResponseHead: orNull(string(a.ResponseHead)), Stale: a.Stale,
		StatusAfter: string(a.StatusAfter), NextAttemptAt: instantOrNull(a.NextAt),
	}
	if utf8.Valid(a.ResponseBody) {
		view.ResponseBody = orNull(string(a.ResponseBody))
	} else {
		view.ResponseBytes = orNull(base64.StdEncoding.EncodeToString(a.ResponseBody))
	}
	return view
}

// DeliveryPath names a delivery.
type DeliveryPath struct {
	Delivery string `path:"delivery"`
}

func (rt *router) deliveries() {
	read, write := postrider.ScopeWebhooksRead, postrider.ScopeWebhooksWrite
	handle(rt, route{
		name: "list-deliveries", path: "GET /deliveries",
		about: "List deliveries",
		codes: []string{"not_found"},
		scope: read,
	}, rt.listDeliveries)
	handle(rt, route{
		name: "get-delivery", path: "GET /deliveries/{delivery}",
		about: "Get a delivery",
		scope: read,
	}, rt.getDelivery)
	handle(rt, route{
		name: "list-attempts", path: "GET /deliveries/{delivery}/attempts",
		about: "List a delivery's attempts, oldest first",
		scope: read,
	}, rt.listAttempts)
	handle(rt, route{
		name: "replay-delivery", path: "POST /deliveries/{delivery}/replay",
		about: "Replay a delivery as a new delivery",
		codes: []string{"conflict", "replay_pending", "gone"},
		scope: write, status: 202,
	}, rt.replayDelivery)
	handle(rt, route{
		name: "cancel-delivery", path: "POST /deliveries/{delivery}/cancel",
		about: "Cancel a pending delivery",
		codes: []string{"conflict"},
		scope: write,
	}, rt.cancelDelivery)
	handle(rt, route{
		name: "release-delivery", path: "POST /deliveries/{delivery}/release",
		about: "Release a parked delivery: it is attempted again, alone",
		codes: []string{"conflict"},
		scope: write,
	}, rt.releaseDelivery)
	handle(rt, route{
		name: "list-endpoint-deliveries", path: "GET /endpoints/{endpoint}/deliveries",
		about: "List an endpoint's deliveries",
		scope: read,
	}, rt.listEndpointDeliveries)
	handle(rt, route{
		name: "replay-endpoint-delivery", path: "POST /endpoints/{endpoint}/deliveries/{delivery}/replay",
		about: "Replay a delivery of this endpoint as a new delivery",
		codes: []string{"conflict", "replay_pending", "gone"},
		scope: write, status: 202,
	}, rt.replayEndpointDelivery)
}

// DeliveryFilter selects deliveries.
type DeliveryFilter struct {
	Event     string `query:"event"`
	EventType string `query:"event_type"`
	Status    string `query:"status" enum:"pending,delivered,dead,cancelled,skipped"`
}

func (s *server) listDeliveries(ctx context.Context, in *struct {
	Account  string `query:"account" doc:"Id or uid of the account."`
	Endpoint string `query:"endpoint" doc:"Id of the endpoint. With the account, its uid works too."`
	DeliveryFilter
	Span
	Order
	Paging
},
) (*reply[page[deliveryView]], error) {
	account, endpoint, err := s.scope(ctx, in.Account, in.Endpoint)
	if err != nil {
		return nil, err
	}
	event, err := filtered[postrider.EventID]("event", in.Event)
	if err != nil {
		return nil, err
	}
	deliveries, err := s.Store.Deliveries(ctx, store.DeliveryQuery{
		Account: account, Endpoint: endpoint, Event: event, EventType: in.EventType, Status: postrider.Status(in.Status),
		Span: in.Span.of(), Paging: in.page(in.Paging),
	})
	if err != nil {
		return nil, err
	}
	return pageOf(deliveries, viewDelivery), nil
}

// scope reads the two filters that name things, which must be there and be the
// caller's to see.
func (s *server) scope(ctx context.Context, account, endpoint string) (postrider.AccountID, postrider.EndpointID, error) {
	accountID, err := s.reach(ctx, "account", account)
	if err != nil || endpoint == "" {
		return accountID, postrider.EndpointID{}, err
	}
	found, err := s.endpointOf(ctx, accountID, endpoint)
	if errors.Is(err, postrider.ErrNotFound) {
		err = missing("endpoint", "names nothing")
	}
	return accountID, found.ID, err
}

func (s *server) listEndpointDeliveries(ctx context.Context, in *struct {
	EndpointPath
	DeliveryFilter
	Span
	Order
	Paging
},
) (*reply[page[deliveryView]], error) {
	e, err := s.findEndpoint(ctx, in.Endpoint)
	if err != nil {
		return nil, err
	}
	event, err := filtered[postrider.EventID]("event", in.Event)
	if err != nil {
		return nil, err
	}
	deliveries, err := s.Store.Deliveries(ctx, store.DeliveryQuery{
		Account: e.Account, Endpoint: e.ID, Event: event, EventType: in.EventType, Status: postrider.Status(in.Status),
		Span: in.Span.of(), Paging: in.page(in.Paging),
	})
	if err != nil {
		return nil, err
	}
	return pageOf(deliveries, viewDelivery), nil
}

func (s *server) getDelivery(ctx context.Context, in *DeliveryPath) (*reply[deliveryView], error) {
	d, err := s.findDelivery(ctx, in.Delivery)
	if err != nil {
		return nil, err
	}
	return answered(viewDelivery(d)), nil
}

func (s *server) findDelivery(ctx context.Context, text string) (postrider.Delivery, error) {
	id, err := named[postrider.DeliveryID](text)
	if err != nil {
		return postrider.Delivery{}, err
	}
	return only(s.Store.Deliveries(ctx, store.DeliveryQuery{Account: callOf(ctx).key.Account, ID: id}))
}

func (s *server) listAttempts(ctx context.Context, in *struct {
	DeliveryPath
	Paging
},
) (*reply[page[attemptView]], error) {
	d, err := s.findDelivery(ctx, in.Delivery)
	if err != nil {
		return nil, err
	}
	attempts, err := s.Store.Attempts(ctx, store.AttemptQuery{Account: d.Account, Delivery: d.ID, Paging: in.Paging.of()})
	if err != nil {
		return nil, err
	}
	return pageOf(attempts, viewAttempt), nil
}

func (s *server) replayDelivery(ctx context.Context, in *DeliveryPath) (*reply[deliveryView], error) {
	d, err := s.findDelivery(ctx, in.Delivery)
	if err != nil {
		return nil, err
	}
	return s.answerReplay(ctx, d)
}

func (s *server) replayEndpointDelivery(ctx context.Context, in *struct {
	EndpointPath
	DeliveryPath
},
) (*reply[deliveryView], error) {
	endpoint, err := named[postrider.EndpointID](in.Endpoint)
	if err != nil {
		return nil, err
	}
	d, err := s.findDelivery(ctx, in.Delivery)
	if err != nil {
		return nil, err
	}
	if d.Endpoint != endpoint {
		return nil, postrider.ErrNotFound
	}
	return s.answerReplay(ctx, d)
}

func (s *server) answerReplay(ctx context.Context, d postrider.Delivery) (*reply[deliveryView], error) {
	replay, err := s.replay(ctx, d)
	if err != nil {
		return nil, err
	}
	return answered(viewDelivery(replay)), nil
}

// replay queues a delivery again, for as long as its endpoint wants deliveries
// to wait.
func (s *server) replay(ctx context.Context, d postrider.Delivery) (postrider.Delivery, error) {
	e, err := only(s.Store.Endpoints(ctx, store.EndpointQuery{Account: d.Account, ID: d.Endpoint}))
	if err != nil {
		return postrider.Delivery{}, err
	}
	replay, err := s.Store.Replay(ctx, store.Replay{
		Account: d.Account, Delivery: d.ID, ID: store.NewID[postrider.DeliveryID](s.IDs),
		Expiry: e.Policy.Expiry, By: callOf(ctx).key.Name,
	})
	if err != nil {
		return postrider.Delivery{}, s.whyNoReplay(ctx, d, err)
	}
	s.Notifier.Notify(d.Endpoint)
	return replay, nil
}

// whyNoReplay finds the fact behind a replay's conflict. It asks again, since
// what stood in the way may have come after the first look.
func (s *server) whyNoReplay(ctx context.Context, d postrider.Delivery, err error) error {
	if !errors.Is(err, postrider.ErrConflict) || errors.As(err, new(*store.ReplayPendingError)) {
		return err
	}
	now, findErr := only(s.Store.Deliveries(ctx, store.DeliveryQuery{Account: d.Account, ID: d.ID}))
	if findErr == nil && now.Status == postrider.Pending {
		return conflict("the delivery is pending")
	}
	e, findErr := only(s.Store.Endpoints(ctx, store.EndpointQuery{Account: d.Account, ID: d.Endpoint}))
	if findErr == nil && e.Status == postrider.EndpointDeleted {
		return conflict("the endpoint is deleted")
	}
	return err
}

func (s *server) releaseDelivery(ctx context.Context, in *DeliveryPath) (*reply[deliveryView], error) {
	id, err := named[postrider.DeliveryID](in.Delivery)
	if err != nil {
		return nil, err
	}
	d, err := s.Store.Unpark(ctx, store.Unpark{Account: callOf(ctx).key.Account, Delivery: id})
	if errors.Is(err, postrider.ErrConflict) {
		err = conflict("the delivery is not parked")
	}
	if err != nil {
		return nil, err
	}
	s.Notifier.Notify(d.Endpoint)
	return answered(viewDelivery(d)), nil
}

func (s *server) cancelDelivery(ctx context.Context, in *DeliveryPath) (*reply[deliveryView], error) {
	id, err := named[postrider.DeliveryID](in.Delivery)
	if err != nil {
		return nil, err
	}
	d, err := s.Store.Cancel(ctx, store.Cancel{Account: callOf(ctx).key.Account, Delivery: id})
	if errors.Is(err, postrider.ErrConflict) {
		if d, findErr := s.findDelivery(ctx, in.Delivery); findErr == nil {
			err = conflict("the delivery is " + string(d.Status))
		}
	}
	if err != nil {
		return nil, err
	}
	s.Notifier.Notify(d.Endpoint) // the next of its ordering key may be due
	return answered(viewDelivery(d)), nil
}
