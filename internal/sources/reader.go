package sources

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/outbox"
	"github.com/postrider/postrider/internal/store"
)

const (
	// The shortest and the longest pause before a producer's database is connected to again. The pause doubles.
	retryLeast = time.Second
	retryMost  = 30 * time.Second
	// The shortest and the longest pause between two polls that found nothing. The pause doubles.
	pollLeast = 2 * time.Millisecond
	pollMost  = time.Second
	// restMost is the longest rest after a cycle. A reader rests as long as it has worked, so that a backlog leaves half of
	// the time to the publishes of others.
	restMost = 100 * time.Millisecond
	// callTime limits a call of either database.
	callTime = 30 * time.Second
	// walkTime limits a poll that looks at all rows. Beside an old open transaction, these may be many millions of dead ones.
	walkTime  = 15 * time.Minute
	noteEvery = 10 * time.Second
	keepEvery = 10 * time.Minute
	tellEvery = time.Minute
	// idleEvery is the interval in which the MovedUntil of an idle source moves.
	idleEvery = time.Minute
	// margin is how much earlier than the time of the last cycle MovedUntil is. A reader that goes back begins half of
	// it after MovedUntil. So the clocks of two nodes may differ by half of it: rows of lost cycles are later than
	// where it begins, and the records of all rows after that are still there.
	margin = time.Minute
	// backPage is how many rows are compared at once with the store while a reader goes back.
	backPage = 1000
)

var (
	errNotMine = errors.New("another node reads the source")
	errSlow    = fmt.Errorf("no response in %v", callTime)
	// errHidden says that another node has moved rows in the producer's database under a cycle that this node has not
	// finished. If our store has lost these rows since, nobody else would notice it.
	errHidden = fmt.Errorf("rows were moved by another node: %w", postrider.ErrFenced)
)

// reader reads one source until its context ends.
type reader struct {
	*Sources

	log    *slog.Logger
	source postrider.Source // its State is what this node knows
	hidden bool             // the last session ended with errHidden
}

func newReader(s *Sources, source postrider.Source) *reader {
	return &reader{Sources: s, source: source, log: s.opts.Log.With("source_name", source.Name)}
}

