package routing

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestFiltersHaveAShareOfTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var v evaluation
		takes := func(d time.Duration) {
			begun := time.Now()
			time.Sleep(d)
			v.add(begun)
		}
		takes(evaluationAtOnce)
		if wait := v.wait(); wait != 0 {
			t.Errorf("after what may be taken at once: wait %v", wait)
		}
		takes(time.Second) // what was taken before is paid back in the meantime
		if wait := v.wait(); wait != 4500*time.Millisecond {
			t.Errorf("after a second: wait %v, want 4.5 s", wait)
		}
		time.Sleep(3 * time.Second)
		if wait := v.wait(); wait != 1500*time.Millisecond {
			t.Errorf("3 s later: wait %v, want 1.5 s", wait)
		}
		v.late()
		if wait := v.wait(); wait != 2*time.Second {
			t.Errorf("with a late fan-out job: wait %v, want 2 s", wait)
		}
		time.Sleep(time.Minute)
		takes(evaluationAtOnce)
		if wait := v.wait(); wait != 0 {
			t.Errorf("after a minute without filters: wait %v", wait)
		}
	})
}

// A fan-out job that never stops takes the share of its account, and so owes nothing: its publishes go on.
func TestAFanOutJobRests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var v evaluation
		work := slice{&v, time.Now()}
		for i := range 1000 {
			worked := sliceTime + time.Duration(i)*10*time.Microsecond
			time.Sleep(worked)
			rest := time.Now()
			if work.rest(t.Context()); time.Since(rest) != 4*worked || v.wait() != 0 {
				t.Fatalf("a rest of %v after %v of work, and its publishes wait %v", time.Since(rest), worked, v.wait())
			}
		}
	})
}
