// Package postrider is the domain of a webhook sender. It defines events, endpoints, deliveries and
// attempts. It decides what the outcome of an attempt does to its delivery, and what the outcomes
// of many attempts do to their endpoint.
//
// Each noun has a file of its name. A few functions hold the decisions about a delivery: [Settle]
// is its state machine, [RetryPolicy.Delay] says when it is retried, and [Pattern.Matches] says
// which event types an endpoint gets. Others hold the decisions about an endpoint: [Breaker] is the
// state machine of its circuit, [ConcurrencyWindow] says how many attempts it may have in flight,
// [AdaptiveTimeout] says how long each may take, and [HealthInput.Assess] says whether it has
// failed for too long.
//
// These promises always hold:
//
//   - Nothing here reads a clock, draws a random number or does I/O: the same
//     arguments give the same result, on every node and in every replay of a
//     history.
//   - A delivery has exactly one [Status]. Delivered, cancelled and skipped are
//     final, and a dead delivery stays dead when it is replayed.
//   - A decision about an endpoint changes none of its waiting deliveries: a
//     circuit that is not closed uses up no attempt.
//   - No endpoint is disabled for its failures without a warning before.
//   - Ids, statuses, outcomes and reasons are the strings that the API, the
//     tables and the metrics use.
//
// The package knows nothing of JSON, SQL or HTTP. It imports only the standard library, and all
// other packages import it.
package postrider
