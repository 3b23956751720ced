package routing

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/filter"
	"github.com/postrider/postrider/internal/store"
)

// filters are filters of endpoints. The first is none.
var filters = []string{
	"", `{"data": {"a": [1]}}`, `{"data": {"a": [{"numeric": [">", 0]}]}}`, `{"data": {"b": [{"prefix": "x"}]}}`,
	`{"data": {"b": [{"exists": false}]}}`, `{"type": ["order.created"]}`,
}

// abouts say what changed, or have channels, or say nothing.
var abouts = []postrider.About{
	{},
	{Previous: []byte(`{"a": 1}`)},
	{Previous: []byte(`{"a": 2, "b": "x"}`)},
	{ChangedPaths: []string{"$.b.c"}},
	{ChangedPaths: []string{"$"}, Channels: []string{"x", "a"}},
	{Channels: []string{"b"}},
}

// wants reports whether the endpoint wants the event, without a table.
func wants(t *rapid.T, e postrider.Endpoint, event *postrider.Event) bool {
	t.Helper()
	if e.Account != event.Account || e.Status == postrider.EndpointDeleted || !event.IsFor(&e) {
		return false
	}
	if len(event.Endpoints) > 0 {
		return true
	}
	has := func(channel string) bool { return slices.Contains(event.About.Channels, channel) }
	if len(e.Policy.Channels) > 0 && !slices.ContainsFunc(e.Policy.Channels, has) {
		return false
	}
	if len(e.Policy.Changed) > 0 && !slices.ContainsFunc(e.Policy.Changed, filter.Of(event).Changed) {
		return false
	}
	if e.Policy.Filter == "" {
		return true
	}
	p, err := filter.Parse([]byte(e.Policy.Filter))
	if err != nil {
		t.Fatal(err)
	}
	return p.Matches(filter.Of(event))
}

// TestTableMatchesAsEachEndpointWould compares the compiled table with the subscription and the
// filter of every endpoint, over random histories of changes.
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
			e.Policy.Filter = rapid.SampledFrom(filters).Draw(t, "filter")
			e.Policy.Changed = rapid.SampledFrom([][]string{nil, nil, {"$.a"}, {"$.b", "$.c"}, {"$"}}).Draw(t, "changed")
			e.Policy.Channels = rapid.SampledFrom([][]string{nil, nil, {"a"}, {"b", "a"}}).Draw(t, "channels")
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
				data := rapid.SampledFrom([]string{`{}`, `{"a": 1}`, `{"a": 2, "b": "xy"}`, `no JSON`}).Draw(t, "data")
				about := rapid.SampledFrom(abouts).Draw(t, "about")
				event := &postrider.Event{Account: account, Type: eventType, Data: []byte(data), About: about}
				checkMatch(t, x, endpoints, event)
				for _, to := range endpoints { // of any account, and deleted ones
					if rapid.Bool().Draw(t, "named") {
						event.Endpoints = append(event.Endpoints, to.ID)
					}
				}
				checkMatch(t, x, endpoints, event)
			}
		}
	})
}

// checkMatch compares the matches of an event, whole and in chunks, with what each endpoint wants.
func checkMatch(t *rapid.T, x *Table, endpoints []postrider.Endpoint, e *postrider.Event) {
	var want, got []postrider.EndpointID
	var last postrider.EndpointID // of those that subscribe
	for _, to := range endpoints {
		if to.Account == e.Account && to.Status != postrider.EndpointDeleted && e.IsFor(&to) {
			last = to.ID
		}
		if wants(t, to, e) {
			want = append(want, to.ID)
		}
		if to.Account == e.Account && x.Wants(to.ID, e) != wants(t, to, e) {
			t.Fatalf("%s wants %s %s %+v: %v", to.ID, e.Type, e.Data, e.About, !wants(t, to, e))
		}
	}
	matched, end := x.Match(e, len(endpoints))
	for _, to := range matched {
		got = append(got, to.Endpoint.ID)
	}
	if !slices.Equal(got, want) || end != last || matched == nil && !last.IsZero() {
		t.Fatalf("%s %s %+v matches %v up to %v, want %v up to %v", e.Type, e.Data, e.About, got, end, want, last)
	}
	if n := len(want); n > 0 {
		if few, same := x.Match(e, n-1); few != nil || same != last {
			t.Fatalf("%s %s matches %v up to %v when %d are too many", e.Type, e.Data, few, same, n)
		}
	}
	checkChunks(t, x, store.FanOut{Event: *e}, want)
}

// checkChunks requires that the chunks of a job, joined, are the match.
func checkChunks(t *rapid.T, x *Table, job store.FanOut, want []postrider.EndpointID) {
	if len(want) == 0 {
		return
	}
	job.UpTo = want[rapid.IntRange(0, len(want)-1).Draw(t, "up to")]
	var got []postrider.EndpointID
	for {
		until := rapid.SampledFrom([]time.Time{time.Now().Add(-time.Hour), time.Now().Add(time.Hour)}).Draw(t, "until")
		chunk, through, err := x.MatchNext(t.Context(), &job, 2, until)
		if err != nil {
			t.Fatal(err)
		}
		for _, to := range chunk {
			if to.Endpoint.Status != postrider.EndpointDeleted {
				got = append(got, to.Endpoint.ID)
			}
		}
		if through == job.UpTo {
			break
		}
		job.Cursor = through
	}
	want = want[:slices.Index(want, job.UpTo)+1]
	if !slices.Equal(got, want) {
		t.Fatalf("chunks give %v, want %v", got, want)
	}
}

