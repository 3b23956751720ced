package ingest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/ingest"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/testkit"
)

// filtered creates endpoints with a filter.
func (r *harness) filtered(n int, filter string, change func(*postrider.Endpoint)) (created []postrider.Endpoint) {
	r.Helper()
	for range n {
		e := postrider.Endpoint{
			ID: store.NewID[postrider.EndpointID](r.ids), Account: r.account, URL: "https://a.example",
			EventTypes: []postrider.Pattern{"order.*"}, Status: postrider.EndpointEnabled, Policy: postrider.DefaultPolicy(),
		}
		e.Policy.Filter = filter
		change(&e)
		created = append(created, r.put(e))
	}
	return created
}

func (r *harness) put(e postrider.Endpoint) postrider.Endpoint {
	r.Helper()
	e, err := r.store.PutEndpoint(r.Context(), store.PutEndpoint{Endpoint: e})
	if err != nil {
		r.Fatal(err)
	}
	return e
}

func asIs(*postrider.Endpoint) {}

func TestFiltersDecideWhatIsDelivered(t *testing.T) {
	t.Parallel()
	r := newHarness(t, ingest.Options{FanOutAbove: 10})
	defer r.run()()
	ones := r.filtered(20, `{"data": {"a": [1]}}`, asIs)
	r.filtered(5, `{"data": {"a": [2]}}`, asIs)
	for data, want := range map[string]postrider.Receipt{`{"a": 1}`: {FanOut: true}, `{"a": 2}`: {Deliveries: 5}, `{"a": 3}`: {}} {
		if got := r.publish(r.event("", data))[0]; got.FanOut != want.FanOut || got.Deliveries != want.Deliveries {
			t.Errorf("%s: %+v, want %+v", data, got, want)
		}
	}
	for i, e := range ones[:12] { // nobody notifies the table, but the commit notices
		e.Policy.Filter = `{"data": {"a": [3]}}`
		r.put(e)
		if got := r.publish(r.event("", `{"a": 3}`))[0]; i < 10 && got.Deliveries != i+1 || got.FanOut != (i >= 10) {
			t.Errorf("after %d changes: %+v", i+1, got)
		}
	}
}

// The chunks of a job have the filters that were in force when its event was accepted.
func TestAFanOutAsksFilters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, ingest.Options{FanOutAbove: 10, FanOutChunk: 7})
		ones := r.filtered(20, `{"data": {"a": [1]}}`, asIs)
		twos := r.filtered(20, `{"data": {"a": [2]}}`, asIs)
		r.endpoints(3, postrider.EndpointEnabled)
		broken := &interruptedInbox{Inbox: r.store} // fails before its first chunk
		r.inbox = broken
		stop := r.run()
		event := r.publish(r.event("", `{"a": 1}`))[0].ID
		time.Sleep(time.Second)
		ones[3].Policy.Filter, twos[5].Policy.Filter = twos[5].Policy.Filter, ones[3].Policy.Filter
		ones[8].Status, twos[8].Status = postrider.EndpointDeleted, postrider.EndpointDeleted
		for _, e := range []postrider.Endpoint{ones[3], twos[5], ones[8], twos[8]} {
			r.put(e)
		}
		broken.left.Store(1000)
		time.Sleep(time.Minute)
		if found := r.deliveries(event); len(found) != 2 || found[postrider.Pending] != 22 || found[postrider.Skipped] != 1 {
			t.Errorf("stored %v, want 22 pending and the deleted one that wanted it skipped", found)
		}
		if found := reached(deliveriesOf(t, r.store, event)); found[ones[3].ID] != postrider.Pending || found[twos[5].ID] != "" {
			t.Errorf("the endpoint that no longer wants it: %q, the one that does now: %q", found[ones[3].ID], found[twos[5].ID])
		}
		stop()
	})
}

// An endpoint that wants order, but not the event, does not keep the event from a job.
func TestAFilterDecidesAboutOrder(t *testing.T) {
	t.Parallel()
	r := newHarness(t, ingest.Options{FanOutAbove: 10})
	defer r.run()()
	r.endpoints(20, postrider.EndpointEnabled)
	r.filtered(1, `{"data": {"a": [1]}}`, func(e *postrider.Endpoint) { e.Policy.Order = postrider.OrderByKey })
	for data, job := range map[string]bool{`{"a": 1}`: false, `{"a": 2}`: true} {
		e := r.keyed("k")
		e.Data = []byte(data)
		if got := r.publish(e)[0]; got.FanOut != job {
			t.Errorf("%s: %+v, want a job: %t", data, got, job)
		}
	}
}

