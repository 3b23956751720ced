package janitor_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/janitor"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// upkeep is a store with work to do. It notes when each chore was done, in
// seconds since it was made.
type upkeep struct {
	store.Store // nil: no other verb is called

	start time.Time

	mu      sync.Mutex
	expired []int // rows that each call of Expire finds; afterwards none
	lost    int   // attempts, as reported; each call of Expire that finds rows has one
	broken  int   // how many calls of CancelDeleted fail first
	calls   map[string][]float64
	ended   int                 // deliveries that observers heard of
	done    []observe.ChoreDone // rounds of "expire deliveries"
	works   []int               // its rows so far, while a round goes on
	keysAge time.Duration
	ages    map[store.Kind]time.Duration // of what DeleteOld was called for
}

func newUpkeep() *upkeep {
	return &upkeep{start: time.Now(), calls: map[string][]float64{}, ages: map[store.Kind]time.Duration{}}
}

func (u *upkeep) note(chore string) {
	u.calls[chore] = append(u.calls[chore], time.Since(u.start).Seconds())
}

// Sources finds none.
func (u *upkeep) Sources(context.Context) ([]postrider.Source, error) { return nil, nil }

func (u *upkeep) RollUp(context.Context, int) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.note("roll up")
	return 0, nil
}

func (u *upkeep) ForgetRollups(context.Context, int) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.note("forget rollups")
	return 0, nil
}

func (u *upkeep) Expire(_ context.Context, limit int) (n, lost int, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.note("expire")
	if len(u.expired) == 0 {
		return 0, 0, nil
	}
	n = min(u.expired[0], limit)
	u.expired = u.expired[1:]
	return n, 1, nil
}

func (u *upkeep) DeleteEndpoints(context.Context, int) (int, error) { return 0, nil }

func (u *upkeep) CancelDeleted(context.Context, int) (int, int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.note("cancel")
	if u.broken > 0 {
		u.broken--
		return 0, 0, errors.New("store is away")
	}
	return 0, 0, nil
}

func (u *upkeep) ForgetKeys(_ context.Context, age time.Duration, _ int) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.note("forget")
	u.keysAge = age
	return 0, nil
}

func (u *upkeep) Accounts(context.Context, store.AccountQuery) (store.Page[postrider.Account], error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.note("accounts")
	return store.Page[postrider.Account]{}, nil
}

func (u *upkeep) MakePartitions(context.Context) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.note("partitions")
	return nil
}

func (u *upkeep) HealthInputs(context.Context, postrider.EndpointID, int) ([]postrider.HealthInput, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.note("assess")
	return nil, nil
}

func (u *upkeep) DeleteOld(_ context.Context, f store.DeleteOld) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.note("forget " + string(f.Kind))
	u.ages[f.Kind] = time.Since(f.Before)
	return 0, nil
}

func (u *upkeep) ForgetRestored(context.Context, time.Time, int) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.note("forget restored records")
	return 0, nil
}

func (u *upkeep) ForgetRows(_ context.Context, before time.Time, _ int) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.note("forget outbox rows")
	u.ages["outbox rows"] = time.Since(before)
	return 0, nil
}

func (u *upkeep) ForgetOrderingKeys(context.Context, store.OrderingKey, int) (store.OrderingKey, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.note("ordering keys")
	return store.OrderingKey{}, nil
}

func (u *upkeep) Shrink(context.Context, int) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.note("shrink")
	return 0, nil
}

func (u *upkeep) DeadLetters(_ context.Context, q store.DeadLetterQuery) (page store.Page[postrider.DeadLetter], err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if q.Limit > 1 { // not the chore that looks for those that expire soon
		u.note("discard")
		u.ages["unresolved"] = time.Since(q.To)
	}
	return page, nil
}

func (u *upkeep) CheckTables(context.Context) error { return nil }

func (u *upkeep) ProbeWrite(context.Context, int) error { return nil }

func (u *upkeep) PutHealth(context.Context, postrider.EndpointHealth, ...postrider.Notice) error {
	return nil
}

func (u *upkeep) Circuits(context.Context, store.CircuitQuery) ([]postrider.Circuit, error) {
	return nil, nil
}

func (u *upkeep) Endpoints(context.Context, store.EndpointQuery) (page store.Page[postrider.Endpoint], err error) {
	return page, nil
}

func (u *upkeep) Now(context.Context) (time.Time, error) { return time.Now(), nil }

func (u *upkeep) Clock() *store.Clock { return store.NewClock(nil) }

// work runs a janitor for d of virtual time.
func work(t *testing.T, u *upkeep, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	hooks := observe.Hooks{
		AttemptsLost: func(n int) { u.lost += n },
		Ended: func(e observe.Ended) {
			if e.Status == postrider.Dead && e.Reason == postrider.ReasonExpired {
				u.ended += e.N
			}
		},
		ChoreDone: func(c observe.ChoreDone) {
			if c.Name == "expire deliveries" {
				u.done = append(u.done, c)
			}
		},
		ChoreWorks: func(c observe.ChoreDone) {
			if c.Name == "expire deliveries" {
				u.works = append(u.works, c.Rows)
			}
		},
	}
	if err := janitor.New(of(u), janitor.Options{Hooks: hooks}).Run(ctx); err != nil {
		t.Errorf("Run = %v, want nil", err)
	}
}

