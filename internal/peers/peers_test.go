package peers_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"log/slog"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/peers"
	"github.com/postrider/postrider/internal/schedule"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// budget is the budget of every session.
const budget = 8

// node is a node that runs until the test ends or stop is called.
type node struct {
	*peers.Peers
	incarnation uint32
	stop        func()

	mu      sync.Mutex
	token   postrider.Token // of the last session
	refuses bool            // all deliveries are refused
	took    []schedule.Handed
	closed  []postrider.Token // sessions that have ended
	silent  bool              // there are no sessions
}

func newNode(t *testing.T, incarnation uint32) *node {
	t.Helper()
	p, err := peers.New(t.Context(), ":0", netip.MustParseAddr("127.0.0.1"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	n := &node{Peers: p, incarnation: incarnation}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := p.Run(ctx, n); err != nil {
			t.Error(err)
		}
	})
	n.stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(n.stop)
	return n
}

// change changes fields of the node, or reads them.
func (n *node) change(do func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	do()
}

func (n *node) OpenSession(int) schedule.Session {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.silent {
		return schedule.Session{}
	}
	n.token++
	return schedule.Session{Token: n.token, Budget: budget}
}

func (n *node) Take(deliveries []schedule.Handed) (refused []postrider.EndpointID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.took = append(n.took, deliveries...)
	for _, d := range deliveries {
		if n.refuses {
			refused = append(refused, d.Endpoint)
		}
	}
	return refused
}

func (n *node) CloseSession(_ context.Context, token postrider.Token) {
	n.change(func() { n.closed = append(n.closed, token) })
}

func (n *node) taken() (took int) {
	n.change(func() { took = len(n.took) })
	return took
}

// peer returns the node as the owner of the shards.
func (n *node) peer(shards ...uint8) store.Peer {
	return store.Peer{Incarnation: n.incarnation, Address: n.Address(), PublicKey: n.PublicKey(), Shards: shards}
}

// two returns nodes that know each other: b owns the shard of the endpoint.
func two(t *testing.T) (a, b *node, endpoint postrider.EndpointID) {
	t.Helper()
	a, b = newNode(t, 1), newNode(t, 2)
	endpoint[15] = 7
	b.Set([]store.Peer{a.peer()})
	a.Set([]store.Peer{b.peer(7)})
	a.Hand(a.reserved(t, endpoint), 1, nil)
	return a, b, endpoint
}

// reserved waits until a delivery of the endpoint can be leased, and returns its token.
func (n *node) reserved(t *testing.T, endpoint postrider.EndpointID) (token postrider.Token) {
	t.Helper()
	testkit.Eventually(t, "a delivery can be handed", func() bool {
		token = n.Reserve(endpoint)
		return token != 0
	})
	return token
}

// fill sets the fields of a struct, so that one that is not sent is noticed.
func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Interface().(type) {
		case []byte:
			f.SetBytes([]byte("{\"a\":1 }\n"))
		case json.RawMessage:
			f.SetBytes([]byte("{\"b\": 2}"))
		case []string:
			f.Set(reflect.ValueOf([]string{"first of " + v.Type().Field(i).Name, "second"}))
		case []postrider.EndpointID:
			f.Set(reflect.ValueOf([]postrider.EndpointID{{1}, {15: 2}}))
		case map[string]string:
			f.Set(reflect.ValueOf(map[string]string{"key of " + v.Type().Field(i).Name: "value"}))
		case time.Time:
			f.Set(reflect.ValueOf(time.Date(2026, 5, 4, 3, 2, 1, 12345, time.UTC)))
		default:
			switch f.Kind() {
			case reflect.String:
				f.SetString("text of " + v.Type().Field(i).Name)
			case reflect.Int, reflect.Int64:
				f.SetInt(int64(i + 1))
			case reflect.Array:
				f.Index(i % f.Len()).SetUint(uint64(200 + i))
			case reflect.Struct:
				fill(t, f)
			case reflect.Pointer:
				f.Set(reflect.New(f.Type().Elem()))
				fill(t, f.Elem())
			default:
				t.Fatalf("the field %s has a kind that this test does not set", v.Type().Field(i).Name)
			}
		}
	}
}

