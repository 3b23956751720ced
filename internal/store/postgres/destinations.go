package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// One destination of an account is created at a time, so that two cannot both be the last
// one that it may have. The lock ends with the transaction. The key is the name of the
// table and the account; two accounts that share a hash wait for each other.
const lockDestinationsSQL = `select pg_advisory_xact_lock(hashtext('notice_destinations'), hashtext(coalesce(@account::uuid::text, '')))`

// Counts by notice_destinations_account, or the operator's by notice_destinations_operator.
// notice_destinations_address refuses a second one with the address.
const putDestinationSQL = `
	insert into notice_destinations (id, account, channel, address, language, kinds, unsubscribed, confirmed_at, told_until, ask, failures, last_error, due_at)
	select @id, @account, @channel, @address, @language, @kinds, '{}', @confirmed, @told, @ask, 0, '', @now
	where @most > (
		select count(*)
		from notice_destinations d
		where (@account::uuid is null and d.account is null) or d.account = @account::uuid)`

// PutDestination creates a destination.
func (s *Store) PutDestination(ctx context.Context, d postrider.Destination, most int) error {
	var confirmed time.Time
	var told postrider.NoticeID
	if !d.ConfirmedAt.IsZero() {
		confirmed = s.clock.Wall()
		told = store.FirstNotice(confirmed)
	}
	err := s.once(ctx, func() error {
		return s.tx(ctx, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, lockDestinationsSQL, pgx.NamedArgs{"account": uuid(d.Account)}); err != nil {
				return err
			}
			tag, err := tx.Exec(ctx, putDestinationSQL, pgx.NamedArgs{
				"id": someUUID(d.ID), "account": uuid(d.Account), "channel": string(d.Channel), "address": d.Address, "language": d.Language,
				"kinds": d.Kinds, "confirmed": instant(confirmed), "told": uuid(told), "ask": string(d.Ask), "now": s.clock.Now(), "most": most,
			})
			if err == nil && tag.RowsAffected() == 0 {
				err = store.ErrTooMany
			}
			return err
		})
	})
	if err != nil {
		return fmt.Errorf("put destination %s: %w", d.ID, err)
	}
	return nil
}

// scanDestination reads a destination, and behind it what the caller selected beside it.
func scanDestination(row pgx.CollectableRow, d *postrider.Destination, more ...any) error {
	err := row.Scan(append([]any{
		toID(&d.ID), toID(&d.Account), &d.Channel, &d.Address, &d.Language, &d.Kinds, &d.Unsubscribed, toTime(&d.ConfirmedAt),
		toTime(&d.RefusedAt), &d.Ask, toID(&d.ToldUntil), toTime(&d.LastSentAt), &d.Failures, &d.LastError,
	}, more...)...)
	d.CreatedAt = d.ID.Time()
	return err
}

// Walks notice_destinations_pkey backwards, notice_destinations_account or
// notice_destinations_operator.
const destinationsSQL = `
	select d.id, d.account, d.channel, d.address, d.language, d.kinds, d.unsubscribed, d.confirmed_at, d.refused_at, d.ask, d.told_until,
		d.last_sent_at, d.failures, d.last_error
	from notice_destinations d
	where d.id >= @from and d.id < @before and (@id::uuid is null or d.id = @id)
		and (@account::uuid is null or d.account = @account) and (not @operator or d.account is null)
	order by d.id desc
	limit @limit`

// Destinations lists destinations, newest first.
func (s *Store) Destinations(ctx context.Context, q store.DestinationQuery) (store.Page[postrider.Destination], error) {
	from, before, err := within[postrider.DestinationID](store.Span{}, q.Paging)
	if err != nil {
		return store.Page[postrider.Destination]{}, err
	}
	destinations, err := list(ctx, s, query{destinationsSQL, pgx.NamedArgs{
		"from": from, "before": before, "id": uuid(q.ID), "account": uuid(q.Account), "operator": q.Operator, "limit": q.Size() + 1,
	}}, func(row pgx.CollectableRow) (d postrider.Destination, err error) {
		return d, scanDestination(row, &d)
	})
	if err != nil {
		return store.Page[postrider.Destination]{}, fmt.Errorf("list destinations: %w", err)
	}
	return store.Cut(destinations, q.Paging, func(d postrider.Destination) string { return string(d.ID[:]) }), nil
}

// The two statements of a change: the row is read under its lock, changed by the rules of
// package store, and written. Both walk notice_destinations_pkey.
const (
	lockDestinationSQL = `
	select d.id, d.account, d.channel, d.address, d.language, d.kinds, d.unsubscribed, d.confirmed_at, d.refused_at, d.ask, d.told_until,
		d.last_sent_at, d.failures, d.last_error, coalesce(d.token, 0), d.due_at
	from notice_destinations d
	where d.id = @id
	for update`
	changeDestinationSQL = `
	update notice_destinations
	set language = @language, kinds = @kinds, unsubscribed = @unsubscribed, confirmed_at = @confirmed_at, refused_at = @refused_at, ask = @ask,
		told_until = @told_until, last_sent_at = @last_sent_at, failures = @failures, last_error = @last_error, token = @token, due_at = @due_at
	where id = @id`
)

// leased is a destination with its lease.
type leased struct {
	postrider.Destination

	token postrider.Token // zero: it is not leased
	due   time.Time       // of the next message, or the end of the lease
}

