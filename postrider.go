// Package postrider is the domain of a webhook sender: what an event, an
// endpoint, a delivery and an attempt are, what an attempt's outcome does to
// its delivery, and what the outcomes of many do to their endpoint.
//
// The nouns live in files of their names. A few functions hold the decisions:
// [Settle] is the state machine of a delivery, [RetryPolicy.Delay] says when
// it is tried again, and [Pattern.Matches] says who wants an event type.
// Of an endpoint, [Breaker] is the state machine of its circuit, [ConcurrencyWindow] says
// how many attempts it may have in flight, [AdaptiveTimeout] how long each may take,
// and [HealthInput.Assess] whether it has failed for too long.
//
// Whatever happens, this holds:
//
//   - Nothing here reads a clock, draws a random number or does I/O: the same
//     arguments give the same answer, on every node and in every replay of a
//     history.
//   - A delivery has exactly one [Status]; delivered, cancelled and skipped are
//     final, and a dead delivery stays dead when it is replayed.
//   - What waits for an endpoint is not touched by what is decided about the
//     endpoint: a circuit that is not closed costs no attempt.
//   - No endpoint is disabled for its failures without a warning before.
//   - Ids, statuses, outcomes and reasons are the strings that the API, the
//     tables and the metrics use.
//
// The package knows nothing of JSON, SQL or HTTP. It imports only the standard
// library, and everything else imports it.
package postrider
