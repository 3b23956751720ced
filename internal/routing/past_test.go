package routing

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/memory"
)

// acceptance is an account with endpoints that change at random. Two nodes hear of the changes at different times.
type acceptance struct {
	*rapid.T
	*memory.Store
	nodes     []*Table
	ids       *store.IDs
	endpoints []postrider.Endpoint // as they were last stored
}

func newAcceptance(t *rapid.T) *acceptance {
	now := time.Unix(1e9, 0)
	s := memory.New(memory.Options{Now: func() time.Time {
		now = now.Add(time.Millisecond)
		return now
	}})
	return &acceptance{
		T: t, Store: s, nodes: []*Table{New(s, Options{}), New(s, Options{})}, ids: store.NewIDs(s.Clock().Wall, &[32]byte{}),
	}
}

func (a *acceptance) ok(err error) {
	a.Helper()
	if err != nil {
		a.Fatal(err)
	}
}

// change creates an endpoint, or changes one of six in a way that may concern what it selects.
func (a *acceptance) change() {
	at := rapid.IntRange(0, min(len(a.endpoints), 5)).Draw(a.T, "which")
	if at == len(a.endpoints) {
		a.endpoints = append(a.endpoints, postrider.Endpoint{
			ID: store.NewID[postrider.EndpointID](a.ids), URL: "https://a.example", Status: postrider.EndpointEnabled,
			Policy: postrider.DefaultPolicy(),
		})
	}
	e := a.endpoints[at]
	if e.Status == postrider.EndpointDeleted {
		return
	}
	switch how := rapid.SampledFrom([]string{"subscription", "subscription", "status", "set aside"}).Draw(a.T, "how"); {
	case how == "status" && e.Revision > 0:
		e.Status = rapid.SampledFrom([]postrider.EndpointStatus{
			postrider.EndpointPaused, postrider.EndpointDisabled, postrider.EndpointEnabled, postrider.EndpointDeleted,
		}).Draw(a.T, "status")
	case how == "set aside" && e.Policy.Condition != "":
		e.ConditionFailed, e.PolicyError = true, "it failed"
	default:
		patterns := []postrider.Pattern{"*", "order.*", "order.created", "user.*"}
		e.EventTypes = rapid.SliceOfN(rapid.SampledFrom(patterns), 1, 2).Draw(a.T, "patterns")
		e.Policy.Filter = rapid.SampledFrom(filters).Draw(a.T, "filter")
		e.Policy.Changed = rapid.SampledFrom([][]string{nil, nil, {"$.a"}, {"$.b", "$.c"}}).Draw(a.T, "changed")
		e.Policy.Channels = rapid.SampledFrom([][]string{nil, nil, {"a"}}).Draw(a.T, "channels")
		e.Policy.Condition = rapid.SampledFrom([]string{"", "", `data.a == 1`, `type == "order.created"`}).Draw(a.T, "condition")
		e.ConditionFailed, e.PolicyError = false, ""
	}
	stored, err := a.PutEndpoint(a.Context(), store.PutEndpoint{Endpoint: e})
	a.ok(err)
	a.endpoints[at] = stored
}

// accept stores an event with a job, and returns the job with what the endpoints want now.
func (a *acceptance) accept() (job store.FanOut, want map[postrider.EndpointID]bool) {
	e := postrider.Event{
		ID: store.NewEventID(a.ids), Type: rapid.SampledFrom([]string{"order.created", "user.created"}).Draw(a.T, "type"),
		Data:  []byte(rapid.SampledFrom([]string{`{}`, `{"a": 1}`, `{"a": 2, "b": "xy"}`}).Draw(a.T, "data")),
		About: rapid.SampledFrom(abouts).Draw(a.T, "about"),
	}
	for _, x := range a.nodes {
		a.ok(x.Refresh(a.Context()))
	}
	matched, last := a.nodes[0].Match(&e, len(a.endpoints))
	if last.IsZero() {
		return job, nil // a publish would create none
	}
	batches := []store.Batch{{{Event: e, FanOutUpTo: last}}}
	_, err := a.Publish(a.Context(), store.Publish{Version: a.nodes[0].Version(), Batches: batches})
	a.ok(err)
	jobs, err := a.ClaimFanOuts(a.Context(), store.ClaimFanOuts{Max: 1, Token: 1, Lease: time.Hour})
	a.ok(err)
	return jobs[0], resultsOf(matched)
}

