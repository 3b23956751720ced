package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// Counts by notice_destinations_address, which also refuses a second one with the address.
const putDestinationSQL = `
	insert into notice_destinations (id, account, channel, address, language, kinds, unsubscribed, confirmed_at, told_until, ask, failures, last_error, due_at)
	select @id, @account, @channel, @address, @language, @kinds, '[]', @confirmed, @told, @ask, 0, '', @now
	where @most > (select count(*) from notice_destinations where ifnull(account, x'') = ifnull(@account, x''))`

// PutDestination creates a destination; see [store.Destinations].
func (s *Store) PutDestination(ctx context.Context, d postrider.Destination, most int) error {
	kinds, err := kindsOrNull(d.Kinds)
	if err != nil {
		return s.explain("put destination", err)
	}
	return change(ctx, s, "put destination", func(ctx context.Context, tx *tx) error {
		var confirmed time.Time
		var told postrider.NoticeID
		if !d.ConfirmedAt.IsZero() {
			confirmed, told = tx.wall, store.FirstNotice(tx.wall)
		}
		n, err := tx.count(ctx, putDestinationSQL, sql.Named("id", blob(d.ID)), sql.Named("account", blobOrNull(d.Account)),
			sql.Named("channel", string(d.Channel)), sql.Named("address", d.Address), sql.Named("language", d.Language), sql.Named("kinds", kinds),
			sql.Named("confirmed", microsOrNull(confirmed)), sql.Named("told", blobOrNull(told)), sql.Named("ask", string(d.Ask)),
			sql.Named("now", micros(tx.now)), sql.Named("most", most))
		if err == nil && n == 0 {
			err = store.ErrTooMany
		}
		return err
	})
}

// kindsOrNull returns the kinds as an argument, a JSON array; nil is null.
func kindsOrNull(kinds []postrider.NoticeKind) (any, error) {
	if kinds == nil {
		return nil, nil //nolint:nilnil // null is an argument
	}
	array, err := json.Marshal(kinds)
	return string(array), err
}

// The columns of scanDestination, in its order.
const destinationColumns = `id, account, channel, address, language, kinds, unsubscribed, confirmed_at, refused_at, ask, told_until, last_sent_at,
		failures, last_error, token, due_at`

// destination is a destination with its lease.
type destination struct {
	postrider.Destination

	token postrider.Token // zero: it is not leased
	due   time.Time       // of the next message, or the end of the lease
}

// scanDestination reads a destination. Its kinds are stored as JSON arrays.
func scanDestination(rows *sql.Rows, d *destination) error {
	var kinds, unsubscribed []byte
	err := rows.Scan(toID(&d.ID), toID(&d.Account), toString(&d.Channel), &d.Address, &d.Language, &kinds, &unsubscribed,
		toTime(&d.ConfirmedAt), toTime(&d.RefusedAt), toString(&d.Ask), toID(&d.ToldUntil), toTime(&d.LastSentAt), &d.Failures, &d.LastError,
		toToken(&d.token), toTime(&d.due))
	if err != nil {
		return err
	}
	d.CreatedAt = d.ID.Time()
	if kinds != nil {
		err = json.Unmarshal(kinds, &d.Kinds)
	}
	return errors.Join(err, json.Unmarshal(unsubscribed, &d.Unsubscribed))
}

// By the key of notice_destinations from its end, or by notice_destinations_account, or one
// by the key.
const (
	destinationsSQL = `
	select ` + destinationColumns + `
	from notice_destinations
	where id >= @from and id < @below and (not @operator or account is null)
	order by id desc limit @limit`
	destinationsOfAccountSQL = `
	select ` + destinationColumns + `
	from notice_destinations
	where account = @account and id >= @from and id < @below and not @operator
	order by id desc limit @limit`
	destinationSQL = `
	select ` + destinationColumns + `
	from notice_destinations
	where id = @id and (@account is null or account = @account) and (not @operator or account is null) and id >= @from and id < @below
	limit @limit`
)

// Destinations lists destinations; see [store.Destinations].
func (s *Store) Destinations(ctx context.Context, q store.DestinationQuery) (store.Page[postrider.Destination], error) {
	args, err := window[postrider.DestinationID](store.Span{}, q.Paging)
	if err != nil {
		return store.Page[postrider.Destination]{}, err
	}
	statement := destinationsSQL
	switch {
	case !q.ID.IsZero():
		statement = destinationSQL
	case !q.Account.IsZero():
		statement = destinationsOfAccountSQL
	}
	args = append(args, sql.Named("id", blobOrNull(q.ID)), sql.Named("account", blobOrNull(q.Account)), sql.Named("operator", q.Operator))
	destinations, err := list(ctx, s, query{statement, args}, func(rows *sql.Rows, d *postrider.Destination) error {
		var row destination
		err := scanDestination(rows, &row)
		*d = row.Destination
		return err
	})
	return store.Cut(destinations, q.Paging, func(d postrider.Destination) string { return key(d.ID) }), s.explain("list destinations", err)
}

// By the key of notice_destinations.
const changeDestinationSQL = `
	update notice_destinations
	set language = @language, kinds = @kinds, unsubscribed = @unsubscribed, confirmed_at = @confirmed_at, refused_at = @refused_at, ask = @ask,
		told_until = @told_until, last_sent_at = @last_sent_at, failures = @failures, last_error = @last_error, token = @token, due_at = @due_at
	where id = @id`

