package accounts

import (
	"context"
	"errors"
	"math"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/api/render"
	"github.com/postrider/postrider/internal/api/rest"
	"github.com/postrider/postrider/internal/store"
)

// registerQuotas registers the routes of the limits of accounts. A key that is bound to an account
// can read the limits of that account. Changing limits needs the scope admin, which such a key
// never has.
func (s *Routes) registerQuotas(rt *rest.Router) {
	rest.Handle(rt, rest.Route{
		Name: "get-account-quotas", Path: "GET /accounts/{account}/quotas",
		Summary: "Show the limits of an account and what it uses",
		Scope:   postrider.ScopeWebhooksRead,
	}, s.getQuotas)
	rest.HandleBody(rt, rest.Route{
		Name: "update-account-quotas", Path: "PATCH /accounts/{account}/quotas",
		Summary:     "Change the limits of an account",
		Description: "A field that is left out keeps its value. All servers know the change within about a second.",
		Scope:       postrider.ScopeAdmin,
	}, s.changeQuotas)
}

func (s *Routes) getQuotas(ctx context.Context, in *accountPath) (*rest.Reply[apitypes.AccountQuotas], error) {
	account, err := s.Names.Account(ctx, in.Account)
	if err != nil {
		return nil, err
	}
	own, err := s.quotasOf(ctx, account.ID)
	if err != nil {
		return nil, err
	}
	return rest.RespondWith(s.viewQuotas(own))(s.Store.QuotaUse(ctx, account.ID))
}

// quotasOf returns the limits that were set for an account.
func (s *Routes) quotasOf(ctx context.Context, account postrider.AccountID) (postrider.Quotas, error) {
	found, err := s.Store.Quotas(ctx, store.QuotaQuery{Account: account})
	if err != nil || len(found) == 0 {
		return postrider.Quotas{}, err
	}
	return found[0].Quotas, nil
}

func (s *Routes) changeQuotas(
	ctx context.Context, in *accountPath, body apitypes.QuotasUpdate,
) (*rest.Reply[apitypes.AccountQuotas], error) {
	account, err := s.Names.Account(ctx, in.Account)
	if err != nil {
		return nil, err
	}
	was, err := s.quotasOf(ctx, account.ID)
	if err != nil {
		return nil, err
	}
	own := was
	err = errors.Join(
		setLimit(&own.EventsPerSecond, body.EventsPerSecond, "events_per_second"),
		setLimit(&own.Burst, body.Burst, "burst"),
		setLimit(&own.BytesPerDay, body.BytesPerDay, "bytes_per_day"),
		setLimit(&own.Endpoints, body.Endpoints, "endpoints"),
		setLimit(&own.Backlog, body.Backlog, "backlog"),
		own.Check())
	if err != nil {
		return nil, err
	}
	rest.InfoOf(ctx).Changed(viewLimits(was, ownLimit), viewLimits(own, ownLimit))
	if err := s.Store.PutQuotas(ctx, account.ID, own); err != nil {
		return nil, err
	}
	return rest.RespondWith(s.viewQuotas(own))(s.Store.QuotaUse(ctx, account.ID))
}

// setLimit sets a limit from a request. In a request, 0 means no limit, and null means the default.
func setLimit(field *int64, to apitypes.Optional[int64], name string) error {
	rest.Set(field, to, 0)
	n, given := to.Get()
	switch {
	case given && n == 0:
		*field = postrider.NoQuota
	case given && n < 0:
		*field = 0
		return rest.Invalid(name, postrider.FaultOutOfRange, "must not be negative")
	}
	return nil
}

// viewQuotas returns a function that turns limits and their use into a response.
func (s *Routes) viewQuotas(own postrider.Quotas) func(postrider.QuotaUse) apitypes.AccountQuotas {
	return func(used postrider.QuotaUse) apitypes.AccountQuotas {
		holds := own.Or(s.Quotas)
		view := apitypes.AccountQuotas{
			Limits: viewLimits(holds, heldLimit), Own: viewLimits(own, ownLimit),
			Used: apitypes.QuotaUse{DayEndsAt: render.Instant(used.DayEnds), Endpoints: used.Endpoints},
		}
		if holds.EventsPerSecond > 0 {
			view.Used.EventsNow = new(max(0, holds.Burst-int64(math.Ceil(used.Missing))))
		}
		if holds.BytesPerDay > 0 {
			view.Used.BytesToday = &used.Bytes
		}
		return view
	}
}

// viewLimits returns limits in the form of a response. view converts each limit.
func viewLimits(q postrider.Quotas, view func(int64) *int64) apitypes.QuotaLimits {
	return apitypes.QuotaLimits{
		EventsPerSecond: view(q.EventsPerSecond), Burst: view(q.Burst), BytesPerDay: view(q.BytesPerDay),
		Endpoints: view(q.Endpoints), Backlog: view(q.Backlog),
	}
}

// heldLimit returns a limit that is in force; nil: there is no limit.
func heldLimit(n int64) *int64 {
	if n <= 0 {
		return nil
	}
	return &n
}

// ownLimit returns a limit that was set for the account; nil: none was set.
func ownLimit(n int64) *int64 {
	if n == 0 {
		return nil
	}
	return new(max(0, n))
}

// MostEndpoints returns the number of endpoints that an account may have; 0: any number.
func (s *Routes) MostEndpoints(ctx context.Context, account postrider.AccountID) (int64, error) {
	own, err := s.quotasOf(ctx, account)
	return own.Or(s.Quotas).Endpoints, err
}
