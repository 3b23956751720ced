package sqlstore

import (
	"context"
	"fmt"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// All statements walk a primary key. If an endpoint changes twice in one microsecond, the subscription in
// between selected nothing, and only the first row is stored.
const (
	subscribedSQL = `
	select event_types, policy, coalesce(subscribed_at, created_at)
	from endpoints
	where id = @id and account = @account and status <> 'deleted' and revision = @revision`
	endSubscriptionSQL = `
	insert into past_subscriptions (endpoint, since, until, selects)
	values (@id, @since, now(), @selects)
	on conflict (endpoint, until) do nothing`

	subscriptionSQL = `
	select ` + endpointColumns + `, coalesce(e.subscribed_at, e.created_at)
	from endpoints e
	where e.id = @endpoint`
	pastSubscriptionSQL = `
	select since, until, selects
	from past_subscriptions
	where endpoint = @endpoint and until > @at
	order by until
	limit 1`

	// The subquery finds the row of the time among many of one endpoint.
	pastSubscriptionsSQL = `
	select p.endpoint, p.selects
	from endpoints e
	join past_subscriptions p on p.endpoint = e.id and p.until = (
		select q.until
		from past_subscriptions q
		where q.endpoint = e.id and q.until > @at
		order by q.until
		limit 1
	)
	where e.id = any(@endpoints::uuid[]) and p.since <= @at`
)

// endSubscription stores the subscription of an endpoint that is about to be replaced by e, and reports
// whether e has another one.
func endSubscription(ctx context.Context, tx Tx, e postrider.Endpoint) (bool, error) {
	was := postrider.Endpoint{ID: e.ID}
	args := Args{"id": e.ID, "account": e.Account, "revision": e.Revision}
	since, err := all(ctx, tx, Query{subscribedSQL, args}, func(row Row, since *time.Time) error {
		var policy []byte
		err := row.Scan(&was.EventTypes, &policy, since)
		store.SetPolicy(&was, policy)
		return err
	})
	past := store.EncodeSubscription(was.Subscription())
	if err != nil || len(since) == 0 || past == store.EncodeSubscription(e.Subscription()) {
		return false, err
	}
	args["since"], args["selects"] = since[0], past
	_, err = tx.Exec(ctx, Query{endSubscriptionSQL, args})
	return true, err
}

// Subscription returns a revision of an endpoint's subscription; see [store.Directory]. It reads the
// present one first: a change that is made meanwhile adds a row for it.
func (v Verbs) Subscription(ctx context.Context, q store.SubscriptionQuery) (r postrider.SubscriptionRevision, err error) {
	defer v.calls.Begin("Subscription").End(&err, "find the subscription of endpoint %s", q.Endpoint)
	args := Args{"endpoint": q.Endpoint, "at": q.At}
	e, err := one(ctx, v.db, Query{subscriptionSQL, args}, func(row Row, e *postrider.Endpoint) error {
		return scanEndpoint(row, e, &r.Since)
	})
	if err != nil {
		return r, err
	}
	if !q.At.Before(r.Since) {
		if r.Subscription = e.Subscription(); e.Status == postrider.EndpointDeleted {
			r.Until = e.StatusSince
		}
		return r, nil
	}
	r, err = one(ctx, v.db, Query{pastSubscriptionSQL, args}, func(row Row, r *postrider.SubscriptionRevision) error {
		var document []byte
		err := row.Scan(&r.Since, &r.Until, &document)
		if err == nil {
			r.Subscription, err = store.DecodeSubscription(document)
		}
		return err
	})
	if err == nil && q.At.Before(r.Since) {
		err = fmt.Errorf("none is known before %s: %w", r.Since.Format(time.RFC3339), postrider.ErrNotFound)
	}
	return r, err
}

// PastSubscriptions returns earlier subscriptions of endpoints; see [store.Directory].
func (v Verbs) PastSubscriptions(
	ctx context.Context, p store.PastSubscriptions,
) (past map[postrider.EndpointID]postrider.Subscription, err error) {
	defer v.calls.Begin("PastSubscriptions").End(&err, "find subscriptions of %s", p.At.Format(time.RFC3339))
	past = map[postrider.EndpointID]postrider.Subscription{}
	q := Query{pastSubscriptionsSQL, Args{"endpoints": p.Endpoints, "at": p.At}}
	_, err = all(ctx, v.db, q, func(row Row, id *postrider.EndpointID) error {
		var document []byte
		err := row.Scan(id, &document)
		past[*id] = store.SalvageSubscription(document)
		return err
	})
	return past, err
}
