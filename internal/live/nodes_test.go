package live_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/live"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/store/postgres"
	"github.com/postrider/postrider/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// cluster has several nodes in one process. Each message of one node reaches the others at once.
type cluster struct {
	*testing.T
	hubs []*live.Hub
	stop []context.CancelFunc

	mu   sync.Mutex
	sent []string // messages of all nodes
}

// newCluster starts nodes, which run until the test ends.
func newCluster(t *testing.T, nodes int) *cluster {
	t.Helper()
	c := &cluster{T: t}
	for range nodes {
		c.hubs = append(c.hubs, live.New())
	}
	var running sync.WaitGroup
	for n, hub := range c.hubs {
		ctx, cancel := context.WithCancel(t.Context())
		c.stop = append(c.stop, cancel)
		running.Go(func() {
			if err := hub.Run(ctx, func(_ context.Context, message string) { c.send(n, message) }); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(func() {
		for _, stop := range c.stop {
			stop()
		}
		running.Wait()
	})
	return c
}

func (c *cluster) send(from int, message string) {
	c.mu.Lock()
	c.sent = append(c.sent, message)
	c.mu.Unlock()
	verb, arguments, _ := strings.Cut(message, " ")
	for n, hub := range c.hubs {
		if n != from {
			hub.Receive(fmt.Sprint(from), verb, arguments)
		}
	}
}

// messages returns how many messages with the verb were sent.
func (c *cluster) messages(verb string) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, message := range c.sent {
		if len(message) > 7000 { // PostgreSQL allows 8,000, with the sender's name
			c.Errorf("a message of %d bytes", len(message))
		}
		if verb == strings.Fields(message)[0] {
			n++
		}
	}
	return n
}

// of returns a change of an attempt's account.
func of(account byte) func(*observe.Settled) {
	return func(s *observe.Settled) { s.Delivery.Event.Account = id[postrider.AccountID](account) }
}

func TestAWatcherGetsTheAttemptsOfAllNodes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		here := c.hubs[0].Subscribe(t.Context(), observe.Watch{})
		time.Sleep(time.Second)
		var want []observe.Attempted
		for n, hub := range c.hubs {
			attempt := settled(byte(n), func(s *observe.Settled) {
				s.Attempt.StatusCode, s.Attempt.Outcome, s.Delivery.ReplayedFrom = 500, postrider.OutcomeTimedOut, postrider.DeliveryID{byte(n)}
				s.Attempt.Duration, s.Transition.To, s.Delivery.Attempt = 3*time.Second, postrider.Dead, 7
			})
			local := live.New()
			same := local.Subscribe(t.Context(), observe.Watch{})
			local.Hooks().Settled(attempt)
			items, _, err := same.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, items...)
			hub.Hooks().Settled(attempt)
			time.Sleep(time.Second)
		}
		got, lost, err := here.Next(t.Context())
		if diff := cmp.Diff(want, got); diff != "" || lost != 0 || err != nil {
			t.Errorf("lost %d, %v, items (-want +got):\n%s", lost, err, diff)
		}
	})
}

func TestWhileNobodyWatchesNodesSendNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		ctx, cancel := context.WithCancel(t.Context())
		busy := func() {
			for range 100 {
				c.hubs[1].Hooks().Settled(settled(1))
				time.Sleep(100 * time.Millisecond)
			}
		}
		if busy(); len(c.sent) != 0 {
			t.Errorf("%q is sent before somebody watches", c.sent)
		}
		c.hubs[0].Subscribe(ctx, observe.Watch{})
		busy()
		if watch, attempts := c.messages("watch"), c.messages("attempts"); watch < 2 || watch > 4 || attempts < 35 || attempts > 41 {
			t.Errorf("in ten seconds %d announcements and %d batches, want one each 4 s, and four a second", watch, attempts)
		}
		cancel()
		time.Sleep(time.Second)
		before := c.messages("attempts")
		if busy(); c.messages("attempts") != before || c.sent[len(c.sent)-1] != "watch" {
			t.Errorf("after the end %d batches, the last message is %q", c.messages("attempts")-before, c.sent[len(c.sent)-1])
		}
	})
}

func TestAnAttemptIsNotSentToAPeerThatComesLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		hub := c.hubs[0]
		hub.Receive("other", "watch", "*")
		hub.Hooks().Settled(settled(1))
		hub.Receive("other", "watch", "")
		time.Sleep(time.Minute)
		hub.Receive("other", "watch", "*")
		time.Sleep(time.Second)
		if n := c.messages("attempts"); n != 0 {
			t.Errorf("%d batches with an attempt that is a minute old", n)
		}
	})
}

func TestOnlyWatchedAccountsAreSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		one := c.hubs[0].Subscribe(t.Context(), observe.Watch{Account: id[postrider.AccountID](1)})
		time.Sleep(time.Second)
		c.hubs[1].Hooks().Settled(settled(2, of(2)))
		time.Sleep(time.Second)
		if n := c.messages("attempts"); n != 0 {
			t.Errorf("%d batches with attempts that nobody watches", n)
		}
		c.hubs[1].Hooks().Settled(settled(1, of(1)))
		if got, lost := next(t, one); !cmp.Equal(got, []byte{1}) || lost != 0 {
			t.Errorf("got %v, %d lost", got, lost)
		}
		for n := range 200 { // more accounts than a message names
			c.hubs[0].Subscribe(t.Context(), observe.Watch{Account: id[postrider.AccountID](byte(n + 1))})
		}
		time.Sleep(time.Second)
		c.hubs[1].Hooks().Settled(settled(3, of(250)))
		time.Sleep(time.Second)
		if n := c.messages("attempts"); n != 2 {
			t.Errorf("%d batches, want that all is sent where more is watched than can be named", n)
		}
	})
}

