package routing

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// tableOf has an endpoint of the zero account for each condition, all subscribed to *.
func tableOf(opts Options, conditions ...string) (*Table, []postrider.EndpointID) {
	x, ids := New(nil, opts), store.NewIDs(time.Now, &[32]byte{})
	var page []store.EndpointSnapshot
	var made []postrider.EndpointID
	for _, text := range conditions {
		e := postrider.Endpoint{ID: store.NewID[postrider.EndpointID](ids), EventTypes: []postrider.Pattern{"*"}, Revision: 1}
		e.Policy.Condition = text
		page, made = append(page, store.EndpointSnapshot{Endpoint: e}), append(made, e.ID)
	}
	x.apply(store.Changes{Version: 1, Endpoints: page})
	return x, made
}

// resultsOf says of each matched endpoint whether its condition failed.
func resultsOf(matched []*store.EndpointSnapshot) map[postrider.EndpointID]bool {
	results := map[postrider.EndpointID]bool{}
	for _, to := range matched {
		results[to.Endpoint.ID] = to.FilterFailed
	}
	return results
}

func TestAConditionDecidesForPublishesAndJobs(t *testing.T) {
	t.Parallel()
	x, ids := tableOf(Options{}, "", `data.a == 1`, `data.a == 2`, `data.b == 1`, `data.a == 1 || data.b == 1`)
	x.apply(store.Changes{Version: 2, Endpoints: []store.EndpointSnapshot{{Endpoint: postrider.Endpoint{
		ID: postrider.EndpointID{1}, EventTypes: []postrider.Pattern{"*"},
		Policy: postrider.Policy{Condition: `data.a == 1`, Filter: `{"data": {"a": [3]}}`},
	}}}})
	e := &postrider.Event{ID: postrider.EventID{1}, Type: "a", Data: []byte(`{"a": 1}`)}
	want := fmt.Sprint(map[postrider.EndpointID]bool{ids[0]: false, ids[1]: false, ids[3]: true, ids[4]: false})
	matched, last := x.Match(e, 256)
	if got := fmt.Sprint(resultsOf(matched)); got != want {
		t.Errorf("Match = %s, want %s", got, want)
	}
	job := &store.FanOut{Event: *e, UpTo: last}
	matched, through, err := x.MatchNext(t.Context(), job, 256, time.Now().Add(time.Minute))
	if got := fmt.Sprint(resultsOf(matched)); got != want || through != last || err != nil {
		t.Errorf("MatchNext = %s through %s, %v, want %s", got, through, err, want)
	}
	if to, ok := x.Lookup(ids[3]); !ok || to.FilterFailed {
		t.Errorf("the endpoint in the table is %+v", to)
	}
}

// A condition that fails leads to a delivery that wants order, as one that holds does.
func TestWantsOrderAsksConditions(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{`data.a == 1`: true, `data.a == 2`: false, `data.b == 2`: true} {
		x := New(nil, Options{})
		x.apply(store.Changes{Version: 1, Endpoints: []store.EndpointSnapshot{{Endpoint: postrider.Endpoint{
			EventTypes: []postrider.Pattern{"*"}, Policy: postrider.Policy{Condition: text, Order: postrider.OrderByKey},
		}}}})
		if got := x.WantsOrder(&postrider.Event{Type: "a", Data: []byte(`{"a": 1}`)}); got != want {
			t.Errorf("%s: WantsOrder = %t", text, got)
		}
	}
}

// More conditions than a publish may evaluate, or slower ones, are for a fan-out job.
func TestManyOrSlowConditionsAreForAJob(t *testing.T) {
	t.Parallel()
	e := &postrider.Event{ID: postrider.EventID{1}, Type: "a", Data: []byte(`{"a": [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20]}`)}
	for _, row := range []struct {
		text  string
		count int
		job   bool
	}{
		{`data.a == 1`, 900, false},
		{`data.a == 1`, mostConditions + 1, true},
		{`!data.a.all(x, data.a.exists(y, y == x))`, 300, true},
	} {
		conditions := make([]string, row.count)
		for i := range conditions {
			conditions[i] = row.text
		}
		x, _ := tableOf(Options{}, conditions...)
		matched, last := x.Match(e, 256)
		if job := matched == nil; job != row.job || len(matched) > 0 {
			t.Errorf("%d × %s: %d matched, a job: %t", row.count, row.text, len(matched), job)
		}
		job := &store.FanOut{Event: *e, UpTo: last}
		matched, through, err := x.MatchNext(t.Context(), job, 1000, time.Now().Add(time.Minute))
		if len(matched) > 0 || through != last || err != nil {
			t.Errorf("%d × %s: the job matched %d, %v", row.count, row.text, len(matched), err)
		}
	}
}

// After 20 events in a row for which a condition fails, its endpoint is set aside. An event that is
// matched again counts once.
func TestAConditionThatKeepsFailingSetsItsEndpointAside(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var aside []postrider.EndpointID
		x, ids := tableOf(Options{SetAside: func(_ context.Context, e postrider.Endpoint) error {
			aside = append(aside, e.ID)
			return nil
		}}, `data.a == 1`, `data.b == 1`)
		x.directory = unchanged{}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var running sync.WaitGroup
		running.Go(func() { _ = x.Run(ctx) })
		n := byte(0)
		match := func(data string, times int) {
			for range times {
				n++
				e := &postrider.Event{ID: postrider.EventID{n}, Type: "a", Data: []byte(data)}
				x.Match(e, 256)
				x.Match(e, 256)
			}
			synctest.Wait()
		}
		match(`{"a": 1}`, failuresInARow-1)
		match(`{"a": 1, "b": 2}`, 1)
		match(`{"a": 1}`, failuresInARow-1)
		for range failuresInARow { // of the past, for which a backfill asks
			n++
			if !x.Wants(ids[1], &postrider.Event{ID: postrider.EventID{n}, Type: "a", Data: []byte(`{"a": 1}`)}) {
				t.Error("an event for which the condition fails is not wanted")
			}
		}
		synctest.Wait()
		if len(aside) != 0 {
			t.Errorf("set aside too early: %v", aside)
		}
		match(`{"a": 1}`, 1)
		if len(aside) != 1 || aside[0] != ids[1] {
			t.Errorf("set aside: %v, want %s", aside, ids[1])
		}
		cancel()
		running.Wait()
	})
}

// unchanged is a directory without changes.
type unchanged struct{ store.Directory }

func (unchanged) Changes(context.Context, int64, int) (store.Changes, error) {
	return store.Changes{Version: 1}, nil
}

// While an endpoint is set aside, its condition leaves out no event.
func TestAnEndpointThatIsSetAsideGetsAll(t *testing.T) {
	t.Parallel()
	x := New(nil, Options{})
	x.apply(store.Changes{Version: 1, Endpoints: []store.EndpointSnapshot{{Endpoint: postrider.Endpoint{
		EventTypes: []postrider.Pattern{"*"}, Policy: postrider.Policy{Condition: `data.b == 1`}, ConditionFailed: true, PolicyError: "it failed",
	}}}})
	if matched, _ := x.Match(&postrider.Event{Type: "a", Data: []byte(`{}`)}, 256); len(matched) != 1 || matched[0].FilterFailed {
		t.Errorf("matched %+v", matched)
	}
}
