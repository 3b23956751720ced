// Package memory is a store that forgets everything at the end of the process. It keeps every
// role of package store in maps and slices, under one lock.
//
// It is the model with which the durable stores are compared. So the code should be obviously
// right: it plans no statements and encodes no rows. The dispatcher's simulator and every test
// that needs a store use it too.
//
// It promises more than the contract:
//
//   - It has no goroutines, timers or I/O. So it works inside a testing/synctest bubble, with the
//     clock of the bubble, and under a simulator's own clock.
//   - Claim, Settle and Release cost the logarithm of a lane's length, however many deliveries
//     there are.
//   - Ids need not contain the present time.
//
// Do not run a server on it: nothing survives the process.
package memory

import (
	"slices"
	"sync"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// Options are the options of [New].
type Options struct {
	Now   func() time.Time // returns the machine's time; default time.Now
	Clock *store.Clock     // default: a clock that shows Now
}

func (o Options) withDefaults() Options {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Clock == nil {
		o.Clock = store.NewClock(o.Now)
	}
	return o
}

// Store keeps everything in memory.
type Store struct {
	clock *store.Clock

	mu           sync.Mutex
	version      int64 // version of the subscriptions
	hold         postrider.Hold
	heldUpTo     postrider.EventID // the last event before the hold; zero if there was none
	keyring      []byte
	accounts     table[postrider.AccountID, postrider.Account]
	keys         table[postrider.KeyID, postrider.APIKey]
	sessions     table[postrider.SessionID, postrider.Session]
	audit        table[postrider.AuditID, postrider.AuditEntry]
	notices      table[postrider.NoticeID, postrider.Notice]
	noticed      map[noticeKey]postrider.NoticeID // id of each stored notice, by its kind, object and occurrence
	published    postrider.NoticeID               // the result of NoticesPublished
	inspections  table[postrider.InspectionID, postrider.Inspection]
	destinations table[postrider.DestinationID, destination]
	portal       postrider.Portal
	logo         []byte // nil if there is none
	types        map[string]postrider.EventType
	endpoints    table[postrider.EndpointID, *endpoint]
	events       table[postrider.EventID, *event]
	deliveries   table[postrider.DeliveryID, *delivery]
	lanes        map[laneKey]*lane
	keyOwners    map[store.Key]ownedKey
	sequences    map[orderingKey]int64
	lowest       int64 // new sequences are above it; set by PutHold; 0 if the store was never held
	keyQueues    map[orderedKey]*keyQueue
	parked       map[*delivery]struct{}
	fanOuts      table[postrider.EventID, *fanOut]
	replayJobs   table[postrider.ReplayID, *replayJob]
	expunges     table[postrider.ExpungeID, postrider.Expunge]
	nodes        map[uint32]*node // by incarnation
	owners       [store.Shards]*node
	locks        map[uint32]int // number of holders of each lock, by incarnation
	listeners    map[chan string]struct{}
	rollups      rollups
	quotas       map[postrider.AccountID]store.AccountQuotas
	quotaUse     map[postrider.AccountID]quotaUse

	archiver      uint64              // the node that has the lease of the archive
	archivesUntil time.Time           // the end of that lease
	parts         []store.ArchivePart // sorted by kind, day and number
	archiveKeys   table[postrider.AccountID, *[]byte]
	restored      map[restoredKey]store.RestoredRecord
	whatIfs       map[postrider.AccountID]whatIf

	sources    table[postrider.SourceID, postrider.Source]
	outboxRows map[postrider.OutboxID]recordedRow
}

var (
	_ store.Store = (*Store)(nil)
	_ store.Nodes = (*Store)(nil)
)

// New returns an empty store.
func New(opts Options) *Store {
	clock := opts.withDefaults().Clock
	return &Store{
		clock:     clock,
		noticed:   map[noticeKey]postrider.NoticeID{},
		types:     map[string]postrider.EventType{},
		lanes:     map[laneKey]*lane{},
		keyOwners: map[store.Key]ownedKey{},
		sequences: map[orderingKey]int64{},
		keyQueues: map[orderedKey]*keyQueue{},
		parked:    map[*delivery]struct{}{},
		nodes:     map[uint32]*node{},
		locks:     map[uint32]int{},
		listeners: map[chan string]struct{}{},
		quotas:    map[postrider.AccountID]store.AccountQuotas{},
		quotaUse:  map[postrider.AccountID]quotaUse{},
		restored:  map[restoredKey]store.RestoredRecord{},
		whatIfs:   map[postrider.AccountID]whatIf{},

		outboxRows: map[postrider.OutboxID]recordedRow{},
		rollups: rollups{
			wall:   clock.Wall,
			deltas: map[delta]*postrider.Counts{},
			rows:   map[store.Scope]map[store.RollupKey]*store.RollupValue{},
		},
	}
}

// Close does nothing, because there is nothing to close.
func (s *Store) Close() error { return nil }

// Clock implements [store.Queue].
func (s *Store) Clock() *store.Clock { return s.clock }

// now returns the time that decides which work is due.
func (s *Store) now() time.Time { return s.clock.Now() }

// wall returns the time that people see.
func (s *Store) wall() time.Time { return s.clock.Wall() }

// stored returns a time in UTC, truncated to microseconds, as stores keep it.
func stored(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// id is an id of any type.
type id[I any] interface {
	~[16]byte
	comparable
	Compare(I) int
	Time() time.Time
}

// table keeps rows in the order of their ids. The zero table is empty.
type table[I id[I], R any] struct {
	ids  []I // sorted
	rows []R // rows[i] has the id ids[i]
}

// find returns the index of the id, and whether the table has the id.
func (t *table[I, R]) find(id I) (int, bool) { return slices.BinarySearchFunc(t.ids, id, I.Compare) }

func (t *table[I, R]) get(id I) (row R, ok bool) {
	if i, found := t.find(id); found {
		return t.rows[i], true
	}
	return row, false
}

func (t *table[I, R]) put(id I, row R) {
	i, found := t.find(id)
	if !found { // nearly always at the end
		t.ids, t.rows = slices.Insert(t.ids, i, id), slices.Insert(t.rows, i, row)
	}
	t.rows[i] = row
}

func (t *table[I, R]) remove(id I) {
	if i, found := t.find(id); found {
		t.ids, t.rows = slices.Delete(t.ids, i, i+1), slices.Delete(t.rows, i, i+1)
	}
}

// after returns the rows with greater ids, in their order.
func (t *table[I, R]) after(id I) []R {
	i, found := t.find(id)
	if found {
		i++
	}
	return t.rows[i:]
}

// list returns a page of the rows that match, in the order that the page asks for. If only is not
// zero, it looks at that row only.
func list[I id[I], R, T any](t *table[I, R], p store.Paging, only I, read func(R) (item T, matches bool)) (store.Page[T], error) {
	cursor, ok, err := store.IDKey[I](p)
	if err != nil {
		return store.Page[T]{}, err
	}
	from, end := 0, len(t.ids)
	switch {
	case ok && p.OldestFirst:
		from, _ = t.find(store.NextID(cursor))
	case ok:
		end, _ = t.find(cursor)
	}
	if only != (I{}) {
		i, found := t.find(only)
		if !found || i < from || i >= end {
			return store.Page[T]{}, nil
		}
		from, end = i, i+1
	}
	type keyed struct {
		id   I
		item T
	}
	var found []keyed
	for n := 0; n < end-from && len(found) <= p.Size(); n++ {
		i := end - 1 - n
		if p.OldestFirst {
			i = from + n
		}
		if item, matches := read(t.rows[i]); matches {
			found = append(found, keyed{t.ids[i], item})
		}
	}
	page := store.Cut(found, p, func(k keyed) string { return string(k.id[:]) })
	items := make([]T, 0, len(page.Items))
	for _, k := range page.Items {
		items = append(items, k.item)
	}
	return store.Page[T]{Items: items, Next: page.Next}, nil
}

// selects reports whether a value passes a filter of a query. A zero filter passes every value.
func selects[T comparable](filter, value T) bool {
	var none T
	return filter == none || filter == value
}

// within reports whether an object that was made at that time is in the span.
func within(s store.Span, made time.Time) bool {
	return (s.From.IsZero() || !made.Before(s.From)) && (s.To.IsZero() || made.Before(s.To))
}
