// Package sources reads events from the outboxes of producers and publishes them.
//
// A producer writes rows into an outbox in its own PostgreSQL, in the transactions of its own work. [Sources.Run] reads
// each outbox of which this node owns the shard, in cycles:
//
//	poll ─► convert ─► publish ─► advance ─► move
//	 │                    │          │         └ their database: the rows leave the outbox, the cycle is c + 1
//	 │                    │          └ our store: it has the events of the rows; the cycle is c + 1
//	 │                    └ our store: the events, and the id of the row of each
//	 └ their database: the rows that are visible and not read yet
//
// It promises:
//
//   - A row that a committed transaction wrote is published once, whatever dies between two steps: the store knows the
//     ids of the rows that it has, until they are known to be gone from the outbox.
//   - The rows of an ordering key are published in the order of their numbers.
//   - A row that can never be published is rejected: it is kept in the producer's database with the reason.
//   - If a quota refuses an account, its rows wait. Those of other accounts do not.
//   - If our store has lost its newest transactions, the rows whose events it lost are put back into the outbox
//     before anything else is read.
//   - A producer that is away costs a connection every 30 s at most.
//
// Two nodes may read one outbox for a moment, while a shard moves. Then each row is published by one and a duplicate
// for the other, and one of the two is fenced at the end of its cycle.
//
// Read sources.go (which sources are read here) first, then reader.go (a connection) and cycle.go.
package sources

import (
	"cmp"
	"context"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/outbox"
	"github.com/postrider/postrider/internal/store"
)

// Store is the part of the store that a reader needs.
type Store interface {
	// Sources is the method of [store.Sources].
	Sources(ctx context.Context) ([]postrider.Source, error)
	// AdvanceSource is the method of [store.Sources].
	AdvanceSource(ctx context.Context, a store.AdvanceSource) error
	// NoteSource is the method of [store.Sources].
	NoteSource(ctx context.Context, id postrider.SourceID, state postrider.SourceState) error
	// OutboxRows is the method of [store.Sources].
	OutboxRows(ctx context.Context, rows []postrider.OutboxID) (map[postrider.OutboxID]postrider.EventID, error)
	// Clock is the method of [store.Queue].
	Clock() *store.Clock
}

// Publisher stores events. quota.Meter implements it.
type Publisher interface {
	// Publish stores the events, all or none.
	Publish(ctx context.Context, events []postrider.Event) ([]postrider.Receipt, error)
}

// Deps has the parts that readers depend on.
type Deps struct {
	Store     Store
	Publisher Publisher
	// Open connects to the producer's database of a source.
	Open func(ctx context.Context, s postrider.Source) (*outbox.DB, error)
	// Owns reports whether this node owns the shard of a source.
	Owns func(id [16]byte) bool
	// Held reports whether the store is held. Then nothing is read. A person may start a copy of a backup to look at
	// it, and that copy must not take rows of the producer.
	Held func() bool
}

// Convert makes an event of a row, as the API does of a request. An error that matches postrider.ErrInvalid or
// postrider.ErrLoop is a fault of the row.
type Convert func(ctx context.Context, e *apitypes.EventCreate) (postrider.Event, error)

// Options tunes [Sources]. The zero value is the production default.
type Options struct {
	Node    string        // name of this node, for the state of a source
	MaxData int           // the largest data of an event, in bytes; default: 256 KiB
	Hooks   observe.Hooks // default: no hook is called
	Log     *slog.Logger  // default: discard
}

// Sources reads the outboxes of this node. Make it with [New].
type Sources struct {
	deps    Deps
	opts    Options
	convert Convert // set by Run
	woken   batch.Signal
}

// New returns readers that are not started.
func New(deps Deps, opts Options) *Sources {
	opts.Log = cmp.Or(opts.Log, slog.New(slog.DiscardHandler))
	return &Sources{deps: deps, opts: opts, woken: batch.NewSignal()}
}

// Wake makes this node look at the list of sources at once. It never blocks.
func (s *Sources) Wake() { s.woken.Set() }

// listEvery is the interval in which a node looks which sources it has to read. After the death of a node, another one
// has its shards within 6 s, and so reads within 8 s.
const listEvery = 2 * time.Second

// reading is a source that this node reads.
type reading struct {
	sync.WaitGroup

	source postrider.Source
	stop   context.CancelFunc
}

// Run reads the sources of this node until ctx ends. It always returns nil. While the store does not respond, the readers
// of the last list go on, and do what they can. It may be called once.
func (s *Sources) Run(ctx context.Context, convert Convert) error {
	s.convert = convert
	all := map[postrider.SourceID]*reading{}
	for {
		sources, err := s.deps.Store.Sources(ctx)
		switch {
		case err == nil:
			s.assign(ctx, sources, all)
		case ctx.Err() == nil:
			s.opts.Log.WarnContext(ctx, "sources not listed", "error", err)
		}
		if !batch.SleepOr(ctx, listEvery, s.woken) {
			break
		}
	}
	for _, r := range all {
		r.Wait() // ctx has ended
	}
	return nil
}

// assign ends the readers of sources that this node must not read any more, or that have changed, and starts those that
// are missing.
func (s *Sources) assign(ctx context.Context, sources []postrider.Source, all map[postrider.SourceID]*reading) {
	sources = slices.DeleteFunc(sources, func(of postrider.Source) bool { return of.Paused || !s.mine(of.ID) })
	for id, r := range all {
		if !slices.ContainsFunc(sources, func(of postrider.Source) bool { return sameSettings(of, r.source) }) {
			r.stop()
			r.Wait()
			delete(all, id)
			s.opts.Hooks.SourceNoted.Call(observe.SourceNoted{Source: r.source.Name, Ended: true})
		}
	}
	for _, source := range sources {
		if all[source.ID] != nil {
			continue
		}
		own, stop := context.WithCancel(ctx)
		r := &reading{source: source, stop: stop}
		all[source.ID] = r
		r.Go(func() { newReader(s, source).run(own) })
	}
}

// mine reports whether this node may read a source now.
func (s *Sources) mine(id postrider.SourceID) bool { return s.deps.Owns(id) && !s.deps.Held() }

// sameSettings reports whether two versions of a source differ in nothing but their states.
func sameSettings(a, b postrider.Source) bool {
	a.State, b.State = postrider.SourceState{}, postrider.SourceState{}
	return reflect.DeepEqual(a, b)
}