// filtered is a filter of three conditions. An event fits ten of 10,000.
func filtered(i int) string {
	return fmt.Sprintf(`{"data": {"status": ["paid"], "total": [{"numeric": [">", %d]}], "customer": {"id": ["c%d"]}}}`, i%10, i/10)
}

// BenchmarkMatch matches an event with ten of 10,000 endpoints: by their types, by their filters of three
// conditions each, and by their types beside an event type of the same account with filters.
func BenchmarkMatch(b *testing.B) {
	ids := store.NewIDs(time.Now, &[32]byte{})
	account := store.NewID[postrider.AccountID](ids)
	data := `{"status": "paid", "total": 120.5, "customer": {"id": "c7"}, "note": "` + strings.Repeat("x", 200) + `",
		"items": [` + strings.Repeat(`{"sku": "A-1000", "quantity": 2}, `, 20) + `{}]}`
	for _, bb := range []struct {
		name     string
		endpoint func(i int, e *postrider.Endpoint)
	}{
		{"types", func(i int, e *postrider.Endpoint) {
			if e.EventTypes = []postrider.Pattern{"a.b"}; i%1000 == 0 {
				e.EventTypes = []postrider.Pattern{"order.*"}
			}
		}},
		{"filters of another type", func(i int, e *postrider.Endpoint) {
			if e.EventTypes, e.Policy.Filter = []postrider.Pattern{"a.b"}, filtered(i); i%1000 == 0 {
				e.EventTypes, e.Policy.Filter = []postrider.Pattern{"order.*"}, ""
			}
		}},
		{"filters", func(i int, e *postrider.Endpoint) {
			e.EventTypes, e.Policy.Filter = []postrider.Pattern{"order.*"}, filtered(i)
		}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			x := New(nil, Options{})
			var endpoints []store.EndpointSnapshot
			for i := range 10_000 {
				e := postrider.Endpoint{ID: store.NewID[postrider.EndpointID](ids), Account: account}
				bb.endpoint(i, &e)
				endpoints = append(endpoints, store.EndpointSnapshot{Endpoint: e})
			}
			x.apply(store.Changes{Version: 1, Endpoints: endpoints})
			e := &postrider.Event{Account: account, Type: "order.created", Data: []byte(data)}
			took := make([]time.Duration, 0, 1<<20)
			b.ReportAllocs()
			for b.Loop() {
				begun := time.Now()
				if matched, _ := x.Match(e, 256); len(matched) != 10 {
					b.Fatal(len(matched))
				}
				took = append(took, time.Since(begun))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns")
			b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99-ns")
		})
	}
}

// BenchmarkChange gives one of 10,000 endpoints with filters another filter.
func BenchmarkChange(b *testing.B) {
	x := New(nil, Options{})
	ids := store.NewIDs(time.Now, &[32]byte{})
	endpoint := func(i int) store.EndpointSnapshot {
		e := postrider.Endpoint{ID: store.NewID[postrider.EndpointID](ids), EventTypes: []postrider.Pattern{"order.*"}}
		e.Policy.Filter = filtered(i)
		return store.EndpointSnapshot{Endpoint: e}
	}
	var endpoints []store.EndpointSnapshot
	for i := range 10_000 {
		endpoints = append(endpoints, endpoint(i))
	}
	x.apply(store.Changes{Version: 1, Endpoints: endpoints})
	for i := 0; b.Loop(); i++ {
		changed := endpoints[i%len(endpoints)]
		changed.Endpoint.Policy.Filter = endpoints[(i+5000)%len(endpoints)].Endpoint.Policy.Filter
		x.apply(store.Changes{Version: int64(i), Endpoints: []store.EndpointSnapshot{changed}})
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

// TestSlowFiltersAreComparedByAJob lets a filter need more comparisons than a commit may wait for.
func TestSlowFiltersAreComparedByAJob(t *testing.T) {
	t.Parallel()
	x, ids := New(nil, Options{}), store.NewIDs(time.Now, &[32]byte{})
	e := postrider.Endpoint{ID: store.NewID[postrider.EndpointID](ids), EventTypes: []postrider.Pattern{"*"}}
	e.Policy.Filter = `{"data": {"a": [` + strings.Repeat(`{"wildcard": "a*b*c"}, `, 250) + `{"suffix": "z"}]}}`
	e.Policy.Order = postrider.OrderByKey
	x.apply(store.Changes{Version: 1, Endpoints: []store.EndpointSnapshot{{Endpoint: e}}})
	event := &postrider.Event{Type: "order", Data: []byte(`{"a": [` + strings.Repeat(`"aab", `, 20_000) + `"z"]}`)}
	if matched, last := x.Match(event, 10); matched != nil || last != e.ID {
		t.Errorf("matches %v up to %v, want a job up to %v", matched, last, e.ID)
	}
	if !x.WantsOrder(event) {
		t.Error("a filter that is too slow wants no order")
	}
	job := &store.FanOut{Event: *event, UpTo: e.ID}
	if matched, _, err := x.MatchNext(t.Context(), job, 10, time.Now()); len(matched) != 1 || err != nil {
		t.Errorf("the job finds %d endpoints, want 1: %v", len(matched), err)
	}
	if x.evaluationOf(e.Account).taken == 0 {
		t.Error("the time of the filter is not counted")
	}
}
