package live_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/live"
	"github.com/postrider/postrider/internal/observe"
)

// id returns the id with the number.
func id[I ~[16]byte](n byte) I { return I{15: n} }

// settled returns a settled attempt: the first attempt of delivery n, of account 1, which delivered
// it.
func settled(n byte, change ...func(*observe.Settled)) observe.Settled {
	s := observe.Settled{
		Delivery: postrider.Claimed{
			ID: id[postrider.DeliveryID](n), Endpoint: id[postrider.EndpointID](1), Attempt: 1,
			Event: &postrider.Event{ID: id[postrider.EventID](n), Account: id[postrider.AccountID](1), Type: "order.created"},
		},
		Attempt: postrider.Attempt{
			Outcome: postrider.OutcomeAccepted, StatusCode: 204, StartedAt: time.Unix(1e9, 0).UTC(), Duration: 12 * time.Millisecond,
		},
		Transition: postrider.Transition{To: postrider.Delivered},
	}
	for _, c := range change {
		c(&s)
	}
	return s
}

// next returns the deliveries of the next items, and how many were lost.
func next(t *testing.T, s *live.Subscription) (deliveries []byte, lost int) {
	t.Helper()
	items, lost, err := s.Next(t.Context())
	if err != nil {
		t.Fatalf("next items: %v", err)
	}
	for _, i := range items {
		deliveries = append(deliveries, i.Delivery[15])
	}
	return deliveries, lost
}

func TestAnItemHasWhatTheAttemptShowed(t *testing.T) {
	t.Parallel()
	hub := live.New()
	s := hub.Subscribe(t.Context(), observe.Watch{})
	hub.Hooks().Settled(settled(7, func(s *observe.Settled) {
		s.Delivery.Attempt, s.Delivery.ReplayedFrom = 3, id[postrider.DeliveryID](6)
		s.Attempt.Outcome, s.Attempt.StatusCode = postrider.OutcomeRejected, 500
		s.Transition = postrider.Transition{To: postrider.Dead, Reason: postrider.ReasonExhausted}
	}))
	got, lost, err := s.Next(t.Context())
	want := []observe.Attempted{{
		Delivery: id[postrider.DeliveryID](7), Event: id[postrider.EventID](7), Endpoint: id[postrider.EndpointID](1),
		Account: id[postrider.AccountID](1), EventType: "order.created", Attempt: 3, Outcome: postrider.OutcomeRejected,
		StatusCode: 500, Duration: 12 * time.Millisecond, Status: postrider.Dead, At: time.Unix(1e9, 0).UTC(),
		ReplayedFrom: id[postrider.DeliveryID](6),
	}}
	if diff := cmp.Diff(want, got); diff != "" || lost != 0 || err != nil {
		t.Errorf("lost %d, %v, items (-want +got):\n%s", lost, err, diff)
	}
}

func TestAStaleAttemptLeavesItsDeliveryPending(t *testing.T) {
	t.Parallel()
	hub := live.New()
	s := hub.Subscribe(t.Context(), observe.Watch{Status: postrider.Pending})
	hub.Hooks().Settled(settled(1, func(s *observe.Settled) { s.Stale = true }))
	if got, _ := next(t, s); !cmp.Equal(got, []byte{1}) {
		t.Errorf("pending: %v, want the stale attempt", got)
	}
}

func TestAFilterSelects(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		filter observe.Watch
		want   []byte // the selected ones of the attempts below
	}{
		{"everything", observe.Watch{}, []byte{1, 2, 3}},
		{"one account's", observe.Watch{Account: id[postrider.AccountID](2)}, []byte{2}},
		{"one endpoint's", observe.Watch{Endpoint: id[postrider.EndpointID](3)}, []byte{3}},
		{"one type", observe.Watch{EventType: "order.paid"}, []byte{2}},
		{"a group of types", observe.Watch{EventType: "order.*"}, []byte{1, 2}},
		{"what was delivered", observe.Watch{Status: postrider.Delivered}, []byte{1, 2}},
		{"what timed out", observe.Watch{Outcome: postrider.OutcomeTimedOut}, []byte{3}},
		{"all of it at once", observe.Watch{
			Account: id[postrider.AccountID](1), Endpoint: id[postrider.EndpointID](3), EventType: "invoice.*",
			Status: postrider.Pending, Outcome: postrider.OutcomeTimedOut,
		}, []byte{3}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			hub := live.New()
			s := hub.Subscribe(t.Context(), test.filter)
			hub.Hooks().Settled(settled(1))
			hub.Hooks().Settled(settled(2, func(s *observe.Settled) {
				s.Delivery.Event.Account, s.Delivery.Event.Type = id[postrider.AccountID](2), "order.paid"
			}))
			hub.Hooks().Settled(settled(3, func(s *observe.Settled) {
				s.Delivery.Endpoint, s.Delivery.Event.Type = id[postrider.EndpointID](3), "invoice.sent"
				s.Attempt.Outcome, s.Transition.To = postrider.OutcomeTimedOut, postrider.Pending
			}))
			if got, lost := next(t, s); !cmp.Equal(got, test.want) || lost != 0 {
				t.Errorf("got %v, want %v; lost %d", got, test.want, lost)
			}
		})
	}
}

