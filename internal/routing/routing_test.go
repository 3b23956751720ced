package routing

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// TestTableMatchesAsEachEndpointWould compares the compiled table with the method Subscribes of
// every endpoint, over random histories of changes.
func TestTableMatchesAsEachEndpointWould(t *testing.T) {
	t.Parallel()
	types := []string{"order", "order.created", "order.item.added", "user.created", "user", "postrider.endpoint.disabled"}
	patterns := []postrider.Pattern{"*", "order", "order.*", "order.created", "order.item.*", "user.*", "user.created", "postrider.*"}
	rapid.Check(t, func(t *rapid.T) {
		x := New(nil, Options{})
		ids := store.NewIDs(func() time.Time { return time.Unix(1, 0) }, &[32]byte{})
		accounts := []postrider.AccountID{store.NewID[postrider.AccountID](ids), store.NewID[postrider.AccountID](ids)}
		var endpoints []postrider.Endpoint
		var page []store.EndpointSnapshot
		for range rapid.IntRange(1, 20).Draw(t, "changes") {
			e := postrider.Endpoint{ID: store.NewID[postrider.EndpointID](ids), Account: rapid.SampledFrom(accounts).Draw(t, "account")}
			at := rapid.IntRange(0, len(endpoints)).Draw(t, "which")
			if at < len(endpoints) {
				e = endpoints[at]
			} else {
				endpoints = append(endpoints, e)
			}
			if e.Status == postrider.EndpointDeleted {
				continue // a deleted endpoint stays deleted
			}
			e.EventTypes = rapid.SliceOfN(rapid.SampledFrom(patterns), 1, 3).Draw(t, "patterns")
			e.Status = rapid.SampledFrom([]postrider.EndpointStatus{
				postrider.EndpointEnabled, postrider.EndpointDisabled, postrider.EndpointDeleted,
			}).Draw(t, "status")
			endpoints[at] = e
			if page = append(page, store.EndpointSnapshot{Endpoint: e}); rapid.Bool().Draw(t, "the page ends") {
				x.apply(store.Changes{Version: x.Version() + 1, Endpoints: page})
				page = nil
			}
		}
		x.apply(store.Changes{Version: x.Version() + 1, Endpoints: page})
		for _, account := range accounts {
			for _, eventType := range types {
				var want, got []postrider.EndpointID
				for _, e := range endpoints {
					if e.Account == account && e.Status != postrider.EndpointDeleted && e.Subscribes(eventType) {
						want = append(want, e.ID)
					}
				}
				matched, last := x.Match(&postrider.Event{Account: account, Type: eventType}, len(endpoints))
				for _, to := range matched {
					got = append(got, to.Endpoint.ID)
				}
				if n := len(want); n > 0 {
					if few, same := x.Match(&postrider.Event{Account: account, Type: eventType}, n-1); few != nil || last != want[n-1] || same != last {
						t.Fatalf("%s matches %v up to %v when %d are too many", eventType, few, same, n)
					}
				}
				if !slices.Equal(got, want) {
					t.Fatalf("%s matches %v, want %v", eventType, got, want)
				}
				checkChunks(t, x, store.FanOut{Event: postrider.Event{Account: account, Type: eventType}}, want)
			}
		}
	})
}

// checkChunks requires that the chunks of a job, joined, are the match.
func checkChunks(t *rapid.T, x *Table, job store.FanOut, want []postrider.EndpointID) {
	if len(want) == 0 {
		return
	}
	job.UpTo = want[rapid.IntRange(0, len(want)-1).Draw(t, "up to")]
	var got []postrider.EndpointID
	for {
		chunk := x.MatchNext(&job, 2)
		for _, to := range chunk {
			if to.Endpoint.Status != postrider.EndpointDeleted {
				got = append(got, to.Endpoint.ID)
			}
		}
		if len(chunk) < 2 {
			break
		}
		job.Cursor = chunk[len(chunk)-1].Endpoint.ID
	}
	want = want[:slices.Index(want, job.UpTo)+1]
	if !slices.Equal(got, want) {
		t.Fatalf("chunks give %v, want %v", got, want)
	}
}

