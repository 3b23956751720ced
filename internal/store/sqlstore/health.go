package sqlstore

import (
	"context"
	"fmt"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

const healthSQL = `
	select endpoint, account, number, status, reason, warnings, since
	from endpoint_health`

// HealthHistory lists the changes of an endpoint's health, newest first; see [store.Ledger]. It
// walks the primary key backwards.
func (v Verbs) HealthHistory(ctx context.Context, q store.HealthQuery) (page store.Page[postrider.EndpointHealth], err error) {
	defer v.calls.Begin("HealthHistory").End(&err, "list health of endpoint %s", q.Endpoint)
	before, err := store.HealthBelow(q.Paging)
	if err != nil {
		return page, err
	}
	l := newList(v.db, healthSQL, "number desc", q.Size()+1)
	l.and("endpoint = @endpoint and number < @before", Args{"endpoint": q.Endpoint, "before": before})
	if !q.Account.IsZero() {
		l.and("account = @account", Args{"account": q.Account})
	}
	history, err := all(ctx, v.db, l.query(), func(row Row, h *postrider.EndpointHealth) error {
		return row.Scan(&h.Endpoint, &h.Account, &h.Number, &h.Status, &h.Reason, &h.Warnings, &h.Since)
	})
	return store.Cut(history, q.Paging, store.HealthKey), err
}

// Each statement walks a primary key; that of endpoint_health is walked backwards.
const (
	assessedSQL   = `select status from endpoints where id = @endpoint and account = @account`
	lastHealthSQL = `
	select coalesce(max(number), 0)
	from endpoint_health
	where endpoint = @endpoint`
	outdateHealthSQL = `update endpoint_health set last = false where endpoint = @endpoint and number = @number - 1 and last`
	insertHealthSQL  = `
	insert into endpoint_health (endpoint, number, account, status, reason, warnings, since, last)
	values (@endpoint, @number, @account, @status, @reason, @warnings, @since, true)`
	disableSQL = `
	update endpoints
	set status = 'disabled', status_reason = @reason, status_since = now(), revision = revision + 1, version = @version, updated_at = now()
	where id = @endpoint`
)

// PutHealth records a health, and disables the endpoint if the health is disabled; see
// [store.Upkeep]. In that case it first raises the version, as every change of an endpoint does.
// From then on no other transaction can change the endpoint's status.
func (v Verbs) PutHealth(ctx context.Context, h postrider.EndpointHealth, notices ...postrider.Notice) (err error) {
	defer v.calls.Begin("PutHealth").End(&err, "put health of endpoint %s", h.Endpoint)
	return v.db.Change(ctx, Once, func(ctx context.Context, tx Tx) error {
		args := Args{
			"endpoint": h.Endpoint, "number": h.Number, "account": h.Account, "status": h.Status, "reason": h.Reason,
			"warnings": h.Warnings, "since": h.Since,
		}
		statements := []string{outdateHealthSQL, insertHealthSQL}
		if h.Status == postrider.HealthDisabled {
			version, err := RaiseVersion(ctx, tx)
			if err != nil {
				return err
			}
			args["version"] = version
			statements = append(statements, disableSQL)
		}
		if err := refuseHealth(ctx, tx, h, args); err != nil {
			return err
		}
		for _, statement := range statements {
			if _, err := tx.Exec(ctx, Query{statement, args}); err != nil {
				return err
			}
		}
		_, err := tx.ExecAll(ctx, InsertNoticeSQL, NoticeRows(notices))
		return err
	})
}

// refuseHealth returns an error if the health must not be recorded. That is so if a person has
// changed the endpoint since the health was assessed, or if the assessment is a repeat. If two
// nodes assess an endpoint at once, both can see the same last number; the primary key then
// refuses the second.
func refuseHealth(ctx context.Context, tx Tx, h postrider.EndpointHealth, args Args) error {
	status, err := one(ctx, tx, Query{assessedSQL, args}, func(row Row, s *postrider.EndpointStatus) error { return row.Scan(s) })
	if err != nil {
		return err
	}
	if h.Status == postrider.HealthDisabled && !h.Disables(status) {
		return fmt.Errorf("the endpoint is %s: %w", status, postrider.ErrConflict)
	}
	last, err := one(ctx, tx, Query{lastHealthSQL, args}, func(row Row, number *int64) error { return row.Scan(number) })
	if err == nil && h.Number != last+1 {
		err = fmt.Errorf("the last health is number %d: %w", last, postrider.ErrConflict)
	}
	return err
}
