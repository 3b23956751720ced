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

// Settle records attempts and carries out their transitions; see
// [store.Queue].
func (s *Store) Settle(ctx context.Context, settlements []store.Settlement) ([]store.Settled, error) {
	return write(ctx, s, "settle deliveries", func(ctx context.Context, tx *tx) ([]store.Settled, error) {
		held, err := heldLeases(ctx, tx, settlements)
		if err != nil {
			return nil, err
		}
		answers := make([]store.Settled, len(settlements))
		var rows outcome
		var late []int
		for i, s := range settlements {
			l, ok := held[s.Claimed.ID]
			if !ok || l.token != s.Claimed.Token {
				late = append(late, i)
				continue
			}
			delete(held, s.Claimed.ID) // once in a call
			l.at = i
			rows.settle(tx, s, l)
		}
		if err := rows.store(ctx, tx); err != nil {
			return nil, err
		}
		for _, end := range rows.turns {
			if answers[end.at].Next, err = end.over(ctx, tx, end.dead); err != nil {
				return nil, err
			}
		}
		for _, i := range late {
			if answers[i], err = settleLate(ctx, tx, settlements[i]); err != nil {
				return nil, err
			}
		}
		return answers, nil
	})
}

// By the key of queue.
const heldSQL = `select id, token, lane, ordering_key, pauses from queue where token is not null and id in (values `

type held struct {
	id    postrider.DeliveryID
	token postrider.Token
	lane  postrider.Lane
	turn  turn
	at    int // its settlement's place
}

func heldLeases(ctx context.Context, tx *tx, settlements []store.Settlement) (map[postrider.DeliveryID]held, error) {
	args := make([]any, len(settlements))
	for i := range settlements {
		args[i] = blob(settlements[i].Claimed.ID)
	}
	rows, err := queryAll(ctx, tx, bulkQuery[held]{
		bulk: bulk{heldSQL, ")", 1}, args: args,
		scan: func(rows *sql.Rows, h *held) error {
			return rows.Scan(toID(&h.id), toToken(&h.token), toLane(&h.lane), toString(&h.turn.key), toFlag(&h.turn.pauses))
		},
	})
	byID := make(map[postrider.DeliveryID]held, len(rows))
	for _, h := range rows {
		byID[h.id] = h
	}
	return byID, err
}

// outcome gathers what settlements that count change.
type outcome struct {
	attempts, bodies, ended []any
	moved                   [][]any
	letters                 []deadLetter
	turns                   []ending
}

// ending is the end of an ordered delivery.
type ending struct {
	turn
	at   int                  // its settlement's place
	dead postrider.DeliveryID // its dead letter; zero: it has none
}

func (o *outcome) settle(tx *tx, s store.Settlement, h held) {
	r := recordOf(s)
	r.StatusAfter = s.Transition.To
	if r.Outcome == postrider.OutcomeNone {
		r.Error = cmp.Or(r.Error, s.Transition.Reason)
	}
	switch s.Transition.To {
	case postrider.Pending:
		r.NextAt = tx.wall.Add(s.Transition.After)
		lane := postrider.LaneRetry
		if h.lane == postrider.LaneBulk {
			lane = postrider.LaneBulk
		}
		o.moved = append(o.moved, []any{laneNumber(lane), micros(tx.now.Add(s.Transition.After)), s.Transition.Step, blob(h.id)})
	case postrider.Dead:
		attempts := r.Number
		if r.Outcome == postrider.OutcomeNone {
			attempts--
		}
		o.letters = append(o.letters, deadLetter{record: r, reason: s.Transition.Reason, attempts: attempts})
		o.ended = append(o.ended, blob(h.id))
	case postrider.Delivered, postrider.Cancelled, postrider.Skipped:
		o.ended = append(o.ended, blob(h.id))
	}
	if h.turn.key != "" && s.Transition.To != postrider.Pending {
		h.turn.endpoint = r.Endpoint
		end := ending{turn: h.turn, at: h.at}
		if s.Transition.To == postrider.Dead {
			end.dead = h.id
		}
		o.turns = append(o.turns, end)
	}
	o.attempts, o.bodies = appendAttempt(o.attempts, r), appendBody(o.bodies, r)
}

// recordOf returns what is kept of a settlement's attempt. The claim says
// whose attempt it is.
func recordOf(s store.Settlement) record {
	c := s.Claimed
	r := record{
		Attempt: s.Attempt, account: c.Event.Account, eventType: c.Event.Type, replayedFrom: c.ReplayedFrom,
	}
	r.Delivery, r.Event, r.Endpoint, r.Number = c.ID, c.Event.ID, c.Endpoint, c.Attempt
	r.Stale, r.NextAt = false, time.Time{}
	return r
}

// Both by the key of queue.
const (
	endSQL  = `delete from queue where id in (values `
	moveSQL = `
	update queue set token = null, lane = ?, due_at = ?, step = ?, losses = 0, deaths_alone = 0
	where id = ?`
)

func (o *outcome) store(ctx context.Context, tx *tx) error {
	err := errors.Join(
		tx.execAll(ctx, bulk{putAttemptsSQL, "", attemptColumns}, o.attempts),
		tx.execAll(ctx, bulk{putBodiesSQL, "", 5}, o.bodies),
		tx.execAll(ctx, bulk{endSQL, ")", 1}, o.ended),
	)
	if err != nil {
		return err
	}
	for _, args := range o.moved {
		if err := tx.exec(ctx, moveSQL, args...); err != nil {
			return err
		}
	}
	for _, l := range o.letters {
		if err := l.insert(ctx, tx); err != nil {
			return err
		}
	}
	return nil
}

// By the key of attempts.
const recordedSQL = `select outcome, stale from attempts where delivery = ? and number = ?`

// settleLate settles an attempt that does not hold its delivery: what was
// settled before is left as it is, and what others took over meanwhile is
// recorded as stale, in the place of the lost one.
func settleLate(ctx context.Context, tx *tx, s store.Settlement) (store.Settled, error) {
	r := recordOf(s)
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
	return store.Settled{Stale: true}, errors.Join(
		tx.execAll(ctx, bulk{putAttemptsSQL, "", attemptColumns}, appendAttempt(nil, r)),
		tx.execAll(ctx, bulk{putBodiesSQL, "", 5}, appendBody(nil, r)),
	)
}
