package api

import (
	"context"
	"errors"
	"time"

	"github.com/postrider/postrider"
)

// This file resolves the names in a request: its account, and resources by id or uid.

// resolveAccount returns the account that a request is about: the account that
// the field account names by id or uid, or the account of the caller's key. Zero means
// all accounts. An account that the key may not see is reported as missing. A
// deleted account is found by its id, because its history can still be read.
func (s *server) resolveAccount(ctx context.Context, name string) (postrider.AccountID, error) {
	account, err := s.resolveAccountName(ctx, "account", name)
	return account.id, err
}

// resolveLiveAccount is resolveAccount for operations that a deleted account
// does not support. It reports a deleted account as missing.
func (s *server) resolveLiveAccount(ctx context.Context, field, name string) (postrider.AccountID, error) {
	account, err := s.resolveAccountName(ctx, field, name)
	if err == nil && account.deleted {
		return postrider.AccountID{}, invalid(field, postrider.FaultNotFound, "names no account")
	}
	return account.id, err
}

// resolveAccountName finds the account and notes it in the request's info, for
// the log. An account outside of the key's binding gives the same error as one
// that does not exist, so that a key cannot probe for other accounts.
func (s *server) resolveAccountName(ctx context.Context, field, name string) (accountName, error) {
	c := infoOf(ctx)
	bound := c.caller.Account
	if name == "" {
		c.account = bound
		return accountName{id: bound}, nil
	}
	account, err := s.accountNamed(ctx, name)
	c.account = account.id
	// Another account's name must look like a name that does not exist.
	if err == nil && !bound.IsZero() && account.id != bound {
		err = postrider.ErrNotFound
	}
	if errors.Is(err, postrider.ErrNotFound) {
		return accountName{}, invalid(field, postrider.FaultNotFound, "names no account")
	}
	return account, err
}

// requireAccount is resolveLiveAccount for a request that must be about exactly
// one account.
func (s *server) requireAccount(ctx context.Context, field, name string) (postrider.AccountID, error) {
	id, err := s.resolveLiveAccount(ctx, field, name)
	if err == nil && id.IsZero() {
		return id, invalid(field, postrider.FaultRequired, "is required")
	}
	return id, err
}

// accountName is the cached account of an id or uid.
type accountName struct {
	id      postrider.AccountID
	deleted bool
}

// accountNamed returns the account of the name. The cache saves each publish a
// query. An error, and so a missing account, is not cached: a new account can
// be used at once.
func (s *server) accountNamed(ctx context.Context, name string) (accountName, error) {
	now := time.Now()
	known, ok, epoch := s.names.Get(name, now)
	if ok {
		return known, nil
	}
	account, err := s.findAccount(ctx, name)
	if err != nil {
		return accountName{}, err
	}
	found := accountName{account.ID, !account.DeletedAt.IsZero()}
	s.names.Put(name, found, now, epoch)
	return found, nil
}

// parseID parses an id from a path. An invalid id is not found. So is the zero
// id: in a query of the store it means no filter, and would select everything.
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

// checkTypeFilter refuses a filter that is no event type. A pattern would match no event,
// and an empty list looks like "nothing found".
func checkTypeFilter(field, text string) error {
	if text != "" && postrider.CheckType(field, text) != nil {
		return invalid(field, postrider.FaultMalformed, "must be one event type; patterns are for endpoints")
	}
	return nil
}

// filtered parses an id from a query parameter. Empty text is no filter and
// gives the zero id. An id that is invalid is a fault of the parameter, and not
// an empty list: a filter with a typing error must not look like "nothing found".
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
		return id, invalid(field, postrider.FaultNotFound, "names nothing")
	}
	return id, nil
}
