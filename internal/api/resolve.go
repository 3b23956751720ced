package api

import (
	"context"
	"errors"
	"sync"
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

// accountNames remembers for some seconds whose name a name is, so that a
// publish does not read the account each time.
type accountNames struct {
	mu    sync.Mutex
	epoch int // counts forget, so that what was read before it is not kept after it
	known map[string]accountName
}

type accountName struct {
	id      postrider.AccountID
	deleted bool
	readAt  time.Time
	epoch   int
}

func (s *server) accountNamed(ctx context.Context, name string) (accountName, error) {
	now := time.Now()
	known, ok := s.names.find(name, now)
	if ok {
		return known, nil
	}
	account, err := s.findAccount(ctx, name)
	if err != nil {
		return accountName{}, err
	}
	found := accountName{account.ID, !account.DeletedAt.IsZero(), now, known.epoch}
	s.names.note(name, found)
	return found, nil
}

// find returns what is believed of a name; false: nothing, in this epoch.
func (n *accountNames) find(name string, now time.Time) (accountName, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if known, ok := n.known[name]; ok && now.Sub(known.readAt) < keyFresh {
		return known, true
	}
	return accountName{epoch: n.epoch}, false
}

func (n *accountNames) note(name string, known accountName) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if known.epoch != n.epoch {
		return
	}
	makeRoom(n.known)
	n.known[name] = known
}

func (n *accountNames) forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.epoch++
	clear(n.known)
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
