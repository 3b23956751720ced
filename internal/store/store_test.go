package store_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestIDsAreStrictlyOrdered(t *testing.T) {
	t.Parallel()
	for name, now := range map[string]func() time.Time{
		"of a clock that stands": func() time.Time { return noon },
		"of a clock that runs":   time.Now,
	} {
		ids := store.NewIDs(now, nil)
		last := store.NewID[postrider.EventID](ids)
		for range 10_000 {
			id := store.NewID[postrider.EventID](ids)
			if id.Compare(last) <= 0 {
				t.Fatalf("%s: %s is not after %s", name, id, last)
			}
			last = id
		}
	}
}

func TestIDsStayOrderedWhenTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	now := noon
	ids := store.NewIDs(func() time.Time { return now }, nil)
	first := store.NewID[postrider.EventID](ids)
	now = noon.Add(-time.Hour)
	second := store.NewID[postrider.EventID](ids)
	if second.Compare(first) <= 0 || !second.Time().Equal(noon) {
		t.Errorf("after the clock was set back the id is of %v, want the next one of %v", second.Time(), noon)
	}
}

func TestIDsCarryTheTime(t *testing.T) {
	t.Parallel()
	now := noon.Add(123*time.Millisecond + 999*time.Microsecond)
	ids := store.NewIDs(func() time.Time { return now }, nil)
	if got, want := store.NewID[postrider.DeliveryID](ids).Time(), noon.Add(123*time.Millisecond); !got.Equal(want) {
		t.Errorf("the id is of %v, want %v", got, want)
	}
	now = now.Add(time.Microsecond)
	if got, want := store.NewID[postrider.DeliveryID](ids).Time(), noon.Add(124*time.Millisecond); !got.Equal(want) {
		t.Errorf("the next id is of %v, want %v", got, want)
	}
}

func TestIDsOfOneSeedAreTheSame(t *testing.T) {
	t.Parallel()
	make3 := func(seed *[32]byte) (ids [3]postrider.EventID) {
		source := store.NewIDs(func() time.Time { return noon }, seed)
		for i := range ids {
			ids[i] = store.NewID[postrider.EventID](source)
		}
		return ids
	}
	if a, b := make3(&[32]byte{1}), make3(&[32]byte{1}); a != b {
		t.Errorf("one seed made %v and %v", a, b)
	}
	if a, b := make3(nil), make3(nil); a == b {
		t.Errorf("no seed made %v twice", a)
	}
}

func TestIDsFromManyGoroutinesAreDistinct(t *testing.T) {
	t.Parallel()
	ids := store.NewIDs(func() time.Time { return noon }, nil)
	got := make([][]postrider.EventID, 8)
	var makers sync.WaitGroup
	for i := range got {
		makers.Go(func() {
			for range 1000 {
				got[i] = append(got[i], store.NewID[postrider.EventID](ids))
			}
		})
	}
	makers.Wait()
	seen := map[postrider.EventID]bool{}
	for _, some := range got {
		for _, id := range some {
			seen[id] = true
		}
	}
	if len(seen) != 8000 {
		t.Errorf("%d of 8000 ids are distinct", len(seen))
	}
}

func TestIDsOfDeliveriesAreDistinctAndCarryTheirEvent(t *testing.T) {
	t.Parallel()
	ids := store.NewIDs(func() time.Time { return noon }, nil)
	event := store.NewEventID(ids)
	next, seen := store.NewDeliveryIDs(ids, event), map[postrider.DeliveryID]bool{}
	for range 100_000 {
		id := next()
		if seen[id] || !store.NamedEvent(id, event).IsZero() {
			t.Fatalf("delivery %d is %x: it was made before, or does not carry %x", len(seen), id, event)
		}
		seen[id] = true
	}
	own := store.NewID[postrider.DeliveryID](ids)
	if got := store.NamedEvent(own, event); got != event {
		t.Errorf("the row of a delivery with an id of its own names %x, want %x", got, event)
	}
}

// The poll, which finds what a lost wake-up was for, looks only at ids that are not older.
func TestPromise7AnIDIsAtMostOldestIDOlderThanItsDelivery(t *testing.T) {
	t.Parallel()
	now := noon
	ids := store.NewIDs(func() time.Time { return now }, nil)
	event := store.NewEventID(ids)
	for _, age := range []time.Duration{0, store.OldestID, store.OldestID + time.Millisecond, 48 * time.Hour} {
		now = noon.Add(age)
		id := store.NewDeliveryIDs(ids, event)()
		if old := now.Sub(id.Time()); old > store.OldestID {
			t.Errorf("%v after its event, a delivery has an id that is %v old", age, old)
		}
		if carries := postrider.EventOf(id) == event; carries != (age <= store.OldestID) {
			t.Errorf("%v after its event, the id carries the event: %t", age, carries)
		}
	}
}

