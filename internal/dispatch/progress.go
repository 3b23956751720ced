package dispatch

import (
	"fmt"
	"sync"
	"time"
)

// progress remembers when due work last moved, for /readyz. A node should get no publishes if its
// due work does not move, whether because its database is away or because of a bug. Work moves when
// an attempt starts or gets a response, when a settlement is committed, and when nothing is due
// ([schedule.Actions].Progress).
type progress struct {
	mu     sync.Mutex
	madeAt time.Time // when work last moved; set by the loop
	err    error     // the last error since then, which may be the cause; set by any goroutine
}

func (p *progress) made(now time.Time) {
	p.mu.Lock()
	p.madeAt, p.err = now, nil
	p.mu.Unlock()
}

func (p *progress) failed(err error) {
	p.mu.Lock()
	p.err = err
	p.mu.Unlock()
}

func (p *progress) check(now time.Time) error {
	const limit = 45 * time.Second // longer than any attempt
	p.mu.Lock()
	defer p.mu.Unlock()
	switch since := now.Sub(p.madeAt); {
	case since < limit:
		return nil
	case p.err != nil:
		return fmt.Errorf("due deliveries have not moved for %v: %w", since.Round(time.Second), p.err)
	default:
		return fmt.Errorf("due deliveries have not moved for %v", since.Round(time.Second))
	}
}
