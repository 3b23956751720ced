package sqlstore

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// The statement walks the primary keys of accounts and quotas.
const putQuotasSQL = `
	insert into quotas (account, events_per_second, burst, bytes_per_day, endpoints, backlog, version)
	select a.id, @events, @burst, @bytes, @endpoints, @backlog, @version
	from accounts a
	where a.id = @account and a.deleted_at is null
	on conflict (account) do update set events_per_second = excluded.events_per_second, burst = excluded.burst,
		bytes_per_day = excluded.bytes_per_day, endpoints = excluded.endpoints, backlog = excluded.backlog, version = excluded.version`

// PutQuotas replaces the quotas of an account; see [store.Quotas].
func (v Verbs) PutQuotas(ctx context.Context, account postrider.AccountID, q postrider.Quotas) (err error) {
	defer v.calls.Begin("PutQuotas").End(&err, "put quotas of account %s", account)
	return v.db.Change(ctx, Repeatable, func(ctx context.Context, tx Tx) error {
		version, err := RaiseVersion(ctx, tx)
		if err != nil {
			return err
		}
		return found(tx.Exec(ctx, Query{putQuotasSQL, Args{
			"account": account, "events": q.EventsPerSecond, "burst": q.Burst, "bytes": q.BytesPerDay, "endpoints": q.Endpoints,
			"backlog": q.Backlog, "version": version,
		}}))
	})
}

const quotasSQL = `
	select account, events_per_second, burst, bytes_per_day, endpoints, backlog, version
	from quotas`

// Quotas lists the quotas of accounts; see [store.Quotas]. It walks quotas_version or, with an
// account, the primary key.
func (v Verbs) Quotas(ctx context.Context, q store.QuotaQuery) (_ []store.AccountQuotas, err error) {
	defer v.calls.Begin("Quotas").End(&err, "list quotas")
	l := newList(v.db, quotasSQL, "version", cmp.Or(q.Limit, math.MaxInt32))
	by(l, "account", q.Account)
	l.and("version > @after", Args{"after": q.After})
	return all(ctx, v.db, l.query(), func(row Row, a *store.AccountQuotas) error {
		q := &a.Quotas
		return row.Scan(&a.Account, &q.EventsPerSecond, &q.Burst, &q.BytesPerDay, &q.Endpoints, &q.Backlog, &a.Version)
	})
}

const (
	// quotaUseSQL returns the use of an account, with the bytes of @day. It walks the primary key.
	quotaUseSQL = `
	select rate, burst, events, at, case when day >= @day::date then bytes else 0 end
	from quota_use
	where account = @account`

	// countEndpointsSQL walks endpoints_account.
	countEndpointsSQL = `select count(*) from endpoints where account = @account and status <> 'deleted'`
)

// bucket is a row of quota_use. At the time at, the bucket holds events; it gains rate events a
// second, up to burst.
type bucket struct {
	rate, burst int64
	events      float64
	at          time.Time
	bytes       int64
}

// QuotaUse returns how much of its quotas an account uses; see [store.Quotas].
func (v Verbs) QuotaUse(ctx context.Context, account postrider.AccountID) (use postrider.QuotaUse, err error) {
	defer v.calls.Begin("QuotaUse").End(&err, "read the use of quotas of account %s", account)
	day, ends := store.QuotaDay(v.db.Clock().Wall())
	use.DayEnds = ends
	buckets, err := all(ctx, v.db, Query{quotaUseSQL, Args{"account": account, "day": day}}, func(row Row, b *bucket) error {
		return row.Scan(&b.rate, &b.burst, &b.events, &b.at, &b.bytes)
	})
	if err != nil {
		return use, err
	}
	for _, b := range buckets {
		added := float64(b.rate) * max(0, v.db.Clock().Now().Sub(b.at).Seconds())
		use.Missing, use.Bytes = max(0, float64(b.burst)-b.events-added), b.bytes
	}
	use.Endpoints, err = countEndpoints(ctx, v.db, account)
	return use, err
}

func countEndpoints(ctx context.Context, db Querier, account postrider.AccountID) (int64, error) {
	return one(ctx, db, Query{countEndpointsSQL, Args{"account": account}}, func(row Row, n *int64) error { return row.Scan(n) })
}

// checkMost returns an error if the account has more endpoints than p.Most. The new endpoint is
// inserted already. Each change raises the version first, so changes run one after the other, and
// the count includes endpoints of parallel calls.
func checkMost(ctx context.Context, tx Tx, p store.PutEndpoint) error {
	if p.Most == 0 || p.Endpoint.Revision > 0 {
		return nil
	}
	n, err := countEndpoints(ctx, tx, p.Endpoint.Account)
	if err == nil && n > p.Most {
		err = &postrider.QuotaError{Account: p.Endpoint.Account, Quota: postrider.QuotaEndpoints, Limit: p.Most}
	}
	return err
}

// Each marked endpoint gets a version of its own, because versions are unique. The statement
// walks the primary key.
const markFullSQL = `
	update endpoints
	set full_since = case when @full::bool then coalesce(full_since, now()) end, version = @version
	where id = @id and status <> 'deleted'`

// MarkFull marks endpoints as full, or removes the mark; see [store.Quotas].
func (v Verbs) MarkFull(ctx context.Context, m store.MarkFull) (put []postrider.Notice, err error) {
	defer v.calls.Begin("MarkFull").End(&err, "mark full endpoints")
	err = v.db.Change(ctx, Repeatable, func(ctx context.Context, tx Tx) error {
		version, err := raiseVersions(ctx, tx, len(m.Full)+len(m.Free))
		if err != nil {
			return err
		}
		var marks []Args
		for i, id := range slices.Concat(m.Full, m.Free) {
			marks = append(marks, Args{"id": id, "full": i < len(m.Full), "version": version + 1 + int64(i)})
		}
		if _, err := tx.ExecAll(ctx, markFullSQL, marks); err != nil {
			return err
		}
		put, err = PutNotices(ctx, tx, m.Notices)
		return err
	})
	return put, err
}
