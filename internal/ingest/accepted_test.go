package ingest_test

import (
	"context"
	"maps"
	"sync"
	"testing"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/ingest"
	"github.com/postrider/postrider/internal/routing"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/memory"
	"github.com/postrider/postrider/internal/store/postgres"
	"github.com/postrider/postrider/internal/store/sqlite"
	"github.com/postrider/postrider/internal/testkit"
)

// reached returns the status of the delivery to each endpoint.
func reached(deliveries []postrider.Delivery) map[postrider.EndpointID]postrider.Status {
	found := map[postrider.EndpointID]postrider.Status{}
	for i := range deliveries {
		found[deliveries[i].Endpoint] = deliveries[i].Status
	}
	return found
}

// changingInbox calls change when the first chunk of a job is about to be stored, and closes done after the last one.
type changingInbox struct {
	store.Inbox
	change func()
	once   sync.Once
	done   chan struct{}
}

func (i *changingInbox) FanOut(ctx context.Context, c store.FanOutChunk) error {
	i.once.Do(i.change)
	err := i.Inbox.FanOut(ctx, c)
	if err == nil && c.Done {
		close(i.done)
	}
	return err
}

// crowd is an account of 600 endpoints of six kinds. change gives some of each kind another subscription or status.
type crowd struct {
	*testing.T
	store.Store
	ids       *store.IDs
	account   postrider.AccountID
	endpoints []postrider.Endpoint
	want      map[postrider.EndpointID]postrider.Status // of an event {"a": 1} that was published before the changes
}

const ones, twos = `{"data": {"a": [1]}}`, `{"data": {"a": [2]}}`

func newCrowd(t *testing.T, s store.Store) *crowd {
	t.Helper()
	c := &crowd{T: t, Store: s, ids: store.NewIDs(s.Clock().Wall, nil), want: map[postrider.EndpointID]postrider.Status{}}
	c.account = store.NewID[postrider.AccountID](c.ids)
	if err := s.PutAccount(t.Context(), postrider.Account{ID: c.account, Name: "Acme"}); err != nil {
		t.Fatal(err)
	}
	for i := range 600 {
		c.endpoints = append(c.endpoints, c.put(c.kind(i)))
		if i%6 < 4 {
			c.want[c.endpoints[i].ID] = postrider.Pending
		}
	}
	return c
}

// kind returns an endpoint of one of six kinds. The first four want the event.
func (c *crowd) kind(i int) postrider.Endpoint {
	e := postrider.Endpoint{
		ID: store.NewID[postrider.EndpointID](c.ids), Account: c.account, URL: "https://a.example",
		EventTypes: []postrider.Pattern{"order.*"}, Status: postrider.EndpointEnabled, Policy: postrider.DefaultPolicy(),
	}
	switch i % 6 {
	case 0, 1:
		e.Policy.Filter = ones
	case 2:
		e.Policy.Condition = `data.a == 1`
	case 4:
		e.Policy.Filter = twos
	case 5:
		e.EventTypes = []postrider.Pattern{"user.*"}
	}
	return e
}

func (c *crowd) put(e postrider.Endpoint) postrider.Endpoint {
	c.Helper()
	e, err := c.PutEndpoint(c.Context(), store.PutEndpoint{Endpoint: e})
	if err != nil {
		c.Error(err)
	}
	return e
}

// change changes half of the endpoints behind those of the first chunk, so that each kind would have the
// opposite result, and creates one.
func (c *crowd) change() {
	for i, e := range c.endpoints[300:] {
		switch i % 12 {
		case 0:
			e.Policy.Filter, e.Status = twos, postrider.EndpointPaused
		case 1:
			e.EventTypes = []postrider.Pattern{"user.*"}
			e = c.put(e)
			e.Status, c.want[e.ID] = postrider.EndpointDeleted, postrider.Skipped
		case 2:
			e.Policy.Condition = `data.a == 2`
		case 3:
			e.EventTypes, e.Status, c.want[e.ID] = []postrider.Pattern{"user.*"}, postrider.EndpointDisabled, postrider.Skipped
		case 4:
			e.Policy.Filter = ""
		case 5:
			e.EventTypes = []postrider.Pattern{"*"}
		default:
			continue
		}
		c.put(e)
	}
	c.put(c.kind(0))
}

// TestPromise2AFanOutHasTheSubscriptionsOfItsAcceptance changes the subscriptions of many endpoints while a
// job makes its deliveries.
func TestPromise2AFanOutHasTheSubscriptionsOfItsAcceptance(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T) (store.Store, error){
		"memory": func(*testing.T) (store.Store, error) { return memory.New(memory.Options{}), nil },
		"sqlite": func(t *testing.T) (store.Store, error) {
			return sqlite.Open(t.Context(), t.TempDir(), sqlite.Options{})
		},
		"postgres": func(t *testing.T) (store.Store, error) {
			return postgres.Open(t.Context(), testkit.Postgres(t, postgres.Migrate), postgres.Options{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := open(t)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			c, table := newCrowd(t, s), routing.New(s, routing.Options{})
			inbox := &changingInbox{Inbox: s, done: make(chan struct{}), change: func() {
				c.change()
				if err := table.Refresh(t.Context()); err != nil {
					t.Error(err)
				}
			}}
			r := &harness{T: t, inbox: inbox, table: table, ids: c.ids, account: c.account}
			r.in = ingest.New(inbox, table, r, ingest.Options{FanOutChunk: 100, IDs: c.ids})
			defer r.run()()
			got := r.publish(r.event("", `{"a": 1}`))[0]
			if !got.FanOut {
				t.Fatalf("published %+v, want a job", got)
			}
			<-inbox.done
			found := deliveriesOf(t, s, got.ID)
			if by := reached(found); len(found) != len(by) || !maps.Equal(by, c.want) {
				t.Errorf("%d deliveries to %d endpoints, want one for each of %d, with its status", len(found), len(by), len(c.want))
			}
			c.explained(got.ID)
		})
	}
}

// explained requires that the subscription that the store has for the time of the event is the one that
// selected it.
func (c *crowd) explained(event postrider.EventID) {
	c.Helper()
	for i := range c.endpoints {
		e := &c.endpoints[i]
		then, err := c.Subscription(c.Context(), store.SubscriptionQuery{Endpoint: e.ID, At: store.EventTime(event)})
		if err != nil || store.EncodeSubscription(then.Subscription) != store.EncodeSubscription(e.Subscription()) {
			c.Errorf("endpoint %d had %+v, %v, want %+v", i, then, err, e.Subscription())
		}
	}
}