// A customer must not see from the id of a delivery how many endpoints got the event.
func TestOrdinalsAreNoPositions(t *testing.T) {
	t.Parallel()
	ids := store.NewIDs(func() time.Time { return noon }, &[32]byte{})
	below := 0
	for range 1000 {
		id := store.NewDeliveryIDs(ids, store.NewEventID(ids))()
		if id[13] < 0x80 {
			below++
		}
	}
	if below < 400 || below > 600 {
		t.Errorf("the first ordinal of %d of 1,000 events is in the lower half, want about half", below)
	}
}

// Ids of events have no bits by chance. Two nodes never make the same, because their numbers differ.
func TestEventIDsHaveTheNumberOfTheirNode(t *testing.T) {
	t.Parallel()
	stands := func() time.Time { return noon }
	a, b := store.NewIDs(stands, nil), store.NewIDs(stands, nil)
	if a.Node() == 0 || a.Node() == b.Node() || a.Node() >= 1<<31 {
		t.Fatalf("the nodes have the numbers %d and %d, want two different ones of 31 bits", a.Node(), b.Node())
	}
	seen := map[postrider.EventID]bool{}
	for range 10_000 {
		for _, ids := range []*store.IDs{a, b} {
			id := store.NewEventID(ids)
			if seen[id] || binary.BigEndian.Uint32(id[9:]) != ids.Node() {
				t.Fatalf("%x was made before, or does not have the number %x", id, ids.Node())
			}
			seen[id] = true
		}
	}
}

func TestPageSize(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int]int{-1: 50, 0: 50, 1: 1, 50: 50, 250: 250, 251: 250, 1 << 40: 250} {
		if got := (store.Paging{Limit: limit}).Size(); got != want {
			t.Errorf("limit %d: size %d, want %d", limit, got, want)
		}
	}
}

