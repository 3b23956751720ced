// Package rollup folds the store's deltas into rollups, and adds the durations of the attempts that
// this node made.
//
//	r := rollup.New(rollup.Options{Log: log})
//	observer := observe.New(observe.Join(r.Hooks(), …), log)
//	err := r.Run(ctx, store)
//
// It promises:
//
//   - Every ten seconds, and once more when Run ends, the deltas of all nodes are
//     folded. Counts are exact even if nodes die: the transaction that records an
//     attempt also stores its delta, see [store.Rollups].
//   - Durations are in this node's memory until the next fold. A node that dies loses
//     the durations of at most ten seconds, and nothing else. If a fold fails, its
//     durations are kept for the next one. If such a fold was stored and only the
//     reply was lost, its durations count twice.
//   - The waiting durations and one fold take at most 64 MiB. If that is too little
//     for ten seconds, a fold starts earlier. Durations that find no space before that
//     fold ends are dropped, and the log says how many.
//   - A settlement takes one mutex and never waits for the store.
package rollup

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/store"
)

// Options tunes a [Rollup]. The zero value is the production default.
type Options struct {
	Every time.Duration // between two folds; default 10 s
	Log   *slog.Logger  // default: discard
}

func (o Options) withDefaults() Options {
	o.Every = cmp.Or(o.Every, 10*time.Second)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return o
}

// Store is the part of the store that a [Rollup] needs.
type Store interface {
	// FoldRollups is the method of [store.Rollups].
	FoldRollups(ctx context.Context, f store.Fold) (int, error)
}

// Rollup folds deltas, and keeps durations until the next fold.
type Rollup struct {
	opts   Options
	filled batch.Signal // set when half of maxBytes is used, so that Run folds at once
	deltas int          // how many deltas the next transaction folds; used only by Run

	mu      sync.Mutex
	seen    map[minute]*durations // since the last fold
	bytes   int                   // memory of seen; the estimate is rather too high
	dropped int                   // durations since the last fold that found no space
}

// minute is one minute of one account, endpoint and event type.
type minute struct {
	store.DeltaKey
	at int64 // Unix time of its start
}

// durations are the durations of the attempts that ended in a minute.
type durations struct{ responses, latencies postrider.Sketch }

const (
	// maxBytes bounds the waiting durations. While one fold stores its durations, as many more can
	// arrive for the next one. The estimate is generous: about two thirds are really used.
	maxBytes = 36 << 20
	// minuteBytes is the memory of a minute without the buckets of its sketches: about 100
	// bytes in the map, 80 for the sketches, and the text of the type.
	minuteBytes = 288
	// bucketBytes is the memory of a bucket in a slice that is half empty. Each duration is
	// counted as a new bucket.
	bucketBytes = 32
	// maxKept is the most buckets that a sketch counts as if it is kept after a failed fold. With
	// growing bounds, few durations need a new bucket.
	maxKept = 256
)

// New returns a Rollup without durations.
func New(opts Options) *Rollup {
	return &Rollup{opts: opts.withDefaults(), filled: batch.NewSignal(), deltas: leastDeltas, seen: map[minute]*durations{}}
}

// Hooks returns the hooks by which r gets durations.
func (r *Rollup) Hooks() observe.Hooks { return observe.Hooks{Settled: r.settled} }

// settled keeps the durations of a settled attempt, in the minute in which the attempt ended. The
// latency counts from the creation of the delivery: for a replay, the age of its event does not
// count.
func (r *Rollup) settled(s observe.Settled) {
	responded := s.Attempt.StatusCode != 0
	delivered := !s.Stale && s.Transition.To == postrider.Delivered
	if !responded && !delivered {
		return
	}
	ended := s.Attempt.StartedAt.Add(s.Attempt.Duration)
	of := minute{
		store.DeltaKey{Account: s.Delivery.Event.Account, Endpoint: s.Delivery.Endpoint, Type: s.Delivery.Event.Type},
		ended.Truncate(time.Minute).Unix(),
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.seen[of]
	if d == nil && r.bytes+minuteBytes > maxBytes || r.bytes > maxBytes {
		r.dropped++
		return
	}
	if d == nil {
		d = &durations{}
		r.seen[of] = d
		r.bytes += minuteBytes
	}
	if responded {
		d.responses.Add(s.Attempt.Duration)
		r.bytes += bucketBytes
	}
	if delivered {
		d.latencies.Add(ended.Sub(s.Delivery.ID.Time()))
		r.bytes += bucketBytes
	}
	if r.bytes > maxBytes/2 {
		r.filled.Set()
	}
}

// foldTime bounds the fold at the end of Run.
const foldTime = 5 * time.Second

// Run folds until ctx ends, and then once more. It always returns nil: a fold that fails is
// repeated at the next time. Run calls done with each fold as a chore; done may be nil.
func (r *Rollup) Run(ctx context.Context, s Store, done observe.Hook[observe.ChoreDone]) error {
	for batch.SleepOr(ctx, r.opts.Every, r.filled) {
		r.report(ctx, s, done)
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), foldTime)
	defer cancel()
	r.report(last, s, done)
	return nil
}

