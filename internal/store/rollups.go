package store

import (
	"context"
	"time"

	"github.com/postrider/postrider"
)

// Rollups keeps counts and durations of attempts and deliveries, by minute, hour and day:
// of everything, of each account and of each endpoint, for all types and for each event
// type.
//
// Every transaction of the other roles that records an attempt or ends a delivery also
// inserts one row with its counts, a delta. FoldRollups adds the deltas to the rollups. So
// counts are exact, whatever happens to a process: a delta is stored if and only if its
// transaction was committed, and is added once.
//
// What is counted, and when:
//
//   - An attempt is counted once, by the outcome that was recorded first. An attempt
//     that was recorded as lost is counted as lost, and not again when its settlement
//     takes the place of the lost record. A stale settlement whose attempt was never
//     recorded is counted by its outcome.
//   - A delivery is counted once, when it ends, by its final status.
//   - Both belong to the minute of the store's Wall in which they were recorded.
//   - A settlement that is repeated is not counted again.
type Rollups interface {
	// FoldRollups adds up to f.Deltas deltas and all of f.Seen to the rollups, and
	// deletes these deltas, in one transaction. It returns how many deltas it added.
	//
	// Deltas that several nodes fold at once are added once.
	// At most MaxTypes event types of an endpoint have rollups of their own, and
	// MaxAllTypes of an account and of everything; all others are added up as
	// OtherTypes.
	FoldRollups(ctx context.Context, f Fold) (int, error)

	// RollUp adds up to limit ended minutes to their hours, and up to limit ended hours
	// to their days, and returns how many of both. It does not change the result of
	// Rollups, which adds the rest itself.
	RollUp(ctx context.Context, limit int) (int, error)

	// ForgetRollups deletes up to limit rollups that are older than the Kept of
	// their step and were rolled up, and returns how many.
	ForgetRollups(ctx context.Context, limit int) (int, error)

	// Rollups returns the rollups of one scope and type whose At is from q.From on and
	// before q.To, oldest first. A step without attempts and deliveries has no rollup.
	// An hour has all its minutes that are folded, and a day all its hours, at any time.
	Rollups(ctx context.Context, q RollupQuery) ([]Rollup, error)

	// Backlog counts pending deliveries and dead letters.
	//
	// It takes bounded time, however many there are: both counts stop at the query's Most,
	// and it reads at most MaxLooked endpoints of an account, or with pending
	// deliveries. If there are more, the backlog is Partial.
	Backlog(ctx context.Context, q BacklogQuery) (Backlog, error)

	// EndpointStates says how endpoints fare: one state for each id, in their order.
	// One that does not exist has a state with nothing but its id.
	//
	// It takes bounded time, however much waits: Pending stops at MaxPending.
	EndpointStates(ctx context.Context, ids ...postrider.EndpointID) ([]EndpointState, error)

	// LastFailures returns the last failed request of each of these endpoints, in the order
	// of the ids: the one that began last among the FailuresLooked newest attempts, by
	// delivery. It has the head and the first FailureBody bytes of its response. An endpoint
	// without one is left out, also if its failures are older.
	LastFailures(ctx context.Context, ids ...postrider.EndpointID) ([]postrider.Attempt, error)
}

const (
	// FailuresLooked is how many attempts of an endpoint LastFailures reads.
	FailuresLooked = 100

	// FailureBody is how many bytes of a response LastFailures returns.
	FailureBody = 256
)

// EndpointState is how an endpoint fares.
type EndpointState struct {
	Endpoint postrider.EndpointID
	Health   postrider.EndpointHealth // the last change; zero: there was none
	Circuit  postrider.Circuit        // as stored; zero: it never changed
	Pending  int                      // pending deliveries, at most MaxPending
	DueFor   time.Duration            // how long the oldest due delivery has been due; 0: none is

	// Delivered and Dead count the deliveries that ended in the last 24 hours and in
	// the part of the hour before them, as far as they are folded.
	Delivered, Dead int64
}

