package rest

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/apikeys"
	"github.com/postrider/postrider/internal/cache"
	"github.com/postrider/postrider/internal/store"
)

// NameStore is the part of the store in which names are looked up.
type NameStore interface {
	// Accounts is the method of store.Access.
	Accounts(ctx context.Context, q store.AccountQuery) (store.Page[postrider.Account], error)
	// Endpoints is the method of store.Directory.
	Endpoints(ctx context.Context, q store.EndpointQuery) (store.Page[postrider.Endpoint], error)
	// Events is the method of store.Ledger.
	Events(ctx context.Context, q store.EventQuery) (store.Page[postrider.Event], error)
	// Deliveries is the method of store.Ledger.
	Deliveries(ctx context.Context, q store.DeliveryQuery) (store.Page[postrider.Delivery], error)
	// OutboxRows is the method of store.Sources.
	OutboxRows(ctx context.Context, rows []postrider.OutboxID) (map[postrider.OutboxID]postrider.EventID, error)
}

// Names finds the object that a request names by an id or a uid, if the caller may see the object.
// It notes the account and the endpoint of a request for the log and the audit log.
type Names struct {
	store NameStore
	// accounts caches the account of an id or a uid, for the duration apikeys.Fresh.
	accounts *cache.TTL[string, accountName]
}

// NewNames returns names with an empty cache over the store.
func NewNames(s NameStore) *Names {
	return &Names{store: s, accounts: cache.NewTTL[string, accountName](apikeys.Fresh)}
}

// Forget empties the cache. Handlers call it after they have changed an account. If its uid changed or
// it was deleted, all nodes call it.
func (s *Names) Forget() { s.accounts.Forget() }

// EndpointPath names an endpoint.
type EndpointPath struct {
	Endpoint string `path:"endpoint" doc:"Id of the endpoint, or its uid: the uid with a key that is bound to an account, otherwise ACCOUNT:UID with the id or the uid of its account."`
}

// EventPath names an event.
type EventPath struct {
	Event string `path:"event" doc:"Id of the event, or of the row of an outbox that it was read from."`
}

// ResolveAccount returns the account that a request is about. That is the account that name gives
// by id or uid or, if name is empty, the account of the caller's key. The zero id means all
// accounts. An account that the caller may not see is reported as missing. A deleted account is
// found by its id, because its history can still be read.
func (s *Names) ResolveAccount(ctx context.Context, name string) (postrider.AccountID, error) {
	account, err := s.resolveName(ctx, "account", name)
	return account.id, err
}

// ResolveLiveAccount is ResolveAccount for operations that deleted accounts do not support. It
// reports a deleted account as missing.
func (s *Names) ResolveLiveAccount(ctx context.Context, field, name string) (postrider.AccountID, error) {
	account, err := s.resolveName(ctx, field, name)
	if err == nil && account.deleted {
		return postrider.AccountID{}, Invalid(field, postrider.FaultNotFound, "names no account")
	}
	return account.id, err
}

// resolveName finds the account and notes its id in the request's info, for the log. An account
// that the key may not see gives the same error as a missing account, so a key cannot probe for
// other accounts.
func (s *Names) resolveName(ctx context.Context, field, name string) (accountName, error) {
	c := InfoOf(ctx)
	bound := c.Caller.Account
	if name == "" {
		c.Account = bound
		return accountName{id: bound}, nil
	}
	account, err := s.accountNamed(ctx, name)
	// An account of another key must look like a missing account. The cache is for all callers.
	if err == nil && !bound.IsZero() && account.id != bound {
		err = postrider.ErrNotFound
	}
	if errors.Is(err, postrider.ErrNotFound) {
		return accountName{}, Invalid(field, postrider.FaultNotFound, "names no account")
	}
	c.Account = account.id
	return account, err
}

// RequireAccount is ResolveLiveAccount for a request that must be about exactly
// one account.
func (s *Names) RequireAccount(ctx context.Context, field, name string) (postrider.AccountID, error) {
	id, err := s.ResolveLiveAccount(ctx, field, name)
	if err == nil && id.IsZero() {
		return id, Invalid(field, postrider.FaultRequired, "is required")
	}
	return id, err
}

