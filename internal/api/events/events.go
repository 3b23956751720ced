// Package events is the part of the API that publishes and reads events. A 2xx for a publish means
// that the events are stored. A 4xx means that nothing is stored.
package events

import (
	"context"
	"errors"
	"slices"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/api/render"
	"github.com/postrider/postrider/internal/api/rest"
	"github.com/postrider/postrider/internal/store"
)

// Store is the part of the store that this package reads and changes.
type Store interface {
	// Events is the method of store.Ledger.
	Events(ctx context.Context, q store.EventQuery) (store.Page[postrider.Event], error)
	// Deliveries is the method of store.Ledger.
	Deliveries(ctx context.Context, q store.DeliveryQuery) (store.Page[postrider.Delivery], error)
	// Subscription is the method of store.Directory.
	Subscription(ctx context.Context, q store.SubscriptionQuery) (postrider.SubscriptionRevision, error)
}

// Publisher stores published events and assigns their ids. When a method
// returns without an error, the events are stored durably.
type Publisher interface {
	// Publish stores all of the events or none. It returns a *postrider.KeyTakenError if an
	// idempotency key was used for other content, a *postrider.OverloadError if events arrive
	// faster than they can be delivered, and a *postrider.QuotaError if a quota of an account is
	// used up.
	Publish(ctx context.Context, events []postrider.Event) ([]postrider.Receipt, error)
}

// Routes publishes and reads events.
type Routes struct {
	*rest.Shared

	Store     Store
	Publisher Publisher
	Comparer  *Comparer
	Rows      Rows
	// MaxData is the largest data of one event, in bytes. MaxBatch is the largest body of a batch,
	// in bytes.
	MaxData  int
	MaxBatch int64

	// read reads a page of many; see [rest.Router.Read].
	read func(ctx context.Context, part func(ctx context.Context) error) error
	// running are the comparisons with stored events that are under way.
	running running
}

// Register registers the routes that read and publish events.
func (s *Routes) Register(rt *rest.Router) {
	read := postrider.ScopeWebhooksRead
	rest.Handle(rt, rest.Route{
		Name: "list-events", Path: "GET /events",
		Summary: "List events",
		Scope:   read, SearchesData: true,
	}, s.listEvents)
	rest.Handle(rt, rest.Route{
		Name: "get-event", Path: "GET /events/{event}",
		Summary:     "Get an event with its data",
		Description: "The id is that of the event or, if it was read from an outbox, that of its row, obx_….",
		Codes:       rest.RowCodes,
		Scope:       read,
	}, s.getEvent)
	rest.Handle(rt, rest.Route{
		Name: "explain-event", Path: "GET /events/{event}/explain",
		Summary: "Explain why an endpoint got an event or not",
		Description: "The answer is about the event types, filter, channels and changed that the endpoint had when the event was published, and says whether " +
			"the present ones select the event. A test and a replay ask none of them, and neither does an event that names its endpoints. " +
			"After the data of the event was deleted, the response is a 410.",
		Scope: read,
	}, s.explainEvent)
	s.registerPublishing(rt)
	s.registerTries(rt)
}

// viewFor returns the function that turns events into the form of a response. If the caller is bound to
// an account, Internal is left out.
func viewFor(ctx context.Context) func(postrider.Event) apitypes.Event {
	bound := !rest.InfoOf(ctx).Caller.Account.IsZero()
	return func(e postrider.Event) apitypes.Event {
		if bound {
			e.About.Internal = nil
		}
		data, encoding := e.JSONData()
		return apitypes.Event{
			About: apitypes.About(e.About),
			ID:    e.ID, Account: e.Account, Type: e.Type, APIVersion: render.OrNull(e.APIVersion),
			OrderingKey: render.OrNull(e.OrderingKey), Sequence: render.OrNull(e.Sequence), IdempotencyKey: render.OrNull(e.IdempotencyKey),
			Hops: e.Hops, MaxAttempts: render.OrNull(e.MaxAttempts), TraceID: e.Trace().String(), Test: postrider.IsTest(e.ID),
			CreatedAt: render.Instant(e.CreatedAt), Endpoints: e.Endpoints, Data: data, DataEncoding: encoding,
			OccurredAt: render.TimeOrNull(e.OccurredAt), OutboxID: render.OrNull(e.Row),
		}
	}
}

