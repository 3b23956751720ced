package sqlstore

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// destinationColumns are the columns of a destination, in the order of scanDestination.
const destinationColumns = `id, account, channel, address, language, kinds, unsubscribed, confirmed_at, refused_at, ask, told_until, last_sent_at,
		failures, last_error, token, due_at`

// destination is a destination together with its lease.
type destination struct {
	postrider.Destination

	token postrider.Token // zero if the destination is not leased
	due   time.Time       // the time of the next message, or the end of the lease
}

func scanDestination(row Row, d *destination) error {
	err := row.Scan(&d.ID, &d.Account, &d.Channel, &d.Address, &d.Language, &d.Kinds, &d.Unsubscribed, &d.ConfirmedAt, &d.RefusedAt, &d.Ask,
		&d.ToldUntil, &d.LastSentAt, &d.Failures, &d.LastError, &d.token, &d.due)
	d.CreatedAt = d.ID.Time()
	return err
}

// putDestinationSQL ends with one of the two conditions below. The unique index
// notice_destinations_address refuses a second destination with the same address. The operator's
// destinations have no account, and are counted together.
const (
	putDestinationSQL = `
	insert into notice_destinations (id, account, channel, address, language, kinds, unsubscribed, confirmed_at, told_until, ask, failures, last_error, due_at)
	select @id, @account, @channel, @address, @language, @kinds, @unsubscribed, @confirmed, @told, @ask, 0, '', @now
	where @most > (select count(*) from notice_destinations d where `
	ofAccountSQL  = `d.account = @account::uuid)`
	ofOperatorSQL = `d.account is null and @account::uuid is null)`
)

// PutDestination creates a destination; see [store.Destinations]. The lock lets only one
// transaction at a time create a destination of an account, so two of them cannot both be counted
// as the last allowed one.
func (v Verbs) PutDestination(ctx context.Context, d postrider.Destination, most int) (err error) {
	defer v.calls.Begin("PutDestination").End(&err, "put destination %s", d.ID)
	statement := putDestinationSQL + ofAccountSQL
	if d.Account.IsZero() {
		statement = putDestinationSQL + ofOperatorSQL
	}
	return v.db.Change(ctx, Once, func(ctx context.Context, tx Tx) error {
		if err := tx.Lock(ctx, "notice_destinations", d.Account); err != nil {
			return err
		}
		var confirmed time.Time
		var told postrider.NoticeID
		if !d.ConfirmedAt.IsZero() {
			confirmed, told = tx.Wall(), store.FirstNotice(tx.Wall())
		}
		n, err := tx.Exec(ctx, Query{statement, Args{
			"id": d.ID, "account": OrNull(d.Account), "channel": d.Channel, "address": d.Address,
			"language": d.Language, "kinds": d.Kinds, "unsubscribed": []string{}, "confirmed": confirmed, "told": OrNull(told), "ask": d.Ask,
			"now": tx.Now(), "most": most,
		}})
		if err == nil && n == 0 {
			err = store.ErrTooMany
		}
		return err
	})
}

const destinationsSQL = `
	select ` + destinationColumns + `
	from notice_destinations`

// Destinations lists destinations, newest first; see [store.Destinations].
func (v Verbs) Destinations(ctx context.Context, q store.DestinationQuery) (page store.Page[postrider.Destination], err error) {
	defer v.calls.Begin("Destinations").End(&err, "list destinations")
	l, err := listOf[postrider.DestinationID](v.db, destinationsSQL, store.Span{}, q.Paging)
	if err != nil {
		return page, err
	}
	by(l, "id", q.ID)
	by(l, "account", q.Account)
	if q.Operator {
		l.and("account is null", nil)
	}
	return pageOf(ctx, l, func(row Row, d *postrider.Destination) error {
		var leased destination
		err := scanDestination(row, &leased)
		*d = leased.Destination
		return err
	}, func(d *postrider.Destination) postrider.DestinationID { return d.ID })
}

// A change runs these two statements. The first reads the row under a lock, the rules of package
// store change the destination in memory, and the second writes it. Both walk the primary key.
const (
	lockDestinationSQL = `
	select ` + destinationColumns + `
	from notice_destinations
	where id = @id
	for update`
	changeDestinationSQL = `
	update notice_destinations
	set language = @language, kinds = @kinds, unsubscribed = @unsubscribed, confirmed_at = @confirmed_at, refused_at = @refused_at, ask = @ask,
		told_until = @told_until, last_sent_at = @last_sent_at, failures = @failures, last_error = @last_error, token = @token, due_at = @due_at
	where id = @id`
)

// changeDestination changes a destination while it holds the lock of the row, and returns it.
func changeDestination(
	ctx context.Context, tx Tx, id postrider.DestinationID, change func(d *destination) error,
) (postrider.Destination, error) {
	d, err := one(ctx, tx, Query{lockDestinationSQL, Args{"id": id}}, scanDestination)
	if err != nil {
		return postrider.Destination{}, err
	}
	if err := change(&d); err != nil {
		return postrider.Destination{}, err
	}
	_, err = tx.Exec(ctx, Query{changeDestinationSQL, Args{
		"id": d.ID, "language": d.Language, "kinds": d.Kinds, "unsubscribed": append([]postrider.NoticeKind{}, d.Unsubscribed...),
		"confirmed_at": d.ConfirmedAt, "refused_at": d.RefusedAt, "ask": d.Ask, "told_until": OrNull(d.ToldUntil), "last_sent_at": d.LastSentAt,
		"failures": d.Failures, "last_error": d.LastError, "token": OrNull(d.token), "due_at": d.due,
	}})
	return d.Destination, err
}