// accountName is the cached account of an id or uid.
type accountName struct {
	id      postrider.AccountID
	deleted bool
}

// accountNamed returns the account of the name. The cache saves a query for each publish. Errors
// are not cached, and so a missing account is not either: a new account can be used at once.
func (s *Names) accountNamed(ctx context.Context, name string) (accountName, error) {
	now := time.Now()
	known, ok, epoch := s.accounts.Get(name, now)
	if ok {
		return known, nil
	}
	account, err := s.Account(ctx, name)
	if err != nil {
		return accountName{}, err
	}
	found := accountName{account.ID, !account.DeletedAt.IsZero()}
	s.accounts.Put(name, found, now, epoch)
	return found, nil
}

// Account returns the account with this id or uid if the caller may see it. It notes the account for
// the log and the audit log, unless the request is about another one: a search may read many.
func (s *Names) Account(ctx context.Context, name string) (postrider.Account, error) {
	query := store.AccountQuery{UID: name}
	if id, err := postrider.ParseID[postrider.AccountID](name); err == nil && !id.IsZero() {
		query = store.AccountQuery{ID: id}
	}
	if name == "" { // the query would have no filter
		return postrider.Account{}, postrider.ErrNotFound
	}
	account, err := store.First(s.store.Accounts(ctx, query))
	c := InfoOf(ctx)
	if bound := c.Caller.Account; err == nil && !bound.IsZero() && account.ID != bound {
		return postrider.Account{}, postrider.ErrNotFound
	}
	c.Account = cmp.Or(c.Account, account.ID)
	return account, err
}

// Scope resolves the account and the endpoint of a filter. Both must exist and be visible to the
// caller. Otherwise the error is a fault of the parameter.
func (s *Names) Scope(ctx context.Context, account, endpoint string) (postrider.AccountID, postrider.EndpointID, error) {
	accountID, err := s.ResolveAccount(ctx, account)
	if err != nil || endpoint == "" {
		return accountID, postrider.EndpointID{}, err
	}
	found, err := s.endpointOf(ctx, accountID, endpoint)
	if errors.Is(err, postrider.ErrNotFound) {
		err = Invalid("endpoint", postrider.FaultNotFound, "names nothing")
	}
	return accountID, found.ID, err
}

// Endpoint returns the endpoint if the caller may see it, even if the endpoint is deleted. It notes
// the endpoint for the log and the audit log.
func (s *Names) Endpoint(ctx context.Context, text string) (postrider.Endpoint, error) {
	c := InfoOf(ctx)
	e, err := s.endpointOf(ctx, c.Caller.Account, text)
	c.endpoint, c.Account = e.ID, cmp.Or(c.Account, e.Account)
	return e, err
}

// endpointOf returns the endpoint with this id or uid. A uid is unique only within an account. So
// if account is zero, the name must be an id or ACCOUNT:UID.
func (s *Names) endpointOf(ctx context.Context, account postrider.AccountID, name string) (postrider.Endpoint, error) {
	if id, err := ParseID[postrider.EndpointID](name); err == nil {
		return store.First(s.store.Endpoints(ctx, store.EndpointQuery{Account: account, ID: id}))
	}
	account, uid, err := s.endpointUID(ctx, account, name)
	if err != nil {
		return postrider.Endpoint{}, err
	}
	return store.First(s.store.Endpoints(ctx, store.EndpointQuery{Account: account, UID: uid}))
}

// endpointUID returns the account and the uid of a name that is no id.
func (s *Names) endpointUID(ctx context.Context, account postrider.AccountID, name string) (postrider.AccountID, string, error) {
	if account.IsZero() {
		of, uid, _ := strings.Cut(name, ":")
		named, err := s.accountNamed(ctx, of)
		if err != nil {
			return account, "", err
		}
		account, name = named.id, uid
	}
	if name == "" { // the query would have no filter
		return account, "", postrider.ErrNotFound
	}
	return account, name, nil
}

// EndpointToCreate returns the account and the uid that an endpoint with this name would have. An id
// names no endpoint that can be created.
func (s *Names) EndpointToCreate(ctx context.Context, text string) (postrider.AccountID, string, error) {
	if _, err := ParseID[postrider.EndpointID](text); err == nil {
		return postrider.AccountID{}, "", postrider.ErrNotFound
	}
	return s.endpointUID(ctx, InfoOf(ctx).Caller.Account, text)
}