func BenchmarkMatch(b *testing.B) {
	x := New(nil, Options{})
	ids := store.NewIDs(time.Now, &[32]byte{})
	account := store.NewID[postrider.AccountID](ids)
	for i := range 10_000 {
		e := postrider.Endpoint{ID: store.NewID[postrider.EndpointID](ids), Account: account, EventTypes: []postrider.Pattern{"a.b"}}
		if i%1000 == 0 {
			e.EventTypes = []postrider.Pattern{"order.*"}
		}
		x.apply(store.Changes{Version: int64(i + 1), Endpoints: []store.EndpointSnapshot{{Endpoint: e}}})
	}
	b.ReportAllocs()
	for b.Loop() {
		if matched, _ := x.Match(&postrider.Event{Account: account, Type: "order.created"}, 256); len(matched) != 10 {
			b.Fatal(len(matched))
		}
	}
}

// BenchmarkApply loads an account of 100,000 endpoints page by page, in the order of their changes,
// as at a start.
func BenchmarkApply(b *testing.B) {
	const page = 1000
	account := postrider.AccountID{1}
	random := rand.New(rand.NewPCG(1, 2))
	var endpoints []store.EndpointSnapshot
	for _, i := range random.Perm(100 * page) {
		endpoints = append(endpoints, store.EndpointSnapshot{Endpoint: postrider.Endpoint{
			ID: postrider.EndpointID{byte(i >> 16), byte(i >> 8), byte(i)}, Account: account, EventTypes: []postrider.Pattern{"order.*"},
		}})
	}
	b.ReportAllocs()
	for b.Loop() {
		x := New(nil, Options{})
		for changed := range slices.Chunk(endpoints, page) {
			x.apply(store.Changes{Version: 1, Endpoints: changed})
		}
		if _, last := x.Match(&postrider.Event{Account: account, Type: "order.created"}, 256); last.IsZero() {
			b.Fatal("nothing matches")
		}
	}
}

// A returned match is read without a lock, so later changes must not change it.
func TestAMatchStaysAsItWas(t *testing.T) {
	t.Parallel()
	x := New(nil, Options{})
	ids := store.NewIDs(time.Now, &[32]byte{})
	account := store.NewID[postrider.AccountID](ids)
	var endpoints []store.EndpointSnapshot
	for range 6 {
		endpoints = append(endpoints, store.EndpointSnapshot{Endpoint: postrider.Endpoint{
			ID: store.NewID[postrider.EndpointID](ids), Account: account, EventTypes: []postrider.Pattern{"order.*"},
		}})
	}
	put := func(at int, status postrider.EndpointStatus) {
		endpoints[at].Endpoint.Status = status
		x.apply(store.Changes{Version: x.Version() + 1, Endpoints: endpoints[at : at+1]})
	}
	seen := func() (ids []postrider.EndpointID) {
		matched, _ := x.Match(&postrider.Event{Account: account, Type: "order.created"}, 10)
		for _, to := range matched {
			ids = append(ids, to.Endpoint.ID)
		}
		return ids
	}
	for _, at := range []int{0, 2, 4} {
		put(at, postrider.EndpointEnabled)
	}
	matched, _ := x.Match(&postrider.Event{Account: account, Type: "order.created"}, 10)
	before := seen()
	put(0, postrider.EndpointDeleted)
	put(1, postrider.EndpointEnabled)
	put(4, postrider.EndpointDeleted)
	put(5, postrider.EndpointEnabled)
	for i, to := range matched {
		if to.Endpoint.ID != before[i] {
			t.Errorf("endpoint %d of a match became %s when the table changed", i, to.Endpoint.ID)
		}
	}
	if after := seen(); len(after) != 3 || after[0] != endpoints[1].Endpoint.ID || after[2] != endpoints[5].Endpoint.ID {
		t.Errorf("matched %v after the changes", after)
	}
}