// changeDestination changes a destination under the lock of its row, and returns it.
func (s *Store) changeDestination(ctx context.Context, id postrider.DestinationID, change func(d *leased) error) (d leased, err error) {
	err = s.tx(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, lockDestinationSQL, pgx.NamedArgs{"id": someUUID(id)})
		if err != nil {
			return err
		}
		all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (d leased, err error) {
			return d, scanDestination(row, &d.Destination, &d.token, toTime(&d.due))
		})
		if err == nil && len(all) == 0 {
			err = postrider.ErrNotFound
		}
		if err != nil {
			return err
		}
		d = all[0]
		if err := change(&d); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, changeDestinationSQL, pgx.NamedArgs{
			"id": someUUID(d.ID), "language": d.Language, "kinds": d.Kinds, "unsubscribed": append([]postrider.NoticeKind{}, d.Unsubscribed...),
			"confirmed_at": instant(d.ConfirmedAt), "refused_at": instant(d.RefusedAt), "ask": string(d.Ask), "told_until": uuid(d.ToldUntil),
			"last_sent_at": instant(d.LastSentAt), "failures": d.Failures, "last_error": d.LastError, "token": token(d.token), "due_at": d.due,
		})
		return err
	})
	return d, err
}

// ChangeDestination changes a destination. A repeat after a lost reply changes nothing more.
func (s *Store) ChangeDestination(ctx context.Context, c store.ChangeDestination) (postrider.Destination, error) {
	var changed leased
	err := s.repeat(ctx, func(bool) (err error) {
		changed, err = s.changeDestination(ctx, c.ID, func(d *leased) error {
			c.Apply(&d.Destination, s.clock.Wall())
			if c.Ask != "" && d.token == 0 {
				d.due = s.clock.Now()
			}
			return nil
		})
		return err
	})
	if err != nil {
		return postrider.Destination{}, fmt.Errorf("change destination %s: %w", c.ID, err)
	}
	return changed.Destination, nil
}

// Walks notice_destinations_pkey.
const deleteDestinationSQL = `delete from notice_destinations where id = @id`

// DeleteDestination deletes a destination. A repeat after a lost reply finds none, which is
// then a success.
func (s *Store) DeleteDestination(ctx context.Context, id postrider.DestinationID) error {
	err := s.repeat(ctx, func(again bool) error {
		tag, err := s.pool.Exec(ctx, deleteDestinationSQL, pgx.NamedArgs{"id": someUUID(id)})
		if err == nil && tag.RowsAffected() == 0 && !again {
			err = postrider.ErrNotFound
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("delete destination %s: %w", id, err)
	}
	return nil
}

// Walks notice_destinations_due, and for each destination that is due looks for one notice:
// notices_account has those of an account in the order of their ids, notices_pkey those of
// all. Most destinations are due and have none. skip locked lets several nodes claim at
// once.
const claimDestinationsSQL = `
	with due as materialized (
		select d.id
		from notice_destinations d
		where d.channel = @channel and d.due_at <= @now and d.refused_at is null and (select h.since from hold h where h.single) is null and (
			d.ask <> ''
			or d.account is null and d.confirmed_at is not null and exists (
				select from notices n
				where n.id >= d.told_until and n.id < @before)
			or d.account is not null and d.confirmed_at is not null and exists (
				select from notices n
				where n.account = d.account and n.id >= d.told_until and n.id < @before))
		order by d.account is not null, d.due_at, d.id
		limit @max
		for update skip locked
	)
	update notice_destinations d
	set token = @token, due_at = @now::timestamptz + @lease * interval '1 microsecond'
	from due
	where d.id = due.id
	returning d.id, d.account, d.channel, d.address, d.language, d.kinds, d.unsubscribed, d.confirmed_at, d.refused_at, d.ask, d.told_until,
		d.last_sent_at, d.failures, d.last_error`

// ClaimDestinations leases destinations that need a message.
func (s *Store) ClaimDestinations(ctx context.Context, c store.ClaimDestinations) (claimed []postrider.Destination, err error) {
	err = s.once(ctx, func() error {
		rows, err := s.pool.Query(ctx, claimDestinationsSQL, pgx.NamedArgs{
			"channel": string(c.Channel), "now": s.clock.Now(), "before": someUUID(store.FirstNotice(s.clock.Wall().Add(-c.Wait))),
			"max": c.Max, "token": token(c.Token), "lease": c.Lease.Microseconds(),
		})
		if err != nil {
			return err
		}
		claimed, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (d postrider.Destination, err error) {
			return d, scanDestination(row, &d)
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("claim destinations: %w", err)
	}
	return claimed, nil
}

// SettleDestination records what became of a message. A repeat after a lost reply finds the
// lease ended, which is then a success.
func (s *Store) SettleDestination(ctx context.Context, c store.SettleDestination) error {
	err := s.repeat(ctx, func(again bool) error {
		_, err := s.changeDestination(ctx, c.ID, func(d *leased) error {
			if d.token != c.Token {
				return postrider.ErrFenced
			}
			d.token, d.due = 0, s.clock.Now().Add(c.Apply(&d.Destination, s.clock.Wall()))
			return nil
		})
		if again && errors.Is(err, postrider.ErrFenced) {
			return nil
		}
		return err
	})
	if errors.Is(err, postrider.ErrNotFound) { // it was deleted meanwhile
		err = postrider.ErrFenced
	}
	if err != nil {
		return fmt.Errorf("settle destination %s: %w", c.ID, err)
	}
	return nil
}
