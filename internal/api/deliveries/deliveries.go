// Package deliveries is the part of the API that serves deliveries, their attempts, the requests of
// attempts, and dead letters. A replay is a new delivery. No route changes a delivery that has
// ended.
package deliveries

import (
	"context"
	"errors"
	"time"
	"unicode/utf8"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/api/render"
	"github.com/postrider/postrider/internal/api/rest"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/store"
)

// Store is the part of the store that this package reads and changes.
type Store interface {
	// Deliveries is the method of store.Ledger.
	Deliveries(ctx context.Context, q store.DeliveryQuery) (store.Page[postrider.Delivery], error)
	// Attempts is the method of store.Ledger.
	Attempts(ctx context.Context, q store.AttemptQuery) (store.Page[postrider.Attempt], error)
	// Replay is the method of store.Ledger.
	Replay(ctx context.Context, r store.Replay) (postrider.Delivery, error)
	// Cancel is the method of store.Ledger.
	Cancel(ctx context.Context, c store.Cancel) (postrider.Delivery, error)
	// MakeDue is the method of store.Queue.
	MakeDue(ctx context.Context, m store.MakeDue) (postrider.Delivery, error)
	// Endpoints is the method of store.Directory.
	Endpoints(ctx context.Context, q store.EndpointQuery) (store.Page[postrider.Endpoint], error)
	// Events is the method of store.Ledger.
	Events(ctx context.Context, q store.EventQuery) (store.Page[postrider.Event], error)
	// LastFailures is the method of store.Rollups.
	LastFailures(ctx context.Context, ids ...postrider.EndpointID) ([]postrider.Attempt, error)
	// Backlog is the method of store.Rollups.
	Backlog(ctx context.Context, q store.BacklogQuery) (store.Backlog, error)
}

// LetterStore is the part of the store that has the dead letters.
type LetterStore interface {
	// DeadLetters is the method of store.Ledger.
	DeadLetters(ctx context.Context, q store.DeadLetterQuery) (store.Page[postrider.DeadLetter], error)
	// DeadLetterGroups is the method of store.Finder.
	DeadLetterGroups(ctx context.Context, q store.DeadLetterGroupQuery) (store.Page[store.DeadLetterGroup], error)
	// Discard is the method of store.Ledger.
	Discard(ctx context.Context, d store.Discard) (postrider.DeadLetter, error)
}

// Describer describes the requests of attempts.
type Describer interface {
	// Describe returns the request of an attempt that begins at the given time, built for the
	// endpoint as it is now. It decrypts nothing. It masks signatures and credentials.
	Describe(ctx context.Context, c *postrider.Claimed, e postrider.Endpoint, at time.Time) (postrider.Request, error)
}

// Circuits has the circuits of endpoints.
type Circuits interface {
	// Circuit returns an endpoint's circuit.
	Circuit(ctx context.Context, id postrider.EndpointID) (postrider.Circuit, error)
}

// Routes serves deliveries, their attempts and dead letters.
type Routes struct {
	*rest.Shared

	Store     Store
	Letters   LetterStore
	Circuits  Circuits
	Describer Describer
}

// Register registers the routes of deliveries.
func (s *Routes) Register(rt *rest.Router) {
	read := postrider.ScopeWebhooksRead
	rest.Handle(rt, rest.Route{
		Name: "list-deliveries", Path: "GET /deliveries",
		Summary: "List deliveries",
		Scope:   read,
	}, s.listDeliveries)
	rest.Handle(rt, rest.Route{
		Name: "get-delivery", Path: "GET /deliveries/{delivery}",
		Summary: "Get a delivery",
		Scope:   read,
	}, s.getDelivery)
	rest.Handle(rt, rest.Route{
		Name: "list-attempts", Path: "GET /deliveries/{delivery}/attempts",
		Summary: "List a delivery's attempts, oldest first",
		Scope:   read,
	}, s.listAttempts)
	rest.Handle(rt, rest.Route{
		Name: "get-attempt-request", Path: "GET /deliveries/{delivery}/attempts/{attempt}/request",
		Summary:     "Get the request of an attempt, and what is signed of it",
		Description: "Signatures and credentials are masked. It is a conflict if the attempt made no request, or if the policy of the endpoint cannot be read.",
		Codes:       []string{"attempt_without_request", "request_unknown"},
		Scope:       read,
	}, s.getAttemptRequest)
	rest.Handle(rt, rest.Route{
		Name: "list-endpoint-deliveries", Path: "GET /endpoints/{endpoint}/deliveries",
		Summary: "List an endpoint's deliveries",
		Scope:   read,
	}, s.listEndpointDeliveries)
	rest.Handle(rt, rest.Route{
		Name: "list-event-deliveries", Path: "GET /events/{event}/deliveries",
		Summary: "List an event's deliveries",
		Scope:   read,
	}, s.listEventDeliveries)
	rest.Handle(rt, rest.Route{
		Name: "list-event-attempts", Path: "GET /events/{event}/attempts",
		Summary: "List the attempts of all deliveries of an event",
		Scope:   read,
	}, s.listEventAttempts)
	s.registerActions(rt)
	s.registerDeadLetters(rt)
}

