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
		takes(time.Second) // of which a fifth is free
		if wait := v.wait(); wait != 4*time.Second {
			t.Errorf("after 0.8 s more: wait %v, want 4 s", wait)
		}
		time.Sleep(3 * time.Second)
		if wait := v.wait(); wait != time.Second {
			t.Errorf("3 s later: wait %v, want 1 s", wait)
		}
		time.Sleep(time.Minute)
		takes(evaluationAtOnce)
		if wait := v.wait(); wait != 0 {
			t.Errorf("after a minute without filters: wait %v", wait)
		}
	})
}