// ChangeDestination changes a destination; see [store.Destinations]. A repeat changes
// nothing more.
func (v Verbs) ChangeDestination(ctx context.Context, c store.ChangeDestination) (changed postrider.Destination, err error) {
	defer v.calls.Begin("ChangeDestination").End(&err, "change destination %s", c.ID)
	err = v.db.Change(ctx, Repeatable, func(ctx context.Context, tx Tx) error {
		changed, err = changeDestination(ctx, tx, c.ID, func(d *destination) error {
			c.Apply(&d.Destination, tx.Wall())
			if c.Ask != "" && d.token == 0 {
				d.due = tx.Now()
			}
			return nil
		})
		return err
	})
	return changed, err
}

// The statement walks the primary key.
const deleteDestinationSQL = `delete from notice_destinations where id = @id`

// DeleteDestination deletes a destination; see [store.Destinations]. A run that repeats an
// earlier one and finds no destination is a success.
func (v Verbs) DeleteDestination(ctx context.Context, id postrider.DestinationID) (err error) {
	defer v.calls.Begin("DeleteDestination").End(&err, "delete destination %s", id)
	return v.db.Change(ctx, Repeatable, func(ctx context.Context, tx Tx) error {
		err := found(tx.Exec(ctx, Query{deleteDestinationSQL, Args{"id": id}}))
		if tx.Again() && errors.Is(err, postrider.ErrNotFound) {
			return nil
		}
		return err
	})
}

const (
	// needyDestinationsSQL walks notice_destinations_due, and looks for one new notice of each due
	// destination: in notices_account for a destination of an account, in the primary key of notices
	// for one of the operator. Most destinations are due and have no new notice, so the statement
	// runs outside of a transaction.
	needyDestinationsSQL = `
	select d.id
	from notice_destinations d
	where d.channel = @channel and d.due_at <= @now and d.refused_at is null and (select h.since from hold h) is null and (
		d.ask <> ''
		or d.account is null and d.confirmed_at is not null and exists (
			select 1 from notices n where n.id >= d.told_until and n.id < @before)
		or d.account is not null and d.confirmed_at is not null and exists (
			select 1 from notices n where n.account = d.account and n.id >= d.told_until and n.id < @before))
	order by d.account is not null, d.due_at, d.id
	limit @max`

	// claimDestinationsSQL walks the primary key. It skips a destination that another node has
	// leased in the meantime, because that destination is not due.
	claimDestinationsSQL = `
	update notice_destinations set token = @token, due_at = @until
	where id = any(@ids::uuid[]) and due_at <= @now and refused_at is null
	returning ` + destinationColumns
)

// ClaimDestinations leases destinations that need a message; see [store.Destinations].
func (v Verbs) ClaimDestinations(ctx context.Context, c store.ClaimDestinations) (claimed []postrider.Destination, err error) {
	defer v.calls.Begin("ClaimDestinations").End(&err, "claim destinations")
	clock := v.db.Clock()
	ids, err := all(ctx, v.db, Query{needyDestinationsSQL, Args{
		"channel": c.Channel, "now": clock.Now(), "before": store.FirstNotice(clock.Wall().Add(-c.Wait)), "max": c.Max,
	}}, func(row Row, id *postrider.DestinationID) error { return row.Scan(id) })
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	err = v.db.Change(ctx, Once, func(ctx context.Context, tx Tx) error {
		args := Args{"ids": ids, "token": c.Token, "now": tx.Now(), "until": tx.Now().Add(c.Lease)}
		leased, err := all(ctx, tx, Query{claimDestinationsSQL, args}, scanDestination)
		claimed = nil
		for _, d := range leased {
			claimed = append(claimed, d.Destination)
		}
		return err
	})
	slices.SortFunc(claimed, func(a, b postrider.Destination) int { return slices.Index(ids, a.ID) - slices.Index(ids, b.ID) })
	return claimed, err
}

// SettleDestination records the result of sending a message; see [store.Destinations]. A run that
// repeats an earlier one and finds the lease ended is a success.
func (v Verbs) SettleDestination(ctx context.Context, c store.SettleDestination) (err error) {
	defer v.calls.Begin("SettleDestination").End(&err, "settle destination %s", c.ID)
	return v.db.Change(ctx, Repeatable, func(ctx context.Context, tx Tx) error {
		_, err := changeDestination(ctx, tx, c.ID, func(d *destination) error {
			if d.token != c.Token {
				return postrider.ErrFenced
			}
			d.token, d.due = 0, tx.Now().Add(c.Apply(&d.Destination, tx.Wall()))
			return nil
		})
		if errors.Is(err, postrider.ErrNotFound) { // it was deleted in the meantime
			err = postrider.ErrFenced
		}
		if tx.Again() && errors.Is(err, postrider.ErrFenced) {
			return nil
		}
		return err
	})
}