func TestCut(t *testing.T) {
	t.Parallel()
	key := func(s string) string { return s }
	for _, tt := range []struct {
		name  string
		items []string
		want  store.Page[string]
	}{
		{"nothing is the last page", nil, store.Page[string]{}},
		{"fewer than fit are the last page", []string{"a"}, store.Page[string]{Items: []string{"a"}}},
		{"as many as fit are the last page", []string{"a", "b"}, store.Page[string]{Items: []string{"a", "b"}}},
		{"one more is the start of the next page", []string{"a", "b", "c"}, store.Page[string]{
			Items: []string{"a", "b"}, Next: store.EncodeCursor("b"),
		}},
	} {
		if diff := cmp.Diff(tt.want, store.Cut(tt.items, store.Paging{Limit: 2}, key)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestCursor(t *testing.T) {
	t.Parallel()
	id := postrider.MakeID[postrider.EventID](noon, [10]byte{1})
	for _, tt := range []struct {
		name, cursor, key string
		keyOK, idOK       bool
	}{
		{"none is the start", "", "", true, false},
		{"of an id", store.EncodeCursor(string(id[:])), string(id[:]), true, true},
		{"of a name", store.EncodeCursor("order.created"), "order.created", true, false},
		{"of the longest key", store.EncodeCursor(strings.Repeat("x", 256)), strings.Repeat("x", 256), true, false},
		{"of too long a key", store.EncodeCursor(strings.Repeat("x", 257)), "", false, false},
		{"padded", base64.URLEncoding.EncodeToString([]byte("a")), "", false, false},
		{"of another alphabet", "+/+/", "", false, false},
		{"of no encoding", "not a cursor", "", false, false},
	} {
		p := store.Paging{Cursor: tt.cursor}
		key, err := p.Key()
		if key != tt.key || (err == nil) != tt.keyOK {
			t.Errorf("%s: Key = %q, %v; want %q", tt.name, key, err, tt.key)
		}
		got, ok, idErr := store.IDKey[postrider.EventID](p)
		if ok != tt.idOK || (ok && got != id) || (idErr == nil) != (tt.idOK || tt.cursor == "") {
			t.Errorf("%s: IDKey = %s, %t, %v", tt.name, got, ok, idErr)
		}
		var invalid *postrider.InvalidError
		if idErr != nil && (!errors.As(idErr, &invalid) || invalid.Field != "cursor") {
			t.Errorf("%s: error = %v, want an InvalidError of cursor", tt.name, idErr)
		}
	}
}

// FuzzCursor checks that an accepted cursor has exactly its key, and that any other cursor is the
// caller's fault.
func FuzzCursor(f *testing.F) {
	id := postrider.MakeID[postrider.EventID](noon, [10]byte{1})
	for _, seed := range []string{"", "!", "YQ", "YR", "YQ==", "Y\nQ", store.EncodeCursor(string(id[:]))} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, cursor string) {
		key, err := store.Paging{Cursor: cursor}.Key()
		if err != nil {
			if key != "" || !errors.Is(err, postrider.ErrInvalid) {
				t.Errorf("Key(%q) = %q, %v; want an InvalidError", cursor, key, err)
			}
			return
		}
		if (key == "") != (cursor == "") || len(key) > 256 {
			t.Errorf("Key(%q) = %q", cursor, key)
		}
		again, err := store.Paging{Cursor: store.EncodeCursor(key)}.Key()
		if key != "" && (err != nil || again != key) {
			t.Errorf("the cursor of %q has the key %q, %v", key, again, err)
		}
		if id, ok, err := store.IDKey[postrider.EventID](store.Paging{Cursor: cursor}); ok && (err != nil || string(id[:]) != key) {
			t.Errorf("IDKey(%q) = %s, %v; want %x", cursor, id, err, key)
		}
	})
}

func TestContentHash(t *testing.T) {
	t.Parallel()
	plain := event("", `{"a":1}`)
	plain.Type, plain.OrderingKey = "order.created", "o"
	hash := store.ContentHash(plain)
	for _, tt := range []struct {
		name   string
		change func(*postrider.Event)
		same   bool
	}{
		{"another id", func(e *postrider.Event) { e.ID = postrider.EventID{9} }, true},
		{"another key", func(e *postrider.Event) { e.IdempotencyKey = "k" }, true},
		{"another API version", func(e *postrider.Event) { e.APIVersion = "2" }, true},
		{"other hops", func(e *postrider.Event) { e.Hops = 3 }, true},
		{"another tracestate", func(e *postrider.Event) { e.TraceState = "a=b" }, true},
		{"another trace", func(e *postrider.Event) { e.TraceParent = postrider.TraceParent{1} }, true},
		{"another time", func(e *postrider.Event) { e.CreatedAt = noon }, true},
		{"another account", func(e *postrider.Event) { e.Account = postrider.AccountID{9} }, false},
		{"another type", func(e *postrider.Event) { e.Type = "order.paid" }, false},
		{"other bytes of the same JSON", func(e *postrider.Event) { e.Data = []byte(`{"a": 1}`) }, false},
		{"another subject", func(e *postrider.Event) { e.About.Subject = "order/42" }, false},
		{"a channel", func(e *postrider.Event) { e.About.Channels = []string{"a"} }, false},
		{"metadata", func(e *postrider.Event) { e.About.Metadata = map[string]string{"a": "b"} }, false},
		{"the same internally", func(e *postrider.Event) { e.About.Internal = map[string]string{"a": "b"} }, false},
		{"an object before", func(e *postrider.Event) { e.About.Previous = []byte("{}") }, false},
		{"a path that changed", func(e *postrider.Event) { e.About.ChangedPaths = []string{"$.a"} }, false},
		{"lists without elements", func(e *postrider.Event) {
			e.About = postrider.About{
				Channels: []string{}, Metadata: map[string]string{}, Internal: map[string]string{}, Previous: []byte{}, ChangedPaths: []string{},
			}
		}, true},
		{"another ordering key", func(e *postrider.Event) { e.OrderingKey = "p" }, false},
		{"another time and row", func(e *postrider.Event) { e.OccurredAt, e.Row = time.Now(), postrider.OutboxID{1} }, true},
		{"bytes that move from one part to the next", func(e *postrider.Event) {
			e.Data, e.OrderingKey = bytes.TrimSuffix(e.Data, []byte("}")), "}o"
		}, false},
	} {
		e := plain
		tt.change(&e)
		if got := store.ContentHash(e) == hash; got != tt.same {
			t.Errorf("%s: the same hash = %t, want %t", tt.name, got, tt.same)
		}
	}
}

var (
	account = postrider.AccountID{1}
	made    = store.NewIDs(time.Now, nil)
)

func event(key, data string) postrider.Event {
	return postrider.Event{
		ID: store.NewID[postrider.EventID](made), Account: account, Type: "order.created",
		Data: []byte(data), IdempotencyKey: key,
	}
}

func batch(events ...postrider.Event) (b store.Batch) {
	for _, e := range events {
		b = append(b, store.NewEvent{Event: e})
	}
	return b
}

func TestKeysAreDistinctAndSorted(t *testing.T) {
	t.Parallel()
	foreign := event("a", "1")
	foreign.Account = postrider.AccountID{0, 1}
	got := store.Keys([]store.Batch{
		batch(event("b", "1"), event("", "1"), event("a", "1")),
		batch(foreign, event("b", "2")),
	})
	want := []store.Key{{Account: foreign.Account, Key: "a"}, {Account: account, Key: "a"}, {Account: account, Key: "b"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Keys (-want +got):\n%s", diff)
	}
	if got := store.Keys(nil); len(got) != 0 {
		t.Errorf("Keys of nothing = %v", got)
	}
}

// dedupeCase is a case of a decision of [store.Dedupe].
type dedupeCase struct {
	name    string
	batches []store.Batch
	owners  map[store.Key]store.KeyOwner
	want    []store.Published
	isNew   []postrider.Event
	newKeys map[store.Key]store.KeyOwner
}

func (a dedupeCase) check(t *testing.T) { rowCase{dedupeCase: a}.check(t) }

// rowCase is a dedupeCase with rows of outboxes.
type rowCase struct {
	dedupeCase

	recorded, newRows store.Recorded
}

func (a rowCase) check(t *testing.T) {
	t.Parallel()
	got := store.Dedupe(a.batches, a.owners, a.recorded)
	var isNew []postrider.Event
	for _, e := range got.New {
		isNew = append(isNew, e.Event)
	}
	for what, pair := range map[string][2]any{
		"Published": {a.want, got.Published}, "New": {a.isNew, isNew}, "NewKeys": {a.newKeys, got.NewKeys}, "NewRows": {a.newRows, got.NewRows},
	} {
		if diff := cmp.Diff(pair[0], pair[1], cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
}

func owner(e postrider.Event) map[store.Key]store.KeyOwner {
	return map[store.Key]store.KeyOwner{
		{Account: account, Key: e.IdempotencyKey}: {Event: e.ID, Hash: store.ContentHash(e)},
	}
}

func stored(events ...store.PublishedEvent) store.Published {
	return store.Published{Events: events, Conflict: -1}
}

func first(e postrider.Event) store.PublishedEvent { return store.PublishedEvent{ID: e.ID} }

func duplicate(e postrider.Event) store.PublishedEvent {
	return store.PublishedEvent{ID: e.ID, Duplicate: true}
}

func TestDedupeWithFreeKeys(t *testing.T) {
	t.Parallel()
	plain, a, again, other := event("", "1"), event("k", "1"), event("k", "1"), event("k", "2")
	j, j2 := event("j", "1"), event("j", "2")
	for _, tt := range []dedupeCase{
		{
			"without a key every event is new",
			[]store.Batch{batch(plain, plain)},
			nil,
			[]store.Published{stored(first(plain), first(plain))},
			[]postrider.Event{plain, plain},
			nil,
		},
		{
			"a key without an owner gets one",
			[]store.Batch{batch(a)},
			nil,
			[]store.Published{stored(first(a))},
			[]postrider.Event{a},
			owner(a),
		},
		{
			"a duplicate inside a batch answers with the first",
			[]store.Batch{batch(a, again)},
			nil,
			[]store.Published{stored(first(a), duplicate(a))},
			[]postrider.Event{a},
			owner(a),
		},
		{
			"a duplicate in a later batch answers with the first",
			[]store.Batch{batch(a), batch(again)},
			nil,
			[]store.Published{stored(first(a)), stored(duplicate(a))},
			[]postrider.Event{a},
			owner(a),
		},
		{
			"a conflict with an earlier batch refuses the later",
			[]store.Batch{batch(a), batch(other)},
			nil,
			[]store.Published{stored(first(a)), {Conflict: 0}},
			[]postrider.Event{a},
			owner(a),
		},
		{
			"a conflict inside a batch refuses it",
			[]store.Batch{batch(j, j2)},
			nil,
			[]store.Published{{Conflict: 1}},
			nil, nil,
		},
	} {
		t.Run(tt.name, tt.check)
	}
}

func TestDedupeWithOwnedKeys(t *testing.T) {
	t.Parallel()
	plain, a, again, other := event("", "1"), event("k", "1"), event("k", "1"), event("k", "2")
	j, j2 := event("j", "1"), event("j", "2")
	for _, tt := range []dedupeCase{
		{
			"a key that the event owns itself is a repeat",
			[]store.Batch{batch(a)},
			owner(a),
			[]store.Published{stored(first(a))},
			[]postrider.Event{a},
			owner(a),
		},
		{
			"an owned key of the same content is a duplicate",
			[]store.Batch{batch(again)},
			owner(a),
			[]store.Published{stored(duplicate(a))},
			nil, nil,
		},
		{
			"an owned key of other content refuses the whole batch",
			[]store.Batch{batch(plain, j, other), batch(plain)},
			owner(a),
			[]store.Published{{Conflict: 2}, stored(first(plain))},
			[]postrider.Event{plain},
			nil,
		},
		{
			"a refused batch owns no keys",
			[]store.Batch{batch(j, other), batch(j2)},
			owner(a),
			[]store.Published{{Conflict: 1}, stored(first(j2))},
			[]postrider.Event{j2},
			owner(j2),
		},
	} {
		t.Run(tt.name, tt.check)
	}
}

func TestEncryptedIDsSortByEndpoint(t *testing.T) {
	t.Parallel()
	a, b := postrider.EndpointID{1}, postrider.EndpointID{2}
	sorted := []store.EncryptedID{
		{},
		{Archive: postrider.AccountID{9}},
		{Endpoint: a},
		{Endpoint: a, Secret: postrider.SecretID{8}},
		{Endpoint: a, Secret: postrider.SecretID{9}},
		{Endpoint: b},
		{Endpoint: b, Secret: postrider.SecretID{1}},
	}
	for i, x := range sorted {
		for j, y := range sorted {
			if got, want := x.Compare(y), min(max(i-j, -1), 1); got != want {
				t.Errorf("%v.Compare(%v) = %d, want %d", x, y, got, want)
			}
		}
	}
}

func TestTheIDBeforeAnEncryptedID(t *testing.T) {
	t.Parallel()
	most := [16]byte(bytes.Repeat([]byte{0xff}, 16))
	first := [16]byte{15: 1}
	for _, tt := range []struct{ id, before store.EncryptedID }{
		{store.EncryptedID{Source: first}, store.EncryptedID{}},
		{store.EncryptedID{Archive: first}, store.EncryptedID{Source: most}},
		{store.EncryptedID{Archive: [16]byte{14: 1}}, store.EncryptedID{Archive: [16]byte{15: 0xff}, Source: most}},
		{store.EncryptedID{Endpoint: first}, store.EncryptedID{Secret: most, Archive: most, Source: most}},
		{store.EncryptedID{Endpoint: first, Secret: first}, store.EncryptedID{Endpoint: first, Archive: most, Source: most}},
		{
			store.EncryptedID{Endpoint: [16]byte{1}, Secret: [16]byte{0: 1, 15: 2}},
			store.EncryptedID{Endpoint: [16]byte{1}, Secret: [16]byte{0: 1, 15: 1}, Archive: most, Source: most},
		},
	} {
		if got := tt.id.Before(); got != tt.before || got.Compare(tt.id) >= 0 {
			t.Errorf("the id before %v is %v, want %v", tt.id, got, tt.before)
		}
	}
}

func TestLogLinesOmitEncryptedBytes(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	slog.New(slog.NewTextHandler(&out, nil)).Info("encrypted", "v", store.EncryptedValue{Bytes: []byte("hush")})
	want := "v.endpoint=ep_00000000000000000000000000 v.secret=sec_00000000000000000000000000"
	if line := out.String(); strings.Contains(line, "hush") || !strings.Contains(line, want) {
		t.Errorf("logged %s", line)
	}
}

func TestCountsOfABacklogStop(t *testing.T) {
	for most, want := range map[int]int{
		-1: store.MaxCounted, 0: store.MaxCounted, 1: 1, store.MaxCounted: store.MaxCounted,
		store.MaxCounted + 1: store.MaxCounted,
	} {
		if got := (store.BacklogQuery{Most: most}).Stop(); got != want {
			t.Errorf("up to %d they stop at %d, want %d", most, got, want)
		}
	}
}
