package archive

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestAPartRestsWhileItIsMade(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ worked, want time.Duration }{
		{workTime - 1, 0},
		{workTime, restFactor * workTime},
		{2 * time.Millisecond, restFactor * 2 * time.Millisecond},
		{time.Second, maxRest},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := pace{begun: time.Now()}
			time.Sleep(tt.worked)
			begun := time.Now()
			p.rest(t.Context())
			if got := time.Since(begun); got != tt.want {
				t.Errorf("a rest of %v after %v of work, want %v", got, tt.worked, tt.want)
			}
			if again := time.Now(); tt.want > 0 {
				if p.rest(t.Context()); !time.Now().Equal(again) {
					t.Errorf("a second rest without work after %v", tt.worked)
				}
			}
		})
	}
}
