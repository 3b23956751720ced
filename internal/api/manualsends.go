package api

import (
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/postrider/postrider"
)

// Five requests at once and one every 12 s: never more than ten in a minute.
const (
	manualSendBurst    = 5
	manualSendInterval = 12 * time.Second
)

// manualSendLimiter bounds how often this node sends to an endpoint on request, by
// a test or a verification. Without it, anyone who may create endpoints could have
// the node send to a stranger without end.
type manualSendLimiter struct {
	mu       sync.Mutex
	limiters map[postrider.EndpointID]*rate.Limiter
}

func newManualSendLimiter() *manualSendLimiter {
	return &manualSendLimiter{limiters: map[postrider.EndpointID]*rate.Limiter{}}
}

// allow returns an error if the endpoint was sent to by hand too often.
func (p *manualSendLimiter) allow(endpoint postrider.EndpointID) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	limiter, known := p.limiters[endpoint]
	if !known {
		// One that is full again is like a new one, so that the map has those of
		// the last minute only.
		maps.DeleteFunc(p.limiters, func(_ postrider.EndpointID, l *rate.Limiter) bool { return l.Tokens() >= manualSendBurst })
		limiter = rate.NewLimiter(rate.Every(manualSendInterval), manualSendBurst)
		p.limiters[endpoint] = limiter
	}
	turn := limiter.Reserve()
	if wait := turn.Delay(); wait > 0 {
		turn.Cancel()
		return &apiError{class: errTooOften, after: wait}
	}
	return nil
}
