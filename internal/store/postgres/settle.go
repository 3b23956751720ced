package postgres

import (
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// maxStart is how much of an accepted answer stays in its attempt's row.
const maxStart = 256

// settlementColumns are settlements as the columns of settleSQL.
type settlementColumns struct {
	ids, events, endpoints, accounts, replayedFrom uuids
	numbers, steps                                 []int32
	tokens, retryAfters, durations, afters         []int64
	types, outcomes, errors, statuses, reasons     []string
	statusCodes                                    []int16
	startedAt                                      []time.Time
	responseStarts                                 [][]byte
}

func settleColumns(settlements []store.Settlement) (*settlementColumns, *bodyColumns) {
	columns, bodies := &settlementColumns{}, &bodyColumns{}
	for i := range settlements {
		columns.add(&settlements[i])
		bodies.add(settlements[i].Claimed.ID, &settlements[i].Attempt)
	}
	return columns, bodies
}

func (c *settlementColumns) add(s *store.Settlement) {
	claimed, attempt, transition := &s.Claimed, &s.Attempt, &s.Transition
	c.ids, c.events = append(c.ids, someUUID(claimed.ID)), append(c.events, someUUID(claimed.Event.ID))
	c.endpoints = append(c.endpoints, someUUID(claimed.Endpoint))
	c.accounts = append(c.accounts, someUUID(claimed.Event.Account))
	c.replayedFrom = append(c.replayedFrom, uuid(claimed.ReplayedFrom))
	c.numbers, c.steps = append(c.numbers, int32(claimed.Attempt)), append(c.steps, int32(transition.Step))
	c.tokens, c.types = append(c.tokens, int64(claimed.Token)), append(c.types, claimed.Event.Type)
	c.outcomes, c.errors = append(c.outcomes, string(attempt.Outcome)), append(c.errors, errorOf(s))
	c.statusCodes = append(c.statusCodes, int16(attempt.StatusCode))
	c.retryAfters = append(c.retryAfters, attempt.RetryAfter.Microseconds())
	c.startedAt, c.durations = append(c.startedAt, attempt.StartedAt), append(c.durations, attempt.Duration.Microseconds())
	c.statuses, c.reasons = append(c.statuses, string(transition.To)), append(c.reasons, transition.Reason)
	c.afters = append(c.afters, transition.After.Microseconds())
	var start []byte
	if attempt.Outcome == postrider.OutcomeAccepted {
		start = bytesOrNull(attempt.ResponseBody[:min(len(attempt.ResponseBody), maxStart)])
	}
	c.responseStarts = append(c.responseStarts, start)
}

// errorOf returns what the record says: of a decision without a request, its
// reason.
func errorOf(s *store.Settlement) string {
	if s.Attempt.Outcome == postrider.OutcomeNone && s.Attempt.Error == "" {
		return s.Transition.Reason
	}
	return s.Attempt.Error
}

func (c *settlementColumns) args() pgx.NamedArgs {
	return pgx.NamedArgs{
		"ids": c.ids, "numbers": c.numbers, "tokens": c.tokens, "events": c.events, "endpoints": c.endpoints,
		"accounts": c.accounts, "types": c.types, "outcomes": c.outcomes, "status_codes": c.statusCodes,
		"errors": c.errors, "retry_afters": c.retryAfters, "started_at": c.startedAt, "durations": c.durations,
		"statuses": c.statuses, "reasons": c.reasons, "steps": c.steps, "afters": c.afters,
		"replayed_from": c.replayedFrom, "response_starts": c.responseStarts,
	}
}

// Only the attempts of this settlement that were recorded may have bodies: a
// repeat meets its first ones, by attempt_bodies_pkey.
const insertBodiesSQL = `
	insert into attempt_bodies (delivery, number, request_head, response_head, response_body)
	select *
	from unnest(@deliveries::uuid[], @numbers::int[], @request_heads::bytea[], @response_heads::bytea[],
		@response_bodies::bytea[])
	on conflict (delivery, number) do nothing`

// bodyColumns are the heads and bodies that are worth keeping.
type bodyColumns struct {
	deliveries                                  uuids
	numbers                                     []int32
	requestHeads, responseHeads, responseBodies [][]byte
}

func (c *bodyColumns) add(id postrider.DeliveryID, a *postrider.Attempt) {
	if a.Outcome == postrider.OutcomeAccepted && len(a.ResponseBody) <= maxStart {
		return
	}
	if len(a.RequestHead)+len(a.ResponseHead)+len(a.ResponseBody) == 0 {
		return
	}
	c.deliveries, c.numbers = append(c.deliveries, someUUID(id)), append(c.numbers, int32(a.Number))
	c.requestHeads = append(c.requestHeads, bytesOrNull(a.RequestHead))
	c.responseHeads = append(c.responseHeads, bytesOrNull(a.ResponseHead))
	c.responseBodies = append(c.responseBodies, bytesOrNull(a.ResponseBody))
}

func (c *bodyColumns) args() pgx.NamedArgs {
	return pgx.NamedArgs{
		"deliveries": c.deliveries, "numbers": c.numbers, "request_heads": c.requestHeads,
		"response_heads": c.responseHeads, "response_bodies": c.responseBodies,
	}
}