func TestEveryChoreIsDoneAtOnceAndEachMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := newUpkeep()
		work(t, u, 150*time.Second)

		each := []float64{0, 60, 120} // of the endpoints that are assessed, another chore counts the dead letters
		want := map[string][]float64{
			"expire": each, "cancel": each, "forget": each, "partitions": each, "assess": {0, 0, 60, 60, 120, 120},
			"roll up": each, "forget rollups": each,
		}
		maps.DeleteFunc(u.calls, func(chore string, _ []float64) bool { return want[chore] == nil })
		if diff := cmp.Diff(want, u.calls); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		if u.keysAge != 7*24*time.Hour {
			t.Errorf("keys are remembered for %v, want 7 days", u.keysAge)
		}
	})
}

func TestRetentionIsDoneEveryHour(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := newUpkeep()
		work(t, u, 150*time.Minute)

		for _, chore := range []string{
			"forget events", "forget attempts", "forget bodies", "forget dead letters", "forget replay jobs", "forget endpoint health",
			"forget subscriptions", "forget audit entries", "forget notices", "forget sessions", "discard", "shrink",
			"forget outbox rows",
		} {
			if want := []float64{0, 3600, 7200}; !slices.Equal(u.calls[chore], want) {
				t.Errorf("%s: called at %v s, want %v", chore, u.calls[chore], want)
			}
		}
		if want := []float64{0}; !slices.Equal(u.calls["ordering keys"], want) {
			t.Errorf("ordering keys: called at %v s, want %v", u.calls["ordering keys"], want)
		}
		if want := []float64{0, 0.01, 0.02, 0.03}; !slices.Equal(u.calls["accounts"], want) { // a kind in each chunk
			t.Errorf("accounts: called at %v s, want %v", u.calls["accounts"], want)
		}
		const day = 24 * time.Hour
		want := map[store.Kind]time.Duration{
			store.OldEvents: 30 * day, store.OldAttempts: 90 * day, store.OldBodies: 30 * day, store.OldDeadLetters: 90 * day,
			store.OldReplayJobs: 90 * day, store.OldHealth: 400 * day, store.OldAudit: 400 * day, store.OldNotices: 90 * day,
			store.OldSubscriptions: 30 * day, store.OldSessions: 30 * day, store.OldWhatIfs: time.Hour,
			"unresolved": 180 * day, "outbox rows": 30 * day,
		}
		if diff := cmp.Diff(want, u.ages); diff != "" {
			t.Errorf("ages (-want +got):\n%s", diff)
		}
	})
}

func TestAChunkThatIsFullIsFollowedByTheNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := newUpkeep()
		u.expired = []int{500, 500, 499}
		work(t, u, 30*time.Second)

		if u.lost != 3 {
			t.Errorf("%d lost attempts were reported, want 3", u.lost)
		}
		if u.ended != 1499 || len(u.done) != 1 || u.done[0].Rows != 1499 {
			t.Errorf("observers heard of %d expired deliveries and of %+v, want 1499 in one round", u.ended, u.done)
		}
		if want := []int{500, 1000}; !slices.Equal(u.works, want) {
			t.Errorf("observers heard of %v rows during the round, want %v", u.works, want)
		}
		if want := []float64{0, 0.01, 0.02}; !slices.Equal(u.calls["expire"], want) {
			t.Errorf("Expire was called at %v s, want %v", u.calls["expire"], want)
		}
	})
}

func TestADeletedEndpointsDeliveriesAreCancelledAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := newUpkeep()
		j := janitor.New(of(u), janitor.Options{})
		ctx, cancel := context.WithTimeout(t.Context(), 70*time.Second)
		defer cancel()
		var running sync.WaitGroup
		running.Go(func() {
			if err := j.Run(ctx); err != nil {
				t.Errorf("Run = %v, want nil", err)
			}
		})
		time.Sleep(5 * time.Second)
		for range 3 {
			j.CancelDeleted()
		}
		running.Wait()
		for range 3 {
			j.CancelDeleted() // nobody listens any more, and it does not block
		}

		// What was under a lease at 5 s is free soon.
		if got, want := slices.Compact(u.calls["cancel"]), []float64{0, 5, 6, 8, 12, 20, 36, 68}; !slices.Equal(got, want) {
			t.Errorf("CancelDeleted was called at %v s, want %v", got, want)
		}
		if want := []float64{0, 60}; !slices.Equal(u.calls["expire"], want) {
			t.Errorf("Expire was called at %v s, want %v", u.calls["expire"], want)
		}
	})
}

func TestAFailureIsRetriedWithGrowingWaitsAndHoldsNothingUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := newUpkeep()
		u.broken = 3
		work(t, u, 70*time.Second)

		if want := []float64{0, 1, 3, 7, 67}; !slices.Equal(u.calls["cancel"], want) {
			t.Errorf("CancelDeleted was called at %v s, want %v", u.calls["cancel"], want)
		}
		if want := []float64{0, 60}; !slices.Equal(u.calls["expire"], want) {
			t.Errorf("Expire was called at %v s, want %v", u.calls["expire"], want)
		}
	})
}
