package health

import (
	"fmt"
	"sync"
	"time"

	"github.com/postrider/postrider"
)

// Postponed remembers the attempts that were postponed lately, because this server lacks something.
// /readyz shows them.
type Postponed struct {
	mu    sync.Mutex
	at    time.Time         // of the last postponed attempt
	why   postrider.Failure // reason of the last postponed attempt
	since time.Time         // of the first one of the present series
	n     int               // number in the present series
}

// postponedShown is the time for which a postponed attempt is shown. It is twice the longest wait
// of an endpoint, so that the report lasts as long as the fault.
const postponedShown = 2 * postrider.PostponedAtMost

// Add notes a postponed attempt.
func (p *Postponed) Add(why postrider.Failure) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.at) > postponedShown {
		p.since, p.n = now, 0
	}
	p.at, p.why = now, why
	p.n++
}

// Note returns the text about postponed attempts in /readyz; empty: no attempt was postponed
// lately.
func (p *Postponed) Note() string {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.n == 0 || now.Sub(p.at) > postponedShown {
		return ""
	}
	return fmt.Sprintf("%d attempts were not made since %s, because this server lacks something: %s",
		p.n, p.since.UTC().Format(time.RFC3339), p.why)
}