// listEvents lists the events that all given filters select. Idempotency keys and ordering keys are
// unique only within an account, so these filters need an account.
func (s *Routes) listEvents(ctx context.Context, in *struct {
	Account        string `query:"account" doc:"Id or uid of the account."`
	Type           string `query:"type"`
	IdempotencyKey string `query:"idempotency_key" maxLength:"256" doc:"Only the event that was published with this idempotency key, while the key is remembered. It needs the account."`
	OrderingKey    string `query:"ordering_key" maxLength:"256" doc:"Only events with this ordering key. It needs the account."`
	Where          string `query:"where" maxLength:"513" doc:"Only events that have a value at a path of their data, such as $.order.number=42. It needs the account, and an event type that names the path; see the paths of event types. The other filters select among these events, so a page may have fewer events than its limit while there is a next_cursor. Events of the archive are not found. The search is audited, with the path and without the value."`
	rest.Span
	rest.Order
	rest.Paging
},
) (*rest.Reply[apitypes.Page[apitypes.Event]], error) {
	account, err := s.Names.ResolveAccount(ctx, in.Account)
	if err := errors.Join(err, rest.CheckTypeFilter("type", in.Type)); err != nil {
		return nil, err
	}
	if in.IdempotencyKey != "" && account.IsZero() {
		return nil, rest.Invalid("account", postrider.FaultRequired, "is required with idempotency_key")
	}
	if in.OrderingKey != "" && account.IsZero() {
		return nil, rest.Invalid("account", postrider.FaultRequired, "is required with ordering_key")
	}
	q := store.EventQuery{
		Account: account, Type: in.Type, IdempotencyKey: in.IdempotencyKey, OrderingKey: in.OrderingKey,
		Span: in.Span.Of(), Paging: in.Page(in.Paging),
	}
	if in.Where != "" {
		return s.listWhere(ctx, in.Where, q)
	}
	return rest.RespondPage(viewFor(ctx))(s.Store.Events(ctx, q))
}

// listWhere lists the events with a value in their data that the query selects too.
func (s *Routes) listWhere(ctx context.Context, where string, q store.EventQuery) (*rest.Reply[apitypes.Page[apitypes.Event]], error) {
	if q.Account.IsZero() {
		return nil, rest.Invalid("account", postrider.FaultRequired, "is required with where")
	}
	path, value, err := s.Values.Where(ctx, where, q.Type)
	if err != nil {
		return nil, err
	}
	page, err := s.Values.Events(ctx, rest.ValueQuery{
		Account: q.Account, Paths: []postrider.Path{path}, Value: value, Span: q.Span, Paging: q.Paging,
	})
	page.Items = slices.DeleteFunc(page.Items, func(e postrider.Event) bool {
		return q.Type != "" && e.Type != q.Type || q.OrderingKey != "" && e.OrderingKey != q.OrderingKey ||
			q.IdempotencyKey != "" && e.IdempotencyKey != q.IdempotencyKey
	})
	return rest.RespondPage(viewFor(ctx))(page, err)
}

// getEvent returns one event and its data. If the path names a row of an outbox that is not published, the
// response says where the row is.
func (s *Routes) getEvent(ctx context.Context, in *rest.EventPath) (*rest.Reply[apitypes.Event], error) {
	return rest.RespondWith(viewFor(ctx))(s.Find(ctx, in.Event))
}

// Find returns the event with the id, or the one that was read from the row of an outbox with the id. If the
// row is not published, the error says where it is.
func (s *Routes) Find(ctx context.Context, id string) (postrider.Event, error) {
	e, err := s.Names.Event(ctx, id)
	if row, other := rest.ParseID[postrider.OutboxID](id); other == nil && errors.Is(err, postrider.ErrNotFound) {
		err = s.Rows.Unpublished(ctx, row)
	}
	return e, err
}
