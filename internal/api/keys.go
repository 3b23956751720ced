package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

type keyView struct {
	ID         string   `json:"id"`
	Name       string   `json:"name"`
	Scopes     []string `json:"scopes" nullable:"false"`
	Account    *string  `json:"account" doc:"The only account that the key reaches. Null: it reaches every account."`
	CreatedAt  string   `json:"created_at" format:"date-time"`
	ExpiresAt  *string  `json:"expires_at" format:"date-time"`
	RevokedAt  *string  `json:"revoked_at" format:"date-time"`
	LastUsedAt *string  `json:"last_used_at" format:"date-time" doc:"Time of the last use, to the minute. Null: never used."`
	Key        string   `json:"key,omitempty" doc:"Text of the key. Only in the answer that creates it; the server keeps its hash alone."`
}

func viewKey(k postrider.APIKey) keyView {
	scopes := make([]string, 0, len(k.Scopes))
	for _, scope := range k.Scopes {
		scopes = append(scopes, string(scope))
	}
	return keyView{
		ID: k.ID.String(), Name: k.Name, Scopes: scopes, Account: idOrNull(k.Account), CreatedAt: instant(k.CreatedAt),
		ExpiresAt: instantOrNull(k.ExpiresAt), RevokedAt: instantOrNull(k.RevokedAt), LastUsedAt: instantOrNull(k.LastUsedAt),
	}
}

type keyCreate struct {
	Name      string   `json:"name"`
	Scopes    []string `json:"scopes" nullable:"false" minItems:"1" enum:"events:write,webhooks:read,webhooks:write,admin"`
	Account   *string  `json:"account,omitempty" minLength:"1" doc:"Id or uid of the only account that the key reaches. Left out: it reaches every account."`
	ExpiresAt *string  `json:"expires_at,omitempty" format:"date-time"`
}

type keyPath struct {
	Key string `path:"key"`
}

func (rt *router) keys() {
	admin := postrider.ScopeAdmin
	handle(rt, route{
		name: "create-api-key", path: "POST /api-keys",
		about: "Create an API key",
		codes: []string{"not_found"},
		scope: admin, status: 201, body: keyCreate{},
	}, rt.createKey)
	handle(rt, route{
		name: "list-api-keys", path: "GET /api-keys",
		about: "List API keys, newest first",
		scope: admin,
	}, rt.listKeys)
	handle(rt, route{
		name: "get-api-key", path: "GET /api-keys/{key}",
		about: "Get an API key",
		scope: admin,
	}, rt.getKey)
	handle(rt, route{
		name: "revoke-api-key", path: "DELETE /api-keys/{key}",
		about: "Revoke an API key",
		scope: admin, status: 204,
	}, rt.revokeKey)
}

func (s *server) createKey(ctx context.Context, _ *none) (*reply[keyView], error) {
	var body keyCreate
	if err := decode(ctx, &body); err != nil {
		return nil, err
	}
	now, err := s.Store.Now(ctx)
	if err != nil {
		return nil, err
	}
	text, hash := MakeKey()
	key := postrider.APIKey{ID: store.NewID[postrider.KeyID](s.IDs), Name: body.Name, Hash: hash, CreatedAt: now}
	if err := body.fill(&key, now); err != nil {
		return nil, err
	}
	if key.Account, err = s.reachLive(ctx, "account", value(body.Account)); err != nil {
		return nil, err
	}
	if err := s.Store.PutKey(ctx, key); err != nil {
		return nil, err
	}
	view := viewKey(key)
	view.Key = text
	return answered(view), nil
}

// fill sets the key's scopes and expiry, and returns every fault.
func (b keyCreate) fill(key *postrider.APIKey, now time.Time) error {
	faults := []error{checkText("name", b.Name, maxName), notEmpty("account", b.Account)}
	if b.Name == "" {
		faults = append(faults, invalid("name", "is required"))
	}
	if len(b.Scopes) == 0 {
		faults = append(faults, invalid("scopes", "must name at least one scope"))
	}
	for i, text := range b.Scopes {
		scope, field := postrider.Scope(text), fmt.Sprintf("scopes[%d]", i)
		if !slices.Contains(postrider.Scopes, scope) {
			faults = append(faults, invalid(field, "must be events:write, webhooks:read, webhooks:write or admin"))
		}
		if scope == postrider.ScopeAdmin && b.Account != nil {
			faults = append(faults, invalid(field, "must not be admin for a key that is bound to an account"))
		}
		key.Scopes = append(key.Scopes, scope)
	}
	if b.ExpiresAt != nil {
		at, err := time.Parse(time.RFC3339, *b.ExpiresAt)
		if err != nil || !at.After(now) {
			faults = append(faults, invalid("expires_at", "must be a time in the future, by RFC 3339"))
		}
		key.ExpiresAt = at.UTC().Truncate(time.Microsecond)
	}
	return errors.Join(faults...)
}

func (s *server) listKeys(ctx context.Context, in *Paging) (*reply[page[keyView]], error) {
	keys, err := s.Store.Keys(ctx, store.KeyQuery{Paging: in.of()})
	if err != nil {
		return nil, err
	}
	return pageOf(keys, viewKey), nil
}

func (s *server) getKey(ctx context.Context, in *keyPath) (*reply[keyView], error) {
	id, err := named[postrider.KeyID](in.Key)
	if err != nil {
		return nil, err
	}
	key, err := only(s.Store.Keys(ctx, store.KeyQuery{ID: id}))
	if err != nil {
		return nil, err
	}
	return answered(viewKey(key)), nil
}

func (s *server) revokeKey(ctx context.Context, in *keyPath) (*none, error) {
	id, err := named[postrider.KeyID](in.Key)
	if err != nil {
		return nil, err
	}
	if err := s.Store.RevokeKey(ctx, id); err != nil {
		return nil, err
	}
	s.keys.forget()
	return nil, nil // 204
}
