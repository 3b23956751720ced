package health

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// troubled is a store whose writes fail as the test says.
type troubled struct {
	mu     sync.Mutex
	err    error
	hang   chan struct{} // closed: a write goes on
	full   bool          // a probe that needs room fails
	probes int
}

func (s *troubled) write() error {
	s.mu.Lock()
	err, hang := s.err, s.hang
	s.mu.Unlock()
	if hang != nil {
		<-hang
	}
	return err
}

func (s *troubled) set(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// publish writes to the store as a server does.
func (s *troubled) publish(w *Writes) {
	w.Begin()
	w.End(s.write())
}

func (s *troubled) ProbeWrite(_ context.Context, space int) error {
	s.mu.Lock()
	s.probes++
	full := s.full && space > 0
	s.mu.Unlock()
	if full {
		return store.ErrFull
	}
	return s.write()
}

// watched runs a test with writes over a troubled store, in virtual time.
func watched(t *testing.T, test func(t *testing.T, s *troubled, w *Writes, check func() error)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &troubled{}
		w := NewWrites(s.ProbeWrite)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = w.Run(ctx) })
		test(t, s, w, func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return w.Check(ctx)
		})
		cancel()
		running.Wait()
	})
}

func TestAServerIsNotReadyWhileItsWritesFail(t *testing.T) {
	t.Parallel()
	watched(t, func(t *testing.T, s *troubled, w *Writes, check func() error) {
		publish := func() { s.publish(w) }
		publish()
		if err := check(); err != nil || s.probes != 0 {
			t.Errorf("after a write: %v, %d probes; want none of both", err, s.probes)
		}
		s.set(fmt.Errorf("%w: read-only", postrider.ErrBusy))
		publish()
		if err := check(); err == nil || !strings.Contains(err.Error(), "read-only") {
			t.Errorf("after a write that failed: %v, want its reason", err)
		}
		time.Sleep(10 * time.Second) // nobody publishes any more
		if err := check(); err == nil || s.probes != 1 {
			t.Errorf("10 s later: %v after %d probes, want the reason of one probe", err, s.probes)
		}
		for range 100 {
			_ = check()
		}
		if s.probes != 1 {
			t.Errorf("%d probes for 100 questions at once, want 1", s.probes)
		}
		s.set(nil)
		time.Sleep(time.Second)
		if err := check(); err != nil {
			t.Errorf("once writes succeed: %v", err)
		}
		s.set(store.ErrMoved)
		publish()
		if err := check(); err != nil {
			t.Errorf("a publish that the store refused: %v, want no reason", err)
		}
	})
}

// TestAFullDiskHasOneVerdictUntilThereIsRoom checks that the server stays not ready on a full disk,
// although some settlements, publishes and small probes still find room in existing pages.
func TestAFullDiskHasOneVerdictUntilThereIsRoom(t *testing.T) {
	t.Parallel()
	watched(t, func(t *testing.T, s *troubled, w *Writes, check func() error) {
		publish := func(err error) {
			s.set(err)
			s.publish(w)
			s.set(nil)
		}
		s.full = true
		publish(fmt.Errorf("%w: no space left on device", store.ErrFull))
		for second := range 60 {
			if second%7 == 3 { // one publish fits
				publish(nil)
			}
			if second%13 == 5 {
				publish(fmt.Errorf("%w: no space left on device", store.ErrFull))
			}
			if err := check(); err == nil {
				t.Fatalf("after %d s of a full disk the server is ready", second)
			}
			time.Sleep(time.Second)
		}
		s.mu.Lock()
		s.full = false
		s.mu.Unlock()
		time.Sleep(writeFailed)
		if err := check(); err != nil {
			t.Errorf("once there is room: %v", err)
		}
		publish(nil)
		probes := s.probes
		if err := check(); err != nil || s.probes != probes {
			t.Errorf("afterwards a write proves it again: %v, %d probes", err, s.probes-probes)
		}
	})
}

func TestAnIdleServerLearnsThatItCannotWrite(t *testing.T) {
	t.Parallel()
	watched(t, func(t *testing.T, s *troubled, _ *Writes, check func() error) {
		if err := check(); err != nil {
			t.Errorf("at first: %v", err)
		}
		s.set(errors.New("no space left on device"))
		time.Sleep(2 * time.Second)
		if err := check(); err == nil || !strings.Contains(err.Error(), "no space left") {
			t.Errorf("2 s after writes began to fail: %v", err)
		}
	})
}

func TestAServerIsNotReadyWhileItsWritesHang(t *testing.T) {
	t.Parallel()
	watched(t, func(t *testing.T, s *troubled, w *Writes, check func() error) {
		s.hang = make(chan struct{})
		var publishing sync.WaitGroup
		publishing.Go(func() { s.publish(w) })
		time.Sleep(4 * time.Second)
		if err := check(); err == nil || !strings.Contains(err.Error(), "no write has ended for 4s") {
			t.Errorf("while a publish hangs: %v", err)
		}
		close(s.hang)
		publishing.Wait()
		if err := check(); err != nil {
			t.Errorf("once it has ended: %v", err)
		}
	})
}

func TestAProbeThatHangsIsAReason(t *testing.T) {
	t.Parallel()
	watched(t, func(t *testing.T, s *troubled, _ *Writes, check func() error) {
		s.hang = make(chan struct{})
		if err := check(); err == nil || !strings.Contains(err.Error(), "within a second") {
			t.Errorf("while a probe hangs: %v", err)
		}
		close(s.hang)
		synctest.Wait()
		if err := check(); err != nil {
			t.Errorf("once it has ended: %v", err)
		}
	})
}