func TestDeliveriesAreHandedWhole(t *testing.T) {
	t.Parallel()
	a, b, endpoint := two(t)
	var d schedule.Handed
	fill(t, reflect.ValueOf(&d).Elem())
	second, bare := d, schedule.Handed{Claimed: postrider.Claimed{Endpoint: endpoint, Event: &postrider.Event{Type: "bare"}}}
	second.ID[0]++
	token := a.reserved(t, endpoint)
	a.Hand(token, 1, []schedule.Handed{d, second}) // of one event
	testkit.Eventually(t, "the first two arrive", func() bool { return b.taken() == 2 })
	a.Hand(a.reserved(t, endpoint), 1, []schedule.Handed{bare}) // gob must not mix it with the first
	testkit.Eventually(t, "the third arrives", func() bool { return b.taken() == 3 })
	b.change(func() {
		if diff := cmp.Diff(b.took, []schedule.Handed{d, second, bare}); diff != "" {
			t.Errorf("what b took: %s", diff)
		}
		if b.took[0].Event != b.took[1].Event {
			t.Error("the event was sent twice")
		}
	})
}

// TestTheProtocolNamesItsForm fails when a field that is sent changes. Then the name of the protocol
// must change too, or nodes of two versions lose the field.
func TestTheProtocolNamesItsForm(t *testing.T) {
	t.Parallel()
	var fields []string
	for _, form := range []reflect.Type{
		reflect.TypeFor[postrider.Event](), reflect.TypeFor[postrider.About](), reflect.TypeFor[postrider.Claimed](),
		reflect.TypeFor[schedule.Handed](), reflect.TypeFor[schedule.Session](),
	} {
		for field := range form.Fields() {
			fields = append(fields, form.Name()+"."+field.Name+" "+field.Type.Kind().String())
		}
	}
	want := []string{
		"Event.ID array", "Event.Account array", "Event.Type string", "Event.Data slice", "Event.APIVersion string", "Event.OrderingKey string",
		"Event.Sequence int64", "Event.Hops int", "Event.TraceParent array", "Event.TraceState string", "Event.MaxAttempts int",
		"Event.CreatedAt struct", "Event.About struct", "Event.Endpoints slice", "Event.IdempotencyKey string",
		"Event.OccurredAt struct", "Event.Row array",
		"About.Subject string", "About.Channels slice", "About.Metadata map", "About.Internal map", "About.Previous slice",
		"About.ChangedPaths slice", "About.ContentType string",
		"Claimed.ID array", "Claimed.Endpoint array", "Claimed.Event ptr", "Claimed.Lane string", "Claimed.Attempt int", "Claimed.Step int",
		"Claimed.Losses int", "Claimed.Token int64", "Claimed.ExpiresAt struct", "Claimed.ReplayedFrom array", "Claimed.ReplayJob array",
		"Handed.Claimed struct", "Handed.Until struct", "Session.Token int64", "Session.Budget int",
	}
	if peers.Protocol != "postrider-handover-4" || !slices.Equal(fields, want) {
		t.Errorf("%s has the fields %q; name the protocol anew and change this test", peers.Protocol, fields)
	}
}

func TestABudgetIsSpentUntilTheOwnerAcknowledges(t *testing.T) {
	t.Parallel()
	a, b, endpoint := two(t)
	var token postrider.Token
	spend := func() (n int) {
		for {
			next := a.Reserve(endpoint)
			if next == 0 {
				return n
			}
			token, n = next, n+1
		}
	}
	if n := spend(); n != budget {
		t.Fatalf("%d deliveries can be leased, want %d", n, budget)
	}
	a.Hand(token, 3, nil) // three were not committed
	if n := spend(); n != 3 {
		t.Errorf("%d can be leased, want the three that were not committed", n)
	}
	var committed []schedule.Handed
	for i := range budget {
		d := schedule.Handed{Claimed: postrider.Claimed{Endpoint: endpoint, Event: &postrider.Event{}}}
		d.ID[0] = byte(i)
		committed = append(committed, d)
	}
	a.Hand(token, budget, committed)
	testkit.Eventually(t, "all arrive", func() bool { return b.taken() == budget })
	left := 0
	testkit.Eventually(t, "the budget is there again", func() bool {
		left += spend()
		return left == budget
	})
}

func TestAnEndpointIsSparedAfterARefusal(t *testing.T) {
	t.Parallel()
	a, b, endpoint := two(t)
	other := endpoint
	other[0] = 1
	b.change(func() { b.refuses = true })
	a.Hand(a.reserved(t, endpoint), 1, []schedule.Handed{{Claimed: postrider.Claimed{Endpoint: endpoint, Event: &postrider.Event{}}}})
	testkit.Eventually(t, "the refusal arrives", func() bool {
		token := a.Reserve(endpoint)
		a.Hand(token, 1, nil)
		return token == 0
	})
	if a.Reserve(other) == 0 {
		t.Error("another endpoint of the node is spared too")
	}
	a.reserved(t, endpoint) // later again
}

