package api

import (
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/postrider/postrider"
)

// A burst of five and one every 12 s: at most ten in any minute.
const (
	manualSendBurst    = 5
	manualSendInterval = 12 * time.Second
)

// manualSendLimiter limits how often this node sends to an endpoint by a test
// or a verification. Without the limit, anyone who may create endpoints could
// make the node send requests to a third party without end. The limit applies
// to each node separately.
type manualSendLimiter struct {
	// mu guards limiters.
	mu sync.Mutex
	// limiters has the endpoints with sends in the last minute, and perhaps
	// older ones until a new endpoint is added.
	limiters map[postrider.EndpointID]*rate.Limiter
}

// newManualSendLimiter returns a limiter that has recorded no sends.
func newManualSendLimiter() *manualSendLimiter {
	return &manualSendLimiter{limiters: map[postrider.EndpointID]*rate.Limiter{}}
}

// allow records a send to the endpoint, or returns a 429 with the wait if the
// limit is reached. A refused send does not count, so a client that keeps asking is
// not refused for ever.
func (p *manualSendLimiter) allow(endpoint postrider.EndpointID) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	limiter, known := p.limiters[endpoint]
	if !known {
		// A full limiter behaves like a new one, so it can be removed.
		maps.DeleteFunc(p.limiters, func(_ postrider.EndpointID, l *rate.Limiter) bool { return l.Tokens() >= manualSendBurst })
		limiter = rate.NewLimiter(rate.Every(manualSendInterval), manualSendBurst)
		p.limiters[endpoint] = limiter
	}
	send := limiter.Reserve()
	if wait := send.Delay(); wait > 0 {
		send.Cancel()
		return &apiError{class: errTooOften, after: wait}
	}
	return nil
}
