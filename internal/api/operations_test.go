package api_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/api"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/memory"
)

func TestNodes(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, api.Options{Host: "hooks-1"})
	got := w.want(200, "GET /nodes", "").data()
	if len(got) != 1 || got[0]["host"] != "hooks-1" || got[0]["status"] != "alive" || got[0]["shards"] != 256.0 ||
		got[0]["started_at"] != nil {
		t.Errorf("the nodes of a store of one process are %v", got)
	}
	reader := w.key(postrider.APIKey{Scopes: []postrider.Scope{postrider.ScopeWebhooksWrite}})
	if got := w.do(reader, "GET /nodes", ""); got.status != 403 {
		t.Errorf("GET /nodes without the scope admin = %d", got.status)
	}
}

// TestTroubledEndpoints checks that the list has the endpoints that fail, that were disabled for
// their failures, or that have dead letters. The latest failure is first. Endpoints that a person
// disabled are not listed.
func TestTroubledEndpoints(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	names := []string{"fine", "disabled", "open", "long", "dead", "byhand", "moment"}
	tenants := map[string]tenant{}
	for _, name := range names {
		tenants[name] = w.tenant(name)
	}
	id := func(name string) postrider.EndpointID {
		parsed, err := postrider.ParseID[postrider.EndpointID](tenants[name].endpoint)
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	account := func(name string) postrider.AccountID {
		parsed, err := postrider.ParseID[postrider.AccountID](tenants[name].account)
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	now := time.Now().UTC()
	for name, since := range map[string]time.Duration{"open": 30 * time.Minute, "long": time.Hour, "moment": time.Minute} {
		c := postrider.Circuit{Endpoint: id(name), Status: postrider.CircuitClosed, FailingSince: now.Add(-since)}
		if name == "open" {
			c.Status, c.ProbeAt = postrider.CircuitOpen, now.Add(time.Minute)
		}
		if _, err := w.store.PutCircuit(t.Context(), store.PutCircuit{Circuit: c}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.store.PutHealth(t.Context(), postrider.EndpointHealth{
		Endpoint: id("disabled"), Account: account("disabled"), Number: 1, Status: postrider.HealthDisabled, Reason: postrider.ReasonFailing,
		Since: now,
	}); err != nil {
		t.Fatal(err)
	}
	w.want(200, "POST /endpoints/"+tenants["byhand"].endpoint+"/disable", "")
	w.settle(tenants["dead"].endpoint, postrider.Attempt{StatusCode: 410})
	w.want(200, "POST /endpoints/"+tenants["dead"].endpoint+"/enable", "")

	got := w.want(200, "GET /troubled-endpoints", "")
	var order []string
	for _, e := range got.data() {
		for _, name := range names {
			if e["endpoint"] == tenants[name].endpoint {
				order = append(order, name)
			}
		}
	}
	if want := []string{"disabled", "open", "long", "dead"}; !slices.Equal(order, want) {
		t.Errorf("the endpoints that need a person are %v, want %v", order, want)
	}
	for name, want := range map[string]float64{"open_circuits": 1, "failing": 3, "waiting": 0, "dead_letters_only": 1} {
		if got.body[name] != want {
			t.Errorf("%s = %v, want %v", name, got.body[name], want)
		}
	}
	own := w.key(postrider.APIKey{Scopes: []postrider.Scope{postrider.ScopeWebhooksRead}, Account: account("open")})
	if got := w.do(own, "GET /troubled-endpoints", "").data(); len(got) != 1 || got[0]["endpoint"] != tenants["open"].endpoint {
		t.Errorf("the key of an account sees %v", got)
	}
}

// TestDeletedEndpointsAreNoTroubledOnes checks that a deleted endpoint with dead letters is not
// listed, and does not take the place of another endpoint.
func TestDeletedEndpointsAreNoTroubledOnes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	oldest := w.tenant("live")
	w.settle(oldest.endpoint, postrider.Attempt{StatusCode: 410})
	w.want(200, "POST /endpoints/"+oldest.endpoint+"/enable", "")
	for n := range 12 {
		gone := w.tenant(fmt.Sprint("gone", n))
		w.settle(gone.endpoint, postrider.Attempt{StatusCode: 410})
		w.want(204, "DELETE /endpoints/"+gone.endpoint, "")
	}
	got := w.want(200, "GET /troubled-endpoints", "").data()
	if len(got) != 1 || got[0]["endpoint"] != oldest.endpoint {
		t.Errorf("the endpoints that need a person are %v, want the one that is not deleted", got)
	}
}

// TestTroubledEndpointsThatWait checks that an endpoint whose deliveries have been due for long is
// listed, although it does not fail. An endpoint that a person paused is not listed.
func TestTroubledEndpointsThatWait(t *testing.T) {
	t.Parallel()
	now := time.Now()
	w := newWorldOver(t, memory.New(memory.Options{Now: func() time.Time { return now }}), api.Options{})
	tenants := map[string]tenant{}
	for _, name := range []string{"behind", "paused"} {
		tenants[name] = w.tenant(name)
	}
	w.want(200, "POST /endpoints/"+tenants["paused"].endpoint+"/pause", "")
	now = now.Add(5 * time.Minute)
	w.tenant("lately")
	account, err := postrider.ParseID[postrider.AccountID](tenants["behind"].account)
	if err != nil {
		t.Fatal(err)
	}
	own := w.key(postrider.APIKey{Scopes: []postrider.Scope{postrider.ScopeWebhooksRead}, Account: account})
	for _, key := range []string{w.admin, own} {
		got := w.do(key, "GET /troubled-endpoints", "").data()
		if len(got) != 1 || got[0]["endpoint"] != tenants["behind"].endpoint {
			t.Fatalf("the endpoints that need a person are %v, want the one whose delivery waits", got)
		}
		if reasons := got[0]["reasons"].([]any); len(reasons) != 1 || reasons[0] != "waiting" || got[0]["oldest_due_ms"] != 300_000.0 {
			t.Errorf("reasons %v, oldest due for %v ms, want waiting for 300000", reasons, got[0]["oldest_due_ms"])
		}
	}
}

// backlogs counts the calls of Backlog.
type backlogs struct {
	store.Store

	calls atomic.Int32
}

func (b *backlogs) Backlog(ctx context.Context, q store.BacklogQuery) (store.Backlog, error) {
	b.calls.Add(1)
	return b.Store.Backlog(ctx, q)
}

// TestTroubledEndpointsReadFewBacklogs checks the number of backlogs that are read. It is at most
// one for the account and one for each row of the list, however many endpoints wait.
func TestTroubledEndpointsReadFewBacklogs(t *testing.T) {
	t.Parallel()
	now := time.Now()
	counted := &backlogs{Store: memory.New(memory.Options{Now: func() time.Time { return now }})}
	w := newWorldOver(t, counted, api.Options{})
	first := w.tenant("many")
	for range 14 {
		w.want(201, "POST /endpoints", `{"account": "`+first.account+`", "url": "https://many.example/hooks", "event_types": ["*"]}`)
	}
	w.want(202, "POST /events", `{"account": "`+first.account+`", "type": "a.b", "data": {}}`)
	now = now.Add(5 * time.Minute)
	account, err := postrider.ParseID[postrider.AccountID](first.account)
	if err != nil {
		t.Fatal(err)
	}
	own := w.key(postrider.APIKey{Scopes: []postrider.Scope{postrider.ScopeWebhooksRead}, Account: account})
	if got := w.do(own, "GET /troubled-endpoints", "").data(); len(got) != 10 {
		t.Errorf("%d endpoints need a person, want the 10 that the list has", len(got))
	}
	if n := counted.calls.Load(); n != 11 {
		t.Errorf("%d backlogs were read, want 11", n)
	}
}
