package store

import (
	"context"
	"time"

	"github.com/postrider/postrider"
)

// Rollups keeps counts and durations of attempts and deliveries, by minute, hour and day. The
// whole store, each account and each endpoint have rollups for all types together, and rollups
// for each event type.
//
// Every transaction that records an attempt or ends a delivery also inserts one row with its
// counts, called a delta. FoldRollups adds the deltas to the rollups. So the counts stay exact
// even if a process dies: a delta is stored if and only if its transaction was committed, and it
// is added once.
//
// These are the rules of counting:
//
//   - An attempt is counted once, by the outcome that was recorded first. An attempt that was
//     recorded as lost is counted as lost. It is not counted again when its settlement replaces
//     the lost record. A stale settlement whose attempt was never recorded is counted by its
//     outcome.
//   - A delivery is counted once, when it ends, by its final status.
//   - An attempt or a delivery counts in the minute of the store's Wall in which it was recorded.
//   - A settlement that is repeated is not counted again.
type Rollups interface {
	// FoldRollups adds up to f.Deltas deltas and all of f.Seen to the rollups, and deletes these
	// deltas, in one transaction. It returns the number of deltas that it added.
	//
	// If several nodes fold the same deltas at once, the deltas are added once.
	// At most MaxTypes event types of an endpoint have rollups of their own. For an account and for
	// the whole store the number is MaxAllTypes. All further types are counted together as
	// OtherTypes.
	FoldRollups(ctx context.Context, f Fold) (int, error)

	// RollUp adds up to limit ended minutes to their hours, and up to limit ended hours to their
	// days. It returns the number of both together. The results of Rollups do not change: Rollups
	// itself adds minutes and hours that are not rolled up yet.
	RollUp(ctx context.Context, limit int) (int, error)

	// ForgetRollups deletes up to limit rollups that were rolled up and are older than the Kept of
	// their step. It returns the number of deleted rollups.
	ForgetRollups(ctx context.Context, limit int) (int, error)

	// Rollups returns the rollups of one scope and type whose At is q.From or later and before q.To,
	// oldest first. A step without attempts and deliveries has no rollup. At any time an hour
	// includes all of its folded minutes, and a day all of its hours.
	Rollups(ctx context.Context, q RollupQuery) ([]Rollup, error)

	// Backlog counts pending deliveries and dead letters.
	//
	// The call takes a limited time, however many there are. Both counts stop at the query's Most.
	// The call reads at most MaxLooked of the account's endpoints, or, without an account, of the
	// endpoints with pending deliveries. If there are more, the backlog is Partial.
	Backlog(ctx context.Context, q BacklogQuery) (Backlog, error)

	// EndpointStates returns the state of each endpoint, in the order of ids. The state of an
	// endpoint that does not exist has only its id.
	//
	// The call takes a limited time, however many deliveries wait: Pending stops at MaxPending.
	EndpointStates(ctx context.Context, ids ...postrider.EndpointID) ([]EndpointState, error)

	// LastFailures returns the last failed request of each of these endpoints, in the order of ids.
	// It reads the FailuresLooked newest attempts of the endpoint, sorted by delivery, and chooses
	// the failed one that began last. The result has the head and the first FailureBody bytes of the
	// response. An endpoint without a failed request among these attempts is left out.
	LastFailures(ctx context.Context, ids ...postrider.EndpointID) ([]postrider.Attempt, error)
}

const (
	// FailuresLooked is the number of attempts of an endpoint that LastFailures reads.
	FailuresLooked = 100

	// FailureBody is the number of bytes of a response body that LastFailures returns.
	FailureBody = 256
)

// EndpointState has the health, the circuit and the recent deliveries of an endpoint.
type EndpointState struct {
	Endpoint postrider.EndpointID
	Health   postrider.EndpointHealth // the last change of health; zero if there was none
	Circuit  postrider.Circuit        // the stored circuit; zero if it never changed
	Pending  int                      // number of pending deliveries, at most MaxPending
	DueFor   time.Duration            // how long the oldest due delivery has been due; 0 if none is due

	// Delivered and Dead count the deliveries that ended since [DayBefore]: in the last 24 hours and
	// the part of the hour before them. Deltas that are not folded yet are not counted.
	Delivered, Dead int64
}