// report folds, and calls done with the result.
func (r *Rollup) report(ctx context.Context, s Store, done observe.Hook[observe.ChoreDone]) {
	begun := time.Now()
	rows, err := r.fold(ctx, s)
	done.Call(observe.ChoreDone{Name: "fold rollups", Took: time.Since(begun), Rows: rows, Err: err})
}

const (
	// maxSeen is how many minutes one transaction adds. Each minute becomes six rollups.
	maxSeen = 1000
	// leastDeltas and mostDeltas bound how many deltas one transaction folds. A delta can have one
	// endpoint or 500, so the number depends on how long the last transaction took.
	leastDeltas, mostDeltas = 16, 1024
	// After a transaction of less than quick, the next one folds more deltas. After one of more
	// than slow, the next one folds fewer, because other nodes wait for it.
	quick, slow = 50 * time.Millisecond, 250 * time.Millisecond
)

// fold folds all deltas, and adds the durations since the last fold. It returns how many deltas it
// folded.
func (r *Rollup) fold(ctx context.Context, s Store) (all int, err error) {
	seen := r.take(ctx)
	for {
		n := min(len(seen), maxSeen)
		begun := time.Now()
		folded, err := s.FoldRollups(ctx, store.Fold{Deltas: r.deltas, Seen: valuesOf(seen[:n])})
		if err != nil {
			r.keep(seen)
			if ctx.Err() == nil {
				r.opts.Log.WarnContext(ctx, "rollups not folded", "durations_of", len(seen), "error", err)
			}
			return all, err
		}
		all += folded
		seen = seen[n:]
		if folded < r.deltas && len(seen) == 0 {
			return all, nil
		}
		switch took := time.Since(begun); {
		case took < quick:
			r.deltas = min(2*r.deltas, mostDeltas)
		case took > slow:
			r.deltas = max(r.deltas/2, leastDeltas)
		}
	}
}

// seenMinute is a minute with its durations.
type seenMinute struct {
	minute
	*durations
}

// take returns the durations since the last fold and empties r.seen.
func (r *Rollup) take(ctx context.Context) []seenMinute {
	r.mu.Lock()
	seen, dropped := r.seen, r.dropped
	r.seen, r.bytes, r.dropped = make(map[minute]*durations, min(len(seen), maxSeen)), 0, 0
	r.mu.Unlock()
	if dropped > 0 {
		r.opts.Log.WarnContext(ctx, "too many endpoints are active to keep all durations", "dropped", dropped)
	}
	all := make([]seenMinute, 0, len(seen))
	for of, d := range seen {
		all = append(all, seenMinute{of, d})
	}
	return all
}

// keep adds the durations of a failed fold to r.seen for the next one, as far as there is space.
func (r *Rollup) keep(minutes []seenMinute) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range minutes {
		d := r.seen[m.minute]
		n := int(min(m.responses.Count(), maxKept) + min(m.latencies.Count(), maxKept)) //nolint:gosec // at most twice maxKept
		if d == nil && r.bytes+minuteBytes > maxBytes || r.bytes > maxBytes {
			r.dropped += n
			continue
		}
		if r.bytes += n * bucketBytes; d == nil {
			r.seen[m.minute] = m.durations
			r.bytes += minuteBytes
			continue
		}
		_ = d.responses.Merge(m.responses) // the sketches have the same buckets, so Merge cannot fail
		_ = d.latencies.Merge(m.latencies)
	}
}

// valuesOf converts minutes to the type of the store.
func valuesOf(minutes []seenMinute) []store.Seen {
	values := make([]store.Seen, len(minutes))
	for i, m := range minutes {
		values[i] = store.Seen{DeltaKey: m.DeltaKey, At: time.Unix(m.at, 0)}
		values[i].Responses, values[i].Latencies = m.responses, m.latencies
	}
	return values
}