func TestWhatIsLeftOutIsCountedForItsAccount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		all := c.hubs[0].Subscribe(t.Context(), observe.Watch{})
		one := c.hubs[0].Subscribe(t.Context(), observe.Watch{Account: id[postrider.AccountID](1)})
		other := c.hubs[0].Subscribe(t.Context(), observe.Watch{Account: id[postrider.AccountID](2)})
		time.Sleep(time.Second)
		for range 300 {
			c.hubs[1].Hooks().Settled(settled(1, of(1)))
		}
		time.Sleep(time.Second)
		for name, s := range map[string]*live.Subscription{"all": all, "the account's": one} {
			if got, lost := next(t, s); len(got) != 25 || len(got)+lost != 300 {
				t.Errorf("%s: %d items and %d lost of 300", name, len(got), lost)
			}
		}
		c.hubs[1].Hooks().Settled(settled(2, of(2)))
		if got, lost := next(t, other); !cmp.Equal(got, []byte{2}) || lost != 0 {
			t.Errorf("another account's watcher gets %v, and is told of %d lost", got, lost)
		}
		for n := range 250 { // more accounts than maxLeftOut
			c.hubs[1].Hooks().Settled(settled(1, of(byte(n+1)), func(s *observe.Settled) { s.Delivery.Event.Type = strings.Repeat("x", 120) }))
		}
		time.Sleep(time.Second)
		if got, lost := next(t, all); len(got)+lost != 251 {
			t.Errorf("%d items and %d lost of 251", len(got), lost)
		}
		if got, lost := next(t, other); len(got)+lost < 1 || lost > 2 {
			t.Errorf("the watcher of an account that is not counted apart gets %v, and is told of %d lost", got, lost)
		}
		c.messages("attempts")
	})
}

func TestANodeThatDiesIsNotSentToForLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		c.hubs[0].Subscribe(t.Context(), observe.Watch{})
		time.Sleep(time.Second)
		c.stop[0]()
		time.Sleep(15 * time.Second)
		c.hubs[1].Hooks().Settled(settled(1))
		time.Sleep(time.Second)
		if n := c.messages("attempts"); n != 0 {
			t.Errorf("%d batches are sent to a node that is dead", n)
		}
	})
}

// TestTwoNodesOnPostgreSQLSeeEachOthersAttempts sends by the notifications of a real
// database.
func TestTwoNodesOnPostgreSQLSeeEachOthersAttempts(t *testing.T) {
	t.Parallel()
	dsn := testkit.Postgres(t, func(context.Context, string) error { return nil })
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	var hubs [2]*live.Hub
	for n := range hubs {
		database, err := postgres.Open(t.Context(), dsn, postgres.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { database.Close() })
		hub, name := live.New(), fmt.Sprintf("%08x", n+1)
		hubs[n] = hub
		holds := make(chan struct{})
		running.Go(func() {
			err := database.Hold(ctx, uint32(n+1), func(message string) {
				from, text, _ := strings.Cut(message, " ")
				verb, arguments, _ := strings.Cut(text, " ")
				switch from {
				case "":
					close(holds)
				case name:
				default:
					hub.Receive(from, verb, arguments)
				}
			})
			if ctx.Err() == nil {
				t.Errorf("hold: %v", err)
			}
		})
		<-holds
		running.Go(func() {
			err := hub.Run(ctx, func(ctx context.Context, message string) {
				if err := database.Wake(ctx, name+" "+message); err != nil && !errors.Is(err, context.Canceled) {
					t.Errorf("wake: %v", err)
				}
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	for n := range hubs {
		watcher, maker := hubs[n].Subscribe(ctx, observe.Watch{Status: postrider.Delivered}), hubs[1-n]
		deadline := time.After(testkit.Patience)
		// The maker learns only some time later that somebody watches.
		made := time.NewTicker(50 * time.Millisecond)
		got := make(chan []observe.Attempted, 1)
		running.Go(func() {
			items, _, err := watcher.Next(ctx)
			if err != nil {
				t.Error(err)
			}
			got <- items
		})
		for waiting := true; waiting; {
			select {
			case <-made.C:
				maker.Hooks().Settled(settled(9, func(s *observe.Settled) { s.Delivery.Event.Type = strings.Repeat("t", 128) }))
			case items := <-got:
				if waiting = false; len(items) == 0 || items[0].Delivery != id[postrider.DeliveryID](9) || len(items[0].EventType) != 128 {
					t.Errorf("node %d got %+v", n, items)
				}
			case <-deadline:
				t.Fatalf("node %d got nothing", n)
			}
		}
		made.Stop()
	}
}

// FuzzReceive receives messages that another node, or anybody who may notify, could send.
func FuzzReceive(f *testing.F) {
	f.Add("watch", "* acc_x")
	f.Add("attempts", "AQE")
	f.Add("attempts", "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
	f.Fuzz(func(t *testing.T, verb, arguments string) {
		hub := live.New()
		s := hub.Subscribe(t.Context(), observe.Watch{})
		hub.Receive("1", verb, arguments)
		hub.Hooks().Settled(settled(1))
		items, lost, err := s.Next(t.Context())
		if err != nil || len(items) == 0 || lost < 0 {
			t.Errorf("%d items, %d lost, %v", len(items), lost, err)
		}
	})
}
