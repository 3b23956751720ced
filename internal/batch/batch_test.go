package batch_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider/internal/batch"
)

func TestWhatIsAddedDuringTheWorkIsTheNextBatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := batch.NewQueue[int]()
		var batches [][]int
		var working sync.WaitGroup
		working.Go(func() {
			for open := true; open; {
				_, open = <-q.Ready()
				if some := q.Take(0); len(some) > 0 {
					batches = append(batches, some)
					time.Sleep(time.Second) // the time of the work
				}
			}
		})
		q.Add(1) // the goroutine waits, so this item starts at once
		synctest.Wait()
		for i := range 3 {
			q.Add(2+i, 12+i)
			time.Sleep(100 * time.Millisecond)
		}
		q.Close()
		working.Wait()
		if want := [][]int{{1}, {2, 12, 3, 13, 4, 14}}; !slices.EqualFunc(batches, want, slices.Equal) {
			t.Errorf("batches %v, want %v", batches, want)
		}
	})
}

func TestALimitLeavesTheNewestItems(t *testing.T) {
	t.Parallel()
	q := batch.NewQueue[int]()
	q.Add(1, 2, 3)
	first := q.Take(2)
	q.Add(4) // must not overwrite the items that were taken
	if second := q.Take(2); !slices.Equal(first, []int{1, 2}) || !slices.Equal(second, []int{3, 4}) || q.Len() != 0 {
		t.Errorf("took %v, then %v, and %d are left", first, second, q.Len())
	}
	if rest := q.Take(2); len(rest) > 0 {
		t.Errorf("took %v from an empty queue", rest)
	}
}

func TestAddCopiesTheItems(t *testing.T) {
	t.Parallel()
	q := batch.NewQueue[int]()
	reused := []int{1, 2}
	q.Add(reused...)
	reused[0] = 99
	if got := q.Take(0); !slices.Equal(got, []int{1, 2}) {
		t.Errorf("took %v, want what was added", got)
	}
}

func TestAClosedQueueRefusesItemsAndKeepsItsOwn(t *testing.T) {
	t.Parallel()
	q := batch.NewQueue[int]()
	if !q.Add() || !q.Add(1, 2) {
		t.Error("an open queue refuses items")
	}
	q.Close()
	if q.Add(3) || q.Add() {
		t.Error("a closed queue takes items")
	}
	var got []int
	q.Each(func(i int) { got = append(got, i) })
	if !slices.Equal(got, []int{1, 2}) {
		t.Errorf("Each saw %v, want what was added before Close", got)
	}
}

func TestNothingIsLostOrTakenTwice(t *testing.T) {
	t.Parallel()
	const adders, each = 8, 500
	q := batch.NewQueue[int]()
	var adding, taking sync.WaitGroup
	for a := range adders {
		adding.Go(func() {
			for i := range each {
				q.Add(a*each + i)
			}
		})
	}
	var got []int
	taking.Go(func() { q.Each(func(i int) { got = append(got, i) }) })
	adding.Wait()
	q.Close()
	taking.Wait()
	slices.Sort(got)
	if len(got) != adders*each || len(slices.Compact(got)) != adders*each {
		t.Errorf("got %d items, want each of %d once", len(got), adders*each)
	}
}

func TestASignalIsKeptUntilSomebodyReceives(t *testing.T) {
	t.Parallel()
	s := batch.NewSignal()
	s.Set()
	s.Set() // does not block, and counts as the same signal
	<-s
	select {
	case <-s:
		t.Error("two sets woke twice")
	default:
	}
}

func TestSleepEndsByTimeWakeOrContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		wake := batch.NewSignal()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		begun := time.Now()
		slept := func() time.Duration { d := time.Since(begun); begun = time.Now(); return d }
		if ok := batch.Sleep(t.Context(), time.Hour); !ok || slept() != time.Hour {
			t.Error("Sleep does not wait for its time")
		}
		if ok := batch.Sleep(ended, time.Hour); ok || slept() != 0 {
			t.Error("Sleep goes on after its context ended")
		}
		time.AfterFunc(time.Minute, wake.Set)
		if ok := batch.SleepOr(t.Context(), time.Hour, wake); !ok || slept() != time.Minute {
			t.Error("SleepOr misses its wake-up")
		}
	})
}

// Every publish and every attempt goes through a queue, so adding an item must cost no more than
// its share of the slice.
func BenchmarkQueue(b *testing.B) {
	q := batch.NewQueue[*int]()
	item := new(int)
	b.ReportAllocs()
	for b.Loop() {
		for range 16 {
			q.Add(item)
		}
		q.Take(0)
	}
}
