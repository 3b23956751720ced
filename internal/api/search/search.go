// Package search is the part of the API that finds objects by an id, a key, a part of a name, or a value in
// the data of an event. It returns only objects that the caller may see.
package search

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/api/render"
	"github.com/postrider/postrider/internal/api/rest"
	"github.com/postrider/postrider/internal/store"
)

// Store is the part of the store that this package reads and changes.
type Store interface {
	// Find is the method of store.Finder.
	Find(ctx context.Context, q store.FindQuery) ([]store.Found, error)
	// EventTypes is the method of store.Catalogue.
	EventTypes(ctx context.Context, q store.EventTypeQuery) (store.Page[postrider.EventType], error)
	// ReplayJobs is the method of store.Replays.
	ReplayJobs(ctx context.Context, q store.ReplayJobQuery) (store.Page[postrider.ReplayJob], error)
	// Keys is the method of store.Access.
	Keys(ctx context.Context, q store.KeyQuery) (store.Page[postrider.APIKey], error)
	// Accounts is the method of store.Access.
	Accounts(ctx context.Context, q store.AccountQuery) (store.Page[postrider.Account], error)
}

// Routes finds objects.
type Routes struct {
	*rest.Shared

	Store  Store
	Events Events
}

// Events finds events.
type Events interface {
	// Find returns the event with the id, or the one that was read from the row of an outbox with the id. If
	// the row is not published, the error is a [rest.Error] that says where it is.
	Find(ctx context.Context, id string) (postrider.Event, error)
}

// Register registers the search route.
func (s *Routes) Register(rt *rest.Router) {
	rest.Handle(rt, rest.Route{
		Name: "search", Path: "GET /search",
		Summary:     "Find objects by an id, a key or a part of a name",
		Description: "It finds objects by their id; events by the id of the row of an outbox that they were read from; endpoints by the id of a secret, events by an idempotency key that is remembered, the newest event of an ordering key; and accounts, endpoints and event types by the beginning of a word of their name, uid, description or host; endpoints by a part of the path of their URL that begins with a segment, such as hooks/orders. At most 20 hits: ids, keys and whole uids of accounts first, then accounts, event types and endpoints, each newest first. Of one account it also finds events by whole values in their data, at the paths that event types name; value_paths has the paths that were searched. Such a search is audited. The id of a row that is not published gives the response of `GET /events/{event}`.",
		Codes:       rest.RowCodes,
		Scope:       postrider.ScopeWebhooksRead, SearchesData: true,
	}, s.listHits)
}

const (
	// maxHits is the largest number of hits of a search.
	maxHits = 20
	// maxPaths is the largest number of paths at which values are looked for. Each costs the store a
	// walk of an index.
	maxPaths = 50
)

// listHits searches for a text. If the text is an id, it names one object, and listHits searches no
// further.
func (s *Routes) listHits(ctx context.Context, in *struct {
	Q       string `query:"q" required:"true" maxLength:"2048" doc:"What to look for."`
	Account string `query:"account" doc:"Id or uid of the account to search. Values in the data of events are searched in one account only."`
},
) (*rest.Reply[apitypes.SearchHits], error) {
	text := strings.TrimSpace(in.Q)
	if text == "" {
		return nil, rest.Invalid("q", postrider.FaultRequired, "must not be empty")
	}
	account, err := s.Names.ResolveAccount(ctx, in.Account)
	if err != nil {
		return nil, err
	}
	hit, err := s.hitOfID(ctx, text)
	switch {
	case err == nil:
		return rest.Respond(apitypes.SearchHits{Data: []apitypes.SearchHit{hit}, Total: 1, ValuePaths: []string{}}), nil
	case !errors.Is(err, postrider.ErrNotFound):
		return nil, err
	}
	if _, row := errors.AsType[*rest.Error](err); row {
		return nil, err
	}
	hits, err := s.hitsOfText(ctx, account, text)
	if err != nil {
		return nil, err
	}
	return rest.Respond(hits), nil
}

