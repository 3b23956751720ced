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
	// leaseTime is how long a lease lasts. If a node dies, another node archives after this time.
	leaseTime = 8 * time.Second
	// leaseRenewed is the interval at which the owner renews the lease, and at which a waiting
	// node tries to take it.
	leaseRenewed = 2 * time.Second
)

var (
	errArchiving = errors.New("another server is archiving")
	errLeaseLost = errors.New("the lease of the archive was not renewed in time")
)

// lease is this node's right to write the archive. If a node stands still for longer than the
// lease, another node may take the lease, and then both work for a time. This does no harm:
//
//   - The store records only a part that is announced, and an announcement takes the place of another
//     node's. held is called before, so that a node that lost its lease does not disturb the other one.
//   - Objects have random names, so a late write replaces no object of another node.
//   - A late deletion deletes no object of a part: a node deletes only objects that the store will not
//     record any more. A node records an object of another node only in place of one that is gone;
//     see adoptTwin.
type lease struct {
	store interface {
		LeaseArchive(ctx context.Context, node uint64, d time.Duration) (bool, error)
	}
	node    uint64                     // random, chosen by newLease
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

// held returns nil if the lease has not ended since run took it, otherwise errLeaseLost.
func (l lease) held() error {
	if sent := l.renewed.Load(); sent == nil || time.Since(*sent) >= leaseTime {
		return errLeaseLost
	}
	return nil
}

// run takes the lease, runs do and renews the lease meanwhile. If another node has the lease, run
// returns errArchiving. If the lease is lost, the context of do ends.
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