// HealthSince returns the beginning of the first minute that counts for the health of an
// endpoint. The parameter last is the last recorded health of the endpoint.
func HealthSince(now time.Time, last postrider.EndpointHealth) time.Time {
	since := now.Add(-postrider.HealthSpan)
	if last.Status == postrider.Healthy && last.Since.After(since) {
		since = last.Since
	}
	return since.UTC().Add(time.Minute - time.Microsecond).Truncate(time.Minute)
}

// DayBefore returns the beginning of the first hour that an [EndpointState] counts.
func DayBefore(now time.Time) time.Time {
	return now.UTC().Add(-24 * time.Hour).Truncate(time.Hour)
}

const (
	// MaxTypes is the greatest number of event types of an endpoint with rollups of their own. These
	// are the first types, until their rollups are deleted.
	MaxTypes = 100

	// MaxAllTypes is the same number for an account and for the whole store.
	MaxAllTypes = 1000

	// OtherTypes is the type under which all further types are counted.
	OtherTypes = "other"

	// MaxCounted is the greatest value of the counts of a backlog.
	MaxCounted = 10_000

	// MaxLooked is the greatest number of endpoints that Backlog reads.
	MaxLooked = 1000

	// MaxPending is the greatest value of Pending in an [EndpointState].
	MaxPending = 1000
)

// Step is the length of time of a rollup.
type Step int

// The steps have these numbers in stores. Days are UTC days.
const (
	Minutes Step = 0
	Hours   Step = 1
	Days    Step = 2
)

// Duration returns the length of the step.
func (s Step) Duration() time.Duration {
	return [...]time.Duration{time.Minute, time.Hour, 24 * time.Hour}[s]
}

// Kept returns for how long the rollups of this step are kept.
func (s Step) Kept() time.Duration {
	const day = 24 * time.Hour
	return [...]time.Duration{2 * day, 90 * day, 730 * day}[s]
}

// RollupQuery asks for the rollups of an endpoint or an account, or of the whole store if both
// are zero.
type RollupQuery struct {
	Account  postrider.AccountID
	Endpoint postrider.EndpointID // if it is not zero, Account is ignored
	Type     string               // empty: all types together
	Step     Step
	From, To time.Time
}

// scope returns the scope of the query.
func (q RollupQuery) scope() Scope { return scopeOf(q.Account, q.Endpoint) }

// Key returns the key of the first rollup that q can select, even if that rollup does not exist.
func (q RollupQuery) Key() RollupKey {
	return RollupKey{Scope: q.scope(), Type: q.Type, Step: q.Step, At: q.From.UTC().Unix()}
}

// Rollup has the counts and durations of one step.
type Rollup struct {
	At time.Time // the beginning of the step
	RollupValue
}

// BacklogQuery asks for the backlog of an endpoint or an account, or of the whole store if both
// are zero.
type BacklogQuery struct {
	Account  postrider.AccountID
	Endpoint postrider.EndpointID // needs its Account
	Most     int                  // the greatest value of both counts; 0 means MaxCounted, which is also the maximum
}

// Stop returns the greatest value of both counts.
func (q BacklogQuery) Stop() int {
	if q.Most <= 0 {
		return MaxCounted
	}
	return min(q.Most, MaxCounted)
}

// Backlog is the number of deliveries and dead letters that wait now.
type Backlog struct {
	Pending     int           // pending deliveries, at most the query's Most
	DeadLetters int           // unresolved dead letters, at most the query's Most
	IsDue       bool          // whether a delivery is due
	DueFor      time.Duration // how long the oldest due delivery has been due; 0 if none is due
	Partial     bool          // there are more endpoints than MaxLooked, so DueFor, and Pending of an account, may be greater
}

// Fold asks to add deltas and durations to the rollups.
type Fold struct {
	Deltas int    // greatest number of deltas
	Seen   []Seen // durations to add
}

// Seen has the durations of one endpoint and type in one minute, measured by one node. Its counts
// are zero: counts come from deltas, because a node can die before it folds.
type Seen struct {
	DeltaKey
	At time.Time // any time in the minute
	RollupValue
}