// TestAJobSelectsAsWhenItsEventWasAccepted changes endpoints before each chunk of a job.
func TestAJobSelectsAsWhenItsEventWasAccepted(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := newAcceptance(t)
		for range rapid.IntRange(1, 15).Draw(t, "changes before") {
			a.change()
		}
		job, want := a.accept()
		got := map[postrider.EndpointID]bool{}
		for job.Cursor != job.UpTo {
			for range rapid.IntRange(0, 6).Draw(t, "changes") {
				a.change()
			}
			x := rapid.SampledFrom(a.nodes).Draw(t, "node")
			if rapid.Bool().Draw(t, "it hears of the changes") {
				a.ok(x.Refresh(t.Context()))
			}
			until := rapid.SampledFrom([]time.Time{time.Now().Add(-time.Hour), time.Now().Add(time.Hour)}).Draw(t, "until")
			chunk, through, err := x.MatchNext(t.Context(), &job, rapid.IntRange(1, 3).Draw(t, "n"), until)
			a.ok(err)
			for _, to := range chunk {
				if _, twice := got[to.Endpoint.ID]; twice {
					t.Errorf("%s is selected twice", to.Endpoint.ID)
				}
				got[to.Endpoint.ID] = to.FilterFailed
			}
			if through.Compare(job.Cursor) <= 0 {
				t.Fatalf("a chunk after %s ends at %s", job.Cursor, through)
			}
			job.Cursor = through
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("the job of a %s selects %v, want %v", job.Event.Type, got, want)
		}
	})
}

// asked is a directory that records how often earlier subscriptions are read, and of how many endpoints.
type asked struct {
	store.Directory
	endpoints []int
	past      map[postrider.EndpointID]postrider.Subscription
	err       error
	meanwhile func() // may be nil
}

func (d *asked) PastSubscriptions(
	_ context.Context, p store.PastSubscriptions,
) (map[postrider.EndpointID]postrider.Subscription, error) {
	d.endpoints = append(d.endpoints, len(p.Endpoints))
	if d.meanwhile != nil {
		d.meanwhile()
	}
	return d.past, d.err
}

// changedTable has n endpoints of the zero account that want user.*. Those of the indexes changed at the time at,
// and wanted order.* before.
func changedTable(n int, at time.Time, changed ...int) (*Table, *asked, []postrider.EndpointID) {
	d, ids := &asked{past: map[postrider.EndpointID]postrider.Subscription{}}, store.NewIDs(time.Now, &[32]byte{})
	x, made := New(d, Options{}), make([]postrider.EndpointID, n)
	page := make([]store.EndpointSnapshot, n)
	for i := range page {
		made[i] = store.NewID[postrider.EndpointID](ids)
		page[i].Endpoint = postrider.Endpoint{ID: made[i], EventTypes: []postrider.Pattern{"user.*"}, Status: postrider.EndpointEnabled}
		if slices.Contains(changed, i) {
			page[i].SubscribedAt = at
			d.past[made[i]] = postrider.Subscription{EventTypes: []postrider.Pattern{"order.*"}}
		}
	}
	x.apply(store.Changes{Version: 1, Endpoints: page})
	return x, d, made
}