// viewWaiting returns the reason why a delivery waits; null: the delivery does not wait.
func viewWaiting(w postrider.Waiting) *apitypes.Waiting {
	if w.Reason == "" {
		return nil
	}
	return &apitypes.Waiting{Reason: w.Reason, Until: render.TimeOrNull(w.Until), Delivery: render.OrNull(w.For)}
}

// nextAttempt returns the time of the next attempt; zero: the time is unknown. The time is in the
// past only for a delivery that is due. The stored time is not enough: a delivery whose time has
// passed is sent after the probe if the circuit of its endpoint is open, and at an unknown time if
// its endpoint is paused.
func nextAttempt(d postrider.Delivery) time.Time {
	if d.Waiting.Reason == postrider.WaitDue {
		return d.NextAttemptAt
	}
	return d.Waiting.Until
}

// viewDelivery returns a delivery in the form of a response. The creation time comes from the id.
func viewDelivery(d postrider.Delivery) apitypes.Delivery {
	return apitypes.Delivery{
		ID: d.ID, Event: d.Event, Endpoint: d.Endpoint, Account: d.Account, EventType: d.EventType, Test: postrider.IsTest(d.Event),
		Status: d.Status, Reason: render.OrNull(d.Reason), Attempts: d.Attempts, NextAttemptAt: render.TimeOrNull(nextAttempt(d)),
		Waiting: viewWaiting(d.Waiting), CreatedAt: render.Instant(d.ID.Time()), FinishedAt: render.TimeOrNull(d.FinishedAt),
		LastStatusCode: render.OrNull(d.LastStatusCode), LastError: render.OrNull(d.LastError), ReplayedFrom: render.OrNull(d.ReplayedFrom),
		ReplayJob: render.OrNull(d.ReplayJob),
	}
}

// viewAttempt returns an attempt in the form of a response. JSON text cannot hold a response body
// that is not UTF-8. Such a body is returned as base64 in another field.
func viewAttempt(a postrider.Attempt) apitypes.Attempt {
	view := apitypes.Attempt{
		Delivery: a.Delivery, Event: a.Event, Endpoint: a.Endpoint, Attempt: a.Number, Outcome: a.Outcome,
		StatusCode: render.OrNull(a.StatusCode), RetryAfterMS: render.OrNull(a.RetryAfter.Milliseconds()),
		StartedAt: render.Instant(a.StartedAt), DurationMS: a.Duration.Milliseconds(), Timing: viewTiming(a), Error: render.OrNull(a.Error),
		FinalURL: render.OrNull(a.FinalURL), RequestHead: render.OrNull(string(a.RequestHead)),
		ResponseHead: render.OrNull(string(a.ResponseHead)), Stale: a.Stale, StatusAfter: a.StatusAfter,
		NextAttemptAt: render.TimeOrNull(a.NextAt),
	}
	if text, ok := render.BodyText(a); ok {
		view.ResponseBody = render.OrNull(text)
	}
	if !utf8.Valid(a.ResponseBody) {
		view.ResponseBytes = a.ResponseBody
	}
	return view
}

// viewTiming returns the phases of an attempt's duration; null: they are unknown.
func viewTiming(a postrider.Attempt) *apitypes.Timing {
	t := a.Timing
	if t == (postrider.Timing{}) {
		return nil
	}
	return &apitypes.Timing{
		Reused: t.Reused, DNSUS: t.DNS.Microseconds(), ConnectUS: t.Connect.Microseconds(), TLSUS: t.TLS.Microseconds(),
		FirstByteUS: t.FirstByte.Microseconds(), RestUS: t.Rest(a.Duration).Microseconds(),
	}
}

