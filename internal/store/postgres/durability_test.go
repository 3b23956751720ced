package postgres_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/postgres"
	"github.com/postrider/postrider/internal/testkit"
)

func TestPromise9AServerThatIsNotDurableIsRefused(t *testing.T) {
	t.Parallel()
	for _, setting := range []string{"fsync", "full_page_writes", "synchronous_commit"} {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			cluster, err := testkit.StartPostgres("", setting+"=off")
			if err != nil {
				t.Fatal(err)
			}
			defer cluster.Stop()
			_, err = postgres.Open(t.Context(), cluster.DSN("postgres"), postgres.Options{})
			if err == nil || !strings.Contains(err.Error(), setting+" = off") {
				t.Errorf("Open = %v, want a refusal that names %s", err, setting)
			}
		})
	}
}

// shop is an account with an endpoint, and a store whose connections go through a proxy.
type shop struct {
	*postgres.Store
	proxy    *testkit.FaultProxy
	ids      *store.IDs
	endpoint postrider.Endpoint
}

func newShop(t testing.TB, dsn string) *shop {
	t.Helper()
	s := &shop{ids: store.NewIDs(time.Now, nil)}
	s.Store = openAt(t, dsn)
	account := postrider.Account{ID: store.NewID[postrider.AccountID](s.ids), Name: "Acme Inc."}
	if err := s.PutAccount(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	e, err := s.PutEndpoint(t.Context(), store.PutEndpoint{Endpoint: postrider.Endpoint{
		ID: store.NewID[postrider.EndpointID](s.ids), Account: account.ID, URL: "https://acme.example",
		EventTypes: []postrider.Pattern{"*"}, Status: postrider.EndpointEnabled, Policy: postrider.DefaultPolicy(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	s.endpoint = e
	return s
}

// newProxiedShop opens a store that reaches its database through a fault proxy.
func newProxiedShop(t testing.TB) *shop {
	t.Helper()
	direct := freshDSN(t)
	proxy := testkit.NewFaultProxy(t, "unix", testkit.SharedCluster(t).Socket())
	dsn, _, _ := strings.Cut(direct, "?")
	s := newShop(t, dsn+"?host="+proxy.Dir)
	s.proxy = proxy
	return s
}

// batch returns n events with one delivery each. The delivery is stored leased under the token,
// or waits if the token is zero.
func (s *shop) batch(n int, token postrider.Token) store.Batch {
	var batch store.Batch
	for range n {
		id := store.NewID[postrider.EventID](s.ids)
		batch = append(batch, store.NewEvent{
			Event: postrider.Event{
				ID: id, Account: s.endpoint.Account, Type: "order.created",
				Data: fmt.Appendf(bytes.Repeat([]byte(" "), 1000), "%q", id),
			},
			Deliveries: []store.NewDelivery{{
				ID: store.NewID[postrider.DeliveryID](s.ids), Endpoint: s.endpoint.ID, Lane: postrider.LaneFirst,
				Expiry: time.Hour, Token: token, Lease: time.Minute,
			}},
		})
	}
	return batch
}

// settlements returns a settlement as delivered for every delivery of a batch that was stored
// leased under the token.
func (s *shop) settlements(batch store.Batch, token postrider.Token) []store.Settlement {
	var all []store.Settlement
	for i := range batch {
		e := &batch[i]
		all = append(all, store.Settlement{
			Claimed: postrider.Claimed{ID: e.Deliveries[0].ID, Endpoint: s.endpoint.ID, Event: &e.Event, Attempt: 1, Token: token},
			Attempt: postrider.Attempt{
				Delivery: e.Deliveries[0].ID, Event: e.Event.ID, Number: 1, StatusCode: 200,
				Outcome: postrider.OutcomeAccepted, StartedAt: time.Now(), Duration: time.Millisecond, ResponseBody: []byte("ok"),
				ResponseHead: []byte("HTTP/1.1 200 OK\r\nServer: nginx\r\nContent-Type: application/json\r\n\r\n"),
			},
			Transition: postrider.Transition{To: postrider.Delivered},
		})
	}
	return all
}

// syncMessage is the message of the protocol after which the server commits.
var syncMessage = []byte{'S', 0, 0, 0, 4}

func TestPublishWhoseReplyIsLostIsStoredOnce(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*postrider.Event){
		"without keys":            func(*postrider.Event) {},
		"with an idempotency key": func(e *postrider.Event) { e.IdempotencyKey = "order-42" },
		"with an ordering key":    func(e *postrider.Event) { e.OrderingKey = "order-42" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newProxiedShop(t)
			batch := s.batch(1, 0)
			change(&batch[0].Event)
			mark := batch[0].Event.Data
			s.proxy.CutOnce(func(sent []byte) bool { return bytes.Contains(sent, mark) && bytes.HasSuffix(sent, syncMessage) })

			p := store.Publish{Version: 1, Batches: []store.Batch{batch}}
			first, err := s.Publish(t.Context(), p)
			if err != nil || s.proxy.Cuts() != 1 {
				t.Fatalf("Publish = %v after %d cuts, want nil after 1", err, s.proxy.Cuts())
			}
			again, err := s.Publish(t.Context(), p)
			if diff := cmp.Diff(first, again); diff != "" || err != nil {
				t.Errorf("Publish answered (-first +again) %v:\n%s", err, diff)
			}
			if first[0].Events[0].ID != batch[0].Event.ID || first[0].Events[0].Duplicate {
				t.Errorf("Publish = %+v, want the event's own id and no duplicate", first)
			}
			page, err := s.Deliveries(t.Context(), store.DeliveryQuery{Account: s.endpoint.Account})
			if len(page.Items) != 1 {
				t.Errorf("%d deliveries are stored (%v), want 1", len(page.Items), err)
			}
		})
	}
}

func TestSettleWhoseReplyIsLostIsNotStale(t *testing.T) {
	t.Parallel()
	s := newProxiedShop(t)
	const token = 1<<32 | 1
	batch := s.batch(3, token)
	if _, err := s.Publish(t.Context(), store.Publish{Version: 1, Batches: []store.Batch{batch}}); err != nil {
		t.Fatal(err)
	}
	id := batch[2].Deliveries[0].ID
	s.proxy.CutOnce(func(sent []byte) bool {
		return bytes.Contains(sent, []byte("accepted")) && bytes.Contains(sent, id[:]) && bytes.HasSuffix(sent, syncMessage)
	})
	settled, err := s.Settle(t.Context(), s.settlements(batch, token))
	if err != nil || s.proxy.Cuts() != 1 {
		t.Fatalf("Settle = %v after %d cuts, want nil after 1", err, s.proxy.Cuts())
	}
	if diff := cmp.Diff(make([]store.Settled, 3), settled); diff != "" {
		t.Errorf("Settle (-want +got):\n%s", diff)
	}
}

func TestClaimWhoseReplyIsLostKeepsNothingLeased(t *testing.T) {
	t.Parallel()
	s := newProxiedShop(t)
	if _, err := s.Publish(t.Context(), store.Publish{Version: 1, Batches: []store.Batch{s.batch(3, 0)}}); err != nil {
		t.Fatal(err)
	}
	want := store.Want{Endpoint: s.endpoint.ID, Lane: postrider.LaneFirst, N: 10, Lease: time.Minute}
	claim := store.Claim{Wants: []store.Want{want}, Token: 0x1122334455667788}
	mark := []byte{0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88}
	s.proxy.CutOnce(func(sent []byte) bool { return bytes.Contains(sent, mark) && bytes.HasSuffix(sent, syncMessage) })
	claims, err := s.Claim(t.Context(), claim)
	if err != nil || s.proxy.Cuts() != 1 || len(claims.Items) != 3 {
		t.Fatalf("Claim = %d items, %v after %d cuts; want 3, nil after 1", len(claims.Items), err, s.proxy.Cuts())
	}
	for _, c := range claims.Items {
		if c.Attempt != 1 || c.Losses != 0 {
			t.Errorf("claimed attempt %d after %d losses, want attempt 1 after none", c.Attempt, c.Losses)
		}
	}
}

func TestAServerThatIsGoneIsBusy(t *testing.T) {
	t.Parallel()
	cluster, err := testkit.StartPostgres("")
	if err != nil {
		t.Fatal(err)
	}
	s := newShop(t, cluster.DSN("postgres"))
	if err := cluster.Stop(); err != nil {
		t.Fatal(err)
	}
	batch := s.batch(1, 0)
	if _, err := s.Publish(t.Context(), store.Publish{Version: 1, Batches: []store.Batch{batch}}); !errors.Is(err, postrider.ErrBusy) {
		t.Errorf("Publish = %v, want ErrBusy", err)
	}
	if _, err := s.Deliveries(t.Context(), store.DeliveryQuery{}); !errors.Is(err, postrider.ErrBusy) {
		t.Errorf("Deliveries = %v, want ErrBusy", err)
	}
}

func TestHoldEndsWithItsConnection(t *testing.T) {
	t.Parallel()
	dsn := freshDSN(t)
	s, conn := openAt(t, dsn), connect(t, dsn)
	heard, ended := make(chan string, 8), make(chan error, 1)
	var listening sync.WaitGroup
	defer listening.Wait()
	listening.Go(func() { ended <- s.Hold(t.Context(), 1, func(message string) { heard <- message }) })
	if first := <-heard; first != "" {
		t.Errorf("heard %q first, want the empty message", first)
	}
	if err := s.Wake(t.Context(), "shard 7"); err != nil {
		t.Error(err)
	}
	if message := <-heard; message != "shard 7" {
		t.Errorf("heard %q, want the message that was sent", message)
	}
	_, err := conn.Exec(t.Context(), `select pg_terminate_backend(pid) from pg_stat_activity
		where application_name = 'postrider-node' and datname = current_database()`)
	if err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, postrider.ErrBusy) {
		t.Errorf("Hold = %v, want ErrBusy", err)
	}
}
