// Package keys is the part of the API that creates, lists and revokes API keys. Only the response
// to the creation has the text of a key. A revoked key stops working on this node before the
// response to the revocation.
package keys

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/api/render"
	"github.com/postrider/postrider/internal/api/rest"
	"github.com/postrider/postrider/internal/apikeys"
	"github.com/postrider/postrider/internal/store"
)

// Store is the part of the store that this package reads and changes.
type Store interface {
	// Keys is the method of store.Access.
	Keys(ctx context.Context, q store.KeyQuery) (store.Page[postrider.APIKey], error)
	// PutKey is the method of store.Access.
	PutKey(ctx context.Context, k postrider.APIKey) error
	// RevokeKey is the method of store.Access.
	RevokeKey(ctx context.Context, key postrider.KeyID) error
	// Now returns the store's time, read from the store itself.
	Now(ctx context.Context) (time.Time, error)
}

// Routes serves API keys.
type Routes struct {
	*rest.Shared

	Store Store
	// Forget empties this node's caches of keys and sessions, so that the node no longer accepts
	// those that ended.
	Forget func()
}

// Register registers the routes of API keys. All routes need the scope admin.
func (s *Routes) Register(rt *rest.Router) {
	admin := postrider.ScopeAdmin
	rest.HandleBody(rt, rest.Route{
		Name: "create-api-key", Path: "POST /api-keys",
		Summary: "Create an API key",
		Scope:   admin, Status: 201,
	}, s.createKey)
	rest.Handle(rt, rest.Route{
		Name: "list-api-keys", Path: "GET /api-keys",
		Summary: "List API keys, newest first",
		Scope:   admin,
	}, s.listKeys)
	rest.Handle(rt, rest.Route{
		Name: "get-api-key", Path: "GET /api-keys/{key}",
		Summary: "Get an API key",
		Scope:   admin,
	}, s.getKey)
	rest.Handle(rt, rest.Route{
		Name: "revoke-api-key", Path: "DELETE /api-keys/{key}",
		Summary: "Revoke an API key",
		Scope:   admin, Status: 204,
	}, s.revokeKey)
}

// viewKey returns an API key without its text, in the form of a response. Without scopes the list
// is empty, not null.
func viewKey(k postrider.APIKey) apitypes.Key {
	return apitypes.Key{
		ID: k.ID, Name: k.Name, Scopes: append([]postrider.Scope{}, k.Scopes...), Account: render.OrNull(k.Account),
		CreatedAt: render.Instant(k.CreatedAt), ExpiresAt: render.TimeOrNull(k.ExpiresAt), RevokedAt: render.TimeOrNull(k.RevokedAt),
		LastUsedAt: render.TimeOrNull(k.LastUsedAt),
	}
}

// keyPath has the path parameter that names an API key.
type keyPath struct {
	Key string `path:"key"`
}

// createKey creates a key. Only this response has the key's text; the store has only the hash. The
// expiry is cut to microseconds, which is the precision of the databases.
func (s *Routes) createKey(ctx context.Context, _ *rest.None, body apitypes.KeyCreate) (*rest.Reply[apitypes.Key], error) {
	now, err := s.Store.Now(ctx)
	if err != nil {
		return nil, err
	}
	text, hash := apikeys.Make()
	key := postrider.APIKey{ID: store.NewID[postrider.KeyID](s.IDs), Name: body.Name, Scopes: body.Scopes, Hash: hash, CreatedAt: now}
	if body.ExpiresAt != nil {
		key.ExpiresAt = body.ExpiresAt.UTC().Truncate(time.Microsecond)
	}
	if err := checkKeyCreate(body, now); err != nil {
		return nil, err
	}
	if key.Account, err = s.Names.ResolveLiveAccount(ctx, "account", body.Account); err != nil {
		return nil, err
	}
	if err := s.Store.PutKey(ctx, key); err != nil {
		return nil, err
	}
	view := viewKey(key)
	view.Key = text
	return rest.Respond(view), nil
}

// checkKeyCreate returns all faults of a request for a key, except those of its account. now is the
// store's time.
func checkKeyCreate(b apitypes.KeyCreate, now time.Time) error {
	faults := []error{rest.CheckText("name", b.Name, rest.MaxName)}
	if b.Name == "" {
		faults = append(faults, rest.Invalid("name", postrider.FaultRequired, "is required"))
	}
	if len(b.Scopes) == 0 {
		faults = append(faults, rest.Invalid("scopes", postrider.FaultRequired, "must name at least one scope"))
	}
	for i, scope := range b.Scopes {
		field := fmt.Sprintf("scopes[%d]", i)
		if !slices.Contains(postrider.Scopes, scope) {
			faults = append(faults, rest.Invalid(field, postrider.FaultNotAChoice, "must be one of "+scopeNames()))
		}
		if scope == postrider.ScopeAdmin && b.Account != "" {
			faults = append(faults, rest.Invalid(field, postrider.FaultNotAllowed, "must not be admin for a key that is bound to an account"))
		}
	}
	if b.ExpiresAt != nil && !b.ExpiresAt.After(now) {
		faults = append(faults, rest.Invalid("expires_at", postrider.FaultMalformed, "must be a time in the future, by RFC 3339"))
	}
	return errors.Join(faults...)
}

// scopeNames returns the names of all scopes, separated by commas.
func scopeNames() string {
	names := make([]string, 0, len(postrider.Scopes))
	for _, scope := range postrider.Scopes {
		names = append(names, string(scope))
	}
	return strings.Join(names, ", ")
}

// listKeys lists API keys, including expired and revoked keys.
func (s *Routes) listKeys(ctx context.Context, in *struct {
	Account string `query:"account" doc:"Id or uid of an account: only the keys that are bound to it."`
	rest.Paging
},
) (*rest.Reply[apitypes.Page[apitypes.Key]], error) {
	account, err := s.Names.ResolveAccount(ctx, in.Account)
	if err != nil {
		return nil, err
	}
	return rest.RespondPage(viewKey)(s.Store.Keys(ctx, store.KeyQuery{Account: account, Paging: in.Paging.Of()}))
}

func (s *Routes) getKey(ctx context.Context, in *keyPath) (*rest.Reply[apitypes.Key], error) {
	return rest.RespondWith(viewKey)(s.findKey(ctx, in.Key))
}

// findKey returns the key with the id.
func (s *Routes) findKey(ctx context.Context, text string) (postrider.APIKey, error) {
	id, err := rest.ParseID[postrider.KeyID](text)
	if err != nil {
		return postrider.APIKey{}, err
	}
	return store.First(s.Store.Keys(ctx, store.KeyQuery{ID: id}))
}

// revokeKey revokes a key and empties this node's cache of keys, so that the key stops working here
// before the response. Other nodes may accept the key for up to apikeys.Fresh, five seconds. They
// are not notified, because a notification can be lost and the time limit cannot.
func (s *Routes) revokeKey(ctx context.Context, in *keyPath) (*rest.None, error) {
	id, err := rest.ParseID[postrider.KeyID](in.Key)
	if err != nil {
		return nil, err
	}
	if err := s.Store.RevokeKey(ctx, id); err != nil {
		return nil, err
	}
	s.Forget()
	return nil, nil // 204
}
