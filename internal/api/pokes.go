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
	pokesAtOnce = 5
	pokePause   = 12 * time.Second
)

// pokes bounds how often this node sends to an endpoint because somebody asked
// for it, by a test or a verification: whoever may make endpoints could have it
// knock at a stranger's door without end.
type pokes struct {
	mu       sync.Mutex
	limiters map[postrider.EndpointID]*rate.Limiter
}

func newPokes() *pokes { return &pokes{limiters: map[postrider.EndpointID]*rate.Limiter{}} }

// take refuses what is too often.
func (p *pokes) take(endpoint postrider.EndpointID) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	limiter, known := p.limiters[endpoint]
	if !known {
		// One that is full again is like a new one, so that the map has those of
		// the last minute only.
		maps.DeleteFunc(p.limiters, func(_ postrider.EndpointID, l *rate.Limiter) bool { return l.Tokens() >= pokesAtOnce })
		limiter = rate.NewLimiter(rate.Every(pokePause), pokesAtOnce)
		p.limiters[endpoint] = limiter
	}
	turn := limiter.Reserve()
	if wait := turn.Delay(); wait > 0 {
		turn.Cancel()
		return &refusal{kind: errTooOften, after: wait}
	}
	return nil
}
