package api

import (
	"context"
	"errors"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// This file finds what a request names: the account it is about, and items by
// id or uid.

// first returns the one item of a page that was asked for by name.
func first[T any](p store.Page[T], err error) (item T, _ error) {
	switch {
	case err != nil:
		return item, err
	case len(p.Items) == 0:
		return item, postrider.ErrNotFound
	}
	return p.Items[0], nil
}

// resolveAccount returns the account that a request is about: the one it names in the
// field, by id or uid, or else the one that the key is bound to. Zero means
// every account. What the key may not see is not there. A deleted account is
// there, by its id, since its history is.
func (s *server) resolveAccount(ctx context.Context, field, name string) (postrider.AccountID, error) {
	account, err := s.resolveAccountName(ctx, field, name)
	return account.id, err
}

// resolveLiveAccount is resolveAccount for what a deleted account can have no more.
func (s *server) resolveLiveAccount(ctx context.Context, field, name string) (postrider.AccountID, error) {
	account, err := s.resolveAccountName(ctx, field, name)
	if err == nil && account.deleted {
		return postrider.AccountID{}, missing(field, "names no account")
	}
	return account.id, err
}

func (s *server) resolveAccountName(ctx context.Context, field, name string) (accountName, error) {
	c := infoOf(ctx)
	bound := c.key.Account
	if name == "" {
		c.account = bound
		return accountName{id: bound}, nil
	}
	account, err := s.accountNamed(ctx, name)
	c.account = account.id
	if err == nil && !bound.IsZero() && account.id != bound {
		err = postrider.ErrNotFound
	}
	if errors.Is(err, postrider.ErrNotFound) {
		return accountName{}, missing(field, "names no account")
	}
	return account, err
}

// requireAccount is resolveLiveAccount for a request that must be about one account.
func (s *server) requireAccount(ctx context.Context, field, name string) (postrider.AccountID, error) {
	id, err := s.resolveLiveAccount(ctx, field, name)
	if err == nil && id.IsZero() {
		return id, invalid(field, "is required")
	}
	return id, err
}

// accountName is the account that an id or uid stands for.
type accountName struct {
	id      postrider.AccountID
	deleted bool
}

// accountNamed returns the account of the name. The cache spares a publish the
// read of the account.
func (s *server) accountNamed(ctx context.Context, name string) (accountName, error) {
	now := time.Now()
	known, ok, epoch := s.names.get(name, now)
	if ok {
		return known, nil
	}
	account, err := s.findAccount(ctx, name)
	if err != nil {
		return accountName{}, err
	}
	found := accountName{account.ID, !account.DeletedAt.IsZero()}
	s.names.put(name, found, now, epoch)
	return found, nil
}

// parseID reads an id from a path. A text that is no id names nothing, and
// neither does the zero id, which a store would take for no filter.
func parseID[I comparable, P interface {
	*I
	UnmarshalText(text []byte) error
}](text string) (id I, err error) {
	var zero I
	id, err = postrider.ParseID[I, P](text)
	if err != nil || id == zero {
		return id, postrider.ErrNotFound
	}
	return id, nil
}

// filtered reads an id from a query parameter; the empty text is no filter.
func filtered[I comparable, P interface {
	*I
	UnmarshalText(text []byte) error
}](field, text string) (id I, err error) {
	if text == "" {
		return id, nil
	}
	var zero I
	id, err = postrider.ParseID[I, P](text)
	if err != nil || id == zero {
		return id, missing(field, "names nothing")
	}
	return id, nil
}
