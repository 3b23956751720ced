package archive

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/postrider/postrider/internal/batch"
)

const (
	// leaseTime is how long the lease of a node lasts that dies: another one goes on after it.
	leaseTime = 8 * time.Second
	// leaseRenewed is the interval at which a node that works renews its lease, and at which
	// one that waits asks for it.
	leaseRenewed = 2 * time.Second
)

var (
	errArchiving = errors.New("another server is archiving")
	errLeaseLost = errors.New("the lease of the archive was not renewed in time")
)

// lease is this node's right to write the archive. A node that stands still for longer than the
// lease may go on while another one works. So what it has written counts only if it has had the
// lease all the time: held is asked before a part is recorded, and before a listed object is
// deleted. Objects have random names, so the other one is never disturbed.
type lease struct {
	store interface {
		LeaseArchive(ctx context.Context, node uint64, d time.Duration) (bool, error)
	}
	node    uint64                     // random
	renewed *atomic.Pointer[time.Time] // when the last successful renewal was sent; set by run
}

func newLease(s Store) lease {
	var node [8]byte
	rand.Read(node[:])
	return lease{store: s, node: binary.BigEndian.Uint64(node[:]) >> 1, renewed: new(atomic.Pointer[time.Time])}
}

// take takes or renews the lease.
func (l lease) take(ctx context.Context) (mine bool, err error) {
	sent := time.Now()
	if mine, err = l.store.LeaseArchive(ctx, l.node, leaseTime); mine && err == nil {
		l.renewed.Store(&sent)
	}
	return mine, err
}

// held returns an error unless the lease has lasted since run took it.
func (l lease) held() error {
	if sent := l.renewed.Load(); sent == nil || time.Since(*sent) >= leaseTime {
		return errLeaseLost
	}
	return nil
}

// run runs do with the lease, and renews it meanwhile. While another node has it, it is
// errArchiving. If the lease is lost, the context of do ends.
func (l lease) run(ctx context.Context, do func(context.Context) error) error {
	mine, err := l.take(ctx)
	switch {
	case err != nil:
		return err
	case !mine:
		return errArchiving
	}
	ctx, lost := context.WithCancelCause(ctx)
	done, stop := context.WithCancel(ctx)
	var renewing sync.WaitGroup
	renewing.Go(func() {
		for batch.Sleep(done, leaseRenewed) {
			if l.held() != nil {
				lost(errLeaseLost)
				return
			}
			if mine, err := l.take(done); !mine && err == nil {
				lost(errLeaseLost)
				return
			}
		}
	})
	err = do(ctx)
	stop()
	renewing.Wait()
	lost(nil)
	return err
}