// DeliveryPath names a delivery.
type DeliveryPath struct {
	Delivery string `path:"delivery"`
}

// endedCodes are the problem codes of the routes that need a pending delivery.
var endedCodes = []string{"delivery_delivered", "delivery_dead", "delivery_cancelled", "delivery_skipped"}

// replayCodes are the problem codes of the routes that replay one delivery. deadReplayCodes are
// those of the routes for a dead letter, which can never be delivery_pending.
var (
	replayCodes     = append([]string{"delivery_pending"}, deadReplayCodes...)
	deadReplayCodes = []string{"conflict", "dead_letter_discarded", "endpoint_deleted", "replay_pending", "gone"}
)

// replayDescription says what a replay sends, and how often a delivery can be replayed. All routes
// that replay one delivery have this description.
const replayDescription = "The receiver gets the event once more, with the same event id. It is a conflict while the last replay of the dead letter is pending, and once the dead letter is discarded. After the last replay has ended, however it ended, the dead letter can be replayed again."

// registerActions registers the routes that replay, cancel, retry and release deliveries.
func (s *Routes) registerActions(rt *rest.Router) {
	operate := postrider.ScopeWebhooksOperate
	rest.Handle(rt, rest.Route{
		Name: "replay-delivery", Path: "POST /deliveries/{delivery}/replay",
		Summary:     "Replay a delivery as a new delivery",
		Description: replayDescription,
		Codes:       replayCodes,
		Scope:       operate, Status: 202,
	}, s.replayDelivery)
	rest.Handle(rt, rest.Route{
		Name: "cancel-delivery", Path: "POST /deliveries/{delivery}/cancel",
		Summary: "Cancel a pending delivery",
		Codes:   endedCodes,
		Scope:   operate, Withdraws: true,
	}, s.cancelDelivery)
	rest.Handle(rt, rest.Route{
		Name: "retry-delivery", Path: "POST /deliveries/{delivery}/retry",
		Summary:     "Retry a waiting delivery now",
		Description: "The next attempt of a delivery that waits for its time is due now, as far as the circuit, the rate and the concurrency of its endpoint allow. Its place in the retry schedule stays. A delivery that has ended, that is being sent, or that waits for anything but its time is a conflict.",
		Codes:       append([]string{"delivery_not_waiting"}, endedCodes...),
		Scope:       operate,
	}, s.retryDelivery)
	rest.Handle(rt, rest.Route{
		Name: "release-delivery", Path: "POST /deliveries/{delivery}/release",
		Summary:     "Release a parked delivery",
		Description: "It is sent again, alone. A delivery is parked if it is suspected of killing servers, and five more died while it was the only suspect that was sent.",
		Codes:       []string{"delivery_not_parked"},
		Scope:       operate,
	}, s.releaseDelivery)
	rest.Handle(rt, rest.Route{
		Name: "replay-endpoint-delivery", Path: "POST /endpoints/{endpoint}/deliveries/{delivery}/replay",
		Summary:     "Replay a delivery of this endpoint as a new delivery",
		Description: replayDescription,
		Codes:       replayCodes,
		Scope:       operate, Status: 202,
	}, s.replayEndpointDelivery)
}

// DeliveryFilter has the query parameters that select deliveries.
type DeliveryFilter struct {
	Event     string `query:"event"`
	EventType string `query:"event_type"`
	Status    string `query:"status" enum:"pending,delivered,dead,cancelled,skipped"`
	ReplayJob string `query:"replay_job" doc:"Id of the replay job that made the deliveries, rpl_…"`
	rest.Span
	rest.Order
	rest.Paging
}

// of returns the store's query for the deliveries of an account. If endpoint is not zero, the query
// selects only the deliveries of that endpoint.
func (f DeliveryFilter) of(account postrider.AccountID, endpoint postrider.EndpointID) (store.DeliveryQuery, error) {
	event, err := rest.Filtered[postrider.EventID]("event", f.Event)
	job, jobErr := rest.Filtered[postrider.ReplayID]("replay_job", f.ReplayJob)
	err = errors.Join(err, jobErr, rest.CheckTypeFilter("event_type", f.EventType))
	return store.DeliveryQuery{
		Account: account, Endpoint: endpoint, Event: event, EventType: f.EventType, Status: postrider.Status(f.Status),
		ReplayJob: job, Span: f.Span.Of(), Paging: f.Page(f.Paging),
	}, err
}

