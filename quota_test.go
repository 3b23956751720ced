package postrider_test

import (
	"testing"
	"time"

	"github.com/postrider/postrider"
)

func TestABacklogIsFullFromItsLimitUntilATenthIsFree(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name           string
		limit, waiting int64
		was, is        bool
	}{
		{"below the limit", 1000, 999, false, false},
		{"at the limit", 1000, 1000, false, true},
		{"empty", 1000, 0, false, false},
		{"full, and some are delivered", 1000, 901, true, true},
		{"full, and a tenth is free", 1000, 900, true, false},
		{"full, and the limit is raised", 2000, 1000, true, false},
		{"full, and the limit is lowered", 100, 100, true, true},
		{"a limit of one, empty", 1, 0, false, false},
		{"a limit of one, reached", 1, 1, false, true},
		{"a limit of one, and still one waits", 1, 1, true, true},
		{"a limit of one, and none waits", 1, 0, true, false},
		{"a limit below ten, and one is free", 9, 8, true, false},
		{"without a limit", 0, 0, false, false},
		{"full, and the limit is taken away", 0, 0, true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := postrider.EndpointBacklog{Limit: test.limit, Waiting: test.waiting}
			if test.was {
				b.Full = time.Unix(1, 0)
			}
			if is := b.IsFull(); is != test.is {
				t.Errorf("IsFull = %v, want %v", is, test.is)
			}
		})
	}
}

// FuzzEndpointBacklog lets backlogs grow and drain in steps. A backlog at its limit is full, one
// with a tenth free is not full, and in between it keeps its state.
func FuzzEndpointBacklog(f *testing.F) {
	f.Add(int64(1000), []byte{255, 255, 255, 255, 100, 0, 7})
	f.Add(int64(1), []byte{129, 127, 129})
	f.Fuzz(func(t *testing.T, limit int64, steps []byte) {
		if limit < 1 || limit > postrider.MaxQuotaBacklog {
			return
		}
		b := postrider.EndpointBacklog{Limit: limit}
		for _, step := range steps {
			b.Waiting = min(limit, max(0, b.Waiting+(int64(step)-128)*max(1, limit/200)))
			was, is := !b.Full.IsZero(), b.IsFull()
			switch {
			case b.Waiting == limit && !is, b.Waiting <= limit-max(1, limit/10) && is:
				t.Fatalf("%d of %d wait: full is %v", b.Waiting, limit, is)
			case b.Waiting < limit && b.Waiting > limit-max(1, limit/10) && is != was:
				t.Fatalf("%d of %d wait: full was %v and is %v", b.Waiting, limit, was, is)
			}
			if b.Full = (time.Time{}); is {
				b.Full = time.Unix(1, 0)
			}
		}
	})
}
