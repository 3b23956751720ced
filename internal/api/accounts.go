package api

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/store"
)

// The longest texts, in bytes.
const (
	maxName        = 256
	maxDescription = 4096
)

func viewAccount(a postrider.Account) apitypes.Account {
	return apitypes.Account{
		ID: a.ID, UID: orNull(a.UID), Name: a.Name, CreatedAt: instant(a.CreatedAt),
		DeletedAt: timeOrNull(a.DeletedAt),
	}
}

type accountPath struct {
	Account string `path:"account" doc:"Id or uid of the account."`
}

func (rt *router) accounts() {
	admin := postrider.ScopeAdmin
	handle(rt, route{
		name: "create-account", path: "POST /accounts",
		about: "Create an account",
		codes: []string{"conflict"},
		scope: admin, status: 201, body: apitypes.AccountCreate{},
	}, rt.createAccount)
	handle(rt, route{
		name: "list-accounts", path: "GET /accounts",
		about: "List accounts, newest first",
		scope: admin,
	}, rt.listAccounts)
	handle(rt, route{
		name: "get-account", path: "GET /accounts/{account}",
		about: "Get an account",
		scope: admin,
	}, rt.getAccount)
	handle(rt, route{
		name: "update-account", path: "PATCH /accounts/{account}",
		about: "Change an account",
		tells: "A field that is left out keeps its value. Null removes it.",
		codes: []string{"conflict"},
		scope: admin, body: apitypes.AccountUpdate{},
	}, rt.changeAccount)
	handle(rt, route{
		name: "delete-account", path: "DELETE /accounts/{account}",
		about: "Delete an account",
		tells: "Its API keys are revoked, its endpoints deleted and their pending deliveries cancelled. Its events, deliveries and dead letters stay, and are listed by the id of the account. Its uid is free.",
		scope: admin, status: 204,
	}, rt.deleteAccount)
}

func (s *server) createAccount(ctx context.Context, _ *none) (*reply[apitypes.Account], error) {
	var body apitypes.AccountCreate
	if err := decode(ctx, &body); err != nil {
		return nil, err
	}
	now, err := s.Store.Now(ctx)
	if err != nil {
		return nil, err
	}
	return s.putAccount(ctx, postrider.Account{
		ID: store.NewID[postrider.AccountID](s.IDs), UID: body.UID, Name: body.Name, CreatedAt: now,
	})
}

func (s *server) listAccounts(ctx context.Context, in *struct {
	Paging
	UID string `query:"uid"`
},
) (*reply[apitypes.Page[apitypes.Account]], error) {
	accounts, err := s.Store.Accounts(ctx, store.AccountQuery{UID: in.UID, Paging: in.Paging.of()})
	if err != nil {
		return nil, err
	}
	return pageOf(accounts, viewAccount), nil
}

func (s *server) getAccount(ctx context.Context, in *accountPath) (*reply[apitypes.Account], error) {
	account, err := s.findAccount(ctx, in.Account)
	if err != nil {
		return nil, err
	}
	return answered(viewAccount(account)), nil
}

func (s *server) changeAccount(ctx context.Context, in *accountPath) (*reply[apitypes.Account], error) {
	var body apitypes.AccountUpdate
	if err := decode(ctx, &body); err != nil {
		return nil, err
	}
	account, err := s.findAccount(ctx, in.Account)
	if err != nil {
		return nil, err
	}
	if !account.DeletedAt.IsZero() {
		return nil, postrider.ErrNotFound
	}
	set(&account.UID, body.UID, "")
	set(&account.Name, body.Name, "")
	return s.putAccount(ctx, account)
}

// deleteAccount answers when the account is deleted for good. Its endpoints, of
// which there may be many, follow.
func (s *server) deleteAccount(ctx context.Context, in *accountPath) (*none, error) {
	account, err := s.findAccount(ctx, in.Account)
	if err != nil {
		return nil, err
	}
	if err := s.Store.DeleteAccount(ctx, account.ID); err != nil {
		return nil, err
	}
	s.names.forget()
	s.keys.forget()
	s.Canceller.CancelDeleted()
	return nil, nil // 204
}

func (s *server) putAccount(ctx context.Context, a postrider.Account) (*reply[apitypes.Account], error) {
	err := errors.Join(checkUID(a.UID), checkText("name", a.Name, maxName))
	if a.UID == "" && a.Name == "" {
		err = invalid("name", "is required where there is no uid")
	}
	if err != nil {
		return nil, err
	}
	err = s.Store.PutAccount(ctx, a)
	if errors.Is(err, postrider.ErrConflict) {
		return nil, errors.Join(conflict("another account has this uid"), err)
	}
	if err != nil {
		return nil, err
	}
	s.names.forget()
	account, err := s.findAccount(ctx, a.ID.String())
	if err != nil {
		return nil, err
	}
	return answered(viewAccount(account)), nil
}

// checkUID refuses names that could be taken for an id.
func checkUID(uid string) error {
	if strings.HasPrefix(uid, "acc_") || strings.HasPrefix(uid, "ep_") {
		return invalid("uid", "must not look like an id")
	}
	return checkText("uid", uid, maxName)
}

// findAccount returns the account that has the name as its id or its uid.
func (s *server) findAccount(ctx context.Context, name string) (postrider.Account, error) {
	query := store.AccountQuery{UID: name}
	if id, err := postrider.ParseID[postrider.AccountID](name); err == nil && !id.IsZero() {
		query = store.AccountQuery{ID: id}
	}
	if name == "" { // which would be no filter
		return postrider.Account{}, postrider.ErrNotFound
	}
	return only(s.Store.Accounts(ctx, query))
}

// only returns the one item of a page that was asked for by name.
func only[T any](p store.Page[T], err error) (item T, _ error) {
	switch {
	case err != nil:
		return item, err
	case len(p.Items) == 0:
		return item, postrider.ErrNotFound
	}
	return p.Items[0], nil
}

// reach returns the account that a request is about: the one it names in the
// field, by id or uid, or else the one that the key is bound to. Zero means
// every account. What the key may not see is not there. A deleted account is
// there, by its id, since its history is.
func (s *server) reach(ctx context.Context, field, name string) (postrider.AccountID, error) {
	account, err := s.reachNamed(ctx, field, name)
	return account.id, err
}

// reachLive is reach for what a deleted account can have no more.
func (s *server) reachLive(ctx context.Context, field, name string) (postrider.AccountID, error) {
	account, err := s.reachNamed(ctx, field, name)
	if err == nil && account.deleted {
		return postrider.AccountID{}, missing(field, "names no account")
	}
	return account.id, err
}

func (s *server) reachNamed(ctx context.Context, field, name string) (accountName, error) {
	c := callOf(ctx)
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

// reachOne is reachLive for a request that must be about one account.
func (s *server) reachOne(ctx context.Context, field, name string) (postrider.AccountID, error) {
	id, err := s.reachLive(ctx, field, name)
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
