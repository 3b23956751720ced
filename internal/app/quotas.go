package app

import (
	"context"
	"errors"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// QuotaConfig limits the accounts that have no limits of their own. 0 is no limit.
type QuotaConfig struct {
	QuotaEvents    int64 `name:"quota-events" setting:"" group:"Quotas" default:"0" help:"Events that an account may publish in a second, on average, over all servers together, at most 1000000; 0: no limit. An account may have limits of its own: postrider accounts quotas."`
	QuotaBurst     int64 `name:"quota-burst" setting:"" group:"Quotas" default:"0" help:"Events that an account may publish at once, at most 10000000; 0: as many as --quota-events."`
	QuotaBytes     int64 `name:"quota-bytes" setting:"" group:"Quotas" default:"0" help:"Bytes of data that the events of an account may have on a day of UTC; 0: no limit."`
	QuotaEndpoints int64 `name:"quota-endpoints" setting:"" group:"Quotas" default:"0" help:"Endpoints that an account may have, at most 1000000; 0: no limit."`
	QuotaBacklog   int64 `name:"quota-backlog" setting:"" group:"Quotas" default:"0" help:"Deliveries that may wait for one endpoint, at most 1000000; 0: no limit. When as many wait, new events are skipped for the endpoint, and can be replayed."`
}

// quotas returns the limits as the domain has them.
func (c QuotaConfig) quotas() postrider.Quotas {
	return postrider.Quotas{
		EventsPerSecond: c.QuotaEvents, Burst: c.QuotaBurst, BytesPerDay: c.QuotaBytes, Endpoints: c.QuotaEndpoints, Backlog: c.QuotaBacklog,
	}
}

// quotaSettings are the names of the settings by those of the limits.
var quotaSettings = map[string]string{
	"events_per_second": "quota-events", "burst": "quota-burst", "bytes_per_day": "quota-bytes",
	"endpoints": "quota-endpoints", "backlog": "quota-backlog",
}

// validate returns the faults of the settings.
func (c QuotaConfig) validate(named func(setting string) string) error {
	var faults []error
	for _, f := range postrider.Faults(c.quotas().Check()) {
		faults = append(faults, &Fault{Key: named(quotaSettings[f.Field]), Reason: f.Reason})
	}
	return errors.Join(faults...)
}

// PutQuotas implements [store.Quotas].
func (v verbs) PutQuotas(ctx context.Context, account postrider.AccountID, q postrider.Quotas) (err error) {
	defer v.done("PutQuotas", time.Now(), &err)
	return v.Store.PutQuotas(ctx, account, q)
}

// Quotas implements [store.Quotas].
func (v verbs) Quotas(ctx context.Context, q store.QuotaQuery) (_ []store.AccountQuotas, err error) {
	defer v.done("Quotas", time.Now(), &err)
	return v.Store.Quotas(ctx, q)
}

// SpendQuotas implements [store.Quotas].
func (v verbs) SpendQuotas(ctx context.Context, spends []store.QuotaSpend) (_ []store.QuotaState, err error) {
	defer v.done("SpendQuotas", time.Now(), &err)
	return v.Store.SpendQuotas(ctx, spends)
}

// QuotaUse implements [store.Quotas].
func (v verbs) QuotaUse(ctx context.Context, account postrider.AccountID) (_ postrider.QuotaUse, err error) {
	defer v.done("QuotaUse", time.Now(), &err)
	return v.Store.QuotaUse(ctx, account)
}

// EndpointBacklogs implements [store.Quotas].
func (v verbs) EndpointBacklogs(ctx context.Context, q store.BacklogsQuery) (_ []postrider.EndpointBacklog, err error) {
	defer v.done("EndpointBacklogs", time.Now(), &err)
	return v.Store.EndpointBacklogs(ctx, q)
}

// MarkFull implements [store.Quotas].
func (v verbs) MarkFull(ctx context.Context, m store.MarkFull) (_ []postrider.Notice, err error) {
	defer v.done("MarkFull", time.Now(), &err)
	return v.Store.MarkFull(ctx, m)
}
