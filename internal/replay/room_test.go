package replay_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// fillable is a disk that is full while it is set.
type fillable struct{ atomic.Bool }

func (f *fillable) room() error {
	if f.Load() {
		return &postrider.FullError{RetryAfter: time.Second}
	}
	return nil
}

func TestAJobStopsWhileTheStoreHasNoRoom(t *testing.T) {
	bubble(t, func(w *world) {
		w.dead(1000, "")
		disk := &fillable{}
		w.room = disk.room
		id := w.job(50)
		defer w.node(w)()
		time.Sleep(2 * time.Second)
		disk.Store(true)
		time.Sleep(time.Second) // a chunk may be on its way
		synctest.Wait()
		stopped := w.read(id).Handled
		if stopped < 50 || stopped > 150 {
			t.Errorf("%d are replayed when the store has no room, want about 100", stopped)
		}
		second := w.job(50)
		time.Sleep(time.Hour)
		synctest.Wait()
		for job, want := range map[postrider.ReplayID]int{id: stopped, second: 0} {
			if got := w.read(job); got.Handled != want || got.Status != postrider.ReplayRunning {
				t.Errorf("after an hour without room a job is %s with %d, want running with %d", got.Status, got.Handled, want)
			}
		}
		// The second job would replay the same deliveries.
		w.ok(w.SetReplayJob(t.Context(), store.SetReplayJob{ID: second, Status: postrider.ReplayCancelled}))
		disk.Store(false)
		time.Sleep(4 * time.Second) // the runner looks for jobs each second
		synctest.Wait()
		if got := w.read(id).Handled; got < stopped+100 {
			t.Errorf("%d are replayed 4 s after there was room again, of which %d before", got, stopped)
		}
	})
}
