// Package accounts is the part of the API that serves accounts and their quotas.
//
// A caller that is bound to an account can read that account. Only the scope admin can change an
// account. When a response says that an account is deleted, its uid, keys and sessions no longer
// work, and nothing more is sent to its endpoints. A uid that was changed no longer finds the account.
package accounts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/api/render"
	"github.com/postrider/postrider/internal/api/rest"
	"github.com/postrider/postrider/internal/store"
)

// Store is the part of the store that this package reads and changes.
type Store interface {
	// Accounts is the method of store.Access.
	Accounts(ctx context.Context, q store.AccountQuery) (store.Page[postrider.Account], error)
	// PutAccount is the method of store.Access.
	PutAccount(ctx context.Context, a postrider.Account) error
	// DeleteAccount is the method of store.Access.
	DeleteAccount(ctx context.Context, account postrider.AccountID) error
	// Quotas is the method of store.Quotas.
	Quotas(ctx context.Context, q store.QuotaQuery) ([]store.AccountQuotas, error)
	// PutQuotas is the method of store.Quotas.
	PutQuotas(ctx context.Context, account postrider.AccountID, q postrider.Quotas) error
	// QuotaUse is the method of store.Quotas.
	QuotaUse(ctx context.Context, account postrider.AccountID) (postrider.QuotaUse, error)
	// Now returns the store's time, read from the store itself.
	Now(ctx context.Context) (time.Time, error)
}

// Routes serves accounts and their quotas.
type Routes struct {
	*rest.Shared

	Store Store
	// Retention is the number of days for which the server keeps events, attempts, bodies and
	// idempotency keys. An account may set fewer days.
	Retention postrider.AccountRetention
	// Quotas are the limits of accounts that have no limits of their own.
	Quotas postrider.Quotas
	// Forget empties this node's caches of accounts' names, of keys and of sessions, so that the node no
	// longer accepts those that ended.
	Forget func()
}

// Register registers the routes of accounts. Changes need the scope admin.
func (s *Routes) Register(rt *rest.Router) {
	admin, read := postrider.ScopeAdmin, postrider.ScopeWebhooksRead
	rest.HandleBody(rt, rest.Route{
		Name: "create-account", Path: "POST /accounts",
		Summary: "Create an account",
		Codes:   []string{"uid_taken"},
		Scope:   admin, Status: 201,
	}, s.createAccount)
	rest.Handle(rt, rest.Route{
		Name: "list-accounts", Path: "GET /accounts",
		Summary:     "List accounts, newest first",
		Description: "A key that is bound to an account sees this account alone.",
		Scope:       read, Metadata: true,
	}, s.listAccounts)
	rest.Handle(rt, rest.Route{
		Name: "get-account", Path: "GET /accounts/{account}",
		Summary: "Get an account",
		Scope:   read,
	}, s.getAccount)
	rest.HandleBody(rt, rest.Route{
		Name: "update-account", Path: "PATCH /accounts/{account}",
		Summary:     "Change an account",
		Description: "A field that is left out keeps its value. Null removes it. After the response, no server finds the account by an old uid.",
		Codes:       []string{"uid_taken", "conflict"},
		Scope:       admin, Conditional: true, Withdraws: true,
	}, s.changeAccount)
	rest.HandleBody(rt, rest.Route{
		Name: "put-account", Path: "PUT /accounts/{account}",
		Summary:     "Create or replace an account",
		Description: "The uid in the path names it. If no account has the uid, one is created. Otherwise it is replaced: a field that is left out gets its default. An id replaces the account and keeps its uid. Quotas, keys and endpoints stay. Repeated, it changes nothing more.",
		Codes:       []string{"conflict"},
		Scope:       admin, Conditional: true, Creates: true,
	}, s.replaceAccount)
	rest.Handle(rt, rest.Route{
		Name: "delete-account", Path: "DELETE /accounts/{account}",
		Summary:     "Delete an account",
		Description: "Its API keys are revoked, its endpoints deleted and their pending deliveries cancelled. Its events, deliveries and dead letters stay, and are listed by the id of the account. Its uid is free.",
		Scope:       admin, Status: 204, Withdraws: true,
	}, s.deleteAccount)
	s.registerQuotas(rt)
}

// viewAccount returns an account in the form of a response. The uid is null if the account has
// none. A deleted account has the time of its deletion.
func viewAccount(a postrider.Account) apitypes.Account {
	return apitypes.Account{
		ID: a.ID, UID: render.OrNull(a.UID), Name: a.Name, Metadata: a.Metadata, Revision: a.Revision, CreatedAt: render.Instant(a.CreatedAt),
		DeletedAt: render.TimeOrNull(a.DeletedAt), Retention: viewRetention(a.Retention),
	}
}

// accountPath has the path parameter that names an account.
type accountPath struct {
	Account string `path:"account" doc:"Id or uid of the account."`
}

