package api

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/store"
)

// quotas registers the routes of the limits of accounts. A key that is bound to an account
// reads the account's limits; only the scope admin, which no such key has, changes them.
func (rt *router) quotas() {
	handle(rt, route{
		name: "get-account-quotas", path: "GET /accounts/{account}/quotas",
		summary: "Show the limits of an account and what it uses",
		scope:   postrider.ScopeWebhooksRead,
	}, rt.getQuotas)
	handle(rt, route{
		name: "update-account-quotas", path: "PATCH /accounts/{account}/quotas",
		summary:     "Change the limits of an account",
		description: "A field that is left out keeps its value. All servers know the change within about a second.",
		scope:       postrider.ScopeAdmin, body: apitypes.QuotasUpdate{},
	}, rt.changeQuotas)
}

func (s *server) getQuotas(ctx context.Context, in *accountPath) (*reply[apitypes.AccountQuotas], error) {
	account, err := s.visibleAccount(ctx, in.Account)
	if err != nil {
		return nil, err
	}
	own, err := s.quotasOf(ctx, account.ID)
	if err != nil {
		return nil, err
	}
	return respondWith(s.viewQuotas(own))(s.Store.QuotaUse(ctx, account.ID))
}

// quotasOf returns the limits that were set for an account.
func (s *server) quotasOf(ctx context.Context, account postrider.AccountID) (postrider.Quotas, error) {
	found, err := s.Store.Quotas(ctx, store.QuotaQuery{Account: account})
	if err != nil || len(found) == 0 {
		return postrider.Quotas{}, err
	}
	return found[0].Quotas, nil
}

func (s *server) changeQuotas(ctx context.Context, in *accountPath) (*reply[apitypes.AccountQuotas], error) {
	var body apitypes.QuotasUpdate
	if err := decode(ctx, &body); err != nil {
		return nil, err
	}
	account, err := s.findAccount(ctx, in.Account)
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
	infoOf(ctx).changed(viewLimits(was, ownLimit), viewLimits(own, ownLimit))
	if err := s.Store.PutQuotas(ctx, account.ID, own); err != nil {
		return nil, err
	}
	return respondWith(s.viewQuotas(own))(s.Store.QuotaUse(ctx, account.ID))
}

// setLimit sets a limit from a request, in which 0 is no limit and null the default.
func setLimit(field *int64, to apitypes.Optional[int64], name string) error {
	set(field, to, 0)
	n, given := to.Get()
	switch {
	case given && n == 0:
		*field = postrider.NoQuota
	case given && n < 0:
		*field = 0
		return invalid(name, postrider.FaultOutOfRange, "must not be negative")
	}
	return nil
}

// viewQuotas returns limits and use in the form of a response.
func (s *server) viewQuotas(own postrider.Quotas) func(postrider.QuotaUse) apitypes.AccountQuotas {
	return func(used postrider.QuotaUse) apitypes.AccountQuotas {
		holds := own.Or(s.opts.Quotas)
		view := apitypes.AccountQuotas{
			Limits: viewLimits(holds, heldLimit), Own: viewLimits(own, ownLimit),
			Used: apitypes.QuotaUse{DayEndsAt: instant(used.DayEnds), Endpoints: used.Endpoints},
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

// viewLimits returns limits in the form of a response, each by view.
func viewLimits(q postrider.Quotas, view func(int64) *int64) apitypes.QuotaLimits {
	return apitypes.QuotaLimits{
		EventsPerSecond: view(q.EventsPerSecond), Burst: view(q.Burst), BytesPerDay: view(q.BytesPerDay),
		Endpoints: view(q.Endpoints), Backlog: view(q.Backlog),
	}
}

// heldLimit returns a limit that holds; nil: there is none.
func heldLimit(n int64) *int64 {
	if n <= 0 {
		return nil
	}
	return &n
}

// ownLimit returns a limit that was set; nil: none was.
func ownLimit(n int64) *int64 {
	if n == 0 {
		return nil
	}
	return new(max(0, n))
}

// mostEndpoints returns how many endpoints an account may have; 0: any number.
func (s *server) mostEndpoints(ctx context.Context, account postrider.AccountID) (int64, error) {
	own, err := s.quotasOf(ctx, account)
	return own.Or(s.opts.Quotas).Endpoints, err
}

// quotaCodes are the codes of problems by the quota that is used up.
var quotaCodes = map[postrider.QuotaName]string{
	postrider.QuotaEvents: "event_quota_used", postrider.QuotaBytes: "byte_quota_used", postrider.QuotaEndpoints: "endpoint_quota_used",
}

// fillQuota makes the problem that of a quota that is used up. Those that end by themselves
// are a 429, with the time at which they do; the number of endpoints is a 409.
func (p *problem) fillQuota(e *postrider.QuotaError) {
	p.Status, p.Code, p.retryAfter = http.StatusTooManyRequests, quotaCodes[e.Quota], e.RetryAfter
	p.Quota = &apitypes.QuotaProblem{Name: string(e.Quota), Limit: e.Limit, EndsAt: timeOrNull(e.EndsAt)}
	switch e.Quota {
	case postrider.QuotaEvents:
		p.Detail = fmt.Sprintf("the account may publish %d events a second, and has published more; see Retry-After", e.Limit)
	case postrider.QuotaBytes:
		p.Detail = fmt.Sprintf("the events of the account may have %d bytes of data a day, and this publish would be above; see Retry-After", e.Limit)
	case postrider.QuotaEndpoints:
		p.Status = http.StatusConflict
		p.Detail = fmt.Sprintf("the account may have %d endpoints, and has as many", e.Limit)
	}
	p.Title = http.StatusText(p.Status)
}