// hitOfID finds the object with the id. The functions that it calls check that the caller may see
// the object.
func (s *Routes) hitOfID(ctx context.Context, id string) (apitypes.SearchHit, error) {
	prefix, _, _ := strings.Cut(id, "_")
	switch prefix {
	case "acc":
		return hitWith(accountHit("id"))(s.Names.Account(ctx, id))
	case "evt", "obx":
		return hitWith(eventHit("id"))(s.Events.Find(ctx, id))
	case "ep":
		return hitWith(endpointHit("id"))(s.Names.Endpoint(ctx, id))
	case "dlv":
		return hitWith(deliveryHit)(s.Names.Delivery(ctx, id))
	case "rpl":
		job, err := rest.ParseID[postrider.ReplayID](id)
		if err != nil {
			return apitypes.SearchHit{}, err
		}
		return hitWith(replayHit)(store.First(s.Store.ReplayJobs(ctx, store.ReplayJobQuery{Account: rest.InfoOf(ctx).Caller.Account, ID: job})))
	case "key":
		key, err := rest.ParseID[postrider.KeyID](id)
		if err == nil && rest.InfoOf(ctx).Caller.Allows(postrider.ScopeAdmin) {
			return hitWith(keyHit)(store.First(s.Store.Keys(ctx, store.KeyQuery{ID: key})))
		}
	}
	return apitypes.SearchHit{}, postrider.ErrNotFound
}

// hitWith is [rest.RespondWith] for a search hit.
func hitWith[V any](view func(V) apitypes.SearchHit) func(V, error) (apitypes.SearchHit, error) {
	return func(v V, err error) (apitypes.SearchHit, error) {
		if err != nil {
			return apitypes.SearchHit{}, err
		}
		return view(v), nil
	}
}

func accountHit(by string) func(postrider.Account) apitypes.SearchHit {
	return func(a postrider.Account) apitypes.SearchHit {
		return apitypes.SearchHit{
			Kind: "account", ID: a.ID.String(), Account: &a.ID, Title: cmp.Or(a.Name, a.UID), MatchedBy: by, CreatedAt: render.Instant(a.CreatedAt),
		}
	}
}

func endpointHit(by string) func(postrider.Endpoint) apitypes.SearchHit {
	return func(e postrider.Endpoint) apitypes.SearchHit {
		return apitypes.SearchHit{
			Kind: "endpoint", ID: e.ID.String(), Account: &e.Account, Title: e.TargetURL(), MatchedBy: by, CreatedAt: render.Instant(e.CreatedAt),
		}
	}
}

func eventHit(by string) func(postrider.Event) apitypes.SearchHit {
	return func(e postrider.Event) apitypes.SearchHit {
		return apitypes.SearchHit{
			Kind: "event", ID: e.ID.String(), Account: &e.Account, Title: e.Type, MatchedBy: by, CreatedAt: render.Instant(e.CreatedAt),
		}
	}
}

func deliveryHit(d postrider.Delivery) apitypes.SearchHit {
	return apitypes.SearchHit{
		Kind: "delivery", ID: d.ID.String(), Account: &d.Account, Title: d.EventType, MatchedBy: "id", CreatedAt: render.Instant(d.ID.Time()),
	}
}

func replayHit(r postrider.ReplayJob) apitypes.SearchHit {
	return apitypes.SearchHit{
		Kind: "replay", ID: r.ID.String(), Account: render.OrNull(r.Filter.Account), Title: string(r.Action), MatchedBy: "id",
		CreatedAt: render.Instant(r.CreatedAt),
	}
}

func keyHit(k postrider.APIKey) apitypes.SearchHit {
	return apitypes.SearchHit{
		Kind: "api_key", ID: k.ID.String(), Account: render.OrNull(k.Account), Title: k.Name, MatchedBy: "id",
		CreatedAt: render.Instant(k.CreatedAt),
	}
}

