package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// record is an attempt with the columns that its row repeats from its delivery. The row repeats
// them because the delivery's own row is deleted when the delivery ends.
type record struct {
	postrider.Attempt
	account      postrider.AccountID
	eventType    string
	replayedFrom postrider.DeliveryID
	replayJob    postrider.ReplayID
	head         []byte // what the row stores of the head of an accepted response; see store.Heads
}

// attemptColumns is the number of columns that appendAttempt appends for a row.
const attemptColumns = 21

// Each attempt number of a delivery has one row. An insert replaces the row in two cases. A stale
// attempt replaces a lost one, because only the stale one has the result of the request. A
// settlement under the lease replaces any row.
const (
	putAttemptsSQL = `
	insert or replace into attempts (delivery, number, named_event, endpoint, account, type, outcome, status_code, error, retry_after,
		started_at, duration, stale, status_after, next_at, replayed_from, replay_job, response_start, final_url,
		timing, response_head) values `
	putBodiesSQL = `
	insert or replace into attempt_bodies (delivery, number, request_head, response_head, response_body) values `
)

// appendAttempt appends the arguments of one row of attempts. The head and the first bytes of an
// accepted response are stored in the row itself, so nearly every attempt is one row.
func appendAttempt(args []any, r record) []any {
	var start any
	if r.Outcome == postrider.OutcomeAccepted {
		start = bytesOrNull(r.ResponseBody[:min(len(r.ResponseBody), store.MaxAcceptedBody)])
	}
	return append(args, blob(r.Delivery), r.Number, blobOrNull(store.NamedEvent(r.Delivery, r.Event)), blob(r.Endpoint),
		blob(r.account), r.eventType, string(r.Outcome), r.StatusCode, r.Error, r.RetryAfter.Microseconds(), micros(r.StartedAt),
		r.Duration.Microseconds(), r.Stale, string(r.StatusAfter), microsOrNull(r.NextAt), blobOrNull(r.replayedFrom),
		blobOrNull(r.replayJob), start, textOrNull(r.FinalURL),
		bytesOrNull(store.EncodeTiming(r.Timing)), bytesOrNull(r.head))
}

// appendBody appends the arguments of one row of attempt_bodies, if the attempt has more to store
// than its own row has.
func appendBody(args []any, r record) []any {
	if store.InOneRow(&r.Attempt) {
		return args
	}
	if len(r.RequestHead)+len(r.ResponseHead)+len(r.ResponseBody) == 0 {
		return args
	}
	return append(args, blob(r.Delivery), r.Number,
		bytesOrNull(r.RequestHead), bytesOrNull(r.ResponseHead), bytesOrNull(r.ResponseBody))
}

// tally counts a record for the rollups. It must not be called for a stale settlement that
// replaces a lost record, because that attempt is counted already.
func (t *tx) tally(r record) {
	key := store.DeltaKey{Account: r.account, Endpoint: r.Endpoint, Type: r.eventType}
	t.recorded.Record(key, r.Outcome, r.Number, r.StatusAfter)
}

// deadLetter is a dead letter to be stored.
type deadLetter struct {
	record          // the last attempt of the delivery, or the decision that ended it
	reason   string // why the delivery became a dead letter
	attempts int    // number of requests that were made; a decision without a request does not count
}

// The statements walk the primary key of attempts backwards.
const (
	lastCodeSQL = `
	select status_code from attempts
	where delivery = ? and status_code > 0 order by number desc limit 1`
	lastErrorSQL = `
	select error from attempts
	where delivery = ? and outcome <> 'none' order by number desc limit 1`
)

// The insert never meets a row, because a delivery becomes a dead letter only once.
const insertDeadLetterSQL = `
	insert into dead_letters (delivery, event, endpoint, account, type, reason, attempts,
		last_status_code, last_error, replayed_from, replay_job, died_at)
	values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

// insert stores a dead letter, with the last status code and the last error. If the last attempt
// was no request, or got no response, these come from earlier attempts, which must be stored
// already.
func (l deadLetter) insert(ctx context.Context, tx *tx) error {
	code, text := l.StatusCode, l.Error
	if code == 0 {
		err := tx.row(ctx, lastCodeSQL, blob(l.Delivery)).Scan(&code)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
	}
	if l.Outcome == postrider.OutcomeNone {
		text = ""
		err := tx.row(ctx, lastErrorSQL, blob(l.Delivery)).Scan(&text)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
	}
	return tx.exec(ctx, insertDeadLetterSQL, blob(l.Delivery), blob(l.Event), blob(l.Endpoint), blob(l.account),
		l.eventType, l.reason, l.attempts, code, text, blobOrNull(l.replayedFrom), blobOrNull(l.replayJob), micros(tx.wall))
}