// run connects to the producer's database and reads it, again after each error.
func (r *reader) run(ctx context.Context) {
	for pause := retryLeast; ; pause = min(2*pause, retryMost) {
		begun := time.Now()
		err := r.session(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(begun) > retryMost {
			pause = retryLeast
		}
		r.hidden = r.hidden || errors.Is(err, errHidden)
		switch {
		case errors.Is(err, errNotMine): // assign is about to end this reader
		case errors.Is(err, postrider.ErrFenced):
			r.log.InfoContext(ctx, "another node reads the source, or the store went back", "error", err)
			pause = retryLeast
		default:
			r.log.WarnContext(ctx, "source not read", "error", err, "again_in", pause.String())
			r.failed(ctx, err)
		}
		if !batch.Sleep(ctx, pause) {
			return
		}
	}
}

// session is a connection to the producer's database, and what was read by it.
type session struct {
	*reader

	db      *outbox.DB
	working sync.WaitGroup
	woken   batch.Signal // the producer's database has sent a notification

	window    outbox.Window
	reached   outbox.Window   // the last window of which all rows are moved, once the present cycle is finished
	holds     map[string]hold // by the name of the account in the rows
	cycle     int64           // the last cycle that was begun
	moved     time.Time       // MovedUntil of the store
	clean     bool            // nothing waits in the outbox that an earlier session has published
	finishing chan error      // gets the error of the cycle that is being finished; nil: none is
	strange   bool            // an account is held for a reason that people must look at

	noted, kept, advanced, told time.Time          // when these were done last, by this machine's clock
	cycles                      int                // since told
	count                       observe.SourceRead // since told
}

// session reads until an error, or until ctx ends.
func (r *reader) session(ctx context.Context) error {
	if !r.mine(r.source.ID) {
		return errNotMine
	}
	db, err := r.deps.Open(ctx, r.source)
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, cancel := context.WithCancel(ctx)
	s := &session{reader: r, db: db, woken: batch.NewSignal(), holds: map[string]hold{}, told: time.Now()}
	defer s.working.Wait()
	defer cancel()
	if err := s.begin(ctx); err != nil {
		return err
	}
	s.working.Go(func() {
		if err := db.Listen(ctx, s.woken.Set); err != nil && ctx.Err() == nil {
			s.log.InfoContext(ctx, "notifications of the producer are not received, rows are found by polling", "error", err)
		}
	})
	return s.read(ctx)
}

// begin compares the cycles of both databases. The store is ahead if a node died between its last two steps, or if the
// producer's database was restored: the ids of the rows prevent that an event is published again. The store is behind
// if it has lost its newest transactions.
//
// The session begins with a cycle that neither has had. From then on a move of an earlier session is refused. It may have
// been under way when our store lost the events of its rows, and would hide them.
func (s *session) begin(ctx context.Context) error {
	call, cancel := context.WithTimeoutCause(ctx, callTime, errSlow)
	defer cancel()
	theirs, reached, err := s.db.Cycle(call, s.source.ID)
	if err != nil {
		return err
	}
	state, err := s.stored(call)
	if err != nil {
		return err
	}
	back := theirs > state.Cycle || s.hidden
	if back { // rows that are put back may have to be published before those that wait in the window
		reached = outbox.Window{}
	}
	s.window, s.reached = reached, reached
	s.source.State, s.cycle, s.moved = state, state.Cycle, state.MovedUntil
	// This move has no rows. It also shows whether rows can be moved, before any is published.
	next := max(theirs, s.cycle) + 1
	err = s.db.Move(call, outbox.Moved{Source: s.source.ID, Cycle: next, Reached: reached, At: s.deps.Store.Clock().Wall()})
	switch {
	case outbox.Denied(err):
		return fmt.Errorf("the rows may be read but not moved; the role of the source must be granted postrider_reader: %w", err)
	case err != nil:
		return err
	}
	if err := s.db.LimitData(call, s.opts.MaxData); err != nil {
		return err
	}
	if back {
		if err := s.goBack(ctx, theirs); err != nil {
			return err
		}
	}
	if err := s.enter(ctx, next); err != nil {
		return err
	}
	if err := s.keep(ctx); err != nil { // not before rows are compared, which it would drop
		return err
	}
	s.hidden = false
	return s.note(ctx)
}

// enter moves the store to the cycle that the session begins with. A table of the producer's own has no cycle.
func (s *session) enter(ctx context.Context, next int64) error {
	if s.db.Own() {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, callTime, errSlow)
	defer cancel()
	err := s.deps.Store.AdvanceSource(ctx, store.AdvanceSource{ID: s.source.ID, Cycle: s.cycle, Next: next, MovedUntil: s.moved})
	s.cycle = next
	return err
}

// stored returns the state of the source in the store.
func (s *session) stored(ctx context.Context) (postrider.SourceState, error) {
	all, err := s.deps.Store.Sources(ctx)
	if err != nil {
		return postrider.SourceState{}, err
	}
	for _, of := range all {
		if of.ID == s.source.ID {
			return of.State, nil
		}
	}
	return postrider.SourceState{}, fmt.Errorf("the source was deleted: %w", postrider.ErrFenced)
}

// goBack puts the rows back into the outbox that were read and whose events are not in the store. After an interruption it
// begins anew, because the store has not moved to the cycle of the session.
func (s *session) goBack(ctx context.Context, theirs int64) error {
	var since time.Time // everything that is kept
	if !s.moved.IsZero() {
		since = s.moved.Add(margin / 2)
	}
	var compared, back int
	for cursor := (outbox.ReadCursor{}); ; {
		rows, lost, err := s.putBack(ctx, since, cursor)
		if err != nil {
			return err
		}
		compared, back = compared+len(rows), back+lost
		if len(rows) < backPage {
			break
		}
		cursor = rows[len(rows)-1].Cursor()
	}
	ctx, cancel := context.WithTimeoutCause(ctx, callTime, errSlow)
	defer cancel()
	missing, err := s.db.Dropped(ctx, since)
	if err != nil {
		return err
	}
	s.source.State.Missing = missing
	s.log.WarnContext(ctx, "the store has lost its newest events, so their rows are read again", "since", since, "compared", compared,
		"put_back", back, "missing", missing, "cycle", s.cycle, "cycle_of_the_producer", theirs)
	return nil
}

// putBack reads a page of rows that were read since a time, and puts those back that the store does not know. It returns
// the page and how many of it were lost.
func (s *session) putBack(ctx context.Context, since time.Time, cursor outbox.ReadCursor) (rows []outbox.ReadRow, lost int, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, callTime, errSlow)
	defer cancel()
	if rows, err = s.db.ReadSince(ctx, since, cursor, backPage); err != nil || len(rows) == 0 {
		return nil, 0, err
	}
	ids := make([]postrider.OutboxID, len(rows))
	for i, row := range rows {
		ids[i] = row.ID
	}
	known, err := s.deps.Store.OutboxRows(ctx, ids)
	if err != nil {
		return nil, 0, err
	}
	var unknown []outbox.ReadRow
	for _, row := range rows {
		if _, ok := known[row.ID]; !ok {
			unknown = append(unknown, row)
		}
	}
	if len(unknown) > 0 {
		_, err = s.db.PutBack(ctx, unknown)
	}
	return rows, len(unknown), err
}