// listDeliveries lists the deliveries that all given filters select. A key that is bound to an
// account lists only the deliveries of that account.
func (s *Routes) listDeliveries(ctx context.Context, in *struct {
	Account  string `query:"account" doc:"Id or uid of the account."`
	Endpoint string `query:"endpoint" doc:"Id of the endpoint. With the account, its uid works too."`
	DeliveryFilter
},
) (*rest.Reply[apitypes.Page[apitypes.Delivery]], error) {
	account, endpoint, err := s.Names.Scope(ctx, in.Account, in.Endpoint)
	if err != nil {
		return nil, err
	}
	query, err := in.of(account, endpoint)
	if err != nil {
		return nil, err
	}
	return rest.RespondPage(viewDelivery)(s.Store.Deliveries(ctx, query))
}

// listEndpointDeliveries lists the deliveries of an endpoint. The endpoint may be deleted.
func (s *Routes) listEndpointDeliveries(ctx context.Context, in *struct {
	rest.EndpointPath
	DeliveryFilter
},
) (*rest.Reply[apitypes.Page[apitypes.Delivery]], error) {
	e, err := s.Names.Endpoint(ctx, in.Endpoint)
	if err != nil {
		return nil, err
	}
	query, err := in.of(e.Account, e.ID)
	if err != nil {
		return nil, err
	}
	return rest.RespondPage(viewDelivery)(s.Store.Deliveries(ctx, query))
}

func (s *Routes) getDelivery(ctx context.Context, in *DeliveryPath) (*rest.Reply[apitypes.Delivery], error) {
	d, err := s.Names.Delivery(ctx, in.Delivery)
	if err != nil {
		return nil, err
	}
	x, err := s.explain(ctx, d)
	if err != nil {
		return nil, err
	}
	view := viewDelivery(d)
	view.Explanation = viewExplanation(x)
	return rest.Respond(view), nil
}

// explain explains the state of the delivery. It reads the endpoint and, depending on the state,
// the circuit, the last failure, the number of pending deliveries, or the resolution of the dead
// letter.
func (s *Routes) explain(ctx context.Context, d postrider.Delivery) (postrider.Explanation, error) {
	var f postrider.ExplainFacts
	var err error
	if f.Endpoint, err = store.First(s.Store.Endpoints(ctx, store.EndpointQuery{Account: d.Account, ID: d.Endpoint})); err != nil &&
		!errors.Is(err, postrider.ErrNotFound) {
		return postrider.Explanation{}, err
	}
	if waits := d.Waiting.Reason; waits == postrider.WaitDue || waits == postrider.WaitCircuitOpen {
		if f.Circuit, err = s.Circuits.Circuit(ctx, d.Endpoint); err != nil {
			return postrider.Explanation{}, err
		}
	}
	switch d.Waiting.Reason { //nolint:exhaustive // the other reasons need no further facts
	case postrider.WaitCircuitOpen:
		failures, err := s.Store.LastFailures(ctx, d.Endpoint)
		if err != nil {
			return postrider.Explanation{}, err
		}
		if len(failures) > 0 {
			f.Failure = failures[0]
		}
	case postrider.WaitDue:
		backlog, err := s.Store.Backlog(ctx, store.BacklogQuery{Account: d.Account, Endpoint: d.Endpoint})
		if err != nil {
			return postrider.Explanation{}, err
		}
		f.Pending = backlog.Pending
	}
	if d.Status == postrider.Dead {
		letter, err := store.First(s.Letters.DeadLetters(ctx, store.DeadLetterQuery{Account: d.Account, Delivery: d.ID, Resolved: true}))
		if err != nil && !errors.Is(err, postrider.ErrNotFound) {
			return postrider.Explanation{}, err
		}
		f.Resolution = letter.Resolution
	}
	return postrider.Explain(d, f), nil
}

// viewExplanation returns an explanation in the form of a response.
func viewExplanation(x postrider.Explanation) *apitypes.Explanation {
	return &apitypes.Explanation{
		Text: x.String(), Why: x.Why, Next: x.Next, At: render.TimeOrNull(x.At), Action: x.Action, Attempt: x.Attempt,
		Note: render.OrNull(x.Note), Failure: render.Failure(x.Failure), Others: render.OrNull(x.Others),
	}
}