// ReadableEndpoint is ChangeableEndpoint for operations that need the endpoint's policy.
func (s *Names) ReadableEndpoint(ctx context.Context, text string) (postrider.Endpoint, error) {
	e, err := s.ChangeableEndpoint(ctx, text)
	if err == nil && e.PolicyError != "" {
		return e, Conflict("endpoint_set_aside", "the endpoint is set aside until its policy is set again: "+e.PolicyError)
	}
	return e, err
}

// ChangeableEndpoint is Endpoint for operations that deleted endpoints do not support. For a
// deleted endpoint it returns a conflict and not a 404, because a GET finds the endpoint.
func (s *Names) ChangeableEndpoint(ctx context.Context, text string) (postrider.Endpoint, error) {
	e, err := s.Endpoint(ctx, text)
	if err == nil && e.Status == postrider.EndpointDeleted {
		return e, ErrDeleted
	}
	return e, err
}

// ErrDeleted is the response to operations on a deleted endpoint.
var ErrDeleted = Conflict("endpoint_deleted", "the endpoint is deleted")

// LiveEndpoint is Endpoint for reading the secrets, the circuit or the ordering keys of an
// endpoint. A deleted endpoint has none of these, so it is reported as missing.
func (s *Names) LiveEndpoint(ctx context.Context, text string) (postrider.Endpoint, error) {
	e, err := s.Endpoint(ctx, text)
	if err == nil && e.Status == postrider.EndpointDeleted {
		return e, postrider.ErrNotFound
	}
	return e, err
}

// EndpointOf returns the endpoint of the account that has this id or uid. A deleted one is reported as
// missing.
func (s *Names) EndpointOf(ctx context.Context, account postrider.AccountID, name string) (postrider.EndpointID, error) {
	e, err := s.endpointOf(ctx, account, name)
	if err == nil && e.Status == postrider.EndpointDeleted {
		return postrider.EndpointID{}, postrider.ErrNotFound
	}
	return e.ID, err
}

// Event returns the event with the id, or the one that was read from the outbox row with the id, if the
// caller may see it. If retention has deleted the event, but a delivery of the event is still stored, it
// returns the event of GoneEvent, which has no data.
func (s *Names) Event(ctx context.Context, text string) (postrider.Event, error) {
	id, err := s.eventID(ctx, text)
	if err != nil {
		return postrider.Event{}, err
	}
	c := InfoOf(ctx)
	e, err := store.First(s.store.Events(ctx, store.EventQuery{Account: c.Caller.Account, ID: id}))
	if errors.Is(err, postrider.ErrNotFound) {
		d, err := store.First(s.store.Deliveries(ctx, store.DeliveryQuery{Account: c.Caller.Account, Event: id, Paging: store.Paging{Limit: 1}}))
		c.Account = cmp.Or(c.Account, d.Account)
		return GoneEvent(d), err
	}
	c.Account = cmp.Or(c.Account, e.Account)
	return e, err
}

// eventID returns the id of the event that the text names.
func (s *Names) eventID(ctx context.Context, text string) (postrider.EventID, error) {
	row, err := ParseID[postrider.OutboxID](text)
	if err != nil {
		return ParseID[postrider.EventID](text)
	}
	events, err := s.store.OutboxRows(ctx, []postrider.OutboxID{row})
	id, known := events[row]
	if err == nil && !known {
		err = postrider.ErrNotFound
	}
	return id, err
}

// GoneEvent returns the fields of a deleted event that one of its deliveries has.
func GoneEvent(d postrider.Delivery) postrider.Event {
	return postrider.Event{ID: d.Event, Account: d.Account, Type: d.EventType, CreatedAt: d.Event.Time()}
}

// Delivery returns the delivery if the caller may see it.
func (s *Names) Delivery(ctx context.Context, text string) (postrider.Delivery, error) {
	id, err := ParseID[postrider.DeliveryID](text)
	if err != nil {
		return postrider.Delivery{}, err
	}
	return store.First(s.store.Deliveries(ctx, store.DeliveryQuery{Account: InfoOf(ctx).Caller.Account, ID: id}))
}
