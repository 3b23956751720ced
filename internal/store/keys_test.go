package store_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// fromRow returns an event that was read from a row.
func fromRow(row byte, key string) postrider.Event {
	e := event(key, "1")
	e.Row = postrider.OutboxID{row}
	return e
}

func TestRowsAreDistinctAndSorted(t *testing.T) {
	t.Parallel()
	a, b, again := fromRow(1, ""), fromRow(2, ""), fromRow(1, "k")
	got := store.ReadRows([]store.Batch{batch(b, event("k", "1")), batch(a, again)})
	if diff := cmp.Diff([]store.ReadRow{{ID: a.Row, Event: a.ID}, {ID: b.Row, Event: b.ID}}, got); diff != "" {
		t.Errorf("ReadRows (-want +got):\n%s", diff)
	}
}

func TestEventsWithoutRowsCostNothing(t *testing.T) { // counts allocations, so no other test may run
	batches := []store.Batch{batch(event("k", "1"), event("", "1"))}
	if n := testing.AllocsPerRun(10, func() { store.ReadRows(batches) }); n != 0 {
		t.Errorf("ReadRows allocates %v times", n)
	}
	if got := store.Dedupe(batches, nil, nil); got.NewRows != nil {
		t.Errorf("NewRows = %v, want nil", got.NewRows)
	}
}

func TestDedupeOfRows(t *testing.T) {
	t.Parallel()
	a, again, keyed, other := fromRow(1, ""), fromRow(1, ""), fromRow(1, "k"), event("k", "2")
	taken, owned := fromRow(2, "k"), fromRow(2, "k")
	of := func(e postrider.Event) store.Recorded { return store.Recorded{e.Row: e.ID} }
	for _, tt := range []rowCase{
		{dedupeCase{
			name: "a row that is not recorded is new", batches: []store.Batch{batch(a)},
			want: []store.Published{stored(first(a))}, isNew: []postrider.Event{a},
		}, nil, of(a)},
		{dedupeCase{
			name: "a recorded row is a duplicate, and is not recorded again", batches: []store.Batch{batch(again)},
			want: []store.Published{stored(duplicate(a))},
		}, of(a), nil},
		{dedupeCase{
			name: "a recorded row goes before a key of other content", batches: []store.Batch{batch(keyed)}, owners: owner(other),
			want: []store.Published{stored(duplicate(a))},
		}, of(a), nil},
		{dedupeCase{
			name: "a repeat is new again", batches: []store.Batch{batch(a)},
			want: []store.Published{stored(first(a))}, isNew: []postrider.Event{a},
		}, of(a), nil},
		{dedupeCase{
			name: "a row is recorded with the owner of its key", batches: []store.Batch{batch(owned)}, owners: owner(taken),
			want: []store.Published{stored(duplicate(taken))},
		}, nil, store.Recorded{owned.Row: taken.ID}},
		{dedupeCase{
			name: "the row of a refused batch is left to a later one", batches: []store.Batch{batch(a, other), batch(again)}, owners: owner(taken),
			want: []store.Published{{Conflict: 1}, stored(first(again))}, isNew: []postrider.Event{again},
		}, nil, of(again)},
		{dedupeCase{
			name: "a row of an earlier batch, and one of the same", batches: []store.Batch{batch(a, again), batch(keyed)},
			want: []store.Published{stored(first(a), duplicate(a)), stored(duplicate(a))}, isNew: []postrider.Event{a},
		}, nil, of(a)},
	} {
		t.Run(tt.name, tt.check)
	}
}