// listAttempts lists the attempts of one delivery. For a delivery without attempts the list is
// empty. For an unknown delivery the response is a 404.
func (s *Routes) listAttempts(ctx context.Context, in *struct {
	DeliveryPath
	rest.Paging
},
) (*rest.Reply[apitypes.Page[apitypes.Attempt]], error) {
	d, err := s.Names.Delivery(ctx, in.Delivery)
	if err != nil {
		return nil, err
	}
	return rest.RespondPage(viewAttempt)(s.Store.Attempts(ctx, store.AttemptQuery{Account: d.Account, Delivery: d.ID, Paging: in.Paging.Of()}))
}

// replayDelivery replays a delivery that has ended with any status.
func (s *Routes) replayDelivery(ctx context.Context, in *DeliveryPath) (*rest.Reply[apitypes.Delivery], error) {
	d, err := s.Names.Delivery(ctx, in.Delivery)
	if err != nil {
		return nil, err
	}
	return rest.RespondWith(viewDelivery)(s.replay(ctx, d))
}

// replayEndpointDelivery is replayDelivery for a path that also names the endpoint. A delivery of
// another endpoint is reported as missing.
func (s *Routes) replayEndpointDelivery(ctx context.Context, in *struct {
	rest.EndpointPath
	DeliveryPath
},
) (*rest.Reply[apitypes.Delivery], error) {
	endpoint, err := s.Names.Endpoint(ctx, in.Endpoint)
	if err != nil {
		return nil, err
	}
	d, err := s.Names.Delivery(ctx, in.Delivery)
	if err != nil {
		return nil, err
	}
	if d.Endpoint != endpoint.ID {
		return nil, postrider.ErrNotFound
	}
	return rest.RespondWith(viewDelivery)(s.replay(ctx, d))
}

// replay creates a new delivery from an old one. The old delivery does not change, because history
// must not change. The new delivery has its own attempts and schedule, and expires by the
// endpoint's present policy. The store refuses a second replay while one is pending, so a person
// who clicks twice sends once.
func (s *Routes) replay(ctx context.Context, d postrider.Delivery) (postrider.Delivery, error) {
	e, err := store.First(s.Store.Endpoints(ctx, store.EndpointQuery{Account: d.Account, ID: d.Endpoint}))
	if err != nil {
		return postrider.Delivery{}, err
	}
	replay, err := s.Store.Replay(ctx, store.Replay{
		Account: d.Account, Delivery: d.ID, ID: store.NewID[postrider.DeliveryID](s.IDs),
		Expiry: e.Policy.Expiry, By: rest.InfoOf(ctx).Caller.Name,
	})
	if err != nil {
		return postrider.Delivery{}, s.whyNoReplay(ctx, d, err)
	}
	s.Effects.Notify(d.Endpoint)
	return replay, nil
}

// whyNoReplay returns the reason of a replay's conflict, in words for the client. It reads the
// delivery and the endpoint again, because they may have changed since the first read.
func (s *Routes) whyNoReplay(ctx context.Context, d postrider.Delivery, err error) error {
	if !errors.Is(err, postrider.ErrConflict) || errors.As(err, new(*store.ReplayPendingError)) {
		return err
	}
	if errors.Is(err, store.ErrDiscarded) {
		return rest.Conflict("dead_letter_discarded",
			"the dead letter was discarded, and stays so; publish the event again if its receiver needs it")
	}
	now, findErr := store.First(s.Store.Deliveries(ctx, store.DeliveryQuery{Account: d.Account, ID: d.ID}))
	if findErr == nil && now.Status == postrider.Pending {
		return rest.Conflict("delivery_pending", "the delivery is pending")
	}
	e, findErr := store.First(s.Store.Endpoints(ctx, store.EndpointQuery{Account: d.Account, ID: d.Endpoint}))
	if findErr == nil && e.Status == postrider.EndpointDeleted {
		return rest.Conflict("endpoint_deleted", "the endpoint is deleted")
	}
	return err
}