// read runs cycles until an error: at once while there are rows, then at growing intervals.
func (s *session) read(ctx context.Context) error {
	for pause := pollLeast; ; {
		if !s.mine(s.source.ID) {
			return errNotMine
		}
		begun := time.Now()
		more, err := s.runCycle(ctx)
		if err == nil && !more {
			err = s.finished()
		}
		if err == nil {
			err = s.chores(ctx)
		}
		switch _, wait := s.nextHold(); {
		case err != nil:
			return errors.Join(err, s.finished())
		case more:
			pause = pollLeast
			batch.Sleep(ctx, min(time.Since(begun), restMost)) // the end of ctx is an error of the next cycle
		case !batch.SleepOr(ctx, min(pause, wait), s.woken):
			return ctx.Err()
		default:
			pause = min(2*pause, pollMost)
		}
	}
}

// chores does what is due: it makes and drops partitions, stores the state, moves MovedUntil of an idle source, and logs.
func (s *session) chores(ctx context.Context) error {
	due := func(last time.Time, every time.Duration) bool { return time.Since(last) > every }
	if due(s.kept, keepEvery) {
		if err := s.keep(ctx); err != nil {
			return err
		}
	}
	if due(s.noted, noteEvery) {
		if err := s.note(ctx); err != nil {
			return err
		}
	}
	if s.finishing == nil && s.clean && due(s.advanced, idleEvery) {
		a := store.AdvanceSource{ID: s.source.ID, Cycle: s.cycle, Next: s.cycle, MovedUntil: s.movedUntil(s.deps.Store.Clock().Wall())}
		if err := s.deps.Store.AdvanceSource(ctx, a); err != nil {
			return err
		}
	}
	if due(s.told, tellEvery) {
		if s.cycles > 0 {
			s.log.InfoContext(ctx, "source read", "cycle", s.cycle, "cycles", s.cycles, "rows", s.count.Rows, "rejected", s.count.Rejected,
				"duplicates", s.count.Duplicates, "accounts_held", len(s.holds), "waiting", s.source.State.Waiting)
		}
		s.cycles, s.count, s.told = 0, observe.SourceRead{}, time.Now()
	}
	return nil
}

// keep makes the partitions of the next hours, and drops those that are kept no longer.
func (s *session) keep(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, callTime, errSlow)
	defer cancel()
	s.kept = time.Now()
	return s.db.Keep(ctx, s.deps.Store.Clock().Wall(), s.source.Keep)
}

// note stores what is known of the source.
func (s *session) note(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, callTime, errSlow)
	defer cancel()
	stats, err := s.db.Stats(ctx)
	if err != nil {
		return err
	}
	s.noted = time.Now()
	state := &s.source.State
	state.Waiting, state.Oldest, state.OpenSince, state.Rejected = stats.Waiting, stats.Oldest, stats.OpenSince, stats.Rejected
	if s.strange = s.strange && len(s.holds) > 0; !s.strange {
		state.Error, state.ErrorSince = "", time.Time{}
	}
	return s.tell(ctx)
}

// failed stores why the source is not read.
func (r *reader) failed(ctx context.Context, err error) {
	state := &r.source.State
	if state.Error == "" {
		state.ErrorSince = r.deps.Store.Clock().Wall()
	}
	state.Error = err.Error()
	ctx, cancel := context.WithTimeoutCause(ctx, callTime, errSlow)
	defer cancel()
	if err := r.tell(ctx); err != nil {
		r.log.WarnContext(ctx, "state of the source not stored", "error", err)
	}
}

// tell stores the state of the source and calls the hook with it.
func (r *reader) tell(ctx context.Context) error {
	state := &r.source.State
	state.At, state.Node = r.deps.Store.Clock().Wall(), r.opts.Node
	r.opts.Hooks.SourceNoted.Call(observe.SourceNoted{Source: r.source.Name, State: *state})
	return r.deps.Store.NoteSource(ctx, r.source.ID, *state)
}
