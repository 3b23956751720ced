package receiver_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider/receiver"
)

func TestMemoryForgetsByAge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := receiver.NewMemory(receiver.MemoryOptions{MaxAge: time.Hour})
		must(t, s.Record(t.Context(), claim(t, s, "evt_1", long)))
		time.Sleep(time.Hour)
		wantClaimError(t, s, "evt_1", receiver.ErrProcessed)
		time.Sleep(time.Nanosecond)
		claim(t, s, "evt_1", long)
	})
}

func TestMemoryForgetsTheOldest(t *testing.T) {
	t.Parallel()
	s := receiver.NewMemory(receiver.MemoryOptions{MaxEvents: 100})
	claim(t, s, "being processed", long)
	for i := range 101 {
		must(t, s.Record(t.Context(), claim(t, s, fmt.Sprint("evt_", i), long)))
	}
	claim(t, s, "evt_0", long)
	wantClaimError(t, s, "evt_1", receiver.ErrProcessed)
	wantClaimError(t, s, "being processed", receiver.ErrProcessing)
}

func TestMemoryLeaseEndsToTheInstant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := receiver.NewMemory(receiver.MemoryOptions{})
		claim(t, s, "evt_1", time.Minute)
		time.Sleep(time.Minute - time.Nanosecond)
		wantClaimError(t, s, "evt_1", receiver.ErrProcessing)
		time.Sleep(time.Nanosecond)
		claim(t, s, "evt_1", time.Minute)
	})
}