// The filters of an account may take a share of the processor's time. Then its publishes are refused,
// and those of others are not.
func TestFiltersThatTakeTooMuchTimeRefusePublishes(t *testing.T) {
	t.Parallel()
	r := newHarness(t, ingest.Options{})
	defer r.run()()
	r.slowFilters(1)
	hostile := r.slow()
	for range 10_000 {
		_, err := r.in.Publish(t.Context(), []postrider.Event{hostile})
		if used, ok := errors.AsType[*postrider.QuotaError](err); ok {
			if used.Account != r.account || used.Quota != postrider.QuotaFilters || used.RetryAfter <= 0 {
				t.Errorf("refused with %+v", used)
			}
			other := r.event("", `{}`)
			other.Account = store.NewID[postrider.AccountID](r.ids)
			if _, err := r.in.Publish(t.Context(), []postrider.Event{other}); err != nil {
				t.Errorf("another account: %v", err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Error("10,000 events with a filter of some 5 ms each were accepted")
}

// slowFilters are endpoints each of which takes milliseconds to compare with a slow event.
func (r *harness) slowFilters(n int) {
	r.Helper()
	r.filtered(n, `{"data": {"a": [`+strings.Repeat(`{"wildcard": "a*b*c"}, `, 250)+`{"suffix": "z"}]}}`, asIs)
}

func (r *harness) slow() postrider.Event {
	return r.event("", `{"a": [`+strings.Repeat(`"aab", `, 20_000)+`"z"]}`)
}

// A job with slow filters is interrupted for the jobs of other accounts. While it is late, its account may
// publish nothing.
func TestSlowFanOutsTakeTurns(t *testing.T) {
	t.Parallel()
	r := newHarness(t, ingest.Options{FanOutAbove: 10})
	slow, other := r.account, store.NewID[postrider.AccountID](r.ids)
	r.slowFilters(100)
	r.account = other
	r.endpoints(20, postrider.EndpointEnabled)
	r.account = slow
	late := r.slow()
	late.ID = store.NewEventID(store.NewIDs(func() time.Time { return time.Now().Add(-time.Minute) }, nil))
	late.CreatedAt = late.ID.Time()
	defer r.run()()
	first := r.publish(late)[0]
	r.account = other
	second := r.publish(r.event("", `{}`))[0]
	if !first.FanOut || !second.FanOut {
		t.Fatalf("published %+v and %+v, want jobs", first, second)
	}
	testkit.Eventually(t, "the other job ends", func() bool { return r.deliveries(second.ID)[postrider.Pending] == 20 })
	if n := r.deliveries(first.ID)[postrider.Pending]; n == 100 {
		t.Error("the job with slow filters has ended before the one of another account")
	}
	_, err := r.in.Publish(t.Context(), []postrider.Event{{Account: slow, Type: "order.created", Data: []byte(`{}`)}})
	if used, ok := errors.AsType[*postrider.QuotaError](err); !ok || used.Account != slow || used.Quota != postrider.QuotaFilters {
		t.Errorf("a publish for the account with the late job: %v", err)
	}
}

// Filters are compared before the turn of a publish, so that no other account waits for them. Here no
// publish gets a turn.
func TestFiltersAreComparedBeforeTheCommit(t *testing.T) {
	t.Parallel()
	r := newHarness(t, ingest.Options{})
	r.slowFilters(1)
	if err := r.table.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	hostile := r.slow()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 10_000 {
		if _, err := r.in.Publish(ended, []postrider.Event{hostile}); !errors.Is(err, context.Canceled) {
			if _, used := errors.AsType[*postrider.QuotaError](err); !used {
				t.Errorf("refused with %v", err)
			}
			return
		}
	}
	t.Error("the filters took no time before the commit")
}

// An endpoint whose filter cannot be read gets every event of its types, and is set aside.
func TestAFilterThatCannotBeReadLeavesNothingOut(t *testing.T) {
	t.Parallel()
	r := newHarness(t, ingest.Options{})
	defer r.run()()
	e := r.filtered(1, `{"data": {"a": [1]}}`, asIs)[0]
	if got := r.publish(r.event("", `{"a": 2}`))[0]; got.Deliveries != 0 {
		t.Errorf("before: %+v", got)
	}
	e.Policy.Filter = `{"data": {"a": [{"like": 1}]}}`
	document, err := store.EncodePolicy(e.Policy)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.store.SetPolicyDocument(t.Context(), e.ID, string(document)); err != nil {
		t.Fatal(err)
	}
	r.put(r.found(e.ID)) // a change of something else leaves the document
	if got := r.publish(r.event("", `{"a": 2}`))[0]; got.Deliveries != 1 {
		t.Errorf("with a filter that cannot be read: %+v, want a delivery", got)
	}
	if to, _ := r.table.Lookup(e.ID); to.Endpoint.PolicyError == "" {
		t.Errorf("the endpoint is not set aside: %+v", to.Endpoint)
	}
}

func (r *harness) found(id postrider.EndpointID) postrider.Endpoint {
	r.Helper()
	page, err := r.store.Endpoints(r.Context(), store.EndpointQuery{ID: id})
	if err != nil || len(page.Items) != 1 {
		r.Fatal(page.Items, err)
	}
	return page.Items[0]
}