// A change at the very time of the publish was made before it, as for events explain.
func TestEarlierSubscriptionsAreReadOnlyIfOneHasChanged(t *testing.T) {
	t.Parallel()
	at := time.Unix(1e9, 0)
	for _, tt := range []struct {
		what     string
		accepted time.Time
		named    bool
		reads    []int
		want     int
	}{
		{"before the changes", at.Add(-time.Microsecond), false, []int{3, 3, 3, 1}, 0},
		{"at the time of the changes", at, false, nil, 10},
		{"later", at.Add(time.Microsecond), false, nil, 10},
		{"before the changes, for named endpoints", at.Add(-time.Microsecond), true, nil, 10},
	} {
		x, d, ids := changedTable(10, at, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
		job := &store.FanOut{Event: postrider.Event{Type: "user.created"}, UpTo: ids[9], AcceptedAt: tt.accepted}
		if tt.named {
			job.Event.Endpoints = ids
		}
		found := 0
		for job.Cursor != job.UpTo {
			matched, through, err := x.MatchNext(t.Context(), job, 3, time.Now().Add(time.Hour))
			if err != nil {
				t.Fatal(err)
			}
			found, job.Cursor = found+len(matched), through
		}
		if found != tt.want || !slices.Equal(d.endpoints, tt.reads) {
			t.Errorf("%s: %d selected with reads of %v endpoints, want %d and %v", tt.what, found, d.endpoints, tt.want, tt.reads)
		}
	}
}

// If the store does not know the earlier subscription, the present one counts. If it fails, the job waits.
func TestAnEarlierSubscriptionThatIsNotKnown(t *testing.T) {
	t.Parallel()
	at := time.Unix(1e9, 0)
	for eventType, want := range map[string][]int{"user.created": {0, 1}, "order.created": {2}} {
		x, d, ids := changedTable(3, at, 1, 2)
		delete(d.past, ids[1])
		job := &store.FanOut{Event: postrider.Event{Type: eventType}, UpTo: ids[2], AcceptedAt: at.Add(-time.Second)}
		matched, through, err := x.MatchNext(t.Context(), job, 10, time.Now().Add(time.Hour))
		var got []int
		for _, to := range matched {
			got = append(got, slices.Index(ids, to.Endpoint.ID))
		}
		if !slices.Equal(got, want) || through != job.UpTo || err != nil {
			t.Errorf("%s: selects %v through %s, %v, want %v", eventType, got, through, err, want)
		}
		d.err = postrider.ErrBusy
		if matched, through, err := x.MatchNext(t.Context(), job, 10, time.Now()); err == nil || matched != nil || !through.IsZero() {
			t.Errorf("%s: selects %v through %s, %v, although the store fails", eventType, matched, through, err)
		}
	}
}

// An endpoint that changes while a chunk is made is selected by the filter and the condition with which the chunk began.
func TestPromise2AChangeDuringAChunkIsForLaterEvents(t *testing.T) {
	t.Parallel()
	at := time.Unix(1e9, 0)
	for i, policies := range [][2]postrider.Policy{
		{{Filter: `{"data": {"a": [1]}}`}, {Filter: `{"data": {"a": [2]}}`}},
		{{Condition: `data.a == 1`}, {Condition: `data.a == 2`}},
		{{}, {Filter: `{"data": {"a": [2]}}`, Condition: `data.a == 2`}},
		{{Filter: `{"data": {"a": [2]}}`, Condition: `data.a == 2`}, {}},
	} {
		x, d, ids := changedTable(2, at, 0)
		with := func(policy postrider.Policy, changed time.Time) {
			e := postrider.Endpoint{ID: ids[1], EventTypes: []postrider.Pattern{"user.*"}, Status: postrider.EndpointEnabled, Policy: policy}
			x.apply(store.Changes{Version: x.Version() + 1, Endpoints: []store.EndpointSnapshot{{SubscribedAt: changed, Endpoint: e}}})
		}
		with(policies[0], time.Time{})
		d.meanwhile = func() { with(policies[1], at) }
		job := &store.FanOut{
			Event: postrider.Event{Type: "user.created", Data: []byte(`{"a": 1}`)}, UpTo: ids[1], AcceptedAt: at.Add(-time.Second),
		}
		matched, _, err := x.MatchNext(t.Context(), job, 10, time.Now().Add(time.Hour))
		_, selected := resultsOf(matched)[ids[1]]
		if want := i < 3; err != nil || selected != want {
			t.Errorf("from %+v to %+v: %d selected, %v, want the second one: %v", policies[0], policies[1], len(matched), err, want)
		}
	}
}

// A node may hear of a change and of the deletion after it at once, or one after the other.
func TestAChangedEndpointThatIsDeletedIsSelectedOnce(t *testing.T) {
	t.Parallel()
	at := time.Unix(1e9, 0)
	for _, heard := range [][]int{{}, {1}} {
		x, d, ids := changedTable(3, at, heard...)
		x.apply(store.Changes{Version: 2, Endpoints: []store.EndpointSnapshot{{SubscribedAt: at, Endpoint: postrider.Endpoint{
			ID: ids[1], EventTypes: []postrider.Pattern{"user.*"}, Status: postrider.EndpointDeleted, UpdatedAt: at.Add(time.Second),
		}}}})
		d.past[ids[1]] = postrider.Subscription{EventTypes: []postrider.Pattern{"order.*"}}
		job := &store.FanOut{Event: postrider.Event{Type: "order.created"}, UpTo: ids[2], AcceptedAt: at.Add(-time.Second)}
		matched, _, err := x.MatchNext(t.Context(), job, 10, time.Now().Add(time.Hour))
		if err != nil || len(matched) != 1 || matched[0].Endpoint.Status != postrider.EndpointDeleted {
			t.Errorf("changes that the table heard of %v: %d selected, %v, want the deleted one", heard, len(matched), err)
		}
	}
}

// BenchmarkMatchNext makes the chunks of 1,000 of a job for 10,000 endpoints: no subscription has changed
// since its event was accepted, one has, or all have.
func BenchmarkMatchNext(b *testing.B) {
	for _, changed := range []int{0, 1, 10_000} {
		b.Run(fmt.Sprintf("changed=%d", changed), func(b *testing.B) {
			at, which := time.Unix(1e9, 0), make([]int, changed)
			for i := range which {
				which[i] = i
			}
			x, _, ids := changedTable(10_000, at, which...)
			event := postrider.Event{Type: "user.created", Data: []byte(`{"a": 1}`)}
			b.ReportAllocs()
			for b.Loop() {
				job := &store.FanOut{Event: event, UpTo: ids[len(ids)-1], AcceptedAt: at.Add(-time.Second)}
				for job.Cursor != job.UpTo {
					_, through, err := x.MatchNext(b.Context(), job, 1000, time.Now().Add(time.Hour))
					if err != nil {
						b.Fatal(err)
					}
					job.Cursor = through
				}
			}
		})
	}
}
