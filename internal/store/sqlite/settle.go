package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// Settle records attempts and carries out their transitions; see [store.Queue].
//
// A settlement counts if the delivery is leased under its token. The token is the fence: a job
// that takes a lease over or ends it changes or deletes the token. All settlements that count are
// stored by a few bulk statements. Then the ordering keys of ended deliveries advance. The
// settlements that do not count come last, and are recorded one by one, because they are rare.
func (s *Store) Settle(ctx context.Context, settlements []store.Settlement) (_ []store.Settled, err error) {
	defer s.calls.Begin("Settle").End(&err, "settle deliveries")
	heads, stored := s.heads.Encode(settlements)
	settled, err := write(ctx, s, func(ctx context.Context, tx *tx) ([]store.Settled, error) {
		leased, err := findLeased(ctx, tx, settlements)
		if err != nil {
			return nil, err
		}
		settled := make([]store.Settled, len(settlements))
		var batch settleBatch
		var late []int
		for i, s := range settlements {
			l, ok := leased[s.Claimed.ID]
			if !ok || l.token != s.Claimed.Token {
				late = append(late, i)
				continue
			}
			delete(leased, s.Claimed.ID) // a second settlement of the same delivery in this call does not count
			l.at = i
			batch.settle(tx, recordOf(s, heads[i]), l, s.Transition)
		}
		if err := batch.store(ctx, tx); err != nil {
			return nil, err
		}
		for _, end := range batch.endings {
			if settled[end.at].Next, err = end.advance(ctx, tx, end.dead); err != nil {
				return nil, err
			}
		}
		for _, i := range late {
			if settled[i], err = settleLate(ctx, tx, recordOf(settlements[i], heads[i])); err != nil {
				return nil, err
			}
		}
		return settled, nil
	})
	if err == nil {
		stored()
	}
	return settled, err
}

// The statement walks the primary key of queue.
const leasedSQL = `select id, token, lane, ordering_key, pauses from queue where token is not null and id in (values `

// leased is the row of a delivery that is leased.
type leased struct {
	id       postrider.DeliveryID
	token    postrider.Token
	lane     postrider.Lane
	position position
	at       int // index of the settlement; set by Settle
}

// findLeased returns the leased rows of the deliveries, by id.
func findLeased(ctx context.Context, tx *tx, settlements []store.Settlement) (map[postrider.DeliveryID]leased, error) {
	args := make([]any, len(settlements))
	for i := range settlements {
		args[i] = blob(settlements[i].Claimed.ID)
	}
	rows, err := queryAll(ctx, tx, bulkQuery[leased]{
		bulk: bulk{leasedSQL, ")", 1}, args: args,
		scan: func(rows *sql.Rows, h *leased) error {
			return rows.Scan(toID(&h.id), toToken(&h.token), toLane(&h.lane), toString(&h.position.key), toFlag(&h.position.pauses))
		},
	})
	byID := make(map[postrider.DeliveryID]leased, len(rows))
	for _, h := range rows {
		byID[h.id] = h
	}
	return byID, err
}

// settleBatch collects the changes of the settlements that count, as the arguments of bulk
// statements.
type settleBatch struct {
	// The first three fields are arguments of bulk statements.
	attempts []any // rows of attempts, one for each settlement
	bodies   []any // rows of attempt_bodies, for attempts that have more to store
	ended    []any // ids of the rows to delete from queue

	moved       [][]any      // arguments of moveSQL, one element for each delivery that stays pending
	deadLetters []deadLetter // inserted after attempts, because the insert reads attempts
	endings     []ending     // ordered deliveries that ended; Settle advances their keys after store
}

// ending is the end of an ordered delivery.
type ending struct {
	position
	at   int                  // index of the settlement
	dead postrider.DeliveryID // the dead letter of the delivery; zero if it has none
}

// settle adds one settlement. NextAt is a time of day for people, and due_at is a time of the
// store's Now, which decides. A delivery in the bulk lane stays there, so that it does not
// compete with retries. Every other one moves to the retry lane.
func (b *settleBatch) settle(tx *tx, r record, h leased, to postrider.Transition) {
	r.StatusAfter = to.To
	if r.Outcome == postrider.OutcomeNone {
		r.Error = cmp.Or(r.Error, to.Reason)
	}
	switch to.To {
	case postrider.Pending:
		r.NextAt = tx.wall.Add(to.After)
		lane := postrider.LaneRetry
		if h.lane == postrider.LaneBulk {
			lane = postrider.LaneBulk
		}
		b.moved = append(b.moved, []any{laneNumber(lane), micros(tx.now.Add(to.After)), to.Step, blob(h.id)})
	case postrider.Dead:
		attempts := r.Number
		if r.Outcome == postrider.OutcomeNone {
			attempts--
		}
		b.deadLetters = append(b.deadLetters, deadLetter{record: r, reason: to.Reason, attempts: attempts})
		b.ended = append(b.ended, blob(h.id))
	case postrider.Delivered, postrider.Cancelled, postrider.Skipped:
		b.ended = append(b.ended, blob(h.id))
	}
	if h.position.key != "" && to.To != postrider.Pending {
		h.position.endpoint = r.Endpoint
		end := ending{position: h.position, at: h.at}
		if to.To == postrider.Dead {
			end.dead = h.id
		}
		b.endings = append(b.endings, end)
	}
	tx.tally(r)
	b.attempts, b.bodies = appendAttempt(b.attempts, r), appendBody(b.bodies, r)
}