// HealthSince returns the beginning of the minutes that count for the health of an
// endpoint whose last change is given.
func HealthSince(now time.Time, last postrider.EndpointHealth) time.Time {
	since := now.Add(-postrider.HealthSpan)
	if last.Status == postrider.Healthy && last.Since.After(since) {
		since = last.Since
	}
	return since.UTC().Add(time.Minute - time.Microsecond).Truncate(time.Minute)
}

// DayBefore returns the beginning of the hours that an [EndpointState] counts.
func DayBefore(now time.Time) time.Time {
	return now.UTC().Add(-24 * time.Hour).Truncate(time.Hour)
}

const (
	// MaxTypes is how many event types of an endpoint are counted apart: the first ones,
	// until their rollups are deleted.
	MaxTypes = 100

	// MaxAllTypes is the same for an account and for everything.
	MaxAllTypes = 1000

	// OtherTypes is the type of all types beyond these.
	OtherTypes = "other"

	// MaxCounted is the number at which the counts of a backlog stop.
	MaxCounted = 10_000

	// MaxLooked is the largest number of endpoints that a backlog reads.
	MaxLooked = 1000

	// MaxPending is where the pending deliveries of one of many endpoints stop being
	// counted.
	MaxPending = 1000
)

// Step is the length of a rollup.
type Step int

// The steps, as they are stored. Days are UTC days.
const (
	Minutes Step = 0
	Hours   Step = 1
	Days    Step = 2
)

// Duration returns the length of the step.
func (s Step) Duration() time.Duration {
	return [...]time.Duration{time.Minute, time.Hour, 24 * time.Hour}[s]
}

// Kept returns for how long rollups of this step are kept.
func (s Step) Kept() time.Duration {
	const day = 24 * time.Hour
	return [...]time.Duration{2 * day, 90 * day, 730 * day}[s]
}

// RollupQuery asks for the rollups of one scope: an endpoint, an account, or everything
// where both are zero.
type RollupQuery struct {
	Account  postrider.AccountID
	Endpoint postrider.EndpointID // not zero: Account does not matter
	Type     string               // empty: all types together
	Step     Step
	From, To time.Time
}

// scope returns the scope of the query.
func (q RollupQuery) scope() Scope { return scopeOf(q.Account, q.Endpoint) }

// Key returns the key of the first rollup that q selects, whether there is one or not.
func (q RollupQuery) Key() RollupKey {
	return RollupKey{Scope: q.scope(), Type: q.Type, Step: q.Step, At: q.From.UTC().Unix()}
}

// Rollup has the counts and durations of one step.
type Rollup struct {
	At time.Time // its beginning
	RollupValue
}

// BacklogQuery asks for the backlog of an endpoint of the account, of an account, or of
// everything where both are zero.
type BacklogQuery struct {
	Account  postrider.AccountID
	Endpoint postrider.EndpointID // with its Account
	Most     int                  // where both counts stop; 0: MaxCounted, which it may not exceed
}

// Stop returns the number at which both counts stop.
func (q BacklogQuery) Stop() int {
	if q.Most <= 0 {
		return MaxCounted
	}
	return min(q.Most, MaxCounted)
}

// Backlog says how much waits now.
type Backlog struct {
	Pending     int           // pending deliveries, at most the query's Most
	DeadLetters int           // unresolved, at most the query's Most
	IsDue       bool          // whether a delivery is due
	DueFor      time.Duration // how long the oldest due delivery has been due; 0: none is
	Partial     bool          // there are more endpoints than MaxLooked: DueFor, and an account's Pending, may be greater
}

// Fold asks for deltas to be added to the rollups.
type Fold struct {
	Deltas int    // at most
	Seen   []Seen // added too
}

// Seen has the durations that a node has seen of one endpoint and type in one minute. Its
// counts are zero: counts come from deltas, because a node can die before it folds.
type Seen struct {
	DeltaKey
	At time.Time // in the minute
	RollupValue
}
