// Package postrider is the domain of a webhook sender: what an event, an
// endpoint, a delivery and an attempt are, and what an attempt's outcome does
// to its delivery.
//
// The nouns live in files of their names. Three functions hold the decisions:
// [Settle] is the state machine of a delivery, [RetryPolicy.Delay] says when
// it is tried again, and [Pattern.Matches] says who wants an event type.
//
// Whatever happens, this holds:
//
//   - Nothing here reads a clock, draws a random number or does I/O: the same
//     arguments give the same answer, on every node and in every replay of a
//     history.
//   - A delivery has exactly one [Status]; delivered, cancelled and skipped are
//     final, and a dead delivery stays dead when it is replayed.
//   - Ids, statuses, outcomes and reasons are the strings that the API, the
//     tables and the metrics use.
//
// The package knows nothing of JSON, SQL or HTTP. It imports only the standard
// library, and everything else imports it.
package postrider