// changeDestination changes a destination, and returns it.
func changeDestination(ctx context.Context, tx *tx, id postrider.DestinationID, change func(d *destination) error) (d destination, err error) {
	rows, err := tx.query(ctx, destinationSQL, sql.Named("id", blob(id)), sql.Named("account", nil), sql.Named("operator", false),
		sql.Named("from", blob(postrider.DestinationID{})), sql.Named("below", blob(last)), sql.Named("limit", 1))
	if err != nil {
		return d, err
	}
	all, err := collect(rows, scanDestination)
	if err == nil && len(all) == 0 {
		err = postrider.ErrNotFound
	}
	if err != nil {
		return d, err
	}
	d = all[0]
	if err := change(&d); err != nil {
		return d, err
	}
	kinds, err := kindsOrNull(d.Kinds)
	if err != nil {
		return d, err
	}
	unsubscribed, err := json.Marshal(append([]postrider.NoticeKind{}, d.Unsubscribed...))
	if err != nil {
		return d, err
	}
	return d, tx.exec(ctx, changeDestinationSQL, sql.Named("id", blob(d.ID)), sql.Named("language", d.Language), sql.Named("kinds", kinds),
		sql.Named("unsubscribed", string(unsubscribed)), sql.Named("confirmed_at", microsOrNull(d.ConfirmedAt)),
		sql.Named("refused_at", microsOrNull(d.RefusedAt)), sql.Named("ask", string(d.Ask)), sql.Named("told_until", blobOrNull(d.ToldUntil)),
		sql.Named("last_sent_at", microsOrNull(d.LastSentAt)), sql.Named("failures", d.Failures), sql.Named("last_error", d.LastError),
		sql.Named("token", tokenOrNull(d.token)), sql.Named("due_at", micros(d.due)))
}

// ChangeDestination changes a destination; see [store.Destinations].
func (s *Store) ChangeDestination(ctx context.Context, c store.ChangeDestination) (postrider.Destination, error) {
	return write(ctx, s, "change destination", func(ctx context.Context, tx *tx) (postrider.Destination, error) {
		d, err := changeDestination(ctx, tx, c.ID, func(d *destination) error {
			c.Apply(&d.Destination, tx.wall)
			if c.Ask != "" && d.token == 0 {
				d.due = tx.now
			}
			return nil
		})
		return d.Destination, err
	})
}

// The first by the key of notice_destinations, the second by notice_destinations_account.
const (
	deleteDestinationSQL         = `delete from notice_destinations where id = @id`
	deleteAccountDestinationsSQL = `delete from notice_destinations where account = @id`
)

// DeleteDestination deletes a destination; see [store.Destinations].
func (s *Store) DeleteDestination(ctx context.Context, id postrider.DestinationID) error {
	return change(ctx, s, "delete destination", func(ctx context.Context, tx *tx) error {
		return found(tx.count(ctx, deleteDestinationSQL, sql.Named("id", blob(id))))
	})
}

// The first walks notice_destinations_due, and for each destination that is due looks for
// one notice: notices_account has those of an account in the order of their ids, the key of
// notices those of all. Most destinations are due and have none, so it reads beside the
// writer, and the writer leases what was found, if it is still due.
const (
	needyDestinationsSQL = `
	select id from notice_destinations d
	where channel = @channel and due_at <= @now and refused_at is null and (select since from hold) is null and (
		ask <> ''
		or account is null and confirmed_at is not null and exists (
			select 1 from notices n where n.id >= d.told_until and n.id < @before)
		or account is not null and confirmed_at is not null and exists (
			select 1 from notices n where n.account = d.account and n.id >= d.told_until and n.id < @before))
	order by account is not null, due_at, id limit @max`
	claimDestinationSQL = `
	update notice_destinations set token = @token, due_at = @until
	where id = @id and due_at <= @now and refused_at is null
	returning ` + destinationColumns
)

// ClaimDestinations leases destinations that need a message; see [store.Destinations].
func (s *Store) ClaimDestinations(ctx context.Context, c store.ClaimDestinations) (claimed []postrider.Destination, err error) {
	ids, err := list(ctx, s, query{needyDestinationsSQL, []any{
		sql.Named("channel", string(c.Channel)), sql.Named("now", micros(s.clock.Now())),
		sql.Named("before", blob(store.FirstNotice(s.clock.Wall().Add(-c.Wait)))), sql.Named("max", c.Max),
	}}, func(rows *sql.Rows, id *postrider.DestinationID) error { return rows.Scan(toID(id)) })
	if err != nil || len(ids) == 0 {
		return nil, s.explain("claim destinations", err)
	}
	return write(ctx, s, "claim destinations", func(ctx context.Context, tx *tx) (claimed []postrider.Destination, err error) {
		for _, id := range ids {
			rows, err := tx.query(ctx, claimDestinationSQL, sql.Named("id", blob(id)), sql.Named("token", int64(c.Token)),
				sql.Named("now", micros(tx.now)), sql.Named("until", micros(tx.now.Add(c.Lease))))
			if err != nil {
				return nil, err
			}
			one, err := collect(rows, scanDestination)
			if err != nil {
				return nil, err
			}
			for _, d := range one {
				claimed = append(claimed, d.Destination)
			}
		}
		return claimed, nil
	})
}

// SettleDestination records what became of a message; see [store.Destinations].
func (s *Store) SettleDestination(ctx context.Context, c store.SettleDestination) error {
	return change(ctx, s, "settle destination", func(ctx context.Context, tx *tx) error {
		_, err := changeDestination(ctx, tx, c.ID, func(d *destination) error {
			if d.token != c.Token {
				return postrider.ErrFenced
			}
			d.token, d.due = 0, tx.now.Add(c.Apply(&d.Destination, tx.wall))
			return nil
		})
		if errors.Is(err, postrider.ErrNotFound) { // it was deleted meanwhile
			err = postrider.ErrFenced
		}
		return err
	})
}