func TestASlowSubscriberLosesItemsAndIsToldHowMany(t *testing.T) {
	t.Parallel()
	hub := live.New()
	slow := hub.Subscribe(t.Context(), observe.Watch{})
	for n := range 130 {
		hub.Hooks().Settled(settled(byte(n)))
	}
	if got, lost := next(t, slow); len(got) != 25 || got[0] != 105 || got[24] != 129 || lost != 105 {
		t.Errorf("items %v, %d lost, want the newest 25 and 105", got, lost)
	}
	hub.Hooks().Settled(settled(200))
	if got, lost := next(t, slow); !cmp.Equal(got, []byte{200}) || lost != 0 {
		t.Errorf("then %v and %d lost, want the new item and nothing lost", got, lost)
	}
}

func TestNextReturnsOnceASecondAtMost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hub, begun := live.New(), time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s := hub.Subscribe(ctx, observe.Watch{})
		hub.Hooks().Settled(settled(1))
		if next(t, s); time.Since(begun) != 0 {
			t.Errorf("the first item came after %v, want at once", time.Since(begun))
		}
		hub.Hooks().Settled(settled(2))
		time.AfterFunc(100*time.Millisecond, func() { hub.Hooks().Settled(settled(3)) })
		got, _ := next(t, s)
		if took := time.Since(begun); took != time.Second || !cmp.Equal(got, []byte{2, 3}) {
			t.Errorf("items %v after %v, want both after a second", got, took)
		}
	})
}

func TestASubscriptionEnds(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		end  func(hub *live.Hub, cancel, cancelNext context.CancelFunc)
		want error
	}{
		{"with its context", func(_ *live.Hub, cancel, _ context.CancelFunc) { cancel() }, live.ErrEnded},
		{"with the hub", func(hub *live.Hub, _, _ context.CancelFunc) { hub.End(); hub.End() }, live.ErrEnded},
		{"for one call with the call's context", func(_ *live.Hub, _, cancelNext context.CancelFunc) { cancelNext() }, context.Canceled},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				hub := live.New()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				call, cancelCall := context.WithCancel(t.Context())
				defer cancelCall()
				s := hub.Subscribe(ctx, observe.Watch{})
				time.AfterFunc(time.Minute, func() { test.end(hub, cancel, cancelCall) })
				if _, _, err := s.Next(call); !errors.Is(err, test.want) {
					t.Errorf("next ended with %v, want %v", err, test.want)
				}
			})
		})
	}
}

func TestAfterTheEndOfTheHubNothingIsSubscribed(t *testing.T) {
	t.Parallel()
	hub := live.New()
	hub.End()
	if _, _, err := hub.Subscribe(t.Context(), observe.Watch{}).Next(t.Context()); !errors.Is(err, live.ErrEnded) {
		t.Errorf("next ended with %v, want %v", err, live.ErrEnded)
	}
}

func TestWhileNobodyWatchesAnAttemptAllocatesNothing(t *testing.T) {
	hub, s := live.New(), settled(1)
	ctx, cancel := context.WithCancel(t.Context())
	subscription := hub.Subscribe(ctx, observe.Watch{})
	cancel()
	if _, _, err := subscription.Next(t.Context()); !errors.Is(err, live.ErrEnded) {
		t.Fatalf("next ended with %v", err)
	}
	if n := testing.AllocsPerRun(100, func() { hub.Hooks().Settled(s) }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

func TestAThousandSubscriptionsGetEveryItem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const subscriptions, publishers, items = 1000, 4, 20
		hub := live.New()
		ctx, cancel := context.WithCancel(t.Context())
		var wait sync.WaitGroup
		for n := range subscriptions {
			s := hub.Subscribe(ctx, observe.Watch{Account: id[postrider.AccountID](byte(1 + n%2))})
			wait.Go(func() {
				got := 0
				for got < publishers/2*items {
					deliveries, lost := next(t, s)
					got += len(deliveries) + lost
				}
				if got != publishers/2*items {
					t.Errorf("subscription %d got %d items, want %d", n, got, publishers/2*items)
				}
			})
		}
		for p := range publishers {
			wait.Go(func() {
				for n := range items {
					hub.Hooks().Settled(settled(byte(n), func(s *observe.Settled) {
						s.Delivery.Event.Account = id[postrider.AccountID](byte(1 + p%2))
					}))
				}
			})
		}
		wait.Wait()
		cancel()
	})
}

func BenchmarkSettled(b *testing.B) {
	for _, subscriptions := range []int{0, 1, 50, 1000} {
		b.Run(strconv.Itoa(subscriptions), func(b *testing.B) {
			hub, s := live.New(), settled(1)
			for range subscriptions {
				hub.Subscribe(b.Context(), observe.Watch{})
			}
			for b.Loop() {
				hub.Hooks().Settled(s)
			}
		})
	}
}