// foundBy has the name of each [store.FoundBy] in responses.
var foundBy = map[store.FoundBy]string{
	store.FoundBySecret: "secret", store.FoundByIdempotencyKey: "idempotency_key",
	store.FoundByOrderingKey: "ordering_key", store.FoundByName: "name",
}

// hitsOfText finds objects by texts other than their own id. The order is: objects found by a key
// or by the id of a secret, events found by a value, the account whose uid is the text, other accounts,
// event types, endpoints. Accounts come before endpoints, because many endpoints may have a customer's name in
// their URL.
func (s *Routes) hitsOfText(ctx context.Context, account postrider.AccountID, text string) (apitypes.SearchHits, error) {
	hits := apitypes.SearchHits{Data: []apitypes.SearchHit{}, ValuePaths: []string{}}
	secret, err := postrider.ParseID[postrider.SecretID](text)
	if err != nil {
		secret = postrider.SecretID{}
	}
	found, err := s.Store.Find(ctx, store.FindQuery{Account: account, Text: text, Secret: secret, Limit: store.MaxLimit})
	if err != nil {
		return hits, err
	}
	paths, err := s.findPaths(ctx, store.FindQuery{Account: account, Text: "/" + text, Limit: store.MaxLimit}, found)
	if err != nil {
		return hits, err
	}
	types, err := s.typesLike(ctx, text)
	if err != nil {
		return hits, err
	}
	var keys, accounts, endpoints []store.Found
	for _, f := range append(found, paths...) {
		switch {
		case f.By != store.FoundByName:
			keys = append(keys, f)
		case f.Endpoint.IsZero():
			accounts = append(accounts, f)
		default:
			endpoints = append(endpoints, f)
		}
	}
	hits.Total = len(found) + len(paths) + len(types)
	if hits.Data, err = s.hitsOf(ctx, keys); err != nil {
		return hits, err
	}
	values, err := s.valuesOf(ctx, account, text, &hits)
	if err != nil {
		return hits, err
	}
	named, err := s.hitsOf(ctx, accounts[:min(len(accounts), maxHits)])
	if err != nil {
		return hits, err
	}
	if named, err = s.exactFirst(ctx, account, text, named); err != nil {
		return hits, err
	}
	rest, err := s.hitsOf(ctx, endpoints[:min(len(endpoints), maxHits)])
	if err != nil {
		return hits, err
	}
	hits.Data = append(hits.Data, divide(maxHits-len(hits.Data), values, named, types, rest)...)
	return hits, nil
}

// valuesOf finds the newest events of the account that have the text as a value at one of the first
// maxPaths paths, unless hits has them. It adds the paths and the number of the events to hits.
func (s *Routes) valuesOf(
	ctx context.Context, account postrider.AccountID, text string, hits *apitypes.SearchHits,
) (values []apitypes.SearchHit, err error) {
	if account.IsZero() {
		return nil, nil
	}
	paths, err := s.Values.Paths(ctx, "")
	if err != nil || len(paths) == 0 {
		return nil, err
	}
	paths = paths[:min(len(paths), maxPaths)]
	for _, p := range paths {
		hits.ValuePaths = append(hits.ValuePaths, p.Text)
	}
	page, err := s.Values.Events(ctx, rest.ValueQuery{Account: account, Paths: paths, Value: text, Paging: store.Paging{Limit: maxHits}})
	for _, e := range page.Items {
		if !slices.ContainsFunc(hits.Data, func(h apitypes.SearchHit) bool { return h.ID == e.ID.String() }) {
			values = append(values, eventHit("value")(e))
		}
	}
	hits.Total += len(values)
	return values, err
}