// retryDelivery makes the next attempt of a delivery due now. If the delivery does not wait for its
// retry time, the conflict names its status or explains what it waits for.
func (s *Routes) retryDelivery(ctx context.Context, in *DeliveryPath) (*rest.Reply[apitypes.Delivery], error) {
	d, err := s.Names.Delivery(ctx, in.Delivery)
	if err != nil {
		return nil, err
	}
	if d.Waiting.Reason == postrider.WaitScheduled {
		made, err := s.Store.MakeDue(ctx, store.MakeDue{Account: d.Account, Delivery: d.ID})
		if err == nil {
			s.Effects.Notify(d.Endpoint)
			return rest.Respond(viewDelivery(made)), nil
		}
		if !errors.Is(err, postrider.ErrConflict) {
			return nil, err
		}
		// The delivery has changed since the first read.
		if d, err = s.Names.Delivery(ctx, in.Delivery); err != nil {
			return nil, err
		}
	}
	if d.Status != postrider.Pending {
		return nil, rest.Conflict("delivery_"+string(d.Status), "the delivery is "+string(d.Status))
	}
	x, err := s.explain(ctx, d)
	if err != nil {
		return nil, err
	}
	return nil, rest.Conflict("delivery_not_waiting", "the delivery does not wait for its retry. "+x.String())
}

// releaseDelivery releases a parked delivery. For any other delivery the response is a conflict.
func (s *Routes) releaseDelivery(ctx context.Context, in *DeliveryPath) (*rest.Reply[apitypes.Delivery], error) {
	id, err := rest.ParseID[postrider.DeliveryID](in.Delivery)
	if err != nil {
		return nil, err
	}
	d, err := s.Store.MakeDue(ctx, store.MakeDue{Account: rest.InfoOf(ctx).Caller.Account, Delivery: id, Parked: true})
	if errors.Is(err, postrider.ErrConflict) {
		err = rest.Conflict("delivery_not_parked", "the delivery is not parked")
	}
	if err != nil {
		return nil, err
	}
	s.Effects.Notify(d.Endpoint)
	return rest.Respond(viewDelivery(d)), nil
}

// cancelDelivery cancels a pending delivery. For any other delivery the conflict names its status.
func (s *Routes) cancelDelivery(ctx context.Context, in *DeliveryPath) (*rest.Reply[apitypes.Delivery], error) {
	id, err := rest.ParseID[postrider.DeliveryID](in.Delivery)
	if err != nil {
		return nil, err
	}
	d, err := s.Store.Cancel(ctx, store.Cancel{Account: rest.InfoOf(ctx).Caller.Account, Delivery: id})
	if errors.Is(err, postrider.ErrConflict) {
		if d, err = s.Names.Delivery(ctx, in.Delivery); err == nil {
			err = rest.Conflict("delivery_"+string(d.Status), "the delivery is "+string(d.Status))
		}
	}
	if err != nil {
		return nil, err
	}
	s.Hooks.Ended.Call(observe.Ended{Status: postrider.Cancelled, Reason: postrider.ReasonCancelled, N: 1})
	s.Effects.Notify(d.Endpoint) // the next delivery of its ordering key may be due
	s.Effects.Await(ctx, postrider.Withdrawal{Endpoint: d.Endpoint, Delivery: d.ID})
	return rest.Respond(viewDelivery(d)), nil
}

// listEventDeliveries lists the deliveries of one event. It reads the event first, so that an
// unknown event is a 404 and not an empty list.
func (s *Routes) listEventDeliveries(ctx context.Context, in *struct {
	rest.EventPath
	rest.Order
	rest.Paging
},
) (*rest.Reply[apitypes.Page[apitypes.Delivery]], error) {
	e, err := s.Names.Event(ctx, in.Event)
	if err != nil {
		return nil, err
	}
	return rest.RespondPage(viewDelivery)(s.Store.Deliveries(ctx, store.DeliveryQuery{
		Account: e.Account, Event: e.ID, Paging: in.Page(in.Paging),
	}))
}

// listEventAttempts lists the attempts of all deliveries of one event.
func (s *Routes) listEventAttempts(ctx context.Context, in *struct {
	rest.EventPath
	rest.Paging
},
) (*rest.Reply[apitypes.Page[apitypes.Attempt]], error) {
	e, err := s.Names.Event(ctx, in.Event)
	if err != nil {
		return nil, err
	}
	return rest.RespondPage(viewAttempt)(s.Store.Attempts(ctx, store.AttemptQuery{Account: e.Account, Event: e.ID, Paging: in.Paging.Of()}))
}