// createAccount creates an account. The creation time comes from the store, so that all nodes agree
// on the order of accounts.
func (s *Routes) createAccount(ctx context.Context, _ *rest.None, body apitypes.AccountCreate) (*rest.Reply[apitypes.Account], error) {
	now, err := s.Store.Now(ctx)
	if err != nil {
		return nil, err
	}
	account := postrider.Account{
		ID: store.NewID[postrider.AccountID](s.IDs), UID: body.UID, Name: body.Name, Metadata: body.Metadata, CreatedAt: now,
	}
	setRetention(&account.Retention, body.Retention)
	if err := s.check(account, body.Retention); err != nil {
		return nil, err
	}
	reply, err := s.putAccount(ctx, account)
	return reply, conflict(err, "uid_taken")
}

// listAccounts lists accounts, or finds the account with a uid. For a key that is bound to an
// account, it lists only that account, and nothing if the uid is another one.
func (s *Routes) listAccounts(ctx context.Context, in *struct {
	rest.Paging
	UID string `query:"uid"`
},
) (*rest.Reply[apitypes.Page[apitypes.Account]], error) {
	metadata, err := rest.MetadataFilter(ctx)
	if err != nil {
		return nil, err
	}
	return rest.RespondPage(viewAccount)(s.Store.Accounts(ctx, store.AccountQuery{
		ID: rest.InfoOf(ctx).Caller.Account, UID: in.UID, Metadata: metadata, Paging: in.Paging.Of(),
	}))
}

// getAccount returns an account. It finds a deleted account by its id.
func (s *Routes) getAccount(ctx context.Context, in *accountPath) (*rest.Reply[apitypes.Account], error) {
	return rest.RespondWith(viewAccount)(s.Names.Account(ctx, in.Account))
}

// changeAccount changes an account. An omitted field keeps its value, and null removes the value. A
// deleted account cannot be changed.
func (s *Routes) changeAccount(ctx context.Context, in *accountPath, body apitypes.AccountUpdate) (*rest.Reply[apitypes.Account], error) {
	return rest.RetryConflicts(func() (*rest.Reply[apitypes.Account], error) {
		was, err := s.liveAccount(ctx, in.Account)
		if err != nil {
			return nil, err
		}
		account := was
		rest.Set(&account.UID, body.UID, "")
		rest.Set(&account.Name, body.Name, "")
		rest.Set((*apitypes.Metadata)(&account.Metadata), body.Metadata, nil)
		setRetention(&account.Retention, body.Retention)
		return s.replace(ctx, was, account, body.Retention)
	})
}

// replaceAccount creates the account that the path names by its uid, or replaces it. Of two requests
// at once that create it, one is refused by the store and then finds the account of the other.
func (s *Routes) replaceAccount(ctx context.Context, in *accountPath, body apitypes.AccountPut) (*rest.Reply[apitypes.Account], error) {
	return rest.RetryConflicts(func() (*rest.Reply[apitypes.Account], error) {
		was, err := s.liveAccount(ctx, in.Account)
		if errors.Is(err, postrider.ErrNotFound) && !isAccountID(in.Account) {
			was = postrider.Account{ID: store.NewID[postrider.AccountID](s.IDs), UID: in.Account}
			was.CreatedAt, err = s.Store.Now(ctx)
		}
		if err != nil {
			return nil, err
		}
		account := was
		account.Name, account.Metadata, account.Retention = body.Name.Value(), body.Metadata.Value(), postrider.AccountRetention{}
		setRetention(&account.Retention, body.Retention)
		return s.replace(ctx, was, account, body.Retention)
	})
}

// isAccountID reports whether a name of an account is an id. No uid has this form.
func isAccountID(name string) bool {
	_, err := rest.ParseID[postrider.AccountID](name)
	return err == nil
}

// liveAccount returns the account unless it is deleted.
func (s *Routes) liveAccount(ctx context.Context, name string) (postrider.Account, error) {
	account, err := s.Names.Account(ctx, name)
	if err == nil && !account.DeletedAt.IsZero() {
		err = postrider.ErrNotFound
	}
	return account, err
}

// replace stores an account in the place of another one, whose Revision is 0 if there is none yet. An
// account that stays as it is is not stored.
func (s *Routes) replace(ctx context.Context, was, is postrider.Account, r apitypes.Retention) (*rest.Reply[apitypes.Account], error) {
	if err := rest.IfMatch(ctx, was.Revision); err != nil {
		return nil, err
	}
	if err := s.check(is, r); err != nil {
		return nil, err
	}
	before, after := viewAccount(was), viewAccount(is)
	if was.Revision > 0 {
		rest.InfoOf(ctx).Changed(before, after)
	}
	if was.Revision > 0 && reflect.DeepEqual(before, after) {
		return rest.Respond(before), nil
	}
	reply, err := s.putAccount(ctx, is)
	switch {
	case err == nil && was.Revision == 0:
		rest.InfoOf(ctx).Created()
	case err == nil && was.UID != is.UID: // other nodes may still find this account by the old uid
		s.Effects.Await(ctx, postrider.Withdrawal{})
	case was.UID != is.UID:
		err = conflict(err, "uid_taken")
	default:
		err = conflict(err, "conflict")
	}
	return reply, err
}