// exactFirst moves the account whose uid is the text to the front of the accounts.
func (s *Routes) exactFirst(
	ctx context.Context, of postrider.AccountID, text string, accounts []apitypes.SearchHit,
) ([]apitypes.SearchHit, error) {
	exact, err := store.First(s.Store.Accounts(ctx, store.AccountQuery{UID: text}))
	if errors.Is(err, postrider.ErrNotFound) || err == nil && !of.IsZero() && exact.ID != of {
		return accounts, nil
	}
	if err != nil {
		return nil, err
	}
	accounts = slices.DeleteFunc(accounts, func(h apitypes.SearchHit) bool { return h.ID == exact.ID.String() })
	return slices.Insert(accounts, 0, accountHit("uid")(exact)), nil
}

// divide returns at most n hits of several kinds. If there are more hits, each kind gets an equal
// share of n, and the room that a kind does not need goes to the others.
func divide(n int, kinds ...[]apitypes.SearchHit) (hits []apitypes.SearchHit) {
	n = max(n, 0)
	taken := make([]int, len(kinds))
	for range n {
		least := -1
		for i, kind := range kinds {
			if taken[i] < len(kind) && (least < 0 || taken[i] < taken[least]) {
				least = i
			}
		}
		if least < 0 {
			break
		}
		taken[least]++
	}
	for i, kind := range kinds {
		hits = append(hits, kind[:taken[i]]...)
	}
	return hits
}

// hitsOf reads the objects that the store found. It leaves out objects whose partition has been
// dropped.
func (s *Routes) hitsOf(ctx context.Context, found []store.Found) ([]apitypes.SearchHit, error) {
	hits := []apitypes.SearchHit{}
	for _, f := range found[:min(len(found), maxHits)] {
		hit, err := s.hitOf(ctx, f)
		if errors.Is(err, postrider.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		hits = append(hits, hit)
	}
	return hits, nil
}

// findPaths finds the endpoints that have the text of q, which is a slash and the text of the search, in
// their URL path. It leaves out the endpoints in found. If the text itself begins with a slash, the store
// has already searched for it as a path.
func (s *Routes) findPaths(ctx context.Context, q store.FindQuery, found []store.Found) ([]store.Found, error) {
	if strings.HasPrefix(q.Text, "//") || strings.Contains(q.Text, "://") {
		return nil, nil
	}
	paths, err := s.Store.Find(ctx, q)
	return slices.DeleteFunc(paths, func(f store.Found) bool { return f.By != store.FoundByName || slices.Contains(found, f) }), err
}

// hitOf reads one object that the store found.
func (s *Routes) hitOf(ctx context.Context, f store.Found) (apitypes.SearchHit, error) {
	switch by := foundBy[f.By]; {
	case !f.Event.IsZero():
		return hitWith(eventHit(by))(s.Names.Event(ctx, f.Event.String()))
	case !f.Endpoint.IsZero():
		return hitWith(endpointHit(by))(s.Names.Endpoint(ctx, f.Endpoint.String()))
	default:
		return hitWith(accountHit(by))(s.Names.Account(ctx, f.Account.String()))
	}
}

// typesLike finds the event types of the catalogue that begin with the text. The list of event
// types is sorted by name, so these types directly follow the text in the list.
func (s *Routes) typesLike(ctx context.Context, text string) (hits []apitypes.SearchHit, err error) {
	if len(text) > 128 {
		return nil, nil
	}
	exact, err := s.Store.EventTypes(ctx, store.EventTypeQuery{Name: text})
	if err != nil {
		return nil, err
	}
	behind, err := s.Store.EventTypes(ctx, store.EventTypeQuery{Paging: store.Paging{Cursor: store.EncodeCursor(text), Limit: maxHits}})
	for _, t := range append(exact.Items, behind.Items...) {
		if strings.HasPrefix(t.Name, text) {
			hits = append(hits, apitypes.SearchHit{
				Kind: "event_type", ID: t.Name, Title: t.Name, MatchedBy: "name", CreatedAt: render.Instant(t.CreatedAt),
			})
		}
	}
	return hits, err
}