func TestASessionEndsWithItsConnection(t *testing.T) {
	t.Parallel()
	a, b, endpoint := two(t)
	old := a.reserved(t, endpoint)
	a.stop()
	testkit.Eventually(t, "the session is closed", func() bool {
		closed := false
		b.change(func() { closed = slices.Contains(b.closed, old) })
		return closed
	})
	if a.Reserve(endpoint) != 0 {
		t.Error("a node that has stopped can lease")
	}

	c := newNode(t, 3)
	b.Set([]store.Peer{c.peer()})
	c.Set([]store.Peer{b.peer(7)})
	next := c.reserved(t, endpoint)
	if next == old {
		t.Errorf("two sessions have the token %d", old)
	}
	c.Hand(old, 1, []schedule.Handed{{Claimed: postrider.Claimed{Endpoint: endpoint, Event: &postrider.Event{}}}})
	c.Hand(next, 1, []schedule.Handed{{Claimed: postrider.Claimed{Endpoint: endpoint, Token: next, Event: &postrider.Event{}}}})
	testkit.Eventually(t, "one arrives", func() bool { return b.taken() > 0 })
	if n := b.taken(); n != 1 || b.took[0].Token != next {
		t.Errorf("%d arrived, want that of the session alone", n)
	}
	b.stop()
	testkit.Eventually(t, "the owner is lost", func() bool { return c.Reserve(endpoint) == 0 })
}

func TestANodeThatIsNoLongerNamedGetsNothing(t *testing.T) {
	t.Parallel()
	a, _, endpoint := two(t)
	a.Set(nil)
	testkit.Eventually(t, "the owner is forgotten", func() bool { return a.Reserve(endpoint) == 0 })
}

func TestANodeWithoutSessionsGetsNothing(t *testing.T) {
	t.Parallel()
	a, b := newNode(t, 1), newNode(t, 2)
	b.change(func() { b.silent = true })
	b.Set([]store.Peer{a.peer()})
	conn, err := (&tls.Dialer{Config: a.Config(func([32]byte) bool { return true })}).DialContext(t.Context(), "tcp", b.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if n, err := conn.Read(make([]byte, 1)); err == nil {
		t.Errorf("it says %d bytes, want that it ends the connection", n)
	}
}

// TestOnlyNodesAreConnected connects nodes that do not know each other, or have another key.
func TestOnlyNodesAreConnected(t *testing.T) {
	t.Parallel()
	a, b := newNode(t, 1), newNode(t, 2)
	anyone := func([32]byte) bool { return true }
	dial := func(config *tls.Config) error {
		conn, err := (&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp", b.Address())
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = conn.Read(make([]byte, 1)) // the greeting, or the refusal, which comes after the handshake
		return err
	}
	if dial(a.Config(anyone)) == nil {
		t.Error("b accepts a node that the store has not named")
	}
	b.Set([]store.Peer{a.peer()})
	if err := dial(a.Config(anyone)); err != nil {
		t.Errorf("b refuses a node of the store: %v", err)
	}
	if dial(a.Config(func([32]byte) bool { return false })) == nil {
		t.Error("a accepts a node with another key")
	}
	anonymous, old := a.Config(anyone), a.Config(anyone)
	anonymous.Certificates, old.NextProtos = nil, []string{"postrider-handover-0"}
	if dial(anonymous) == nil {
		t.Error("b accepts somebody without a key")
	}
	if dial(old) == nil {
		t.Error("b accepts a node with another form of the messages")
	}
}

func TestAnAddressIsOneThatOthersReach(t *testing.T) {
	t.Parallel()
	local := netip.MustParseAddr("127.0.0.1")
	for listen, host := range map[string]string{
		":0": "127.0.0.1", "0.0.0.0:0": "127.0.0.1", "[::]:0": "127.0.0.1", "127.0.0.2:0": "127.0.0.2",
	} {
		p, err := peers.New(t.Context(), listen, local, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		p.Close()
		if at := netip.MustParseAddrPort(p.Address()); at.Addr().String() != host || at.Port() == 0 {
			t.Errorf("%s is reached at %s, want %s", listen, at, host)
		}
	}
	for _, wrong := range []string{"no port", "256.0.0.1:0"} {
		if _, err := peers.New(t.Context(), wrong, local, slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("it listens at %q", wrong)
		}
	}
}