// recordOf returns the record of a settlement's attempt. The ids and the number come from the
// claim, whatever the attempt itself has.
func recordOf(s store.Settlement, head []byte) record {
	c := s.Claimed
	r := record{
		Attempt: s.Attempt, account: c.Event.Account, eventType: c.Event.Type, replayedFrom: c.ReplayedFrom, replayJob: c.ReplayJob,
		head: head,
	}
	r.Delivery, r.Event, r.Endpoint, r.Number = c.ID, c.Event.ID, c.Endpoint, c.Attempt
	r.Stale, r.NextAt = false, time.Time{}
	return r
}

// Both statements walk the primary key of queue.
const (
	endSQL  = `delete from queue where id in (values `
	moveSQL = `
	update queue set token = null, lane = ?, due_at = ?, step = ?, losses = 0, deaths_alone = 0
	where id = ?`
)

// store runs the statements. The attempts come before the dead letters, because the insert of a
// dead letter reads the last attempts.
func (b *settleBatch) store(ctx context.Context, tx *tx) error {
	err := errors.Join(
		tx.execAll(ctx, bulk{putAttemptsSQL, "", attemptColumns}, b.attempts),
		tx.execAll(ctx, bulk{putBodiesSQL, "", 5}, b.bodies),
		tx.execAll(ctx, bulk{endSQL, ")", 1}, b.ended),
	)
	if err != nil {
		return err
	}
	for _, args := range b.moved {
		if err := tx.exec(ctx, moveSQL, args...); err != nil {
			return err
		}
	}
	for _, l := range b.deadLetters {
		if err := l.insert(ctx, tx); err != nil {
			return err
		}
	}
	return nil
}

// The statement walks the primary key of attempts.
const recordedSQL = `select outcome, stale from attempts where delivery = ? and number = ?`

// settleLate settles an attempt whose lease is gone. There are two cases:
//
//   - The same settlement was stored before, and its reply was lost. Its record exists and is not
//     lost. Nothing changes, and the result is the same as then.
//   - The lease ended and was taken over, or the delivery was cancelled. The attempt is recorded
//     as stale. If the attempt was recorded as lost, the stale record replaces the lost one,
//     because only the stale one has the result of the request.
func settleLate(ctx context.Context, tx *tx, r record) (store.Settled, error) {
	var before string
	var stale bool
	err := tx.row(ctx, recordedSQL, blob(r.Delivery), r.Number).Scan(&before, &stale)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return store.Settled{}, err
	}
	if err == nil && postrider.Outcome(before) != postrider.OutcomeLost {
		return store.Settled{Stale: stale}, nil
	}
	r.Stale, r.StatusAfter = true, postrider.Pending
	if err != nil { // it replaces no lost record, which would have been counted
		tx.tally(r)
	}
	return store.Settled{Stale: true}, errors.Join(
		tx.execAll(ctx, bulk{putAttemptsSQL, "", attemptColumns}, appendAttempt(nil, r)),
		tx.execAll(ctx, bulk{putBodiesSQL, "", 5}, appendBody(nil, r)),
	)
}

// Both statements walk the primary key of queue.
const (
	continuableSQL = `select claims from queue where id = ? and token = ?`
	continueSQL    = `update queue set claims = claims + 1 where id = ?`
)

// Continue records an attempt that is followed by another one under the same lease; see
// [store.Queue].
func (s *Store) Continue(ctx context.Context, c postrider.Claimed, a postrider.Attempt) (err error) {
	defer s.calls.Begin("Continue").End(&err, "continue delivery")
	return change(ctx, s, func(ctx context.Context, tx *tx) error {
		var claims int
		err := tx.row(ctx, continuableSQL, blob(c.ID), int64(c.Token)).Scan(&claims)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return postrider.ErrFenced
		case err != nil || claims != c.Attempt: // another number means that this is a repeat
			return err
		}
		r := recordOf(store.Settlement{Claimed: c, Attempt: a}, nil)
		r.StatusAfter, r.NextAt = postrider.Pending, tx.wall
		tx.tally(r)
		return errors.Join(
			tx.execAll(ctx, bulk{putAttemptsSQL, "", attemptColumns}, appendAttempt(nil, r)),
			tx.execAll(ctx, bulk{putBodiesSQL, "", 5}, appendBody(nil, r)),
			tx.exec(ctx, continueSQL, blob(c.ID)),
		)
	})
}