// conflict gives a conflict a code and a text for the client. The store does not say which of the two
// conflicts it found. Other errors stay as they are.
func conflict(err error, code string) error {
	if errors.Is(err, postrider.ErrConflict) {
		err = errors.Join(rest.Conflict(code, "another account has this uid, or it is being changed by others"), err)
	}
	return err
}

// deleteAccount deletes the account and its endpoints. The pending deliveries, which may be many,
// are cancelled in the background. All nodes empty their caches of names, keys and sessions, because
// the account's uid is free and its keys are revoked.
func (s *Routes) deleteAccount(ctx context.Context, in *accountPath) (*rest.None, error) {
	account, err := s.Names.Account(ctx, in.Account)
	if err != nil {
		return nil, err
	}
	if err := s.Store.DeleteAccount(ctx, account.ID); err != nil {
		return nil, err
	}
	s.Forget()
	s.Effects.AwaitDeleted(ctx)
	return nil, nil // 204
}

// putAccount stores an account, and returns the stored account. It empties the cache of names, because
// a uid may now belong to another account.
func (s *Routes) putAccount(ctx context.Context, a postrider.Account) (*rest.Reply[apitypes.Account], error) {
	if err := s.Store.PutAccount(ctx, a); err != nil {
		return nil, err
	}
	s.Names.Forget()
	return rest.RespondWith(viewAccount)(s.Names.Account(ctx, a.ID.String()))
}

// check returns all faults of an account with the retention of a request.
func (s *Routes) check(a postrider.Account, r apitypes.Retention) error {
	if a.UID == "" && a.Name == "" {
		return rest.Invalid("name", postrider.FaultRequired, "is required where there is no uid")
	}
	return errors.Join(rest.CheckUID(a.UID), rest.CheckText("name", a.Name, rest.MaxName), a.Metadata.Check("metadata"),
		s.checkRetention(a.Retention, r))
}

// viewRetention returns the retention of an account in the form of a response.
func viewRetention(r postrider.AccountRetention) apitypes.Retention {
	days := func(n int) apitypes.Optional[int] { return apitypes.NullUnless(n > 0, n) }
	return apitypes.Retention{
		KeepEventsDays: days(r.Events), KeepAttemptsDays: days(r.Attempts), KeepBodiesDays: days(r.Bodies),
		KeepIdempotencyKeysDays: days(r.IdempotencyKeys),
	}
}

// setRetention applies the retention of a request.
func setRetention(r *postrider.AccountRetention, to apitypes.Retention) {
	rest.Set(&r.Events, to.KeepEventsDays, 0)
	rest.Set(&r.Attempts, to.KeepAttemptsDays, 0)
	rest.Set(&r.Bodies, to.KeepBodiesDays, 0)
	rest.Set(&r.IdempotencyKeys, to.KeepIdempotencyKeysDays, 0)
}

// checkRetention checks the days that a request sets. It also checks that idempotency keys are not
// kept longer than events, because an idempotency key is found through its event.
func (s *Routes) checkRetention(r postrider.AccountRetention, change apitypes.Retention) error {
	longest := s.Retention
	err := errors.Join(
		checkDays("keep_events_days", change.KeepEventsDays, longest.Events),
		checkDays("keep_attempts_days", change.KeepAttemptsDays, longest.Attempts),
		checkDays("keep_bodies_days", change.KeepBodiesDays, longest.Bodies),
		checkDays("keep_idempotency_keys_days", change.KeepIdempotencyKeysDays, longest.IdempotencyKeys))
	if r.IdempotencyKeys > cmp.Or(r.Events, longest.Events) {
		err = errors.Join(err, rest.Invalid("keep_idempotency_keys_days", postrider.FaultContradictory,
			"must not be longer than events are kept"))
	}
	return err
}

// checkDays checks the number of days for which an account wants to keep something. longest is the
// number of whole days for which the server keeps it.
func checkDays(field string, days apitypes.Optional[int], longest int) error {
	n, ok := days.Get()
	switch {
	case !ok || n >= 1 && n <= longest:
		return nil
	case longest < 1:
		return rest.Invalid(field, postrider.FaultNotAllowed, "must be left out, because the server keeps them for less than a day")
	}
	return &postrider.InvalidError{
		Field: field, Code: postrider.FaultOutOfRange, Min: 1, Max: int64(longest),
		Reason: fmt.Sprintf("must be 1 to %d, for which the server keeps them", longest),
	}
}
